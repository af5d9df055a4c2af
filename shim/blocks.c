/* SPDX-License-Identifier: BSD-3-Clause */
#include "blocks.h"
#include "here.h"
#include "types.h"
#include <stdio.h>

/* Of the ring. Whoever shares a core with others has the use of their caches, and pages that nobody has written are dear. */
#define LAP ((size_t)64 << 10)

/* ---- which calls ---- */

struct blocks {
	struct sn_meet *m;
	const struct sn_collective *c;
	const struct sn_meet_type *out, *in;
	const char *from;
	char *to;
	size_t len;  /* of one, as this rank wants it, or of the longest; all ranks must have the same */
	size_t sent; /* of one that this rank sends: not longer */
	bool each;   /* one for each rank, else the same for all */
	bool in_place;
};

/* Of that rank's, as this one wants it. */
static inline size_t len_of(const struct blocks *b, unsigned rank)
{
	return b->c->counts ? sn_type_bytes(b->in, b->c->counts[rank]) : b->len;
}

/* Of MPI_Allgatherv, where all ranks know all lengths; of the others the same for all. */
static size_t longest(const struct sn_meet_type *in, const struct sn_collective *c, unsigned ranks)
{
	int most = c->in_count;
	for (unsigned r = 0; c->counts && r < ranks; r++)
		most = c->counts[r] > most ? c->counts[r] : most;
	return sn_type_bytes(in, most);
}

/* What a rank brings along, with room for the one that stays here. */
static size_t brought(bool each, size_t len, unsigned ranks)
{
	return each ? ranks * len : len;
}

/*
 * What all ranks say alike: by how long a block is that they want, and by nothing else, whatever else may be wrong on
 * one of them.
 */
static bool fits(const struct sn_meet_type *in, const struct sn_collective *c, unsigned ranks)
{
	size_t len = longest(in, c, ranks);
	return len && len <= SN_MEET_BLOCK && brought(c->kind == SN_ALLTOALL, len, ranks) <= SN_MEET_BLOCKS;
}

static inline struct blocks blocks_of(struct sn_meet *m, const struct sn_collective *c, const void *from,
				      const void *to)
{
	struct sn_meet_type *last = m->types;
	struct blocks b = {
		.m = m, .c = c, .from = from, .to = (char *)(uintptr_t)to, .each = c->kind == SN_ALLTOALL};
	b.in_place = sn_mpi_in_place(from);
	b.in = sn_type_of(&last[0], c->in_type, c->generation);
	b.out = b.in_place ? b.in : sn_type_of(&last[1], c->type, c->generation);
	b.len = longest(b.in, c, m->ranks);
	b.sent = b.in_place ? len_of(&b, m->rank) : sn_type_bytes(b.out, c->count);
	return b;
}

/* Of this rank alone: what MPI does not allow, or would read or write where nothing is. Memory at 0 is where types say. */
static bool wrong(const struct blocks *b)
{
	const struct sn_collective *c = b->c;
	bool sends =
		b->in_place || (c->count >= 0 && (b->out->size || !c->count) &&
				b->sent <= len_of(b, b->m->rank) && (b->from || !b->sent || !b->out->plain));
	return !sends || sn_type_nowhere(b->in, b->to);
}

static struct sn_meet *first_of(const struct sn_collective *c)
{
	int ranks;
	struct sn_meet_type in = sn_type_find(c->in_type, c->generation);
	/* of two groups: then there are other counts than ranks */
	if (c->counts && !sn_meet_ranks(c))
		return NULL;
	if (!fits(&in, c, 1) || sn_proof_mpi.comm_size(c->comm, &ranks) || ranks < 2)
		return NULL;
	return fits(&in, c, (unsigned)ranks) ? sn_meet_after(c->comm) : NULL;
}

struct sn_meet *sn_blocks_of(const struct sn_collective *c)
{
	if (likely((c->kind != SN_ALLTOALL && c->kind != SN_ALLGATHER && c->kind != SN_ALLGATHERV) ||
		   !sn_here_all))
		return NULL;
	if (c->kind == SN_ALLGATHERV && (!c->counts || !c->displs))
		return NULL;
	struct sn_meet *m = sn_meet_known(c, first_of);
	if (!m)
		return NULL;
	return likely(fits(sn_type_of(&m->types[0], c->in_type, c->generation), c, m->ranks)) ? m : NULL;
}

/* ---- blocks ---- */

static inline struct sn_meet_line *line_of(const struct sn_meet *m, unsigned rank)
{
	return sn_meet_line(m, m->call & 1, rank);
}

/* Where a rank's begin in this call. at: in its ring. */
static inline char *place(const struct sn_meet *m, unsigned rank, size_t all, size_t at)
{
	struct sn_meet_line *l = line_of(m, rank);
	return all <= SN_MEET_SHORT  ? l->data
	       : all <= SN_MEET_ROOM ? sn_meet_rest(m, l)
				     : sn_meet_ring(m, rank) + at;
}

/* All ranks go through the ring alike. */
static size_t next_place(struct sn_meet *m, size_t all)
{
	return all <= SN_MEET_ROOM ? 0 : sn_meet_next(m, all, 3 * all > LAP ? 3 * all : LAP);
}

/* Of the one that is for this rank. */
static inline size_t offset(const struct blocks *b, unsigned rank)
{
	return b->each ? rank * b->len : 0;
}

static int out(const struct blocks *b, unsigned rank, char *to)
{
	int count = b->in_place ? b->c->in_count : b->c->count;
	unsigned nth = b->each || b->in_place ? rank : 0;
	const char *base = b->in_place ? b->to : b->from;
	if (b->in_place && b->c->counts)
		return sn_type_out(b->m, b->c, b->out, base + (intptr_t)b->c->displs[rank] * b->out->extent,
				   b->c->counts[rank], to, b->sent);
	return sn_type_out(b->m, b->c, b->out, base + (intptr_t)nth * count * b->out->extent, count, to,
			   b->sent);
}

/* len: what was sent, whole elements. */
static int in(const struct blocks *b, unsigned rank, const char *from, size_t len)
{
	const int *displs = b->c->displs;
	intptr_t items = displs ? displs[rank] : (intptr_t)rank * b->c->in_count;
	char *to = b->to + items * b->in->extent;
	return sn_type_in(b->m, b->c, b->in, to, from, len);
}

static int bring(const struct blocks *b, char *to)
{
	const struct sn_meet *m = b->m;
	int rc = 0;
	if (!b->each)
		return out(b, m->rank, to);
	for (unsigned r = 0; r < m->ranks && !rc; r++)
		if (r != m->rank)
			rc = out(b, r, to + offset(b, r));
	return rc;
}

/*
 * What stays with this rank: straight, or by way of where it is packed. Before anything is taken, as some programs
 * have one buffer for both.
 */
static int own(const struct blocks *b, char *place)
{
	unsigned me = b->m->rank;
	char *packed = place + offset(b, me);
	int rc = 0;
	if (b->in_place)
		return 0;
	if (likely(b->out->plain && b->sent == len_of(b, me)))
		return in(b, me, b->from + (b->each ? (size_t)me * b->sent : 0), b->sent);
	if (b->each)
		rc = out(b, me, packed);
	return rc ? rc : in(b, me, packed, b->sent);
}

/* ---- the call ---- */

/*
 * What a rank says of its call: how long a block is that it wants, and that it sends, and of which kind; or that it
 * brings nothing.
 */
#define SENT_SHIFT 20
#define LENGTH	   ((UINT64_C(1) << SENT_SHIFT) - 1)
#define EACH	   (UINT64_C(1) << 40)
#define NOTHING	   (UINT64_C(1) << 41)
#define VARY	   (UINT64_C(1) << 42) /* the first is that of the longest */
#define KIND	   (LENGTH | EACH | VARY)

static inline uint64_t said(const struct blocks *b, size_t sent)
{
	return b->len | (uint64_t)sent << SENT_SHIFT | (b->each ? EACH : 0) | (b->c->counts ? VARY : 0);
}

static size_t said_sent(uint64_t said)
{
	return said >> SENT_SHIFT & LENGTH;
}

/*
 * With blocks of other lengths nobody knows where the others are in their rings from here on: then each later one of
 * these calls is an error.
 */
static const char *name_of(uint64_t said)
{
	return said & EACH ? "MPI_Alltoall" : said & VARY ? "MPI_Allgatherv" : "MPI_Allgather";
}

static __attribute__((noinline)) int differs(const struct blocks *b, unsigned rank, uint64_t theirs)
{
	if (theirs & NOTHING)
		fprintf(stderr, "sennit: rank %u of a communicator has nothing for %s that MPI allows\n",
			rank, name_of(said(b, 0)));
	else if (theirs == said(b, said_sent(theirs))) /* and what others send may be alike, too */
		fprintf(stderr,
			"sennit: rank %u of a communicator wants %zu bytes of rank %u in %s, which sends "
			"%zu: all ranks must have the same\n",
			b->m->rank, len_of(b, rank), rank, name_of(theirs), said_sent(theirs));
	else
		fprintf(stderr,
			"sennit: rank %u of a communicator is in %s with blocks of %zu bytes, rank %u in %s "
			"with "
			"blocks of %zu, of which it sends %zu: all ranks must have the same\n",
			b->m->rank, name_of(said(b, 0)), b->len, rank, name_of(theirs),
			(size_t)(theirs & LENGTH), said_sent(theirs));
	if ((theirs ^ said(b, 0)) & KIND)
		atomic_store(&b->m->mem->failed, 1);
	return sn_proof_failed(b->c->comm);
}

/* Shorter ones than are wanted are no error to MPIs that send messages. */
static bool is_shorter(const struct blocks *b, unsigned rank, uint64_t theirs)
{
	size_t sent = said_sent(theirs);
	return theirs == said(b, sent) && sent < len_of(b, rank) && sent % (size_t)b->in->size == 0;
}

static int take(const struct blocks *b, unsigned rank, size_t all, size_t at)
{
	const struct sn_meet_line *line = line_of(b->m, rank);
	int rc = sn_meet_await(b->m, b->c->comm, rank, &line->call, b->m->call);
	if (!likely(!rc))
		return rc;
	if (!likely(line->said == said(b, len_of(b, rank))) && !is_shorter(b, rank, line->said))
		return differs(b, rank, line->said);
	return in(b, rank, place(b->m, rank, all, at) + offset(b, b->m->rank), said_sent(line->said));
}

/*
 * Where all say that they have nothing it is for the MPI to tell them. And whoever leaves with an error has seen all
 * others come, too, as those do who write next: somebody may still read what was there two calls ago.
 */
static __attribute__((noinline)) int leave(const struct blocks *b, bool nothing, int error)
{
	const struct sn_meet *m = b->m;
	bool alike = nothing;
	int rc = 0;
	for (unsigned r = 0; r < m->ranks && !rc; r++) {
		const struct sn_meet_line *line = line_of(m, r);
		if (error && atomic_load(&m->mem->failed)) /* then nobody writes any more */
			return error;
		rc = sn_meet_await(b->m, b->c->comm, r, &line->call, m->call);
		if (!rc && (line->said ^ said(b, 0)) & KIND)
			atomic_store(&m->mem->failed, 1);
		alike &= (line->said & NOTHING) != 0;
	}
	if (error)
		return error;
	return rc ? rc : alike ? SN_MEET_MPIS : differs(b, m->rank, said(b, 0) | NOTHING);
}

int sn_blocks_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to)
{
	struct blocks b = blocks_of(m, c, from, to);
	size_t all = brought(b.each, b.len, m->ranks);
	if (!likely(!atomic_load_explicit(&m->mem->failed, memory_order_relaxed)))
		return sn_proof_failed(c->comm);
	m->call++;
	size_t at = next_place(m, all);
	struct sn_meet_line *mine = line_of(m, m->rank);
	char *place_of_mine = place(m, m->rank, all, at);
	bool none = wrong(&b);
	int rc = none ? 0 : bring(&b, place_of_mine);
	mine->said = none || rc ? said(&b, 0) | NOTHING : said(&b, b.sent);
	sn_meet_say(m, &mine->call, m->call);
	if (!rc && likely(!none))
		rc = own(&b, place_of_mine);
	for (unsigned k = 1; k < m->ranks && !rc && !none; k++)
		rc = take(&b, (m->rank + k) % m->ranks, all, at);
	if (!likely(!rc && !none))
		return leave(&b, none, rc);
	sn_meet_called(m, m->call);
	return 0;
}
