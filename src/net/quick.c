/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The short cut. Where a driver has one (both.c: Ethernet frames beside UDP on the same interface), short frames that
 * leave alone take it once it has been shown to come through: MSG frames while at most SN_QUICK_FEW are under way and
 * none that went the long way, PULLs, acknowledgements nobody has asked for. It is no rail of its own: the way's
 * numbering, timers, window and models count for both, for it is one wire, and there is nothing to split.
 *
 * Whether it comes through shows only by trying. Many networks drop a type of frame that they do not know, without a
 * word, from the beginning or from some day on; and the peer may lack the privilege, or stand behind a router. So:
 * - both sides say in PORTS where their ends are; and in one IP subnet only a PROBE is sent there, as long as the
 *   frames that would follow. Until it is answered all goes the long way; nothing waits for it. After three in vain
 *   it is tried anew when many frames have been sent, so an idle peer costs nothing.
 * - at the first sign that something sent by it is missing (a timer, a gap, what was acknowledged comes again) all
 *   goes the long way, what is sent again first, and it is tried anew: at once, then ever later if that happens
 *   again. If the peer says that what was missing did come, only late, the doubt was wrong.
 * - what must not depend on it never takes it: the handshake, questions whether the peer lives and the answers to them, BYE.
 */
#include "net/quick.h"

#define TRIES  3
#define OFTEN  (10000 * SN_NET_MS) /* ns within which one more doubt counts */
#define LATER  4096		   /* frames after which it is tried again */
#define LATEST 12		   /* doublings */
#define TOGETHER                                                                                             \
	1024 /* bytes of several frames that leave at once; more are a train, which the long way takes in one call */

void sn_net_quick_end(struct sn_net_way *w)
{
	w->path.quick_most = 0;
	w->quick = (struct sn_net_short){.at = SN_NET_NEVER};
}

static void start(struct sn_net_way *w, uint64_t at)
{
	w->quick.tries = 0;
	w->quick.later = 0;
	w->quick.at = at;
	sn_net_arm(w->link->net, at);
}

static uint32_t longest(const struct sn_net_way *w)
{
	return SN_MIN_OF(w->mtu, (uint32_t)SN_QUICK_MOST);
}

void sn_net_quick_begin(struct sn_net_way *w)
{
	struct sn_net_link *l = w->link;
	const struct sn_net_port *p = w->port;

	if (w->quick.at != SN_NET_NEVER || w->frames < w->quick.later) /* it is tried, or was, in vain */
		return;
	if (w->state != SN_WAY_UP || p->driver->quick_path == NULL || w->path.quick_most >= longest(w) ||
	    w->part >= l->part_count || l->quick[w->part].len == 0)
		return;
	if (sn_net_affinity(p, &l->part[w->part]) < (int)p->prefix) /* a router stands between */
		return;
	if (p->driver->quick_path(p->drv, &l->quick[w->part], &w->path))
		start(w, l->net->now);
}

/* It may well be lost, and what it says of what has come is to be said all the same. */
static void try_out(struct sn_net_way *w)
{
	struct sn_net_port *p = w->port;
	struct sn_net_link *l = w->link;

	sn_net_flush_port(p);
	const uint64_t ack_at = l->ack_at, acked_at = l->acked_at;
	const unsigned waiting = l->ack_waiting;
	const bool twice = l->twice;
	w->quick.size = longest(w);
	sn_net_probe_frame(w, w->quick.size, SN_OUT_PLAIN)->joined = SN_WIRE_PROBE_QUICK;
	p->out[p->out_count - 1].quick = SN_QUICK_ONLY;
	sn_net_out_seal(p, &l->tx_key);
	sn_net_flush_port(p);
	l->ack_at = ack_at;
	l->acked_at = acked_at;
	l->ack_waiting = waiting;
	l->twice = twice;
}

uint64_t sn_net_quick_timer(struct sn_net_way *w)
{
	struct sn_net_short *q = &w->quick;
	uint64_t now = w->link->net->now;

	if (now < q->at)
		return q->at;
	q->vain += q->tries && w->heard_at > q->tried_at;
	if (q->tries < TRIES && q->vain < TRIES) {
		if (!w->port->driver->quick_path(w->port->drv, &w->link->quick[w->part], &w->path)) {
			sn_net_quick_end(w); /* there is none any more */
			return SN_NET_NEVER;
		}
		try_out(w);
		q->tried_at = now;
		q->at = now + sn_net_rto(&w->rtt, q->tries++);
		return q->at;
	}
	q->at = SN_NET_NEVER;
	q->later = w->frames + 1;
	if (q->vain < TRIES) /* who says nothing at all may just not be looking */
		return SN_NET_NEVER;
	q->was = q->vain = 0;
	q->later = w->frames + ((uint64_t)LATER << SN_MIN_OF(q->doubts, (unsigned)LATEST));
	q->doubts++;
	return SN_NET_NEVER;
}

/* It goes the long way after all: nothing that follows is to overtake it. */
static void goes_long(struct sn_net_link *l, struct sn_net_slot *slot)
{
	uint32_t end = le32toh(((const struct sn_wire_head *)slot->frame)->seq) + 1;

	slot->quick = false;
	if ((int32_t)(end - l->slow_end) > 0)
		l->slow_end = end;
}

/* What stands behind a frame that goes the long way leaves with it. */
void sn_net_quick_batch(struct sn_net_port *p)
{
	uint32_t bytes = 0;
	bool quick = true;

	for (unsigned i = 0; quick && p->out_count > 1 && i < p->out_count; i++) {
		bytes += p->out[i].len;
		quick = p->out[i].how == SN_OUT_PLAIN && bytes <= TOGETHER;
	}
	for (unsigned i = 0; i < p->out_count; i++) {
		struct sn_net_out *out = &p->out[i];
		quick = quick && out->quick &&
			(out->quick == SN_QUICK_ONLY || out->len <= out->to->quick_most);
		if (quick || !out->quick)
			continue;
		out->quick = SN_QUICK_NO;
		if (p->tx[i].what == SN_TX_SLOT)
			goes_long(p->tx[i].link, p->tx[i].ref);
	}
}

void sn_net_quick_shown(struct sn_net_way *w, uint32_t size)
{
	if (w->quick.tries == 0 || size != w->quick.size || size <= w->path.quick_most)
		return; /* once more, or nonsense */
	w->link->net->counts[SN_NC_QUICK_UP] += w->path.quick_most == 0;
	w->path.quick_most = size;
	w->quick.was = 0;
	w->quick.later = 0;
	w->quick.at = SN_NET_NEVER;
	if (size < longest(w)) /* longer ones have been found to come through meanwhile */
		start(w, w->link->net->now);
}

void sn_net_quick_doubt(struct sn_net_way *w)
{
	struct sn_net_short *q = &w->quick;
	struct sn_net *n = w->link->net;

	if (w->path.quick_most == 0)
		return;
	n->counts[SN_NC_QUICK_DOUBTS]++;
	q->was = w->path.quick_most;
	q->vain = 0;
	w->path.quick_most = 0;
	q->doubts = q->doubt_at && n->now < q->doubt_at + OFTEN ? q->doubts + 1 : 0;
	q->doubt_at = n->now;
	start(w, n->now + (q->doubts ? SN_NET_MS << SN_MIN_OF(q->doubts, (unsigned)LATEST) : 0));
}

void sn_net_quick_sure(struct sn_net_way *w)
{
	struct sn_net_short *q = &w->quick;

	if (!q->again || q->was == 0)
		return;
	w->path.quick_most = SN_MIN_OF(q->was, longest(w));
	q->was = 0;
	q->doubts = 0;
	q->at = SN_NET_NEVER;
}
