/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who sees what is written in the arenas (heap.c): peers, until the process forks, or the program maps something else there; and how
 * the engine hears where they are.
 */
#include "copy/heap.h"
#include "heap_arena.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNIT	   ((size_t)SN_HEAP_UNIT)
#define READ_WRITE (PROT_READ | PROT_WRITE)

/* ---- fork ----------------------------------------------------------------------------------------------------- */

/* The descriptor is lost: copy each block, and put the copy in its place, which all may access. */
static void privatize_by_copy(struct sn_arena *a)
{
	/* In between, too, the child has something that is its arena's, and nobody else finds room there. */
	for (size_t i = 0; i < a->free.count; i++) {
		const struct sn_run *run = &a->free.run[i];
		void *between = sn_heap_mmap(a->base + run->at * UNIT, run->count * UNIT, PROT_NONE,
					     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
		/* cppcheck-suppress memleak ; it is the arena's */
		if (between == MAP_FAILED)
			break; /* one mapping too many: the rest is left to chance */
	}
	for (size_t at = 0; at < a->fresh; at++)
		sn_heap_copy_apart(a->base + at * UNIT, sn_arena_length(a, at) * UNIT);
}

/* With the lock held: from here on peers do not see what is written here, so before that nothing is offered to them any more. */
static void generation_end(struct sn_arena *a)
{
	atomic_store(&sennit_heap_generation, 0);
	struct sn_heap_shown blocks = {a->base, a->fresh * UNIT, a->fd, a->dev, a->ino, 0};
	struct sn_heap_shown statics = {a->statics.at, a->statics.bytes, a->fd,
					a->dev,	       a->ino,		 (off_t)a->static_at};
	bool good = sn_arena_fd_good(a);
	if (!good || !sn_heap_privatize(&blocks))
		privatize_by_copy(a);
	if (!good || !sn_heap_privatize(&statics))
		sn_heap_copy_apart(statics.at, statics.bytes);
	a->shared = false;
	sn_heap.now = NULL;
}

bool sn_heap_before_fork(bool wait)
{
	if (wait)
		pthread_mutex_lock(&sn_heap.lock);
	else if (pthread_mutex_trylock(&sn_heap.lock))
		return false;
	if (sn_heap.now && sn_heap.now->live)
		generation_end(sn_heap.now);
	return true;
}

static bool overlap(const char *at, size_t bytes, const char *with, size_t their_bytes)
{
	return at < with + their_bytes && at + bytes > with;
}

void sn_arena_part(const void *at, size_t bytes)
{
	if (!sn_heap_near(at, bytes))
		return;
	pthread_mutex_lock(&sn_heap.lock);
	struct sn_arena *a = sn_heap.now;
	if (a && a->live &&
	    (overlap(at, bytes, a->base, a->fresh * UNIT) ||
	     overlap(at, bytes, a->statics.at, a->statics.bytes)))
		generation_end(a);
	pthread_mutex_unlock(&sn_heap.lock);
}

void sn_heap_in_parent(void)
{
	pthread_mutex_unlock(&sn_heap.lock);
}

void sn_heap_in_child(bool own_descriptors)
{
	sn_heap.forked = true;
	for (unsigned i = 0; i < sn_heap.count; i++) {
		if (own_descriptors && sn_heap.at[i].bytes && sn_arena_fd_good(&sn_heap.at[i]))
			close(sn_heap.at[i].fd);
		sn_heap.at[i].fd = -1;
		/* behind its blocks nothing was inherited, and now or later lies what is others' */
		if (sn_heap.at[i].fresh * UNIT < sn_heap.at[i].bytes)
			sn_heap.at[i].bytes = sn_heap.at[i].fresh * UNIT;
	}
	if (sn_heap.now) { /* it had no blocks, and is not here */
		memset(sn_heap.now, 0, sizeof(*sn_heap.now));
		sn_heap.now->fd = -1;
		sn_heap.now = NULL;
		atomic_store(&sennit_heap_generation, 0);
	}
	pthread_mutex_unlock(&sn_heap.lock);
}

/* ---- for the engine ------------------------------------------------------------------------------------------- */

__attribute__((visibility("default"))) int sennit_heap_info(struct sn_heap_info *out);
__attribute__((visibility("default"))) int sennit_heap_info(struct sn_heap_info *out)
{
	pthread_mutex_lock(&sn_heap.lock);
	const struct sn_arena *a = sn_arena_now();
	int rc = a && sn_arena_fd_good(a) ? 0 : -1;
	if (!rc)
		*out = (struct sn_heap_info){.version = 2,
					     .generation = a->generation,
					     .fd = a->fd,
					     .span = {(uintptr_t)a->base, a->bytes, (uintptr_t)a->statics.at,
						      a->statics.bytes, a->static_at}};
	pthread_mutex_unlock(&sn_heap.lock);
	return rc;
}

__attribute__((visibility("default"))) int sennit_heap_refetch(uint32_t generation, void *at, size_t len);
__attribute__((visibility("default"))) int sennit_heap_refetch(uint32_t generation, void *at, size_t len)
{
	int rc = -1;
	pthread_mutex_lock(&sn_heap.lock);
	uint64_t from;
	size_t left;
	const struct sn_arena *a = sn_arena_place(at, &from, &left);
	if (a && a->generation == generation && !a->shared && sn_arena_fd_good(a)) {
		size_t done = 0;
		ssize_t n = 1;
		for (; done < len && n > 0; done += n > 0 ? (size_t)n : 0)
			n = pread(a->fd, (char *)at + done, len - done, (off_t)(from + done));
		rc = done == len ? 0 : -1;
	}
	pthread_mutex_unlock(&sn_heap.lock);
	return rc;
}
