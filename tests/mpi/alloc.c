/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of MPI_Alloc_mem is as good as malloc's: messages between two such buffers are copied without the kernel (run.py looks
 * at the counter). It is freed by either name, and may lie in a window; with a hint, or short, it is the MPI's. Every byte is checked.
 */
#include "stress.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 60
#define BLOCKS 40

static int rank;

static unsigned char pattern(int from, int round, size_t i)
{
	return (unsigned char)(i * 7 + i / 253 + (size_t)from * 31 + (size_t)round);
}

static unsigned char *have(size_t size, MPI_Info info)
{
	unsigned char *at = NULL;

	if (MPI_Alloc_mem((MPI_Aint)size, info, &at) != MPI_SUCCESS || !at)
		die("MPI_Alloc_mem");
	memset(at, 0xee, size);
	return at;
}

static void give_back(unsigned char *at, int how)
{
	if ((how ? PMPI_Free_mem(at) : MPI_Free_mem(at)) != MPI_SUCCESS)
		die("MPI_Free_mem");
}

static void to_and_fro(size_t size, MPI_Info info, int how)
{
	unsigned char *out = have(size, info), *in = have(size, info);

	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < size; i++)
			out[i] = pattern(rank, round, i);
		MPI_Request r;
		MPI_Irecv(in, (int)size, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, &r);
		MPI_Send(out, (int)size, MPI_BYTE, !rank, 1, MPI_COMM_WORLD);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		for (size_t i = 0; i < size; i++)
			if (in[i] != pattern(!rank, round, i))
				die("a byte");
	}
	give_back(out, how);
	give_back(in, !how);
}

static void in_a_window(size_t size)
{
	unsigned char *mine = have(size, MPI_INFO_NULL), *theirs = have(size, MPI_INFO_NULL);
	MPI_Win window;

	for (size_t i = 0; i < size; i++)
		mine[i] = pattern(rank, 3, i);
	MPI_Win_create(mine, (MPI_Aint)size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_fence(0, window);
	MPI_Get(theirs, (int)size, MPI_BYTE, !rank, 0, (int)size, MPI_BYTE, window);
	MPI_Win_fence(0, window);
	MPI_Win_free(&window);
	for (size_t i = 0; i < size; i++)
		if (theirs[i] != pattern(!rank, 3, i))
			die("a byte of a window");
	give_back(mine, 0);
	give_back(theirs, 1);
}

/* Many at a time, freed in another order. */
static void many(void)
{
	unsigned char *at[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		at[i] = have((size_t)i * 20011 + 1, MPI_INFO_NULL);
		at[i][0] = (unsigned char)i;
	}
	for (int i = 0; i < BLOCKS; i++) {
		int k = i * 17 % BLOCKS;
		if (at[k][0] != k)
			die("a block's first byte");
		give_back(at[k], k % 2);
	}
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {8, 65535, 65536, 100001, 131072, 1048576};
	MPI_Info hint;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		to_and_fro(sizes[i], MPI_INFO_NULL, i % 2);
	MPI_Info_create(&hint);
	to_and_fro(131072, hint, 0);
	MPI_Info_free(&hint);
	in_a_window(300000);
	many();
	printf("rank %d: every byte right\n", rank);
	MPI_Finalize();
	return 0;
}
