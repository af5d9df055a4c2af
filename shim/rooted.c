/* SPDX-License-Identifier: BSD-3-Clause */
#include "rooted.h"
#include "agree.h"
#include "base/copy.h"
#include "beside.h"
#include "here.h"
#include "long.h"
#include "types.h"
#include <stdio.h>

#define SAYS 4 /* calls, with the last of which a rank says how far it is */
_Static_assert(SAYS <= SN_MEET_PLACES, "a rank waits for what is said before its call");

#define PIECES 8 /* of an operand, at most, so that who adds it begins while it is still being written */
#define PIECE  ((size_t)SN_MEET_PLACE / PIECES)

#define NOTHING UINT64_MAX	 /* in place of the length: this rank has none */
#define LONG	(UINT64_MAX - 1) /* it comes as a message, beside */
#define ALL	255		 /* in place of the root: each rank reads what others bring along */
_Static_assert(ALL >= SN_MEET_RANKS, "no rank's number");

/* ---- which calls ---- */

/* Of a block, as this rank says it; where it brings it along in place it is the root, and says it as one that it gets. */
static size_t block(const struct sn_collective *c, const void *from, struct sn_meet_type last[2])
{
	bool in_place = sn_mpi_in_place(from);
	return sn_type_bytes(
		sn_type_of(&last[in_place ? 0 : 1], in_place ? c->in_type : c->type, c->generation),
		in_place ? c->in_count : c->count);
}

static inline bool is_for_all(const struct sn_collective *c)
{
	return c->kind >= SN_SCAN && c->kind <= SN_REDUCE_SCATTER_BLOCK;
}

static inline bool is_sum(const struct sn_collective *c)
{
	return c->kind <= SN_REDUCE_SCATTER_BLOCK;
}

static inline bool fits(const struct sn_collective *c, size_t len, unsigned ranks)
{
	size_t most = c->kind == SN_GATHER ? SN_MEET_BLOCK : SN_MEET_PLACE;
	return len && len <= most && ranks > 1 && c->root >= 0 && (unsigned)c->root < ranks;
}

/* That each of so many ranks brings along; 0: a count is none that MPI allows. */
static size_t elements(const struct sn_collective *c, unsigned ranks)
{
	size_t all = 0;
	if (c->kind != SN_REDUCE_SCATTER)
		return (size_t)(c->count > 0 ? c->count : 0) *
		       (c->kind == SN_REDUCE_SCATTER_BLOCK ? ranks : 1);
	for (unsigned r = 0; r < ranks; r++) {
		if (!c->counts || c->counts[r] < 0)
			return 0;
		all += (size_t)c->counts[r];
	}
	return all;
}

static struct sn_meet *first_reduce(const struct sn_collective *c)
{
	unsigned ranks = sn_meet_ranks(c);
	struct sn_long_form f = sn_long_form(c->type, c->op, c->generation);
	if (!ranks || !fits(c, f.element * elements(c, ranks), ranks))
		return NULL;
	return f.any_order ? sn_meet_after(c->comm) : sn_meet_here(c->comm);
}

/* What a root brings in place it says by the type that it gets. */
static struct sn_meet *first_gather(const struct sn_collective *c)
{
	unsigned ranks = sn_meet_ranks(c);
	if (!ranks)
		return NULL;
	struct sn_meet_type t = sn_type_find(c->type, c->generation);
	return fits(c, sn_type_bytes(&t, c->count), ranks) ? sn_meet_after(c->comm) : NULL;
}

static struct sn_meet *of_gather(const struct sn_collective *c, const void *from)
{
	struct sn_collective sent = *c;
	if (sn_mpi_in_place(from)) {
		sent.type = c->in_type;
		sent.count = c->in_count;
	}
	struct sn_meet *m = sn_meet_known(&sent, first_gather);
	return m && fits(c, block(c, from, m->types), m->ranks) ? m : NULL;
}

/* Only the root knows all lengths; what is long goes beside, as far as it is so. */
static struct sn_meet *first_gatherv(const struct sn_collective *c)
{
	unsigned ranks = sn_meet_ranks(c);
	return ranks > 1 && (unsigned)c->root < ranks ? sn_meet_after(c->comm) : NULL;
}

static struct sn_meet *of_gatherv(const struct sn_collective *c)
{
	struct sn_meet *m = sn_meet_known(c, first_gatherv);
	bool may = m && c->root >= 0 && (unsigned)c->root < m->ranks;
	return may && sn_beside_made(m, c->comm) ? m : NULL;
}

struct sn_meet *sn_rooted_of(const struct sn_collective *c, const void *from)
{
	if (likely(c->kind < SN_REDUCE || !sn_here_all))
		return NULL;
	if (!is_sum(c))
		return c->kind == SN_GATHER    ? of_gather(c, from)
		       : c->kind == SN_GATHERV ? of_gatherv(c)
					       : NULL;
	if (c->kind != SN_REDUCE_SCATTER && (c->count <= 0 || (size_t)c->count > SN_MEET_PLACE))
		return NULL;
	struct sn_meet *m = sn_meet_known(c, first_reduce);
	return m && fits(c, sn_long_element_of(m, c) * elements(c, m->ranks), m->ranks) ? m : NULL;
}

/* ---- what is brought along ---- */

static inline struct sn_meet_line *line_of(const struct sn_meet *m, unsigned rank)
{
	return sn_meet_up_line(m, m->rooted, rank);
}

static inline const char *brought(const struct sn_meet *m, unsigned rank, size_t len)
{
	return sn_meet_up_room(m, m->rooted, rank, len);
}

static __attribute__((noinline)) int differs(const struct sn_meet *m, const struct sn_collective *c,
					     unsigned rank, uint64_t theirs, size_t len)
{
	struct sn_agree_name name = sn_agree_name(c->kind, false);
	if (theirs == NOTHING)
		return sn_meet_no_buffer(c->comm, rank, name.text);
	fprintf(stderr,
		"sennit: rank %u of a communicator is in %s with %llu bytes, rank %u wants %zu: all "
		"ranks must have the same\n",
		rank, name.text, (unsigned long long)theirs, m->rank, len);
	return sn_proof_failed(c->comm);
}

static int await_done(struct sn_meet *m, handle comm, unsigned rank, uint64_t call)
{
	if (likely(rank == m->rank || m->taken[rank] >= call))
		return 0;
	const _Atomic uint64_t *said = &sn_meet_line(m, 3, rank)->call;
	int rc = sn_meet_await(m, comm, rank, said, call);
	m->taken[rank] = atomic_load(said);
	return rc;
}

/* Who reads in the call that had this place before is done with it. */
static int await_place(struct sn_meet *m, handle comm)
{
	uint64_t before = m->rooted - SN_MEET_PLACES;
	unsigned root = m->roots[m->rooted % SN_MEET_PLACES];
	int rc = 0;
	if (!likely(m->rooted > SN_MEET_PLACES))
		return 0;
	if (root != ALL)
		return await_done(m, comm, root, before);
	for (unsigned r = 0; r < m->ranks && !rc; r++)
		rc = await_done(m, comm, r, before);
	return rc;
}

/* What a root packs, or copies, lies where it would bring it along. */
static int own_room(struct sn_meet *m, const struct sn_collective *c, char **room)
{
	*room = sn_meet_up_room(m, m->rooted, m->rank, SN_MEET_PLACE);
	return await_place(m, c->comm);
}

/* What a rank's word says when so many bytes of its operand are there. */
static inline uint64_t word_of(const struct sn_meet *m, size_t bytes, size_t len)
{
	return m->rooted * PIECES + (likely(bytes >= len) ? PIECES : (bytes + PIECE - 1) / PIECE);
}

static void write_operand(struct sn_meet *m, const struct sn_collective *c, char *room, const char *from,
			  size_t len)
{
	struct sn_meet_line *mine = line_of(m, m->rank);
	size_t at = 0, filled = sn_long_filled(m, len);
	mine->said = len;
	for (; filled - at > PIECE; at += PIECE) {
		sn_meet_copy(m, c, room + at, from + at, PIECE);
		sn_meet_say(m, &mine->call, word_of(m, at + PIECE, len));
	}
	sn_meet_copy(m, c, room + at, from + at, filled - at);
}

/* from: NULL, if this rank has nothing that MPI allows; of a sum. count: of what is no sum. */
static int bring(struct sn_meet *m, const struct sn_collective *c, const char *from, int64_t count,
		 size_t len)
{
	struct sn_meet_line *mine = line_of(m, m->rank);
	char *room = sn_meet_up_room(m, m->rooted, m->rank, len);
	bool nowhere = !is_sum(c) ? sn_type_nowhere(&m->types[1], from) : !from;
	int rc = await_place(m, c->comm);
	if (!likely(!rc))
		return rc;
	if (!nowhere && !is_sum(c))
		rc = sn_type_out(m, c, &m->types[1], from, (int)count, room, len);
	else if (!nowhere)
		write_operand(m, c, room, from, len);
	mine->said = nowhere || rc ? NOTHING : len;
	sn_meet_say(m, &mine->call, word_of(m, len, len));
	return nowhere ? differs(m, c, m->rank, NOTHING, len) : rc;
}

/*
 * Until so many bytes of a rank's, or all, are there: 0 if it has len in all, or, where fewer are no error, whole
 * elements.
 */
static int await_rank(struct sn_meet *m, const struct sn_collective *c, unsigned rank, size_t bytes,
		      size_t len, size_t element)
{
	const struct sn_meet_line *line = line_of(m, rank);
	int rc = sn_meet_await(m, c->comm, rank, &line->call, word_of(m, bytes, len));
	if (likely(!rc && line->said == len))
		return 0;
	if (!rc && (!element || line->said > len || line->said % element))
		rc = differs(m, c, rank, line->said, len);
	return rc;
}

/* To a sum what a rank has brought along; the first one's is the sum. */
static int add(struct sn_meet *m, const struct sn_collective *c, unsigned rank, const char *operand,
	       char *sum, size_t n)
{
	if (rank)
		return sn_long_add(m, c, operand, sum, n);
	if (operand != sum)
		sn_copy_between(sum, operand, sn_long_filled(m, n));
	return 0;
}

/* ---- the root ---- */

/* What of the operands the sum is made of, and of which ranks': the first so many. */
struct part {
	size_t at, len;
	unsigned ranks;
};

/*
 * Chunk by chunk, where the result shall be; but not if this rank's operand is there, and is not the first one, nor in a
 * GPU's memory.
 */
static int sum_up(struct sn_meet *m, const struct sn_collective *c, const struct part *p, const char *own,
		  char *to, size_t len)
{
	size_t most = SN_MEET_SUMS / m->sum.element * m->sum.element;
	bool aside = sn_meet_gpu(m, c) || (own == to && m->rank) || sn_long_has_holes(m);
	int rc = 0;
	for (size_t at = 0, n; at < p->len && !rc; at += n) {
		n = p->len - at < most ? p->len - at : most;
		char *sum = aside ? m->sums : to + at;
		for (unsigned r = 0; r < p->ranks && !rc; r++) {
			const char *operand = (r == m->rank ? own : brought(m, r, len)) + p->at + at;
			if (r == m->rank || !(rc = await_rank(m, c, r, p->at + at + n, len, 0)))
				rc = add(m, c, r, operand, sum, n);
		}
		if (aside && !rc)
			sn_long_out(m, c, to + at, sum, n);
	}
	return rc;
}

/* A GPU's operand is added from where it would be brought along. */
static int reduce(struct sn_meet *m, const struct sn_collective *c, const char *from, char *to, size_t len)
{
	const struct part all = {.len = len, .ranks = m->ranks};
	const char *own = sn_mpi_in_place(from) ? to : from;
	if (sn_meet_gpu(m, c)) {
		char *room;
		int rc = own_room(m, c, &room);
		if (rc)
			return rc;
		sn_meet_copy(m, c, room, own, sn_long_filled(m, len));
		own = room;
	}
	return sum_up(m, c, &all, own, to, len);
}

/* Of this rank's own, that is there already, or it is packed where the others' would be. */
static int gather_own(struct sn_meet *m, const struct sn_collective *c, const char *from, int64_t count,
		      char *to, size_t len)
{
	const struct sn_meet_type *out = &m->types[1], *in = &m->types[0];
	char *room;
	if (sn_mpi_in_place(from))
		return 0;
	if (sn_type_nowhere(out, from))
		return differs(m, c, m->rank, NOTHING, len);
	if (likely(out->plain))
		return sn_type_in(m, c, in, to, from, len);
	int rc = own_room(m, c, &room);
	if (!rc)
		rc = sn_type_out(m, c, out, from, (int)count, room, len);
	return rc ? rc : sn_type_in(m, c, in, to, room, len);
}

static int gather(struct sn_meet *m, const struct sn_collective *c, const char *from, char *to, size_t sent)
{
	const struct sn_meet_type *in = sn_type_of(&m->types[0], c->in_type, c->generation);
	size_t len = sn_type_bytes(in, c->in_count);
	intptr_t each = in->extent * c->in_count;
	if (sent > len || (len && sn_type_nowhere(in, to)))
		return differs(m, c, m->rank, len && sent <= len ? NOTHING : sent, len);
	int rc = gather_own(m, c, from, c->count, to + each * (intptr_t)m->rank, sent);
	for (unsigned k = 1; k < m->ranks && !rc; k++) {
		unsigned r = (m->rank + k) % m->ranks;
		rc = await_rank(m, c, r, len, len, (size_t)in->size);
		size_t theirs = line_of(m, r)->said;
		if (!rc)
			rc = sn_type_in(m, c, in, to + each * (intptr_t)r, brought(m, r, theirs), theirs);
	}
	return rc;
}

/* ---- MPI_Gatherv ---- */

/* Of who is not the root. What MPI does not allow is for it to tell, but for MPI_IN_PLACE, which it takes for an address. */
static int give(struct sn_meet *m, const struct sn_collective *c, const char *from)
{
	const struct sn_meet_type *out = sn_type_of(&m->types[1], c->type, c->generation);
	struct sn_meet_line *mine = line_of(m, m->rank);
	size_t len = sn_type_bytes(out, c->each);
	if (sn_mpi_in_place(from) || (len && len <= SN_MEET_BLOCK && !sn_type_nowhere(out, from)))
		return bring(m, c, from, c->each, len);
	int rc = await_place(m, c->comm);
	if (rc)
		return rc;
	mine->said = c->each ? LONG : 0;
	sn_meet_say(m, &mine->call, word_of(m, 0, 0));
	return c->each ? sn_beside_send(m, c->comm, from, c->each, c->type, c->root) : 0;
}

static char *in_at(const struct sn_meet *m, const struct sn_collective *c, char *to, unsigned rank)
{
	return to + m->types[0].extent * sn_displ_of(&c->in, rank);
}

/* As the root sees it: elements of no bytes are what only the MPI knows. */
static bool is_long(const struct sn_meet *m, const struct sn_collective *c, unsigned rank)
{
	int64_t count = sn_count_of(&c->in, rank);
	size_t len = sn_type_bytes(&m->types[0], count);
	return len > SN_MEET_BLOCK || (count && !len);
}

static int receive(struct sn_beside *b, const struct sn_collective *c, char *to, unsigned rank)
{
	return sn_beside_receive(b, c->comm, in_at(b->m, c, to, rank), sn_count_of(&c->in, rank), c->in_type,
				 (int)rank);
}

/* The long ones can be written from here on. */
static int expect(struct sn_beside *b, const struct sn_collective *c, char *to)
{
	struct sn_meet *m = b->m;
	int rc = 0;
	if (!c->in.counts || !c->in.displs)
		return differs(m, c, m->rank, NOTHING, 0);
	for (unsigned r = 0; r < m->ranks; r++) {
		int64_t count = sn_count_of(&c->in, r);
		if (count < 0 || (count && sn_type_nowhere(&m->types[0], to)))
			return differs(m, c, m->rank, NOTHING, 0);
	}
	for (unsigned r = 0; r < m->ranks && !rc; r++)
		if (r != m->rank && is_long(m, c, r))
			rc = receive(b, c, to, r);
	return rc;
}

/* What stays with the root. What has to be packed, and is long, goes the way of the others. */
static int keep(struct sn_meet *m, const struct sn_collective *c, const char *from, char *to)
{
	if (sn_mpi_in_place(from))
		return 0;
	const struct sn_meet_type *out = sn_type_of(&m->types[1], c->type, c->generation);
	int64_t in_count = sn_count_of(&c->in, m->rank);
	size_t len = sn_type_bytes(out, c->each), wanted = sn_type_bytes(&m->types[0], in_count);
	if (c->each && (!len || (len > SN_MEET_BLOCK && !out->plain)))
		return sn_beside_own(m, c->comm, from, c->each, c->type, in_at(m, c, to, m->rank), in_count,
				     c->in_type);
	if (len > wanted)
		return differs(m, c, m->rank, len, wanted);
	return len ? gather_own(m, c, from, c->each, in_at(m, c, to, m->rank), len) : 0;
}

/*
 * Where a message was expected that does not come others may be under way that would meet a later call's receives: then
 * there are no more of these calls. told: an error of this call, which need not be told again.
 */
static int take_one(struct sn_beside *b, const struct sn_collective *c, char *to, unsigned rank, int told)
{
	struct sn_meet *m = b->m;
	const struct sn_meet_line *line = line_of(m, rank);
	const struct sn_meet_type *in = &m->types[0];
	size_t wanted = sn_type_bytes(in, sn_count_of(&c->in, rank));
	int rc = sn_meet_await(m, c->comm, rank, &line->call, word_of(m, 0, 0));
	if (rc)
		return rc;
	bool expected = is_long(m, c, rank);
	if (line->said == LONG)
		return expected ? 0 : receive(b, c, to, rank);
	if (expected)
		atomic_store(&m->mem->failed, 1);
	if (expected || line->said > wanted || (line->said && line->said % (size_t)in->size))
		return told ? told : differs(m, c, rank, line->said, wanted);
	size_t sent = line->said;
	return sent ? sn_type_in(m, c, in, in_at(m, c, to, rank), brought(m, rank, sent), sent) : 0;
}

static int gatherv(struct sn_meet *m, const struct sn_collective *c, const char *from, char *to)
{
	struct sn_beside b = {.m = m};
	if ((unsigned)c->root != m->rank)
		return give(m, c, from);
	sn_type_of(&m->types[0], c->in_type, c->generation);
	int rc = expect(&b, c, to);
	if (rc) {
		sn_beside_cancel(&b);
		return rc;
	}
	rc = keep(m, c, from, to);
	for (unsigned k = 1; k < m->ranks && !atomic_load(&m->mem->failed); k++) {
		int of_one = take_one(&b, c, to, (m->rank + k) % m->ranks, rc);
		rc = rc ? rc : of_one;
	}
	if (atomic_load(&m->mem->failed)) {
		sn_beside_cancel(&b);
		return rc ? rc : sn_proof_failed(c->comm);
	}
	return sn_beside_wait(&b, c->comm, rc);
}

/* ---- one rank's ---- */

static int take(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to, size_t len)
{
	if (c->kind == SN_GATHER)
		return gather(m, c, from, to, len);
	if (!to || sn_mpi_in_place(to) || !from || from == to)
		return differs(m, c, m->rank, NOTHING, len);
	return reduce(m, c, from, to, len);
}

/* ---- where each rank gets something ---- */

static struct part part_of(const struct sn_meet *m, const struct sn_collective *c, size_t len)
{
	struct part p = {.len = len, .ranks = m->ranks};
	if (c->kind == SN_SCAN) {
		p.ranks = m->rank + 1;
	} else if (c->kind == SN_EXSCAN) {
		p.ranks = m->rank;
	} else if (c->kind == SN_REDUCE_SCATTER) {
		for (unsigned r = 0; r < m->rank; r++)
			p.at += m->sum.element * (size_t)c->counts[r];
		p.len = m->sum.element * (size_t)c->counts[m->rank];
	} else {
		p.len = m->sum.element * (size_t)c->count;
		p.at = p.len * m->rank;
	}
	return p;
}

/* This rank's own operand is read where it has brought it along, as the sum may come in its place. */
static int for_all(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to, size_t len)
{
	struct part p = part_of(m, c, len);
	const void *own = sn_mpi_in_place(from) ? to : from;
	bool gets = p.ranks && p.len; /* else it may have nowhere to put it */
	if ((gets && (!to || from == to)) || sn_mpi_in_place(to))
		own = NULL;
	int rc = bring(m, c, own, 0, len);
	return rc || !gets ? rc : sum_up(m, c, &p, brought(m, m->rank, len), to, len);
}

/* ---- the call ---- */

int sn_rooted_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to)
{
	size_t len = is_sum(c)		    ? m->sum.element * elements(c, m->ranks)
		     : c->kind == SN_GATHER ? block(c, from, m->types)
					    : 0;
	int rc;
	if (!likely(!atomic_load_explicit(&m->mem->failed, memory_order_relaxed)))
		return sn_proof_failed(c->comm);
	m->rooted++;
	if (c->kind == SN_GATHERV)
		rc = gatherv(m, c, from, to);
	else if (is_for_all(c))
		rc = for_all(m, c, from, to, len);
	else if ((unsigned)c->root == m->rank)
		rc = take(m, c, from, to, len);
	else
		rc = bring(m, c, c->kind == SN_REDUCE && sn_mpi_in_place(from) ? NULL : from, c->count, len);
	m->roots[m->rooted % SN_MEET_PLACES] = is_for_all(c) ? ALL : (unsigned char)c->root;
	if (m->rooted % SAYS == 0)
		sn_meet_say(m, &sn_meet_line(m, 3, m->rank)->call, m->rooted);
	if (likely(!rc))
		sn_meet_called(m, m->rooted);
	return rc;
}
