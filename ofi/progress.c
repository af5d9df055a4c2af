/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress happens when a queue or a counter is read: every endpoint bound to it is moved forward once.
 *
 * MPI libraries poll without end and never block, so the decision to give the core away is taken here: a read that
 * found nothing hands the time since the last event to the engine, which spins or yields. It naps only if the setting
 * says so, since nobody can tell here for certain whether the program waits, or tests between two pieces of work. What
 * counts as an event is anything in the domain, or reading one quiet queue would slow down a busy one beside it.
 *
 * Threads that read one queue move its endpoints at the same time; the engine's locks keep them apart. Who binds or closes
 * an endpoint, which happens rarely, waits until no thread uses the list: at most a nap.
 */
#include "base/conf.h"
#include "ofi.h"

#include <sched.h>
#include <stdlib.h>

/* Longest nap, in microseconds, in a call that may block, and of a thread beside others: what another thread
 * completes, or signals, rings no bell. */
#define SHARED_NAP 1000u

void sn_ofi_set_init(struct sn_ofi_set *set, struct sn_ofi_domain *domain)
{
	memset(set, 0, sizeof(*set));
	set->shared = !domain->serial;
	set->stamps = &domain->stamp;
	set->nap = (unsigned)sn_conf_num(SN_CONF_NAP);
	if (set->shared)
		set->nap = SN_MIN_OF(set->nap, SHARED_NAP);
}

/* ---- changing the list ---- */

static void change_begin(struct sn_ofi_set *set)
{
	while (set->shared && atomic_exchange(&set->changing, true))
		sched_yield();
	while (atomic_load(&set->users))
		sched_yield();
}

static void change_end(struct sn_ofi_set *set)
{
	atomic_store(&set->changing, false);
}

int sn_ofi_set_add(struct sn_ofi_set *set, sn_ep *ep)
{
	int rc = 0;

	change_begin(set);
	for (unsigned i = 0; i < set->count; i++)
		if (set->eps[i] == ep)
			goto out; /* bound for both directions */
	if (set->count == set->room) {
		unsigned room = set->room ? 2 * set->room : 4;
		sn_ep **eps = realloc(set->eps, room * sizeof(*eps));
		if (!eps) {
			rc = -FI_ENOMEM;
			goto out;
		}
		set->eps = eps;
		set->room = room;
	}
	set->eps[set->count++] = ep;
out:
	change_end(set);
	return rc;
}

void sn_ofi_set_remove(struct sn_ofi_set *set, sn_ep *ep)
{
	change_begin(set);
	for (unsigned i = 0; i < set->count; i++)
		if (set->eps[i] == ep)
			set->eps[i--] = set->eps[--set->count];
	if (!set->count) {
		free(set->eps);
		set->eps = NULL;
		set->room = 0;
	}
	change_end(set);
}

/* ---- using it ---- */

static bool use_begin(struct sn_ofi_set *set)
{
	if (!set->shared)
		return true;
	atomic_fetch_add(&set->users, 1);
	if (sn_likely(!atomic_load(&set->changing)))
		return true;
	atomic_fetch_sub(&set->users, 1);
	sched_yield();
	return false;
}

static void use_end(struct sn_ofi_set *set)
{
	if (set->shared)
		atomic_fetch_sub(&set->users, 1);
}

bool sn_ofi_set_progress(struct sn_ofi_set *set)
{
	uint64_t stamp;
	int events = 0;

	if (!use_begin(set))
		return true;
	for (unsigned i = 0; i < set->count; i++) {
		int n = sn_progress(set->eps[i]);
		events += n > 0 ? n : 0;
	}
	use_end(set);
	stamp = atomic_load_explicit(set->stamps, memory_order_relaxed);
	if (events) /* two threads may count as one: only the change matters */
		atomic_store_explicit(set->stamps, ++stamp, memory_order_relaxed);
	if (stamp == atomic_load_explicit(&set->stamp, memory_order_relaxed))
		return false;
	atomic_store_explicit(&set->stamp, stamp, memory_order_relaxed);
	atomic_store_explicit(&set->idle, 0, memory_order_relaxed);
	return true;
}

void sn_ofi_set_relax(struct sn_ofi_set *set, uint64_t until_ns)
{
	uint64_t nap = until_ns ? SHARED_NAP : set->nap;
	uint64_t idle = atomic_load_explicit(&set->idle, memory_order_relaxed);

	if (until_ns && until_ns != UINT64_MAX) {
		uint64_t now = sn_now_ns();
		uint64_t left = until_ns > now ? (until_ns - now) / 1000 : 0;
		nap = SN_MIN_OF(nap, left);
	}
	if (!use_begin(set))
		return;
	if (set->count)
		sn_relax(set->eps, set->count, &idle, (unsigned)nap);
	use_end(set);
	atomic_store_explicit(&set->idle, idle, memory_order_relaxed);
}

uint64_t sn_ofi_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : sn_now_ns() + (uint64_t)timeout_ms * 1000000u;
}
