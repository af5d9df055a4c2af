/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two halves of libsennit-heap.so share: the arenas (heap.c), and the functions in front of malloc (malloc.c). */
#ifndef SN_SHIM_HEAP_H
#define SN_SHIM_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#define SN_HEAP_MIN                                                                                          \
	((size_t)256                                                                                         \
	 << 10) /* smaller ones are malloc's: a peer copies them before it could have mapped them */

/* Is it this library's that the program calls? Another may stand in front: an allocator of its own, or a tool. */
bool sn_malloc_is_ours(void);

/* All thread-safe. size > 0; align a power of two. NULL: use malloc. *zero: the memory is known to be zero. */
void *sn_arena_alloc(size_t align, size_t size, bool *zero);
/* Are there blocks of this size here, while there is room? */
bool sn_arena_takes(size_t size);
/* Is this pointer one of ours? Without a lock. */
bool sn_arena_owns(const void *p);
void sn_arena_free(void *p);
size_t sn_arena_size(const void *p); /* usable bytes */
/* Make it at least this long, where it is. */
bool sn_arena_resize(void *p, size_t size);

#endif
