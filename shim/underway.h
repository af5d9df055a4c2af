/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of collectives that do not block (begun.h): what they are (begun.c), and those of them that are under way
 * (underway.c).
 */
#ifndef SN_SHIM_UNDERWAY_H
#define SN_SHIM_UNDERWAY_H

#include "agree.h"
#include "begun.h"

struct sn_begun {
	struct sn_meet *m; /* NULL: over, or failed */
	bool failed;
	struct sn_collective c;
	char *to;
	bool in_place;
	bool reads; /* what others have, or its own */
	struct sn_meet_type in;
	handle kept; /* that type is this one of ours, to be freed */
	uint64_t call;
	size_t len;    /* of a block, or an operand */
	unsigned next; /* of the ranks that are waited for, this one; those before have come */
	unsigned looks;
	uint64_t since; /* ns: it was last asked whether somebody has ended */
	struct sn_agree_wait so_far;
	struct sn_begun *before, *after; /* of this communicator's that are not over, by their numbers */
	handle real;			 /* 0: the MPI does not know of it */
	void *state;			 /* that request's */
	struct sn_begun *link;		 /* among those, or among those that are no more */
};

/* What this rank brings along, as long as there is no room for it where others can read it. */
struct sn_begun_held {
	struct sn_begun_held *after;
	uint64_t call, said;
	size_t len;
	char data[];
};

extern struct sn_begun_mpi {
	int (*type_contiguous)(int count, handle type, void *made);
	int (*type_commit)(void *type);
	int (*type_free)(void *type);
	int (*sendrecv)(const void *out, int out_count, handle out_type, int to, int out_tag, void *in,
			int in_count, handle in_type, int from, int in_tag, handle comm, void *status);
} sn_begun_mpi;

/* By one thread at a time, where several call; and where the MPI looks then, it does not end any. */
bool sn_underway_enter(void);
void sn_underway_leave(bool entered);

static inline bool sn_begun_is_of_one(const struct sn_collective *c)
{
	return c->kind == SN_BCAST || c->kind == SN_SCATTER;
}

static inline struct sn_meet_line *sn_begun_line_with(const struct sn_meet *m, unsigned rank, uint64_t call)
{
	struct sn_meet_line *l = sn_meet_begun_line(m, rank, call);
	if (likely(atomic_load_explicit(&l->call, memory_order_acquire) == call))
		return l;
	l = sn_meet_more_line(m, rank, call);
	return atomic_load_explicit(&l->call, memory_order_acquire) == call ? l : NULL;
}

/* The ranks that it reads from: from b->next, as far as that. */
static inline unsigned sn_begun_end(const struct sn_begun *b)
{
	return sn_begun_is_of_one(&b->c) ? (unsigned)b->c.root + 1 : b->m->ranks;
}

static inline bool sn_begun_all_come(struct sn_begun *b)
{
	unsigned end = sn_begun_end(b);
	while (b->next < end && sn_begun_line_with(b->m, b->next, b->call))
		b->next++;
	return b->next >= end;
}

/* Nothing is left to be waited for. */
static inline bool sn_begun_may_end(struct sn_begun *b)
{
	const struct sn_begun_held *h = b->m->held;
	return likely(b->reads) ? sn_begun_all_come(b) : !h || h->call > b->call;
}

/* ---- begun.c ---- */
/* All have come. False: it fails. */
bool sn_begun_finish(const struct sn_begun *b);

/* ---- underway.c, by who has entered ---- */
/* A copy of it, that is under way from here on, and of a type of the program's. NULL: no memory. */
struct sn_begun *sn_underway_keep(const struct sn_begun *b);
/* One more of this rank's calls is over, or none of those before: so far it has read all that others had for it. */
void sn_underway_say_done(struct sn_meet *m);

/* Where this rank's next one goes. NULL: somebody has not read what lies there, so it is to be held. */
struct sn_meet_line *sn_underway_line(struct sn_meet *m);
/* That call of this rank's, of so many bytes; who looks sees to it that it is posted. NULL: no memory. */
struct sn_begun_held *sn_underway_hold(struct sn_meet *m, uint64_t call, size_t len);
/* What has been written for that call others may read. */
void sn_underway_post(struct sn_meet *m, struct sn_meet_line *line, uint64_t call, uint64_t said);

#endif
