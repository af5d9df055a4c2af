/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided MPI, every result checked: put, get, accumulate, get_accumulate, fetch_and_op and compare_and_swap under
 * fence, post/start/complete/wait, lock and lock_all epochs, on windows that MPI allocates and on memory of the program.
 *
 *   rma [-t SECONDS] [-s SEED]
 */
#include "stress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART (256u << 10) /* bytes of a window that one origin may write */

struct win {
	MPI_Win win;
	unsigned char *mem; /* size parts of PART bytes, one for each origin, then the counters */
	int64_t *counter;   /* 8 of them */
	int rank, size;
};

static size_t win_bytes(int size)
{
	return (size_t)size * PART + 64;
}

static void win_open(struct win *w, bool allocate)
{
	MPI_Aint bytes;

	MPI_Comm_rank(MPI_COMM_WORLD, &w->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &w->size);
	bytes = (MPI_Aint)win_bytes(w->size);
	if (allocate) {
		MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->mem, &w->win);
	} else {
		w->mem = need((size_t)bytes);
		MPI_Win_create(w->mem, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->win);
	}
	memset(w->mem, 0, (size_t)bytes);
	w->counter = (int64_t *)(w->mem + (size_t)w->size * PART);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void win_close(struct win *w, bool allocate)
{
	MPI_Win_free(&w->win);
	if (!allocate)
		free(w->mem);
}

/* What origin o writes to target t in round r: where and how much; all ranks know. */
static size_t planned(uint64_t seed, int o, int t, size_t *at)
{
	struct rng r = {mix(seed, (uint64_t)(o * 64 + t))};
	size_t len = rnd_len(&r, PART);

	*at = (size_t)o * PART + below(&r, PART - len + 1);
	return len;
}

static uint64_t key_of(uint64_t seed, int o, int t)
{
	return mix(seed + 1, (uint64_t)(o * 64 + t));
}

static void check_written(struct win *w, uint64_t seed, const char *what)
{
	for (int o = 0; o < w->size; o++) {
		size_t at, len = planned(seed, o, w->rank, &at);

		pattern_check(w->mem + at, key_of(seed, o, w->rank), 0, len, what);
		st.bytes += (double)len;
		st.messages++;
	}
}

static char *source(uint64_t seed, int o, int t, size_t *at, size_t *len)
{
	char *buf;

	*len = planned(seed, o, t, at);
	buf = need(*len);
	pattern_fill(buf, key_of(seed, o, t), 0, *len);
	return buf;
}

/* Everybody puts into everybody between two fences, then reads back from everybody. */
static void fence(struct win *w, uint64_t seed)
{
	char *buf[64], *back[64];
	size_t at, len;

	st.doing = "put and get with fences";
	MPI_Win_fence(0, w->win);
	for (int t = 0; t < w->size; t++) {
		buf[t] = source(seed, w->rank, t, &at, &len);
		MPI_Put(buf[t], (int)len, MPI_BYTE, t, (MPI_Aint)at, (int)len, MPI_BYTE, w->win);
	}
	MPI_Win_fence(0, w->win);
	check_written(w, seed, "put");
	MPI_Win_fence(0, w->win);
	for (int t = 0; t < w->size; t++) {
		len = planned(seed, w->rank, t, &at);
		back[t] = need(len);
		memset(back[t], 0, len);
		MPI_Get(back[t], (int)len, MPI_BYTE, t, (MPI_Aint)at, (int)len, MPI_BYTE, w->win);
	}
	MPI_Win_fence(0, w->win);
	for (int t = 0; t < w->size; t++) {
		len = planned(seed, w->rank, t, &at);
		pattern_check(back[t], key_of(seed, w->rank, t), 0, len, "get");
		free(buf[t]);
		free(back[t]);
	}
}

/* The next rank posts, this one starts. */
static void pscw(struct win *w, uint64_t seed)
{
	int next = (w->rank + 1) % w->size, prev = (w->rank + w->size - 1) % w->size;
	MPI_Group world, to, from;
	size_t at, len;
	char *buf = source(seed, w->rank, next, &at, &len);

	st.doing = "put with post and start";
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &next, &to);
	MPI_Group_incl(world, 1, &prev, &from);
	MPI_Win_post(from, 0, w->win);
	MPI_Win_start(to, 0, w->win);
	MPI_Put(buf, (int)len, MPI_BYTE, next, (MPI_Aint)at, (int)len, MPI_BYTE, w->win);
	MPI_Win_complete(w->win);
	MPI_Win_wait(w->win);
	len = planned(seed, prev, w->rank, &at);
	pattern_check(w->mem + at, key_of(seed, prev, w->rank), 0, len, "put with post and start");
	MPI_Group_free(&world);
	MPI_Group_free(&to);
	MPI_Group_free(&from);
	MPI_Barrier(MPI_COMM_WORLD);
	free(buf);
}

/* Passive target: the targets wait in a barrier; requests and flushes. */
static void locks(struct win *w, uint64_t seed)
{
	struct rng r = {mix(seed, (uint64_t)w->rank)};
	bool all = (seed & 1) != 0;

	st.doing = "put with locks";
	if (all)
		MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < w->size; i++) {
		int t = (w->rank + i) % w->size;
		size_t at, len;
		char *buf = source(seed, w->rank, t, &at, &len), *back = need(len);
		MPI_Request req;

		if (!all)
			MPI_Win_lock(chance(&r, 50) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, t, 0, w->win);
		if (chance(&r, 50)) {
			MPI_Rput(buf, (int)len, MPI_BYTE, t, (MPI_Aint)at, (int)len, MPI_BYTE, w->win, &req);
			MPI_Wait(&req, MPI_STATUS_IGNORE);
		} else {
			MPI_Put(buf, (int)len, MPI_BYTE, t, (MPI_Aint)at, (int)len, MPI_BYTE, w->win);
		}
		MPI_Win_flush(t, w->win);
		MPI_Rget(back, (int)len, MPI_BYTE, t, (MPI_Aint)at, (int)len, MPI_BYTE, w->win, &req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		pattern_check(back, key_of(seed, w->rank, t), 0, len, "rget");
		if (!all)
			MPI_Win_unlock(t, w->win);
		free(buf);
		free(back);
	}
	if (all)
		MPI_Win_unlock_all(w->win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win); /* so that our own memory shows it */
	MPI_Win_unlock(w->rank, w->win);
	check_written(w, seed, "put with locks");
}

static MPI_Aint counter_at(struct win *w, int i)
{
	return (MPI_Aint)((size_t)w->size * PART + (size_t)i * 8);
}

static void reset_counters(struct win *w)
{
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win);
	memset(w->counter, 0, 64);
	MPI_Win_unlock(w->rank, w->win);
	MPI_Barrier(MPI_COMM_WORLD);
}

static int64_t read_counter(struct win *w, int target, int i)
{
	int64_t v = -1, zero = 0;

	MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win);
	MPI_Fetch_and_op(&zero, &v, MPI_INT64_T, target, counter_at(w, i), MPI_NO_OP, w->win);
	MPI_Win_unlock(target, w->win);
	return v;
}

/* Each rank adds to every rank's counters, in every way; the sums and the tickets drawn must come out. */
static void atomics(struct win *w)
{
	int times = 50, n = w->size;
	int64_t one = 1, pair[2] = {3, 5}, old[2], ticket, last = -1;

	st.doing = "accumulate and fetch_and_op";
	reset_counters(w);
	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < times; i++) {
		int t = (w->rank + i) % n;

		MPI_Accumulate(pair, 2, MPI_INT64_T, t, counter_at(w, 0), 2, MPI_INT64_T, MPI_SUM, w->win);
		MPI_Get_accumulate(pair, 2, MPI_INT64_T, old, 2, MPI_INT64_T, t, counter_at(w, 2), 2,
				   MPI_INT64_T, MPI_SUM, w->win);
		MPI_Fetch_and_op(&one, &ticket, MPI_INT64_T, 0, counter_at(w, 4), MPI_SUM, w->win);
		MPI_Win_flush_all(w->win);
		must(ticket > last && ticket < times * n, "fetch_and_op: ticket %lld after %lld",
		     (long long)ticket, (long long)last);
		must(old[0] % 3 == 0 && old[1] == old[0] / 3 * 5,
		     "get_accumulate: %lld and %lld do not belong together", (long long)old[0],
		     (long long)old[1]);
		last = ticket;
	}
	MPI_Win_unlock_all(w->win);
	MPI_Barrier(MPI_COMM_WORLD);
	must(read_counter(w, 0, 4) == times * n, "fetch_and_op: the sum is wrong");
	if (w->rank == 0) {
		int64_t sum[4] = {0};

		for (int t = 0; t < n; t++)
			for (int i = 0; i < 4; i++)
				sum[i] += read_counter(w, t, i);
		must(sum[0] == 3 * times * n && sum[1] == 5 * times * n, "accumulate: the sums are wrong");
		must(sum[2] == 3 * times * n && sum[3] == 5 * times * n,
		     "get_accumulate: the sums are wrong");
	}
	st.messages += 3 * times;
}

/* A lock made of compare_and_swap around a counter that only it protects. */
static void swaps(struct win *w)
{
	int times = 10;

	st.doing = "compare_and_swap";
	reset_counters(w);
	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < times; i++) {
		int64_t mine = w->rank + 1, none = 0, was, v;

		do {
			MPI_Compare_and_swap(&mine, &none, &was, MPI_INT64_T, 0, counter_at(w, 6), w->win);
			MPI_Win_flush(0, w->win);
		} while (was != 0);
		MPI_Fetch_and_op(&none, &v, MPI_INT64_T, 0, counter_at(w, 7), MPI_NO_OP, w->win);
		MPI_Win_flush(0, w->win);
		v++;
		MPI_Fetch_and_op(&v, &was, MPI_INT64_T, 0, counter_at(w, 7), MPI_REPLACE, w->win);
		MPI_Win_flush(0, w->win);
		MPI_Compare_and_swap(&none, &mine, &was, MPI_INT64_T, 0, counter_at(w, 6), w->win);
		MPI_Win_flush(0, w->win);
		must(was == mine, "compare_and_swap: the lock of rank %d was held by %lld", w->rank,
		     (long long)was - 1);
	}
	MPI_Win_unlock_all(w->win);
	MPI_Barrier(MPI_COMM_WORLD);
	must(read_counter(w, 0, 7) == times * w->size, "compare_and_swap: %lld instead of %d",
	     (long long)read_counter(w, 0, 7), times * w->size);
	MPI_Barrier(MPI_COMM_WORLD);
}

static int go_on(time_t end)
{
	int go = time(NULL) < end;

	MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return go;
}

int main(int argc, char **argv)
{
	double sum[2], mine[2];
	time_t end = time(NULL) + 5;
	uint64_t seed = (uint64_t)time(NULL);
	struct win w;

	time_and_seed(argc, argv, &end, &seed);
	st.doing = "MPI_Init";
	watch_start(60);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &st.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &st.size);
	must(st.size <= 64, "at most 64 ranks");
	MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	st.seed = seed;
	if (st.rank == 0)
		printf("rma: %d ranks, seed %llu\n", st.size, (unsigned long long)seed);
	for (st.round = 0; st.round < 2 || go_on(end); st.round++) {
		bool allocate = st.round % 2 == 0;

		watch_feed();
		win_open(&w, allocate);
		fence(&w, mix(seed, (uint64_t)st.round * 4));
		pscw(&w, mix(seed, (uint64_t)st.round * 4 + 1));
		locks(&w, mix(seed, (uint64_t)st.round * 4 + 2));
		atomics(&w);
		swaps(&w);
		win_close(&w, allocate);
	}
	mine[0] = st.messages;
	mine[1] = st.bytes;
	MPI_Reduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (st.rank == 0)
		printf("rma: %d rounds, %.0f operations, %.1f MiB, every byte right\n", st.round, sum[0],
		       sum[1] / (1 << 20));
	MPI_Finalize();
	return 0;
}
