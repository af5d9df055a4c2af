/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that call MPI at once: threads:N for each N given, with two ranks. N threads of each rank have a
 * communicator each, and send windows of 8-byte messages to their counterpart. Printed as rows.c does: "threads:N
 * million-messages-a-second 0 0".
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST	64
#define WINDOW	32
#define SECONDS 0.3

static int rank;
static double end;

struct worker {
	pthread_t thread;
	MPI_Comm comm;
	long windows;
};

/* Rank 0 decides when it is over, and says so with the first byte of the last message of a window. */
static void *run(void *arg)
{
	struct worker *w = arg;
	char buf[WINDOW][8] = {{0}};
	MPI_Request req[WINDOW];
	for (char over = 0; !over; w->windows++) {
		if (rank == 0)
			buf[WINDOW - 1][0] = MPI_Wtime() > end;
		for (int i = 0; i < WINDOW; i++) {
			if (rank == 0)
				MPI_Isend(buf[i], 8, MPI_BYTE, 1, 1, w->comm, &req[i]);
			else
				MPI_Irecv(buf[i], 8, MPI_BYTE, 0, 1, w->comm, &req[i]);
		}
		MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
		over = buf[WINDOW - 1][0];
		if (rank == 0)
			MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, w->comm, MPI_STATUS_IGNORE);
		else
			MPI_Send(NULL, 0, MPI_BYTE, 0, 2, w->comm);
	}
	return NULL;
}

static void measure(int threads)
{
	struct worker w[MOST];
	long windows = 0;
	memset(w, 0, sizeof(w));
	for (int i = 0; i < threads; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &w[i].comm);
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	end = start + SECONDS;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&w[i].thread, NULL, run, &w[i]))
			MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = 0; i < threads; i++) {
		pthread_join(w[i].thread, NULL);
		windows += w[i].windows;
	}
	double took = MPI_Wtime() - start;
	for (int i = 0; i < threads; i++)
		MPI_Comm_free(&w[i].comm);
	if (rank == 0) {
		printf("threads:%d %.4g 0 0 0\n", threads, (double)(windows * WINDOW) / took / 1e6);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	int got, ranks;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &got);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (got != MPI_THREAD_MULTIPLE || ranks != 2) {
		fprintf(stderr, "threads: needs two ranks, and MPI_THREAD_MULTIPLE\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (int i = 1; i < argc; i++) {
		const char *n = strchr(argv[i], ':');
		int threads = atoi(n ? n + 1 : argv[i]);
		if (threads > 0 && threads <= MOST)
			measure(threads);
	}
	MPI_Finalize();
	return 0;
}
