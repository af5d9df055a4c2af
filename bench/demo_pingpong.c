/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary MPI program: ping-pong between two ranks, one line "bytes one-way-us" for each message size. It knows nothing
 * of sennit. Every byte of the data is checked, outside the timed part.
 *
 * demo_pingpong [MAX_BYTES [MILLISECONDS]]: largest message (default 64 MiB), time to spend on each size.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCHES 15

static unsigned char *mine, *theirs;

static void fill(unsigned char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(seed + i + (i >> 8) * 7 + (i >> 16) * 13);
}

static void check(const unsigned char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		if (buf[i] == (unsigned char)(seed + i + (i >> 8) * 7 + (i >> 16) * 13))
			continue;
		fprintf(stderr, "wrong data: message of %zu bytes, byte %zu\n", len, i);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

/* Rank 0 sends first. */
static double pingpong(int rank, size_t len, long rounds)
{
	double start = MPI_Wtime();
	for (long i = 0; i < rounds; i++) {
		if (rank == 0)
			MPI_Send(mine, (int)len, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(theirs, (int)len, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(mine, (int)len, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
	return MPI_Wtime() - start;
}

static void checked_round(int rank, size_t len, unsigned seed)
{
	fill(mine, len, seed + (unsigned)rank);
	memset(theirs, 0, len);
	pingpong(rank, len, 1);
	check(theirs, len, seed + (unsigned)!rank);
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/*
 * How many rounds take `seconds`, and how long that is, the same on both ranks. The faster of two counts: a rank that
 * loses its core for some milliseconds makes two rounds look like thousands.
 */
static long enough_rounds(int rank, size_t len, double seconds, double *took)
{
	for (long rounds = 1;; rounds *= 2) {
		double first = pingpong(rank, len, rounds), second = pingpong(rank, len, rounds);
		*took = first < second ? first : second;
		MPI_Bcast(took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
		if (*took >= seconds)
			return rounds;
	}
}

/* The median of some batches, fewer where a single round is long. */
static void measure(int rank, size_t len, double seconds)
{
	double took[BATCHES], each;
	checked_round(rank, len, 1);
	long rounds = enough_rounds(rank, len, seconds / BATCHES / 2, &each);
	int batches = each * BATCHES > 2 * seconds ? 3 : BATCHES;
	for (int i = 0; i < batches; i++)
		took[i] = pingpong(rank, len, rounds);
	checked_round(rank, len, 101);
	if (rank == 0) {
		qsort(took, (size_t)batches, sizeof(*took), by_time);
		printf("%zu %.4f\n", len, took[batches / 2] / (double)rounds / 2 * 1e6);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	int rank, size;
	size_t max = argc > 1 ? strtoul(argv[1], NULL, 10) : (size_t)64 << 20;
	double seconds = argc > 2 ? atof(argv[2]) / 1000 : 0.05;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	mine = malloc(max ? max : 1);
	theirs = malloc(max ? max : 1);
	if (size != 2 || !mine || !theirs) {
		fprintf(stderr,
			"demo_pingpong: needs exactly 2 ranks, and memory for the largest message twice\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	memset(mine, 0, max);
	memset(theirs, 0, max);
	for (size_t len = 0; len <= max; len = len ? len * 2 : 1)
		measure(rank, len, seconds);
	free(mine);
	free(theirs);
	MPI_Finalize();
	return 0;
}
