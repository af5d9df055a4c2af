/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For valgrind's memcheck: messages of each length, received before and after they are sent, into memory that nothing was
 * written to. All of it is looked at, which memcheck tells of where it holds a byte for one that was never written.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMES 4 /* the ways of copying take turns */

static int rank, ranks;
static long wrong;

static void look(const char *what, const char *at, size_t len)
{
	size_t right = 0;
	for (size_t i = 0; i < len; i++)
		right += at[i] == 5;
	if (right == len) /* it tells of this jump */
		return;
	printf("watched: rank %d: %s, %zu bytes, %zu right\n", rank, what, len, right);
	wrong++;
}

/* The receive is there first, or the message is. */
static void pass(const char *out, size_t len, int first)
{
	char *in = malloc(len);
	MPI_Request r[2];
	if (first)
		MPI_Irecv(in, (int)len, MPI_CHAR, (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, &r[0]);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Isend(out, (int)len, MPI_CHAR, (rank + 1) % ranks, 1, MPI_COMM_WORLD, &r[1]);
	if (!first) {
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Irecv(in, (int)len, MPI_CHAR, (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, &r[0]);
	}
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	look(first ? "a message for a receive that waits" : "a message that waits", in, len);
	free(in);
}

static void exchange(const char *out, size_t len)
{
	char *in = malloc(len * (size_t)ranks);
	MPI_Allgather(out, (int)len, MPI_CHAR, in, (int)len, MPI_CHAR, MPI_COMM_WORLD);
	look("MPI_Allgather", in, len * (size_t)ranks);
	free(in);
	in = malloc(len);
	if (rank == ranks - 1)
		memset(in, 5, len);
	MPI_Bcast(in, (int)len, MPI_CHAR, ranks - 1, MPI_COMM_WORLD);
	look("MPI_Bcast", in, len);
	free(in);
	in = malloc(len);
	MPI_Allreduce(out, in, (int)len, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
	look("MPI_Allreduce", in, len);
	free(in);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (size_t len = 1; len < (size_t)3 << 20; len = 4 * len + 3) {
		char *out = malloc(len);
		memset(out, 5, len);
		for (int i = 0; i < TIMES; i++) {
			pass(out, len, 0);
			pass(out, len, 1);
			exchange(out, len);
		}
		free(out);
	}
	MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (!rank && !wrong)
		printf("watched: every byte right\n");
	MPI_Finalize();
	return wrong != 0;
}
