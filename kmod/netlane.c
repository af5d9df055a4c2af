// SPDX-License-Identifier: GPL-2.0
/*
 * Lanes: the rails by which a peer's data arrive here. Which of them brings the next block of a fetch is decided when the
 * block is asked for, in softirqs, as src/net/lane.c and the strategies of src/sched decide it in user space, by what
 * each lane has shown (sennit_lanes.h). A lane that falls silent is passed over for a while and the others bring what it
 * owes; one with nothing to do takes over from one that is late.
 *
 * Budget: a fetch from one lane takes no decision at all; one from several a look at each lane for each block asked for, and
 * at the end of a body one for each frame.
 */
#include "sennit_net.h"

#define SN_ACK_DELAY  (100 * 1000ull)
#define SN_RTO_MIN    (2 * SN_MS)
#define SN_RTO_FIRST  (20 * SN_MS)
#define SN_RTO_MAX    (250 * SN_MS)
#define SN_BACKOFF    7
#define SN_STRIKES    2 /* firings of its timer that take a lane out, if there is another */
#define SN_RETRY      (200 * SN_MS)
#define SN_CREDIT_MIN (128ull << 10)
#define SN_CREDIT     (256ull << 10)

void sn_lanes_init(struct sn_link *l)
{
	unsigned int k;

	for (k = 0; k < SENNIT_NET_PORTS; k++) {
		l->lane[k].link = l;
		INIT_LIST_HEAD(&l->lane[k].asked);
		timer_setup(&l->lane[k].timer, sn_lane_timer, 0);
	}
}

/* What the program says of the lanes. What the kernel has learned of one while it was in use is newer. */
void sn_lanes_take(struct sn_pull *p, const struct sennit_net_lane *lanes, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		const struct sennit_net_lane *a = &lanes[i];
		struct sn_lane *lane = &p->link->lane[a->lane];

		memcpy(lane->to, a->to, sizeof(lane->to));
		lane->rail = a->rail;
		lane->port = a->port;
		p->lanes |= 1u << a->lane;
		p->frag[a->lane] = a->frag;
		if (!list_empty(&lane->asked))
			continue;
		if (a->rate)
			lane->model.rate = min_t(u64, a->rate, SN_LANE_RATE_MOST);
		if (a->latency)
			lane->model.latency = min_t(u64, a->latency, SN_LANE_LATENCY_MOST);
	}
	p->n_lanes = n;
}

/* ---- time ---- */

static u64 sn_lane_rto(const struct sn_lane *l)
{
	u64 t = l->srtt ? l->srtt + 4 * l->var + SN_ACK_DELAY : SN_RTO_FIRST;

	return min_t(u64, max_t(u64, t, SN_RTO_MIN) << min_t(unsigned int, l->backoff, SN_BACKOFF),
		     max_t(u64, t, SN_RTO_MAX));
}

static void sn_lane_arm(struct sn_lane *l, u64 ns)
{
	mod_timer(&l->timer, jiffies + nsecs_to_jiffies(ns) + 1);
}

void sn_lane_asked(struct sn_lane *lane)
{
	if (!timer_pending(&lane->timer))
		sn_lane_arm(lane, sn_lane_rto(lane));
}

/* A block left its list. */
void sn_lane_emptied(struct sn_lane *lane)
{
	if (list_empty(&lane->asked))
		sn_lane_idle(&lane->model, ktime_get_ns());
}

static void sn_rtt_add(struct sn_lane *l, u64 sample)
{
	u64 off;

	if (!l->srtt) {
		l->srtt = max_t(u64, sample, 1);
		l->var = sample / 2;
		return;
	}
	off = sample > l->srtt ? sample - l->srtt : l->srtt - sample;
	l->var += off / 4 - l->var / 4;
	l->srtt = max_t(u64, l->srtt + sample / 8 - l->srtt / 8, 1);
}

/* A piece has come by lane `from`, in this round. */
void sn_lane_news(struct sn_pull *p, struct sn_pull_block *b, unsigned int from, u32 round, u32 len)
{
	struct sn_lane *lane = &p->link->lane[from];
	u64 now = ktime_get_ns();

	if (b->fresh && b->round == round && from == b->lane) {
		sn_rtt_add(lane, now - b->asked_at);
		if (list_first_entry(&lane->asked, struct sn_pull_block, node) == b &&
		    lane->heard <= b->asked_at)
			sn_lane_latency(&lane->model, now - b->asked_at);
	}
	p->brought[from] += len;
	lane->heard = now;
	lane->backoff = lane->retries = 0;
	lane->down = false;
	if (!list_empty(&lane->asked))
		sn_lane_arrived(&lane->model, len, now);
}

/* A loss: less under way, at most once a round trip. */
void sn_credit_cut(struct sn_lane *l)
{
	struct sn_port *port = &l->link->net->ports[l->port];
	u64 now = ktime_get_ns();

	if (now < l->cut_at)
		return;
	l->cut_at = now + l->srtt;
	port->credit = max_t(u64, port->credit - port->credit / 4, SN_CREDIT_MIN);
}

/* ---- which one ---- */

/* With nothing under way a block is asked for, however small the credit. */
static bool sn_port_has_room(const struct sn_port *port)
{
	return port->dev && (!port->asked || port->asked + SN_BLOCK_ASKED <= port->credit);
}

bool sn_net_has_room(const struct sn_net *n)
{
	unsigned int i, ports = smp_load_acquire(&n->n_ports);

	for (i = 0; i < ports; i++)
		if (sn_port_has_room(&n->ports[i]))
			return true;
	return false;
}

static struct sn_port *sn_lane_port(const struct sn_lane *lane)
{
	return &lane->link->net->ports[lane->port];
}

static bool sn_lane_usable(const struct sn_lane *lane, u64 now)
{
	return sn_lane_port(lane)->dev && (!lane->down || (now >= lane->retry_at && !lane->asked_bytes));
}

/* More than a lane carries in a round trip and a millisecond only lengthens a queue. */
static u64 sn_lane_most(const struct sn_lane_seen *r)
{
	u64 ns = r->latency + SN_MS;
	u64 most = r->rate ? div64_u64(min(r->rate, SN_LANE_BYTES_MOST) * min(ns, SN_LANE_SECOND),
				       SN_LANE_SECOND)
			   : SN_CREDIT;

	return max_t(u64, most, 2 * SN_BLOCK_ASKED);
}

/* As in user space: what stands before a block asked for now, that of other peers on this port at the port's own rate. */
static u64 sn_lane_queued(const struct sn_lane *lane, u64 rate, u64 now)
{
	struct sn_port *port = sn_lane_port(lane);
	u64 others = port->asked > lane->asked_bytes ? port->asked - lane->asked_bytes : 0;

	rate = min(rate, SN_LANE_RATE_MOST);
	if (rate >= port->rate || now > port->rate_at + 1000 * SN_MS) {
		port->rate = rate;
		port->rate_at = now;
	}
	return lane->asked_bytes + (port->rate ? others * div64_u64(rate << 10, port->rate) >> 10 : others);
}

/* How the strategies see this fetch's lanes; returns how many entries. */
static unsigned int sn_lanes_seen(const struct sn_pull *p, struct sn_lane_seen *seen)
{
	unsigned int k, count = 0, usable = 0;
	u64 now = ktime_get_ns(), least = 0;

	for (k = 0; k < SENNIT_NET_PORTS; k++)
		usable += p->lanes >> k & 1 && sn_lane_usable(&p->link->lane[k], now);
	for (k = 0; k < SENNIT_NET_PORTS; k++) {
		const struct sn_lane *lane = &p->link->lane[k];
		struct sn_lane_seen *r = &seen[k];

		*r = (struct sn_lane_seen){.latency = lane->model.latency};
		if (!(p->lanes >> k & 1))
			continue;
		count = k + 1;
		r->usable = usable ? sn_lane_usable(lane, now) : sn_lane_port(lane)->dev != NULL;
		r->rate = sn_lane_rate_of(&lane->model, now);
		r->queued = sn_lane_queued(lane, r->rate, now);
		r->given = p->given[k];
		r->room = r->usable && sn_port_has_room(sn_lane_port(lane)) &&
			  (usable < 2 || lane->asked_bytes + p->room <= sn_lane_most(r));
		if (r->rate && (!least || r->rate < least))
			least = r->rate;
	}
	for (k = 0; k < count; k++) /* one that nobody has measured is no better than the worst that is */
		if (!seen[k].rate)
			seen[k].rate = least;
	return count;
}

/* The lane for the fetch's next block; -1: it waits. */
int sn_lane_for(const struct sn_pull *p)
{
	struct sn_lane_seen seen[SENNIT_NET_PORTS];
	u64 left = p->len - p->start - p->next_block * p->room, under_way = 0;
	unsigned int k, count;
	int lane;

	if (p->n_lanes == 1) {
		k = __ffs(p->lanes);
		return sn_port_has_room(sn_lane_port(&p->link->lane[k])) ? (int)k : -1;
	}
	count = sn_lanes_seen(p, seen);
	switch (p->deal) {
	case SENNIT_DEAL_EQUAL: lane = sn_lane_equal(seen, count); break;
	case SENNIT_DEAL_FASTEST: lane = sn_lane_fastest(seen, count); break;
	default: lane = sn_lane_split(seen, count, left, min_t(u64, left, p->room));
	}
	/* Whatever it waits for: with nothing under way nothing will come that ends the waiting. */
	for (k = 0; k < count; k++)
		under_way += p->link->lane[k].asked_bytes;
	return lane < 0 && !under_way ? sn_lane_first(seen, count, p->room) : lane;
}

/* The best lane of the fetch besides this one that is up; -1: none. */
static int sn_lane_other(const struct sn_pull *p, unsigned int than)
{
	u64 now = ktime_get_ns(), best_rate = 0;
	unsigned int k;
	int best = -1;

	for (k = 0; k < SENNIT_NET_PORTS; k++) {
		const struct sn_lane *lane = &p->link->lane[k];
		u64 rate;

		if (k == than || !(p->lanes >> k & 1) || lane->down || !sn_lane_port(lane)->dev)
			continue;
		rate = sn_lane_rate_of(&lane->model, now);
		if (best < 0 || rate > best_rate) {
			best = k;
			best_rate = rate;
		}
	}
	return best;
}

/*
 * A lane with nothing to do takes over from one that is late: the block that was asked for last there, if this one would have
 * it in less than half the time.
 */
bool sn_lane_steal(struct sn_pull *p)
{
	struct sn_lane_seen seen[SENNIT_NET_PORTS];
	int idle = -1, late = -1, k, count;
	struct sn_pull_block *b;

	if (p->n_lanes < 2 || p->deal != SENNIT_DEAL_SPLIT)
		return false;
	count = sn_lanes_seen(p, seen);
	for (k = 0; k < count; k++) {
		if (!seen[k].usable)
			continue;
		if (!p->link->lane[k].asked_bytes && seen[k].room &&
		    (idle < 0 || seen[k].rate > seen[idle].rate))
			idle = k;
		if (seen[k].queued && (late < 0 || sn_lane_time(&seen[k], 0) > sn_lane_time(&seen[late], 0)))
			late = k;
	}
	if (idle < 0 || late < 0 || list_empty(&p->link->lane[late].asked))
		return false;
	b = list_last_entry(&p->link->lane[late].asked, struct sn_pull_block, node);
	if (b->pull != p || b->moves >= 4 || b->frag > p->frag[idle] ||
	    2 * sn_lane_time(&seen[idle], b->bytes) + SN_MS / 2 > sn_lane_time(&seen[late], 0))
		return false;
	return sn_block_move(b, idle);
}

/* ---- lanes that fail ---- */

/* Nothing comes by it: the others bring what it owes. What cannot be moved its timer looks after. */
static void sn_lane_down(struct sn_lane *lane)
{
	struct sn_pull_block *b, *next;

	lane->down = true;
	lane->retry_at = ktime_get_ns() + (SN_RETRY << min(lane->retries, 5u));
	lane->retries++;
	list_for_each_entry_safe(b, next, &lane->asked, node)
	{
		int to = sn_lane_other(b->pull, b->lane);

		if (to >= 0)
			sn_block_move(b, to);
	}
}

/*
 * Only the block asked for longest ago is asked for again, its answer is news about the others; of another lane, if there is
 * one. Where that owes something, too, and is as silent, it is the peer that is slow, and its lanes are as good as before.
 */
static void sn_block_late(struct sn_pull_block *b, struct sn_lane *lane)
{
	int k = sn_lane_other(b->pull, b->lane);
	const struct sn_lane *other = k < 0 ? NULL : &lane->link->lane[k];
	bool speaks = other && other->heard > b->asked_at;

	if (++b->tries > SN_TRIES) {
		sn_pull_end(b->pull, -ETIMEDOUT, true);
	} else if (speaks && lane->backoff >= SN_STRIKES && lane->heard <= b->asked_at) {
		sn_lane_down(lane);
	} else if (!(speaks || (other && list_empty(&other->asked))) || !sn_block_move(b, k)) {
		sn_block_again(b);
	}
}

void sn_lane_timer(struct timer_list *t)
{
	struct sn_lane *lane = container_of(t, struct sn_lane, timer);
	struct sn_net *n = lane->link->net;
	struct sn_pull_block *b;
	u64 now, due;

	spin_lock_bh(&n->lock);
	b = list_first_entry_or_null(&lane->asked, struct sn_pull_block, node);
	if (b) {
		now = ktime_get_ns();
		due = max(b->asked_at, lane->heard) + sn_lane_rto(lane);
		if (now >= due) {
			sn_credit_cut(lane);
			lane->backoff = min_t(unsigned int, lane->backoff + 1, SN_BACKOFF);
			sn_block_late(b, lane);
			sn_pull_schedule(n);
			due = now + sn_lane_rto(lane);
		}
		if (!list_empty(&lane->asked))
			sn_lane_arm(lane, due - now);
	}
	spin_unlock_bh(&n->lock);
	sn_net_flush(n);
}

/* One of our ports has gone: what was to come there comes by the others, or the fetch ends. */
void sn_pull_unplugged(struct sn_pull *p, unsigned int port)
{
	unsigned int i, k, left = 0;

	for (k = 0; k < SENNIT_NET_PORTS; k++)
		left += p->lanes >> k & 1 && sn_lane_port(&p->link->lane[k])->dev;
	for (i = 0; i < SN_NET_BLOCKS && left; i++) {
		struct sn_pull_block *b = &p->block[i];
		int other = b->active && b->port == port && b->missing ? sn_lane_other(p, b->lane) : -1;

		if (other >= 0)
			sn_block_move(b, other);
	}
	if (!left)
		sn_pull_end(p, -ENODEV, true);
}
