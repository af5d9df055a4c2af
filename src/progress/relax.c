/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policy. Three phases, by how long nothing has come:
 *  - spin: an answer usually takes less than the 50 us that a sleep and a wake-up cost. Skipped when there are more
 *    local processes than cores: then the one that would answer probably waits for this very core.
 *  - yield, ten times as long (at least 100 us): if somebody else can run here he does, otherwise it costs 0.3 us. This
 *    is what carries oversubscribed jobs, where the wait is a time slice and not a wake-up.
 *  - nap on the bell. Naps grow with the time waited (a quarter of it, 50 us at least), so a caller who has to look at
 *    other things too looks often at first, and an idle one costs next to nothing. A ring ends any nap, so growing
 *    naps delay only events that are not sennit's.
 * *idle holds the time of the first step, so one clock reading (25 ns) is the whole cost of a step that spins.
 */
#include "progress/relax.h"
#include "base/base.h"
#include "base/conf.h"
#include "progress/bell.h"
#include <sched.h>

#define YIELD_TIMES  10
#define YIELD_MIN_NS 100000u
#define NAP_MIN_NS   50000u

static _Atomic unsigned crowd;

void sn_relax_crowd(unsigned peers)
{
	/* Affinity may change between two calls, but is too dear to ask for at each step. */
	bool crowded = peers + 1 > (unsigned)sn_topo_cpus_allowed();
	atomic_store_explicit(&crowd, crowded, memory_order_relaxed);
}

void sn_relax_step(uint64_t *idle, unsigned max_nap_us, int (*poll)(void *arg), void *arg)
{
	uint64_t now = sn_now_ns();
	if (!*idle) {
		*idle = now;
		return;
	}
	uint64_t waited = now - *idle;
	uint64_t spin = (uint64_t)sn_conf_num(SN_CONF_SPIN) * 1000;
	uint64_t yield = SN_MAX_OF(spin * YIELD_TIMES, YIELD_MIN_NS);
	if (atomic_load_explicit(&crowd, memory_order_relaxed))
		spin = 0;
	if (waited < spin) {
		sn_cpu_relax();
		return;
	}
	if (waited < spin + yield || !max_nap_us) {
		sched_yield();
		return;
	}
	uint64_t nap = SN_MAX_OF(waited / 4, NAP_MIN_NS) / 1000;
	if (sn_bell_wait(poll, arg, (unsigned)SN_MIN_OF(nap, max_nap_us)))
		*idle = 0;
}
