/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epochs of windows that all ranks share (node.h): in memory, without messages, of which the MPI takes one there and one back
 * for each, and without the target where MPI wants it so.
 *
 *  - MPI_Win_lock, MPI_Win_lock_all: a part is one rank's, or several's who share it. Who wants it for himself is waited for
 *    by those who would share it after that, or nobody might ever have it alone.
 *  - MPI_Win_fence: a barrier. Something may be moved after it until one that says MPI_MODE_NOSUCCEED.
 *  - MPI_Win_post counts for each rank that may start, and MPI_Win_start takes one of each that it wants; MPI_Win_complete
 *    counts for each of these, and MPI_Win_wait wants as many as it has posted for.
 *
 * Who waits looks, gives the core to others, and then sleeps until what he waits for has changed, or for a moment; in between the MPI sees to its own
 * affairs, on which others may depend. What moves is there when its call returns (onesided.c), so MPI_Win_flush has
 * nothing to wait for. What is wrong the MPI says: it knows of no epoch here, and MPI_Win_unlock tells so.
 */
#include "onesided.h"
#include "proof.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS	   256	   /* looks before the core is given away, */
#define YIELDS	   64	   /* and so many times that before it is slept: for a quarter of what was waited, */
#define NAP_NS	   20000   /* at least, and */
#define NAP_MOST   5000000 /* at most, as others may depend on this one's looks */
#define LOOKED	   8	   /* looks of who waits, of which one is the MPI's, too */
#define LOOKS	   64	   /* calls that wait for nothing, likewise */
#define NO_SUCCEED 16384   /* MPI_MODE_NOSUCCEED of both ABIs */

enum {
	LOCK,
	LOCK_ALL,
	UNLOCK,
	UNLOCK_ALL,
	FLUSH,
	FLUSH_LOCAL,
	FLUSH_ALL,
	FLUSH_LOCAL_ALL,
	SYNC,
	FENCE,
	POST,
	START,
	COMPLETE,
	WAIT,
	TEST,
	CALLS
};

union function {
	void *symbol;
	int (*lock)(int how, int rank, int assert, handle win);
	int (*lock_all)(int assert, handle win);
	int (*of_rank)(int rank, handle win);
	int (*of_all)(handle win);
	int (*of_group)(handle group, int assert, handle win);
	int (*test)(handle win, int *flag);
	int (*get_group)(handle win, void *group);
	int (*group_size)(handle group, int *size);
};
static union function next[2][CALLS]; /* without a P, and with it */
static union function unlock_of_mpi, win_get_group, group_size;

/* ---- waiting ---- */

struct wait {
	unsigned looks;
	uint64_t since;
};

/* Once more, while this word is what was seen. Who changes it wakes those who sleep (changed()): both write before they look. */
static void wait_more(struct wait *m, const struct window *w, _Atomic uint32_t *word, uint32_t seen)
{
	if (++m->looks < SPINS)
		return;
	if (m->looks % LOOKED == 0)
		sn_proof_look(sn_mpi_handle(SN_COMM_SELF));
	if (m->looks < SPINS + YIELDS) {
		m->since = m->since ? m->since : sn_quick_now_ns();
		sched_yield();
		return;
	}
	uint64_t nap = (sn_quick_now_ns() - m->since) / 4;
	nap = nap < NAP_NS ? NAP_NS : nap > NAP_MOST ? NAP_MOST : nap;
	struct timespec until = {.tv_nsec = (long)nap};
	atomic_fetch_add(&w->fence->sleepers, 1);
	syscall(SYS_futex, word, FUTEX_WAIT, seen, &until, NULL, 0);
	atomic_fetch_sub(&w->fence->sleepers, 1);
}

static void changed(const struct window *w, _Atomic uint32_t *word)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (!likely(!atomic_load_explicit(&w->fence->sleepers, memory_order_relaxed)))
		syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool alone(struct sn_window_part *l)
{
	uint32_t none = 0;
	return atomic_compare_exchange_strong_explicit(&l->epochs, &none, SN_EPOCH_ALONE,
						       memory_order_acquire, memory_order_relaxed);
}

static void enter_alone(const struct window *w, struct sn_window_part *l)
{
	struct wait m = {0};
	if (likely(alone(l)))
		return;
	atomic_fetch_add(&l->waiting, 1);
	for (;;) {
		uint32_t now = atomic_load_explicit(&l->epochs, memory_order_relaxed);
		if (!now && alone(l))
			break;
		wait_more(&m, w, &l->epochs, now);
	}
	atomic_fetch_sub(&l->waiting, 1);
}

static void enter_shared(const struct window *w, struct sn_window_part *l)
{
	struct wait m = {0};
	for (;;) {
		uint32_t now = atomic_load_explicit(&l->epochs, memory_order_relaxed);
		bool may = now != SN_EPOCH_ALONE && !atomic_load_explicit(&l->waiting, memory_order_relaxed);
		if (likely(may && atomic_compare_exchange_strong_explicit(&l->epochs, &now, now + 1,
									  memory_order_acquire,
									  memory_order_relaxed)))
			return;
		wait_more(&m, w, &l->epochs, now);
	}
}

static void enter(struct window *w, int rank, enum sn_epoch how)
{
	(how == SN_EPOCH_EXCLUSIVE ? enter_alone : enter_shared)(w, &w->parts[rank]);
	w->mine[rank].epoch = how;
}

static void leave(struct window *w, int rank)
{
	_Atomic uint32_t *epochs = &w->parts[rank].epochs;
	if (w->mine[rank].epoch == SN_EPOCH_EXCLUSIVE)
		atomic_store_explicit(epochs, 0, memory_order_release);
	else
		atomic_fetch_sub_explicit(epochs, 1, memory_order_release);
	w->mine[rank].epoch = SN_EPOCH_NONE;
	changed(w, epochs);
}

/* Nothing waits for a look; but who calls this in a loop may be the one on whom others depend. */
static void look(void)
{
	static _Thread_local unsigned turn __attribute__((tls_model("initial-exec")));
	atomic_thread_fence(memory_order_seq_cst);
	if (++turn % LOOKS == 0)
		sn_proof_look(sn_mpi_handle(SN_COMM_SELF));
}

/* ---- the calls ---- */

/* NULL: the MPI's. */
static struct window *window_of(handle win)
{
	struct window *w = sn_window_known(win);
	return w && w->plain ? w : NULL;
}

/* To the MPI there is no epoch here: it calls the window's handler, and this is what it says. */
static int wrong(handle win)
{
	return unlock_of_mpi.of_rank(0, win);
}

static enum sn_epoch kind_of(int how)
{
	int exclusive = sn_mpi_abi == STANDARD ? 301 : 234, shared = sn_mpi_abi == STANDARD ? 302 : 235;
	return how == exclusive ? SN_EPOCH_EXCLUSIVE : how == shared ? SN_EPOCH_SHARED : SN_EPOCH_NONE;
}

static int win_lock(int p, int how, int rank, int assert, handle win)
{
	struct window *w = window_of(win);
	enum sn_epoch kind = kind_of(how);
	bool nobody = rank == sn_mpi_nobody();
	if (!w || !kind || (!nobody && (rank < 0 || rank >= w->of.ranks)))
		return SN_FUNCTION(&next[p][LOCK]).lock(how, rank, assert, win);
	if (w->all || w->started || (!nobody && w->mine[rank].epoch))
		return wrong(win);
	if (!nobody)
		enter(w, rank, kind);
	atomic_fetch_add_explicit(&w->held, 1, memory_order_relaxed);
	return 0;
}

static int win_lock_all(int p, int assert, handle win)
{
	struct window *w = window_of(win);
	if (!w)
		return SN_FUNCTION(&next[p][LOCK_ALL]).lock_all(assert, win);
	if (atomic_load(&w->held) || w->started)
		return wrong(win);
	for (int r = 0; r < w->of.ranks; r++)
		enter(w, r, SN_EPOCH_SHARED);
	w->all = true;
	atomic_store(&w->held, 1);
	return 0;
}

static bool is_held(const struct window *w, int rank)
{
	if (rank == sn_mpi_nobody())
		return atomic_load_explicit(&w->held, memory_order_relaxed);
	return rank >= 0 && rank < w->of.ranks && w->mine[rank].epoch && !w->started;
}

static int win_unlock(int p, int rank, handle win)
{
	struct window *w = window_of(win);
	if (!w || w->all || !is_held(w, rank))
		return SN_FUNCTION(&next[p][UNLOCK]).of_rank(rank, win);
	if (rank != sn_mpi_nobody())
		leave(w, rank);
	atomic_fetch_sub_explicit(&w->held, 1, memory_order_relaxed);
	look();
	return 0;
}

static int win_unlock_all(int p, handle win)
{
	struct window *w = window_of(win);
	if (!w || !w->all)
		return SN_FUNCTION(&next[p][UNLOCK_ALL]).of_all(win);
	w->all = false;
	for (int r = 0; r < w->of.ranks; r++)
		leave(w, r);
	atomic_store(&w->held, 0);
	look();
	return 0;
}

static int flush_of(int p, int call, int rank, handle win)
{
	const struct window *w = window_of(win);
	if (!w || !is_held(w, rank))
		return SN_FUNCTION(&next[p][call]).of_rank(rank, win);
	look();
	return 0;
}

/* Of memory, in whatever epoch, or in none. */
static int win_sync(int p, handle win)
{
	if (!window_of(win))
		return SN_FUNCTION(&next[p][SYNC]).of_all(win);
	look();
	return 0;
}

static int flush_all(int p, int call, handle win)
{
	const struct window *w = window_of(win);
	if (!w || !atomic_load_explicit(&w->held, memory_order_relaxed))
		return SN_FUNCTION(&next[p][call]).of_all(win);
	look();
	return 0;
}

static int win_flush_all(int p, handle win)
{
	return flush_all(p, FLUSH_ALL, win);
}

static int win_flush_local_all(int p, handle win)
{
	return flush_all(p, FLUSH_LOCAL_ALL, win);
}

static int win_flush(int p, int rank, handle win)
{
	return flush_of(p, FLUSH, rank, win);
}

static int win_flush_local(int p, int rank, handle win)
{
	return flush_of(p, FLUSH_LOCAL, rank, win);
}

/* ---- MPI_Win_fence ---- */

static int win_fence(int p, int assert, handle win)
{
	struct window *w = window_of(win);
	if (!w)
		return SN_FUNCTION(&next[p][FENCE]).lock_all(assert, win);
	if (atomic_load(&w->held) || w->started || w->posts)
		return wrong(win);
	uint32_t over = atomic_load_explicit(&w->fence->over, memory_order_relaxed);
	if (atomic_fetch_add(&w->fence->come, 1) + 1 == (uint32_t)w->of.ranks) {
		atomic_store_explicit(&w->fence->come, 0, memory_order_relaxed);
		atomic_store_explicit(&w->fence->over, over + 1, memory_order_release);
		changed(w, &w->fence->over);
	} else {
		struct wait more = {0};
		while (atomic_load_explicit(&w->fence->over, memory_order_acquire) == over)
			wait_more(&more, w, &w->fence->over, over);
	}
	w->fenced = !(assert &NO_SUCCEED);
	look();
	return 0;
}

/* ---- MPI_Win_start, MPI_Win_post ---- */

/* The group's ranks, as the window counts them; to be freed. NULL: it is for the MPI to say what is wrong. */
static int *ranks_of(const struct window *w, handle group, int *n)
{
	handle all = 0;
	if (group_size.group_size(group, n) || win_get_group.get_group(w->win, &all))
		return NULL;
	all = sn_mpi_nth(&all, 0);
	int *ranks = malloc(2 * ((size_t)*n + 1) * sizeof(int)), *numbers = ranks ? ranks + *n + 1 : NULL;
	for (int i = 0; ranks && i < *n; i++)
		numbers[i] = i;
	bool known = ranks && !sn_proof_mpi.group_translate_ranks(group, *n, numbers, all, ranks);
	sn_proof_mpi.group_free(&all);
	for (int i = 0; known && i < *n; i++)
		known = ranks[i] >= 0 && ranks[i] < w->of.ranks;
	if (!known)
		free(ranks);
	return known ? ranks : NULL;
}

static _Atomic uint32_t *posted(const struct window *w, int by, int to)
{
	return &w->posted[(size_t)by * (size_t)w->of.ranks + (size_t)to];
}

static int win_post(int p, handle group, int assert, handle win)
{
	struct window *w = window_of(win);
	int n, *ranks = w ? ranks_of(w, group, &n) : NULL;
	if (!ranks)
		return SN_FUNCTION(&next[p][POST]).of_group(group, assert, win);
	if (w->posts) {
		free(ranks);
		return wrong(win);
	}
	w->posts = true;
	w->wanted += (uint32_t)n;
	for (int i = 0; i < n; i++) {
		_Atomic uint32_t *word = posted(w, w->of.rank, ranks[i]);
		atomic_fetch_add_explicit(word, 1, memory_order_release);
		changed(w, word);
	}
	free(ranks);
	return 0;
}

static int win_start(int p, handle group, int assert, handle win)
{
	struct window *w = window_of(win);
	int n, *ranks = w ? ranks_of(w, group, &n) : NULL;
	if (!ranks)
		return SN_FUNCTION(&next[p][START]).of_group(group, assert, win);
	if (w->started || atomic_load(&w->held)) {
		free(ranks);
		return wrong(win);
	}
	for (int i = 0; i < n; i++) {
		struct sn_window_mine *m = &w->mine[ranks[i]];
		struct wait more = {0};
		_Atomic uint32_t *word = posted(w, ranks[i], w->of.rank);
		while (atomic_load_explicit(word, memory_order_acquire) == m->posts)
			wait_more(&more, w, word, m->posts);
		m->posts++;
		m->epoch = SN_EPOCH_STARTED;
	}
	w->started = true;
	free(ranks);
	return 0;
}

static int win_complete(int p, handle win)
{
	struct window *w = window_of(win);
	if (!w || !w->started)
		return SN_FUNCTION(&next[p][COMPLETE]).of_all(win);
	w->started = false;
	for (int r = 0; r < w->of.ranks; r++) {
		if (w->mine[r].epoch != SN_EPOCH_STARTED)
			continue;
		w->mine[r].epoch = SN_EPOCH_NONE;
		atomic_fetch_add_explicit(&w->parts[r].completed, 1, memory_order_release);
		changed(w, &w->parts[r].completed);
	}
	look();
	return 0;
}

static bool has_completed(struct window *w)
{
	const struct sn_window_part *l = &w->parts[w->of.rank];
	bool all = (int32_t)(atomic_load_explicit(&l->completed, memory_order_acquire) - w->wanted) >= 0;
	w->posts &= !all;
	return all;
}

static int win_wait(int p, handle win)
{
	struct window *w = window_of(win);
	struct wait more = {0};
	if (!w || !w->posts)
		return SN_FUNCTION(&next[p][WAIT]).of_all(win);
	_Atomic uint32_t *word = &w->parts[w->of.rank].completed;
	for (uint32_t seen = atomic_load(word); !has_completed(w); seen = atomic_load(word))
		wait_more(&more, w, word, seen);
	look();
	return 0;
}

static int win_test(int p, handle win, int *flag)
{
	struct window *w = window_of(win);
	if (!w || !w->posts)
		return SN_FUNCTION(&next[p][TEST]).test(win, flag);
	*flag = has_completed(w);
	look();
	return 0;
}

bool sn_epochs_are_over(const struct window *w, int *rc)
{
	bool over = !w->plain || (!atomic_load(&w->held) && !w->started && !w->posts);
	*rc = over ? 0 : wrong(w->win);
	return over;
}

/* ---- standing in ---- */

SN_BY_BOTH_NAMES(win_lock, (int how, int rank, int assert, handle win), SN_WITH(how, rank, assert, win))
SN_BY_BOTH_NAMES(win_lock_all, (int assert, handle win), SN_WITH(assert, win))
SN_BY_BOTH_NAMES(win_unlock, (int rank, handle win), SN_WITH(rank, win))
SN_BY_BOTH_NAMES(win_unlock_all, (handle win), win)
SN_BY_BOTH_NAMES(win_flush, (int rank, handle win), SN_WITH(rank, win))
SN_BY_BOTH_NAMES(win_flush_local, (int rank, handle win), SN_WITH(rank, win))
SN_BY_BOTH_NAMES(win_flush_all, (handle win), win)
SN_BY_BOTH_NAMES(win_flush_local_all, (handle win), win)
SN_BY_BOTH_NAMES(win_sync, (handle win), win)
SN_BY_BOTH_NAMES(win_fence, (int assert, handle win), SN_WITH(assert, win))
SN_BY_BOTH_NAMES(win_post, (handle group, int assert, handle win), SN_WITH(group, assert, win))
SN_BY_BOTH_NAMES(win_start, (handle group, int assert, handle win), SN_WITH(group, assert, win))
SN_BY_BOTH_NAMES(win_complete, (handle win), win)
SN_BY_BOTH_NAMES(win_wait, (handle win), win)
SN_BY_BOTH_NAMES(win_test, (handle win, int *flag), SN_WITH(win, flag))

static const struct {
	const char *name;
	union function stand_in[2];
} calls[CALLS] = {
	[LOCK] = {"MPI_Win_lock", {{.lock = win_lock_0}, {.lock = win_lock_1}}},
	[LOCK_ALL] = {"MPI_Win_lock_all", {{.lock_all = win_lock_all_0}, {.lock_all = win_lock_all_1}}},
	[UNLOCK] = {"MPI_Win_unlock", {{.of_rank = win_unlock_0}, {.of_rank = win_unlock_1}}},
	[UNLOCK_ALL] = {"MPI_Win_unlock_all", {{.of_all = win_unlock_all_0}, {.of_all = win_unlock_all_1}}},
	[FLUSH] = {"MPI_Win_flush", {{.of_rank = win_flush_0}, {.of_rank = win_flush_1}}},
	[FLUSH_LOCAL] = {"MPI_Win_flush_local",
			 {{.of_rank = win_flush_local_0}, {.of_rank = win_flush_local_1}}},
	[FLUSH_ALL] = {"MPI_Win_flush_all", {{.of_all = win_flush_all_0}, {.of_all = win_flush_all_1}}},
	[FLUSH_LOCAL_ALL] = {"MPI_Win_flush_local_all",
			     {{.of_all = win_flush_local_all_0}, {.of_all = win_flush_local_all_1}}},
	[SYNC] = {"MPI_Win_sync", {{.of_all = win_sync_0}, {.of_all = win_sync_1}}},
	[FENCE] = {"MPI_Win_fence", {{.lock_all = win_fence_0}, {.lock_all = win_fence_1}}},
	[POST] = {"MPI_Win_post", {{.of_group = win_post_0}, {.of_group = win_post_1}}},
	[START] = {"MPI_Win_start", {{.of_group = win_start_0}, {.of_group = win_start_1}}},
	[COMPLETE] = {"MPI_Win_complete", {{.of_all = win_complete_0}, {.of_all = win_complete_1}}},
	[WAIT] = {"MPI_Win_wait", {{.of_all = win_wait_0}, {.of_all = win_wait_1}}},
	[TEST] = {"MPI_Win_test", {{.test = win_test_0}, {.test = win_test_1}}},
};

static int call_named(const char *name)
{
	return sn_quick_named(calls, sizeof(*calls), CALLS, name);
}

bool sn_epochs_are(const char *name)
{
	return call_named(name) < CALLS;
}

static void find(void)
{
	unlock_of_mpi.symbol = sn_mpi_find("PMPI_Win_unlock");
	win_get_group.symbol = sn_mpi_find("PMPI_Win_get_group");
	group_size.symbol = sn_mpi_find("PMPI_Group_size");
}

void *sn_epochs_stand_in(const char *name, void *definition)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int p = *name == 'P', call = call_named(name);
	pthread_once(&once, find);
	if (!p && sn_quick_is_tools(name, definition)) /* what that calls by the other name comes here */
		return NULL;
	SN_FUNCTION_IS(&next[p][call], definition);
	return calls[call].stand_in[p].symbol;
}
