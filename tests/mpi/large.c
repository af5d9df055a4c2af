/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts beyond an int's, where the MPI has calls for them, and where it has none (shim/large.h): two ranks, more
 * than 2^31 elements. One piece of memory lies behind each buffer again and again, so it is small; and whatever comes
 * is compared with what should lie there.
 *
 *     large
 */
#include "large.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20)
#define COUNT ((MPI_Count)INT32_MAX + 12345)
#define MOST  ((size_t)COUNT / PIECE * PIECE + PIECE)

static int rank, other, faults;
static unsigned char *out, *in;

static void expect(bool right, const char *what)
{
	if (right)
		return;
	printf("large: rank %d: %s\n", rank, what);
	faults++;
}

static unsigned char *again_and_again(void)
{
	int fd = memfd_create("large", 0);
	unsigned char *at = mmap(NULL, MOST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	bool right = fd >= 0 && at != MAP_FAILED && !ftruncate(fd, (off_t)PIECE);
	for (size_t k = 0; right && k < MOST; k += PIECE) {
		unsigned char *piece =
			mmap(at + k, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
		right = piece == at + k;
	}
	if (!right) {
		perror("large: memory");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	close(fd);
	return at;
}

static unsigned char byte(int of, int i, size_t k)
{
	return (unsigned char)(of * 7 + i * 13 + (int)(k % 251));
}

static void fill(int i)
{
	for (size_t k = 0; k < PIECE; k++) {
		out[k] = byte(rank, i, k);
		in[k] = 0;
	}
}

static void check(int of, int i, const char *what)
{
	bool right = true;
	for (size_t k = 0; k < PIECE; k++)
		right &= in[k] == byte(of, i, k);
	expect(right, what);
}

static void check_count(const MPI_Status *s, const char *what)
{
	MPI_Count got = 0;
	MPI_Get_elements_x(s, MPI_BYTE, &got);
	expect(got == COUNT && s->MPI_SOURCE == other, what);
}

static void messages(void)
{
	MPI_Status s;
	MPI_Request r[2];
	fill(0);
	if (rank) {
		MPI_Recv_c(in, COUNT, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &s);
		check(0, 0, "MPI_Send_c to MPI_Recv_c");
		check_count(&s, "the length of MPI_Recv_c");
	} else {
		MPI_Send_c(out, COUNT, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
	}
	fill(1);
	MPI_Irecv_c(in, COUNT, MPI_BYTE, other, 2, MPI_COMM_WORLD, &r[0]);
	MPI_Isend_c(out, COUNT, MPI_BYTE, other, 2, MPI_COMM_WORLD, &r[1]);
	MPI_Wait(&r[0], &s);
	MPI_Wait(&r[1], MPI_STATUS_IGNORE);
	check(other, 1, "MPI_Isend_c to MPI_Irecv_c");
	check_count(&s, "the length of MPI_Irecv_c");
	fill(2);
	MPI_Sendrecv_c(out, COUNT, MPI_BYTE, other, 3, in, COUNT, MPI_BYTE, other, 3, MPI_COMM_WORLD, &s);
	check(other, 2, "MPI_Sendrecv_c");
	check_count(&s, "the length of MPI_Sendrecv_c");
}

static void collectives(void)
{
	fill(3);
	MPI_Bcast_c(rank ? in : out, COUNT, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank)
		check(0, 3, "MPI_Bcast_c");
}

/* Where they are a few, each block in its place. */
static void blocks(void)
{
	int mine[2] = {rank * 10, rank * 10 + 1}, got[2] = {-1, -1};
	MPI_Alltoall_c(mine, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
	expect(got[0] == rank && got[1] == 10 + rank, "MPI_Alltoall_c");
	MPI_Allgather_c(&mine[1], 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
	expect(got[0] == 1 && got[1] == 11, "MPI_Allgather_c");
	MPI_Allgatherv_c(&mine[1], 1, MPI_INT, got, (MPI_Count[]){1, 1}, (MPI_Aint[]){1, 0}, MPI_INT,
			 MPI_COMM_WORLD);
	expect(got[0] == 11 && got[1] == 1, "MPI_Allgatherv_c");
}

/* What counts at the root alone is beyond an int's elsewhere; and a rank may call the one, and another one the other. */
static void rooted(void)
{
	for (int i = 0; i < 60; i++) {
		int root = i % 2, mine[2] = {rank + i, rank + i + 1}, got[2] = {-1, -1};
		MPI_Count count = rank == root ? 1 : COUNT;
		if (i % 3 == rank)
			MPI_Reduce(mine, got, 2, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
		else
			MPI_Reduce_c(mine, got, 2, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
		expect(rank != root || (got[0] == 2 * i + 1 && got[1] == 2 * i + 3), "MPI_Reduce_c");
		if (i % 3 == rank)
			MPI_Gather(mine, 1, MPI_INT, got, 1, MPI_INT, root, MPI_COMM_WORLD);
		else
			MPI_Gather_c(mine, 1, MPI_INT, got, count, MPI_INT, root, MPI_COMM_WORLD);
		expect(rank != root || (got[0] == i && got[1] == i + 1), "MPI_Gather_c");
		if (i % 3 == rank)
			MPI_Scatter(mine, 1, MPI_INT, got, 1, MPI_INT, root, MPI_COMM_WORLD);
		else
			MPI_Scatter_c(mine, count, MPI_INT, got, 1, MPI_INT, root, MPI_COMM_WORLD);
		expect(got[0] == root + i + rank, "MPI_Scatter_c");
	}
}

/* Likewise. */
static void parts(void)
{
	static const MPI_Count counts[] = {1, 2};
	for (int i = 0; i < 60; i++) {
		bool plain = i % 3 == rank;
		int mine[3] = {rank + i, rank + i + 1, i}, got[3] = {-1, -1, -1}, few[] = {1, 2};
		if (plain)
			MPI_Scan(mine, got, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		else
			MPI_Scan_c(mine, got, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		expect(got[0] == (rank ? 2 * i + 1 : i) && got[2] == (1 + rank) * i, "MPI_Scan_c");
		if (plain)
			MPI_Exscan(mine, got, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		else
			MPI_Exscan_c(mine, got, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		expect(got[1] == i + 1, "MPI_Exscan_c");
		if (plain)
			MPI_Reduce_scatter_block(mine, got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		else
			MPI_Reduce_scatter_block_c(mine, got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		expect(got[0] == 2 * i + 1 + 2 * rank, "MPI_Reduce_scatter_block_c");
		if (plain)
			MPI_Reduce_scatter(mine, got, few, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		else
			MPI_Reduce_scatter_c(mine, got, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		expect(got[0] == 2 * i + 1 + 2 * rank && (!rank || got[1] == 2 * i), "MPI_Reduce_scatter_c");
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	other = !rank;
	alarm(100);
	if (!MPI_Send_c || !MPI_Isend_c || !MPI_Recv_c || !MPI_Irecv_c || !MPI_Sendrecv_c || !MPI_Bcast_c ||
	    !MPI_Alltoall_c || !MPI_Allgather_c || !MPI_Allgatherv_c || !MPI_Reduce_c || !MPI_Gather_c ||
	    !MPI_Scatter_c || !MPI_Scan_c || !MPI_Exscan_c || !MPI_Reduce_scatter_block_c ||
	    !MPI_Reduce_scatter_c) {
		printf("large: a call is not there\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	out = again_and_again();
	in = again_and_again();
	blocks();
	rooted();
	parts();
	messages();
	collectives();
	MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && !faults)
		printf("large: every byte right\n");
	MPI_Finalize();
	return faults != 0;
}
