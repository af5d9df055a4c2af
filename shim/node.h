/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of one node, and memory that they share, in MPIs that are told to send all their messages by libfabric.
 *
 *  - MPICH is told that each rank has a node of its own (MPIR_CVAR_NOLOCAL). So MPI_Comm_split_type(MPI_COMM_TYPE_SHARED) gives each
 *    rank a communicator of its own, and a program counts one rank a node, and takes memory, threads and accelerators for
 *    so many of them; and MPI_Win_allocate_shared is an error on every larger one, at which a program that knows that it has
 *    one node ends.
 *  - Intel MPI (2021.18) does not register the memory of MPI_Win_allocate_shared, and its MPI_Put and MPI_Get there, where it
 *    leaves them to the provider, are an error (over libfabric's shm, with MPIR_CVAR_CH4_OFI_ENABLE_RMA=1, they wait for ever).
 *
 * And windows of MPI_Win_allocate, which both have in memory that ranks share, were elsewhere: MPI_Put and MPI_Win_flush took
 * 1 to 2 us, and MPI_Fetch_and_op 4, where by themselves they take 0.1, and the target had to call the MPI for it.
 *
 * Here ranks that can open each other's files by the numbers of their processes are of one node, and MPI_Comm_split makes its
 * communicator (MPICH). What they share is memory of the first one's, without a name, and the window is one of
 * MPI_Win_create over it; of which MPI_Win_shared_query is answered here, and that it is shared (MPI_Win_get_attr). MPI_Put,
 * MPI_Get, MPI_Accumulate and their like are done by who asks for them (onesided.c), also on windows of MPI_Win_allocate, but
 * between MPI_Win_start and MPI_Win_complete (node.c); what begins and ends epochs is the MPI's, and so are all other
 * calls, each of which sees the same memory.
 *
 * Whatever else is asked of either is the MPI's. All ranks hear the same of each other, and so decide alike. Budget: an
 * MPI_Allgather of 40 bytes; of a window an MPI_Bcast and an MPI_Allreduce, too. MPI_Put, a call of the MPI's that moves nothing,
 * and the copy; MPI_Accumulate, besides, two locked instructions at most. No allocation but for types with holes.
 */
#ifndef SN_SHIM_NODE_H
#define SN_SHIM_NODE_H

/* What stands before this definition of a name, NULL: nothing does. definition NULL: the MPI has none. */
void *sn_node_stand_in(const char *name, void *definition);

#endif
