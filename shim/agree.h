/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Do the ranks of a communicator make the same collectives? MPI demands it, and where they do not, one may wait for what
 * another, who is in a longer call, or in one of another kind, never writes. An MPI by itself hears of it from messages
 * that are too long, if at all.
 *
 * Each rank notes which call it has come to, in the memory in which they meet (meet.h), and keeps its last
 * SN_AGREE_CALLS. Nobody reads that but who has waited in one of them for a second, and again half a second later, so that
 * a call that is about to be over all the same is let be. As the calls of a communicator come in one order, which is that of
 * all ranks, two that have the same number must be the same: of one kind, with one root, and of one length, where that is
 * one. Others than that one are let be, too: who had it wrong there has come through, as with some MPIs.
 *
 * Who waits here hears it as an error. Who waits in the MPI can only be told, after ten seconds.
 *
 * A rank whose calls may have been counted wrongly notes no more, asks nothing, and takes back what it has noted: where the MPI has
 * ended one with an error, or a handler has jumped out of it, or it was made under a name that is not seen here (with a
 * count beyond an int's). What the MPI is to refuse is none.
 *
 * Budget, where nobody waits for long: two words written into a line that is this rank's; no look at a type but the first of its
 * kind. Lengths are known of the MPI's own types only, which nobody frees.
 */
#ifndef SN_SHIM_AGREE_H
#define SN_SHIM_AGREE_H

#include "meet.h"

#define SN_AGREE_CALLS 32

struct sn_agree_call {
	_Atomic uint64_t
		what; /* 0 number of those of this communicator, from 1; root, whether it blocks, kind */
	_Atomic uint64_t bytes; /* 8 of an operand, or a block, and the number's last bits */
};
_Static_assert(sizeof(struct sn_agree_call) == 16, "four of them are a line");

/* MPI_Bcast, MPI_Ibcast: as the program calls that kind. */
struct sn_agree_name {
	char text[32];
};
struct sn_agree_name sn_agree_name(int kind, bool begun);

/* The meeting in whose call, one that blocks, this thread is; or NULL. */
extern _Thread_local struct sn_meet *sn_agree_in __attribute__((tls_model("initial-exec")));

/* Its call has not ended, and here is the next one: a handler of errors jumped out of it. */
void sn_agree_left(void);

/* This rank's next call; begun: one that does not block. */
void sn_agree_write(struct sn_meet *m, const struct sn_collective *c, bool begun);
static inline void sn_agree_note(const struct sn_collective *c, bool begun)
{
	struct sn_meet *m = sn_meet_of(c->comm);
	if (!likely(!sn_agree_in))
		sn_agree_left();
	if (m && m->mem && !m->doubts)
		sn_agree_write(m, c, begun);
	sn_agree_in = begun ? NULL : m;
}
/* From now on it is not known which call of its communicator this rank is in. */
void sn_agree_doubt(handle comm);
/* What that call ended with. */
static inline int sn_agree_ended(const struct sn_collective *c, int rc)
{
	sn_agree_in = NULL;
	if (!likely(!rc))
		sn_agree_doubt(c->comm);
	return rc;
}

/* Of one who waits: in which call, 0: the last one; since when, and when it was seen that ranks differ. 0: not yet. */
struct sn_agree_wait {
	uint64_t number, since, differs;
};
/* Called now and then. True: ranks differ, which is said now; the wait is over, and so it is for whoever waits in this meeting. */
bool sn_agree_differ(const struct sn_meet *m, struct sn_agree_wait *w);
/* This thread has waited in the MPI for some seconds, and nothing came. */
void sn_agree_waits_long(void);

#endif
