/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tool of the profiling interface sees each call that the program makes, once, whoever answers it: MPI_Alloc_mem, and what
 * is mended on the way (shim/node.h, mended.h, intel.h), too. And what comes back is right. Two ranks and more, on one node.
 */
#include "tool_seen.h"
#include <stdio.h>

#define ROUNDS 40 /* more than it takes until calls are not the MPI's any more */

static int rank, ranks;
static long made[NUMBERS];

#define DO(name, ...) (made[NUMBER_##name]++, MPI_##name(__VA_ARGS__))

static void is(const char *what, long is, long shall_be)
{
	if (is == shall_be)
		return;
	printf("FAILED: rank %d: %s: %ld, not %ld\n", rank, what, is, shall_be);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static void memory(void)
{
	char *at = NULL;
	DO(Alloc_mem, 200000, MPI_INFO_NULL, &at);
	at[199999] = 1;
	DO(Free_mem, at);
}

static void window(MPI_Comm node)
{
	int *mine, *theirs, unit, flag, *flavor, next = (rank + 1) % ranks;
	MPI_Aint bytes;
	MPI_Win win;
	DO(Win_allocate_shared, sizeof(int), sizeof(int), MPI_INFO_NULL, node, (void *)&mine, &win);
	DO(Win_get_attr, win, MPI_WIN_CREATE_FLAVOR, (void *)&flavor, &flag);
	is("a window of shared memory", flag ? *flavor : -1, MPI_WIN_FLAVOR_SHARED);
	*mine = rank;
	MPI_Win_fence(0, win);
	DO(Win_shared_query, win, next, &bytes, &unit, (void *)&theirs);
	is("what the next rank wrote", *theirs, next);
	MPI_Win_fence(0, win);
	DO(Win_free, &win);
}

static void communicators(void)
{
	MPI_Comm node, copy;
	int n;
	DO(Comm_split_type, MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &n);
	is("ranks of the node", n, ranks);
	window(node);
	DO(Comm_free, &node);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	DO(Comm_disconnect, &copy);
	is("no communicator any more", copy == MPI_COMM_NULL, 1);
}

static void buffered(void)
{
	static char room[1000];
	int out = 0, in, size;
	void *at;
	MPI_Request r;
	MPI_Buffer_attach(room, sizeof(room));
	DO(Bsend_init, &out, 1, MPI_INT, (rank + 1) % ranks, 1, MPI_COMM_WORLD, &r);
	for (int i = 0; i < 3; i++) {
		out = i;
		DO(Start, &r);
		DO(Wait, &r, MPI_STATUS_IGNORE);
		MPI_Recv(&in, 1, MPI_INT, (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		is("a buffered message", in, i);
	}
	DO(Request_free, &r);
	MPI_Buffer_detach((void *)&at, &size);
}

static void matched(int round)
{
	int in = -1;
	MPI_Message m;
	MPI_Request r;
	MPI_Isend(&round, 1, MPI_INT, (rank + 1) % ranks, 2, MPI_COMM_WORLD, &r);
	DO(Mprobe, (rank + ranks - 1) % ranks, 2, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE);
	DO(Mrecv, &in, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
	is("a matched message", in, round);
	DO(Wait, &r, MPI_STATUS_IGNORE);
}

static void collectives(int round)
{
	int out[64], in[64], counts[64], at[64], mine = rank + round;
	long all = ranks * (ranks - 1L) / 2 + (long)ranks * round;
	for (int r = 0; r < ranks; r++) {
		out[r] = 100 * rank + r;
		counts[r] = 1;
		at[r] = r;
	}
	DO(Reduce, &mine, in, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	is("a sum", rank ? all : in[0], all);
	DO(Scan, &mine, in, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	is("the greatest so far", in[0], mine);
	DO(Gather, &mine, 1, MPI_INT, in, 1, MPI_INT, 0, MPI_COMM_WORLD);
	is("what the last rank brings", rank ? mine : in[ranks - 1], rank ? mine : ranks - 1 + round);
	DO(Alltoallv, out, counts, at, MPI_INT, in, counts, at, MPI_INT, MPI_COMM_WORLD);
	is("what the last rank sends", in[ranks - 1], 100 * (ranks - 1) + rank);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {
#define NAME(name, parameters, arguments) "calls that the tool has seen: MPI_" #name,
		SEEN(NAME)};
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	communicators();
	buffered();
	for (int round = 0; round < ROUNDS; round++) {
		memory();
		matched(round);
		collectives(round);
	}
	for (int i = 0; i < NUMBERS; i++)
		is(names[i], tool_seen(i), made[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("the tool has seen every call, and every byte right\n");
	MPI_Finalize();
	return 0;
}
