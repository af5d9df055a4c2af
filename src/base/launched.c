/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/launched.h"
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LAUNCHERS 3
#define HYDRA	  1
#define SRUN	  2

/*
 * Of Open MPI; MPICH and Intel MPI; srun, which says how many are on each node in a list that only a node knows its place
 * in, but where there is one node these are all. A launcher may itself be of srun's step, with one on each node.
 */
static const char *const rank_names[LAUNCHERS] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
						  "SLURM_LOCALID"};
static const char *const here_names[LAUNCHERS] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
static const char *const all_names[LAUNCHERS] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

uint64_t sn_decimal(const char *text)
{
	uint64_t n = 0;
	for (; *text >= '0' && *text <= '9'; text++)
		n = n * 10 + (uint64_t)(*text - '0');
	return n;
}

static int number(const char *text)
{
	uint64_t n = text ? sn_decimal(text) : 0;
	return n < INT_MAX ? (int)n : 0;
}

/* otherwise: none of them is set, to a number. */
static int first_of(const char *const names[LAUNCHERS], int otherwise)
{
	for (int i = 0; i < LAUNCHERS; i++) {
		const char *text = names[i] ? secure_getenv(names[i]) : NULL;
		if (text)
			return *text >= '0' && *text <= '9' ? number(text) : otherwise;
	}
	return otherwise;
}

/*
 * All of srun's, where they are on one node and have no other launcher; else 0. A step of one is a shell, or a program that
 * may speak to those of other steps.
 */
static int all_of_step(void)
{
	for (int i = 0; i < SRUN; i++)
		if (secure_getenv(rank_names[i]) || secure_getenv(here_names[i]))
			return 0;
	const char *size = secure_getenv("PMI_SIZE");
	int n = number(secure_getenv("SLURM_STEP_NUM_TASKS"));
	bool all = number(secure_getenv("SLURM_STEP_NUM_NODES")) == 1 && (!size || number(size) == n);
	return all && n > 1 ? n : 0;
}

struct sn_launched sn_launched(void)
{
	int step = all_of_step();
	return (struct sn_launched){.rank = first_of(rank_names, 0),
				    .here = step ? step : first_of(here_names, 0),
				    .all = step ? step : first_of(all_names, 0),
				    .hydra = secure_getenv(rank_names[HYDRA]) != NULL};
}

/* srun gives its ranks one of these, too; its own name for them a shell of it has as well. */
int sn_launched_rank(void)
{
	static const char *const names[LAUNCHERS] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};

	return first_of(names, -1);
}

/* It has no other name for itself that a program can see. */
bool sn_launched_by_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");
	return preload && strstr(preload, "/vgpreload_");
}
