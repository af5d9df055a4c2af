/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls with counts beyond an int's: MPI_Send_c, MPI_Isend_c, MPI_Recv_c, MPI_Irecv_c, MPI_Sendrecv_c, MPI_Bcast_c,
 * MPI_Alltoall_c, MPI_Allgather_c, MPI_Allgatherv_c, MPI_Allreduce_c, MPI_Reduce_c, MPI_Gather_c,
 * MPI_Scatter_c, MPI_Scan_c, MPI_Exscan_c, MPI_Reduce_scatter_block_c, MPI_Reduce_scatter_c.
 *
 * Programs in Python call these alone (mpi4py from 4 on), with counts that an int has room for: then each is the call
 * without _c, with all that stands before that, and is remembered like it. Others are the MPI's. Where it has no such
 * function, a program that asks for it by a weak symbol finds it here, and what it moves is one element of a type
 * that is made for it; a sum is made in parts.
 */
#ifndef SN_SHIM_LARGE_H
#define SN_SHIM_LARGE_H

#include "quick.h"

/* What stands before this definition, or none, of such a name; else NULL. */
void *sn_large_stand_in(const char *name, void *definition);

#endif
