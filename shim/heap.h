/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two halves of libsennit-heap.so share: the arenas (heap.c), and the functions in front of malloc (malloc.c). */
#ifndef SN_SHIM_HEAP_H
#define SN_SHIM_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SN_HEAP_MIN                                                                                          \
	((size_t)256                                                                                         \
	 << 10) /* smaller ones are malloc's: a peer copies them before it could have mapped them */

#define SN_HEAP_UNIT 4096 /* and a page: where pages are larger, there is no heap */

/* May there be arenas in this process? Elsewhere they would harm, or tell a tool nothing. */
bool sn_heap_may(void);
/* Is a sanitizer's runtime loaded? */
bool sn_heap_sanitized(void);
/* How long an arena is; 0: there can be none. *keep: so much of it, in units, may lie there freed and not given back. */
size_t sn_heap_bytes(size_t *keep);
/*
 * Its file, with so much behind it, or -1. before: so much of the earlier ones may get huge pages; forked: this is a rank's child. See there for *huge
 * and *most.
 */
int sn_heap_file(size_t bytes, size_t behind, uint64_t before, bool forked, size_t *huge, size_t *most);
/* So much of the program's static memory may lie in there, at most; 0: none, as this is no rank of several. */
size_t sn_heap_static_bytes(void);
/* Is the environment variable of this name "no", or another word for it? */
bool sn_heap_says_no(const char *name);

/* Is it this library's that the program calls? Another may stand in front: an allocator of its own, or a tool. */
bool sn_malloc_is_ours(void);

/*
 * All thread-safe. size > 0; align a power of two. NULL: use malloc. spare: so many bytes behind it are to be the block's, too,
 * if there is room; they cost address space until they are touched. *zero: the memory is known to be zero.
 */
void *sn_arena_alloc(size_t align, size_t size, size_t spare, bool *zero);
/* Are there blocks of this size here, while there is room? */
bool sn_arena_takes(size_t size);
/* Is this pointer one of ours? Without a lock. */
bool sn_arena_owns(const void *p);
/* May some of these bytes be? Without a lock at all. */
bool sn_arena_near(const void *p, size_t bytes);
/* Likewise of the static memory that lies in the file; and of either. */
bool sn_statics_near(const void *p, size_t bytes);
bool sn_heap_near(const void *p, size_t bytes);
void sn_arena_free(void *p);
size_t sn_arena_size(const void *p); /* usable bytes */
/* Make it at least this long, where it is. */
bool sn_arena_resize(void *p, size_t size);
/*
 * These pages are zeros from now on, and cost no memory until they are touched. 0, -1 with errno, or 1: they are not in a block of
 * ours, or do not begin with a page.
 */
int sn_arena_forget(void *at, size_t bytes);
/* No further blocks in this process. */
void sn_arena_confine(void);

/*
 * What surrounds a fork, whose child begins with the lock held, too. False: somebody has it, and `wait` is false. The child may share
 * its parent's descriptors, which it leaves open then.
 */
bool sn_heap_before_fork(bool wait);
void sn_heap_in_parent(void);
void sn_heap_in_child(bool own_descriptors);

/*
 * The program is about to map something else over these bytes, or to move them: if a part is a block's, peers are offered nothing
 * in its arena any more, as after a fork.
 */
void sn_arena_part(const void *at, size_t bytes);
/* The program may have taken an access right from some of it: here it gets it back. */
void sn_heap_unguard(void *at, size_t bytes);
/* Nobody guards any of it: it is a new arena. */
void sn_heap_forget_guards(const void *at, size_t bytes);

/* These as they are behind this library. */
int sn_heap_advise(void *at, size_t bytes, int advice);
int sn_heap_protect(void *at, size_t bytes, int access);
void *sn_heap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset);

/* A part of the address space that shows a part of a file. */
struct sn_heap_shown {
	char *at;
	size_t bytes;
	int fd;
	dev_t dev;
	ino_t ino;
	off_t offset;
};
/* What of it still does so from now on shows the same, with the same access, but is this process's alone. False: not all of it. */
bool sn_heap_privatize(const struct sn_heap_shown *shown);
/* Without the file: a copy takes its place, which all may access. A process that cannot have one ends. */
void sn_heap_copy_apart(void *at, size_t bytes);

/* A line of /proc/self/maps. */
struct sn_mapping {
	uint64_t from, to, offset, inode;
	dev_t device;
	int access;
	bool shared, heap; /* of a heap's file */
};
/* Each of them, from the lowest address on, until the function returns false. No allocation here. False: they cannot be read. */
bool sn_heap_mappings(bool (*each)(const struct sn_mapping *m, void *arg), void *arg);

#endif
