/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/turns.h"
#include "base/base.h"
#include "base/log.h"
#include "progress/bell.h"
#include "progress/lost.h"
#include "progress/spread.h"
#include <sys/resource.h>

#define YIELDS_MIN 64 /* since the last time, of which */
#define PART	   16 /* no more than one in so many was a switch */
#define WITHIN_NS  100000000u
#define FIRST_NS   1000000000u
#define LONGEST_NS 64000000000u

static struct {
	_Atomic uint64_t until;
	_Atomic uint64_t next; /* how long it will be the next time */
} vain;

static _Thread_local struct {
	uint64_t yields, switches; /* since, and at, the last time that the core was lost */
	struct sn_lost lost;	   /* the times that count */
} mine;

bool sn_turns_in_vain(uint64_t now)
{
	return now < atomic_load_explicit(&vain.until, memory_order_relaxed);
}

bool sn_turns_doubted(void)
{
	return atomic_load_explicit(&vain.until, memory_order_relaxed) != 0;
}

static void sleep_from_now_on(uint64_t now)
{
	uint64_t next = atomic_load_explicit(&vain.next, memory_order_relaxed);
	if (!next)
		sn_info("yields hand the core to nobody (the other processes are of another scheduling "
			"group): who "
			"waits sleeps at once");
	next = SN_MAX_OF(next, (uint64_t)FIRST_NS);
	atomic_store_explicit(&vain.next, SN_MIN_OF(2 * next, (uint64_t)LONGEST_NS), memory_order_relaxed);
	sn_bell_fence_always();
	atomic_store_explicit(&vain.until, now + next, memory_order_relaxed);
}

void sn_turns_judge(uint64_t now, uint64_t switches)
{
	bool counts = mine.yields >= YIELDS_MIN && (switches - mine.switches) * PART <= mine.yields;
	mine.yields = 0;
	mine.switches = switches;
	if (!counts || !sn_lost_often(&mine.lost, now, WITHIN_NS))
		return;
	if (!sn_spread_one_group()) /* else it was somebody else who took the core */
		sleep_from_now_on(now);
}

void sn_turns_yielded(uint64_t before, uint64_t after)
{
	struct rusage u;
	mine.yields++;
	if (after - before > SN_LOST_NS && !getrusage(RUSAGE_THREAD, &u))
		sn_turns_judge(after, (uint64_t)(u.ru_nvcsw + u.ru_nivcsw));
}
