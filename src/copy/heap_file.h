/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a shareable heap (heap.h), as a file that only descriptors lead to: made by libsennit-heap.so, checked by
 * each process that maps another's. Calls nothing of sennit's, and allocates nothing.
 *
 * A page that is mapped must never be missing under its reader (SIGBUS). A memfd is sealed against it. But memfds get huge
 * pages only where root has set shmem_enabled, which hardly anybody does, while a tmpfs gets what its mount options say,
 * and anybody may mount one in a user namespace of its own: a child makes both, creates the file, and is gone; the
 * descriptor keeps the file system. There are no seals in one, so it must have no limit, and belong to the user who maps it
 * (who could end this process anyway).
 */
#ifndef SN_COPY_HEAP_FILE_H
#define SN_COPY_HEAP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SN_HEAP_NAME "sennit-heap" /* part of its name in /proc */

/* A descriptor, not inherited by programs that are started, of so many bytes; -1: errno says why. */
int sn_heap_file_sealed(size_t bytes);
/* With huge pages where it asks for them (MADV_HUGEPAGE). -1 also where a seccomp filter watches, since one may kill who
 * tries, and where the system has more than 300 mounts, which it would copy. Budget: 0.5 ms, in a virtual machine; where 16
 * processes do so at once on two processors, 6. */
int sn_heap_file_huge(size_t bytes);
/* May a process map so much of this, which another has sent? */
bool sn_heap_file_good(int fd, uint64_t bytes);

#endif
