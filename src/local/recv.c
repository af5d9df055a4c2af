/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a peer's ring. The sender may be hostile: the mark and the header are copied out once, checked, and only the
 * copies are used; what the record's length covers is checked to lie in the ring before anything looks at the payload.
 * A record that makes no sense ends the link (SN_ERR_PROTO), since nothing after it can be trusted either. Payload bytes
 * may change while they are copied: that spoils the sender's own message.
 *
 * Budget of an eager arrival: no system call, no allocation, no locked instruction; the body is handed up in place.
 */
#include "base/log.h"
#include "local/local.h"

#define PREFETCH_CELLS 8
#define ANSWER_CELLS   2 /* 104 bytes: after these an answer is expected at once */
#define BATCH_AHEAD                                                                                          \
	4 /* cells of a batch asked for early; not after a lone record: its successor is being written */

#define PAIR_CELLS 9 /* up to 552 bytes: a record whose second line is asked for together with the first */

#define BURST	64 /* records from one ring before the next gets its turn */
#define LONE	4  /* records that came alone, one after the other */
#define LOOK_ON 8  /* each such time the look goes on all the same */

struct record {
	unsigned type, kind, flags;
	uint32_t cells, len, imm_len;
	uint64_t bits, data;
	uint8_t *payload;
	uint32_t room; /* payload bytes that the cells hold */
};

static int malformed(const char *what)
{
	return sn_fail(SN_ERR_PROTO, "a malformed record: %s", what);
}

/* What the sender takes for room, though it may never be posted for: bounded by this and what the ring holds. */
static void show_kept(struct sn_link *link)
{
	_Atomic uint32_t *full = &link->rx.chan->full;
	uint32_t now = sn_core_peer_kept(link->peer) > SN_KEPT_MAX;
	if (atomic_load_explicit(full, memory_order_relaxed) != now)
		atomic_store_explicit(full, now, memory_order_relaxed);
}

/* An eager message: imm and body fill the cells exactly. SN_PART_LATER: it is not whole yet. */
static int take_message(struct sn_link *link, const struct record *r)
{
	uint8_t imm[SN_IMM_MAX], *at = r->payload;
	uint32_t before = sn_unlikely(r->flags & SN_RECF_PART) ? sizeof(struct sn_rec_part) : 0;
	if (sn_unlikely(r->imm_len > SN_IMM_MAX || r->kind == SN_K_NONE || r->kind > SN_K_MAX ||
			sn_rec_cells((uint64_t)before + r->imm_len + r->len) != r->cells))
		return malformed("message");
	struct sn_in in = {.head = {.kind = (uint8_t)r->kind,
				    .flags = r->flags & SN_H_MASK,
				    .imm_len = (uint8_t)r->imm_len,
				    .bits = r->bits,
				    .data = r->data,
				    .len = r->len,
				    .imm = imm}};
	at += before;
	if (r->imm_len)
		memcpy(imm, at, r->imm_len);
	if (sn_unlikely(before)) {
		link->brought |= sn_claim_class(r->len);
		int rc = sn_part_take(link, &in.head, r->payload);
		if (rc != SN_PART_WHOLE)
			return rc;
	}
	if (r->len)
		in.body = at + r->imm_len;
	link->rail->count.rx_eager++;
	if (r->kind == SN_K_TAGGED && !r->imm_len && !before && !(r->flags & (SN_H_SYNC | SN_H_ARRIVED)))
		return sn_core_arrive_tagged(link->peer, r->flags & SN_H_MASK, r->bits, r->data, in.body,
					     r->len);
	int rc = sn_core_arrive(link->peer, &in);
	if (before)
		show_kept(link);
	return rc;
}

static int take_announcement(struct sn_link *link, const struct record *r)
{
	struct sn_rec_rts rts;
	uint8_t imm[SN_IMM_MAX];
	uint32_t imm_room = (r->imm_len + 7u) & ~7u;
	if (r->imm_len > SN_IMM_MAX || r->kind == SN_K_NONE || r->kind > SN_K_MAX || r->len > r->room ||
	    r->len < sizeof(rts) + imm_room)
		return malformed("announcement");
	memcpy(&rts, r->payload, sizeof(rts));
	if (rts.seg_count > SN_IOV_MAX || !rts.len || rts.len > INT64_MAX ||
	    r->len != sizeof(rts) + imm_room + rts.seg_count * sizeof(struct sn_rec_seg))
		return malformed("announcement");
	memcpy(imm, r->payload + sizeof(rts), r->imm_len);
	link->brought &= ~sn_claim_class(rts.len);
	struct sn_head head = {.kind = (uint8_t)r->kind,
			       .flags = r->flags & SN_H_MASK,
			       .imm_len = (uint8_t)r->imm_len,
			       .bits = r->bits,
			       .data = r->data,
			       .imm = imm};
	show_kept(link);
	return sn_rdv_arrive(link, &head, &rts, r->payload + sizeof(rts) + imm_room, r->flags);
}

static int take_claim(struct sn_link *link, const struct record *r)
{
	struct sn_rec_claim claim;
	if (r->len != sizeof(claim))
		return malformed("claim");
	memcpy(&claim, r->payload, sizeof(claim));
	struct sn_head head = {.kind = SN_K_TAGGED,
			       .flags = r->flags & SN_H_MASK,
			       .bits = r->bits,
			       .data = r->data,
			       .len = claim.len};
	return sn_claim_arrive(link, &head, claim.slot, (r->flags & SN_RECF_HEAP) != 0);
}

static int take_share(struct sn_link *link, const struct record *r)
{
	struct sn_rec_share rec;
	if (r->len < sizeof(rec))
		return malformed("share");
	memcpy(&rec, r->payload, sizeof(rec));
	if (rec.seg_count > SN_IOV_MAX || r->len != sizeof(rec) + rec.seg_count * sizeof(struct sn_rec_seg))
		return malformed("share");
	struct sn_head head = {.kind = SN_K_TAGGED,
			       .flags = r->flags & SN_H_MASK,
			       .bits = r->bits,
			       .data = r->data,
			       .len = rec.full_len};
	return sn_share_arrive(link, &head, &rec, r->payload + sizeof(rec), (r->flags & SN_RECF_HEAP) != 0);
}

static int take_control(struct sn_link *link, const struct record *r)
{
	if (r->type == SN_REC_PAD) /* only its mark is written */
		return 0;
	if (r->len > r->room || r->kind || r->imm_len)
		return malformed("control");
	switch (r->type) {
	case SN_REC_FIN: return sn_rdv_fin(link, r->bits, r->data);
	case SN_REC_CTS: return sn_rdv_cts(link, r->bits, r->data, r->flags, r->payload, r->len);
	case SN_REC_DATA: return sn_rdv_data(link, r->bits, r->data, r->flags, r->payload, r->len);
	case SN_REC_CLAIM: return take_claim(link, r);
	case SN_REC_COST: sn_way_note(link, SN_ORDER_CLAIM, SN_WAY_STREAM, r->bits, r->data); return 0;
	case SN_REC_SHARE: return take_share(link, r);
	case SN_REC_KSHARE: return sn_kcopy_share(link, r->bits, r->data);
	case SN_REC_DONE: return sn_rdv_done(link, r->bits, r->data);
	default: return malformed("unknown type");
	}
}

static int __attribute__((noinline))
take_otherwise(struct sn_link *link, struct sn_cell *cell, uint32_t mark, uint32_t len)
{
	struct sn_rx *rx = &link->rx;
	uint32_t at = (uint32_t)rx->head & (rx->count - 1);
	struct record r = {.type = mark & 0xf0,
			   .kind = mark & 0x0f,
			   .flags = mark >> 8 & 0xff,
			   .cells = mark >> 16,
			   .len = len & SN_REC_BODY_MAX,
			   .imm_len = len >> 24,
			   .bits = *(volatile uint64_t *)&cell->bits,
			   .data = *(volatile uint64_t *)&cell->data,
			   .payload = sn_cell_payload(cell)};
	if (sn_unlikely(!r.cells || at + r.cells > rx->count))
		return malformed("length");
	r.room = r.cells * SN_CELL - SN_REC_HEAD;
	/* The payload is looked at only after matching: let its lines come meanwhile. */
	for (uint32_t i = 1; i < r.cells && i <= PREFETCH_CELLS; i++)
		__builtin_prefetch(cell + i);
	int rc = sn_likely(r.type == SN_REC_MSG)   ? take_message(link, &r)
		 : sn_likely(r.type == SN_REC_RTS) ? take_announcement(link, &r)
						   : take_control(link, &r);
	if (sn_unlikely(rc == SN_PART_LATER))
		return rc;
	rx->head += r.cells;
	return rc;
}

/* Nearly every record is this: a tagged message in its first cell, nobody waits for an answer. */
static inline int take(struct sn_link *link, uint32_t mark)
{
	struct sn_rx *rx = &link->rx;
	struct sn_cell *cell = &rx->cells[rx->head & (rx->count - 1)];
	uint32_t len = *(volatile uint32_t *)&cell->len;
	if (sn_unlikely((mark & ((SN_H_SYNC | SN_H_ARRIVED) << 8 | 0xffff00ffu)) !=
				(SN_REC_MSG | SN_K_TAGGED | 1u << 16) ||
			len > sizeof(cell->payload)))
		return take_otherwise(link, cell, mark, len);
	link->rail->count.rx_eager++;
	int rc = sn_core_arrive_tagged(link->peer, mark >> 8 & SN_H_MASK, *(volatile uint64_t *)&cell->bits,
				       *(volatile uint64_t *)&cell->data, sn_cell_payload(cell), len);
	rx->head++;
	return rc;
}

static void __attribute__((noinline)) give_up(struct sn_link *link, int rc)
{
	link->rail->count.bad_records++;
	sn_warn("%s (pid %u) is disconnected: %s", sn_core_peer_name(link->peer).text, link->pid,
		sn_last_error());
	sn_link_doom(link, rc == SN_ERR_NOMEM ? rc : SN_ERR_PROTO, false);
}

/*
 * Had its sender consumed all that was ever sent to him? Else they crossed, as in an exchange. Only a hint: three bits of a count,
 * which messages have and other records do not.
 */
static inline bool is_answer(const struct sn_tx *tx, uint32_t mark)
{
	return ((mark >> 8 & SN_RECF_SEEN) >> SN_REC_SEEN_SHIFT ^ tx->tail) % 8 == 0;
}

/*
 * Who is sent a short message often answers it, and the peer waits for that, looking at the line where the answer
 * will be. So that line is asked for while this message is still on its way up, with luck before the peer looks
 * again. After one of two lines both are, for the next message is likely to be as long. Not after one that crossed a
 * message of ours: exchanges of 8 bytes took a sixth longer between far cores, of 64 bytes a fifth. After a longer one too
 * much time goes by for that: 512 bytes became slower.
 */
static inline __attribute__((always_inline)) int recv_poll(struct sn_link *link, uint32_t mark,
							   uint32_t limit)
{
	struct sn_rx *rx = &link->rx;
	uint32_t n = 0;
	if (mark >> 16 > 1) /* on its way while the header is looked at */
		__builtin_prefetch(&rx->cells[(rx->head + 1) & (rx->count - 1)]);
	if (mark >> 16 <= ANSWER_CELLS && is_answer(&link->tx, mark))
		sn_tx_own(&link->tx, mark >> 16 > 1);
	do {
		if (sn_unlikely(n))
			__builtin_prefetch(&rx->cells[(rx->head + BATCH_AHEAD) & (rx->count - 1)]);
		int rc = take(link, mark);
		if (sn_unlikely(rc == SN_PART_LATER))
			break;
		n++;
		if (sn_unlikely(rc < 0)) {
			give_up(link, rc);
			return (int)n;
		}
		if (sn_unlikely(rx->head - rx->published >= rx->count / 4))
			sn_rx_publish(rx);
	} while (n < limit && (mark = sn_rx_mark(rx)) != 0);
	if (sn_unlikely(!n))
		return 0;
	sn_rx_publish(rx);
	/* The sender may have found the ring full and gone to sleep: as with messages, it sets want_room, fences (see
	 * bell.h) and looks at head again. */
	sn_bell_order(link->bell, link->fence);
	if (sn_unlikely(atomic_load_explicit(&rx->chan->want_room, memory_order_relaxed)))
		sn_link_ring(link, true);
	return (int)n;
}

int sn_recv_all(struct sn_link *link, uint32_t mark)
{
	return recv_poll(link, mark, link->rx.count);
}

/*
 * Who waits for a record of several lines, as the one before it was, asks for the second with each look at the first
 * (rail.c): else it is asked for when the first has come, and takes as long once more. Only where each is waited for
 * and answered: in a stream the line would be taken from a sender who is about to write it.
 */
static inline bool next_is_pair(struct sn_link *link, uint32_t mark, bool waited)
{
	uint32_t before = link->rx.answers;
	link->rx.answers = (uint32_t)link->tx.tail;
	return waited && mark >> 16 > 1 && mark >> 16 <= PAIR_CELLS && link->rx.answers != before;
}

/*
 * To look beyond a record takes the line of the next one from the sender before it is written, who then has to get it back.
 * In an exchange he writes it at once. So where records have come one by one lately, and this one crossed one of ours or may
 * have been there before anybody waited for it, it is taken alone if it is a message; now and then the look goes on, or the records of a stream
 * would be taken one by one for ever. Who waits for an answer takes what there is: the sender waits as well then, and in a
 * ping-pong the look costs nobody anything (without it 8 B took 1 to 2 % longer).
 */
int sn_recv_look(struct sn_link *link, uint32_t mark)
{
	struct sn_rx *rx = &link->rx;
	bool alone = rx->lone == LONE && (mark & 0xf0) == SN_REC_MSG &&
		     !(rx->waited && is_answer(&link->tx, mark)) && ++rx->turn % LOOK_ON != 0;
	int n = recv_poll(link, mark, alone ? 1 : BURST);
	rx->pair = next_is_pair(link, mark, n == 1 && rx->waited);
	rx->waited = !n;
	if (n > 1)
		rx->lone = 0;
	else if (n && rx->lone < LONE)
		rx->lone++;
	return n;
}
