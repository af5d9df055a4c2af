/* SPDX-License-Identifier: BSD-3-Clause */
#include "here.h"
#include "long.h"
#include "own.h"
#include "seen.h"
#include "told.h"
#include "types.h"
#include "underway.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define NOTHING UINT64_C(0xffffff) /* in place of the bytes that are sent */

struct sn_begun_mpi sn_begun_mpi;

/* ---- which calls ---- */

static void find(void)
{
	void *found[] = {sn_mpi_find("PMPI_Type_contiguous"), sn_mpi_find("PMPI_Type_commit"),
			 sn_mpi_find("PMPI_Type_free"), sn_mpi_find("PMPI_Sendrecv")};
	memcpy(&sn_begun_mpi, found, sizeof(found));
}

/*
 * How a status is written must have been seen, for requests of ours to be given, and most often that is so by now. If not, a
 * message to oneself shows it; and what is left of a request that has ended is as it was taken to be.
 */
static void learn(void)
{
	char out[3] = "ab", in[sizeof(out)];
	uint64_t status[8] = {0};
	handle byte = sn_mpi_handle(SN_BYTE), self = sn_mpi_handle(SN_COMM_SELF);
	if (!status_seen() && byte && self &&
	    !sn_begun_mpi.sendrecv(out, sizeof(out), byte, 0, 5, in, sizeof(in), byte, 0, 5, self, status) &&
	    status_is(status, 0, 5, sizeof(out)))
		atomic_store(&sn_mpi_status_seen, true);
	if (!sn_requests_about() && sn_own_mpi[WAIT].symbol) {
		handle request = sn_told_request(0, 0, 0, 0);
		if (!sn_own_mpi[WAIT].wait(&request, sn_mpi_no_status()))
			sn_own_switch_on(at(&request, 0));
	}
}

/*
 * With threads MPICH's requests cannot be ended where it reads its queue: it holds a lock then that it might take again.
 */
bool sn_begun_may(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
	bool may = sn_begun_mpi.type_contiguous && sn_begun_mpi.type_commit && sn_begun_mpi.type_free &&
		   sn_begun_mpi.sendrecv &&
		   (threads() == ONE || (threads() == SEVERAL && sn_mpi_family == OPEN_MPI));
	if (may)
		learn();
	return may;
}

static inline bool is_sum(const struct sn_collective *c)
{
	return c->kind == SN_ALLREDUCE || c->kind == SN_REDUCE;
}

static inline bool is_root(const struct sn_meet *m, const struct sn_collective *c)
{
	return (unsigned)c->root == m->rank;
}

/* One block for each rank. */
static inline bool is_each(const struct sn_collective *c)
{
	return c->kind == SN_ALLTOALL || c->kind == SN_SCATTER;
}

static inline size_t brought(const struct sn_collective *c, size_t len, unsigned ranks)
{
	return is_each(c) ? len * ranks : len;
}

static inline bool fits(const struct sn_collective *c, size_t len, unsigned ranks)
{
	return c->kind == SN_BARRIER || (len && brought(c, len, ranks) <= SN_MEET_BRINGS);
}

/* Of a block or an operand, as all ranks say it; types: what came in this communicator's last call, and what went. */
static inline size_t len_of(struct sn_meet_type types[2], const struct sn_collective *c, bool root)
{
	bool in = sn_says_by_in(c->kind, root);
	if (c->kind == SN_BARRIER)
		return 0;
	const struct sn_meet_type *t = in ? sn_type_of(&types[0], c->in_type, c->generation)
					  : sn_type_of(&types[1], c->type, c->generation);
	return sn_type_bytes(t, in ? c->in_count : c->count);
}

static inline bool root_is_one(const struct sn_collective *c, unsigned ranks)
{
	return !sn_has_root(c->kind) || (unsigned)c->root < ranks;
}

/* Of a communicator whose ranks have not been asked. */
static struct sn_meet *count(const struct sn_collective *c)
{
	struct sn_meet_type types[2] = {{0}, {0}};
	struct sn_collective any = {.comm = c->comm};
	struct sn_long_form f = {.any_order = true};
	int rank;
	if (is_sum(c)) {
		f = sn_long_form(c->type, c->op, c->generation);
		if (!f.element || sn_long_is_odd(&f))
			return NULL;
	}
	if (sn_meet_counted(c->comm, !f.any_order))
		return NULL;
	unsigned ranks = sn_meet_ranks(&any);
	if (ranks < 2 || ranks > SN_MEET_RANKS) { /* or of two groups */
		sn_meet_never(c->comm);
		return NULL;
	}
	if (root_is_one(c, ranks) && !sn_proof_mpi.comm_rank(c->comm, &rank) &&
	    fits(c, len_of(types, c, rank == c->root), ranks))
		sn_meet_counts(c->comm, !f.any_order);
	return NULL;
}

/* The MPI has made some, whose bits this one's would have to be. */
static bool goes_on(const struct sn_meet *m, const struct sn_collective *c)
{
	if (likely(!m->sums_went) || m->ranks == 2)
		return false;
	return !sn_long_form(c->type, c->op, c->generation).any_order;
}

struct sn_meet *sn_begun_of(const struct sn_collective *c)
{
	if (!likely(sn_here_all))
		return NULL;
	struct sn_meet *m = sn_meet_known(c, count);
	if (!m || !m->begins || !root_is_one(c, m->ranks))
		return NULL;
	if (is_sum(c) && (c->count <= 0 || c->count > SN_MEET_BRINGS || goes_on(m, c)))
		return NULL;
	if (is_sum(c) && (!sn_long_element_of(m, c) || sn_long_is_odd(&m->sum)))
		return NULL;
	size_t len = is_sum(c) ? m->sum.element * (size_t)c->count : len_of(m->begun_types, c, is_root(m, c));
	return fits(c, len, m->ranks) ? m : NULL;
}

/* ---- what is brought along ---- */

/* What a rank says of its call: all but what it sends must be the same; it may have sent less. */
#define SENT UINT64_C(0xffffff)

static inline uint64_t said(const struct sn_begun *b, uint64_t sent)
{
	uint64_t root = sn_has_root(b->c.kind) ? (unsigned)b->c.root : 0;
	return (uint64_t)b->c.kind << 56 | root << 48 | (uint64_t)b->len << 24 | sent;
}

static inline bool brings(const struct sn_begun *b, bool root)
{
	return root || !sn_begun_is_of_one(&b->c);
}

/* Whoever has it in place at the root of a scatter has it where it is, as who broadcasts. */
static inline bool reads(const struct sn_begun *b, bool root)
{
	switch (b->c.kind) {
	case SN_BCAST: return !root;
	case SN_SCATTER: return !root || !b->in_place;
	case SN_REDUCE:
	case SN_GATHER: return root;
	default: return true;
	}
}

/* *sent: bytes of a block. A root that gathers brings nothing that it has in place. */
static int bring(const struct sn_begun *b, const void *from, char *to, uint64_t *sent)
{
	struct sn_meet *m = b->m;
	const struct sn_collective *c = &b->c;
	bool in_place = b->in_place && c->kind != SN_SCATTER, each = is_each(c);
	const char *base = in_place || c->kind == SN_BCAST ? b->to : from;
	int count = in_place ? c->in_count : c->count, rc = 0;
	*sent = b->len;
	if (c->kind == SN_BARRIER || (c->kind == SN_GATHER && in_place))
		return 0;
	if (is_sum(c)) {
		if (!base)
			return MPI_ERR_TYPE;
		sn_meet_copy(m, c, to, base, b->len);
		return 0;
	}
	const struct sn_meet_type *t =
		sn_type_of(&m->begun_types[in_place ? 0 : 1], in_place ? c->in_type : c->type, c->generation);
	*sent = sn_type_bytes(t, count);
	if (!t->size || *sent > b->len || (!base && t->plain))
		return MPI_ERR_TYPE;
	if (c->kind == SN_ALLGATHER && in_place)
		base += (intptr_t)m->rank * count * t->extent;
	for (unsigned r = 0; r < (each ? m->ranks : 1) && !rc; r++)
		if (!each || !b->in_place || r != m->rank)
			rc = sn_type_out(m, c, t, base + (intptr_t)r * count * t->extent, count,
					 to + r * b->len, *sent);
	return rc;
}

/* ---- what others have ---- */

static struct sn_agree_name call_named(uint64_t said)
{
	return sn_agree_name((int)(said >> 56), true);
}

static __attribute__((noinline)) bool differs(const struct sn_begun *b, unsigned rank, uint64_t theirs)
{
	uint64_t mine = said(b, 0);
	if ((theirs & SENT) == NOTHING)
		fprintf(stderr, "sennit: rank %u of a communicator has nothing for %s that MPI allows\n",
			rank, call_named(theirs).text);
	else
		fprintf(stderr,
			"sennit: rank %u of a communicator is in %s of %u bytes (root %u), rank %u in %s of "
			"%u (root %u), and brings %u: all ranks must have the same\n",
			b->m->rank, call_named(mine).text, (unsigned)b->len, (unsigned)(mine >> 48 & 255),
			rank, call_named(theirs).text, (unsigned)(theirs >> 24 & SENT),
			(unsigned)(theirs >> 48 & 255), (unsigned)(theirs & SENT));
	return false;
}

static bool is_right(const struct sn_begun *b, unsigned rank)
{
	uint64_t theirs = sn_begun_line_with(b->m, rank, b->call)->said, sent = theirs & SENT;
	size_t unit = b->in.size > 0 ? (size_t)b->in.size : 1;
	bool right = likely(theirs == said(b, b->len)) ||
		     ((theirs ^ said(b, 0)) <= SENT && sent < b->len && sent % unit == 0);
	return right || differs(b, rank, theirs);
}

static const char *data_of(const struct sn_begun *b, unsigned rank)
{
	struct sn_meet_line *l = sn_begun_line_with(b->m, rank, b->call);
	return sn_meet_begun_room(b->m, rank, l, brought(&b->c, b->len, b->m->ranks));
}

/* In place in all ranks' lines each operand stays as it is. */
static void sum(const struct sn_begun *b)
{
	struct sn_meet *m = b->m;
	const struct sn_collective *c = &b->c;
	char *sum = sn_meet_gpu(m, c) ? m->sums : b->to;
	memcpy(sum, data_of(b, m->ranks - 1), b->len);
	for (unsigned r = m->ranks - 1; r-- > 0;)
		sn_proof_mpi.reduce_local(data_of(b, r), sum, c->count, c->type, c->op);
	if (!likely(sum == b->to))
		sn_meet_copy(m, c, b->to, sum, b->len);
}

static int take(const struct sn_begun *b, unsigned rank)
{
	const struct sn_collective *c = &b->c;
	intptr_t items = sn_begun_is_of_one(c) ? 0 : (intptr_t)rank * c->in_count;
	size_t sent = sn_begun_line_with(b->m, rank, b->call)->said & SENT;
	if (b->in_place && rank == b->m->rank)
		return 0;
	return sn_type_in(b->m, c, &b->in, b->to + items * b->in.extent,
			  data_of(b, rank) + (is_each(c) ? b->m->rank * b->len : 0), sent);
}

/* All have come. */
bool sn_begun_finish(const struct sn_begun *b)
{
	unsigned begin = sn_begun_is_of_one(&b->c) ? (unsigned)b->c.root : 0, end = sn_begun_end(b);
	bool right = true;
	for (unsigned r = begin; r < end && right; r++)
		right = is_right(b, r);
	if (!right || b->c.kind == SN_BARRIER)
		return right;
	if (is_sum(&b->c))
		sum(b);
	for (unsigned r = begin; r < end && right && !is_sum(&b->c); r++)
		right = !take(b, r);
	return right;
}

/* ---- the call ---- */

static void post(struct sn_begun *b, const void *from)
{
	struct sn_meet *m = b->m;
	uint64_t sent = 0;
	size_t len = brought(&b->c, b->len, m->ranks);
	struct sn_meet_line *line = sn_underway_line(m);
	struct sn_begun_held *held = likely(line) ? NULL : sn_underway_hold(m, b->call, len);
	if (!likely(line || held)) {
		b->failed = true;
		return;
	}
	char *room = likely(line) ? sn_meet_begun_room(m, m->rank, line, len) : held->data;
	b->failed = b->failed || bring(b, from, room, &sent) != 0;
	uint64_t says = said(b, b->failed ? NOTHING : sent);
	if (likely(line))
		sn_underway_post(m, line, b->call, says);
	else
		held->said = says;
}

/* What lies in it is looked for at once: of two ranks it is there for one of them. */
static struct sn_begun *begin(struct sn_begun *b, const void *from)
{
	struct sn_meet *m = b->m;
	bool root = is_root(m, &b->c);
	b->call = m->begun + 1;
	b->next = sn_begun_is_of_one(&b->c) ? (unsigned)b->c.root : 0;
	if (brings(b, root))
		post(b, from);
	m->begun = b->call;
	if (!b->failed && !sn_begun_may_end(b)) {
		struct sn_begun *kept = sn_underway_keep(b);
		b->failed = !kept;
		return kept;
	}
	b->failed = b->failed || (b->reads && !sn_begun_finish(b));
	sn_underway_say_done(m);
	return NULL;
}

static int give(struct sn_begun *b, void *request)
{
	if (b) {
		if (!sn_requests_begin(b, request))
			put(request, 0, sn_begun_real(b));
	} else if (likely(sn_requests_are_ready())) {
		sn_requests_complete(request);
	} else {
		put(request, 0, sn_told_request(sn_mpi_any_source(), sn_mpi_any_tag(), 0, 0));
	}
	return 0;
}

/* Of where this rank's is to be put, or is in place, what MPI does not allow. */
static bool is_wrong(const struct sn_begun *b, bool root)
{
	const struct sn_collective *c = &b->c;
	if (b->in_place && (c->kind == SN_GATHER || c->kind == SN_REDUCE || c->kind == SN_SCATTER) && !root)
		return true;
	if (!b->reads || c->kind == SN_BARRIER)
		return false;
	return is_sum(c) ? !b->to || sn_mpi_in_place(b->to) : !b->in.size || sn_type_nowhere(&b->in, b->to);
}

int sn_begun_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to, void *request)
{
	bool root = is_root(m, c);
	struct sn_begun b = {.m = m, .c = *c, .to = to, .so_far.number = m->noted};
	b.in_place = sn_mpi_in_place(c->kind == SN_SCATTER ? to : from);
	if (!likely(!atomic_load_explicit(&m->mem->failed, memory_order_relaxed)))
		return sn_proof_failed(c->comm);
	bool entered = sn_underway_enter();
	b.len = is_sum(c) ? m->sum.element * (size_t)c->count : len_of(m->begun_types, c, root);
	b.reads = reads(&b, root);
	if (b.reads && c->kind != SN_BARRIER && !is_sum(c)) {
		bool in = c->kind != SN_BCAST;
		b.in = *sn_type_of(&m->begun_types[in ? 0 : 1], in ? c->in_type : c->type, c->generation);
	}
	b.failed = is_wrong(&b, root);
	struct sn_begun *kept = begin(&b, from);
	sn_underway_leave(entered);
	if (m->begun % SN_MEET_PERIOD == 0)
		sn_meet_look(m);
	if (!likely(!b.failed))
		return sn_proof_failed(c->comm);
	return give(kept, request);
}
