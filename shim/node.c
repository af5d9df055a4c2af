/* SPDX-License-Identifier: BSD-3-Clause */
#include "node.h"
#include "meet.h"
#include "proof.h"
#include "quick.h"
#include "shared.h"
#include "window.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME   "sennit-window"
#define NOBODY SN_SHARED_NOBODY

enum {
	SPLIT_TYPE,
	ALLOCATE,
	ALLOCATE_C,
	ALLOCATE_APART,
	ALLOCATE_APART_C,
	QUERY,
	QUERY_C,
	GET_ATTR,
	WIN_FREE,
	CALLS
};

union function {
	void *symbol;
	int (*split_type)(handle comm, int type, int key, handle info, void *made);
	int (*allocate)(intptr_t size, int unit, handle info, handle comm, void *base, void *win);
	int (*allocate_c)(intptr_t size, intptr_t unit, handle info, handle comm, void *base, void *win);
	int (*query)(handle win, int rank, intptr_t *size, int *unit, void *base);
	int (*query_c)(handle win, int rank, intptr_t *size, intptr_t *unit, void *base);
	int (*get_attr)(handle win, int key, void *value, int *flag);
	int (*win_free)(void *win);
	int (*split)(handle comm, int color, int key, void *made);
	int (*allgather)(const void *out, int count, handle type, void *in, int in_count, handle in_type,
			 handle comm);
	int (*info_get)(handle info, const char *key, int room, char *value, int *flag);
	int (*create)(void *base, intptr_t size, int unit, handle info, handle comm, void *win);
};
static union function next[2][CALLS]; /* without a P, and with it */
static union function split, allgather, create, info_get;
static uint64_t host; /* this one's number */
static bool ours, splits;

static bool has_value(const char *name, const char *value)
{
	const char *is = getenv(name);
	return is && strcmp(is, value) == 0;
}

static void find(void)
{
	sn_mpi_find_family();
	splits = !sn_mpi_is_intels();
	if (sn_mpi_family != MPICH ||
	    !(splits ? has_value("MPIR_CVAR_NOLOCAL", "1") : has_value("I_MPI_FABRICS", "ofi")))
		return;
	split.symbol = sn_mpi_find("PMPI_Comm_split");
	allgather.symbol = sn_mpi_find("PMPI_Allgather");
	create.symbol = sn_mpi_find("PMPI_Win_create");
	info_get.symbol = sn_mpi_find("PMPI_Info_get"); /* the ABI of MPI 5 may do without */
	ours = sn_proof_find() && split.symbol && allgather.symbol && create.symbol;
	host = ours ? sn_shared_host() : NOBODY;
}

/* ---- what the ranks tell each other ---- */

/* Is it one group, and none that the MPI would have to refuse? */
static bool is_group(handle comm)
{
	int inter = 1;
	handle none = sn_mpi_handle(SN_COMM_NULL);
	bool null = sn_mpi_wide() ? comm == none : (uint32_t)comm == none;
	return !null && !sn_proof_mpi.comm_test_inter(comm, &inter) && !inter;
}

static struct told tell(handle comm, struct said mine)
{
	struct told t = {0};
	handle byte = sn_mpi_handle(SN_BYTE);
	if (!is_group(comm) || sn_proof_mpi.comm_size(comm, &t.ranks) ||
	    sn_proof_mpi.comm_rank(comm, &t.rank))
		return t;
	t.all = calloc((size_t)t.ranks, sizeof(*t.all));
	if (!t.all) {
		sn_proof_failed(comm);
		return t;
	}
	int len = (int)sizeof(mine);
	if (allgather.allgather(&mine, len, byte, t.all, len, byte, comm)) {
		free(t.all);
		t.all = NULL;
	}
	return t;
}

/* ---- MPI_Comm_split_type ---- */

static int type_shared(void) /* MPI_COMM_TYPE_SHARED */
{
	return sn_mpi_abi == STANDARD ? 221 : 1;
}

/* The first rank of those that share with this one; UNDEFINED: it takes no part; -1: that is another kind of call. */
static int color_of(const struct told *t)
{
	const struct said *mine = &t->all[t->rank];
	int first = -1, shared = 0;
	for (int r = 0; r < t->ranks; r++) {
		const struct said *s = &t->all[r];
		bool is_shared = s->a == type_shared();
		if (!is_shared && s->a != UNDEFINED)
			return -1;
		shared += is_shared;
		if (first < 0 && is_shared && (r == t->rank || (s->host == mine->host && s->host != NOBODY)))
			first = r;
	}
	if (!shared)
		return -1;
	return mine->a == UNDEFINED ? UNDEFINED : first;
}

static int split_type(int p, handle comm, int type, int key, handle info, void *made)
{
	struct told t = tell(comm, (struct said){.host = host, .a = type});
	int color = t.all ? color_of(&t) : -1;
	free(t.all);
	return color == -1 ? SN_FUNCTION(&next[p][SPLIT_TYPE]).split_type(comm, type, key, info, made)
			   : split.split(comm, color, key, made);
}

/* ---- the memory of a window ---- */

static struct window *windows;
static _Atomic unsigned freed = 1; /* windows, so far */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* All have it, or none: NULL. */
static char *share(handle comm, bool first, size_t bytes)
{
	struct sn_shared_place at = {.fd = -1}, said;
	char *mem = first ? sn_shared_make(NAME, bytes, &at) : NULL;
	bool all = false;
	said = at;
	if (!sn_proof_mpi.bcast(&said, sizeof(said) / sizeof(int), sn_mpi_handle(SN_INT), 0, comm)) {
		if (!first)
			mem = sn_shared_attach(NAME, bytes, &said);
		all = sn_meet_all(mem != NULL, comm);
	}
	if (at.fd >= 0)
		close(at.fd);
	if (mem && !all)
		munmap(mem, bytes);
	return all ? mem : NULL;
}

/*
 * Parts need not lie one right behind the other: then each has its own pages, as in MPICH, so that it can be used for
 * any type, and its rank's part of the machine.
 */
static bool says(handle info, const char *key, const char *what, const char *short_what)
{
	char value[8] = "";
	int flag = 0;
	return sn_mpi_plain(info) != sn_mpi_handle(SN_INFO_NULL) && info_get.symbol &&
	       !info_get.info_get(info, key, sizeof(value) - 1, value, &flag) && flag &&
	       (!strcmp(value, what) || !strcmp(value, short_what));
}

static int64_t room_for(intptr_t size, handle info, bool shared)
{
	int64_t page = sysconf(_SC_PAGESIZE);
	bool apart = !shared || says(info, "alloc_shared_noncontig", "true", "1");
	return apart && size <= INT64_MAX - page ? (size + page - 1) / page * page : size;
}

/* One behind the other, and then, at *behind, what is epochs.c's; 0: not all of them share, or there is no memory that long. */
static size_t room_of(const struct told *t, size_t *behind)
{
	const size_t line = sizeof(struct sn_window_part), ranks = (size_t)t->ranks;
	size_t bytes = line - 1;
	for (int r = 0; r < t->ranks; r++) {
		const struct said *s = &t->all[r];
		if (s->host == NOBODY || s->host != t->all[0].host ||
		    __builtin_add_overflow(bytes, (size_t)s->room, &bytes) || bytes > PTRDIFF_MAX / 2)
			return 0;
	}
	*behind = bytes / line * line;
	return *behind + (ranks + 1) * line + ranks * ranks * sizeof(uint32_t);
}

/* ---- the window ---- */

/* take: it is none any more. */
static struct window *window_of(handle win, bool take)
{
	handle name = sn_mpi_plain(win);
	pthread_mutex_lock(&lock);
	struct window **at = &windows, *w;
	while ((w = *at) && w->win != name)
		at = &w->next;
	if (w && take)
		*at = w->next;
	pthread_mutex_unlock(&lock);
	return w;
}

/* Until one is freed. What is looked up, and then freed by another thread, is the program's fault. */
struct window *sn_window_known(handle win)
{
	static _Thread_local struct {
		struct window *window;
		handle win;
		unsigned freed;
	} last __attribute__((tls_model("initial-exec")));
	unsigned now = atomic_load_explicit(&freed, memory_order_relaxed);
	if (!likely(last.win == win && last.freed == now)) {
		last.window = window_of(win, false);
		last.win = win;
		last.freed = now;
	}
	return last.window;
}

static void keep(struct window *w)
{
	pthread_mutex_lock(&lock);
	w->next = windows;
	windows = w;
	pthread_mutex_unlock(&lock);
}

static void drop(struct window *w)
{
	if (w->mem)
		munmap(w->mem, w->bytes);
	free(w->of.all);
	free(w);
}

static int begin(struct window *w, handle info, handle comm, void *base, void *win)
{
	const struct said *mine = &w->of.all[w->of.rank];
	if (!w->mem)
		return sn_proof_failed(comm);
	char *at = w->mine[w->of.rank].at;
	int rc = create.create(at, (intptr_t)mine->a, (int)mine->b, info, comm, win);
	if (rc)
		return rc;
	*(char **)base = at;
	w->win = sn_mpi_nth(win, 0);
	return 0;
}

static void lay_out(struct window *w, size_t at)
{
	w->parts = (void *)(w->mem + at);
	w->fence = (void *)(w->parts + w->of.ranks);
	w->posted = (void *)(w->fence + 1);
	char *part = w->mem;
	for (int r = 0; r < w->of.ranks; part += w->of.all[r++].room)
		w->mine[r].at = part;
}

/*
 * False: the MPI has to; also of MPI_Win_allocate where a rank may not have all parts (ulimit -v, -f): all know that, and none
 * needs more than its own.
 */
static bool allocate(int p, bool shared, intptr_t size, intptr_t unit, handle info, handle comm, void *base,
		     void *win, int *rc)
{
	bool well = size >= 0 && unit > 0 && unit <= INT_MAX && base && win &&
		    (shared || !says(info, "alloc_shm", "false", "0"));
	struct told t = tell(comm, (struct said){well ? host : NOBODY, size, unit,
						 well ? room_for(size, info, shared) : 0, sn_window_may()});
	size_t at = 0, bytes = t.all && t.ranks > 1 ? room_of(&t, &at) : 0;
	struct window *w = bytes ? calloc(1, sizeof(*w) + (size_t)t.ranks * sizeof(*w->mine)) : NULL;
	if (!w) {
		free(t.all);
		*rc = bytes ? sn_proof_failed(comm) : 0;
		return bytes;
	}
	w->bytes = bytes;
	w->pid = (uint32_t)getpid();
	w->of = t;
	w->shared = shared;
	w->plain = true;
	for (int r = 0; r < t.ranks; r++)
		w->plain &= t.all[r].plain;
	w->mem = share(comm, !t.rank, bytes);
	if (w->mem)
		lay_out(w, at);
	if (!w->mem && !shared) {
		drop(w);
		return false;
	}
	*rc = begin(w, info, comm, base, win);
	if (*rc) {
		drop(w);
		return true;
	}
	keep(w);
	if (w->plain)
		sn_elsewhere_not_made(p);
	return true;
}

#define ALLOCATES(name, call, shared)                                                                        \
	static int name(int p, intptr_t size, int unit, handle info, handle comm, void *base, void *win)     \
	{                                                                                                    \
		int rc;                                                                                      \
		if (allocate(p, shared, size, unit, info, comm, base, win, &rc))                             \
			return rc;                                                                           \
		return SN_FUNCTION(&next[p][call]).allocate(size, unit, info, comm, base, win);              \
	}                                                                                                    \
	static int name##_c(int p, intptr_t size, intptr_t unit, handle info, handle comm, void *base,       \
			    void *win)                                                                       \
	{                                                                                                    \
		int rc;                                                                                      \
		if (allocate(p, shared, size, unit, info, comm, base, win, &rc))                             \
			return rc;                                                                           \
		return SN_FUNCTION(&next[p][call##_C]).allocate_c(size, unit, info, comm, base, win);        \
	}

ALLOCATES(win_allocate, ALLOCATE, true)
ALLOCATES(win_allocate_apart, ALLOCATE_APART, false)

/* MPI_PROC_NULL: the first that has a part at all. False: it is none of ours, or no rank of it. */
static bool query(handle win, int rank, intptr_t *size, intptr_t *unit, void *base)
{
	const struct window *w = window_of(win, false);
	bool any = rank == sn_mpi_nobody();
	if (!w || (!any && (rank < 0 || rank >= w->of.ranks)))
		return false;
	if (any) {
		rank = 0;
		while (rank < w->of.ranks && !w->of.all[rank].a)
			rank++;
	}
	bool none = rank == w->of.ranks || !w->of.all[rank].a; /* MPICH's tests want NULL of a part of 0 */
	*size = none ? 0 : (intptr_t)w->of.all[rank].a;
	*unit = rank == w->of.ranks ? 0 : (intptr_t)w->of.all[rank].b;
	*(char **)base = none ? NULL : w->mine[rank].at;
	return true;
}

static int win_query(int p, handle win, int rank, intptr_t *size, int *unit, void *base)
{
	intptr_t wide;
	if (!query(win, rank, size, &wide, base))
		return SN_FUNCTION(&next[p][QUERY]).query(win, rank, size, unit, base);
	*unit = (int)wide;
	return 0;
}

static int win_query_c(int p, handle win, int rank, intptr_t *size, intptr_t *unit, void *base)
{
	return query(win, rank, size, unit, base)
		       ? 0
		       : SN_FUNCTION(&next[p][QUERY_C]).query_c(win, rank, size, unit, base);
}

static int get_attr(int p, handle win, int key, void *value, int *flag)
{
	static int flavors[2]; /* MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED */
	bool standard = sn_mpi_abi == STANDARD;
	int rc = SN_FUNCTION(&next[p][GET_ATTR]).get_attr(win, key, value, flag);
	bool flavor = !rc && *flag && key == (standard ? 604 : 0x66000007);
	const struct window *w = flavor ? window_of(win, false) : NULL;
	if (w) {
		flavors[0] = standard ? 312 : 2;
		flavors[1] = standard ? 314 : 4;
		*(int **)value = &flavors[w->shared];
	}
	return rc;
}

/* Its name may be another's before this returns. */
static int win_free(int p, void *win)
{
	struct window *w = win ? window_of(sn_mpi_nth(win, 0), false) : NULL;
	int rc = 0;
	if (w && w->plain)
		sn_elsewhere_not_freed(p);
	if (w && !sn_epochs_are_over(w, &rc))
		return rc;
	if (w)
		window_of(w->win, true);
	atomic_fetch_add(&freed, 1);
	rc = SN_FUNCTION(&next[p][WIN_FREE]).win_free(win);
	if (w && rc)
		keep(w);
	else if (w)
		drop(w);
	return rc;
}

/* ---- where the MPI has no such function ---- */

int PMPI_Win_allocate_shared(intptr_t size, int unit, handle info, handle comm, void *base, void *win);
int PMPI_Win_allocate(intptr_t size, int unit, handle info, handle comm, void *base, void *win);
int PMPI_Win_shared_query(handle win, int rank, intptr_t *size, int *unit, void *base);

/* A unit that an int has no room for is one that the MPI refuses. */
static int allocate_without(intptr_t size, intptr_t unit, handle info, handle comm, void *base, void *win)
{
	return PMPI_Win_allocate_shared(size, unit == (int)unit ? (int)unit : -1, info, comm, base, win);
}

static int allocate_apart_without(intptr_t size, intptr_t unit, handle info, handle comm, void *base,
				  void *win)
{
	return PMPI_Win_allocate(size, unit == (int)unit ? (int)unit : -1, info, comm, base, win);
}

static int query_without(handle win, int rank, intptr_t *size, intptr_t *unit, void *base)
{
	int narrow = 0, rc = PMPI_Win_shared_query(win, rank, size, &narrow, base);
	*unit = narrow;
	return rc;
}

/* ---- standing in ---- */

SN_BY_BOTH_NAMES(split_type, (handle comm, int type, int key, handle info, void *made),
		 SN_WITH(comm, type, key, info, made))
SN_BY_BOTH_NAMES(win_allocate, (intptr_t size, int unit, handle info, handle comm, void *base, void *win),
		 SN_WITH(size, unit, info, comm, base, win))
SN_BY_BOTH_NAMES(win_allocate_c,
		 (intptr_t size, intptr_t unit, handle info, handle comm, void *base, void *win),
		 SN_WITH(size, unit, info, comm, base, win))
SN_BY_BOTH_NAMES(win_allocate_apart,
		 (intptr_t size, int unit, handle info, handle comm, void *base, void *win),
		 SN_WITH(size, unit, info, comm, base, win))
SN_BY_BOTH_NAMES(win_allocate_apart_c,
		 (intptr_t size, intptr_t unit, handle info, handle comm, void *base, void *win),
		 SN_WITH(size, unit, info, comm, base, win))
SN_BY_BOTH_NAMES(win_query, (handle win, int rank, intptr_t *size, int *unit, void *base),
		 SN_WITH(win, rank, size, unit, base))
SN_BY_BOTH_NAMES(win_query_c, (handle win, int rank, intptr_t *size, intptr_t *unit, void *base),
		 SN_WITH(win, rank, size, unit, base))
SN_BY_BOTH_NAMES(get_attr, (handle win, int key, void *value, int *flag), SN_WITH(win, key, value, flag))
SN_BY_BOTH_NAMES(win_free, (void *win), SN_WITH(win))

static bool has_ours(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
	return ours;
}

void *sn_node_stand_in(const char *name, void *definition)
{
	static const struct {
		const char *name;
		union function stand_in[2];
	} calls[CALLS] = {
		[SPLIT_TYPE] = {"MPI_Comm_split_type",
				{{.split_type = split_type_0}, {.split_type = split_type_1}}},
		[ALLOCATE] = {"MPI_Win_allocate_shared",
			      {{.allocate = win_allocate_0}, {.allocate = win_allocate_1}}},
		[ALLOCATE_C] = {"MPI_Win_allocate_shared_c",
				{{.allocate_c = win_allocate_c_0}, {.allocate_c = win_allocate_c_1}}},
		[ALLOCATE_APART] = {"MPI_Win_allocate",
				    {{.allocate = win_allocate_apart_0}, {.allocate = win_allocate_apart_1}}},
		[ALLOCATE_APART_C] = {"MPI_Win_allocate_c",
				      {{.allocate_c = win_allocate_apart_c_0},
				       {.allocate_c = win_allocate_apart_c_1}}},
		[QUERY] = {"MPI_Win_shared_query", {{.query = win_query_0}, {.query = win_query_1}}},
		[QUERY_C] = {"MPI_Win_shared_query_c",
			     {{.query_c = win_query_c_0}, {.query_c = win_query_c_1}}},
		[GET_ATTR] = {"MPI_Win_get_attr", {{.get_attr = get_attr_0}, {.get_attr = get_attr_1}}},
		[WIN_FREE] = {"MPI_Win_free", {{.win_free = win_free_0}, {.win_free = win_free_1}}},
	};
	static const union function without[CALLS] = {
		[ALLOCATE_C] = {.allocate_c = allocate_without},
		[ALLOCATE_APART_C] = {.allocate_c = allocate_apart_without},
		[QUERY_C] = {.query_c = query_without}};
	int p = *name == 'P', call = sn_quick_named(calls, sizeof(*calls), CALLS, name);
	if (call == CALLS && sn_onesided_is(name))
		return !definition || has_ours() ? sn_onesided_stand_in(name, definition) : NULL;
	if (call == CALLS)
		return sn_epochs_are(name) && definition && has_ours() ? sn_epochs_stand_in(name, definition)
								       : NULL;
	if (!definition)
		return without[call].symbol;
	if (!has_ours() || (call == SPLIT_TYPE && !splits))
		return NULL;
	if (!p && sn_quick_is_tools(name, definition)) /* what that calls by the other name comes here */
		return NULL;
	SN_FUNCTION_IS(&next[p][call], definition);
	return calls[call].stand_in[p].symbol;
}
