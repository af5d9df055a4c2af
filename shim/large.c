/* SPDX-License-Identifier: BSD-3-Clause */
#include "large.h"
#include "agree.h"
#include "proof.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PART (1 << 30) /* elements of a type in which those beyond an int's count lie */

/* Of this library: entry.S. */
extern int PMPI_Send(const void *buf, int count, handle type, int to, int tag, handle comm);
extern int PMPI_Isend(const void *buf, int count, handle type, int to, int tag, handle comm, void *request);
extern int PMPI_Recv(void *buf, int count, handle type, int from, int tag, handle comm, void *status);
extern int PMPI_Irecv(void *buf, int count, handle type, int from, int tag, handle comm, void *request);
extern int PMPI_Sendrecv(const void *out, int out_count, handle out_type, int to, int out_tag, void *in,
			 int in_count, handle in_type, int from, int in_tag, handle comm, void *status);
extern int PMPI_Bcast(void *buf, int count, handle type, int root, handle comm);
extern int PMPI_Alltoall(const void *out, int count, handle type, void *in, int in_count, handle in_type,
			 handle comm);
extern int PMPI_Allreduce(const void *from, void *to, int count, handle type, handle op, handle comm);
extern int PMPI_Reduce(const void *from, void *to, int count, handle type, handle op, int root, handle comm);
extern int PMPI_Gather(const void *out, int count, handle type, void *in, int in_count, handle in_type,
		       int root, handle comm);
extern int PMPI_Scatter(const void *out, int count, handle type, void *in, int in_count, handle in_type,
			int root, handle comm);
extern int PMPI_Scan(const void *from, void *to, int count, handle type, handle op, handle comm);
extern int PMPI_Exscan(const void *from, void *to, int count, handle type, handle op, handle comm);
extern int PMPI_Reduce_scatter_block(const void *from, void *to, int count, handle type, handle op,
				     handle comm);
extern int PMPI_Reduce_scatter(const void *from, void *to, const int *counts, handle type, handle op,
			       handle comm);
extern int PMPI_Allgatherv(const void *out, int count, handle type, void *in, const int *in_counts,
			   const int *displs, handle in_type, handle comm);
extern int PMPI_Allgather(const void *out, int count, handle type, void *in, int in_count, handle in_type,
			  handle comm);

union function {
	void *symbol;
	int (*send)(const void *buf, int64_t count, handle type, int to, int tag, handle comm);
	int (*isend)(const void *buf, int64_t count, handle type, int to, int tag, handle comm,
		     void *request);
	int (*recv)(void *buf, int64_t count, handle type, int from, int tag, handle comm, void *status);
	int (*irecv)(void *buf, int64_t count, handle type, int from, int tag, handle comm, void *request);
	int (*both)(const void *out, int64_t out_count, handle out_type, int to, int out_tag, void *in,
		    int64_t in_count, handle in_type, int from, int in_tag, handle comm, void *status);
	int (*bcast)(void *buf, int64_t count, handle type, int root, handle comm);
	int (*sum)(const void *from, void *to, int64_t count, handle type, handle op, handle comm);
	int (*reduce)(const void *from, void *to, int64_t count, handle type, handle op, int root,
		      handle comm);
	int (*parts)(const void *from, void *to, const int64_t *counts, handle type, handle op, handle comm);
	int (*gather)(const void *out, int64_t count, handle type, void *in, int64_t in_count, handle in_type,
		      int root, handle comm);
	int (*blocks)(const void *out, int64_t count, handle type, void *in, int64_t in_count, handle in_type,
		      handle comm);
	int (*vary)(const void *out, int64_t count, handle type, void *in, const int64_t *in_counts,
		    const intptr_t *displs, handle in_type, handle comm);
};

enum {
	SEND,
	ISEND,
	RECV,
	IRECV,
	BOTH,
	BCAST,
	ALLTOALL,
	ALLGATHER,
	ALLGATHERV,
	ALLREDUCE,
	REDUCE,
	GATHER,
	SCATTER,
	SCAN,
	EXSCAN,
	PARTS,
	BLOCK,
	CALLS
};

static union function next[CALLS]; /* the MPI's; NULL: it has none */

static inline bool fits(int64_t count)
{
	return likely(count >= 0 && count <= INT_MAX);
}

/* ---- where the MPI has no such function: one element of a type that has them all ---- */

static struct {
	int (*contiguous)(int count, handle old, handle *made);
	int (*structure)(int count, const int *lengths, const intptr_t *at, const handle *types,
			 handle *made);
	int (*resized)(handle old, intptr_t low, intptr_t extent, handle *made);
	int (*get_extent)(handle type, intptr_t *low, intptr_t *extent);
	int (*commit)(handle *type);
	int (*drop)(handle *type);
	int (*remote_size)(handle comm, int *size);
} of_types;
static pthread_once_t types_once = PTHREAD_ONCE_INIT;

static void find_types(void)
{
	static const char *const names[] = {"PMPI_Type_contiguous",	"PMPI_Type_create_struct",
					    "PMPI_Type_create_resized", "PMPI_Type_get_extent",
					    "PMPI_Type_commit",		"PMPI_Type_free",
					    "PMPI_Comm_remote_size"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *found = sn_mpi_find(names[i]);
		memcpy((char *)&of_types + i * sizeof(found), &found, sizeof(found));
	}
}

struct many {
	int count;
	handle type, made; /* made: to be freed after the call */
};

/* Handles in an array: MPICH's are half as long as an address. */
static int join(handle parts, handle rest, intptr_t at, handle *made)
{
	int lengths[2] = {1, 1};
	intptr_t places[2] = {0, at};
	handle types[2] = {parts, rest};
	if (!sn_mpi_wide())
		types[0] = (uint32_t)parts | (handle)(uint32_t)rest << 32;
	return of_types.structure(2, lengths, places, types, made);
}

/* An error of any of these has been said to the error handler by the MPI. */
static __attribute__((noinline)) int gather(int64_t count, handle type, struct many *m)
{
	handle part = 0, parts = 0, rest = 0, all = 0;
	intptr_t low = 0, extent = 0;
	pthread_once(&types_once, find_types);
	int rc = of_types.get_extent(type, &low, &extent);
	if (!rc)
		rc = of_types.contiguous(PART, type, &part);
	if (!rc)
		rc = of_types.contiguous((int)(count / PART), part, &parts);
	if (!rc)
		rc = of_types.contiguous((int)(count % PART), type, &rest);
	if (!rc)
		rc = join(parts, rest, count / PART * PART * extent, &all);
	if (!rc)
		rc = of_types.resized(all, low, count * extent, &m->made);
	if (!rc)
		rc = of_types.commit(&m->made);
	handle steps[] = {part, parts, rest, all};
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i])
			of_types.drop(&steps[i]);
	m->count = 1;
	m->type = m->made;
	return rc;
}

/* The same, where an int has room for them. */
static inline int many(int64_t count, handle type, struct many *m)
{
	*m = (struct many){fits(count) ? (int)count : -1, type, 0};
	return likely(count <= INT_MAX) ? 0 : gather(count, type, m);
}

static inline int done(struct many *m, int rc)
{
	if (!likely(!m->made))
		of_types.drop(&m->made);
	return rc;
}

/* ---- the calls ---- */

/* The MPI's, if this is beyond an int; else there is none to call. */
static inline union function beyond(int call, int64_t a, int64_t b)
{
	union function mpi = {NULL};
	if (!likely(fits(a) && fits(b)))
		mpi = SN_FUNCTION(&next[call]);
	return mpi;
}

/* Likewise of all ranks. */
static inline union function all_beyond(int call, int64_t a, int64_t b, handle comm)
{
	union function mpi = beyond(call, a, b);
	if (!likely(!mpi.symbol))
		sn_agree_doubt(comm);
	return mpi;
}

static int send(const void *buf, int64_t count, handle type, int to, int tag, handle comm)
{
	union function mpi = beyond(SEND, count, 0);
	struct many m;
	if (mpi.symbol)
		return mpi.send(buf, count, type, to, tag, comm);
	int rc = many(count, type, &m);
	return done(&m, rc ? rc : PMPI_Send(buf, m.count, m.type, to, tag, comm));
}

static int isend(const void *buf, int64_t count, handle type, int to, int tag, handle comm, void *request)
{
	union function mpi = beyond(ISEND, count, 0);
	struct many m;
	if (mpi.symbol)
		return mpi.isend(buf, count, type, to, tag, comm, request);
	int rc = many(count, type, &m);
	return done(&m, rc ? rc : PMPI_Isend(buf, m.count, m.type, to, tag, comm, request));
}

static int recv(void *buf, int64_t count, handle type, int from, int tag, handle comm, void *status)
{
	union function mpi = beyond(RECV, count, 0);
	struct many m;
	if (mpi.symbol)
		return mpi.recv(buf, count, type, from, tag, comm, status);
	int rc = many(count, type, &m);
	return done(&m, rc ? rc : PMPI_Recv(buf, m.count, m.type, from, tag, comm, status));
}

static int irecv(void *buf, int64_t count, handle type, int from, int tag, handle comm, void *request)
{
	union function mpi = beyond(IRECV, count, 0);
	struct many m;
	if (mpi.symbol)
		return mpi.irecv(buf, count, type, from, tag, comm, request);
	int rc = many(count, type, &m);
	return done(&m, rc ? rc : PMPI_Irecv(buf, m.count, m.type, from, tag, comm, request));
}

static int both(const void *out, int64_t out_count, handle out_type, int to, int out_tag, void *in,
		int64_t in_count, handle in_type, int from, int in_tag, handle comm, void *status)
{
	union function mpi = beyond(BOTH, out_count, in_count);
	struct many a, b = {0};
	if (mpi.symbol)
		return mpi.both(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag,
				comm, status);
	int rc = many(out_count, out_type, &a);
	if (!rc)
		rc = many(in_count, in_type, &b);
	if (!rc)
		rc = PMPI_Sendrecv(out, a.count, a.type, to, out_tag, in, b.count, b.type, from, in_tag, comm,
				   status);
	return done(&a, done(&b, rc));
}

static int bcast(void *buf, int64_t count, handle type, int root, handle comm)
{
	union function mpi = all_beyond(BCAST, count, 0, comm);
	struct many m;
	if (mpi.symbol)
		return mpi.bcast(buf, count, type, root, comm);
	int rc = many(count, type, &m);
	return done(&m, rc ? rc : PMPI_Bcast(buf, m.count, m.type, root, comm));
}

static inline int blocks(int call, const void *out, int64_t count, handle type, void *in, int64_t in_count,
			 handle in_type, handle comm)
{
	count = sn_mpi_in_place(out) ? 0 : count; /* then it says nothing, and the others' may be another */
	union function mpi = all_beyond(call, count, in_count, comm);
	struct many a, b = {0};
	if (mpi.symbol)
		return mpi.blocks(out, count, type, in, in_count, in_type, comm);
	int rc = many(count, type, &a);
	if (!rc)
		rc = many(in_count, in_type, &b);
	if (!rc)
		rc = call == ALLTOALL ? PMPI_Alltoall(out, a.count, a.type, in, b.count, b.type, comm)
				      : PMPI_Allgather(out, a.count, a.type, in, b.count, b.type, comm);
	return done(&a, done(&b, rc));
}

static int alltoall(const void *out, int64_t count, handle type, void *in, int64_t in_count, handle in_type,
		    handle comm)
{
	return blocks(ALLTOALL, out, count, type, in, in_count, in_type, comm);
}

static int allgather(const void *out, int64_t count, handle type, void *in, int64_t in_count, handle in_type,
		     handle comm)
{
	return blocks(ALLGATHER, out, count, type, in, in_count, in_type, comm);
}

/* What counts at the root alone may be anything elsewhere. */
static int64_t roots(int64_t count, int root, handle comm)
{
	int rank = root;
	bool elsewhere = !likely(fits(count)) && sn_proof_find() && !sn_proof_mpi.comm_rank(comm, &rank) &&
			 rank != root;
	return elsewhere ? 0 : count;
}

static int rooted(int call, const void *out, int64_t count, handle type, void *in, int64_t in_count,
		  handle in_type, int root, handle comm)
{
	union function mpi = all_beyond(call, count, in_count, comm);
	struct many a, b = {0};
	if (mpi.symbol)
		return mpi.gather(out, count, type, in, in_count, in_type, root, comm);
	int rc = many(count, type, &a);
	if (!rc)
		rc = many(in_count, in_type, &b);
	if (!rc)
		rc = call == GATHER ? PMPI_Gather(out, a.count, a.type, in, b.count, b.type, root, comm)
				    : PMPI_Scatter(out, a.count, a.type, in, b.count, b.type, root, comm);
	return done(&a, done(&b, rc));
}

static int gather_in(const void *out, int64_t count, handle type, void *in, int64_t in_count, handle in_type,
		     int root, handle comm)
{
	return rooted(GATHER, out, sn_mpi_in_place(out) ? 0 : count, type, in, roots(in_count, root, comm),
		      in_type, root, comm);
}

static int scatter(const void *out, int64_t count, handle type, void *in, int64_t in_count, handle in_type,
		   int root, handle comm)
{
	return rooted(SCATTER, out, roots(count, root, comm), type, in, sn_mpi_in_place(in) ? 0 : in_count,
		      in_type, root, comm);
}

#define NO_ROOT 0 /* there is none */

static int small_sum(int call, const void *from, void *to, int count, handle type, handle op, int root,
		     handle comm)
{
	switch (call) {
	case ALLREDUCE: return PMPI_Allreduce(from, to, count, type, op, comm);
	case SCAN: return PMPI_Scan(from, to, count, type, op, comm);
	case EXSCAN: return PMPI_Exscan(from, to, count, type, op, comm);
	default: return PMPI_Reduce(from, to, count, type, op, root, comm);
	}
}

/* Each element is summed by itself, so one sum may be several. Some ranks may have nowhere to put it. */
static int in_parts(int call, const void *from, void *to, int64_t count, handle type, handle op, int root,
		    handle comm)
{
	intptr_t low, extent = 0;
	pthread_once(&types_once, find_types);
	int rc = of_types.get_extent(type, &low, &extent);
	sn_agree_doubt(comm);
	for (int64_t at = 0; at < count && !rc; at += PART) {
		const void *in = sn_mpi_in_place(from) ? from : (const char *)from + extent * at;
		int part = count - at < PART ? (int)(count - at) : PART;
		rc = small_sum(call, in, to ? (char *)to + extent * at : NULL, part, type, op, root, comm);
	}
	return rc;
}

/*
 * Other ranks may call the function without _c for the same sum, and what goes without the MPI is no message: so it
 * goes the same way.
 */
static inline int any_sum(int call, const void *from, void *to, int64_t count, handle type, handle op,
			  int root, handle comm)
{
	return count > INT_MAX
		       ? in_parts(call, from, to, count, type, op, root, comm)
		       : small_sum(call, from, to, fits(count) ? (int)count : -1, type, op, root, comm);
}

static inline int sum(int call, const void *from, void *to, int64_t count, handle type, handle op,
		      handle comm)
{
	union function mpi = all_beyond(call, count, 0, comm);
	return mpi.symbol ? mpi.sum(from, to, count, type, op, comm)
			  : any_sum(call, from, to, count, type, op, NO_ROOT, comm);
}

static int allreduce(const void *from, void *to, int64_t count, handle type, handle op, handle comm)
{
	return sum(ALLREDUCE, from, to, count, type, op, comm);
}

static int scan(const void *from, void *to, int64_t count, handle type, handle op, handle comm)
{
	return sum(SCAN, from, to, count, type, op, comm);
}

static int exscan(const void *from, void *to, int64_t count, handle type, handle op, handle comm)
{
	return sum(EXSCAN, from, to, count, type, op, comm);
}

static int reduce(const void *from, void *to, int64_t count, handle type, handle op, int root, handle comm)
{
	union function mpi = all_beyond(REDUCE, count, 0, comm);
	return mpi.symbol ? mpi.reduce(from, to, count, type, op, root, comm)
			  : any_sum(REDUCE, from, to, count, type, op, root, comm);
}

/* To one rank after the other its part. In place a sum comes where the first parts were, which are done with, and may reach into its own. */
static int to_each(const void *from, char *to, const int64_t *counts, int64_t count, handle type, handle op,
		   handle comm)
{
	intptr_t low, extent = 0;
	int ranks = 0, rank = 0;
	int64_t at = 0;
	pthread_once(&types_once, find_types);
	sn_agree_doubt(comm);
	int rc = of_types.get_extent(type, &low, &extent);
	if (!rc && !(rc = sn_proof_mpi.comm_size(comm, &ranks)))
		rc = sn_proof_mpi.comm_rank(comm, &rank);
	for (int r = 0; r < ranks && !rc; r++) {
		bool in_place = sn_mpi_in_place(from), gets = r == rank;
		int64_t n = counts ? counts[r] : count;
		const char *in = (in_place ? to : (const char *)from) + extent * at;
		char *aside = gets && in_place && at && at < n ? malloc((size_t)(extent * n)) : NULL;
		rc = in_parts(REDUCE, gets && in_place && !at ? from : in, aside ? aside : to, n, type, op, r,
			      comm);
		if (aside && !rc)
			memcpy(to, aside, (size_t)(extent * n));
		free(aside);
		at += n;
	}
	return rc;
}

static int reduce_block(const void *from, void *to, int64_t count, handle type, handle op, handle comm)
{
	union function mpi = all_beyond(BLOCK, count, 0, comm);
	if (mpi.symbol)
		return mpi.sum(from, to, count, type, op, comm);
	return count > INT_MAX && sn_proof_find()
		       ? to_each(from, to, NULL, count, type, op, comm)
		       : PMPI_Reduce_scatter_block(from, to, fits(count) ? (int)count : -1, type, op, comm);
}

static int reduce_scatter(const void *from, void *to, const int64_t *counts, handle type, handle op,
			  handle comm)
{
	union function mpi = SN_FUNCTION(&next[PARTS]);
	int ranks = 0, *few = NULL;
	int64_t most = 0;
	if (counts && sn_proof_find() && !sn_proof_mpi.comm_size(comm, &ranks))
		few = malloc(sizeof(int) * (size_t)ranks);
	for (int r = 0; few && r < ranks; r++) {
		most = counts[r] > most ? counts[r] : most;
		few[r] = fits(counts[r]) ? (int)counts[r] : -1;
	}
	bool native = mpi.symbol && (!few || most > INT_MAX);
	if (native)
		sn_agree_doubt(comm);
	int rc = native		  ? mpi.parts(from, to, counts, type, op, comm)
		 : most > INT_MAX ? to_each(from, to, counts, 0, type, op, comm)
				  : PMPI_Reduce_scatter(from, to, few, type, op, comm);
	free(few);
	return rc;
}

/* Of one group: from one rank after the other, which has its own where it is to be. */
static int from_each(const void *out, int64_t count, handle type, char *in, const int64_t *counts,
		     const intptr_t *displs, handle in_type, handle comm, int ranks)
{
	intptr_t low, extent = 0;
	int rank = 0;
	sn_agree_doubt(comm);
	int rc = of_types.get_extent(in_type, &low, &extent);
	if (!rc && !(rc = sn_proof_mpi.comm_rank(comm, &rank)) && !sn_mpi_in_place(out))
		rc = allgather(out, count, type, in + extent * displs[rank], counts[rank], in_type,
			       sn_mpi_handle(SN_COMM_SELF));
	for (int r = 0; r < ranks && !rc; r++)
		rc = bcast(in + extent * displs[r], counts[r], in_type, r, comm);
	return rc;
}

/* Those that this rank gets something from. 0: not known. */
static int sources(handle comm, int *inter)
{
	int n = 0;
	pthread_once(&types_once, find_types);
	if (!sn_proof_find() || sn_proof_mpi.comm_test_inter(comm, inter) ||
	    (*inter ? of_types.remote_size(comm, &n) : sn_proof_mpi.comm_size(comm, &n)))
		return 0;
	return n;
}

struct few {
	int *counts, *displs;
	char *in; /* they count from here */
};

/* The least place: those of a rank may be far from its buffer's beginning, and that is its own affair. */
static intptr_t least(int n, const intptr_t *displs)
{
	intptr_t least = n ? displs[0] : 0;
	for (int r = 1; r < n; r++)
		least = displs[r] < least ? displs[r] : least;
	return least;
}

/* False: they are more than an int has room for, or there is no memory. */
static bool few_of(struct few *f, int n, const int64_t *counts, const intptr_t *displs, void *in,
		   handle in_type)
{
	intptr_t from = least(n, displs), low, extent = 0;
	bool all = true;
	*f = (struct few){.in = in};
	from = from < INT_MIN || from > INT_MAX / 2 ? from : 0;
	if (from && of_types.get_extent(in_type, &low, &extent))
		return false;
	f->counts = malloc(2 * sizeof(int) * (size_t)n);
	if (!f->counts)
		return false;
	f->displs = f->counts + n;
	f->in += from * extent;
	for (int r = 0; r < n; r++) {
		f->counts[r] = (int)counts[r];
		f->displs[r] = (int)(displs[r] - from);
		all &= f->counts[r] == counts[r] && f->displs[r] == displs[r] - from;
	}
	if (!all)
		free(f->counts);
	return all;
}

/* How many there are all ranks say alike, and so it is by that which way all go. */
static int allgatherv(const void *out, int64_t count, handle type, void *in, const int64_t *counts,
		      const intptr_t *displs, handle in_type, handle comm)
{
	union function mpi = SN_FUNCTION(&next[ALLGATHERV]);
	int inter = 1, n = counts && displs ? sources(comm, &inter) : 0;
	struct few f;
	struct many m;
	if (n && few_of(&f, n, counts, displs, in, in_type)) {
		int rc = many(sn_mpi_in_place(out) ? 0 : count, type, &m);
		if (!rc)
			rc = PMPI_Allgatherv(out, m.count, m.type, f.in, f.counts, f.displs, in_type, comm);
		free(f.counts);
		return done(&m, rc);
	}
	sn_agree_doubt(comm);
	if (mpi.symbol)
		return mpi.vary(out, count, type, in, counts, displs, in_type, comm);
	return n && !inter ? from_each(out, count, type, in, counts, displs, in_type, comm, n)
			   : PMPI_Allgatherv(out, -1, type, in, NULL, NULL, in_type, comm);
}

/* ---- standing in ---- */

void *sn_large_stand_in(const char *name, void *definition)
{
	static const struct {
		const char *name;
		union function stand_in;
	} calls[CALLS] = {
		[SEND] = {"MPI_Send_c", {.send = send}},
		[ISEND] = {"MPI_Isend_c", {.isend = isend}},
		[RECV] = {"MPI_Recv_c", {.recv = recv}},
		[IRECV] = {"MPI_Irecv_c", {.irecv = irecv}},
		[BOTH] = {"MPI_Sendrecv_c", {.both = both}},
		[BCAST] = {"MPI_Bcast_c", {.bcast = bcast}},
		[ALLTOALL] = {"MPI_Alltoall_c", {.blocks = alltoall}},
		[ALLGATHER] = {"MPI_Allgather_c", {.blocks = allgather}},
		[ALLGATHERV] = {"MPI_Allgatherv_c", {.vary = allgatherv}},
		[ALLREDUCE] = {"MPI_Allreduce_c", {.sum = allreduce}},
		[REDUCE] = {"MPI_Reduce_c", {.reduce = reduce}},
		[SCAN] = {"MPI_Scan_c", {.sum = scan}},
		[EXSCAN] = {"MPI_Exscan_c", {.sum = exscan}},
		[BLOCK] = {"MPI_Reduce_scatter_block_c", {.sum = reduce_block}},
		[PARTS] = {"MPI_Reduce_scatter_c", {.parts = reduce_scatter}},
		[SCATTER] = {"MPI_Scatter_c", {.gather = scatter}},
		[GATHER] = {"MPI_Gather_c", {.gather = gather_in}},
	};
	int p = *name == 'P', call = 0;
	while (call < CALLS && strcmp(calls[call].name, name + p) != 0)
		call++;
	if (call == CALLS || (definition && !p && sn_quick_is_tools(name, definition)))
		return NULL;
	/* the same for both names, and for threads that call at once */
	SN_FUNCTION_IS(&next[call], definition);
	return calls[call].stand_in.symbol;
}
