/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For libsennit-mpi.so: what a call of the MPI leads to, and the same again without the MPI (shim/quick.h).
 *
 * Only where nothing counts sends or receives. What counters and queues hear of is what the MPI has asked for; of
 * what was done here they hear nothing, because it did not.
 *
 * Where several threads may call, others of the program's, of the MPI's own and the provider's may move messages in
 * the meantime. What they do may be a part of what the watched call leads to, so a lesson in which one of them does
 * anything says nothing. They only say so (noticed): each lesson itself is read and written by the thread alone whose
 * call it is.
 */
#include "ofi.h"
#include "progress/caller.h"
#include "progress/live.h"
#include "progress/relax.h"
#include "progress/turns.h"
#include "shim.h"
#include <pthread.h>
#include <unistd.h>

#define OPENED 8 /* endpoints of a process that an MPI moves by its calls */
/* A matched probe waits so long, beside nothing that the MPI could read, before it is the MPI's, which sleeps. */
#define PROBE_NS 20000
#define PROBES	 16 /* before that, at once */
/* One more look for so many bytes, whose two copies take that long. */
#define LOOK_BYTES 256

_Atomic uint32_t sn_ofi_lessons;
static _Atomic uint32_t noticed; /* what happened while there was a lesson, in whatever thread */

/* The calling thread's; NULL: it has none. */
static struct sn_shim_lesson *lesson_of_mine(void)
{
	struct sn_shim_thread *t = sn_caller_shim()->thread();

	t->noticed++;
	atomic_fetch_add(&noticed, 1);
	return t->lesson;
}

/* Since its lesson began. */
static bool disturbed(const struct sn_shim_thread *t)
{
	return atomic_load(&noticed) - t->all_before != t->noticed - t->noticed_before;
}

static void spoil(struct sn_shim_lesson *l)
{
	l->sends = l->recvs = 2;
	l->room = 0;
	l->count = 1;
}

void sn_ofi_lesson_spoil(void)
{
	struct sn_shim_lesson *l = sn_unlikely(sn_ofi_taught()) ? lesson_of_mine() : NULL;

	if (sn_unlikely(l != NULL))
		spoil(l);
}

/* Where the bytes of a message are kept for who wants to compare them. */
static void keep(struct sn_shim_lesson *l, struct sn_shim_step *step, const void *buf, uint64_t len)
{
	if (!l->bytes)
		return;
	if (len > l->bytes_room - l->bytes_used) {
		spoil(l);
		return;
	}
	step->bytes = l->bytes_used;
	if (len)
		memcpy(l->bytes + l->bytes_used, buf, len);
	l->bytes_used += (uint32_t)len;
}

static struct sn_shim_step *note(struct sn_shim_lesson *l, const struct sn_shim_way *way, const void *buf)
{
	if (l->count >= l->room) {
		l->count = l->room + 1;
		return NULL;
	}
	struct sn_shim_step *step = &l->steps[l->count++];
	*step = (struct sn_shim_step){.way = *way, .buf = buf};
	return step;
}

static bool is_oneself(sn_ep *ep, sn_peer to)
{
	uint8_t mine[SN_ADDR_MAX], its[SN_ADDR_MAX];
	size_t len = sizeof(mine), its_len = sizeof(its);

	return !sn_ep_address(ep, mine, &len) && !sn_peer_address(ep, to, its, &its_len) && len == its_len &&
	       !memcmp(mine, its, len);
}

void sn_ofi_lesson_send(const struct sn_ofi_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits,
			uint64_t data, uint32_t flags)
{
	struct sn_shim_lesson *l = lesson_of_mine();

	if (!l)
		return;
	if (ep->cntr[SN_OFI_SEND] || flags & ~(uint32_t)(SN_DATA | SN_FORGET) || len > SN_SHIM_LONGEST) {
		spoil(l);
		return;
	}
	l->sends++;
	l->sent = buf;
	l->send = (struct sn_shim_way){
		.ep = ep->sn, .len = len, .bits = bits, .data = data, .peer = to, .flags = flags & SN_DATA};
	if (is_oneself(ep->sn, to))
		l->send.flags |= SN_SHIM_SELF;
	struct sn_shim_step *step = note(l, &l->send, buf);
	if (step)
		keep(l, step, buf, len);
}

void sn_ofi_lesson_recv(const struct sn_ofi_ep *ep, sn_peer from, const void *buf, size_t room, uint64_t bits,
			uint64_t mask, const void *context)
{
	struct sn_shim_lesson *l = lesson_of_mine();

	if (!l)
		return;
	if (ep->cntr[SN_OFI_RECV]) {
		spoil(l);
		return;
	}
	l->queue = ep->rx_cq;
	if (ep->rx_cq)
		atomic_store_explicit(&ep->rx_cq->taught, true, memory_order_relaxed);
	l->recvs++;
	l->asked = false;
	l->received = buf;
	l->context = context;
	l->recv = (struct sn_shim_way){.ep = ep->sn, .len = room, .bits = bits, .mask = mask, .peer = from};
	struct sn_shim_step *step = note(l, &l->recv, buf);
	if (step) {
		step->is_recv = 1;
		step->context = context;
	}
}

void sn_ofi_lesson_read(void)
{
	struct sn_shim_lesson *l = lesson_of_mine();

	for (uint32_t i = 0; l && i < l->count && i < l->room; i++)
		if (l->steps[i].over && !l->steps[i].known)
			l->steps[i].known = l->count;
}

static uint64_t taken_from(const void *queue)
{
	struct sn_ofi_cq *cq = (struct sn_ofi_cq *)(uintptr_t)queue;
	sn_lock(&cq->lock);
	uint64_t head = cq->head;
	sn_unlock(&cq->lock);
	return head;
}

void sn_ofi_lesson_over(const sn_completion *c, bool reading)
{
	struct sn_shim_lesson *l = lesson_of_mine();
	uint32_t i = l && c->op == SN_OP_RECV && l->count <= l->room ? l->count : 0;

	while (i-- > 0) {
		struct sn_shim_step *step = &l->steps[i];
		if (!step->is_recv || step->over || step->context != c->context)
			continue;
		step->over = !c->status;
		step->way.exactly = c->bits;
		step->got = c->len;
		keep(l, step, step->buf, c->len);
		if (reading)
			sn_ofi_lesson_read();
		break;
	}

	if (!l || c->op != SN_OP_RECV || !l->recvs || c->context != l->context)
		return;
	l->over = !c->status;
	l->recv.exactly = c->bits;
	l->got = c->len;
	l->head = l->queue ? taken_from(l->queue) : 0;
}

/*
 * One that goes on: what came in its first part, the MPI may have read since, and answered. From where it says so
 * here on, who reads it in another thread disturbs.
 */
static void learn(struct sn_shim_lesson *lesson)
{
	struct sn_shim_thread *t = sn_caller_shim()->thread();

	if (t->lesson) {
		if (disturbed(t))
			spoil(t->lesson);
		atomic_fetch_sub(&sn_ofi_lessons, 1);
	}
	t->lesson = lesson;
	if (!lesson)
		return;
	atomic_fetch_add(&sn_ofi_lessons, 1);
	t->noticed_before = t->noticed;
	t->all_before = atomic_load(&noticed);
	if (lesson->over && (!lesson->queue || lesson->head != taken_from(lesson->queue)))
		spoil(lesson);
}

static uint32_t send_again(const struct sn_shim_way *w, const void *buf)
{
	return !sn_try_send(w->ep, w->peer, buf, w->len, w->bits, w->data, w->flags & ~SN_SHIM_SELF);
}

static int64_t recv_again(const struct sn_shim_way *w, void *buf)
{
	uint64_t len;
	unsigned looks = SN_SHIM_LOOKS + (unsigned)(w->len / LOOK_BYTES);

	return sn_try_recv(w->ep, w->peer, buf, w->len, w->bits, w->mask, w->exactly, looks, &len)
		       ? -1
		       : (int64_t)len;
}

static int64_t self_again(const struct sn_shim_way *out, const void *from, const struct sn_shim_way *in,
			  void *to)
{
	return out->ep == in->ep && out->bits == in->exactly &&
			       !sn_try_self(out->ep, out->peer, from, out->len, out->bits, in->peer, to,
					    in->len, in->bits, in->mask)
		       ? (int64_t)out->len
		       : -1;
}

static int32_t send_surely(const struct sn_shim_way *w, const void *buf)
{
	return sn_inject(w->ep, w->peer, buf, w->len, w->bits, w->data, w->flags & ~SN_SHIM_SELF);
}

static int64_t recv_surely(const struct sn_shim_way *w, void *buf, void (*meanwhile)(void))
{
	sn_completion c;
	int rc = sn_recv(w->ep, w->peer, buf, w->len, w->bits, w->mask, meanwhile, &c);

	return rc ? rc : c.status ? c.status : c.bits != w->exactly ? SN_ERR_PROTO : (int64_t)c.len;
}

/* ---- matched probes ---- */

void sn_ofi_lesson_probe(const struct sn_ofi_ep *ep, sn_peer from, uint64_t bits, uint64_t mask,
			 const sn_completion *c)
{
	struct sn_shim_lesson *l = lesson_of_mine();

	if (!l)
		return;
	l->recvs++;
	l->recv = (struct sn_shim_way){.ep = ep->sn,
				       .bits = bits,
				       .mask = mask,
				       .data = (uintptr_t)ep,
				       .exactly = c ? c->bits : 0,
				       .peer = from};
	l->got = c ? c->full_len : 0;
	l->over = c != NULL;
	l->sender = c ? c->peer : SN_ANY_PEER;
	l->asked = true;
}

static bool is_filled(struct sn_ofi_cq *cq)
{
	return cq && cq->set.filled(&cq->set);
}

static int32_t peek_again(const struct sn_shim_way *w, struct sn_shim_message *m)
{
	struct sn_ofi_ep *ep = (struct sn_ofi_ep *)(uintptr_t)w->data;
	sn_completion c;

	if (sn_relax_crowded() || sn_ofi_any_given() || !ep->rx_cq)
		return SN_SHIM_NEVER;
	int rc = sn_try_probe(w->ep, w->peer, w->bits, w->mask, &c);
	if (rc == SN_ERR_AGAIN)
		return is_filled(ep->rx_cq) || (ep->tx_cq != ep->rx_cq && is_filled(ep->tx_cq))
			       ? SN_SHIM_NEVER
			       : SN_SHIM_NOT_YET;
	if (rc)
		return SN_SHIM_NEVER;
	m->bits = c.bits;
	m->len = c.full_len;
	m->peer = c.peer;
	return 0;
}

static int32_t probe_again(const struct sn_shim_way *w, struct sn_shim_message *m)
{
	struct sn_ofi_ep *ep = (struct sn_ofi_ep *)(uintptr_t)w->data;
	sn_claim *claim;
	sn_completion c;

	uint64_t until = 0;
	unsigned looks = sn_relax_crowded() ? 1 : PROBES;
	int rc;

	do
		rc = sn_mprobe(w->ep, 0, w->peer, w->bits, w->mask, &c, &claim);
	while (rc == SN_ERR_AGAIN && --looks);
	while (rc && (rc = sn_ofi_find(ep, w->peer, w->bits, w->mask, &c, &claim)) == SN_ERR_AGAIN) {
		uint64_t now = sn_now_ns();
		if (!until)
			until = now + PROBE_NS;
		if (now >= until || sn_relax_crowded() || !ep->rx_cq ||
		    ep->rx_cq->set.filled(&ep->rx_cq->set))
			break;
	}
	if (rc)
		return -1;
	*m = (struct sn_shim_message){.ep = w->ep,
				      .claim = claim,
				      .bits = c.bits,
				      .len = c.full_len,
				      .data = c.data,
				      .peer = c.peer,
				      .flags = c.flags};
	return c.bits == w->exactly && (!c.full_len || sn_claim_data(w->ep, claim));
}

static int64_t bring(const struct sn_shim_message *m, void *buf)
{
	const void *data = m->len ? sn_claim_data(m->ep, m->claim) : NULL;

	if (m->len && !data)
		return -1;
	if (data)
		memcpy(buf, data, m->len);
	return sn_discard(m->ep, m->claim) ? -1 : (int64_t)m->len;
}

bool sn_ofi_takes_message(const struct sn_ofi_ep *ep, sn_completion *c, sn_claim **claim)
{
	const struct sn_shim *shim = sn_caller_shim();
	struct sn_shim_thread *t = shim ? shim->thread() : NULL;
	const struct sn_shim_message *m = t ? t->message : NULL;

	if (sn_likely(!m) || m->ep != ep->sn)
		return false;
	t->message = NULL;
	*claim = m->claim;
	*c = (sn_completion){.op = SN_OP_RECV,
			     .peer = m->peer,
			     .flags = m->flags,
			     .bits = m->bits,
			     .full_len = m->len,
			     .data = m->data};
	return true;
}

/* ---- how much has come into buffers that are noted ---- */

void sn_ofi_note(const sn_completion *c)
{
	struct sn_shim_note *n = &sn_caller_shim()->notes[sn_shim_note_of((uintptr_t)c->buf)];

	if (c->buf && atomic_load_explicit(&n->buf, memory_order_acquire) == (uintptr_t)c->buf)
		atomic_store_explicit(&n->came,
				      c->status && c->status != SN_ERR_TRUNCATED ? 0 : (int64_t)c->len,
				      memory_order_release);
}

/* ---- receives that stay ---- */

struct sn_shim_ahead *_Atomic sn_ofi_ahead;

static _Atomic uint32_t none;
_Atomic uint32_t *_Atomic sn_ofi_stays = &none;
_Atomic uint32_t *_Atomic sn_ofi_given = &none;
_Atomic uint32_t *_Atomic sn_ofi_noted = &none;

static inline void stays_change(int32_t by)
{
	_Atomic uint32_t *stays = atomic_load_explicit(&sn_ofi_stays, memory_order_relaxed);
	uint32_t stay = atomic_load_explicit(stays, memory_order_relaxed);

	atomic_store_explicit(stays, stay + (uint32_t)by, memory_order_relaxed);
}

void sn_ofi_give(void)
{
	sn_caller_shim()->give();
}

bool sn_ofi_takes(const struct sn_ofi_ep *ep, sn_peer from, const void *buf, size_t room, uint64_t bits,
		  uint64_t mask, void *context)
{
	struct sn_shim_ahead *a = atomic_load_explicit(&sn_ofi_ahead, memory_order_acquire);
	const struct sn_shim_way *w = a ? &a->way : NULL;

	/* of another thread: it may be over by now */
	if (!a || a->taker != sn_caller_shim()->thread() || !a->posted || w->ep != ep->sn ||
	    w->peer != from || w->len != room || w->bits != bits || w->mask != mask ||
	    (a->buf != buf && room))
		return false;
	sn_req *posted = a->posted;
	a->posted = NULL;
	stays_change(-1);
	sn_try_hand_over(posted, context);
	return true;
}

static struct sn_shim_ahead *take(struct sn_shim_ahead *ahead)
{
	struct sn_shim_ahead *before = atomic_load_explicit(&sn_ofi_ahead, memory_order_relaxed);

	if (ahead)
		ahead->taker = sn_caller_shim()->thread();
	atomic_store_explicit(&sn_ofi_ahead, ahead, memory_order_release);
	return before;
}

static void *post_again(const struct sn_shim_way *w, void *buf, int64_t *came)
{
	sn_req *posted = sn_try_await(w->ep, w->peer, buf, w->len, w->bits, w->mask, w->exactly, came);

	stays_change(posted != NULL);
	return posted;
}

static int64_t test(void *posted, uint64_t exactly, uint32_t looks, int64_t *came)
{
	int rc = sn_try_awaited(posted, exactly, looks, came);

	return sn_likely(!rc) ? *came : rc == SN_ERR_AGAIN ? SN_SHIM_NOT_YET : SN_SHIM_NEVER;
}

static uint32_t hold(void *posted, const int64_t *came)
{
	return !sn_try_hold(posted, came);
}

static uint32_t drop(void *posted)
{
	stays_change(-1);
	return !sn_try_drop(posted);
}

/* ---- for collectives (shim/flat.h) ---- */

static uint32_t marked(const struct sn_shim_way *w)
{
	_Static_assert(SN_SHIM_MARK == SN_MARK, "of a way's flags, too");
	return (uint32_t)sn_try_marked(w->ep);
}

static uint32_t crowded(void)
{
	return sn_relax_crowded() && !sn_turns_doubted();
}

static uint32_t awake(int (*poll)(void *arg), void *arg)
{
	return sn_relax_awake(poll, arg);
}

static void *latest, *opened[OPENED]; /* the latter: and not closed */

static void *endpoint(void)
{
	return __atomic_load_n(&latest, __ATOMIC_RELAXED);
}

/* The others, too: Open MPI 5 opens one for one-sided traffic after that for its messages. */
static void progress(void *ep)
{
	sn_ofi_look(ep);
	for (unsigned i = 0; i < OPENED; i++) {
		void *other = __atomic_load_n(&opened[i], __ATOMIC_RELAXED);
		if (other && other != ep)
			sn_ofi_look(other);
	}
}

static void put(void *was, void *is)
{
	bool done = false;

	for (unsigned i = 0; i < OPENED && !done; i++) {
		void *found = was;
		done = __atomic_compare_exchange_n(&opened[i], &found, is, false, __ATOMIC_RELAXED,
						   __ATOMIC_RELAXED);
	}
}

/* ---- what is told of the collectives ---- */

static struct {
	pthread_mutex_t lock; /* not waited for: who has it may be the thread of a parent */
	struct sn_live_row *row;
	_Atomic pid_t pid; /* whose table it is in: a forked child has none of its parent's */
	_Atomic int open;  /* endpoints */
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The row lives as long as there is an endpoint. */
static void told_open(int by)
{
	if (told.pid != getpid()) {
		told.pid = getpid();
		told.row = NULL;
		atomic_store(&told.open, 0);
	}
	if (atomic_fetch_add(&told.open, by) + by > 0 || pthread_mutex_trylock(&told.lock))
		return;
	if (told.row)
		sn_live_remove(told.row);
	told.row = NULL;
	pthread_mutex_unlock(&told.lock);
}

static void tell(const char *words)
{
	if (pthread_mutex_trylock(&told.lock))
		return;
	if (told.pid == getpid() && atomic_load(&told.open) > 0) {
		if (!told.row)
			told.row = sn_live_add(0, "this process", "collectives", "");
		sn_live_text(told.row, "%s", words);
	}
	pthread_mutex_unlock(&told.lock);
}

void sn_ofi_quick_open(const struct sn_ofi_ep *ep)
{
	static const struct sn_shim_quick quick = {.learn = learn,
						   .send = send_again,
						   .recv = recv_again,
						   .self = self_again,
						   .send_surely = send_surely,
						   .recv_surely = recv_surely,
						   .post = post_again,
						   .test = test,
						   .hold = hold,
						   .take = take,
						   .drop = drop,
						   .probe = probe_again,
						   .peek = peek_again,
						   .bring = bring,
						   .marked = marked,
						   .crowded = crowded,
						   .awake = awake,
						   .progress = progress,
						   .endpoint = endpoint,
						   .events = sn_ofi_events,
						   .tell = tell};
	struct sn_shim *shim = sn_caller_shim();

	__atomic_store_n(&latest, ep->sn, __ATOMIC_RELAXED);
	put(NULL, ep->sn);
	told_open(1);
	if (!shim)
		return;
	atomic_store(&sn_ofi_stays, &shim->stays);
	atomic_store(&sn_ofi_given, &shim->given);
	atomic_store(&sn_ofi_noted, &shim->noted);
	atomic_store(&shim->quick, &quick);
}

void sn_ofi_quick_close(const struct sn_ofi_ep *ep)
{
	const struct sn_shim *shim = sn_caller_shim();

	put(ep->sn, NULL);
	told_open(-1);
	if (endpoint() == ep->sn)
		__atomic_store_n(&latest, NULL, __ATOMIC_RELAXED);
	if (shim)
		shim->forget(ep->sn);
}
