/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective.h"
#include "gpu.h"
#include "layout.h"
#include "onesided.h"
#include "proof.h"
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SPINS 64   /* looks at a lock, before the core is given away */
#define ASKED 4096 /* looks, of which one asks whether who has it lives */
#define SWAPS 32   /* bytes of what is compared, at most */

/* ---- the lock ---- */

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

static void take(const struct access *a)
{
	_Atomic uint32_t *l = &a->w->parts[a->rank].pid;
	for (unsigned looks = 1;; looks++) {
		uint32_t has = atomic_load_explicit(l, memory_order_relaxed);
		bool dead = has && looks % ASKED == 0 && kill((pid_t)has, 0) && errno == ESRCH;
		if ((!has || dead) && atomic_compare_exchange_strong_explicit(
					      l, &has, a->w->pid, memory_order_acquire, memory_order_relaxed))
			return;
		if (looks % SPINS == 0)
			sched_yield();
		else
			relax();
	}
}

static void give(const struct access *a)
{
	atomic_store_explicit(&a->w->parts[a->rank].pid, 0, memory_order_release);
}

/* ---- what types are made of ---- */

static union {
	void *symbol;
	int (*envelope)(handle type, int *ints, int *addresses, int *types, int *combiner);
	int (*envelope_c)(handle type, int64_t *ints, int64_t *addresses, int64_t *counts, int64_t *types,
			  int *combiner);
	int (*contents)(handle type, int ints, int addresses, int types, int *i, intptr_t *a, void *t);
	int (*contents_c)(handle type, int64_t ints, int64_t addresses, int64_t counts, int64_t types, int *i,
			  intptr_t *a, int64_t *c, void *t);
	int (*drop)(void *type);
} envelope, contents, type_free;
/* By those with MPI_Count: of types that were made with such it is an error to ask the others. */
static bool wide;

bool sn_change_find(void)
{
	envelope.symbol = sn_mpi_find("PMPI_Type_get_envelope_c");
	contents.symbol = sn_mpi_find("PMPI_Type_get_contents_c");
	type_free.symbol = sn_mpi_find("PMPI_Type_free");
	wide = envelope.symbol && contents.symbol;
	if (!wide) {
		envelope.symbol = sn_mpi_find("PMPI_Type_get_envelope");
		contents.symbol = sn_mpi_find("PMPI_Type_get_contents");
	}
	return envelope.symbol && contents.symbol && type_free.symbol;
}

struct parts {
	int64_t ints, addresses, counts, types;
};

static bool ask_for_parts(handle type, struct parts *p)
{
	int ints = 0, addresses = 0, types = 0, combiner;
	if (wide)
		return !envelope.envelope_c(type, &p->ints, &p->addresses, &p->counts, &p->types, &combiner);
	bool known = !envelope.envelope(type, &ints, &addresses, &types, &combiner);
	*p = (struct parts){ints, addresses, 0, types};
	return known;
}

/* False: it is one of the MPI's, also a pair of its types, and made of nothing. */
static bool is_made(handle type, struct parts *p)
{
	return !sn_mpi_builtin(type) && ask_for_parts(type, p) && p->types > 0;
}

static void drop(handle type)
{
	struct parts p;
	uint64_t copy[1];
	sn_mpi_put(copy, 0, type);
	if (is_made(type, &p))
		type_free.drop(copy);
}

/* Is there any of this one, of several (MPI_Type_create_struct)? Their numbers are behind that of all. */
static bool is_used(handle type, const struct parts *p, int64_t nth, const int *i, const int64_t *c)
{
	int size = 0;
	return (p->counts ? c[1 + nth] : i[1 + nth]) > 0 && !sn_proof_mpi.type_size(type, &size) && size;
}

/* The first type that it is made of: of what is accumulated all are the same one. 0: nobody knows. */
static handle first_of(handle type, const struct parts *p)
{
	size_t types = (size_t)p->types, addresses = (size_t)p->addresses, counts = (size_t)p->counts;
	char *t = malloc((types + addresses + counts) * 8 + (size_t)p->ints * sizeof(int));
	if (!t)
		return 0;
	intptr_t *a = (void *)(t + types * 8);
	int64_t *c = a + addresses;
	int *i = (void *)(c + counts);
	handle first = 0;
	if (wide ? !contents.contents_c(type, p->ints, p->addresses, p->counts, p->types, i, a, c, t)
		 : !contents.contents(type, (int)p->ints, (int)p->addresses, (int)p->types, i, a, t))
		for (int k = 0; k < p->types; k++) {
			handle one = sn_mpi_nth(t, k);
			if (!first && (p->types == 1 || is_used(one, p, k, i, c)))
				first = one;
			else
				drop(one);
		}
	free(t);
	return first;
}

/* A type of the MPI's; 0: nobody knows. */
static handle element_of(handle type)
{
	struct parts p;
	handle now = type;
	while (now && is_made(now, &p)) {
		handle first = first_of(now, &p);
		if (now != type)
			drop(now);
		now = first;
	}
	return now;
}

/* ---- MPI_Accumulate and its like ---- */

static handle op_of(bool none) /* MPI_NO_OP, MPI_REPLACE */
{
	return (sn_mpi_abi == STANDARD ? 0x3c : 0x5800000d) + none;
}

static bool is_mpis_op(handle op)
{
	handle first = sn_mpi_abi == STANDARD ? 0x21 : 0x58000001;
	return op >= first && op <= op_of(true);
}

static int change(const struct change *c, void *there, const void *from)
{
	int rc = 0;
	if (c->op == op_of(true))
		return 0;
	if (c->op == op_of(false)) {
		sn_side_copy(there, from, (size_t)c->elements * c->extent);
		return 0;
	}
	for (int64_t at = 0, n; at < c->elements && !rc; at += n) {
		n = c->elements - at < INT_MAX ? c->elements - at : INT_MAX;
		rc = sn_proof_mpi.reduce_local((const char *)from + (size_t)at * c->extent,
					       (char *)there + (size_t)at * c->extent, (int)n, c->element,
					       c->op);
	}
	return rc;
}

/* By what is known of both types (layout.h). False: not of both. */
static bool repack_here(const void *from, handle type, void *to, handle to_type, size_t bytes)
{
	unsigned now = sn_collective_generation();
	struct sn_meet_type out = sn_type_find(type, now), in = sn_type_find(to_type, now);
	const struct sn_layout *o = out.plain ? NULL : sn_layout_of(&out);
	const struct sn_layout *i = in.plain ? NULL : sn_layout_of(&in);
	if (!from || !to || !bytes || (!o && !i) || !(o || out.plain) || !(i || in.plain))
		return false;
	char *packed = o && i ? malloc(bytes) : o ? to : (void *)(uintptr_t)from;
	if (!packed)
		return false;
	if (o)
		sn_layout_pack(o, packed, from, bytes);
	if (i)
		sn_layout_unpack(i, to, packed, bytes);
	if (o && i)
		free(packed);
	return true;
}

int sn_side_repack(const void *from, int64_t n, handle type, void *to, int64_t to_n, handle to_type,
		   size_t bytes)
{
	int at = 0, end = 0;
	handle self = sn_mpi_handle(SN_COMM_SELF);
	if (repack_here(from, type, to, to_type, bytes))
		return 0;
	char *packed = malloc(bytes ? bytes : 1);
	if (!packed)
		return sn_proof_failed(self);
	int rc = sn_proof_mpi.pack(from, (int)n, type, packed, (int)bytes, &end, self);
	if (!rc)
		rc = sn_proof_mpi.unpack(packed, end, &at, to, (int)to_n, to_type, self);
	free(packed);
	return rc;
}

static int gather(const struct change *c, const struct side *s, void *to)
{
	return sn_side_repack(s->buf, s->count, s->t.type, to, c->elements, c->element, sn_side_bytes(s));
}

static int scatter(const struct change *c, const void *from, const struct side *s)
{
	return sn_side_repack(from, c->elements, c->element, (void *)(uintptr_t)s->buf, s->count, s->t.type,
			      sn_side_bytes(s));
}

/* Its elements lie one behind the other, where this library may read them. */
static bool is_array(const struct change *c, const struct side *s)
{
	return sn_mpi_plain(s->t.type) == c->element && (!c->packs || s == &c->there);
}

/* So many bytes of these elements, as an array or such that the MPI can pack them? */
static bool fits(const struct change *c, const struct side *s, size_t bytes)
{
	return sn_side_bytes(s) == bytes && (is_array(c, s) || (s->count <= INT_MAX && bytes <= INT_MAX));
}

/* With the lock. */
static int change_scattered(const struct change *c)
{
	const struct side *mine = &c->mine, *there = &c->there, *result = &c->result;
	size_t bytes = (size_t)c->elements * c->extent;
	bool none = c->op == op_of(true), whole = is_array(c, there), as_is = none || is_array(c, mine);
	char *array = whole ? (char *)(uintptr_t)there->buf : c->room;
	int rc = whole ? 0 : gather(c, there, array);
	if (!rc && !as_is)
		rc = gather(c, mine, c->room + bytes);
	if (!rc && c->gets && is_array(c, result))
		sn_side_copy((void *)(uintptr_t)result->buf, array, bytes);
	else if (!rc && c->gets)
		rc = scatter(c, array, result);
	if (!rc)
		rc = change(c, array, as_is ? mine->buf : c->room + bytes);
	if (!rc && !whole && !none)
		rc = scatter(c, array, there);
	return rc;
}

/* Is it one of ours? Then there is what it takes. */
static bool begins(struct change *c)
{
	size_t bytes = sn_side_bytes(&c->there);
	bool none = c->op == op_of(true);
	if (!c->a.at || !is_mpis_op(c->op))
		return false;
	if (!c->there.count && (none || !c->mine.count) && (!c->gets || !c->result.count)) /* nothing */
		return true;
	if (!bytes || (none && !c->gets))
		return false;
	c->packs = sn_gpu_is_here();
	c->element = sn_mpi_plain(c->there.t.stays ? c->there.t.type : element_of(c->there.t.type));
	struct sn_meet_type e = is_array(c, &c->there) ? c->there.t : sn_side_of(NULL, 1, c->element).t;
	if (!c->element || e.size <= 0 || bytes % (size_t)e.size || !fits(c, &c->there, bytes) ||
	    (!none && !fits(c, &c->mine, bytes)) || (c->gets && !fits(c, &c->result, bytes)))
		return false;
	c->extent = (size_t)e.extent;
	c->elements = (int64_t)(bytes / (size_t)e.size);
	bool array = is_array(c, &c->there);
	if (array && (size_t)c->elements * c->extent > (uint64_t)c->a.room)
		return false;
	if (array && (none || is_array(c, &c->mine)) && (!c->gets || is_array(c, &c->result)))
		return true;
	c->room = malloc(2 * (size_t)c->elements * c->extent);
	return c->room;
}

struct change sn_change_of(const void *from, int64_t n, handle type, int rank, intptr_t at, int64_t at_n,
			   handle at_type, handle op, handle win)
{
	struct change c = {.a = sn_access_of(win, rank, at), .op = sn_mpi_plain(op)};
	c.mine = sn_side_of(from, n, type);
	c.there = sn_side_of(c.a.at, at_n, at_type);
	return c;
}

void sn_change_begin(struct change *c)
{
	if (!begins(c))
		c->a.at = NULL;
	c->ours = c->a.at || sn_access_is_nobodys(&c->a);
}

int sn_change_do(const struct change *c)
{
	int rc = 0;
	if (!c->a.at)
		return 0;
	if (c->elements) {
		take(&c->a);
		if (c->room) {
			rc = change_scattered(c);
		} else {
			if (c->gets)
				sn_side_copy((void *)(uintptr_t)c->result.buf, c->a.at,
					     (size_t)c->elements * c->extent);
			rc = change(c, c->a.at, c->mine.buf);
		}
		give(&c->a);
	}
	free(c->room);
	return rc;
}

struct change sn_change_and_get(struct change c, void *to, int64_t to_n, handle to_type)
{
	c.result = sn_side_of(to, to_n, to_type);
	c.gets = true;
	sn_change_begin(&c);
	return c;
}

bool sn_change_may_swap(const struct access *a, const struct sn_meet_type *t)
{
	return a->at && t->plain && t->size <= a->room && t->size <= SWAPS;
}

static int swap(const struct access *a, size_t bytes, const void *from, const void *with, void *to)
{
	take(a);
	bool same = !memcmp(a->at, with, bytes);
	sn_side_copy(to, a->at, bytes);
	if (same)
		sn_side_copy(a->at, from, bytes);
	give(a);
	return 0;
}

int sn_change_swap(const struct access *a, const struct sn_meet_type *t, const void *from, const void *with,
		   void *to)
{
	size_t bytes = (size_t)t->size;
	char own[3][SWAPS];
	if (!sn_gpu_is_here())
		return swap(a, bytes, from, with, to);
	int rc = sn_side_repack(from, 1, t->type, own[0], 1, t->type, bytes);
	if (!rc)
		rc = sn_side_repack(with, 1, t->type, own[1], 1, t->type, bytes);
	if (!rc)
		rc = swap(a, bytes, own[0], own[1], own[2]);
	return rc ? rc : sn_side_repack(own[2], 1, t->type, to, 1, t->type, bytes);
}
