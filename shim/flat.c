/* SPDX-License-Identifier: BSD-3-Clause */
#include "flat.h"
#include "here.h"
#include <string.h>

/*
 * Ranks that have a core each: to read the lines of more takes as long as log n messages, and the memory is worth so
 * many calls.
 */
#define FEW    16
#define ENOUGH 256

static inline struct sn_meet_line *line_of(const struct sn_meet *m, unsigned rank)
{
	return sn_meet_line(m, m->call & 1, rank);
}

static inline char *operand(const struct sn_meet *m, unsigned rank, size_t len)
{
	struct sn_meet_line *l = line_of(m, rank);
	return len <= SN_MEET_SHORT ? l->data : sn_meet_rest(m, l);
}

/* ---- which calls ---- */

/* Likewise of all ranks: a type of the MPI's own, if the operation is. */
static inline int size_of(struct sn_meet *m, const struct sn_collective *c)
{
	return c->kind == SN_ALLREDUCE ? sn_meet_size(m, c) : 0;
}

static bool has(const struct sn_meet *m, const struct sn_meet_form *wanted)
{
	bool found = false;
	for (unsigned i = 0; i < m->forms && !found; i++) {
		const struct sn_meet_form *k = &m->form[i];
		found = k->kind == wanted->kind && k->count == wanted->count && k->op == wanted->op &&
			k->size == wanted->size;
	}
	return found;
}

static struct sn_meet_form form_of(struct sn_meet *m, const struct sn_collective *c)
{
	return (struct sn_meet_form){c->kind, c->count, size_of(m, c), sn_mpi_plain(c->op)};
}

struct sn_meet *sn_flat_of(const struct sn_collective *c)
{
	struct sn_meet *m = c->kind > SN_ALLREDUCE || c->kind == SN_BCAST ? NULL : sn_meet_of(c->comm);
	if (likely(!m) || !m->forms)
		return NULL;
	struct sn_meet_form form = form_of(m, c);
	return has(m, &form) ? m : NULL;
}

static int when(const struct sn_collective *c)
{
	int ranks, size = 0;
	if ((c->kind != SN_ALLREDUCE && c->kind != SN_BARRIER) ||
	    (c->kind == SN_ALLREDUCE && sn_proof_mpi.type_size(c->type, &size)))
		return SN_FLAT_NEVER;
	size_t len = (size_t)size * (size_t)c->count;
	int least = c->kind == SN_BARRIER ? 2 : 3; /* a sum of two is one exchange */
	if (len > SN_MEET_ROOM || sn_proof_mpi.comm_size(c->comm, &ranks) || ranks < least ||
	    ranks > SN_MEET_RANKS)
		return SN_FLAT_NEVER;
	return len <= SN_MEET_SHORT && ranks <= FEW ? SN_FLAT_ALWAYS : SN_FLAT_CROWD;
}

/* To make the memory costs as much as is gained by some hundred calls. */
static bool pays(struct sn_seen *e)
{
	if (e->flat == SN_FLAT_ALWAYS && e->asked < ENOUGH)
		e->asked++;
	return e->flat == SN_FLAT_ALWAYS && e->asked == ENOUGH;
}

bool sn_flat_wanted(const struct sn_shim_quick *q, struct sn_seen *e)
{
	if (e->flat == SN_FLAT_UNKNOWN)
		e->flat = when(&e->call);
	if (likely(e->flat == SN_FLAT_NEVER) || (!q->crowded() && !pays(e)) ||
	    sn_meet_is_ending(e->call.comm))
		return false;
	struct sn_meet *m = sn_meet_of(e->call.comm);
	return m ? m->mem && m->forms < SN_MEET_FORMS : sn_meet_room();
}

void sn_flat_agreed(const struct sn_seen *e)
{
	const struct sn_collective *c = &e->call;
	struct sn_meet *m = sn_meet_of(c->comm);
	if (!m && !(m = sn_meet_set_up(c->comm, sn_here_all && sn_here_comm(c->comm))))
		return;
	atomic_store_explicit(&m->ep, e->step->way.ep, memory_order_relaxed);
	struct sn_meet_form form = form_of(m, c);
	if (m->mem && !has(m, &form))
		m->form[m->forms++] = form;
}

/* ---- the call ---- */

static void come_along(struct sn_meet *m, const struct sn_collective *c, const void *mine, size_t len)
{
	m->call++;
	if (len)
		sn_meet_copy(m, c, operand(m, m->rank, len), mine, len);
	sn_meet_say(m, &line_of(m, m->rank)->call, m->call);
}

static int await_all(struct sn_meet *m, handle comm)
{
	int rc = 0;
	for (unsigned r = 0; r < m->ranks && !rc; r++)
		rc = sn_meet_await(m, comm, r, &line_of(m, r)->call, m->call);
	return rc;
}

/* What those have brought along who take part in each step, by their numbers. */
struct operands {
	const struct sn_meet *m;
	const struct sn_collective *c;
	size_t len;
	unsigned pairs;
};

/* Of a pair the sum, which is made here. */
static const char *operand_of(const struct operands *o, unsigned number, char *room)
{
	const struct sn_meet *m = o->m;
	if (number >= o->pairs)
		return operand(m, number + o->pairs, o->len);
	memcpy(room, operand(m, 2 * number + 1, o->len), o->len);
	sn_proof_mpi.reduce_local(operand(m, 2 * number, o->len), room, o->c->count, o->c->type, o->c->op);
	return room;
}

/*
 * Step by step: at[i] is the sum that number ^ 2i has then, of those i that are not done with. What is read of the
 * others stays as it is.
 */
static void fold(struct sn_meet *m, const struct sn_collective *c, char *to, size_t len)
{
	char *at[SN_MEET_RANKS / 2] = {m->sums};
	struct sn_doubling d = sn_doubling_of(m->ranks, m->rank);
	const struct operands all = {m, c, len, d.pairs};
	unsigned count = 1u << d.steps, turned = sn_proof_turned(d.number, 0);
	char *room = m->sums + count / 2 * SN_MEET_ROOM;
	for (unsigned i = 0; i < count / 2; i++) {
		at[i] = m->sums + i * SN_MEET_ROOM;
		const char *first = operand_of(&all, d.number ^ (2 * i | turned), at[i]);
		if (first != at[i])
			memcpy(at[i], first, len);
		const char *other = operand_of(&all, d.number ^ (2 * i | !turned), room);
		sn_proof_mpi.reduce_local(other, at[i], c->count, c->type, c->op);
	}
	for (unsigned half = 1, step = 1; 2 * half < count; half *= 2, step++) {
		turned = sn_proof_turned(d.number, step);
		for (unsigned i = 0; i < count / 2; i += 2 * half) {
			char *in = at[turned ? i : i | half], *sum = at[turned ? i | half : i];
			sn_proof_mpi.reduce_local(in, sum, c->count, c->type, c->op);
			at[i] = sum;
		}
	}
	sn_meet_copy(m, c, to, at[0], len);
}

int sn_flat_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to)
{
	size_t len = (size_t)size_of(m, c) * (size_t)c->count;
	/* who has failed writes no more, so what others still read stays as it is */
	if (!likely(!atomic_load_explicit(&m->mem->failed, memory_order_relaxed)))
		return sn_proof_failed(c->comm);
	come_along(m, c, len && sn_mpi_in_place(from) ? to : from, len);
	int rc = await_all(m, c->comm);
	if (!rc && len)
		fold(m, c, to, len);
	if (likely(!rc))
		sn_meet_called(m, m->call);
	return rc;
}
