/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short MPI_Alltoall, MPI_Allgather, MPI_Allgatherv and, of more than two ranks, MPI_Bcast, which libsennit-mpi.so makes without
 * messages (shim/blocks.h, bcast.h): every byte of each block, and none beside them, from the first call on; at each
 * length where something begins, of types that lie otherwise on each rank, in place, on whatever communicator, and
 * beside whatever else is under way.
 *
 *     blocks [-w | -v | -s | -m]
 *         -w, -v, -s: as sums.c, and each call is the MPI's; -m: with MPI_THREAD_MULTIPLE, several threads at once
 */
#define NAME "blocks"
#include "blocks_run.h"
#include "told.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a call ---- */

static int call(bool all, bool in_place, const struct memory *m, const struct layout *o,
		const struct layout *in, int len, MPI_Comm comm)
{
	const void *out = in_place ? MPI_IN_PLACE : m->out;
	int count = in_place ? 0 : count_of(o, len);
	MPI_Datatype type = in_place ? MPI_DATATYPE_NULL : o->type;
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	return all ? MPI_Alltoall(out, count, type, m->in, count_of(in, len), in->type, comm)
		   : MPI_Allgather(out, count, type, m->in, count_of(in, len), in->type, comm);
}

static int wrong_bytes(const struct memory *m, const struct layout *l, int len, int me, int size, bool all,
		       int turn)
{
	size_t span = span_of(l, len);
	int bad = 0;
	for (int r = 0; r < size; r++) {
		bad += wrong(m->in + (size_t)r * span, l, len, r, all ? me : -1, turn);
	}
	return bad + beside(m->in, (size_t)size * span + 64);
}

static void one(bool all, bool in_place, const struct memory *m, const struct layout *o,
		const struct layout *in, int len, MPI_Comm comm, int turn)
{
	int me, size;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &size);
	memset(m->in, BLANK, (size_t)size * span_of(in, len) + 64);
	for (int r = 0; r < size; r++) {
		if (in_place && (all || r == me))
			fill(m->in + (size_t)r * span_of(in, len), in, len, me, all ? r : -1, turn);
		if (!in_place && (all || !r))
			fill(m->out + (size_t)r * span_of(o, len), o, len, me, all ? r : -1, turn);
	}
	int rc = call(all, in_place, m, o, in, len, comm);
	int bad = rc ? -1 : wrong_bytes(m, in, len, me, size, all, turn);
	expect(!bad, all ? "MPI_Alltoall" : "MPI_Allgather", len * 1000L + bad);
}

/* Of each rank another length, none of some, and they lie the other way round. */
static void vary(bool in_place, const struct memory *m, const struct layout *o, const struct layout *in,
		 int len, MPI_Comm comm, int turn)
{
	int me, size, bad = 0, lens[RANKS], counts[RANKS], displs[RANKS];
	size_t span = span_of(in, len);
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &size);
	memset(m->in, BLANK, (size_t)size * span + 64);
	for (int r = 0; r < size; r++) {
		int third = (r + turn) % 3;
		lens[r] = third == 0 ? 0 : third == 1 ? len : len % 24 ? len / 2 : len / 48 * 24;
		counts[r] = count_of(in, lens[r]);
		displs[r] = (size - 1 - r) * count_of(in, len);
	}
	unsigned char *mine = in_place ? m->in + (size_t)(size - 1 - me) * span : m->out;
	fill(mine, in_place ? in : o, lens[me], me, -1, turn);
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	int rc =
		MPI_Allgatherv(in_place ? MPI_IN_PLACE : m->out, in_place ? 0 : count_of(o, lens[me]),
			       in_place ? MPI_DATATYPE_NULL : o->type, m->in, counts, displs, in->type, comm);
	for (int r = 0; r < size; r++)
		bad += wrong(m->in + (size_t)(size - 1 - r) * span, in, lens[r], r, -1, turn);
	bad += beside(m->in, (size_t)size * span + 64);
	expect(!rc && !bad, "MPI_Allgatherv", len * 1000L + bad);
}

static void cast(int root, const struct memory *m, const struct layout *l, int len, MPI_Comm comm, int turn)
{
	int me, bad = 0;
	size_t span = span_of(l, len);
	MPI_Comm_rank(comm, &me);
	memset(m->in, BLANK, span + 64);
	if (me == root)
		fill(m->in, l, len, root, -1, turn);
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	int rc = MPI_Bcast(m->in, count_of(l, len), l->type, root, comm);
	bad += wrong(m->in, l, len, root, -1, turn) + beside(m->in, span + 64);
	expect(!rc && !bad, "MPI_Bcast", len * 1000L + bad);
}

/* ---- what is tried ---- */

static const int lengths[] = {1,    3,	  4,	7,    8,    12,	  15,	 16,	17,    24,    47,    48,  49,
			      63,   64,	  65,	85,   96,   97,	  128,	 170,	255,   256,   341,   342, 512,
			      1000, 1023, 1024, 1025, 4096, 8191, 16383, 16384, 16385, 40000, 65536, MOST};

static void all_lengths(const struct memory *m, MPI_Comm comm)
{
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		for (int way = 0; way < 4; way++)
			for (int again = 0; again < 3; again++) {
				one(way & 1, way & 2, m, &layouts[BYTES], &layouts[BYTES], lengths[i], comm,
				    again);
				vary(way & 2, m, &layouts[BYTES], &layouts[BYTES], lengths[i], comm, again);
			}
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		for (int again = 0; again < 2 * ranks; again++)
			cast(again % ranks, m, &layouts[BYTES], lengths[i], comm, again);
}

/* A root is ahead of who reads by as many calls as there are places, and by one more; and others are roots in between. */
static void ahead(const struct memory *m, MPI_Comm comm)
{
	static const int each[] = {1, 3, 15, 16, 17, 40, 100};
	for (int i = 0; i < 7 * ranks; i++) {
		if (rank == (i + 1) % ranks)
			usleep(i % 3 ? 200 : 3000);
		for (int k = 0; k < each[i % 7]; k++)
			cast(i % ranks, m, &layouts[BYTES], k % 3 ? 8 : 4000 + k, comm, i + k);
	}
}

/*
 * Intel MPI chooses algorithms by what each rank has for itself, so that they differ, and messages do not meet; Open
 * MPI that of MPI_Allgatherv.
 */
static bool is(const char *name)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int len;
	MPI_Get_library_version(text, &len);
	return strstr(text, name) != NULL;
}

static bool is_intels(void)
{
	return is("Intel");
}

/* What a block is made of is each rank's own affair. */
static void all_types(const struct memory *m, MPI_Comm comm, bool ours)
{
	static const int times[] = {1, 2, 5, 40, 171, 400, 682, 683};
	size_t count = sizeof(times) / sizeof(*times);
	if (is_intels())
		count = ours ? count - 1 : 0;
	for (size_t k = 0; k < count; k++) {
		for (int i = 0; i < LAYOUTS * LAYOUTS; i++) {
			const struct layout *o = &layouts[(i + rank) % LAYOUTS];
			const struct layout *in = &layouts[(i / LAYOUTS + 2 * rank) % LAYOUTS];
			one(i & 1, !(i % 5), m, o, in, 24 * times[k], comm, i);
			if ((ours && times[k] < 683) || !is("Open MPI"))
				vary(!(i % 5), m, o, in, 24 * times[k], comm, i);
			cast(i % ranks, m, o, 24 * times[k], comm, i);
		}
	}
}

/* A type's handle may be another's when it is freed. */
static void types_again(const struct memory *m, MPI_Comm comm, bool ours)
{
	for (int i = 0; i < 20 && (ours || !is_intels()); i++) {
		one(i & 1, false, m, &layouts[TOGETHER + (i + rank) % 4], &layouts[BYTES], 24 * (1 + i), comm,
		    i);
		free_types();
		make_types();
	}
}

/* Some come late; long and short ones, and other collectives, by turns. */
static void mixed(const struct memory *m, MPI_Comm comm)
{
	static double v[20000], sum[20000];
	unsigned dice = 5;
	for (int i = 0; i < 600; i++) {
		dice = dice * 1103515245 + 12345;
		int len = lengths[(dice >> 16) % (sizeof(lengths) / sizeof(*lengths))],
		    n = (int)(dice >> 8) % 20000, wrong = 0;
		if ((dice >> 24) % 8 == 0 && rank == i % ranks)
			usleep(i % 3 ? 300 : 4000);
		if ((dice >> 28 & 3) == 0)
			cast((int)(dice >> 10) % ranks, m, &layouts[BYTES], len, comm, i);
		else
			one(dice >> 20 & 1, dice >> 21 & 1, m, &layouts[BYTES], &layouts[BYTES], len, comm,
			    i);
		if ((dice >> 18 & 3) == 0)
			vary(dice >> 21 & 1, m, &layouts[BYTES], &layouts[BYTES], len, comm, i);
		if ((dice >> 22 & 3) == 0) {
			for (int k = 0; k < n; k++)
				v[k] = i + k + rank;
			MPI_Allreduce(v, sum, n, MPI_DOUBLE, MPI_SUM, comm);
			for (int k = 0; k < n; k++)
				wrong += sum[k] != ranks * (i + k + 0.5 * (ranks - 1));
			expect(!wrong, "a sum in between", n);
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

/*
 * What some lend of a sum others may not have read when the next call begins. Blocks of two cache lines to 16 KiB, by
 * which rings go round.
 */
static void beside_lent_sums(const struct memory *m, MPI_Comm comm)
{
	enum { COUNT = 12 << 10 };
	static double fixed[COUNT], sum[COUNT];
	double *v = rank % 2 ? malloc(4 << 20) : fixed;
	for (int i = 0; i < 150; i++) {
		int wrong = 0;
		for (int k = 0; k < COUNT; k++)
			v[k] = i + k + rank;
		MPI_Allreduce(v, sum, COUNT, MPI_DOUBLE, MPI_SUM, comm);
		for (int again = 0; again < 1 + i % 3; again++)
			one(true, false, m, &layouts[BYTES], &layouts[BYTES], i % 7 ? 16384 : 128 * i, comm,
			    i);
		for (int k = 0; k < COUNT; k++)
			wrong += sum[k] != ranks * (i + k + 0.5 * (ranks - 1));
		expect(!wrong, "a sum of which one rank lends", wrong);
	}
	if (rank % 2)
		free(v);
}

/* What many programs do, and MPIs put up with: one buffer for both (Open MPI), and less than is wanted. */
static void sloppy(const struct memory *m, MPI_Comm comm)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING];
	int len, bad = 0, *v = (int *)m->in, last = rank == ranks - 1;
	MPI_Get_library_version(version, &len);
	for (int i = 0; i < 40 && strstr(version, "Open MPI"); i++) {
		for (int r = 0; r < ranks; r++)
			v[r] = r == rank ? i + r : -1;
		MPI_Allgather(&v[rank], 1, MPI_INT, v, 1, MPI_INT, comm);
		for (int r = 0; r < ranks; r++)
			bad += v[r] != i + r;
	}
	expect(!bad, "one buffer for both", bad);
	for (int i = 0; i < 40 && !is_intels(); i++) { /* who fails at it with three ranks */
		int mine[4] = {i, rank, i + 1, 5};
		memset(v, 0, (size_t)ranks * 16);
		MPI_Allgather(mine, last ? 3 : 4, MPI_INT, v, 4, MPI_INT, comm);
		for (int r = 0; r < ranks; r++)
			bad += v[4 * r] != i || v[4 * r + 1] != r || v[4 * r + 2] != i + 1 ||
			       v[4 * r + 3] != (r == ranks - 1 ? 0 : 5);
	}
	expect(!bad, "less than is wanted", bad);
}

/* A type of the MPI's own that has holes. */
static void holes(const struct memory *m, MPI_Comm comm)
{
	struct {
		double d;
		int i;
	} mine = {rank + 0.5, rank}, *all = (void *)m->in;
	for (int i = 0; i < 20; i++) {
		int bad = 0;
		memset(all, 0, sizeof(*all) * (size_t)ranks);
		MPI_Allgather(&mine, 1, MPI_DOUBLE_INT, all, 1, MPI_DOUBLE_INT, comm);
		for (int r = 0; r < ranks; r++)
			bad += all[r].d != r + 0.5 || all[r].i != r;
		for (int r = 0; r < ranks && rank; r++)
			all[r].d = -1;
		MPI_Bcast(all, ranks, MPI_DOUBLE_INT, 0, comm);
		for (int r = 0; r < ranks; r++)
			bad += all[r].d != r + 0.5 || all[r].i != r;
		expect(!bad, "holes", bad);
	}
}

/* Many alive at once, more than have memory, and more than that one after the other. */
static void communicators(const struct memory *m)
{
	MPI_Comm all[70], part, back;
	for (int i = 0; i < 70; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &all[i]);
		one(i & 1, false, m, &layouts[BYTES], &layouts[BYTES], 8 + i, all[i], i);
	}
	for (int i = 0; i < 70; i++) {
		for (int k = 0; k < 20; k++)
			one(i & 1, k & 1, m, &layouts[BYTES], &layouts[BYTES], 2000, all[i], i);
		for (int k = 0; k < 3; k++)
			cast(k % ranks, m, &layouts[BYTES], 100 + i, all[i], i);
		MPI_Comm_free(&all[i]);
	}
	for (int i = 0; i < 40; i++) {
		MPI_Comm_split(MPI_COMM_WORLD, i % 2 ? 0 : rank % 2, -rank, &part);
		for (int k = 0; k < 22; k++)
			one(k & 1, false, m, &layouts[BYTES], &layouts[BYTES], 8 << k % 5, part, k);
		cast(0, m, &layouts[BYTES], 1 + i, part, i);
		MPI_Comm_free(&part);
	}
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &back);
	all_lengths(m, back);
	MPI_Comm_free(&back);
	one(true, false, m, &layouts[BYTES], &layouts[BYTES], 100, MPI_COMM_SELF, 1);
}

/* Of two groups: what comes is the other's. */
static void between_groups(const struct memory *m)
{
	MPI_Comm half, inter;
	int all, bad = 0, side = rank % 2;
	if (ranks < 2)
		return;
	MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !side, 5, &inter);
	MPI_Comm_remote_size(inter, &all);
	for (int i = 0; i < 5; i++) {
		memset(m->in, 0, 16);
		memset(m->out, side + 1, 16);
		MPI_Alltoall(m->out, 1, MPI_BYTE, m->in, 1, MPI_BYTE, inter);
		for (int r = 0; r < all; r++)
			bad += m->in[r] != !side + 1;
	}
	expect(!bad, "blocks of another kind", bad);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

static void no_bytes(const struct memory *m, int lengths_of, MPI_Comm comm)
{
	MPI_Datatype vector;
	MPI_Type_vector(2, 1, 2, MPI_INT, &vector); /* and is not committed */
	MPI_Alltoall(m->out, lengths_of, vector, m->in, 8 * lengths_of, MPI_BYTE, comm);
	MPI_Type_free(&vector);
}

/* Of a type that is no more than made all hear, and it is one like any other as soon as it is committed. */
static void committed_later(MPI_Errhandler handler)
{
	MPI_Comm comm;
	MPI_Datatype type;
	static int out[2000], in[2000];
	int bad = 0;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, handler);
	for (int when = 0; when < 40; when += 20) { /* before there is memory, and since */
		MPI_Type_vector(2, 1, 2, MPI_INT, &type);
		if (!rank && !when) {
			told = 0;
			MPI_Pack(out, 1, type, in, 8000, &(int){0}, comm);
			expect(told == 1, "a type that is not committed", told);
		} else if (when) {
			told = 0;
			MPI_Alltoall(out, 1, rank ? MPI_LONG : type, in, 2, MPI_INT, comm);
			expect(told == 1, "a rank's type that is not committed", told);
		}
		MPI_Type_commit(&type);
		told = 0;
		for (int i = 0; i < 20; i++) {
			for (int k = 0; k < 3 * ranks; k++)
				out[k] = i + rank;
			memset(in, 0, sizeof(in));
			MPI_Alltoall(out, 1, type, in, 2, MPI_INT, comm);
			for (int r = 0; r < ranks; r++)
				bad += in[2 * r] != i + r || in[2 * r + 1] != i + r;
		}
		expect(!told && !bad, "a type committed later", when);
		MPI_Type_free(&type);
	}
	MPI_Comm_free(&comm);
}

/* Each rank hears of it, and, if they are not where others think, of each call after that; nobody waits for ever. */
static void disagree(const struct memory *m, MPI_Errhandler handler, int way)
{
	MPI_Comm comm;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int k = 0; k < 20; k++)
		one(k & 1, false, m, &layouts[BYTES], &layouts[BYTES], 100, comm, k);
	MPI_Comm_set_errhandler(comm, handler);
	told = 0;
	int len = (way == 1 ? 5000 : 100) + (way < 2 && !rank ? 4 : 0);
	if (way == 2 && !rank)
		no_bytes(m, 100, comm);
	else if (way == 2)
		MPI_Alltoall(m->out, 800, MPI_BYTE, m->in, 800, MPI_BYTE, comm);
	else
		MPI_Alltoall(m->out, len, MPI_BYTE, m->in, len, MPI_BYTE, comm);
	expect(told > 0, "ranks that disagree", way);
	MPI_Barrier(MPI_COMM_WORLD);
	told = 0;
	if (way == 2)
		one(true, false, m, &layouts[BYTES], &layouts[BYTES], 5000, comm, way);
	else
		MPI_Alltoall(m->out, 100, MPI_BYTE, m->in, 100, MPI_BYTE, comm);
	expect(told == (way < 2), "after ranks disagreed", way);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Comm_free(&comm);
	if (ranks < 3)
		return;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int k = 0; k < 20; k++)
		cast(k % ranks, m, &layouts[BYTES], 100, comm, k);
	MPI_Comm_set_errhandler(comm, handler);
	told = 0;
	MPI_Bcast(m->in, rank ? 104 : 100, MPI_BYTE, 0, comm);
	expect(told == 0, "a shorter broadcast", way);
	MPI_Bcast(m->in, rank ? 100 : 104, MPI_BYTE, 0, comm);
	expect(told == (rank > 0), "readers that disagree", way);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Comm_free(&comm);
}

/* One wants nothing of another that brings some, while the longest of the blocks are as long for all. */
static void wants_less(const struct memory *m, MPI_Errhandler handler)
{
	MPI_Comm comm;
	int counts[RANKS], places[RANKS];
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int k = 0; k < 20; k++)
		one(false, false, m, &layouts[BYTES], &layouts[BYTES], 20, comm, k);
	MPI_Comm_set_errhandler(comm, handler);
	for (int r = 0; r < ranks; r++) {
		counts[r] = rank || r < ranks - 1 ? 20 : 0;
		places[r] = 20 * r;
	}
	told = 0;
	MPI_Allgatherv(m->out, 20, MPI_BYTE, m->in, counts, places, MPI_BYTE, comm);
	expect(told == !rank, "a rank that wants less", told);
	one(false, false, m, &layouts[BYTES], &layouts[BYTES], 20, comm, 20);
	MPI_Comm_free(&comm);
}

/*
 * What MPI does not allow is told by the handler, and what follows is right again; where ranks disagree no rank waits
 * for ever.
 */
static void wrongs(const struct memory *m, bool ours)
{
	MPI_Errhandler handler, was;
	MPI_Comm comm;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_create_errhandler(tell, &handler);
	MPI_Comm_get_errhandler(MPI_COMM_WORLD, &was);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Comm_set_errhandler(comm, handler);
	for (int i = 0; i < 3; i++) {
		told = 0;
		MPI_Alltoall(m->out, -1, MPI_BYTE, m->in, -1, MPI_BYTE, comm);
		expect(told == 1, "a negative count", told);
		told = 0;
		MPI_Alltoall(m->out, 8, MPI_DATATYPE_NULL, m->in, 8, MPI_DATATYPE_NULL, comm);
		expect(told == 1, "no type", told);
		told = 0;
		MPI_Alltoall(m->out, 8, MPI_BYTE, m->in, 8, MPI_BYTE, MPI_COMM_NULL);
		expect(told == 1, "no communicator", told);
		told = 0;
		MPI_Bcast(m->in, 8, MPI_BYTE, ranks, comm);
		expect(told == 1, "no root", told);
		one(i & 1, false, m, &layouts[BYTES], &layouts[BYTES], 100, comm, i);
	}
	for (int i = 0; ours && i < 3; i++)
		disagree(m, handler, i);
	if (ours) {
		wants_less(m, handler);
		committed_later(handler);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, was);
	MPI_Errhandler_free(&handler);
	MPI_Errhandler_free(&was);
	MPI_Comm_free(&comm);
}

static void one_beside(const struct memory *m, int i, MPI_Comm comm)
{
	one(i & 1, false, m, &layouts[BYTES], &layouts[BYTES], 100, comm, i);
}

static void *in_thread(void *arg)
{
	struct memory m;
	memory_new(&m);
	for (int i = 0; i < 300; i++) {
		one(i & 1, i & 2, &m, &layouts[BYTES], &layouts[BYTES], lengths[i % 30], *(MPI_Comm *)arg, i);
		cast(i % ranks, &m, &layouts[BYTES], lengths[i % 30], *(MPI_Comm *)arg, i);
	}
	memory_free(&m);
	return NULL;
}

int main(int argc, char **argv)
{
	struct memory m;
	begin(argc, argv);
	memory_new(&m);
	make_types();
	all_lengths(&m, MPI_COMM_WORLD);
	all_types(&m, MPI_COMM_WORLD, run_ours);
	types_again(&m, MPI_COMM_WORLD, run_ours);
	mixed(&m, MPI_COMM_WORLD);
	ahead(&m, MPI_COMM_WORLD);
	beside_lent_sums(&m, MPI_COMM_WORLD);
	sloppy(&m, MPI_COMM_WORLD);
	holes(&m, MPI_COMM_WORLD);
	communicators(&m);
	between_groups(&m);
	beside_messages(&m, MPI_COMM_WORLD, one_beside);
	if (run_many)
		threads(in_thread);
	wrongs(&m, run_ours);
	free_types();
	memory_free(&m);
	return end();
}
