/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Alltoallv and MPI_Alltoallw of short blocks on one node, without messages, as blocks.h has MPI_Alltoall: each rank
 * writes what it sends where all can read it, once, and reads what is for it.
 *
 * Here each pair of ranks has a length of its own, and only these two know it. So all such calls come here, on a
 * communicator whose ranks are all of this job, and each rank says to each of the others, in a cell of that pair's,
 * that it has come, how long the block is, and where it lies, if not in the cell itself (up to 48 bytes): in this
 * rank's ring. Or it says to all of them that the call is the MPI's: one of its blocks is long, or all together; or its
 * arguments are none that MPI allows. Each rank hears that of all before it takes anything, and so all know it of the same
 * calls; where it was so lately, all of them leave out some calls before they ask again (sn_meet_asks()).
 *
 * Where ranks disagree about a length who reads it calls its error handler.
 *
 * The cells have two generations, and a ring three pieces, as in blocks.h, whose calls these are, by number. A type that
 * has holes is packed, by the MPI.
 *
 * Budget: what a rank sends written once, what it gets read once, one locked instruction; no allocation, and no
 * system call but to wait.
 */
#ifndef SN_SHIM_VARY_H
#define SN_SHIM_VARY_H

#include "meet.h"

/* Is this call one of these? That which makes the memory all ranks ask at once. */
struct sn_meet *sn_vary_of(const struct sn_collective *c);
/* Then this is it: 0, an error of the MPI's, or SN_MEET_MPIS. */
int sn_vary_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to);

#endif
