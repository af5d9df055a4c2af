/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE: several threads a rank, all of them sending and receiving at once, every byte checked.
 *
 *   threads [-t SECONDS] [-n THREADS] [-s SEED]
 *
 * Thread i talks to thread i of the next and of the previous rank, by tag in one shared communicator; takes from any
 * source what all ranks send to it; probes with MPI_Mprobe; and calls collectives in a communicator of its own. Nothing
 * outside MPI keeps the threads apart. Then all of them wait for a message while the program's first thread computes, and
 * must have left the cores to it.
 */
#include "stress.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 16
#define WINDOW	    8
#define MAX_LEN	    (1u << 20)
#define AWAY	    0.3	 /* seconds for which everybody waits */
#define SHARE	    0.10 /* of a core, at most, for a thread that waits */
#define TRIES                                                                                                \
	4 /* who keeps the core does so each time; two jobs run at once, and a host may take some, too */

struct thread {
	int id, threads, rank, size, rounds;
	uint64_t seed;
	time_t end;
	MPI_Comm own; /* the threads of this number on all ranks */
	double messages, bytes, share;
	long gave, lost; /* how often it gave the core up, and lost it, while it waited */
	pthread_t handle;
};

static pthread_barrier_t all_run;

static uint64_t key_of(const struct thread *t, int src, int dst, int i)
{
	uint64_t pair = (uint64_t)src * 64 + (uint64_t)dst;

	return mix(t->seed + (uint64_t)t->rounds,
		   (pair * MAX_THREADS + (uint64_t)t->id) * WINDOW + (uint64_t)i);
}

static size_t len_of(uint64_t key)
{
	return rnd_len(&(struct rng){key}, MAX_LEN);
}

static void got(struct thread *t, const void *buf, uint64_t key, const MPI_Status *status, const char *what)
{
	size_t len = len_of(key);
	int n;

	MPI_Get_count(status, MPI_BYTE, &n);
	must((size_t)n == len, "%s: %d bytes instead of %zu", what, n, len);
	pattern_check(buf, key, 0, len, what);
	t->messages++;
	t->bytes += (double)len;
}

/* A window of messages to the next rank while one comes from the previous. */
static void neighbours(struct thread *t)
{
	int next = (t->rank + 1) % t->size, prev = (t->rank + t->size - 1) % t->size;
	char *out[WINDOW], *in[WINDOW];
	MPI_Request req[2 * WINDOW];
	MPI_Status status[2 * WINDOW];

	for (int i = 0; i < WINDOW; i++) {
		in[i] = need(len_of(key_of(t, prev, t->rank, i)));
		MPI_Irecv(in[i], (int)len_of(key_of(t, prev, t->rank, i)), MPI_BYTE, prev, t->id,
			  MPI_COMM_WORLD, &req[i]);
	}
	for (int i = 0; i < WINDOW; i++) {
		uint64_t key = key_of(t, t->rank, next, i);

		out[i] = need(len_of(key));
		pattern_fill(out[i], key, 0, len_of(key));
		MPI_Isend(out[i], (int)len_of(key), MPI_BYTE, next, t->id, MPI_COMM_WORLD, &req[WINDOW + i]);
	}
	MPI_Waitall(2 * WINDOW, req, status);
	for (int i = 0; i < WINDOW; i++) {
		got(t, in[i], key_of(t, prev, t->rank, i), &status[i], "neighbours");
		free(in[i]);
		free(out[i]);
	}
}

/* One message from every rank, in whatever order they come, by matched probe or by receive. */
static void any_source(struct thread *t)
{
	char *out[64], *in = need(MAX_LEN);
	MPI_Request *req = need((size_t)t->size * sizeof(*req));
	bool seen[64] = {false};

	for (int r = 0; r < t->size; r++) {
		uint64_t key = key_of(t, t->rank, r, 0) + 1;

		out[r] = need(len_of(key));
		pattern_fill(out[r], key, 0, len_of(key));
		MPI_Isend(out[r], (int)len_of(key), MPI_BYTE, r, 100 + t->id, MPI_COMM_WORLD, &req[r]);
	}
	for (int i = 0; i < t->size; i++) {
		MPI_Message message;
		MPI_Status status;

		if (i % 2) {
			MPI_Mprobe(MPI_ANY_SOURCE, 100 + t->id, MPI_COMM_WORLD, &message, &status);
			MPI_Mrecv(in, MAX_LEN, MPI_BYTE, &message, &status);
		} else {
			MPI_Recv(in, MAX_LEN, MPI_BYTE, MPI_ANY_SOURCE, 100 + t->id, MPI_COMM_WORLD, &status);
		}
		must(!seen[status.MPI_SOURCE], "any source: two messages from rank %d", status.MPI_SOURCE);
		seen[status.MPI_SOURCE] = true;
		got(t, in, key_of(t, status.MPI_SOURCE, t->rank, 0) + 1, &status, "any source");
	}
	MPI_Waitall(t->size, req, MPI_STATUSES_IGNORE);
	for (int r = 0; r < t->size; r++)
		free(out[r]);
	free(req);
	free(in);
	MPI_Barrier(t->own); /* the next round's messages must not come among these */
}

/*
 * More threads than cores in Open MPI: a thread that is woken is not to take the waker's core, which the class says. Others
 * are left alone.
 */
static void check_class(int threads, const char *whose)
{
	cpu_set_t cores;
	bool crowd = !sched_getaffinity(getpid(), sizeof(cores), &cores) && threads > CPU_COUNT(&cores);
#ifndef OPEN_MPI
	crowd = false;
#endif
	int class = sched_getscheduler(0), expected = crowd ? SCHED_BATCH : SCHED_OTHER;
	must(class == expected, "%s has scheduling class %d, not %d", whose, class, expected);
}

static double used(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *wait_long(void *arg)
{
	struct thread *t = arg;
	MPI_Barrier(t->own);
	struct rusage before, after;
	getrusage(RUSAGE_THREAD, &before);
	double cpu = used(), start = MPI_Wtime();
	MPI_Recv(NULL, 0, MPI_BYTE, (t->rank + 1) % t->size, 1, t->own, MPI_STATUS_IGNORE);
	double took = MPI_Wtime() - start; /* shorter where this thread had no core, and came late */
	t->share = (used() - cpu) / (took > AWAY ? took : AWAY);
	getrusage(RUSAGE_THREAD, &after);
	t->gave = after.ru_nvcsw - before.ru_nvcsw;
	t->lost = after.ru_nivcsw - before.ru_nivcsw;
	return NULL;
}

/* Have all of all ranks left the cores? */
static bool wait_for_the_first(struct thread *t, int threads, bool last)
{
	int kept = 0;

	for (int i = 0; i < threads; i++)
		must(pthread_create(&t[i].handle, NULL, wait_long, &t[i]) == 0, "cannot start thread %d", i);
	for (double end = MPI_Wtime() + AWAY; MPI_Wtime() < end;)
		;
	for (int i = 0; i < threads; i++)
		MPI_Send(NULL, 0, MPI_BYTE, (t[i].rank + t[i].size - 1) % t[i].size, 1, t[i].own);
	for (int i = 0; i < threads; i++) {
		pthread_join(t[i].handle, NULL);
		if (t[i].share < SHARE)
			continue;
		kept = true;
		printf("threads: thread %d of rank %d used %.3f of a core while it waited, gave it up %ld "
		       "times "
		       "and lost it %ld times\n",
		       i, t[i].rank, t[i].share, t[i].gave, t[i].lost);
		fflush(stdout);
	}
	must(!last || !kept, "a thread that waits keeps the core, each of %d times", TRIES);
	MPI_Allreduce(MPI_IN_PLACE, &kept, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return !kept;
}

static void *body(void *arg)
{
	struct thread *t = arg;
	int go = 1;

	while (go) {
		int sum;

		neighbours(t);
		any_source(t);
		MPI_Allreduce(&t->rank, &sum, 1, MPI_INT, MPI_SUM, t->own);
		must(sum == t->size * (t->size - 1) / 2, "allreduce in thread %d: %d", t->id, sum);
		go = time(NULL) < t->end;
		MPI_Bcast(&go, 1, MPI_INT, 0, t->own);
		t->rounds++;
	}
	pthread_barrier_wait(&all_run);
	MPI_Barrier(t->own);
	check_class(t->threads + 1, "one of many threads");
	pthread_barrier_wait(&all_run);
	return NULL;
}

static void *free_it(void *request)
{
	MPI_Request_free(request);
	return NULL;
}

/* Of a buffered send that another thread has freed nothing is left, also where the next request has its handle. */
static void freed_by_another(int rank, int size)
{
	enum { FREED = 901, END = 902, TIMES = 20 };
	static char room[TIMES * (MPI_BSEND_OVERHEAD + 64)];
	int some = 0, ok = 1, found, all = sizeof(room);
	void *back;
	if (rank == 0)
		MPI_Buffer_attach(room, sizeof(room));
	for (int i = 0; rank == 0 && i < TIMES; i++) {
		MPI_Request r, next;
		pthread_t other;
		MPI_Bsend_init(&some, 1, MPI_INT, size - 1, FREED, MPI_COMM_WORLD, &r);
		must(pthread_create(&other, NULL, free_it, &r) == 0, "cannot start a thread");
		pthread_join(other, NULL);
		MPI_Send_init(&ok, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &next);
		MPI_Start(&next);
		MPI_Wait(&next, MPI_STATUS_IGNORE);
		MPI_Request_free(&next);
	}
	if (rank == 0)
		MPI_Send(&ok, 1, MPI_INT, size - 1, END, MPI_COMM_WORLD);
	if (rank == size - 1) {
		MPI_Recv(&ok, 1, MPI_INT, 0, END, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Iprobe(0, FREED, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
		must(!found, "a message came that nobody has sent");
	}
	if (rank == 0)
		MPI_Buffer_detach(&back, &all);
}

int main(int argc, char **argv)
{
	struct thread t[MAX_THREADS] = {0};
	int threads = 4, provided, c, rounds = 0, size, rank;
	uint64_t seed = (uint64_t)time(NULL);
	time_t end = time(NULL) + 5;
	double mine[2] = {0}, sum[2];

	while ((c = getopt(argc, argv, "t:n:s:")) != -1) {
		if (c == 't')
			end = time(NULL) + atoi(optarg);
		else if (c == 'n')
			threads = atoi(optarg);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	st.doing = "threads";
	watch_start((unsigned)(end - time(NULL)) + 60);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	must(provided == MPI_THREAD_MULTIPLE, "this MPI offers thread level %d only", provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	must(size <= 64 && threads >= 1 && threads <= MAX_THREADS, "too many ranks or threads");
	MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	st = (struct state){.rank = rank, .size = size, .seed = seed, .doing = "threads"};
	if (rank == 0)
		printf("threads: %d ranks, %d threads each, seed %llu\n", size, threads,
		       (unsigned long long)seed);
	pthread_barrier_init(&all_run, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		t[i] = (struct thread){
			.id = i, .threads = threads, .rank = rank, .size = size, .seed = seed, .end = end};
		MPI_Comm_dup(MPI_COMM_WORLD, &t[i].own);
	}
	for (int i = 0; i < threads; i++)
		must(pthread_create(&t[i].handle, NULL, body, &t[i]) == 0, "cannot start thread %d", i);
	for (int i = 0; i < threads; i++) {
		pthread_join(t[i].handle, NULL);
		mine[0] += t[i].messages;
		mine[1] += t[i].bytes;
		rounds += t[i].rounds;
	}
	/* What a host takes from this machine may count as used: who keeps the core does so each time. */
	for (int i = 1; !wait_for_the_first(t, threads, i == TRIES); i++)
		;
	freed_by_another(rank, size);
	for (int i = 0; i < threads; i++)
		MPI_Comm_free(&t[i].own);
	check_class(1, "the last thread");
	MPI_Reduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("threads: %d rounds, %.0f messages, %.1f MiB, every byte right\n", rounds, sum[0],
		       sum[1] / (1 << 20));
	MPI_Finalize();
	return 0;
}
