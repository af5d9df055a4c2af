/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress happens when a queue or a counter is read: every endpoint bound to it is moved forward once.
 *
 * MPI libraries poll without end and never block, so the decision to give the core away is taken here: a read that
 * found nothing hands the time since the last event to the engine, which spins, yields or naps. What counts as an event
 * is anything in the domain, or reading one quiet queue would slow down a busy one beside it.
 *
 * A set is moved by one thread at a time; a thread that finds it busy returns at once, since the other is doing its work.
 */
#include "base/conf.h"
#include "ofi.h"

#include <sched.h>
#include <stdlib.h>

#define YIELD_AFTER 64 /* turns lost in a row to another thread before the core is given away */

void sn_ofi_set_init(struct sn_ofi_set *set, struct sn_ofi_domain *domain)
{
	memset(set, 0, sizeof(*set));
	set->lock.enabled = !domain->serial;
	set->stamps = &domain->stamp;
}

int sn_ofi_set_add(struct sn_ofi_set *set, sn_ep *ep)
{
	int rc = 0;

	sn_lock(&set->lock);
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
	sn_unlock(&set->lock);
	return rc;
}

void sn_ofi_set_remove(struct sn_ofi_set *set, sn_ep *ep)
{
	sn_lock(&set->lock);
	for (unsigned i = 0; i < set->count; i++)
		if (set->eps[i] == ep)
			set->eps[i--] = set->eps[--set->count];
	if (!set->count) {
		free(set->eps);
		set->eps = NULL;
		set->room = 0;
	}
	sn_unlock(&set->lock);
}

static bool set_try(struct sn_ofi_set *set)
{
	uint32_t unlocked = 0;

	return !set->lock.enabled ||
	       atomic_compare_exchange_strong_explicit(&set->lock.word, &unlocked, 1, memory_order_acquire,
						       memory_order_relaxed);
}

bool sn_ofi_set_progress(struct sn_ofi_set *set)
{
	static _Thread_local unsigned lost;
	uint64_t stamp;
	int events = 0;
	bool any;

	if (!set_try(set)) {
		if (++lost % YIELD_AFTER == 0)
			sched_yield();
		return true;
	}
	lost = 0;
	for (unsigned i = 0; i < set->count; i++) {
		int n = sn_progress(set->eps[i]);
		events += n > 0 ? n : 0;
	}
	stamp = atomic_load_explicit(set->stamps, memory_order_relaxed);
	if (events) /* two threads may count as one: only the change matters */
		atomic_store_explicit(set->stamps, ++stamp, memory_order_relaxed);
	any = stamp != set->stamp;
	if (any) {
		set->stamp = stamp;
		set->idle = 0;
	}
	sn_unlock(&set->lock);
	return any;
}

void sn_ofi_set_relax(struct sn_ofi_set *set, uint64_t until_ns)
{
	uint64_t nap = (uint64_t)sn_conf_num(SN_CONF_NAP);

	if (until_ns != UINT64_MAX) {
		uint64_t now = sn_now_ns();
		uint64_t left = until_ns > now ? (until_ns - now) / 1000 : 0;
		nap = SN_MIN_OF(nap, left);
	}
	if (!set_try(set))
		return;
	if (set->count)
		sn_relax(set->eps, set->count, &set->idle, (unsigned)nap);
	sn_unlock(&set->lock);
}

uint64_t sn_ofi_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : sn_now_ns() + (uint64_t)timeout_ms * 1000000u;
}
