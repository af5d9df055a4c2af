/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short MPI_Reduce, MPI_Gather and MPI_Scatter, MPI_Scan, MPI_Exscan, MPI_Reduce_scatter and MPI_Reduce_scatter_block,
 * which libsennit-mpi.so makes without messages (shim/rooted.h, bcast.h):
 * every byte, and none beside them, from the first call on; at each length where something begins, with each rank as
 * the root, in place, of types that lie otherwise on each rank, on whatever communicator, and beside whatever else is
 * under way. Arguments that count at the root alone are nothing elsewhere.
 *
 *     rooted [-w | -v | -s | -m]
 *         -w, -v, -s: as sums.c, and each call is the MPI's; -m: with MPI_THREAD_MULTIPLE, several threads at once
 *     rooted -d WORD [-b]
 *         the root ends; another rank writes the file WORD when it hears of it
 */
#define NAME "rooted"
#include "blocks_run.h"
#include "told.h"
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONSENSE ((MPI_Datatype)(intptr_t)0x10) /* where a type says nothing */

static void count_call(void)
{
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
}

/* ---- sums ---- */

static long value(int of, int turn, int i)
{
	return of * 1000L + turn * 7 + i;
}

static long wanted(bool max, int size, int turn, int i)
{
	return max ? value(size - 1, turn, i) : size * value(0, turn, i) + 500L * size * (size - 1);
}

static long number_at(const void *at, bool whole, int i)
{
	return whole ? ((const long *)at)[i] : (long)((const double *)at)[i];
}

static void write_operand(void *at, bool whole, int n, int me, int turn)
{
	for (int i = 0; i < n; i++)
		if (whole)
			((long *)at)[i] = value(me, turn, i);
		else
			((double *)at)[i] = (double)value(me, turn, i);
}

static void sum(const struct memory *m, int root, int n, bool whole, bool max, bool in_place, MPI_Comm comm,
		int turn)
{
	int me, size, bad = 0;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &size);
	in_place = in_place && me == root;
	void *from = in_place ? m->in : m->out;
	memset(m->in, BLANK, 8 * (size_t)n + 64);
	write_operand(from, whole, n, me, turn);
	count_call();
	int rc = MPI_Reduce(in_place ? MPI_IN_PLACE : from,
			    me == root ? m->in
			    : turn % 2 ? NULL
				       : from,
			    n, whole ? MPI_LONG : MPI_DOUBLE, max ? MPI_MAX : MPI_SUM, root, comm);
	for (int i = 0; i < n; i++) {
		if (me == root)
			bad += number_at(m->in, whole, i) != wanted(max, size, turn, i);
		if (!in_place)
			bad += number_at(m->out, whole, i) != value(me, turn, i);
	}
	for (size_t i = me == root ? 8 * (size_t)n : 0; i < 8 * (size_t)n + 64; i++)
		bad += m->in[i] != BLANK;
	expect(!rc && !bad, "MPI_Reduce", n * 1000L + bad);
}

enum { SCAN, EXSCAN, BLOCK, VECTOR, KINDS };

static int call_part(int kind, const void *from, void *to, int each, const int *counts, MPI_Datatype type,
		     MPI_Op op, MPI_Comm comm)
{
	count_call();
	return kind == SCAN	? MPI_Scan(from, to, each, type, op, comm)
	       : kind == EXSCAN ? MPI_Exscan(from, to, each, type, op, comm)
	       : kind == BLOCK	? MPI_Reduce_scatter_block(from, to, each, type, op, comm)
				: MPI_Reduce_scatter(from, to, counts, type, op, comm);
}

/* What each rank gets a part of; of n elements, or some more. */
static void part(const struct memory *m, int kind, int n, bool whole, bool max, bool in_place, MPI_Comm comm,
		 int turn)
{
	int me, size, counts[RANKS] = {0}, bad = 0, at = 0, all = 0;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &size);
	int each = kind < BLOCK ? n : 1 + n / size, gets = each,
	    of = kind == SCAN	  ? me + 1
		 : kind == EXSCAN ? me
				  : size;
	for (int r = 0; r < size; r++)
		counts[r] = kind == VECTOR ? each + (r + turn) % 3 - 1 : each;
	for (int r = 0; r < size; r++) {
		at += r < me && kind >= BLOCK ? counts[r] : 0;
		all += kind >= BLOCK ? counts[r] : 0;
	}
	all = kind < BLOCK ? n : all;
	gets = !of ? 0 : kind == VECTOR ? counts[me] : each;
	memset(m->in, BLANK, 8 * (size_t)all + 64);
	write_operand(in_place ? m->in : m->out, whole, all, me, turn);
	int rc = call_part(kind, in_place ? MPI_IN_PLACE : m->out, m->in, each, counts,
			   whole ? MPI_LONG : MPI_DOUBLE, max ? MPI_MAX : MPI_SUM, comm);
	for (int i = 0; i < gets; i++)
		bad += number_at(m->in, whole, i) != wanted(max, of, turn, at + i);
	for (int i = 0; i < all && !in_place; i++)
		bad += number_at(m->out, whole, i) != value(me, turn, i);
	for (size_t i = 8 * (size_t)(in_place ? all : gets); i < 8 * (size_t)all + 64; i++)
		bad += m->in[i] != BLANK;
	expect(!rc && !bad, "a sum of parts", kind * 1000000L + n * 1000L + bad);
}

/* The same operands, the same sum, from the first call on and whatever its length is. */
static void to_the_bit(MPI_Comm comm)
{
	enum { N = 3000 };
	static double out[N], in[N], first[N];
	for (int i = 0; i < N; i++)
		out[i] = 1.0 / (1 + i + 3 * rank) + rank * 1e10;
	for (int i = 0; i < 40; i++) {
		MPI_Reduce(out, in, N, MPI_DOUBLE, MPI_SUM, ranks - 1, comm);
		count_call();
		if (!i)
			memcpy(first, in, sizeof(in));
		expect(rank < ranks - 1 || !memcmp(first, in, sizeof(in)), "another sum", i);
	}
}

/* C's name of a type here, and Fortran's there. */
static void by_another_name(void)
{
	for (int k = 0; k < 3; k++) {
		MPI_Comm comm;
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		for (int i = 0; i < 40; i++) {
			int one = i + rank, all = 0;
			MPI_Reduce(&one, &all, 1,
				   (rank + k) % 2 ? MPI_INT
				   : k		  ? MPI_INT32_T
						  : MPI_INTEGER,
				   MPI_SUM, 0, comm);
			expect(rank || all == ranks * i + ranks * (ranks - 1) / 2, "by another name", i);
			calls++;
		}
		MPI_Comm_free(&comm);
	}
}

static void add_pairs(void *in, void *inout, int *n, MPI_Datatype *type)
{
	(void)type;
	for (int i = 0; i < *n; i++)
		((int *)inout)[i] = ((int *)in)[i] * 2 + ((int *)inout)[i];
}

/* Operations of all kinds, among them those that go through the MPI. */
static void operations(MPI_Comm comm)
{
	MPI_Op own;
	MPI_Op_create(add_pairs, 0, &own);
	for (int i = 0; i < 60; i++) {
		int root = i % ranks, pair[2] = {(i + rank) % ranks, rank}, least[2] = {0}, one = rank,
		    all = 0;
		struct {
			double d;
			int at;
		} far = {rank == (i + 1) % ranks ? 5.5 : rank * 0.1, rank}, most = {0};
		MPI_Reduce(pair, least, 1, MPI_2INT, MPI_MINLOC, root, comm);
		expect(rank != root || (least[0] == 0 && least[1] == (2 * ranks - i % ranks) % ranks),
		       "MPI_MINLOC", i);
		MPI_Reduce(&far, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, root, comm);
		expect(rank != root || (most.d == 5.5 && most.at == (i + 1) % ranks), "holes", i);
		MPI_Reduce(&one, &all, 1, MPI_INT, MPI_BOR, root, comm);
		int bits = 0;
		for (int r = 0; r < ranks; r++)
			bits |= r;
		expect(rank != root || all == bits, "MPI_BOR", i);
		MPI_Reduce(&one, &all, 1, MPI_INT, own, root, comm);
		calls += 4;
	}
	MPI_Op_free(&own);
}

/* ---- blocks ---- */

static void gather(const struct memory *m, int root, bool in_place, const struct layout *o,
		   const struct layout *in, int len, MPI_Comm comm, int turn)
{
	int me, size, bad = 0;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &size);
	size_t span = span_of(in, len), all = me == root ? (size_t)size * span : 0;
	in_place = in_place && me == root;
	memset(m->in, BLANK, all + 64);
	fill(in_place ? m->in + (size_t)me * span : m->out, in_place ? in : o, len, me, root, turn);
	count_call();
	int rc = MPI_Gather(in_place ? MPI_IN_PLACE : m->out, in_place ? 0 : count_of(o, len),
			    in_place ? NONSENSE : o->type, me == root ? m->in : NULL,
			    me == root ? count_of(in, len) : -7, me == root ? in->type : MPI_DATATYPE_NULL,
			    root, comm);
	for (int r = 0; r < size && me == root; r++)
		bad += wrong(m->in + (size_t)r * span, in, len, r, root, turn);
	bad += beside(m->in, all + 64);
	expect(!rc && !bad, "MPI_Gather", len * 1000L + bad);
}

static void scatter(const struct memory *m, int root, bool in_place, const struct layout *o,
		    const struct layout *in, int len, MPI_Comm comm, int turn)
{
	int me, size, bad = 0;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &size);
	bool here = me == root;
	in_place = in_place && here;
	memset(m->in, BLANK, span_of(in, len) + 64);
	for (int r = 0; r < size && here; r++)
		fill(m->out + (size_t)r * span_of(o, len), o, len, root, r, turn);
	count_call();
	int rc = MPI_Scatter(here ? m->out : NULL, here ? count_of(o, len) : -7, here ? o->type : NONSENSE,
			     in_place ? MPI_IN_PLACE : m->in, in_place ? 0 : count_of(in, len),
			     in_place ? NONSENSE : in->type, root, comm);
	if (!in_place)
		bad = wrong(m->in, in, len, root, me, turn);
	bad += beside(m->in, span_of(in, len) + 64);
	for (int r = 0; r < size && here; r++)
		bad += wrong(m->out + (size_t)r * span_of(o, len), o, len, root, r, turn);
	expect(!rc && !bad, "MPI_Scatter", len * 1000L + bad);
}

/* ---- what is tried ---- */

static const int lengths[] = {8,    16,	   24,	  40,	 48,	56,    64,    72,   96,
			      168,  256,   1000,  1016,	 1024,	1032,  4088,  4096, 4104,
			      8192, 16376, 16384, 16392, 32768, 65528, 65536, 65544};
#define LENGTHS (sizeof(lengths) / sizeof(*lengths))

/* One of them. */
static void any(const struct memory *m, unsigned dice, int root, int len, MPI_Comm comm, int turn)
{
	const struct layout *bytes = &layouts[BYTES];
	if (dice % 3 == 0 && dice >> 6 & 1)
		part(m, (int)(dice >> 7) % KINDS, len / 8, dice >> 3 & 1, dice >> 4 & 1, dice >> 5 & 1, comm,
		     turn);
	else if (dice % 3 == 0)
		sum(m, root, len / 8, dice >> 3 & 1, dice >> 4 & 1, dice >> 5 & 1, comm, turn);
	else if (dice % 3 == 1)
		gather(m, root, dice >> 3 & 1, bytes, bytes, len, comm, turn);
	else
		scatter(m, root, dice >> 3 & 1, bytes, bytes, len, comm, turn);
}

static void all_lengths(const struct memory *m, MPI_Comm comm)
{
	for (size_t i = 0; i < LENGTHS; i++)
		for (int k = 0; k < 8 * 3 * ranks; k++)
			any(m, (unsigned)(k % 3 + k / 3 % 8 * 9), k / 24, lengths[i], comm, k);
	for (size_t i = 0; i < LENGTHS; i++)
		for (int k = 0; k < KINDS * 16; k++)
			part(m, k % KINDS, lengths[i] / 8, k / KINDS & 1, k / KINDS & 2, k / KINDS & 4, comm,
			     k);
}

/* A rank is ahead of a root by as many calls as there are places, and by one more; and others are roots in between. */
static void ahead(const struct memory *m, MPI_Comm comm)
{
	static const int each[] = {1, 3, 15, 16, 17, 40, 100};
	for (int i = 0; i < 7 * ranks; i++) {
		if (rank == (i + i / 7) % ranks)
			usleep(i % 3 ? 200 : 3000);
		for (int k = 0; k < each[i % 7]; k++)
			any(m, (unsigned)(i % 2 ? k : 3 * k), i % ranks, k % 3 ? 8 : 4000 + 8 * k, comm,
			    i + k);
	}
}

/* What a block is made of is each rank's own affair. */
static void all_types(const struct memory *m, MPI_Comm comm)
{
	static const int times[] = {1, 2, 5, 42, 43, 171, 682, 683};
	for (size_t k = 0; k < sizeof(times) / sizeof(*times); k++) {
		for (int i = 0; i < LAYOUTS * LAYOUTS; i++) {
			const struct layout *o = &layouts[(i + rank) % LAYOUTS];
			const struct layout *in = &layouts[(i / LAYOUTS + 2 * rank) % LAYOUTS];
			gather(m, i % ranks, !(i % 5), o, in, 24 * times[k], comm, i);
			scatter(m, i % ranks, !(i % 5), o, in, 24 * times[k], comm, i);
		}
		free_types(); /* a handle may be another type's */
		make_types();
	}
}

/* Some come late; other collectives by turns. */
static void mixed(const struct memory *m, MPI_Comm comm)
{
	static double v[20000], sums[20000];
	unsigned dice = 5;
	for (int i = 0; i < 800; i++) {
		dice = dice * 1103515245 + 12345;
		int len = lengths[(dice >> 16) % LENGTHS], n = (int)(dice >> 8) % 20000, bad = 0;
		if ((dice >> 24) % 8 == 0 && rank == i % ranks)
			usleep(i % 3 ? 300 : 4000);
		any(m, dice >> 10, (int)(dice >> 20) % ranks, len, comm, i);
		if ((dice >> 22 & 3) == 0) {
			for (int k = 0; k < n; k++)
				v[k] = i + k + rank;
			MPI_Allreduce(v, sums, n, MPI_DOUBLE, MPI_SUM, comm);
			for (int k = 0; k < n; k++)
				bad += sums[k] != ranks * (i + k + 0.5 * (ranks - 1));
			expect(!bad, "a sum for all in between", n);
		}
		if ((dice >> 25 & 7) == 0)
			MPI_Barrier(comm);
		if ((dice >> 25 & 7) == 1) {
			n = rank == i % ranks ? i : -1;
			MPI_Bcast(&n, 1, MPI_INT, i % ranks, comm);
			expect(n == i, "MPI_Bcast in between", n);
		}
	}
}

/* Fewer than are wanted, which MPIs put up with. */
static void fewer(const struct memory *m, MPI_Comm comm)
{
	int *v = (int *)m->in, bad = 0;
	for (int i = 0; i < 40; i++) {
		int mine[4] = {i, rank, i + 1, 5}, last = rank == ranks - 1;
		memset(v, 0, (size_t)ranks * 16);
		MPI_Gather(mine, last ? 3 : 4, MPI_INT, v, 4, MPI_INT, 0, comm);
		for (int r = 0; r < ranks && !rank; r++)
			bad += v[4 * r] != i || v[4 * r + 1] != r || v[4 * r + 2] != i + 1 ||
			       v[4 * r + 3] != (r == ranks - 1 ? 0 : 5);
	}
	expect(!bad, "fewer than are wanted", bad);
}

/* More alive at once than have memory, and more than that one after the other; and ranks in another order. */
static void communicators(const struct memory *m)
{
	MPI_Comm all[70], part, back;
	for (int i = 0; i < 70; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &all[i]);
		any(m, (unsigned)i, i % ranks, 8 + 8 * i, all[i], i);
	}
	for (int i = 0; i < 70; i++) {
		for (int k = 0; k < 40; k++)
			any(m, (unsigned)(k + i), k % ranks, 2000, all[i], i);
		MPI_Comm_free(&all[i]);
	}
	for (int i = 0; i < 40; i++) {
		MPI_Comm_split(MPI_COMM_WORLD, i % 2 ? 0 : rank % 2, -rank, &part);
		for (int k = 0; k < 60; k++)
			any(m, (unsigned)k, 0, 8 << k % 5, part, k);
		MPI_Comm_free(&part);
	}
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &back);
	all_lengths(m, back);
	MPI_Comm_free(&back);
	any(m, 0, 0, 64, MPI_COMM_SELF, 1);
	any(m, 1, 0, 64, MPI_COMM_SELF, 1);
	any(m, 2, 0, 64, MPI_COMM_SELF, 1);
}

/* Of two groups: one rank of the one gets what those of the other bring. */
static void between_groups(void)
{
	MPI_Comm half, inter;
	int others, bad = 0, side = rank % 2, one = rank, back = rank, all = 0, each[RANKS] = {0};
	if (ranks < 2)
		return;
	MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !side, 5, &inter);
	MPI_Comm_remote_size(inter, &others);
	int root = side ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
	for (int i = 0; i < 20; i++) {
		bool one_of = side || !rank;
		MPI_Datatype type = one_of ? MPI_INT : NONSENSE;
		MPI_Reduce(&one, &all, 1, MPI_INT, MPI_SUM, root, inter);
		MPI_Gather(&one, 1, side ? MPI_INT : NONSENSE, each, 1, side ? NONSENSE : type, root, inter);
		MPI_Scatter(each, 1, side ? NONSENSE : type, &back, 1, side ? MPI_INT : NONSENSE, root,
			    inter);
		bad += side && back != rank;
		for (int r = 0; r < others && !rank; r++) {
			all -= 2 * r + 1;
			bad += each[r] != 2 * r + 1;
		}
		bad += all != 0;
	}
	expect(!bad, "between groups", bad);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

static void any_beside(const struct memory *m, int i, MPI_Comm comm)
{
	any(m, (unsigned)i, i % ranks, 104, comm, i);
}

/* What MPI does not allow the handler hears, of whom it concerns; what follows is right again. */
static void wrongs(const struct memory *m, bool ours)
{
	MPI_Errhandler handler, was;
	MPI_Comm comm;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_create_errhandler(tell, &handler);
	MPI_Comm_get_errhandler(MPI_COMM_WORLD, &was);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Comm_set_errhandler(comm, handler);
	for (int i = 0; i < 60; i++)
		any(m, (unsigned)i, i % ranks, 104, comm, i);
	for (int i = 0; i < 3; i++) {
		told = 0;
		MPI_Reduce(m->out, m->in, 8, MPI_BYTE, MPI_BOR, ranks, comm);
		MPI_Gather(m->out, 8, MPI_BYTE, m->in, 8, MPI_BYTE, ranks, comm);
		MPI_Scatter(m->out, 8, MPI_BYTE, m->in, 8, MPI_BYTE, ranks, comm);
		expect(told == 3, "no root", told);
		told = 0;
		MPI_Gather(m->out, -1, MPI_INT, m->in, -1, MPI_INT, 0, comm);
		MPI_Scatter(m->out, -1, MPI_INT, m->in, -1, MPI_INT, 0, comm);
		expect(told == 2, "no count", told);
		any(m, (unsigned)i, i % ranks, 104, comm, i);
	}
	for (int i = 0; ours && i < 40; i++) {
		int root = i % ranks;
		told = 0;
		MPI_Reduce(m->out, m->out, 4, MPI_INT, MPI_SUM, root, comm);
		expect(told == (rank == root), "a root with one buffer", i);
		told = 0;
		MPI_Gather(m->out, rank == root ? 100 : 104, MPI_BYTE, m->in, 100, MPI_BYTE, root, comm);
		expect(told == (rank == root), "more than is wanted", told);
		told = 0;
		MPI_Scatter(m->out, rank == root ? 104 : 100, MPI_BYTE, m->in, 100, MPI_BYTE, root, comm);
		expect(told == 1, "more than are wanted", told);
		any(m, (unsigned)i, i % ranks, 104, comm, i);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, was);
	MPI_Errhandler_free(&handler);
	MPI_Errhandler_free(&was);
	MPI_Comm_free(&comm);
}

static void *in_thread(void *arg)
{
	struct memory m;
	memory_new(&m);
	for (int i = 0; i < 600; i++)
		any(&m, (unsigned)i * 5, i % ranks, lengths[i % LENGTHS], *(MPI_Comm *)arg, i);
	memory_free(&m);
	return NULL;
}

/* Whoever has no place any more waits for one that has ended. */
static void death(const char *word)
{
	int rc = 0, one = 1, all;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; !rc && i < 1000000; i++) {
		if (rank == 1 && i == 500)
			raise(SIGKILL);
		rc = MPI_Reduce(&one, &all, 1, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
	}
	FILE *f = rc ? fopen(word, "w") : NULL;
	if (f)
		fclose(f);
	_exit(f ? 0 : 1);
}

int main(int argc, char **argv)
{
	struct memory m;
	begin(argc, argv);
	if (!strcmp(run_how, "-d") && argc > 2)
		death(argv[2]);
	memory_new(&m);
	make_types();
	to_the_bit(MPI_COMM_WORLD);
	all_lengths(&m, MPI_COMM_WORLD);
	operations(MPI_COMM_WORLD);
	by_another_name();
	all_types(&m, MPI_COMM_WORLD);
	mixed(&m, MPI_COMM_WORLD);
	ahead(&m, MPI_COMM_WORLD);
	fewer(&m, MPI_COMM_WORLD);
	communicators(&m);
	between_groups();
	beside_messages(&m, MPI_COMM_WORLD, any_beside);
	if (run_many)
		threads(in_thread);
	wrongs(&m, run_ours);
	free_types();
	memory_free(&m);
	return end();
}
