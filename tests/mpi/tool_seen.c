/* SPDX-License-Identifier: BSD-3-Clause */
/* A tool of the profiling interface that counts these calls, each by its name. */
#include "tool_seen.h"

static long seen[NUMBERS];

long tool_seen(int number)
{
	return seen[number];
}

#define STAND_BEFORE(name, parameters, arguments)                                                            \
	int MPI_##name parameters                                                                            \
	{                                                                                                    \
		seen[NUMBER_##name]++;                                                                       \
		return PMPI_##name arguments;                                                                \
	}
SEEN(STAND_BEFORE)
