/* SPDX-License-Identifier: BSD-3-Clause */
#include "beginning.h"
#include "agree.h"
#include "begun.h"
#include "collective.h"
#include "proof.h"
#include <limits.h>
#include <string.h>

/* As they are called: by their names without a P, with it, and, both, with counts beyond an int's. */
enum { PLAIN, PROFILED, WIDE, NAMES };

union function {
	void *symbol;
	int (*barrier)(handle comm, void *request);
	int (*bcast)(void *buf, int count, handle type, int root, handle comm, void *request);
	int (*bcast_c)(void *buf, int64_t count, handle type, int root, handle comm, void *request);
	int (*allreduce)(const void *from, void *to, int count, handle type, handle op, handle comm,
			 void *request);
	int (*allreduce_c)(const void *from, void *to, int64_t count, handle type, handle op, handle comm,
			   void *request);
	int (*reduce)(const void *from, void *to, int count, handle type, handle op, int root, handle comm,
		      void *request);
	int (*reduce_c)(const void *from, void *to, int64_t count, handle type, handle op, int root,
			handle comm, void *request);
	int (*blocks)(const void *out, int count, handle type, void *in, int in_count, handle in_type,
		      handle comm, void *request);
	int (*blocks_c)(const void *out, int64_t count, handle type, void *in, int64_t in_count,
			handle in_type, handle comm, void *request);
	int (*gather)(const void *out, int count, handle type, void *in, int in_count, handle in_type,
		      int root, handle comm, void *request);
	int (*gather_c)(const void *out, int64_t count, handle type, void *in, int64_t in_count,
			handle in_type, int root, handle comm, void *request);
};

static union function next[NAMES][SN_SCATTER + 1];

/* ---- the MPI's ---- */

static int do_slowly(int name, const struct sn_collective *c, const void *from, void *to, void *request)
{
	union function mpi = SN_FUNCTION(&next[name][c->kind]);
	sn_requests_before();
	switch (c->kind) {
	case SN_BARRIER: return mpi.barrier(c->comm, request);
	case SN_BCAST: return mpi.bcast(to, c->count, c->type, c->root, c->comm, request);
	case SN_ALLREDUCE: return mpi.allreduce(from, to, c->count, c->type, c->op, c->comm, request);
	case SN_REDUCE: return mpi.reduce(from, to, c->count, c->type, c->op, c->root, c->comm, request);
	case SN_GATHER:
	case SN_SCATTER:
		return mpi.gather(from, c->count, c->type, to, c->in_count, c->in_type, c->root, c->comm,
				  request);
	default: return mpi.blocks(from, c->count, c->type, to, c->in_count, c->in_type, c->comm, request);
	}
}

/* ---- the calls ---- */

static inline int call(int name, struct sn_collective *c, const void *from, void *to, void *request)
{
	c->from = (uintptr_t)from >> SN_QUICK_REGION;
	c->to = (uintptr_t)to >> SN_QUICK_REGION;
	c->generation = sn_collective_generation();
	sn_quick_told();
	if (!sn_proof_looks_right(c) && sn_proof_refused(c, from, to))
		return do_slowly(name, c, from, to, request);
	sn_agree_note(c, true);
	struct sn_meet *m = sn_begun_of(c);
	return sn_agree_ended(c, m ? sn_begun_do(m, c, from, to, request)
				   : do_slowly(name, c, from, to, request));
}

static inline int sums(int name, int kind, const void *from, void *to, int count, handle type, handle op,
		       int root, handle comm, void *request)
{
	struct sn_collective c = {.kind = kind,
				  .comm = comm,
				  .type = type,
				  .in_type = type,
				  .op = op,
				  .count = count,
				  .in_count = count,
				  .root = root};
	return call(name, &c, from, to, request);
}

static inline int blocks(int name, int kind, const void *out, int count, handle type, void *in, int in_count,
			 handle in_type, int root, handle comm, void *request)
{
	struct sn_collective c = {.kind = kind,
				  .comm = comm,
				  .type = type,
				  .in_type = in_type,
				  .count = count,
				  .in_count = in_count,
				  .root = root};
	return call(name, &c, out, in, request);
}

#define STAND_INS(p)                                                                                         \
	static int barrier_##p(handle comm, void *request)                                                   \
	{                                                                                                    \
		struct sn_collective c = {.kind = SN_BARRIER, .comm = comm};                                 \
		return call(p, &c, NULL, NULL, request);                                                     \
	}                                                                                                    \
	static int bcast_##p(void *buf, int count, handle type, int root, handle comm, void *request)        \
	{                                                                                                    \
		struct sn_collective c = {                                                                   \
			.kind = SN_BCAST, .comm = comm, .type = type, .count = count, .root = root};         \
		return call(p, &c, NULL, buf, request);                                                      \
	}                                                                                                    \
	static int reduce_##p(const void *from, void *to, int count, handle type, handle op, int root,       \
			      handle comm, void *request)                                                    \
	{                                                                                                    \
		return sums(p, SN_REDUCE, from, to, count, type, op, root, comm, request);                   \
	}                                                                                                    \
	static int allreduce_##p(const void *from, void *to, int count, handle type, handle op, handle comm, \
				 void *request)                                                              \
	{                                                                                                    \
		return sums(p, SN_ALLREDUCE, from, to, count, type, op, 0, comm, request);                   \
	}                                                                                                    \
	static int alltoall_##p(const void *out, int count, handle type, void *in, int in_count,             \
				handle in_type, handle comm, void *request)                                  \
	{                                                                                                    \
		return blocks(p, SN_ALLTOALL, out, count, type, in, in_count, in_type, 0, comm, request);    \
	}                                                                                                    \
	static int allgather_##p(const void *out, int count, handle type, void *in, int in_count,            \
				 handle in_type, handle comm, void *request)                                 \
	{                                                                                                    \
		return blocks(p, SN_ALLGATHER, out, count, type, in, in_count, in_type, 0, comm, request);   \
	}                                                                                                    \
	static int gather_##p(const void *out, int count, handle type, void *in, int in_count,               \
			      handle in_type, int root, handle comm, void *request)                          \
	{                                                                                                    \
		return blocks(p, SN_GATHER, out, count, type, in, in_count, in_type, root, comm, request);   \
	}                                                                                                    \
	static int scatter_##p(const void *out, int count, handle type, void *in, int in_count,              \
			       handle in_type, int root, handle comm, void *request)                         \
	{                                                                                                    \
		return blocks(p, SN_SCATTER, out, count, type, in, in_count, in_type, root, comm, request);  \
	}

STAND_INS(PLAIN)
STAND_INS(PROFILED)

/* ---- with counts beyond an int's ---- */

static inline bool fits(int64_t count)
{
	return likely(count >= 0 && count <= INT_MAX);
}

/* Where the MPI takes none, it says that it is wrong. */
static inline int int_of(int64_t count)
{
	return fits(count) ? (int)count : -1;
}

/* With all that stands before them. */
extern int PMPI_Ibcast(void *buf, int count, handle type, int root, handle comm, void *request);
extern int PMPI_Iallreduce(const void *from, void *to, int count, handle type, handle op, handle comm,
			   void *request);
extern int PMPI_Ireduce(const void *from, void *to, int count, handle type, handle op, int root, handle comm,
			void *request);
extern int PMPI_Ialltoall(const void *out, int count, handle type, void *in, int in_count, handle in_type,
			  handle comm, void *request);
extern int PMPI_Iallgather(const void *out, int count, handle type, void *in, int in_count, handle in_type,
			   handle comm, void *request);
extern int PMPI_Igather(const void *out, int count, handle type, void *in, int in_count, handle in_type,
			int root, handle comm, void *request);
extern int PMPI_Iscatter(const void *out, int count, handle type, void *in, int in_count, handle in_type,
			 int root, handle comm, void *request);

/* The MPI's; NULL: it has none, or the one without is as good. */
static union function wide_of(int kind, bool fit, handle comm)
{
	union function none = {NULL}, mpi = SN_FUNCTION(&next[WIDE][kind]);
	if (fit || !mpi.symbol)
		return none;
	sn_agree_doubt(comm);
	sn_requests_before();
	return mpi;
}

static int bcast_c(void *buf, int64_t count, handle type, int root, handle comm, void *request)
{
	union function mpi = wide_of(SN_BCAST, fits(count), comm);
	return mpi.symbol ? mpi.bcast_c(buf, count, type, root, comm, request)
			  : PMPI_Ibcast(buf, int_of(count), type, root, comm, request);
}

static int allreduce_c(const void *from, void *to, int64_t count, handle type, handle op, handle comm,
		       void *request)
{
	union function mpi = wide_of(SN_ALLREDUCE, fits(count), comm);
	return mpi.symbol ? mpi.allreduce_c(from, to, count, type, op, comm, request)
			  : PMPI_Iallreduce(from, to, int_of(count), type, op, comm, request);
}

static int reduce_c(const void *from, void *to, int64_t count, handle type, handle op, int root, handle comm,
		    void *request)
{
	union function mpi = wide_of(SN_REDUCE, fits(count), comm);
	return mpi.symbol ? mpi.reduce_c(from, to, count, type, op, root, comm, request)
			  : PMPI_Ireduce(from, to, int_of(count), type, op, root, comm, request);
}

static int alltoall_c(const void *out, int64_t count, handle type, void *in, int64_t in_count, handle in_type,
		      handle comm, void *request)
{
	bool fit = (fits(count) || sn_mpi_in_place(out)) && fits(in_count);
	union function mpi = wide_of(SN_ALLTOALL, fit, comm);
	return mpi.symbol ? mpi.blocks_c(out, count, type, in, in_count, in_type, comm, request)
			  : PMPI_Ialltoall(out, int_of(count), type, in, int_of(in_count), in_type, comm,
					   request);
}

static int allgather_c(const void *out, int64_t count, handle type, void *in, int64_t in_count,
		       handle in_type, handle comm, void *request)
{
	bool fit = (fits(count) || sn_mpi_in_place(out)) && fits(in_count);
	union function mpi = wide_of(SN_ALLGATHER, fit, comm);
	return mpi.symbol ? mpi.blocks_c(out, count, type, in, in_count, in_type, comm, request)
			  : PMPI_Iallgather(out, int_of(count), type, in, int_of(in_count), in_type, comm,
					    request);
}

/* Of counts that matter at the root alone, and those of who has his block in place. */
static bool all_fit(int64_t count, bool roots, int64_t in_count, bool roots_in, int root, handle comm)
{
	int rank = root;
	if (likely(fits(count) && fits(in_count)))
		return true;
	if (!sn_proof_find() || sn_proof_mpi.comm_rank(comm, &rank))
		return true;
	return (fits(count) || (roots && rank != root)) && (fits(in_count) || (roots_in && rank != root));
}

static int gather_c(const void *out, int64_t count, handle type, void *in, int64_t in_count, handle in_type,
		    int root, handle comm, void *request)
{
	bool fit = all_fit(sn_mpi_in_place(out) ? 0 : count, false, in_count, true, root, comm);
	union function mpi = wide_of(SN_GATHER, fit, comm);
	return mpi.symbol ? mpi.gather_c(out, count, type, in, in_count, in_type, root, comm, request)
			  : PMPI_Igather(out, int_of(count), type, in, int_of(in_count), in_type, root, comm,
					 request);
}

static int scatter_c(const void *out, int64_t count, handle type, void *in, int64_t in_count, handle in_type,
		     int root, handle comm, void *request)
{
	bool fit = all_fit(count, true, sn_mpi_in_place(in) ? 0 : in_count, false, root, comm);
	union function mpi = wide_of(SN_SCATTER, fit, comm);
	return mpi.symbol ? mpi.gather_c(out, count, type, in, in_count, in_type, root, comm, request)
			  : PMPI_Iscatter(out, int_of(count), type, in, int_of(in_count), in_type, root, comm,
					  request);
}

/* ---- standing in ---- */

#define BOTH(member, name)                                                                                   \
	{.member = name##_PLAIN},                                                                            \
	{                                                                                                    \
		.member = name##_PROFILED                                                                    \
	}

static const struct {
	const char *name;
	union function stand_in[NAMES];
} calls[SN_SCATTER + 1] = {
	[SN_BARRIER] = {"MPI_Ibarrier", {BOTH(barrier, barrier)}},
	[SN_BCAST] = {"MPI_Ibcast", {BOTH(bcast, bcast), {.bcast_c = bcast_c}}},
	[SN_ALLREDUCE] = {"MPI_Iallreduce", {BOTH(allreduce, allreduce), {.allreduce_c = allreduce_c}}},
	[SN_REDUCE] = {"MPI_Ireduce", {BOTH(reduce, reduce), {.reduce_c = reduce_c}}},
	[SN_ALLTOALL] = {"MPI_Ialltoall", {BOTH(blocks, alltoall), {.blocks_c = alltoall_c}}},
	[SN_ALLGATHER] = {"MPI_Iallgather", {BOTH(blocks, allgather), {.blocks_c = allgather_c}}},
	[SN_GATHER] = {"MPI_Igather", {BOTH(gather, gather), {.gather_c = gather_c}}},
	[SN_SCATTER] = {"MPI_Iscatter", {BOTH(gather, scatter), {.gather_c = scatter_c}}},
};

/* Above the last one: none. *wide: with _c. */
static int kind_of(const char *name, bool *wide)
{
	name += *name == 'P';
	for (int kind = 0; kind <= SN_SCATTER; kind++) {
		size_t len = calls[kind].name ? strlen(calls[kind].name) : 0;
		if (!len || strncmp(name, calls[kind].name, len) != 0)
			continue;
		*wide = !strcmp(name + len, "_c");
		if (*wide || !name[len])
			return kind;
	}
	return SN_SCATTER + 1;
}

bool sn_beginning_is(const char *name)
{
	bool wide;
	return kind_of(name, &wide) <= SN_SCATTER;
}

void *sn_beginning_stand_in(const char *name, void *definition)
{
	bool wide;
	int kind = kind_of(name, &wide), as = wide ? WIDE : *name == 'P' ? PROFILED : PLAIN;
	if (kind > SN_SCATTER || (!wide && !definition))
		return NULL;
	SN_FUNCTION_IS(&next[as][kind], definition);
	return calls[kind].stand_in[as].symbol;
}
