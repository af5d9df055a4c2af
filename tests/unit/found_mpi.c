/* SPDX-License-Identifier: BSD-3-Clause */
#include "found_mpi.h"

int PMPI_Init(int *argc, char ***argv)
{
	return 0;
}

int PMPI_Request_free(void *request)
{
	*(int *)request = 0;
	return 7;
}

int MPI_Request_free(void *request)
{
	return PMPI_Request_free(request);
}
