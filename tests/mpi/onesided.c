/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Put, MPI_Get, MPI_Accumulate and their like on windows of MPI_Win_allocate and MPI_Win_allocate_shared: who asks
 * has it when the flush returns, changes of all ranks at once are whole, whatever types they use, and the target need
 * not call the MPI.
 *
 *     onesided
 */
#include "load_beside.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define TIMES 2000
#define LONGS 64

static int rank, ranks;
static long *mine;
static MPI_Win win;

static void fault(const char *what, long a, long b)
{
	fprintf(stderr, "FAILED: rank %d: %s, %ld and %ld\n", rank, what, a, b);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

#define must(ok, what, a, b)                                                                                 \
	do {                                                                                                 \
		if (!(ok))                                                                                   \
			fault(what, (long)(a), (long)(b));                                                   \
	} while (0)

static void begin(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
	memset(mine, 0, LONGS * sizeof(long));
	MPI_Win_unlock(rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
}

static long get(int target, long at)
{
	long value = -1;
	MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
	MPI_Get(&value, 1, MPI_LONG, target, at, 1, MPI_LONG, win);
	MPI_Win_unlock(target, win);
	return value;
}

/* A counter on the last rank: each hears every number once. */
static void counted(void)
{
	long one = 1, last = -1, now, sum = 0, all = 0, n = (long)TIMES * ranks;
	begin();
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < TIMES; i++) {
		if (i % 2)
			MPI_Fetch_and_op(&one, &now, MPI_LONG, ranks - 1, 3, MPI_SUM, win);
		else
			MPI_Get_accumulate(&one, 1, MPI_LONG, &now, 1, MPI_LONG, ranks - 1, 3, 1, MPI_LONG,
					   MPI_SUM, win);
		MPI_Win_flush(ranks - 1, win);
		must(now > last, "a counter that goes back", last, now);
		sum += last = now;
	}
	MPI_Win_unlock_all(win);
	MPI_Reduce(&sum, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	must(rank || all == n * (n - 1) / 2, "numbers of a counter", all, n * (n - 1) / 2);
	must(get(ranks - 1, 3) == n, "a counter's end", get(ranks - 1, 3), n);
}

/* Each by comparing, until it has been the one. */
static void swapped(void)
{
	begin();
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < TIMES / 10; i++) {
		int64_t was = 0, now, next;
		for (;;) {
			next = was + 1;
			MPI_Compare_and_swap(&next, &was, &now, MPI_INT64_T, 0, 1, win);
			MPI_Win_flush_all(win);
			if (now == was)
				break;
			was = now;
		}
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	must(get(0, 1) == (long)ranks * (TIMES / 10), "what was swapped", get(0, 1), 0);
}

static MPI_Datatype every_second(void)
{
	MPI_Datatype t;
	MPI_Type_vector(8, 1, 2, MPI_LONG, &t);
	MPI_Type_commit(&t);
	return t;
}

/* Half of the ranks with a type that has holes, the others without; by fences, and in one epoch. how: 0, 1. */
static void mixed(int how)
{
	long from[16];
	MPI_Datatype second = every_second();
	begin();
	for (int i = 0; i < 16; i++)
		from[i] = i % 2 ? -1000000 : i / 2 + 1;
	if (how)
		MPI_Win_lock_all(0, win);
	else
		MPI_Win_fence(0, win);
	for (int i = 0; i < TIMES / 10; i++)
		for (int t = 0; t < ranks; t++) {
			if ((rank + i) % 3 == 0)
				MPI_Accumulate(from, 1, second, t, 8, 1, second, MPI_SUM, win);
			else if ((rank + i) % 3 == 1)
				for (int k = 0; k < 8; k++)
					MPI_Accumulate(&from[2 * k], 1, MPI_LONG, t, 8 + 2 * k, 1, MPI_LONG,
						       MPI_SUM, win);
			else
				MPI_Accumulate((long[]){1, 2, 3, 4, 5, 6, 7, 8}, 8, MPI_LONG, t, 8, 1, second,
					       MPI_SUM, win);
			if (how && i % 7 == 0)
				MPI_Win_flush(t, win);
		}
	if (how)
		MPI_Win_unlock_all(win);
	else
		MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int k = 0; k < 8; k++) {
		long sum = get((rank + 1) % ranks, 8 + 2 * k), hole = get(rank, 9 + 2 * k);
		must(sum == (long)ranks * (TIMES / 10) * (k + 1), "sums of all", k, sum);
		must(!hole, "a hole", k, hole);
	}
	MPI_Type_free(&second);
}

/* One after the other; what is got has been there before. */
static void operations(void)
{
	struct {
		double value;
		int at;
	} low = {-2.5, rank}, was;
	struct {
		short value;
		int at;
	} high = {7, 3}, before;
	long v[4], got[16];
	MPI_Datatype second = every_second();
	int to = (rank + 1) % ranks;
	begin();
	MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
	MPI_Put((long[]){12, 10, 6, -4}, 4, MPI_LONG, to, 0, 4, MPI_LONG, win);
	MPI_Win_flush(to, win);
	MPI_Get_accumulate((long[]){10, 6, 8, -9}, 4, MPI_LONG, v, 4, MPI_LONG, to, 0, 4, MPI_LONG, MPI_BAND,
			   win);
	MPI_Win_flush(to, win);
	must(v[0] == 12 && v[3] == -4, "what was there", v[0], v[3]);
	MPI_Get_accumulate(NULL, 0, MPI_BYTE, v, 4, MPI_LONG, to, 0, 4, MPI_LONG, MPI_NO_OP, win);
	MPI_Win_flush(to, win);
	must(v[0] == 8 && v[1] == 2 && v[2] == 0 && v[3] == -12, "MPI_BAND", v[0], v[3]);
	MPI_Get_accumulate((long[]){5, 6, 7, 8}, 4, MPI_LONG, v, 4, MPI_LONG, to, 0, 4, MPI_LONG, MPI_REPLACE,
			   win);
	MPI_Accumulate((long[]){9, 1, 9, 1}, 4, MPI_LONG, to, 0, 4, MPI_LONG, MPI_MAX, win);
	MPI_Win_flush(to, win);
	MPI_Get(v, 4, MPI_LONG, to, 0, 4, MPI_LONG, win);
	MPI_Win_flush(to, win);
	must(v[0] == 9 && v[1] == 6 && v[2] == 9 && v[3] == 8, "MPI_REPLACE, MPI_MAX", v[0], v[1]);
	/* types with holes, of the MPI's and of the program's */
	MPI_Accumulate(&low, 1, MPI_DOUBLE_INT, to, 8, 1, MPI_DOUBLE_INT, MPI_MINLOC, win);
	MPI_Fetch_and_op(&low, &was, MPI_DOUBLE_INT, to, 8, MPI_NO_OP, win);
	MPI_Accumulate(&high, 1, MPI_SHORT_INT, to, 12, 1, MPI_SHORT_INT, MPI_MAXLOC, win);
	MPI_Fetch_and_op(&high, &before, MPI_SHORT_INT, to, 12, MPI_NO_OP, win);
	MPI_Win_flush(to, win);
	must(was.value == -2.5 && was.at == rank, "MPI_MINLOC", was.value, was.at);
	must(before.value == 7 && before.at == 3, "MPI_MAXLOC", before.value, before.at);
	memset(got, 0, sizeof(got));
	MPI_Get_accumulate((long[]){1, 2, 3, 4, 5, 6, 7, 8}, 8, MPI_LONG, got, 1, second, to, 16, 1, second,
			   MPI_REPLACE, win);
	MPI_Get_accumulate(NULL, 0, MPI_LONG, got, 1, second, to, 16, 1, second, MPI_NO_OP, win);
	MPI_Win_flush(to, win);
	for (int i = 0; i < 16; i++)
		must(got[i] == (i % 2 ? 0 : i / 2 + 1), "got with holes", i, got[i]);
	/* what the MPI moves, and is waited for */
	MPI_Put(got, 1, second, to, 40, 8, MPI_LONG, win);
	MPI_Win_flush(to, win);
	MPI_Get(v, 4, MPI_LONG, to, 44, 4, MPI_LONG, win);
	MPI_Win_flush(to, win);
	must(v[0] == 5 && v[3] == 8, "put with holes", v[0], v[3]);
	MPI_Win_unlock(to, win);
	MPI_Type_free(&second);
}

/* Of a type of which there is none, and one with a hole; as MPI 4 has it, too. */
static void summed(MPI_Datatype type, const char *how)
{
	long one[4] = {3, 5, 7, 11};
	int to = (rank + 1) % ranks;
	MPI_Type_commit(&type);
	begin();
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < TIMES / 10; i++)
		for (int t = 0; t < ranks; t++) {
			if ((rank + i) % 2)
				MPI_Accumulate(one, 4, MPI_LONG, t, 8, 1, type, MPI_SUM, win);
			else
				for (int k = 0; k < 4; k++)
					MPI_Accumulate(&one[k], 1, MPI_LONG, t, 8 + 2 * k, 1, MPI_LONG,
						       MPI_SUM, win);
		}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int k = 0; k < 4; k++) {
		must(get(to, 8 + 2 * k) == one[k] * ranks * (TIMES / 10), how, k, get(to, 8 + 2 * k));
		must(!get(to, 9 + 2 * k), "a hole", k, get(to, 9 + 2 * k));
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
	MPI_Put((long[]){1, 2, 3, 4, 5, 6, 7, 8}, 8, MPI_LONG, to, 8, 8, MPI_LONG, win);
	MPI_Win_flush(to, win);
	MPI_Accumulate(one, 4, MPI_LONG, to, 8, 1, type, MPI_REPLACE, win);
	MPI_Win_unlock(to, win);
	for (int k = 0; k < 8; k++)
		must(get(to, 8 + k) == (k % 2 ? k + 1 : one[k / 2]), "MPI_REPLACE with holes", k,
		     get(to, 8 + k));
	MPI_Type_free(&type);
}

static void made(void)
{
	MPI_Datatype four, nothing, type, types[3];
	MPI_Type_vector(4, 1, 2, MPI_LONG, &four);
	MPI_Type_contiguous(0, MPI_CHAR, &nothing);
	types[0] = MPI_CHAR;
	types[1] = nothing;
	types[2] = four;
	MPI_Type_create_struct(3, (int[]){0, 2, 1}, (MPI_Aint[]){0, 0, 0}, types, &type);
	summed(type, "a type whose first part is empty");
#if MPI_VERSION >= 4
	MPI_Type_create_struct_c(3, (MPI_Count[]){0, 2, 1}, (MPI_Count[]){0, 0, 0}, types, &type);
	summed(type, "such a one made with MPI_Count");
	MPI_Type_vector_c(4, 1, 2, MPI_LONG, &type);
	summed(type, "a type made with MPI_Count");
#endif
	MPI_Type_free(&nothing);
	MPI_Type_free(&four);
}

static void requested(void)
{
	MPI_Request r[4];
	MPI_Datatype second = every_second();
	long x[4] = {3, 4, 5, 6}, y[4] = {0}, z[4] = {0}, w[8] = {0}, n = 100;
	int to = (rank + 1) % ranks;
	begin();
	MPI_Win_lock_all(0, win);
	MPI_Rput(x, 4, MPI_LONG, to, 0, 4, MPI_LONG, win, &r[0]);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	MPI_Win_flush(to, win);
	for (int i = 0; i < n; i++) {
		MPI_Rget(y, 4, MPI_LONG, to, 0, 4, MPI_LONG, win, &r[0]);
		MPI_Raccumulate(x, 4, MPI_LONG, to, 8, 4, MPI_LONG, MPI_SUM, win, &r[1]);
		MPI_Rget_accumulate(x, 4, MPI_LONG, z, 4, MPI_LONG, to, 16, 4, MPI_LONG, MPI_SUM, win, &r[2]);
		MPI_Rget(w, 8, MPI_LONG, to, 0, 1, second, win, &r[3]);
		MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
		must(y[0] == 3 && y[3] == 6, "MPI_Rget", y[0], y[3]);
		must(z[1] == 4 * i, "MPI_Rget_accumulate", z[1], i);
		must(w[0] == 3 && w[1] == 5, "MPI_Rget with holes", w[0], w[1]);
	}
	MPI_Win_unlock_all(win);
	must(get(to, 10) == 5 * n && get(to, 19) == 6 * n, "MPI_Raccumulate", get(to, 10), get(to, 19));
	MPI_Type_free(&second);
}

/* By MPI_Win_start, and before and after it. */
static void started(void)
{
	long one = 1, before;
	int others = 0, *list = malloc((size_t)ranks * sizeof(int));
	MPI_Group world, group;
	for (int i = 0; i < ranks; i++)
		if (i != rank)
			list[others++] = i;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, others, list, &group);
	begin();
	for (int i = 0; i < 50; i++) {
		MPI_Win_post(group, 0, win);
		MPI_Win_start(group, 0, win);
		for (int k = 0; k < others; k++) {
			MPI_Accumulate(&one, 1, MPI_LONG, list[k], 5, 1, MPI_LONG, MPI_SUM, win);
			MPI_Put(&one, 1, MPI_LONG, list[k], 20 + rank % 8, 1, MPI_LONG, win);
		}
		MPI_Win_complete(win);
		MPI_Win_wait(win);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_lock(MPI_LOCK_SHARED, list[0], 0, win);
		MPI_Fetch_and_op(&one, &before, MPI_LONG, list[0], 5, MPI_NO_OP, win);
		MPI_Win_unlock(list[0], win);
		must(before == (long)others * (i + 1), "sums between start and complete", before, i);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	free(list);
}

#if MPI_VERSION >= 4
static void wide(void)
{
	long x[2] = {3, 4}, y[2] = {0}, z[2] = {0};
	MPI_Request r;
	int to = (rank + 1) % ranks;
	begin();
	MPI_Win_lock_all(0, win);
	MPI_Put_c(x, 2, MPI_LONG, to, 0, 2, MPI_LONG, win);
	MPI_Win_flush_local(to, win);
	MPI_Win_flush(to, win);
	MPI_Accumulate_c(x, 2, MPI_LONG, to, 0, 2, MPI_LONG, MPI_SUM, win);
	MPI_Get_accumulate_c(x, 2, MPI_LONG, y, 2, MPI_LONG, to, 0, 2, MPI_LONG, MPI_PROD, win);
	MPI_Win_flush_local_all(win);
	MPI_Raccumulate_c(x, 2, MPI_LONG, to, 0, 2, MPI_LONG, MPI_SUM, win, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	MPI_Rget_accumulate_c(x, 2, MPI_LONG, z, 2, MPI_LONG, to, 0, 2, MPI_LONG, MPI_NO_OP, win, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	must(y[0] == 6 && y[1] == 8 && z[0] == 21 && z[1] == 36, "calls with MPI_Count", y[0], z[0]);
	MPI_Rput_c(x, 2, MPI_LONG, to, 4, 2, MPI_LONG, win, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	MPI_Win_flush(to, win);
	MPI_Rget_c(y, 2, MPI_LONG, to, 4, 2, MPI_LONG, win, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	MPI_Get_c(z, 2, MPI_LONG, to, 4, 2, MPI_LONG, win);
	MPI_Win_flush(to, win);
	must(y[1] == 4 && z[0] == 3, "calls with MPI_Count", y[1], z[0]);
	MPI_Win_unlock_all(win);
}
#endif

/* Read and written by who has it alone, or looked at by several, also of several ranks at once. */
static void locked(void)
{
	long n = 0, all = 0, got[2];
	begin();
	for (int i = 0; i < TIMES / 4; i++) {
		int to = i % ranks, also = (to + 1) % ranks;
		if ((i + rank) % 3) {
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
			MPI_Get(got, 1, MPI_LONG, to, 9, 1, MPI_LONG, win);
			MPI_Win_flush_local(to, win);
			got[0]++;
			MPI_Put(got, 1, MPI_LONG, to, 9, 1, MPI_LONG, win);
			MPI_Put(got, 1, MPI_LONG, to, 10, 1, MPI_LONG, win);
			MPI_Win_unlock(to, win);
			n++;
		} else if (to < also) {
			MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
			MPI_Win_lock(MPI_LOCK_SHARED, also, 0, win);
			MPI_Get(got, 2, MPI_LONG, also, 9, 2, MPI_LONG, win);
			MPI_Win_flush_all(win);
			must(got[0] == got[1], "half of what another has alone", got[0], got[1]);
			MPI_Win_unlock(also, win);
			MPI_Win_unlock(to, win);
		} else {
			MPI_Win_lock_all(0, win);
			MPI_Get(got, 2, MPI_LONG, to, 9, 2, MPI_LONG, win);
			MPI_Win_unlock_all(win);
			must(got[0] == got[1], "half of what another has alone", got[0], got[1]);
		}
	}
	MPI_Reduce(&n, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int r = 0; !rank && r < ranks; r++)
		all -= get(r, 9);
	must(!all, "changes that are lost", all, 0);
}

/* To the next one, who looks at his memory; and messages meanwhile. */
static void fenced(void)
{
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, got = -1;
	begin();
	MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
	for (long i = 1; i < TIMES / 4; i++) {
		long sent = i * ranks + rank;
		MPI_Put(&sent, 1, MPI_LONG, to, i % 8, 1, MPI_LONG, win);
		if (i % 16 == 0)
			MPI_Sendrecv(&rank, 1, MPI_INT, to, 5, &got, 1, MPI_INT, from, 5, MPI_COMM_WORLD,
				     MPI_STATUS_IGNORE);
		MPI_Win_fence(0, win);
		must(mine[i % 8] == i * ranks + from, "what was put before a fence", mine[i % 8], i);
	}
	must(got == from, "a message between fences", got, from);
	MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

/* In a ring: each starts at the next one, and is posted for by it alone. Ranks may be an epoch apart. */
static void in_a_ring(void)
{
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
	MPI_Group world, next, before;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &to, &next);
	MPI_Group_incl(world, 1, &from, &before);
	begin();
	for (long i = 1; i < TIMES / 4; i++) {
		int flag = 0;
		long sent = i * ranks + rank;
		MPI_Win_post(before, 0, win);
		MPI_Win_start(next, 0, win);
		MPI_Put(&sent, 1, MPI_LONG, to, 0, 1, MPI_LONG, win);
		MPI_Put(&sent, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win);
		MPI_Win_complete(win);
		while (i % 2 && !flag)
			MPI_Win_test(win, &flag);
		if (!flag)
			MPI_Win_wait(win);
		must(mine[0] == i * ranks + from, "what was put before MPI_Win_wait", mine[0], i);
	}
	MPI_Group_free(&world);
	MPI_Group_free(&next);
	MPI_Group_free(&before);
}

static double used(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

/* For what another has for a second: they sleep. */
static void asleep(void)
{
	begin();
	for (int how = 0; how < 2; how++) {
		bool last = rank == ranks - 1;
		if (last && !how)
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Barrier(MPI_COMM_WORLD);
		double before = used();
		if (last)
			sleep(1);
		if (how)
			MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
		else if (!last)
			MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
		long us = (long)((used() - before) * 1e6);
		must(last || us < 200000, "us of a core while another had what was waited for", us, how);
		if (!how)
			MPI_Win_unlock(0, win);
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

/* The target looks at its memory, and calls nothing. */
static void alone(void)
{
	long one = 1, was;
	begin();
	MPI_Win_lock_all(0, win); /* which may need the target */
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank) {
		time_t end = time(NULL) + 20;
		while (__atomic_load_n(&mine[7], __ATOMIC_ACQUIRE) < ranks - 1)
			must(time(NULL) < end, "who is changed has to call the MPI", mine[7], ranks - 1);
	} else {
		MPI_Fetch_and_op(&one, &was, MPI_LONG, 0, 7, MPI_SUM, win);
		MPI_Win_flush(0, win);
	}
	MPI_Win_unlock_all(win);
}

/* What is wrong is said, and nothing is changed. */
static void refused(void)
{
	long one = 1, got;
	begin();
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	must(MPI_Put(&one, 1, MPI_LONG, ranks, 0, 1, MPI_LONG, win), "a rank that is none", 0, 0);
	must(MPI_Accumulate(&one, 1, MPI_LONG, ranks, 0, 1, MPI_LONG, MPI_SUM, win), "a rank that is none", 1,
	     0);
	must(MPI_Accumulate(&one, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_LONG, MPI_SUM, win), "no type", 1, 0);
	must(MPI_Accumulate(&one, -1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win), "a count below 0", 1, 0);
	must(MPI_Put(&one, 1, MPI_LONG, rank, 0, 1, MPI_LONG, win), "outside an epoch", 0, 0);
	must(MPI_Fetch_and_op(&one, &got, MPI_LONG, rank, 0, MPI_SUM, win), "outside an epoch", 1, 0);
	must(MPI_Win_unlock(rank, win), "what is not locked", 0, 0);
	must(MPI_Win_unlock_all(win), "what is not locked", 1, 0);
	must(MPI_Win_complete(win), "what is not started", 0, 0);
	must(MPI_Win_flush(rank, win), "what is not locked", 2, 0);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
	must(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), "what is locked", 0, 0);
	must(MPI_Win_lock_all(0, win), "what is locked", 1, 0);
	must(ranks < 2 || MPI_Put(&one, 1, MPI_LONG, !rank, 0, 1, MPI_LONG, win), "a rank that is not locked",
	     0, 0);
	must(MPI_Win_fence(0, win), "what is locked", 2, 0);
	must(MPI_Accumulate(&one, 1, MPI_LONG, rank, 0, 1, MPI_LONG, MPI_NO_OP, win), "nothing to do", 1, 0);
	MPI_Win_unlock(rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL);
	must(!get(rank, 0), "something was changed", get(rank, 0), 0);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
	must(!MPI_Put(&one, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win), "nobody", 0, 0);
	must(!MPI_Accumulate(&one, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, MPI_SUM, win), "nobody", 1, 0);
	MPI_Win_unlock(rank, win);
}

static void all(void)
{
	counted();
	swapped();
	mixed(0);
	mixed(1);
	operations();
	made();
	requested();
	started();
	locked();
	fenced();
	in_a_ring();
	asleep();
#if MPI_VERSION >= 4
	wide();
#endif
	alone();
	refused();
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_free(&win);
}

/* A rank that may have buffers of a GPU's from now on, and others that do not know. */
static void late(void)
{
	if (!rank)
		must(load_beside("libcuda.so.1"), "no library beside this program", 0, 0);
	counted();
	swapped();
	mixed(1);
	operations();
	requested();
	fenced();
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Win_allocate(LONGS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
	all();
	MPI_Win_allocate_shared((LONGS + 100 * rank) * (MPI_Aint)sizeof(long), sizeof(long), MPI_INFO_NULL,
				MPI_COMM_WORLD, &mine, &win);
	all();
	MPI_Win_allocate(LONGS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
	late();
	if (!rank)
		printf("onesided: %d ranks, every sum right\n", ranks);
	MPI_Finalize();
	return 0;
}
