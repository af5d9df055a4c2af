/* SPDX-License-Identifier: BSD-3-Clause */
/* An error handler that counts, for sums.c and blocks.c. */
#ifndef TOLD_H
#define TOLD_H

#include <mpi.h>

static int told;

static void tell(MPI_Comm *comm, int *code, ...)
{
	(void)comm;
	told += *code != MPI_SUCCESS;
}

#endif
