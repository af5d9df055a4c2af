/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetching: the pieces that come, asked for (DATA) or not (PUSH), and what each says about those that should have come before
 * it. pull.c has the picture.
 *
 * Budget of a piece: two table look-ups (a walk over the fetches from its peer, if it was pushed), one copy unless the driver
 * has put it where it belongs. It is found before its payload is checked, so that copy and check take one reading (input.c).
 */
#include "net/net.h"

/* Ask again for a block of which three or more later frames came, past its end. */
static bool lost(struct sn_net_block *b)
{
	if (b->later < 3 || !b->end_seen || b->missing == 0)
		return false;
	struct sn_net_link *l = b->pull->link;
	l->net->counts[SN_NC_AGAIN_EVIDENCE]++;
	sn_net_credit_cut(l, b->lane);
	b->fresh = false;
	sn_net_ask(b->pull, b);
	return true;
}

/*
 * What a piece of this round says about blocks asked for earlier on its lane. sn_net_ask() moves a block to the end
 * of the list. Pieces that were pushed may have been sent before a PULL arrived that we sent before: they tell of
 * their own fetch only.
 */
static void evidence(struct sn_net_lane *lane, uint32_t round, const struct sn_net_pull *pushed)
{
	sn_list_for_each_safe (at, &lane->asked) {
		struct sn_net_block *b = sn_container(at, struct sn_net_block, node);
		if ((int32_t)(round - b->round) <= 0)
			break;
		if (pushed && (b->pull != pushed || !b->pushed))
			continue;
		b->later++;
		b->end_seen = true;
		lost(b);
	}
}

static void block_whole(struct sn_net_pull *p, struct sn_net_block *b)
{
	struct sn_net_port *port = &p->link->net->port[b->port];
	uint64_t most = SN_MAX_OF(port->driver->room(port->drv), SN_NET_CREDIT_MIN);

	if (b->trial)
		sn_model_least(&sn_net_lane_of(b)->model, p->len,
			       sn_net_block_end(p, b) - sn_net_block_start(p, b),
			       p->link->net->now - b->asked_at);
	sn_net_block_drop(p, b);
	port->credit = SN_MIN_OF(port->credit + p->room / 8, most);
	if (p->left == 0)
		sn_net_pull_finish(p);
}

/* The block and piece that these bytes are, or NULL if they are none that is missing. */
static struct sn_net_block *locate(struct sn_net_pull *p, uint64_t offset, uint32_t len, unsigned *piece,
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
	if (now > lane->data_at + SN_NET_RTO_ONE)
		sn_net_arm(l->net, now + SN_NET_RTO_ONE); /* from now on the timer is shorter (again.c) */
	lane->data_at = now;
	lane->bytes += len;
	lane->backoff = 0;
	lane->retries = 0;
	if (l->net->late)
		lane->late_bytes += len;
	else if (!sn_list_empty(&lane->asked))
		sn_model_arrived(&lane->model, b->pull->len, len, now);
}

/* The piece fills a hole of the block. */
static void fill(struct sn_net_block *b, unsigned piece, uint32_t len)
{
	b->fresh = false;
	b->tries = 0;
	b->missing &= ~(1ULL << piece);
	sn_net_block_release(b, len);
	b->pull->left -= len;
}

/* It came in its turn of the block's pieces, as asked for last: what of them should have come before? */
static void in_turn(struct sn_net_block *b, unsigned piece)
{
	if (b->missing == 0)
		return;
	b->end_seen |= piece >= b->last;
	b->later += piece > (unsigned)__builtin_ctzll(b->missing);
	lost(b);
}

/* The fetch of this rendezvous, if it has begun. */
static struct sn_net_pull *pull_of(struct sn_net_link *l, uint32_t rdv)
{
	sn_list_for_each (at, &l->pulls) {
		struct sn_net_pull *p = sn_container(at, struct sn_net_pull, node);
		if (p->rdv == rdv)
			return p;
	}
	return NULL;
}

/*
 * Not an answer to an older fetch, which has ended: numbers come back after 2,048 fetches, and a rail may be as late
 * as that.
 */
static bool answers(const struct sn_net_pull *p, uint32_t round)
{
	return round - p->first_round <= p->link->round - p->first_round;
}

struct sn_net_found sn_net_find(struct sn_net_link *l, const struct sn_wire_data *d, uint32_t len)
{
	const struct sn_wire_push *push = (const void *)d;
	bool asked = d->h.type == SN_WIRE_DATA, fits = true;
	struct sn_net_found f = {.why = asked ? SN_DROP_PULL : SN_DROP_PUSH};

	if (asked) {
		f.pull = sn_net_table_get(&l->net->pull_table, le32toh(d->pull));
		fits = f.pull && f.pull->link == l && answers(f.pull, le32toh(d->round));
	} else {
		f.pull = pull_of(l, le32toh(push->rdv));
		fits = f.pull && le32toh(d->h.seq) - f.pull->seq - 1 < SN_NET_STASH_SEQ;
	}
	if (fits)
		f.block = locate(f.pull, le64toh(d->offset), len, &f.piece, &f.why);
	if (!asked)
		f.why = SN_DROP_PUSH;
	return f;
}

void sn_net_data_in(struct sn_net_link *l, const struct sn_wire_data *d, const struct sn_net_found *f,
		    const uint8_t *body, uint32_t len)
{
	struct sn_net *n = l->net;
	struct sn_net_lane *lane = &l->lane[d->h.rail];
	uint32_t round = le32toh(d->round);
	struct sn_net_pull *p = f->pull;
	struct sn_net_block *b = f->block;

	if (b == NULL) {
		n->drops[f->why]++;
		return;
	}
	n->counts[SN_NC_RX_DATA]++;
	if (body == (const uint8_t *)(d + 1))
		sn_iov_write(p->iov, p->iov_count, le64toh(d->offset), body, len);
	learn(l, b, lane, round, len);
	bool own_lane = b->lane == d->h.rail; /* not one that the peer chose for want of it */
	fill(b, f->piece, len);
	if (b->round == round)
		in_turn(b, f->piece);
	if (b->missing == 0)
		block_whole(p, b);
	if (own_lane)
		evidence(lane, round, NULL);
}

void sn_net_piece_in(struct sn_net_pull *p, uint64_t offset, const uint8_t *body, uint32_t len)
{
	enum sn_drop why;
	unsigned piece;
	struct sn_net_block *b = locate(p, offset, len, &piece, &why);

	if (b == NULL)
		return;
	p->link->net->counts[SN_NC_RX_PUSH]++;
	sn_iov_write(p->iov, p->iov_count, offset, body, len);
	fill(b, piece, len);
	if (b->missing == 0)
		sn_net_block_drop(p, b);
}

void sn_net_push_in(struct sn_net_link *l, const struct sn_wire_push *w, const struct sn_net_found *f,
		    const uint8_t *body, uint32_t len)
{
	struct sn_net *n = l->net;
	struct sn_net_lane *lane = &l->lane[w->h.rail];
	struct sn_net_pull *p = f->pull;
	struct sn_net_block *b = f->block;

	if (p == NULL) {
		sn_net_stash(l, w, body, len);
		return;
	}
	if (b == NULL) {
		n->drops[f->why]++;
		return;
	}
	n->counts[SN_NC_RX_PUSH]++;
	if (body == (const uint8_t *)(w + 1))
		sn_iov_write(p->iov, p->iov_count, le64toh(w->offset), body, len);
	uint32_t round = b->round;
	bool pushed = b->pushed;
	learn(l, b, lane, round - 1, len);
	fill(b, f->piece, len);
	if (pushed)
		in_turn(b, f->piece);
	bool over = p->left == 0;
	if (b->missing == 0)
		block_whole(p, b);
	if (pushed && !over)
		evidence(lane, round, p);
}
