/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A blocked thread gives its core to those that compute: MPI_THREAD_MULTIPLE with more threads than cores. Rank 0
 * lets each answer wait for a while; in rank 1 one thread waits for it, in MPI_Recv and in MPI_Wait by turns, while
 * others compute: threads that have never called MPI, and then such as have. The kernel counts what the waiting
 * thread used of a core, and that it slept; the others' work says that it goes on meanwhile. Beside threads that have
 * called MPI it may yield instead: who yields to a thread that computes gets the core back a time slice later.
 *
 *     gives
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define WAITS	 10
#define MOST	 200 /* waits, where one that computes has been without a core all the while */
#define AWAY_US	 20000
#define COMPUTES 3
#define SHARE	 0.10 /* of a core, for the thread that waits; it is 0.003 to 0.02 */

static atomic_int over;
static pthread_barrier_t all_run;
static int rank, faults;

struct worker {
	pthread_t thread;
	int calls; /* has called MPI */
	atomic_long steps;
};

static void *compute(void *arg)
{
	struct worker *w = arg;
	int flag;
	if (w->calls)
		MPI_Iprobe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
	pthread_barrier_wait(&all_run);
	while (!atomic_load(&over))
		atomic_fetch_add(&w->steps, 1);
	return NULL;
}

struct usage {
	double cpu, wall;
	long sleeps;
};

static struct usage usage(void)
{
	struct rusage r;
	struct timespec cpu, wall;
	getrusage(RUSAGE_THREAD, &r);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	clock_gettime(CLOCK_MONOTONIC, &wall);
	return (struct usage){(double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec,
			      (double)wall.tv_sec + 1e-9 * (double)wall.tv_nsec, r.ru_nvcsw};
}

static void ask(int more)
{
	MPI_Send(&more, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
}

static void wait_once(int i)
{
	MPI_Request request;
	ask(1);
	if (i % 2) {
		MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		MPI_Irecv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

static int idle(const struct worker *w, const long *before)
{
	int n = 0;
	for (int i = 0; i < COMPUTES; i++)
		n += atomic_load(&w[i].steps) == before[i];
	return n;
}

static double share_of(const struct usage *a, const struct usage *b)
{
	return (b->cpu - a->cpu) / (b->wall - a->wall);
}

static void check(const struct usage *a, const struct usage *b, const struct worker *w, const long *before)
{
	double share = share_of(a, b);
	long sleeps = b->sleeps - a->sleeps;
	printf("gives: waited %d times beside threads that %s: %.4f of a core, %ld sleeps\n", WAITS,
	       w->calls ? "have called MPI" : "never call MPI", share, sleeps);
	if (share > SHARE) {
		printf("gives: it kept the core\n");
		faults++;
	}
	if (sleeps < WAITS && !w->calls) {
		printf("gives: it did not sleep in each wait\n");
		faults++;
	}
	if (idle(w, before)) {
		printf("gives: %d threads computed nothing meanwhile\n", idle(w, before));
		faults++;
	}
}

static void wait_often(const struct worker *w, long *before, struct usage *a, struct usage *b)
{
	for (int i = 0; i < COMPUTES; i++)
		before[i] = atomic_load(&w[i].steps);
	*a = usage();
	for (int i = 0; i < WAITS ||
			(i < MOST && (idle(w, before) || (!w->calls && usage().sleeps - a->sleeps < WAITS)));
	     i++)
		wait_once(i);
	*b = usage();
}

static void waits(int calls)
{
	struct worker w[COMPUTES] = {0};
	long before[COMPUTES];
	atomic_store(&over, 0);
	pthread_barrier_init(&all_run, NULL, COMPUTES + 1);
	for (int i = 0; i < COMPUTES; i++) {
		w[i].calls = calls;
		if (pthread_create(&w[i].thread, NULL, compute, &w[i]))
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
	pthread_barrier_wait(&all_run);
	struct usage a, b;
	int tries = 0;
	do /* what a host takes from this machine may count as used: who keeps the core does so each time */
		wait_often(w, before, &a, &b);
	while (share_of(&a, &b) > SHARE && ++tries < 2);
	ask(0);
	atomic_store(&over, 1);
	for (int i = 0; i < COMPUTES; i++)
		pthread_join(w[i].thread, NULL);
	pthread_barrier_destroy(&all_run);
	check(&a, &b, w, before);
}

static void answers(void)
{
	for (int more;;) {
		MPI_Recv(&more, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (!more)
			return;
		usleep(AWAY_US);
		MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
	}
}

int main(int argc, char **argv)
{
	int provided, all = 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int calls = 0; calls < 2; calls++) {
		if (rank == 1)
			waits(calls);
		else if (rank == 0)
			answers();
	}
	MPI_Allreduce(&faults, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank && !all)
		printf("gives: who was blocked left his core to those that compute\n");
	MPI_Finalize();
	return all != 0 || provided != MPI_THREAD_MULTIPLE;
}
