/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_SERIALIZED: one thread calls, then another, and then the first again, as libraries have it that do a step of
 * theirs in a thread of their own (PT-Scotch's fold). What the first has learned is known to it alone, and what one has
 * begun another ends. Each kind of call, with every int checked.
 *
 *   relay        on two ranks
 */
#include "stress.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 200 /* until a thread goes the quick way it is seen again some dozens of times */
#define FEW    2
#define INTS   6

static int rank, peer, round_of;
static int out[FEW][INTS], in[FEW][INTS];
static MPI_Request r[2 * FEW], kept[2 * FEW];
static MPI_Datatype holes; /* every second int */

static int value(int from, int k, int i)
{
	return (from * 7 + k) * 1000003 + round_of * 31 + i;
}

static void fill(void)
{
	round_of++;
	for (int k = 0; k < FEW; k++)
		for (int i = 0; i < INTS; i++) {
			out[k][i] = value(rank, k, i);
			in[k][i] = -1;
		}
}

static void check(int step)
{
	for (int k = 0; k < FEW; k++)
		for (int i = 0; i < INTS; i++)
			must(in[k][i] == (i % step ? -1 : value(peer, k, i)),
			     "round %d, message %d, int %d: %d", round_of, k, i, in[k][i]);
}

/* Receives, then sends. */
static void begin(MPI_Datatype type, int count)
{
	for (int k = 0; k < FEW; k++)
		MPI_Irecv(in[k], count, type, peer, k, MPI_COMM_WORLD, &r[k]);
	for (int k = 0; k < FEW; k++)
		MPI_Isend(out[k], count, type, peer, k, MPI_COMM_WORLD, &r[FEW + k]);
}

static void ints(void)
{
	begin(MPI_INT, INTS);
}

static void vectors(void)
{
	begin(holes, INTS / 2);
}

static void persistent(void)
{
	MPI_Startall(2 * FEW, kept);
}

static void waitany(MPI_Request *q)
{
	for (int k = 0, i; k < 2 * FEW; k++) {
		MPI_Waitany(2 * FEW, q, &i, MPI_STATUS_IGNORE);
		must(i >= 0 && i < 2 * FEW, "MPI_Waitany: %d", i);
	}
}

static void testany(MPI_Request *q)
{
	for (int k = 0, i, flag; k < 2 * FEW; k += flag && i != MPI_UNDEFINED)
		MPI_Testany(2 * FEW, q, &i, &flag, MPI_STATUS_IGNORE);
}

static void waitsome(MPI_Request *q)
{
	int at[2 * FEW];
	for (int k = 0, n; k < 2 * FEW; k += n) {
		MPI_Waitsome(2 * FEW, q, &n, at, MPI_STATUSES_IGNORE);
		must(n > 0, "MPI_Waitsome: %d", n);
	}
}

static void testsome(MPI_Request *q)
{
	int at[2 * FEW];
	for (int k = 0, n; k < 2 * FEW; k += n)
		MPI_Testsome(2 * FEW, q, &n, at, MPI_STATUSES_IGNORE);
}

static void waitall(MPI_Request *q)
{
	MPI_Waitall(2 * FEW, q, MPI_STATUSES_IGNORE);
}

static void testall(MPI_Request *q)
{
	for (int flag = 0; !flag;)
		MPI_Testall(2 * FEW, q, &flag, MPI_STATUSES_IGNORE);
}

static void wait_each(MPI_Request *q)
{
	for (int k = 0; k < 2 * FEW; k++)
		MPI_Wait(&q[k], MPI_STATUS_IGNORE);
}

static void test_each(MPI_Request *q)
{
	for (int k = 0; k < 2 * FEW; k++)
		for (int flag = 0; !flag;)
			MPI_Test(&q[k], &flag, MPI_STATUS_IGNORE);
}

static void ask_first(MPI_Request *q)
{
	for (int k = 0; k < 2 * FEW; k++)
		for (int flag = 0; !flag;)
			MPI_Request_get_status(q[k], &flag, MPI_STATUS_IGNORE);
	waitall(q);
}

static void (*const ends[])(MPI_Request *q) = {waitany, testany,   waitsome,  testsome, waitall,
					       testall, wait_each, test_each, ask_first};
#define ENDS (int)(sizeof(ends) / sizeof(ends[0]))

static const struct kind {
	void (*begin)(void);
	int step;
	bool kept;
} kinds[] = {{ints, 1, false}, {vectors, 2, false}, {persistent, 1, true}};
#define KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

static void once(const struct kind *k, int end)
{
	fill();
	k->begin();
	ends[end](k->kept ? kept : r);
	check(k->step);
}

/* Probed for, received at once, both ways, and collectives, also among requests. */
static void others(void)
{
	MPI_Message message;
	MPI_Status status;
	int flag = 0, sum = 0;
	fill();
	for (int k = 0; k < FEW; k++)
		MPI_Isend(out[k], INTS, MPI_INT, peer, k, MPI_COMM_WORLD, &r[k]);
	while (!flag)
		MPI_Improbe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, &message, &status);
	MPI_Mrecv(in[0], INTS, MPI_INT, &message, &status);
	MPI_Probe(peer, 1, MPI_COMM_WORLD, &status);
	MPI_Recv(in[1], INTS, MPI_INT, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
	MPI_Waitall(FEW, r, MPI_STATUSES_IGNORE);
	check(1);
	fill();
	for (int k = 0; k < FEW; k++)
		MPI_Sendrecv(out[k], INTS / 2, holes, peer, k, in[k], INTS / 2, holes, peer, k,
			     MPI_COMM_WORLD, &status);
	check(2);
	MPI_Ibarrier(MPI_COMM_WORLD, &r[0]);
	MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[1]);
	for (int k = 0, i; k < 2; k++)
		MPI_Waitany(2, r, &i, MPI_STATUS_IGNORE);
	must(sum == 1, "MPI_Iallreduce: %d", sum);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	must(sum == 1, "MPI_Allreduce: %d", sum);
	MPI_Bcast(&sum, 1, MPI_INT, round_of % 2, MPI_COMM_WORLD);
}

static void *turn(void *arg)
{
	(void)arg;
	for (int end = 0; end < ENDS; end++)
		for (int i = 0; i < ROUNDS; i++)
			once(&kinds[i % KINDS], end);
	for (int i = 0; i < ROUNDS; i++)
		others();
	return NULL;
}

static void by_another(void *(*what)(void *), void *arg)
{
	pthread_t t;
	must(!pthread_create(&t, NULL, what, arg) && !pthread_join(t, NULL), "no thread");
}

static void *end_them(void *arg)
{
	ends[*(int *)arg](r);
	return NULL;
}

/* What the first thread has begun a new one ends. */
static void handed_over(void)
{
	for (int i = 0; i < 4 * ENDS; i++) {
		int end = i % ENDS;
		fill();
		if (i & 1)
			vectors();
		else
			ints();
		by_another(end_them, &end);
		check(i & 1 ? 2 : 1);
	}
}

int main(int argc, char **argv)
{
	int provided;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &st.size);
	st.rank = rank;
	peer = !rank;
	must(provided >= MPI_THREAD_SERIALIZED, "threads may not call in turn here");
	must(st.size == 2, "for two ranks");
	watch_start(80);
	MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &holes);
	MPI_Type_commit(&holes);
	for (int k = 0; k < FEW; k++) {
		MPI_Recv_init(in[k], INTS, MPI_INT, peer, k, MPI_COMM_WORLD, &kept[k]);
		MPI_Send_init(out[k], INTS, MPI_INT, peer, k, MPI_COMM_WORLD, &kept[FEW + k]);
	}
	turn(NULL);
	by_another(turn, NULL);
	handed_over();
	by_another(turn, NULL);
	turn(NULL);
	for (int k = 0; k < 2 * FEW; k++)
		MPI_Request_free(&kept[k]);
	MPI_Type_free(&holes);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	if (!rank)
		printf("%d rounds, each thread in its turn, every byte right\n", round_of);
	return 0;
}
