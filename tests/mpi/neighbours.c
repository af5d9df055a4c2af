/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps in which each rank exchanges long messages with those 1, 2 and 4 ranks before and behind it, all at once, on
 * two cores: the ranks have to do all the time, and a thread that is woken for a message would take the core from one
 * of them.
 *
 *     neighbours
 */
#include "two_cores.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STEPS 400
#define LEN   10000 /* ints: 40 KB */
#define ALL   6

static int rank, ranks;

/* In the i-th direction; who sends there is the i ^ 1st one's. */
static int neighbour(int i)
{
	int far = 1 << i / 2;
	return (rank + (i % 2 ? ranks - far : far)) % ranks;
}

static int bad_step(int *out, int *in, int step)
{
	MPI_Request r[2 * ALL];
	int bad = 0;
	for (int i = 0; i < ALL; i++) {
		for (int k = 0; k < LEN; k++)
			out[i * LEN + k] = step * 1000003 + rank * 1009 + i * 31 + k;
		MPI_Irecv(in + (size_t)i * LEN, LEN, MPI_INT, neighbour(i), i ^ 1, MPI_COMM_WORLD, &r[i]);
	}
	for (int i = 0; i < ALL; i++)
		MPI_Isend(out + (size_t)i * LEN, LEN, MPI_INT, neighbour(i), i, MPI_COMM_WORLD, &r[ALL + i]);
	MPI_Waitall(2 * ALL, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < ALL; i++)
		for (int k = 0; k < LEN; k++)
			bad += in[i * LEN + k] != step * 1000003 + neighbour(i) * 1009 + (i ^ 1) * 31 + k;
	return bad;
}

int main(int argc, char **argv)
{
	int bad = 0;
	bind_to_two();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	alarm(100);
	int *out = malloc(sizeof(int) * ALL * LEN), *in = malloc(sizeof(int) * ALL * LEN);
	for (int step = 0; out && in && step < STEPS; step++)
		bad += bad_step(out, in, step);
	MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && !bad)
		printf("neighbours: every byte right\n");
	MPI_Finalize();
	return bad != 0;
}
