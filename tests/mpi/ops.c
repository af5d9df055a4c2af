/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of the less common kind: with operations of the program's own, for any order of the operands or for that of the ranks
 * alone, freed and made anew, and with types that have holes, of which not one byte may change. Each kind in
 * MPI_Allreduce, MPI_Reduce, MPI_Scan and MPI_Reduce_scatter_block, of few elements and of many. A program's function may
 * write over its first operand, and behind the last element a program may have no memory.
 *
 *   ops       MPI_Init
 *   ops -m    MPI_THREAD_MULTIPLE
 */
#include "stress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SCRIBBLED 200000 /* ints, so that they lie where others may read them (shim/heap.c) */
#define END_PAGES 16
#define MOST	  20000 /* elements */
#define HOLE	  0x5c	/* in each byte of a hole of what a rank brings along; in what it gets, others */
#define MOD	  10007

/* An element is made of ints, which fill it but for holes. */
struct pair {
	double value;
	int at;
};
struct turned {
	int at;
	double value;
};
struct wide {
	int v[70];
};

static int rank, ranks;
static MPI_Comm comm;
static unsigned char *out, *in, *want, *one;

/* ---- kinds ---- */

struct kind {
	const char *name;
	MPI_Datatype type;
	MPI_Op op;
	size_t each; /* bytes from one element to the next */
	/* Element k of rank r, in the round n; and the sum of a and of b, which comes behind it, into b. */
	void (*make)(void *to, int r, int k, int n);
	void (*join)(const void *a, void *b);
	size_t hole, end; /* where it is */
	size_t own;	  /* bytes of a hole of MPI_LONG_DOUBLE, which mean nothing */
};

static unsigned word(int r, int k, int n)
{
	return (unsigned)mix((uint64_t)r << 40 | (unsigned)n, (uint64_t)k) % 1000 + 1;
}

static void make_int(void *to, int r, int k, int n)
{
	*(int *)to = (int)word(r, k, n);
}

static void join_int(const void *a, void *b)
{
	*(int *)b = (*(const int *)a * *(int *)b + *(const int *)a + *(int *)b) % MOD;
}

static void make_triple(void *to, int r, int k, int n)
{
	for (int i = 0; i < 3; i++)
		((int *)to)[i] = (int)word(r, 3 * k + i, n);
}

/* One map x -> v[0] x + v[1] after the other; and whose was first. */
static void join_triple(const void *a, void *b)
{
	const int *first = a;
	int *v = b;
	v[1] = (first[0] * v[1] + first[1]) % MOD;
	v[0] = first[0] * v[0] % MOD;
	v[2] = first[2];
}

static void join_triple_any(const void *a, void *b)
{
	for (int i = 0; i < 3; i++)
		((int *)b)[i] = (((const int *)a)[i] + ((int *)b)[i]) % MOD;
}

static void make_wide(void *to, int r, int k, int n)
{
	for (int i = 0; i < 70; i++)
		((struct wide *)to)->v[i] = (int)word(r, 70 * k + i, n);
}

static void join_wide(const void *a, void *b)
{
	for (int i = 0; i < 70; i++)
		((struct wide *)b)->v[i] ^= ((const struct wide *)a)->v[i];
}

/* A number, and whose it is: the lower rank's, of equal ones. bytes: of the number; where: so many ints behind its beginning. */
#define LOCATED(kind, number, bytes, where, wins)                                                            \
	static void make_##kind(void *to, int r, int k, int n)                                               \
	{                                                                                                    \
		number value = (number)(word(r, k, n) % 7);                                                  \
		memcpy(to, &value, bytes);                                                                   \
		((int *)to)[where] = r;                                                                      \
	}                                                                                                    \
	static void join_##kind(const void *a, void *b)                                                      \
	{                                                                                                    \
		number x = 0, y = 0;                                                                         \
		int from = ((const int *)a)[where], *at = (int *)b + (where);                                \
		memcpy(&x, a, bytes);                                                                        \
		memcpy(&y, b, bytes);                                                                        \
		if (x wins y || (x == y && from < *at)) {                                                    \
			memcpy(b, &x, bytes);                                                                \
			*at = from;                                                                          \
		}                                                                                            \
	}
LOCATED(pair, double, 8, 2, <)
LOCATED(long, long, 8, 2, >)
LOCATED(short, short, 2, 1, <)
LOCATED(long_double, long double, 10, 4, <)

static void make_turned(void *to, int r, int k, int n)
{
	((struct turned *)to)->value = word(r, k, n) % 7;
	((struct turned *)to)->at = r;
}

static void join_turned(const void *a, void *b)
{
	const struct turned *x = a;
	struct turned *y = b;
	y->value += x->value;
	y->at ^= x->at;
}

/* ---- what MPI calls ---- */

#define OPERATION(name, join, type)                                                                          \
	static void name(void *a, void *b, int *n, MPI_Datatype *t)                                          \
	{                                                                                                    \
		(void)t;                                                                                     \
		for (int i = 0; i < *n; i++)                                                                 \
			join((const type *)a + i, (type *)b + i);                                            \
	}
typedef int triple[3];
OPERATION(by_int, join_int, int)
OPERATION(by_triple, join_triple, triple)
OPERATION(by_triple_any, join_triple_any, triple)
OPERATION(by_wide, join_wide, struct wide)
OPERATION(by_pair, join_pair, struct pair)
OPERATION(by_turned, join_turned, struct turned)

/* ---- a call ---- */

static void must_be(const struct kind *k, const char *call, int count, int n)
{
	for (int i = 0; i < count; i++)
		for (size_t b = 0; b < k->each; b++) {
			size_t at = (size_t)i * k->each + b;
			if (k->own && b >= 10 && b < 16)
				continue;
			must(in[at] == want[at],
			     "%s of %d, %s, round %d: byte %zu of element %d is %d and not %d", call, count,
			     k->name, n, b, i, in[at], want[at]);
		}
	for (int b = 0; b < 64; b++)
		must(in[(size_t)count * k->each + (size_t)b] == GUARD, "%s of %d, %s: what lies behind", call,
		     count, k->name);
}

static void elements(const struct kind *k, unsigned char *to, int r, int first, int count, int n)
{
	memset(to, HOLE, (size_t)count * k->each);
	for (int i = 0; i < count; i++)
		k->make(to + (size_t)i * k->each, r, first + i, n);
}

/* Of ranks 0 to last; what lies in the holes stays what `in` has there. */
static void expect(const struct kind *k, int first, int count, int last, int n)
{
	elements(k, want, last, first, count, n);
	for (int r = last; r-- > 0;) {
		elements(k, one, r, first, count, n);
		for (int i = 0; i < count; i++)
			k->join(one + (size_t)i * k->each, want + (size_t)i * k->each);
	}
	for (int i = 0; i < count; i++)
		for (size_t b = k->hole; b < k->end; b++)
			want[(size_t)i * k->each + b] = in[(size_t)i * k->each + b];
}

static void prepare(const struct kind *k, int count, int n)
{
	elements(k, out, rank, 0, count, n);
	memset(in, 0x21 + n % 9, (size_t)count * k->each);
	memset(in + (size_t)count * k->each, GUARD, 64);
}

static void calls(const struct kind *k, int count, int n)
{
	int root = n % ranks;
	prepare(k, count, n);
	expect(k, 0, count, ranks - 1, n);
	MPI_Allreduce(out, in, count, k->type, k->op, comm);
	must_be(k, "MPI_Allreduce", count, n);

	if (n % 3 == 0) {
		memcpy(in, out, (size_t)count * k->each);
		expect(k, 0, count, ranks - 1, n);
		MPI_Allreduce(MPI_IN_PLACE, in, count, k->type, k->op, comm);
		must_be(k, "MPI_Allreduce in place", count, n);
	}

	prepare(k, count, n);
	expect(k, 0, count, ranks - 1, n);
	MPI_Reduce(out, rank == root ? in : NULL, count, k->type, k->op, root, comm);
	if (rank == root)
		must_be(k, "MPI_Reduce", count, n);

	prepare(k, count, n);
	expect(k, 0, count, rank, n);
	MPI_Scan(out, in, count, k->type, k->op, comm);
	must_be(k, "MPI_Scan", count, n);

	int each = count / ranks;
	if (!each)
		return;
	prepare(k, each, n);
	elements(k, out, rank, 0, each * ranks, n);
	expect(k, rank * each, each, ranks - 1, n);
	MPI_Reduce_scatter_block(out, in, each, k->type, k->op, comm);
	must_be(k, "MPI_Reduce_scatter_block", each, n);
}

static MPI_Datatype structure(MPI_Datatype a, MPI_Aint at_a, MPI_Datatype b, MPI_Aint at_b, MPI_Aint extent)
{
	MPI_Datatype plain, made;
	int counts[2] = {1, 1};
	MPI_Aint at[2] = {at_a, at_b};
	MPI_Datatype types[2] = {a, b};
	MPI_Type_create_struct(2, counts, at, types, &plain);
	MPI_Type_create_resized(plain, 0, extent, &made);
	MPI_Type_commit(&made);
	MPI_Type_free(&plain);
	return made;
}

static MPI_Datatype contiguous(int n, MPI_Datatype of)
{
	MPI_Datatype made;
	MPI_Type_contiguous(n, of, &made);
	MPI_Type_commit(&made);
	return made;
}

/* The operations and types are made anew each time, and most of them get the handles of others. */
static void turn(int round)
{
	static const int counts[] = {1, 1, 1, 2, 3, 7, 64, 1000, MOST};
	MPI_Op any_int, any_triple, ranks_triple, any_wide, any_pair, any_turned;
	MPI_Datatype triples = contiguous(3, MPI_INT), wide = contiguous(70, MPI_INT);
	MPI_Datatype pairs = structure(MPI_DOUBLE, 0, MPI_INT, 8, 16),
		     turned = structure(MPI_INT, 0, MPI_DOUBLE, 8, 16);
	if (round % 2) /* not the same order, and other handles */
		MPI_Op_create(by_triple, 0, &ranks_triple);
	MPI_Op_create(by_int, 1, &any_int);
	MPI_Op_create(by_triple_any, 1, &any_triple);
	if (round % 2 == 0)
		MPI_Op_create(by_triple, 0, &ranks_triple);
	MPI_Op_create(by_wide, 1, &any_wide);
	MPI_Op_create(by_pair, 1, &any_pair);
	MPI_Op_create(by_turned, 1, &any_turned);
	const struct kind kinds[] = {
		{"ints", MPI_INT, any_int, 4, make_int, join_int, 0, 0, 0},
		{"triples in any order", triples, any_triple, 12, make_triple, join_triple_any, 0, 0, 0},
		{"triples in order", triples, ranks_triple, 12, make_triple, join_triple, 0, 0, 0},
		{"wide ones", wide, any_wide, sizeof(struct wide), make_wide, join_wide, 0, 0, 0},
		{"pairs", pairs, any_pair, 16, make_pair, join_pair, 12, 16, 0},
		{"pairs, turned", turned, any_turned, 16, make_turned, join_turned, 4, 8, 0},
		{"MPI_DOUBLE_INT", MPI_DOUBLE_INT, MPI_MINLOC, 16, make_pair, join_pair, 12, 16, 0},
		{"MPI_LONG_INT", MPI_LONG_INT, MPI_MAXLOC, 16, make_long, join_long, 12, 16, 0},
		{"MPI_SHORT_INT", MPI_SHORT_INT, MPI_MINLOC, 8, make_short, join_short, 2, 4, 0},
		{"MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, MPI_MINLOC, 32, make_long_double,
		 join_long_double, 20, 32, 1},
	};
	for (unsigned k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		st.doing = kinds[k].name;
		for (unsigned c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
			int count = counts[c];
			if (count == MOST && kinds[k].each > 32)
				count = MOST / 10;
			calls(&kinds[k], count, round * 100 + (int)(c * 11 + k));
		}
		watch_feed();
	}
	MPI_Op_free(&any_int);
	MPI_Op_free(&any_triple);
	MPI_Op_free(&ranks_triple);
	MPI_Op_free(&any_wide);
	MPI_Op_free(&any_pair);
	MPI_Op_free(&any_turned);
	MPI_Type_free(&triples);
	MPI_Type_free(&wide);
	MPI_Type_free(&pairs);
	MPI_Type_free(&turned);
}

/* One that may take operands in any order, and one that may not, by the same handle, if the MPI will. */
static void reused(int round)
{
	MPI_Datatype triples = contiguous(3, MPI_INT);
	for (int i = 0; i < 4; i++) {
		MPI_Op op;
		bool any = i % 2 == 0;
		MPI_Op_create(any ? by_triple_any : by_triple, any, &op);
		const struct kind k = {"triples by a handle that was another's", triples, op, 12, make_triple,
				       any ? join_triple_any : join_triple,	 0,	  0,  0};
		calls(&k, 1, round * 100 + i);
		MPI_Op_free(&op);
	}
	MPI_Type_free(&triples);
}

/* It leaves its first operand as it found it nowhere. */
static void by_scribbler(void *a, void *b, int *n, MPI_Datatype *t)
{
	(void)t;
	for (int i = 0; i < *n; i++) {
		join_int((int *)a + i, (int *)b + i);
		((int *)a)[i] = -1;
	}
}

static void scribbled(int round)
{
	static const int counts[] = {1, 300, 5000, SCRIBBLED};
	MPI_Op op;
	MPI_Op_create(by_scribbler, 1, &op);
	int *from = need(sizeof(int) * SCRIBBLED), *to = need(sizeof(int) * SCRIBBLED);
	for (unsigned c = 0; c < 2 * sizeof(counts) / sizeof(*counts); c++) {
		int count = counts[c / 2];
		for (int i = 0; i < count; i++)
			from[i] = (int)word(rank, i, round);
		if (c % 2) /* where some MPIs give the function what the root sends */
			MPI_Reduce(from, to, count, MPI_INT, op, 0, comm);
		else
			MPI_Allreduce(from, to, count, MPI_INT, op, comm);
		for (int i = 0; i < count && !(c % 2 && rank); i++) {
			int sum = (int)word(ranks - 1, i, round), one_of;
			for (int r = ranks - 1; r-- > 0;) {
				one_of = (int)word(r, i, round);
				join_int(&one_of, &sum);
			}
			must(to[i] == sum, "scribbled, %d: element %d is %d and not %d", count, i, to[i],
			     sum);
			must(c % 2 || from[i] == (int)word(rank, i, round),
			     "scribbled, %d: element %d of what was sent is %d", count, i, from[i]);
		}
	}
	MPI_Op_free(&op);
	free(from);
	free(to);
}

static void by_far(void *a, void *b, int *n, MPI_Datatype *t)
{
	MPI_Aint low, extent;
	MPI_Type_get_extent(*t, &low, &extent);
	for (int i = 0; i < *n; i++)
		join_int((char *)a + i * extent, (char *)b + i * extent);
}

/* Such that so many ints, each that far from the next, end with a page, behind which there is none. */
static char *at_end(char *pages, size_t page, int count, size_t extent)
{
	return pages + END_PAGES * page - ((size_t)(count - 1) * extent + sizeof(int));
}

static char *with_end(size_t page)
{
	char *pages = mmap(NULL, (END_PAGES + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	must(pages != MAP_FAILED && !mprotect(pages + END_PAGES * page, page, PROT_NONE), "no pages");
	return pages;
}

static void ended(int round)
{
	static const struct {
		size_t extent;
		int count;
	} kinds[] = {{1024, 1}, {1024, 4}, {1024, 60}, {8, 1}, {8, 700}, {24, 30}};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *from_pages = with_end(page), *to_pages = with_end(page);
	MPI_Op op;
	MPI_Op_create(by_far, 1, &op);
	for (unsigned c = 0; c < 4 * sizeof(kinds) / sizeof(*kinds); c++) {
		size_t extent = kinds[c / 4].extent;
		int count = kinds[c / 4].count;
		char *from = at_end(from_pages, page, count, extent),
		     *to = at_end(to_pages, page, count, extent);
		MPI_Datatype type;
		MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)extent, &type);
		MPI_Type_commit(&type);
		for (int i = 0; i < count; i++)
			*(int *)(from + (size_t)i * extent) = *(int *)(to + (size_t)i * extent) =
				(int)word(rank, i, round);
		if (c % 4 == 0)
			MPI_Allreduce(from, to, count, type, op, comm);
		else if (c % 4 == 1)
			MPI_Allreduce(MPI_IN_PLACE, to, count, type, op, comm);
		else if (c % 4 == 2)
			MPI_Reduce(from, to, count, type, op, 0, comm);
		else
			MPI_Scan(from, to, count, type, op, comm);
		for (int i = 0; i < count && !(c % 4 == 2 && rank); i++) {
			int last = c % 4 == 3 ? rank : ranks - 1, sum = (int)word(last, i, round), one_of;
			for (int r = last; r-- > 0;) {
				one_of = (int)word(r, i, round);
				join_int(&one_of, &sum);
			}
			must(*(int *)(to + (size_t)i * extent) == sum, "at the end, %d of %zu: element %d",
			     count, extent, i);
		}
		MPI_Type_free(&type);
	}
	MPI_Op_free(&op);
	munmap(from_pages, (END_PAGES + 1) * page);
	munmap(to_pages, (END_PAGES + 1) * page);
}

int main(int argc, char **argv)
{
	bool threads = argc > 1 && !strcmp(argv[1], "-m");
	int provided, rounds = 8;
	MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	st.rank = rank;
	out = need((size_t)MOST * 32 + 64);
	in = need((size_t)MOST * 32 + 64);
	want = need((size_t)MOST * 32 + 64);
	one = need((size_t)MOST * 32 + 64);
	watch_start(60);
	for (int i = 0; i < rounds; i++) {
		if (i % 4 == 0)
			MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		turn(i);
		reused(i);
		scribbled(i);
		ended(i);
		if (i % 4 == 3)
			MPI_Comm_free(&comm);
	}
	if (!rank)
		printf("ops: %d rounds on %d ranks, every byte right\n", rounds, ranks);
	MPI_Finalize();
	return 0;
}
