/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Longer eager messages are copied out of the ring while they are still being copied in.
 *
 * Of a message of 16 KiB most of the time goes into two copies, one after the other: the receiver sees it when the
 * last byte is in the ring. So from SN_PART_FROM on the sender publishes the record when its first half, or 12 KiB,
 * is there, and says in the record's first line how many bytes are (`filled`), a step at a time. The receiver looks
 * for a posted receive at once, and copies what is there at each look; it never waits for the rest, so a sender that
 * has lost its core holds up nobody but its own later messages.
 *
 * A message that nobody has posted for is left in the ring until it is whole, and then delivered as any other eager
 * message, so that nothing of the matching above needs to know about halves (rail.h: sn_in.only_posted).
 *
 * Death. A sender killed between two steps leaves a record that is never whole: nothing after it exists, and the message
 * ends with the link, like an announced one.
 *
 * tests/model/part.pml is a model of this.
 *
 * Trust. `filled` may say anything: it is bounded by the length that was read first, and that by the record's cells.
 *
 * Budget: no system call but one for the first message, no locked instruction, no allocation in the steady state; for
 * each step one line more than a message in one piece would move.
 */
#include "base/log.h"
#include "copy/tune.h"
#include "local/local.h"
#include "progress/memfd.h"
#include "progress/relax.h"

#define LOOKS 400u

_Static_assert(SN_PART_FROM <= SN_TUNE_PARTS && SN_PART_FROM > SN_TUNE_PARTS / 2,
	       "what the measurement takes for parts goes in parts");

/* The first long message: now all of the ring will be used. A fault for each page would slow down the first lap, by which
 * the ring is judged. */
static void touch(bool *touched, void *chan, size_t bytes)
{
	if (sn_unlikely(!*touched) && !sn_relax_crowded()) {
		sn_memfd_touch(chan, bytes);
		*touched = true;
	}
}

static inline _Atomic uint32_t *filled_of(uint8_t *payload)
{
	return &((struct sn_rec_part *)(void *)payload)->filled;
}

/* ---- the sender ---------------------------------------------------------------------------------------------- */

void sn_part_write(struct sn_link *link, struct sn_cell *cell, uint32_t cells, const struct sn_head *head,
		   const struct iovec *iov, uint32_t iov_count)
{
	uint8_t *payload = sn_cell_payload(cell),
		*body = payload + sizeof(struct sn_rec_part) + head->imm_len;
	uint32_t len = (uint32_t)head->len, n;
	bool past = sn_way_past_ring(link, len);
	touch(&link->tx_touched, link->tx.chan, link->tx_bytes);
	sn_tx_own_next(&link->tx, cells);
	if (head->imm_len)
		memcpy(payload + sizeof(struct sn_rec_part), head->imm, head->imm_len);
	for (uint32_t at = 0; at < len; at += n) {
		n = sn_part_step(body, at, len);
		sn_way_copy_in(link, body + at, iov, iov_count, at, n, past);
		if (!at) {
			cell->len = len | (uint32_t)head->imm_len << 24;
			cell->bits = head->bits;
			cell->data = head->data;
		}
		atomic_store_explicit(filled_of(payload), at + n, memory_order_release);
		if (at)
			continue;
		sn_tx_publish_bare(&link->tx, (uint32_t)SN_REC_MSG | head->kind,
				   (head->flags & SN_H_MASK) | SN_RECF_PART, cells);
		sn_link_ring(link, false); /* who sleeps wakes while this copies */
	}
	link->rail->count.tx_eager++;
	if (sn_way_apart(link) && !past) {
		sn_tx_want(&link->tx, cells);
		link->rail->wrote = link;
	}
}

/* ---- the receiver -------------------------------------------------------------------------------------------- */

static int too_long(void)
{
	return sn_fail(SN_ERR_PROTO, "a message that is longer than it was");
}

static int begin(struct sn_link *link, const struct sn_head *head)
{
	struct sn_rdv *rdv = sn_slot_new(&link->rdv_slots);
	if (!rdv)
		return sn_fail(SN_ERR_NOMEM, "no memory for a message");
	touch(&link->rx_touched, link->rx.chan, link->rx_bytes);
	rdv->state = SN_RDV_PART;
	rdv->guard = rdv->exposed = rdv->stream = rdv->mapped = false;
	rdv->segs.at = rdv->segs.few;
	rdv->segs.count = 0;
	rdv->status = SN_OK;
	rdv->len = head->len;
	rdv->req = NULL;
	rdv->done = rdv->want = rdv->seen = 0;
	link->part = rdv;
	struct sn_in in = {.head = *head, .rdv = rdv, .only_posted = true};
	int rc = sn_core_arrive(link->peer, &in);
	if (rc) { /* SN_ERR_AGAIN: nobody has posted for it */
		link->part = NULL;
		sn_rdv_free(link, rdv);
	}
	return rc;
}

/* Copy what has come since the last look. */
static void take_more(struct sn_link *link, struct sn_rdv *rdv, const uint8_t *body, uint32_t filled)
{
	uint64_t end = SN_MIN_OF((uint64_t)filled, rdv->want);
	if (rdv->done < end) {
		const uint8_t *from = body + rdv->done;
		uint64_t n = end - rdv->done;
		char *to = rdv->iov_count == 1 ? (char *)rdv->iov->iov_base + rdv->done : NULL;
		if (!rdv->done) {
			link->again = link->into == to;
			link->into = to;
		}
		sn_rdv_take(rdv, from, rdv->done, n, link->again);
		rdv->done = end;
	}
}

/* Copy until it is whole, or nothing has come for a while that is shorter than the way through an MPI library and back. */
static int take_all(struct sn_link *link, struct sn_rdv *rdv, uint8_t *payload, const uint8_t *body,
		    uint32_t filled)
{
	for (unsigned looks = 0;; looks++) {
		if (filled > rdv->seen) {
			take_more(link, rdv, body, filled);
			rdv->seen = filled;
			looks = 0;
		}
		if (filled == rdv->len)
			break;
		if (looks == LOOKS)
			return SN_PART_LATER;
		filled = atomic_load_explicit(filled_of(payload), memory_order_acquire);
		if (sn_unlikely(filled > rdv->len))
			return too_long();
	}
	link->part = NULL;
	link->part_kept = false;
	link->rail->count.rx_eager++;
	sn_rdv_pulled(link, rdv, SN_OK);
	return SN_PART_DONE;
}

int sn_part_take(struct sn_link *link, const struct sn_head *head, uint8_t *payload)
{
	const uint8_t *body = payload + sizeof(struct sn_rec_part) + head->imm_len;
	uint32_t filled = atomic_load_explicit(filled_of(payload), memory_order_acquire);
	struct sn_rdv *rdv = link->part;
	if (sn_unlikely(filled > head->len || (rdv && rdv->len != head->len)))
		return too_long();
	if (rdv)
		return take_all(link, rdv, payload, body, filled);
	if (filled == head->len) {
		link->part_kept = false;
		return SN_PART_WHOLE;
	}
	if (link->part_kept)
		return SN_PART_LATER;
	int rc = begin(link, head);
	if (rc == SN_ERR_AGAIN) {
		link->part_kept = true;
		return SN_PART_LATER;
	}
	return rc ? rc : take_all(link, link->part, payload, body, filled);
}
