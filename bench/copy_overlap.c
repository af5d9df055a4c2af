/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary MPI program: how much of a large message's time is hidden when one side computes without calling MPI. Two
 * ranks; for each length one line: bytes, microseconds without computing, hidden share at the receiver, at the sender.
 *
 * Receiver: the receive is posted, rank 1 says so and computes; rank 0 sends. Sender: rank 0 posts the send and computes;
 * rank 1 receives. 1 is all hidden: after computing, MPI_Wait returns at once.
 *
 * copy_overlap [MILLISECONDS [ROUNDS]]: of computing (default 100), rounds (5; the median counts).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 99

static unsigned char *buf;
static int rank;

/* Without a call of MPI or the system. */
static double compute(double seconds)
{
	double start = MPI_Wtime(), now;
	volatile double x = 1;
	do {
		for (int i = 0; i < 2000; i++)
			x = x * 1.000001 + 0.1;
		now = MPI_Wtime();
	} while (now - start < seconds);
	return now - start;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), ascending);
	return v[n / 2];
}

/* Half a round trip. */
static double plain(int len, int rounds)
{
	double v[ROUNDS_MAX];
	for (int i = 0; i < rounds; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double start = MPI_Wtime();
		if (rank == 0)
			MPI_Send(buf, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(buf, len, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(buf, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
		v[i] = (MPI_Wtime() - start) / 2;
	}
	return median(v, rounds);
}

/* What is left of the message's time after computing, at the side that computes. */
static double left_over(int len, double seconds, int rounds, int computing)
{
	double v[ROUNDS_MAX] = {0};
	for (int i = 0; i < rounds; i++) {
		MPI_Request req;
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank != computing) {
			if (rank == 0) {
				MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				MPI_Send(buf, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
			} else {
				MPI_Recv(buf, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			}
			v[i] = 0;
			continue;
		}
		double start = MPI_Wtime();
		if (rank == 1) {
			MPI_Irecv(buf, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &req);
			MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
		} else {
			MPI_Isend(buf, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &req);
		}
		double computed = compute(seconds);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		v[i] = MPI_Wtime() - start - computed;
	}
	double own = median(v, rounds), sum;
	MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return sum;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) / 1000 : 0.1;
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	const int most = 64 << 20;
	rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	buf = malloc(most);
	if (!buf)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(buf, rank, most);
	plain(most, 2);
	for (int len = 64 << 10; len <= most; len *= 4) {
		plain(len, 20);
		double alone = plain(len, rounds * 4 + 1 > ROUNDS_MAX ? ROUNDS_MAX : rounds * 4 + 1);
		double receiver = left_over(len, seconds, rounds, 1),
		       sender = left_over(len, seconds, rounds, 0);
		if (rank == 0)
			printf("%9d bytes %10.1f us   receiver hides %.2f   sender hides %.2f\n", len,
			       alone * 1e6, 1 - receiver / alone, 1 - sender / alone);
	}
	free(buf);
	MPI_Finalize();
	return 0;
}
