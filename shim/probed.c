/* SPDX-License-Identifier: BSD-3-Clause */
#include "probed.h"
#include "vain.h"
#include "watch.h"

union function {
	void *symbol;
	int (*iprobe)(int from, int tag, handle comm, int *flag, void *status);
	int (*improbe)(int from, int tag, handle comm, int *flag, void *message, void *status);
};
static union function next[2], next_matched[2]; /* without a P, and with it */

static int by_mpi(const struct call *c, int *flag, void *status, const union function *mpi)
{
	sn_requests_before();
	return SN_FUNCTION(mpi).iprobe(c->peer, c->tag, c->comm, flag, status);
}

static int by_mpi_again(const struct call *c, int *flag, void *status, const union function *mpi)
{
	uint32_t calls = sn_mpi_thread.calls;
	uint64_t sides = (uint64_t)(uint32_t)c->peer << 32 | (uint32_t)c->tag;
	uintptr_t what = sn_vain_sum(sn_vain_sum(1, c->comm), sides);
	if (flag && sn_vain_may() && sn_vain_is(what)) {
		*flag = 0;
		return 0;
	}
	int rc = by_mpi(c, flag, status, mpi);
	sn_vain_was(what, !rc && flag && !*flag, calls);
	return rc;
}

static __attribute__((noinline)) int watched(const struct call *c, int *flag, void *status,
					     const union function *mpi)
{
	struct entry *e = sn_watch_probe(c);
	int rc = by_mpi(c, flag, status, mpi);
	if (!e)
		return rc;
	sn_quick_watched();
	if (!rc)
		sn_learn_asked(e);
	return rc;
}

/* ---- what is said of what was found ---- */

static inline struct sn_source *place(const struct call *c, const struct sn_shim_message *m)
{
	uint64_t all = m->bits + 7 * (uint64_t)m->peer + (c->comm >> 5);
	return &sn_mpi_thread.mine->sources[all * 0x9e3779b97f4a7c15u >> 59];
}
_Static_assert(SN_SOURCES == 1 << (64 - 59), "the upper bits of the product");

static inline bool is_known(const struct sn_source *s, const struct call *c, const struct sn_shim_message *m)
{
	return s->known && s->bits == m->bits && s->peer == m->peer && s->comm == c->comm &&
	       s->freed == c->freed;
}

/*
 * What the MPI says of it, if it asks for it as well, and does not know of another one by other ways. Where more kinds of
 * messages come than there are places for, the next calls are the MPI's.
 */
static __attribute__((noinline)) int learn(struct entry *e, const struct call *c,
					   const struct sn_shim_message *found, int *flag, void *status,
					   const union function *mpi)
{
	struct sn_shim_lesson *l = &sn_mpi_thread.mine->found; /* the other one may be that of a receive */
	uint64_t unused[8];
	void *seen = wanted(status) ? status : unused;
	if (place(c, found)->known)
		in_vain(e);
	*l = (struct sn_shim_lesson){0};
	if (!sn_quick_watch(l))
		return by_mpi(c, flag, status, mpi);
	int rc = by_mpi(c, flag, seen, mpi);
	sn_quick_watched();
	if (rc || !*flag || !sn_watch_asked_once(l) || !l->over || l->sender != found->peer ||
	    l->recv.exactly != found->bits)
		return rc;
	int source = status_head(seen)->source, tag = status_head(seen)->tag;
	if (source >= 0 && tag >= 0 && status_is(seen, source, tag, found->len))
		*place(c, found) = (struct sn_source){.known = true,
						      .comm = c->comm,
						      .freed = c->freed,
						      .bits = found->bits,
						      .peer = found->peer,
						      .source = source,
						      .tag = tag};
	return rc;
}

/* MPICH 5 has messages of a rank to itself by other ways than Intel MPI, so of any source the provider does not know all. */
static atomic_bool from_any;

/* From one rank, or from any. */
static inline bool may_be_known(int from, int tag)
{
	return (from >= 0 ||
		(from == sn_mpi_any_source() && atomic_load_explicit(&from_any, memory_order_relaxed))) &&
	       (tag >= 0 || tag == sn_mpi_any_tag());
}

/*
 * Who asks between two pieces of work may ask by nothing else for long, and what the MPI has under way by steps, of a
 * collective that does not block, goes on by one for each look of its own. So it has all calls that are so far apart that
 * one in SN_QUICK_PERIOD would not do. The clock takes as long as a call.
 */
#define RUN 8

static __attribute__((noinline)) bool is_often_again(struct sn_mine *m)
{
	uint64_t now = sn_quick_now_ns();
	bool often = now - m->asked < (uint64_t)m->run * (SN_QUICK_NS / RUN);
	m->asked = now;
	m->run = often ? RUN : 1;
	m->asks = m->run - 1;
	return often;
}

static inline bool is_often(struct sn_mine *m)
{
	if (!likely(m->asks))
		return is_often_again(m);
	m->asks--;
	return true;
}

static int iprobe(int p, int from, int tag, handle comm, int *flag, void *status)
{
	const struct call c = {.comm = comm, .count = 1, .peer = from, .tag = tag, .freed = sn_freed(comm)};
	const union function *mpi = &next[p];
	const struct sn_shim_quick *q = quick();
	if (!q || !flag || !may_be_known(from, tag))
		return by_mpi_again(&c, flag, status, mpi);
	struct sn_mine *m = sn_mpi_thread.mine;
	struct entry *e = sn_seen_known(m->probes, &c);
	if (!e)
		return watched(&c, flag, status, mpi);
	struct sn_shim_message found;
	int answer = is_often(m) && sn_seen_in_turn(e) ? q->peek(&e->way, &found) : SN_SHIM_NEVER;
	if (answer == SN_SHIM_NOT_YET) {
		*flag = 0;
		return 0;
	}
	if (answer < 0)
		return by_mpi_again(&c, flag, status, mpi);
	const struct sn_source *s = place(&c, &found);
	if (!is_known(s, &c, &found))
		return learn(e, &c, &found, flag, status, mpi);
	e->fails = 0;
	*flag = 1;
	if (wanted(status))
		status_fill(status, s->source, s->tag, (int64_t)found.len);
	return 0;
}

SN_BY_BOTH_NAMES(iprobe, (int from, int tag, handle comm, int *flag, void *status),
		 SN_WITH(from, tag, comm, flag, status))

/* Where MPI_Iprobe has found nothing there is nothing to take. Where it cannot be asked without the MPI, that is the one to ask. */
static int improbe(int p, int from, int tag, handle comm, int *flag, void *message, void *status)
{
	if (quick() && flag && may_be_known(from, tag) && SN_FUNCTION(&next[p]).symbol) {
		int rc = iprobe(p, from, tag, comm, flag, sn_mpi_no_status());
		if (rc || !*flag)
			return rc;
	}
	sn_requests_before();
	return SN_FUNCTION(&next_matched[p]).improbe(from, tag, comm, flag, message, status);
}

SN_BY_BOTH_NAMES(improbe, (int from, int tag, handle comm, int *flag, void *message, void *status),
		 SN_WITH(from, tag, comm, flag, message, status))

enum { IPROBE, IMPROBE, CALLS };
static const struct {
	const char *name;
	union function stand_in[2];
} calls[CALLS] = {[IPROBE] = {"MPI_Iprobe", {{.iprobe = iprobe_0}, {.iprobe = iprobe_1}}},
		  [IMPROBE] = {"MPI_Improbe", {{.improbe = improbe_0}, {.improbe = improbe_1}}}};

static int call_named(const char *name)
{
	return sn_quick_named(calls, sizeof(*calls), CALLS, name);
}

bool sn_probed_is(const char *name)
{
	return call_named(name) < CALLS;
}

void *sn_probed_stand_in(const char *name, void *definition)
{
	int p = *name == 'P', call = call_named(name);
	if (!definition)
		return NULL;
	atomic_store(&from_any, sn_mpi_family != MPICH || sn_mpi_is_intels());
	SN_FUNCTION_IS(call == IPROBE ? &next[p] : &next_matched[p], definition);
	if (call == IMPROBE && !SN_FUNCTION(&next[p]).symbol) /* the program may never call it */
		SN_FUNCTION_IS(&next[p], sn_mpi_find("PMPI_Iprobe"));
	return calls[call].stand_in[p].symbol;
}
