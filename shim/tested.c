/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Test, MPI_Waitany and their like, of requests of ours (requests.h). As long as one of what is asked of is ours, and
 * has come or may still be on its way, the MPI is not called. A receive that has been asked for in vain for LATE_NS
 * becomes the MPI's (in a crowd, where the MPI gives the core away, or beside a window of the MPI's, after ASKED times), and so do all when the MPI is
 * called. The program's requests keep the names that it may have copies of.
 *
 * Where there are others, one call in OTHERS_EACH that asks for any is the MPI's even if one of ours has come: else, if
 * there always is one, nobody would ever hear of them.
 *
 * Budget, MPI_Test of a receive of ours: one look.
 */
#include "own.h"
#include "stale.h"
#include "told.h"
#include "vain.h"
#include <stdatomic.h>

#define ASKED	    16
#define LATE_NS	    20000u
#define OTHERS_EACH 32
#define LOOKS	    (4 * SN_SHIM_LOOKS) /* of MPI_Waitany, before it is the MPI's */

#define FEW 64 /* requests of a list that is kept meanwhile */

enum state { HERE, PENDING, REAL };

static bool crowded(void)
{
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	return q->crowded();
}

/* Asked for in vain once more. The clock is read at each of ASKED. */
static inline bool is_late(struct slot *s)
{
	if (likely(++s->asked % ASKED))
		return false;
	uint64_t now = sn_quick_now_ns();
	if (s->asked == ASKED)
		s->since = now;
	return crowded() || sn_elsewhere_windows() || now - s->since >= LATE_NS;
}

/* By who has entered. NULL: a send that is complete. One look is for all that are posted. */
static enum state state_of(struct slot *s, bool counts, uint32_t looks)
{
	if (!s)
		return HERE;
	if (look(s, looks) == SN_SHIM_NOT_YET) {
		if (s->begun && counts && ++s->asked % ASKED == 0)
			sn_begun_meanwhile(s->begun);
		if (s->begun || !counts || !is_late(s))
			return PENDING;
		sn_own_too_late(s);
	}
	return s->len >= 0 ? HERE : REAL;
}

/* ---- collectives that do not block (begun.h) ---- */

struct slot *sn_own_new(void)
{
	if (!sn_requests_about() || !sn_own_enter())
		return NULL;
	if (!sn_own_free)
		sn_own_free = atomic_exchange_explicit(&sn_own_returned, NULL, memory_order_acquire);
	struct slot *s = sn_own_free;
	if (s) {
		sn_own_free = s->next;
		s->len = -1;
		s->call.peer = sn_mpi_any_source();
		s->tag = sn_mpi_any_tag();
		s->asked = 0;
	}
	sn_own_leave();
	return s;
}

/* By whichever thread: nobody but who asks of it changes it. */
bool sn_requests_begin(struct sn_begun *b, void *request)
{
	struct slot *s = sn_requests_are_ready() ? sn_own_new() : NULL;
	if (!s)
		return false;
	s->begun = b;
	put(request, 0, name_of(s));
	return true;
}

int64_t sn_own_look_begun(struct slot *s)
{
	enum sn_begun_state state = sn_begun_look(s->begun);
	if (state == SN_BEGUN_PENDING)
		return SN_SHIM_NOT_YET;
	s->begun = NULL;
	if (state == SN_BEGUN_FAILED)
		s->real = sn_told_request(s->call.peer, s->tag, 0, sn_mpi_err_other());
	else
		s->len = 0;
	return state == SN_BEGUN_OVER ? 0 : SN_SHIM_NEVER;
}

/* ---- asked in vain (vain.h) ---- */

/* What stands for a call and its requests; 0: they are too many. */
static inline uintptr_t question(unsigned call, int n, const void *requests)
{
	uint64_t sum = sn_vain_sum(call + 1, (uint64_t)n);
	if (!requests || n <= 0 || n > FEW)
		return 0;
	for (int i = 0; i < n; i++)
		sum = sn_vain_sum(sum, at(requests, i));
	return sum;
}

/* A question that goes to the MPI. */
struct asked {
	uintptr_t what;
	uint32_t calls; /* of this thread, up to it */
};

static inline struct asked asks(unsigned call, int n, const void *requests)
{
	return (struct asked){question(call, n, requests), sn_mpi_thread.calls};
}

static inline void answered(const struct asked *a, bool in_vain)
{
	sn_vain_was(a->what, in_vain, a->calls);
}

static inline bool is_in_vain(unsigned call, int n, const void *requests)
{
	return sn_vain_may() && sn_vain_is(question(call, n, requests));
}

/* ---- by the MPI ---- */

/*
 * What it takes for ours lies in the list during its call. Those of ours are linked; a send that is complete has one
 * of its own from here on.
 */
static struct slot *lend(int n, void *requests)
{
	struct slot *lent = NULL;
	for (int i = 0; requests && i < n; i++) {
		uintptr_t k = own(at(requests, i));
		struct slot *s = slot_of(k);
		if (k > SLOTS)
			continue;
		put(requests, i, sn_own_real(s));
		if (!s)
			continue;
		s->at = i;
		s->next = lent;
		lent = s;
	}
	sn_requests_before();
	sn_stale_clear(n, requests);
	return lent;
}

static void take_back(struct slot *s, void *requests)
{
	for (struct slot *next; s; s = next) {
		next = s->next;
		if (at(requests, s->at) == sn_own_null)
			put_back(s, false);
		else
			put(requests, s->at, name_of(s));
	}
}

/* The receive that is watched is among these: where, and its request. */
struct lesson {
	int at;
	handle request;
};

static struct lesson begin(int n, const void *requests)
{
	struct lesson l = {.at = requests && n > 0 ? sn_own_learn_among(n, requests) : -1};
	if (l.at >= 0)
		l.request = at(requests, l.at);
	return l;
}

/* ended: perhaps it was that; then this is what was said of it, if somebody wanted to hear it. */
static void over(const struct lesson *l, const void *requests, bool ended, const void *status)
{
	if (l->at < 0)
		return;
	if (ended && at(requests, l->at) != l->request) {
		sn_seen_ends(true, wanted(status) ? status : NULL);
		sn_own_switch_on(at(requests, l->at));
		return;
	}
	sn_quick_watched();
	if (at(requests, l->at) == l->request)
		sn_mpi_thread.mine->pending = l->request;
}

/* ---- MPI_Test ---- */

static __attribute__((noinline)) int test_slowly(void *request, int *flag, void *status)
{
	struct asked a = asks(TEST, 1, request);
	uint64_t unused[8];
	struct slot *lent = lend(1, request);
	struct lesson l = begin(1, request);
	void *seen = l.at < 0 || wanted(status) ? status : unused;
	handle was = request ? at(request, 0) : sn_own_null;
	int rc = sn_own_mpi[TEST].test(request, flag, seen);
	over(&l, request, !rc && *flag, seen);
	/* a rank that only sends has no receive to learn from; and one that is persistent stays */
	if (!rc && *flag && was != sn_own_null && at(request, 0) == sn_own_null && !sn_requests_about())
		sn_own_switch_on(sn_own_null);
	take_back(lent, request);
	answered(&a, !rc && !*flag);
	return sn_requests_after(rc);
}

int sn_own_test(void *request, int *flag, void *status)
{
	uintptr_t i = likely(request) ? own(at(request, 0)) : UINTPTR_MAX;
	if (is_in_vain(TEST, 1, request)) {
		*flag = 0;
		return 0;
	}
	if (i > SLOTS || !likely(sn_own_enter()))
		return test_slowly(request, flag, status);
	struct slot *s = slot_of(i);
	enum state state = state_of(s, true, 1);
	if (likely(state == HERE))
		end(request, 0, s, status, true);
	sn_own_leave();
	if (!likely(state != REAL))
		return test_slowly(request, flag, status);
	*flag = state == HERE;
	return sn_requests_after(0);
}

/* ---- MPI_Testall ---- */

#define OPEN_MPIS_ERR_IN_STATUS 18

static __attribute__((noinline)) int testall_slowly(int n, void *requests, int *flag, void *statuses)
{
	struct slot *lent = lend(n, requests);
	struct lesson l = begin(n, requests);
	int rc = sn_own_mpi[TESTALL].testall(n, requests, flag, statuses);
	over(&l, requests, !rc && *flag, l.at < 0 ? NULL : status_at(statuses, l.at));
	take_back(lent, requests);
	return sn_requests_after(rc);
}

static inline bool is_here(const struct slot *s)
{
	return !s || s->len >= 0;
}

/*
 * Open MPI 5.0.10 says of the only one that is not null that it has ended well, also where it has not, and leaves it. Asked
 * of it by itself it tells the truth. What MPI_Testall has to say then.
 */
static int error_of_only(int n, void *requests, void *statuses)
{
	uint64_t status[8] = {0};
	int only = -1, flag, rc;
	for (int i = 0; i < n; i++)
		if (at(requests, i) != sn_own_null) {
			if (only >= 0)
				return 0;
			only = i;
		}
	if (only < 0 || !(rc = sn_own_mpi[TEST].test(from(requests, only), &flag, status)))
		return 0;
	if (!wanted(statuses))
		return rc;
	status_head(status_at(statuses, only))->error = rc;
	return OPEN_MPIS_ERR_IN_STATUS;
}

/*
 * All of ours have come, or are the MPI's by now: the former are nothing to it. One of the others may end with an error,
 * and ours all the same; a call that is wrong says nothing of any, and does not write the flag.
 */
static int testall_others(int n, void *requests, int *flag, void *statuses)
{
	handle was[FEW];
	for (int i = 0; i < n; i++) {
		was[i] = at(requests, i);
		uintptr_t k = own(was[i]);
		if (k <= SLOTS)
			put(requests, i, is_here(slot_of(k)) ? sn_own_null : slot_of(k)->real);
	}
	sn_requests_before();
	sn_stale_clear(n, requests);
	*flag = 0;
	int rc = sn_own_mpi[TESTALL].testall(n, requests, flag, statuses);
	if (!rc && *flag && sn_mpi_family == OPEN_MPI)
		rc = error_of_only(n, requests, statuses);
	for (int i = 0; i < n; i++) {
		uintptr_t k = own(was[i]);
		struct slot *s = slot_of(k);
		if (k > SLOTS)
			continue;
		bool here = is_here(s), ended = here ? *flag : at(requests, i) == sn_own_null;
		if (ended && here)
			fill_one_of(statuses, i, s);
		if (!ended)
			put(requests, i, was[i]);
		else if (s)
			put_back(s, false);
	}
	return sn_requests_after(rc);
}

/* plain: it is few, and none is watched. */
static int testall_by_mpi(bool plain, int n, void *requests, int *flag, void *statuses)
{
	struct asked a = asks(TESTALL, n, requests);
	int rc = (plain ? testall_others : testall_slowly)(n, requests, flag, statuses);
	answered(&a, !rc && !*flag);
	return rc;
}

/* What is said of nothing only the MPI knows. */
int sn_own_testall(int n, void *requests, int *flag, void *statuses)
{
	if (is_in_vain(TESTALL, n, requests)) {
		*flag = 0;
		return 0;
	}
	if (!requests || n <= 0 || !sn_requests_about() || !sn_own_enter())
		return testall_by_mpi(false, n, requests, flag, statuses);
	bool others = false, pending = false;
	for (int i = 0; i < n && !pending; i++) {
		uintptr_t k = own(at(requests, i));
		enum state state = k > SLOTS ? REAL : state_of(slot_of(k), true, 1);
		pending = state == PENDING;
		others |= state == REAL;
	}
	for (int i = 0; i < n && !pending && !others; i++) {
		struct slot *s = slot_of(own(at(requests, i)));
		fill_one_of(statuses, i, s);
		end(requests, i, s, NULL, true);
	}
	sn_own_leave();
	*flag = !pending;
	if (pending || !others)
		return sn_requests_after(0);
	/* one may be watched among them */
	bool watched =
		sn_mpi_thread.mine && sn_mpi_thread.mine->pending; /* none: another thread has begun them */
	return testall_by_mpi(n <= FEW && !watched, n, requests, flag, statuses);
}

/* ---- MPI_Waitany, MPI_Testany ---- */

/* Of a list: one of ours that has come, or negative; and is there anything but ours? */
struct any {
	int here;
	bool pending, others;
};

static struct any look_at(int n, const void *requests, bool counts, bool all)
{
	struct any a = {.here = -1};
	for (int i = 0; i < n && (all || a.here < 0); i++) {
		handle h = at(requests, i);
		uintptr_t k = own(h);
		if (k > SLOTS) {
			a.others |= h != sn_own_null;
			continue;
		}
		enum state state = a.here < 0 ? state_of(slot_of(k), counts, !a.pending) : PENDING;
		if (state == HERE)
			a.here = i;
		a.pending |= state == PENDING;
		a.others |= state == REAL;
	}
	return a;
}

/*
 * Who waits, until one of ours has come, for a moment. In a crowd the MPI waits: it gives the core away. turn: that of
 * the others, if there are any: then it is as if there were nothing of ours.
 */
static struct any look_for(int n, const void *requests, bool waits)
{
	static _Thread_local unsigned turns __attribute__((tls_model("initial-exec")));
	bool turn = ++turns % OTHERS_EACH == 0;
	struct any a = look_at(n, requests, !waits, turn);
	int looks = waits && a.here < 0 && !(turn && a.others) && !crowded() ? LOOKS : 0;
	for (int k = 0; k < looks && a.here < 0 && a.pending; k += 1 + n / 8)
		a = look_at(n, requests, false, false);
	if (turn && a.others) {
		a.here = -1;
		a.pending = false;
	}
	return a;
}

/*
 * Where there is nothing in a list but collectives that do not block (begun.h), and none of them is over, who waits does so
 * here: they would have to become the MPI's, which looks for theirs without giving the core to those who have not come.
 */
static struct slot *first_of_begun(int n, const void *requests)
{
	struct slot *first = NULL;
	for (int i = 0; i < n; i++) {
		handle h = at(requests, i);
		uintptr_t k = own(h);
		struct slot *s = slot_of(k);
		if (k > SLOTS && h == sn_own_null)
			continue;
		if (!s || !s->begun)
			return NULL;
		first = first ? first : s;
	}
	return first;
}

struct among {
	int n;
	const void *requests;
	unsigned looks;
};

/* Nobody but who asks of it changes one. */
static int any_is_over(void *arg)
{
	struct among *a = arg;
	struct slot *first = NULL;
	for (int i = 0; i < a->n; i++) {
		uintptr_t k = own(at(a->requests, i));
		if (k > SLOTS)
			continue;
		if (look(slot_of(k), 0) != SN_SHIM_NOT_YET)
			return 1;
		first = first ? first : slot_of(k);
	}
	if (++a->looks % ASKED == 0 && first)
		sn_begun_meanwhile(first->begun);
	return 0;
}

static bool await_begun(int n, const void *requests)
{
	struct slot *first = first_of_begun(n, requests);
	struct among a = {.n = n, .requests = requests};
	if (first)
		sn_begun_await(any_is_over, &a, first->begun);
	return first;
}

static void one(int i, void *requests, void *status)
{
	end(requests, i, slot_of(own(at(requests, i))), status, true);
}

static __attribute__((noinline)) int any_slowly(int n, void *requests, int *index, int *flag, void *status)
{
	struct asked a = asks(flag ? TESTANY : WAITANY, n, requests);
	struct slot *lent = lend(n, requests);
	struct lesson l = begin(n, requests);
	if (!flag && sn_begun_any_real())
		sn_begun_await_real(n, requests);
	int rc = flag ? sn_own_mpi[TESTANY].testany(n, requests, index, flag, status)
		      : sn_own_mpi[WAITANY].any(n, requests, index, status);
	bool ended = !rc && (!flag || *flag) && *index == l.at;
	over(&l, requests, ended, status);
	take_back(lent, requests);
	answered(&a, flag && !rc && !*flag);
	return sn_requests_after(rc);
}

/* flag: NULL for who waits. */
static int any(int n, void *requests, int *index, int *flag, void *status)
{
	struct any a;
	bool found;
	do {
		if (!requests || n <= 0 || !sn_requests_about() || !sn_own_enter())
			return any_slowly(n, requests, index, flag, status);
		a = look_for(n, requests, !flag);
		found = a.here >= 0;
		if (found)
			one(a.here, requests, status);
		sn_own_leave();
	} while (!found && !flag && a.pending && await_begun(n, requests));
	bool none = flag && !found && a.pending;
	if (!found && !none)
		return any_slowly(n, requests, index, flag, status);
	*index = found ? a.here : UNDEFINED;
	if (flag)
		*flag = found;
	return sn_requests_after(0);
}

int sn_own_waitany(int n, void *requests, int *index, void *status)
{
	return any(n, requests, index, NULL, status);
}

int sn_own_testany(int n, void *requests, int *index, int *flag, void *status)
{
	if (is_in_vain(TESTANY, n, requests)) {
		*index = UNDEFINED;
		*flag = 0;
		return 0;
	}
	return any(n, requests, index, flag, status);
}

/* ---- MPI_Waitsome, MPI_Testsome ---- */

static __attribute__((noinline)) int some_slowly(int call, int n, void *requests, int *count, int *indices,
						 void *statuses)
{
	struct asked a = asks((unsigned)call, n, requests);
	struct slot *lent = lend(n, requests);
	struct lesson l = begin(n, requests);
	if (call == WAITSOME && sn_begun_any_real())
		sn_begun_await_real(n, requests);
	int rc = sn_own_mpi[call].some(n, requests, count, indices, statuses), found = -1;
	for (int i = 0; !rc && l.at >= 0 && i < *count; i++)
		if (indices[i] == l.at)
			found = i;
	over(&l, requests, found >= 0, found < 0 ? NULL : status_at(statuses, found));
	take_back(lent, requests);
	answered(&a, call == TESTSOME && !rc && *count == 0);
	return sn_requests_after(rc);
}

/* All of ours that have come by now. */
static int some(int call, int n, void *requests, int *count, int *indices, void *statuses)
{
	struct any a;
	int found = 0;
	bool mine;
	do {
		if (!requests || n <= 0 || !sn_requests_about() || !sn_own_enter())
			return some_slowly(call, n, requests, count, indices, statuses);
		a = look_for(n, requests, call == WAITSOME);
		mine = a.here >= 0;
		for (int i = mine ? a.here : n; i < n; i++) {
			uintptr_t k = own(at(requests, i));
			if (k > SLOTS || state_of(slot_of(k), false, 0) != HERE)
				continue;
			fill_one_of(statuses, found, slot_of(k));
			one(i, requests, NULL);
			indices[found++] = i;
		}
		sn_own_leave();
	} while (!mine && call == WAITSOME && a.pending && await_begun(n, requests));
	if (!mine && !(call == TESTSOME && a.pending))
		return some_slowly(call, n, requests, count, indices, statuses);
	*count = found;
	return sn_requests_after(0);
}

int sn_own_waitsome(int n, void *requests, int *count, int *indices, void *statuses)
{
	return some(WAITSOME, n, requests, count, indices, statuses);
}

int sn_own_testsome(int n, void *requests, int *count, int *indices, void *statuses)
{
	if (is_in_vain(TESTSOME, n, requests)) {
		*count = 0;
		return 0;
	}
	return some(TESTSOME, n, requests, count, indices, statuses);
}
