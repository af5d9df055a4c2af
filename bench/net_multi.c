/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI side of net_multi.py: two ranks.
 *   net_multi burst BYTES COUNT      COUNT bursts of 256 messages: "RATE messages/s"
 *   net_multi stream BYTES SECONDS   messages, two under way: "RATE MB/s", and "SPAN seconds seconds", from when to when
 *   net_multi lone BYTES COUNT       back and forth: "LATENCY us", the median of one way
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BURST 256

static int rank;

static void burst(int bytes, int count)
{
	char *buf = calloc(BURST, (size_t)bytes), ready = 0;
	MPI_Request req[BURST];
	double start = 0;

	for (int n = 0; n < count; n++) {
		if (n == count / 10)
			start = MPI_Wtime();
		if (rank == 0)
			MPI_Recv(&ready, 1, MPI_CHAR, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < BURST; i++) {
			char *at = buf + (size_t)i * (size_t)bytes;
			if (rank == 0)
				MPI_Isend(at, bytes, MPI_CHAR, 1, i % 4, MPI_COMM_WORLD, &req[i]);
			else
				MPI_Irecv(at, bytes, MPI_CHAR, 0, i % 4, MPI_COMM_WORLD, &req[i]);
		}
		if (rank == 1)
			MPI_Send(&ready, 1, MPI_CHAR, 0, 99, MPI_COMM_WORLD);
		MPI_Waitall(BURST, req, MPI_STATUSES_IGNORE);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("RATE %.0f messages/s\n",
		       (double)(count - count / 10) * BURST / (MPI_Wtime() - start));
	free(buf);
}

/* By the clock that the script reads, too. */
static double clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void stream(int bytes, double seconds)
{
	char *buf[2] = {calloc(1, (size_t)bytes), calloc(1, (size_t)bytes)};
	MPI_Request req[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	double start = 0;
	int batch = 8, go = 1;
	long done = 0;

	for (int n = 0; go; n++) {
		for (int i = 0; i < batch; i++) {
			MPI_Wait(&req[i % 2], MPI_STATUS_IGNORE);
			if (rank == 0)
				MPI_Isend(buf[i % 2], bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &req[i % 2]);
			else
				MPI_Irecv(buf[i % 2], bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &req[i % 2]);
		}
		if (n == 0) { /* connected, sampled */
			MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
			MPI_Barrier(MPI_COMM_WORLD);
			start = MPI_Wtime();
			continue;
		}
		done += batch;
		go = MPI_Wtime() - start < seconds;
		MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	double took = MPI_Wtime() - start, end = clock_now();
	if (rank == 0)
		printf("RATE %.1f MB/s\nSPAN %.6f %.6f\n", (double)done * bytes / took / 1e6, end - took,
		       end);
	free(buf[0]);
	free(buf[1]);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void lone(int bytes, int count)
{
	char *buf = calloc(1, (size_t)bytes + 1);
	double *t = calloc((size_t)count, sizeof(*t));

	for (int n = 0; n < count; n++) {
		double start = MPI_Wtime();
		if (rank == 0)
			MPI_Send(buf, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(buf, bytes, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(buf, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
		t[n] = MPI_Wtime() - start;
	}
	qsort(t, (size_t)count, sizeof(*t), by_value);
	if (rank == 0)
		printf("LATENCY %.2f us\n", t[count / 2] / 2 * 1e6);
	free(t);
	free(buf);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc == 4 && strcmp(argv[1], "burst") == 0)
		burst(atoi(argv[2]), atoi(argv[3]));
	else if (argc == 4 && strcmp(argv[1], "stream") == 0)
		stream(atoi(argv[2]), atof(argv[3]));
	else if (argc == 4)
		lone(atoi(argv[2]), atoi(argv[3]));
	MPI_Finalize();
	return 0;
}
