/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetching: what is done when nothing comes. pull.c has the picture.
 */
#include "net/net.h"

#define HEAD ((uint32_t)sizeof(struct sn_wire_data))

/*
 * Where no answer to a PULL has been measured the round trip is that of the messages the other way, but for a block
 * that waits for its first answer: that may stand behind others. Who sends at this moment is not away; so what is
 * missing at the end of a body is asked for soon, if there is one rail.
 */
static uint64_t lane_rto(const struct sn_net_link *l, const struct sn_net_lane *lane,
			 const struct sn_net_block *b)
{
	bool measured = lane->rtt.srtt || b->fresh;
	bool sends = lane->data_at && lane->data_at + SN_NET_RTO_MIN > b->asked_at && l->net->cfg.ports == 1;

	return sn_net_rto_from(measured ? &lane->rtt : &l->way[lane->port].rtt, lane->backoff,
			       sends ? SN_NET_RTO_ONE : SN_NET_RTO_MIN);
}

/* Pieces of this size do not come through on the lane: from now on it is asked for the shortest, in blocks cut anew. */
static void shrink(struct sn_net_pull *p, unsigned lane)
{
	struct sn_net_link *l = p->link;
	uint64_t first = p->next_block;

	l->lane[lane].small = l->net->now + 5000 * SN_NET_MS;
	for (unsigned i = 0; i < SN_NET_BLOCKS; i++)
		if (p->block[i].active)
			first = SN_MIN_OF(first, p->block[i].index);
	p->start += first * p->room;
	for (unsigned i = 0; i < SN_NET_BLOCKS; i++)
		if (p->block[i].active)
			sn_net_block_drop(p, &p->block[i]);
	p->left = p->len - p->start; /* pieces that had come behind the gap come once more */
	sn_net_pull_shape(p, SN_MIN_OF(p->frag, SN_WIRE_BASE_MTU - HEAD));
	sn_net_pull_schedule(l->net);
}

void sn_net_pull_lane_down(struct sn_net_link *l, unsigned k)
{
	struct sn_net_lane *lane = &l->lane[k];

	lane->down = true;
	lane->retry_at = l->net->now + (SN_NET_RETRY_MOST << SN_MIN_OF(lane->retries, 5u));
	lane->retries++;
	while (!sn_list_empty(&lane->asked)) {
		struct sn_net_block *b = sn_container(lane->asked.next, struct sn_net_block, node);
		int to = sn_net_lane_other(l, k, b->pull->len);
		if (to < 0)
			return;
		sn_net_block_move(b, (unsigned)to);
	}
}

/*
 * Nothing comes on the lane though its timer has fired again: the others bring what it owes. If it is the only lane that
 * arrives at its port, that rail is out in both directions.
 */
static bool give_up(struct sn_net_link *l, unsigned k, const struct sn_net_block *b)
{
	unsigned port = l->lane[k].port, same = 0;

	if (sn_net_lane_other(l, k, b->pull->len) < 0)
		return false;
	for (unsigned i = 0; i < SN_NET_RAILS; i++)
		same += l->lane[i].known && !l->lane[i].down && l->lane[i].port == port;
	sn_net_pull_lane_down(l, k);
	if (same == 1)
		sn_net_way_down(&l->way[port]);
	return true;
}

/*
 * Only the block asked for longest ago is asked for again: its answer is evidence about all the others. Time counts
 * from the last DATA on this lane, for the peer answers in order. With another lane at hand that one is asked.
 */
static uint64_t lane_timer(struct sn_net_link *l, unsigned k)
{
	struct sn_net *n = l->net;
	struct sn_net_lane *lane = &l->lane[k];

	if (sn_list_empty(&lane->asked))
		return SN_NET_NEVER;
	struct sn_net_block *b = sn_container(lane->asked.next, struct sn_net_block, node);
	uint64_t due = SN_MAX_OF(b->asked_at, lane->data_at) + lane_rto(l, lane, b);
	if (n->now < due)
		return due;
	n->counts[SN_NC_AGAIN_TIMER]++;
	sn_net_credit_cut(l, k);
	b->fresh = false;
	if (lane->backoff < SN_NET_BACKOFF)
		lane->backoff++;
	b->tries++;
	b->silent = (uint8_t)k;
	sn_net_quick_doubt(sn_net_pull_way(l, k));
	bool alive = lane->heard_at > b->asked_at; /* something came, so the path is there; but no DATA */
	int other = sn_net_lane_other(l, k, b->pull->len);
	bool too_long = alive && b->frag > SN_WIRE_BASE_MTU - HEAD && b->tries >= (other < 0 ? 4 : 2);
	if (other >= 0) { /* at the next firing it will be known whether these two carry short frames */
		sn_net_probe_try(sn_net_pull_way(l, k));
		sn_net_probe_try(sn_net_pull_way(l, (unsigned)other));
	} else if (b->tries >= 2) {
		sn_net_out_ack(l, SN_WIRE_F_ANSWER);
	}
	if (too_long)
		shrink(b->pull, k);
	else if (!alive && lane->backoff >= SN_NET_STRIKES && give_up(l, k, b))
		return n->now;
	else if (other >= 0)
		sn_net_block_move(b, (unsigned)other);
	else
		sn_net_ask(b->pull, b);
	return n->now + lane_rto(l, lane, b);
}

uint64_t sn_net_pull_timer(struct sn_net_link *l)
{
	uint64_t next = SN_NET_NEVER;

	for (unsigned k = 0; k < SN_NET_RAILS; k++)
		if (l->lane[k].known)
			next = SN_MIN_OF(next, lane_timer(l, k));
	return next;
}
