/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short MPI_Reduce and MPI_Gather on one node, without messages: each rank writes what it brings along where the root
 * can read it, and the root reads. bcast.h is the other way round. Whoever is not the root waits for nobody, as long as
 * it has a place: SN_MEET_PLACES of them, in turns. All say with each fourth call how far they are, and who would take
 * the place of the call SN_MEET_PLACES before waits until the root of that one has said that of it. MPI_Scan,
 * MPI_Exscan, MPI_Reduce_scatter and MPI_Reduce_scatter_block likewise, but that each rank reads, of all or of those
 * before it, what its part of the sum is made of.
 *
 * Which calls these are is known as in long.h and blocks.h, by what must be the same on all ranks. Sums: the
 * MPI's own types, without holes, and operations, up to SN_MEET_PLACE. The sum is made by MPI_Reduce_local, in the order
 * of the ranks, whoever the root is; so the same operands lead to the same result in all calls, to the bit, if either
 * their order does not matter (integers), or the first such call on a communicator makes the memory. MPI_Gather: blocks that longer
 * messages do not move as fast. These, and sums in whatever order, begin with the SN_MEET_CALLSth call.
 *
 * MPI_Gatherv: all such calls on a communicator whose ranks are all of this job, as only the root knows all lengths. What is
 * long goes as a message beside (beside.h), for which the root has posted before it looks for the short ones; the rank says
 * so in its line.
 *
 * What a rank says of its operand is its length, or that it has none that MPI allows; then who reads it calls the error
 * handler, as that rank does.
 *
 * Budget: written once, read once; one locked instruction for each 8 KiB of who is not the root, and one with each fourth call; no
 * allocation, and no system call but to wait. tests/model/rooted.pml
 */
#ifndef SN_SHIM_ROOTED_H
#define SN_SHIM_ROOTED_H

#include "meet.h"

/* Is this call one of these? That which makes the memory all ranks ask at once. */
struct sn_meet *sn_rooted_of(const struct sn_collective *c, const void *from);
/* Then this is it: 0, or an error of the MPI's. */
int sn_rooted_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to);

#endif
