/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a collective that was watched has led to, and whether that is all of it (collective.h says when it is).
 */
#ifndef SN_SHIM_PROOF_H
#define SN_SHIM_PROOF_H

#include "abi.h"
#include <stddef.h>

#define SN_STEPS 32   /* messages of a call */
#define SN_ROOM	 4096 /* bytes of a message */

enum {
	SN_BARRIER,
	SN_BCAST,
	SN_ALLREDUCE,
	SN_ALLTOALL,
	SN_ALLGATHER,
	SN_REDUCE, /* here sums begin */
	SN_SCAN,
	SN_EXSCAN,
	SN_REDUCE_SCATTER,
	SN_REDUCE_SCATTER_BLOCK, /* the last of them */
	SN_GATHER,
	SN_SCATTER,
	SN_ALLGATHERV,
	SN_GATHERV, /* from here on: varying.h */
	SN_SCATTERV,
	SN_ALLTOALLV,
	SN_ALLTOALLW,
	SN_KINDS
};

static inline bool sn_has_root(int kind)
{
	return kind == SN_BCAST || kind == SN_REDUCE || kind == SN_GATHER || kind == SN_SCATTER ||
	       kind == SN_GATHERV || kind == SN_SCATTERV;
}

/* By which type and count a rank says how long a block is: who has it in place says it by the other. */
static inline bool sn_says_by_in(int kind, bool root)
{
	switch (kind) {
	case SN_ALLTOALL:
	case SN_ALLGATHER: return true;
	case SN_GATHER: return root;
	case SN_SCATTER: return !root;
	default: return false;
	}
}

/* Of what goes to each rank, or comes from it, how much and where. wide: MPI_Count and MPI_Aint, else int. */
struct sn_lengths {
	const void *counts, *displs;
	bool wide;
};
static inline int64_t sn_count_of(const struct sn_lengths *l, unsigned rank)
{
	return l->wide ? ((const int64_t *)l->counts)[rank] : ((const int *)l->counts)[rank];
}
static inline int64_t sn_displ_of(const struct sn_lengths *l, unsigned rank)
{
	return l->wide ? ((const int64_t *)l->displs)[rank] : ((const int *)l->displs)[rank];
}

struct sn_collective {
	handle comm, type, in_type, op;
	uintptr_t from, to;	      /* regions */
	const int *counts;	      /* MPI_Reduce_scatter, MPI_Allgatherv */
	const int *displs;	      /* the latter */
	struct sn_lengths out, in;    /* varying.h */
	const void *types, *in_types; /* MPI_Alltoallw: likewise, in place of type and in_type */
	int64_t each;		      /* MPI_Gatherv, MPI_Scatterv: of what this rank sends, or gets */
	int kind, count, in_count, root;
	unsigned generation;
	uint32_t freed; /* of its handles (freed.h) */
};

struct sn_step {
	struct sn_shim_way way;
	uint32_t at; /* in the buffer */
	bool recvs;
	bool out; /* the buffer is that of what this rank brings along, else of what it gets */
};

/*
 * Recursive doubling of any number of ranks, as MPICH and Open MPI have it. 2^steps do it, by numbers of their own;
 * of other than 2^k ranks the first 2 * pairs go in pairs: the even one brings the odd one its operand, which stands
 * for both, and gets the sum.
 */
struct sn_doubling {
	unsigned steps, pairs;
	unsigned number; /* of this rank, or of the one that stands for it */
	bool brings, stands;
};

enum {
	SN_FLAT_UNKNOWN,
	SN_FLAT_CROWD,
	SN_FLAT_ALWAYS,
	SN_FLAT_NEVER
}; /* flat.h: when can such calls be flat? */

struct sn_seen {
	struct sn_collective call; /* seen, in this generation */
	bool known;		   /* the steps are what it leads to */
	int alike;		   /* calls watched in a row that have led to these */
	int turn; /* above 0: calls until one is the MPI's, and watched; below: calls that are not even watched */
	int fails;
	struct sn_doubling doubling; /* MPI_Allreduce */
	int flat;
	unsigned asked;			   /* flat.h: how often, by a rank that has a core */
	uint32_t own_len, own_out, own_in; /* of what it brings along this stays here */
	unsigned steps;
	struct sn_step step[SN_STEPS];
};

/*
 * The MPI's, found when it is asked for the first time whether anything can go without it: to look for a name takes
 * longer than a call.
 */
struct sn_proof_mpi {
	int (*reduce_local)(const void *in, void *inout, int count, handle type, handle op);
	int (*bcast)(void *buf, int count, handle type, int root, handle comm);
	int (*allreduce)(const void *out, void *in, int count, handle type, handle op, handle comm);
	int (*iprobe)(int source, int tag, handle comm, int *flag, void *status);
	int (*call_errhandler)(handle comm, int code);
	int (*comm_rank)(handle comm, int *rank);
	int (*comm_size)(handle comm, int *size);
	int (*comm_test_inter)(handle comm, int *inter);
	int (*type_size)(handle type, int *size);
	int (*comm_group)(handle comm, handle *group);
	int (*group_translate_ranks)(handle a, int n, const int *in_a, handle b, int *in_b);
	int (*group_free)(handle *group);
	int (*type_get_extent)(handle type, intptr_t *low, intptr_t *extent);
	int (*type_get_true_extent)(handle type, intptr_t *low, intptr_t *extent);
	int (*pack)(const void *in, int count, handle type, void *out, int room, int *at, handle comm);
	int (*unpack)(const void *in, int len, int *at, void *out, int count, handle type, handle comm);
	int (*comm_get_errhandler)(handle comm, handle *handler);
	int (*comm_set_errhandler)(handle comm, handle handler);
	int (*errhandler_free)(handle *handler);
};
extern struct sn_proof_mpi sn_proof_mpi;

/* Asked once: are all of its functions there? */
bool sn_proof_find(void);
/*
 * Is it a call that every MPI refuses, before a message is sent: a negative count, no type, no such root? That is no turn of this
 * rank's, which may go on, and make it right. What counts at the root alone may be anything elsewhere. Not varying.h's, of which
 * others hear that it is wrong.
 */
bool sn_proof_refused(const struct sn_collective *c, const void *from, const void *to);
extern _Atomic handle sn_proof_no_type;
static inline bool sn_proof_looks_right(const struct sn_collective *c)
{
	handle none = atomic_load_explicit(&sn_proof_no_type, memory_order_relaxed);
	return likely((c->count | c->in_count | c->root) >= 0 && c->type != none && c->in_type != none &&
		      none);
}
/* Are all of this group, of so many, in MPI_COMM_WORLD? */
bool sn_proof_of_world(handle group, int size);
/*
 * What belongs to no communicator is asked in between, by one thread at a time, and may be wrong: no handler of the
 * program's is called.
 */
void sn_proof_quiet(handle handlers[2]);
void sn_proof_loud(handle handlers[2]);
struct sn_doubling sn_doubling_of(unsigned ranks, unsigned rank);
/* Does the own operand of who has this number come first at this step? */
bool sn_proof_turned(unsigned number, unsigned step);
/* The provider's word for it has been said on standard error: the error handler is called. The error's code. */
int sn_proof_failed(handle comm);
/* The MPI looks after its own affairs. */
void sn_proof_look(handle comm);
/* sum and what came, at this step; of a pair: SN_OF_PAIR. */
#define SN_OF_PAIR (-1)
void sn_combine(const struct sn_seen *e, int step, char *sum, char *came, size_t len);

/* From here on, if that is possible now, until sn_proof_over(). */
bool sn_proof_watch(const struct sn_seen *e, const void *from, const void *to);
/* The call has ended well, or not. Its steps are learnt, or that it was watched in vain. */
void sn_proof_over(struct sn_seen *e, bool well, const void *from, const void *to);
/* A call that is watched just now teaches nothing. */
void sn_proof_spoil(void);

#endif
