/* SPDX-License-Identifier: BSD-3-Clause */
#include "own.h"
#include "stale.h"
#include "told.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 0x2c5e0000u /* MPICH: of no kind, so no request */
#define LOOKS	(4 * SN_SHIM_LOOKS)

#define TAKEN IRECV /* those before it take requests */

union function sn_own_mpi[CALLS];
atomic_bool sn_requests_ready; /* given at present */
static atomic_bool off;	       /* never any more */
handle sn_own_null;

/* One more name than slots: for a request that is complete, and says nothing but that. */
struct slot sn_own_slots[SLOTS];
static char names[SLOTS + 1]; /* requests that are addresses */
_Atomic uintptr_t sn_own_names;
struct slot *sn_own_free, *_Atomic sn_own_returned;
static struct slot posted = {.before = &posted, .after = &posted}; /* in their order */

bool sn_requests_undecided(void)
{
	return !sn_requests_are_ready() && !atomic_load_explicit(&off, memory_order_relaxed);
}

void sn_own_off(void)
{
	/* Each thread of many says so at each of its questions, and none is given there. */
	if (atomic_load_explicit(&off, memory_order_relaxed))
		return;
	atomic_store_explicit(&off, true, memory_order_relaxed);
	atomic_store_explicit(&sn_requests_ready, false, memory_order_relaxed);
}

/* ---- giving ---- */

bool sn_requests_post(const struct sn_shim_quick *q, struct entry *e, void *buf, void *request)
{
	if (!likely(!atomic_load_explicit(&sn_own_paused, memory_order_relaxed) && sn_own_enter()))
		return false;
	if (!likely(sn_own_free))
		sn_own_free = atomic_exchange_explicit(&sn_own_returned, NULL, memory_order_acquire);
	struct slot *s = sn_own_free;
	if (likely(s))
		s->len = -1;
	void *to = likely(s) ? q->post(&e->way, buf, &s->len) : NULL;
	if (!likely(to)) {
		sn_own_leave();
		return false;
	}
	sn_own_free = s->next;
	s->ahead.posted = to;
	s->ahead.buf = buf;
	way_copy(&s->ahead.way, &e->way);
	s->entry = e;
	call_copy(&s->call, &e->call);
	s->tag = e->tag;
	s->asked = 0;
	s->after = &posted;
	s->before = posted.before;
	posted.before = s->before->after = s;
	sn_own_leave();
	put(request, 0, name_of(s));
	return true;
}

void sn_requests_complete(void *request)
{
	put(request, 0, atomic_load_explicit(&sn_own_names, memory_order_relaxed) + SLOTS);
}

/* ---- becoming the MPI's ---- */

static __attribute__((noreturn)) void give_up(const char *why)
{
	fprintf(stderr, "sennit: a receive cannot become the MPI's: %s\n", why);
	abort();
}

/* One of the MPI's that is complete like this one, or like a send. */
static handle real_complete(const struct slot *s)
{
	return s ? sn_told_request(s->call.peer, s->tag, s->len, 0) : sn_told_request(0, 0, 0, 0);
}

/*
 * In its place in the order. The MPI asks the provider for what was asked when the call was watched; or it refuses
 * the call. Its error handler may leave by a jump: then this one is still to be taken, by a receive that is the same
 * to the bit.
 */
static void make_real(struct slot *s)
{
	const struct call *c = &s->call;
	const struct sn_shim_quick *q = atomic_load(&sn_mpi_shim.quick);
	no_longer_posted(s);
	s->real = 0;
	struct sn_shim_ahead *before = q->take(&s->ahead);
	int rc = sn_own_mpi[IRECV].irecv((void *)(uintptr_t)s->ahead.buf, c->count, c->type, c->peer, c->tag,
					 c->comm, &s->real);
	q->take(before);
	s->real = at(&s->real, 0);
	void *left = s->ahead.posted;
	s->ahead.posted = NULL;
	if (rc)
		give_up("the MPI refuses it");
	if (left && !q->drop(left))
		give_up("it is asked for in another way than before");
}

void sn_own_too_late(struct slot *s)
{
	const struct sn_shim_quick *q = atomic_load(&sn_mpi_shim.quick);
	if (s->begun) {
		s->real = sn_begun_real(s->begun);
		s->begun = NULL;
		return;
	}
	if (!q->hold(s->ahead.posted, &s->len)) { /* the provider's own thread has looked */
		come(s);
		return;
	}
	if (!sn_own_visitors())
		sn_seen_late(s->entry, &s->call, &s->ahead.way, s->tag);
	make_real(s);
}

static __attribute__((noinline)) int64_t look_seldom(struct slot *s, uint32_t looks)
{
	return look(s, looks);
}

handle sn_own_real(struct slot *s)
{
	if (!s)
		return real_complete(NULL);
	bool entered = sn_own_enter();
	if (!entered)
		sn_own_lock();
	if (look_seldom(s, 0) == SN_SHIM_NOT_YET)
		sn_own_too_late(s);
	if (s->len >= 0) {
		s->real = real_complete(s);
		sn_own_packed_came(s, s->len);
		s->len = -1;
	}
	handle real = s->real;
	(entered ? sn_own_leave : sn_own_unlock)();
	return real;
}

void sn_own_give_all(void)
{
	while (posted.after != &posted)
		if (look_seldom(posted.after, 0) == SN_SHIM_NOT_YET)
			sn_own_too_late(posted.after);
}

void sn_requests_give(void)
{
	if (!sn_own_enter())
		return;
	sn_own_give_all();
	sn_own_leave();
}

static bool any_posted_of(handle h)
{
	const struct slot *s = posted.after;
	while (s != &posted && sn_mpi_plain(s->call.type) != h && sn_mpi_plain(s->call.comm) != h)
		s = s->after;
	return s != &posted;
}

void sn_requests_give_of(handle h)
{
	if (!sn_own_enter())
		return;
	if (any_posted_of(h))
		sn_own_give_all();
	sn_own_leave();
}

/* Whatever lies there is looked for before: it has not been late. */
void sn_requests_ahead(void)
{
	if (threads() != SEVERAL || sn_mpi_family != MPICH || !sn_own_enter())
		return;
	if (posted.after != &posted)
		look_seldom(posted.after, 1);
	sn_own_give_all();
	sn_own_leave();
}

/* Who visits may wait for what is locked here: this does not wait for him. */
void sn_requests_read(void)
{
	if (sn_begun_any_real())
		sn_begun_end_real();
	if (threads() == ONE) {
		sn_own_give_all();
		return;
	}
	if (!(atomic_load(&sn_mpi_tenure) & 1)) /* who has ended the last one has seen to it */
		return;
	if (sn_mpi_family != OPEN_MPI || !sn_holder_is_me()) {
		sn_own_ask();
		return;
	}
	/* it may be at them already, and MPI_Irecv has read the queue */
	bool inside = atomic_load_explicit(&sn_mpi_thread.mine->inside, memory_order_relaxed);
	if (!inside && !sn_own_enter_now())
		return;
	sn_own_give_all();
	if (!inside)
		sn_own_leave();
}

void sn_requests_gone(const void *ep)
{
	if (atomic_load_explicit(&sn_own_shared, memory_order_relaxed) &&
	    (!sn_mpi_thread.mine || !sn_own_enter_now())) /* likewise */
		return;
	const struct sn_shim_quick *q = atomic_load(&sn_mpi_shim.quick);
	for (struct slot *s = posted.after, *next; s != &posted; s = next) {
		next = s->after;
		if (s->ahead.way.ep != ep)
			continue;
		if (!q->hold(s->ahead.posted, &s->len)) {
			come(s);
			continue;
		}
		q->drop(s->ahead.posted);
		s->ahead.posted = NULL;
		s->real = sn_own_null;
		no_longer_posted(s);
	}
	sn_own_leave();
}

/* ---- learning ---- */

static bool may_switch_on(void)
{
	return sn_holder_is_me() && !off && !sn_requests_are_ready() && status_seen();
}

/* With the lock: another thread may hold at any time. */
void sn_own_switch_on(handle left)
{
	if (!may_switch_on())
		return;
	if (left != sn_own_null || !sn_own_null) {
		off = true;
		return;
	}
	sn_own_lock();
	if (may_switch_on()) {
		if (!sn_requests_about() && sn_own_may()) /* else there is none for a receive */
			for (struct slot *s = sn_own_slots; s < sn_own_slots + SLOTS; s++)
				put_back(s, true);
		atomic_store(&sn_own_names, sn_mpi_wide() ? (uintptr_t)names : NUMBERS);
		atomic_store(&sn_requests_ready, true);
	}
	sn_own_unlock();
}

/* Or one that stands for it (packed.h). */
static inline bool to_learn(handle h)
{
	handle pending = sn_mpi_thread.mine ? sn_mpi_thread.mine->pending : 0;
	const struct slot *s = pending ? slot_of(own(h)) : NULL;
	return pending && (s ? s->packed.at && s->real == pending : h == pending);
}

/* While none have been given: see waitall_before(). */
static int wait_before(void *request, void *status)
{
	bool given = !request || sn_requests_about();
	handle was = given ? sn_own_null : at(request, 0);
	int rc = sn_own_mpi[WAIT].wait(request, status);
	if (!likely(given) && !rc && was != sn_own_null && at(request, 0) == sn_own_null)
		sn_own_switch_on(sn_own_null);
	return rc;
}

static int wait_real(void *request, void *status)
{
	uint64_t unused[8];
	if (!likely(!sn_begun_any_real()) && request)
		sn_begun_wait_real(at(request, 0));
	if (!request || !to_learn(at(request, 0)) || !sn_seen_goes_on())
		return wait_before(request, status);
	void *seen = wanted(status) ? status : unused;
	int rc = sn_own_mpi[WAIT].wait(request, seen);
	sn_seen_ends(!rc, seen);
	if (!rc)
		sn_own_switch_on(at(request, 0));
	return rc;
}

int sn_own_learn_among(int n, const void *requests)
{
	int i = 0;
	if (!sn_mpi_thread.mine || !sn_mpi_thread.mine->pending)
		return -1;
	while (i < n && !to_learn(at(requests, i)))
		i++;
	return i < n && sn_seen_goes_on() ? i : -1;
}

/*
 * How a status is written must be seen once. Where the program wants none, before the call: the classes of its errors
 * are others with statuses.
 */
static int waitall_learning(int n, void *requests, void *statuses, int i)
{
	uint64_t unused[8];
	int flag = off || status_seen() || wanted(statuses);
	void *seen = flag ? status_at(statuses, i) : unused;
	/*
	 * Not for ever: it may be sent when another has ended, which perhaps only MPI_Waitall moves. A look may read
	 * 8 of those before it.
	 */
	for (int k = 0; !flag && k < LOOKS + n; k++)
		if (sn_own_mpi[GET_STATUS].value(at(requests, i), &flag, unused))
			break;
	if (!flag)
		seen = NULL;
	int rc = sn_own_mpi[WAITALL].all(n, requests, statuses);
	sn_seen_ends(!rc, seen);
	if (!rc)
		sn_own_switch_on(at(requests, i));
	return rc;
}

/* As in wait_real(). */
static __attribute__((noinline)) void wait_for_begun(int n, const void *requests)
{
	for (int i = 0; i < n && sn_begun_any_real(); i++)
		if (at(requests, i) != sn_own_null)
			sn_begun_wait_real(at(requests, i));
}

static int waitall_real(int n, void *requests, void *statuses, int learned)
{
	sn_requests_before();
	if (!likely(!sn_begun_any_real()))
		wait_for_begun(n, requests);
	sn_stale_clear(n, requests);
	return likely(learned < 0) ? sn_own_mpi[WAITALL].all(n, requests, statuses)
				   : waitall_learning(n, requests, statuses, learned);
}

/* ---- MPI_Wait, MPI_Waitall ---- */

/* Without keeping out others, however long it takes. */
static void wait_begun(struct slot *s)
{
	if (s->begun)
		sn_begun_wait(s->begun);
	look(s, 0);
}

static __attribute__((noinline)) int wait_late(void *request, struct slot *s, void *status)
{
	if (s->begun)
		wait_begun(s);
	bool entered = sn_own_enter();
	if (s->ahead.posted)
		sn_own_too_late(s);
	if (entered)
		sn_own_leave();
	if (s->len >= 0) {
		end(request, 0, s, status, false);
		return 0;
	}
	put(request, 0, s->real);
	sn_requests_before();
	int rc = wait_real(request, status);
	if (at(request, 0) == sn_own_null)
		put_back(s, false);
	return rc;
}

static int wait(void *request, void *status)
{
	uintptr_t i = likely(request) ? own(at(request, 0)) : UINTPTR_MAX;
	if (!likely(i <= SLOTS)) {
		sn_requests_before();
		return sn_requests_after(wait_real(request, status));
	}
	struct slot *s = slot_of(i);
	bool entered = sn_own_enter();
	int64_t len = look(s, LOOKS);
	if (likely(len >= 0))
		end(request, 0, s, status, entered);
	if (likely(entered))
		sn_own_leave();
	return sn_requests_after(likely(len >= 0) ? 0 : wait_late(request, s, status));
}

/* Of one MPI_Waitall: those that are not ours, and ours whose place in it is still to be seen to. */
struct all {
	int others, ours;
	int begin, end; /* the others lie there */
	struct slot *first;
};

static inline void is_another(struct all *a, int i)
{
	if (!a->others++)
		a->begin = i;
	a->end = i + 1;
}

/* One that is late makes all that have not come the MPI's. */
static struct all end_all(int n, void *requests, void *statuses)
{
	struct all a = {0};
	uint32_t looks = LOOKS;
	bool entered = sn_own_enter();
	for (int i = 0; i < n; i++) {
		uintptr_t k = own(at(requests, i));
		if (k > SLOTS) {
			if (at(requests, i) != sn_own_null)
				is_another(&a, i);
			continue;
		}
		struct slot *s = slot_of(k);
		bool here = look(s, looks) >= 0;
		a.ours++;
		if (!likely(here) && s->begun) {
			if (entered)
				sn_own_leave();
			wait_begun(s);
			entered = sn_own_enter();
			here = s->len >= 0;
		}
		if (!likely(here) && s->ahead.posted) {
			sn_own_too_late(s);
			here = s->len >= 0;
		}
		if (likely(here && (!s || !wanted(statuses)))) {
			fill_one_of(statuses, i, s);
			end(requests, i, s, NULL, entered);
			continue;
		}
		if (here)
			fill_one_of(statuses, i, s);
		else
			looks = 0;
		if (!here)
			is_another(&a, i);
		put(requests, i, here ? sn_own_null : s->real);
		s->at = i;
		s->next = a.first;
		a.first = s;
	}
	if (likely(entered))
		sn_own_leave();
	return a;
}

/*
 * One call in SN_QUICK_PERIOD is the MPI's, so nearly every window has another. The MPI walks through all that it is
 * given, and more than once.
 */
static int waitall_others(const struct all *a, void *requests, void *statuses)
{
	sn_requests_before();
	if (!likely(!sn_begun_any_real()))
		wait_for_begun(a->end - a->begin, from(requests, a->begin));
	sn_stale_clear(a->end - a->begin, from(requests, a->begin));
	return sn_own_mpi[WAITALL].all(a->end - a->begin, from(requests, a->begin), statuses);
}

/* The MPI has seen to the others, and may have written what it takes for the status of nothing. */
static void settle_all(struct slot *s, void *requests, void *statuses)
{
	for (struct slot *next; s; s = next) {
		next = s->next;
		if (s->len >= 0)
			fill_one_of(statuses, s->at, s);
		if (at(requests, s->at) == sn_own_null)
			put_back(s, false);
		else if (s->packed.at)
			put(requests, s->at, name_of(s));
	}
}

/*
 * None have been given yet. A rank that only sends has no receive to learn from, but sees as well what is left of a
 * request.
 */
static int waitall_before(int n, void *requests, void *statuses, int learned)
{
	handle was = at(requests, 0);
	int rc = waitall_real(n, requests, statuses, learned);
	if (!rc && was != sn_own_null && at(requests, 0) == sn_own_null)
		sn_own_switch_on(sn_own_null);
	return rc;
}

static int waitall(int n, void *requests, void *statuses)
{
	int rc = 0;
	if (!likely(requests && n > 0))
		return sn_own_mpi[WAITALL].all(n, requests, statuses);
	int learned = sn_own_learn_among(n, requests);
	if (!likely(sn_requests_about()))
		return sn_requests_after(waitall_before(n, requests, statuses, learned));
	struct all a = end_all(n, requests, statuses);
	if (likely(a.others && !wanted(statuses) && learned < 0))
		rc = waitall_others(&a, requests, statuses);
	else if (a.others || (wanted(statuses) && a.ours < n))
		rc = waitall_real(n, requests, statuses, learned);
	settle_all(a.first, requests, statuses);
	return sn_requests_after(rc);
}

/* ---- standing in ---- */

static const struct {
	const char *name;
	union function stand_in;
} calls[CALLS] = {
	[WAIT] = {"MPI_Wait", {.wait = wait}},
	[WAITALL] = {"MPI_Waitall", {.all = waitall}},
	[WAITANY] = {"MPI_Waitany", {.any = sn_own_waitany}},
	[WAITSOME] = {"MPI_Waitsome", {.some = sn_own_waitsome}},
	[TEST] = {"MPI_Test", {.test = sn_own_test}},
	[TESTALL] = {"MPI_Testall", {.testall = sn_own_testall}},
	[TESTANY] = {"MPI_Testany", {.testany = sn_own_testany}},
	[TESTSOME] = {"MPI_Testsome", {.some = sn_own_testsome}},
	[REQUEST_FREE] = {"MPI_Request_free", {.one = sn_own_request_free}},
	[CANCEL] = {"MPI_Cancel", {.one = sn_own_cancel}},
	[GET_STATUS] = {"MPI_Request_get_status", {.value = sn_own_get_status}},
	[GET_ALL] = {"MPI_Request_get_status_all", {.testall = sn_own_get_all}},
	[GET_ANY] = {"MPI_Request_get_status_any", {.testany = sn_own_get_any}},
	[GET_SOME] = {"MPI_Request_get_status_some", {.some = sn_own_get_some}},
	[C2F] = {"MPI_Request_c2f", {.number = sn_own_c2f}},
	[TOINT] = {"MPI_Request_toint", {.number = sn_own_toint}},
	[IS_COMPLETE] = {"MPIX_Request_is_complete", {.is_complete = sn_own_is_complete}},
	[IRECV] = {"MPI_Irecv", {NULL}},
	[GREQUEST_START] = {"MPI_Grequest_start", {NULL}},
	[GREQUEST_COMPLETE] = {"MPI_Grequest_complete", {NULL}},
};

/* Nothing is given where a tool wants to see any of them, or where one is missing that all MPIs have. */
static void find_all(void)
{
	sn_own_null = sn_mpi_handle(SN_REQUEST_NULL);
	for (int i = 0; i < CALLS; i++) {
		char profiled[40] = "P";
		strncat(profiled, calls[i].name, sizeof(profiled) - 2);
		sn_own_mpi[i].symbol = sn_mpi_find(profiled);
		void *plain = sn_mpi_find(calls[i].name);
		if (plain ? sn_quick_is_tools(calls[i].name, plain) : i < GET_ALL || i >= IRECV)
			off = true;
	}
}

bool sn_requests_about(void)
{
	return atomic_load_explicit(&sn_own_names, memory_order_relaxed) != 0;
}

static int call_named(const char *name)
{
	return sn_quick_named(calls, sizeof(*calls), TAKEN, name);
}

bool sn_requests_take(const char *name)
{
	return call_named(name) < TAKEN;
}

void *sn_requests_stand_in(const char *name, void *definition)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int i = call_named(name);
	if (i == TAKEN)
		return NULL;
	pthread_once(&once, find_all); /* two threads may each call their first of them */
	if (!definition) /* asked for by a weak symbol, MPIs of before MPI 4.1 or 5 have these from here */
		return i >= GET_ALL && sn_mpi_family != UNKNOWN ? calls[i].stand_in.symbol : NULL;
	/* Off, but ours may still be about: that of a function is asked when it is first called. */
	return (off && !sn_requests_about()) || sn_mpi_family == UNKNOWN ? definition
									 : calls[i].stand_in.symbol;
}
