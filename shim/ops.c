/* SPDX-License-Identifier: BSD-3-Clause */
#include "ops.h"
#include "quick.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct op {
	struct op *next;
	handle name;
};

enum { CREATE, FREE, CALLS };

union function {
	void *symbol;
	int (*create)(void *function, int commute, void *op);
	int (*free)(void *op);
};
static union function next[2][CALLS]; /* without a P, and with it */
static struct op *ops;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* With the lock held: where it is linked, or the end. */
static struct op **find(handle op)
{
	struct op **at = &ops;
	while (*at && (*at)->name != op)
		at = &(*at)->next;
	return at;
}

bool sn_op_commutes(handle op)
{
	handle name = sn_mpi_plain(op);
	pthread_mutex_lock(&lock);
	bool known = *find(name) != NULL;
	pthread_mutex_unlock(&lock);
	return known;
}

/* A tool may stand between the two names, and then it is made by both. */
static void note(struct op *made, handle op)
{
	made->name = op;
	pthread_mutex_lock(&lock);
	struct op **at = find(op);
	made->next = *at ? (*at)->next : NULL;
	struct op *was = *at;
	*at = made;
	pthread_mutex_unlock(&lock);
	free(was);
}

/* If there is no memory to remember it there shall be none: other ranks would take for known what this one does not. */
static int create(int p, void *function, int commute, void *op)
{
	struct op *made = commute && op ? malloc(sizeof(*made)) : NULL;
	if (commute && op && !made) {
		fprintf(stderr, "sennit: no memory for an operation of the program's (MPI_Op_create)\n");
		return sn_mpi_err_other();
	}
	int rc = SN_FUNCTION(&next[p][CREATE]).create(function, commute, op);
	if (rc || !made)
		free(made);
	else
		note(made, sn_mpi_nth(op, 0));
	return rc;
}

/* Forgotten before its name may be another's. If it is not freed it stays forgotten, and sums with it are the MPI's. */
static int drop(int p, void *op)
{
	if (op) {
		pthread_mutex_lock(&lock);
		struct op **at = find(sn_mpi_nth(op, 0)), *was = *at;
		if (was)
			*at = was->next;
		pthread_mutex_unlock(&lock);
		free(was);
	}
	return SN_FUNCTION(&next[p][FREE]).free(op);
}

SN_BY_BOTH_NAMES(create, (void *function, int commute, void *op), SN_WITH(function, commute, op))
SN_BY_BOTH_NAMES(drop, (void *op), SN_WITH(op))

void *sn_ops_stand_in(const char *name, void *definition)
{
	static const struct {
		const char *name;
		union function stand_in[2];
	} calls[CALLS] = {[CREATE] = {"MPI_Op_create", {{.create = create_0}, {.create = create_1}}},
			  [FREE] = {"MPI_Op_free", {{.free = drop_0}, {.free = drop_1}}}};
	int p = *name == 'P', call = sn_quick_named(calls, sizeof(*calls), CALLS, name);
	if (call == CALLS || !definition || sn_mpi_family == UNKNOWN)
		return NULL;
	SN_FUNCTION_IS(&next[p][call], definition);
	return calls[call].stand_in[p].symbol;
}
