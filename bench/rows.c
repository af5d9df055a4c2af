/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of the benchmark, as an ordinary MPI program that knows nothing of sennit: rows ROW...
 *
 * A row is KIND:SIZE[:MS], printed as "KIND:SIZE value before after lost switches": the figure, the cache-line probes (ns, one
 * way) around it, for how many thousandths of the time a rank wanted its core while others had it, and how often all ranks
 * together lost or gave up their cores for one of what is timed (0 where nothing is repeated). What the figure means:
 *   lat        us, half a round trip                      rate, rates  million messages/s of SIZE bytes, one pair in one
 *   bw         MB/s of a ping-pong, same buffers again                 direction; every rank to every other at once
 *   cold       likewise, buffers rotated through COLD bytes
 *   used       likewise, written by the sender before each message and read by the receiver after it
 *   behind     likewise, and what is received lies OFF bytes further in its page than what is sent
 *   hidesend   share of the transfer that is hidden behind the sender's computing (MPI_Isend, compute, MPI_Wait)
 *   hiderecv   likewise the receiver's
 *   total      a turn in which both ranks exchange SIZE bytes and work for WORK s meanwhile, over the work alone
 *   away       us of MPI_Get and MPI_Win_flush from a rank that is outside the library, its core idle; the
 *              origin does something else for GAP between two of them
 *   alltoall, allreduce, bcast, exchange, reduce, gather, scatter   us a call; each rank in turns is the root
 *   allgatherv, alltoallv, gatherv, scatterv   likewise
 *   iallreduce, ibcast, ialltoall   likewise, with MPI_Wait
 *   winput, winget, winsum   us, MPI_Put, MPI_Get or MPI_Fetch_and_op of rank 0 to rank 1 and MPI_Win_flush, in a window of
 *              MPI_Win_allocate; winlock is MPI_Put between MPI_Win_lock and MPI_Win_unlock, winfence MPI_Put to the next
 *              rank and MPI_Win_fence of all
 *   probed     us, a message to the right and one from the left, which MPI_Mprobe finds and MPI_Mrecv receives
 *   asked      us, four messages to the right and four from the left, until MPI_Testall says that all are over
 *   fresh      likewise with MPI_Waitall, and none of 1 to SIZE bytes is like another: new tags, lengths, buffers
 *   neighbours us a step in which each rank exchanges a message with those 1, 2 and 4 ranks before and behind it, all at
 *              once (MPI_Irecv, MPI_Isend, MPI_Waitall); of two ranks the other one twice
 *   column     us, a column of a matrix to the right and one from the left by MPI_Sendrecv, SIZE bytes of doubles, each 800
 *              bytes behind the other
 *   particles  us, SIZE bytes of structs of three doubles and an int, with a hole, four times to the right and from the left
 *              (MPI_Irecv, MPI_Isend, MPI_Waitall)
 *   pairs      us, half a round trip, while every even rank plays with the next one
 *   beside     likewise of ranks 0 and 1 alone, while all others compute and make no call
 *   served     us, the mean that a rank waits for rank 0's answer, which does nothing but answer, while the others compute
 *   idle       percent of a core used by a rank that waits in MPI_Recv
 *   wake       us, a round trip to such a rank that has waited for some milliseconds (median)
 * mt-KIND is likewise in a program that asks for MPI_THREAD_MULTIPLE, of which one thread calls, as Python's module for MPI does; then all
 * rows of a run are to be such.
 * Rows of two ranks leave the others asleep. Probes are taken by ranks 0 and 1; with more ranks than cores they say nothing
 * and are 0.
 */
#include "probe.h"
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MT	"mt-"
#define COLD	(192u << 20)
#define WINDOW	64
#define COMPUTE 0.1 /* s */
#define WORK	0.02
#define TURNS	15
#define MANY	75
#define AWAY	200
#define OFF	8
#define ASLEEP	5000  /* us */
#define GAP	30e-6 /* s between two of those that are AWAY */
#define SERVED	60
#define SPENT	(CLOCKS_PER_SEC / 500) /* of core, on average, before each request */
#define LARGEST (64u << 20)

static int rank, ranks;
static char *mine, *theirs; /* room bytes each */
static size_t room;
static _Atomic uint64_t *over; /* in the page of the lines: how many rows "beside" have ended */
static volatile long sink;
static double switches; /* of this rank's thread, a round of the last row */

#include "collectives.h"
#include "holes.h"
#include "onesided.h"
#include "work.h"

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "rows: %s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

#include "probe_mpi.h"

/* ---- ping-pong ---- */

enum touch { SAME, ROTATE, CONSUME, BEHIND };

static long read_all(const char *p, size_t len)
{
	long sum = 0;
	for (size_t i = 0; i < len; i += 64)
		sum += p[i];
	return sum;
}

static double pingpong(size_t len, long rounds, enum touch touch)
{
	size_t step = (len + 4095) & ~(size_t)4095, at = 0, further = touch == BEHIND ? OFF : 0;
	int other = rank ^ 1;
	if (other >= ranks)
		return 0;
	double start = MPI_Wtime();
	for (long i = 0; i < rounds; i++) {
		char *out = mine + at, *in = theirs + at + further;
		for (int turn = 0; turn < 2; turn++) {
			if (turn == rank % 2) {
				if (touch >= CONSUME)
					memset(out, (int)i, len);
				MPI_Send(out, (int)len, MPI_BYTE, other, 1, MPI_COMM_WORLD);
			} else {
				MPI_Recv(in, (int)len, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				if (touch >= CONSUME)
					sink += read_all(in, len);
			}
		}
		if (touch == ROTATE && (at += step) + len > room)
			at = 0;
	}
	return MPI_Wtime() - start;
}

/* The others compute until rank 0 says that it is over, by other ways than messages. */
static double beside(size_t len, long rounds)
{
	static uint64_t ended;
	double took = 0;
	ended++;
	if (rank < 2)
		took = pingpong(len, rounds, SAME);
	if (rank == 0)
		atomic_store(over, ended);
	while (rank > 1 && atomic_load(over) < ended)
		for (int i = 0; i < 1000; i++)
			sink += i;
	return took;
}

/* ---- message rate ---- */

static double rate(size_t len, long windows)
{
	MPI_Request req[WINDOW];
	double start = MPI_Wtime();
	for (long w = 0; w < windows; w++) {
		for (int i = 0; i < WINDOW; i++) {
			if (rank == 0)
				MPI_Isend(mine + (size_t)i * len, (int)len, MPI_BYTE, 1, 1, MPI_COMM_WORLD,
					  &req[i]);
			else
				MPI_Irecv(theirs + (size_t)i * len, (int)len, MPI_BYTE, 0, 1, MPI_COMM_WORLD,
					  &req[i]);
		}
		MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
		if (rank == 0)
			MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
	}
	return MPI_Wtime() - start;
}

static double rate_all(size_t len, long windows)
{
	int count = 2 * WINDOW * (ranks - 1), n;
	MPI_Request *req = malloc((size_t)count * sizeof(MPI_Request));
	double start = MPI_Wtime();
	for (long w = 0; w < windows; w++) {
		n = 0;
		for (int i = 0; i < WINDOW; i++) {
			for (int other = 0; other < ranks; other++) {
				if (other == rank)
					continue;
				MPI_Irecv(theirs + (size_t)n * len, (int)len, MPI_BYTE, other, 1,
					  MPI_COMM_WORLD, &req[n]);
				n++;
			}
		}
		for (int i = 0; i < WINDOW; i++) {
			for (int other = 0; other < ranks; other++) {
				if (other == rank)
					continue;
				MPI_Isend(mine + (size_t)n * len, (int)len, MPI_BYTE, other, 1,
					  MPI_COMM_WORLD, &req[n]);
				n++;
			}
		}
		MPI_Waitall(n, req, MPI_STATUSES_IGNORE);
	}
	double took = MPI_Wtime() - start;
	free(req);
	return took;
}

/* ---- overlap ---- */

static void compute(double seconds)
{
	double end = MPI_Wtime() + seconds;
	while (MPI_Wtime() < end)
		for (int i = 0; i < 100; i++)
			sink += i;
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* Of what the slower rank took in each turn: part 2 the median, 4 the lower quartile. */
static double part_of(const double *turn, int turns, int part)
{
	double most[MANY];
	MPI_Allreduce(turn, most, turns, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	qsort(most, (size_t)turns, sizeof(*most), by_time);
	return most[turns / part];
}

/* The side that computes posts first; what is left of the transfer when it has computed is what was not hidden. */
static double left_over(size_t len, int tag, int computes, double seconds)
{
	MPI_Request req;
	double start;
	bool sends = rank == 0, computing = rank == computes;
	MPI_Barrier(MPI_COMM_WORLD);
	if (computing) {
		if (sends)
			MPI_Isend(mine, (int)len, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &req);
		else
			MPI_Irecv(theirs, (int)len, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &req);
		compute(seconds);
		start = MPI_Wtime();
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		return MPI_Wtime() - start;
	}
	usleep((unsigned)(seconds * 1e5)); /* the other has posted by now, whatever a barrier means */
	if (sends)
		MPI_Send(mine, (int)len, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
	else
		MPI_Recv(theirs, (int)len, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return 0;
}

/*
 * Compared with the same calls for a message of no bytes: after computing their code and data are out of the cache,
 * which takes some hundred ns for short work and microseconds for long. Each message has a tag of its own: one that
 * sennit knows from before goes a shorter way where it is short, and would not be the same calls.
 */
static double hidden(size_t len, int computes)
{
	/* What takes some us, as a call in a cold cache does, is done often. */
	bool large = len > 4 << 20, small = len <= 256 << 10;
	double left[MANY], none[MANY];
	double seconds = large ? COMPUTE : small ? COMPUTE / 50 : COMPUTE / 5;
	int turns = small ? MANY : TURNS, rounds = len <= 64 << 10 ? 2000 : 100;
	if (large) {
		turns = 3;
		rounds = 4;
	}
	pingpong(len, small ? rounds : 2, SAME);
	double whole = pingpong(len, rounds, SAME) / (2 * rounds);
	for (int i = 0; i < turns; i++) {
		left[i] = left_over(len, 2 * i + 2, computes, seconds);
		none[i] = left_over(0, 2 * i + 3, computes, seconds);
	}
	double rest = part_of(left, turns, 2) - part_of(none, turns, 2);
	return rest > 0 ? 1 - rest / whole : 1;
}

/* Both work and no core is idle: a turn with an exchange of messages over a turn without, alternating. */
static double turn(size_t len, long steps, bool exchange)
{
	MPI_Request req[2];
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	if (exchange) {
		MPI_Irecv(theirs, (int)len, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, &req[0]);
		MPI_Isend(mine, (int)len, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, &req[1]);
	}
	work(steps);
	if (exchange)
		MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
	return MPI_Wtime() - start;
}

static double total(size_t len)
{
	double with[TURNS], without[TURNS];
	long steps = work_steps(WORK);
	for (int i = 0; i < TURNS; i++) {
		with[i] = turn(len, steps, true);
		without[i] = turn(len, steps, false);
	}
	double both = part_of(with, TURNS, 4); /* what disturbs from outside only adds */
	return both / part_of(without, TURNS, 4);
}

/* Each needs something done on the target's side, unless the MPI can reach its memory by itself. */
static double away(size_t len)
{
	MPI_Win win;
	double start, took = 0, gaps = 0;
	MPI_Win_create(theirs, (MPI_Aint)len, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_lock_all(0, win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 1) {
		usleep(200000);
	} else if (rank == 0) {
		usleep(50000); /* it is away, and may be known to be */
		start = MPI_Wtime();
		for (int i = 0; i < AWAY; i++) {
			MPI_Get(mine, (int)len, MPI_BYTE, 1, 0, (int)len, MPI_BYTE, win);
			MPI_Win_flush(1, win);
			double t0 = MPI_Wtime();
			compute(GAP);
			gaps += MPI_Wtime() - t0;
		}
		took = (MPI_Wtime() - start - gaps) / AWAY;
	}
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	return took * 1e6;
}

/* ---- waiting ---- */

static double idle(void)
{
	struct rusage a, b;
	double percent = 0, start = MPI_Wtime();
	if (rank == 1) {
		getrusage(RUSAGE_SELF, &a);
		MPI_Recv(theirs, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		getrusage(RUSAGE_SELF, &b);
		double used = (double)(b.ru_utime.tv_sec - a.ru_utime.tv_sec + b.ru_stime.tv_sec -
				       a.ru_stime.tv_sec) +
			      1e-6 * (double)(b.ru_utime.tv_usec - a.ru_utime.tv_usec + b.ru_stime.tv_usec -
					      a.ru_stime.tv_usec);
		percent = 100 * used / (MPI_Wtime() - start);
	} else if (rank == 0) {
		usleep(400000);
		MPI_Send(mine, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
	}
	MPI_Bcast(&percent, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	return percent;
}

/* The one that answers may sleep, the one that has asked is awake. */
static double wake(size_t len)
{
	double took[MANY];
	for (int i = 0; i < MANY; i++) {
		if (rank == 0)
			usleep(ASLEEP);
		double start = MPI_Wtime();
		if (rank < 2)
			pingpong(len, 1, SAME);
		took[i] = MPI_Wtime() - start;
	}
	qsort(took, MANY, sizeof(*took), by_time);
	double median = took[MANY / 2];
	MPI_Bcast(&median, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	return median * 1e6;
}

static double served(int len)
{
	double mean = 0, all = 0;
	MPI_Status from;
	for (int i = 0; i < SERVED * (rank ? 1 : ranks - 1); i++) {
		clock_t end = clock() + SPENT * (512 + rand() % 1024) / 1024;
		while (rank && clock() < end)
			sink++;
		double start = MPI_Wtime();
		if (rank)
			MPI_Send(mine, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
		MPI_Recv(theirs, len, MPI_BYTE, rank ? 0 : MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &from);
		if (!rank)
			MPI_Send(mine, len, MPI_BYTE, from.MPI_SOURCE, 1, MPI_COMM_WORLD);
		mean += rank ? (MPI_Wtime() - start) / SERVED / (ranks - 1) : 0;
	}
	MPI_Allreduce(&mean, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all * 1e6;
}

/* ---- rows ---- */

static double timed(const char *kind, size_t len, long rounds)
{
	static const char *const two[] = {"lat", "bw", "cold", "used", "behind", "rate"};
	if (!strcmp(kind, "pairs"))
		return pingpong(len, rounds, SAME);
	if (!strcmp(kind, "beside"))
		return beside(len, rounds);
	for (size_t i = 0; rank > 1 && i < sizeof(two) / sizeof(two[0]); i++)
		if (!strcmp(kind, two[i]))
			return 0;
	if (!strcmp(kind, "lat") || !strcmp(kind, "bw"))
		return pingpong(len, rounds, SAME);
	if (!strcmp(kind, "cold"))
		return pingpong(len, rounds, ROTATE);
	if (!strcmp(kind, "used"))
		return pingpong(len, rounds, CONSUME);
	if (!strcmp(kind, "behind"))
		return pingpong(len, rounds, BEHIND);
	if (!strcmp(kind, "rate"))
		return rate(len, rounds);
	if (!strcmp(kind, "rates"))
		return rate_all(len, rounds);
	if (!strcmp(kind, "column"))
		return column(len, rounds);
	if (!strcmp(kind, "particles"))
		return particles(len, rounds);
	return strncmp(kind, "win", 3) ? collective(kind, len, rounds) : onesided(kind, len, rounds);
}

static double timed_and_counted(const char *kind, size_t len, long rounds)
{
	struct rusage a, b;
	getrusage(RUSAGE_THREAD, &a);
	double took = timed(kind, len, rounds);
	getrusage(RUSAGE_THREAD, &b);
	switches = (double)(b.ru_nvcsw - a.ru_nvcsw + b.ru_nivcsw - a.ru_nivcsw) / (double)rounds;
	return took;
}

/* As many rounds as take about `seconds`, the same on all ranks; their time. */
static double calibrated(const char *kind, size_t len, double seconds, long *rounds)
{
	long n = 1;
	double took = 0;
	timed(kind, len, 1);
	for (;;) {
		took = timed_and_counted(kind, len, n);
		MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
		if (took >= seconds / 8 || n > 100000000)
			break;
		n *= took < seconds / 64 ? 8 : 2;
	}
	if (took < seconds / 2) {
		n = (long)((double)n * seconds / took) + 1;
		took = timed_and_counted(kind, len, n);
		MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	}
	*rounds = n;
	return took;
}

static double figure(const char *kind, size_t len, double seconds)
{
	long rounds;
	if (ranks > 2 && (!strncmp(kind, "hide", 4) || !strcmp(kind, "away") || !strcmp(kind, "total")))
		fail("hidesend, hiderecv, away and total are for two ranks");
	if (!strcmp(kind, "hidesend"))
		return hidden(len, 0);
	if (!strcmp(kind, "hiderecv"))
		return hidden(len, 1);
	if (!strcmp(kind, "away"))
		return away(len);
	if (!strcmp(kind, "total"))
		return total(len);
	if (!strcmp(kind, "idle"))
		return idle();
	if (!strcmp(kind, "wake"))
		return wake(len);
	if (!strcmp(kind, "served"))
		return served((int)len);
	double each = calibrated(kind, len, seconds, &rounds) / (double)rounds;
	if (!strcmp(kind, "lat") || !strcmp(kind, "pairs") || !strcmp(kind, "beside"))
		return each / 2 * 1e6;
	if (!strcmp(kind, "bw") || !strcmp(kind, "cold") || !strcmp(kind, "used") || !strcmp(kind, "behind"))
		return 2 * (double)len / each / 1e6;
	if (!strcmp(kind, "rate"))
		return WINDOW / each / 1e6;
	if (!strcmp(kind, "rates"))
		return (double)WINDOW * ranks * (ranks - 1) / each / 1e6;
	return each * 1e6;
}

/* For how long this thread was ready to run while others ran, in ns; 0 where the kernel does not tell. */
static double waited(void)
{
	unsigned long long ran, ready = 0;
	FILE *f = fopen("/proc/thread-self/schedstat", "re");
	if (!f)
		return 0;
	if (fscanf(f, "%llu %llu", &ran, &ready) != 2)
		ready = 0;
	fclose(f);
	return (double)ready;
}

static bool is_mt(const char *kind)
{
	return !strncmp(kind, MT, strlen(MT));
}

static void row(char *text)
{
	char *rest, *kind = strtok_r(text, ":", &rest), *size = strtok_r(NULL, ":", &rest);
	char *ms = strtok_r(NULL, ":", &rest);
	size_t len = size ? strtoul(size, NULL, 10) : 0;
	if (!kind || len > LARGEST)
		fail("a row is KIND:SIZE[:MS], at most 64 MiB");
	double before = probe();
	double ready = waited(), start = MPI_Wtime(), all = 0;
	switches = 0;
	double value = figure(is_mt(kind) ? kind + strlen(MT) : kind, len, ms ? atof(ms) / 1000 : 0.05);
	long most = 0, lost = (long)((waited() - ready) / (MPI_Wtime() - start) / 1e6);
	double after = probe();
	MPI_Reduce(&lost, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(&switches, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		printf("%s:%zu %.6g %.1f %.1f %ld %.3g\n", kind, len, value, before, after, most, all);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	int got, level = argc > 1 && is_mt(argv[1]) ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
	MPI_Init_thread(&argc, &argv, level, &got);
	if (got < level)
		fail("this MPI has no MPI_THREAD_MULTIPLE");
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	room = ranks == 2 ? COLD : LARGEST / 4;
	mine = malloc(room);
	theirs = malloc(room + OFF);
	if (!mine || !theirs || ranks < 2)
		fail("needs two ranks, and memory");
	memset(mine, 1, room);
	memset(theirs, 2, room + OFF);
	probe_open();
	over = (_Atomic uint64_t *)((char *)lines + PROBE_MEMORY / 2);
	for (int i = 1; i < argc; i++)
		row(argv[i]);
	free(mine);
	free(theirs);
	MPI_Finalize();
	return 0;
}
