/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split: each frame and each block takes the rail that will have it through first, by the rails' models and what each has
 * queued. So short messages leave a fast rail that is full of bulk for a slower, empty one, and the rails finish a
 * long message together: they take blocks as they get room, and near its end a rail gets none that the others would
 * have through earlier.
 */
#include "sched/sched.h"

static int small(const struct sn_sched_rail *rails, unsigned count, uint32_t bytes)
{
	int best = -1;
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < count; i++) {
		if (!rails[i].usable || !rails[i].room)
			continue;
		uint64_t t = sn_sched_time(&rails[i], bytes);
		if (t < least) {
			least = t;
			best = (int)i;
		}
	}
	return best;
}

/*
 * When would the other rails, all of them together, have everything through that is left, and what they have queued? A
 * block goes over one of them, so not before the fastest has this one through.
 */
static uint64_t without(const struct sn_sched_rail *rails, unsigned count, unsigned self, uint64_t left,
			uint64_t bytes)
{
	double rate = 0, total = (double)left;
	uint64_t latency = UINT64_MAX, one = UINT64_MAX;

	for (unsigned i = 0; i < count; i++) {
		if (i == self || !rails[i].usable)
			continue;
		rate += rails[i].rate ? (double)rails[i].rate : 1e9;
		total += (double)rails[i].queued;
		latency = SN_MIN_OF(latency, rails[i].latency);
		one = SN_MIN_OF(one, sn_sched_time(&rails[i], bytes));
	}
	return rate > 0 ? SN_MAX_OF(latency + (uint64_t)(total * 1e9 / rate), one) : UINT64_MAX;
}

static int block(const struct sn_sched_rail *rails, unsigned count, uint64_t left, uint64_t bytes)
{
	int best = small(rails, count, (uint32_t)SN_MIN_OF(bytes, (uint64_t)UINT32_MAX));

	if (best >= 0 &&
	    sn_sched_time(&rails[best], bytes) > without(rails, count, (unsigned)best, left, bytes))
		return -1;
	return best;
}

const struct sn_strategy sn_strategy_split = {
	.name = "split",
	.help = "short messages over the rail that is through first, long ones over all so that they finish "
		"together",
	.small = small,
	.block = block,
};
