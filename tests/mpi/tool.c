/* SPDX-License-Identifier: BSD-3-Clause */
/* A tool of the profiling interface, in a library of its own: it counts the calls that again.c and together.c make. */
#include <mpi.h>

long tool_calls(void);

static long calls;

long tool_calls(void)
{
	return calls;
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
	calls++;
	return PMPI_Send(buf, count, type, to, tag, comm);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	calls++;
	return PMPI_Isend(buf, count, type, to, tag, comm, request);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
	calls++;
	return PMPI_Recv(buf, count, type, from, tag, comm, status);
}

int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag, void *in,
		 int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status *status)
{
	calls++;
	return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm,
			     status);
}

int MPI_Barrier(MPI_Comm comm)
{
	calls++;
	return PMPI_Barrier(comm);
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	calls++;
	return PMPI_Bcast(buf, count, type, root, comm);
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	calls++;
	return PMPI_Allreduce(from, to, count, type, op, comm);
}

int MPI_Alltoall(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
		 MPI_Comm comm)
{
	calls++;
	return PMPI_Alltoall(out, count, type, in, in_count, in_type, comm);
}

int MPI_Allgather(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
		  MPI_Comm comm)
{
	calls++;
	return PMPI_Allgather(out, count, type, in, in_count, in_type, comm);
}
