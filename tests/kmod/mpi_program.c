/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary MPI program for the emulated machine: two ranks exchange bodies of many sizes, whoever is first, plain and of
 * a derived type, and reduce; every byte is checked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST (4u << 20)

static int rank;

static unsigned char byte_of(size_t i, unsigned seed)
{
	return (unsigned char)((i ^ (i >> 8)) * 31 + seed);
}

static void fill(unsigned char *at, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		at[i] = byte_of(i, seed);
}

static void check(const unsigned char *at, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] != byte_of(i, seed)) {
			printf("rank %d: byte %zu of %zu is wrong\n", rank, i, n);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
}

/* The sender first, or the receiver; or both at once. */
static void exchange(unsigned char *out, unsigned char *in, size_t n, unsigned seed)
{
	MPI_Request requests[2];

	fill(out, n, seed + (unsigned)rank);
	memset(in, 0, n);
	if (seed % 3 == (unsigned)rank)
		MPI_Barrier(MPI_COMM_WORLD);
	MPI_Irecv(in, (int)n, MPI_BYTE, !rank, (int)seed, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, (int)n, MPI_BYTE, !rank, (int)seed, MPI_COMM_WORLD, &requests[1]);
	if (seed % 3 != (unsigned)rank)
		MPI_Barrier(MPI_COMM_WORLD);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	check(in, n, seed + (unsigned)!rank);
}

/* Every other block of 4 KiB. */
static void strided(unsigned char *out, unsigned char *in)
{
	enum { BLOCKS = 100, BLOCK = 4096 };
	MPI_Datatype type;

	MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	fill(out, 2 * BLOCKS * BLOCK, (unsigned)rank);
	memset(in, 0, 2 * BLOCKS * BLOCK);
	MPI_Sendrecv(out, 1, type, !rank, 1, in, BLOCKS * BLOCK, MPI_BYTE, !rank, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	for (size_t b = 0; b < BLOCKS; b++)
		for (size_t i = 0; i < BLOCK; i++)
			if (in[b * BLOCK + i] != byte_of(2 * b * BLOCK + i, (unsigned)!rank))
				MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {1, 1000, 16384, 65536, 100001, 300000, 1u << 20, LONGEST};
	unsigned char *out = malloc(LONGEST), *in = malloc(LONGEST);
	double mine = 1, sum = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++)
		exchange(out, in, sizes[i / 2], i);
	strided(out, in);
	MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && sum == 2)
		printf("every byte right\n");
	MPI_Finalize();
	free(out);
	free(in);
	return 0;
}
