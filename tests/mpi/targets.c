/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who calls, or waits in a call, is a target of one-sided calls meanwhile, in whatever call it is: what rank 0 does to a
 * window of MPI_Win_create of rank 1's gets done though rank 1 makes no one-sided call. And rank 1's messages with rank 2
 * go the quick way all the same (shim/quick.h). Three ranks. Where an origin waits for ever, so does the test.
 *
 *   targets       MPI_Init
 *   targets -m    MPI_THREAD_MULTIPLE
 */
#include "own_request.h"
#include "stress.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FEW    20  /* epochs of rank 0 in each kind of call */
#define WARM   300 /* calls of a kind, before: by then it goes the quick way, if it ever does */
#define WINDOW 8

static MPI_Comm all, pair; /* pair: ranks 1 and 2 */
static MPI_Win window;
static int64_t memory[2]; /* so many epochs there have been; and whether they are over */
static int rank, own;

static int64_t seen(int i)
{
	int64_t value;
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
	value = memory[i];
	MPI_Win_unlock(rank, window);
	return value;
}

/* Of rank 0: read, and written one higher, by MPI_Get and MPI_Put, and by one call. */
static void epochs(int64_t base)
{
	int64_t one = 1, was = -1, next;
	for (int i = 0; i < FEW; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
		if (i % 2) {
			MPI_Get(&was, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, window);
			MPI_Win_flush(1, window);
			next = was + 1;
			MPI_Put(&next, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, window);
		} else {
			MPI_Fetch_and_op(&one, &was, MPI_INT64_T, 1, 0, MPI_SUM, window);
		}
		MPI_Win_unlock(1, window);
		must(was == base + i, "epoch %d: %lld instead of %lld", i, (long long)was,
		     (long long)(base + i));
	}
}

/* ---- rank 1 waits for rank 0, which comes when its epochs are over ---- */

static int by_recv(void)
{
	int x = -1;
	MPI_Recv(&x, 1, MPI_INT, 0, 1, all, MPI_STATUS_IGNORE);
	return x;
}

static int by_wait(void)
{
	int x = -1;
	MPI_Request r;
	MPI_Irecv(&x, 1, MPI_INT, 0, 1, all, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	return x;
}

static int by_test(void)
{
	int x = -1, flag = 0;
	MPI_Request r;
	MPI_Irecv(&x, 1, MPI_INT, 0, 1, all, &r);
	while (!flag)
		MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
	return x;
}

static int by_waitany(void)
{
	int x[2] = {-1, -1}, i;
	MPI_Request r[2];
	MPI_Irecv(&x[0], 1, MPI_INT, 0, 2, all, &r[0]);
	MPI_Irecv(&x[1], 1, MPI_INT, 0, 1, all, &r[1]);
	MPI_Waitany(2, r, &i, MPI_STATUS_IGNORE);
	MPI_Send(&x[i], 1, MPI_INT, 0, 3, all); /* so that only one has come */
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	return x[1];
}

static int by_probe(void)
{
	MPI_Probe(0, 1, all, MPI_STATUS_IGNORE);
	return by_recv();
}

static int by_iprobe(void)
{
	for (int flag = 0; !flag;)
		MPI_Iprobe(0, 1, all, &flag, MPI_STATUS_IGNORE);
	return by_recv();
}

static int by_mprobe(void)
{
	int x = -1;
	MPI_Message m;
	MPI_Mprobe(0, 1, all, &m, MPI_STATUS_IGNORE);
	MPI_Mrecv(&x, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
	return x;
}

static int by_sendrecv(void)
{
	int x = -1, out = 5;
	MPI_Sendrecv(&out, 1, MPI_INT, 0, 3, &x, 1, MPI_INT, 0, 1, all, MPI_STATUS_IGNORE);
	return x;
}

static int together(int kind)
{
	int x = rank, sum = 0;
	int64_t many[64] = {rank}, sums[64];
	MPI_Request r;
	switch (kind) {
	case 0: MPI_Barrier(all); return 1;
	case 1: MPI_Bcast(&x, 1, MPI_INT, 0, all); return x == 0;
	case 2: MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, all); return sum == 3;
	case 3: MPI_Allreduce(many, sums, 64, MPI_INT64_T, MPI_SUM, all); return sums[0] == 3 && !sums[63];
	case 4: MPI_Reduce(&x, &sum, 1, MPI_INT, MPI_SUM, 1, all); return rank != 1 || sum == 3;
	case 5: {
		int in[3] = {-1, -1, -1};
		MPI_Allgather(&x, 1, MPI_INT, in, 1, MPI_INT, all);
		return in[0] == 0 && in[1] == 1 && in[2] == 2;
	}
	default:
		MPI_Ibarrier(all, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		return 1;
	}
}
#define TOGETHER 7

/* ---- rank 1 and rank 2 call and call, until rank 0's epochs are over ---- */

static void pingpong(int n)
{
	int x = n, peer = !(rank - 1);
	if (rank == 1) {
		MPI_Send(&x, 1, MPI_INT, peer, 1, pair);
		MPI_Recv(&x, 1, MPI_INT, peer, 1, pair, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(&x, 1, MPI_INT, peer, 1, pair, MPI_STATUS_IGNORE);
		MPI_Send(&x, 1, MPI_INT, peer, 1, pair);
	}
	must(x == n, "ping-pong %d brings %d", n, x);
}

static void exchange(int n)
{
	int x = -1, peer = !(rank - 1);
	MPI_Sendrecv(&n, 1, MPI_INT, peer, 2, &x, 1, MPI_INT, peer, 2, pair, MPI_STATUS_IGNORE);
	must(x == n, "exchange %d brings %d", n, x);
}

static void many(int n)
{
	int in[WINDOW], peer = !(rank - 1);
	MPI_Request r[2 * WINDOW];
	for (int i = 0; i < WINDOW; i++) {
		in[i] = -1;
		MPI_Irecv(&in[i], 1, MPI_INT, peer, 3, pair, &r[i]);
		own += is_own(r[i]);
	}
	for (int i = 0; i < WINDOW; i++)
		MPI_Isend(&n, 1, MPI_INT, peer, 3, pair, &r[WINDOW + i]);
	MPI_Waitall(2 * WINDOW, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < WINDOW; i++)
		must(in[i] == n, "message %d of %d brings %d", i, n, in[i]);
}

static void barrier(int n)
{
	(void)n;
	MPI_Barrier(pair);
}

static void sum(int n)
{
	int x = -1;
	MPI_Allreduce(&n, &x, 1, MPI_INT, MPI_SUM, pair);
	must(x == 2 * n, "sum %d is %d", n, x);
}

static void begun(int n)
{
	int in[2] = {-1, -1};
	MPI_Request r;
	MPI_Iallgather(&n, 1, MPI_INT, in, 1, MPI_INT, pair, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	must(in[0] == n && in[1] == n, "gathered %d and %d of %d", in[0], in[1], n);
}

/* Rank 1 knows from its window when it is time, and tells rank 2 by the number. */
static void loop(void (*call)(int n), int64_t until)
{
	for (int n = 0; n < WARM; n++)
		call(n);
	MPI_Barrier(all);
	for (int n = 0, over = 0; !over; n++) {
		for (int i = 0; i < 50; i++)
			call(n);
		over = rank == 1 && *(volatile int64_t *)memory >= until;
		MPI_Bcast(&over, 1, MPI_INT, 0, pair);
	}
}

/* Of who calls seldom each such call is for his windows, too, and so the MPI's. */
static void seldom(void)
{
	int x = rank, in = -1, peer = !(rank - 1);
	MPI_Request r;
	for (int n = 0; n < 50; n++) {
		usleep(1000);
		MPI_Irecv(&in, 1, MPI_INT, peer, 3, pair, &r);
		must(!is_own(r), "a call for a millisecond, and it goes the quick way beside a window");
		MPI_Send(&x, 1, MPI_INT, peer, 3, pair);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		must(in == 3 - rank, "rank %d brings %d", 3 - rank, in);
	}
}

/* Rank 0's part in such a wait of rank 1's. */
static void come(int (*wait)(void))
{
	int x = 7, y;
	MPI_Send(&x, 1, MPI_INT, 1, 1, all);
	if (wait == by_waitany || wait == by_sendrecv)
		MPI_Recv(&y, 1, MPI_INT, 1, 3, all, MPI_STATUS_IGNORE);
	if (wait == by_waitany)
		MPI_Send(&x, 1, MPI_INT, 1, 2, all);
}

int main(int argc, char **argv)
{
	static int (*const waits[])(void) = {by_recv,  by_wait,	  by_test,   by_waitany,
					     by_probe, by_iprobe, by_mprobe, by_sendrecv};
	static void (*const calls[])(int n) = {pingpong, exchange, many, barrier, sum, begun};
	bool threads = argc > 1 && !strcmp(argv[1], "-m");
	int size, provided;
	int64_t done = 0;
	MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	st.rank = rank;
	must(size == 3, "%d ranks instead of 3", size);
	MPI_Comm_dup(MPI_COMM_WORLD, &all);
	MPI_Comm_split(MPI_COMM_WORLD, rank > 0, 0, &pair);
	MPI_Win_create(memory, sizeof(memory), sizeof(*memory), MPI_INFO_NULL, all, &window);
	watch_start(60);

	for (unsigned k = 0; k < sizeof(waits) / sizeof(*waits); k++) {
		st.doing = "waits for rank 0";
		for (int i = 0; i < WARM; i++) { /* which is what makes it quick */
			if (rank == 0)
				come(waits[k]);
			else if (rank == 1)
				must(waits[k]() == 7, "way %u to wait", k);
		}
		MPI_Barrier(all);
		if (rank == 0) {
			epochs(done);
			come(waits[k]);
		} else if (rank == 1) {
			must(waits[k]() == 7, "way %u to wait", k);
			must(seen(0) == done + FEW, "after way %u to wait the window has %lld", k,
			     (long long)seen(0));
		}
		done += FEW;
		watch_feed();
	}
	for (int k = 0; k < TOGETHER; k++) {
		st.doing = "is in a collective with rank 0";
		for (int i = 0; i < WARM; i++)
			must(together(k), "collective %d", k);
		if (rank == 0)
			epochs(done);
		must(together(k), "collective %d", k);
		must(rank != 1 || seen(0) == done + FEW, "after collective %d", k);
		done += FEW;
		watch_feed();
	}
	for (unsigned k = 0; k < sizeof(calls) / sizeof(*calls); k++) {
		st.doing = "calls and calls";
		if (rank) {
			loop(calls[k], done + FEW);
		} else {
			MPI_Barrier(all);
			epochs(done);
		}
		done += FEW;
		watch_feed();
	}
	st.doing = "calls seldom";
	if (rank)
		seldom();
	must(!rank || own, "beside a window no receive is the library's");
	MPI_Win_free(&window);
	MPI_Comm_free(&pair);
	MPI_Comm_free(&all);
	if (!rank)
		printf("targets: %lld epochs of rank 0, every byte right\n", (long long)done);
	MPI_Finalize();
	return 0;
}
