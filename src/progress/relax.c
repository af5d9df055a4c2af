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
 * For one who waits *idle holds the time of the first step, so one clock reading (25 ns) is the whole cost of a step
 * that spins; for one who polls it is two.
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

/* What a step does after `waited` ns. True if a nap ended because something came. */
static bool act(uint64_t waited, bool may_nap, unsigned max_nap_us, int (*poll)(void *arg), void *arg)
{
	uint64_t spin = (uint64_t)sn_conf_num(SN_CONF_SPIN) * 1000;
	uint64_t yield = SN_MAX_OF(spin * YIELD_TIMES, YIELD_MIN_NS);
	if (atomic_load_explicit(&crowd, memory_order_relaxed))
		spin = 0;
	if (waited < spin) {
		sn_cpu_relax();
		return false;
	}
	if (waited < spin + yield || !may_nap || !max_nap_us) {
		sched_yield();
		return false;
	}
	uint64_t nap = SN_MAX_OF(waited / 4, NAP_MIN_NS) / 1000;
	return sn_bell_wait(poll, arg, (unsigned)SN_MIN_OF(nap, max_nap_us));
}

void sn_relax_step(uint64_t *idle, unsigned max_nap_us, int (*poll)(void *arg), void *arg)
{
	uint64_t now = sn_now_ns();
	if (!*idle)
		*idle = now;
	else if (act(now - *idle, true, max_nap_us, poll, arg))
		*idle = 0;
}

/*
 * Somebody who polls may have better things to do than to wait, which only the rhythm of his calls tells:
 *  - who stays away for longer than GAP between two calls computes, and each call of his is the first of a wait;
 *  - who does a little work between two calls (HPCC's RandomAccess makes 2,048 calls that find nothing for each message
 *    that it sends) would do it a thousand times slower if each of them napped. So naps begin after NAP_AFTER calls,
 *    which is 1 to 2 ms of polling.
 * Kept in one word: the end of the last step in us (28 bits, wraps), calls (14 bits) and the time waited in us (22 bits),
 * both of which stop at their largest value.
 */
#define GAP_US	    20
#define NAP_AFTER   4096
#define CALLS_MAX   0x3fffu
#define WAITED_MAX  0x3fffffu
#define LAST_MASK   0xfffffffu
#define CALLS_SHIFT 22
#define LAST_SHIFT  36

void sn_relax_polled(uint64_t *idle, unsigned max_nap_us, int (*poll)(void *arg), void *arg)
{
	uint64_t now = sn_now_ns() / 1000, last = *idle >> LAST_SHIFT;
	uint64_t gap = (now - last) & LAST_MASK, calls = 0, waited = 0;
	if (*idle && gap <= GAP_US) {
		calls = SN_MIN_OF((*idle >> CALLS_SHIFT & CALLS_MAX) + 1, (uint64_t)CALLS_MAX);
		waited = (*idle & WAITED_MAX) + gap;
	}
	if (act(waited * 1000, calls >= NAP_AFTER, max_nap_us, poll, arg)) {
		*idle = 0;
		return;
	}
	uint64_t after = sn_now_ns() / 1000;
	waited = SN_MIN_OF(waited + after - now, (uint64_t)WAITED_MAX);
	*idle = (after & LAST_MASK) << LAST_SHIFT | calls << CALLS_SHIFT | waited;
}
