/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives whose blocks lie otherwise than MPIs mostly find them: of a type that does not begin where the buffer does, and of
 * other types on the two sides, for the same bytes. MPIs take other ways through them over libfabric than by themselves, some
 * of which are wrong (shim/mended.h). Each once with blocks of each length, so that the MPI makes it, and again. Every element is checked.
 */
#include "stress.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEHIND 3 /* elements, before the first pair */
#define MANY   12

static int n, me;
static MPI_Datatype pairs, many; /* two elements, behind three; twelve */

static int value(int from, long to, long i)
{
	return (int)(from * 1000000 + to * 100000 + i % 100000);
}

static void fault(const char *what, int count, int from, long i, int got)
{
	die("%s, blocks of %d: element %ld from rank %d is %d", what, count, i, from, got);
}

static int *buffer(long blocks, long elements)
{
	size_t bytes = (size_t)(blocks * elements + 64) * sizeof(int);
	return memset(need(bytes), 0xff, bytes);
}

/* Blocks of `count` pairs to each, or one to all. */
static int *filled(long blocks, int count)
{
	long each = 2L * count;
	int *at = buffer(blocks, each);
	for (long to = 0; to < blocks; to++)
		for (long i = 0; i < 2L * count; i++)
			at[BEHIND + to * each + i] = value(me, to, i);
	return at;
}

static void check(const char *what, int *got, int count, long to)
{
	long each = 2L * count;
	for (int from = 0; from < n; from++)
		for (long i = 0; i < each; i++)
			if (got[BEHIND + from * each + i] != value(from, to, i))
				fault(what, count, from, i, got[BEHIND + from * each + i]);
	for (long i = 0; i < BEHIND; i++)
		if (got[i] != -1 || got[BEHIND + n * each + i] != -1)
			fault(what, count, -1, i, got[i]);
	free(got);
}

static void begins_later(int count)
{
	int counts[16], at[16];
	for (int i = 0; i < n; i++) {
		counts[i] = count;
		at[i] = i * count;
	}
	long each = 2L * count;
	int *to_each = filled(n, count), *to_all = filled(1, count), *in;

	MPI_Alltoall(to_each, count, pairs, in = buffer(n, each), count, pairs, MPI_COMM_WORLD);
	check("MPI_Alltoall", in, count, me);
	PMPI_Alltoall(to_each, count, pairs, in = buffer(n, each), count, pairs, MPI_COMM_WORLD);
	check("PMPI_Alltoall", in, count, me);
	MPI_Alltoallv(to_each, counts, at, pairs, in = buffer(n, each), counts, at, pairs, MPI_COMM_WORLD);
	check("MPI_Alltoallv", in, count, me);
	MPI_Allgather(to_all, count, pairs, in = buffer(n, each), count, pairs, MPI_COMM_WORLD);
	check("MPI_Allgather", in, count, 0);
	MPI_Allgatherv(to_all, count, pairs, in = buffer(n, each), counts, at, pairs, MPI_COMM_WORLD);
	check("MPI_Allgatherv", in, count, 0);
	free(to_each);
	free(to_all);
}

/* Out of `count` of twelve elements each become as many single ones, or the other way round. */
static void differ(int count, bool outwards)
{
	int elements = count * MANY, *out = buffer(1, elements), *in = buffer(n, elements);
	for (long i = 0; i < elements; i++)
		out[i] = value(me, 0, i);
	for (int in_place = 0; in_place < 2; in_place++) {
		memset(in, 0xff, sizeof(int) * (size_t)elements * (size_t)n);
		if (in_place)
			memcpy(in + (long)me * elements, out, sizeof(int) * (size_t)elements);
		MPI_Allgather(in_place ? MPI_IN_PLACE : out, outwards ? count : elements,
			      outwards ? many : MPI_INT, in, outwards ? elements : count,
			      outwards ? MPI_INT : many, MPI_COMM_WORLD);
		for (int from = 0; from < n; from++)
			for (long i = 0; i < elements; i++)
				if (in[(long)from * elements + i] != value(from, 0, i))
					fault("MPI_Allgather of other types", count, from, i,
					      in[(long)from * elements + i]);
	}
	free(out);
	free(in);
}

int main(void)
{
	MPI_Init(NULL, NULL);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	st.rank = me;
	st.size = n;
	watch_start(40);
	MPI_Datatype two = MPI_DATATYPE_NULL;
	MPI_Type_indexed(1, &(int){2}, &(int){BEHIND}, MPI_INT, &two);
	MPI_Type_commit(&two);
	pairs = two;
	MPI_Type_contiguous(MANY, MPI_INT, &many);
	MPI_Type_commit(&many);
	for (int count = 1; count < 100000; count = count * 4 + 1)
		for (int again = 0; again < 2; again++) {
			begins_later(count);
			differ(count / 4 + 1, again);
			differ(count / 3 * 2 + 2, again);
			differ(500, again);
		}
	MPI_Barrier(MPI_COMM_WORLD);
	if (!me)
		printf("every byte right\n");
	MPI_Finalize();
	return 0;
}
