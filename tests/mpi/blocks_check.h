/* SPDX-License-Identifier: BSD-3-Clause */
/* For blocks.c and rooted.c, which say what their NAME is: what goes, and how it is checked. */
#ifndef BLOCKS_CHECK_H
#define BLOCKS_CHECK_H

#include "blocks_types.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST  66000 /* bytes of a block */
#define RANKS 16
#define BLANK 0x5a

static int rank, ranks, faults, calls;

static void expect(bool right, const char *what, long i)
{
	if (right || faults++ > 5)
		return;
	printf(NAME ": rank %d: %s, %ld\n", rank, what, i);
}

struct memory {
	unsigned char *out, *in;
};

static void memory_new(struct memory *m)
{
	m->out = malloc((size_t)RANKS * MOST * 3 + 64);
	m->in = malloc((size_t)RANKS * MOST * 3 + 64);
}

static void memory_free(const struct memory *m)
{
	free(m->out);
	free(m->in);
}

static unsigned char byte_of(int from, int to, int turn, int i)
{
	return (unsigned char)(from * 31 + to * 7 + turn * 13 + i + (i >> 8) * 5);
}

/* What goes to a rank, or to all (-1). */
static void fill(unsigned char *at, const struct layout *l, int len, int me, int to, int turn)
{
	for (int i = 0; i < len; i++)
		at[place_of(l, i)] = byte_of(me, to, turn, i);
}

/* Of what has come; its place is blank again. */
static int wrong(unsigned char *at, const struct layout *l, int len, int from, int to, int turn)
{
	int bad = 0;
	for (int i = 0; i < len; i++) {
		bad += at[place_of(l, i)] != byte_of(from, to, turn, i);
		at[place_of(l, i)] = BLANK;
	}
	return bad;
}

/* Nothing beside it. */
static int beside(const unsigned char *at, size_t len)
{
	int bad = 0;
	for (size_t i = 0; i < len; i++)
		bad += at[i] != BLANK;
	return bad;
}

/* Messages that need who waits here, some of whom sleep. */
static void beside_messages(const struct memory *m, MPI_Comm comm,
			    void (*call)(const struct memory *m, int i, MPI_Comm comm))
{
	static int out[1 << 18], in[1 << 18];
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Request r;
	for (int i = 0; i < 12; i++) {
		out[i] = i + rank;
		MPI_Irecv(in, 1 << 18, MPI_INT, left, 5, comm, &r);
		if (rank == i % ranks) {
			MPI_Ssend(out, 1 << 18, MPI_INT, right, 5, comm);
			usleep(i % 2 ? 6000 : 100);
		}
		call(m, i, comm);
		if (rank != i % ranks)
			MPI_Ssend(out, 1 << 18, MPI_INT, right, 5, comm);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		expect(in[i] == i + left, "what was under way meanwhile", i);
	}
}

#endif
