/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Do all ranks of the job have this library, of this version, on this node? Then what MPI demands to be the same on
 * all of them can be done in another way without asking each time. Where one of them runs without it nothing is.
 *
 * Each rank listens on an abstract socket named after the job and its number before it begins MPI_Init, and looks for
 * the others' when that is over: no rank leaves MPI_Init before all have come to it, for they tell each other their
 * addresses there. So all see the same. Only if all are there an MPI_Allreduce of the MPI's says whether all can:
 * whatever a rank knows of itself, such as that its buffers may be a GPU's.
 *
 * The job is named by PMIx, or by the process at the other end of the launcher's connection (PMI_FD), and the
 * namespace of its number. Where neither says, nobody is here. A name that somebody else has is one that is there; of
 * another user, it is not.
 *
 * Then MPI_COMM_WORLD has its memory (meet.h), so that collectives on it go one way from the first one on.
 *
 * Budget: once, some system calls for each rank, and one MPI_Allreduce of four bytes; and what the memory takes, 0.1 ms of two ranks.
 */
#ifndef SN_SHIM_HERE_H
#define SN_SHIM_HERE_H

#include "quick.h"

#define SN_HERE_MOST 64 /* ranks */

/* All are. */
extern bool sn_here_all;
/* What stands before MPI_Init and MPI_Init_thread; else NULL. */
void *sn_here_stand_in(const char *name, void *definition);
/* Are all ranks of this communicator of this job, and one group? Each of them hears the same. */
bool sn_here_comm(handle comm);

#endif
