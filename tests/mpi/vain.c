/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions asked in vain, thousands of times, with a little work in between (who does nothing else is not spared the MPI):
 * whether a message has come that is not sent before the other rank has been told to. What came while another call was made is there at the next questions; what comes while nothing else is asked is there
 * soon, in whatever way it is asked for. Requests are seen once only, so that they are the MPI's, and then again and again.
 *
 *   vain         on two ranks
 */
#include "stress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 60
#define ASKS   2000
#define FEW    3
#define LATER  3 /* questions at most until what has come is there */

enum way { TEST, TESTALL, TESTANY, TESTSOME, STATUS, IPROBE, WAYS };

static int rank, round_of;
static int in[FEW];

/* Has all, or any (all there is, in the end), of it come? */
static int ask(enum way way, int any, int n, MPI_Request *r)
{
	MPI_Status statuses[FEW];
	int flag = -1, index = -1, indices[FEW];
	switch (way) {
	case TEST: MPI_Test(&r[0], &flag, statuses); return flag;
	case TESTALL: MPI_Testall(n, r, &flag, statuses); return flag;
	case TESTANY:
		MPI_Testany(n, r, &index, &flag, statuses);
		must(flag ? index >= 0 && index < n : index == MPI_UNDEFINED, "MPI_Testany: %d, %d", flag,
		     index);
		return flag;
	case TESTSOME:
		MPI_Testsome(n, r, &flag, indices, statuses);
		must(flag >= 0 && flag <= n, "MPI_Testsome: %d", flag);
		return flag;
	case STATUS: MPI_Request_get_status(r[0], &flag, statuses); return flag;
	default: MPI_Iprobe(any ? MPI_ANY_SOURCE : 1, WAYS, MPI_COMM_WORLD, &flag, statuses); return flag;
	}
}

/* Some 100 ns. */
static void work(void)
{
	for (volatile int i = 0; i < 50; i++)
		;
}

static int requests_of(enum way way)
{
	return way == TESTALL || way == TESTANY || way == TESTSOME ? FEW : 1;
}

static void sync_with_other(void)
{
	int x = 0;
	MPI_Sendrecv_replace(&x, 1, MPI_INT, !rank, 99, !rank, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void asks(enum way way, int any, bool soon)
{
	int n = requests_of(way), x;
	int source = any ? MPI_ANY_SOURCE : 1;
	MPI_Request r[FEW];
	memset(in, -1, sizeof(in));
	if (way != IPROBE)
		for (int k = 0; k < n; k++)
			MPI_Irecv(&in[k], 1, MPI_INT, source, k, MPI_COMM_WORLD, &r[k]);
	for (int i = 0; i < ASKS; i++, work())
		must(!ask(way, any, n, r), "way %d: it has come before it was sent", way);
	MPI_Send(&x, 0, MPI_INT, 1, 98, MPI_COMM_WORLD);
	if (soon) { /* and then nothing else is called */
		double start = MPI_Wtime();
		for (; !ask(way, any, n, r); work())
			must(MPI_Wtime() < start + 20, "way %d: it never comes", way);
	}
	MPI_Recv(&x, 1, MPI_INT, 1, 97, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE); /* what was sent before that has come before it */
	if (!soon) {
		int more = 0;
		while (!ask(way, any, n, r)) /* Open MPI's MPI_Testany looks after its answer */
			must(++more < LATER, "way %d: it is not there after another call", way);
	}
	if (way == IPROBE)
		MPI_Recv(&in[0], 1, MPI_INT, 1, WAYS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
	for (int k = 0; k < n; k++)
		must(in[k] == round_of * 10 + k, "way %d: %d is %d", way, k, in[k]);
}

static void answers(enum way way)
{
	int n = requests_of(way), x;
	MPI_Recv(&x, 1, MPI_INT, 0, 98, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int k = 0; k < n; k++) {
		int out = round_of * 10 + k;
		MPI_Send(&out, 1, MPI_INT, 0, way == IPROBE ? WAYS : k, MPI_COMM_WORLD);
	}
	MPI_Send(&x, 0, MPI_INT, 0, 97, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	int ranks;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	must(ranks == 2, "it takes two ranks");
	for (round_of = 0; round_of < ROUNDS; round_of++)
		for (int way = 0; way < WAYS; way++) {
			if (rank == 0)
				asks((enum way)way, round_of % 3 == 0, round_of % 2);
			else
				answers((enum way)way);
			sync_with_other();
		}
	if (rank == 0)
		puts("vain: every byte right");
	MPI_Finalize();
	return 0;
}
