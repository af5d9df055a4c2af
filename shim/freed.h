/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types and communicators that have been freed: their handles may be others'. There are programs, and libraries (BLACS), that
 * make a type for each message. So what is remembered of a call has the numbers of times that its own handles were freed,
 * or others that share a counter with one; the next call, whose numbers are others, is another.
 */
#ifndef SN_SHIM_FREED_H
#define SN_SHIM_FREED_H

#include "quick.h"

#define SN_FREED (1u << 12) /* counters */
extern _Atomic uint32_t sn_freed_counts[SN_FREED];

/* Of half as wide ones the upper half may be anything. Those of a kind differ in some bits, and the kinds in others. */
static inline unsigned sn_freed_counter(handle h)
{
	return (uint32_t)h * 0x9e3779b1u >> 20;
}
static inline uint32_t sn_freed(handle h)
{
	return atomic_load_explicit(&sn_freed_counts[sn_freed_counter(h)], memory_order_relaxed);
}
static inline void sn_freed_is(handle h)
{
	atomic_fetch_add(&sn_freed_counts[sn_freed_counter(h)], 1);
}

/* A call after which a handle may mean something else, or, if it is no such one, anything that was seen. */
enum sn_freed_by { SN_FREED_ANYTHING, SN_FREED_COMM, SN_FREED_DISCONNECTED, SN_FREED_TYPE };
typedef int (*sn_freed_fn)(void *a, void *b);
/* By the MPI's function, which was called by this name: 0, or with a P, 1. */
int sn_freed_call(enum sn_freed_by by, int p, sn_freed_fn mpi, void *a, void *b);

#endif
