/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first thread is in calls that go without the MPI (long sums, barriers and messages seen before), in which it waits for the other ranks, and
 * others exchange messages by the MPI meanwhile, some of which make their first call while it waits. What it looks at is theirs, too, and it has
 * no lock of the MPI's.
 *
 *   late
 *
 * Every byte is checked.
 */
#include "stress.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ALONE	300
#define ROUNDS	1500
#define LONG	5000  /* doubles */
#define EACH	10000 /* messages of one that has joined */
#define MOST	500
#define JOIN	2
#define LATE_US 300   /* one rank after the other, in its turn */
#define SOON_US 3000  /* the first call of one that joins, after it was started */
#define BEGINS	20000 /* likewise a barrier's of the last rank */

static int rank, ranks;
static MPI_Comm own[JOIN];

static void *join_in(void *arg)
{
	static _Thread_local int out[MOST], in[MOST];
	const MPI_Comm *comm = arg;
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	usleep(SOON_US);
	for (int i = 0; i < EACH; i++) {
		MPI_Request both[2];
		int n = 1 + i % MOST;
		for (int k = 0; k < n; k++)
			out[k] = i * 7 + k + rank;
		MPI_Irecv(in, MOST, MPI_INT, left, i % 5, *comm, &both[0]);
		MPI_Isend(out, n, MPI_INT, right, i % 5, *comm, &both[1]);
		MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
		for (int k = 0; k < n; k++)
			must(in[k] == i * 7 + k + left, "element %d of message %d is %d", k, i, in[k]);
	}
	return NULL;
}

static void round_of(int i)
{
	static double v[LONG], sum[LONG];
	int out = i, in = -1, right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	if (i >= ALONE && i % ranks == rank)
		usleep(LATE_US);
	for (int k = 0; k < LONG; k++)
		v[k] = k + i + rank;
	MPI_Allreduce(v, sum, LONG, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int k = 0; k < LONG; k++)
		must(sum[k] == ranks * (k + i) + 0.5 * ranks * (ranks - 1), "element %d of sum %d is %g", k,
		     i, sum[k]);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Sendrecv(&out, 1, MPI_INT, right, 9, &in, 1, MPI_INT, left, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	must(in == i, "message %d is %d", i, in);
}

int main(int argc, char **argv)
{
	pthread_t thread[JOIN];
	int provided;
	watch_start(60);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	st = (struct state){.rank = rank, .size = ranks, .doing = "late"};
	must(provided == MPI_THREAD_MULTIPLE, "this MPI offers thread level %d only", provided);
	for (int k = 0; k < JOIN; k++)
		MPI_Comm_dup(MPI_COMM_WORLD, &own[k]);
	for (int i = 0; i < ALONE + ROUNDS; i++) {
		st.round = i;
		for (int k = 0; i == ALONE && k < JOIN; k++)
			must(!pthread_create(&thread[k], NULL, join_in, &own[k]), "cannot start a thread");
		if (i == ALONE && rank == ranks - 1)
			usleep(BEGINS);
		if (i == ALONE)
			MPI_Barrier(MPI_COMM_WORLD);
		round_of(i);
	}
	for (int k = 0; k < JOIN; k++)
		pthread_join(thread[k], NULL);
	for (int k = 0; k < JOIN; k++)
		MPI_Comm_free(&own[k]);
	if (rank == 0)
		printf("late: every byte right\n");
	MPI_Finalize();
	return 0;
}
