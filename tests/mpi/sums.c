/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long MPI_Allreduce and MPI_Reduce, which libsennit-mpi.so makes without the MPI (shim/long.h): each result is, on all ranks and
 * from the first call on, to the bit what MPI_Reduce_local makes of the operands in the order of the ranks; for each
 * type and operation, at each length where something begins, wherever the operands lie, on whatever communicator, and
 * beside whatever else is under way.
 *
 *     sums [-w | -v | -s] [-m | -n | -d FILE] -w: rank 1 runs without libsennit-mpi.so; -v: it writes a variable of
 *     MPI_T before MPI_Init; -s: there is a session before that, in which rank 1 sends itself a message. In all three
 *     each call is the MPI's, whose order is its own affair; -m: with MPI_THREAD_MULTIPLE, several threads at once;
 *     -d: a rank dies, and the others hear of it, and make FILE; -n: says by what name of a socket this rank shows
 *     that it is there
 */
#include "before.h"
#include "load_beside.h"
#include "own_op.h"
#include "told.h"
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST	(1 << 21) /* bytes of an operand, and a word */
#define REDUCED (1 << 16) /* shorter sums of one rank's: rooted.c */

static int rank, ranks, faults;
static bool ordered = true;	/* operands are taken in the order of the ranks */
static char *fixed, *fixed_sum; /* not in the heap, which others map */
static char *heap, *heap_sum, *operand, *folded, *result;

static void expect(bool right, const char *what, long i)
{
	if (right || faults++ > 5)
		return;
	printf("sums: rank %d: %s, %ld\n", rank, what, i);
}

/* ---- operands ---- */

enum kind { INTEGER, REAL, COMPLEX, PAIR, BYTES, TRUTH };

static const struct type {
	MPI_Datatype type;
	enum kind kind;
	int size; /* with holes */
} * types;
static int type_count;

static void list_types(void)
{
	static struct type list[] = {{MPI_INT, INTEGER, 4},
				     {MPI_DOUBLE, REAL, 8},
				     {MPI_FLOAT, REAL, 4},
				     {MPI_LONG_DOUBLE, REAL, 16},
				     {MPI_SIGNED_CHAR, INTEGER, 1},
				     {MPI_UNSIGNED_CHAR, INTEGER, 1},
				     {MPI_SHORT, INTEGER, 2},
				     {MPI_UNSIGNED_SHORT, INTEGER, 2},
				     {MPI_UNSIGNED, INTEGER, 4},
				     {MPI_LONG, INTEGER, 8},
				     {MPI_UNSIGNED_LONG, INTEGER, 8},
				     {MPI_LONG_LONG, INTEGER, 8},
				     {MPI_UNSIGNED_LONG_LONG, INTEGER, 8},
				     {MPI_INT8_T, INTEGER, 1},
				     {MPI_INT16_T, INTEGER, 2},
				     {MPI_INT32_T, INTEGER, 4},
				     {MPI_INT64_T, INTEGER, 8},
				     {MPI_UINT8_T, INTEGER, 1},
				     {MPI_UINT16_T, INTEGER, 2},
				     {MPI_UINT32_T, INTEGER, 4},
				     {MPI_UINT64_T, INTEGER, 8},
				     {MPI_AINT, INTEGER, 8},
				     {MPI_C_BOOL, TRUTH, 1},
				     {MPI_C_FLOAT_COMPLEX, COMPLEX, 8},
				     {MPI_C_DOUBLE_COMPLEX, COMPLEX, 16},
				     {MPI_BYTE, BYTES, 1},
				     {MPI_2INT, PAIR, 8},
				     {MPI_FLOAT_INT, PAIR, 8},
				     {MPI_DOUBLE_INT, PAIR, 16},
				     {MPI_LONG_INT, PAIR, 16}};
	types = list;
	type_count = (int)(sizeof(list) / sizeof(list[0]));
}

/* What a rank brings along to a call: small numbers that rounding tells the order of. */
static void fill(char *to, const struct type *t, size_t count, int of, int i)
{
	unsigned seed = (unsigned)(of * 7919 + i * 104729 + 1);
	memset(to, 0, count * (size_t)t->size);
	for (size_t k = 0; k < count; k++) {
		char *at = to + k * (size_t)t->size;
		seed = seed * 1664525u + 1013904223u;
		float f = (float)(seed >> 8 & 0xfff) / 3000.0f + 0.1f;
		double d = f / 3.0;
		long double l = d;
		/* some MPIs' sums of short ones stop at the largest number, and then the order matters */
		long truth = seed >> 8 & 1, n = t->size < 4 ? truth + 1 : seed >> 8 & 0xff;
		int where = of;
		if (t->kind == REAL)
			memcpy(at,
			       t->size == 4   ? (void *)&f
			       : t->size == 8 ? (void *)&d
					      : (void *)&l,
			       t->size == 16 ? 10 : (size_t)t->size);
		else if (t->kind == COMPLEX)
			for (int half = 0; half < 2; half++)
				memcpy(at + half * t->size / 2, t->size == 8 ? (void *)&f : (void *)&d,
				       (size_t)t->size / 2);
		else if (t->kind == PAIR) {
			memcpy(at,
			       t->type == MPI_DOUBLE_INT  ? (void *)&d
			       : t->type == MPI_FLOAT_INT ? (void *)&f
							  : (void *)&n,
			       (size_t)t->size / 2);
			memcpy(at + t->size / 2, &where, sizeof(where));
		} else
			memcpy(at, t->kind == TRUTH ? &truth : &n, (size_t)t->size);
	}
}

/* What comes of all operands in a communicator whose rank r is this rank of the world's. */
static void fold(const struct type *t, size_t count, MPI_Op op, const int *world, int n, int i)
{
	fill(folded, t, count, world[0], i);
	for (int r = 1; r < n; r++) {
		fill(operand, t, count, world[r], i);
		MPI_Reduce_local(operand, folded, (int)count, t->type, op);
	}
}

static int members(MPI_Comm comm, int *world)
{
	int n, mine[64];
	MPI_Group group, all;
	MPI_Comm_size(comm, &n);
	MPI_Comm_group(comm, &group);
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	for (int r = 0; r < n; r++)
		mine[r] = r;
	MPI_Group_translate_ranks(group, n, mine, all, world);
	MPI_Group_free(&group);
	MPI_Group_free(&all);
	return n;
}

/* Where the order is not known: as close as rounding goes. */
static bool alike(const char *a, const char *b, size_t len, const struct type *t)
{
	if (ordered || t->kind == PAIR || (t->kind != REAL && t->kind != COMPLEX))
		return !memcmp(a, b, len);
	if (t->size == 16 && t->kind == REAL)
		return true;
	bool right = true, single = t->size == 4 || (t->size == 8 && t->kind == COMPLEX);
	for (size_t k = 0; k < len; k += single ? 4 : 8) {
		float f[2];
		double d[2];
		memcpy(&f[0], a + k, 4);
		memcpy(&f[1], b + k, 4);
		memcpy(&d[0], a + k, 8 - 4 * single);
		memcpy(&d[1], b + k, 8 - 4 * single);
		double x = single ? (double)f[0] : d[0], y = single ? (double)f[1] : d[1];
		right &= x - y < 1e-3 * (1 + y * y) && y - x < 1e-3 * (1 + y * y);
	}
	return right;
}

/* Of MPI 4; some of the ranks call it, others do not. */
int MPI_Allreduce_c(const void *from, void *to, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
	__attribute__((weak));

static int sum_up(const void *from, void *to, size_t count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
		  int i)
{
	if (MPI_Allreduce_c && i % 3 == 1)
		return MPI_Allreduce_c(from, to, (MPI_Count)count, type, op, comm);
	return MPI_Allreduce(from, to, (int)count, type, op, comm);
}

/*
 * One of the ranks, each time another, may have its operand in place, or all, and two of them in memory of another kind. Of what is long
 * enough each fourth sum is that of one rank alone.
 */
static void one(const struct type *t, size_t count, MPI_Op op, MPI_Comm comm, int i)
{
	int world[64], me, n = members(comm, world);
	size_t len = count * (size_t)t->size, shift = i % 5 ? 0 : 16;
	MPI_Comm_rank(comm, &me);
	bool rooted = len > REDUCED && i % 4 == 3, gets = !rooted || me == i / 4 % n;
	bool in_place = rooted ? gets && i % 8 == 3 : i % 7 < 2 || me == i % (n + 1), lent = (i + me) % 3 > 0;
	char *from = (lent ? heap : fixed) + shift, *to = (i % 2 ? heap_sum : fixed_sum) + shift;
	fill(in_place ? to : from, t, count, rank, i);
	memset(to + len, 0x5a, 16);
	if (!in_place)
		memset(to, 0, len);
	if (rooted)
		MPI_Reduce(in_place ? MPI_IN_PLACE : from, gets ? to : NULL, (int)count, t->type, op,
			   i / 4 % n, comm);
	else
		sum_up(in_place ? MPI_IN_PLACE : from, to, count, t->type, op, comm, i + me);
	if (gets) { /* nobody else may still read it */
		memcpy(result, to, len);
		memset(to, 0x77, len);
	}
	fold(t, count, op, world, n, i);
	if (gets)
		expect(alike(result, folded, len, t), rooted ? "a sum of one rank's" : "a sum", i);
	else
		expect(!*to && !memcmp(to, to + 1, len - 1), "what no sum was for", i);
	fill(operand, t, count, rank, i);
	expect(in_place || !memcmp(from, operand, len), "what was brought along", i);
	for (int k = 0; k < 16; k++)
		expect(to[len + (size_t)k] == 0x5a, "what lies behind a sum", i);
}

/* ---- what is tried ---- */

static void kinds(void)
{
	MPI_Op ops[] = {MPI_SUM,    MPI_PROD, MPI_MAX,	MPI_MIN,  MPI_BAND, MPI_BXOR, MPI_MAXLOC,
			MPI_MINLOC, MPI_BOR,  MPI_BAND, MPI_LAND, MPI_LOR,  MPI_LXOR};
	const unsigned of[] = {0x1d3f, 0x0f, 0x03, 0xc0, 0x130, 0x1c00};
	for (int t = 0; t < type_count; t++)
		for (int o = 0; o < 13; o++) {
			MPI_Comm comm;
			int bytes = 0;
			MPI_Type_size(types[t].type, &bytes);
			if (!(of[types[t].kind] >> o & 1) || bytes <= 0)
				continue;
			MPI_Comm_dup(MPI_COMM_WORLD, &comm);
			for (int i = 0; i < 3; i++)
				one(&types[t], (size_t)(7001 / types[t].size) | 1, ops[o], comm,
				    t * 100 + o * 10 + i);
			MPI_Comm_free(&comm);
		}
}

static void lengths(MPI_Comm comm)
{
	static const int at[] = {768,	  1024,	   2048,    4096,    1 << 16,
				 1 << 17, 3 << 16, 1 << 18, 1 << 20, MOST - 128};
	int n, least;
	MPI_Comm_size(comm, &n);
	least = n == 2 ? 768 : 2048; /* shorter ones are the MPI's */
	int bytes = 0;
	while (types[bytes].kind != BYTES)
		bytes++;
	for (int a = 0; a < 10; a++)
		for (int by = -16; by <= 16; by += at[a] > 3 << 16 ? 24 : 8)
			for (int i = 0; i < (at[a] > 3 << 16 ? 1 : 4); i++) {
				size_t len = (size_t)(at[a] + by);
				bool was = ordered;
				ordered &= at[a] + by >= least;
				one(&types[1], len / 8, i ? MPI_SUM : MPI_MAX, comm, a * 100 + by + 16 + i);
				one(&types[0], len / 4 + 1, MPI_SUM, comm, a * 100 + by + 17 + i);
				if (a < 7)
					one(&types[bytes], len - 3, MPI_BXOR, comm, a * 100 + by + 18 + i);
				ordered = was;
			}
	for (int i = 0; i < 200; i++) /* around the ring, in steps that do not divide it */
		one(&types[1], 300 + (size_t)(i * 613 % 30000), MPI_SUM, comm, i);
}

/* Also more than may share memory at once, and those of some ranks alone, in another order. */
static void communicators(void)
{
	enum { COMMS = 70, FEW = 30 };
	static MPI_Comm comms[COMMS];
	bool was = ordered;
	for (int k = 0; k < COMMS; k++)
		MPI_Comm_split(MPI_COMM_WORLD, k % 7 == 6 ? rank % 2 : 0, k % 3 ? -rank : rank, &comms[k]);
	for (int k = 0; k < FEW; k++)
		one(&types[1], 401, MPI_SUM, comms[k], k);
	ordered = false;
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < COMMS; k++)
			one(&types[1], 401, MPI_SUM, comms[k], i * 100 + k);
		for (int k = i; k < COMMS; k += 4) {
			MPI_Comm_free(&comms[k]);
			MPI_Comm_split(MPI_COMM_WORLD, 0, k % 2 ? -rank : rank, &comms[k]);
		}
	}
	for (int k = 0; k < COMMS; k++)
		MPI_Comm_free(&comms[k]);
	ordered = was;
	one(&types[1], 4000, MPI_SUM, MPI_COMM_SELF, 0);
}

/*
 * What a root has not read yet is not overwritten by the next call of another kind: its place is the first one again, where on a new
 * communicator the sum's operands begin.
 */
static void unread(void)
{
	enum { N = 6000, EACH = 16 << 10 };
	long double *v = (long double *)(void *)fixed, *sum = (long double *)(void *)fixed_sum;
	for (int i = 0; i < 40; i++) {
		MPI_Comm comm;
		int bad = 0;
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		for (int k = 0; k < N; k++)
			v[k] = i + k;
		MPI_Reduce(v, sum, N, MPI_LONG_DOUBLE, MPI_PROD, ranks - 1, comm);
		MPI_Alltoall(heap, EACH, MPI_BYTE, heap_sum, EACH, MPI_BYTE, comm);
		for (int k = 0; k < N && rank == ranks - 1; k++) {
			long double product = 1;
			for (int r = 0; r < ranks; r++)
				product *= v[k];
			bad += sum[k] != product;
		}
		expect(!bad, "what a root had still to read", i);
		MPI_Comm_free(&comm);
	}
}

/* Where ranks outnumber cores these are flat after a while. */
static void shorts(void)
{
	MPI_Comm comm;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int i = 0; i < 2000; i++) {
		double sum = 0, mine = rank + i % 7;
		sum_up(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm, i % 100 ? 0 : i / 100 + rank);
		expect(sum == ranks * (i % 7) + ranks * (ranks - 1) / 2, "a short sum", i);
	}
	MPI_Comm_free(&comm);
}

/* The MPI's own affair: an operation, or a type, of the program's, two groups. */
static void others(void)
{
	int *v = (int *)(void *)heap, *sum = (int *)(void *)heap_sum, mine, all, bad = 0;
	MPI_Op op;
	MPI_Comm half, inter;
	MPI_Op_create(shift, 0, &op);
	for (int k = 0; k < 3000; k++)
		v[k] = rank % 10;
	MPI_Allreduce(v, sum, 3000, MPI_INT, op, MPI_COMM_WORLD);
	for (int k = 0; k < 3000; k++)
		bad += sum[k] % 10 != (ranks - 1) % 10;
	MPI_Op_free(&op);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Comm_rank(half, &mine);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(rank % 2), 1, &inter);
	MPI_Comm_remote_size(inter, &all);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3000; k++)
			v[k] = 1 + k * (rank % 2);
		MPI_Allreduce(v, sum, 3000, MPI_INT, MPI_SUM, inter);
		for (int k = 0; k < 3000; k++)
			bad += sum[k] != all * (1 + k * !(rank % 2));
	}
	expect(!bad, "a sum of another kind", bad);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

/* Who alone knows that a root has no place for the sum hears of it, and nobody waits for that. Of two ranks of Open MPI's it is the MPI's. */
static void wrong_roots(int i, MPI_Comm comm)
{
#ifndef MPICH_VERSION
	if (ranks < 3)
		return;
#endif
	void *places[] = {NULL, heap, MPI_IN_PLACE};
	for (int k = 0; k < 6; k++) {
		bool root = rank == (i + k) % ranks;
		told = 0;
		MPI_Reduce(root && k > 2 ? MPI_IN_PLACE : heap, root ? places[k % 3] : NULL, 20000,
			   MPI_DOUBLE, MPI_SUM, (i + k) % ranks, comm);
		expect(told == (root && k != 4), "a root without a place", k);
	}
}

/* What MPI does not allow is told by the handler, once, and what follows is right again. */
static void wrongs(MPI_Comm comm)
{
	MPI_Errhandler handler, was;
	void *same = heap;
	MPI_Comm_create_errhandler(tell, &handler);
	MPI_Comm_get_errhandler(MPI_COMM_WORLD, &was);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Comm_set_errhandler(comm, handler);
	for (int i = 0; i < 3; i++) {
		told = 0;
		MPI_Allreduce(heap, heap_sum, 20000, MPI_DOUBLE, MPI_BXOR, comm);
		expect(told == 1, "an operation that the type has not", told);
		told = 0;
		MPI_Allreduce(same, heap, 20000, MPI_DOUBLE, MPI_SUM, comm);
		expect(told == 1, "one buffer for both", told);
		told = 0;
		MPI_Reduce(heap, heap_sum, 20000, MPI_DOUBLE, MPI_SUM, ranks, comm);
		expect(told == 1, "no root", told);
		wrong_roots(i, comm);
		one(&types[1], 20000, MPI_SUM, comm, i);
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, was);
	MPI_Comm_set_errhandler(comm, was);
	MPI_Errhandler_free(&handler);
	MPI_Errhandler_free(&was);
}

/* Messages, a collective and a window that need who waits here; some come late, so that the others sleep. */
static void beside(MPI_Comm comm)
{
	static int out[1 << 18], in[1 << 18];
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, one_more = 1, sum = 0, got = -1;
	MPI_Request r[2];
	MPI_Win win;
	for (int i = 0; i < 12; i++) {
		out[i] = i + rank;
		MPI_Irecv(in, 1 << 18, MPI_INT, left, 5, comm, &r[0]);
		MPI_Iallreduce(&one_more, &sum, 1, MPI_INT, MPI_SUM, comm, &r[1]);
		if (rank == i % ranks) {
			MPI_Ssend(out, 1 << 18, MPI_INT, right, 5, comm);
			MPI_Wait(&r[1], MPI_STATUS_IGNORE);
			usleep(i % 2 ? 6000 : 100);
		}
		one(&types[1], 20000, MPI_SUM, comm, i);
		if (rank != i % ranks)
			MPI_Ssend(out, 1 << 18, MPI_INT, right, 5, comm);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		expect(sum == ranks && in[i] == i + left, "what was under way meanwhile", i);
	}
	MPI_Win_create(&rank, sizeof(rank), sizeof(rank), MPI_INFO_NULL, comm, &win);
	for (int i = 0; i < 12; i++) {
		if (rank == i % ranks) {
			MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
			MPI_Get(&got, 1, MPI_INT, right, 0, 1, MPI_INT, win);
			MPI_Win_unlock(right, win);
			expect(got == right, "what lies in a window", i);
		}
		one(&types[0], 3000, MPI_SUM, comm, i);
	}
	MPI_Win_free(&win);
}

/*
 * After a fork the heap is no more what others have mapped; and a library that is called like a GPU's comes when all
 * is set up.
 */
static void changes(MPI_Comm comm)
{
	one(&types[1], 20000, MPI_SUM, comm, 1);
	if (rank % 2 == 0) {
		pid_t child = fork();
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	for (int i = 0; i < 10; i++)
		one(&types[1], 20000, MPI_SUM, comm, i);
	if (rank != 1)
		expect(load_beside("libcuda.so.1"), "a library beside this program", 0);
	heap += 4 << 20; /* another region */
	for (int i = 0; i < 10; i++)
		one(&types[1], 20000, MPI_SUM, comm, i);
	heap -= 4 << 20;
}

static void *in_thread(void *arg)
{
	MPI_Comm *comm = arg;
	static _Thread_local double v[5000], sum[5000];
	int bad = 0;
	for (int i = 0; i < 50; i++) {
		for (int k = 0; k < 5000; k++)
			v[k] = i + k + rank;
		sum_up(v, sum, 5000, MPI_DOUBLE, MPI_SUM, *comm, i + rank);
		for (int k = 0; k < 5000; k++)
			bad += sum[k] != ranks * (i + k + 0.5 * (ranks - 1));
	}
	return (void *)(long)bad;
}

static void threads(void)
{
	pthread_t thread[2];
	MPI_Comm comm[2];
	for (int k = 0; k < 2; k++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[k]);
	for (int k = 0; k < 2; k++)
		pthread_create(&thread[k], NULL, in_thread, &comm[k]);
	for (int k = 0; k < 2; k++) {
		void *bad;
		pthread_join(thread[k], &bad);
		expect(!bad, "a sum in one of several threads", (long)bad);
		MPI_Comm_free(&comm[k]);
	}
}

/* The others hear of it in the call that they are in, or in the next, and leave a file. */
static void death(const char *word)
{
	int rc = 0, i = 0;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	while (!rc && i < 1000000) {
		if (rank == 1 && i == 500)
			raise(SIGKILL);
		rc = MPI_Allreduce(i % 2 ? heap : fixed, heap_sum, 100000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		i++;
	}
	FILE *f = rc ? fopen(word, "w") : NULL;
	if (f)
		fclose(f);
	_exit(f ? 0 : 1);
}

/* Of the sockets of all processes those are this one's that it has open. */
static void say_name(void)
{
	char line[300], path[64], link[64], wanted[32];
	unsigned long inode;
	FILE *f = fopen("/proc/self/net/unix", "r");
	while (f && fgets(line, sizeof(line), f)) {
		char *name = strstr(line, "@sennit-here");
		if (!name || sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &inode) != 1)
			continue;
		snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
		for (int fd = 0; fd < 256; fd++) {
			snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
			ssize_t n = readlink(path, link, sizeof(link) - 1);
			link[n > 0 ? n : 0] = 0;
			if (!strcmp(link, wanted))
				printf("name %s", name);
		}
	}
	if (f)
		fclose(f);
}

/* Where each is the MPI's. */
static void few(void)
{
	MPI_Comm comm;
	for (int i = 0; i < 10; i++) {
		MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? -rank : rank, &comm);
		for (int k = 0; k < 4; k++)
			one(&types[1], (size_t)(300 + 3000 * k), MPI_SUM, comm, i);
		MPI_Comm_free(&comm);
	}
	others();
}

static void all_of_it(void)
{
	MPI_Comm comm;
	kinds();
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	lengths(comm);
	communicators();
	shorts();
	unread();
	others();
	for (int i = 0; i < 8; i++)
		beside(comm);
	wrongs(comm);
	MPI_Comm_free(&comm);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	changes(comm);
	MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
	int provided, chosen = 0;
	const char *word = NULL;
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "-b"))
			continue; /* as together.c */
		else if (argv[i][0] == '-')
			chosen = argv[i][1];
		else
			word = argv[i];
	if (chosen == 'w')
		without(argv);
	if (chosen == 'v')
		variable();
	if (chosen == 's')
		session_begins();
	ordered = !chosen || chosen == 'm';
	MPI_Init_thread(&argc, &argv, chosen == 'm' ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	alarm(100);
	fixed = mmap(NULL, 2 * MOST + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fixed_sum = fixed + MOST + 2048;
	heap = calloc(1, 8 << 20);
	heap_sum = calloc(1, 4 << 20);
	operand = malloc(MOST + 64);
	folded = malloc(MOST + 64);
	result = malloc(MOST + 64);
	list_types();
	if (chosen == 'd' && word)
		death(word);
	if (chosen == 'm')
		threads();
	if (chosen == 'n')
		say_name();
	if (ordered)
		all_of_it();
	else
		few();
	MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && !faults)
		printf("sums: every byte right\n");
	MPI_Finalize();
	if (chosen == 's')
		session_ends();
	return faults != 0;
}
