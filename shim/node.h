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
 * MPI_Win_create over it, for its name, its attributes and its error handler; of which MPI_Win_shared_query is answered here,
 * and that it is shared (MPI_Win_get_attr). What is moved is moved by who asks for it (onesided.c, accumulate.c), and epochs
 * begin and end in that memory (epochs.c): also of windows of MPI_Win_allocate, unless any rank has an accelerator, whose
 * memory may be among the buffers. Then all of that is the MPI's.
 *
 * As the MPI moves nothing in such windows, other calls go as quickly, and ranks that wait may sleep, while there are some
 * (elsewhere.c).
 *
 * Whatever else is asked of either is the MPI's. All ranks hear the same of each other, and so decide alike. Budget: an
 * MPI_Allgather of 40 bytes; of a window an MPI_Bcast and an MPI_Allreduce, too. MPI_Put, a copy; MPI_Accumulate, besides, two
 * locked instructions at most, as MPI_Win_lock and MPI_Win_unlock. No allocation but for types with holes, and groups.
 */
#ifndef SN_SHIM_NODE_H
#define SN_SHIM_NODE_H

/* What stands before this definition of a name, NULL: nothing does. definition NULL: the MPI has none. */
void *sn_node_stand_in(const char *name, void *definition);

#endif
