/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The second thread of a process is of a class above the first one's, on the same core: it may be at its first call
 * when that is at receives of the library's own (shim/visit.c), and then it gives the core away until they are left.
 * That happens once in a process, so this is run many times.
 */
#include "own_request.h"
#include "stress.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ROOM	4  /* ints */
#define WINDOW	20 /* receives */
#define BEFORE	500
#define BETWEEN 200 /* windows, from one question whether both have called to the next */
#define MOST_S	0.6 /* without that, until the kernel takes the core from the thread above for once: 0.95 */
#define MOST_US 20000

static int rank, peer;
static unsigned when;
static double took;
static atomic_bool started, over;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void to_one_core(void)
{
	cpu_set_t may, one;
	int left = rank, core = 0;
	sched_getaffinity(0, sizeof(may), &may);
	left %= CPU_COUNT(&may);
	while (!CPU_ISSET(core, &may) || left-- > 0)
		core++;
	CPU_ZERO(&one);
	CPU_SET(core, &one);
	must(!sched_setaffinity(0, sizeof(one), &one), "cannot be bound to core %d", core);
}

static void *second(void *unused)
{
	struct sched_param above = {.sched_priority = 1};
	int flag;
	must(!pthread_setschedparam(pthread_self(), SCHED_FIFO, &above), "nobody may be above others here");
	while (!atomic_load(&started))
		usleep(100);
	usleep(when);
	double begin = now();
	MPI_Iprobe(peer, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
	took = now() - begin;
	atomic_store(&over, true);
	return unused;
}

static int window(int i)
{
	static int in[WINDOW][ROOM], out[WINDOW][ROOM];
	MPI_Request q[2 * WINDOW];
	int n = 0;
	for (int k = 0; k < WINDOW; k++) {
		MPI_Irecv(in[k], ROOM, MPI_INT, peer, 5, MPI_COMM_WORLD, &q[k]);
		n += is_own(q[k]);
	}
	for (int k = 0; k < WINDOW; k++) {
		out[k][0] = out[k][ROOM - 1] = i + k;
		MPI_Isend(out[k], ROOM, MPI_INT, peer, 5, MPI_COMM_WORLD, &q[WINDOW + k]);
	}
	MPI_Waitall(2 * WINDOW, q, MPI_STATUSES_IGNORE);
	for (int k = 0; k < WINDOW; k++)
		must(in[k][0] == i + k && in[k][ROOM - 1] == i + k, "a message is %d, not %d", in[k][0],
		     i + k);
	return n;
}

int main(int argc, char **argv)
{
	int provided, n = 0, all = 0;
	double most;
	pthread_t thread;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	peer = rank ^ 1;
	st = (struct state){.rank = rank, .doing = "above"};
	watch_start(20);
	struct rng rng = {mix((uint64_t)time(NULL), (uint64_t)getpid())};
	when = (unsigned)below(&rng, MOST_US);
	to_one_core();
	must(!pthread_create(&thread, NULL, second, NULL), "cannot start a thread");
	for (int i = 0; !all; i++) {
		n += window(i);
		if (i == BEFORE)
			atomic_store(&started, true);
		int mine = atomic_load(&over);
		if (i % BETWEEN == 0)
			MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	}
	pthread_join(thread, NULL);
	MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(rank ? &n : MPI_IN_PLACE, &n, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		must(n > BEFORE, "only %d requests of the library's own", n);
		must(most < MOST_S, "the first call of a thread above took %.0f ms", most * 1e3);
		printf("above: at most %.2f ms, every byte right\n", most * 1e3);
	}
	MPI_Finalize();
	return 0;
}
