/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short MPI_Alltoall and MPI_Allgather on one node, without messages: each rank writes the blocks that it sends where all can read them,
 * once, and reads those that are for it.
 *
 * It takes one wait, and not one for each message of an algorithm, of which each is a turn of everybody where ranks share cores. And no algorithm that
 * packs blocks by types which it makes for one call, as Open MPI's and MPICH's do from 12 and 8 ranks on.
 *
 * As with long sums (long.h) nothing is watched, and no rank is asked: what MPI demands to be the same on all ranks, how many bytes a block has, and what
 * all know of each other (here.h) says which calls these are, from the first one on, which makes the memory (meet.h). How a block lies in a rank's memory is
 * that rank's affair, and may differ: types without holes are copied, others packed by the MPI. A call that MPI does not allow is the MPI's. What a rank says of
 * its blocks, besides that it has come, is how long they are, and of which kind of call: where ranks disagree each that sees it calls its error handler.
 *
 * Where: in the lines of flat.h, whose calls these are, too, by number, and in two generations as there; what does not fit them (48 bytes, then 1 KiB) in this
 * rank's ring of long.h, one place after the other. Who writes has seen all others come to the call before, so they have left the one before that. A ring holds three
 * pieces, and a call takes at most one: so none takes the place of the one before it; and a piece of a sum is read by all, or it is the one before.
 *
 * Budget: what a rank sends written once, what it gets read once, one locked instruction; no allocation, and no system call but to wait.
 */
#ifndef SN_SHIM_BLOCKS_H
#define SN_SHIM_BLOCKS_H

#include "meet.h"

/* Is this call one of these? Of the first one on a communicator all ranks ask at once. */
struct sn_meet *sn_blocks_of(const struct sn_collective *c, const void *from, const void *to);
/* Then this is it: 0, or an error of the MPI's. */
int sn_blocks_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to);

#endif
