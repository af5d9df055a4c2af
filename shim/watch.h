/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call leads to is watched, and learned from (quick.h). By the thread that goes the quick way. */
#ifndef SN_SHIM_WATCH_H
#define SN_SHIM_WATCH_H

#include "kin.h"

/* Is this the second such call in a row, or one that is like another? Its entry; NULL: no. */
struct entry *sn_watch_seen(struct entry *table, struct sn_kin *kin, const struct call *c);
/*
 * Then it is watched from here on, until sn_quick_watched(), by when it may have lost its pass. What was watched in
 * vain is not, the next times.
 */
bool sn_watch_begin(struct entry *e);
/* Both at once, of a probe: it is watched; NULL: it is not. And did it ask for one message, and that is all? */
struct entry *sn_watch_probe(const struct call *c);
static inline bool sn_watch_asked_once(const struct sn_shim_lesson *l)
{
	return l->asked && !l->sends && l->recvs == 1;
}
/* From a send of this buffer; from a receive into it, which has written this status, or none. */
void sn_learn_send(struct entry *e, const void *buf);
void sn_learn_recv(struct entry *e, const void *buf, const void *status);
void sn_learn_probe(struct entry *e, const void *status); /* and it has written one */
/* From a probe, whatever it found: how to ask. Not if that was another receive, of what the MPI has under way. */
void sn_learn_asked(struct entry *e);

/* The turn is the MPI's. But where many calls go by in a moment, its affairs need not go on with each 64th. */
bool sn_seen_in_turn_again(struct entry *e);
/* Whether it may go the quick way, one time after the other. */
static inline bool sn_seen_in_turn(struct entry *e)
{
	if (!likely(e->turn > 0) || sn_elsewhere_windows())
		return sn_seen_in_turn_again(e);
	e->turn--;
	return true;
}

#endif
