/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues: a ring that grows, filled by the engine's callbacks and emptied by fi_cq_read. It never refuses an
 * entry, so the size asked for is only a hint and a sender is never held back by a queue that nobody reads.
 *
 * Waiting: fi_cq_sread spins, yields and naps by the engine's policy. There is no file descriptor to wait for: progress
 * is manual, so nothing would make one readable.
 */
#include "base/launched.h"
#include "beside.h"
#include "ofi.h"
#include "progress/relax.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LAUNCHERS_S 2 /* of Open MPI, which lets others end by themselves for a second */

/* ---- filling ---- */

static bool ring_grow(struct sn_ofi_cq *cq)
{
	size_t size = 2 * (cq->mask + 1);
	struct sn_ofi_event *ring = malloc(size * sizeof(*ring));

	if (!ring)
		return false;
	for (size_t i = cq->head; i != cq->tail; i++)
		ring[i & (size - 1)] = cq->ring[i & cq->mask];
	free(cq->ring);
	cq->ring = ring;
	cq->mask = size - 1;
	return true;
}

/* Where the next entry goes, with the queue's lock held; NULL: there is no memory for it. */
static inline struct sn_ofi_event *slot(struct sn_ofi_cq *cq)
{
	if (sn_unlikely(cq->direct_left)) /* never where several threads read it, so that none writes it */
		cq->direct_left = 0;	  /* what comes after it comes after it */
	if (sn_unlikely(cq->tail - cq->head > cq->mask) && !ring_grow(cq)) {
		cq->overrun = true;
		return NULL;
	}
	return &cq->ring[cq->tail & cq->mask];
}

void sn_ofi_cq_push(struct sn_ofi_cq *cq, const struct sn_ofi_event *event)
{
	sn_lock(&cq->lock);
	struct sn_ofi_event *e = slot(cq);
	if (e) {
		*e = *event;
		cq->tail++;
	}
	cq->misses += event->err == FI_ENOMSG;
	sn_unlock(&cq->lock);
}

/* Only tagged receives: the messages of a multi-receive keep their order. */
void sn_ofi_cq_first(struct sn_ofi_cq *cq, const void *context)
{
	const uint64_t sort = FI_TAGGED | FI_RECV;

	sn_lock(&cq->lock);
	for (size_t i = cq->head; i != cq->tail; i++) {
		struct sn_ofi_event e = cq->ring[i & cq->mask];
		if (e.e.op_context != context || (e.e.flags & sort) != sort)
			continue;
		for (; i != cq->head; i--)
			cq->ring[i & cq->mask] = cq->ring[(i - 1) & cq->mask];
		cq->ring[cq->head & cq->mask] = e;
		cq->alone = true;
		break;
	}
	sn_unlock(&cq->lock);
}

struct op_meaning {
	uint64_t flags;
	enum sn_ofi_cntr_kind cntr;
	bool rx;
};

static const struct op_meaning meanings[] = {
	[SN_OP_SEND] = {FI_TAGGED | FI_SEND, SN_OFI_SEND, false},
	[SN_OP_RECV] = {FI_TAGGED | FI_RECV, SN_OFI_RECV, true},
	[SN_OP_MSEND] = {FI_MSG | FI_SEND, SN_OFI_SEND, false},
	[SN_OP_MRECV] = {FI_MSG | FI_RECV, SN_OFI_RECV, true},
	[SN_OP_PUT] = {FI_RMA | FI_WRITE, SN_OFI_WRITE, false},
	[SN_OP_GET] = {FI_RMA | FI_READ, SN_OFI_READ, false},
	[SN_OP_ATOMIC] = {FI_ATOMIC | FI_WRITE, SN_OFI_WRITE, false},
	[SN_OP_FETCH] = {FI_ATOMIC | FI_READ, SN_OFI_READ, false},
	[SN_OP_TARGET_PUT] = {FI_RMA | FI_REMOTE_WRITE, SN_OFI_REMOTE_WRITE, true},
	[SN_OP_TARGET_GET] = {FI_RMA | FI_REMOTE_READ, SN_OFI_REMOTE_READ, true},
	[SN_OP_TARGET_ATOMIC] = {FI_ATOMIC | FI_REMOTE_WRITE, SN_OFI_REMOTE_WRITE, true},
};

static inline void fill(struct fi_cq_tagged_entry *e, const sn_completion *c, uint64_t flags)
{
	bool data = c->flags & SN_COMP_DATA && flags & (FI_RECV | FI_REMOTE_WRITE);

	e->op_context = c->context;
	e->flags =
		flags | (data ? FI_REMOTE_CQ_DATA : 0) | (c->flags & SN_COMP_BUFFER_DONE ? FI_MULTI_RECV : 0);
	e->len = c->len;
	e->buf = flags & FI_RECV ? c->buf : NULL;
	e->data = data ? c->data : 0;
	e->tag = flags & FI_TAGGED ? c->bits : 0;
}

/* Everything but a success of which somebody is just reading, with nothing before it. */
static void __attribute__((noinline))
enter_ring(struct sn_ofi_cq *cq, struct sn_ofi_ep *ep, const sn_completion *c, uint64_t flags)
{
	sn_lock(&cq->lock);
	struct sn_ofi_event *e = slot(cq);
	if (sn_unlikely(!e)) {
		sn_unlock(&cq->lock);
		return;
	}
	fill(&e->e, c, flags);
	e->ep = ep;
	e->peer = c->peer;
	e->err = 0;
	if (sn_unlikely(c->status)) {
		e->err = (uint16_t)sn_ofi_error(c->status);
		e->prov = (uint16_t)-c->status;
		e->olen = c->full_len - c->len;
	}
	cq->tail++;
	sn_unlock(&cq->lock);
}

/* An entry stands in the reader's array. */
static inline void passed(struct sn_ofi_cq *cq, size_t size)
{
	cq->direct += size;
	cq->direct_left--;
	cq->given++;
}

static inline void enter(struct sn_ofi_cq *cq, struct sn_ofi_ep *ep, const sn_completion *c, uint64_t flags)
{
	if (sn_unlikely(!cq->direct_left || c->status)) {
		enter_ring(cq, ep, c, flags);
		return;
	}
	if (sn_likely(cq->entry_size == sizeof(struct fi_cq_tagged_entry))) {
		fill((struct fi_cq_tagged_entry *)(void *)cq->direct, c, flags);
	} else {
		struct fi_cq_tagged_entry e;
		fill(&e, c, flags);
		memcpy(cq->direct, &e, cq->entry_size);
	}
	passed(cq, cq->entry_size);
}

/* The commonest: a tagged receive has succeeded, and somebody reads just then. */
static inline bool give(struct sn_ofi_ep *ep, const sn_completion *c)
{
	struct sn_ofi_cq *cq = ep->gives;

	if (sn_unlikely(!cq || !cq->direct_left || c->status || c->flags & ~(uint32_t)SN_COMP_DATA))
		return false;
	fill((struct fi_cq_tagged_entry *)(void *)cq->direct, c, FI_TAGGED | FI_RECV);
	passed(cq, sizeof(struct fi_cq_tagged_entry));
	return true;
}

/*
 * Budget of a successful operation: one table look and one entry, written where its reader wants it (what arrives while
 * one thread reads), or 80 bytes into a ring that stays in the cache.
 */
void sn_ofi_on_complete(void *arg, const sn_completion *c)
{
	struct sn_ofi_ep *ep = arg;
	if (sn_unlikely(sn_ofi_taught()))
		sn_ofi_lesson_over(c, ep->rx_cq && ep->rx_cq->direct_left);
	if (c->op == SN_OP_RECV && sn_unlikely(sn_ofi_notes()))
		sn_ofi_note(c);
	if (sn_likely(c->op == SN_OP_RECV && give(ep, c)))
		return;
	const struct op_meaning *m = &meanings[c->op];
	struct sn_ofi_cq *cq = m->rx ? ep->rx_cq : ep->tx_cq;
	struct sn_ofi_cntr *cntr = ep->cntr[m->cntr];
	bool quiet = c->flags & SN_COMP_FORGET && !c->status && !(c->flags & SN_COMP_BUFFER_DONE);

	if (cntr)
		sn_ofi_cntr_count(cntr, !c->status);
	if (cq && !quiet)
		enter(cq, ep, c, m->flags);
}

/* Budget: like a callback's, of which less is known. */
void sn_ofi_sent(struct sn_ofi_ep *ep, uint32_t flags, sn_peer to, uint64_t tag, uint64_t len, void *context)
{
	struct sn_ofi_cq *cq = ep->tx_cq;

	if (sn_unlikely(ep->cntr[SN_OFI_SEND] != NULL))
		sn_ofi_cntr_count(ep->cntr[SN_OFI_SEND], true);
	if (flags & SN_FORGET || sn_unlikely(!cq))
		return;
	sn_lock(&cq->lock);
	struct sn_ofi_event *e = slot(cq);
	if (sn_likely(e != NULL)) {
		e->e = (struct fi_cq_tagged_entry){
			.op_context = context, .flags = FI_TAGGED | FI_SEND, .len = len, .tag = tag};
		e->ep = ep;
		e->peer = to;
		e->err = 0;
		cq->tail++;
	}
	sn_unlock(&cq->lock);
}

/* A peer has accessed memory of ours: counted, for the endpoint and the registration; reported if it brought data. */
void sn_ofi_on_target(void *arg, const sn_completion *c)
{
	struct sn_ofi_ep *ep = arg;
	const struct op_meaning *m = &meanings[c->op];
	struct sn_ofi_cntr *cntr = ep->cntr[m->cntr];

	if (cntr)
		sn_ofi_cntr_count(cntr, !c->status);
	sn_ofi_mr_accessed(ep->domain, c->bits, c->op != SN_OP_TARGET_GET);
	if (ep->rx_cq && c->flags & SN_COMP_DATA)
		enter(ep->rx_cq, ep, c, m->flags);
}

void sn_ofi_cq_forget_ep(struct sn_ofi_cq *cq, struct sn_ofi_ep *ep)
{
	sn_lock(&cq->lock);
	for (size_t i = cq->head; i != cq->tail; i++)
		if (cq->ring[i & cq->mask].ep == ep)
			cq->ring[i & cq->mask].ep = NULL;
	sn_unlock(&cq->lock);
	atomic_fetch_sub(&cq->refs, 1);
}

/* ---- reading ---- */

struct origin {
	struct sn_ofi_ep *ep;
	sn_peer peer;
};

/* Take up to count entries. -FI_EAGAIN: there are none; -FI_EAVAIL: the first is an error. */
static ssize_t take(struct sn_ofi_cq *cq, void *buf, size_t count, struct origin *origins)
{
	ssize_t n = 0;

	sn_lock(&cq->lock);
	if (cq->head == cq->tail) {
		n = cq->overrun ? -FI_EOVERRUN : -FI_EAGAIN;
		goto out;
	}
	if (sn_unlikely(sn_ofi_taught()))
		sn_ofi_lesson_read();
	if (sn_unlikely(cq->alone))
		count = SN_MIN_OF(count, (size_t)1);
	size_t head = cq->head, end = head + SN_MIN_OF(count, cq->tail - head), mask = cq->mask;
	size_t size = cq->entry_size;
	char *to = buf;
	for (; head != end; n++, head++, to += size) {
		const struct sn_ofi_event *e = &cq->ring[head & mask];
		if (sn_unlikely(e->err)) {
			n = n ? n : -FI_EAVAIL;
			break;
		}
		if (sn_likely(size == sizeof(struct fi_cq_tagged_entry))) /* a few moves */
			memcpy(to, &e->e, sizeof(struct fi_cq_tagged_entry));
		else
			memcpy(to, &e->e, size);
		if (origins)
			origins[n] = (struct origin){e->ep, e->peer};
	}
	cq->alone &= head == cq->head;
	cq->head = head;
	if (n > 0)
		sn_ofi_handed();
out:
	sn_unlock(&cq->lock);
	return n;
}

#define BATCH 16 /* entries whose sources are looked up at a time */

/* Sources are looked up after the ring's lock is given back: that takes the address vector's and the endpoint's. */
static ssize_t take_from(struct sn_ofi_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	struct origin origins[BATCH];
	ssize_t n;

	if (!src)
		return take(cq, buf, count, NULL);
	n = take(cq, buf, SN_MIN_OF(count, (size_t)BATCH), origins);
	for (ssize_t i = 0; i < n; i++)
		src[i] = origins[i].ep ? sn_ofi_av_source(origins[i].ep, origins[i].peer) : FI_ADDR_NOTAVAIL;
	return n;
}

/* Is there what a waiting read waits for? An error counts whatever the threshold. */
static bool filled(struct sn_ofi_cq *cq, size_t want)
{
	bool yes;

	sn_lock(&cq->lock);
	yes = cq->overrun || cq->tail - cq->head >= want ||
	      (cq->tail != cq->head && cq->ring[cq->head & cq->mask].err);
	sn_unlock(&cq->lock);
	return yes;
}

static bool set_filled(struct sn_ofi_set *set)
{
	return filled(sn_container(set, struct sn_ofi_cq, set), 1);
}

/*
 * A look by the only thread there is, with nothing in the ring. What comes goes straight into its array, unless sources are
 * asked for.
 */
static ssize_t look(struct sn_ofi_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	if (sn_ofi_set_is_empty(&cq->set)) {
		if (sn_unlikely(sn_relax_crowded())) /* then the library's own yield is called for */
			sn_ofi_set_relax(&cq->set, 0, sn_ofi_cq_mark(cq));
		return -FI_EAGAIN;
	}
	size_t given = cq->given;
	if (sn_likely(!src)) {
		cq->direct = buf;
		cq->direct_left = count;
	}
	if (!sn_ofi_set_progress(&cq->set) && cq->given == given)
		sn_ofi_set_relax(&cq->set, 0, sn_ofi_cq_mark(cq));
	cq->direct_left = 0;
	given = cq->given - given;
	if (!given)
		return sn_likely(cq->head == cq->tail && !cq->overrun) ? -FI_EAGAIN
								       : take_from(cq, buf, count, src);
	if (given < count && cq->head == cq->tail)
		sn_ofi_set_emptied(&cq->set);
	return (ssize_t)given;
}

/* Is there what becomes the MPI's, or ends, when it reads? */
static inline bool is_to_give(struct sn_ofi_cq *cq)
{
	return (atomic_load_explicit(&cq->taught, memory_order_relaxed) && sn_ofi_any_stays()) ||
	       sn_ofi_any_given();
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct sn_ofi_cq *cq = sn_container(fid, struct sn_ofi_cq, fid);
	bool serial = cq->domain->serial;

	if (sn_unlikely(is_to_give(cq)))
		sn_ofi_give();
	if (sn_likely(serial && cq->head == cq->tail && count && !cq->overrun))
		return look(cq, buf, count, src);
	ssize_t n = count ? take_from(cq, buf, count, src) : -FI_EAGAIN;

	if (n != -FI_EAGAIN) {
		sn_ofi_looked();
		if (n > 0 && cq->set.shared)
			sn_ofi_beside_took();
		if (n > 0 && (size_t)n < count && serial && cq->head == cq->tail)
			sn_ofi_set_lay_there(&cq->set);
		return n;
	}
	/* while another thread is to make receives the MPI's it may wait for a lock of the MPI that is held here */
	if (!sn_ofi_set_progress(&cq->set) && !filled(cq, 1) && !sn_ofi_any_stays())
		sn_ofi_set_relax(&cq->set, 0, sn_ofi_cq_mark(cq));
	return take_from(cq, buf, count, src);
}

/*
 * Is an error of an injected message next, which has no context? Who would call what stands in that does without, which is no loss: that the peer is gone was said, and the next send to it, or receive from it, fails.
 */
static bool passes_over(struct sn_ofi_cq *cq)
{
	sn_lock(&cq->lock);
	const struct sn_ofi_event *e = &cq->ring[cq->head & cq->mask];
	bool yes = cq->head != cq->tail && e->err && !e->e.op_context;
	if (yes) {
		cq->head++;
		cq->misses++;
	}
	sn_unlock(&cq->lock);
	return yes;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	ssize_t n = cq_readfrom(fid, buf, count, NULL);

	if (sn_unlikely(n == -FI_EAVAIL) && sn_ofi_calls_contexts(__builtin_return_address(0)) &&
	    passes_over(sn_container(fid, struct sn_ofi_cq, fid)))
		n = -FI_EAGAIN;
	return n;
}

/*
 * That a rank has died its launcher hears a moment later, ends the job, and says what has happened. Who has heard it from
 * here would be first, and the job's exit status that of his own error. So the first time the launcher has that moment.
 */
void sn_ofi_after_the_launcher(int err)
{
	static atomic_flag once = ATOMIC_FLAG_INIT;
	if (err == FI_ECONNRESET && sn_launched().all > 1 && !atomic_flag_test_and_set(&once))
		nanosleep(&(struct timespec){.tv_sec = LAUNCHERS_S}, NULL);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *out, uint64_t flags)
{
	struct sn_ofi_cq *cq = sn_container(fid, struct sn_ofi_cq, fid);
	ssize_t rc = -FI_EAGAIN;

	sn_lock(&cq->lock);
	const struct sn_ofi_event *e = &cq->ring[cq->head & cq->mask];
	struct sn_ofi_event read = {0};
	if (cq->head != cq->tail && e->err) {
		read = *e;
		out->op_context = e->e.op_context;
		out->flags = e->e.flags;
		out->len = e->e.len;
		out->buf = e->e.buf;
		out->data = e->e.data;
		out->tag = e->e.tag;
		out->olen = e->olen;
		out->err = e->err;
		out->prov_errno = e->prov;
		if (cq->domain->fabric->fid.api_version >= FI_VERSION(1, 5))
			out->err_data_size =
				0; /* the caller's buffer stays as it is; the field is younger than 1.5 */
		else
			out->err_data = NULL;
		cq->head++;
		cq->alone = false;
		rc = 1;
	}
	sn_unlock(&cq->lock);
	sn_ofi_after_the_launcher(read.err);
	sn_ofi_answer_short(&read, __builtin_return_address(0));
	return rc;
}

bool sn_ofi_cq_ready(struct sn_ofi_cq *cq)
{
	if (filled(cq, 1))
		return true;
	sn_ofi_set_progress(&cq->set);
	return filled(cq, 1);
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src, const void *cond,
			    int timeout)
{
	struct sn_ofi_cq *cq = sn_container(fid, struct sn_ofi_cq, fid);
	uint64_t end = sn_ofi_deadline(timeout);
	size_t want = 1;

	if (sn_unlikely(is_to_give(cq)))
		sn_ofi_give();
	if (cq->threshold && cond)
		want = SN_MAX_OF(SN_MIN_OF(*(const size_t *)cond, count), (size_t)1);
	while (!filled(cq, want)) {
		if (sn_ofi_set_progress(&cq->set))
			continue;
		if (atomic_exchange(&cq->signaled, false))
			return -FI_ECANCELED;
		if (end != UINT64_MAX && sn_now_ns() >= end)
			break;
		sn_ofi_set_relax(&cq->set, end, sn_ofi_cq_mark(cq));
	}
	return take_from(cq, buf, count, src);
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	atomic_store(&sn_container(fid, struct sn_ofi_cq, fid)->signaled, true);
	return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	const char *text = prov_errno ? sn_strerror(-prov_errno) : "no message matches";

	if (buf && len) {
		snprintf(buf, len, "%s", text);
		return buf;
	}
	return text;
}

static int cq_close(struct fid *fid)
{
	struct sn_ofi_cq *cq = sn_container(fid, struct sn_ofi_cq, fid.fid);

	if (atomic_load(&cq->refs))
		return -FI_EBUSY;
	sn_ofi_domain_put(cq->domain);
	free(cq->ring);
	sn_ofi_set_closed(&cq->set);
	free(cq);
	return 0;
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = sn_ofi_no_bind,
	.control = sn_ofi_no_control,
	.ops_open = sn_ofi_no_ops_open,
};

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

static size_t entry_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_UNSPEC:
	case FI_CQ_FORMAT_CONTEXT: return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG: return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA: return sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_TAGGED: return sizeof(struct fi_cq_tagged_entry);
	default: return 0;
	}
}

int sn_ofi_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	struct sn_ofi_domain *domain = sn_container(fid, struct sn_ofi_domain, fid);
	size_t size = 64;
	struct sn_ofi_cq *cq;

	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
	    attr->wait_obj != FI_WAIT_YIELD)
		return -FI_ENOSYS;
	if (attr->flags & ~FI_AFFINITY)
		return -FI_EBADFLAGS;
	if (!entry_size(attr->format))
		return -FI_EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	while (size < attr->size && size < SN_OFI_QUEUE)
		size *= 2;
	cq->ring = malloc(size * sizeof(*cq->ring));
	if (!cq->ring) {
		free(cq);
		return -FI_ENOMEM;
	}
	cq->mask = size - 1;
	cq->fid.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &cq_fid_ops};
	cq->fid.ops = &cq_ops;
	cq->domain = domain;
	cq->entry_size = entry_size(attr->format);
	cq->threshold = attr->wait_cond == FI_CQ_COND_THRESHOLD;
	cq->lock.enabled = !domain->serial;
	sn_ofi_set_init(&cq->set, domain);
	cq->set.filled = set_filled;
	if (attr->format == FI_CQ_FORMAT_UNSPEC)
		attr->format = FI_CQ_FORMAT_CONTEXT;
	atomic_fetch_add(&domain->refs, 1);
	*out = &cq->fid;
	return 0;
}
