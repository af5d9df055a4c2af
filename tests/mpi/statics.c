/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static arrays, as Fortran's COMMON blocks are, are as good as memory of malloc's: messages between them, and between them and
 * other memory, are copied without the kernel (run.py looks at the counter), and sums are read where they lie. A rank that forks
 * while messages are on their way has what they brought, and its child has what was there before. Every byte is checked.
 */
#include "stress.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST   ((size_t)3 << 20)
#define ROUNDS 12
#define SUMS   (MOST / sizeof(double) / 2)

static unsigned char out[MOST], in[MOST];
static double operand[SUMS], sum[SUMS];

static int rank, size, right, left;

static void shift(const unsigned char *from, unsigned char *to, size_t len, int round)
{
	MPI_Request r;
	MPI_Irecv(to, (int)len, MPI_BYTE, left, 1, MPI_COMM_WORLD, &r);
	MPI_Send(from, (int)len, MPI_BYTE, right, 1, MPI_COMM_WORLD);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	pattern_check(to, mix((uint64_t)left, (uint64_t)round), 0, len, "a message");
}

static void fill(unsigned char *at, size_t len, int round)
{
	pattern_fill(at, mix((uint64_t)rank, (uint64_t)round), 0, len);
}

/* In whatever memory, wherever in it. */
static void messages(void)
{
	unsigned char *block = need(MOST), on_stack[60000];
	for (int round = 0; round < ROUNDS; round++)
		for (size_t len = 1000; len < MOST - 8; len = len * 3 + 11) {
			size_t off = (size_t)round % 8;
			fill(out + off, len, round);
			memset(in, GUARD, MOST);
			shift(out + off, in + 8 - off, len, round);
			guard_check(in, 8 - off, "in front of it");
			guard_check(in + 8 - off + len, MOST - len - 8 + off, "behind it");
			shift(out + off, block + off, len, round);
			fill(block, len, round);
			shift(block, in, len, round);
			if (len > sizeof(on_stack))
				continue;
			shift(out + off, on_stack, len, round);
			fill(on_stack, len, round);
			shift(on_stack, in, len, round);
		}
	free(block);
}

/* Every second of pieces of 512 bytes, half of which lie in memory of malloc's. */
static void pieces(void)
{
	enum { PIECES = 600, PIECE = 512 };
	MPI_Datatype type, halves;
	unsigned char *block = need((size_t)2 * PIECES * PIECE);
	MPI_Type_vector(PIECES, PIECE, 2 * PIECE, MPI_BYTE, &type);
	MPI_Aint at[2];
	MPI_Get_address(in, &at[0]);
	MPI_Get_address(block, &at[1]);
	MPI_Type_create_hindexed(2, (int[]){1, 1}, at, type, &halves);
	MPI_Type_commit(&halves);
	fill(out, (size_t)2 * PIECES * PIECE, 99);
	for (int round = 0; round < ROUNDS; round++) {
		MPI_Request r;
		memset(in, GUARD, MOST);
		memset(block, GUARD, (size_t)2 * PIECES * PIECE);
		MPI_Irecv(MPI_BOTTOM, 1, halves, left, 2, MPI_COMM_WORLD, &r);
		MPI_Send(out, 2 * PIECES * PIECE, MPI_BYTE, right, 2, MPI_COMM_WORLD);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		for (size_t i = 0; i < (size_t)2 * PIECES; i++) {
			const unsigned char *to = (i < PIECES ? in : block) + i % PIECES * 2 * PIECE;
			pattern_check(to, mix((uint64_t)left, 99), i * PIECE, PIECE, "a piece");
			if (i % PIECES < PIECES - 1)
				guard_check(to + PIECE, PIECE, "between pieces");
		}
	}
	MPI_Type_free(&halves);
	MPI_Type_free(&type);
	free(block);
}

static void sums(void)
{
	for (int round = 0; round < ROUNDS; round++)
		for (size_t n = 100; n <= SUMS; n = n * 5 + 1) {
			for (size_t i = 0; i < n; i++)
				operand[i] = (double)((size_t)(rank + round) + i % 1000);
			memset(sum, 0xff, sizeof(sum));
			MPI_Allreduce(operand, sum, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
			for (size_t i = 0; i < n; i++)
				must(sum[i] == (double)((size_t)size * ((size_t)round + i % 1000)) +
						       size * (size - 1) / 2.0,
				     "sum %zu of %zu is %g", i, n, sum[i]);
			must(sum[SUMS - 1] != sum[SUMS - 1] || n == SUMS, "a sum beyond the last one");
			fill(out, n, round);
			MPI_Bcast(out, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD);
			pattern_check(out, mix(0, (uint64_t)round), 0, n, "a broadcast");
		}
}

static void window(void)
{
	MPI_Win w;
	fill(out, MOST, 5);
	MPI_Win_create(in, (MPI_Aint)MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w);
	for (int round = 0; round < ROUNDS; round++) {
		MPI_Win_fence(0, w);
		MPI_Put(out, (int)MOST, MPI_BYTE, right, 0, (int)MOST, MPI_BYTE, w);
		MPI_Win_fence(0, w);
		pattern_check(in, mix((uint64_t)left, 5), 0, MOST, "what was put");
	}
	MPI_Win_free(&w);
}

/* The child sees nothing of what its parent writes from then on. (Where a message is just coming in, nobody may look.) */
static void forks(int round, size_t len)
{
	MPI_Request r[2];
	memset(in, GUARD, MOST);
	memset(sum, GUARD, sizeof(sum));
	fill(out, len, round);
	MPI_Irecv(in, (int)len, MPI_BYTE, left, 3, MPI_COMM_WORLD, &r[0]);
	if (round % 2)
		MPI_Barrier(MPI_COMM_WORLD);
	MPI_Isend(out, (int)len, MPI_BYTE, right, 3, MPI_COMM_WORLD, &r[1]);
	pid_t pid = fork();
	if (!pid) {
		usleep(3000);
		guard_check(sum, sizeof(sum), "what the parent writes");
		memset(out, 0, MOST);
		memset(sum, 0, sizeof(sum));
		_exit(0);
	}
	memset(sum, round, sizeof(sum));
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	pattern_check(in, mix((uint64_t)left, (uint64_t)round), 0, len, "a message beside a fork");
	pattern_check(out, mix((uint64_t)rank, (uint64_t)round), 0, len, "what was sent beside a fork");
	int status;
	must(waitpid(pid, &status, 0) == pid && !status, "the child saw what came later: %x",
	     (unsigned)status);
}

int main(void)
{
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	st.rank = rank;
	st.size = size;
	watch_start(40);
	right = (rank + 1) % size;
	left = (rank + size - 1) % size;
	messages();
	pieces();
	sums();
	window();
	for (int round = 0; round < ROUNDS; round++) /* after the first one the memory is the process's own */
		forks(round, MOST >> round % 7);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("every byte right\n");
	MPI_Finalize();
	return 0;
}
