/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ends of the board (board.h): receives shown to senders, and sends that find one.
 *
 * A sender that has claimed a receive writes the whole message at once (process_vm_writev) and reports it by a record
 * in its ring (CLAIM), which the receiver finds whenever it next looks; the data are there already. If the kernel
 * refuses, or a page faults, at whatever byte, the message is announced as usual, but names the slot: the receive is this
 * message's, and takes it by rendezvous from the beginning (what was written is overwritten with the same).
 *
 * Budget: a receive of more than 8 KiB (of a source that has lowered `eager`: 4) that is not matched at once costs
 * two or three lines written, and one locked instruction if something else takes it; a claimed message one locked
 * instruction, two system calls per 4 MiB, and one record; no waiting for the receiver.
 */
#include "base/conf.h"
#include "base/log.h"
#include "local/local.h"
#include "progress/memfd.h"
#include <sys/mman.h>
#include <unistd.h>

/* ---- the receiver -------------------------------------------------------------------------------------------- */

int sn_claim_open(struct sn_rail *rail)
{
	void *map;
	int fd = sn_memfd_new("sennit-board", SN_BOARD_BYTES, &map);
	if (fd < 0)
		return fd;
	rail->board_fd = fd;
	rail->board = map;
	return 0;
}

void sn_claim_close(struct sn_rail *rail)
{
	close(rail->board_fd);
	munmap(rail->board, SN_BOARD_BYTES);
}

/* What fills this receive would not look for it: then to show it, and to take it off again, is for nothing. */
static bool passes_by(const struct sn_link *link, uint64_t room)
{
	const struct sn_chan *chan = link->rx.chan;
	return chan && room <= atomic_load_explicit(&chan->whole, memory_order_relaxed);
}

bool sn_claim_brings(const void *l, uint64_t room)
{
	const struct sn_link *link = l;
	return passes_by(link, room) || link->brought & sn_claim_class(room);
}

int sn_claim_expose(void *r, const void *l, uint64_t serial, uint64_t bits, uint64_t mask,
		    const struct iovec *iov, uint32_t iov_count, uint64_t room, struct sn_req *req)
{
	struct sn_rail *rail = r;
	const struct sn_link *source = l;
	/* With SN_COPY_READ nobody else is to write here. */
	if (rail->forked || sn_conf_num(SN_CONF_COPY) == SN_COPY_READ || (source && passes_by(source, room)))
		return -1;
	uint32_t heap = sn_heap_holds(&rail->heap, iov, iov_count) ? rail->heap.generation : 0;
	/* Memory that senders can map needs no name: they copy there by themselves. */
	bool name = iov_count && iov_count <= SN_BOARD_SEGS && !heap;
	struct sn_kmod_region *region = name ? sn_kcopy_name(rail, iov, iov_count, true) : NULL;
	int slot = sn_board_post(rail->board, serial, source ? source->ids.id : 0, bits, mask, iov, iov_count,
				 room, heap, sn_kcopy_handle(region));
	if (slot < 0) {
		sn_kcopy_unname(rail, &region);
		return -1;
	}
	rail->show[slot].region = region;
	sn_way_huge(rail, room, iov, iov_count);
	rail->show[slot].serial = serial;
	rail->show[slot].room = room;
	rail->show[slot].req = req;
	rail->show[slot].source = source;
	rail->show[slot].helper = NULL;
	rail->show[slot].seg_count = iov_count;
	memcpy(rail->show[slot].seg, iov, iov_count * sizeof(*iov));
	rail->shown |= UINT64_C(1) << slot;
	return slot;
}

bool sn_claim_withdraw(void *r, int slot)
{
	struct sn_rail *rail = r;
	if (!sn_board_take(rail->board, slot, rail->show[slot].serial))
		return false;
	rail->shown &= ~(UINT64_C(1) << slot);
	sn_kcopy_unname(rail, &rail->show[slot].region);
	return true;
}

void sn_claim_withdraw_all(struct sn_rail *rail)
{
	for (uint64_t left = rail->shown; left; left &= left - 1)
		sn_claim_withdraw(rail, __builtin_ctzll(left));
}

bool sn_claim_holds(const struct sn_link *link, uint32_t slot)
{
	const struct sn_rail *rail = link->rail;
	return slot < SN_BOARD_SLOTS && (rail->shown >> slot & 1) &&
	       sn_board_claimed_by(rail->board, (int)slot, rail->show[slot].serial, link->ids.id);
}

struct sn_req *sn_claim_take(struct sn_link *link, uint32_t slot)
{
	struct sn_rail *rail = link->rail;
	if (!sn_claim_holds(link, slot))
		return NULL;
	if (rail->show[slot].helper) /* it may not touch this memory any more */
		rail->show[slot].helper->share.slot = SN_CLAIM_NONE;
	rail->show[slot].helper = NULL;
	sn_board_clear(rail->board, (int)slot);
	rail->shown &= ~(UINT64_C(1) << slot);
	sn_kcopy_unname(rail, &rail->show[slot].region);
	return rail->show[slot].req;
}

int sn_claim_arrive(struct sn_link *link, const struct sn_head *head, uint32_t slot, bool heap)
{
	struct sn_rail *rail = link->rail;
	struct sn_req *req = sn_claim_take(link, slot);
	if (!req)
		return sn_fail(SN_ERR_PROTO, "a message for a receive that was not claimed");
	if (sn_unlikely(heap && !sn_heap_current(&rail->heap))) /* this process has forked meanwhile */
		sn_heap_refetch(&rail->heap, rail->show[slot].seg, rail->show[slot].seg_count, 0,
				SN_MIN_OF(head->len, rail->show[slot].room));
	sn_core_claimed(req, link->peer, head, SN_OK);
	return 0;
}

void sn_claim_end(struct sn_link *link, int status)
{
	for (uint64_t left = link->rail->shown; left; left &= left - 1) {
		struct sn_req *req = sn_claim_take(link, (uint32_t)__builtin_ctzll(left));
		if (req)
			sn_core_claimed(req, link->peer, NULL, status);
	}
}

/* ---- the sender ---------------------------------------------------------------------------------------------- */

/* Write the first len bytes of the message, the way that was picked. False: refused or faulted somewhere. */
static bool write_all(struct sn_link *link, const struct sn_board_claim *claim, const struct iovec *iov,
		      uint32_t iov_count, uint64_t len, enum sn_way *way)
{
	struct sn_local_counters *count = &link->rail->count;
	uint64_t at = 0, done;
	if (*way == SN_WAY_MODULE) {
		if (sn_kcopy_write(link, claim->region, iov, iov_count, len, &at))
			return true;
		*way = SN_WAYS; /* two of them: neither learns from this one */
	}
	if (!sn_rdv_may_write(link))
		return false;
	for (; at < len; at += done) {
		int error;
		enum sn_cma_outcome outcome =
			sn_cma_write(&link->copy, iov, iov_count, claim->seg, claim->seg_count, at, len - at,
				     &done, &error, &count->system_calls);
		count->copy_claim_bytes += done;
		if (outcome == SN_CMA_REFUSED)
			sn_rdv_refused(link, false, error);
		if (outcome == SN_CMA_FAULT)
			count->faults++;
		if (outcome != SN_CMA_OK)
			return false;
	}
	return true;
}

/* By way of the receiver's shareable heap. False: it is not there any more. */
static bool write_mapped(struct sn_link *link, const struct sn_board_claim *claim, const struct iovec *iov,
			 uint32_t iov_count, uint64_t len)
{
	if (sn_link_closed(link))
		return false;
	struct sn_mapped m = {iov, claim->seg, iov_count, claim->seg_count, false, claim->bypass, false};
	sn_mapped_copy(link, &m, 0, len);
	return true;
}

/* May this message be written at all, if a receive is found for it? */
static bool may_claim(const struct sn_link *link)
{
	int64_t copy = sn_conf_num(SN_CONF_COPY);
	return sn_rdv_may_write(link) || sn_kcopy_may_claim(link) ||
	       (link->heap.map && (copy == SN_COPY_AUTO || copy == SN_COPY_SHARED));
}

enum sn_claim_outcome sn_claim_try(struct sn_link *link, const struct sn_head *head, const struct iovec *iov,
				   uint32_t iov_count, struct sn_req *req, uint32_t *slot)
{
	struct sn_board_claim claim;
	*slot = SN_CLAIM_NONE;
	if (head->kind != SN_K_TAGGED || !link->board || !may_claim(link))
		return SN_CLAIM_ANNOUNCE;
	__builtin_prefetch(link->board);
	sn_share_expect(link);
	/* everything sent before must have been matched: see board.h */
	if (link->tx.head != link->tx.tail && (!sn_tx_refresh(&link->tx) || link->tx.head != link->tx.tail))
		return SN_CLAIM_ANNOUNCE;
	if (!sn_board_claim(link->board, link->rail->ids.id, head->bits, &claim))
		return SN_CLAIM_ANNOUNCE;
	uint64_t len = SN_MIN_OF(head->len, claim.room), started = sn_now_ns();
	bool waits = req && !head->imm_len; /* somebody hears of the end, whenever that is */
	unsigned allowed = 1u << SN_WAY_SINGLE;
	claim.mapped = sn_iov_len(claim.seg, claim.seg_count) >= len &&
		       sn_mapped_take(link, claim.heap, claim.seg, claim.seg_count);
	claim.bypass = claim.mapped && sn_way_bypass(link, len);
	enum sn_order order = claim.mapped ? SN_ORDER_CLAIM_MAPPED : SN_ORDER_CLAIM;
	if (waits)
		allowed |= (unsigned)!claim.mapped << SN_WAY_STREAM | (unsigned)sn_share_may(link, len)
									      << SN_WAY_SHARED;
	bool module = claim.region && link->rail->kmod && !claim.mapped;
	/* Without the right to write there is no choice. */
	enum sn_way way = claim.mapped ? SN_WAY_SINGLE : module ? SN_WAY_MODULE : SN_WAYS;
	if (claim.mapped || sn_rdv_may_write(link))
		way = sn_way_pick(link, order, len, allowed | (unsigned)module << SN_WAY_MODULE);
	enum sn_share_outcome outcome = SN_SHARE_NOT;
	sn_way_huge(link->rail, len, iov, iov_count);
	if (way == SN_WAY_SHARED)
		outcome = sn_share_write(link, &claim, head, iov, iov_count, started, req);
	if (outcome != SN_SHARE_NOT) {
		link->rail->count.claims++;
		return outcome == SN_SHARE_DONE ? SN_CLAIM_DONE : SN_CLAIM_PENDING;
	}
	*slot = (uint32_t)claim.slot;
	if (way == SN_WAY_STREAM)
		return SN_CLAIM_STREAM;
	if (!(claim.mapped ? write_mapped(link, &claim, iov, iov_count, len)
			   : write_all(link, &claim, iov, iov_count, len, &way)))
		return SN_CLAIM_ANNOUNCE;
	if (way == SN_WAY_SINGLE || way == SN_WAY_MODULE)
		sn_way_note(link, order, way, len, sn_now_ns() - started);
	struct sn_rec_claim record = {.len = head->len, .slot = *slot};
	sn_send_control(link, SN_REC_CLAIM, (head->flags & SN_H_MASK) | (claim.mapped ? SN_RECF_HEAP : 0),
			head->bits, head->data, &record, sizeof(record));
	link->rail->count.claims++;
	return SN_CLAIM_DONE;
}
