/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Barrier, and short MPI_Allreduce of more than two ranks, flat: each rank writes what it brings along where all
 * can read it, once, and reads what the others have written.
 *
 * What such a collective takes are the times that somebody waits: where there are more ranks than cores, until the
 * others have had the core, else until a line is over. By recursive doubling it is one for each step; flat it is one
 * in all. With a core each that holds for up to 16 ranks, and for operands that fit the line.
 *
 * Flat, all ranks of a communicator must do it. Messages of such a collective reach from each rank to each other, by
 * way of some: or somebody could leave it who does not know of all. So each one that is sent without the MPI
 * (collective.h) has a mark (SN_MARK) where its sender wants to go over and every message that it has received in
 * this call so far was marked. Then whoever wants it and has received only such knows that all ranks want it, and
 * that all of them know it, in the same call: if one does not, each rank has received a message from it, or one that
 * comes of such, without a mark. Who goes through the MPI, for whatever reason, or runs without this library, marks
 * nothing. Nobody counts calls, and no message is sent for that.
 *
 * From there on calls of this form on this communicator are flat until it is freed, whatever the ranks do meanwhile.
 * A form is what MPI demands to be the same on all ranks: what kind of collective, how many elements of what size,
 * which of the MPI's own operations (and with these the types are the MPI's own). Each form is agreed on by itself,
 * for what was proved of one says nothing of another.
 *
 * When the first is, the ranks make the memory (meet.h); if not all have it, the communicator stays as it is.
 *
 * Order of the operands: that of recursive doubling, which was proved of the form: each rank makes all the sums that
 * lead to its own, so that each bit is the MPI's. That is n - 1 of them, in place of log n.
 *
 * Two generations of lines, in turns: who writes in a call has left the one before, so all had come to that, and had
 * left the one before it, whose lines are written now.
 *
 * Budget: one line written and n - 1 read, one locked instruction (that store); no allocation, and no system call but
 * to wait.
 */
#ifndef SN_SHIM_FLAT_H
#define SN_SHIM_FLAT_H

#include "meet.h"

/* Is this call flat? */
struct sn_meet *sn_flat_of(const struct sn_collective *c);
/* Then this is it: 0, or an error of the MPI's. */
int sn_flat_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to);
/* Would this rank go over with such calls, which it has made without the MPI before? */
bool sn_flat_wanted(const struct sn_shim_quick *q, struct sn_seen *e);
/* All ranks would, and know it, and are in this call. */
void sn_flat_agreed(const struct sn_seen *e);

#endif
