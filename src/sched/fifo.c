/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fifo: one request a frame, as they come, and one rail for all, the best of its kind. What every other strategy is laid
 * over, and what they are measured against.
 */
#include "sched/sched.h"

static bool ready(const struct sn_window *w)
{
	return true;
}

static bool join(const struct sn_window *w, uint32_t inside)
{
	return false;
}

static bool depart(const struct sn_window *w, uint32_t frames)
{
	return true;
}

/* The rail of the least latency; it waits for that one. */
static int small(const struct sn_sched_rail *rails, unsigned count, uint32_t bytes)
{
	int best = -1;

	for (unsigned i = 0; i < count; i++)
		if (rails[i].usable && (best < 0 || rails[i].latency < rails[best].latency))
			best = (int)i;
	return best >= 0 && rails[best].room ? best : -1;
}

/* The rail with the highest rate. */
static int block(const struct sn_sched_rail *rails, unsigned count, uint64_t left, uint64_t bytes)
{
	int best = -1;

	for (unsigned i = 0; i < count; i++)
		if (rails[i].usable && (best < 0 || rails[i].rate > rails[best].rate))
			best = (int)i;
	return best >= 0 && rails[best].room ? best : -1;
}

const struct sn_strategy sn_strategy_fifo = {
	.name = "fifo",
	.help = "one request a frame, in order, over the best rail",
	.ready = ready,
	.join = join,
	.depart = depart,
	.small = small,
	.block = block,
};
