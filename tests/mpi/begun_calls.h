/* SPDX-License-Identifier: BSD-3-Clause */
/* For begun.c: the calls, how they are ended, and what must be there then. */
#ifndef BEGUN_CALLS_H
#define BEGUN_CALLS_H

#include "blocks_check.h"
#include "large.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BARRIER, BCAST, ALLREDUCE, REDUCE, ALLTOALL, ALLGATHER, GATHER, SCATTER, KINDS, MESSAGE };
static const char *const op_names[] = {"MPI_Ibarrier",	"MPI_Ibcast",	  "MPI_Iallreduce", "MPI_Ireduce",
				       "MPI_Ialltoall", "MPI_Iallgather", "MPI_Igather",    "MPI_Iscatter"};
enum { WAYS = 9, MANY = 40 };

struct op {
	int kind, root, len, turn, me, size;
	bool in_place;
	const struct layout *o, *l;
	struct memory m;
	MPI_Request request;
};

static struct op *new_ops(void)
{
	struct op *ops = calloc(MANY, sizeof(*ops));
	for (int i = 0; i < MANY; i++)
		memory_new(&ops[i].m);
	return ops;
}

static void free_ops(struct op *ops)
{
	for (int i = 0; i < MANY; i++)
		memory_free(&ops[i].m);
	free(ops);
}

/* Whether this rank calls the one with _c, where there is one. */
static bool op_wide(const struct op *op)
{
	return MPI_Ibcast_c && (op->me + op->turn) % 3 == 0;
}

static double operand(const struct op *op, int r, int i)
{
	return (r + 1) * (op->turn % 7 + 1) + i;
}

static int call_sum(struct op *op, MPI_Comm comm)
{
	int n = op->len / 8;
	double *out = (double *)(void *)op->m.out, *in = (double *)(void *)op->m.in;
	bool in_place = op->in_place && (op->kind == ALLREDUCE || op->me == op->root);
	op->in_place = in_place;
	for (int i = 0; i < n; i++)
		(in_place ? in : out)[i] = operand(op, op->me, i);
	const void *from = in_place ? MPI_IN_PLACE : out;
	void *to = op->kind == ALLREDUCE || op->me == op->root ? in : NULL;
	if (op->kind == ALLREDUCE)
		return op_wide(op) ? MPI_Iallreduce_c(from, to, n, MPI_DOUBLE, MPI_SUM, comm, &op->request)
				   : MPI_Iallreduce(from, to, n, MPI_DOUBLE, MPI_SUM, comm, &op->request);
	return op_wide(op) ? MPI_Ireduce_c(from, to, n, MPI_DOUBLE, MPI_SUM, op->root, comm, &op->request)
			   : MPI_Ireduce(from, to, n, MPI_DOUBLE, MPI_SUM, op->root, comm, &op->request);
}

static int call_blocks(struct op *op, MPI_Comm comm)
{
	const struct layout *o = op->o, *l = op->l;
	bool all = op->kind == ALLTOALL;
	for (int r = 0; r < (all ? op->size : 1); r++)
		if (!op->in_place)
			fill(op->m.out + (size_t)r * span_of(o, op->len), o, op->len, op->me, all ? r : -1,
			     op->turn);
	for (int r = 0; r < op->size && op->in_place; r++)
		if (all || r == op->me)
			fill(op->m.in + (size_t)r * span_of(l, op->len), l, op->len, op->me, all ? r : -1,
			     op->turn);
	const void *from = op->in_place ? MPI_IN_PLACE : op->m.out;
	int count = op->in_place ? -7 : count_of(o, op->len), in_count = count_of(l, op->len);
	MPI_Datatype type = op->in_place ? MPI_DATATYPE_NULL : o->type;
	if (all)
		return op_wide(op) ? MPI_Ialltoall_c(from, count, type, op->m.in, in_count, l->type, comm,
						     &op->request)
				   : MPI_Ialltoall(from, count, type, op->m.in, in_count, l->type, comm,
						   &op->request);
	return op_wide(op)
		       ? MPI_Iallgather_c(from, count, type, op->m.in, in_count, l->type, comm, &op->request)
		       : MPI_Iallgather(from, count, type, op->m.in, in_count, l->type, comm, &op->request);
}

static int call_rooted(struct op *op, MPI_Comm comm)
{
	const struct layout *o = op->o, *l = op->l;
	bool here = op->me == op->root, gathers = op->kind == GATHER;
	op->in_place = op->in_place && here;
	if (gathers)
		fill(op->in_place ? op->m.in + (size_t)op->me * span_of(l, op->len) : op->m.out,
		     op->in_place ? l : o, op->len, op->me, -1, op->turn);
	for (int r = 0; r < op->size && !gathers && here; r++)
		fill(op->m.out + (size_t)r * span_of(o, op->len), o, op->len, op->root, r, op->turn);
	/* what does not matter here may be anything */
	bool out = gathers ? !op->in_place : here, in = gathers ? here : !op->in_place;
	const void *from = gathers && op->in_place ? MPI_IN_PLACE : out ? op->m.out : NULL;
	void *to = !gathers && op->in_place ? MPI_IN_PLACE : in ? op->m.in : NULL;
	int count = out ? count_of(o, op->len) : -7, in_count = in ? count_of(l, op->len) : -7;
	MPI_Datatype type = out ? o->type : MPI_DATATYPE_NULL, in_type = in ? l->type : MPI_DATATYPE_NULL;
	if (gathers)
		return op_wide(op) ? MPI_Igather_c(from, count, type, to, in_count, in_type, op->root, comm,
						   &op->request)
				   : MPI_Igather(from, count, type, to, in_count, in_type, op->root, comm,
						 &op->request);
	return op_wide(op)
		       ? MPI_Iscatter_c(from, count, type, to, in_count, in_type, op->root, comm,
					&op->request)
		       : MPI_Iscatter(from, count, type, to, in_count, in_type, op->root, comm, &op->request);
}

static int call_bcast(struct op *op, MPI_Comm comm)
{
	op->l = op->o;
	if (op->me == op->root)
		fill(op->m.in, op->l, op->len, op->root, -1, op->turn);
	return op_wide(op) ? MPI_Ibcast_c(op->m.in, count_of(op->l, op->len), op->l->type, op->root, comm,
					  &op->request)
			   : MPI_Ibcast(op->m.in, count_of(op->l, op->len), op->l->type, op->root, comm,
					&op->request);
}

static void begin_op(struct op *op, int kind, int root, bool in_place, const struct layout *o,
		     const struct layout *l, int len, MPI_Comm comm, int turn)
{
	op->kind = kind;
	op->root = root;
	op->in_place = in_place;
	op->o = o;
	op->l = l;
	op->len = len;
	op->turn = turn;
	MPI_Comm_rank(comm, &op->me);
	MPI_Comm_size(comm, &op->size);
	op->root = root % op->size;
	memset(op->m.in, BLANK, (size_t)op->size * (size_t)len * 5 / 2 + 64);
	int rc;
	switch (kind) {
	case BARRIER: rc = MPI_Ibarrier(comm, &op->request); break;
	case BCAST: rc = call_bcast(op, comm); break;
	case ALLREDUCE:
	case REDUCE: rc = call_sum(op, comm); break;
	case ALLTOALL:
	case ALLGATHER: rc = call_blocks(op, comm); break;
	default: rc = call_rooted(op, comm);
	}
	expect(!rc, op_names[kind], len);
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
}

static int bad_sum(struct op *op)
{
	int n = op->len / 8, bad = 0;
	double *in = (double *)(void *)op->m.in;
	if (op->kind == REDUCE && op->me != op->root)
		return 0;
	for (int i = 0; i < n; i++)
		bad += in[i] != op->size * (op->size + 1) / 2 * (op->turn % 7 + 1) + op->size * i;
	memset(in, BLANK, (size_t)n * 8);
	return bad;
}

/* It has ended. */
static void check(struct op *op)
{
	int bad = 0, me = op->me;
	size_t block = span_of(op->l, op->len);
	unsigned char *in = op->m.in;
	switch (op->kind) {
	case BARRIER: break;
	case BCAST: bad = wrong(in, op->l, op->len, op->root, -1, op->turn); break;
	case ALLREDUCE:
	case REDUCE: bad = bad_sum(op); break;
	case SCATTER: bad = op->in_place ? 0 : wrong(in, op->l, op->len, op->root, me, op->turn); break;
	default:
		for (int r = 0; r < op->size && (op->kind != GATHER || me == op->root); r++)
			bad += wrong(in + (size_t)r * block, op->l, op->len, r,
				     op->kind == ALLTOALL ? me : -1, op->turn);
	}
	bad += beside(in, (size_t)op->size * (size_t)op->len * 5 / 2 + 64);
	expect(!bad, op_names[op->kind], op->len);
}

static void check_all(struct op *ops, int n)
{
	for (int i = 0; i < n; i++)
		check(&ops[i]);
}

/* Of whatever is under way, in one of WAYS. */
static void end_ops(struct op *ops, int n, int way)
{
	MPI_Request r[MANY];
	int which[MANY], left = n, flag = 0, some = 0;
	for (int i = 0; i < n; i++)
		r[i] = ops[i].request;
	switch (way % WAYS) {
	case 0:
		for (int i = 0; i < n; i++)
			MPI_Wait(&r[i], MPI_STATUS_IGNORE);
		break;
	case 1:
		for (int i = n; i-- > 0;)
			for (flag = 0; !flag;)
				MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
		break;
	case 2:
		for (; left; left--)
			MPI_Waitany(n, r, which, MPI_STATUS_IGNORE);
		break;
	case 3:
		for (; left; left -= some)
			MPI_Waitsome(n, r, &some, which, MPI_STATUSES_IGNORE);
		break;
	case 4:
		while (!flag)
			MPI_Testall(n, r, &flag, MPI_STATUSES_IGNORE);
		break;
	case 5:
		for (; left; left -= flag)
			MPI_Testany(n, r, which, &flag, MPI_STATUS_IGNORE);
		break;
	case 6:
		for (; left; left -= some)
			MPI_Testsome(n, r, &some, which, MPI_STATUSES_IGNORE);
		break;
	case 7: {
		MPI_Status statuses[MANY];
		MPI_Waitall(n, r, statuses);
		break;
	}
	default: MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
	}
	for (int i = 0; i < n; i++)
		expect(r[i] == MPI_REQUEST_NULL, "what is left of a request", way);
}

#endif
