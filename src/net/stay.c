/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/stay.h"

#define STAYS                                                                                                \
	3 /* looks, each within STAYS_NS of the one before: more are not made where copies end the wait (keep.c) */
#define STAYS_NS 10000u
#define TRUSTED	 16
#define MOST	 (4 * TRUSTED)
#define LONG_NS	 500000u  /* what is longer is computing, and not a core that was lost */
#define POST_NS	 50000u	  /* within which he posts on, or begins to wait */
#define FULL_NS	 1000000u /* less is worth no wake-up where the thread would take his core */

bool sn_net_may_go(struct sn_net_stay *s, uint64_t now)
{
	s->done = now;
	s->left = STAYS;
	atomic_store_explicit(&s->posted, now, memory_order_relaxed);
	return s->stayed < TRUSTED;
}

bool sn_net_looks(struct sn_net_stay *s, uint64_t now, uint64_t pause, bool full)
{
	uint64_t gap = now - s->done;

	if (s->left == 0)
		return false;
	if (sn_net_away(gap, pause) && !(full && gap < FULL_NS))
		s->stayed = gap < LONG_NS ? s->stayed / 2 : 0;
	if (gap > STAYS_NS) {
		s->left = STAYS;
		return false;
	}
	if (--s->left > 0)
		return false;
	s->stayed += s->stayed < MOST;
	return true;
}

bool sn_net_just_posted(const struct sn_net_stay *s, uint64_t now)
{
	return now < atomic_load_explicit(&s->posted, memory_order_relaxed) + POST_NS;
}

bool sn_net_stays(const struct sn_net_stay *s, uint64_t now)
{
	return s->stayed >= TRUSTED && sn_net_just_posted(s, now);
}
