/* SPDX-License-Identifier: BSD-3-Clause */
#include "bcast.h"
#include "agree.h"
#include "here.h"
#include "types.h"
#include <stdio.h>

#define SAYS 4 /* calls, with the last of which it is said that they have been read */
_Static_assert(SAYS <= SN_MEET_PLACES, "a root waits for what is said before its call");

/* ---- which calls ---- */

/* What all ranks say alike, whatever else may be wrong on one of them. */
static inline bool fits(const struct sn_meet_type *t, const struct sn_collective *c, unsigned ranks)
{
	size_t len = sn_type_bytes(t, c->count);
	return len && len <= SN_MEET_PLACE && ranks > 2 && c->root >= 0 && (unsigned)c->root < ranks;
}

/*
 * Remembered, as two ranks ask for it in each call, until a communicator may have been freed.
 * 0: it cannot be told, now.
 */
static unsigned ranks_of(const struct sn_collective *c)
{
	static _Thread_local struct {
		handle comm;
		unsigned generation, freed, ranks;
	} last __attribute__((tls_model("initial-exec")));
	int ranks;
	unsigned freed = sn_freed(c->comm);
	if (!likely(last.comm == c->comm && last.generation == c->generation && last.freed == freed)) {
		if (sn_proof_mpi.comm_size(c->comm, &ranks)) /* it may be one by the next call */
			return 0;
		last.comm = c->comm;
		last.generation = c->generation;
		last.freed = freed;
		last.ranks = (unsigned)ranks;
	}
	return last.ranks;
}

/* Two ranks have one message, which is as fast. */
static struct sn_meet *first_of(const struct sn_collective *c)
{
	unsigned ranks = 0;
	if (c->root < 0 || c->count <= 0 || (size_t)c->count > SN_MEET_PLACE || (ranks = ranks_of(c)) < 3)
		return NULL;
	struct sn_meet_type t = sn_type_find(c->type, c->generation);
	return fits(&t, c, ranks) ? sn_meet_after(c->comm) : NULL;
}

/* Of its blocks each rank says what it sends, or gets, as it is the root or not. */
static inline bool fits_each(const struct sn_collective *c, size_t len, unsigned ranks)
{
	return len && len <= SN_MEET_BLOCK && len * ranks <= SN_MEET_PLACE && ranks > 1 && c->root >= 0 &&
	       (unsigned)c->root < ranks;
}

static bool is_root(const struct sn_collective *c)
{
	int rank;
	return !sn_proof_mpi.comm_rank(c->comm, &rank) && rank == c->root;
}

static struct sn_meet *first_scatter(const struct sn_collective *c)
{
	unsigned ranks = sn_meet_ranks(c);
	if (!ranks)
		return NULL; /* then a type may be one that says nothing */
	bool root = is_root(c);
	struct sn_meet_type t = sn_type_find(root ? c->type : c->in_type, c->generation);
	size_t len = sn_type_bytes(&t, root ? c->count : c->in_count);
	return fits_each(c, len, ranks) ? sn_meet_after(c->comm) : NULL;
}

/* types[1] is what the root sends, types[0] what anybody gets. */
static struct sn_meet *scatter_of(const struct sn_collective *c)
{
	struct sn_meet *m = sn_meet_known(c, first_scatter);
	if (!m)
		return NULL;
	bool root = (unsigned)c->root == m->rank;
	const struct sn_meet_type *t =
		sn_type_of(&m->types[root], root ? c->type : c->in_type, c->generation);
	return fits_each(c, sn_type_bytes(t, root ? c->count : c->in_count), m->ranks) ? m : NULL;
}

/* Only the root knows all lengths, and says whether they fit. */
static struct sn_meet *first_scatterv(const struct sn_collective *c)
{
	unsigned ranks = sn_meet_ranks(c);
	return ranks > 1 && (unsigned)c->root < ranks ? sn_meet_after(c->comm) : NULL;
}

static struct sn_meet *scatterv_of(const struct sn_collective *c)
{
	struct sn_meet *m = sn_meet_known(c, first_scatterv);
	bool may = m && c->root >= 0 && (unsigned)c->root < m->ranks;
	return may && sn_meet_asks(&m->scatters) ? m : NULL;
}

struct sn_meet *sn_bcast_of(const struct sn_collective *c)
{
	if (likely((c->kind != SN_BCAST && c->kind != SN_SCATTER && c->kind != SN_SCATTERV) || !sn_here_all))
		return NULL;
	if (c->kind != SN_BCAST)
		return c->kind == SN_SCATTER ? scatter_of(c) : scatterv_of(c);
	struct sn_meet *m = sn_meet_known(c, first_of);
	if (!m)
		return NULL;
	return fits(sn_type_of(&m->types[0], c->type, c->generation), c, m->ranks) ? m : NULL;
}

/* ---- the call ---- */

#define NOTHING	  UINT64_MAX	   /* in place of the length: the root has none */
#define NO_BUFFER (UINT64_MAX - 1) /* nor has this rank */

static __attribute__((noinline)) int differs(const struct sn_meet *m, const struct sn_collective *c,
					     size_t len, uint64_t theirs)
{
	struct sn_agree_name name = sn_agree_name(c->kind, false);
	if (theirs >= NO_BUFFER)
		return sn_meet_no_buffer(c->comm, theirs == NOTHING ? (unsigned)c->root : m->rank, name.text);
	fprintf(stderr,
		"sennit: rank %u of a communicator is in %s of %zu bytes, its root, rank %d, "
		"in one of %llu: all "
		"ranks must have the same\n",
		m->rank, name.text, len, c->root, (unsigned long long)theirs);
	return sn_proof_failed(c->comm);
}

/* Until all have read what was in that place before. */
static __attribute__((noinline)) int await_read(struct sn_meet *m, handle comm, uint64_t call)
{
	uint64_t all = UINT64_MAX;
	int rc = 0;
	for (unsigned r = 0; r < m->ranks && !rc; r++) {
		const _Atomic uint64_t *read = &sn_meet_line(m, 2, r)->call;
		if (r == m->rank)
			continue;
		rc = sn_meet_await(m, comm, r, read, call);
		uint64_t so_far = atomic_load(read);
		all = so_far < all ? so_far : all;
	}
	m->read = all;
	return rc;
}

/* Before this rank, the root, writes. */
static int own_place(struct sn_meet *m, handle comm)
{
	return likely(m->bcasts <= m->read + SN_MEET_PLACES)
		       ? 0
		       : await_read(m, comm, m->bcasts - SN_MEET_PLACES);
}

/* out: what goes to each, or to all, of len bytes in all. */
static int send(struct sn_meet *m, const struct sn_collective *c, const struct sn_meet_type *out,
		const char *buf, size_t len)
{
	struct sn_meet_line *place = sn_meet_place_line(m, m->bcasts);
	unsigned blocks = c->kind == SN_SCATTER ? m->ranks : 1;
	int rc = own_place(m, c->comm);
	if (rc)
		return rc;
	bool nowhere = sn_type_nowhere(out, buf);
	char *room = sn_meet_place_room(m, m->bcasts, len * blocks);
	for (unsigned r = 0; r < blocks && !nowhere && !rc; r++)
		if (blocks == 1 || r != m->rank)
			rc = sn_type_out(m, c, out, buf + out->extent * c->count * (intptr_t)r, c->count,
					 room + r * len, len);
	place->said = nowhere || rc ? NOTHING : len;
	sn_meet_say(m, &place->call, m->bcasts);
	return nowhere ? differs(m, c, len, NOTHING) : rc;
}

/* A shorter one than is wanted is no error to MPIs that send messages. */
static int receive(struct sn_meet *m, const struct sn_collective *c, char *buf, size_t len)
{
	const struct sn_meet_line *place = sn_meet_place_line(m, m->bcasts);
	const struct sn_meet_type *t = &m->types[0];
	int rc = sn_meet_await(m, c->comm, (unsigned)c->root, &place->call, m->bcasts);
	if (!likely(!rc))
		return rc;
	size_t sent = place->said;
	if (!likely(sent == len) && (sent > len || sent % (size_t)t->size != 0))
		return differs(m, c, len, sent);
	bool each = c->kind == SN_SCATTER;
	const char *room = sn_meet_place_room(m, m->bcasts, each ? sent * m->ranks : sent);
	return sn_type_in(m, c, t, buf, room + (each ? sent * m->rank : 0), sent);
}

/* What stays with the root: straight, or by way of where it would lie for another. */
static int own_block(struct sn_meet *m, const struct sn_collective *c, const char *own, int count,
		     int64_t in_count, char *room, char *to)
{
	if (sn_mpi_in_place(to)) /* and says no type */
		return 0;
	const struct sn_meet_type *out = &m->types[1],
				  *in = sn_type_of(&m->types[0], c->in_type, c->generation);
	size_t len = sn_type_bytes(out, count), wanted = sn_type_bytes(in, in_count);
	if (!len)
		return 0;
	if (len > wanted || sn_type_nowhere(in, to))
		return differs(m, c, wanted, len > wanted ? len : NO_BUFFER);
	if (likely(out->plain))
		return sn_type_in(m, c, in, to, own, len);
	int rc = sn_type_out(m, c, out, own, count, room, len);
	return rc ? rc : sn_type_in(m, c, in, to, room, len);
}

static int scatter(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to)
{
	if ((unsigned)c->root != m->rank) {
		size_t len = sn_type_bytes(&m->types[0], c->in_count);
		return sn_type_nowhere(&m->types[0], to) ? differs(m, c, len, NO_BUFFER)
							 : receive(m, c, to, len);
	}
	const struct sn_meet_type *out = &m->types[1];
	size_t len = sn_type_bytes(out, c->count);
	int rc = send(m, c, out, from, len);
	char *room = sn_meet_place_room(m, m->bcasts, len * m->ranks) + len * m->rank;
	const char *own = (const char *)from + out->extent * c->count * (intptr_t)m->rank;
	return rc ? rc : own_block(m, c, own, c->count, c->in_count, room, to);
}

/* ---- MPI_Scatterv ---- */

/* Of each rank's block, at the beginning of a place: where it is there. */
struct part {
	uint32_t at, len;
};
#define PART(len) (((len) + 7) / 8 * 8)

/* Of all blocks, as they lie in a place; 0: the call is the MPI's, as they are long, or not as MPI allows them. */
static size_t lay_out(const struct sn_meet *m, const struct sn_collective *c, const void *from)
{
	const struct sn_meet_type *out = &m->types[1];
	size_t all = m->ranks * sizeof(struct part);
	if (!c->out.counts || !c->out.displs)
		return 0;
	for (unsigned r = 0; r < m->ranks; r++) {
		int64_t count = sn_count_of(&c->out, r);
		size_t len = sn_type_bytes(out, count);
		if (count < 0 || len > SN_MEET_BLOCK)
			return 0;
		if (count && (!len || sn_type_nowhere(out, from)))
			return 0;
		all += PART(len);
	}
	return all <= SN_MEET_PLACE ? all : 0;
}

static const char *out_at(const struct sn_meet *m, const struct sn_collective *c, const char *from,
			  unsigned rank)
{
	return from + m->types[1].extent * sn_displ_of(&c->out, rank);
}

/* The root's own comes last. *room: its place. */
static int write_parts(struct sn_meet *m, const struct sn_collective *c, const char *from, size_t all,
		       char **room)
{
	const struct sn_meet_type *out = &m->types[1];
	char *place = sn_meet_place_room(m, m->bcasts, all);
	struct part *parts = (struct part *)(void *)place;
	size_t at = m->ranks * sizeof(*parts);
	int rc = 0;
	for (unsigned r = 0; r < m->ranks && !rc; r++) {
		int64_t count = sn_count_of(&c->out, r);
		size_t len = r == m->rank ? 0 : sn_type_bytes(out, count);
		parts[r] = (struct part){(uint32_t)at, (uint32_t)len};
		if (len)
			rc = sn_type_out(m, c, out, out_at(m, c, from, r), (int)count, place + at, len);
		at += PART(len);
	}
	*room = place + at;
	return rc;
}

static int send_parts(struct sn_meet *m, const struct sn_collective *c, const char *from, char *to)
{
	struct sn_meet_line *place = sn_meet_place_line(m, m->bcasts);
	char *room = NULL;
	int rc = own_place(m, c->comm);
	if (rc)
		return rc;
	sn_type_of(&m->types[1], c->type, c->generation);
	size_t all = lay_out(m, c, from);
	if (all)
		rc = write_parts(m, c, from, all, &room);
	place->said = rc ? NOTHING : all;
	sn_meet_say(m, &place->call, m->bcasts);
	if (rc)
		return rc;
	return all ? own_block(m, c, out_at(m, c, from, m->rank), (int)sn_count_of(&c->out, m->rank), c->each,
			       room, to)
		   : SN_MEET_MPIS;
}

static int receive_part(struct sn_meet *m, const struct sn_collective *c, char *buf)
{
	const struct sn_meet_line *place = sn_meet_place_line(m, m->bcasts);
	const struct sn_meet_type *t = sn_type_of(&m->types[0], c->in_type, c->generation);
	size_t wanted = sn_type_bytes(t, c->each);
	int rc = sn_meet_await(m, c->comm, (unsigned)c->root, &place->call, m->bcasts);
	if (rc)
		return rc;
	if (!place->said)
		return SN_MEET_MPIS;
	if (place->said == NOTHING)
		return differs(m, c, wanted, NOTHING);
	const char *room = sn_meet_place_room(m, m->bcasts, place->said);
	struct part mine = ((const struct part *)(const void *)room)[m->rank];
	if (mine.len > wanted || (mine.len && mine.len % (size_t)t->size))
		return differs(m, c, wanted, mine.len);
	if (c->each < 0 || (mine.len && sn_type_nowhere(t, buf)))
		return differs(m, c, wanted, NO_BUFFER);
	return mine.len ? sn_type_in(m, c, t, buf, room + mine.at, mine.len) : 0;
}

static int scatterv(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to)
{
	int rc = (unsigned)c->root == m->rank ? send_parts(m, c, from, to) : receive_part(m, c, to);
	sn_meet_heard(&m->scatters, rc == SN_MEET_MPIS);
	return rc;
}

static int bcast(struct sn_meet *m, const struct sn_collective *c, void *buf)
{
	size_t len = sn_type_bytes(&m->types[0], c->count);
	return (unsigned)c->root == m->rank	    ? send(m, c, &m->types[0], buf, len)
	       : sn_type_nowhere(&m->types[0], buf) ? differs(m, c, len, NO_BUFFER)
						    : receive(m, c, buf, len);
}

int sn_bcast_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to)
{
	if (!likely(!atomic_load_explicit(&m->mem->failed, memory_order_relaxed)))
		return sn_proof_failed(c->comm);
	m->bcasts++;
	int rc = c->kind == SN_BCAST	 ? bcast(m, c, to)
		 : c->kind == SN_SCATTER ? scatter(m, c, from, to)
					 : scatterv(m, c, from, to);
	if (m->bcasts % SAYS == 0)
		sn_meet_say(m, &sn_meet_line(m, 2, m->rank)->call, m->bcasts);
	if (likely(!rc))
		sn_meet_called(m, m->bcasts);
	return rc;
}
