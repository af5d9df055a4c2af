/* SPDX-License-Identifier: BSD-3-Clause */
/* A tool of the profiling interface that wants to see one function which ends requests, and nothing else. */
#include <mpi.h>

long tool_calls(void);

static long calls;

long tool_calls(void)
{
	return calls;
}

int MPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
	calls++;
	return PMPI_Waitany(count, requests, index, status);
}
