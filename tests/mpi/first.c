/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that MPI forbids, and that every MPI lets go on as far as it buffers: all ranks send to the next one
 * first, some messages in a row, and receive from the one before them then. Nobody posts a receive before everybody
 * is through with sending. Up to 128 KiB, which is what Intel MPI buffers by itself, they go on over each of them.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST   ((size_t)131072)
#define ROUNDS 12
#define ROW    3 /* messages in a row */

static int rank, ranks;

static char byte_of(int from, int round, int number, size_t at)
{
	return (char)(from * 13 + round * 7 + number * 3 + (int)at + (int)(at >> 8));
}

static void fail(const char *what, size_t len, size_t at)
{
	printf("first: rank %d: %s, %zu bytes, at %zu\n", rank, what, len, at);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void round_of(int round, size_t len, char *out, char *in)
{
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
	for (int n = 0; n < ROW; n++) {
		for (size_t at = 0; at < len; at++)
			out[(size_t)n * len + at] = byte_of(rank, round, n, at);
		MPI_Send(out + (size_t)n * len, (int)len, MPI_BYTE, to, n, MPI_COMM_WORLD);
	}
	memset(in, 0, ROW * len);
	for (int n = ROW - 1; n >= 0; n--) {
		MPI_Status status;
		int count;
		char *at = in + (size_t)n * len;
		int source = round % 2 ? from : MPI_ANY_SOURCE;
		if (round % 3 == 1) {
			MPI_Probe(source, n, MPI_COMM_WORLD, &status);
			MPI_Get_count(&status, MPI_BYTE, &count);
			if ((size_t)count != len)
				fail("a probe", len, (size_t)count);
		}
		MPI_Recv(at, (int)len, MPI_BYTE, source, n, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		if (status.MPI_SOURCE != from || (size_t)count != len)
			fail("a status", len, (size_t)count);
		for (size_t k = 0; k < len; k++)
			if (at[k] != byte_of(from, round, n, k))
				fail("a byte", len, k);
	}
}

int main(int argc, char **argv)
{
	static const size_t lens[] = {1, 4096, 8192, 8193, 12000, 16384, 20000, 32768, 65536, MOST};
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	char *heap[2] = {malloc(ROW * MOST), malloc(ROW * MOST)};
	/* not in the heap, which others map */
	char *fixed = mmap(NULL, 2 * ROW * MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!heap[0] || !heap[1] || fixed == MAP_FAILED)
		fail("no memory", 0, 0);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		for (int round = 0; round < ROUNDS; round++) {
			round_of(round, lens[i], heap[0], heap[1]);
			round_of(round, lens[i], fixed, fixed + ROW * MOST);
			MPI_Barrier(MPI_COMM_WORLD);
		}
	free(heap[0]);
	free(heap[1]);
	MPI_Finalize();
	if (!rank)
		printf("first: all went on, every byte right\n");
	return 0;
}
