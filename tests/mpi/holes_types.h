/* SPDX-License-Identifier: BSD-3-Clause */
/* Types, and where their bytes are, which is not asked of an MPI, for holes.c. */
#ifndef SN_TESTS_HOLES_TYPES_H
#define SN_TESTS_HOLES_TYPES_H

#include "stress.h"
#include <mpi.h>
#include <stdlib.h>

#define LONGEST 200000 /* bytes of an element */

struct kind {
	MPI_Datatype type;
	int blocks, *len;
	long *at, extent; /* bytes */
	long low, high;	  /* of an element */
	long size;
};

static void block(struct kind *k, long at, int len)
{
	k->len = realloc(k->len, (size_t)(k->blocks + 1) * sizeof(*k->len));
	k->at = realloc(k->at, (size_t)(k->blocks + 1) * sizeof(*k->at));
	must(k->len && k->at, "no memory");
	k->len[k->blocks] = len;
	k->at[k->blocks++] = at;
	k->size += len;
	k->low = at < k->low ? at : k->low;
	k->high = at + len > k->high ? at + len : k->high;
}

static void vector_of(struct kind *k, struct rng *r)
{
	int n = 1 + (int)below(r, 300), len = 1 + (int)below(r, 5), step = len + (int)below(r, 9);
	MPI_Type_vector(n, len, step, MPI_INT, &k->type);
	for (int i = 0; i < n; i++)
		block(k, 4L * i * step, 4 * len);
	k->extent = 4L * ((n - 1) * step + len);
}

/* Backwards, and from there the next element further up. */
static void turned(struct kind *k, struct rng *r)
{
	int n = 2 + (int)below(r, 20);
	MPI_Datatype t;
	MPI_Type_create_hvector(n, 1, -24, MPI_DOUBLE, &t);
	MPI_Type_create_resized(t, -24L * (n - 1), 24L * n + 8, &k->type);
	MPI_Type_free(&t);
	for (int i = 0; i < n; i++)
		block(k, -24L * i, 8);
	k->extent = 24L * n + 8;
}

static void structure(struct kind *k, struct rng *r)
{
	int lens[3] = {1 + (int)below(r, 3), 1, 1 + (int)below(r, 7)};
	MPI_Aint at[3] = {16, 0, 48};
	MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, t;
	MPI_Type_create_struct(3, lens, at, types, &t);
	MPI_Type_create_resized(t, 0, 64, &k->type);
	MPI_Type_free(&t);
	block(k, 16, 4 * lens[0]);
	block(k, 0, 8);
	block(k, 48, lens[2]);
	k->extent = 64;
}

/* Bytes at any place, in any order. */
static void scattered(struct kind *k, struct rng *r)
{
	int n = 1 + (int)below(r, 60), lens[60], at[60], order[60], next = 0;
	for (int i = 0; i < n; i++) {
		order[i] = i;
		lens[i] = 1 + (int)below(r, 40);
	}
	shuffle(r, order, n);
	for (int i = 0; i < n; i++) {
		at[order[i]] = next += (int)below(r, 12);
		next += lens[order[i]];
	}
	MPI_Type_indexed(n, lens, at, MPI_BYTE, &k->type);
	for (int i = 0; i < n; i++)
		block(k, at[i], lens[i]);
	k->extent = k->high - k->low;
}

/* A part of a cube. */
static void cube(struct kind *k, struct rng *r)
{
	int sizes[3], subs[3], starts[3];
	for (int i = 0; i < 3; i++) {
		sizes[i] = 2 + (int)below(r, 20);
		subs[i] = 1 + (int)below(r, (uint64_t)sizes[i]);
		starts[i] = (int)below(r, (uint64_t)(sizes[i] - subs[i] + 1));
	}
	MPI_Type_create_subarray(3, sizes, subs, starts, MPI_ORDER_C, MPI_DOUBLE, &k->type);
	for (int x = starts[0]; x < starts[0] + subs[0]; x++)
		for (int y = starts[1]; y < starts[1] + subs[1]; y++)
			block(k, 8L * ((x * sizes[1] + y) * sizes[2] + starts[2]), 8 * subs[2]);
	k->extent = 8L * sizes[0] * sizes[1] * sizes[2];
}

/* Vectors of structures. */
static void nested(struct kind *k, struct rng *r)
{
	struct kind s = {0};
	int n = 1 + (int)below(r, 30);
	structure(&s, r);
	MPI_Type_create_hvector(n, 2, 200, s.type, &k->type);
	for (int i = 0; i < n; i++)
		for (int e = 0; e < 2; e++)
			for (int b = 0; b < s.blocks; b++)
				block(k, 200L * i + 64L * e + s.at[b], s.len[b]);
	k->extent = 200L * (n - 1) + 128;
	MPI_Type_free(&s.type);
	free(s.at);
	free(s.len);
}

/* In one piece, but not at the beginning, or with something behind it. */
static void one_piece(struct kind *k, struct rng *r)
{
	int at = (int)below(r, 3), len = 1 + (int)below(r, 100);
	MPI_Datatype t;
	MPI_Type_indexed(1, &len, &at, MPI_INT, &t);
	MPI_Type_create_resized(t, 0, 4L * (at + len) + 4L * (long)below(r, 3), &k->type);
	MPI_Type_free(&t);
	block(k, 4L * at, 4 * len);
	MPI_Aint low, extent;
	MPI_Type_get_extent(k->type, &low, &extent);
	k->extent = extent;
}

/* A column of a matrix, whose elements go on with the next one. */
static void column(struct kind *k, struct rng *r)
{
	int n = 10 + (int)below(r, 500), columns = 3 + (int)below(r, 40);
	MPI_Datatype t;
	MPI_Type_vector(n, 1, columns, MPI_DOUBLE, &t);
	MPI_Type_create_resized(t, 0, 8, &k->type);
	MPI_Type_free(&t);
	for (int i = 0; i < n; i++)
		block(k, 8L * i * columns, 8);
	k->extent = 8;
}

static struct kind make(struct rng *r, int nth)
{
	static void (*const kinds[])(struct kind *, struct rng *) = {vector_of, turned, structure, scattered,
								     cube,	nested, one_piece, column};
	struct kind k = {.low = LONGEST, .high = -LONGEST};
	kinds[nth % 8](&k, r);
	MPI_Type_commit(&k.type);
	return k;
}

#endif
