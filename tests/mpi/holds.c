/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of several threads goes the quick way (shim/holder.h): whoever is alone for a while, one after the other, and
 * beside threads whose calls began before. A thread goes it if receives of its own are libsennit-mpi.so's
 * (own_request.h). Every byte is checked.
 *
 *   holds        MPI_THREAD_MULTIPLE
 *   holds -o     MPI_THREAD_SERIALIZED: only what calls one thread after the other
 */
#include "own_request.h"
#include "stress.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM	16 /* ints */
#define WINDOW	24
#define THREADS 3
#define MOST	4000 /* windows in which one must go the quick way: a hundred times as many as it takes */

/* All that belongs to one conversation with the other rank's thread of the same number. */
struct talk {
	MPI_Comm comm;
	int rank, peer, round;
	int out[WINDOW][ROOM], in[WINDOW][ROOM];
	MPI_Request r[2 * WINDOW];
	bool own; /* a receive of the last windows was the library's */
};

static struct talk talks[THREADS];
static int rank;
static bool serial;

/* The beginning of that of shim/shim.h. */
struct sn_shim {
	uint32_t version;
	_Atomic uint32_t stays;
};

/* How many receives are the library's and pending. */
static uint32_t stays(void)
{
	struct sn_shim *(*find)(void);
	*(void **)&find = dlsym(RTLD_DEFAULT, "sennit_mpi_shim");
	return find ? find()->stays : 0;
}

static int word(int from, int round, int i, int k)
{
	return from * 77777 + round * 4096 + i * ROOM + k;
}

static double now(void)
{
	return MPI_Wtime();
}

/* Rank 0 decides when it is the last: *until, or as soon as both ranks' receives are the library's (until 0). */
static void windows(struct talk *t, double until)
{
	int both = 0;
	t->own = false;
	for (int n = 0, over = 0; !over; n++, t->round++) {
		for (int i = 0; i < WINDOW; i++) {
			memset(t->in[i], 0xff, sizeof(t->in[i]));
			MPI_Irecv(t->in[i], ROOM, MPI_INT, t->peer, 5, t->comm, &t->r[i]);
			t->own |= is_own(t->r[i]);
		}
		for (int i = 0; i < WINDOW; i++) {
			for (int k = 0; k < ROOM; k++)
				t->out[i][k] = word(t->rank, t->round, i, k);
			MPI_Isend(t->out[i], ROOM, MPI_INT, t->peer, 5, t->comm, &t->r[WINDOW + i]);
		}
		MPI_Waitall(2 * WINDOW, t->r, MPI_STATUSES_IGNORE);
		for (int i = 0; i < WINDOW; i++)
			for (int k = 0; k < ROOM; k++)
				must(t->in[i][k] == word(t->peer, t->round, i, k),
				     "round %d: word %d of message %d is %d", t->round, k, i, t->in[i][k]);
		if (t->rank) {
			both = t->own;
			MPI_Send(&both, 1, MPI_INT, 0, 6, t->comm);
			MPI_Recv(&over, 1, MPI_INT, 0, 7, t->comm, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(&both, 1, MPI_INT, 1, 6, t->comm, MPI_STATUS_IGNORE);
			must(until || n < MOST, "after %d windows nobody goes the quick way", n);
			over = until ? now() > until : both && t->own;
			MPI_Send(&over, 1, MPI_INT, 1, 7, t->comm);
		}
	}
	watch_feed();
}

/* ---- a thread that does one thing after the other ---- */

struct worker {
	pthread_t handle;
	void (*todo)(struct talk *t);
	struct talk *talk;
};

static void *run(void *arg)
{
	struct worker *w = arg;
	w->todo(w->talk);
	return NULL;
}

static void begin(struct worker *w, void (*todo)(struct talk *t), struct talk *talk)
{
	*w = (struct worker){.todo = todo, .talk = talk};
	must(!pthread_create(&w->handle, NULL, run, w), "no thread");
}

static void end(struct worker *w)
{
	pthread_join(w->handle, NULL);
}

static void by_another(void (*todo)(struct talk *t), struct talk *talk)
{
	struct worker w;
	begin(&w, todo, talk);
	end(&w);
}

static void until_own(struct talk *t)
{
	windows(t, 0);
}

static void for_long(struct talk *t)
{
	windows(t, now() + 0.05);
}

/* ---- one after the other ---- */

/* Threads that begin and end, and the first in between: each goes the quick way after a while. */
static void one_after_the_other(void)
{
	for (int i = 0; i < 12; i++) {
		st.round = i;
		if (i % 4 == 3)
			until_own(&talks[0]);
		else
			by_another(until_own, &talks[i % 4]);
		/* one that was worth it: else more and more calls are asked for */
		if (i % 4 == 2)
			by_another(for_long, &talks[2]);
	}
}

static pthread_barrier_t turn;

static void by_turns(struct talk *t)
{
	for (int i = 0; i < 4 * THREADS; i++) {
		if (&talks[i % THREADS] == t)
			windows(t, now() + 0.02);
		pthread_barrier_wait(&turn);
	}
}

static void turns(void)
{
	struct worker w[THREADS];
	pthread_barrier_init(&turn, NULL, THREADS);
	for (int i = 1; i < THREADS; i++)
		begin(&w[i], by_turns, &talks[i]);
	by_turns(&talks[0]);
	for (int i = 1; i < THREADS; i++)
		end(&w[i]);
	pthread_barrier_destroy(&turn);
}

/* ---- receives that another thread waits for ---- */

/* Until some of a window's are pending and the library's; the others are sent only when somebody asks. */
static void leave_pending(struct talk *t)
{
	windows(t, 0);
	for (int i = 0; i < WINDOW; i++) {
		memset(t->in[i], 0xff, sizeof(t->in[i]));
		MPI_Irecv(t->in[i], ROOM, MPI_INT, t->peer, 5, t->comm, &t->r[i]);
	}
}

static void wait_for_them(struct talk *t, bool each)
{
	MPI_Request r;
	int ask = 1;
	MPI_Irecv(&ask, 1, MPI_INT, t->peer, 8, t->comm, &r);
	MPI_Send(&ask, 1, MPI_INT, t->peer, 8, t->comm);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	must(serial || !stays(), "%u receives of a thread that goes the quick way no more are pending",
	     stays());
	for (int i = 0; i < WINDOW; i++) {
		for (int k = 0; k < ROOM; k++)
			t->out[i][k] = word(t->rank, t->round, i, k);
		MPI_Send(t->out[i], ROOM, MPI_INT, t->peer, 5, t->comm);
	}
	for (int i = 0; each && i < WINDOW; i++)
		MPI_Wait(&t->r[WINDOW - 1 - i], MPI_STATUS_IGNORE);
	if (!each)
		MPI_Waitall(WINDOW, t->r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < WINDOW; i++)
		for (int k = 0; k < ROOM; k++)
			must(t->in[i][k] == word(t->peer, t->round, i, k),
			     "left pending: word %d of message %d is %d", k, i, t->in[i][k]);
	t->round++;
}

static void wait_for_each(struct talk *t)
{
	wait_for_them(t, true);
}

/*
 * By a thread that has ended, and by one that waits for what the first has posted. More often than there are requests
 * for, if each were used once.
 */
static void waited_for_by_another(void)
{
	int more = 1;
	for (int i = 0; more; i++) {
		by_another(leave_pending, &talks[1]);
		wait_for_them(&talks[1], i % 2);
		leave_pending(&talks[0]);
		by_another(wait_for_each, &talks[0]);
		by_another(for_long, &talks[2]);
		more = i < 24;
	}
}

/* ---- beside calls that began before ---- */

static struct talk *beside;
static int kind; /* of wait */

/* Twice as long as it takes to be alone and to be asked to wake a sleeper; then the other rank's first thread is let go. */
static void then_let_go(struct talk *t)
{
	usleep(3000); /* it has begun to wait */
	windows(t, now() + 0.03);
	/* one that a matched probe receives does not end in Open MPI 4.1 (stress.h) */
	(kind == 2 ? MPI_Send : MPI_Ssend)(&t->round, 1, MPI_INT, t->peer, 9, beside->comm);
}

static void wait_in(void)
{
	int got = -1;
	MPI_Request r;
	MPI_Message m;
	switch (kind) {
	case 0: MPI_Recv(&got, 1, MPI_INT, !rank, 9, beside->comm, MPI_STATUS_IGNORE); break;
	case 1:
		MPI_Irecv(&got, 1, MPI_INT, !rank, 9, beside->comm, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		break;
	default:
		MPI_Mprobe(!rank, 9, beside->comm, &m, MPI_STATUS_IGNORE);
		MPI_Mrecv(&got, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
	}
	must(got >= 0, "nothing has come");
}

static void beside_one_that_waits(void)
{
	beside = &talks[0];
	for (int i = 0; i < 9; i++) {
		struct worker w;
		kind = i % 3;
		begin(&w, then_let_go, &talks[1]);
		wait_in();
		end(&w);
		watch_feed();
	}
}

/* Communicators that come and go, and what is remembered of them. */
static void beside_one_that_frees(void)
{
	struct worker w;
	for (int i = 0; i < 6; i++) {
		MPI_Comm other;
		begin(&w, for_long, &talks[1]);
		usleep(20000);
		MPI_Comm_dup(talks[0].comm, &other);
		for (int k = 0; k < 100; k++) {
			int out = k, in = -1;
			MPI_Sendrecv(&out, 1, MPI_INT, !rank, 3, &in, 1, MPI_INT, !rank, 3, other,
				     MPI_STATUS_IGNORE);
			must(in == k, "%d instead of %d", in, k);
		}
		MPI_Comm_free(&other);
		end(&w);
	}
}

/* While there is a window, too; and then, also the thread that has freed it, and though that was not the first. */
static void make_and_free(struct talk *t)
{
	MPI_Win window;
	MPI_Win_create(t->out, sizeof(t->out), 1, MPI_INFO_NULL, t->comm, &window);
	until_own(t);
	MPI_Win_free(&window);
	until_own(t);
}

static void windows_of_memory(void)
{
	by_another(make_and_free, &talks[1]);
	until_own(&talks[0]);
	make_and_free(&talks[0]);
	by_another(until_own, &talks[2]);
}

/* Each for a while, then away for a while, whatever the others do. */
static void now_and_then(struct talk *t)
{
	for (int i = 0; i < 12; i++) {
		windows(t, now() + 0.001 * (3 + (i * 7 + t->round) % 20));
		usleep(1000 * (unsigned)((i * 5 + (int)(t - talks) * 7) % 30));
	}
}

static void all_at_once(void)
{
	struct worker w[THREADS];
	for (int i = 1; i < THREADS; i++)
		begin(&w[i], now_and_then, &talks[i]);
	now_and_then(&talks[0]);
	for (int i = 1; i < THREADS; i++)
		end(&w[i]);
}

static const struct {
	const char *name;
	void (*run)(void);
	bool serial; /* one thread at a time calls */
} parts[] = {{"one after the other", one_after_the_other, true},
	     {"turns", turns, true},
	     {"waited for by another", waited_for_by_another, true},
	     {"beside one that waits", beside_one_that_waits, false},
	     {"beside one that frees", beside_one_that_frees, false},
	     {"windows of memory", windows_of_memory, true},
	     {"all at once", all_at_once, false},
	     {"one after the other, again", one_after_the_other, false}};

int main(int argc, char **argv)
{
	serial = argc > 1 && !strcmp(argv[1], "-o");
	int want, got, size;
	want = serial ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
	MPI_Init_thread(&argc, &argv, want, &got);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	st.rank = rank;
	st.size = size;
	must(size == 2 && got >= want, "holds: two ranks, and threads as asked for");
	watch_start(60);
	for (int i = 0; i < THREADS; i++) {
		talks[i].rank = rank;
		talks[i].peer = !rank;
		MPI_Comm_dup(MPI_COMM_WORLD, &talks[i].comm);
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && (!serial || parts[i].serial); i++) {
		st.doing = parts[i].name;
		parts[i].run();
	}
	for (int i = 0; i < THREADS; i++)
		MPI_Comm_free(&talks[i].comm);
	MPI_Finalize();
	if (!rank)
		printf("holds: every byte right\n");
	return 0;
}
