/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bodies of which the sender keeps a copy, so that their requests end before the receiver has them: what is sent again
 * comes from there.
 *
 * Of a short body that follows whole, with no other under way, a copy is kept at once: so a sender need not wait for
 * the receiver, and the receiver need not hurry to say DONE, which would cost it a system call between getting a message
 * and answering it. Who has sent more than that streams, and its time is better spent than on copies, until it waits
 * for what it has sent; of a longer body, too, unless bodies go to and fro. The copy is made when the body is on its
 * way.
 */
#ifndef SN_NET_KEEP_H
#define SN_NET_KEEP_H

#include "base/base.h"

#define SN_NET_KEEP	 (64ULL << 10)	/* longest body of which the sender keeps a copy */
#define SN_NET_KEEP_LATE (128ULL << 10) /* likewise, where it waits for several */
#define SN_NET_KEEPS	 8		/* copies at once that are made then */
#define SN_NET_KEEP_LONE (256ULL << 10) /* likewise, where bodies go one at a time, to and fro */
#define SN_NET_CROSSED	 8		/* bodies after which it is taken to be so again */

struct sn_net;
struct sn_net_link;
struct sn_net_send;

struct sn_net_keep {
	struct sn_list left; /* bodies that were pushed whole, and have left: their requests wait for DONE */
	unsigned vain;	     /* looks in a row that brought nothing, with no such body posted between */
	uint64_t moved_at;   /* when one was posted, or was DONE, last */
	unsigned late;	     /* copies that were made of such bodies */
	unsigned spares;
	void *spare[SN_NET_KEEPS]; /* for the next copies: of SN_NET_KEEP_LONE bytes */
};

/* Plan a copy of one that leaves now, if that is worth while: its request has ended. */
bool sn_net_keep_plan(struct sn_net_send *s);
void sn_net_keep_copy(struct sn_net_send *s); /* what is planned, if it is not made */
void sn_net_keep_drop(struct sn_net_send *s);
bool sn_net_keep_promise(struct sn_net_send *s); /* there is one, or will be: nobody waits for DONE */
void sn_net_keep_moves(struct sn_net *n);     /* a body is posted, or DONE: who waits has not waited long */
void sn_net_keep_left(struct sn_net_send *s); /* none of its pieces waits to be sent */
int sn_net_keep_look(struct sn_net *n,
		     int events);		/* at the end of one; returns how many requests have ended */
bool sn_net_keeps(const struct sn_net_link *l); /* a copy of what the peer has yet to fetch */
bool sn_net_owes(const struct sn_net *n);	/* to one that lives */
void sn_net_keeps_free(struct sn_net *n);

#endif
