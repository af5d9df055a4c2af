/* SPDX-License-Identifier: BSD-3-Clause */
/* What rings no bell of ours (shim.h, elsewhere): windows, and requests that go on by steps. */
#include "abi.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Atomic uint32_t sn_mpi_windows;
static _Atomic uint32_t windows[2]; /* made by this name, and by that of the profiling interface */
static _Atomic uint32_t stepping;
static _Atomic int32_t files[2]; /* open, as counted under each of the two names */

/*
 * Not more than once in so many ticks, some 10 us, of which the MPI's call takes 0.3 to 1.6.
 */
#define DUE_TICKS 30000

bool sn_elsewhere_is_due_now(void)
{
	static _Atomic uint64_t last; /* of whatever thread */
	uint64_t now = sn_quick_ticks();
	if (now - atomic_load_explicit(&last, memory_order_relaxed) < DUE_TICKS)
		return false;
	atomic_store_explicit(&last, now, memory_order_relaxed);
	return true;
}

/* Whatever was counted, everybody says the sums, and so the last one does. */
static void say(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	int32_t a = atomic_load(&files[0]), b = atomic_load(&files[1]), open = a > b ? a : b;
	atomic_store(&sn_mpi_windows, atomic_load(&windows[0]) + atomic_load(&windows[1]));
	atomic_store(&sn_mpi_shim.elsewhere,
		     atomic_load(&sn_mpi_windows) + atomic_load(&stepping) + (open > 0 ? (uint32_t)open : 0));
	pthread_mutex_unlock(&lock);
}

/* ---- windows ---- */

/*
 * Counted under each of the two names by itself: a tool may stand before one call and not before the other, and then
 * a call goes through both. What frees one waits for the other ranks, and other threads may have what it waits for:
 * the window is there until it returns. That is known when the thread calls again, which it does by the slow way.
 */
static bool window(const char *name)
{
	static const char *const makes[] = {"MPI_Win_allocate",	       "MPI_Win_allocate_c",
					    "MPI_Win_allocate_shared", "MPI_Win_allocate_shared_c",
					    "MPI_Win_create",	       "MPI_Win_create_dynamic"};
	bool profiled = *name == 'P', made = false;
	name += profiled;
	if (strcmp(name, "MPI_Win_free") == 0) {
		uint32_t mine = sn_mpi_thread.tenure;
		sn_mpi_thread.freeing |= 1u << profiled;
		atomic_compare_exchange_strong(&sn_mpi_shim.pass, &mine, SN_SHIM_NOBODY);
		return true;
	}
	for (size_t i = 0; i < sizeof(makes) / sizeof(makes[0]); i++)
		made |= strcmp(name, makes[i]) == 0;
	if (made) {
		atomic_fetch_add(&windows[profiled], 1);
		say();
	}
	return made;
}

void sn_elsewhere_freed(void)
{
	for (unsigned p = 0; p < 2; p++) {
		uint32_t n = atomic_load(&windows[p]);
		while (sn_mpi_thread.freeing & 1u << p && n &&
		       !atomic_compare_exchange_weak(&windows[p], &n, n - 1))
			;
	}
	sn_mpi_thread.freeing = 0;
	say();
}

void sn_elsewhere_not_made(int p)
{
	atomic_fetch_sub(&windows[p], 1);
	say();
}

void sn_elsewhere_not_freed(int p)
{
	sn_mpi_thread.freeing &= ~(1u << p);
}

/* ---- requests that go on by steps ---- */

/*
 * ROMIO, the part of MPICH and Intel MPI for files, makes a generalized request of its own kind for each call that
 * does not block, collective or not, with counts of whatever width and from every language; and takes one step of it
 * when somebody who waits for it looks. It calls the MPI for both ends of such a request as a program would.
 */
static struct {
	pthread_mutex_t lock;
	uint32_t *request; /* a handle; half of it, where it is an address */
	uint32_t count;
} steps = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where there is no memory it is forgotten: it takes its time then, and nothing else. */
static void note(uint32_t request, bool begins)
{
	uint32_t i = 0, *more;
	pthread_mutex_lock(&steps.lock);
	while (i < steps.count && steps.request[i] != request)
		i++;
	if (!begins && i < steps.count) {
		steps.request[i] = steps.request[--steps.count];
	} else if (begins && i == steps.count &&
		   (more = realloc(steps.request, (i + 1) * sizeof(*steps.request)))) {
		steps.request = more;
		steps.request[steps.count++] = request;
	}
	atomic_store(&stepping, steps.count);
	say();
	pthread_mutex_unlock(&steps.lock);
}

/*
 * MPICH's library for the ABI of MPI 5 calls itself for the one end by no name. There nobody naps while a file is open
 * (one that could not be opened counts for ever), of which each name has its own count, for a tool may stand between.
 */
static bool file(const char *name)
{
	bool profiled = *name == 'P', opens = !strcmp(name + profiled, "MPI_File_open");
	bool closes = !strcmp(name + profiled, "MPI_File_close");
	if (sn_mpi_abi != STANDARD || (!opens && !closes))
		return false;
	atomic_fetch_add(&files[profiled], opens ? 1 : -1);
	say();
	return true;
}

bool sn_elsewhere_begins(const char *name)
{
	return window(name) || file(name);
}

static union function {
	void *symbol;
	int (*begin)(handle kind, void *state, uint32_t *request);
	int (*end)(handle request);
} begin_next[2], end_next[2];

static int begin(int p, handle kind, void *state, uint32_t *request)
{
	int rc = SN_FUNCTION(&begin_next[p]).begin(kind, state, request);
	if (!rc)
		note(*request, true);
	return rc;
}

static int begin_0(handle kind, void *state, uint32_t *request)
{
	return begin(0, kind, state, request);
}

static int begin_1(handle kind, void *state, uint32_t *request)
{
	return begin(1, kind, state, request);
}

static int end_0(handle request)
{
	note((uint32_t)request, false);
	return SN_FUNCTION(&end_next[0]).end(request);
}

static int end_1(handle request)
{
	note((uint32_t)request, false);
	return SN_FUNCTION(&end_next[1]).end(request);
}

void *sn_elsewhere_stand_in(const char *name, void *definition)
{
	static const union function begins[] = {{.begin = begin_0}, {.begin = begin_1}},
				    ends[] = {{.end = end_0}, {.end = end_1}};
	int p = *name == 'P';
	bool one = !strcmp(name + p, "MPIX_Grequest_class_allocate");
	if (!one && strcmp(name + p, "MPI_Grequest_complete") != 0)
		return NULL;
	SN_FUNCTION_IS(&(one ? begin_next : end_next)[p], definition);
	return (one ? begins : ends)[p].symbol;
}
