/* SPDX-License-Identifier: BSD-3-Clause */
#include "proof.h"
#include "base/launched.h"
#include "gpu.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define WATCHES 2 /* that led to the same, before one goes without the MPI */

/*
 * For a look at the MPI's affairs by MPI_Iprobe: the largest tag that each MPI has, which hardly anybody uses. If a
 * message lies there that is found, MPICH does not look any further, and its collectives that do not block stand
 * still.
 */
#define NOBODYS_TAG 32767

/* Of its match bits, where the sender's rank is. Others send that as data. */
#define INTELS_RANK UINT64_C(0x0fffff0000000000)

struct sn_proof_mpi sn_proof_mpi;

static uint64_t rank_bits;

/* Not on the stack (quick.c). */
static struct sn_shim_step seen[SN_STEPS];
static struct {
	bool dropped; /* there is no such message the next time */
	bool out;     /* in the buffer of what this rank brings along, else of what it gets */
	uint32_t at;
} places[SN_STEPS];
static struct sn_shim_lesson lesson;
static char messages[SN_STEPS * SN_ROOM];
static char brought[SN_STEPS * SN_ROOM]
	__attribute__((aligned(64))); /* by this rank to a sum; then, what would be got the quick way */
static size_t brought_len;

__attribute__((noinline)) int sn_proof_failed(handle comm)
{
	int code = sn_mpi_err_other();
	sn_proof_mpi.call_errhandler(comm, code);
	return code;
}

void sn_proof_look(handle comm)
{
	int flag;
	sn_requests_before();
	sn_proof_mpi.iprobe(sn_mpi_any_source(), NOBODYS_TAG, comm, &flag, sn_mpi_no_status());
}

_Atomic handle sn_proof_no_type;

static bool is_wrong(int64_t count, handle type)
{
	return count < 0 || sn_mpi_plain(type) == sn_proof_no_type;
}

__attribute__((noinline)) bool sn_proof_refused(const struct sn_collective *c, const void *from,
						const void *to)
{
	int rank = -1, ranks = 0, inter = 1;
	if (!sn_proof_no_type) {
		handle none = sn_mpi_handle(SN_TYPE_NULL);
		atomic_store(&sn_proof_no_type, none ? none : UINTPTR_MAX);
	}
	if (sn_proof_looks_right(c) || !sn_proof_find() || sn_proof_mpi.comm_test_inter(c->comm, &inter) ||
	    inter || sn_proof_mpi.comm_rank(c->comm, &rank) || sn_proof_mpi.comm_size(c->comm, &ranks))
		return false;
	if (sn_has_root(c->kind) && (c->root < 0 || c->root >= ranks))
		return true;
	bool out = is_wrong(c->count, c->type), in = is_wrong(c->in_count, c->in_type),
	     root = rank == c->root;
	switch (c->kind) {
	case SN_BARRIER:
	case SN_REDUCE_SCATTER: return false;
	case SN_ALLTOALL:
	case SN_ALLGATHER: return in || (out && !sn_mpi_in_place(from));
	case SN_ALLGATHERV: return out && !sn_mpi_in_place(from);
	case SN_GATHER: return (in && root) || (out && !sn_mpi_in_place(from));
	case SN_SCATTER: return (out && root) || (in && !sn_mpi_in_place(to));
	default: return out;
	}
}

struct sn_doubling sn_doubling_of(unsigned ranks, unsigned rank)
{
	struct sn_doubling d = {.steps = 31 - (unsigned)__builtin_clz(ranks)};
	d.pairs = ranks - (1u << d.steps);
	bool paired = rank < 2 * d.pairs;
	d.number = paired ? rank / 2 : rank - d.pairs;
	d.brings = paired && rank % 2 == 0;
	d.stands = paired && !d.brings;
	return d;
}

/*
 * Step by step with the one whose number differs in that bit: Open MPI takes the lower
 * rank's first, MPICH and Intel MPI what came. Of a pair all take the even one's first, which is what came.
 */
bool sn_proof_turned(unsigned number, unsigned step)
{
	return sn_mpi_family == OPEN_MPI && !(number >> step & 1);
}

void sn_combine(const struct sn_seen *e, int step, char *sum, char *came, size_t len)
{
	const struct sn_collective *c = &e->call;
	if (step != SN_OF_PAIR && sn_proof_turned(e->doubling.number, (unsigned)step)) {
		sn_proof_mpi.reduce_local(sum, came, c->count, c->type, c->op);
		memcpy(sum, came, len);
	} else {
		sn_proof_mpi.reduce_local(came, sum, c->count, c->type, c->op);
	}
}

/* ---- what is asked of the MPI ---- */

static bool find(struct sn_proof_mpi *mpi)
{
	static const struct {
		const char *name;
		size_t at;
	} functions[] = {
		{"PMPI_Reduce_local", offsetof(struct sn_proof_mpi, reduce_local)},
		{"PMPI_Bcast", offsetof(struct sn_proof_mpi, bcast)},
		{"PMPI_Allreduce", offsetof(struct sn_proof_mpi, allreduce)},
		{"PMPI_Iprobe", offsetof(struct sn_proof_mpi, iprobe)},
		{"PMPI_Comm_call_errhandler", offsetof(struct sn_proof_mpi, call_errhandler)},
		{"PMPI_Comm_rank", offsetof(struct sn_proof_mpi, comm_rank)},
		{"PMPI_Comm_size", offsetof(struct sn_proof_mpi, comm_size)},
		{"PMPI_Comm_test_inter", offsetof(struct sn_proof_mpi, comm_test_inter)},
		{"PMPI_Type_size", offsetof(struct sn_proof_mpi, type_size)},
		{"PMPI_Comm_group", offsetof(struct sn_proof_mpi, comm_group)},
		{"PMPI_Group_translate_ranks", offsetof(struct sn_proof_mpi, group_translate_ranks)},
		{"PMPI_Group_free", offsetof(struct sn_proof_mpi, group_free)},
		{"PMPI_Type_get_extent", offsetof(struct sn_proof_mpi, type_get_extent)},
		{"PMPI_Type_get_true_extent", offsetof(struct sn_proof_mpi, type_get_true_extent)},
		{"PMPI_Pack", offsetof(struct sn_proof_mpi, pack)},
		{"PMPI_Unpack", offsetof(struct sn_proof_mpi, unpack)},
		{"PMPI_Comm_get_errhandler", offsetof(struct sn_proof_mpi, comm_get_errhandler)},
		{"PMPI_Comm_set_errhandler", offsetof(struct sn_proof_mpi, comm_set_errhandler)},
		{"PMPI_Errhandler_free", offsetof(struct sn_proof_mpi, errhandler_free)},
	};
	bool all = true;
	for (size_t i = 0; all && i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *found = sn_mpi_find(functions[i].name);
		memcpy((char *)mpi + functions[i].at, &found, sizeof(found));
		all = found != NULL;
	}
	return all;
}

/*
 * Are messages all that collectives are made of, and the same with each call? On one node: between nodes Open MPI and
 * Intel MPI have collectives of two levels. Unless somebody has chosen otherwise: Open MPI by components that have a
 * memory of their own, not by rules for its usual one, which are read once and choose among algorithms of messages;
 * MPICH where it keeps one; Intel MPI does by itself (intel.c), and where it tunes itself as it goes.
 */
static bool messages_alone(void)
{
	extern char **environ;
	struct sn_launched job = sn_launched();
	const char *nolocal = getenv("MPIR_CVAR_NOLOCAL"), *within = getenv("I_MPI_COLL_INTRANODE");
	bool yes = job.here && job.here == job.all;
	if (sn_mpi_family == OPEN_MPI) {
		for (char **v = environ; yes && *v; v++)
			yes = strncmp(*v, "OMPI_MCA_coll", 13) != 0 ||
			      (!strncmp(*v, "OMPI_MCA_coll_tuned_", 20) &&
			       strncmp(*v + 20, "priority", 8) != 0);
	} else if (sn_mpi_is_intels()) {
		rank_bits = INTELS_RANK;
		yes &= within && !strcmp(within, "pt2pt") && !getenv("I_MPI_TUNING_MODE");
	} else {
		yes &= nolocal && !strcmp(nolocal, "1");
	}
	return yes;
}

static bool found;

static void find_once(void)
{
	found = find(&sn_proof_mpi);
}

bool sn_proof_find(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_once);
	return found;
}

bool sn_proof_of_world(handle group, int size)
{
	handle world = 0;
	int known = 0, *ranks = size > 0 ? malloc(2 * (size_t)size * sizeof(*ranks)) : NULL;
	for (int r = 0; ranks && r < size; r++)
		ranks[r] = r;
	if (ranks && !sn_proof_mpi.comm_group(sn_mpi_handle(SN_COMM_WORLD), &world)) {
		if (!sn_proof_mpi.group_translate_ranks(group, size, ranks, world, ranks + size))
			while (known < size && ranks[size + known] >= 0)
				known++;
		sn_proof_mpi.group_free(&world);
	}
	free(ranks);
	return size > 0 && known == size;
}

/* Whose handlers are called for what belongs to no communicator: the first one's up to MPI 3, then the second one's. */
static handle of_nobody(int i)
{
	return sn_mpi_handle(i ? SN_COMM_SELF : SN_COMM_WORLD);
}

static pthread_mutex_t quiet = PTHREAD_MUTEX_INITIALIZER;

/* With MPICH the second one's is only called if somebody has set it. */
void sn_proof_quiet(handle handlers[2])
{
	pthread_mutex_lock(&quiet);
	handle silent = sn_mpi_handle(SN_ERRORS_RETURN);
	handle unset = sn_mpi_family == OPEN_MPI ? 0 : sn_mpi_handle(SN_ERRORS_ARE_FATAL);
	for (int i = 0; i < 2; i++) {
		handlers[i] = 0;
		if (!sn_proof_mpi.comm_get_errhandler(of_nobody(i), &handlers[i]) &&
		    (i == 0 || handlers[i] != unset))
			sn_proof_mpi.comm_set_errhandler(of_nobody(i), silent);
		else
			handlers[i] = 0;
	}
}

void sn_proof_loud(handle handlers[2])
{
	for (int i = 0; i < 2; i++)
		if (handlers[i] && !sn_proof_mpi.comm_set_errhandler(of_nobody(i), handlers[i]))
			sn_proof_mpi.errhandler_free(&handlers[i]);
	pthread_mutex_unlock(&quiet);
}

/* Asked once: can anything go without the MPI? */
static bool ready(void)
{
	static enum { UNASKED, YES, NO } answer;
	if (answer == UNASKED)
		answer = sn_proof_find() && messages_alone() ? YES : NO;
	return answer == YES;
}

/* The bytes of elements that lie one after the other; 0: they do not, or are too many. */
static size_t bytes_of(int count, handle type)
{
	intptr_t low, extent;
	int size;
	if (count <= 0 || count > SN_ROOM || sn_proof_mpi.type_get_extent(type, &low, &extent) ||
	    sn_proof_mpi.type_size(type, &size) || low || extent != size)
		return 0;
	size_t len = (size_t)size * (size_t)count;
	return len <= SN_ROOM ? len : 0;
}

/* ---- is that all of it? ---- */

/* All seen, all ended well, and nobody wants to hear of a message that it has come. */
static bool all_over(void)
{
	bool yes = lesson.count && lesson.count <= lesson.room;
	for (unsigned i = 0; yes && i < lesson.count; i++) {
		const struct sn_shim_step *s = &seen[i];
		yes = s->is_recv ? s->over && s->got <= SN_ROOM && s->way.exactly == s->way.bits
				 : s->way.len <= SN_ROOM;
	}
	return yes;
}

/*
 * Empty messages, as many out as in, all with one tag, whoever sends them: others that the MPI sends meanwhile, such
 * as what tells a synchronous send that it has been received, or a barrier that does not block, may be as empty, and
 * are not to be sent again.
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
		yes = !w->len && w->ep == (*f)->ep && !((w->bits ^ (*f)->bits) & ~rank_bits) &&
		      w->mask == (*f)->mask && w->data == (*f)->data && w->flags == (*f)->flags;
	}
	return yes && many[0] == many[1];
}

static bool is_bcast(const struct sn_collective *c, const void *buf)
{
	size_t len = bytes_of(c->count, c->type);
	bool yes = len && all_over();
	for (unsigned i = 0; yes && i < lesson.count; i++) {
		const struct sn_shim_step *s = &seen[i];
		yes = s->buf == buf && s->way.len == len;
		if (s->is_recv)
			yes &= i == 0 && s->got == len && (lesson.count == 1 || s->known == 1);
	}
	return yes;
}

/* It went, in full, and is what is there by now. */
static bool went(unsigned i)
{
	const struct sn_shim_step *s = &seen[i];
	return !s->is_recv && s->way.len == brought_len &&
	       !memcmp(lesson.bytes + s->bytes, brought, brought_len);
}

/* It came, in full; and the MPI heard of it when it had begun so many steps. */
static bool came(unsigned i, unsigned least, unsigned most)
{
	const struct sn_shim_step *r = &seen[i];
	return r->is_recv && r->way.len == brought_len && r->got == brought_len && r->known >= least &&
	       r->known <= most;
}

static void combine(const struct sn_seen *e, int step, unsigned i)
{
	static char operand[SN_ROOM] __attribute__((aligned(64)));
	memcpy(operand, lesson.bytes + seen[i].bytes, brought_len);
	sn_combine(e, step, brought, operand, brought_len);
}

/* Of which k exchanges are all, or what is between what comes of a pair and what goes to it. */
static bool doubles(const struct sn_seen *e)
{
	const struct sn_doubling *d = &e->doubling;
	unsigned i = d->stands, ends = i + 2 * d->steps;
	if (lesson.count != ends + d->stands || (d->stands && !came(0, 1, 2)))
		return false;
	if (d->stands)
		combine(e, SN_OF_PAIR, 0);
	for (int k = 0; i < ends; k++, i += 2) {
		bool last = i + 2 == ends && d->stands; /* before what goes to it */
		if (!came(i, i + 2, last ? i + 2 : i + 3) || !went(i + 1))
			return false;
		combine(e, k, i);
	}
	/* of three ranks, see collective.h; what has been known once is not asked again */
	bool root = d->stands && d->steps == 1 && !e->alike &&
		    !memcmp(lesson.bytes + seen[1].bytes, brought, brought_len);
	return !d->stands || (!root && went(ends));
}

/* brought: by this rank. */
static bool is_allreduce(struct sn_seen *e, const void *result)
{
	int ranks, rank;
	if (!brought_len || !all_over() || sn_proof_mpi.comm_size(e->call.comm, &ranks) ||
	    sn_proof_mpi.comm_rank(e->call.comm, &rank) || ranks < 2)
		return false;
	e->doubling = sn_doubling_of((unsigned)ranks, (unsigned)rank);
	if (e->doubling.brings)
		return lesson.count == 2 && went(0) && came(1, 2, 2) &&
		       !memcmp(result, lesson.bytes + seen[1].bytes, brought_len);
	return doubles(e) && !memcmp(result, brought, brought_len);
}

/*
 * The order in which it is done again: each receive as late as may be, before the first send that the MPI began when it had
 * heard of it. In MPI_Alltoall nothing that goes depends on what has come, and such an order would be one by chance: those of
 * several ranks may form a ring, in which each waits for the next.
 */
static unsigned arrange(const struct sn_seen *e, unsigned order[SN_STEPS])
{
	bool sends_first = e->call.kind == SN_ALLTOALL;
	bool done[SN_STEPS] = {false};
	unsigned n = 0;
	for (unsigned i = 0; i <= lesson.count; i++) {
		if (i < lesson.count && seen[i].is_recv)
			continue;
		for (unsigned k = 0; k < i; k++) {
			const struct sn_shim_step *r = &seen[k];
			if (r->is_recv && !done[k] &&
			    (i == lesson.count || (!sends_first && r->known && r->known <= i))) {
				done[k] = true;
				order[n++] = k;
			}
		}
		if (i < lesson.count)
			order[n++] = i;
	}
	return n;
}

/*
 * Blocks of one length: those that this rank brings along, and those that it gets. Followed by addresses: what is
 * sent lies among either, what is received is put among the latter, each block but this rank's own once, and none is
 * sent on before it is there. And by bytes: what would have come of all that is what the call has sent, and left
 * behind.
 */
struct blocks {
	const char *out;
	const char *in;
	size_t len, in_len;
	size_t own_out, own_in;	  /* where what stays here lies */
	bool there[SN_STEPS + 1]; /* those that it has got */
	bool gone[SN_STEPS + 1];  /* MPI_Alltoall: those that have left */
	bool each;		  /* MPI_Alltoall: each of its own goes once, and no other */
};

static size_t offset(const struct sn_shim_step *s, const char *base)
{
	return (uintptr_t)s->buf - (uintptr_t)base;
}

static bool lies_in(const struct sn_shim_step *s, size_t len, const char *base, size_t room)
{
	return (uintptr_t)s->buf >= (uintptr_t)base && offset(s, base) <= room &&
	       len <= room - offset(s, base);
}

/* Marks the blocks of one message, if all of them are marked, or none. */
static bool mark(bool *marks, size_t at, size_t bytes, size_t len, bool marked)
{
	bool yes = bytes && at % len == 0 && bytes % len == 0;
	for (size_t k = at / len; yes && k < (at + bytes) / len; k++) {
		yes = marks[k] == marked;
		marks[k] = true;
	}
	return yes;
}

/* A message to itself: it is this rank's own block, and no message the next time. */
static bool is_own(const struct blocks *b, const struct sn_shim_step *s)
{
	return b->each && (s->is_recv ? s->got == b->len && offset(s, b->in) == b->own_in
				      : s->way.len == b->len && offset(s, b->out) == b->own_out);
}

static bool follow_recv(struct blocks *b, const struct sn_shim_step *s)
{
	size_t at = offset(s, b->in);
	places[s - seen].at = (uint32_t)at;
	if (!lies_in(s, s->way.len, b->in, b->in_len) || !mark(b->there, at, s->got, b->len, false))
		return false;
	memcpy(brought + at, messages + s->bytes, s->got);
	return true;
}

static bool follow_send(struct blocks *b, const struct sn_shim_step *s)
{
	size_t len = s->way.len;
	const char *bytes = messages + s->bytes;
	bool on = !b->each && lies_in(s, len, b->in, b->in_len); /* what has come is passed on */
	size_t at = offset(s, on ? b->in : b->out);
	places[s - seen].at = (uint32_t)at;
	places[s - seen].out = !on;
	if (on)
		return mark(b->there, at, len, b->len, true) && !memcmp(bytes, brought + at, len);
	/*
	 * whole blocks of its own: an empty message may be another's, such as what tells a synchronous send that it
	 * has been received
	 */
	if (!b->out ||
	    (b->each ? !lies_in(s, len, b->out, b->in_len) || !mark(b->gone, at, len, b->len, false)
		     : s->buf != b->out || len != b->len))
		return false;
	return !memcmp(bytes, s->buf, len);
}

/* What it is about; false: it is none that can be followed. */
static bool blocks_of(struct blocks *b, const struct sn_collective *c, const void *from, const void *to)
{
	int ranks, rank;
	size_t len = c->count == c->in_count && c->type == c->in_type ? bytes_of(c->count, c->type) : 0;
	bool all = c->kind == SN_ALLTOALL, in_place = sn_mpi_in_place(from);
	if (!len || (all && in_place) || sn_proof_mpi.comm_size(c->comm, &ranks) ||
	    sn_proof_mpi.comm_rank(c->comm, &rank) || ranks < 2 || ranks > SN_STEPS)
		return false;
	*b = (struct blocks){.in = to, .len = len, .in_len = len * (size_t)ranks, .each = all};
	b->own_in = len * (size_t)rank;
	if (!in_place) {
		b->out = from;
		b->own_out = all ? b->own_in : 0;
	}
	memcpy(brought + b->own_in, in_place ? b->in + b->own_in : b->out + b->own_out, len);
	b->there[rank] = b->gone[rank] = true;
	return true;
}

static bool all_marked(const bool *marks, size_t count)
{
	bool yes = true;
	for (size_t k = 0; k < count; k++)
		yes &= marks[k];
	return yes;
}

/* Then without messages to itself. */
static bool is_blocks(struct sn_seen *e, const void *from, const void *to)
{
	static struct blocks b;
	unsigned order[SN_STEPS], own[2] = {0, 0};
	if (sn_gpu_is_here() || !all_over() || !blocks_of(&b, &e->call, from, to))
		return false;
	for (unsigned i = 0, n = arrange(e, order); i < n; i++) {
		const struct sn_shim_step *s = &seen[order[i]];
		bool right = true;
		if (is_own(&b, s)) {
			places[order[i]].dropped = true;
			own[s->is_recv]++;
		} else {
			right = s->is_recv ? follow_recv(&b, s) : follow_send(&b, s);
		}
		if (!right)
			return false;
	}
	size_t ranks = b.in_len / b.len;
	if (own[0] != own[1] || own[0] > 1 || !all_marked(b.there, ranks) ||
	    (b.each && !all_marked(b.gone, ranks)) || memcmp(brought, to, b.in_len) != 0)
		return false;
	e->own_len = b.out ? (uint32_t)b.len : 0;
	e->own_out = (uint32_t)b.own_out;
	e->own_in = (uint32_t)b.own_in;
	return true;
}

/* ---- learning ---- */

static bool put(struct sn_seen *e, unsigned at, unsigned i)
{
	struct sn_step *kept = &e->step[at];
	struct sn_step is = {seen[i].way, places[i].at, seen[i].is_recv, places[i].out};
	const struct sn_shim_way *a = &kept->way, *b = &is.way;
	bool alike = at < e->steps && a->ep == b->ep && a->len == b->len && a->bits == b->bits &&
		     a->mask == b->mask && a->data == b->data && a->exactly == b->exactly &&
		     a->peer == b->peer && a->flags == b->flags && kept->recvs == is.recvs &&
		     kept->out == is.out && kept->at == is.at;
	*kept = is;
	return alike;
}

static void learn(struct sn_seen *e)
{
	bool alike = e->alike > 0;
	unsigned order[SN_STEPS], n = 0;
	for (unsigned k = 0, all = arrange(e, order); k < all; k++)
		if (!places[order[k]].dropped)
			alike &= put(e, n++, order[k]);
	alike &= n == e->steps;
	e->steps = n;
	e->alike = alike ? e->alike + 1 : 1;
	e->known = e->alike >= WATCHES;
	e->turn = e->known ? SN_QUICK_PERIOD - 1 : 0;
	e->fails = 0;
	e->flat = SN_FLAT_UNKNOWN;
}

/* ---- watching ---- */

void sn_proof_spoil(void)
{
	lesson.room = 0;
	lesson.count = 1;
}

bool sn_proof_watch(const struct sn_seen *e, const void *from, const void *to)
{
	lesson.over = 0; /* it does not go on where the last one ended */
	if (!ready() || !sn_quick_watch(&lesson))
		return false;
	lesson = (struct sn_shim_lesson){.steps = seen, .room = SN_STEPS};
	memset(places, 0, sizeof(places));
	const struct sn_collective *c = &e->call;
	if (c->kind >= SN_ALLREDUCE) {
		lesson.bytes = messages;
		lesson.bytes_room = sizeof(messages);
	}
	brought_len = 0;
	if (c->kind == SN_ALLREDUCE && (e->alike || (sn_mpi_builtin(c->type) && sn_mpi_builtin(c->op))) &&
	    !sn_gpu_is_here()) {
		brought_len = bytes_of(c->count, c->type);
		memcpy(brought, sn_mpi_in_place(from) ? to : from, brought_len);
	}
	return true;
}

static bool holds(struct sn_seen *e, const void *from, const void *to)
{
	switch (e->call.kind) {
	case SN_BARRIER: return is_barrier();
	case SN_BCAST: return is_bcast(&e->call, to);
	case SN_ALLREDUCE: return is_allreduce(e, to);
	default: return is_blocks(e, from, to);
	}
}

void sn_proof_over(struct sn_seen *e, bool well, const void *from, const void *to)
{
	int inter = 1; /* where there are two groups buffers have other lengths */
	sn_quick_watched();
	if (well && lesson.count && !sn_proof_mpi.comm_test_inter(e->call.comm, &inter) && !inter &&
	    holds(e, from, to)) {
		learn(e);
	} else { /* not watched the next 2 to 64 times */
		e->alike = 0;
		e->turn = sn_quick_pause(&e->fails);
	}
}
