/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which thread goes the quick way (quick.h): one at a time, the holder. Until another calls, that is the program's
 * first; and later whichever has called so many times in a row that the others seem to do something else, as where
 * one thread of a program sees to all its messages.
 *
 * Each time that a thread holds is a tenure, and has an odd number; between two of them, the number is even, nobody
 * goes the quick way, and every receive of ours (requests.h) is complete or the MPI's. A thread knows the number of
 * its last tenure. The entry points (entry.S) compare it with that of the tenure that is under way, so whoever does
 * not hold comes here with each call.
 *  - He counts himself, and then looks whether somebody holds: he ends that tenure before he goes on (visit.c). Who
 *    takes one says so, and then looks whether somebody has counted himself. Both are sequentially consistent, so of
 *    two at once one sees the other: no call that has begun in a tenure of another's goes on in it.
 *  - One that began before may go on in it, perhaps for long: a receive that waits in the MPI. That is as when the
 *    holder has just begun a call beside the MPI, which several threads may at any time (shim.h, at_once). So all
 *    that a thread has seen is its own (struct sn_mine) and is looked at by it alone, and what several share, the
 *    receives that are pending, only by who is at them in his tenure (own.h).
 *  - Who is about to sleep in such a call may do so with a lock of the MPI, and the holder, who counts nothing, would
 *    wake nobody. So the sleeper takes the pass away (shim.h): the holder comes here with each call, counts, and
 *    wakes, and has the pass again when nobody sleeps and so many calls have gone by. Likewise what was seen is
 *    forgotten by whatever thread: it counts that, and the holder is sent here, and forgets. And as long as there are
 *    receives that the program has freed (forgotten.h).
 *
 * To end a tenure costs some 10 us, so threads that call by turns must not take it from each other all the time: from
 * one that lasted less than SN_LONG_NS on, twice as many calls in a row are asked for. tests/model/holder.pml checks
 * all of it.
 */
#ifndef SN_SHIM_HOLDER_H
#define SN_SHIM_HOLDER_H

#include "kin.h"

#define SN_ENTRIES 64
#define SN_WAYS                                                                                              \
	4 /* places for a call, so that two dozen kinds of them, as in an exchange with all neighbours, find one each */

#define SN_REGIONS 64

#define SN_CALLS_FEW 64u /* in a row: as many are watched in vain at worst (quick.h) */
#define SN_CALLS_MANY                                                                                        \
	(1u << 14)	    /* more than a time slice of nothing else, in which the others may have no core */
#define SN_LONG_NS 2000000u /* a hundred times what it costs to end a tenure */

#define SN_SOURCES 32

/* Of a sender's messages with these match bits, on a communicator. */
struct sn_source {
	bool known;
	handle comm;
	uint32_t freed, peer;
	uint64_t bits;
	int source, tag;
};

/* packed.h: where what goes is packed, or what comes is unpacked from. */
struct sn_packing {
	char *at;
	size_t bytes;
	bool busy;
};

/* What a thread has seen. */
/* What the MPI was asked last, and had not come (vain.h). */
struct sn_vain {
	uintptr_t what;	      /* the call and its requests; 0: nothing */
	uint32_t calls;	      /* of this thread, up to the last of its questions */
	uint64_t first, last; /* ticks: since when it has been asked, and when the MPI was */
	uint32_t unasked;     /* questions since then */
	bool works;	      /* something is done between two of them */
};

struct sn_mine {
	struct entry sends[SN_ENTRIES], recvs[SN_ENTRIES], probes[SN_ENTRIES];
	struct sn_kin kin_sends[SN_KINS], kin_recvs[SN_KINS];
	struct sn_source sources[SN_SOURCES]; /* of what was found (probed.c) */
	uintptr_t regions[SN_REGIONS];	      /* of a host's memory, as has been asked; 0: none */
	unsigned victim; /* the place that was given to another call last, when none was free */
	struct sn_shim_lesson
		lesson; /* not on the stack: an error handler may leave the call by a jump. Then nothing is watched any more. */
	struct sn_shim_lesson found; /* likewise, of a probe */
	unsigned asks,
		run;	/* calls of MPI_Iprobe until the clock is read, and so many since it was (probed.c) */
	uint64_t asked; /* ns: then */
	struct sn_packing packing[2];
	struct sn_vain vain;
	bool watching;
	struct call awaited; /* the receive that was watched, and is not over yet; and its buffer */
	const void *awaited_in;
	handle pending;		 /* its request; 0: none, or it has ended, and another may get it */
	unsigned spared;	 /* receives that were not watched, as that one was */
	_Atomic uint32_t inside; /* at the receives that are pending (own.h) */
	uint32_t forgets;	 /* how often all was to be forgotten, when it was last */
	struct sn_mine *next;	 /* of nobody: the next one of these */
};

extern _Atomic uint32_t sn_mpi_tenure; /* odd: of a thread; even: nobody holds */

/* If not: what who has ended the tenure has done with the receives that were pending is seen. */
static inline bool sn_holder_is_me(void)
{
	return atomic_load_explicit(&sn_mpi_tenure, memory_order_acquire) == sn_mpi_thread.tenure;
}

/* By sn_mpi_enter(), for a thread that has not the pass. True: it has it now. */
bool sn_holder_enter(void);
/* What was seen is forgotten, by whom ever. */
void sn_holder_forget(void);
/* The thread ends. */
void sn_holder_exit(void);

/* The first of its places. */
static inline unsigned sn_seen_set(const struct call *c)
{
	unsigned hash = (unsigned)c->peer * 7 + (unsigned)c->tag + (unsigned)(c->comm >> 5) +
			(unsigned)c->region * 3 + (unsigned)c->count;
	return hash % SN_ENTRIES;
}

static inline bool sn_seen_is(const struct entry *e, const struct call *c)
{
	return likely(same(&e->call, c) && e->known);
}

/* Beside `at`, its first place; NULL: it is not known. */
static inline struct entry *sn_seen_beside(struct entry *table, unsigned at, const struct call *c)
{
	for (unsigned i = 1; i < SN_WAYS; i++)
		if (sn_seen_is(&table[at ^ i], c))
			return &table[at ^ i];
	return NULL;
}
/* Likewise, in all of them. */
static inline struct entry *sn_seen_known(struct entry *table, const struct call *c)
{
	unsigned at = sn_seen_set(c);
	return likely(sn_seen_is(&table[at], c)) ? &table[at] : sn_seen_beside(table, at, c);
}
/* Its place; or one for it: which no call has, or each of them in turn. By a thread that has a struct sn_mine. */
struct entry *sn_seen_place(struct entry *table, const struct call *c) __attribute__((returns_nonnull));

/* Nothing is learned from the receive that is awaited. */
static inline void sn_seen_forget(void)
{
	if (sn_mpi_thread.mine)
		sn_mpi_thread.mine->pending = 0;
}

#endif
