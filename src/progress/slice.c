/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/slice.h"
#include "base/base.h"
#include "progress/lost.h"
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's least is 100 us. By this number another sennit, too, knows that it is ours. */
#define SHORT_NS  101000u
#define WITHIN_NS 2000000000u
#define QUIET_NS  20000000u /* of yields, and the slice is as before */

/*
 * The first version of the kernel's struct sched_attr, for which the C library has no name before glibc 2.41. runtime
 * is the slice of an ordinary thread; set to 0: the kernel's own; read as 0: there is none.
 */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static _Atomic uint64_t count;
static _Thread_local struct {
	struct sn_lost lost;
	uint64_t quiet; /* ns of yields since it last lost the core, or slept */
	bool is_short, never;
} mine;

static bool get(struct attributes *a)
{
	*a = (struct attributes){.size = sizeof(*a)};
	return !syscall(SYS_sched_getattr, 0, a, sizeof(*a), 0);
}

static bool set(struct attributes *a, uint64_t ns)
{
	a->runtime = ns;
	return !syscall(SYS_sched_setattr, 0, a, 0);
}

/*
 * Not in place of one that the program, or who started it, has asked for: such a one is another than what the kernel
 * gives unasked. Who was started by a thread that had ours has it, too.
 */
static bool shorten(void)
{
	struct attributes a, own;
	if (!get(&a) || a.policy != SCHED_OTHER)
		return false;
	uint64_t was = a.runtime;
	if (was == SHORT_NS)
		return true;
	mine.never = !was || !set(&a, 0) || !get(&own);
	if (mine.never)
		return false;
	mine.never = own.runtime != was;
	if (mine.never) {
		set(&a, was);
		return false;
	}
	return set(&a, SHORT_NS);
}

static __attribute__((noinline)) void lengthen(void)
{
	struct attributes a;
	mine.is_short = false;
	if (get(&a) && a.policy != SCHED_FIFO && a.policy != SCHED_RR && a.runtime == SHORT_NS)
		set(&a, 0);
}

static void begin(void)
{
	if (mine.never || !shorten())
		return;
	atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
	mine.is_short = true;
}

__attribute__((noinline)) void sn_slice_lost(uint64_t now)
{
	mine.quiet = 0;
	if (!mine.is_short && sn_lost_often(&mine.lost, now, WITHIN_NS))
		begin();
}

void sn_slice_yielded(uint64_t before, uint64_t after)
{
	if (sn_unlikely(after - before > SN_LOST_NS))
		sn_slice_lost(after);
	else if (sn_unlikely(mine.is_short) && (mine.quiet += after - before) > QUIET_NS)
		lengthen();
}

void sn_slice_usual(void)
{
	if (sn_unlikely(mine.is_short))
		lengthen();
}

bool sn_slice_short(void)
{
	return mine.is_short;
}

uint64_t sn_slice_count(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed);
}
