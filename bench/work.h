/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work of a rank, counted in steps of arithmetic and not in time: what somebody does on the working core meanwhile counts.
 */
#ifndef SN_BENCH_WORK_H
#define SN_BENCH_WORK_H

#include <mpi.h>

static volatile unsigned long work_done; /* or it would be left out */

static void work(long steps)
{
	unsigned long x = (unsigned long)steps;
	for (long i = 0; i < steps; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	work_done = x;
}

/* How many take that long, in seconds, the same for all ranks: by the fastest of many trials, for others have the core now and then. */
static long work_steps(double wanted)
{
	const long trial = 100000;
	double fastest = wanted;
	for (int i = 0; i < 100; i++) {
		double start = MPI_Wtime();
		work(trial);
		double took = MPI_Wtime() - start;
		fastest = i == 0 || took < fastest ? took : fastest;
	}
	long steps = (long)((double)trial * wanted / fastest);
	MPI_Bcast(&steps, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	return steps;
}

#endif
