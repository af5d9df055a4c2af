/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of together.c what matters where collectives are flat (shim/flat.h): all ranks go over at once, whatever kinds,
 * lengths and communicators there are, every bit stays the MPI's, and who waits is there for the others.
 */
#include "load_beside.h"
#include "shown.h"
#include "together.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COMMS 70 /* communicators at once, more than can be flat */

/*
 * Of each type and operation what comes of any bits, numbers with a sign or none and zeros of both is, each time,
 * what comes the first time on a communicator that is new, which is the MPI's. Each type is on one of its own, or the
 * proof of another would do for it.
 */
static void any_bits(void)
{
	struct {
		MPI_Datatype type;
		int size, ops, more;
	} types[] = {{MPI_INT, 4, 0x7f, 60},	{MPI_FLOAT, 4, 0x0f, 60},
		     {MPI_DOUBLE, 8, 0x0f, 60}, {MPI_UNSIGNED_LONG, 8, 0x7f, 60},
		     {MPI_2INT, 8, 0x80, 3},	{MPI_C_DOUBLE_COMPLEX, 16, 3, 60}};
	MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BXOR, MPI_LAND, MPI_MAXLOC};
	static union {
		unsigned u[PAGE];
		double align;
	} v, first, sum;
	for (unsigned k = 0, seed = 12345u + (unsigned)rank; k < PAGE; k++) {
		seed = seed * 1664525u + 1013904223u;
		v.u[k] = k % 8 > 1    ? seed ^ seed >> 16
			 : k % 16 < 2 ? 0
				      : (unsigned)(rank + (int)k / 16) % 2 << 31;
	}
	/* what tells whose came first, of float or double: zeros of both signs, and no number, with the rank in it */
	v.u[0] = 0;
	v.u[1] = (unsigned)rank % 2 << 31;
	v.u[2] = 0x7fc00000u + (unsigned)rank;
	v.u[3] = 0x7ff80000u;
	for (int t = 0; t < 6; t++) {
		MPI_Comm own, fresh;
		MPI_Comm_dup(MPI_COMM_WORLD, &own);
		for (int o = 0; o < 8; o++) {
			int count = o ? 3 : types[t].more, bad = 0;
			if (!(types[t].ops >> o & 1))
				continue;
			MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
			allreduce(v.u, first.u, count, types[t].type, ops[o], fresh);
			MPI_Comm_free(&fresh);
			for (int i = 0; i < 40; i++) {
				allreduce(v.u, sum.u, count, types[t].type, ops[o], own);
				bad += memcmp(first.u, sum.u, (size_t)count * (size_t)types[t].size) != 0;
			}
			expect(!bad, "the bits of a reduction of any bits", t * 10 + o);
		}
		MPI_Comm_free(&own);
	}
}

/* More at once than can be flat, some of them freed, and others made in their place. */
static void many(void)
{
	static MPI_Comm comms[COMMS];
	for (int k = 0; k < COMMS; k++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]);
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < 20; i++)
			for (int k = 0; k < COMMS; k++) {
				one_sum(1 + k % 3, comms[k], i % 2, i + k);
				if (k % 5 == 0)
					barrier(comms[k]);
			}
		for (int k = turn; k < COMMS; k += 2) {
			MPI_Comm_free(&comms[k]);
			MPI_Comm_split(MPI_COMM_WORLD, 0, k % 2 ? -rank : rank, &comms[k]);
		}
	}
	for (int k = 0; k < COMMS; k++)
		MPI_Comm_free(&comms[k]);
}

/* Of three ranks, and of all but those. */
static void parts(void)
{
	MPI_Comm part;
	MPI_Comm_split(MPI_COMM_WORLD, rank < 3, rank, &part);
	barriers(part);
	for (int i = 0; i < ROUNDS; i++) {
		one_sum(2, part, i % 2, i);
		one_sum(3, MPI_COMM_WORLD, i % 2, i);
	}
	MPI_Comm_free(&part);
}

/* More forms than a communicator may have, in turns, and what is not flat between them. */
static void forms(MPI_Comm comm)
{
	int v[ROOM + 1];
	for (int i = 0; i < 30 * (ROOM - 1); i++) {
		one_sum(1 + i / 30, comm, false, i);
		if (i % 7 == 0)
			one_bcast(v, 3, i % ranks, comm, i);
	}
	for (int i = 0; i < 20 * (ROOM - 1); i++)
		one_sum(1 + i % (ROOM - 1), comm, i % 3 == 0, i);
}

/*
 * Who waits in a collective is needed by who has not come to it: for a long message of which it knows, and for its
 * window; also while there lies a message that it has not asked for, which each look of the MPI finds.
 */
static void needed(MPI_Comm comm)
{
	static int out[1 << 18], in[1 << 18];
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, got = -1, mine = rank;
	int one = 1, sum = 0;
	MPI_Request r[2];
	MPI_Win win;
	for (int i = 0; i < 20; i++) {
		out[i] = i + rank;
		if (i == 10)
			MPI_Send(&mine, 1, MPI_INT, right, 6, comm);
		MPI_Irecv(in, 1 << 18, MPI_INT, left, 5, comm, &r[0]);
		MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &r[1]);
		if (rank == i % ranks) {
			MPI_Ssend(out, 1 << 18, MPI_INT, right, 5, comm);
			MPI_Wait(&r[1], MPI_STATUS_IGNORE);
		}
		one_sum(2, comm, false, i);
		barrier(comm);
		if (rank != i % ranks)
			MPI_Ssend(out, 1 << 18, MPI_INT, right, 5, comm);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		expect(sum == ranks, "a sum that does not block", i);
		expect(in[i] == i + left, "a long message", i);
	}
	MPI_Recv(&got, 1, MPI_INT, left, 6, comm, MPI_STATUS_IGNORE);
	MPI_Win_create(&mine, sizeof(mine), sizeof(mine), MPI_INFO_NULL, comm, &win);
	for (int i = 0; i < 20; i++) {
		if (rank == i % ranks) {
			MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
			MPI_Get(&got, 1, MPI_INT, right, 0, 1, MPI_INT, win);
			MPI_Win_unlock(right, win);
			expect(got == right, "what lies in a window", i);
		}
		one_sum(2, comm, false, i);
		barrier(comm);
	}
	MPI_Win_free(&win);
}

/* A library that is called like a GPU's, beside this program, is loaded when they are flat already: then the MPI copies. */
static void late_gpu(MPI_Comm comm)
{
	static int v[3 << 20], sum[3 << 20];
	expect(is_shown("in shared memory, without messages"), "what is shown of the collectives", 0);
	expect(load_beside("libcuda.so.1"), "a library beside this program", 0);
	for (int i = 0; i < 3 * ROUNDS; i++) {
		int at = i % 3 << 20;
		v[at] = rank + i;
		allreduce(v + at, sum + at, 1, MPI_INT, MPI_SUM, comm);
		expect(sum[at] == ranks * i + ranks * (ranks - 1) / 2, "a sum beside a GPU's library", i);
	}
	expect(is_shown("whose libcuda.so is loaded"), "what is shown of the collectives", 1);
}

static void on_own(void (*what)(MPI_Comm comm))
{
	MPI_Comm comm;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int i = 0; i < ROUNDS; i++) {
		one_sum(1, comm, false, i);
		one_sum(2, comm, false, i);
		barrier(comm);
	}
	what(comm);
	MPI_Comm_free(&comm);
}

void flat_ones(void)
{
	any_bits();
	many();
	parts();
	on_own(needed);
	on_own(forms);
	on_own(late_gpu);
}
