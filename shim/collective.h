/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives seen before, without the MPI: MPI_Barrier, MPI_Bcast, MPI_Allreduce, MPI_Alltoall, MPI_Allgather. Where
 * more ranks than cores make them, barriers and short sums go over to another way (flat.h), all ranks in the same
 * call. Long sums go yet another way from the first on (long.h), and so do short MPI_Alltoall and MPI_Allgather
 * (blocks.h), MPI_Bcast and MPI_Scatter (bcast.h), MPI_Gather and the sums that are not MPI_Allreduce (rooted.h): those of other
 * jobs than these are what is said here, as far as it is named above. MPI_Allreduce_c is MPI_Allreduce as long as its
 * count is an int's (large.h). What has a length for each rank is varying.h's.
 *
 * A collective that an MPI makes of messages leads, with the same arguments on the same communicator, to the same
 * messages each time: which they are depends on the arguments and on the ranks alone, and their match bits are fixed,
 * since on a communicator one collective comes after the other. So a call is watched, and when it has led to the same
 * twice, the next one is these messages and no more. That needs no word with the other ranks: one that does so and
 * one that goes through its MPI send and receive the same. What a call leads to is only taken for all of it where
 *  - MPI_Barrier: no message has a byte;
 *  - MPI_Bcast: the whole buffer comes in one message, or none comes, and the whole goes to each of the others in one;
 *  - MPI_Allreduce: it is recursive doubling. The MPI's own types and operations; with 2^k ranks, k times a message
 *    of full length that goes and one that comes, and each that went was, byte for byte, what MPI_Reduce_local makes
 *    of what had come by then, and so is the result. With k exchanges nothing but that can be right, so it is known
 *    even where the bytes of one call (zeros, say) would fit another rule. With 2^k + n ranks the first 2n are in
 *    pairs: the even one's operand goes first and the result comes, whatever the others do, and that is all; to the
 *    odd one that operand comes before the exchanges, and the sum goes last. An exchange that is not the last one
 *    serves nothing but doubling; with three ranks it is the last one, and could be one with the root of another
 *    algorithm, so there the first call's result must not be what has come in it. What it is made of is
 *    MPI_Reduce_local, with its operands in the order in which the MPI takes them.
 *  - MPI_Alltoall, MPI_Allgather: blocks of one length go straight out of the program's buffers and straight into
 *    them. MPI_Alltoall: each of this rank's blocks but its own goes once, each of the others' comes once, and
 *    nothing that has come goes on. MPI_Allgather: each of the others' blocks comes once, and what goes is this
 *    rank's own, or has come by then. And what would have come of these moves is, byte for byte, what was sent and
 *    what was got. So only where as much is sent to each as is got, of one type, which has no holes; and not where
 *    the MPI packs blocks into a memory of its own (Bruck's algorithm: MPI_Alltoall of 16 ranks, over MPICH of 8,
 *    MPI_Allgather of other than 2^k). What stays with this rank is copied, also where the MPI sends it to itself.
 *    And messages must be all there is: not where an MPI has collectives that use a memory of its own, or another
 *    algorithm for the same arguments later (messages_alone()).
 *
 * Order: a send waits for those receives of which the MPI had heard before it (it reads the provider's queue only
 * when it waits), and for no other. A receive that does not come soon: nothing has been done yet, then the call is
 * the MPI's; else it is waited for here, with looks of the MPI in between, on whose progress the others may depend.
 * So it is with errors: nobody but this can tell of them, by the communicator's error handler.
 *
 * What ends it, and who is not served, is as with other calls seen before (quick.h); flat and long ones go on as they
 * are when a second thread calls. One call in SN_QUICK_PERIOD goes through the MPI and is watched: if it leads
 * elsewhere, all is learned anew.
 *
 * Budget, a call seen before: ten compares, and per message what sn_try_send or sn_try_recv cost; MPI_Allreduce besides a
 * call of MPI_Reduce_local for each that comes.
 */
#ifndef SN_SHIM_COLLECTIVE_H
#define SN_SHIM_COLLECTIVE_H

#include <stdbool.h>

/* Is it the name of one of these? */
bool sn_collective_is(const char *name);
/* What stands before this definition of such a name. */
void *sn_collective_stand_in(const char *name, void *definition);
/* In which handles mean what they do now. */
unsigned sn_collective_generation(void);
/* All calls seen so far. */
void sn_collective_forget(void);

#endif
