/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads in an MPI that has one lock for all its calls: waiting where nobody else waits for that lock. */
#ifndef SN_OFI_BESIDE_H
#define SN_OFI_BESIDE_H

#include "ofi.h"
#include "shim.h"

/* Longest nap, in microseconds, in a call that may block, and of a thread beside others: what another thread
 * completes, or signals, rings no bell. */
#define SN_OFI_SHARED_NAP 1000u

/* ---- of progress.c ---- */

/* What libsennit-mpi.so knows of this thread, if it is in an MPI call; in one that waits, and for nothing that rings no bell. */
struct sn_shim_thread *sn_ofi_calling_thread(const struct sn_shim *shim);
struct sn_shim_thread *sn_ofi_waiting_thread(const struct sn_shim *shim);
/* The list of endpoints stays as it is until it has been used. False: somebody is about to change it. */
bool sn_ofi_set_use(struct sn_ofi_set *set);
void sn_ofi_set_used(struct sn_ofi_set *set);
/* One look at each of them, meanwhile: how much was found. */
int sn_ofi_set_look(const struct sn_ofi_set *set);
/* A look has found so many. */
void sn_ofi_found(int events);

/* Has one thread called so far? */
static inline bool sn_ofi_one_thread(const struct sn_shim *shim)
{
	return atomic_load_explicit(&shim->threads, memory_order_relaxed) <= 1;
}

/* ---- of beside.c ---- */

/* A queue or a counter is opened. */
void sn_ofi_beside_open(void);

/* Are there several threads, in an MPI that lets its lock go? */
static inline bool sn_ofi_beside(const struct sn_shim *shim)
{
	return !sn_ofi_one_thread(shim) && atomic_load_explicit(&shim->lets_go, memory_order_relaxed);
}

/* This thread has found something. */
void sn_ofi_beside_found(int events);
void sn_ofi_beside_took(void);
/* It has found nothing, in a call that waits. True: its wait has just begun. */
bool sn_ofi_beside_begins(const struct sn_shim *shim, struct sn_shim_thread *t);

enum sn_ofi_place {
	SN_OFI_HERE,  /* in this read, as long as anybody */
	SN_OFI_BRIEF, /* in this read, without a nap */
	SN_OFI_LATER  /* when the MPI has let its lock go */
};
/* Where it is to wait for this queue. */
enum sn_ofi_place sn_ofi_beside_place(struct sn_ofi_set *set, struct sn_shim_thread *t);

/* From here on this thread sleeps, and each call of the others comes by the slow way, and is counted. */
void sn_ofi_sleep_begin(struct sn_shim *shim, const struct sn_shim_thread *t, _Atomic uint32_t *sleepers);

#endif
