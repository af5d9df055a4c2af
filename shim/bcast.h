/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short MPI_Bcast of more than two ranks, and MPI_Scatter, on one node, without messages: the root writes what it has
 * where all can read it, once, and the others read it, or each its block. By messages it goes from rank to rank, and where ranks share cores each of
 * these steps is a turn of everybody.
 *
 * Which calls these are is known as in blocks.h: by the bytes and by who the root is, which must be the same on all ranks.
 * MPI_Scatter: blocks that longer messages do not move as fast.
 *
 * MPI_Scatterv: all such calls on a communicator whose ranks are all of this job, as only the root knows all lengths; it says
 * where each block lies in its place, or that the call is the MPI's.
 *
 * The root waits for nobody, as long as there is a place: SN_MEET_PLACES of them, in turns. Who has read says so with
 * each fourth call, and a root that would take the place of the call SN_MEET_PLACES before waits until all have said
 * that of it. That is known of them all for some calls ahead, so that a root looks at their words only now and then.
 * Where ranks disagree about the length those that read see it, and call the error handler.
 *
 * Budget: written once, read once by each; one locked instruction of the root's, and one with each fourth call of the
 * others'; no allocation, and no system call but to wait.
 */
#ifndef SN_SHIM_BCAST_H
#define SN_SHIM_BCAST_H

#include "meet.h"

/* Is this call one of these? That which makes the memory all ranks ask at once. */
struct sn_meet *sn_bcast_of(const struct sn_collective *c);
/* Then this is it: 0, an error of the MPI's, or, of MPI_Scatterv, SN_MEET_MPIS. */
int sn_bcast_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to);

#endif
