/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetching a rendezvous: the receiver asks for blocks of pieces, and only it decides how many bytes are under way to it,
 * over all its peers (the credit). docs/protocol.md has the rules for evidence, timers and pacing.
 *
 * Blocks asked for stand in link->asked in the order of their rounds. A peer answers PULLs in the order in which they
 * reach it, so DATA of round r is news about every block before r on that list: normally there is none, and looking
 * costs nothing.
 *
 * Budget of a piece: found by two table look-ups, copied once from the driver's buffer into the application's.
 */
#include "net/net.h"
#include <stdlib.h>

static uint64_t block_bytes(const struct sn_net_pull *p)
{
	return (uint64_t)p->pieces * p->frag;
}

/*
 * The shape of what is left from p->start on, in pieces of this size. A block fits into one datagram that the kernel cuts
 * up, and fills it: a call costs as much as copying 30 KiB does, so smaller blocks, though sender and receiver would
 * then work side by side, take longer (64 KiB in four parts: 22 us, in one: 17).
 */
static void shape(struct sn_net_pull *p, uint32_t frag)
{
	p->frag = frag;
	p->pieces = SN_NET_BLOCK_BYTES / (frag + (uint32_t)sizeof(struct sn_wire_data));
	p->pieces = SN_MAX_OF(1u, SN_MIN_OF(p->pieces, (uint32_t)SN_WIRE_PIECES));
	p->blocks = (p->len - p->start + block_bytes(p) - 1) / block_bytes(p);
	p->next_block = 0;
}

static void block_drop(struct sn_net_pull *p, struct sn_net_block *b)
{
	p->link->net->asked -= b->bytes;
	b->bytes = 0;
	b->active = false;
	sn_list_del(&b->node);
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
		unlist(p);
		free(p->done);
		free(p);
		if (status)
			sn_core_pulled(req, status);
	}
}

/* ---- asking ---- */

/* Ask for what the block misses. */
static void ask(struct sn_net_pull *p, struct sn_net_block *b)
{
	struct sn_net_link *l = p->link;
	struct sn_wire_pull *w = sn_net_out_ctrl(l, SN_WIRE_PULL, sizeof(*w));

	b->round = ++l->round;
	b->asked_at = l->net->now;
	b->later = 0;
	b->end_seen = false;
	b->last = (uint8_t)(63 - __builtin_clzll(b->missing));
	sn_list_del(&b->node);
	sn_list_add_tail(&l->asked, &b->node);
	w->rdv = htole32(p->rdv);
	w->pull = htole32(p->number);
	w->offset = htole64(p->start + b->index * block_bytes(p));
	w->end = htole64(p->len);
	w->want = htole64(b->missing);
	w->frag = htole32(p->frag);
	w->round = htole32(b->round);
	sn_net_out_seal(l->net, &l->tx_key);
	l->net->counts[SN_NC_TX_PULL]++;
	sn_net_arm(l->net, l->net->now + sn_net_rto(&l->pull_rtt, l->pull_backoff));
}

static struct sn_net_block *free_block(struct sn_net_pull *p)
{
	for (unsigned i = 0; i < SN_NET_BLOCKS; i++)
		if (!p->block[i].active)
			return &p->block[i];
	return NULL;
}

static void ask_next(struct sn_net_pull *p, struct sn_net_block *b)
{
	uint64_t from = p->start + p->next_block * block_bytes(p);
	uint64_t bytes = SN_MIN_OF(block_bytes(p), p->len - from);
	unsigned pieces = (unsigned)((bytes + p->frag - 1) / p->frag);

	*b = (struct sn_net_block){
		.pull = p, .active = true, .fresh = true, .index = p->next_block++, .bytes = (uint32_t)bytes};
	b->missing = pieces == 64 ? UINT64_MAX : (1ULL << pieces) - 1;
	sn_list_init(&b->node);
	p->link->net->asked += bytes;
	ask(p, b);
}

/* The fetch that may ask next: the one with least left, or, at every fourth turn, the one that has waited longest. */
static struct sn_net_pull *choose(struct sn_net *n, struct sn_net_block **block)
{
	struct sn_net_pull *best = NULL;

	sn_list_for_each (at, &n->pulls) {
		struct sn_net_pull *p = sn_container(at, struct sn_net_pull, sched_node);
		if (p->next_block >= p->blocks || p->link->state != SN_LINK_OPEN ||
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

	/* With nothing under way one block is asked for, however small the credit. */
	while (!n->full && (n->asked == 0 || n->asked + SN_NET_BLOCK_BYTES <= n->credit) &&
	       (p = choose(n, &b)) != NULL) {
		n->turn++;
		ask_next(p, b);
	}
}

/* A loss: less under way, at most once a round trip. */
static void credit_cut(struct sn_net_link *l)
{
	struct sn_net *n = l->net;

	if (n->now < l->credit_cut_at)
		return;
	l->credit_cut_at = n->now + l->pull_rtt.srtt;
	n->credit = SN_MAX_OF(n->credit - n->credit / 4, SN_NET_CREDIT_MIN);
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
	shape(p, SN_MIN_OF(rdv->frag, n->mtu - (uint32_t)sizeof(struct sn_wire_data)));
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
		sn_list_add_tail(&n->pulls, &p->sched_node);
		sn_net_pull_schedule(n);
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
	credit_cut(l);
	b->fresh = false;
	ask(b->pull, b);
	return true;
}

/* What a piece of this round says about blocks asked for earlier. ask() moves a block to the end of the list. */
static void evidence(struct sn_net_link *l, uint32_t round)
{
	sn_list_for_each_safe (at, &l->asked) {
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
	struct sn_net *n = p->link->net;
	uint64_t most = SN_MAX_OF(n->cfg.driver->room(n->cfg.drv), SN_NET_CREDIT_MIN);

	block_drop(p, b);
	n->credit = SN_MIN_OF(n->credit + block_bytes(p) / 8, most);
	if (p->left == 0)
		finish(p);
}

/* The block and piece that this DATA is, or NULL if it is none that is missing. */
static struct sn_net_block *locate(struct sn_net_pull *p, uint64_t offset, uint32_t len, unsigned *piece,
				   enum sn_drop *why)
{
	*why = SN_DROP_RANGE;
	if (offset < p->start || offset >= p->len)
		return NULL;
	uint64_t index = (offset - p->start) / block_bytes(p), in = (offset - p->start) % block_bytes(p);
	if (in % p->frag || len != SN_MIN_OF((uint64_t)p->frag, p->len - offset))
		return NULL;
	*why = SN_DROP_PULL;
	*piece = (unsigned)(in / p->frag);
	for (unsigned i = 0; i < SN_NET_BLOCKS; i++) {
		struct sn_net_block *b = &p->block[i];
		if (b->active && b->index == index)
			return b->missing >> *piece & 1 ? b : NULL;
	}
	return NULL;
}

void sn_net_data_in(struct sn_net_link *l, const struct sn_wire_data *d, uint32_t len)
{
	struct sn_net *n = l->net;
	struct sn_net_pull *p = sn_net_table_get(&n->pull_table, le32toh(d->pull));
	uint32_t round = le32toh(d->round);
	enum sn_drop why = SN_DROP_PULL;
	unsigned piece;
	struct sn_net_block *b = NULL;

	if (p && p->link == l)
		b = locate(p, le64toh(d->offset), len, &piece, &why);
	if (b == NULL) {
		n->drops[why]++;
		return;
	}
	n->counts[SN_NC_RX_DATA]++;
	sn_iov_write(p->iov, p->iov_count, le64toh(d->offset), d + 1, len);
	if (b->fresh && b->round == round)
		sn_net_rtt_add(&l->pull_rtt, n->now - b->asked_at);
	b->fresh = false;
	b->tries = 0;
	l->pull_heard = n->now;
	l->pull_backoff = 0;
	b->missing &= ~(1ULL << piece);
	b->bytes -= len;
	n->asked -= len;
	p->left -= len;
	if (b->round == round && b->missing) {
		b->end_seen |= piece >= b->last;
		b->later += piece > (unsigned)__builtin_ctzll(b->missing);
		lost(b);
	}
	if (b->missing == 0)
		block_whole(p, b);
	evidence(l, round);
}

/* ---- timer ---- */

/* Pieces of this size do not come through: go on in the size that always does, from the first byte still missing. */
static void shrink(struct sn_net_pull *p)
{
	uint64_t first = p->next_block;

	for (unsigned i = 0; i < SN_NET_BLOCKS; i++)
		if (p->block[i].active)
			first = SN_MIN_OF(first, p->block[i].index);
	p->start += first * block_bytes(p);
	for (unsigned i = 0; i < SN_NET_BLOCKS; i++)
		if (p->block[i].active)
			block_drop(p, &p->block[i]);
	p->left = p->len - p->start; /* pieces that had come behind the gap come once more */
	shape(p, SN_WIRE_BASE_MTU - (uint32_t)sizeof(struct sn_wire_data));
	sn_net_pull_schedule(p->link->net);
}

/*
 * Only the block asked for longest ago is asked for again: its answer is evidence about all the others. Time counts
 * from the last DATA of this peer, for it answers in order.
 */
uint64_t sn_net_pull_timer(struct sn_net_link *l)
{
	struct sn_net *n = l->net;

	if (sn_list_empty(&l->asked))
		return SN_NET_NEVER;
	struct sn_net_block *b = sn_container(l->asked.next, struct sn_net_block, node);
	uint64_t due = SN_MAX_OF(b->asked_at, l->pull_heard) + sn_net_rto(&l->pull_rtt, l->pull_backoff);
	if (n->now < due)
		return due;
	n->counts[SN_NC_AGAIN_TIMER]++;
	credit_cut(l);
	b->fresh = false;
	if (l->pull_backoff < SN_NET_BACKOFF)
		l->pull_backoff++;
	bool alive = l->heard_at > b->asked_at; /* something came, so the path is there; but no DATA */
	if (++b->tries >= 2)
		sn_net_out_ack(l, SN_WIRE_F_ANSWER);
	if (b->tries >= 4 && alive && b->pull->frag > SN_WIRE_BASE_MTU - sizeof(struct sn_wire_data))
		shrink(b->pull);
	else
		ask(b->pull, b);
	return n->now + sn_net_rto(&l->pull_rtt, l->pull_backoff);
}
