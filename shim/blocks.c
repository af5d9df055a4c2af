/* SPDX-License-Identifier: BSD-3-Clause */
#include "blocks.h"
#include "here.h"
#include "types.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Bytes of a block. Longer ones go as fast by messages, of which each is copied once. */
#define MOST ((size_t)16 << 10)
/* Of the ring. Whoever shares a core with others has the use of their caches, and pages that nobody has written are dear. */
#define LAP ((size_t)64 << 10)

/* ---- which calls ---- */

struct blocks {
	struct sn_meet *m;
	const struct sn_collective *c;
	const struct sn_meet_type *out, *in;
	const char *from;
	char *to;
	size_t len; /* of one */
	bool each;  /* one for each rank, else the same for all */
	bool in_place;
};

/* None, or one that is not defined: the MPI says so, or does what it does. Memory at 0 is where types say. */
static bool wrong(const struct blocks *b)
{
	const struct sn_collective *c = b->c;
	bool sent = b->in_place || (c->count >= 0 && (size_t)c->count * (size_t)b->out->size == b->len &&
				    b->from != b->to && (b->from || !b->out->plain));
	return !sent || c->in_count < 0 || sn_in_place(b->to) || (!b->to && b->in->plain);
}

/* With room for the one that stays here. */
static size_t brought(const struct blocks *b, unsigned ranks)
{
	return b->each ? ranks * b->len : b->len;
}

/* All ranks say the same: how long a block is must be the same on all of them. */
static bool fits(const struct blocks *b, unsigned ranks)
{
	return b->len && b->len <= MOST && brought(b, ranks) <= SN_MEET_BLOCKS;
}

static inline struct blocks blocks_of(const struct sn_collective *c, const void *from, const void *to,
				      struct sn_meet_type last[2])
{
	struct blocks b = {.c = c, .from = from, .to = (char *)(uintptr_t)to, .each = c->kind == SN_ALLTOALL};
	b.in_place = sn_in_place(from);
	b.in = sn_type_of(&last[0], c->in_type, c->generation);
	b.out = b.in_place ? b.in : sn_type_of(&last[1], c->type, c->generation);
	b.len = (size_t)b.in->size * (size_t)(c->in_count > 0 ? c->in_count : 0);
	return b;
}

/* As long as all are too long, or it is none that MPI allows, each call comes here. */
static __attribute__((noinline)) struct sn_meet *first_of(const struct sn_collective *c, const void *from,
							  const void *to)
{
	static struct sn_meet_type last[2];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int ranks;
	if (sn_meet_is_ending(c->comm) || sn_meet_none(c->comm))
		return NULL;
	pthread_mutex_lock(&lock);
	struct sn_meet_type types[2] = {last[0], last[1]};
	pthread_mutex_unlock(&lock);
	struct blocks b = blocks_of(c, from, to, types);
	pthread_mutex_lock(&lock);
	last[0] = types[0];
	last[1] = types[1];
	pthread_mutex_unlock(&lock);
	if (!b.len || b.len > MOST || wrong(&b) || sn_proof_mpi.comm_size(c->comm, &ranks) || ranks < 2 ||
	    !fits(&b, (unsigned)ranks))
		return NULL;
	return sn_meet_here(c->comm);
}

struct sn_meet *sn_blocks_of(const struct sn_collective *c, const void *from, const void *to)
{
	if (likely(c->kind < SN_ALLTOALL || !sn_here_all))
		return NULL;
	struct sn_meet *m = sn_meet_of(c->comm);
	if (!likely(m) && !(m = first_of(c, from, to)))
		return NULL;
	if (!m->here)
		return NULL;
	struct blocks b = blocks_of(c, from, to, m->types);
	return likely(!wrong(&b)) && fits(&b, m->ranks) ? m : NULL;
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
	return sn_type_out(b->m, b->c, b->out, base + (intptr_t)nth * count * b->out->extent, count, to,
			   b->len);
}

static int in(const struct blocks *b, unsigned rank, const char *from)
{
	int count = b->c->in_count;
	return sn_type_in(b->m, b->c, b->in, b->to + (intptr_t)rank * count * b->in->extent, count, from,
			  b->len);
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

/* What stays with this rank: straight, or by way of where it is packed. */
static int own(const struct blocks *b, char *place)
{
	unsigned me = b->m->rank;
	char *packed = place + offset(b, me);
	int rc = 0;
	if (b->in_place)
		return 0;
	if (likely(b->out->plain))
		return in(b, me, b->from + (b->each ? (size_t)me * b->len : 0));
	if (b->each)
		rc = out(b, me, packed);
	return rc ? rc : in(b, me, packed);
}

/* ---- the call ---- */

static uint64_t said(const struct blocks *b)
{
	return b->len << 1 | b->each;
}

static __attribute__((noinline)) int differs(const struct blocks *b, unsigned rank, uint64_t theirs)
{
	static const char *const names[] = {"MPI_Allgather", "MPI_Alltoall"};
	fprintf(stderr,
		"sennit: rank %u of a communicator is in %s with blocks of %zu bytes, rank %u in %s with "
		"blocks of "
		"%llu: all ranks must have the same\n",
		b->m->rank, names[b->each], b->len, rank, names[theirs & 1],
		(unsigned long long)(theirs >> 1));
	return sn_proof_failed(b->c->comm);
}

static int take(const struct blocks *b, unsigned rank, size_t all, size_t at)
{
	const struct sn_meet_line *line = line_of(b->m, rank);
	int rc = sn_meet_await(b->m, b->c->comm, rank, &line->call, b->m->call);
	if (!likely(!rc))
		return rc;
	if (!likely(line->said == said(b)))
		return differs(b, rank, line->said);
	return in(b, rank, place(b->m, rank, all, at) + offset(b, b->m->rank));
}

int sn_blocks_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to)
{
	struct blocks b = blocks_of(c, from, to, m->types);
	size_t all = brought(&b, m->ranks);
	b.m = m;
	if (!likely(!atomic_load_explicit(&m->mem->failed, memory_order_relaxed)))
		return sn_proof_failed(c->comm);
	m->call++;
	size_t at = next_place(m, all);
	struct sn_meet_line *mine = line_of(m, m->rank);
	int rc = bring(&b, place(m, m->rank, all, at));
	if (rc)
		return rc;
	mine->said = said(&b);
	sn_meet_say(m, &mine->call, m->call);
	for (unsigned k = 1; k < m->ranks && !rc; k++)
		rc = take(&b, (m->rank + k) % m->ranks, all, at);
	if (!rc)
		rc = own(&b, place(m, m->rank, all, at));
	if (m->call % SN_MEET_PERIOD == 0 && !rc)
		sn_meet_look(m);
	return rc;
}
