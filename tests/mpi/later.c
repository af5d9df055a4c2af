/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE, and for a while one thread calls, whose calls go without the MPI as any other's
 * (shim/quick.h). Then, on each rank at another moment and on one of them never, others join it, while it goes on as
 * before.
 *
 *   later
 *
 * The first thread has MPI_COMM_WORLD and copies of it, which it makes and frees all the time: messages of each kind,
 * and collectives, short and long. Those that join have communicators of their own, of which they also make and free
 * copies. And the first thread's requests, of messages that have left, are ended by another. Every byte is checked.
 */
#include "stress.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALONE  3000 /* rounds of the first thread before anybody joins it, or later */
#define APART  400  /* from rank to rank */
#define ROUNDS 600  /* with others */
#define LONG   5000 /* doubles */
#define JOIN   2
#define EACH   60 /* rounds of one that has joined */
#define TURN   8  /* rounds of the last rank's first, of which one is also theirs */

static int rank, ranks;
static MPI_Comm own[JOIN];
static atomic_int at_work; /* those that have joined and not ended */

struct passed { /* requests that one thread begins and another ends */
	pthread_mutex_t lock;
	MPI_Request request;
	bool full;
};
static struct passed passed = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void check_sum(const double *sum, int n, double first, const char *what)
{
	for (int k = 0; k < n; k++)
		must(sum[k] == ranks * (first + k) + 0.5 * ranks * (ranks - 1), "%s: element %d of %d is %g",
		     what, k, n, sum[k]);
}

/* In a heap that others can read, and outside of it. */
struct room {
	double *v, *sum;
};

static void sum_up(struct room *r, int n, double first, MPI_Comm comm, const char *what)
{
	for (int k = 0; k < n; k++)
		r->v[k] = first + k + rank;
	MPI_Allreduce(r->v, r->sum, n, MPI_DOUBLE, MPI_SUM, comm);
	check_sum(r->sum, n, first, what);
}

static void collectives(struct room *r, MPI_Comm comm, int i, const char *what)
{
	int out[64], in[64], all[64], root = i % ranks, word = rank == root ? i : -1;
	sum_up(r, 1 + i % 8, i, comm, what);
	sum_up(r, LONG, i, comm, what);
	MPI_Barrier(comm);
	MPI_Bcast(&word, 1, MPI_INT, root, comm);
	must(word == i, "%s: broadcast brought %d", what, word);
	for (int k = 0; k < ranks; k++)
		out[k] = i + 100 * rank + k;
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm);
	MPI_Allgather(out, 1, MPI_INT, all, 1, MPI_INT, comm);
	for (int k = 0; k < ranks; k++)
		must(in[k] == i + 100 * k + rank && all[k] == i + 100 * k, "%s: of rank %d came %d, %d", what,
		     k, in[k], all[k]);
}

/* Kept by the communicator, and told when it is freed: collectives there, in the middle of MPI_Comm_free. */
static int told(MPI_Comm comm, int key, void *value, void *room)
{
	(void)key;
	(void)value;
	sum_up(room, LONG, 1, comm, "while it is freed");
	MPI_Barrier(comm);
	return MPI_SUCCESS;
}

static void copies(struct room *r, MPI_Comm comm, int i, const char *what)
{
	MPI_Comm copy;
	MPI_Datatype pair;
	int key, out[2] = {i, rank}, in[2], right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Comm_dup(comm, &copy);
	MPI_Type_contiguous(2, MPI_INT, &pair);
	MPI_Type_commit(&pair);
	if (i % 2) {
		MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, told, &key, r);
		MPI_Comm_set_attr(copy, key, NULL);
		MPI_Comm_free_keyval(&key);
	}
	for (int k = 0; k < 3; k++) {
		sum_up(r, LONG + k, i, copy, what);
		MPI_Sendrecv(out, 1, pair, right, 2, in, 1, pair, left, 2, copy, MPI_STATUS_IGNORE);
		must(in[0] == i && in[1] == left, "%s: a pair of %d, %d", what, in[0], in[1]);
	}
	MPI_Type_free(&pair);
	MPI_Comm_free(&copy);
}

/* ---- the first thread ---- */

static void pass(MPI_Request *request)
{
	pthread_mutex_lock(&passed.lock);
	bool room = !passed.full && at_work;
	if (room) {
		passed.request = *request;
		passed.full = true;
	}
	pthread_mutex_unlock(&passed.lock);
	if (!room)
		MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void messages(int i)
{
	static int out[64], in[64], kept;
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Status status;
	MPI_Request r[2];
	for (int k = 0; k < 64; k++)
		out[k] = i + k + rank;
	MPI_Sendrecv(out, 64, MPI_INT, right, 3, in, 64, MPI_INT, left, 3, MPI_COMM_WORLD, &status);
	for (int k = 0; k < 64; k++)
		must(in[k] == i + k + left, "messages: element %d is %d", k, in[k]);
	MPI_Irecv(in, 64, MPI_INT, left, 4, MPI_COMM_WORLD, &r[0]);
	MPI_Isend(out, 8, MPI_INT, right, 4, MPI_COMM_WORLD, &r[1]);
	MPI_Wait(&r[0], &status);
	must(in[7] == i + 7 + left && status.MPI_SOURCE == left, "messages: the last of 8 is %d", in[7]);
	kept = i;
	pass(&r[1]);
	if (rank % 2) {
		MPI_Recv(in, 64, MPI_INT, left, 5, MPI_COMM_WORLD, &status);
		MPI_Send(out, 64, MPI_INT, right, 5, MPI_COMM_WORLD);
	} else {
		MPI_Send(out, 64, MPI_INT, right, 5, MPI_COMM_WORLD);
		MPI_Recv(in, 64, MPI_INT, left, 5, MPI_COMM_WORLD, &status);
	}
	must(in[63] == i + 63 + left && kept == i, "messages: the last of 64 is %d", in[63]);
}

/* ---- those that join it ---- */

static void end_passed(void)
{
	pthread_mutex_lock(&passed.lock);
	int over = 0;
	if (passed.full && rank % 2)
		MPI_Wait(&passed.request, MPI_STATUS_IGNORE);
	else if (passed.full)
		while (!over)
			MPI_Test(&passed.request, &over, MPI_STATUS_IGNORE);
	passed.full = false;
	pthread_mutex_unlock(&passed.lock);
}

static struct room room_new(bool in_heap)
{
	static _Thread_local double fixed[2][LONG + 8];
	size_t bytes = (LONG + 8) * sizeof(double);
	return in_heap ? (struct room){need(1 << 20), need(bytes)} : (struct room){fixed[0], fixed[1]};
}

static void *join_in(void *arg)
{
	int me = (int)((MPI_Comm *)arg - own);
	struct room r = room_new(me == 0);
	for (int i = 0; i < EACH; i++) {
		collectives(&r, own[me], i, "one that has joined");
		copies(&r, own[me], i, "a copy of one's that has joined");
		end_passed();
	}
	atomic_fetch_sub(&at_work, 1);
	end_passed();
	return NULL;
}

/* The last rank's never starts others: it makes their calls itself, in between. */
static void for_others(struct room *r, int i)
{
	for (int me = 0; me < JOIN; me++) {
		collectives(r, own[me], i, "one that is alone");
		copies(r, own[me], i, "a copy of one's that is alone");
	}
}

static void all_of_it(struct room *r)
{
	pthread_t thread[JOIN] = {0};
	bool last = rank == ranks - 1;
	int begins = ALONE + APART * rank;
	for (int i = 0; i < ALONE + ROUNDS + APART * ranks; i++) {
		st.round = i;
		if (i == begins && !last) {
			at_work = JOIN;
			for (int k = 0; k < JOIN; k++)
				must(!pthread_create(&thread[k], NULL, join_in, &own[k]),
				     "cannot start a thread");
		}
		messages(i);
		collectives(r, MPI_COMM_WORLD, i, "the first");
		if (i % 16 == 0)
			copies(r, MPI_COMM_WORLD, i, "a copy of the first's");
		if (last && i >= begins && i % TURN == 0 && i / TURN - begins / TURN < EACH)
			for_others(r, i / TURN - begins / TURN);
	}
	for (int k = 0; k < JOIN && !last; k++)
		pthread_join(thread[k], NULL);
}

int main(int argc, char **argv)
{
	int provided;
	st.doing = "later";
	watch_start(90);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	must(provided == MPI_THREAD_MULTIPLE, "this MPI offers thread level %d only", provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	must(ranks <= 64, "too many ranks");
	st = (struct state){.rank = rank, .size = ranks, .doing = "later"};
	for (int k = 0; k < JOIN; k++)
		MPI_Comm_dup(MPI_COMM_WORLD, &own[k]);
	struct room r = room_new(true);
	all_of_it(&r);
	for (int k = 0; k < JOIN; k++)
		MPI_Comm_free(&own[k]);
	if (rank == 0)
		printf("later: every byte right\n");
	MPI_Finalize();
	return 0;
}
