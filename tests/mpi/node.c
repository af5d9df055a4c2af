/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the MPI says of ranks that share a node is what it says without sennit, also where it is told that each has a node of
 * its own (shim/node.h): MPI_Comm_split_type(MPI_COMM_TYPE_SHARED) and MPI_Win_allocate_shared. All ranks on one node.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS	    40
#define DESCRIPTORS 1024
#define SPARE	    12 /* descriptors that an MPI may keep for itself */

static int rank, ranks;

static void fault(const char *what, long is)
{
	printf("FAILED: rank %d: %s: %ld\n", rank, what, is);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static void is(const char *what, long is, long shall_be)
{
	if (is != shall_be)
		fault(what, is);
}

static long place_in(MPI_Comm comm)
{
	int size, at;
	MPI_Comm_size(comm, &size);
	MPI_Comm_rank(comm, &at);
	return size * 1000L + at;
}

/* The last one takes no part, the others are in the order of their keys. */
static void splits(void)
{
	MPI_Comm all, some, again;
	MPI_Info info;
	MPI_Info_create(&info);
	MPI_Info_set(info, "nothing", "known");
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, info, &all);
	MPI_Info_free(&info);
	is("in a communicator of the node", place_in(all), ranks * 1000L + rank);
	int last = rank == ranks - 1;
	MPI_Comm_split_type(all, last ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &some);
	is("in none", some == MPI_COMM_NULL, last);
	if (!last) {
		is("in the order of keys", place_in(some), (ranks - 1) * 1000L + ranks - 2 - rank);
		MPI_Comm_split_type(some, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &again);
		is("of a part", place_in(again), place_in(some));
		MPI_Comm_free(&again);
		MPI_Comm_free(&some);
	}
	MPI_Comm_split_type(all, MPI_UNDEFINED, 0, MPI_INFO_NULL, &some);
	is("none for anybody", some == MPI_COMM_NULL, 1);
	MPI_Comm_split_type(MPI_COMM_SELF, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &some);
	is("alone", place_in(some), 1000);
	MPI_Comm_free(&some);
	MPI_Comm_free(&all);
}

/* ---- windows ---- */

/* The second rank has no part. */
static long count_of(int of, int round)
{
	return of == 1 ? 0 : 5L + of + round % 3 * 3000;
}

static long value_of(int of, long at, int round)
{
	return of * 1000003L + at * 17 + round;
}

static void describes(MPI_Win win, int n, int me, long *mine, int round, long **part)
{
	int unit, *flavor, flag;
	long before = 0;
	MPI_Aint bytes;
	for (int r = 0; r < n; r++) {
		MPI_Win_shared_query(win, r, &bytes, &unit, (void *)&part[r]);
		is("length of a part", (long)bytes, count_of(r, round) * (long)sizeof(long));
		is("unit of a part", unit, (long)sizeof(long));
		if (count_of(r, round))
			is("where a part begins", part[r] - part[0], before);
		before += count_of(r, round);
	}
	if (count_of(me, round))
		is("the own part", part[me] == mine, 1);
	long *first;
	MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, (void *)&first);
	is("the first part", first == part[0], 1);
	MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, (void *)&flavor, &flag);
	is("a window of shared memory", flag ? *flavor : -1, MPI_WIN_FLAVOR_SHARED);
}

/* By stores, and by messages: what the one leaves there the other finds. */
static void works(MPI_Win win, int n, int me, long *const *part, int round)
{
	for (long i = 0; i < count_of(me, round); i++)
		part[me][i] = value_of(me, i, round);
	MPI_Win_fence(0, win);
	for (int r = 0; r < n; r++)
		for (long i = 0; i < count_of(r, round); i++)
			if (part[r][i] != value_of(r, i, round))
				fault("what another rank wrote", part[r][i]);
	long got = -1, one = 1, put = me;
	MPI_Get(&got, 1, MPI_LONG, 0, 3, 1, MPI_LONG, win);
	MPI_Win_fence(0, win);
	is("what MPI_Get brings", got, value_of(0, 3, round));
	MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
	int to = (me + 1) % n == 1
			 ? 0
			 : (me + 1) % n; /* not to the one that has no part; nobody else writes there */
	if (me != n - 1)
		MPI_Put(&put, 1, MPI_LONG, to, 2 + (me == 0), 1, MPI_LONG, win);
	MPI_Win_fence(0, win);
	is("the sum", part[0][0], value_of(0, 0, round) + n);
	if (me != n - 1)
		is("what MPI_Put brings", part[to][2 + (me == 0)], me);
	MPI_Win_fence(0, win);
}

static void window(MPI_Comm comm, int round)
{
	int n, me;
	long *mine, *part[64];
	MPI_Win win;
	MPI_Comm_size(comm, &n);
	MPI_Comm_rank(comm, &me);
#if MPI_VERSION >= 4
	if (round % 2) {
		MPI_Win_allocate_shared_c(count_of(me, round) * (long)sizeof(long), sizeof(long),
					  MPI_INFO_NULL, comm, (void *)&mine, &win);
		MPI_Aint bytes, unit;
		void *at;
		MPI_Win_shared_query_c(win, 0, &bytes, &unit, (void *)&at);
		is("likewise, with wide numbers", (long)unit, (long)sizeof(long));
	} else
#endif
		MPI_Win_allocate_shared(count_of(me, round) * (long)sizeof(long), sizeof(long), MPI_INFO_NULL,
					comm, (void *)&mine, &win);
	describes(win, n, me, mine, round, part);
	works(win, n, me, part, round);
	MPI_Win_free(&win);
	is("no window any more", win == MPI_WIN_NULL, 1);
}

/* Of a few bytes each, but apart: whatever type a rank keeps there, its part has room and place for it. */
static void apart(MPI_Comm comm)
{
	int n, me, unit;
	char *mine, *part;
	MPI_Aint bytes;
	MPI_Info info;
	MPI_Win win;
	MPI_Comm_size(comm, &n);
	MPI_Comm_rank(comm, &me);
	MPI_Info_create(&info);
	MPI_Info_set(info, "alloc_shared_noncontig", "true");
	MPI_Win_allocate_shared(3 + me, 1, info, comm, (void *)&mine, &win);
	MPI_Info_free(&info);
	is("a place for any type", (long)((unsigned long)mine % 8), 0);
	memset(mine, me, 3 + (size_t)me);
	MPI_Win_fence(0, win);
	for (int r = 0; r < n; r++) {
		MPI_Win_shared_query(win, r, &bytes, &unit, (void *)&part);
		is("length of a part that is apart", bytes >= 3 + r, 1); /* Open MPI says whole pages */
		is("what is there", part[0] == r && part[2 + r] == r, 1);
	}
	MPI_Win_fence(0, win);
	MPI_Win_free(&win);
}

static long files(void)
{
	long n = 0;
	for (int fd = 0; fd < DESCRIPTORS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	splits();
	MPI_Comm node, pair;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &node);
	MPI_Comm_split(node, rank / 2, 0, &pair);
	window(MPI_COMM_WORLD, 0);
	window(MPI_COMM_WORLD, 1);
	apart(MPI_COMM_WORLD);
	long before = files();
	for (int round = 0; round < ROUNDS; round++) {
		window(MPI_COMM_WORLD, round);
		window(node, round);
		window(pair, round);
		window(MPI_COMM_SELF, round);
	}
	if (files() > before + SPARE)
		fault("files that stay open", files() - before);
	MPI_Comm_free(&pair);
	MPI_Comm_free(&node);
	if (!rank)
		printf("the ranks of a node share it\n");
	MPI_Finalize();
	return 0;
}
