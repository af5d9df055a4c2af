/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies in which both sides take part, as jobs (job.h). The receiver reads from the sender's memory, from the head; the
 * sender writes into the receiver's, from the tail; each while it is inside the library. There are two ways into a job:
 *
 *  - A sender that has claimed a receive on the board opens it, and says SHARE. It copies until no block is left to
 *    claim, so that it may go away and compute; the receiver helps if it happens to look. What the receiver is still
 *    copying then, it completes by itself, and the sender's request when that looks again.
 *  - A receiver that pulls an announced message opens it, and says CTS with SHARE; the sender helps if it happens to look.
 *
 * Neither FIN nor DONE follows: both read from the job that the message is whole. When somebody fails, the opener starts
 * the message anew the old way once the helper is quiet: the sender announces it naming the slot, the receiver asks for it.
 *
 * Budget beyond the copies: one record, the locked instructions of the job; no allocation in the steady state.
 */
#include "base/conf.h"
#include "base/log.h"
#include "local/local.h"
#include "local/owed.h"

#define SHARE_MIN    ((uint64_t)2 * SN_JOB_LEAST * SN_JOB_BLOCK)
#define HELP_AT_ONCE 4096u /* blocks in one progress(): 16 MiB, then others get a turn */

/* The peer's, who has just written it, to be written here. */
static struct sn_job *job_of(struct sn_chan *chan, uint32_t index)
{
	if (index >= SN_JOBS)
		return NULL;
	sn_line_own(&chan->job[index]);
	return &chan->job[index];
}

bool sn_share_may(const struct sn_link *link, uint64_t len)
{
	int64_t copy = sn_conf_num(SN_CONF_COPY);
	return (copy == SN_COPY_AUTO || copy == SN_COPY_SHARED) && len >= SHARE_MIN &&
	       len <= (uint64_t)SN_JOB_TOTAL_MAX * SN_JOB_BLOCK && link->rx.cells;
}

static int job_open(struct sn_link *link, struct sn_share *share, uint64_t len, bool bypass, uint64_t started)
{
	for (int i = 0; i < SN_JOBS; i++) {
		struct sn_job *job = &link->tx.chan->job[i];
		if (link->jobs & 1u << i || !sn_job_free(job))
			continue;
		link->jobs |= 1u << i;
		sn_job_open(job, bypass);
		*share = (struct sn_share){
			.job = job, .total = sn_job_total(len), .slot = SN_CLAIM_NONE, .started = started};
		link->rail->count.shared++;
		return i;
	}
	return -1;
}

/* The opener looks at its job for the last time; the helper may still have to. */
static void job_close(struct sn_link *link, const struct sn_share *share)
{
	link->jobs &= ~(1u << (share->job - link->tx.chan->job));
}

static enum sn_order order_of(const struct sn_share *share, enum sn_order order)
{
	return share->mapped ? order + SN_ORDER_CLAIM_MAPPED : order;
}

/*
 * How long it took from the start to the last byte, whoever copied that; a helper that did so just now may not have
 * said when.
 */
static void job_note(struct sn_link *link, const struct sn_share *share, enum sn_order order, uint64_t len)
{
	uint64_t ended = atomic_load_explicit(&share->job->ended, memory_order_relaxed);
	if (!ended)
		ended = sn_now_ns();
	if (ended > share->started)
		sn_way_note(link, order, SN_WAY_SHARED, len, ended - share->started);
}

/* ---- copying ------------------------------------------------------------------------------------------------- */

struct part { /* what one side needs for its share */
	const struct sn_share *share;
	bool reads;
	uint64_t len;
	const struct iovec *local, *remote;
	uint32_t local_count, remote_count;
};

static struct part part_of_send(const struct sn_send *s)
{
	return (struct part){&s->share, false, s->len, s->iov, s->segs.at, s->iov_count, s->segs.count};
}

static struct part part_of_rdv(const struct sn_rdv *rdv)
{
	return (struct part){&rdv->share,  true,	   rdv->want,	   rdv->iov,
			     rdv->segs.at, rdv->iov_count, rdv->segs.count};
}

static bool copy_slice(struct sn_link *link, const struct part *p, uint64_t at, uint64_t n, uint64_t *done)
{
	struct sn_local_counters *count = &link->rail->count;
	int error;
	if (p->share->mapped) {
		bool bypass = atomic_load_explicit(&p->share->job->bypass, memory_order_relaxed);
		bool back = bypass && p->reads && sn_way_gives_back(p->len);
		struct sn_mapped m = {p->local, p->remote, p->local_count, p->remote_count, p->reads,
				      bypass,	back};
		sn_mapped_copy(link, &m, at, n);
		*done = n;
		return true;
	}
	enum sn_cma_outcome outcome =
		p->reads ? sn_cma_read(&link->copy, p->local, p->local_count, p->remote, p->remote_count, at,
				       n, done, &error, &count->system_calls)
			 : sn_cma_write(&link->copy, p->local, p->local_count, p->remote, p->remote_count, at,
					n, done, &error, &count->system_calls);
	count->copy_shared_bytes += *done;
	if (sn_likely(outcome == SN_CMA_OK))
		return true;
	if (outcome == SN_CMA_REFUSED)
		sn_rdv_refused(link, p->reads, error);
	if (outcome == SN_CMA_FAULT)
		count->faults++;
	return false;
}

/* The peer's memory is the peer's to name until it closes: looked at before each write, and after each read. */
static bool copy_blocks(struct sn_link *link, const struct part *p, uint32_t first, uint32_t blocks)
{
	uint64_t at = (uint64_t)first * SN_JOB_BLOCK;
	uint64_t end = SN_MIN_OF(at + (uint64_t)blocks * SN_JOB_BLOCK, p->len), done;
	for (; at < end; at += done)
		if (sn_link_closed(link) || !copy_slice(link, p, at, end - at, &done))
			return false;
	return !p->reads || !sn_link_closed(link);
}

/* Claim and copy up to `most` blocks. */
static void bout(struct sn_link *link, const struct part *p, uint32_t most)
{
	struct sn_job *job = p->share->job;
	uint32_t total = p->share->total, first, n;
	if (p->share->mapped && !p->reads)
		atomic_store_explicit(&job->mapped, 1, memory_order_relaxed);
	for (uint32_t moved = 0; moved < most; moved += n) {
		n = sn_job_claim(job, total, p->reads, &first);
		if (!n)
			return;
		if (!copy_blocks(link, p, first, n)) {
			sn_job_fail(job, total);
			sn_link_ring(link, true);
			return;
		}
		if (sn_job_done(job, total, n)) {
			atomic_store_explicit(&job->ended, sn_now_ns(), memory_order_relaxed);
			sn_link_ring(link, false);
			return;
		}
	}
}

/* The message is whole. If this process has forked meanwhile, what the sender wrote lies in the heap of before. */
static void settle(const struct sn_link *link, const struct sn_rdv *rdv)
{
	const struct sn_job *job = rdv->share.job;
	uint32_t total = rdv->share.total;
	if (!atomic_load_explicit(&job->mapped, memory_order_relaxed) || sn_heap_current(&link->rail->heap))
		return;
	uint64_t tail =
		SN_MIN_OF(atomic_load_explicit(&job->claim, memory_order_relaxed) >> 32, (uint64_t)total);
	uint64_t from = (uint64_t)(total - tail) * SN_JOB_BLOCK;
	if (from < rdv->want)
		sn_heap_refetch(&link->rail->heap, rdv->iov, rdv->iov_count, from, rdv->want - from);
}

/*
 * The helper's turn. True: it is over, one way or the other, and the job is the opener's again. rdv: what is
 * received, if it is the receiver that helps.
 */
static bool help(struct sn_link *link, const struct part *p, struct sn_rdv *rdv, bool allowed, bool *good)
{
	struct sn_job *job = p->share->job;
	uint32_t total = p->share->total;
	if (allowed && !sn_job_failed(job) && !sn_job_complete(job, total)) {
		const struct sn_local_counters *count = &link->rail->count;
		uint64_t before = count->copy_shared_bytes + count->copy_mapped_bytes;
		sn_job_helper(job, SN_HELPER_INSIDE);
		bout(link, p, HELP_AT_ONCE);
		sn_job_helper(job, SN_HELPER_OUTSIDE);
		link->rail->count.helped += before != count->copy_shared_bytes + count->copy_mapped_bytes;
	}
	*good = sn_job_complete(job, total);
	if (!*good && !sn_job_failed(job))
		return false;
	if (*good && rdv)
		settle(link, rdv);
	sn_job_helper(job, SN_HELPER_LEFT); /* from here on it may be another message's */
	return true;
}

/* ---- the sender opens: a receive on the board ---------------------------------------------------------------- */

static bool say_share(struct sn_link *link, const struct sn_send *s, uint32_t job)
{
	uint8_t *to;
	struct sn_rec_share rec = {.full_len = s->share.head.len,
				   .len = s->len,
				   .slot = s->share.slot,
				   .job = job,
				   .seg_count = s->iov_count};
	uint32_t bytes = (uint32_t)(sizeof(rec) + s->iov_count * sizeof(struct sn_rec_seg));
	struct sn_cell *cell = sn_tx_room(&link->tx, sn_rec_cells(bytes));
	if (!cell)
		return false;
	cell->len = bytes;
	cell->bits = s->share.head.bits;
	cell->data = s->share.head.data;
	to = sn_cell_payload(cell);
	memcpy(to, &rec, sizeof(rec));
	sn_segs_put(to + sizeof(rec), s->iov, s->iov_count);
	bool heap = sn_heap_holds(&link->rail->heap, s->iov, s->iov_count);
	sn_tx_publish(&link->tx, SN_REC_SHARE, (s->share.head.flags & SN_H_MASK) | (heap ? SN_RECF_HEAP : 0),
		      sn_rec_cells(bytes));
	sn_link_ring(link, false); /* who is away need not help: this side copies it all */
	return true;
}

static void segs_own(struct sn_segs *to, const struct iovec *from, uint32_t count)
{
	_Static_assert(SN_BOARD_SEGS <= SN_SEGS_INLINE, "fit without an allocation");
	to->at = to->few;
	to->count = count;
	memcpy(to->few, from, count * sizeof(*from));
}

/* The job has failed. Announce the message; false: not yet, the helper is inside or the ring is full. */
static bool announce_anew(struct sn_link *link, struct sn_send *s)
{
	struct sn_cell *cell;
	sn_job_fail(s->share.job, s->share.total);
	if (!sn_job_quiet(s->share.job) ||
	    !(cell = sn_tx_room(&link->tx,
				sn_rec_cells(sn_rdv_announce_bytes(&s->share.head, s->iov_count)))))
		return false;
	int rc = sn_rdv_announce(link, cell, &s->share.head, s->iov, s->iov_count, s->share.slot, false,
				 s->req);
	if (rc) {
		job_close(link, &s->share);
		sn_send_end(link, s, rc);
		return true;
	}
	job_close(link, &s->share);
	sn_slot_free(&link->send_slots, &s->slot);
	sn_owed_ring(link);
	return true;
}

enum sn_share_outcome sn_share_write(struct sn_link *link, const struct sn_board_claim *claim,
				     const struct sn_head *head, const struct iovec *iov, uint32_t iov_count,
				     uint64_t started, struct sn_req *req)
{
	uint64_t len = SN_MIN_OF(head->len, claim->room);
	/* A synchronous send would need an answer that a shared receive does not give. */
	if (!req || head->imm_len || !sn_share_may(link, len))
		return SN_SHARE_NOT;
	struct sn_send *s = sn_slot_new(&link->send_slots);
	int job = s ? job_open(link, &s->share, len, claim->bypass, started) : -1;
	if (job < 0) {
		if (s)
			sn_slot_free(&link->send_slots, &s->slot);
		return SN_SHARE_NOT;
	}
	s->state = SN_SEND_SHARED;
	s->guard = false;
	s->req = req;
	s->iov = iov;
	s->iov_count = iov_count;
	s->len = len;
	s->share.slot = (uint32_t)claim->slot;
	s->share.head = *head;
	s->share.head.imm = NULL;
	segs_own(&s->segs, claim->seg, claim->seg_count);
	s->share.mapped = claim->mapped;
	if (!say_share(link, s, (uint32_t)job)) {
		sn_job_drop(s->share.job);
		job_close(link, &s->share);
		sn_slot_free(&link->send_slots, &s->slot);
		return SN_SHARE_NOT;
	}
	struct part p = part_of_send(s);
	bout(link, &p, UINT32_MAX);
	if (sn_likely(sn_job_complete(s->share.job, s->share.total))) {
		job_note(link, &s->share, order_of(&s->share, SN_ORDER_CLAIM), s->len);
		job_close(link, &s->share);
		sn_slot_free(&link->send_slots, &s->slot);
		return SN_SHARE_DONE;
	}
	sn_list_add_tail(&link->sends, &s->slot.list);
	sn_link_busy(link);
	return SN_SHARE_PENDING;
}

static bool step_written(struct sn_link *link, struct sn_send *s)
{
	if (sn_job_complete(s->share.job, s->share.total)) {
		job_note(link, &s->share, order_of(&s->share, SN_ORDER_CLAIM), s->len);
		job_close(link, &s->share);
		sn_send_end(link, s, SN_OK);
		return true;
	}
	return sn_job_failed(s->share.job) && announce_anew(link, s);
}

/* ---- the receiver helps a sender that has claimed ------------------------------------------------------------ */

static bool step_claimed(struct sn_link *link, struct sn_rdv *rdv)
{
	struct part p = part_of_rdv(rdv);
	struct sn_head head = rdv->share.head;
	uint32_t slot = rdv->share.slot;
	bool good, holds = slot != SN_CLAIM_NONE; /* else the receive has ended otherwise */
	if (!holds) {
		sn_job_helper(rdv->share.job, SN_HELPER_LEFT);
		sn_rdv_free(link, rdv);
		return true;
	}
	if (!help(link, &p, rdv, sn_rdv_may_read(link) || rdv->share.mapped, &good))
		return false;
	struct sn_req *req = good ? sn_claim_take(link, slot) : NULL;
	if (!good) /* an announcement that names the slot follows */
		link->rail->show[slot].helper = NULL;
	sn_rdv_free(link, rdv);
	if (req)
		sn_core_claimed(req, link->peer, &head, SN_OK);
	return true;
}

int sn_share_arrive(struct sn_link *link, const struct sn_head *head, const struct sn_rec_share *rec,
		    const void *segs, bool heap)
{
	struct sn_rail *rail = link->rail;
	struct sn_job *job = job_of(link->rx.chan, rec->job);
	if (!job || !sn_claim_holds(link, rec->slot) || rail->show[rec->slot].helper || !rec->len ||
	    rec->full_len > INT64_MAX || sn_job_total(rec->len) > SN_JOB_TOTAL_MAX ||
	    rec->len != SN_MIN_OF(rec->full_len, rail->show[rec->slot].room))
		return sn_fail(SN_ERR_PROTO, "a malformed share of a message");
	struct sn_rdv *rdv = sn_slot_new(&link->rdv_slots);
	if (!rdv)
		return sn_fail(SN_ERR_NOMEM, "no memory for a shared message");
	int rc = sn_segs_take(&rdv->segs, segs, rec->seg_count, rec->full_len);
	if (rc) {
		sn_slot_free(&link->rdv_slots, &rdv->slot);
		return sn_fail(rc, "a shared message with bad segments");
	}
	rdv->state = SN_RDV_HELPING;
	rdv->guard = rdv->exposed = false;
	rdv->req = NULL;
	rdv->iov = rdv->own;
	rdv->iov_count = rail->show[rec->slot].seg_count;
	memcpy(rdv->own, rail->show[rec->slot].seg, sizeof(rdv->own));
	rdv->want = rec->len;
	rdv->share = (struct sn_share){
		.job = job, .total = sn_job_total(rec->len), .slot = rec->slot, .head = *head};
	rdv->share.mapped =
		sn_mapped_take(link, heap ? link->heap_generation : 0, rdv->segs.at, rdv->segs.count);
	rail->show[rec->slot].helper = rdv;
	if (!step_claimed(link, rdv)) {
		sn_list_add_tail(&link->reads, &rdv->slot.list);
		sn_link_busy(link);
	}
	return 0;
}

/* ---- the receiver opens: an announced message ---------------------------------------------------------------- */

static bool step_pulled(struct sn_link *link, struct sn_rdv *rdv)
{
	struct sn_job *job = rdv->share.job;
	struct part p = part_of_rdv(rdv);
	if (!sn_job_failed(job))
		bout(link, &p, HELP_AT_ONCE);
	if (sn_job_complete(job, rdv->share.total)) {
		settle(link, rdv);
		job_note(link, &rdv->share, order_of(&rdv->share, SN_ORDER_PULL), rdv->want);
		job_close(link, &rdv->share);
		sn_rdv_pulled(link, rdv, SN_OK);
		return true;
	}
	if (!sn_job_failed(job))
		return false;
	sn_job_fail(job, rdv->share.total);
	if (!sn_job_quiet(job))
		return false;
	job_close(link, &rdv->share);
	sn_list_del(&rdv->slot.list);
	rdv->exposed = false;
	if (sn_link_closed(link)) /* it ends with the link */
		rdv->state = SN_RDV_ASKED;
	else
		sn_rdv_ask(link, rdv);
	return true;
}

bool sn_share_pull(struct sn_link *link, struct sn_rdv *rdv)
{
	struct {
		struct sn_rec_cts cts;
		uint8_t segs[SN_SEGS_INLINE * sizeof(struct sn_rec_seg)];
	} record;
	struct iovec parts[SN_SEGS_INLINE]; /* the receive may have more room than the message needs */
	uint64_t covered;
	uint32_t count =
		sn_iov_slice(rdv->iov, rdv->iov_count, 0, rdv->want, parts, SN_SEGS_INLINE, &covered);
	if (covered < rdv->want || rdv->guard || !sn_share_may(link, rdv->want))
		return false;
	int job = job_open(link, &rdv->share, rdv->want, rdv->bypass, rdv->started);
	if (job < 0)
		return false;
	rdv->share.mapped = rdv->mapped;
	unsigned flags = SN_RECF_SHARE | (sn_heap_holds(&link->rail->heap, parts, count) ? SN_RECF_HEAP : 0);
	record.cts = (struct sn_rec_cts){.len = rdv->want, .seg_count = count, .job = (uint32_t)job};
	sn_segs_put(record.segs, parts, count);
	rdv->state = SN_RDV_SHARED;
	rdv->exposed = true;
	sn_list_add_tail(&link->reads, &rdv->slot.list);
	sn_link_busy(link);
	sn_send_control(link, SN_REC_CTS, flags, rdv->sender, 0, &record,
			(uint32_t)(sizeof(record.cts) + count * sizeof(struct sn_rec_seg)));
	step_pulled(link, rdv);
	return true;
}

/* ---- the sender helps a receiver that pulls ------------------------------------------------------------------ */

static void be_asked_anew(struct sn_send *s)
{
	sn_list_del(&s->slot.list);
	sn_segs_free(&s->segs);
	s->state = SN_SEND_ANNOUNCED;
	s->len = s->share.head.len;
}

static bool step_sent(struct sn_link *link, struct sn_send *s)
{
	struct part p = part_of_send(s);
	bool good;
	if (!help(link, &p, NULL, sn_rdv_may_write(link) || s->share.mapped, &good))
		return false;
	if (good) {
		sn_send_end(link, s, SN_OK);
		return true;
	}
	be_asked_anew(s);
	return true;
}

bool sn_share_quit(struct sn_link *link, struct sn_send *s)
{
	if (!sn_job_failed(s->share.job))
		return false;
	sn_job_helper(s->share.job, SN_HELPER_LEFT);
	be_asked_anew(s);
	return true;
}

int sn_share_help(struct sn_link *link, struct sn_send *s, uint32_t job, bool heap)
{
	struct sn_job *shared = job_of(link->rx.chan, job);
	if (!shared || sn_job_total(s->end) > SN_JOB_TOTAL_MAX)
		return sn_fail(SN_ERR_PROTO, "a share of a message in a job that does not exist");
	s->share = (struct sn_share){
		.job = shared, .total = sn_job_total(s->end), .slot = SN_CLAIM_NONE, .head = {.len = s->len}};
	s->share.mapped = sn_mapped_take(link, heap ? link->heap_generation : 0, s->segs.at, s->segs.count);
	s->state = SN_SEND_HELPING;
	s->len = s->end;
	sn_list_add_tail(&link->sends, &s->slot.list);
	if (!step_sent(link, s))
		sn_link_busy(link);
	return 0;
}

/* ---- both ---------------------------------------------------------------------------------------------------- */

int sn_share_step(struct sn_link *link)
{
	int n = 0;
	sn_list_for_each_safe (at, &link->reads) {
		struct sn_rdv *rdv = sn_container(at, struct sn_rdv, slot.list);
		if (rdv->state == SN_RDV_SHARED)
			n += step_pulled(link, rdv);
		else if (rdv->state == SN_RDV_HELPING)
			n += step_claimed(link, rdv);
	}
	sn_list_for_each_safe (at, &link->sends) {
		struct sn_send *s = sn_container(at, struct sn_send, slot.list);
		if (s->state == SN_SEND_SHARED)
			n += step_written(link, s);
		else if (s->state == SN_SEND_HELPING)
			n += step_sent(link, s);
	}
	return n;
}

bool sn_share_rests(const struct sn_share *share)
{
	return !sn_job_left(share->job, share->total) && !sn_job_failed(share->job);
}

bool sn_share_pending(const struct sn_link *link)
{
	sn_list_for_each (at, &link->sends) {
		const struct sn_send *s = sn_container(at, struct sn_send, slot.list);
		if (s->state == SN_SEND_SHARED || s->state == SN_SEND_HELPING)
			return true;
	}
	return false;
}
