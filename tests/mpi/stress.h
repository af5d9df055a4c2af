/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the stress program share. Every rank derives the same plan of a round from the same seed, so each
 * knows what must arrive without being told; what a message carries follows from its key and the offset in it.
 */
#ifndef STRESS_H
#define STRESS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define GUARD 0xa5 /* every byte of a buffer that no message may touch */
#define COMMS 4

/* ---- util.c: random numbers, patterns, the watchdog ---- */

struct rng {
	uint64_t s;
};
uint64_t rnd(struct rng *r);
uint64_t below(struct rng *r, uint64_t n); /* 0 to n - 1; 0 for n = 0 */
bool chance(struct rng *r, unsigned percent);
size_t rnd_len(struct rng *r, size_t max); /* 0 to max, its logarithm uniform, often beside a power of two */
void shuffle(struct rng *r, int *v, int n);
uint64_t mix(uint64_t a, uint64_t b);

void pattern_fill(void *dst, uint64_t key, size_t offset, size_t len);
void pattern_check(const void *buf, uint64_t key, size_t offset, size_t len, const char *what);
void guard_check(const void *buf, size_t len, const char *what);

/* Print the sentence and where this rank is, and end the whole job. */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#define must(cond, ...)                                                                                      \
	do {                                                                                                 \
		if (!(cond))                                                                                 \
			die(__VA_ARGS__);                                                                    \
	} while (0)
void *need(size_t n); /* malloc or die */

struct state { /* what the watchdog prints of a stuck rank */
	int rank, size, round;
	uint64_t seed;
	const char *volatile doing;
	volatile int sends, sends_posted, sends_done, recvs, recvs_posted, recvs_done, probing;
	double messages, bytes; /* received and checked so far */
};
extern struct state st;
/* -t SECONDS: until when to go on; -s SEED. Ends the program if there is another option. */
void time_and_seed(int argc, char **argv, time_t *end, uint64_t *seed);
void watch_start(unsigned seconds);
void watch_feed(void); /* a round has begun */

/* ---- layout.c: where the bytes of a message lie in a buffer ---- */

struct seg {
	size_t off, len;
};
struct layout {
	size_t len;  /* bytes of data */
	size_t span; /* bytes of buffer */
	int segs;
	struct seg *seg; /* in the order of the type map, not of addresses */
	MPI_Datatype type;
	int items;
	bool derived; /* type is ours to free */
};
void layout_make(struct rng *r, size_t len, struct layout *l);
void layout_free(struct layout *l);
void layout_fill(const struct layout *l, void *buf, uint64_t key); /* gaps get the guard */
/* The first `got` bytes are the message's, every other byte is untouched. Wipes the buffer. */
void layout_check(const struct layout *l, void *buf, uint64_t key, size_t got, const char *what);

/* ---- storm.c and steps.c: what a round consists of ---- */

struct world {
	MPI_Comm comm[COMMS]; /* the world, a copy, all in reverse order, halves */
	MPI_Comm coll;	      /* for the collectives that run beside a storm */
	int size, rank;
};
int comm_rank_of(const struct world *w, int comm, int world_rank); /* rank there of a rank of the world */
int comm_world_of(const struct world *w, int comm, int comm_rank);
bool comm_joins(int comm, int a, int b); /* are both in one communicator of this number? */

struct limits {
	size_t max_len, round_bytes;
	int max_msgs; /* each rank sends, in one storm */
};
void storm(const struct world *w, const struct limits *lim, uint64_t seed);

void step_ring(const struct world *w, const struct limits *lim, struct rng *r);
void step_sendrecv(const struct world *w, const struct limits *lim, struct rng *r);
void step_blocking(const struct world *w, const struct limits *lim, struct rng *r);
void step_truncate(const struct world *w, const struct limits *lim, struct rng *r);
void step_cancel(const struct world *w, const struct limits *lim, struct rng *r);
void step_collectives(const struct world *w, const struct limits *lim, struct rng *r);

#endif
