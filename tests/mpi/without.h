/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that runs without libsennit-mpi.so, for sums.c, blocks.c and together.c. */
#ifndef WITHOUT_H
#define WITHOUT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_rank_1(void)
{
	const char *names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}, *it = NULL;
	for (int i = 0; i < 3 && !it; i++)
		it = getenv(names[i]);
	return it && !strcmp(it, "1");
}

/* Once more, as if nobody had put anything in front. */
static void without(char **argv)
{
	if (is_rank_1() && getenv("LD_PRELOAD")) {
		unsetenv("LD_PRELOAD");
		execv("/proc/self/exe", argv);
	}
}

#endif
