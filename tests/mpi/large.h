/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with counts of MPI 4, by weak symbols, as mpi4py asks for them: over sennit they are there, whatever the MPI. */
#ifndef SN_TESTS_LARGE_H
#define SN_TESTS_LARGE_H

#include <mpi.h>

#define WEAK __attribute__((weak))

int WEAK MPI_Send_c(const void *buf, MPI_Count count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int WEAK MPI_Isend_c(const void *buf, MPI_Count count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
		     MPI_Request *request);
int WEAK MPI_Recv_c(void *buf, MPI_Count count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
		    MPI_Status *status);
int WEAK MPI_Irecv_c(void *buf, MPI_Count count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
		     MPI_Request *request);
int WEAK MPI_Sendrecv_c(const void *out, MPI_Count out_count, MPI_Datatype out_type, int to, int out_tag,
			void *in, MPI_Count in_count, MPI_Datatype in_type, int from, int in_tag,
			MPI_Comm comm, MPI_Status *status);
int WEAK MPI_Bcast_c(void *buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
int WEAK MPI_Alltoall_c(const void *out, MPI_Count count, MPI_Datatype type, void *in, MPI_Count in_count,
			MPI_Datatype in_type, MPI_Comm comm);
int WEAK MPI_Allgatherv_c(const void *out, MPI_Count count, MPI_Datatype type, void *in,
			  const MPI_Count *in_counts, const MPI_Aint *displs, MPI_Datatype in_type,
			  MPI_Comm comm);
int WEAK MPI_Allgather_c(const void *out, MPI_Count count, MPI_Datatype type, void *in, MPI_Count in_count,
			 MPI_Datatype in_type, MPI_Comm comm);
int WEAK MPI_Reduce_c(const void *from, void *to, MPI_Count count, MPI_Datatype type, MPI_Op op, int root,
		      MPI_Comm comm);
int WEAK MPI_Scan_c(const void *from, void *to, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int WEAK MPI_Exscan_c(const void *from, void *to, MPI_Count count, MPI_Datatype type, MPI_Op op,
		      MPI_Comm comm);
int WEAK MPI_Reduce_scatter_block_c(const void *from, void *to, MPI_Count count, MPI_Datatype type, MPI_Op op,
				    MPI_Comm comm);
int WEAK MPI_Reduce_scatter_c(const void *from, void *to, const MPI_Count *counts, MPI_Datatype type,
			      MPI_Op op, MPI_Comm comm);
int WEAK MPI_Gather_c(const void *out, MPI_Count count, MPI_Datatype type, void *in, MPI_Count in_count,
		      MPI_Datatype in_type, int root, MPI_Comm comm);
int WEAK MPI_Scatter_c(const void *out, MPI_Count count, MPI_Datatype type, void *in, MPI_Count in_count,
		       MPI_Datatype in_type, int root, MPI_Comm comm);
int WEAK MPI_Gatherv_c(const void *out, MPI_Count count, MPI_Datatype type, void *in,
		       const MPI_Count *in_counts, const MPI_Aint *displs, MPI_Datatype in_type, int root,
		       MPI_Comm comm);
int WEAK MPI_Scatterv_c(const void *out, const MPI_Count *counts, const MPI_Aint *displs, MPI_Datatype type,
			void *in, MPI_Count in_count, MPI_Datatype in_type, int root, MPI_Comm comm);
int WEAK MPI_Alltoallv_c(const void *out, const MPI_Count *counts, const MPI_Aint *displs, MPI_Datatype type,
			 void *in, const MPI_Count *in_counts, const MPI_Aint *in_displs,
			 MPI_Datatype in_type, MPI_Comm comm);
int WEAK MPI_Alltoallw_c(const void *out, const MPI_Count *counts, const MPI_Aint *displs,
			 const MPI_Datatype *types, void *in, const MPI_Count *in_counts,
			 const MPI_Aint *in_displs, const MPI_Datatype *in_types, MPI_Comm comm);
int WEAK MPI_Ibcast_c(void *buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm,
		      MPI_Request *request);
int WEAK MPI_Iallreduce_c(const void *from, void *to, MPI_Count count, MPI_Datatype type, MPI_Op op,
			  MPI_Comm comm, MPI_Request *request);
int WEAK MPI_Ireduce_c(const void *from, void *to, MPI_Count count, MPI_Datatype type, MPI_Op op, int root,
		       MPI_Comm comm, MPI_Request *request);
int WEAK MPI_Ialltoall_c(const void *out, MPI_Count count, MPI_Datatype type, void *in, MPI_Count in_count,
			 MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request);
int WEAK MPI_Iallgather_c(const void *out, MPI_Count count, MPI_Datatype type, void *in, MPI_Count in_count,
			  MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request);
int WEAK MPI_Igather_c(const void *out, MPI_Count count, MPI_Datatype type, void *in, MPI_Count in_count,
		       MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request);
int WEAK MPI_Iscatter_c(const void *out, MPI_Count count, MPI_Datatype type, void *in, MPI_Count in_count,
			MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request);

#endif
