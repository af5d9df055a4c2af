/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is moved to and from windows that all ranks share (node.h), by who asks for it, before the call returns. Types
 * without holes are copied, others packed and unpacked by the MPI.
 *
 * MPI_Accumulate and its like are atomic to each other, for each element: all go this way, whatever the types, under a
 * lock of the part that is changed. Operations are the MPI's (MPI_Reduce_local). Who has the lock writes the number of
 * its process there: that of one which has ended is taken over.
 *
 * A rank may load a GPU's library after the window is made: from then on the MPI packs and unpacks its buffers.
 *
 * Epochs are ours, too (epochs.c), so the MPI is called for nothing but what is wrong, or without an epoch: it knows
 * of none, and says so.
 */
#include "onesided.h"
#include "base/copy.h"
#include "collective.h"
#include "gpu.h"
#include <limits.h>
#include <pthread.h>
#include <string.h>

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
	int (*isend)(const void *buf, int n, handle type, int to, int tag, handle comm, void *request);
};
static union function next[2][CALLS]; /* without a P, and with it */
static union function isend;
static bool has_all(void);

/* ---- where ---- */

bool sn_window_may(void)
{
	return has_all() && !sn_gpu_is_here();
}

struct access sn_access_of(handle win, int rank, intptr_t at)
{
	struct access a = {.w = sn_window_known(win), .rank = rank};
	intptr_t begin;
	if (!a.w || !a.w->plain || rank < 0 || rank >= a.w->of.ranks || at < 0 ||
	    !(a.w->fenced || a.w->mine[rank].epoch))
		return a;
	const struct said *s = &a.w->of.all[rank];
	if (__builtin_mul_overflow(at, (intptr_t)s->b, &begin) || begin > s->a)
		return a;
	a.room = s->a - begin;
	a.at = a.w->mine[rank].at + begin;
	return a;
}

/* With a request that is complete, which is what the MPI gives for a message to nobody. */
static int completes(int rc, void *request)
{
	return rc ? rc
		  : isend.isend(NULL, 0, sn_mpi_handle(SN_BYTE), sn_mpi_nobody(), 0,
				sn_mpi_handle(SN_COMM_SELF), request);
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

struct move {
	struct access a;
	struct side mine, there;
	size_t bytes;
	bool plain; /* a copy, else packed */
	bool ours;
};

static bool is_move(const struct move *m)
{
	if (!m->a.at || m->mine.count < 0 || m->there.count < 0)
		return false;
	if (!m->mine.count && !m->there.count)
		return true;
	if (!m->bytes || m->bytes != sn_side_bytes(&m->there))
		return false;
	if (m->plain)
		return m->mine.buf && m->bytes <= (uint64_t)m->a.room;
	return m->mine.count <= INT_MAX && m->there.count <= INT_MAX && m->bytes <= INT_MAX;
}

static struct move move(const void *buf, int64_t n, handle type, int rank, intptr_t at, int64_t at_n,
			handle at_type, handle win)
{
	struct move m = {.a = sn_access_of(win, rank, at)};
	m.mine = sn_side_of(buf, n, type);
	m.there = sn_side_of(m.a.at, at_n, at_type);
	m.bytes = sn_side_bytes(&m.mine);
	m.plain = m.mine.t.plain && m.there.t.plain && !sn_gpu_is_here();
	if (!is_move(&m))
		m.a.at = NULL;
	m.ours = m.a.at || sn_access_is_nobodys(&m.a);
	return m;
}

static int do_put(const struct move *m)
{
	int rc = 0;
	if (!m->a.at || !m->bytes)
		return 0;
	if (m->plain)
		sn_side_copy(m->a.at, m->mine.buf, m->bytes);
	else
		rc = sn_side_repack(m->mine.buf, m->mine.count, m->mine.t.type, m->a.at, m->there.count,
				    m->there.t.type, m->bytes);
	atomic_thread_fence(memory_order_release);
	return rc;
}

static int do_get(const struct move *m)
{
	void *to = (void *)(uintptr_t)m->mine.buf;
	if (!m->a.at || !m->bytes)
		return 0;
	atomic_thread_fence(memory_order_acquire);
	if (!m->plain)
		return sn_side_repack(m->a.at, m->there.count, m->there.t.type, to, m->mine.count,
				      m->mine.t.type, m->bytes);
	sn_side_copy(to, m->a.at, m->bytes);
	return 0;
}

#define PUTS_AND_GETS(name, NAME, count_t)                                                                   \
	static int put##name(int p, const void *buf, count_t n, handle type, int rank, intptr_t at,          \
			     count_t at_n, handle at_type, handle win)                                       \
	{                                                                                                    \
		struct move x = move(buf, n, type, rank, at, at_n, at_type, win);                            \
		return x.ours ? do_put(&x)                                                                   \
			      : SN_FUNCTION(&next[p][PUT##NAME])                                             \
					.put##name(buf, n, type, rank, at, at_n, at_type, win);              \
	}                                                                                                    \
	static int rput##name(int p, const void *buf, count_t n, handle type, int rank, intptr_t at,         \
			      count_t at_n, handle at_type, handle win, void *request)                       \
	{                                                                                                    \
		struct move x = move(buf, n, type, rank, at, at_n, at_type, win);                            \
		return x.ours ? completes(do_put(&x), request)                                               \
			      : SN_FUNCTION(&next[p][RPUT##NAME])                                            \
					.rput##name(buf, n, type, rank, at, at_n, at_type, win, request);    \
	}                                                                                                    \
	static int get##name(int p, void *buf, count_t n, handle type, int rank, intptr_t at, count_t at_n,  \
			     handle at_type, handle win)                                                     \
	{                                                                                                    \
		struct move x = move(buf, n, type, rank, at, at_n, at_type, win);                            \
		return x.ours ? do_get(&x)                                                                   \
			      : SN_FUNCTION(&next[p][GET##NAME])                                             \
					.get##name(buf, n, type, rank, at, at_n, at_type, win);              \
	}                                                                                                    \
	static int rget##name(int p, void *buf, count_t n, handle type, int rank, intptr_t at, count_t at_n, \
			      handle at_type, handle win, void *request)                                     \
	{                                                                                                    \
		struct move x = move(buf, n, type, rank, at, at_n, at_type, win);                            \
		return x.ours ? completes(do_get(&x), request)                                               \
			      : SN_FUNCTION(&next[p][RGET##NAME])                                            \
					.rget##name(buf, n, type, rank, at, at_n, at_type, win, request);    \
	}

PUTS_AND_GETS(, , int)
PUTS_AND_GETS(_c, _C, int64_t)

/* ---- MPI_Accumulate and its like ---- */

#define ACCUMULATES(name, NAME, count_t)                                                                     \
	static int accumulate##name(int p, const void *from, count_t n, handle type, int rank, intptr_t at,  \
				    count_t at_n, handle at_type, handle op, handle win)                     \
	{                                                                                                    \
		struct change x = sn_change_of(from, n, type, rank, at, at_n, at_type, op, win);             \
		sn_change_begin(&x);                                                                         \
		return x.ours ? sn_change_do(&x)                                                             \
			      : SN_FUNCTION(&next[p][ACCUMULATE##NAME])                                      \
					.accumulate##name(from, n, type, rank, at, at_n, at_type, op, win);  \
	}                                                                                                    \
	static int raccumulate##name(int p, const void *from, count_t n, handle type, int rank, intptr_t at, \
				     count_t at_n, handle at_type, handle op, handle win, void *request)     \
	{                                                                                                    \
		struct change x = sn_change_of(from, n, type, rank, at, at_n, at_type, op, win);             \
		sn_change_begin(&x);                                                                         \
		return x.ours ? completes(sn_change_do(&x), request)                                         \
			      : SN_FUNCTION(&next[p][RACCUMULATE##NAME])                                     \
					.raccumulate##name(from, n, type, rank, at, at_n, at_type, op, win,  \
							   request);                                         \
	}                                                                                                    \
	static int get_accumulate##name(int p, const void *from, count_t n, handle type, void *to,           \
					count_t to_n, handle to_type, int rank, intptr_t at, count_t at_n,   \
					handle at_type, handle op, handle win)                               \
	{                                                                                                    \
		struct change x = sn_change_and_get(                                                         \
			sn_change_of(from, n, type, rank, at, at_n, at_type, op, win), to, to_n, to_type);   \
		return x.ours ? sn_change_do(&x)                                                             \
			      : SN_FUNCTION(&next[p][GET_ACCUMULATE##NAME])                                  \
					.get_accumulate##name(from, n, type, to, to_n, to_type, rank, at,    \
							      at_n, at_type, op, win);                       \
	}                                                                                                    \
	static int rget_accumulate##name(int p, const void *from, count_t n, handle type, void *to,          \
					 count_t to_n, handle to_type, int rank, intptr_t at, count_t at_n,  \
					 handle at_type, handle op, handle win, void *request)               \
	{                                                                                                    \
		struct change x = sn_change_and_get(                                                         \
			sn_change_of(from, n, type, rank, at, at_n, at_type, op, win), to, to_n, to_type);   \
		return x.ours ? completes(sn_change_do(&x), request)                                         \
			      : SN_FUNCTION(&next[p][RGET_ACCUMULATE##NAME])                                 \
					.rget_accumulate##name(from, n, type, to, to_n, to_type, rank, at,   \
							       at_n, at_type, op, win, request);             \
	}

ACCUMULATES(, , int)
ACCUMULATES(_c, _C, int64_t)

static int fetch_and_op(int p, const void *from, void *to, handle type, int rank, intptr_t at, handle op,
			handle win)
{
	struct change x =
		sn_change_and_get(sn_change_of(from, 1, type, rank, at, 1, type, op, win), to, 1, type);
	return x.ours ? sn_change_do(&x)
		      : SN_FUNCTION(&next[p][FETCH_AND_OP]).fetch_and_op(from, to, type, rank, at, op, win);
}

static int compare_and_swap(int p, const void *from, const void *with, void *to, handle type, int rank,
			    intptr_t at, handle win)
{
	struct access a = sn_access_of(win, rank, at);
	struct sn_meet_type t = sn_side_of(from, 1, type).t;
	if (sn_access_is_nobodys(&a))
		return 0;
	if (!sn_change_may_swap(&a, &t))
		return SN_FUNCTION(&next[p][COMPARE_AND_SWAP])
			.compare_and_swap(from, with, to, type, rank, at, win);
	return sn_change_swap(&a, &t, from, with, to);
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

#define ALL(name, count_t)                                                                                   \
	SN_BY_BOTH_NAMES(put##name,                                                                          \
			 (const void *from, count_t n, handle type, int rank, intptr_t at, count_t at_n,     \
			  handle at_type, handle win),                                                       \
			 SN_WITH(from, n, type, rank, at, at_n, at_type, win))                               \
	SN_BY_BOTH_NAMES(get##name,                                                                          \
			 (void *to, count_t n, handle type, int rank, intptr_t at, count_t at_n,             \
			  handle at_type, handle win),                                                       \
			 SN_WITH(to, n, type, rank, at, at_n, at_type, win))                                 \
	SN_BY_BOTH_NAMES(rput##name,                                                                         \
			 (const void *from, count_t n, handle type, int rank, intptr_t at, count_t at_n,     \
			  handle at_type, handle win, void *request),                                        \
			 SN_WITH(from, n, type, rank, at, at_n, at_type, win, request))                      \
	SN_BY_BOTH_NAMES(rget##name,                                                                         \
			 (void *to, count_t n, handle type, int rank, intptr_t at, count_t at_n,             \
			  handle at_type, handle win, void *request),                                        \
			 SN_WITH(to, n, type, rank, at, at_n, at_type, win, request))                        \
	SN_BY_BOTH_NAMES(accumulate##name,                                                                   \
			 (const void *from, count_t n, handle type, int rank, intptr_t at, count_t at_n,     \
			  handle at_type, handle op, handle win),                                            \
			 SN_WITH(from, n, type, rank, at, at_n, at_type, op, win))                           \
	SN_BY_BOTH_NAMES(raccumulate##name,                                                                  \
			 (const void *from, count_t n, handle type, int rank, intptr_t at, count_t at_n,     \
			  handle at_type, handle op, handle win, void *request),                             \
			 SN_WITH(from, n, type, rank, at, at_n, at_type, op, win, request))                  \
	SN_BY_BOTH_NAMES(get_accumulate##name,                                                               \
			 (const void *from, count_t n, handle type, void *to, count_t to_n, handle to_type,  \
			  int rank, intptr_t at, count_t at_n, handle at_type, handle op, handle win),       \
			 SN_WITH(from, n, type, to, to_n, to_type, rank, at, at_n, at_type, op, win))        \
	SN_BY_BOTH_NAMES(                                                                                    \
		rget_accumulate##name,                                                                       \
		(const void *from, count_t n, handle type, void *to, count_t to_n, handle to_type, int rank, \
		 intptr_t at, count_t at_n, handle at_type, handle op, handle win, void *request),           \
		SN_WITH(from, n, type, to, to_n, to_type, rank, at, at_n, at_type, op, win, request))

ALL(, int)
ALL(_c, int64_t)
SN_BY_BOTH_NAMES(fetch_and_op,
		 (const void *from, void *to, handle type, int rank, intptr_t at, handle op, handle win),
		 SN_WITH(from, to, type, rank, at, op, win))
SN_BY_BOTH_NAMES(compare_and_swap,
		 (const void *from, const void *with, void *to, handle type, int rank, intptr_t at,
		  handle win),
		 SN_WITH(from, with, to, type, rank, at, win))
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
};

static int call_named(const char *name)
{
	return sn_quick_named(calls, sizeof(*calls), CALLS, name);
}

bool sn_onesided_is(const char *name)
{
	return call_named(name) < CALLS;
}

static bool found;

static void find(void)
{
	isend.symbol = sn_mpi_find("PMPI_Isend");
	found = sn_change_find() && isend.symbol;
}

static bool has_all(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
	return found;
}

void *sn_onesided_stand_in(const char *name, void *definition)
{
	int p = *name == 'P', call = call_named(name);
	if (!definition)
		return calls[call].without.symbol;
	if (!has_all())
		return NULL;
	if (!p && sn_quick_is_tools(name, definition)) /* what that calls by the other name comes here */
		return NULL;
	SN_FUNCTION_IS(&next[p][call], definition);
	return calls[call].stand_in[p].symbol;
}
