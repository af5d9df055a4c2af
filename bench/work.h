/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work of a rank, counted in steps of arithmetic and not in time: what somebody does on the working core meanwhile counts.
 */
#ifndef SN_BENCH_WORK_H
#define SN_BENCH_WORK_H

static volatile unsigned long work_done; /* or it would be left out */

static void work(long steps)
{
	unsigned long x = (unsigned long)steps;
	for (long i = 0; i < steps; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	work_done = x;
}

#endif
