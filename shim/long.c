/* SPDX-License-Identifier: BSD-3-Clause */
#include "long.h"
#include "base/copy.h"
#include "copy/bypass.h"
#include "here.h"
#include "ops.h"
#include "seen.h"
#include "types.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LINE	    64
#define LONGEST	    32	 /* bytes of an element of the MPI's own types */
#define OWN_LONGEST 1024 /* likewise of the program's, with a hole behind it */
#define CLOCKED                                                                                              \
	32 /* calls, of which one reads the clock, to see whether it is time to look how far the others are */
#define SAME_NS 25 /* so soon comes a line from no other core */
#define KNOWN	32 /* types and operations of which is remembered whether they go together */

/* ---- which calls ---- */

/* That no element is longer than so many bytes, and none has a hole but behind it; else it is the MPI's. */
static void take_type(struct sn_long_form *f, handle type, unsigned generation, intptr_t longest)
{
	struct sn_meet_type t = sn_type_find(type, generation);
	bool may = t.size && t.solid && t.extent <= longest;
	f->element = may ? (size_t)t.extent : 0;
	f->data = may ? (size_t)t.size : 0;
}

static bool is_one_of(handle h, const enum sn_mpi_named *these, size_t count)
{
	bool yes = false;
	for (size_t i = 0; i < count && !yes; i++)
		yes = h == sn_mpi_handle(these[i]);
	return yes;
}

/* These go together: no handler would be called, which another thread may be about to set, or to need. */
static bool surely_right(handle type, handle op)
{
	static const enum sn_mpi_named types[] = {SN_DOUBLE,	    SN_FLOAT,
						  SN_INT,	    SN_LONG,
						  SN_LONG_LONG,	    SN_UNSIGNED,
						  SN_UNSIGNED_LONG, SN_UNSIGNED_LONG_LONG},
				       ops[] = {SN_SUM, SN_MAX, SN_MIN, SN_PROD};
	return is_one_of(type, types, sizeof(types) / sizeof(types[0])) &&
	       is_one_of(op, ops, sizeof(ops) / sizeof(ops[0]));
}

/* By whatever name: a rank may call it by one of C, and another one by one of Fortran. */
static bool is_whole(handle type)
{
	static const enum sn_mpi_named types[] = {
		SN_INT,	    SN_LONG,	SN_LONG_LONG, SN_UNSIGNED, SN_UNSIGNED_LONG, SN_UNSIGNED_LONG_LONG,
		SN_INTEGER, SN_INT32_T, SN_INT64_T,   SN_UINT32_T, SN_UINT64_T,	     SN_INTEGER4,
		SN_INTEGER8};
	return is_one_of(type, types, sizeof(types) / sizeof(types[0]));
}

/* Does MPI_Reduce_local make such sums? Else an error of the program's is one of MPI_Allreduce, and the MPI's affair. */
static void ask(handle type, handle op, unsigned generation, struct sn_long_form *f)
{
	static const char in[LONGEST] __attribute__((aligned(LINE)));
	static char sum[LONGEST] __attribute__((aligned(LINE)));
	handle handlers[2];
	bool quiet = !surely_right(sn_mpi_plain(type), sn_mpi_plain(op));
	take_type(f, type, generation, LONGEST); /* which is quiet by itself */
	if (!f->element)
		return;
	if (quiet)
		sn_proof_quiet(handlers);
	bool right = !sn_proof_mpi.reduce_local(in, sum, 1, type, op);
	if (quiet)
		sn_proof_loud(handlers);
	if (!right)
		f->element = f->data = 0;
}

/* Operands come last one first, and so they may. Of the type all ranks know as much, as MPI demands that it is the same. */
static struct sn_long_form of_own(handle type, handle op, unsigned generation)
{
	struct sn_long_form f = {.own = true};
	if (sn_op_commutes(op))
		take_type(&f, type, generation, OWN_LONGEST);
	return f;
}

__attribute__((noinline)) struct sn_long_form sn_long_form(handle type, handle op, unsigned generation)
{
	static struct {
		handle type, op;
		struct sn_long_form form;
	} known[KNOWN]; /* none of them is ever freed */
	static unsigned count;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct sn_long_form f = {0};
	unsigned i = 0;
	if (!sn_mpi_builtin(op))
		return of_own(type, op, generation);
	pthread_mutex_lock(&lock);
	while (i < KNOWN && known[i].type && (known[i].type != type || known[i].op != op))
		i++;
	if (i < KNOWN && known[i].type) {
		f = known[i].form;
	} else if (sn_mpi_builtin(type) || sn_mpi_is_pair(type)) {
		ask(type, op, generation, &f);
		f.any_order = is_whole(sn_mpi_plain(type));
		i = count++ % KNOWN;
		known[i].type = type;
		known[i].op = op;
		known[i].form = f;
	}
	pthread_mutex_unlock(&lock);
	return f;
}

void sn_long_learn(struct sn_meet *m, const struct sn_collective *c)
{
	bool stays = sn_mpi_builtin(c->op);
	m->sum = sn_long_form(c->type, c->op, c->generation);
	m->long_type = stays ? c->type : UINTPTR_MAX;
	m->long_op = stays ? c->op : UINTPTR_MAX;
}

/*
 * No sum, or none that is defined: the MPI says so, or does what it does. To whom one is not made what is named for it means
 * nothing, and ranks must not differ.
 */
static bool wrong(const struct sn_collective *c, const void *from, const void *to)
{
	return !from || (c->kind == SN_ALLREDUCE && (from == to || !to || sn_mpi_in_place(to)));
}

/* The root that there is, whose operand alone may be in place. */
static bool has_root(const struct sn_meet *m, const struct sn_collective *c, const void *from)
{
	return c->root >= 0 && (unsigned)c->root < m->ranks &&
	       ((unsigned)c->root == m->rank || !sn_mpi_in_place(from));
}

/*
 * MPICH makes sums of at least as many elements as there are ranks, however short they are, of a reduce-scatter and
 * an allgather. Those have twice the messages of recursive doubling, and none goes without it.
 */
static bool mpich_scatters(void)
{
	static _Atomic enum { NOT_ASKED, SCATTERS, DOUBLES } answer;
	if (!likely(atomic_load_explicit(&answer, memory_order_relaxed) != NOT_ASKED))
		atomic_store_explicit(&answer,
				      sn_mpi_family == MPICH && !sn_mpi_is_intels() ? SCATTERS : DOUBLES,
				      memory_order_relaxed);
	return atomic_load_explicit(&answer, memory_order_relaxed) == SCATTERS;
}

/* MPI_Reduce: shorter ones are in rooted.h, where only the root waits. ranks: 0, not known yet. */
static bool is_long(const struct sn_long_form *f, const struct sn_collective *c, unsigned ranks)
{
	size_t size = f->element, count = (size_t)c->count;
	int all = (int)ranks;
	if (c->kind == SN_REDUCE)
		return size * count > SN_MEET_PLACE;
	bool scatters = mpich_scatters();
	if (size && (size * count >= SN_LONG_LEAST || sn_long_is_odd(f)))
		return true;
	if (!size || (!scatters && size * count < SN_LONG_LEAST_OF_TWO))
		return false;
	return (all || !sn_proof_mpi.comm_size(c->comm, &all)) &&
	       (scatters ? count >= 1u << sn_doubling_of((unsigned)all, 0).steps : all == 2);
}

/* Is this operation one of which a sum may be odd? The last one of which none is is remembered, as the MPI's own are never freed. */
static inline bool may_be_odd(handle op)
{
	static _Atomic handle never;
	if (likely(op == atomic_load_explicit(&never, memory_order_relaxed)))
		return false;
	handle plain = sn_mpi_plain(op);
	if (!sn_mpi_builtin(op) || plain == sn_mpi_handle(SN_MINLOC) || plain == sn_mpi_handle(SN_MAXLOC))
		return true;
	atomic_store_explicit(&never, op, memory_order_relaxed);
	return false;
}

/* Fewer elements are never long, but for those that are odd, perhaps. */
static int fewest(const struct sn_collective *c)
{
	if (may_be_odd(c->op))
		return 1;
	if (c->kind == SN_REDUCE)
		return SN_MEET_PLACE / LONGEST + 1;
	return mpich_scatters() ? 2 : SN_LONG_LEAST_OF_TWO / LONGEST;
}

static struct sn_meet *first_of(const struct sn_collective *c)
{
	struct sn_long_form f = sn_long_form(c->type, c->op, c->generation);
	return is_long(&f, c, 0) ? sn_meet_here(c->comm) : NULL;
}

struct sn_meet *sn_long_of(const struct sn_collective *c, const void *from, const void *to)
{
	if (likely((c->kind != SN_ALLREDUCE && c->kind != SN_REDUCE) || !sn_here_all || c->count < fewest(c)))
		return NULL;
	if (!likely(!wrong(c, from, to)))
		return NULL;
	struct sn_meet *m = sn_meet_known(c, first_of);
	if (!m || (c->kind == SN_REDUCE && !has_root(m, c, from)))
		return NULL;
	return sn_long_element_of(m, c) && is_long(&m->sum, c, m->ranks) ? m : NULL;
}

/* ---- pieces ---- */

struct sum {
	struct sn_meet *m;
	const struct sn_collective *c;
	struct sn_meet_words *mine;
	const char *from; /* NULL: there is none, and what is brought along nobody gets */
	char *to;	  /* NULL: the root alone gets it */
	size_t len, piece;
	uint64_t first, end;
	bool lends, gpu;
	bool in_place; /* of two ranks, and lends, and the sum is to be where this rank's operand is */
	bool rooted;   /* of two ranks one makes it, whose operand the other does not read */
	const char *lent[SN_MEET_RANKS]; /* NULL: brought along */
};

static size_t offset(const struct sum *s, uint64_t k)
{
	return (size_t)(k - s->first) * s->piece;
}

static size_t length(const struct sum *s, uint64_t k)
{
	size_t left = s->len - offset(s, k);
	return left < s->piece ? left : s->piece;
}

/* All ranks go through the ring alike, also who brings nothing along. */
static void place(const struct sum *s, uint64_t k)
{
	s->m->at[k & 1] = sn_meet_next(s->m, length(s, k), s->m->lap);
}

static char *placed(const struct sum *s, unsigned rank, uint64_t k)
{
	return sn_meet_ring(s->m, rank) + s->m->at[k & 1];
}

static void bring(const struct sum *s, uint64_t k)
{
	char *to = placed(s, s->m->rank, k);
	if (!likely(s->from))
		return;
	const char *from = s->from + offset(s, k);
	size_t len = sn_long_filled(s->m, length(s, k));
	if (s->m->far.far && !s->gpu)
		sn_copy_bypass(to, from, len);
	else
		sn_meet_copy(s->m, s->c, to, from, len);
}

/* When all have come to this call. False: there is no room for another mapping. */
static bool find_lent(struct sum *s)
{
	struct sn_meet *m = s->m;
	for (unsigned r = 0; r < m->ranks; r++) {
		uint64_t at = m->mem->words[r].at[m->calls & 1];
		s->lent[r] = NULL;
		if (!at || r == m->rank)
			continue;
		const struct sn_heap_span *span = &m->mem->heap[r].span;
		uint64_t offset = sn_heap_place(span, at, s->len), end = offset + s->len;
		if (offset == SN_HEAP_NOWHERE)
			return false;
		if (!likely(end <= m->reach[r]) && offset < span->bytes &&
		    (m->reach[r] = sn_lend_reach(m->heaps[r], end)) < end)
			return false;
		s->lent[r] = m->heaps[r] + offset;
	}
	if (!s->gpu)
		s->lent[m->rank] = s->from;
	return true;
}

static int cannot_read(const struct sum *s)
{
	fprintf(stderr,
		"sennit: no room for another mapping (vm.max_map_count): SENNIT_HEAP=no needs none\n");
	atomic_store(&s->m->mem->failed, 1);
	return sn_proof_failed(s->c->comm);
}

static const char *operand(const struct sum *s, unsigned rank, uint64_t k)
{
	return s->lent[rank] ? s->lent[rank] + offset(s, k) : placed(s, rank, k);
}

/* ---- who is here, and done ---- */

/* That word of all others is so much, or more. */
static int await_all(const struct sum *s, bool done, uint64_t pieces)
{
	struct sn_meet *m = s->m;
	int rc = 0;
	for (unsigned r = 0; r < m->ranks && !rc; r++) {
		const struct sn_meet_words *w = &m->mem->words[r];
		if (r != m->rank)
			rc = sn_meet_await(m, s->c->comm, r, done ? &w->done : &w->here, pieces);
	}
	return rc;
}

static int await_here(const struct sum *s, uint64_t pieces)
{
	return await_all(s, false, pieces);
}

static int await_done(const struct sum *s, uint64_t pieces)
{
	return await_all(s, true, pieces);
}

/* ---- sums ---- */

void sn_long_out(struct sn_meet *m, const struct sn_collective *c, char *to, const char *sum, size_t len)
{
	if (!sn_long_has_holes(m)) {
		sn_meet_copy(m, c, to, sum, len);
		return;
	}
	bool gpu = sn_meet_gpu(m, c);
	for (size_t at = 0; at < len; at += m->sum.element)
		if (gpu)
			sn_meet_copy(m, c, to + at, sum + at, m->sum.data);
		else
			memcpy(to + at, sum + at, m->sum.data);
}

int sn_long_add(struct sn_meet *m, const struct sn_collective *c, const char *in, char *sum, size_t len)
{
	char *aside = m->sums + SN_MEET_SUMS;
	if (m->sum.own) {
		sn_copy_between(aside, in, sn_long_filled(m, len));
		in = aside;
	}
	return sn_proof_mpi.reduce_local(in, sum, (int)(len / m->sum.element), c->type, c->op);
}

static size_t chunk_of(const struct sum *s, size_t left)
{
	size_t most = SN_MEET_SUMS / s->m->sum.element * s->m->sum.element;
	return left < most ? left : most;
}

/* Of two ranks. The sum is made where it shall be, but if this rank's operand is there, and the other's comes first. */
static void add_two(const struct sum *s, const char *a, const char *b, char *to, size_t len)
{
	bool holes = sn_long_has_holes(s->m);
	for (size_t at = 0, n; at < len; at += n) {
		n = chunk_of(s, len - at);
		char *sum = s->gpu || to == b || holes ? s->m->sums : to + at;
		if (sum != a + at)
			sn_copy_between(sum, a + at, sn_long_filled(s->m, n));
		sn_long_add(s->m, s->c, b + at, sum, n);
		if (sum == s->m->sums)
			sn_long_out(s->m, s->c, to + at, sum, n);
	}
}

static void add_both(const struct sum *s, uint64_t k)
{
	add_two(s, operand(s, 0, k), operand(s, 1, k), s->to + offset(s, k), length(s, k));
}

/* Where a rank's share of so many bytes begins: with a line, where elements allow. */
static size_t share(const struct sum *s, unsigned rank, size_t len)
{
	size_t each = s->m->sum.element, unit = each < LINE ? LINE / each * each : each;
	size_t units = (len + unit - 1) / unit;
	size_t at = units * rank / s->m->ranks * unit;
	return at < len ? at : len;
}

static void add_share(const struct sum *s, uint64_t k)
{
	const struct sn_meet *m = s->m;
	size_t end = share(s, m->rank + 1, length(s, k));
	for (size_t at = share(s, m->rank, length(s, k)), n; at < end; at += n) {
		char *to = placed(s, m->ranks, k) + at, *sum = m->far.far ? m->sums : to;
		n = chunk_of(s, end - at);
		sn_copy_between(sum, operand(s, 0, k) + at, sn_long_filled(m, n));
		for (unsigned r = 1; r < m->ranks; r++)
			sn_long_add(s->m, s->c, operand(s, r, k) + at, sum, n);
		if (sum == m->sums)
			sn_copy_bypass(to, sum, n);
	}
}

/* ---- the call ---- */

static bool other_in_place(const struct sum *s)
{
	return s->m->mem->words[!s->m->rank].in_place[s->m->calls & 1] != 0;
}

/*
 * Both have their operands where the sum is to be, in memory that the other reads. Each makes the sum of its half, which
 * nobody else reads any more, and then fetches the other's, of which all has been read that was there. Two pieces at least
 * there are, so the last two counts are these two steps.
 */
static int by_halves(const struct sum *s)
{
	const struct sn_meet *m = s->m;
	size_t half = share(s, 1, s->len), begin = m->rank ? half : 0, end = m->rank ? s->len : half;
	const char *other = s->lent[!m->rank];
	add_two(s, (m->rank ? other : s->to) + begin, (m->rank ? s->to : other) + begin, s->to + begin,
		end - begin);
	sn_meet_say(s->m, &s->mine->done, s->end - 1);
	int rc = await_done(s, s->end - 1);
	if (rc)
		return rc;
	if (m->rank)
		sn_copy_between(s->to, other, half);
	else
		sn_copy_between(s->to + half, other + half, s->len - half);
	sn_meet_say(s->m, &s->mine->done, s->end);
	return await_done(s, s->end);
}

static int of_two(struct sum *s)
{
	int rc;
	for (uint64_t k = s->first; k < s->end; k++) {
		place(s, k);
		if (!s->lends) {
			if (k > 1 && (rc = await_done(s, k - 1)))
				return rc;
			bring(s, k);
			sn_meet_say(s->m, &s->mine->here, k + 1);
		}
		if ((rc = await_here(s, k + 1)))
			return rc;
		if (k == s->first && s->to && !find_lent(s))
			return cannot_read(s);
		if (k == s->first && s->in_place && other_in_place(s))
			return by_halves(s);
		if (s->in_place && (rc = await_done(s, k + 1))) /* the other reads what is written over */
			return rc;
		if (s->to)
			add_both(s, k);
		sn_meet_say(s->m, &s->mine->done, k + 1);
	}
	if (s->lends)
		return s->rooted && s->to ? 0 : await_done(s, s->end);
	/*
	 * who lends is here for all pieces at once, and may have read none of the last two, of which one's place is
	 * next but one
	 */
	return s->rooted || s->lent[!s->m->rank] ? await_done(s, s->end - 1) : 0;
}

/* The next piece of this rank's is brought along before the others are waited for. */
static int of_many(struct sum *s)
{
	for (uint64_t k = s->first; k < s->end; k++) {
		if (k == s->first) {
			place(s, k);
			if (!s->lends) {
				bring(s, k);
				sn_meet_say(s->m, &s->mine->here, k + 1);
			}
		}
		int rc = await_here(s, k + 1);
		if (rc)
			return rc;
		if (k == s->first && !find_lent(s))
			return cannot_read(s);
		add_share(s, k);
		const char *sum = placed(s, s->m->ranks, k);
		if (k + 1 < s->end) {
			place(s, k + 1);
			if (!s->lends) {
				bring(s, k + 1);
				atomic_store_explicit(&s->mine->here, k + 2, memory_order_release);
			}
		}
		sn_meet_say(s->m, &s->mine->done, k + 1);
		if ((rc = await_done(s, k + 1)))
			return rc;
		if (s->to)
			sn_long_out(s->m, s->c, s->to + offset(s, k), sum, length(s, k));
	}
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* At the next rank's line, or of more than two at another's each time. */
static void look_far(struct sn_meet *m)
{
	uint64_t start = now_ns();
	unsigned turn = m->ranks > 2 ? (unsigned)(m->calls / CLOCKED % (m->ranks - 1)) : 0;
	if (!sn_far_asks(&m->far, start))
		return;
	start = now_ns();
	uint64_t calls = atomic_load(&m->mem->words[(m->rank + 1 + turn) % m->ranks].calls);
	uint64_t took = now_ns() - start;
	if (took >= SAME_NS)
		sn_far_look(&m->far, start, calls, took);
}

int sn_long_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to)
{
	bool two = m->ranks == 2, rooted = c->kind == SN_REDUCE,
	     root = rooted && m->rank == (unsigned)c->root;
	bool in_place = sn_mpi_in_place(from), nowhere = root && (!to || from == to || sn_mpi_in_place(to));
	struct sum s = {.m = m,
			.c = c,
			.mine = &m->mem->words[m->rank],
			.from = !in_place ? from
				: nowhere ? NULL
					  : to,
			.to = (rooted && !root) || nowhere ? NULL : to,
			.rooted = rooted};
	if (!likely(!atomic_load_explicit(&m->mem->failed, memory_order_relaxed)))
		return sn_proof_failed(c->comm);
	s.gpu = sn_meet_gpu(m, c);
	s.len = m->sum.element * (size_t)c->count;
	s.piece = SN_MEET_PIECE / m->sum.element * m->sum.element;
	s.first = m->pieces;
	s.end = m->pieces += (s.len + s.piece - 1) / s.piece;
	bool alone = two && root; /* nobody reads its operand: it is here for all pieces at once */
	bool halves = two && in_place && !rooted && s.end - s.first > 1 && !sn_long_is_odd(&m->sum);
	s.lends = !s.gpu && (alone || (m->lends && (halves || !(two && in_place)) &&
				       sn_lend_holds(&m->heap, s.from, s.len)));
	s.in_place = halves && s.lends;
	atomic_store_explicit(&s.mine->calls, ++m->calls, memory_order_relaxed);
	s.mine->at[m->calls & 1] = s.lends && !alone ? (uintptr_t)s.from : 0;
	s.mine->in_place[m->calls & 1] = s.in_place;
	if (s.lends)
		sn_meet_say(m, &s.mine->here, s.end);
	if (m->calls % CLOCKED == 0)
		look_far(m);
	int rc = two ? of_two(&s) : of_many(&s);
	bool period = s.first / SN_MEET_PERIOD != s.end / SN_MEET_PERIOD;
	if (!rc && (period || sn_elsewhere_is_due()))
		sn_meet_look(m);
	/* the others do not know it, so this root has taken part */
	return likely(!nowhere) || rc ? rc : sn_meet_no_buffer(c->comm, m->rank, "MPI_Reduce");
}
