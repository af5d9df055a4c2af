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
 * Budget of a piece: found by two table look-ups, copied once from the kernel's buffer into the application's: where
 * the driver can be told beforehand (UDP), by the kernel itself, to the place that sn_net_expect names; else from
 * where the driver put it, by the same reading that checks it. net.rx_placed and net.rx_moved count the guesses that
 * were right and wrong.
 *
 * This file asks; piece.c takes in what comes, again.c has the timers, push.c what comes unasked.
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
void sn_net_pull_shape(struct sn_net_pull *p, uint32_t frag)
{
	uint32_t pieces = sn_wire_block(frag);
	bool several = p->link->net->cfg.ports > 1 || p->link->part_count > 1;

	if (several && p->len - p->start < 4 * SN_NET_BLOCK_BYTES) {
		uint64_t part = (p->len - p->start) / 4 / frag + 1;
		pieces = (uint32_t)SN_MIN_OF(SN_MAX_OF(part, (uint64_t)SN_NET_PART), (uint64_t)pieces);
	}
	p->room = pieces * frag;
	p->blocks = (p->len - p->start + p->room - 1) / p->room;
	p->next_block = 0;
}

/* These bytes of the block are no longer under way. */
void sn_net_block_release(struct sn_net_block *b, uint32_t bytes)
{
	b->pull->link->net->port[b->port].asked -= bytes;
	sn_net_lane_of(b)->asked_bytes -= bytes;
	b->bytes -= bytes;
}

void sn_net_block_drop(struct sn_net_pull *p, struct sn_net_block *b)
{
	struct sn_net_lane *lane = sn_net_lane_of(b);

	sn_net_block_release(b, b->bytes);
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
			sn_net_block_drop(p, &p->block[i]);
	sn_list_del(&p->node);
	sn_list_del(&p->sched_node);
	sn_net_table_del(&p->link->net->pull_table, p->number);
}

/*
 * Will another DONE follow soon, with which one that is due now can go? Of short bodies that come unasked, every
 * other one waits. Not in quiet mode: nobody looks in time for one that a sender may be waiting for.
 */
static bool company(const struct sn_net_link *l)
{
	const struct sn_net_pull *next = sn_container(l->pulls.next, struct sn_net_pull, node);

	return !l->net->quiet && !sn_list_empty(&l->pulls) && next->len <= SN_NET_KEEP_LATE &&
	       next->next_block >= next->blocks;
}

void sn_net_pull_finish(struct sn_net_pull *p)
{
	struct sn_net_link *l = p->link;
	struct sn_net *n = l->net;
	struct sn_req *req = p->req;

	sn_net_lanes_used(p);
	unlist(p);
	sn_net_done_post(l, p->done, 0, sn_list_empty(&l->dones) && (p->lazy || company(l)));
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
struct sn_net_way *sn_net_pull_way(struct sn_net_link *l, unsigned lane)
{
	struct sn_net_way *w = &l->way[l->lane[lane].port];

	return w->state == SN_WAY_UP ? w : sn_net_way_main(l);
}

/*
 * A block of which all is missing, behind those that the frame asks for that is the last in the batch: then that asks
 * for this one, too. A frame costs both sides some 2 us, and a body of 1 MiB has twelve blocks to ask for at once.
 */
static bool ask_also(const struct sn_net_way *way, const struct sn_net_block *b)
{
	const struct sn_net_port *port = way->port;
	const struct sn_net_pull *p = b->pull;

	if (port->out_count == 0 || port->tx[port->out_count - 1].what != SN_TX_PULL)
		return false;
	struct sn_wire_pull *w = port->out[port->out_count - 1].iov[0].iov_base;
	uint64_t blocks = le16toh(w->more) + 1ULL, start = sn_net_block_start(p, b),
		 end = sn_net_block_end(p, b);
	bool whole = (uint64_t)__builtin_popcountll(le64toh(w->want)) * b->frag == p->room;
	bool follows = le32toh(w->pull) == p->number && le64toh(w->offset) + blocks * p->room == start &&
		       le32toh(w->round) + blocks == b->round;
	if (!whole || !follows || le16toh(w->frag) != b->frag || w->rail != b->lane || w->tries || b->tries ||
	    b->bytes != end - start)
		return false;
	w->more = htole16((uint16_t)blocks);
	w->end = htole64(end);
	return true;
}

/* It is sealed when the batch leaves, for ask_also may add to it until then. */
static void pull_out(struct sn_net_way *way, const struct sn_net_block *b)
{
	const struct sn_net_pull *p = b->pull;
	struct sn_net_link *l = p->link;
	struct sn_wire_pull *w = sn_net_out_ctrl(way, SN_WIRE_PULL, sizeof(*w));

	w->rdv = htole32(p->rdv);
	w->pull = htole32(p->number);
	w->offset = htole64(sn_net_block_start(p, b));
	w->end = htole64(sn_net_block_end(p, b));
	w->want = htole64(b->missing);
	w->frag = htole16((uint16_t)b->frag);
	w->round = htole32(b->round);
	w->rail = b->lane;
	w->push = sn_net_push_word(l->net);
	w->tries = (uint8_t)SN_MIN_OF(b->tries, 255u);
	w->silent = b->silent;
	w->rate = htole32(
		(uint32_t)SN_MIN_OF(sn_model_rate_of(&sn_net_lane_of(b)->model, p->len, l->net->now) >> 10,
				    (uint64_t)UINT32_MAX));
	l->net->counts[SN_NC_TX_PULL]++;
}

/* Ask for what the block misses. */
void sn_net_ask(struct sn_net_pull *p, struct sn_net_block *b)
{
	struct sn_net_link *l = p->link;
	struct sn_net_lane *lane = sn_net_lane_of(b);
	struct sn_net_way *way = sn_net_pull_way(l, b->lane);

	b->pushed = false;
	b->round = ++l->round;
	b->asked_at = l->net->now;
	b->later = 0;
	b->end_seen = false;
	b->trial &= b->fresh;
	b->last = (uint8_t)(63 - __builtin_clzll(b->missing));
	sn_list_del(&b->node);
	sn_list_add_tail(&lane->asked, &b->node);
	if (!ask_also(way, b))
		pull_out(way, b);
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
	b->missing = sn_wire_all(pieces);
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
	b->trial = p->link->lane[lane].unused > 0;
	p->link->lane[lane].unused = 0;
	sn_list_init(&b->node);
	block_cut(p, b);
	block_on(b, lane);
	sn_net_ask(p, b);
}

/* The next block comes without being asked for. */
void sn_net_block_pushed(struct sn_net_pull *p, struct sn_net_block *b, unsigned lane, uint32_t frag)
{
	struct sn_net_link *l = p->link;

	*b = (struct sn_net_block){.pull = p,
				   .active = true,
				   .pushed = true,
				   .index = p->next_block++,
				   .frag = frag,
				   .round = ++l->round,
				   .asked_at = l->net->now};
	b->bytes = (uint32_t)(sn_net_block_end(p, b) - sn_net_block_start(p, b));
	unsigned pieces = (b->bytes + frag - 1) / frag;
	b->missing = sn_wire_all(pieces);
	b->last = (uint8_t)(pieces - 1);
	block_on(b, lane);
	sn_list_add_tail(&l->lane[lane].asked, &b->node);
	sn_net_arm(l->net, l->net->now + SN_NET_RTO_MIN);
}

/* Another lane is to bring what the block misses. Its pieces stay as they are, unless they are too long there. */
void sn_net_block_move(struct sn_net_block *b, unsigned lane)
{
	struct sn_net_pull *p = b->pull;
	struct sn_net_lane *from = sn_net_lane_of(b);
	uint32_t bytes = b->bytes;

	sn_net_block_release(b, bytes);
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
	sn_net_ask(p, b);
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
void sn_net_credit_cut(struct sn_net_link *l, unsigned k)
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
	p->seq = rdv->seq;
	p->first_round = l->round + 1;
	p->lazy = rdv->lazy;
	p->len = p->left = len;
	p->frag = SN_MIN_OF(rdv->frag, n->mtu - HEAD);
	uint32_t shortest = p->frag;
	for (unsigned k = 0; k < SN_NET_RAILS; k++)
		if (l->lane[k].known)
			shortest = SN_MIN_OF(shortest, sn_net_lane_frag(p, k));
	sn_net_pull_shape(p, sn_net_push_fits(l, rdv, len) ? rdv->push_frag : shortest);
	return p;
}

void sn_net_refuse(struct sn_net_link *l, struct sn_rdv *rdv, int status)
{
	struct sn_net_msg *done = sn_net_done_new(rdv->number);

	sn_net_enter(l->net);
	sn_net_stash_drop(l, rdv->number);
	sn_list_del(&rdv->node);
	free(rdv);
	if (l->state != SN_LINK_OPEN)
		free(done);
	else if (done)
		sn_net_done_post(l, done, status, false);
	else /* the sender would wait for ever */
		sn_net_gone(l, SN_ERR_NOMEM);
	sn_net_leave(l->net);
}

void sn_net_pull_kernel_done(struct sn_net_pull *p, uint64_t done)
{
	p->left = p->len - done;
	if (p->left == 0) {
		sn_net_pull_finish(p);
		return;
	}
	p->start = done;
	sn_net_pull_shape(p, SN_WIRE_BASE_MTU - HEAD); /* whatever the reason, these come through */
	sn_list_add_tail(&p->link->net->pulls, &p->sched_node);
}

static void begin(struct sn_net_pull *p, const struct sn_rdv *rdv)
{
	struct sn_net *n = p->link->net;

	sn_list_add_tail(&p->link->pulls, &p->node);
	sn_list_init(&p->sched_node);
	if (sn_net_push_fits(p->link, rdv, p->len)) {
		sn_list_add_tail(&n->pulls, &p->sched_node);
		sn_net_push_expect(p, rdv);
		if (p->left == 0) { /* all of it was here */
			sn_net_pull_finish(p);
			return;
		}
	} else {
		sn_net_stash_drop(p->link, p->rdv);
		if (n->kernel == NULL || !sn_kpull_start(n->kernel, p->link, p))
			sn_list_add_tail(&n->pulls, &p->sched_node);
	}
	sn_net_pull_schedule(n);
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
		p->req = req;
		p->iov = iov;
		p->iov_count = iov_count;
		begin(p, rdv);
		sn_list_del(&rdv->node);
		free(rdv);
	}
	sn_net_leave(n);
}
