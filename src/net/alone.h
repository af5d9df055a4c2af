/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message with nothing before it and nothing under way, where there is one port: every strategy lets that go
 * (sched.h), so none is asked, and no batch is made of it.
 *
 * Budget: one copy of the body and one driver call; the clock is read once, when the message has left. No allocation
 * in the steady state.
 */
#ifndef SN_NET_ALONE_H
#define SN_NET_ALONE_H

#include "net/net.h"

static inline bool sn_net_goes_alone(const struct sn_net_link *l)
{
	const struct sn_net *n = l->net;
	const struct sn_net_way *w = &l->way[0];

	return l->tx_una == l->tx_next && n->cfg.ports == 1 && n->inside == 0 && n->port[0].out_count == 0 &&
	       l->open.frame == NULL && sn_list_empty(&l->dones) && w->state == SN_WAY_UP && !w->port->full;
}
/*
 * An eager record without immediate data that fits a frame, over a link that is open and has nothing queued. False:
 * no memory, and nothing is done.
 */
bool sn_net_alone(struct sn_net_link *l, const struct sn_rec *rec, const void *body);
void sn_net_look(struct sn_net *n); /* engine.c: at the clock */
/*
 * What is done with a message that a peek finds alone needs no engine time but to the ms; for all else the clock is
 * read now.
 */
static inline void sn_net_fresh(struct sn_net *n)
{
	if (sn_likely(!n->stale))
		return;
	n->stale = false;
	sn_net_look(n);
}
/* output.c: its frame, which is past the batch. */
void sn_net_out_alone(struct sn_net_way *w, struct sn_net_slot *slot);

#endif
