/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/owed.h"
#include "base/conf.h"
#include "progress/bell.h"
#include "progress/relax.h"

#define LOOKS 64 /* between two readings of the clock: about 2 us */

void sn_owed_ring(struct sn_link *link)
{
	struct sn_rail *rail = link->rail;
	bool later = link->bell && sn_relax_full();
	sn_link_ring(link, !later);
	if (!later)
		return;
	link->owed = rail->owes = true;
	rail->owed_looks = 0;
	rail->owed_since = 0;
}

static bool due(struct sn_rail *rail)
{
	const struct sn_bell *own = sn_bell_own();
	if (own && atomic_load_explicit(&own->sleeping, memory_order_relaxed))
		return true;
	if (++rail->owed_looks % LOOKS)
		return false;
	uint64_t now = sn_now_ns();
	if (!rail->owed_since)
		rail->owed_since = now;
	return now - rail->owed_since >= (uint64_t)sn_conf_num(SN_CONF_SPIN) * 1000;
}

void sn_owed_look(struct sn_rail *rail)
{
	if (!due(rail))
		return;
	rail->owes = false;
	sn_list_for_each (at, &rail->links) {
		struct sn_link *link = sn_container(at, struct sn_link, link);
		if (link->owed)
			sn_link_ring(link, true);
		link->owed = false;
	}
}
