/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that differ in their tag, their count or their buffer only. Programs whose messages are never twice the same
 * (atoms that leave, particles, tags that count) would go the quick way with none of them.
 *
 * Nothing is known of how an MPI makes match bits out of a tag, and a length out of a count. But of calls that were
 * watched (quick.h) it shows: the tag stands in the bits as it is if two calls with different ones have led to the
 * same bits but for it, and the length goes with the count if what each of two counts led to is as long a time it.
 * Then what lies between is the same again:
 *  - counts between the least and the greatest that were seen. An MPI that sends what is longer in another way has
 *    been seen to send both in the same one. A type with gaps goes in one piece once, not several times;
 *  - tags that each MPI must have, up to 32767, however few were seen;
 *  - buffers anywhere in the memory of a host: a part of it that no call had before is one if no library is there by
 *    which memory is a GPU's, which is asked each time.
 * What contradicts begins anew; time and again, and these are never looked at any more.
 *
 * A receive that comes late is noted as a call of its own: that says nothing of the others.
 */
#ifndef SN_SHIM_KIN_H
#define SN_SHIM_KIN_H

#include "seen.h"

#define SN_KINS	    64
#define SN_KIN_WAYS 4
#define SN_TAGS	    32767 /* MPI_TAG_UB at least */
#define SN_KIN_LATE                                                                                          \
	4 /* receives in vain in a row, after each further one the next SN_KIN_PAUSE are the MPI's */
#define SN_KIN_PAUSE 16
#define SN_KIN_MOODS 16 /* contradictions */

struct sn_kin {
	struct entry entry;	/* as the call that was found last */
	int tag;		/* of any call, if it is the only one; negative: any */
	bool tags;		/* two were seen, and do */
	int least, most;	/* counts */
	uint64_t unit;		/* bytes of one; 0: not known yet */
	uint64_t bits, exactly; /* of tag 0 */
	int pause, vain, moods;
};

/* Is that a part of a host's memory, as far as this thread knows, or it can be told now? */
bool sn_kin_in_host(uintptr_t region);
/* This call's entry, or NULL. By the thread whose table it is, as all of these. */
struct entry *sn_kin_find(struct sn_kin *table, const struct call *c);
/* Has there been one that is alike, and is it worth while to watch this one? */
bool sn_kin_again(struct sn_kin *table, const struct call *c);
/* It is watched. */
void sn_kin_watched(struct sn_kin *table, const struct call *c);
/* That was what this entry says. */
void sn_kin_learn(struct sn_kin *table, const struct entry *e);

#endif
