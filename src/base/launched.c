/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/launched.h"
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#define LAUNCHERS 3
#define HYDRA	  1

/*
 * Of Open MPI; MPICH and Intel MPI; srun, which has no number of those on one node that could be read without the
 * node's own.
 */
static const char *const rank_names[LAUNCHERS] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
						  "SLURM_LOCALID"};
static const char *const here_names[LAUNCHERS] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
static const char *const all_names[LAUNCHERS] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

static int first_of(const char *const names[LAUNCHERS])
{
	for (int i = 0; i < LAUNCHERS; i++) {
		const char *text = names[i] ? secure_getenv(names[i]) : NULL;
		long n = text ? strtol(text, NULL, 10) : 0;
		if (text)
			return n > 0 && n < INT_MAX ? (int)n : 0;
	}
	return 0;
}

struct sn_launched sn_launched(void)
{
	return (struct sn_launched){.rank = first_of(rank_names),
				    .here = first_of(here_names),
				    .all = first_of(all_names),
				    .hydra = secure_getenv(rank_names[HYDRA]) != NULL};
}
