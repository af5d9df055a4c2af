/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of a peer's rails brings the next block of a fetch: what is known of each is put before the strategy (src/sched).
 */
#include "net/net.h"

#define HEAD	     ((uint32_t)sizeof(struct sn_wire_data))
#define TRIAL_AFTER  8 /* fetches without it after which a lane is tried again, with ... */
#define TRIAL_BLOCKS 4 /* ... one block of at least so many */

/* The longest piece that this lane carries, as far as anybody knows. */
uint32_t sn_net_lane_frag(const struct sn_net_pull *p, unsigned lane)
{
	const struct sn_net_lane *l = &p->link->lane[lane];
	uint32_t shortest = SN_WIRE_BASE_MTU - HEAD;

	if (p->link->net->now < l->small)
		return SN_MIN_OF(p->frag, shortest);
	return SN_MIN_OF(p->frag, SN_MAX_OF(l->mtu, (uint32_t)SN_WIRE_BASE_MTU) - HEAD);
}

/* May the port take a block more? With nothing under way one is asked for, however small the credit. */
static bool port_room(const struct sn_net_port *p)
{
	return !p->full && (p->asked == 0 || p->asked + SN_NET_BLOCK_BYTES <= p->credit);
}

bool sn_net_any_room(const struct sn_net *n)
{
	for (unsigned i = 0; i < n->cfg.ports; i++)
		if (port_room(&n->port[i]))
			return true;
	return false;
}

static bool lane_usable(const struct sn_net_link *l, const struct sn_net_lane *lane)
{
	return lane->known && (!lane->down || (l->net->now >= lane->retry_at && lane->asked_bytes == 0 &&
					       l->way[lane->port].state == SN_WAY_UP));
}

/*
 * After a while in which nobody looked: a few frames that came just now are news of their rails as always; a heap of them has
 * waited for us, and says nothing but that we were away.
 */
void sn_net_late_look(struct sn_net *n, int frames)
{
	sn_list_for_each (at, &n->links) {
		struct sn_net_link *l = sn_container(at, struct sn_net_link, node);
		for (unsigned k = 0; k < SN_NET_RAILS; k++) {
			struct sn_net_lane *lane = &l->lane[k];
			if (lane->late_bytes && frames > SN_NET_BATCH)
				lane->model.running = false;
			else if (lane->late_bytes && !sn_list_empty(&lane->asked))
				sn_model_arrived(&lane->model, 1 << 20, lane->late_bytes, n->now);
			lane->late_bytes = 0;
		}
	}
}

/*
 * More than this under way on one of several lanes only lengthens a queue, behind which short messages would stand: what
 * it carries in a round trip and a millisecond, or, while the application computes, until the service thread looks again.
 */
static uint64_t lane_most(const struct sn_net *n, const struct sn_net_lane *lane, uint64_t rate)
{
	uint64_t ns = lane->model.latency + (n->quiet ? 5 : 1) * SN_NET_MS;
	uint64_t most = rate ? (uint64_t)(1e-9 * (double)rate * (double)ns) : SN_NET_CREDIT;

	return SN_MAX_OF(most, (uint64_t)2 * SN_NET_BLOCK_BYTES);
}

/*
 * What stands before a block asked for now, as bytes at this lane's rate: its own, and what other peers were asked
 * for on the same port, which passes at the best rate that the port has shown of late.
 */
static uint64_t queued_on(const struct sn_net *n, const struct sn_net_lane *lane, uint64_t rate)
{
	struct sn_net_port *port = &n->port[lane->port];
	uint64_t others = port->asked > lane->asked_bytes ? port->asked - lane->asked_bytes : 0;

	if (rate >= port->rate || n->now > port->rate_at + 1000 * SN_NET_MS) {
		port->rate = rate;
		port->rate_at = n->now;
	}
	return lane->asked_bytes +
	       (port->rate ? (uint64_t)((double)others * (double)rate / (double)port->rate) : others);
}

/* How the strategy sees the lanes of this fetch; returns how many entries. */
static unsigned lanes_seen(const struct sn_net_pull *p, struct sn_sched_rail *rails)
{
	const struct sn_net_link *l = p->link;
	unsigned count = 0, usable = 0;
	uint64_t least = 0;

	for (unsigned k = 0; k < SN_NET_RAILS; k++)
		usable += lane_usable(l, &l->lane[k]);
	for (unsigned k = 0; k < SN_NET_RAILS; k++) {
		const struct sn_net_lane *lane = &l->lane[k];
		uint64_t rate = sn_model_rate_of(&lane->model, p->len, l->net->now);
		rails[k] = (struct sn_sched_rail){
			.usable = lane_usable(l, lane) || (usable == 0 && lane->known),
			.latency = lane->model.latency,
			.rate = rate,
			.queued = queued_on(l->net, lane, rate),
			.given = p->given[k],
		};
		rails[k].room = rails[k].usable && port_room(&l->net->port[lane->port]) &&
				(usable < 2 || lane->asked_bytes + p->room <= lane_most(l->net, lane, rate));
		if (lane->known)
			count = k + 1;
		if (rate && (least == 0 || rate < least))
			least = rate;
	}
	for (unsigned k = 0; k < count;
	     k++) /* one that nobody has measured is no better than the worst that is */
		if (rails[k].rate == 0)
			rails[k].rate = least;
	return count;
}

/*
 * A lane of which nothing was asked in a few fetches, for its figures are bad: they may have been so only once. So a
 * fetch begins with a block on it. Should it be as slow as it looks, that block is taken over at the end.
 */
int sn_net_lane_trial(const struct sn_net_pull *p)
{
	const struct sn_net_link *l = p->link;

	if (l->net->strategy.block != sn_strategy_split.block || p->next_block > 0 || p->start > 0 ||
	    p->blocks < TRIAL_BLOCKS)
		return -1;
	for (unsigned k = 0; k < SN_NET_RAILS; k++) {
		const struct sn_net_lane *lane = &l->lane[k];
		if (lane->unused >= TRIAL_AFTER && lane->known && !lane->down && lane->asked_bytes == 0 &&
		    port_room(&l->net->port[lane->port]))
			return (int)k;
	}
	return -1;
}

void sn_net_lanes_used(const struct sn_net_pull *p)
{
	for (unsigned k = 0; k < SN_NET_RAILS && p->blocks >= TRIAL_BLOCKS; k++) {
		struct sn_net_lane *lane = &p->link->lane[k];
		lane->unused = p->given[k] ? 0 : SN_MIN_OF(lane->unused + 1, (unsigned)TRIAL_AFTER);
	}
}

int sn_net_lane_for(const struct sn_net_pull *p)
{
	int trial = sn_net_lane_trial(p);

	if (trial >= 0)
		return trial;
	struct sn_sched_rail rails[SN_NET_RAILS];
	unsigned count = lanes_seen(p, rails);
	uint64_t left = p->len - p->start - p->next_block * p->room;

	int lane = p->link->net->strategy.block(rails, count, left, SN_MIN_OF(left, (uint64_t)p->room));

	/* Whatever a strategy waits for: with nothing under way nothing will come that ends the waiting. */
	uint64_t under_way = 0;
	for (unsigned k = 0; k < count; k++)
		under_way += p->link->lane[k].asked_bytes;
	return lane < 0 && under_way == 0 ? sn_strategy_split.small(rails, count, p->room) : lane;
}

/* The best lane besides this one that is up; -1: none. */
int sn_net_lane_other(const struct sn_net_link *l, unsigned than, uint64_t size)
{
	int best = -1;
	uint64_t best_rate = 0;

	for (unsigned k = 0; k < SN_NET_RAILS; k++) {
		const struct sn_net_lane *lane = &l->lane[k];
		if (k == than || !lane->known || lane->down || l->way[lane->port].state == SN_WAY_DOWN)
			continue;
		uint64_t rate = sn_model_rate_of(&lane->model, size, l->net->now);
		if (best < 0 || rate > best_rate) {
			best = (int)k;
			best_rate = rate;
		}
	}
	return best;
}

/*
 * A lane with nothing to do takes over from one that is late: the block that was asked for last there, if this lane would
 * have it in less than half the time.
 */
bool sn_net_lane_steal(struct sn_net_link *l)
{
	struct sn_sched_rail rails[SN_NET_RAILS];
	struct sn_net_pull *any = sn_container(l->pulls.next, struct sn_net_pull, node);
	unsigned count = lanes_seen(any, rails);
	int idle = -1, late = -1;

	for (unsigned k = 0; k < count; k++) {
		if (!rails[k].usable)
			continue;
		if (l->lane[k].asked_bytes == 0 && rails[k].room &&
		    (idle < 0 || rails[k].rate > rails[(unsigned)idle].rate))
			idle = (int)k;
		if (l->lane[k].asked_bytes &&
		    (late < 0 || sn_sched_time(&rails[k], 0) > sn_sched_time(&rails[(unsigned)late], 0)))
			late = (int)k;
	}
	if (idle < 0 || late < 0)
		return false;
	struct sn_net_block *b = sn_container(l->lane[late].asked.prev, struct sn_net_block, node);
	if (b->moves >= 4 || b->frag > sn_net_lane_frag(b->pull, (unsigned)idle) ||
	    2 * sn_sched_time(&rails[idle], b->bytes) + SN_NET_MS / 2 > sn_sched_time(&rails[late], 0))
		return false;
	l->net->counts[SN_NC_STOLEN]++;
	sn_net_block_move(b, (unsigned)idle);
	return true;
}
