/* SPDX-License-Identifier: BSD-3-Clause */
#include "underway.h"
#include "layout.h"
#include "own.h"
#include "told.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPIN	256	 /* looks at the line that is waited for, before others' ways to wait */
#define SELDOM	1024	 /* looks in vain, after which it is asked whether somebody has ended */
#define LOOKED	16	 /* looks at several that are waited for, of which one is the MPI's, too */
#define LONG_NS 10000000 /* and it is not asked sooner */

static struct sn_begun *reals, *unused;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool busy __attribute__((tls_model("initial-exec"))); /* this thread has entered */

/* Where one thread at a time calls there is nobody to lock out. */
bool sn_underway_enter(void)
{
	bool several = threads() != ONE;
	if (several)
		pthread_mutex_lock(&lock);
	busy = true;
	return several;
}

void sn_underway_leave(bool entered)
{
	busy = false;
	if (entered)
		pthread_mutex_unlock(&lock);
}

/* ---- where the next one goes ---- */

static void no_memory(void)
{
	fprintf(stderr, "sennit: no memory for one more collective that does not block\n");
}

/* Have all ranks read all that was brought along up to this call? */
static bool is_read(struct sn_meet *m, uint64_t call)
{
	if (likely(call <= m->begun_read))
		return true;
	uint64_t least = UINT64_MAX;
	for (unsigned r = 0; r < m->ranks; r++) {
		uint64_t done = atomic_load_explicit(&sn_meet_begun(m, r)->done, memory_order_acquire);
		least = done < least ? done : least;
	}
	m->begun_read = least;
	return call <= least;
}

/* NULL: those who have not read what lies there are behind by too many calls. */
static struct sn_meet_line *line_for(struct sn_meet *m, uint64_t call)
{
	struct sn_meet_line *l = sn_meet_begun_line(m, m->rank, call);
	if (likely(is_read(m, atomic_load_explicit(&l->call, memory_order_relaxed))))
		return l;
	l = sn_meet_more_line(m, m->rank, call);
	return is_read(m, atomic_load_explicit(&l->call, memory_order_relaxed)) ? l : NULL;
}

void sn_underway_post(struct sn_meet *m, struct sn_meet_line *line, uint64_t call, uint64_t said)
{
	line->said = said;
	atomic_store_explicit(&line->call, call, memory_order_release);
	sn_meet_say(m, &sn_meet_begun(m, m->rank)->posted, call);
}

struct sn_begun_held *sn_underway_hold(struct sn_meet *m, uint64_t call, size_t len)
{
	struct sn_begun_held *h = malloc(sizeof(*h) + len);
	if (!h) {
		no_memory();
		return NULL;
	}
	*h = (struct sn_begun_held){.call = call, .len = len};
	*(m->held ? &m->held_last->after : &m->held) = h;
	m->held_last = h;
	return h;
}

/* In their order, as far as there is room. */
static void post_those_held(struct sn_meet *m)
{
	struct sn_meet_line *line;
	for (struct sn_begun_held *h; (h = m->held) && (line = line_for(m, h->call));) {
		memcpy(sn_meet_begun_room(m, m->rank, line, h->len), h->data, h->len);
		sn_underway_post(m, line, h->call, h->said);
		m->held = h->after;
		free(h);
	}
}

struct sn_meet_line *sn_underway_line(struct sn_meet *m)
{
	post_those_held(m);
	return likely(!m->held) ? line_for(m, m->begun + 1) : NULL;
}

/* ---- which they are ---- */

/*
 * Others may wait for who has not read what they have brought along, or has not brought along what is held. So who has one
 * that is so old, or held, sees to it whenever the MPI looks for completions, too, whatever he waits for.
 */
#define OLD (SN_MEET_MORE / 2)

static inline void count_behind(struct sn_meet *m)
{
	bool behind = m->held || (m->oldest && m->begun - m->oldest->call >= OLD);
	if (likely(behind == m->behind))
		return;
	m->behind = behind;
	atomic_fetch_add(&sn_mpi_shim.given, behind ? 1 : -1U);
}

void sn_underway_say_done(struct sn_meet *m)
{
	uint64_t done = m->oldest ? m->oldest->call - 1 : m->begun;
	atomic_store_explicit(&sn_meet_begun(m, m->rank)->done, done, memory_order_release);
	count_behind(m);
}

static void append(struct sn_meet *m, struct sn_begun *b)
{
	b->after = NULL;
	b->before = m->newest;
	*(m->newest ? &m->newest->after : &m->oldest) = b;
	m->newest = b;
	count_behind(m);
}

/* It is over. */
static void ends(struct sn_begun *b, bool failed)
{
	struct sn_meet *m = b->m;
	*(b->before ? &b->before->after : &m->oldest) = b->after;
	*(b->after ? &b->after->before : &m->newest) = b->before;
	b->m = NULL;
	b->failed = failed;
	if (b->kept)
		sn_begun_mpi.type_free(&b->kept);
	b->kept = 0;
	sn_underway_say_done(m);
}

/*
 * One of the same, as the program may free its own. Not by MPI_Type_dup, of which functions of the program's would hear
 * (MPI_Type_create_keyval).
 */
static __attribute__((noinline)) void keep_type(struct sn_begun *b)
{
	handle kept = 0; /* half as wide ones are written into the lower half */
	b->in.layout = sn_layout_of(&b->in);
	if (b->in.layout) /* then nobody needs the type any more */
		return;
	if (sn_begun_mpi.type_contiguous(1, b->in.type, &kept))
		return;
	sn_begun_mpi.type_commit(&kept);
	b->in.type = b->kept = kept;
	b->in.stays = true; /* its handle says nothing of the next one that has it */
}

struct sn_begun *sn_underway_keep(const struct sn_begun *b)
{
	struct sn_begun *k = unused;
	if (k)
		unused = k->link;
	else if (!(k = malloc(sizeof(*k)))) {
		no_memory();
		return NULL;
	}
	*k = *b;
	if (k->in.size && !k->in.stays)
		keep_type(k);
	append(k->m, k);
	return k;
}

static void put_away(struct sn_begun *b)
{
	b->link = unused;
	unused = b;
}

/* Of those whom this one waits for; they may have ended. */
static bool any_has_ended(struct sn_meet *m, uint64_t call)
{
	for (unsigned r = 0; r < m->ranks; r++)
		if (atomic_load(&sn_meet_begun(m, r)->done) < call && sn_meet_has_ended(m, r)) {
			sn_meet_fails(m, r);
			return true;
		}
	return atomic_load(&m->mem->failed);
}

/* Somebody may have ended who is waited for; after that it is looked once more whether he had come. */
static __attribute__((noinline)) bool is_lost(struct sn_begun *b)
{
	uint64_t now = sn_quick_now_ns();
	struct sn_meet *m = b->m;
	if (atomic_load(&m->mem->failed))
		return !sn_begun_may_end(b);
	if (now - b->since < LONG_NS)
		return false;
	b->since = now;
	if (sn_agree_differ(m, &b->so_far))
		return !sn_begun_may_end(b);
	if (m->held && m->held->call <= b->call)
		return any_has_ended(m, m->held->call - SN_MEET_MORE) && !sn_begun_may_end(b);
	if (!sn_meet_has_ended(m, b->next) || sn_begun_all_come(b))
		return false;
	sn_meet_fails(m, b->next);
	return true;
}

/* Is it over, or can it be so now? */
static void try(struct sn_begun *b)
{
	if (!b->m)
		return;
	if (sn_begun_may_end(b))
		ends(b, b->reads && !sn_begun_finish(b));
	else if (++b->looks % SELDOM == 0 && is_lost(b))
		ends(b, true);
}

static void end_those_there(struct sn_meet *m)
{
	post_those_held(m);
	count_behind(m);
	for (struct sn_begun *b = m->oldest, *after; b; b = after) {
		after = b->after;
		try(b);
	}
}

static inline enum sn_begun_state state_of(const struct sn_begun *b)
{
	return b->m ? SN_BEGUN_PENDING : b->failed ? SN_BEGUN_FAILED : SN_BEGUN_OVER;
}

enum sn_begun_state sn_begun_look(struct sn_begun *b)
{
	bool entered = sn_underway_enter();
	if (b->m)
		post_those_held(b->m);
	try(b);
	enum sn_begun_state state = state_of(b);
	if (state != SN_BEGUN_PENDING)
		put_away(b);
	sn_underway_leave(entered);
	return state;
}

/* For a moment, unless somebody has written for it. */
static void nap_for(const struct sn_begun *b)
{
	bool entered = sn_underway_enter();
	struct sn_meet *m = b->m;
	unsigned rank = m && b->next < m->ranks ? b->next : 0;
	uint64_t call = b->call;
	sn_underway_leave(entered);
	if (m)
		sn_meet_nap(m, rank, &sn_meet_begun(m, rank)->posted, call);
}

void sn_begun_meanwhile(const struct sn_begun *b)
{
	const struct sn_meet *m = b->m;
	if (m)
		sn_meet_look(m);
}

void sn_begun_await(int (*over)(void *arg), void *arg, const struct sn_begun *b)
{
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	bool is_over = q->awake(over, arg);
	while (!is_over) {
		uint64_t events = q->events();
		nap_for(b);
		sn_begun_meanwhile(b);
		is_over = over(arg) || (q->events() != events && q->awake(over, arg));
	}
}

/*
 * By what it is, and not by the struct, which may be put away by whoever looks in between: in another thread, or here,
 * where the MPI looks. False: it fails.
 */
static bool await(struct sn_begun w)
{
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	for (unsigned looks = q->crowded() ? SPIN : 0; looks < SPIN; looks++)
		if (sn_begun_all_come(&w))
			return true;
	int rc = 0;
	for (unsigned end = sn_begun_end(&w); w.next < end && !rc; w.next++)
		rc = sn_meet_await(w.m, w.c.comm, w.next, &sn_meet_begun(w.m, w.next)->posted, w.call);
	return !rc;
}

/* Until this call is posted, by who has not entered. False: a rank has ended. */
static bool await_room(struct sn_meet *m, uint64_t call)
{
	for (unsigned turns = 1;; turns++) {
		bool entered = sn_underway_enter();
		if (m->held)
			end_those_there(m);
		bool here = !m->held || m->held->call > call;
		bool lost = !here && turns % SELDOM == 0 && any_has_ended(m, m->held->call - SN_MEET_MORE);
		sn_underway_leave(entered);
		if (likely(here || lost))
			return here;
		sn_meet_look(m);
		sched_yield();
	}
}

/*
 * One after the other: of an older one everybody has brought along what there is before he does so of this one. And others
 * may wait until that is read.
 */
void sn_begun_wait(struct sn_begun *b)
{
	bool entered = sn_underway_enter();
	struct sn_meet *m = b->m;
	uint64_t call = b->call;
	while (m && m->oldest && m->oldest->call <= call) {
		struct sn_begun *oldest = m->oldest, copy = *oldest;
		copy.m = m; /* as it is, which the analyzer cannot know */
		sn_underway_leave(entered);
		bool well = await_room(m, copy.call) && (!copy.reads || await(copy));
		entered = sn_underway_enter();
		if (m->oldest != oldest || oldest->call != copy.call)
			continue;
		if (likely(well))
			try(oldest);
		else
			ends(oldest, true);
	}
	sn_underway_leave(entered);
}

void sn_begun_end_all(struct sn_meet *m)
{
	while (m->newest)
		sn_begun_wait(m->newest);
	if (!m->held)
		return;
	/* of calls that have failed */
	await_room(m, m->begun);
	for (struct sn_begun_held *h; (h = m->held);) {
		m->held = h->after;
		free(h);
	}
	count_behind(m);
}

/* ---- as requests of the MPI's ---- */

handle sn_begun_real(struct sn_begun *b)
{
	bool entered = sn_underway_enter();
	handle real = b->real = sn_told_later(&b->state);
	b->link = reals;
	reals = b;
	atomic_fetch_add(&sn_mpi_shim.given, 1);
	sn_underway_leave(entered);
	return real;
}

void sn_begun_end_real(void)
{
	if (busy)
		return;
	bool entered = sn_underway_enter();
	sn_meet_each(end_those_there);
	for (struct sn_begun **at = &reals, *b; (b = *at);) {
		try(b);
		if (b->m) {
			at = &b->link;
			continue;
		}
		*at = b->link;
		sn_told_now(b->real, b->state, sn_mpi_any_source(), sn_mpi_any_tag(),
			    b->failed ? sn_mpi_err_other() : 0);
		atomic_fetch_sub(&sn_mpi_shim.given, 1);
		put_away(b);
	}
	sn_underway_leave(entered);
}

static struct sn_begun *real_of(handle request)
{
	bool entered = sn_underway_enter();
	struct sn_begun *b = reals;
	while (b && b->real != request)
		b = b->link;
	sn_underway_leave(entered);
	return b;
}

void sn_begun_wait_real(handle request)
{
	struct sn_begun *b = real_of(request);
	if (!b)
		return;
	sn_begun_wait(b);
	sn_begun_end_real();
}

struct among {
	int n;
	const void *requests;
	struct sn_begun *first;
	unsigned looks;
};

/* Or is there another one among them? */
static int any_is_over(void *arg)
{
	struct among *a = arg;
	if (++a->looks % LOOKED == 0 && a->first)
		sn_begun_meanwhile(a->first);
	a->first = NULL;
	sn_begun_end_real();
	for (int i = 0; i < a->n; i++) {
		handle h = at(a->requests, i);
		struct sn_begun *b = h == sn_own_null ? NULL : real_of(h);
		if (!b && h != sn_own_null)
			return 1;
		a->first = a->first ? a->first : b;
	}
	return !a->first;
}

void sn_begun_await_real(int n, const void *requests)
{
	struct among a = {.n = n, .requests = requests};
	if (requests && !any_is_over(&a))
		sn_begun_await(any_is_over, &a, a.first);
}
