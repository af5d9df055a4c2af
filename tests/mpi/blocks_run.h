/* SPDX-License-Identifier: BSD-3-Clause */
/* For blocks.c, rooted.c and vary.c: how each begins and ends, as its first argument says, and several threads at once. */
#ifndef BLOCKS_RUN_H
#define BLOCKS_RUN_H

#include "before.h"
#include "blocks_check.h"
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *run_how;	/* the first argument, or "" */
static bool run_many, run_ours; /* with MPI_THREAD_MULTIPLE; most calls are to go without the MPI */

static void begin(int argc, char **argv)
{
	int provided;
	run_how = argc > 1 ? argv[1] : "";
	run_many = !strcmp(run_how, "-m");
	run_ours = !*run_how || run_many;
	if (!strcmp(run_how, "-w"))
		without(argv);
	if (!strcmp(run_how, "-v"))
		variable();
	if (!strcmp(run_how, "-s"))
		session_begins();
	MPI_Init_thread(&argc, &argv, run_many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	alarm(100);
}

/* The program's status. */
static int end(void)
{
	int all_faults = 0, all_calls = 0;
	MPI_Allreduce(&faults, &all_faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(&calls, &all_calls, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank && !all_faults)
		printf(NAME ": %d calls, every byte right\n", all_calls);
	MPI_Finalize();
	if (!strcmp(run_how, "-s"))
		session_ends();
	return all_faults != 0;
}

/* Each on a communicator of its own, which it gets. */
static void threads(void *(*in_thread)(void *comm))
{
	MPI_Comm comms[3];
	pthread_t t[3];
	for (int i = 0; i < 3; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, in_thread, &comms[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 3; i++)
		MPI_Comm_free(&comms[i]);
}

#endif
