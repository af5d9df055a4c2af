/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * equal: each rail gets the same share of a long message, whatever it can do. For comparison: what a split without a
 * model gives.
 */
#include "sched/sched.h"

static int block(const struct sn_sched_rail *rails, unsigned count, uint64_t left, uint64_t bytes)
{
	int best = -1;

	for (unsigned i = 0; i < count; i++)
		if (rails[i].usable && (best < 0 || rails[i].given < rails[best].given))
			best = (int)i;
	return best >= 0 && rails[best].room ? best : -1;
}

const struct sn_strategy sn_strategy_equal = {
	.name = "equal",
	.help = "long messages in equal shares over all rails; for comparison",
	.block = block,
};
