/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short MPI_Alltoall, MPI_Allgather and MPI_Allgatherv on one node, without messages: each rank writes the blocks that it sends where
 * all can read them, once, and reads those that are for it.
 *
 * It takes one wait, and not one for each message of an algorithm, of which each is a turn of everybody where ranks
 * share cores. And no algorithm that packs blocks by types which it makes for one call, as Open MPI's and MPICH's do
 * from 12 and 8 ranks on.
 *
 * As with long sums (long.h) nothing is watched, and no rank is asked: what MPI demands to be the same on all ranks,
 * how many bytes a block has (of MPI_Allgatherv, the longest), and what all know of each other (here.h) says which calls these are, which of them
 * makes the memory, too (meet.h). How a block lies in a rank's memory is that rank's affair, and may differ: types
 * without holes are copied, others packed by the MPI. Nothing else that a rank has may decide, or it would wait
 * alone: so programs that have one buffer for both, which MPI does not allow and most MPIs take, come here, too. What
 * a rank says besides that it has come is how long a block is that it wants, and that it sends, and of which kind the
 * call is; or that it has nothing, where its arguments are none that MPI allows. If all say so it is for the MPI to
 * tell them. Else, and where ranks disagree, each that sees it calls its error handler; and after other lengths, so
 * does each later one of these calls on this communicator.
 *
 * Where: in the lines of flat.h, whose calls these are, too, by number, and in two generations as there; what does
 * not fit them (48 bytes, then 1 KiB) in this rank's ring of long.h, one place after the other. Who writes has seen
 * all others come to the call before, so they have left the one before that. A ring holds three pieces, and a call
 * takes at most one: so none takes the place of the one before it; and a piece of a sum is read by all, or it is the
 * one before.
 *
 * Budget: what a rank sends written once, what it gets read once, one locked instruction; no allocation, and no
 * system call but to wait.
 */
#ifndef SN_SHIM_BLOCKS_H
#define SN_SHIM_BLOCKS_H

#include "meet.h"

/* Is this call one of these? That which makes the memory all ranks ask at once. */
struct sn_meet *sn_blocks_of(const struct sn_collective *c);
/* Then this is it: 0, an error of the MPI's, or SN_MEET_MPIS. */
int sn_blocks_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to);

#endif
