/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks ask, and ask again, whether something has come from rank 0, which has left MPI_Finalize by then, or is about
 * to. Nothing has, and that is the answer; what it sent before is still there, and receives from it stay as they
 * are. Windows that nobody frees do no harm.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define SECONDS 0.5
#define FIRST	3 /* tags: received at once, and only in the end */
#define LAST	4
#define COUNT	10 /* of each */

static bool nothing_from(int source)
{
	int flag = 0;
	MPI_Message m;
	MPI_Iprobe(source, LAST + 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
	if (!flag)
		MPI_Improbe(source, LAST + 1, MPI_COMM_WORLD, &flag, &m, MPI_STATUS_IGNORE);
	return !flag;
}

static bool is_next(int want, int tag)
{
	int x = -1;
	MPI_Recv(&x, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return x == want;
}

/* Receives from rank 0 that the program is going to cancel: short, and long enough to be shown to their sender. */
static const int lengths[] = {1, 100000};
static char room[2][100000];
static MPI_Request requests[3];

static void post(void)
{
	for (int i = 0; i < 2; i++)
		MPI_Irecv(room[i], lengths[i], MPI_CHAR, 0, LAST + 2, MPI_COMM_WORLD, &requests[i]);
}

static bool taken_back(void)
{
	bool right = true;
	int flag;
	MPI_Irecv(room[0], 1, MPI_CHAR, 0, LAST + 2, MPI_COMM_WORLD, &requests[2]); /* it has left by now */
	MPI_Testsome(3, requests, &flag, (int[3]){0}, MPI_STATUSES_IGNORE);
	right &= flag == 0;
	for (int i = 0; i < 3; i++) {
		MPI_Status status;
		MPI_Cancel(&requests[i]);
		MPI_Wait(&requests[i], &status);
		MPI_Test_cancelled(&status, &flag);
		right &= flag;
	}
	return right;
}

static void leave_windows(int rank)
{
	static int memory[2], *made, one = 1;
	MPI_Comm comm;
	MPI_Win win;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			MPI_Win_create(memory, sizeof(memory), sizeof(int), MPI_INFO_NULL, comm, &win);
		else
			MPI_Win_allocate(sizeof(memory), sizeof(int), MPI_INFO_NULL, comm, &made, &win);
		MPI_Win_fence(0, win);
		if (rank == 0)
			MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
		MPI_Win_fence(0, win);
	}
}

int main(int argc, char **argv)
{
	int rank, ranks;
	bool right = true;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	leave_windows(rank);
	if (rank > 0)
		post();
	for (int i = 1; rank == 0 && i < ranks; i++)
		for (int k = 0; k < 2 * COUNT; k++)
			MPI_Send(&k, 1, MPI_INT, i, k % 2 ? LAST : FIRST, MPI_COMM_WORLD);
	if (rank > 0) {
		for (int k = 0; k < 2 * COUNT; k += 2)
			right &= is_next(k, FIRST);
		for (double start = MPI_Wtime(); MPI_Wtime() < start + SECONDS;)
			right &= nothing_from(0) && nothing_from(MPI_ANY_SOURCE);
		for (int k = 1; k < 2 * COUNT; k += 2)
			right &= is_next(k, LAST);
		right &= taken_back();
	}
	if (rank == ranks - 1)
		puts(right ? "leave: every byte right" : "leave: WRONG");
	MPI_Finalize();
	return !right;
}
