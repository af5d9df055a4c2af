/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first thread is in calls that go without the MPI (long sums, barriers and messages seen before), in which it
 * waits for the other ranks, and others exchange messages by the MPI meanwhile, some of which make their first call
 * while it waits. What it looks at is theirs, too, and it has no lock of the MPI's.
 *
 *   late
 *
 * Then it makes its first long sums on new communicators, while another sets handlers of errors, and makes some: each
 * is heard of by the handler that it set last.
 *
 * Every byte is checked.
 */
#include "stress.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ALONE	300
#define ROUNDS	4000
#define LONG	5000  /* doubles */
#define EACH	30000 /* messages of one that has joined */
#define MOST	500
#define JOIN	2
#define FIRSTS	2000  /* communicators */
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

/* ---- handlers of errors ---- */

static _Thread_local int heard;
static atomic_bool over;

static void hear_one(MPI_Comm *comm, int *code, ...)
{
	(void)comm;
	(void)code;
	heard++;
}

static void hear_many(MPI_Comm *comm, int *code, ...)
{
	(void)comm;
	(void)code;
	heard += 100;
}

static void *errs(void *unused)
{
	MPI_Errhandler handler[2], set;
	MPI_Comm_create_errhandler(hear_one, &handler[0]);
	MPI_Comm_create_errhandler(hear_many, &handler[1]);
	for (int i = 0; !over; i++) {
		int out = i;
		heard = 0;
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler[i % 2]);
		MPI_Send(&out, 1, MPI_INT, ranks, 0, MPI_COMM_WORLD);
		must(heard == (i % 2 ? 100 : 1), "of error %d was heard %d", i, heard);
		MPI_Comm_get_errhandler(MPI_COMM_WORLD, &set);
		must(set == handler[i % 2], "another handler than was set, %d", i);
		MPI_Errhandler_free(&set);
		usleep(5); /* MPICH's lock is not fair */
	}
	return unused;
}

static void first_sums(void)
{
	pthread_t thread;
	must(!pthread_create(&thread, NULL, errs, NULL), "cannot start a thread");
	for (int i = 0; i < FIRSTS; i++) {
		MPI_Comm copy;
		static double v[LONG], sum[LONG];
		v[LONG - 1] = i + rank;
		MPI_Comm_dup(MPI_COMM_WORLD, &copy);
		MPI_Allreduce(v, sum, LONG, MPI_DOUBLE, i % 2 ? MPI_MAX : MPI_SUM, copy);
		must(sum[LONG - 1] == (i % 2 ? i + ranks - 1 : ranks * i + 0.5 * ranks * (ranks - 1)),
		     "a sum on copy %d", i);
		MPI_Comm_free(&copy);
	}
	over = true;
	pthread_join(thread, NULL);
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
	first_sums();
	for (int k = 0; k < JOIN; k++)
		MPI_Comm_free(&own[k]);
	if (rank == 0)
		printf("late: every byte right\n");
	MPI_Finalize();
	return 0;
}
