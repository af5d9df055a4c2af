/* SPDX-License-Identifier: BSD-3-Clause */
#include "varying.h"
#include "agree.h"
#include "bcast.h"
#include "collective.h"
#include "rooted.h"
#include "vary.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MPIS_ROOT (-4) /* MPI_ROOT, of who has no calls with _c */

/* As they are called: by their names without a P, with it, and, both, with counts beyond an int's. */
enum { PLAIN, PROFILED, WIDE, NAMES };

#define FIRST SN_GATHERV /* of the kinds, as far as they are here */
#define LAST  SN_ALLTOALLW

union function {
	void *symbol;
	int (*gatherv)(const void *out, int count, handle type, void *in, const void *in_counts,
		       const void *displs, handle in_type, int root, handle comm);
	int (*gatherv_c)(const void *out, int64_t count, handle type, void *in, const void *in_counts,
			 const void *displs, handle in_type, int root, handle comm);
	int (*scatterv)(const void *out, const void *counts, const void *displs, handle type, void *in,
			int in_count, handle in_type, int root, handle comm);
	int (*scatterv_c)(const void *out, const void *counts, const void *displs, handle type, void *in,
			  int64_t in_count, handle in_type, int root, handle comm);
	int (*alltoallv)(const void *out, const void *counts, const void *displs, handle type, void *in,
			 const void *in_counts, const void *in_displs, handle in_type, handle comm);
	int (*alltoallw)(const void *out, const void *counts, const void *displs, const void *types, void *in,
			 const void *in_counts, const void *in_displs, const void *in_types, handle comm);
};

static union function next[NAMES][LAST + 1];

/* ---- the MPI's ---- */

static int do_by_mpi(int name, const struct sn_collective *c, const void *from, void *to)
{
	union function mpi = SN_FUNCTION(&next[name][c->kind]);
	const struct sn_lengths *out = &c->out, *in = &c->in;
	switch (c->kind) {
	case SN_GATHERV:
		return name == WIDE ? mpi.gatherv_c(from, c->each, c->type, to, in->counts, in->displs,
						    c->in_type, c->root, c->comm)
				    : mpi.gatherv(from, (int)c->each, c->type, to, in->counts, in->displs,
						  c->in_type, c->root, c->comm);
	case SN_SCATTERV:
		return name == WIDE ? mpi.scatterv_c(from, out->counts, out->displs, c->type, to, c->each,
						     c->in_type, c->root, c->comm)
				    : mpi.scatterv(from, out->counts, out->displs, c->type, to, (int)c->each,
						   c->in_type, c->root, c->comm);
	case SN_ALLTOALLV:
		return mpi.alltoallv(from, out->counts, out->displs, c->type, to, in->counts, in->displs,
				     c->in_type, c->comm);
	default:
		return mpi.alltoallw(from, out->counts, out->displs, c->types, to, in->counts, in->displs,
				     c->in_types, c->comm);
	}
}

static int do_slowly(int name, const struct sn_collective *c, const void *from, void *to)
{
	sn_requests_before();
	return sn_requests_after(do_by_mpi(name, c, from, to));
}

/* ---- where the MPI has none with _c ---- */

static int by_ints(const struct sn_collective *c, const void *from, void *to);

struct ints {
	int *counts, *displs;
};

/* NULL stays so, and is what becomes of what no int has room for: of that the MPI says that it is wrong. */
static struct ints ints_of(const struct sn_lengths *l, int n)
{
	struct ints i = {0};
	bool all = true;
	if (!l->counts || !l->displs || n <= 0 || !(i.counts = malloc(2 * sizeof(int) * (size_t)n)))
		return i;
	i.displs = i.counts + n;
	for (int r = 0; r < n; r++) {
		int64_t count = sn_count_of(l, (unsigned)r), displ = sn_displ_of(l, (unsigned)r);
		i.counts[r] = (int)count;
		i.displs[r] = (int)displ;
		all &= i.counts[r] == count && i.displs[r] == displ;
	}
	if (all)
		return i;
	free(i.counts);
	return (struct ints){0};
}

/* Of how many ranks this one says lengths in such a call. */
static int said_of(const struct sn_collective *c)
{
	static int (*remote_size)(handle comm, int *size);
	int rank = 0, n = 0, inter = 0;
	if (!sn_proof_find() || sn_proof_mpi.comm_test_inter(c->comm, &inter))
		return 0;
	if (c->kind == SN_GATHERV || c->kind == SN_SCATTERV) {
		if (inter ? c->root != OPEN_MPIS_ROOT
			  : sn_proof_mpi.comm_rank(c->comm, &rank) || rank != c->root)
			return 0;
	}
	if (inter && !remote_size) {
		void *found = sn_mpi_find("PMPI_Comm_remote_size");
		memcpy(&remote_size, &found, sizeof(found));
	}
	return (inter ? remote_size(c->comm, &n) : sn_proof_mpi.comm_size(c->comm, &n)) ? 0 : n;
}

static int narrow(const struct sn_collective *c, const void *from, void *to)
{
	struct sn_collective with_ints = *c;
	int n = said_of(c);
	struct ints out = ints_of(&c->out, n), in = ints_of(&c->in, n);
	with_ints.out = (struct sn_lengths){out.counts, out.displs, false};
	with_ints.in = (struct sn_lengths){in.counts, in.displs, false};
	if (c->each != (int)c->each)
		with_ints.each = -1;
	int rc = by_ints(&with_ints, from, to);
	free(out.counts);
	free(in.counts);
	return rc;
}

/* ---- the calls ---- */

static int call(int name, struct sn_collective *c, const void *from, void *to)
{
	struct sn_meet *m;
	int rc = SN_MEET_MPIS;
	if (name == WIDE && !next[WIDE][c->kind].symbol)
		return narrow(c, from, to);
	c->out.wide = c->in.wide = name == WIDE;
	c->from = (uintptr_t)from >> SN_QUICK_REGION;
	c->to = (uintptr_t)to >> SN_QUICK_REGION;
	c->generation = sn_collective_generation();
	sn_quick_told();
	sn_agree_note(c, false);
	if (c->kind == SN_GATHERV && (m = sn_rooted_of(c, from)))
		rc = sn_rooted_do(m, c, from, to);
	else if (c->kind == SN_SCATTERV && (m = sn_bcast_of(c)))
		rc = sn_bcast_do(m, c, from, to);
	else if ((m = sn_vary_of(c)))
		rc = sn_vary_do(m, c, from, to);
	return sn_agree_ended(c, likely(rc != SN_MEET_MPIS) ? rc : do_slowly(name, c, from, to));
}

#define STAND_INS(name, int_of_count)                                                                        \
	static int gatherv_##name(const void *out, int_of_count count, handle type, void *in,                \
				  const void *counts, const void *displs, handle in_type, int root,          \
				  handle comm)                                                               \
	{                                                                                                    \
		struct sn_collective c = {.kind = SN_GATHERV,                                                \
					  .comm = comm,                                                      \
					  .type = type,                                                      \
					  .in_type = in_type,                                                \
					  .each = count,                                                     \
					  .in = {counts, displs, name == WIDE},                              \
					  .root = root};                                                     \
		return call(name, &c, out, in);                                                              \
	}                                                                                                    \
	static int scatterv_##name(const void *out, const void *counts, const void *displs, handle type,     \
				   void *in, int_of_count count, handle in_type, int root, handle comm)      \
	{                                                                                                    \
		struct sn_collective c = {.kind = SN_SCATTERV,                                               \
					  .comm = comm,                                                      \
					  .type = type,                                                      \
					  .in_type = in_type,                                                \
					  .each = count,                                                     \
					  .out = {counts, displs, name == WIDE},                             \
					  .root = root};                                                     \
		return call(name, &c, out, in);                                                              \
	}                                                                                                    \
	static int alltoallv_##name(const void *out, const void *counts, const void *displs, handle type,    \
				    void *in, const void *in_counts, const void *in_displs, handle in_type,  \
				    handle comm)                                                             \
	{                                                                                                    \
		struct sn_collective c = {.kind = SN_ALLTOALLV,                                              \
					  .comm = comm,                                                      \
					  .type = type,                                                      \
					  .in_type = in_type,                                                \
					  .in = {in_counts, in_displs, name == WIDE},                        \
					  .out = {counts, displs, name == WIDE}};                            \
		return call(name, &c, out, in);                                                              \
	}                                                                                                    \
	static int alltoallw_##name(const void *out, const void *counts, const void *displs,                 \
				    const void *types, void *in, const void *in_counts,                      \
				    const void *in_displs, const void *in_types, handle comm)                \
	{                                                                                                    \
		struct sn_collective c = {.kind = SN_ALLTOALLW,                                              \
					  .comm = comm,                                                      \
					  .types = types,                                                    \
					  .in_types = in_types,                                              \
					  .in = {in_counts, in_displs, name == WIDE},                        \
					  .out = {counts, displs, name == WIDE}};                            \
		return call(name, &c, out, in);                                                              \
	}

STAND_INS(PLAIN, int)
STAND_INS(PROFILED, int)
STAND_INS(WIDE, int64_t)

/* With all that stands before them. */
extern int PMPI_Gatherv(const void *out, int count, handle type, void *in, const int *counts,
			const int *displs, handle in_type, int root, handle comm);
extern int PMPI_Scatterv(const void *out, const int *counts, const int *displs, handle type, void *in,
			 int in_count, handle in_type, int root, handle comm);
extern int PMPI_Alltoallv(const void *out, const int *counts, const int *displs, handle type, void *in,
			  const int *in_counts, const int *in_displs, handle in_type, handle comm);
extern int PMPI_Alltoallw(const void *out, const int *counts, const int *displs, const void *types, void *in,
			  const int *in_counts, const int *in_displs, const void *in_types, handle comm);

static int by_ints(const struct sn_collective *c, const void *from, void *to)
{
	const struct sn_lengths *out = &c->out, *in = &c->in;
	switch (c->kind) {
	case SN_GATHERV:
		return PMPI_Gatherv(from, (int)c->each, c->type, to, in->counts, in->displs, c->in_type,
				    c->root, c->comm);
	case SN_SCATTERV:
		return PMPI_Scatterv(from, out->counts, out->displs, c->type, to, (int)c->each, c->in_type,
				     c->root, c->comm);
	case SN_ALLTOALLV:
		return PMPI_Alltoallv(from, out->counts, out->displs, c->type, to, in->counts, in->displs,
				      c->in_type, c->comm);
	default:
		return PMPI_Alltoallw(from, out->counts, out->displs, c->types, to, in->counts, in->displs,
				      c->in_types, c->comm);
	}
}

/* ---- standing in ---- */

static const struct {
	const char *name;
	union function stand_in[NAMES];
} calls[LAST + 1] = {
	[SN_GATHERV] = {"MPI_Gatherv",
			{{.gatherv = gatherv_PLAIN},
			 {.gatherv = gatherv_PROFILED},
			 {.gatherv_c = gatherv_WIDE}}},
	[SN_SCATTERV] = {"MPI_Scatterv",
			 {{.scatterv = scatterv_PLAIN},
			  {.scatterv = scatterv_PROFILED},
			  {.scatterv_c = scatterv_WIDE}}},
	[SN_ALLTOALLV] = {"MPI_Alltoallv",
			  {{.alltoallv = alltoallv_PLAIN},
			   {.alltoallv = alltoallv_PROFILED},
			   {.alltoallv = alltoallv_WIDE}}},
	[SN_ALLTOALLW] = {"MPI_Alltoallw",
			  {{.alltoallw = alltoallw_PLAIN},
			   {.alltoallw = alltoallw_PROFILED},
			   {.alltoallw = alltoallw_WIDE}}},
};

/* *wide: with _c. */
static int kind_of(const char *name, bool *wide)
{
	name += *name == 'P';
	for (int kind = FIRST; kind <= LAST; kind++) {
		size_t len = calls[kind].name ? strlen(calls[kind].name) : 0;
		if (!len || strncmp(name, calls[kind].name, len) != 0)
			continue;
		*wide = !strcmp(name + len, "_c");
		if (*wide || !name[len])
			return kind;
	}
	return 0;
}

bool sn_varying_is(const char *name)
{
	bool wide;
	return kind_of(name, &wide) != 0;
}

void *sn_varying_stand_in(const char *name, void *definition)
{
	bool wide;
	int kind = kind_of(name, &wide), as = wide ? WIDE : *name == 'P' ? PROFILED : PLAIN;
	if (!kind || (!wide && !definition))
		return NULL;
	SN_FUNCTION_IS(&next[as][kind], definition);
	return calls[kind].stand_in[as].symbol;
}
