/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheduler: what goes next, in which company, over which rail. It decides and holds nothing: the network engine asks it
 * with what it knows about a peer's window and rails, so the same code runs in a simulator and in a unit test.
 *
 * A strategy fills in some of five decisions; what it leaves out the strategies before it in the setting, and at last
 * fifo, decide. To add one: a file that defines it, and a line in sched.c.
 */
#ifndef SN_SCHED_H
#define SN_SCHED_H

#include "base/base.h"

#define SN_SCHED_RAILS 8

/* ---- the model of a rail: how long `bytes` take, learned from transfers ---- */

#define SN_MODEL_CLASSES 4 /* sizes up to 4 KiB, 16 KiB, 64 KiB, and above */

struct sn_model_class {
	uint64_t rate;	    /* bytes a second; 0: not measured */
	uint64_t best;	    /* that it was, of late */
	uint64_t last;	    /* sample, as it came */
	uint64_t bytes, ns; /* arrivals that were too few for a sample yet, ... */
	uint64_t at;	    /* ... the last of them */
};

struct sn_model {
	uint64_t latency; /* ns from asking to the first arrival, with nothing under way; 0: not measured */
	struct sn_model_class of[SN_MODEL_CLASSES];
	uint64_t samples;
	uint64_t used_at; /* something came; 0: never */
	/* the run of arrivals being measured: bytes that came after run_from, until run_at */
	uint64_t run_from, run_at, run_bytes;
	bool running;
};

void sn_model_latency(struct sn_model *m, uint64_t ns);
/* `bytes` went through in `ns`, back to back, as part of a transfer of `size`. */
void sn_model_rate(struct sn_model *m, uint64_t size, uint64_t bytes, uint64_t ns);
/* `bytes` took `ns` from asking to the last of them, on a rail not used for a while: it is at least as fast as that shows. */
void sn_model_least(struct sn_model *m, uint64_t size, uint64_t bytes, uint64_t ns);
/* Bytes of a transfer of `size` came at `now`: a run of them makes a sample. */
void sn_model_arrived(struct sn_model *m, uint64_t size, uint64_t bytes, uint64_t now);
/* Nothing more is under way: the run ends, and counts, with the next ones if it was short. */
void sn_model_idle(struct sn_model *m, uint64_t size, uint64_t now);
/* Bytes a second for a transfer of this size; what the run that goes on shows, if that is clearly less. */
uint64_t sn_model_rate_of(const struct sn_model *m, uint64_t size, uint64_t now);

/* ---- what a strategy is told ---- */

struct sn_window {	 /* of one peer */
	uint32_t count;	 /* requests that wait, the new one included */
	uint64_t bytes;	 /* that they take in a frame, as far as they fit one */
	uint32_t frame;	 /* bytes that a frame holds */
	uint32_t flight; /* frames under way, not acknowledged */
	bool waits;	 /* the application posts nothing: it looks what has come */
	bool tail;	 /* a frame that was not full, and left because of that, is under way */
	bool bursts;	 /* lately much came behind a first message */
	uint64_t since;	 /* ns since something left last */
	uint64_t call;	 /* ns that a train takes to leave */
};

struct sn_sched_rail {
	bool usable; /* up, and it leads to the peer */
	bool room;   /* it may take more now */
	/* ns until a short transfer is through (a fetch: asking included), what is queued before not counted */
	uint64_t latency;
	uint64_t rate;	 /* bytes a second; 0: not known yet */
	uint64_t queued; /* bytes given to it and not through yet */
	uint64_t given;	 /* bytes of this message given to it so far */
};

struct sn_strategy {
	const char *name, *help;
	/* A request has come: does a frame leave now, or do requests gather while the rails work? With nothing under way and
	 * nothing gathered it leaves, and nobody asks. */
	bool (*ready)(const struct sn_window *w);
	/* A frame holds `inside` requests: may the next one join them? */
	bool (*join)(const struct sn_window *w, uint32_t inside);
	/* Full frames, the last of `flight`, stand ready: do they leave, or wait for more to leave with? */
	bool (*depart)(const struct sn_window *w, uint32_t frames);
	/* The rail for a frame of short messages: an index, or -1 to wait. */
	int (*small)(const struct sn_sched_rail *rails, unsigned count, uint32_t bytes);
	/*
	 * The rail for the next `block` bytes of a long message of which `left` are not given out: an index, or -1 to
	 * wait.
	 */
	int (*block)(const struct sn_sched_rail *rails, unsigned count, uint64_t left, uint64_t block);
};

#define SN_SCHED_GATHER 4  /* frames under way beyond which requests gather */
#define SN_SCHED_TRAIN	32 /* full frames that leave together, at most */
#define SN_SCHED_PART	4  /* times as long as a call takes that a train is filled, at most */

extern const struct sn_strategy sn_strategy_fifo, sn_strategy_aggregate, sn_strategy_split, sn_strategy_equal;

/* The strategies of a list like "aggregate,split" laid over each other. False: there is none of that name (*bad). */
bool sn_sched_choose(const char *list, struct sn_strategy *out, char *bad, size_t bad_size);
/* The strategies there are, one by one; NULL after the last. */
const struct sn_strategy *sn_sched_known(unsigned i);

/* ns until `bytes` given to the rail now are through. */
static inline uint64_t sn_sched_time(const struct sn_sched_rail *r, uint64_t bytes)
{
	uint64_t rate = r->rate ? r->rate : 1000000000u;

	return r->latency + (uint64_t)((double)(r->queued + bytes) * 1e9 / (double)rate);
}

#endif
