/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE, and the first thread has receives pending that libsennit-mpi.so has answered with requests of its own
 * (shim/requests.h), when a second thread makes its first call. That happens once in a process, so this is run many times.
 *
 *   arrives CALL PLACE [SEED]
 *
 * CALL: what the second thread calls first; PLACE: where the first one is then. Receives are pending whose message
 * has come, has not, is late, or has a sender who waits until it is received. Ranks are in pairs. Every byte is
 * checked, and the order; and how many of the requests were the library's own is told.
 */
#include "own_request.h"
#include "stress.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LESSONS 150
#define ROOM	4	/* ints */
#define MORE	60	/* receives that are posted meanwhile */
#define ROUNDS	40	/* with both threads */
#define MOST_NS 400000u /* from the start of one to the other's */

enum { SENDS, RECEIVES, WAITS, TESTS, WAITS_ALL, WAITS_ANY, ASKS, CANCELS, FREES, FREES_COMM, MEETS, CALLS };
enum { COMPUTES, IN_WAIT, IN_WAITALL, IN_RECV, POSTS, IN_BARRIER, PLACES };
/* Receives, and their tags. */
enum { COME, COME_TOO, FIRST, SECOND, SYNC, LATE, NEVER, HAS };
static const int tags[HAS] = {5, 5, 6, 6, 7, 8, 9};
#define AWAITED 11
#define POSTED	12

static int rank, peer, call, place;
static struct rng rng;
static MPI_Comm aside, own, copy;
static MPI_Request r[HAS];
static int in[HAS][ROOM], of_window[2][MORE][ROOM],
	awaited[ROOM]; /* side by side: elsewhere in memory it is another call */
static volatile int freed[ROOM];

/*
 * 1: the second thread calls; 2: it has; 3: both go on. By a lock, of which a sanitizer knows that does not know this
 * program.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int gone;

static void go(int to)
{
	pthread_mutex_lock(&lock);
	gone = to;
	pthread_mutex_unlock(&lock);
}

static bool has_gone(int to)
{
	pthread_mutex_lock(&lock);
	bool has = gone >= to;
	pthread_mutex_unlock(&lock);
	return has;
}

static void fill(int *v, int i)
{
	for (int k = 0; k < ROOM; k++)
		v[k] = i * 10 + k;
}

static void check(const int *v, int i, const char *what)
{
	for (int k = 0; k < ROOM; k++)
		must(v[k] == i * 10 + k, "call %d, place %d: %s: element %d is %d, not %d", call, place, what,
		     k, v[k], i * 10 + k);
}

static void spin(uint64_t ns)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	uint64_t end = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + ns;
	do
		clock_gettime(CLOCK_MONOTONIC, &t);
	while ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec < end);
}

static void send(int tag, int i)
{
	int v[ROOM];
	fill(v, i);
	MPI_Send(v, ROOM, MPI_INT, peer, tag, MPI_COMM_WORLD);
}

static void together(void)
{
	MPI_Sendrecv(NULL, 0, MPI_INT, peer, 99, NULL, 0, MPI_INT, peer, 99, aside, MPI_STATUS_IGNORE);
}

static void window(MPI_Comm comm, int tag, int n, int i)
{
	int(*v)[ROOM] = of_window[comm == own], w[MORE][ROOM];
	MPI_Request q[2 * MORE];
	for (int k = 0; k < n; k++)
		MPI_Irecv(v[k], ROOM, MPI_INT, peer, tag, comm, &q[k]);
	for (int k = 0; k < n; k++) {
		fill(w[k], i + k);
		MPI_Isend(w[k], ROOM, MPI_INT, peer, tag, comm, &q[n + k]);
	}
	if (i % 3)
		MPI_Waitall(2 * n, q, MPI_STATUSES_IGNORE);
	for (int k = 0; i % 3 == 0 && k < 2 * n; k++)
		MPI_Wait(&q[k], MPI_STATUS_IGNORE);
	for (int k = 0; k < n; k++)
		check(v[k], i + k, "a message of a window");
}

static void lessons(void)
{
	for (int i = 0; i < LESSONS; i++) {
		for (int tag = 5; tag <= POSTED; tag++)
			if (tag != AWAITED)
				window(MPI_COMM_WORLD, tag, 1 + i % 4, i);
		together();
	}
}

/* ---- the second thread ---- */

static void cancel(void)
{
	MPI_Status s;
	int flag = 0;
	MPI_Cancel(&r[NEVER]);
	MPI_Wait(&r[NEVER], &s);
	MPI_Test_cancelled(&s, &flag);
	must(flag, "a receive for which nothing comes is not cancelled");
}

static void receive(void)
{
	int v[ROOM];
	MPI_Request q;
	MPI_Irecv(v, ROOM, MPI_INT, peer, tags[FIRST], MPI_COMM_WORLD, &q);
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	check(v, 62, "the third message, of three receives of two threads");
}

static void wait_any(void)
{
	int index;
	MPI_Status s;
	MPI_Waitany(2, &r[FIRST], &index, &s);
	must(index == 0 || index == 1, "MPI_Waitany of %d", index);
	must(s.MPI_SOURCE == peer && s.MPI_TAG == tags[FIRST], "MPI_Waitany: a status of %d, %d",
	     s.MPI_SOURCE, s.MPI_TAG);
	MPI_Wait(&r[FIRST + !index], MPI_STATUS_IGNORE);
}

static void first_call(void)
{
	int flag = 0;
	switch (call) {
	case SENDS:
		send(tags[FIRST], 60);
		send(tags[FIRST], 61);
		break;
	case RECEIVES: receive(); break;
	case WAITS: MPI_Wait(&r[FIRST], MPI_STATUS_IGNORE); break;
	case TESTS:
		while (!flag)
			MPI_Test(&r[FIRST], &flag, MPI_STATUS_IGNORE);
		break;
	case WAITS_ALL: MPI_Waitall(2, &r[FIRST], MPI_STATUSES_IGNORE); break;
	case WAITS_ANY: wait_any(); break;
	case ASKS:
		while (!flag)
			MPI_Request_get_status(r[FIRST], &flag, MPI_STATUS_IGNORE);
		break;
	case CANCELS: cancel(); break;
	case FREES: MPI_Request_free(&r[LATE]); break;
	case FREES_COMM: MPI_Comm_free(&copy); break;
	default: MPI_Barrier(own);
	}
}

static void *second(void *delay)
{
	while (!has_gone(1))
		;
	spin(*(uint64_t *)delay);
	first_call();
	go(2);
	while (!has_gone(3))
		usleep(50);
	for (int i = 0; i < ROUNDS; i++)
		window(own, 1, 1 + i % 20, i);
	if (call == FREES_COMM)
		return NULL;
	MPI_Comm_free(&copy);
	return NULL;
}

/* ---- the first one ---- */

static int post_all(void)
{
	int n = 0;
	send(tags[COME], 50);
	send(tags[COME], 51);
	together();
	for (int k = 0; k < HAS; k++) {
		bool frees = call == FREES && k == LATE;
		MPI_Irecv(frees ? (int *)(uintptr_t)freed : in[k], ROOM, MPI_INT, peer, tags[k],
			  MPI_COMM_WORLD, &r[k]);
		n += is_own(r[k]);
	}
	return n;
}

static void send_all(MPI_Request *q, int (*out)[ROOM])
{
	fill(out[0], 70);
	fill(out[1], 110);
	MPI_Issend(out[0], ROOM, MPI_INT, peer, tags[SYNC], MPI_COMM_WORLD, &q[0]);
	MPI_Isend(out[1], ROOM, MPI_INT, peer, AWAITED, MPI_COMM_WORLD, &q[1]);
	for (int i = 0; call != SENDS && i < 2 + (call == RECEIVES); i++)
		send(tags[FIRST], 60 + i);
}

static void be_there(void)
{
	bool mine = call < WAITS || call > ASKS; /* else the other waits for these */
	switch (place) {
	case COMPUTES: spin(below(&rng, MOST_NS)); break;
	case IN_WAIT:
		if (mine)
			MPI_Wait(&r[FIRST], MPI_STATUS_IGNORE);
		MPI_Wait(&r[SYNC], MPI_STATUS_IGNORE);
		break;
	case IN_WAITALL: MPI_Waitall(mine ? 4 : 2, &r[COME], MPI_STATUSES_IGNORE); break;
	case POSTS:
		for (int i = 0; i < 8; i++)
			window(MPI_COMM_WORLD, POSTED, MORE, i);
		break;
	case IN_BARRIER: MPI_Barrier(aside); break;
	default: break;
	}
	MPI_Recv(awaited, ROOM, MPI_INT, peer, AWAITED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	check(awaited, 110, "the message that is waited for");
}

static void see_freed(void)
{
	int flag;
	while (freed[ROOM - 1] != 80 * 10 + ROOM - 1)
		MPI_Iprobe(peer, 97, aside, &flag, MPI_STATUS_IGNORE);
	for (int k = 0; k < ROOM; k++)
		must(freed[k] == 80 * 10 + k, "element %d of a receive that was freed is %d", k, freed[k]);
}

static void end_all(void)
{
	static const int carried[HAS] = {50, 51, 60, 61, 70, 80, 90};
	while (!has_gone(2))
		usleep(10);
	send(tags[LATE], 80);
	if (call != CANCELS)
		send(tags[NEVER], 90);
	for (int k = HAS - 1; k >= 0; k--)
		MPI_Wait(&r[k], MPI_STATUS_IGNORE); /* those that have ended are null */
	for (int k = 0; k < HAS; k++) {
		if (call == FREES && k == LATE)
			see_freed();
		else if (call != CANCELS || k != NEVER)
			check(in[k], carried[k], "what was pending");
	}
}

int main(int argc, char **argv)
{
	int provided, out[2][ROOM], n, all;
	MPI_Request q[2];
	pthread_t thread;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	peer = rank ^ 1;
	st = (struct state){.rank = rank, .doing = "arrives"};
	watch_start(30);
	must(provided == MPI_THREAD_MULTIPLE, "this MPI offers thread level %d only", provided);
	call = argc > 1 ? atoi(argv[1]) % CALLS : 0;
	place = argc > 2 ? atoi(argv[2]) % PLACES : 0;
	rng.s = mix(argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)time(NULL),
		    (uint64_t)(rank + 16 * call + 256 * place));
	MPI_Comm_dup(MPI_COMM_WORLD, &aside);
	MPI_Comm_dup(MPI_COMM_WORLD, &own);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	lessons();
	uint64_t delay = below(&rng, MOST_NS), delay_sends = below(&rng, MOST_NS);
	must(!pthread_create(&thread, NULL, second, &delay), "cannot start a thread");
	n = post_all();
	go(1);
	spin(delay_sends);
	send_all(q, out);
	be_there();
	end_all();
	MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
	go(3);
	for (int i = 0; i < ROUNDS; i++)
		window(MPI_COMM_WORLD, POSTED, 1 + i % 20, i);
	pthread_join(thread, NULL);
	MPI_Reduce(&n, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("arrives: call %d of %d, place %d of %d: %d requests of the library's own, every byte "
		       "right\n",
		       call, CALLS, place, PLACES, all);
	MPI_Finalize();
	return 0;
}
