/* SPDX-License-Identifier: BSD-3-Clause */
/* What heap.c, which has the blocks, and heap_fork.c, which tells who sees them, know of the arenas. */
#ifndef SN_SHIM_HEAP_ARENA_H
#define SN_SHIM_HEAP_ARENA_H

#include "heap.h"
#include "heap_pieces.h"
#include "heap_runs.h"
#include "statics.h"
#include <pthread.h>
#include <stdatomic.h>

#define SN_ARENAS    8		/* generations with blocks in use: when there are more, malloc serves */
#define SN_HAS_SPARE (1u << 31) /* in a length: some of it is there to grow into */

struct sn_arena {
	char *base;
	size_t bytes, units;
	int fd;
	dev_t dev;
	ino_t ino;
	uint32_t generation;
	bool shared;
	size_t huge; /* so many bytes may get huge pages */
	struct sn_pieces pieces;
	uint32_t *length; /* of the block that begins at this unit, and SN_HAS_SPARE; else 0 */
	struct sn_runs free;
	size_t fresh;		   /* units from here on were never given out */
	uint64_t open;		   /* so many bytes can be accessed */
	size_t live;		   /* blocks, and 1 if it has statics, which are never freed */
	size_t used;		   /* units in them */
	struct sn_statics statics; /* only the first one has some */
	uint64_t static_at;	   /* where they are in the file */
};

struct sn_heap_state {
	pthread_mutex_t lock;
	struct sn_arena at[SN_ARENAS];
	unsigned count; /* slots of at[] that were ever used */
	uint32_t made;
	struct sn_arena *now; /* the one that new blocks come from */
	size_t most, keep; /* the longest block that it may have; so much that is free, at most, in units */
	uint64_t huge;	   /* bytes of all arenas that may get huge pages by our advice */
	bool decided, off; /* off is for good */
	bool forked;	   /* this process is a rank's child */
	bool started;	   /* the program's own code may have run */
	_Atomic uintptr_t low, high, static_low, static_high;
};
extern struct sn_heap_state sn_heap;

extern _Atomic uint32_t sennit_heap_generation; /* in use now; 0: none */

/* All with the lock held. */
struct sn_arena *sn_arena_now(void); /* the one that new blocks come from; NULL: none */
/* The arena in which these bytes or static memory lie, where in its file, and how much of that is left from there on. */
const struct sn_arena *sn_arena_place(const void *p, uint64_t *at, size_t *left);
bool sn_arena_fd_good(const struct sn_arena *a);
static inline size_t sn_arena_length(const struct sn_arena *a, size_t at)
{
	return a->length[at] & ~SN_HAS_SPARE;
}

#endif
