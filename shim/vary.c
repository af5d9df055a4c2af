/* SPDX-License-Identifier: BSD-3-Clause */
#include "vary.h"
#include "here.h"
#include "types.h"
#include <stdio.h>

#define PACKED(len)                                                                                          \
	(((len) + 63) / 64 * 64) /* in a ring: where others read they fetch no line of a neighbour's */

/* ---- which calls ---- */

static struct sn_meet *first_of(const struct sn_collective *c)
{
	return sn_meet_ranks(c) > 1 ? sn_meet_after(c->comm) : NULL;
}

struct sn_meet *sn_vary_of(const struct sn_collective *c)
{
	if (likely((c->kind != SN_ALLTOALLV && c->kind != SN_ALLTOALLW) || !sn_here_all))
		return NULL;
	struct sn_meet *m = sn_meet_known(c, first_of);
	return m && sn_meet_asks(&m->varied) ? m : NULL;
}

/* ---- a block ---- */

struct vary {
	struct sn_meet *m;
	const struct sn_collective *c;
	const char *from;
	char *to;
	bool in_place;
};

struct block {
	const struct sn_meet_type *type;
	char *at;
	int64_t count;
	size_t len;
};

/* False: not as MPI allows it, or of no length that is known here. */
static inline bool block(struct block *b, const struct sn_meet_type *type, const char *base, intptr_t at,
			 int64_t count)
{
	*b = (struct block){type, (char *)(uintptr_t)base + at, count, sn_type_bytes(type, count)};
	return count > 0 && b->len && !sn_type_nowhere(type, base);
}

/* Its type need be none then, and is not asked. */
static bool no_block(struct block *b)
{
	static const struct sn_meet_type none;
	*b = (struct block){.type = &none};
	return true;
}

/* What comes from that rank. Bytes are what MPI_Alltoallw counts places in. */
static inline bool in_of(const struct vary *v, unsigned rank, struct block *b)
{
	const struct sn_collective *c = v->c;
	if (!sn_count_of(&c->in, rank))
		return no_block(b);
	handle type = c->in_types ? sn_mpi_plain(sn_mpi_nth(c->in_types, (int)rank)) : c->in_type;
	const struct sn_meet_type *t = sn_type_of(&v->m->types[0], type, c->generation);
	return block(b, t, v->to, sn_displ_of(&c->in, rank) * (c->in_types ? 1 : t->extent),
		     sn_count_of(&c->in, rank));
}

/* What goes to it. */
static inline bool out_of(const struct vary *v, unsigned rank, struct block *b)
{
	const struct sn_collective *c = v->c;
	if (!likely(!v->in_place))
		return in_of(v, rank, b);
	if (!sn_count_of(&c->out, rank))
		return no_block(b);
	handle type = c->types ? sn_mpi_plain(sn_mpi_nth(c->types, (int)rank)) : c->type;
	const struct sn_meet_type *t = sn_type_of(&v->m->types[1], type, c->generation);
	return block(b, t, v->from, sn_displ_of(&c->out, rank) * (c->types ? 1 : t->extent),
		     sn_count_of(&c->out, rank));
}

/* Is all that this rank has short, and as MPI allows it? */
static bool fits(const struct vary *v)
{
	const struct sn_collective *c = v->c;
	bool types = c->kind != SN_ALLTOALLW || (c->in_types && (v->in_place || c->types));
	struct block b;
	size_t all = 0;
	if (!types || !c->in.counts || !c->in.displs || (!v->in_place && (!c->out.counts || !c->out.displs)))
		return false;
	for (unsigned r = 0; r < v->m->ranks; r++) {
		if (!in_of(v, r, &b) || !out_of(v, r, &b) || b.len > SN_MEET_BLOCK)
			return false;
		all += b.len > SN_MEET_SHORT ? PACKED(b.len) : 0;
	}
	return all + PACKED(SN_MEET_SHORT) <= SN_MEET_BLOCKS;
}

/* ---- what a rank says to another ---- */

#define LENGTH ((UINT64_C(1) << 20) - 1)
#define MPIS   (UINT64_C(1) << 20)
#define TYPES  (UINT64_C(1) << 21) /* it is in MPI_Alltoallw */

static inline struct sn_meet_line *cell(const struct sn_meet *m, unsigned from, unsigned to)
{
	return sn_meet_cell(m, m->call & 1, from, to);
}

static inline uint64_t kind_of(const struct vary *v)
{
	return v->c->kind == SN_ALLTOALLW ? TYPES : 0;
}

/* Where what does not fit into the cell lies in that rank's ring is said there. */
static inline char *place(const struct sn_meet *m, struct sn_meet_line *line, unsigned rank, size_t len)
{
	uint64_t *at = (uint64_t *)(void *)line->data;
	return len <= SN_MEET_SHORT ? line->data : sn_meet_ring(m, rank) + *at;
}

/* The lines, but for their numbers. at: in the ring. */
static int write_all(const struct vary *v, size_t at)
{
	struct sn_meet *m = v->m;
	struct block b;
	int rc = 0;
	for (unsigned r = 0; r < m->ranks && !rc; r++) {
		struct sn_meet_line *line = cell(m, m->rank, r);
		if (r == m->rank)
			continue;
		out_of(v, r, &b);
		line->said = b.len | kind_of(v);
		if (b.len > SN_MEET_SHORT) {
			*(uint64_t *)(void *)line->data = at;
			at += PACKED(b.len);
		}
		if (b.len)
			rc = sn_type_out(m, v->c, b.type, b.at, (int)b.count, place(m, line, m->rank, b.len),
					 b.len);
	}
	return rc;
}

/* fine: what is there may be read. */
static void say_all(const struct vary *v, bool fine)
{
	struct sn_meet *m = v->m;
	for (unsigned r = 0; r < m->ranks; r++) {
		struct sn_meet_line *line = cell(m, m->rank, r);
		if (!likely(fine))
			line->said = MPIS | kind_of(v);
		atomic_store_explicit(&line->call, m->call, memory_order_release);
	}
	sn_meet_said(m);
}

/* *mpis: one of them says so. */
static int hear_all(const struct vary *v, bool *mpis)
{
	struct sn_meet *m = v->m;
	int rc = 0;
	for (unsigned k = 1; k < m->ranks && !rc; k++) {
		unsigned r = (m->rank + k) % m->ranks;
		const struct sn_meet_line *line = cell(m, r, m->rank);
		rc = sn_meet_await(m, v->c->comm, r, &line->call, m->call);
		*mpis |= (line->said & MPIS) != 0;
	}
	return rc;
}

/* ---- the call ---- */

static __attribute__((noinline)) int differs(const struct vary *v, unsigned rank, uint64_t theirs, size_t len)
{
	static const char *const names[] = {"MPI_Alltoallv", "MPI_Alltoallw"};
	fprintf(stderr,
		"sennit: rank %u of a communicator is in %s with %zu bytes for rank %u, which is in %s and "
		"wants %zu: both must have the same\n",
		rank, names[(theirs & TYPES) != 0], (size_t)(theirs & LENGTH), v->m->rank,
		names[v->c->kind == SN_ALLTOALLW], len);
	return sn_proof_failed(v->c->comm);
}

/* Shorter ones than are wanted, of whole elements, are no error to MPIs that send messages. */
static int take(const struct vary *v, unsigned rank)
{
	struct sn_meet_line *line = cell(v->m, rank, v->m->rank);
	size_t sent = line->said & LENGTH;
	struct block b;
	in_of(v, rank, &b);
	if (!likely(line->said == (b.len | kind_of(v))) &&
	    (line->said != (sent | kind_of(v)) || sent > b.len || sent % (size_t)b.type->size))
		return differs(v, rank, line->said, b.len);
	return sent ? sn_type_in(v->m, v->c, b.type, b.at, place(v->m, line, rank, sent), sent) : 0;
}

/* What stays with this rank: straight, or, where it has to be packed, by way of the end of its piece of the ring. */
static int own(const struct vary *v, size_t at)
{
	struct sn_meet *m = v->m;
	struct block in, out;
	if (v->in_place)
		return 0;
	out_of(v, m->rank, &out);
	in_of(v, m->rank, &in);
	if (out.len > in.len || (out.len && out.len % (size_t)in.type->size))
		return differs(v, m->rank, out.len | kind_of(v), in.len);
	if (!out.len || likely(out.type->plain))
		return out.len ? sn_type_in(m, v->c, in.type, in.at, out.at, out.len) : 0;
	char *packed = sn_meet_ring(m, m->rank) + at + SN_MEET_BLOCKS - PACKED(out.len);
	int rc = sn_type_out(m, v->c, out.type, out.at, (int)out.count, packed, out.len);
	return rc ? rc : sn_type_in(m, v->c, in.type, in.at, packed, out.len);
}

int sn_vary_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to)
{
	struct vary v = {m, c, from, to, sn_mpi_in_place(from)};
	if (!likely(!atomic_load_explicit(&m->mem->failed, memory_order_relaxed)))
		return sn_proof_failed(c->comm);
	m->call++;
	size_t at = sn_meet_next(m, SN_MEET_BLOCKS, 3 * (size_t)SN_MEET_BLOCKS); /* for all ranks alike */
	bool mpis = !fits(&v);
	int rc = mpis ? 0 : write_all(&v, at);
	say_all(&v, !mpis && !rc);
	mpis |= rc != 0;
	rc = hear_all(&v, &mpis);
	if (!rc)
		sn_meet_heard(&m->varied, mpis);
	if (!rc && mpis)
		return SN_MEET_MPIS;
	if (!rc)
		rc = own(&v, at);
	for (unsigned k = 1; k < m->ranks && !rc; k++)
		rc = take(&v, (m->rank + k) % m->ranks);
	if (likely(!rc))
		sn_meet_called(m, m->call);
	return rc;
}
