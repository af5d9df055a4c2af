/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective.h"
#include "agree.h"
#include "bcast.h"
#include "blocks.h"
#include "flat.h"
#include "long.h"
#include "rooted.h"
#include <string.h>

#define ENTRIES	  64
#define NOT_BEGUN (-1)

union function {
	void *symbol;
	int (*barrier)(handle comm);
	int (*bcast)(void *buf, int count, handle type, int root, handle comm);
	int (*allreduce)(const void *out, void *in, int count, handle type, handle op, handle comm);
	int (*reduce)(const void *from, void *to, int count, handle type, handle op, int root, handle comm);
	int (*scan)(const void *from, void *to, int count, handle type, handle op, handle comm);
	int (*reduce_scatter)(const void *from, void *to, const int *counts, handle type, handle op,
			      handle comm);
	int (*gather)(const void *out, int count, handle type, void *in, int in_count, handle in_type,
		      int root, handle comm);
	int (*blocks)(const void *out, int count, handle type, void *in, int in_count, handle in_type,
		      handle comm);
	int (*allgatherv)(const void *out, int count, handle type, void *in, const int *in_counts,
			  const int *displs, handle in_type, handle comm);
};

/* The MPI's, or a tool's: without a P, and with it. */
static union function next[2][SN_ALLGATHERV + 1];

static struct sn_seen entries[ENTRIES];
static _Atomic unsigned generation = 1;

static inline unsigned generation_now(void)
{
	return atomic_load_explicit(&generation, memory_order_relaxed);
}

static inline struct sn_seen *entry_of(const struct sn_collective *c)
{
	uintptr_t hash = (unsigned)c->root * 5 + (unsigned)c->kind * 17 + c->to * 3 + c->from +
			 (unsigned)c->count + (c->comm >> 5) + (c->type ^ c->type >> 5) * 7 +
			 (c->op ^ c->op >> 5) * 11;
	return &entries[hash % ENTRIES];
}

static inline bool same(const struct sn_collective *a, const struct sn_collective *b)
{
	return a->kind == b->kind && a->comm == b->comm && a->count == b->count && a->root == b->root &&
	       a->type == b->type && a->op == b->op && a->from == b->from && a->to == b->to &&
	       a->in_count == b->in_count && a->in_type == b->in_type && a->generation == b->generation &&
	       a->freed == b->freed;
}

unsigned sn_collective_generation(void)
{
	return generation_now();
}

/* ---- doing it again ---- */

/* May this call go without the MPI? */
static inline const struct sn_shim_quick *quick(struct sn_seen *e, const struct sn_collective *c)
{
	if (!likely(e->known && same(&e->call, c) && e->turn > 0))
		return NULL;
	e->turn--;
	return sn_quick();
}

#define LONG_NS UINT64_C(10000000000)
static handle waits_in;
static uint64_t waits_since;

static void meanwhile(void)
{
	uint64_t now = sn_quick_now_ns();
	sn_proof_look(waits_in);
	if (!waits_since)
		waits_since = now;
	if (now - waits_since > LONG_NS)
		sn_agree_waits_long();
}

static __attribute__((noinline)) int send_late(const struct sn_shim_quick *q, const struct sn_seen *e,
					       const struct sn_step *s, const struct sn_shim_way *way,
					       const void *buf)
{
	if (s == e->step)
		return NOT_BEGUN;
	return q->send_surely(way, buf) < 0 ? sn_proof_failed(e->call.comm) : 0;
}

static __attribute__((noinline)) int recv_late(const struct sn_shim_quick *q, const struct sn_seen *e,
					       const struct sn_step *s, void *buf)
{
	if (s == e->step)
		return NOT_BEGUN;
	waits_in = e->call.comm;
	waits_since = 0;
	return q->recv_surely(&s->way, buf, meanwhile) < 0 ? sn_proof_failed(e->call.comm) : 0;
}

/* marks: flat.h. Whether this rank wants to go over, and all that has come was marked. */
static __attribute__((noinline)) int do_marked(const struct sn_shim_quick *q, const struct sn_seen *e,
					       const struct sn_step *s, void *buf, bool *marks)
{
	struct sn_shim_way way = s->way;
	int rc = 0;
	if (s->recvs) {
		rc = q->recv(&way, buf) >= 0 ? 0 : recv_late(q, e, s, buf);
		*marks = !rc && q->marked(&way);
	} else {
		way.flags |= SN_SHIM_MARK;
		rc = q->send(&way, buf) ? 0 : send_late(q, e, s, &way, buf);
	}
	return rc;
}

static inline int do_step(const struct sn_shim_quick *q, const struct sn_seen *e, const struct sn_step *s,
			  void *buf, bool *marks)
{
	if (!likely(!*marks))
		return do_marked(q, e, s, buf, marks);
	if (s->recvs)
		return likely(q->recv(&s->way, buf) >= 0) ? 0 : recv_late(q, e, s, buf);
	return likely(q->send(&s->way, buf)) ? 0 : send_late(q, e, s, &s->way, buf);
}

/* 0, an error of the MPI's, or NOT_BEGUN. */
static inline int move(const struct sn_shim_quick *q, const struct sn_seen *e, const void *from, void *to,
		       bool *marks)
{
	char *base[2] = {to, (char *)(uintptr_t)from};
	int rc = 0;
	if (to && from && e->own_len) /* a barrier has none of them */
		memmove(base[0] + e->own_in, base[1] + e->own_out, e->own_len);
	for (const struct sn_step *s = e->step; !rc && s < e->step + e->steps; s++)
		rc = do_step(q, e, s, base[s->out] + s->at, marks);
	return rc;
}

/* Likewise, of who takes part in each step: two of these are a message out and one in. */
static inline int double_up(const struct sn_shim_quick *q, const struct sn_seen *e, void *to, size_t len,
			    bool *marks)
{
	static char came[SN_ROOM] __attribute__((aligned(64)));
	const struct sn_step *s = e->step, *end = s + e->steps;
	int rc = 0;
	if (!likely(!e->doubling.stands)) {
		if ((rc = do_step(q, e, s++, came, marks)))
			return rc;
		sn_combine(e, SN_OF_PAIR, to, came, len);
	}
	for (int k = 0; s + 1 < end; k++, s += 2) {
		if ((rc = do_step(q, e, s, to, marks)) || (rc = do_step(q, e, s + 1, came, marks)))
			return rc;
		sn_combine(e, k, to, came, len);
	}
	return s < end ? do_step(q, e, s, to, marks) : 0;
}

/* Likewise. */
static inline int reduce(const struct sn_shim_quick *q, const struct sn_seen *e, const void *from, void *to,
			 bool *marks)
{
	size_t len = e->step->way.len;
	if (!sn_mpi_in_place(from))
		memcpy(to, from, len);
	if (likely(!e->doubling.brings))
		return double_up(q, e, to, len, marks);
	int rc = do_step(q, e, &e->step[0], to, marks);
	return rc ? rc : do_step(q, e, &e->step[1], to, marks);
}

/* ---- the calls ---- */

void sn_collective_forget(void)
{
	atomic_fetch_add(&generation, 1);
	if (!atomic_load(&sn_mpi_many))
		sn_proof_spoil();
}

/* From here on, if it is the second such call in a row. What is watched in vain is not watched the next 2 to 64 times. */
static bool watch(struct sn_seen *e, const struct sn_collective *c, const void *from, const void *to)
{
	e->known = false;
	if (!same(&e->call, c)) {
		e->call = *c;
		e->alike = e->turn = e->fails = 0;
		e->own_len = 0;
		return false;
	}
	if (e->turn < 0) {
		e->turn++;
		return false;
	}
	return sn_proof_watch(e, from, to);
}

static int do_by_mpi(const struct sn_collective *c, const void *from, void *to, const union function *slowly)
{
	union function mpi = SN_FUNCTION(slowly);
	switch (c->kind) {
	case SN_BARRIER: return mpi.barrier(c->comm);
	case SN_BCAST: return mpi.bcast(to, c->count, c->type, c->root, c->comm);
	case SN_ALLREDUCE: return mpi.allreduce(from, to, c->count, c->type, c->op, c->comm);
	case SN_REDUCE: return mpi.reduce(from, to, c->count, c->type, c->op, c->root, c->comm);
	case SN_SCAN:
	case SN_EXSCAN:
	case SN_REDUCE_SCATTER_BLOCK: return mpi.scan(from, to, c->count, c->type, c->op, c->comm);
	case SN_REDUCE_SCATTER: return mpi.reduce_scatter(from, to, c->counts, c->type, c->op, c->comm);
	case SN_ALLGATHERV:
		return mpi.allgatherv(from, c->count, c->type, to, c->counts, c->displs, c->in_type, c->comm);
	case SN_GATHER:
	case SN_SCATTER:
		return mpi.gather(from, c->count, c->type, to, c->in_count, c->in_type, c->root, c->comm);
	default: return mpi.blocks(from, c->count, c->type, to, c->in_count, c->in_type, c->comm);
	}
}

static int do_slowly(const struct sn_collective *c, const void *from, void *to, const union function *slowly)
{
	sn_requests_before();
	return sn_requests_after(do_by_mpi(c, from, to, slowly));
}

static __attribute__((noinline)) int do_watched(const struct sn_collective *c, const void *from, void *to,
						const union function *slowly)
{
	struct sn_seen *e = entry_of(c);
	bool watches = watch(e, c, from, to);
	int rc = do_slowly(c, from, to, slowly);
	if (watches)
		sn_proof_over(e, !rc, from, to);
	return rc;
}

static inline int do_somehow(struct sn_collective *c, const void *from, void *to,
			     const union function *slowly)
{
	struct sn_meet *m = sn_flat_of(c);
	if (m)
		return sn_flat_do(m, c, from, to);
	if ((m = sn_long_of(c, from, to)))
		return sn_long_do(m, c, from, to);
	if ((m = sn_blocks_of(c))) {
		int rc = sn_blocks_do(m, c, from, to);
		return likely(rc != SN_MEET_MPIS) ? rc : do_slowly(c, from, to, slowly);
	}
	if ((m = sn_bcast_of(c)))
		return sn_bcast_do(m, c, from, to);
	if ((m = sn_rooted_of(c, from)))
		return sn_rooted_do(m, c, from, to);
	if (!likely(!atomic_load_explicit(&sn_mpi_many, memory_order_relaxed)) || c->kind > SN_ALLGATHER)
		return do_slowly(c, from, to, slowly);
	c->freed = sn_freed(c->comm) + sn_freed(c->type) + sn_freed(c->in_type);
	struct sn_seen *e = entry_of(c);
	const struct sn_shim_quick *q = quick(e, c);
	if (!likely(q))
		return do_watched(c, from, to, slowly);
	bool marks = sn_flat_wanted(q, e);
	int rc = c->kind == SN_ALLREDUCE ? reduce(q, e, from, to, &marks) : move(q, e, from, to, &marks);
	if (!likely(!marks) && !rc)
		sn_flat_agreed(e);
	return likely(rc != NOT_BEGUN) ? rc : do_slowly(c, from, to, slowly);
}

static inline int call(struct sn_collective *c, const void *from, void *to, const union function *slowly)
{
	sn_quick_told();
	if (!likely(!atomic_load_explicit(&sn_meet_waiting, memory_order_relaxed)))
		sn_meet_in_time(c->comm);
	if (!sn_proof_looks_right(c) && sn_proof_refused(c, from, to))
		return do_slowly(c, from, to, slowly);
	sn_agree_note(c, false);
	return sn_agree_ended(c, do_somehow(c, from, to, slowly));
}

/* ---- standing in ---- */

static inline uintptr_t region(const void *buf)
{
	return (uintptr_t)buf >> SN_QUICK_REGION;
}

/* counts and displs: where they differ from rank to rank, in place of in_count. */
static inline int blocks(int kind, int p, const void *out, int count, handle type, void *in, int in_count,
			 const int *counts, const int *displs, handle in_type, int root, handle comm)
{
	struct sn_collective c = {.kind = kind,
				  .comm = comm,
				  .type = type,
				  .in_type = in_type,
				  .from = region(out),
				  .to = region(in),
				  .count = count,
				  .in_count = in_count,
				  .counts = counts,
				  .displs = displs,
				  .root = root,
				  .generation = generation_now()};
	return call(&c, out, in, &next[p][kind]);
}

static inline int sums(int kind, int p, const void *from, void *to, int count, const int *counts, handle type,
		       handle op, int root, handle comm)
{
	struct sn_collective c = {.kind = kind,
				  .comm = comm,
				  .type = type,
				  .op = op,
				  .from = region(from),
				  .to = region(to),
				  .count = count,
				  .counts = counts,
				  .root = root,
				  .generation = generation_now()};
	return call(&c, from, to, &next[p][kind]);
}

#define STAND_INS(p)                                                                                         \
	static int barrier_##p(handle comm)                                                                  \
	{                                                                                                    \
		struct sn_collective c = {.kind = SN_BARRIER, .comm = comm, .generation = generation_now()}; \
		return call(&c, NULL, NULL, &next[p][SN_BARRIER]);                                           \
	}                                                                                                    \
	static int bcast_##p(void *buf, int count, handle type, int root, handle comm)                       \
	{                                                                                                    \
		struct sn_collective c = {.kind = SN_BCAST,                                                  \
					  .comm = comm,                                                      \
					  .type = type,                                                      \
					  .to = region(buf),                                                 \
					  .count = count,                                                    \
					  .root = root,                                                      \
					  .generation = generation_now()};                                   \
		return call(&c, NULL, buf, &next[p][SN_BCAST]);                                              \
	}                                                                                                    \
	static int allreduce_##p(const void *from, void *to, int count, handle type, handle op, handle comm) \
	{                                                                                                    \
		return sums(SN_ALLREDUCE, p, from, to, count, NULL, type, op, 0, comm);                      \
	}                                                                                                    \
	static int reduce_##p(const void *from, void *to, int count, handle type, handle op, int root,       \
			      handle comm)                                                                   \
	{                                                                                                    \
		return sums(SN_REDUCE, p, from, to, count, NULL, type, op, root, comm);                      \
	}                                                                                                    \
	static int gather_##p(const void *out, int count, handle type, void *in, int in_count,               \
			      handle in_type, int root, handle comm)                                         \
	{                                                                                                    \
		return blocks(SN_GATHER, p, out, count, type, in, in_count, NULL, NULL, in_type, root,       \
			      comm);                                                                         \
	}                                                                                                    \
	static int scatter_##p(const void *out, int count, handle type, void *in, int in_count,              \
			       handle in_type, int root, handle comm)                                        \
	{                                                                                                    \
		return blocks(SN_SCATTER, p, out, count, type, in, in_count, NULL, NULL, in_type, root,      \
			      comm);                                                                         \
	}                                                                                                    \
	static int scan_##p(const void *from, void *to, int count, handle type, handle op, handle comm)      \
	{                                                                                                    \
		return sums(SN_SCAN, p, from, to, count, NULL, type, op, 0, comm);                           \
	}                                                                                                    \
	static int exscan_##p(const void *from, void *to, int count, handle type, handle op, handle comm)    \
	{                                                                                                    \
		return sums(SN_EXSCAN, p, from, to, count, NULL, type, op, 0, comm);                         \
	}                                                                                                    \
	static int reduce_block_##p(const void *from, void *to, int count, handle type, handle op,           \
				    handle comm)                                                             \
	{                                                                                                    \
		return sums(SN_REDUCE_SCATTER_BLOCK, p, from, to, count, NULL, type, op, 0, comm);           \
	}                                                                                                    \
	static int reduce_scatter_##p(const void *from, void *to, const int *counts, handle type, handle op, \
				      handle comm)                                                           \
	{                                                                                                    \
		return sums(SN_REDUCE_SCATTER, p, from, to, 0, counts, type, op, 0, comm);                   \
	}                                                                                                    \
	static int alltoall_##p(const void *out, int count, handle type, void *in, int in_count,             \
				handle in_type, handle comm)                                                 \
	{                                                                                                    \
		return blocks(SN_ALLTOALL, p, out, count, type, in, in_count, NULL, NULL, in_type, 0, comm); \
	}                                                                                                    \
	static int allgather_##p(const void *out, int count, handle type, void *in, int in_count,            \
				 handle in_type, handle comm)                                                \
	{                                                                                                    \
		return blocks(SN_ALLGATHER, p, out, count, type, in, in_count, NULL, NULL, in_type, 0,       \
			      comm);                                                                         \
	}                                                                                                    \
	static int allgatherv_##p(const void *out, int count, handle type, void *in, const int *counts,      \
				  const int *displs, handle in_type, handle comm)                            \
	{                                                                                                    \
		return blocks(SN_ALLGATHERV, p, out, count, type, in, 0, counts, displs, in_type, 0, comm);  \
	}

STAND_INS(0)
STAND_INS(1)

static const struct {
	const char *name;
	union function stand_in[2];
} calls[SN_ALLGATHERV + 1] = {
	[SN_BARRIER] = {"MPI_Barrier", {{.barrier = barrier_0}, {.barrier = barrier_1}}},
	[SN_BCAST] = {"MPI_Bcast", {{.bcast = bcast_0}, {.bcast = bcast_1}}},
	[SN_ALLREDUCE] = {"MPI_Allreduce", {{.allreduce = allreduce_0}, {.allreduce = allreduce_1}}},
	[SN_ALLTOALL] = {"MPI_Alltoall", {{.blocks = alltoall_0}, {.blocks = alltoall_1}}},
	[SN_REDUCE] = {"MPI_Reduce", {{.reduce = reduce_0}, {.reduce = reduce_1}}},
	[SN_GATHER] = {"MPI_Gather", {{.gather = gather_0}, {.gather = gather_1}}},
	[SN_SCATTER] = {"MPI_Scatter", {{.gather = scatter_0}, {.gather = scatter_1}}},
	[SN_SCAN] = {"MPI_Scan", {{.scan = scan_0}, {.scan = scan_1}}},
	[SN_EXSCAN] = {"MPI_Exscan", {{.scan = exscan_0}, {.scan = exscan_1}}},
	[SN_REDUCE_SCATTER] = {"MPI_Reduce_scatter",
			       {{.reduce_scatter = reduce_scatter_0}, {.reduce_scatter = reduce_scatter_1}}},
	[SN_REDUCE_SCATTER_BLOCK] = {"MPI_Reduce_scatter_block",
				     {{.scan = reduce_block_0}, {.scan = reduce_block_1}}},
	[SN_ALLGATHER] = {"MPI_Allgather", {{.blocks = allgather_0}, {.blocks = allgather_1}}},
	[SN_ALLGATHERV] = {"MPI_Allgatherv", {{.allgatherv = allgatherv_0}, {.allgatherv = allgatherv_1}}},
};

static int kind_of(const char *name)
{
	int kind = 0;
	while (kind <= SN_ALLGATHERV && strcmp(calls[kind].name, name + (*name == 'P')) != 0)
		kind++;
	return kind;
}

bool sn_collective_is(const char *name)
{
	return kind_of(name) <= SN_ALLGATHERV;
}

void *sn_collective_stand_in(const char *name, void *definition)
{
	int p = *name == 'P', kind = kind_of(name);
	SN_FUNCTION_IS(&next[p][kind], definition);
	return calls[kind].stand_in[p].symbol;
}
