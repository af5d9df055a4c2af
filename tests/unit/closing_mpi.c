/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI whose MPI_Finalize sleeps, as Open MPI's does, in a library that is called like it; and the C library's
 * sleep(), counted.
 */
#include "closing_mpi.h"
#include <unistd.h>

static unsigned slept;

FOUND unsigned int sleep(unsigned int seconds)
{
	slept += seconds;
	return 0;
}

unsigned closing_slept(void)
{
	return slept;
}

/* Not as its last call, which would return to the caller of this. */
unsigned closing_sleeps(unsigned seconds)
{
	return sleep(seconds) + 1;
}

int PMPI_Init(int *argc, char ***argv)
{
	return 0;
}

int PMPI_Finalize(void)
{
	closing_sleeps(1);
	return 7;
}

int MPI_Finalize(void)
{
	return PMPI_Finalize();
}
