/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/bringer.h"
#include "base/base.h"

#define TURN_LEAST_NS 1000u  /* a yield that takes longer has given the core to somebody, ... */
#define TURN_MOST_NS  50000u /* ... who kept it for longer than what comes takes to be passed on */
#define SURE	      8 /* of what came so, each counted twice, less what came otherwise; twice that at most */

static _Atomic unsigned brought;

void sn_bringer_seen(uint64_t away, bool found)
{
	unsigned was = atomic_load_explicit(&brought, memory_order_relaxed), is = was;

	if (away > TURN_MOST_NS)
		is = 0;
	else if (found && away >= TURN_LEAST_NS)
		is = SN_MIN_OF(was + 2, 2u * SURE);
	else if (found && was)
		is = was - 1;
	if (is != was)
		atomic_store_explicit(&brought, is, memory_order_relaxed);
}

bool sn_bringer_sure(void)
{
	return atomic_load_explicit(&brought, memory_order_relaxed) >= SURE;
}
