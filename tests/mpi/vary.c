/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Alltoallv, MPI_Alltoallw, MPI_Gatherv and MPI_Scatterv, whose short blocks libsennit-mpi.so moves without messages
 * (shim/vary.h, bcast.h, rooted.h): every byte of each block, and none beside them; of each pair of ranks another length, none
 * of some; at each length where something begins, with long ones among them or not, of types that lie otherwise on each
 * rank, in place, on whatever communicator, and beside whatever else is under way; by some ranks with counts of MPI 4.
 *
 *     vary [-w | -v | -s | -m]
 *         as blocks.c
 *     vary -l
 *         and where there are as many communicators as the MPI has, before that
 */
#define NAME "vary"
#include "blocks_run.h"
#include "large.h"
#include "told.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONSENSE MPI_DATATYPE_NULL /* where an argument is said not to matter */
#ifdef MPICH
#define UNASKED (MPI_Datatype)0x5a5a5a5a /* of no element: in MPI_Alltoallw MPICH does not ask what it is */
#else
#define UNASKED MPI_BYTE
#endif

enum { ALLTOALLV, ALLTOALLW, GATHERV, SCATTERV, KINDS };
static const char *const names[] = {"MPI_Alltoallv", "MPI_Alltoallw", "MPI_Gatherv", "MPI_Scatterv"};

/* ---- a call ---- */

/* Of the block from one rank to another: the same both ways, for calls in place. */
static int len_of(int from, int to, int most, int turn)
{
	int step = most % 24 ? 1 : 24;
	switch ((from + to + from * to + turn) % 5) {
	case 0: return 0;
	case 1: return most / 2 / step * step;
	case 2: return most < 24 ? most : 24;
	default: return most;
	}
}

/* What one rank says of all blocks that it sends, or gets: they lie the other way round. */
struct side {
	const struct layout *l[RANKS];
	int lens[RANKS], counts[RANKS], displs[RANKS];
	MPI_Datatype types[RANKS];
	size_t at[RANKS], span; /* in bytes */
	MPI_Count many[RANKS];	/* as counts and displs */
	MPI_Aint far[RANKS];
};

/* Whether this rank calls the one with _c, where there is one. */
static bool wide(int turn)
{
	return MPI_Alltoallv_c && (rank + turn) % 3 == 0;
}

static void side_of(struct side *s, int kind, const struct layout *l, int me, int size, bool out, int most,
		    int turn)
{
	size_t widest = most % 24 ? (size_t)most : (size_t)most / 24 * 60;
	s->span = kind == ALLTOALLW ? widest : span_of(l, most);
	for (int r = 0; r < size; r++) {
		bool mixes = kind == ALLTOALLW && most % 24 == 0;
		s->l[r] = mixes ? &layouts[((int)(l - layouts) + r) % LAYOUTS] : l;
		s->lens[r] = out ? len_of(me, r, most, turn) : len_of(r, me, most, turn);
		s->counts[r] = count_of(s->l[r], s->lens[r]);
		s->types[r] = s->l[r]->type;
		s->at[r] = (size_t)(size - 1 - r) * s->span;
		s->displs[r] = kind == ALLTOALLW ? (int)s->at[r] : (size - 1 - r) * count_of(l, most);
		s->many[r] = s->counts[r];
		s->far[r] = s->displs[r];
	}
}

static int all_to_all(int kind, bool in_place, const struct memory *m, const struct layout *o,
		      const struct layout *l, int most, MPI_Comm comm, int turn)
{
	struct side out, in;
	int me, size, bad = 0, rc;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &size);
	side_of(&out, kind, o, me, size, true, most, turn);
	side_of(&in, kind, l, me, size, false, most, turn);
	memset(m->in, BLANK, (size_t)size * in.span + 64);
	for (int r = 0; r < size && !in_place; r++) {
		out.types[r] = out.counts[r] ? out.types[r] : UNASKED;
		in.types[r] = in.counts[r] ? in.types[r] : UNASKED;
	}
	for (int r = 0; r < size; r++) {
		if (in_place)
			fill(m->in + in.at[r], in.l[r], in.lens[r], me, r, turn);
		else
			fill(m->out + out.at[r], out.l[r], out.lens[r], me, r, turn);
	}
	const void *from = in_place ? MPI_IN_PLACE : m->out;
	const int *counts = in_place ? NULL : out.counts, *displs = in_place ? NULL : out.displs;
	if (kind == ALLTOALLV && wide(turn))
		rc = MPI_Alltoallv_c(from, in_place ? NULL : out.many, in_place ? NULL : out.far,
				     in_place ? NONSENSE : o->type, m->in, in.many, in.far, l->type, comm);
	else if (wide(turn))
		rc = MPI_Alltoallw_c(from, in_place ? NULL : out.many, in_place ? NULL : out.far,
				     in_place ? NULL : out.types, m->in, in.many, in.far, in.types, comm);
	else if (kind == ALLTOALLV)
		rc = MPI_Alltoallv(from, counts, displs, in_place ? NONSENSE : o->type, m->in, in.counts,
				   in.displs, l->type, comm);
	else
		rc = MPI_Alltoallw(from, counts, displs, in_place ? NULL : out.types, m->in, in.counts,
				   in.displs, in.types, comm);
	for (int r = 0; r < size; r++)
		bad += wrong(m->in + in.at[r], in.l[r], in.lens[r], r, me, turn);
	return rc ? -1 : bad + beside(m->in, (size_t)size * in.span + 64);
}

static int gather(int root, bool in_place, const struct memory *m, const struct layout *o,
		  const struct layout *l, int most, MPI_Comm comm, int turn)
{
	struct side in;
	int me, size, bad = 0;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &size);
	bool here = me == root;
	int len = len_of(me, root, most, turn);
	in_place = in_place && here;
	side_of(&in, GATHERV, l, root, size, false, most, turn);
	memset(m->in, BLANK, (size_t)size * in.span + 64);
	fill(in_place ? m->in + in.at[me] : m->out, in_place ? l : o, len, me, root, turn);
	const void *from = in_place ? MPI_IN_PLACE : m->out;
	int count = in_place ? -7 : count_of(o, len);
	MPI_Datatype type = in_place ? NONSENSE : o->type, in_type = here ? l->type : NONSENSE;
	void *to = here ? m->in : NULL;
	int rc = wide(turn) ? MPI_Gatherv_c(from, count, type, to, here ? in.many : NULL,
					    here ? in.far : NULL, in_type, root, comm)
			    : MPI_Gatherv(from, count, type, to, here ? in.counts : NULL,
					  here ? in.displs : NULL, in_type, root, comm);
	for (int r = 0; r < size && here; r++)
		bad += wrong(m->in + in.at[r], l, in.lens[r], r, root, turn);
	return rc ? -1 : bad + beside(m->in, (size_t)size * in.span + 64);
}

static int scatter(int root, bool in_place, const struct memory *m, const struct layout *o,
		   const struct layout *l, int most, MPI_Comm comm, int turn)
{
	struct side out;
	int me, size, bad = 0;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &size);
	bool here = me == root;
	int len = len_of(root, me, most, turn);
	in_place = in_place && here;
	side_of(&out, SCATTERV, o, root, size, true, most, turn);
	memset(m->in, BLANK, span_of(l, most) + 64);
	for (int r = 0; r < size && here; r++)
		fill(m->out + out.at[r], o, out.lens[r], root, r, turn);
	const void *from = here ? m->out : NULL;
	void *to = in_place ? MPI_IN_PLACE : m->in;
	int count = in_place ? -7 : count_of(l, len);
	MPI_Datatype type = here ? o->type : NONSENSE, in_type = in_place ? NONSENSE : l->type;
	int rc = wide(turn) ? MPI_Scatterv_c(from, here ? out.many : NULL, here ? out.far : NULL, type, to,
					     count, in_type, root, comm)
			    : MPI_Scatterv(from, here ? out.counts : NULL, here ? out.displs : NULL, type, to,
					   count, in_type, root, comm);
	if (!in_place)
		bad = wrong(m->in, l, len, root, me, turn);
	return rc ? -1 : bad + beside(m->in, span_of(l, most) + 64);
}

/* In place: on who is the root, or on all ranks. */
static void one(int kind, int root, bool in_place, const struct memory *m, const struct layout *o,
		const struct layout *l, int most, MPI_Comm comm, int turn)
{
	int bad = kind == GATHERV    ? gather(root, in_place, m, o, l, most, comm, turn)
		  : kind == SCATTERV ? scatter(root, in_place, m, o, l, most, comm, turn)
				     : all_to_all(kind, in_place, m, o, l, most, comm, turn);
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	expect(!bad, names[kind], most * 1000L + bad);
}

/* ---- what is tried ---- */

static const int lengths[] = {1,    7,	  8,	16,   24,   40,	   41,	  47,	48,   49,   63,
			      64,   65,	  96,	100,  256,  1000,  1024,  1025, 4096, 8191, 16368,
			      8191, 8200, 4000, 1000, 4096, 16383, 16384, 300,	40,   96};
#define LENGTHS (sizeof(lengths) / sizeof(*lengths))
static const int long_ones[] = {16385, 16392, 32768, 65544};

/* One of them. */
static void any(const struct memory *m, unsigned dice, int root, int most, MPI_Comm comm, int turn)
{
	const struct layout *bytes = &layouts[BYTES];
	one((int)(dice % KINDS), root, dice >> 2 & 1, m, bytes, bytes, most, comm, turn);
}

static void all_lengths(const struct memory *m, MPI_Comm comm)
{
	int size;
	MPI_Comm_size(comm, &size);
	for (size_t i = 0; i < LENGTHS; i++)
		for (int k = 0; k < 8 * 5; k++)
			any(m, (unsigned)k, (k + (int)i) % size, lengths[i], comm, k / 8);
}

/* So that all leave out some calls before they ask again. */
static void long_and_short(const struct memory *m, MPI_Comm comm)
{
	unsigned dice = 7;
	for (int i = 0; i < 200; i++) {
		dice = dice * 1103515245 + 12345;
		bool is_long = i % 40 < 12 || (dice >> 20 & 7) == 0;
		any(m, dice >> 12, (int)(dice >> 24) % ranks,
		    is_long ? long_ones[dice >> 16 & 3] : lengths[(dice >> 16) % LENGTHS], comm, i);
	}
}

/* In every other call one pair's block is long, of which only these two know. */
static void one_is_long(const struct memory *m, MPI_Comm comm)
{
	const struct layout *bytes = &layouts[BYTES];
	int out[RANKS], in[RANKS], places[RANKS];
	for (int i = 0; i < 4 * ranks * ranks; i++) {
		int from = i / 2 % ranks, to = i / 2 / ranks % ranks, bad = 0;
		for (int r = 0; r < ranks; r++) {
			out[r] = i % 2 && rank == from && r == to ? 20000 : 100;
			in[r] = i % 2 && r == from && rank == to ? 20000 : 100;
			places[r] = r * MOST;
			fill(m->out + places[r], bytes, out[r], rank, r, i);
		}
		MPI_Alltoallv(m->out, out, places, MPI_BYTE, m->in, in, places, MPI_BYTE, comm);
		for (int r = 0; r < ranks; r++)
			bad += wrong(m->in + places[r], bytes, in[r], r, rank, i);
		MPI_Gatherv(m->out + places[to], out[to], MPI_BYTE, m->in, in, places, MPI_BYTE, to, comm);
		for (int r = 0; r < ranks && rank == to; r++)
			bad += wrong(m->in + places[r], bytes, in[r], r, rank, i);
		expect(!bad, "one that is long", i);
	}
}

/* A rank is ahead of others by as many calls as there are places, and by one more; and others are roots in between. */
static void ahead(const struct memory *m, MPI_Comm comm)
{
	static const int each[] = {1, 3, 15, 16, 17, 40, 100};
	for (int i = 0; i < 7 * ranks; i++) {
		if (rank == (i + i / 7) % ranks)
			usleep(i % 3 ? 200 : 3000);
		for (int k = 0; k < each[i % 7]; k++) { /* what the root packs lies in a place, too */
			int kind = i % 2 ? GATHERV : SCATTERV, most = k % 3 ? 24 : 24 * (160 + k);
			one(kind, i % ranks, false, m, &layouts[k % 2 ? APART : DOUBLES],
			    &layouts[k % 4 ? DOUBLES : WIDE], most, comm, i + k);
		}
	}
}

/* What a root packs lies where it has brought something along, which the root before it has not read yet. */
static void root_after_root(const struct memory *m, MPI_Comm comm)
{
	const struct layout *bytes = &layouts[BYTES];
	for (int i = 0; i < 10 * ranks; i++) {
		int late = i % ranks;
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == late)
			usleep(1000);
		for (int k = 0; k < 16 + i % 3; k++)
			one(GATHERV, late, false, m, bytes, bytes, 4800, comm, i + k);
		one(GATHERV, (late + 1) % ranks, false, m, &layouts[APART], &layouts[WIDE], 4800, comm, i);
	}
}

/* What a block is made of is each rank's own affair. */
static void all_types(const struct memory *m, MPI_Comm comm)
{
	static const int times[] = {1, 2, 5, 42, 171, 682, 683, 2730};
	for (size_t k = 0; k < sizeof(times) / sizeof(*times); k++) {
		for (int i = 0; i < LAYOUTS * LAYOUTS; i++) {
			const struct layout *o = &layouts[(i + rank) % LAYOUTS];
			const struct layout *l = &layouts[(i / LAYOUTS + 2 * rank) % LAYOUTS];
			for (int kind = 0; kind < KINDS; kind++)
				one(kind, i % ranks, !(i % 5), m, o, l, 24 * times[k], comm, i);
		}
		free_types(); /* a handle may be another type's */
		make_types();
	}
}

/* Some come late; other collectives by turns. */
static void mixed(const struct memory *m, MPI_Comm comm)
{
	static double v[20000], sums[20000];
	static char blocks[2][RANKS * 16384];
	unsigned dice = 5;
	for (int i = 0; i < 600; i++) {
		dice = dice * 1103515245 + 12345;
		int most = lengths[(dice >> 16) % LENGTHS], n = (int)(dice >> 8) % 20000, bad = 0;
		if ((dice >> 24) % 8 == 0 && rank == i % ranks)
			usleep(i % 3 ? 300 : 4000);
		any(m, dice >> 10, (int)(dice >> 20) % ranks, most, comm, i);
		if ((dice >> 22 & 3) == 0) {
			for (int k = 0; k < n; k++)
				v[k] = i + k + rank;
			MPI_Allreduce(v, sums, n, MPI_DOUBLE, MPI_SUM, comm);
			for (int k = 0; k < n; k++)
				bad += sums[k] != ranks * (i + k + 0.5 * (ranks - 1));
			expect(!bad, "a sum for all in between", n);
		}
		if ((dice >> 22 & 3) == 1) {
			n = n % 16384 + 1;
			memset(blocks[0], i + rank, (size_t)(n * ranks));
			MPI_Alltoall(blocks[0], n, MPI_BYTE, blocks[1], n, MPI_BYTE, comm);
			for (int k = 0; k < n * ranks; k++)
				bad += blocks[1][k] != (char)(i + k / n);
			expect(!bad, "MPI_Alltoall in between", n);
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

/* More alive at once than have memory, and more than that one after the other; and ranks in another order. */
static void communicators(const struct memory *m)
{
	MPI_Comm all[70], part, back;
	for (int i = 0; i < 70; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &all[i]);
		any(m, (unsigned)i, i % ranks, 8 + 8 * i, all[i], i);
	}
	for (int i = 0; i < 70; i++) {
		for (int k = 0; k < 30; k++)
			any(m, (unsigned)(k + i), k % ranks, k == 29 ? 20000 : 2000, all[i], i);
		MPI_Comm_free(&all[i]);
	}
	for (int i = 0; i < 40; i++) {
		MPI_Comm_split(MPI_COMM_WORLD, i % 2 ? 0 : rank % 2, -rank, &part);
		for (int k = 0; k < 50; k++)
			any(m, (unsigned)k, 0, k % 16 == 15 ? 17000 : 8 << k % 5, part, k);
		MPI_Comm_free(&part);
	}
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &back);
	all_lengths(m, back);
	MPI_Comm_free(&back);
	for (unsigned i = 0; i < KINDS; i++)
		any(m, i, 0, 64, MPI_COMM_SELF, 1);
}

/* Where an MPI has no more of them what is made here is not, and nobody is told so, whoever's handler it would be. */
static void all_communicators(const struct memory *m)
{
	static MPI_Comm all[2500];
	MPI_Errhandler handler, was;
	MPI_Comm comm, unset;
	int n = 0;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_dup(MPI_COMM_WORLD, &unset);
	MPI_Comm_create_errhandler(tell, &handler);
	MPI_Comm_get_errhandler(MPI_COMM_WORLD, &was);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Comm_set_errhandler(comm, handler);
	while (told = 0, n < 2500 && !MPI_Comm_dup(MPI_COMM_WORLD, &all[n]) && !told)
		n++;
	told = 0;
	for (int i = 0; i < 40; i++) {
		any(m, GATHERV, i % ranks, 104, comm, i);
		any(m, GATHERV, i % ranks, 104, unset, i);
	}
	expect(!told, "one communicator too many", told);
	while (n)
		MPI_Comm_free(&all[--n]);
	for (int i = 0; i < 2500; i++) { /* one after the other they may be more */
		MPI_Comm next;
		MPI_Comm_dup(MPI_COMM_WORLD, &next);
		for (int k = 0; k < 17; k++)
			any(m, GATHERV, k % ranks, 8, next, k);
		MPI_Comm_free(&next);
	}
	expect(!told, "communicators that have been freed", told);
	MPI_Send(NULL, -1, MPI_BYTE, 0, 1, comm);
	MPI_Send(NULL, -1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	expect(told == 2, "the handlers that were there before", told);
#ifdef MPICH
	MPI_Send(NULL, -1, MPI_BYTE, 0, 1, unset); /* then it is the first one's */
	expect(told == 3, "none that was there before", told);
#endif
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, was);
	MPI_Errhandler_free(&handler);
	MPI_Errhandler_free(&was);
	MPI_Comm_free(&comm);
	MPI_Comm_free(&unset);
}

/* Of two groups: what comes is the other's. */
static void between_groups(void)
{
	MPI_Comm half, inter;
	int others, bad = 0, side = rank % 2, out[RANKS], in[RANKS], ones[RANKS], places[RANKS];
	if (ranks < 2)
		return;
	MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !side, 5, &inter);
	MPI_Comm_remote_size(inter, &others);
	int root = side ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
	for (int i = 0; i < 20; i++) {
		for (int r = 0; r < RANKS; r++) {
			out[r] = 100 * rank + i;
			in[r] = -1;
			ones[r] = 1;
			places[r] = r;
		}
		MPI_Alltoallv(out, ones, places, MPI_INT, in, ones, places, MPI_INT, inter);
		for (int r = 0; r < others; r++)
			bad += in[r] != 100 * (2 * r + !side) + i;
		MPI_Gatherv(out, 1, MPI_INT, in, ones, places, MPI_INT, root, inter);
		for (int r = 0; r < others && !rank; r++)
			bad += in[r] != 100 * (2 * r + 1) + i;
		MPI_Scatterv(out, ones, places, MPI_INT, in, 1, MPI_INT, root, inter);
		bad += side && in[0] != i;
	}
	expect(!bad, "between groups", bad);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

static void any_beside(const struct memory *m, int i, MPI_Comm comm)
{
	any(m, (unsigned)i, i % ranks, i % 5 ? 104 : 20000, comm, i);
}

#include "vary_wrongs.h"

static void *in_thread(void *arg)
{
	struct memory m;
	memory_new(&m);
	for (int i = 0; i < 400; i++)
		any(&m, (unsigned)i * 5, i % ranks, i % 10 ? lengths[(size_t)i % LENGTHS] : long_ones[i & 3],
		    *(MPI_Comm *)arg, i);
	memory_free(&m);
	return NULL;
}

int main(int argc, char **argv)
{
	struct memory m;
	begin(argc, argv);
	memory_new(&m);
	make_types();
	if (!strcmp(run_how, "-l"))
		all_communicators(&m);
	all_lengths(&m, MPI_COMM_WORLD);
	ahead(&m, MPI_COMM_WORLD);
	root_after_root(&m, MPI_COMM_WORLD);
	mixed(&m, MPI_COMM_WORLD);
	all_types(&m, MPI_COMM_WORLD);
	communicators(&m);
	between_groups();
	long_and_short(&m, MPI_COMM_WORLD);
	one_is_long(&m, MPI_COMM_WORLD);
	beside_messages(&m, MPI_COMM_WORLD, any_beside);
	if (run_many)
		threads(in_thread);
	wrongs(&m, run_ours);
	free_types();
	memory_free(&m);
	return end();
}
