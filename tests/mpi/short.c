/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives that are too short for their messages: the receiver is told, with the message's source and tag, nothing is
 * written outside its buffer, and nobody who sends waits for ever, also where he waits until he has been received
 * (MPI_Ssend). Windows of messages of up to 256 KiB, of which a part is synchronous, each received by its source or
 * by whoever sends.
 *
 *     short [-t seconds] [-s seed]
 */
#include "stress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST  48
#define BYTES ((size_t)256 << 10)
#define SLACK 64 /* behind each buffer */

struct message {
	int from, to, tag, error; /* error: what its receive ends with */
	size_t len, room;
	uint64_t key;
	bool any, sync;
};

struct window {
	int count, posted;
	struct message m[MOST];
	const struct message *of[MOST]; /* by request */
	MPI_Request request[MOST];
	MPI_Status status[MOST];
};

static char *buf[MOST];

static void plan(struct window *w, struct rng *r)
{
	w->count = 1 + (int)below(r, MOST);
	w->posted = 0;
	for (int i = 0; i < w->count; i++) {
		struct message *m = &w->m[i];
		*m = (struct message){
			.from = (int)below(r, (uint64_t)st.size), .len = rnd_len(r, BYTES), .key = rnd(r)};
		m->to = (m->from + 1 + (int)below(r, (uint64_t)st.size - 1)) % st.size;
		m->any = chance(r, 20);
		m->sync = chance(r, 20);
		/* of windows to come, 20 at most, none may be taken for it */
		m->tag = m->any ? 100 + (st.round % 40) * MOST + i : (int)below(r, 4);
		bool is_short = m->len && chance(r, 25);
		m->room = is_short ? below(r, m->len) : chance(r, 50) ? m->len : m->len + below(r, SLACK);
		m->error = is_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
	}
}

static void post(struct window *w, int i, bool receive)
{
	const struct message *m = &w->m[i];
	if ((receive ? m->to : m->from) != st.rank)
		return;
	MPI_Request *request = &w->request[w->posted];
	w->of[w->posted++] = m;
	if (receive) {
		memset(buf[i], GUARD, BYTES + 2 * SLACK);
		MPI_Irecv(buf[i], (int)m->room, MPI_BYTE, m->any ? MPI_ANY_SOURCE : m->from, m->tag,
			  MPI_COMM_WORLD, request);
		return;
	}
	pattern_fill(buf[i], m->key, 0, m->len);
	(m->sync ? MPI_Issend : MPI_Isend)(buf[i], (int)m->len, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD,
					   request);
}

static int class_of(int code)
{
	int class = code;
	if (code)
		MPI_Error_class(code, &class);
	return class;
}

/* Where one has failed, MPI_Waitall may return before the others have ended. */
static int wait_all(struct window *w)
{
	int failed = 0, left = w->posted;
	while (left) {
		MPI_Status now[MOST];
		for (int i = 0; i < MOST; i++)
			now[i].MPI_ERROR = MPI_SUCCESS;
		int rc = class_of(MPI_Waitall(w->posted, w->request, now));
		must(!rc || rc == MPI_ERR_IN_STATUS, "MPI_Waitall returned %d", rc);
		failed += rc != 0;
		for (int i = 0; i < w->posted; i++) {
			if (!w->of[i] || w->status[i].MPI_ERROR >= 0)
				continue;
			int error = rc ? class_of(now[i].MPI_ERROR) : MPI_SUCCESS;
			if (error == MPI_ERR_PENDING)
				continue;
			must(w->request[i] == MPI_REQUEST_NULL, "one that has ended is still there");
			w->status[i] = now[i];
			w->status[i].MPI_ERROR = error;
			left--;
		}
	}
	return failed;
}

static void check(const struct window *w)
{
	for (int k = 0; k < w->posted; k++) {
		const struct message *m = w->of[k];
		const MPI_Status *s = &w->status[k];
		bool receive = m->to == st.rank;
		int count = -1;
		must(s->MPI_ERROR == (receive ? m->error : MPI_SUCCESS),
		     "%s of %zu bytes, room for %zu: error %d", receive ? "a receive" : "a send", m->len,
		     m->room, s->MPI_ERROR);
		if (!receive)
			continue;
		const char *at = buf[m - w->m];
		must(s->MPI_SOURCE == m->from && s->MPI_TAG == m->tag,
		     "from %d with tag %d, and not %d with %d", s->MPI_SOURCE, s->MPI_TAG, m->from, m->tag);
		guard_check(at + m->room, SLACK, "behind a receive");
		if (m->error)
			continue;
		MPI_Get_count(s, MPI_BYTE, &count);
		must((size_t)count == m->len, "%d bytes of %zu", count, m->len);
		pattern_check(at, m->key, 0, m->len, "a message");
		st.messages++;
		st.bytes += (double)m->len;
	}
}

static void window(struct rng *r)
{
	static struct window w;
	int first = (int)below(r, 3); /* receives, sends, or as they come */
	bool fails = false;
	plan(&w, r);
	st.doing = "posting";
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < w.count; i++)
			for (int receive = 0; receive < 2; receive++)
				if (first == 2 ? turn == 0 : receive == (turn == first))
					post(&w, i, receive);
	for (int k = 0; k < w.posted; k++) {
		w.status[k].MPI_ERROR = -1;
		fails |= w.of[k]->to == st.rank && w.of[k]->error;
	}
	st.doing = "MPI_Waitall";
	must((wait_all(&w) > 0) == fails, "MPI_Waitall did not say that one has failed, or said it of none");
	check(&w);
}

/* By the calls that wait. The second says that the first has ended. */
static void one_by_one(void)
{
	MPI_Status s;
	int sizes[] = {1, 64, 5000, (int)BYTES};
	st.doing = "MPI_Ssend to a short MPI_Recv";
	for (int i = 0; i < 8 && st.rank < 2; i++) {
		int n = sizes[i % 4], there = !st.rank;
		if (i / 4 == st.rank) {
			must(!MPI_Ssend(buf[0], n, MPI_BYTE, there, 7, MPI_COMM_WORLD), "MPI_Ssend failed");
			MPI_Send(&i, 1, MPI_INT, there, 8, MPI_COMM_WORLD);
			continue;
		}
		int rc = MPI_Recv(buf[1], n - 1, MPI_BYTE, there, 7, MPI_COMM_WORLD, &s), got = -1;
		must(class_of(rc) == MPI_ERR_TRUNCATE, "MPI_Recv returned %d", rc);
		MPI_Recv(&got, 1, MPI_INT, there, 8, MPI_COMM_WORLD, &s);
		must(got == i, "the next message is another one");
	}
}

static bool go_on(time_t end)
{
	int yes = time(NULL) < end;
	MPI_Allreduce(MPI_IN_PLACE, &yes, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	return yes;
}

int main(int argc, char **argv)
{
	double sum[2], mine[2];
	time_t end = time(NULL) + 5;
	uint64_t seed = (uint64_t)time(NULL);
	time_and_seed(argc, argv, &end, &seed);
	st.doing = "MPI_Init";
	watch_start(40);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &st.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &st.size);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	st.seed = seed;
	if (st.rank == 0)
		printf("short: %d ranks, seed %llu\n", st.size, (unsigned long long)seed);
	for (int i = 0; i < MOST; i++)
		buf[i] = need(BYTES + 2 * SLACK);
	for (st.round = 0; st.round % 20 || go_on(end); st.round++) {
		struct rng r = {mix(seed, (uint64_t)st.round)};
		watch_feed();
		window(&r);
		if (st.round % 20 == 0)
			one_by_one();
	}
	mine[0] = st.messages;
	mine[1] = st.bytes;
	MPI_Reduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (st.rank == 0)
		printf("short: %d windows, %.0f messages that fit, %.1f MiB, every byte right\n", st.round,
		       sum[0], sum[1] / (1 << 20));
	MPI_Finalize();
	return 0;
}
