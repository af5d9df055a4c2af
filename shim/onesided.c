/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is moved to and from windows that all ranks share (node.h), by who asks for it, before the call returns.
 *
 * MPI_Accumulate and its like are atomic to each other, for each element. So all of them go this way, whatever the
 * types, under a lock of the part that is changed, and the MPI moves none; but between MPI_Win_start and
 * MPI_Win_complete, where it moves all of them (node.c), and nobody else may touch that part. Operations are the MPI's
 * (MPI_Reduce_local). Who has the lock writes the number of its process there: that of one which has ended is taken
 * over.
 *
 * MPI_Put and MPI_Get of types without holes are copies; others are the MPI's. Whatever is called, the MPI is called,
 * too, with a count of 0: it says what is wrong, and whether there is an epoch; and it makes the request that is
 * complete. As long as it has moved nothing MPI_Win_flush has nothing to wait for.
 */
#include "onesided.h"
#include "base/copy.h"
#include "collective.h"
#include "gpu.h"
#include <pthread.h>
#include <string.h>

#define FLUSHES 16 /* of which one is the MPI's, which may have to answer others */

enum {
	PUT,
	PUT_C,
	GET,
	GET_C,
	RPUT,
	RPUT_C,
	RGET,
	RGET_C,
	ACCUMULATE,
	ACCUMULATE_C,
	RACCUMULATE,
	RACCUMULATE_C,
	GET_ACCUMULATE,
	GET_ACCUMULATE_C,
	RGET_ACCUMULATE,
	RGET_ACCUMULATE_C,
	FETCH_AND_OP,
	COMPARE_AND_SWAP,
	LOCK,
	LOCK_ALL,
	UNLOCK,
	UNLOCK_ALL,
	FLUSH,
	FLUSH_LOCAL,
	FLUSH_ALL,
	FLUSH_LOCAL_ALL,
	CALLS
};

#define MOVES(name, count_t)                                                                                 \
	int (*put##name)(const void *from, count_t n, handle type, int rank, intptr_t at, count_t at_n,      \
			 handle at_type, handle win);                                                        \
	int (*get##name)(void *to, count_t n, handle type, int rank, intptr_t at, count_t at_n,              \
			 handle at_type, handle win);                                                        \
	int (*rput##name)(const void *from, count_t n, handle type, int rank, intptr_t at, count_t at_n,     \
			  handle at_type, handle win, void *request);                                        \
	int (*rget##name)(void *to, count_t n, handle type, int rank, intptr_t at, count_t at_n,             \
			  handle at_type, handle win, void *request);                                        \
	int (*accumulate##name)(const void *from, count_t n, handle type, int rank, intptr_t at,             \
				count_t at_n, handle at_type, handle op, handle win);                        \
	int (*raccumulate##name)(const void *from, count_t n, handle type, int rank, intptr_t at,            \
				 count_t at_n, handle at_type, handle op, handle win, void *request);        \
	int (*get_accumulate##name)(const void *from, count_t n, handle type, void *to, count_t to_n,        \
				    handle to_type, int rank, intptr_t at, count_t at_n, handle at_type,     \
				    handle op, handle win);                                                  \
	int (*rget_accumulate##name)(const void *from, count_t n, handle type, void *to, count_t to_n,       \
				     handle to_type, int rank, intptr_t at, count_t at_n, handle at_type,    \
				     handle op, handle win, void *request);

union function {
	void *symbol;
	MOVES(, int)
	MOVES(_c, int64_t)
	int (*fetch_and_op)(const void *from, void *to, handle type, int rank, intptr_t at, handle op,
			    handle win);
	int (*compare_and_swap)(const void *from, const void *with, void *to, handle type, int rank,
				intptr_t at, handle win);
	int (*lock)(int how, int rank, int assert, handle win);
	int (*lock_all)(int assert, handle win);
	int (*of_rank)(int rank, handle win);
	int (*of_all)(handle win);
};
static union function next[2][CALLS]; /* without a P, and with it */
static union function put_of_mpi;

/* ---- where ---- */

struct access sn_access_of(handle win, int rank, intptr_t at)
{
	struct access a = {.w = sn_window_known(win), .rank = rank};
	intptr_t begin;
	if (!a.w || rank < 0 || rank >= a.w->parts.ranks || at < 0 || sn_gpu_is_here() ||
	    atomic_load_explicit(&a.w->started, memory_order_relaxed))
		return a;
	const struct said *s = &a.w->parts.all[rank];
	if (__builtin_mul_overflow(at, (intptr_t)s->b, &begin) || begin > s->a)
		return a;
	a.room = s->a - begin;
	a.at = sn_window_part(a.w, rank) + begin;
	return a;
}

/* The MPI has been called to move something. After that: who waits for it by a flush in between does not wait for this one. */
static void is_message(const struct access *a)
{
	if (a->w)
		atomic_store(&a->w->messages, true);
}

struct side sn_side_of(const void *buf, int64_t count, handle type)
{
	static _Thread_local struct sn_meet_type last __attribute__((tls_model("initial-exec")));
	return (struct side){buf, count, *sn_type_of(&last, type, sn_collective_generation())};
}

void sn_side_copy(void *to, const void *from, size_t n)
{
	if (n == 8 && !((uintptr_t)to % 8)) {
		uint64_t word;
		memcpy(&word, from, 8);
		__atomic_store_n((uint64_t *)to, word, __ATOMIC_RELAXED);
	} else if (n == 4 && !((uintptr_t)to % 4)) {
		uint32_t word;
		memcpy(&word, from, 4);
		__atomic_store_n((uint32_t *)to, word, __ATOMIC_RELAXED);
	} else {
		sn_copy_between(to, from, n);
	}
}

/* ---- MPI_Put, MPI_Get ---- */

/* n, at_n: what the MPI is called with; 0 where it moves nothing. */
struct move {
	struct access a;
	int64_t n, at_n;
	size_t bytes;
};

/* Can it be a copy? */
static struct move move(const void *buf, int64_t n, handle type, int rank, intptr_t at, int64_t at_n,
			handle at_type, handle win)
{
	struct move m = {sn_access_of(win, rank, at), n, at_n, 0};
	struct side mine = sn_side_of(buf, n, type), there = sn_side_of(m.a.at, at_n, at_type);
	m.bytes = sn_side_bytes(&mine);
	if (!mine.t.plain || !there.t.plain || n <= 0 || at_n <= 0 || !buf ||
	    sn_side_bytes(&there) != m.bytes || m.bytes > (uint64_t)m.a.room)
		m.a.at = NULL;
	if (m.a.at)
		m.n = m.at_n = 0;
	return m;
}

/*
 * Straight, as MPIs do where they share memory, and so whatever makes an epoch leaves room for that.
 */
static int put_over(const struct move *m, const void *from, int rc)
{
	if (!m->a.at) {
		is_message(&m->a);
	} else if (!rc) {
		sn_side_copy(m->a.at, from, m->bytes);
		atomic_thread_fence(memory_order_release);
	}
	return rc;
}

static int get_over(const struct move *m, void *to, int rc)
{
	if (!m->a.at) {
		is_message(&m->a);
	} else if (!rc) {
		atomic_thread_fence(memory_order_acquire);
		sn_side_copy(to, m->a.at, m->bytes);
	}
	return rc;
}

#define PUTS_AND_GETS(name, NAME, count_t)                                                                   \
	static int put##name(int p, const void *from, count_t n, handle type, int rank, intptr_t at,         \
			     count_t at_n, handle at_type, handle win)                                       \
	{                                                                                                    \
		struct move m = move(from, n, type, rank, at, at_n, at_type, win);                           \
		return put_over(&m, from,                                                                    \
				SN_FUNCTION(&next[p][PUT##NAME])                                             \
					.put##name(from, (count_t)m.n, type, rank, at, (count_t)m.at_n,      \
						   at_type, win));                                           \
	}                                                                                                    \
	static int get##name(int p, void *to, count_t n, handle type, int rank, intptr_t at, count_t at_n,   \
			     handle at_type, handle win)                                                     \
	{                                                                                                    \
		struct move m = move(to, n, type, rank, at, at_n, at_type, win);                             \
		return get_over(&m, to,                                                                      \
				SN_FUNCTION(&next[p][GET##NAME])                                             \
					.get##name(to, (count_t)m.n, type, rank, at, (count_t)m.at_n,        \
						   at_type, win));                                           \
	}                                                                                                    \
	static int rput##name(int p, const void *from, count_t n, handle type, int rank, intptr_t at,        \
			      count_t at_n, handle at_type, handle win, void *request)                       \
	{                                                                                                    \
		struct move m = move(from, n, type, rank, at, at_n, at_type, win);                           \
		return put_over(&m, from,                                                                    \
				SN_FUNCTION(&next[p][RPUT##NAME])                                            \
					.rput##name(from, (count_t)m.n, type, rank, at, (count_t)m.at_n,     \
						    at_type, win, request));                                 \
	}                                                                                                    \
	static int rget##name(int p, void *to, count_t n, handle type, int rank, intptr_t at, count_t at_n,  \
			      handle at_type, handle win, void *request)                                     \
	{                                                                                                    \
		struct move m = move(to, n, type, rank, at, at_n, at_type, win);                             \
		return get_over(&m, to,                                                                      \
				SN_FUNCTION(&next[p][RGET##NAME])                                            \
					.rget##name(to, (count_t)m.n, type, rank, at, (count_t)m.at_n,       \
						    at_type, win, request));                                 \
	}

PUTS_AND_GETS(, , int)
PUTS_AND_GETS(_c, _C, int64_t)

/* ---- MPI_Accumulate and its like ---- */

static int change_over(const struct change *c, int rc)
{
	if (!sn_change_over(c, &rc))
		is_message(&c->a);
	return rc;
}

#define ACCUMULATES(name, NAME, count_t)                                                                     \
	static int accumulate##name(int p, const void *from, count_t n, handle type, int rank, intptr_t at,  \
				    count_t at_n, handle at_type, handle op, handle win)                     \
	{                                                                                                    \
		struct change c = sn_change_of(from, n, type, rank, at, at_n, at_type, op, win);             \
		sn_change_begin(&c);                                                                         \
		return change_over(&c, SN_FUNCTION(&next[p][ACCUMULATE##NAME])                               \
					       .accumulate##name(from, (count_t)c.n, type, rank, at,         \
								 (count_t)c.at_n, at_type, op, win));        \
	}                                                                                                    \
	static int raccumulate##name(int p, const void *from, count_t n, handle type, int rank, intptr_t at, \
				     count_t at_n, handle at_type, handle op, handle win, void *request)     \
	{                                                                                                    \
		struct change c = sn_change_of(from, n, type, rank, at, at_n, at_type, op, win);             \
		sn_change_begin(&c);                                                                         \
		return change_over(&c,                                                                       \
				   SN_FUNCTION(&next[p][RACCUMULATE##NAME])                                  \
					   .raccumulate##name(from, (count_t)c.n, type, rank, at,            \
							      (count_t)c.at_n, at_type, op, win, request));  \
	}                                                                                                    \
	static int get_accumulate##name(int p, const void *from, count_t n, handle type, void *to,           \
					count_t to_n, handle to_type, int rank, intptr_t at, count_t at_n,   \
					handle at_type, handle op, handle win)                               \
	{                                                                                                    \
		struct change c = sn_change_and_get(                                                         \
			sn_change_of(from, n, type, rank, at, at_n, at_type, op, win), to, to_n, to_type);   \
		return change_over(&c, SN_FUNCTION(&next[p][GET_ACCUMULATE##NAME])                           \
					       .get_accumulate##name(from, (count_t)c.n, type, to,           \
								     (count_t)c.to_n, to_type, rank, at,     \
								     (count_t)c.at_n, at_type, op, win));    \
	}                                                                                                    \
	static int rget_accumulate##name(int p, const void *from, count_t n, handle type, void *to,          \
					 count_t to_n, handle to_type, int rank, intptr_t at, count_t at_n,  \
					 handle at_type, handle op, handle win, void *request)               \
	{                                                                                                    \
		struct change c = sn_change_and_get(                                                         \
			sn_change_of(from, n, type, rank, at, at_n, at_type, op, win), to, to_n, to_type);   \
		return change_over(&c, SN_FUNCTION(&next[p][RGET_ACCUMULATE##NAME])                          \
					       .rget_accumulate##name(from, (count_t)c.n, type, to,          \
								      (count_t)c.to_n, to_type, rank, at,    \
								      (count_t)c.at_n, at_type, op, win,     \
								      request));                             \
	}

ACCUMULATES(, , int)
ACCUMULATES(_c, _C, int64_t)

/* Of these two the MPI is asked as of an MPI_Put of nothing. */
static int fetch_and_op(int p, const void *from, void *to, handle type, int rank, intptr_t at, handle op,
			handle win)
{
	struct change c =
		sn_change_and_get(sn_change_of(from, 1, type, rank, at, 1, type, op, win), to, 1, type);
	return change_over(
		&c,
		c.a.at ? put_of_mpi.put(from, 0, type, rank, at, 0, type, win)
		       : SN_FUNCTION(&next[p][FETCH_AND_OP]).fetch_and_op(from, to, type, rank, at, op, win));
}

static int compare_and_swap(int p, const void *from, const void *with, void *to, handle type, int rank,
			    intptr_t at, handle win)
{
	struct access a = sn_access_of(win, rank, at);
	struct sn_meet_type t = sn_side_of(from, 1, type).t;
	if (!sn_change_may_swap(&a, &t)) {
		is_message(&a);
		return SN_FUNCTION(&next[p][COMPARE_AND_SWAP])
			.compare_and_swap(from, with, to, type, rank, at, win);
	}
	int rc = put_of_mpi.put(from, 0, type, rank, at, 0, type, win);
	if (!rc)
		sn_change_swap(&a, &t, from, with, to);
	return rc;
}

/* ---- MPI_Win_flush and its like ---- */

static int began(handle win, int rc)
{
	struct window *w = rc ? NULL : sn_window_known(win);
	if (w)
		atomic_fetch_add(&w->held, 1);
	return rc;
}

static int win_lock(int p, int how, int rank, int assert, handle win)
{
	return began(win, SN_FUNCTION(&next[p][LOCK]).lock(how, rank, assert, win));
}

static int win_lock_all(int p, int assert, handle win)
{
	return began(win, SN_FUNCTION(&next[p][LOCK_ALL]).lock_all(assert, win));
}

static int ended(handle win, int rc)
{
	struct window *w = rc ? NULL : sn_window_known(win);
	if (w)
		atomic_fetch_sub(&w->held, 1);
	return rc;
}

static int win_unlock(int p, int rank, handle win)
{
	return ended(win, SN_FUNCTION(&next[p][UNLOCK]).of_rank(rank, win));
}

/* What is moved in this epoch by another thread after this is not to be missed. */
static void no_messages(handle win)
{
	struct window *w = sn_window_known(win);
	if (w)
		atomic_store(&w->messages, false);
}

static int win_unlock_all(int p, handle win)
{
	no_messages(win);
	return ended(win, SN_FUNCTION(&next[p][UNLOCK_ALL]).of_all(win));
}

/* Is there nothing to wait for? Now and then the MPI is asked all the same. */
static bool is_flushed(handle win)
{
	static _Thread_local unsigned turn __attribute__((tls_model("initial-exec")));
	const struct window *w = sn_window_known(win);
	bool flushed = w && w->plain && !atomic_load(&w->messages) &&
		       atomic_load_explicit(&w->held, memory_order_relaxed) > 0 && ++turn % FLUSHES;
	if (flushed)
		atomic_thread_fence(memory_order_seq_cst);
	return flushed;
}

static int flush_of(int p, int call, int rank, handle win)
{
	const struct window *w = sn_window_known(win);
	bool one = w && rank >= 0 && rank < w->parts.ranks;
	return one && is_flushed(win) ? 0 : SN_FUNCTION(&next[p][call]).of_rank(rank, win);
}

static int win_flush(int p, int rank, handle win)
{
	return flush_of(p, FLUSH, rank, win);
}

static int win_flush_local(int p, int rank, handle win)
{
	return flush_of(p, FLUSH_LOCAL, rank, win);
}

static int win_flush_all(int p, handle win)
{
	if (is_flushed(win))
		return 0;
	no_messages(win);
	return SN_FUNCTION(&next[p][FLUSH_ALL]).of_all(win);
}

static int win_flush_local_all(int p, handle win)
{
	return is_flushed(win) ? 0 : SN_FUNCTION(&next[p][FLUSH_LOCAL_ALL]).of_all(win);
}

/* ---- where the MPI has no such function ---- */

int PMPI_Put(const void *from, int n, handle type, int rank, intptr_t at, int at_n, handle at_type,
	     handle win);
int PMPI_Get(void *to, int n, handle type, int rank, intptr_t at, int at_n, handle at_type, handle win);
int PMPI_Rput(const void *from, int n, handle type, int rank, intptr_t at, int at_n, handle at_type,
	      handle win, void *request);
int PMPI_Rget(void *to, int n, handle type, int rank, intptr_t at, int at_n, handle at_type, handle win,
	      void *request);
int PMPI_Accumulate(const void *from, int n, handle type, int rank, intptr_t at, int at_n, handle at_type,
		    handle op, handle win);
int PMPI_Raccumulate(const void *from, int n, handle type, int rank, intptr_t at, int at_n, handle at_type,
		     handle op, handle win, void *request);
int PMPI_Get_accumulate(const void *from, int n, handle type, void *to, int to_n, handle to_type, int rank,
			intptr_t at, int at_n, handle at_type, handle op, handle win);
int PMPI_Rget_accumulate(const void *from, int n, handle type, void *to, int to_n, handle to_type, int rank,
			 intptr_t at, int at_n, handle at_type, handle op, handle win, void *request);

/* What an int has no room for the MPI refuses. */
static int fit(int64_t n)
{
	return n == (int)n ? (int)n : -1;
}

static int put_without(const void *from, int64_t n, handle type, int rank, intptr_t at, int64_t at_n,
		       handle at_type, handle win)
{
	return PMPI_Put(from, fit(n), type, rank, at, fit(at_n), at_type, win);
}

static int get_without(void *to, int64_t n, handle type, int rank, intptr_t at, int64_t at_n, handle at_type,
		       handle win)
{
	return PMPI_Get(to, fit(n), type, rank, at, fit(at_n), at_type, win);
}

static int rput_without(const void *from, int64_t n, handle type, int rank, intptr_t at, int64_t at_n,
			handle at_type, handle win, void *request)
{
	return PMPI_Rput(from, fit(n), type, rank, at, fit(at_n), at_type, win, request);
}

static int rget_without(void *to, int64_t n, handle type, int rank, intptr_t at, int64_t at_n, handle at_type,
			handle win, void *request)
{
	return PMPI_Rget(to, fit(n), type, rank, at, fit(at_n), at_type, win, request);
}

static int accumulate_without(const void *from, int64_t n, handle type, int rank, intptr_t at, int64_t at_n,
			      handle at_type, handle op, handle win)
{
	return PMPI_Accumulate(from, fit(n), type, rank, at, fit(at_n), at_type, op, win);
}

static int raccumulate_without(const void *from, int64_t n, handle type, int rank, intptr_t at, int64_t at_n,
			       handle at_type, handle op, handle win, void *request)
{
	return PMPI_Raccumulate(from, fit(n), type, rank, at, fit(at_n), at_type, op, win, request);
}

static int get_accumulate_without(const void *from, int64_t n, handle type, void *to, int64_t to_n,
				  handle to_type, int rank, intptr_t at, int64_t at_n, handle at_type,
				  handle op, handle win)
{
	return PMPI_Get_accumulate(from, fit(n), type, to, fit(to_n), to_type, rank, at, fit(at_n), at_type,
				   op, win);
}

static int rget_accumulate_without(const void *from, int64_t n, handle type, void *to, int64_t to_n,
				   handle to_type, int rank, intptr_t at, int64_t at_n, handle at_type,
				   handle op, handle win, void *request)
{
	return PMPI_Rget_accumulate(from, fit(n), type, to, fit(to_n), to_type, rank, at, fit(at_n), at_type,
				    op, win, request);
}

/* ---- standing in ---- */

#define BOTH(call, parameters, arguments)                                                                    \
	static int call##_0 parameters                                                                       \
	{                                                                                                    \
		return call(0, arguments);                                                                   \
	}                                                                                                    \
	static int call##_1 parameters                                                                       \
	{                                                                                                    \
		return call(1, arguments);                                                                   \
	}
#define WITH(...) __VA_ARGS__
#define ALL(name, count_t)                                                                                   \
	BOTH(put##name,                                                                                      \
	     (const void *from, count_t n, handle type, int rank, intptr_t at, count_t at_n, handle at_type, \
	      handle win),                                                                                   \
	     WITH(from, n, type, rank, at, at_n, at_type, win))                                              \
	BOTH(get##name,                                                                                      \
	     (void *to, count_t n, handle type, int rank, intptr_t at, count_t at_n, handle at_type,         \
	      handle win),                                                                                   \
	     WITH(to, n, type, rank, at, at_n, at_type, win))                                                \
	BOTH(rput##name,                                                                                     \
	     (const void *from, count_t n, handle type, int rank, intptr_t at, count_t at_n, handle at_type, \
	      handle win, void *request),                                                                    \
	     WITH(from, n, type, rank, at, at_n, at_type, win, request))                                     \
	BOTH(rget##name,                                                                                     \
	     (void *to, count_t n, handle type, int rank, intptr_t at, count_t at_n, handle at_type,         \
	      handle win, void *request),                                                                    \
	     WITH(to, n, type, rank, at, at_n, at_type, win, request))                                       \
	BOTH(accumulate##name,                                                                               \
	     (const void *from, count_t n, handle type, int rank, intptr_t at, count_t at_n, handle at_type, \
	      handle op, handle win),                                                                        \
	     WITH(from, n, type, rank, at, at_n, at_type, op, win))                                          \
	BOTH(raccumulate##name,                                                                              \
	     (const void *from, count_t n, handle type, int rank, intptr_t at, count_t at_n, handle at_type, \
	      handle op, handle win, void *request),                                                         \
	     WITH(from, n, type, rank, at, at_n, at_type, op, win, request))                                 \
	BOTH(get_accumulate##name,                                                                           \
	     (const void *from, count_t n, handle type, void *to, count_t to_n, handle to_type, int rank,    \
	      intptr_t at, count_t at_n, handle at_type, handle op, handle win),                             \
	     WITH(from, n, type, to, to_n, to_type, rank, at, at_n, at_type, op, win))                       \
	BOTH(rget_accumulate##name,                                                                          \
	     (const void *from, count_t n, handle type, void *to, count_t to_n, handle to_type, int rank,    \
	      intptr_t at, count_t at_n, handle at_type, handle op, handle win, void *request),              \
	     WITH(from, n, type, to, to_n, to_type, rank, at, at_n, at_type, op, win, request))

ALL(, int)
ALL(_c, int64_t)
BOTH(fetch_and_op, (const void *from, void *to, handle type, int rank, intptr_t at, handle op, handle win),
     WITH(from, to, type, rank, at, op, win))
BOTH(compare_and_swap,
     (const void *from, const void *with, void *to, handle type, int rank, intptr_t at, handle win),
     WITH(from, with, to, type, rank, at, win))
BOTH(win_lock, (int how, int rank, int assert, handle win), WITH(how, rank, assert, win))
BOTH(win_lock_all, (int assert, handle win), WITH(assert, win))
BOTH(win_unlock, (int rank, handle win), WITH(rank, win))
BOTH(win_unlock_all, (handle win), WITH(win))
BOTH(win_flush, (int rank, handle win), WITH(rank, win))
BOTH(win_flush_local, (int rank, handle win), WITH(rank, win))
BOTH(win_flush_all, (handle win), WITH(win))
BOTH(win_flush_local_all, (handle win), WITH(win))

#define MEMBER(member, call)                                                                                 \
	{                                                                                                    \
		{.member = call##_0},                                                                        \
		{                                                                                            \
			.member = call##_1                                                                   \
		}                                                                                            \
	}

static const struct {
	const char *name;
	union function stand_in[2], without;
} calls[CALLS] = {
	[PUT] = {"MPI_Put", MEMBER(put, put), {NULL}},
	[PUT_C] = {"MPI_Put_c", MEMBER(put_c, put_c), {.put_c = put_without}},
	[GET] = {"MPI_Get", MEMBER(get, get), {NULL}},
	[GET_C] = {"MPI_Get_c", MEMBER(get_c, get_c), {.get_c = get_without}},
	[RPUT] = {"MPI_Rput", MEMBER(rput, rput), {NULL}},
	[RPUT_C] = {"MPI_Rput_c", MEMBER(rput_c, rput_c), {.rput_c = rput_without}},
	[RGET] = {"MPI_Rget", MEMBER(rget, rget), {NULL}},
	[RGET_C] = {"MPI_Rget_c", MEMBER(rget_c, rget_c), {.rget_c = rget_without}},
	[ACCUMULATE] = {"MPI_Accumulate", MEMBER(accumulate, accumulate), {NULL}},
	[ACCUMULATE_C] = {"MPI_Accumulate_c",
			  MEMBER(accumulate_c, accumulate_c),
			  {.accumulate_c = accumulate_without}},
	[RACCUMULATE] = {"MPI_Raccumulate", MEMBER(raccumulate, raccumulate), {NULL}},
	[RACCUMULATE_C] = {"MPI_Raccumulate_c",
			   MEMBER(raccumulate_c, raccumulate_c),
			   {.raccumulate_c = raccumulate_without}},
	[GET_ACCUMULATE] = {"MPI_Get_accumulate", MEMBER(get_accumulate, get_accumulate), {NULL}},
	[GET_ACCUMULATE_C] = {"MPI_Get_accumulate_c",
			      MEMBER(get_accumulate_c, get_accumulate_c),
			      {.get_accumulate_c = get_accumulate_without}},
	[RGET_ACCUMULATE] = {"MPI_Rget_accumulate", MEMBER(rget_accumulate, rget_accumulate), {NULL}},
	[RGET_ACCUMULATE_C] = {"MPI_Rget_accumulate_c",
			       MEMBER(rget_accumulate_c, rget_accumulate_c),
			       {.rget_accumulate_c = rget_accumulate_without}},
	[FETCH_AND_OP] = {"MPI_Fetch_and_op", MEMBER(fetch_and_op, fetch_and_op), {NULL}},
	[COMPARE_AND_SWAP] = {"MPI_Compare_and_swap", MEMBER(compare_and_swap, compare_and_swap), {NULL}},
	[LOCK] = {"MPI_Win_lock", MEMBER(lock, win_lock), {NULL}},
	[LOCK_ALL] = {"MPI_Win_lock_all", MEMBER(lock_all, win_lock_all), {NULL}},
	[UNLOCK] = {"MPI_Win_unlock", MEMBER(of_rank, win_unlock), {NULL}},
	[UNLOCK_ALL] = {"MPI_Win_unlock_all", MEMBER(of_all, win_unlock_all), {NULL}},
	[FLUSH] = {"MPI_Win_flush", MEMBER(of_rank, win_flush), {NULL}},
	[FLUSH_LOCAL] = {"MPI_Win_flush_local", MEMBER(of_rank, win_flush_local), {NULL}},
	[FLUSH_ALL] = {"MPI_Win_flush_all", MEMBER(of_all, win_flush_all), {NULL}},
	[FLUSH_LOCAL_ALL] = {"MPI_Win_flush_local_all", MEMBER(of_all, win_flush_local_all), {NULL}},
};

static int call_named(const char *name)
{
	int call = 0;
	while (call < CALLS && strcmp(calls[call].name, name) != 0)
		call++;
	return call;
}

bool sn_onesided_is(const char *name)
{
	return call_named(name + (*name == 'P')) < CALLS;
}

static bool found;

static void find(void)
{
	put_of_mpi.symbol = sn_mpi_find("PMPI_Put");
	found = sn_change_find() && put_of_mpi.symbol;
}

void *sn_onesided_stand_in(const char *name, void *definition)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int p = *name == 'P', call = call_named(name + p);
	if (!definition)
		return calls[call].without.symbol;
	pthread_once(&once, find);
	if (!found)
		return NULL;
	if (!p && sn_quick_is_tools(name, definition)) /* what that calls by the other name comes here */
		return NULL;
	SN_FUNCTION_IS(&next[p][call], definition);
	return calls[call].stand_in[p].symbol;
}
