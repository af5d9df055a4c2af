/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetching a rendezvous: the receiver asks for blocks of pieces, and only it decides how many bytes are under way to it,
 * over all its peers (the credit of the port on which they come), and which of the sender's rails carries each block.
 * docs/protocol.md has the rules for evidence, timers and pacing, src/sched the choice of the rail.
 *
 * Blocks asked for stand in lane->asked in the order of their rounds. A peer answers the PULLs for one rail in the order in
 * which they reach it, so DATA of round r on a rail is news about every block before r on that list: normally there is
 * none, and looking costs nothing. The PULL itself leaves by the port on which the answer will come, so that rails do not
 * overtake each other and a dead cable is one rail's trouble.
 *
 * Budget of a piece: found by two table look-ups, copied once from the kernel's buffer into the application's: where the
 * driver can be told beforehand (UDP), by the kernel itself, to the place that sn_net_expect names; else from the ring
 * that the driver shares with the kernel. net.rx_placed and net.rx_moved count the guesses that were right and wrong.
 */
#include "net/net.h"
#include <stdlib.h>

#define HEAD ((uint32_t)sizeof(struct sn_wire_data))

/*
 * The shape of what is left from p->start on, for pieces of this size. A block fits into one datagram that the kernel cuts
 * up, and fills it: a call costs as much as copying 30 KiB does, so smaller blocks, though sender and receiver would
 * then work side by side, take longer (64 KiB in four parts: 22 us, in one: 17). With several rails a short body is divided,
 * so that each has something to bring. Blocks are the same for all rails, pieces are as long as each carries.
 */
static void shape(struct sn_net_pull *p, uint32_t frag)
{
	uint32_t pieces = SN_NET_BLOCK_BYTES / (frag + HEAD);
	bool several = p->link->net->cfg.ports > 1 || p->link->part_count > 1;

	if (several && p->len - p->start < 4 * SN_NET_BLOCK_BYTES) {
		uint64_t part = (p->len - p->start) / 4 / frag + 1;
		pieces = (uint32_t)SN_MIN_OF(SN_MAX_OF(part, (uint64_t)SN_NET_PART), (uint64_t)pieces);
	}
	pieces = SN_MAX_OF(1u, SN_MIN_OF(pieces, (uint32_t)SN_WIRE_PIECES));
	p->room = pieces * frag;
	p->blocks = (p->len - p->start + p->room - 1) / p->room;
	p->next_block = 0;
}

static struct sn_net_lane *lane_of(const struct sn_net_block *b)
{
	return &b->pull->link->lane[b->lane];
}

/* These bytes of the block are no longer under way. */
static void release(struct sn_net_block *b, uint32_t bytes)
{
	b->pull->link->net->port[b->port].asked -= bytes;
	lane_of(b)->asked_bytes -= bytes;
	b->bytes -= bytes;
}

static void block_drop(struct sn_net_pull *p, struct sn_net_block *b)
{
	struct sn_net_lane *lane = lane_of(b);

	release(b, b->bytes);
	b->active = false;
	sn_list_del(&b->node);
	if (sn_list_empty(&lane->asked))
		sn_model_idle(&lane->model, p->len, p->link->net->now);
}

/* Out of all lists; the caller frees or keeps it. */
static void unlist(struct sn_net_pull *p)
{
	for (unsigned i = 0; i < SN_NET_BLOCKS; i++)
		if (p->block[i].active)
			block_drop(p, &p->block[i]);
	sn_list_del(&p->node);
	sn_list_del(&p->sched_node);
	sn_net_table_del(&p->link->net->pull_table, p->number);
}

static void finish(struct sn_net_pull *p)
{
	struct sn_net_link *l = p->link;
	struct sn_net *n = l->net;
	struct sn_req *req = p->req;

	unlist(p);
	sn_net_done_post(l, p->done, 0);
	if (n->quiet) {
		p->status = 0;
		sn_list_add_tail(&n->ended_pulls, &p->node);
		return;
	}
	free(p);
	sn_core_pulled(req, 0);
}

void sn_net_pull_end(struct sn_net_link *l, int status)
{
	while (!sn_list_empty(&l->pulls)) {
		struct sn_net_pull *p = sn_container(sn_net_pop(&l->pulls), struct sn_net_pull, node);
		struct sn_req *req = p->req;
		if (p->kernel)
			sn_kpull_cancel(l->net->kernel, p);
		unlist(p);
		free(p->done);
		free(p);
		if (status)
			sn_core_pulled(req, status);
	}
	if (l->kernel)
		sn_kpull_unlink(l->net->kernel, l);
}

/* ---- asking ---- */

/* The way by which the PULL for this lane leaves: where its answers come in, if that is up. */
static struct sn_net_way *way_of(struct sn_net_link *l, unsigned lane)
{
	struct sn_net_way *w = &l->way[l->lane[lane].port];

	return w->state == SN_WAY_UP ? w : sn_net_way_main(l);
}

/* Ask for what the block misses. */
static void ask(struct sn_net_pull *p, struct sn_net_block *b)
{
	struct sn_net_link *l = p->link;
	struct sn_net_lane *lane = lane_of(b);
	struct sn_net_way *way = way_of(l, b->lane);
	struct sn_wire_pull *w = sn_net_out_ctrl(way, SN_WIRE_PULL, sizeof(*w));

	b->round = ++l->round;
	b->asked_at = l->net->now;
	b->later = 0;
	b->end_seen = false;
	b->last = (uint8_t)(63 - __builtin_clzll(b->missing));
	sn_list_del(&b->node);
	sn_list_add_tail(&lane->asked, &b->node);
	w->rdv = htole32(p->rdv);
	w->pull = htole32(p->number);
	w->offset = htole64(sn_net_block_start(p, b));
	w->end = htole64(sn_net_block_end(p, b));
	w->want = htole64(b->missing);
	w->frag = htole32(b->frag);
	w->round = htole32(b->round);
	w->rail = b->lane;
	w->rate = htole32((uint32_t)SN_MIN_OF(sn_model_rate_of(&lane->model, p->len, l->net->now) >> 10,
					      (uint64_t)UINT32_MAX));
	sn_net_out_seal(way->port, &l->tx_key);
	l->net->counts[SN_NC_TX_PULL]++;
	sn_net_arm(l->net, l->net->now + sn_net_rto(&lane->rtt, lane->backoff));
}

static struct sn_net_block *free_block(struct sn_net_pull *p)
{
	for (unsigned i = 0; i < SN_NET_BLOCKS; i++)
		if (!p->block[i].active)
			return &p->block[i];
	return NULL;
}

/* All of the block is missing, in pieces as long as its lane carries. A block of more than 64 pieces cannot be asked for. */
static void block_cut(struct sn_net_pull *p, struct sn_net_block *b)
{
	uint64_t bytes = sn_net_block_end(p, b) - sn_net_block_start(p, b);

	b->frag = SN_MAX_OF(sn_net_lane_frag(p, b->lane), (p->room + SN_WIRE_PIECES - 1) / SN_WIRE_PIECES);
	unsigned pieces = (unsigned)((bytes + b->frag - 1) / b->frag);
	b->missing = pieces == 64 ? UINT64_MAX : (1ULL << pieces) - 1;
	b->bytes = (uint32_t)bytes;
}

/* The block's missing bytes count as under way on this lane from now on. */
static void block_on(struct sn_net_block *b, unsigned lane)
{
	struct sn_net_link *l = b->pull->link;

	b->lane = (uint8_t)lane;
	b->port = l->lane[lane].port;
	l->net->port[b->port].asked += b->bytes;
	l->lane[lane].asked_bytes += b->bytes;
	b->pull->given[lane] += b->bytes;
}

static void ask_next(struct sn_net_pull *p, struct sn_net_block *b, unsigned lane)
{
	*b = (struct sn_net_block){
		.pull = p, .active = true, .fresh = true, .index = p->next_block++, .lane = (uint8_t)lane};
	sn_list_init(&b->node);
	block_cut(p, b);
	block_on(b, lane);
	ask(p, b);
}

/* Another lane is to bring what the block misses. Its pieces stay as they are, unless they are too long there. */
void sn_net_block_move(struct sn_net_block *b, unsigned lane)
{
	struct sn_net_pull *p = b->pull;
	struct sn_net_lane *from = lane_of(b);
	uint32_t bytes = b->bytes;

	release(b, bytes);
	p->given[b->lane] -= SN_MIN_OF(p->given[b->lane], (uint64_t)bytes);
	sn_list_del(&b->node);
	if (sn_list_empty(&from->asked))
		from->model.running = false;
	b->bytes = bytes;
	b->lane = (uint8_t)lane;
	if (b->frag > sn_net_lane_frag(p, lane)) {
		p->left += sn_net_block_end(p, b) - sn_net_block_start(p, b) - bytes;
		block_cut(p, b);
	}
	block_on(b, lane);
	b->fresh = false;
	b->moves++;
	ask(p, b);
}

/* The fetch that may ask next: the one with least left, or, at every fourth turn, the one that has waited longest. */
static struct sn_net_pull *choose(struct sn_net *n, struct sn_net_block **block)
{
	struct sn_net_pull *best = NULL;

	sn_list_for_each (at, &n->pulls) {
		struct sn_net_pull *p = sn_container(at, struct sn_net_pull, sched_node);
		if (p->next_block >= p->blocks || p->link->state != SN_LINK_OPEN || p->wait ||
		    (best && best->left <= p->left))
			continue;
		struct sn_net_block *b = free_block(p);
		if (b == NULL)
			continue;
		best = p;
		*block = b;
		if (n->turn % 4 == 3)
			break;
	}
	return best;
}

void sn_net_pull_schedule(struct sn_net *n)
{
	struct sn_net_block *b;
	struct sn_net_pull *p;

	if (sn_list_empty(&n->pulls))
		return;
	while (sn_net_any_room(n) && (p = choose(n, &b)) != NULL) {
		int lane = sn_net_lane_for(p);
		if (lane < 0) {
			p->wait = true; /* the others of this round may find room */
			continue;
		}
		n->turn++;
		ask_next(p, b, (unsigned)lane);
	}
	sn_list_for_each (at, &n->pulls) {
		p = sn_container(at, struct sn_net_pull, sched_node);
		p->wait = false;
		if (n->strategy.block == sn_strategy_split.block && p->next_block >= p->blocks &&
		    p->link->state == SN_LINK_OPEN && (n->cfg.ports > 1 || p->link->part_count > 1))
			while (sn_net_lane_steal(p->link))
				;
	}
}

/* A loss: less under way, at most once a round trip. */
static void credit_cut(struct sn_net_link *l, unsigned k)
{
	struct sn_net *n = l->net;
	struct sn_net_lane *lane = &l->lane[k];
	struct sn_net_port *port = &n->port[lane->port];

	if (n->now < lane->credit_cut_at)
		return;
	lane->credit_cut_at = n->now + lane->rtt.srtt;
	port->credit = SN_MAX_OF(port->credit - port->credit / 4, SN_NET_CREDIT_MIN);
}

/* ---- from above ---- */

static struct sn_net_pull *pull_new(struct sn_net_link *l, const struct sn_rdv *rdv, uint64_t len)
{
	struct sn_net *n = l->net;
	struct sn_net_pull *p = calloc(1, sizeof(*p));

	if (p == NULL || (p->done = sn_net_done_new(rdv->number)) == NULL) {
		free(p);
		return NULL;
	}
	p->number = sn_net_table_add(&n->pull_table, p);
	if (p->number == 0) {
		free(p->done);
		free(p);
		return NULL;
	}
	p->link = l;
	p->rdv = rdv->number;
	p->len = p->left = len;
	p->frag = SN_MIN_OF(rdv->frag, n->mtu - HEAD);
	uint32_t shortest = p->frag;
	for (unsigned k = 0; k < SN_NET_RAILS; k++)
		if (l->lane[k].known)
			shortest = SN_MIN_OF(shortest, sn_net_lane_frag(p, k));
	shape(p, shortest);
	return p;
}

void sn_net_refuse(struct sn_net_link *l, struct sn_rdv *rdv, int status)
{
	struct sn_net_msg *done = sn_net_done_new(rdv->number);

	sn_net_enter(l->net);
	sn_list_del(&rdv->node);
	free(rdv);
	if (l->state != SN_LINK_OPEN)
		free(done);
	else if (done)
		sn_net_done_post(l, done, status);
	else /* the sender would wait for ever */
		sn_net_gone(l, SN_ERR_NOMEM);
	sn_net_leave(l->net);
}

void sn_net_pull_kernel_done(struct sn_net_pull *p, uint64_t done)
{
	p->left = p->len - done;
	if (p->left == 0) {
		finish(p);
		return;
	}
	p->start = done;
	shape(p, SN_WIRE_BASE_MTU - HEAD); /* whatever the reason, these come through */
	sn_list_add_tail(&p->link->net->pulls, &p->sched_node);
}

void sn_net_pull(struct sn_net_link *l, struct sn_rdv *rdv, const struct iovec *iov, uint32_t iov_count,
		 uint64_t len, struct sn_req *req)
{
	struct sn_net *n = l->net;
	struct sn_net_pull *p = NULL;
	int status = l->state != SN_LINK_OPEN ? SN_ERR_PEER_GONE : 0;

	sn_net_enter(n);
	if (status == 0 && len > 0 && (p = pull_new(l, rdv, len)) == NULL)
		status = SN_ERR_NOMEM;
	if (p == NULL) {
		sn_net_refuse(l, rdv, status);
		sn_core_pulled(req, status);
	} else {
		sn_list_del(&rdv->node);
		free(rdv);
		p->req = req;
		p->iov = iov;
		p->iov_count = iov_count;
		sn_list_add_tail(&l->pulls, &p->node);
		sn_list_init(&p->sched_node);
		if (n->kernel == NULL || !sn_kpull_start(n->kernel, l, p)) {
			sn_list_add_tail(&n->pulls, &p->sched_node);
			sn_net_pull_schedule(n);
		}
	}
	sn_net_leave(n);
}

/* ---- DATA ---- */

/* Ask again for a block of which three or more later frames came, past its end. */
static bool lost(struct sn_net_block *b)
{
	if (b->later < 3 || !b->end_seen || b->missing == 0)
		return false;
	struct sn_net_link *l = b->pull->link;
	l->net->counts[SN_NC_AGAIN_EVIDENCE]++;
	credit_cut(l, b->lane);
	b->fresh = false;
	ask(b->pull, b);
	return true;
}

/* What a piece of this round says about blocks asked for earlier on its lane. ask() moves a block to the end of the list. */
static void evidence(struct sn_net_lane *lane, uint32_t round)
{
	sn_list_for_each_safe (at, &lane->asked) {
		struct sn_net_block *b = sn_container(at, struct sn_net_block, node);
		if ((int32_t)(round - b->round) <= 0)
			break;
		b->later++;
		b->end_seen = true;
		lost(b);
	}
}

static void block_whole(struct sn_net_pull *p, struct sn_net_block *b)
{
	struct sn_net_port *port = &p->link->net->port[b->port];
	uint64_t most = SN_MAX_OF(port->driver->room(port->drv), SN_NET_CREDIT_MIN);

	block_drop(p, b);
	port->credit = SN_MIN_OF(port->credit + p->room / 8, most);
	if (p->left == 0)
		finish(p);
}

/* The block and piece that this DATA is, or NULL if it is none that is missing. */
struct sn_net_block *sn_net_locate(struct sn_net_pull *p, uint64_t offset, uint32_t len, unsigned *piece,
				   enum sn_drop *why)
{
	*why = SN_DROP_RANGE;
	if (offset >= p->len)
		return NULL;
	*why = SN_DROP_PULL;
	if (offset < p->start)
		return NULL;
	uint64_t index = (offset - p->start) / p->room;
	for (unsigned i = 0; i < SN_NET_BLOCKS; i++) {
		struct sn_net_block *b = &p->block[i];
		if (!b->active || b->index != index)
			continue;
		uint64_t in = offset - sn_net_block_start(p, b);
		if (in % b->frag || len != SN_MIN_OF((uint64_t)b->frag, sn_net_block_end(p, b) - offset)) {
			*why = b->moves ? SN_DROP_PULL : SN_DROP_RANGE;
			return NULL;
		}
		*piece = (unsigned)(in / b->frag);
		return b->missing >> *piece & 1 ? b : NULL;
	}
	return NULL;
}

/* What the arrival of a piece on its lane teaches. */
static void learn(struct sn_net_link *l, struct sn_net_block *b, struct sn_net_lane *lane, uint32_t round,
		  uint32_t len)
{
	uint64_t now = l->net->now;

	if (b->fresh && b->round == round) {
		bool idle = lane->asked.next == &b->node && lane->data_at <= b->asked_at;
		sn_net_rtt_add(&lane->rtt, now - b->asked_at);
		if (idle)
			sn_model_latency(&lane->model, now - b->asked_at);
	}
	l->net->hot = l;
	lane->data_at = now;
	lane->bytes += len;
	lane->backoff = 0;
	lane->retries = 0;
	if (l->net->late)
		lane->late_bytes += len;
	else if (!sn_list_empty(&lane->asked))
		sn_model_arrived(&lane->model, b->pull->len, len, now);
}

void sn_net_data_in(struct sn_net_link *l, const struct sn_wire_data *d, const uint8_t *body, uint32_t len)
{
	struct sn_net *n = l->net;
	struct sn_net_pull *p = sn_net_table_get(&n->pull_table, le32toh(d->pull));
	struct sn_net_lane *lane = &l->lane[d->h.rail];
	uint32_t round = le32toh(d->round);
	enum sn_drop why = SN_DROP_PULL;
	unsigned piece;
	struct sn_net_block *b = NULL;

	if (p && p->link == l)
		b = sn_net_locate(p, le64toh(d->offset), len, &piece, &why);
	if (b == NULL) {
		n->drops[why]++;
		return;
	}
	n->counts[SN_NC_RX_DATA]++;
	if (body == (const uint8_t *)(d + 1))
		sn_iov_write(p->iov, p->iov_count, le64toh(d->offset), body, len);
	learn(l, b, lane, round, len);
	b->fresh = false;
	b->tries = 0;
	b->missing &= ~(1ULL << piece);
	bool own_lane = b->lane == d->h.rail; /* not one that the peer chose for want of it */
	release(b, len);
	p->left -= len;
	if (b->round == round && b->missing) {
		b->end_seen |= piece >= b->last;
		b->later += piece > (unsigned)__builtin_ctzll(b->missing);
		lost(b);
	}
	if (b->missing == 0)
		block_whole(p, b);
	if (own_lane)
		evidence(lane, round);
}

/* ---- timer ---- */

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
			block_drop(p, &p->block[i]);
	p->left = p->len - p->start; /* pieces that had come behind the gap come once more */
	shape(p, SN_MIN_OF(p->frag, SN_WIRE_BASE_MTU - HEAD));
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
	uint64_t due = SN_MAX_OF(b->asked_at, lane->data_at) + sn_net_rto(&lane->rtt, lane->backoff);
	if (n->now < due)
		return due;
	n->counts[SN_NC_AGAIN_TIMER]++;
	credit_cut(l, k);
	b->fresh = false;
	if (lane->backoff < SN_NET_BACKOFF)
		lane->backoff++;
	b->tries++;
	bool alive = lane->heard_at > b->asked_at; /* something came, so the path is there; but no DATA */
	int other = sn_net_lane_other(l, k, b->pull->len);
	bool too_long = alive && b->frag > SN_WIRE_BASE_MTU - HEAD && b->tries >= (other < 0 ? 4 : 2);
	if (other >= 0) { /* at the next firing it will be known whether these two carry short frames */
		sn_net_probe_try(way_of(l, k));
		sn_net_probe_try(way_of(l, (unsigned)other));
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
		ask(b->pull, b);
	return n->now + sn_net_rto(&lane->rtt, lane->backoff);
}

uint64_t sn_net_pull_timer(struct sn_net_link *l)
{
	uint64_t next = SN_NET_NEVER;

	for (unsigned k = 0; k < SN_NET_RAILS; k++)
		if (l->lane[k].known)
			next = SN_MIN_OF(next, lane_timer(l, k));
	return next;
}
