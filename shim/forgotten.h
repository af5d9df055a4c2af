/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives of types with holes that the program has freed (MPI_Request_free) before they have ended. MPI says that one
 * should not; but who does finds its bytes as soon as he has a message that was sent to him later, for that cannot
 * come before. So what has come for them must be unpacked by then, ours here (packed.h), and the MPI's own by the MPI,
 * which reads in no call that goes without it that they have ended. From such a MPI_Request_free on, until they have:
 *  - nobody has the pass (holder.h), so every call comes to sn_mpi_enter() (shim.c) and goes to the MPI;
 *  - they are looked at before each call, and again after one that brings a message: MPI_Recv and what is like it, the
 *    ends of requests, and collectives that are seen to here.
 *
 * Sends of ours that were freed are only memory to be had back: they are looked at when some is needed.
 */
#ifndef SN_SHIM_FORGOTTEN_H
#define SN_SHIM_FORGOTTEN_H

#include "packed.h"

struct sn_forgotten {
	struct sn_packed packed; /* .at NULL: the MPI's own receive */
	handle real;
	struct sn_forgotten *next;
};

/* It becomes this list's, which frees it. */
void sn_forgotten_add(struct sn_forgotten *f);
/* Sends that have left give their memory back. */
void sn_forgotten_sends(void);

/* The MPI has begun a receive of this type. Some are remembered: the last ones. */
void sn_forgotten_begun(handle type, const void *request);
/* Its MPI_Request_free, if it is one of those and has not ended. False: it is the MPI's to free. */
bool sn_forgotten_takes(void *request);

#endif
