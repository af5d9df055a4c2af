/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is sent unasked. A rendezvous costs a round trip before the first byte of its body moves, as much as it takes
 * to send 32 to 64 KiB; so the sender lets the beginning follow the announcement at once, as much of it as the
 * receiver has given its word to take (docs/protocol.md, PUSH). The receiver treats these blocks as if it had asked
 * for them, so all that is said of losses, pacing and placing in pull.c holds for them too.
 *
 * What comes before its receive is posted, or before its announcement, is kept in a stash: one for each rendezvous, of which
 * there are never more than SN_NET_STASHES, each as long as the longest push. They are kept for the next use.
 */
#include "net/net.h"
#include <stdlib.h>

#define HALVES (24ULL << 10) /* bytes worth two trains, so that both sides work at once */
#define CALL   (18ULL << 10) /* bytes that could be sent in the time that a call takes besides */

/* ---- sending ---- */

static bool several(const struct sn_net_link *l)
{
	return l->net->cfg.ports > 1 || l->part_count > 1;
}

uint64_t sn_net_push_room(const struct sn_net_link *l)
{
	uint64_t most = SN_MIN_OF(l->push_word, l->push_own);

	return l->state != SN_LINK_OPEN || several(l) ? 0 : most - SN_MIN_OF(most, l->push_used);
}

void sn_net_push_plan(struct sn_net_send *s, const struct sn_net_way *w)
{
	struct sn_net_link *l = s->link;
	uint32_t frag = w->mtu - (uint32_t)sizeof(struct sn_wire_push);
	uint64_t block = (uint64_t)sn_wire_block(frag) * frag;
	uint64_t room = SN_MIN_OF(sn_net_push_room(l), (uint64_t)SN_WIRE_PUSHES * frag);
	uint64_t bytes = s->len <= room ? s->len : room / block * block;

	atomic_store_explicit(&l->net->roomy, bytes == s->len && room - bytes >= s->len,
			      memory_order_relaxed);
	if (bytes == 0 || s->announced)
		return;
	if (bytes == s->len) { /* equally long pieces: then the next body's can stand behind them */
		uint64_t pieces = (bytes + frag - 1) / frag;
		frag = SN_MAX_OF((uint32_t)((bytes + pieces - 1) / pieces), (uint32_t)SN_WIRE_FRAG_MIN);
	}
	s->announced = true;
	s->pushed = bytes;
	s->push_frag = (uint16_t)frag;
	s->push = (uint16_t)((bytes + frag - 1) / frag);
	l->push_used += bytes;
	if (sn_net_keep_plan(s) && s->iov_count > 1) { /* pieces of one segment leave sooner */
		l->net->counts[SN_NC_PACKED] += s->push;
		sn_net_keep_copy(s);
	}
}

void sn_net_push_undo(struct sn_net_send *s, const struct sn_out *out, struct sn_req *req)
{
	sn_net_keep_drop(s);
	atomic_store_explicit(&s->link->net->roomy, false, memory_order_relaxed);
	s->link->push_used -= s->pushed;
	s->pushed = 0;
	s->push = s->push_frag = 0;
	s->announced = s->lazy = false;
	s->req = req;
	s->iov = out->iov;
	s->iov_count = out->iov_count;
}

/*
 * The pieces of each train but the last. Where the sender copies short pieces together, each costs it more than the
 * receiver, who waits for every train; and when the last has come nobody sends any more. So of a lone body that is a
 * short one, though not so short that the one before it still keeps the receiver busy. With long pieces, or more than
 * 256 KiB, that gains nothing.
 */
static uint32_t train_of(const struct sn_net_send *s, const struct sn_net_way *w, uint32_t trains,
			 uint32_t most)
{
	uint32_t equal = (s->push + trains - 1) / trains, call = (uint32_t)(CALL / s->push_frag);
	uint32_t longer = (4 * (s->push + call) + 4 * trains - 2) / (4 * trains - 1);

	if (trains < 2 || w->mtu > w->port->driver->together || s->len > SN_NET_PUSH_ALL ||
	    !sn_net_send_alone(s))
		return equal;
	return SN_MAX_OF(equal, SN_MIN_OF(longer, most));
}

/* The announcement is out: the body follows, a train a job. Without memory it does not, and is asked for. */
void sn_net_push_start(struct sn_net_send *s, struct sn_net_way *w)
{
	struct sn_net_link *l = s->link;
	bool alone = sn_net_send_alone(s);
	uint32_t most = alone && s->pushed ? sn_wire_block(s->push_frag) : SN_WIRE_PIECES;
	uint32_t trains = (s->push + most - 1) / most;

	if (trains < 2 && alone && s->pushed >= HALVES)
		trains = 2;
	uint32_t pieces = trains ? train_of(s, w, trains, most) : 1;
	s->after =
		l->tx_next + (l->open.frame != NULL); /* it may wait there, for want of room in the window */
	for (uint32_t at = 0; at < s->push; at += pieces) {
		struct sn_net_job *job = l->jobs < SN_NET_JOBS ? malloc(sizeof(*job)) : NULL;
		if (job == NULL)
			return;
		uint32_t count = SN_MIN_OF(s->push - at, pieces);
		uint64_t offset = (uint64_t)at * s->push_frag;
		uint64_t end = SN_MIN_OF(offset + (uint64_t)count * s->push_frag, s->len);
		*job = (struct sn_net_job){
			.send = s,
			.way = w,
			.offset = offset,
			.end = end,
			.want = sn_wire_all(count),
			.frag = s->push_frag,
			.push = true,
		};
		s->jobs++;
		l->jobs++;
		sn_list_add_tail(&w->port->jobs, &job->node);
	}
}

/*
 * An announcement that is followed by pieces goes out with them, and with what DONE has waited for company. While
 * others are under way only whole trains leave; what is left joins the next message's, or leaves at the application's
 * next look. 1: the request has ended, for a copy is kept.
 */
int sn_net_push_now(struct sn_net_link *l, struct sn_net_send *s, bool alone)
{
	if (alone)
		sn_net_gather_leave(l);
	sn_net_push_start(s, sn_net_way_main(l));
	l->net->hold = !alone;
	if (l->net->inside == 1)
		sn_net_serve(l->net, !alone);
	if (l->net->inside == 1 && alone)
		sn_net_flush(l->net);
	sn_net_keep_copy(s);
	return s->kept.iov_base != NULL;
}

void sn_net_push_ended(struct sn_net_send *s)
{
	struct sn_net_link *l = s->link;

	sn_net_keep_drop(s);
	l->push_used -= s->pushed;
	if (s->push_lost)
		l->push_own = l->push_own / 2;
	else
		l->push_own = SN_MIN_OF(l->push_own + SN_NET_PUSH_GROW, SN_NET_PUSH);
}

void sn_net_push_asked(struct sn_net_send *s, uint64_t offset, uint64_t want)
{
	unsigned pieces = sn_wire_block(SN_MAX_OF(s->push_frag, (uint16_t)SN_WIRE_FRAG_MIN));

	if (offset < s->pushed && (unsigned)__builtin_popcountll(want) * 4 > pieces)
		s->push_lost = true;
}

void sn_net_push_heard(struct sn_net_link *l, uint8_t word)
{
	l->push_word = word ? SN_MIN_OF(1ULL << SN_MIN_OF(word, SN_WIRE_WORD_MAX), SN_NET_PUSH) : 0;
}

/* ---- what we say ---- */

/*
 * What all may push that send now. One with short frames more: being asked for its bodies would bring them no sooner
 * to where they belong, for the kernel does not put short pieces there (place.c), and each time that it is spent
 * costs a round trip.
 */
static uint64_t word_of(const struct sn_net_port *p, unsigned senders)
{
	bool more = senders < 2 && p->mtu <= p->driver->together;

	return SN_MIN_OF(p->driver->room(p->drv), more ? SN_NET_PUSH : SN_NET_PUSH_ALL);
}

/* Counting the peers that send takes time, and so is done for many words at once. */
uint8_t sn_net_push_word(struct sn_net *n)
{
	unsigned senders = 0;

	if (n->cfg.ports > 1 || n->kernel)
		return 0;
	if (n->word_at && n->now < n->word_at + SN_NET_LATE)
		return n->word;
	n->word_at = n->now;
	sn_list_for_each (at, &n->links) {
		const struct sn_net_link *l = sn_container(at, struct sn_net_link, node);
		senders +=
			!sn_list_empty(&l->rdvs) || !sn_list_empty(&l->pulls) || !sn_list_empty(&l->stashes);
	}
	uint64_t each = word_of(&n->port[0], senders) / SN_MAX_OF(senders, 1u);
	n->word = each < SN_NET_PUSH_LEAST ? 0 : (uint8_t)(63 - __builtin_clzll(each));
	return n->word;
}

/* ---- keeping ---- */

static void stash_put(struct sn_net *n, struct sn_net_stash *s)
{
	sn_list_del(&s->node);
	sn_list_add_tail(&n->stash_spare, &s->node);
}

void sn_net_stash_end(struct sn_net_link *l)
{
	while (!sn_list_empty(&l->stashes))
		stash_put(l->net, sn_container(l->stashes.next, struct sn_net_stash, node));
}

/* Those that nobody has come for in a second are of rendezvous that have ended. */
static void drop_old(struct sn_net *n)
{
	sn_list_for_each (at, &n->links) {
		struct sn_net_link *l = sn_container(at, struct sn_net_link, node);
		sn_list_for_each_safe (s, &l->stashes) {
			struct sn_net_stash *old = sn_container(s, struct sn_net_stash, node);
			if (n->now > old->at + SN_NET_STASH_OLD)
				stash_put(n, old);
		}
	}
}

static struct sn_net_stash *stash_get(struct sn_net *n, uint32_t room)
{
	struct sn_net_stash *s;

	if (sn_list_empty(&n->stash_spare) && n->stashes == SN_NET_STASHES)
		drop_old(n);
	if (!sn_list_empty(&n->stash_spare)) {
		s = sn_container(sn_net_pop(&n->stash_spare), struct sn_net_stash, node);
		if (s->room >= room)
			return s;
		free(s);
		n->stashes--;
	}
	if (n->stashes == SN_NET_STASHES || (s = malloc(sizeof(*s) + room)) == NULL)
		return NULL;
	n->stashes++;
	s->room = room;
	return s;
}

/* Has this piece come? */
static bool has(const struct sn_net_stash *s, unsigned piece)
{
	return s->have[piece / 64] >> (piece % 64) & 1;
}

static struct sn_net_stash *stash_find(struct sn_net_link *l, uint32_t rdv)
{
	sn_list_for_each (at, &l->stashes) {
		struct sn_net_stash *s = sn_container(at, struct sn_net_stash, node);
		if (s->rdv == rdv)
			return s;
	}
	return NULL;
}

static struct sn_net_stash *stash_new(struct sn_net_link *l, const struct sn_wire_push *w)
{
	struct sn_net *n = l->net;
	uint32_t frag = le16toh(w->frag), count = le16toh(w->count), bytes = frag * count;
	struct sn_net_stash *s;

	if (bytes > SN_NET_PUSH + frag)
		return NULL;
	s = stash_get(n, (uint32_t)SN_MAX_OF((uint64_t)bytes, SN_NET_PUSH + SN_WIRE_BASE_MTU));
	if (s == NULL)
		return NULL;
	*s = (struct sn_net_stash){.rdv = le32toh(w->rdv),
				   .seq = le32toh(w->h.seq),
				   .frag = frag,
				   .count = count,
				   .room = s->room,
				   .at = n->now};
	sn_list_init(&s->node);
	sn_list_add_tail(&l->stashes, &s->node);
	return s;
}

/*
 * All pieces of one rendezvous carry one number of a MSG frame. Where they differ and the number of the rendezvous
 * does not, that has come back after 2,048 others, and the older one has ended: of it nothing is kept, nor put beside
 * the newer one's.
 */
void sn_net_stash(struct sn_net_link *l, const struct sn_wire_push *w, const uint8_t *body, uint32_t len)
{
	uint32_t frag = le16toh(w->frag), count = le16toh(w->count);
	uint64_t offset = le64toh(w->offset);
	struct sn_net *n = l->net;

	if (frag < SN_WIRE_FRAG_MIN || count == 0 || count > SN_WIRE_PUSHES || offset % frag ||
	    offset / frag >= count || len == 0 ||
	    (len != frag && (len > frag || offset / frag + 1 != count))) {
		n->drops[SN_DROP_RANGE]++;
		return;
	}
	struct sn_net_stash *s = stash_find(l, le32toh(w->rdv));
	if (s && (int32_t)(le32toh(w->h.seq) - s->seq) > 0) {
		stash_put(n, s);
		s = NULL;
	}
	if (s == NULL)
		s = stash_new(l, w);
	unsigned piece = (unsigned)(offset / frag);
	if (s == NULL || s->seq != le32toh(w->h.seq) || s->frag != frag || s->count != count ||
	    has(s, piece)) {
		n->drops[SN_DROP_PUSH]++;
		return;
	}
	n->counts[SN_NC_RX_STASHED]++;
	memcpy(s->bytes + offset, body, len);
	if (piece + 1 == count)
		s->last = len;
	s->have[piece / 64] |= 1ULL << (piece % 64);
}

void sn_net_stash_drop(struct sn_net_link *l, uint32_t rdv)
{
	struct sn_net_stash *s = stash_find(l, rdv);

	if (s)
		stash_put(l->net, s);
}

/*
 * What is kept of this rendezvous goes into the fetch. True: more of it has come than what is still missing would
 * have followed.
 */
static bool unstash(struct sn_net_pull *p, const struct sn_rdv *rdv)
{
	struct sn_net_stash *s = stash_find(p->link, rdv->number);
	bool last;

	if (s == NULL)
		return false;
	last = has(s, s->count - 1);
	bool same = s->frag == rdv->push_frag && s->count == rdv->push &&
		    s->seq - rdv->seq - 1 < SN_NET_STASH_SEQ;
	for (unsigned i = 0; same && i < s->count; i++) {
		uint64_t offset = (uint64_t)i * s->frag;
		uint32_t len = i + 1 < s->count ? s->frag : s->last;
		if (has(s, i))
			sn_net_piece_in(p, offset, s->bytes + offset, len);
	}
	stash_put(p->link->net, s);
	return same && last;
}

/* ---- fetching ---- */

bool sn_net_push_fits(const struct sn_net_link *l, const struct sn_rdv *rdv, uint64_t len)
{
	return rdv->push && len == rdv->len && !several(l) &&
	       rdv->push_frag <= l->net->mtu - sizeof(struct sn_wire_push);
}

/*
 * The blocks that come unasked are under way. What of them has been kept is in already; what is missing of it will not come
 * if what was sent after it is here, or if it had time enough.
 */
void sn_net_push_expect(struct sn_net_pull *p, const struct sn_rdv *rdv)
{
	struct sn_net_link *l = p->link;
	uint64_t pushed = SN_MIN_OF((uint64_t)rdv->push * rdv->push_frag, p->len);
	unsigned lane = 0;

	while (lane < SN_NET_RAILS && (!l->lane[lane].known || l->lane[lane].down))
		lane++;
	if (lane == SN_NET_RAILS)
		return;
	for (unsigned i = 0; i < SN_NET_BLOCKS && p->next_block < p->blocks &&
			     SN_MIN_OF((p->next_block + 1) * p->room, p->len) <= pushed;
	     i++)
		sn_net_block_pushed(p, &p->block[i], lane, rdv->push_frag);
	bool late = unstash(p, rdv) || l->net->now > rdv->at + SN_NET_RTO_MIN / 2;
	for (unsigned i = 0; late && i < SN_NET_BLOCKS; i++)
		if (p->block[i].active)
			sn_net_ask(p, &p->block[i]);
}
