/* SPDX-License-Identifier: BSD-3-Clause */
/* An MPI job for mpi.py: collectives of all sizes with every byte checked, any-source receives over both rails at once. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int ok, const char *what)
{
	if (ok)
		return;
	printf("FAILED: %s\n", what);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void all_to_all(int rank, int ranks, int size)
{
	char *out = malloc((size_t)size * (size_t)ranks), *in = malloc((size_t)size * (size_t)ranks);

	for (int p = 0; p < ranks; p++)
		memset(out + (size_t)p * (size_t)size, rank * 16 + p + 1, (size_t)size);
	MPI_Alltoall(out, size, MPI_CHAR, in, size, MPI_CHAR, MPI_COMM_WORLD);
	for (int p = 0; p < ranks; p++)
		for (int i = 0; i < size; i++)
			check(in[(size_t)p * (size_t)size + (size_t)i] == (char)(p * 16 + rank + 1),
			      "a byte of alltoall");
	free(out);
	free(in);
}

/* Rank 0 takes 200 messages from each of the others in whatever order they come, each sender's own in order. */
static void any_source(int rank, int ranks)
{
	int last[64] = {0}, value;
	MPI_Status status;

	for (int i = 1; rank && i <= 200; i++)
		MPI_Send(&i, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
	for (int i = 0; !rank && i < 200 * (ranks - 1); i++) {
		MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &status);
		check(value == ++last[status.MPI_SOURCE], "the order of messages from one sender");
	}
}

/* Blocks with gaps between, to the next rank in blocks of another size; every byte is looked at, also in the gaps. */
static void vectors(int rank, int ranks)
{
	enum { BLOCK = 24691, STRIDE = 30000, BLOCKS = 4, TOTAL = BLOCK * BLOCKS };
	static unsigned char out[STRIDE * BLOCKS], in[TOTAL * 2];
	MPI_Datatype strided, pairs;

	MPI_Type_vector(BLOCKS, BLOCK, STRIDE, MPI_CHAR, &strided);
	MPI_Type_vector(2, TOTAL / 2, TOTAL, MPI_CHAR, &pairs);
	MPI_Type_commit(&strided);
	MPI_Type_commit(&pairs);
	for (int turn = 0; turn < 10; turn++) {
		int from = (rank + ranks - 1) % ranks;
		for (int i = 0; i < TOTAL; i++)
			out[i / BLOCK * STRIDE + i % BLOCK] = (unsigned char)(i * 31 + i / 251 + rank + turn);
		memset(in, 0xee, sizeof(in));
		MPI_Sendrecv(out, 1, strided, (rank + 1) % ranks, 3, in, 1, pairs, from, 3, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		for (int i = 0; i < TOTAL; i++)
			check(in[i / (TOTAL / 2) * TOTAL + i % (TOTAL / 2)] ==
				      (unsigned char)(i * 31 + i / 251 + from + turn),
			      "a byte of a vector");
		check(in[TOTAL / 2] == 0xee && in[TOTAL - 1] == 0xee, "a byte in a gap");
	}
	MPI_Type_free(&strided);
	MPI_Type_free(&pairs);
}

/*
 * MPI_Send of 8,000 bytes needs no answer from the last rank, on another host, which makes no call before it has returned. In the
 * working folder, which all share.
 */
static void sends_early(int rank, int ranks)
{
	static char buf[8000];

	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		memset(buf, 7, sizeof(buf));
		MPI_Recv(NULL, 0, MPI_CHAR, ranks - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(buf, sizeof(buf), MPI_CHAR, ranks - 1, 1, MPI_COMM_WORLD);
		fclose(fopen("sent", "w"));
	} else if (rank == ranks - 1) {
		MPI_Send(NULL, 0, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
		while (access("sent", F_OK))
			usleep(1000);
		MPI_Recv(buf, sizeof(buf), MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check(buf[0] == 7 && memcmp(buf, buf + 1, sizeof(buf) - 1) == 0, "a byte of the early one");
	}
}

/* What rank 0 sends before it ends is there long after, though nobody waits for it any more (mpi.py: SENNIT_LINGER, SENNIT_PEER_TIMEOUT). */
static void sends_and_ends(int rank, int ranks)
{
	static char buf[9000];

	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		memset(buf, 5, sizeof(buf));
		MPI_Send(buf, sizeof(buf), MPI_CHAR, ranks - 1, 2, MPI_COMM_WORLD);
	} else if (rank == ranks - 1) {
		sleep(5); /* longer than the sender lingers, and then a silent one counts as gone */
		MPI_Recv(buf, sizeof(buf), MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check(buf[0] == 5 && memcmp(buf, buf + 1, sizeof(buf) - 1) == 0, "a byte of the last one");
	}
}

int main(int argc, char **argv)
{
	int rank, ranks;
	long sum, mine;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc > 2 && strcmp(argv[1], "late") == 0 && rank == atoi(argv[2]))
		sleep(10); /* the others are heard out: who ends a job ends it for all */
	vectors(rank, ranks);
	if (argc > 1 && strcmp(argv[1], "vectors") == 0) {
		if (rank == 0)
			printf("OK %d ranks\n", ranks);
		MPI_Finalize();
		return 0;
	}
	for (int size = 1; size <= 1 << 20; size *= 4)
		all_to_all(rank, ranks, size);
	any_source(rank, ranks);
	for (int i = 0; i < 200; i++) {
		mine = rank + i;
		MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		check(sum == (long)ranks * i + (long)ranks * (ranks - 1) / 2, "a sum");
	}
	if (argc == 1)
		sends_early(rank, ranks);
	if (argc == 1 && ranks == 2)
		sends_and_ends(rank, ranks);
	if (rank == ranks - 1)
		printf("OK %d ranks\n", ranks);
	MPI_Finalize();
	return 0;
}
