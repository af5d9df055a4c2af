/* SPDX-License-Identifier: BSD-3-Clause */
/* For blocks_check.h: types of 24 bytes each, and where these lie. */
#ifndef BLOCKS_TYPES_H
#define BLOCKS_TYPES_H

#include <mpi.h>
#include <stddef.h>

/* Of 24 bytes each: where they lie. */
struct layout {
	MPI_Datatype type;
	int extent, at[24];
};

enum { BYTES, DOUBLES, TOGETHER, APART, BACKWARDS, WIDE, LAYOUTS };
static struct layout layouts[LAYOUTS];

static void lay(int which, MPI_Datatype type, int each, const int *starts, int extent)
{
	struct layout *l = &layouts[which];
	l->type = type;
	l->extent = extent;
	for (int i = 0; i < 24; i++)
		l->at[i] = starts[i / each] + i % each;
	MPI_Type_commit(&l->type);
}

static void make_types(void)
{
	MPI_Datatype t, u;
	lay(BYTES, MPI_BYTE, 24, (int[]){0}, 1);
	lay(DOUBLES, MPI_DOUBLE, 24, (int[]){0}, 8);
	MPI_Type_contiguous(3, MPI_DOUBLE, &t);
	lay(TOGETHER, t, 24, (int[]){0}, 24);
	MPI_Type_vector(3, 1, 2, MPI_DOUBLE, &t);
	MPI_Type_create_resized(t, 0, 56, &u);
	lay(APART, u, 8, (int[]){0, 16, 32}, 56);
	MPI_Type_free(&t);
	MPI_Type_create_hindexed(3, (int[]){1, 1, 1}, (MPI_Aint[]){16, 8, 0}, MPI_DOUBLE, &t);
	lay(BACKWARDS, t, 8, (int[]){16, 8, 0}, 24);
	MPI_Type_create_resized(MPI_DOUBLE, 0, 20, &u);
	MPI_Type_contiguous(3, u, &t);
	lay(WIDE, t, 8, (int[]){0, 20, 40}, 60);
	MPI_Type_free(&u);
}

static void free_types(void)
{
	for (int i = TOGETHER; i < LAYOUTS; i++)
		MPI_Type_free(&layouts[i].type);
}

/* Of a message of so many bytes in this layout: the calls' count, and where byte i lies. */
static int count_of(const struct layout *l, int len)
{
	return l == &layouts[BYTES] ? len : l == &layouts[DOUBLES] ? len / 8 : len / 24;
}

static size_t place_of(const struct layout *l, int i)
{
	return l <= &layouts[DOUBLES] ? (size_t)i
				      : (size_t)(i / 24) * (size_t)l->extent + (size_t)l->at[i % 24];
}

static size_t span_of(const struct layout *l, int len)
{
	return (size_t)count_of(l, len) * (size_t)l->extent;
}

#endif
