/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective.h"
#include "base/launched.h"
#include "quick.h"
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES	  64
#define STEPS	  32   /* messages of a call */
#define ROOM	  4096 /* bytes of a message */
#define WATCHES	  2    /* that led to the same, before one goes without the MPI */
#define NOT_BEGUN (-1)

typedef int (*barrier_fn)(handle comm);
typedef int (*bcast_fn)(void *buf, int count, handle type, int root, handle comm);
typedef int (*allreduce_fn)(const void *out, void *in, int count, handle type, handle op, handle comm);

union function {
	void *symbol;
	barrier_fn barrier;
	bcast_fn bcast;
	allreduce_fn allreduce;
	int (*reduce_local)(const void *in, void *inout, int count, handle type, handle op);
	int (*iprobe)(int source, int tag, handle comm, int *flag, void *status);
	int (*call_errhandler)(handle comm, int code);
	int (*asks)(handle of, int *answer);
	int (*asks_extent)(handle type, intptr_t *low, intptr_t *extent);
};

enum { BARRIER, BCAST, ALLREDUCE, KINDS };

/* The MPI's, or a tool's: without a P, and with it. */
static union function next[2][KINDS];
/* The MPI's, found when it is asked for the first time whether anything can go without it: to look for a name takes longer than a call. */
static union function reduce_local, iprobe, call_errhandler, comm_rank, comm_size, comm_test_inter, type_size,
	type_get_extent;

struct call {
	handle comm, type, op;
	uintptr_t from, to; /* regions */
	int kind, count, root;
	unsigned generation;
};

struct step {
	struct sn_shim_way way;
	bool recvs;
};

struct entry {
	struct call call; /* seen, in this generation */
	bool known;	  /* the steps are what it leads to */
	int alike;	  /* calls watched in a row that have led to these */
	int turn; /* above 0: calls until one is the MPI's, and watched; below: calls that are not even watched */
	int fails;
	int rank;
	unsigned steps;
	struct step step[STEPS];
};

static struct entry entries[ENTRIES];
static unsigned generation = 1;

static inline struct entry *entry_of(const struct call *c)
{
	uintptr_t hash = (unsigned)c->root * 5 + (unsigned)c->kind * 17 + c->to * 3 + c->from +
			 (unsigned)c->count + (c->comm >> 5) + (c->type ^ c->type >> 5) * 7 +
			 (c->op ^ c->op >> 5) * 11;
	return &entries[hash % ENTRIES];
}

static inline bool same(const struct call *a, const struct call *b)
{
	return a->kind == b->kind && a->comm == b->comm && a->count == b->count && a->root == b->root &&
	       a->type == b->type && a->op == b->op && a->from == b->from && a->to == b->to &&
	       a->generation == b->generation;
}

/* ---- doing it again ---- */

/* May this call go without the MPI? */
static inline const struct sn_shim_quick *quick(struct entry *e, const struct call *c)
{
	if (!likely(e->known && same(&e->call, c) && e->turn > 0))
		return NULL;
	e->turn--;
	return sn_quick();
}

static handle waits_in;

static void meanwhile(void)
{
	bool open_mpi = sn_quick_is_open_mpi();
	int any = open_mpi ? -1 : -2, flag;
	iprobe.iprobe(any, -1, waits_in, &flag, (void *)(uintptr_t)!open_mpi);
}

/* MPI_ERR_OTHER: the provider's word for it has been said on standard error. */
static __attribute__((noinline)) int failed(handle comm)
{
	int code = sn_quick_is_open_mpi() ? 16 : 15;
	call_errhandler.call_errhandler(comm, code);
	return code;
}

static __attribute__((noinline)) int send_late(const struct sn_shim_quick *q, const struct entry *e,
					       const struct step *s, const void *buf)
{
	if (s == e->step)
		return NOT_BEGUN;
	return q->send_surely(&s->way, buf) < 0 ? failed(e->call.comm) : 0;
}

static __attribute__((noinline)) int recv_late(const struct sn_shim_quick *q, const struct entry *e,
					       const struct step *s, void *buf)
{
	if (s == e->step)
		return NOT_BEGUN;
	waits_in = e->call.comm;
	return q->recv_surely(&s->way, buf, meanwhile) < 0 ? failed(e->call.comm) : 0;
}

static inline int do_step(const struct sn_shim_quick *q, const struct entry *e, const struct step *s,
			  void *buf)
{
	if (s->recvs)
		return likely(q->recv(&s->way, buf) >= 0) ? 0 : recv_late(q, e, s, buf);
	return likely(q->send(&s->way, buf)) ? 0 : send_late(q, e, s, buf);
}

/* 0, an error of the MPI's, or NOT_BEGUN. */
static inline int move(const struct sn_shim_quick *q, const struct entry *e, void *buf)
{
	int rc = 0;
	for (const struct step *s = e->step; !rc && s < e->step + e->steps; s++)
		rc = do_step(q, e, s, buf);
	return rc;
}

/*
 * sum and what came, in the order of recursive doubling, step by step with the rank whose number differs in that bit: Open MPI
 * takes the lower rank's first, MPICH and Intel MPI what came.
 */
static inline void combine(const struct call *c, int rank, unsigned step, void *sum, void *came, size_t len)
{
	if (sn_quick_is_open_mpi() && !(rank >> step & 1)) {
		reduce_local.reduce_local(sum, came, c->count, c->type, c->op);
		memcpy(sum, came, len);
	} else {
		reduce_local.reduce_local(came, sum, c->count, c->type, c->op);
	}
}

static inline bool in_place(const void *from)
{
	return (uintptr_t)from == (sn_quick_is_open_mpi() ? 1 : UINTPTR_MAX);
}

/* Likewise. A pair of steps is a message out and one in. */
static inline int reduce(const struct sn_shim_quick *q, const struct entry *e, const void *from, void *to)
{
	static char came[ROOM];
	size_t len = e->step->way.len;
	int rc = 0;
	if (!in_place(from))
		memcpy(to, from, len);
	for (unsigned k = 0; 2 * k < e->steps; k++) {
		if ((rc = do_step(q, e, &e->step[2 * k], to)) ||
		    (rc = do_step(q, e, &e->step[2 * k + 1], came)))
			break;
		combine(&e->call, e->rank, k, to, came, len);
	}
	return rc;
}

/* ---- watching ---- */

/* Not on the stack (quick.c). */
static struct sn_shim_step seen[STEPS];
static struct sn_shim_lesson lesson;
static char messages[STEPS * ROOM];

static bool find(union function *f, const char *name)
{
	f->symbol = sn_mpi_find(name);
	return f->symbol != NULL;
}

static bool find_all(void)
{
	return find(&reduce_local, "PMPI_Reduce_local") && find(&iprobe, "PMPI_Iprobe") &&
	       find(&call_errhandler, "PMPI_Comm_call_errhandler") && find(&comm_rank, "PMPI_Comm_rank") &&
	       find(&comm_size, "PMPI_Comm_size") && find(&comm_test_inter, "PMPI_Comm_test_inter") &&
	       find(&type_size, "PMPI_Type_size") && find(&type_get_extent, "PMPI_Type_get_extent");
}

/*
 * Are messages all that collectives are made of, and the same with each call? On one node: between nodes Open MPI and Intel MPI
 * have collectives of two levels. Unless somebody has chosen otherwise: Open MPI by components that have a memory of
 * their own, or by rules; MPICH where it keeps one; Intel MPI does by itself (intel.c), and where it tunes itself as it goes.
 */
static bool messages_alone(void)
{
	extern char **environ;
	struct sn_launched job = sn_launched();
	const char *nolocal = getenv("MPIR_CVAR_NOLOCAL"), *within = getenv("I_MPI_COLL_INTRANODE");
	bool yes = job.here && job.here == job.all;
	if (sn_quick_is_open_mpi()) {
		for (char **v = environ; yes && *v; v++)
			yes = strncmp(*v, "OMPI_MCA_coll", 13) != 0;
	} else if (sn_mpi_find("impi_malloc")) {
		yes &= within && !strcmp(within, "pt2pt") && !getenv("I_MPI_TUNING_MODE");
	} else {
		yes &= nolocal && !strcmp(nolocal, "1");
	}
	return yes;
}

/* Asked once: can anything go without the MPI? */
static bool ready(void)
{
	static enum { UNASKED, YES, NO } answer;
	if (answer == UNASKED)
		answer = find_all() && messages_alone() ? YES : NO;
	return answer == YES;
}

/* What is watched in vain is not watched the next 2 to 64 times. */
static void in_vain(struct entry *e)
{
	e->alike = 0;
	e->turn = sn_quick_pause(&e->fails);
}

/* From here on, if it is the second such call in a row. */
static bool watch(struct entry *e, const struct call *c)
{
	e->known = false;
	if (!same(&e->call, c)) {
		e->call = *c;
		e->alike = e->turn = e->fails = 0;
		return false;
	}
	if (e->turn < 0) {
		e->turn++;
		return false;
	}
	if (!ready() || !sn_quick_watch(&lesson))
		return false;
	lesson = (struct sn_shim_lesson){.thread = &sn_mpi_thread, .steps = seen, .room = STEPS};
	return true;
}

void sn_collective_forget(void)
{
	generation++;
	lesson.room = 0; /* a call that is watched just now teaches nothing */
	lesson.count = 1;
}

static bool put(struct entry *e, unsigned at, const struct sn_shim_step *s)
{
	struct step *to = &e->step[at];
	const struct sn_shim_way *a = &to->way, *b = &s->way;
	bool alike = at < e->steps && a->ep == b->ep && a->len == b->len && a->bits == b->bits &&
		     a->mask == b->mask && a->data == b->data && a->exactly == b->exactly &&
		     a->peer == b->peer && a->flags == b->flags && to->recvs == !!s->is_recv;
	to->way = s->way;
	to->recvs = s->is_recv;
	return alike;
}

/* Each receive as late as may be: before the first send that the MPI began when it had heard of it. */
static void learn(struct entry *e)
{
	bool done[STEPS] = {false}, alike = e->alike > 0;
	unsigned n = 0;
	for (unsigned i = 0; i <= lesson.count; i++) {
		if (i < lesson.count && seen[i].is_recv)
			continue;
		for (unsigned k = 0; k < i; k++) {
			const struct sn_shim_step *r = &seen[k];
			if (r->is_recv && !done[k] && (i == lesson.count || (r->known && r->known <= i))) {
				done[k] = true;
				alike &= put(e, n++, r);
			}
		}
		if (i < lesson.count)
			alike &= put(e, n++, &seen[i]);
	}
	alike &= n == e->steps;
	e->steps = n;
	e->alike = alike ? e->alike + 1 : 1;
	e->known = e->alike >= WATCHES;
	e->turn = e->known ? SN_QUICK_PERIOD - 1 : 0;
	e->fails = 0;
}

/* right: it has led to what can be done again. */
static void watched(struct entry *e, bool right)
{
	int inter = 1;
	if (!right || comm_test_inter.asks(e->call.comm, &inter) || inter)
		in_vain(e);
	else
		learn(e);
}

/* All seen, all ended well, and nobody wants to hear of a message that it has come. */
static bool all_over(void)
{
	bool yes = lesson.count && lesson.count <= lesson.room;
	for (unsigned i = 0; yes && i < lesson.count; i++) {
		const struct sn_shim_step *s = &seen[i];
		yes = !s->is_recv || (s->over && s->way.len <= ROOM && s->way.exactly == s->way.bits);
	}
	return yes;
}

/*
 * Empty messages, as many out as in, all with one tag: others that the MPI sends meanwhile, such as what tells a synchronous
 * send that it has been received, or a barrier that does not block, may be as empty, and are not to be sent again.
 */
static bool is_barrier(void)
{
	const struct sn_shim_way *first[2] = {NULL, NULL}; /* out, in */
	unsigned many[2] = {0, 0};
	bool yes = all_over();
	for (unsigned i = 0; yes && i < lesson.count; i++) {
		const struct sn_shim_way *w = &seen[i].way, **f = &first[seen[i].is_recv];
		*f = *f ? *f : w;
		many[seen[i].is_recv]++;
		yes = !w->len && w->ep == (*f)->ep && w->bits == (*f)->bits && w->mask == (*f)->mask &&
		      w->data == (*f)->data && w->flags == (*f)->flags;
	}
	return yes && many[0] == many[1];
}

/* The bytes of a buffer whose elements lie one after the other; 0: they do not, or are too many. */
static size_t bytes_of(const struct call *c)
{
	intptr_t low, extent;
	int size;
	if (c->count <= 0 || c->count > ROOM || type_get_extent.asks_extent(c->type, &low, &extent) ||
	    type_size.asks(c->type, &size) || low || extent != size)
		return 0;
	size_t len = (size_t)size * (size_t)c->count;
	return len <= ROOM ? len : 0;
}

static bool is_bcast(const struct call *c, const void *buf)
{
	size_t len = bytes_of(c);
	bool yes = len && all_over();
	for (unsigned i = 0; yes && i < lesson.count; i++) {
		const struct sn_shim_step *s = &seen[i];
		yes = s->buf == buf && s->way.len == len;
		if (s->is_recv)
			yes &= i == 0 && s->got == len && (lesson.count == 1 || s->known == 1);
	}
	return yes;
}

/* Does the MPI bring it along? Handles of Open MPI are addresses, and what is made later lies on the heap; those of MPICH say it. */
static bool builtin(handle h)
{
	Dl_info info;
	return sn_quick_is_open_mpi() ? dladdr((void *)h, &info) != 0 : (uint32_t)h >> 30 == 1;
}

/* Files with such names, whatever their versions. */
static int is_gpus(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const of[] = {"libcuda.so", "libamdhip64.so", "libze_loader.so"};
	const char *slash = strrchr(info->dlpi_name, '/'), *file = slash ? slash + 1 : info->dlpi_name;
	bool *has = arg;
	(void)size;
	for (size_t i = 0; !*has && i < sizeof(of) / sizeof(of[0]); i++)
		*has = !strncmp(file, of[i], strlen(of[i]));
	return *has;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned long long *)arg = info->dlpi_adds;
	return 1;
}

/*
 * May a buffer be memory of a GPU's, which only its library, and an MPI that knows it, can read? Asked at each call that is
 * watched, and what is loaded is walked through only when something has been: to ask for a library that is not there by
 * dlopen() is to look for it in every folder, 50 us each time.
 */
static bool has_gpu(void)
{
	static unsigned long long seen_loads;
	static bool has;
	unsigned long long loads = 0;
	dl_iterate_phdr(count_loads, &loads);
	if (loads != seen_loads || !loads) {
		seen_loads = loads;
		has = false;
		dl_iterate_phdr(is_gpus, &has);
	}
	return has;
}

/* sum: what this rank has brought along. */
static bool is_allreduce(struct entry *e, char *sum, const void *result, size_t len)
{
	static char came[ROOM];
	const struct call *c = &e->call;
	unsigned steps = lesson.count / 2;
	int ranks;
	if (!len || !all_over() || lesson.count % 2 || comm_size.asks(c->comm, &ranks) ||
	    comm_rank.asks(c->comm, &e->rank) || ranks != 1 << steps)
		return false;
	for (unsigned k = 0; k < steps; k++) {
		const struct sn_shim_step *r = &seen[2 * k], *s = r + 1;
		if (!r->is_recv || s->is_recv || r->got != len || s->way.len != len || r->known < 2 * k + 2 ||
		    r->known > 2 * k + 3 || memcmp(lesson.bytes + s->bytes, sum, len) != 0)
			return false;
		memcpy(came, lesson.bytes + r->bytes, len);
		combine(c, e->rank, k, sum, came, len);
	}
	return !memcmp(result, sum, len);
}

/* ---- the calls ---- */

static __attribute__((noinline)) int barrier_watched(const struct call *c, barrier_fn slowly)
{
	struct entry *e = entry_of(c);
	bool watches = watch(e, c);
	int rc = slowly(c->comm);
	if (watches) {
		sn_quick_watched();
		watched(e, !rc && is_barrier());
	}
	return rc;
}

static inline int barrier(const struct call *c, barrier_fn slowly)
{
	struct entry *e = entry_of(c);
	const struct sn_shim_quick *q = quick(e, c);
	if (!likely(q))
		return barrier_watched(c, slowly);
	int rc = move(q, e, NULL);
	return likely(rc != NOT_BEGUN) ? rc : slowly(c->comm);
}

static __attribute__((noinline)) int bcast_watched(const struct call *c, void *buf, bcast_fn slowly)
{
	struct entry *e = entry_of(c);
	bool watches = watch(e, c);
	int rc = slowly(buf, c->count, c->type, c->root, c->comm);
	if (watches) {
		sn_quick_watched();
		watched(e, !rc && is_bcast(c, buf));
	}
	return rc;
}

static inline int bcast(const struct call *c, void *buf, bcast_fn slowly)
{
	struct entry *e = entry_of(c);
	const struct sn_shim_quick *q = quick(e, c);
	if (!likely(q))
		return bcast_watched(c, buf, slowly);
	int rc = move(q, e, buf);
	return likely(rc != NOT_BEGUN) ? rc : slowly(buf, c->count, c->type, c->root, c->comm);
}

static __attribute__((noinline)) int allreduce_watched(const struct call *c, const void *from, void *to,
						       allreduce_fn slowly)
{
	static char sum[ROOM];
	struct entry *e = entry_of(c);
	bool watches = watch(e, c);
	bool ours = watches && (e->alike || (builtin(c->type) && builtin(c->op)));
	size_t len = ours && !has_gpu() ? bytes_of(c) : 0;
	memcpy(sum, in_place(from) ? to : from, len);
	if (watches) {
		lesson.bytes = messages;
		lesson.bytes_room = sizeof(messages);
	}
	int rc = slowly(from, to, c->count, c->type, c->op, c->comm);
	if (watches) {
		sn_quick_watched();
		watched(e, !rc && is_allreduce(e, sum, to, len));
	}
	return rc;
}

static inline int allreduce(const struct call *c, const void *from, void *to, allreduce_fn slowly)
{
	struct entry *e = entry_of(c);
	const struct sn_shim_quick *q = quick(e, c);
	if (!likely(q))
		return allreduce_watched(c, from, to, slowly);
	int rc = reduce(q, e, from, to);
	return likely(rc != NOT_BEGUN) ? rc : slowly(from, to, c->count, c->type, c->op, c->comm);
}

/* ---- standing in ---- */

#define STAND_INS(p)                                                                                         \
	static int barrier_##p(handle comm)                                                                  \
	{                                                                                                    \
		struct call c = {.kind = BARRIER, .comm = comm, .generation = generation};                   \
		return barrier(&c, next[p][BARRIER].barrier);                                                \
	}                                                                                                    \
	static int bcast_##p(void *buf, int count, handle type, int root, handle comm)                       \
	{                                                                                                    \
		struct call c = {comm,	type,  0,    0,		(uintptr_t)buf >> SN_QUICK_REGION,           \
				 BCAST, count, root, generation};                                            \
		return bcast(&c, buf, next[p][BCAST].bcast);                                                 \
	}                                                                                                    \
	static int allreduce_##p(const void *from, void *to, int count, handle type, handle op, handle comm) \
	{                                                                                                    \
		struct call c = {comm,                                                                       \
				 type,                                                                       \
				 op,                                                                         \
				 (uintptr_t)from >> SN_QUICK_REGION,                                         \
				 (uintptr_t)to >> SN_QUICK_REGION,                                           \
				 ALLREDUCE,                                                                  \
				 count,                                                                      \
				 0,                                                                          \
				 generation};                                                                \
		return allreduce(&c, from, to, next[p][ALLREDUCE].allreduce);                                \
	}

STAND_INS(0)
STAND_INS(1)

static const struct {
	const char *name;
	union function stand_in[2];
} calls[KINDS] = {
	[BARRIER] = {"MPI_Barrier", {{.barrier = barrier_0}, {.barrier = barrier_1}}},
	[BCAST] = {"MPI_Bcast", {{.bcast = bcast_0}, {.bcast = bcast_1}}},
	[ALLREDUCE] = {"MPI_Allreduce", {{.allreduce = allreduce_0}, {.allreduce = allreduce_1}}},
};

static int kind_of(const char *name)
{
	int kind = 0;
	while (kind < KINDS && strcmp(calls[kind].name, name + (*name == 'P')) != 0)
		kind++;
	return kind;
}

bool sn_collective_is(const char *name)
{
	return kind_of(name) < KINDS;
}

void *sn_collective_stand_in(const char *name, void *definition)
{
	int p = *name == 'P', kind = kind_of(name);
	next[p][kind].symbol = definition;
	return calls[kind].stand_in[p].symbol;
}
