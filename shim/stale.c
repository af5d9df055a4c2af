/* SPDX-License-Identifier: BSD-3-Clause */
#include "stale.h"
#include "own.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define CLASSES 100 /* what may be an error of Open MPI's */
#define MOST	192 /* bytes into a request; the two that are known have 256 at least */
/* MPI_ERR_PROC_FAILED, MPI_ERR_PROC_FAILED_PENDING, MPI_ERR_REVOKED: fault tolerance marks what is pending by these */
#define MARK_FIRST 75
#define MARK_LAST  77
/* What a send may fail with: MPI_ERR_INTERN and MPI_ERR_TRUNCATE of ompi_mtl_ofi_send_error_callback() */
#define ERR_INTERN 17

/* As it lies in a request. */
struct end {
	int32_t source, tag;
	_Atomic int32_t error;
	int32_t cancelled;
	uint64_t len;
	void *_Atomic complete; /* NULL, or whoever waits for it, while it is not; (void *)1: it is */
	int32_t state; /* INACTIVE: persistent, and not started: it was over, or has never been started */
};

enum { INACTIVE = 1, ACTIVE };

/* Each object of the MPI's begins with what it is, and that with its name. */
struct class
{
	const char *name;
};

static int at_known;	   /* negative: it is not known */
static bool classes_known; /* where they lie */

/* Of one that is complete, from this source, and that state. */
static int find_in(const char *request, int32_t source, int32_t state)
{
	const struct {
		int32_t source, tag, error, cancelled;
		uint64_t len;
		uintptr_t complete;
		int32_t state;
	} empty = {.source = source, .tag = -1, .complete = 1, .state = state};
	const size_t len = offsetof(struct end, state) + sizeof(empty.state);
	_Static_assert(sizeof(empty) == sizeof(struct end), "as it lies there");
	for (int i = 0; request && i <= MOST; i += 8)
		if (!memcmp(request + i, &empty, len))
			return i;
	return -1;
}

static const struct class *class_of(handle request)
{
	return *(const struct class *const *)request;
}

static void find(void)
{
	const struct class *requests = sn_mpi_find("ompi_request_t_class");
	classes_known = requests && class_of(sn_mpi_handle(SN_REQUEST_NULL)) == requests &&
			!strcmp(requests->name, "ompi_request_t");
	int null = find_in((const char *)sn_mpi_handle(SN_REQUEST_NULL), sn_mpi_any_source(), INACTIVE);
	int empty = find_in(sn_mpi_find("ompi_request_empty"), sn_mpi_nobody(), ACTIVE);
	at_known = null == empty ? null : -1;
}

static void find_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
}

/* Of pml/cm; this is the class of all that it has. */
static bool is_a_send(handle request)
{
	return classes_known && !strcmp(class_of(request)->name, "mca_pml_cm_hvy_send_request_t");
}

bool sn_stale_is_a_send(handle request)
{
	if (sn_mpi_family != OPEN_MPI || !request || own(request) <= SLOTS)
		return false;
	find_once();
	return is_a_send(request);
}

/*
 * Another thread may be about to say that one has failed: the error is there before it is complete. Then what may be an
 * error is left alone; of a send that is little.
 */
static bool may_be_real(handle request, int error)
{
	if (threads() == ONE || error < 0 || error > CLASSES)
		return false;
	return !is_a_send(request) || error == MPI_ERR_TRUNCATE || error == ERR_INTERN;
}

/* And is still to be told of, with its error. */
static bool is_over(const struct end *e)
{
	return atomic_load_explicit(&e->complete, memory_order_acquire) == (void *)1 && e->state != INACTIVE;
}

void sn_stale_clear_of(int n, const void *requests)
{
	find_once();
	for (int i = 0; i < n && at_known >= 0; i++) {
		handle h = sn_mpi_nth(requests, i);
		if (!h)
			continue;
		struct end *e = (struct end *)(h + (uintptr_t)at_known);
		int32_t error = atomic_load_explicit(&e->error, memory_order_relaxed);
		if (likely(!error) || is_over(e) || (error >= MARK_FIRST && error <= MARK_LAST))
			continue;
		if (!may_be_real(h, error))
			atomic_compare_exchange_strong(&e->error, &error, 0);
	}
}

/* ---- where nothing else stands before the MPI ---- */

/* As of the program, or of a tool: without a P, and with it. */
static union function next[2][CALLS];

#define BEFORE(p, call, n, requests) (sn_stale_clear(n, requests), SN_FUNCTION(&next[p][call]))

#define STAND_INS(p)                                                                                         \
	static int all_##p(int n, void *requests, void *statuses)                                            \
	{                                                                                                    \
		return BEFORE(p, WAITALL, n, requests).all(n, requests, statuses);                           \
	}                                                                                                    \
	static int any_##p(int n, void *requests, int *index, void *status)                                  \
	{                                                                                                    \
		return BEFORE(p, WAITANY, n, requests).any(n, requests, index, status);                      \
	}                                                                                                    \
	static int waitsome_##p(int n, void *requests, int *count, int *indices, void *statuses)             \
	{                                                                                                    \
		return BEFORE(p, WAITSOME, n, requests).some(n, requests, count, indices, statuses);         \
	}                                                                                                    \
	static int testall_##p(int n, void *requests, int *flag, void *statuses)                             \
	{                                                                                                    \
		return BEFORE(p, TESTALL, n, requests).testall(n, requests, flag, statuses);                 \
	}                                                                                                    \
	static int testany_##p(int n, void *requests, int *index, int *flag, void *status)                   \
	{                                                                                                    \
		return BEFORE(p, TESTANY, n, requests).testany(n, requests, index, flag, status);            \
	}                                                                                                    \
	static int testsome_##p(int n, void *requests, int *count, int *indices, void *statuses)             \
	{                                                                                                    \
		return BEFORE(p, TESTSOME, n, requests).some(n, requests, count, indices, statuses);         \
	}                                                                                                    \
	static int cancel_##p(void *request)                                                                 \
	{                                                                                                    \
		bool stays = request && sn_stale_is_a_send(*(const handle *)request);                        \
		return stays ? 0 : SN_FUNCTION(&next[p][CANCEL]).one(request);                               \
	}

STAND_INS(0)
STAND_INS(1)

static const struct {
	const char *name;
	union function stand_in[2];
} calls[CALLS] = {
	[WAITALL] = {"MPI_Waitall", {{.all = all_0}, {.all = all_1}}},
	[WAITANY] = {"MPI_Waitany", {{.any = any_0}, {.any = any_1}}},
	[WAITSOME] = {"MPI_Waitsome", {{.some = waitsome_0}, {.some = waitsome_1}}},
	[TESTALL] = {"MPI_Testall", {{.testall = testall_0}, {.testall = testall_1}}},
	[TESTANY] = {"MPI_Testany", {{.testany = testany_0}, {.testany = testany_1}}},
	[TESTSOME] = {"MPI_Testsome", {{.some = testsome_0}, {.some = testsome_1}}},
	[CANCEL] = {"MPI_Cancel", {{.one = cancel_0}, {.one = cancel_1}}},
};

void *sn_stale_stand_in(const char *name, void *definition)
{
	int p = *name == 'P', call = sn_quick_named(calls, sizeof(*calls), CALLS, name);
	if (call < CALLS)
		sn_mpi_find_family();
	if (call == CALLS || sn_mpi_family != OPEN_MPI)
		return definition;
	SN_FUNCTION_IS(&next[p][call], definition);
	return calls[call].stand_in[p].symbol;
}
