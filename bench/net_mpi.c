/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What net.py runs under each MPI, over the network between hosts. It knows nothing of sennit.
 *
 *   net_mpi pingpong MS SIZE[:MOST]...   ranks 0 and 1: "SIZE median-us-one-way 99th-percentile-us mean-us" for each size,
 *                                 at most MOST times to and fro
 *   net_mpi stream MS SIZE...     rank 0 sends to 1, eight at a time: "SIZE MB/s receiver-CPU-ns-per-byte"
 *   net_mpi exchange MS SIZE...   ranks 0 and 1 each send to the other by MPI_Sendrecv: "SIZE MB/s-each-way CPU-ns-per-byte", of
 *                                 what a rank sends or receives
 *   net_mpi compute MS SIZE...    ranks 0 and 1 post a receive and a send, compute for WORK_S, and wait: "SIZE us-a-turn"
 *   net_mpi incast ROUNDS SIZE    all others send SIZE bytes, then eight short messages, to rank 0, ROUNDS times: "SIZE MB/s
 *                                 median-us 99th-percentile-us" of the short ones, from post to arrival (one machine, one clock)
 *
 * Every byte is checked, outside the timed part. Memory is touched by both sides.
 */
#include "work.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define WINDOW 8
#define MOST   2000000 /* rounds */
#define SHORTS 8
#define WORK_S 100e-6

static int rank, ranks;
static unsigned char *mine, *theirs;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static void die(const char *what)
{
	fprintf(stderr, "net_mpi: %s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fill(unsigned char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(seed + i + (i >> 8) * 7 + (i >> 16) * 13);
}

static void check(const unsigned char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != (unsigned char)(seed + i + (i >> 8) * 7 + (i >> 16) * 13))
			die("wrong data");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* ---- ping-pong ---- */

static void round_trip(size_t len)
{
	if (rank == 0)
		MPI_Send(mine, (int)len, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
	MPI_Recv(theirs, (int)len, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank == 1)
		MPI_Send(mine, (int)len, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

/* How many of what took `took` each fill the time, not more than `most` if that is not 0; the same number at both ends. */
static long agree(double took, double seconds, long least, long most)
{
	long rounds = took > 0 ? (long)(seconds / took) : least;

	most = most > 0 && most < MOST ? most : MOST;
	rounds = rounds < least ? least : rounds > most ? most : rounds;
	MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	return rounds;
}

static double timed(size_t len)
{
	double start = now();

	round_trip(len);
	return now() - start;
}

/*
 * The number of rounds comes from the fastest of a few: a loss among them would leave a handful, with hardly another
 * loss to be seen.
 */
static void pingpong(size_t len, double seconds, long most)
{
	double sum = 0, fastest, *t;

	fill(mine, len, (unsigned)rank + 1);
	memset(theirs, 0, len);
	round_trip(len);
	check(theirs, len, (unsigned)!rank + 1);
	for (int i = 0; i < 4; i++)
		round_trip(len);
	fastest = timed(len);
	for (int i = 1; i < 4; i++) {
		double took = timed(len);
		fastest = took < fastest ? took : fastest;
	}
	long rounds = agree(fastest, seconds, 5, most);
	t = calloc((size_t)rounds, sizeof(*t));
	for (long i = 0; i < rounds; i++) {
		t[i] = timed(len);
		sum += t[i];
	}
	qsort(t, (size_t)rounds, sizeof(*t), by_value);
	if (rank == 0)
		printf("%zu %.3f %.3f %.3f\n", len, t[rounds / 2] / 2 * 1e6, t[rounds * 99 / 100] / 2 * 1e6,
		       sum / (double)rounds / 2 * 1e6);
	free(t);
	check(theirs, len, (unsigned)!rank + 1);
}

/* ---- one way ---- */

static void stream_some(size_t len, long count)
{
	MPI_Request r[WINDOW];
	MPI_Status done[WINDOW];
	int got = 1;

	for (long i = 0; i < count; i += WINDOW) {
		for (int w = 0; w < WINDOW; w++)
			if (rank == 0)
				MPI_Isend(mine, (int)len, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &r[w]);
			else
				MPI_Irecv(theirs + (size_t)w * len, (int)len, MPI_BYTE, 0, 2, MPI_COMM_WORLD,
					  &r[w]);
		MPI_Waitall(WINDOW, r, done);
	}
	if (rank == 1)
		MPI_Send(&got, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
	else
		MPI_Recv(&got, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/*
 * Half as long beforehand: the first tens of MB of a stream take memory of the kernel's that no message has had yet, which in a
 * virtual machine may have to be found first, and of it one core takes what another gives back.
 */
static void stream(size_t len, double seconds)
{
	double start, took[2], used;
	long count = WINDOW;

	fill(mine, len, 9);
	stream_some(len, WINDOW);
	for (int i = 2; i > 0; i--) {
		start = now();
		stream_some(len, count);
		count = agree((now() - start) / (double)count, seconds / i, WINDOW, 0) / WINDOW * WINDOW;
	}
	memset(theirs, 0, WINDOW * len); /* what is checked is what comes now */
	MPI_Barrier(MPI_COMM_WORLD);
	start = now();
	used = cpu();
	stream_some(len, count);
	took[0] = now() - start;
	took[1] = cpu() - used;
	if (rank == 1) {
		for (int w = 0; w < WINDOW; w++)
			check(theirs + (size_t)w * len, len, 9);
		MPI_Send(took, 2, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD);
	} else {
		MPI_Recv(took, 2, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		double bytes = (double)len * (double)count;
		printf("%zu %.1f %.4f\n", len, bytes / took[0] / 1e6, took[1] / bytes * 1e9);
	}
}

/* ---- both ways ---- */

static double exchange_some(size_t len, long count)
{
	double start = now();

	for (long i = 0; i < count; i++)
		MPI_Sendrecv(mine, (int)len, MPI_BYTE, !rank, 5, theirs, (int)len, MPI_BYTE, !rank, 5,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return now() - start;
}

static void exchange(size_t len, double seconds)
{
	long count = 2;

	fill(mine, len, (unsigned)rank + 1);
	exchange_some(len, 2);
	for (int i = 2; i > 0; i--)
		count = agree(exchange_some(len, count) / (double)count, seconds / i, 2, 0);
	memset(theirs, 0, len); /* what is checked is what comes now */
	MPI_Barrier(MPI_COMM_WORLD);
	double used = cpu(), took = exchange_some(len, count);
	used = cpu() - used;
	check(theirs, len, (unsigned)!rank + 1);
	if (rank == 0)
		printf("%zu %.1f %.4f\n", len, (double)len * (double)count / took / 1e6,
		       used / (double)len / (double)count / 2 * 1e9);
}

/* ---- posts, computes, waits ---- */

static double compute_some(size_t len, long count, long steps)
{
	MPI_Request r[2];
	double start = now();

	for (long i = 0; i < count; i++) {
		MPI_Irecv(theirs, (int)len, MPI_BYTE, !rank, 6, MPI_COMM_WORLD, &r[0]);
		MPI_Isend(mine, (int)len, MPI_BYTE, !rank, 6, MPI_COMM_WORLD, &r[1]);
		work(steps);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	}
	return (now() - start) / (double)count;
}

static void compute(size_t len, double seconds)
{
	long count = 2, steps = work_steps(WORK_S);

	fill(mine, len, (unsigned)rank + 1);
	compute_some(len, 2, steps);
	for (int i = 2; i > 0; i--)
		count = agree(compute_some(len, count, steps), seconds / i, 2, 0);
	memset(theirs, 0, len); /* what is checked is what comes now */
	MPI_Barrier(MPI_COMM_WORLD);
	double took = compute_some(len, count, steps);
	check(theirs, len, (unsigned)!rank + 1);
	if (rank == 0)
		printf("%zu %.1f\n", len, took * 1e6);
}

/* ---- many to one ---- */

static void incast_receive(size_t len, int rounds, unsigned char *in, bool counts)
{
	int others = ranks - 1, shorts = rounds * others * SHORTS, got = 0;
	MPI_Request *r = malloc(sizeof(*r) * (size_t)ranks);
	int *left = malloc(sizeof(*left) * (size_t)ranks), flag, open = others;
	double stamp = 0, *t = calloc((size_t)shorts, sizeof(*t)), start = now();

	for (int p = 0; p < others; p++) {
		left[p] = rounds;
		MPI_Irecv(in + (size_t)p * len, (int)len, MPI_BYTE, p + 1, 1, MPI_COMM_WORLD, &r[p]);
	}
	MPI_Irecv(&stamp, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &r[others]);
	while (open > 0 || got < shorts) {
		int which;
		MPI_Testany(ranks, r, &which, &flag, MPI_STATUS_IGNORE);
		if (!flag || which == MPI_UNDEFINED)
			continue;
		if (which == others) {
			t[got++] = now() - stamp;
			if (got < shorts)
				MPI_Irecv(&stamp, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD,
					  &r[others]);
			continue;
		}
		if (--left[which] > 0)
			MPI_Irecv(in + (size_t)which * len, (int)len, MPI_BYTE, which + 1, 1, MPI_COMM_WORLD,
				  &r[which]);
		else
			open--;
	}
	double took = now() - start;
	for (int p = 0; p < others; p++)
		check(in + (size_t)p * len, len, (unsigned)p + 1);
	qsort(t, (size_t)shorts, sizeof(*t), by_value);
	if (counts)
		printf("%zu %.1f %.1f %.1f\n", len, (double)len * rounds * others / took / 1e6,
		       t[shorts / 2] * 1e6, t[shorts * 99L / 100] * 1e6);
	free(t);
	free(left);
	free(r);
}

static void incast_rounds(size_t len, int rounds, unsigned char *in, bool counts)
{
	MPI_Request r;
	double stamp;

	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		incast_receive(len, rounds, in, counts);
	for (int i = 0; rank && i < rounds; i++) {
		MPI_Isend(mine, (int)len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &r);
		for (int s = 0; s < SHORTS; s++) {
			stamp = now();
			MPI_Send(&stamp, 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
		}
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* The first rounds find memory that nobody has touched yet, which a virtual machine has to find: 20 ms, and more. */
static void incast(size_t len, int rounds)
{
	unsigned char *in = rank ? NULL : calloc((size_t)ranks, len);

	fill(mine, len, (unsigned)rank);
	incast_rounds(len, 2, in, false);
	if (in) /* what is checked is what comes now */
		memset(in, 0, (size_t)ranks * len);
	incast_rounds(len, rounds, in, true);
	free(in);
}

int main(int argc, char **argv)
{
	size_t most = 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc < 4 || ranks < 2)
		die("usage: net_mpi pingpong|stream|exchange|compute|incast MS|ROUNDS SIZE..., on at least 2 "
		    "ranks");
	for (int i = 3; i < argc; i++)
		most = strtoul(argv[i], NULL, 10) > most ? strtoul(argv[i], NULL, 10) : most;
	mine = malloc(most);
	theirs = malloc(most * WINDOW);
	if (!mine || !theirs)
		die("no memory");
	memset(mine, 0, most);
	memset(theirs, 0, most * WINDOW);
	for (int i = 3; i < argc; i++) {
		size_t len = strtoul(argv[i], NULL, 10);
		if (strcmp(argv[1], "pingpong") == 0)
			pingpong(len, atof(argv[2]) / 1000,
				 strchr(argv[i], ':') ? atol(strchr(argv[i], ':') + 1) : 0);
		else if (strcmp(argv[1], "stream") == 0)
			stream(len, atof(argv[2]) / 1000);
		else if (strcmp(argv[1], "exchange") == 0)
			exchange(len, atof(argv[2]) / 1000);
		else if (strcmp(argv[1], "compute") == 0)
			compute(len, atof(argv[2]) / 1000);
		else
			incast(len, atoi(argv[2]));
		fflush(stdout);
	}
	free(mine);
	free(theirs);
	MPI_Finalize();
	return 0;
}
