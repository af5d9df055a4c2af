/* SPDX-License-Identifier: BSD-3-Clause */
/* What quick.c and requests.c share: what a call was, and what it led to. */
#ifndef SN_SHIM_SEEN_H
#define SN_SHIM_SEEN_H

#include "abi.h"
#include "freed.h"

struct call {
	handle type, comm;
	uintptr_t region;
	int count, peer, tag;
	uint32_t freed; /* of its handles (freed.h) */
};

/*
 * A field by itself, of what may have been written field by field a moment ago: to copy the whole by loads that span several
 * of its fields would wait until those writes have left for the cache, behind that to the ring before them.
 */
#define SN_APART(field) (*(const volatile __typeof__(field) *)&(field))

static inline void call_copy(struct call *to, const struct call *from)
{
	to->type = SN_APART(from->type);
	to->comm = SN_APART(from->comm);
	to->region = SN_APART(from->region);
	to->count = SN_APART(from->count);
	to->peer = SN_APART(from->peer);
	to->tag = SN_APART(from->tag);
	to->freed = SN_APART(from->freed);
}

static inline void way_copy(struct sn_shim_way *to, const struct sn_shim_way *from)
{
	to->ep = SN_APART(from->ep);
	to->len = SN_APART(from->len);
	to->bits = SN_APART(from->bits);
	to->mask = SN_APART(from->mask);
	to->data = SN_APART(from->data);
	to->exactly = SN_APART(from->exactly);
	to->peer = SN_APART(from->peer);
	to->flags = SN_APART(from->flags);
}

struct entry {
	struct call call;
	bool seen;  /* there was such a call */
	bool known; /* and it was watched: the way is what it led to */
	bool kin;   /* of many calls: this is the last one (kin.h) */
	int tag;    /* a receive's: of the message that it led to */
	int turn;   /* above 0: calls until one is the MPI's; below: calls that are */
	int fails;
	uint64_t since; /* ns: the last turn of the MPI */
	struct sn_shim_way way;
};

static inline bool same(const struct call *a, const struct call *b)
{
	return a->tag == b->tag && a->peer == b->peer && a->comm == b->comm && a->count == b->count &&
	       a->type == b->type && a->region == b->region && a->freed == b->freed;
}

/*
 * What the MPI has promised (shim.c). NOTHING is remembered without MPI_Init, or where the provider does not know of
 * several.
 */
extern _Atomic enum sn_mpi_threads { UNASKED, ONE, SEVERAL, NOTHING } sn_mpi_promised;
enum sn_mpi_threads sn_mpi_ask_for_threads(void);
static inline enum sn_mpi_threads threads(void)
{
	enum sn_mpi_threads known = atomic_load_explicit(&sn_mpi_promised, memory_order_relaxed);
	return likely(known != UNASKED) ? known : sn_mpi_ask_for_threads();
}

/*
 * For who had the pass when his call began, as entry.S has seen: he has a struct sn_mine. NULL: he does not go the
 * quick way all the same.
 */
static inline const struct sn_shim_quick *quick_with_pass(void)
{
	sn_quick_told();
	return atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
}

/* Likewise for whoever calls. */
static inline const struct sn_shim_quick *quick(void)
{
	return likely(atomic_load_explicit(&sn_mpi_shim.pass, memory_order_relaxed) == sn_mpi_thread.tenure)
		       ? quick_with_pass()
		       : NULL;
}

/* The next calls, 2 to 64 of them, are the MPI's. */
static inline void in_vain(struct entry *e)
{
	e->turn = sn_quick_pause(&e->fails);
}

extern atomic_bool sn_mpi_status_seen; /* the MPI wrote one as it is written here (abi.h) */
static inline bool status_seen(void)
{
	return atomic_load_explicit(&sn_mpi_status_seen, memory_order_relaxed);
}

/* ---- a receive that went the quick way, told by this entry, and came late (watch.c); or did not ---- */
void sn_seen_late(struct entry *e, const struct call *c, const struct sn_shim_way *way, int tag);
static inline void sn_seen_came(struct entry *e, const struct call *c)
{
	if (e->fails && (e->kin || same(&e->call, c)))
		e->fails = 0;
}

/* ---- watch.c: a receive that was watched, and is not over yet ---- */

/*
 * The MPI is about to end it, perhaps among others (false: nobody can watch that); and has done so, and wrote this
 * status, or none.
 */
bool sn_seen_goes_on(void);
void sn_seen_ends(bool well, const void *status);

#endif
