/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many kinds of MPI calls from several threads at once, every byte checked: for the thread sanitizer, which wants
 * each pair of calls to meet once, not often (threads.c is for that).
 *
 *   many [-t TENTHS] [-n THREADS] [-o] [-w]
 *
 * In the first round the threads begin each kind together, so that they look for each function at once; afterwards
 * each goes its own way. Each has a communicator of its own, and what may come from any rank goes by tag in the
 * shared one. -o: one thread at a time calls, as MPI_THREAD_SERIALIZED has it, and before the others exist the
 * program's first does: what the library remembers by then is handed on. -w: windows, too. No files: the C library
 * reads and writes them in threads of its own, of which the sanitizer does not know.
 */
#include "stress.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 16
#define WINDOW	    6
#define LONGEST	    (192u << 10)

struct thread {
	int id, rank, size, next, prev;
	unsigned round;
	MPI_Comm own;
	pthread_t handle;
	char *out, *in; /* WINDOW of LONGEST each */
};

static pthread_barrier_t together;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static bool in_turn, windows;
static int64_t end; /* of CLOCK_MONOTONIC, in ms */
static const size_t lens[] = {0, 8, 600, 5000, 40000, LONGEST};
#define LENS (sizeof(lens) / sizeof(lens[0]))

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static char mark(const struct thread *t, int from, int i)
{
	return (char)(t->id * 31 + from * 7 + i + (int)t->round);
}

static size_t len_of(const struct thread *t, int i)
{
	return lens[((unsigned)i + t->round) % LENS];
}

static char *out(const struct thread *t, int i)
{
	char *buf = t->out + (size_t)i * LONGEST;
	memset(buf, mark(t, t->rank, i), len_of(t, i));
	return buf;
}

static char *in(const struct thread *t, int i)
{
	return t->in + (size_t)i * LONGEST;
}

static void check(const struct thread *t, int from, int i, const char *what)
{
	const char *buf = in(t, i);
	for (size_t k = 0; k < len_of(t, i); k++)
		must(buf[k] == mark(t, from, i), "%s: byte %zu of message %d to thread %d is wrong", what, k,
		     i, t->id);
}

/* ---- one message at a time ---- */

static void plain(struct thread *t)
{
	for (int way = 0; way < 2; way++) {
		if (t->rank != way % t->size)
			MPI_Recv(in(t, 0), LONGEST, MPI_BYTE, t->prev, way, t->own, MPI_STATUS_IGNORE);
		(way ? MPI_Ssend : MPI_Send)(out(t, 0), (int)len_of(t, 0), MPI_BYTE, t->next, way, t->own);
		if (t->rank == way % t->size)
			MPI_Recv(in(t, 0), LONGEST, MPI_BYTE, t->prev, way, t->own, MPI_STATUS_IGNORE);
		check(t, t->prev, 0, "plain");
	}
}

static void exchange(struct thread *t)
{
	MPI_Sendrecv(out(t, 1), (int)len_of(t, 1), MPI_BYTE, t->next, 2, in(t, 1), LONGEST, MPI_BYTE, t->prev,
		     2, t->own, MPI_STATUS_IGNORE);
	check(t, t->prev, 1, "exchange");
}

/* ---- windows of them, and each way to end one ---- */

static void wait_all(int n, MPI_Request *r)
{
	MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
}

static void wait_each(int n, MPI_Request *r)
{
	for (int i = 0; i < n; i++)
		MPI_Wait(&r[i], MPI_STATUS_IGNORE);
}

static void test_each(int n, MPI_Request *r)
{
	for (int i = 0; i < n; i++)
		for (int flag = 0; !flag;)
			MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
}

static void test_all(int n, MPI_Request *r)
{
	for (int flag = 0; !flag;)
		MPI_Testall(n, r, &flag, MPI_STATUSES_IGNORE);
}

static void wait_any(int n, MPI_Request *r)
{
	for (int i = 0, index; i < n; i++)
		MPI_Waitany(n, r, &index, MPI_STATUS_IGNORE);
}

static void test_any(int n, MPI_Request *r)
{
	for (int left = n, index, flag; left; left -= flag && index != MPI_UNDEFINED)
		MPI_Testany(n, r, &index, &flag, MPI_STATUS_IGNORE);
}

static void wait_some(int n, MPI_Request *r)
{
	int indices[2 * WINDOW];
	for (int left = n, got; left; left -= got)
		MPI_Waitsome(n, r, &got, indices, MPI_STATUSES_IGNORE);
}

static void test_some(int n, MPI_Request *r)
{
	int indices[2 * WINDOW];
	for (int left = n, got; left; left -= got)
		MPI_Testsome(n, r, &got, indices, MPI_STATUSES_IGNORE);
}

static void window(struct thread *t)
{
	static void (*const ends[])(int, MPI_Request *) = {wait_all, wait_each, test_each, test_all,
							   wait_any, test_any,	wait_some, test_some};
	unsigned ways = sizeof(ends) / sizeof(ends[0]);
	MPI_Request r[2 * WINDOW];

	for (unsigned k = 0; k < (t->round ? 1 : ways); k++) {
		for (int i = 0; i < WINDOW; i++)
			MPI_Irecv(in(t, i), LONGEST, MPI_BYTE, i % 2 ? t->prev : MPI_ANY_SOURCE, 3, t->own,
				  &r[i]);
		for (int i = 0; i < WINDOW; i++)
			(i == 3 ? MPI_Issend : MPI_Isend)(out(t, i), (int)len_of(t, i), MPI_BYTE, t->next, 3,
							  t->own, &r[WINDOW + i]);
		if (t->round % 8 == 7)
			usleep(4000); /* for the progress thread */
		ends[(t->round + k) % (in_turn ? 1 : ways)](2 * WINDOW, r);
		for (int i = 0; i < WINDOW; i++)
			check(t, t->prev, i, "window");
		MPI_Barrier(t->own);
	}
}

static void persistent(struct thread *t)
{
	MPI_Request r[2];
	MPI_Recv_init(in(t, 2), LONGEST, MPI_BYTE, t->prev, 4, t->own, &r[0]);
	MPI_Send_init(out(t, 2), (int)len_of(t, 2), MPI_BYTE, t->next, 4, t->own, &r[1]);
	MPI_Startall(2, r);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	check(t, t->prev, 2, "persistent");
	MPI_Request_free(&r[0]);
	MPI_Request_free(&r[1]);
}

/* ---- probes, and any source, in the communicator of all ---- */

static void probes(struct thread *t)
{
	int tag = 100 + t->id, n, flag = 0;
	MPI_Request r[3];
	MPI_Message message;
	MPI_Status status;

	for (int i = 0; i < 3; i++)
		MPI_Isend(out(t, i), (int)len_of(t, i), MPI_BYTE, t->next, tag, MPI_COMM_WORLD, &r[i]);
	MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
	MPI_Get_count(&status, MPI_BYTE, &n);
	must((size_t)n == len_of(t, 0), "probe: %d bytes", n);
	MPI_Recv(in(t, 0), LONGEST, MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD, &status);
	MPI_Mprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &message, &status);
	MPI_Mrecv(in(t, 1), LONGEST, MPI_BYTE, &message, &status);
	while (!flag)
		MPI_Iprobe(t->prev, tag, MPI_COMM_WORLD, &flag, &status);
	for (flag = 0; !flag;)
		MPI_Improbe(t->prev, tag, MPI_COMM_WORLD, &flag, &message, &status);
	MPI_Mrecv(in(t, 2), LONGEST, MPI_BYTE, &message, &status);
	MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 3; i++)
		check(t, t->prev, i, "probes");
}

/* A receive for which nothing comes. */
static void cancels(struct thread *t)
{
	MPI_Request r;
	MPI_Status status;
	int cancelled;
	MPI_Irecv(in(t, 0), LONGEST, MPI_BYTE, t->prev, 5, t->own, &r);
	MPI_Cancel(&r);
	MPI_Wait(&r, &status);
	MPI_Test_cancelled(&status, &cancelled);
	must(cancelled, "a receive is not cancelled");
}

/* ---- collectives, and what makes and ends communicators and types ---- */

static void collectives(struct thread *t)
{
	int all[64] = {0}, each[64], sum = 0, root = t->rank ? -1 : t->id;
	MPI_Request r;
	for (int i = 0; i < t->size; i++)
		each[i] = t->rank * 100 + i;
	MPI_Barrier(t->own);
	MPI_Bcast(&root, 1, MPI_INT, 0, t->own);
	MPI_Allreduce(&t->rank, &sum, 1, MPI_INT, MPI_SUM, t->own);
	must(root == t->id && sum == t->size * (t->size - 1) / 2, "broadcast %d, sum %d", root, sum);
	MPI_Alltoall(each, 1, MPI_INT, all, 1, MPI_INT, t->own);
	for (int i = 0; i < t->size; i++)
		must(all[i] == i * 100 + t->rank, "alltoall: %d from %d", all[i], i);
	MPI_Allgather(&t->rank, 1, MPI_INT, all, 1, MPI_INT, t->own);
	for (int i = 0; i < t->size; i++)
		must(all[i] == i, "allgather: %d from %d", all[i], i);
	MPI_Ibarrier(t->own, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void makes(struct thread *t)
{
	MPI_Comm comm;
	MPI_Datatype type;
	MPI_Type_vector(8, 1, 2, MPI_INT, &type);
	MPI_Type_commit(&type);
	MPI_Comm_dup(t->own, &comm);
	MPI_Sendrecv(out(t, 5), 1, type, t->next, 6, in(t, 5), 1, type, t->prev, 6, comm, MPI_STATUS_IGNORE);
	MPI_Barrier(comm);
	MPI_Type_free(&type);
	(t->round % 2 ? MPI_Comm_free : MPI_Comm_disconnect)(&comm);
}

/* ---- what goes on by steps, and one-sided ---- */

static int query(void *state, MPI_Status *status)
{
	(void)state;
	MPI_Status_set_elements(status, MPI_BYTE, 0);
	MPI_Status_set_cancelled(status, 0);
	return 0;
}

static int freed(void *state)
{
	(void)state;
	return 0;
}

static int cancel(void *state, int complete)
{
	(void)state;
	(void)complete;
	return 0;
}

static void own_kind(struct thread *t)
{
	MPI_Request r;
	(void)t;
	MPI_Grequest_start(query, freed, cancel, NULL, &r);
	MPI_Grequest_complete(r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void one_sided(struct thread *t)
{
	MPI_Win win;
	int *mine, value = t->rank;
	if (!windows)
		return;
	MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, t->own, &mine, &win);
	MPI_Win_fence(0, win);
	MPI_Put(&value, 1, MPI_INT, t->next, 0, 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	must(*mine == t->prev, "put: %d", *mine);
	MPI_Win_free(&win);
}

/* ---- rounds ---- */

static void (*const kinds[])(struct thread *) = {plain,	  exchange,    window, persistent, probes,
						 cancels, collectives, makes,  own_kind,   one_sided};

/* Is it time for all ranks? */
static bool is_over(struct thread *t)
{
	int over = now() > end;
	MPI_Bcast(&over, 1, MPI_INT, 0, t->own);
	return over;
}

static void one_round(struct thread *t, bool at_once)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (at_once)
			pthread_barrier_wait(&together);
		kinds[i](t);
	}
	t->round++;
}

static void *body(void *arg)
{
	struct thread *t = arg;
	for (bool over = false; !over;) {
		if (in_turn)
			pthread_mutex_lock(&turn);
		one_round(t, !t->round && !in_turn);
		over = is_over(t);
		if (in_turn)
			pthread_mutex_unlock(&turn);
	}
	return NULL;
}

/* Each in its turn, so that the same thread of each rank is at it. */
static void in_their_order(struct thread *t, int threads)
{
	for (unsigned i = 0; i < 300; i++)
		exchange(&t[0]);
	for (int i = 0; i < threads; i++) {
		must(pthread_create(&t[i].handle, NULL, body, &t[i]) == 0, "cannot start thread %d", i);
		pthread_join(t[i].handle, NULL);
		one_round(&t[i], false);
	}
}

static void at_once(struct thread *t, int threads)
{
	for (int i = 0; i < threads; i++)
		must(pthread_create(&t[i].handle, NULL, body, &t[i]) == 0, "cannot start thread %d", i);
	for (int i = 0; i < threads; i++)
		pthread_join(t[i].handle, NULL);
}

int main(int argc, char **argv)
{
	struct thread t[MAX_THREADS] = {0};
	int threads = 4, provided, c, size, rank;
	int64_t tenths = 10;

	while ((c = getopt(argc, argv, "t:n:ow")) != -1) {
		if (c == 't')
			tenths = atoi(optarg);
		else if (c == 'n')
			threads = atoi(optarg);
		else if (c == 'o')
			in_turn = true;
		else if (c == 'w')
			windows = true;
		else
			return 2;
	}
	st.doing = "many";
	watch_start(60);
	MPI_Init_thread(&argc, &argv, in_turn ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE, &provided);
	must(provided >= (in_turn ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE),
	     "this MPI offers thread level %d only", provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	must(size > 1 && size <= 64 && threads >= 1 && threads <= MAX_THREADS, "too many ranks or threads");
	st = (struct state){.rank = rank, .size = size, .doing = "many"};
	end = now() + 100 * tenths;
	pthread_barrier_init(&together, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		t[i] = (struct thread){.id = i,
				       .rank = rank,
				       .size = size,
				       .next = (rank + 1) % size,
				       .prev = (rank + size - 1) % size};
		t[i].out = need(WINDOW * LONGEST);
		t[i].in = need(WINDOW * LONGEST);
		MPI_Comm_dup(MPI_COMM_WORLD, &t[i].own);
	}
	(in_turn ? in_their_order : at_once)(t, threads);
	unsigned rounds = 0;
	for (int i = 0; i < threads; i++)
		rounds += t[i].round;
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("many: %u rounds of %d threads, every byte right\n", rounds, threads);
	MPI_Finalize();
	return 0;
}
