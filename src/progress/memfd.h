/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory shared with peers: memfds, which have no name in any file system and go when the last process that maps them
 * does, even after kill -9, and stay out of core files, which would be as long as all of them and fill what nobody has
 * written. They are sealed against growing and shrinking, so that a mapped page cannot be taken away
 * under its reader (SIGBUS), and are not inherited by forked children.
 */
#ifndef SN_MEMFD_H
#define SN_MEMFD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Create, size, map and seal. Where a filter refuses memfds it is a file without a name in /dev/shm, which cannot be sealed, but has all
 * its memory. Returns the descriptor (the mapping stays when it is closed) or an error.
 */
int sn_memfd_new(const char *name, size_t bytes, void **mapped);
/* Is it what a peer's should be: one or the other, of exactly this size? */
bool sn_memfd_good(int fd, size_t bytes);
/* Map a descriptor that a peer sent, if it is what it should be: sealed, and of exactly this size. NULL otherwise. */
void *sn_memfd_map(int fd, size_t bytes);
/* Have these pages there before they are used, each of which would cost a fault then, of a microsecond. Where the kernel
 * cannot (before 5.14), they come by faults. Budget: a system call, 0.3 ms for 2 MiB that nobody has touched yet. */
void sn_memfd_touch(void *at, size_t bytes);
/* A descriptor limit was hit: raise the soft limit to the hard one. True if that changed something: try again. */
int sn_fd_limit_raise(void);

#endif
