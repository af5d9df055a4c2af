/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous: messages above the eager limit. Here is the receiver, and what both sides share; the sender is in announce.c.
 *
 * The sender announces (RTS: its number for the message, length, segments). When the core pulls, the receiver
 *   0. has the kernel module (kcopy.c) or a copy engine (offload.c) copy, where that wins; else, or if it refuses,
 *   1. reads straight from the sender's memory (process_vm_readv), slice by slice, and says FIN; or, if it may not,
 *   2. asks (CTS: from which byte on, and its own segments), and the sender writes straight into the receiver's memory
 *      (process_vm_writev), and says DONE; or, if that is refused too,
 *   3. the sender streams pieces through the ring (DATA), a copy in and a copy out, overlapped.
 * The kernel may refuse at any call (ptrace_scope is changed, a seccomp filter is loaded, the peer drops privileges):
 * then the rest goes the next way from exactly the byte reached, and the direction counts as refused from then on.
 *
 * A page that faults is another matter. It can be a bad buffer, or memory that only these calls cannot reach (a device
 * mapping). So after a fault the rest of this one message is streamed with both copies *guarded* (src/copy/guard.c): a
 * source that really cannot be read ends it with SN_ERR_FAULT on both sides, a destination that cannot be written with
 * SN_ERR_FAULT at the receiver, while the sender completes; nobody crashes for a bad buffer of the other.
 *
 * A message ends at the sender with the last byte written or streamed, or FIN; at the receiver with the last byte read
 * or consumed, or DONE. Numbers carry a generation: one that names no live message of this link is a protocol error.
 */
#include "base/conf.h"
#include "base/log.h"
#include "local/local.h"
#include "progress/relax.h"

#define BOTH_FETCH   ((uint64_t)512 << 10)
#define PULL_AT_ONCE 4 /* slices inside one pull(); the rest by progress(), so that others get a turn */

/* ---- refusals ------------------------------------------------------------------------------------------------ */

bool sn_rdv_may_read(const struct sn_link *link)
{
	int64_t copy = sn_conf_num(SN_CONF_COPY);
	return !link->read_error && link->copy.pid &&
	       (copy == SN_COPY_AUTO || copy == SN_COPY_READ || copy == SN_COPY_SHARED);
}

bool sn_rdv_may_write(const struct sn_link *link)
{
	int64_t copy = sn_conf_num(SN_CONF_COPY);
	return !link->write_error && link->copy.pid &&
	       (copy == SN_COPY_AUTO || copy == SN_COPY_WRITE || copy == SN_COPY_SHARED);
}

void sn_rdv_refused(struct sn_link *link, bool read, int error)
{
	if (read) {
		link->read_error = error;
		link->rail->count.refused_read++;
	} else {
		link->write_error = error;
		link->rail->count.refused_write++;
	}
	sn_info("%s (pid %u): %s its memory is refused (%s); large messages go another way",
		sn_core_peer_name(link->peer).text, link->pid, read ? "reading" : "writing", strerror(error));
	sn_show_rights(link);
}

int sn_rdv_status(uint64_t data)
{
	int64_t status = (int64_t)data;
	return status > 0 || status < SN_ERR_FORKED ? SN_ERR_PROTO : (int)status;
}

/* ---- the receiver -------------------------------------------------------------------------------------------- */

int sn_rdv_arrive(struct sn_link *link, const struct sn_head *head, const struct sn_rec_rts *rts,
		  const void *segs, unsigned flags)
{
	sn_share_expect(link);
	struct sn_rdv *rdv = sn_slot_new(&link->rdv_slots);
	if (!rdv)
		return sn_fail(SN_ERR_NOMEM, "no memory for an announced message");
	int rc = sn_segs_take(&rdv->segs, segs, rts->seg_count, rts->len);
	if (rc) {
		sn_slot_free(&link->rdv_slots, &rdv->slot);
		return sn_fail(rc, "an announced message with bad segments");
	}
	rdv->state = SN_RDV_ANNOUNCED;
	rdv->mapped = sn_mapped_take(link, flags & SN_RECF_HEAP ? link->heap_generation : 0, rdv->segs.at,
				     rdv->segs.count);
	rdv->guard = rdv->exposed = rdv->bypass = false;
	rdv->stream = flags & SN_RECF_STREAM;
	rdv->way = SN_WAYS;
	rdv->started = sn_now_ns();
	rdv->status = SN_OK;
	rdv->sender = rts->id;
	rdv->len = rts->len;
	rdv->req = NULL;
	rdv->done = rdv->want = 0;
	rdv->region = rts->region;
	rdv->engine = NULL;
	struct sn_in in = {.head = *head, .rdv = rdv};
	in.head.len = rts->len;
	link->rail->count.rx_rdv++;
	if (flags & SN_RECF_SLOT) {
		struct sn_req *req = sn_claim_take(link, rts->slot);
		return req ? sn_core_claimed_rdv(req, link->peer, &in)
			   : sn_fail(SN_ERR_PROTO, "a message for a receive that was not claimed");
	}
	return sn_core_arrive(link->peer, &in); /* when it fails the rdv goes with the link */
}

void sn_rdv_free(struct sn_link *link, struct sn_rdv *rdv)
{
	sn_offload_leave(rdv);
	sn_segs_free(&rdv->segs);
	sn_kcopy_leave(link, rdv);
	sn_slot_free(&link->rdv_slots, &rdv->slot);
}

void sn_rdv_pulled(struct sn_link *link, struct sn_rdv *rdv, int status)
{
	struct sn_req *req = rdv->req;
	sn_rdv_free(link, rdv);
	sn_core_pulled(req, status);
}

static void fin(struct sn_link *link, const struct sn_rdv *rdv, int status)
{
	sn_send_control(link, SN_REC_FIN, 0, rdv->sender, (uint64_t)(int64_t)status, NULL, 0);
}

/* Into room for as many pieces as there are. */
static void ask_in(struct sn_link *link, struct sn_rdv *rdv, void *record, struct iovec *parts)
{
	struct sn_rec_cts cts = {.offset = rdv->done, .len = rdv->want};
	uint64_t covered;
	unsigned flags = rdv->guard ? SN_RECF_GUARD : 0;
	if (!rdv->guard && sn_conf_num(SN_CONF_COPY) != SN_COPY_STREAM && rdv->way != SN_WAY_STREAM) {
		flags |= SN_RECF_WRITE;
		rdv->exposed = true;
		cts.seg_count =
			sn_iov_slice(rdv->iov, rdv->iov_count, 0, rdv->want, parts, SN_IOV_MAX, &covered);
		sn_segs_put((uint8_t *)record + sizeof(cts), parts, cts.seg_count);
	}
	memcpy(record, &cts, sizeof(cts));
	rdv->state = SN_RDV_ASKED;
	uint32_t bytes = (uint32_t)(sizeof(cts) + cts.seg_count * sizeof(struct sn_rec_seg));
	sn_send_control(link, SN_REC_CTS, flags, rdv->sender, sn_slot_id(&rdv->slot), record, bytes);
}

static __attribute__((noinline)) void ask_many(struct sn_link *link, struct sn_rdv *rdv)
{
	uint8_t record[sizeof(struct sn_rec_cts) + SN_IOV_MAX * sizeof(struct sn_rec_seg)];
	struct iovec parts[SN_IOV_MAX];
	ask_in(link, rdv, record, parts);
}

static __attribute__((noinline)) void ask_few(struct sn_link *link, struct sn_rdv *rdv)
{
	uint8_t record[sizeof(struct sn_rec_cts) + SN_SEGS_INLINE * sizeof(struct sn_rec_seg)];
	struct iovec parts[SN_SEGS_INLINE];
	ask_in(link, rdv, record, parts);
}

/* The caller may be a coroutine, or a thread with a short stack. */
void sn_rdv_ask(struct sn_link *link, struct sn_rdv *rdv)
{
	if (sn_likely(rdv->iov_count <= SN_SEGS_INLINE))
		ask_few(link, rdv);
	else
		ask_many(link, rdv);
}

/* The sender's buffer lies in its shareable heap, and was checked to: no system call, and nothing to refuse. */
static enum sn_cma_outcome read_mapped(struct sn_link *link, const struct sn_rdv *rdv, uint64_t *done)
{
	*done = SN_MIN_OF(rdv->want - rdv->done, (uint64_t)SN_CMA_SLICE);
	bool back = rdv->bypass && sn_way_gives_back(rdv->want);
	struct sn_mapped m = {rdv->iov,	   rdv->segs.at, rdv->iov_count, rdv->segs.count, true,
			      rdv->bypass, back};
	sn_mapped_copy(link, &m, rdv->done, *done);
	return SN_CMA_OK;
}

/* Every byte was read. */
static void read_all(struct sn_link *link, struct sn_rdv *rdv)
{
	/* Closed: perhaps it was something else by then. It ends with the link. */
	if (sn_unlikely(sn_link_closed(link))) {
		sn_kcopy_leave(link, rdv);
		sn_list_del(&rdv->slot.list);
		rdv->state = SN_RDV_ASKED;
		return;
	}
	if (rdv->way == SN_WAY_SINGLE || rdv->way == SN_WAY_MODULE || rdv->way == SN_WAY_ENGINE)
		sn_way_note(link, rdv->mapped ? SN_ORDER_PULL_MAPPED : SN_ORDER_PULL, rdv->way, rdv->want,
			    sn_now_ns() - rdv->started);
	fin(link, rdv, SN_OK);
	sn_rdv_pulled(link, rdv, SN_OK);
}

/* One slice. False: not finished, and still reading. */
static bool read_slice(struct sn_link *link, struct sn_rdv *rdv)
{
	struct sn_local_counters *count = &link->rail->count;
	uint64_t done;
	int error;
	if (rdv->engine || rdv->region) {
		bool good = rdv->engine ? sn_offload_slice(link, rdv) : sn_kcopy_slice(link, rdv);
		if (good && rdv->done == rdv->want)
			read_all(link, rdv);
		if (good)
			return rdv->done == rdv->want;
		rdv->way = SN_WAYS; /* two of them: neither learns from this one */
	}
	if (sn_unlikely(!rdv->mapped && !sn_rdv_may_read(link))) { /* refused meanwhile, or not wanted */
		sn_list_del(&rdv->slot.list);
		sn_rdv_ask(link, rdv);
		return true;
	}
	enum sn_cma_outcome outcome =
		rdv->mapped
			? read_mapped(link, rdv, &done)
			: sn_cma_read(&link->copy, rdv->iov, rdv->iov_count, rdv->segs.at, rdv->segs.count,
				      rdv->done, rdv->want - rdv->done, &done, &error, &count->system_calls);
	rdv->done += done;
	count->copy_read_bytes += rdv->mapped ? 0 : done;
	if (sn_likely(outcome == SN_CMA_OK)) {
		if (rdv->done < rdv->want)
			return false;
		read_all(link, rdv);
		return true;
	}
	if (outcome == SN_CMA_REFUSED)
		sn_rdv_refused(link, true, error);
	if (outcome == SN_CMA_FAULT) {
		rdv->guard = true;
		count->faults++;
	}
	sn_list_del(&rdv->slot.list);
	sn_rdv_ask(link, rdv);
	return true;
}

/*
 * Each side has a message to fetch from the other: each fetches its own, alone, into its own cache. To share one after
 * the other takes as long at best, and longer where to write what the other core will read is dear. Shorter ones that
 * the kernel copies are not told apart from others: there the laps choose (way.c), and a share is soon done. In a crowd
 * only one of them has the core.
 */
static bool both_fetch(const struct sn_link *link, const struct sn_rdv *rdv)
{
	if ((!rdv->mapped && rdv->want < BOTH_FETCH) || sn_conf_num(SN_CONF_COPY) != SN_COPY_AUTO ||
	    sn_relax_crowded())
		return false;
	for (uint32_t i = 0; i < link->send_slots.count; i++) {
		const struct sn_send *s = (const struct sn_send *)(const void *)link->send_slots.at[i];
		if (s->slot.used && s->state == SN_SEND_ANNOUNCED)
			return true;
	}
	return false;
}

static enum sn_way pull_way(struct sn_link *link, const struct sn_rdv *rdv)
{
	unsigned shared = (unsigned)(sn_share_may(link, rdv->want) && !both_fetch(link, rdv))
			  << SN_WAY_SHARED;
	unsigned engine = (unsigned)sn_offload_may(link->rail, rdv->want) << SN_WAY_ENGINE;
	if (rdv->mapped)
		return sn_way_pick(link, SN_ORDER_PULL_MAPPED, rdv->want,
				   1u << SN_WAY_SINGLE | shared | engine);
	if (!sn_rdv_may_read(link)) /* there is no choice, and nothing to learn */
		return rdv->region ? SN_WAY_MODULE : SN_WAYS;
	if (rdv->stream)
		return SN_WAY_STREAM;
	return sn_way_pick(link, SN_ORDER_PULL, rdv->want,
			   1u << SN_WAY_SINGLE | 1u << SN_WAY_STREAM | shared |
				   (unsigned)(rdv->region != 0) << SN_WAY_MODULE);
}

/* The last byte of a stream is here. */
static void note_stream(struct sn_link *link, const struct sn_rdv *rdv)
{
	uint64_t ns = sn_now_ns() - rdv->started;
	if (rdv->stream)
		sn_send_control(link, SN_REC_COST, 0, rdv->want, ns, NULL, 0);
	else
		sn_way_note(link, SN_ORDER_PULL, SN_WAY_STREAM, rdv->want, ns);
}

void sn_rdv_pull(void *l, struct sn_rdv *rdv, const struct iovec *iov, uint32_t iov_count, uint64_t len,
		 struct sn_req *req)
{
	struct sn_link *link = l;
	rdv->req = req;
	rdv->iov = iov;
	rdv->iov_count = iov_count;
	rdv->want = len;
	if (rdv->state == SN_RDV_PART) /* whoever called the core for it goes on */
		return;
	if (sn_unlikely(link->state == SN_LINK_GONE || link->leaving)) {
		sn_rdv_pulled(link, rdv, SN_ERR_PEER_GONE);
		return;
	}
	if (!len) {
		fin(link, rdv, SN_OK);
		sn_rdv_pulled(link, rdv, SN_OK);
		return;
	}
	sn_way_mesh(link, len);
	rdv->started = rdv->stream ? rdv->started : sn_now_ns();
	if (rdv->stream || rdv->mapped || !link->rail->kmod)
		rdv->region = 0;
	int64_t copy = sn_conf_num(SN_CONF_COPY);
	bool read = sn_rdv_may_read(link) || (rdv->mapped && copy != SN_COPY_STREAM && copy != SN_COPY_WRITE);
	rdv->way = pull_way(link, rdv);
	rdv->bypass = rdv->mapped && sn_way_bypass(link, len);
	if (rdv->way == SN_WAY_ENGINE)
		sn_offload_begin(link, rdv);
	if (rdv->way == SN_WAY_MODULE)
		sn_kcopy_begin(link, rdv);
	else
		rdv->region = 0;
	sn_way_huge(link->rail, len, iov, iov_count);
	if (!rdv->region && (rdv->way == SN_WAY_STREAM || !read)) {
		sn_rdv_ask(link, rdv);
		return;
	}
	if (rdv->way == SN_WAY_SHARED && sn_share_pull(link, rdv))
		return;
	rdv->state = SN_RDV_READING;
	for (int i = 0; i < PULL_AT_ONCE; i++)
		if (read_slice(link, rdv))
			return;
	sn_list_del(&rdv->slot.list);
	sn_list_add_tail(&link->reads, &rdv->slot.list);
	sn_link_busy(link);
}

void sn_rdv_refuse(void *l, struct sn_rdv *rdv, int status)
{
	struct sn_link *link = l;
	fin(link, rdv, status);
	sn_rdv_free(link, rdv);
}

static struct sn_rdv *asked(struct sn_link *link, uint64_t id)
{
	struct sn_rdv *rdv = sn_slot_find(&link->rdv_slots, id);
	return rdv && rdv->state == SN_RDV_ASKED ? rdv : NULL;
}

static int piece_out(struct sn_rdv *rdv, const uint8_t *from, uint64_t offset, uint32_t n)
{
	struct iovec parts[SN_IOV_MAX];
	uint64_t covered;
	uint32_t count = sn_iov_slice(rdv->iov, rdv->iov_count, offset, n, parts, SN_IOV_MAX, &covered);
	for (uint32_t i = 0; i < count; i++) {
		enum sn_guard_outcome outcome = sn_copy_guarded(parts[i].iov_base, from, parts[i].iov_len);
		if (outcome != SN_GUARD_OK)
			return outcome == SN_GUARD_DESTINATION ? SN_ERR_FAULT : SN_ERR_NOMEM;
		from += parts[i].iov_len;
	}
	return SN_OK;
}

void sn_rdv_take(const struct sn_rdv *rdv, const void *from, uint64_t offset, uint64_t n, bool again)
{
	if (sn_likely(rdv->iov_count == 1))
		sn_copy_home((char *)rdv->iov->iov_base + offset, from, n, again);
	else
		sn_iov_write(rdv->iov, rdv->iov_count, offset, from, n);
}

/*
 * Offsets only grow. A gap is what the sender wrote by itself before it was refused; a peer that lies about it spoils
 * its own message only.
 */
int sn_rdv_data(struct sn_link *link, uint64_t id, uint64_t offset, unsigned flags, const void *body,
		uint32_t len)
{
	struct sn_rdv *rdv = asked(link, id);
	if (!rdv || !len || offset < rdv->done || offset > rdv->want || len > rdv->want - offset)
		return sn_fail(SN_ERR_PROTO, "data that nobody asked for");
	if (sn_likely(!(flags & SN_RECF_GUARD)))
		sn_rdv_take(rdv, body, offset, len, false);
	else if (!rdv->status)
		rdv->status = piece_out(rdv, body, offset, len);
	rdv->done = offset + len;
	rdv->exposed = false; /* a sender that streams does not go back to writing */
	link->rail->count.copy_stream_bytes += len;
	if (rdv->done < rdv->want)
		return 0;
	if (rdv->way == SN_WAY_STREAM && !rdv->guard)
		note_stream(link, rdv);
	sn_rdv_pulled(link, rdv, rdv->status);
	return 0;
}

int sn_rdv_done(struct sn_link *link, uint64_t id, uint64_t status)
{
	struct sn_rdv *rdv = asked(link, id);
	if (!rdv)
		return sn_fail(SN_ERR_PROTO, "the end of a message that nobody asked for");
	sn_rdv_pulled(link, rdv, rdv->status ? rdv->status : sn_rdv_status(status));
	return 0;
}

/* ---- both ---------------------------------------------------------------------------------------------------- */

int sn_rdv_step(struct sn_link *link)
{
	int n = sn_share_step(link);
	sn_list_for_each (at, &link->reads) {
		struct sn_rdv *rdv = sn_container(at, struct sn_rdv, slot.list);
		if (rdv->state != SN_RDV_READING)
			continue;
		sn_list_del(&rdv->slot.list); /* to the end: long ones take turns */
		sn_list_add_tail(&link->reads, &rdv->slot.list);
		read_slice(link, rdv);
		n++;
		break;
	}
	sn_list_for_each (at, &link->sends) {
		struct sn_send *s = sn_container(at, struct sn_send, slot.list);
		if (s->state == SN_SEND_KCOPY)
			sn_kcopy_help(link, s);
		else if (s->state == SN_SEND_WRITING)
			sn_rdv_write_slice(link, s);
		else
			continue;
		n++;
		break;
	}
	return n;
}

/* Both sides have claimed what they copy: the other one's last blocks end it, or his failure, which rings. */
bool sn_rdv_rests(const struct sn_link *link)
{
	sn_list_for_each (at, &link->reads) {
		const struct sn_rdv *rdv = sn_container(at, struct sn_rdv, slot.list);
		bool shared = rdv->state == SN_RDV_SHARED || rdv->state == SN_RDV_HELPING;
		if (!shared || !sn_share_rests(&rdv->share))
			return false;
	}
	sn_list_for_each (at, &link->sends) {
		const struct sn_send *s = sn_container(at, struct sn_send, slot.list);
		bool shared = s->state == SN_SEND_SHARED || s->state == SN_SEND_HELPING;
		if (!shared || !sn_share_rests(&s->share))
			return false;
	}
	return true;
}

bool sn_rdv_exposed(const struct sn_link *link)
{
	for (uint32_t i = 0; i < link->rdv_slots.count; i++) {
		const struct sn_rdv *rdv = (const struct sn_rdv *)(const void *)link->rdv_slots.at[i];
		if (rdv->slot.used && rdv->exposed)
			return true;
	}
	return false;
}

void sn_rdv_end(struct sn_link *link, int status)
{
	for (uint32_t i = 0; i < link->send_slots.count; i++) {
		struct sn_send *s = (struct sn_send *)(void *)link->send_slots.at[i];
		if (s->slot.used)
			sn_send_end(link, s, status);
	}
	for (uint32_t i = 0; i < link->rdv_slots.count; i++) {
		struct sn_rdv *rdv = (struct sn_rdv *)(void *)link->rdv_slots.at[i];
		if (rdv->slot.used && rdv->req)
			sn_rdv_pulled(link, rdv, status);
		else if (rdv->slot.used && rdv->state == SN_RDV_HELPING)
			sn_rdv_free(link, rdv);
	}
}
