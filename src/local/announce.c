/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender's side of a rendezvous (rdv.c tells the whole): it announces, and writes or streams what it is asked for.
 */
#include "base/conf.h"
#include "base/log.h"
#include "local/local.h"

uint32_t sn_rdv_announce_bytes(const struct sn_head *head, uint32_t iov_count)
{
	return (uint32_t)(sizeof(struct sn_rec_rts) + ((head->imm_len + 7u) & ~7u) +
			  iov_count * sizeof(struct sn_rec_seg));
}

/* 0, or SN_ERR_NOMEM with nothing written. */
int sn_rdv_announce(struct sn_link *link, struct sn_cell *cell, const struct sn_head *head,
		    const struct iovec *iov, uint32_t iov_count, uint32_t slot, bool stream,
		    struct sn_req *req)
{
	struct sn_send *s = sn_slot_new(&link->send_slots);
	if (!s)
		return sn_fail(SN_ERR_NOMEM, "no memory to announce a message");
	s->state = SN_SEND_ANNOUNCED;
	s->guard = false;
	s->req = req;
	s->iov = iov;
	s->iov_count = iov_count;
	s->len = head->len;
	s->segs.at = s->segs.few;
	s->segs.count = 0;
	s->region = sn_kcopy_name(link->rail, iov, iov_count, false);
	struct sn_rec_rts rts = {.len = head->len,
				 .id = sn_slot_id(&s->slot),
				 .seg_count = iov_count,
				 .slot = slot == SN_CLAIM_NONE ? 0 : slot,
				 .region = sn_kcopy_handle(s->region)};
	uint32_t bytes = sn_rdv_announce_bytes(head, iov_count);
	uint8_t *to = sn_cell_payload(cell);
	cell->len = (uint32_t)head->imm_len << 24 | bytes;
	cell->bits = head->bits;
	cell->data = head->data;
	memcpy(to, &rts, sizeof(rts));
	if (head->imm_len)
		memcpy(to + sizeof(rts), head->imm, head->imm_len);
	sn_segs_put(to + sizeof(rts) + ((head->imm_len + 7u) & ~7u), iov, iov_count);
	sn_tx_publish(&link->tx, (uint32_t)SN_REC_RTS | head->kind,
		      (head->flags & SN_H_MASK) | (slot == SN_CLAIM_NONE ? 0 : SN_RECF_SLOT) |
			      (stream ? SN_RECF_STREAM : 0) |
			      (sn_heap_holds(&link->rail->heap, iov, iov_count) ? SN_RECF_HEAP : 0),
		      sn_rec_cells(bytes));
	link->rail->count.tx_rdv++;
	return 0;
}

void sn_send_end(struct sn_link *link, struct sn_send *s, int status)
{
	struct sn_req *req = s->req;
	sn_segs_free(&s->segs);
	sn_kcopy_unname(link->rail, &s->region);
	sn_slot_free(&link->send_slots, &s->slot);
	sn_core_sent(req, status);
}

static bool is_announced(const struct sn_send *s)
{
	return s->state == SN_SEND_ANNOUNCED || s->state == SN_SEND_KCOPY;
}

int sn_rdv_fin(struct sn_link *link, uint64_t id, uint64_t status)
{
	struct sn_send *s = sn_slot_find(&link->send_slots, id);
	if (!s || !is_announced(s))
		return sn_fail(SN_ERR_PROTO, "the end of a message that was not announced");
	sn_send_end(link, s, sn_rdv_status(status));
	return 0;
}

void sn_rdv_write_slice(struct sn_link *link, struct sn_send *s)
{
	struct sn_local_counters *count = &link->rail->count;
	uint64_t done;
	int error;
	/* Closed: its memory is not ours to write any more, the farewell is on its way. Refused: by another one's try. */
	if (sn_unlikely(sn_link_closed(link) || link->write_error)) {
		s->state = SN_SEND_STREAMING;
		return;
	}
	enum sn_cma_outcome outcome =
		sn_cma_write(&link->copy, s->iov, s->iov_count, s->segs.at, s->segs.count, s->offset,
			     s->end - s->offset, &done, &error, &count->system_calls);
	s->offset += done;
	count->copy_write_bytes += done;
	if (sn_likely(outcome == SN_CMA_OK)) {
		if (s->offset == s->end) {
			sn_send_control(link, SN_REC_DONE, 0, s->pull, 0, NULL, 0);
			sn_send_end(link, s, SN_OK);
		}
		return;
	}
	if (outcome == SN_CMA_REFUSED)
		sn_rdv_refused(link, false, error);
	if (outcome == SN_CMA_FAULT) {
		s->guard = true;
		count->faults++;
	}
	s->state = SN_SEND_STREAMING;
}

int sn_rdv_cts(struct sn_link *link, uint64_t id, uint64_t pull, unsigned flags, const void *payload,
	       uint32_t bytes)
{
	struct sn_rec_cts cts;
	struct sn_send *s = sn_slot_find(&link->send_slots, id);
	/* The receiver may have failed and asked anew since this helper looked at their job. */
	bool asked = s && (is_announced(s) || (s->state == SN_SEND_HELPING && sn_share_quit(link, s)));
	if (!asked || bytes < sizeof(cts))
		return sn_fail(SN_ERR_PROTO, "a request for a message that was not announced");
	memcpy(&cts, payload, sizeof(cts));
	if (cts.seg_count > SN_IOV_MAX || bytes != sizeof(cts) + cts.seg_count * sizeof(struct sn_rec_seg) ||
	    cts.len > s->len || cts.offset >= cts.len)
		return sn_fail(SN_ERR_PROTO, "a malformed request for an announced message");
	if (flags & (SN_RECF_WRITE | SN_RECF_SHARE)) {
		int rc = sn_segs_take(&s->segs, (const uint8_t *)payload + sizeof(cts), cts.seg_count,
				      cts.len);
		if (rc)
			return sn_fail(rc, "a request for an announced message with bad segments");
	}
	s->pull = pull;
	s->offset = cts.offset;
	s->end = cts.len;
	if (flags & SN_RECF_SHARE)
		return sn_share_help(link, s, cts.job, (flags & SN_RECF_HEAP) != 0);
	s->guard = flags & SN_RECF_GUARD;
	s->state = (flags & SN_RECF_WRITE) && !s->guard && sn_rdv_may_write(link) ? SN_SEND_WRITING
										  : SN_SEND_STREAMING;
	sn_list_del(&s->slot.list);
	sn_list_add_tail(&link->sends, &s->slot.list);
	sn_link_busy(link);
	return 0;
}

/* Copy a piece into the ring. False: the source cannot be read (*status says so), nothing to publish. */
static bool piece_in(const struct sn_link *link, struct sn_send *s, uint8_t *to, uint32_t n, int *status)
{
	if (sn_likely(!s->guard)) {
		sn_way_copy_in(link, to, s->iov, s->iov_count, s->offset, n, false);
		return true;
	}
	struct iovec parts[SN_IOV_MAX];
	uint64_t covered;
	uint32_t count = sn_iov_slice(s->iov, s->iov_count, s->offset, n, parts, SN_IOV_MAX, &covered);
	for (uint32_t i = 0; i < count; i++) {
		enum sn_guard_outcome outcome = sn_copy_guarded(to, parts[i].iov_base, parts[i].iov_len);
		if (outcome != SN_GUARD_OK) {
			*status = outcome == SN_GUARD_SOURCE ? SN_ERR_FAULT : SN_ERR_NOMEM;
			return false;
		}
		to += parts[i].iov_len;
	}
	return true;
}

static struct sn_send *next_stream(struct sn_link *link)
{
	sn_list_for_each (at, &link->sends) {
		struct sn_send *s = sn_container(at, struct sn_send, slot.list);
		if (s->state == SN_SEND_STREAMING)
			return s;
	}
	return NULL;
}

int sn_rdv_fragment(struct sn_link *link)
{
	struct sn_send *s = next_stream(link);
	if (!s)
		return 0;
	/* An eighth of the ring: the receiver copies one out while the next ones are copied in. */
	uint64_t piece = SN_MIN_OF((uint64_t)sn_conf_num(SN_CONF_CHUNK), link->tx.count * SN_CELL / 8);
	uint32_t n = (uint32_t)SN_MIN_OF(s->end - s->offset, piece);
	struct sn_cell *cell = sn_tx_room(&link->tx, sn_rec_cells(n));
	if (!cell)
		return 0;
	int status = SN_OK;
	if (sn_unlikely(!piece_in(link, s, sn_cell_payload(cell), n, &status))) {
		sn_tx_abandon(&link->tx);
		sn_send_control(link, SN_REC_DONE, 0, s->pull, (uint64_t)(int64_t)status, NULL, 0);
		sn_send_end(link, s, status);
		return 1;
	}
	cell->len = n;
	cell->bits = s->pull;
	cell->data = s->offset;
	sn_tx_publish(&link->tx, SN_REC_DATA, s->guard ? SN_RECF_GUARD : 0, sn_rec_cells(n));
	s->offset += n;
	link->rail->count.copy_stream_bytes += n;
	if (s->offset == s->end) {
		sn_send_end(link, s, SN_OK);
	} else { /* several streams take turns */
		sn_list_del(&s->slot.list);
		sn_list_add_tail(&link->sends, &s->slot.list);
	}
	return 1;
}
