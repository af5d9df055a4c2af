/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lies in the shareable heap (copy/heap.h) other ranks read where it is. Each says where its own is, and maps
 * those of the others, once for each process however many communicators there are; to read, for nobody writes here
 * what is another's.
 */
#ifndef SN_SHIM_LEND_H
#define SN_SHIM_LEND_H

#include "copy/heap.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_lent {		  /* a rank's heap, as its own process sees it; 0 bytes: it has none */
	struct sn_heap_span span; /*  0 */
	int32_t fd;		  /* 40 */
	uint32_t generation;	  /* 44 */
};

struct sn_lent sn_lend_own(void);
/* Do these bytes of this process lie in what it has told the others, as they see it? Budget: a load. */
bool sn_lend_holds(const struct sn_lent *own, const void *at, size_t len);
/* Of a process that began then. NULL: it has none, or it cannot be had here. */
const char *sn_lend_map(int pid, uint64_t began, const struct sn_lent *theirs);
/* Have so many bytes of its blocks readable there: how many are; fewer: it cannot be. Budget: a lock and a system call. */
uint64_t sn_lend_reach(const char *heap, uint64_t far);

#endif
