/* SPDX-License-Identifier: BSD-3-Clause */
/* The short cut beside a way. See quick.c. */
#ifndef SN_NET_QUICK_H
#define SN_NET_QUICK_H

#include "net/net.h"

#define SN_QUICK_MOST                                                                                        \
	4224 /* bytes of the longest frame: 4 KiB and heads; longer ones the kernel lays into several pages */
#define SN_QUICK_FEW   4  /* MSG frames under way, beyond which they are trains */
#define SN_QUICK_CROWD 16 /* processes of a host that have one */

void sn_net_quick_begin(struct sn_net_way *w);		      /* try it, if there is one and the way is up */
void sn_net_quick_end(struct sn_net_way *w);		      /* the way leads elsewhere, or nowhere */
void sn_net_quick_shown(struct sn_net_way *w, uint32_t size); /* a frame so long has come through */
void sn_net_quick_doubt(struct sn_net_way *w); /* something did not come that may have taken it */
void sn_net_quick_sure(struct sn_net_way *w);  /* and it did come, late */
uint64_t sn_net_quick_timer(struct sn_net_way *w);
void sn_net_quick_batch(
	struct sn_net_port *p); /* which frames of the batch, that is about to leave, take it */

/*
 * May this MSG frame take it, which is about to leave? una: the oldest that is not acknowledged, this one not
 * counted. Behind one that went the long way only when that has come: overtaking looks like a loss.
 */
static inline enum sn_net_quick sn_net_quick_for(struct sn_net_way *w, struct sn_net_slot *slot, uint32_t una)
{
	struct sn_net_link *l = w->link;

	if (slot->sends > 1) { /* again: the long way */
		l->slow_end = l->tx_next;
		return SN_QUICK_NO;
	}
	slot->quick = slot->len <= w->path.quick_most && l->tx_next - una <= SN_QUICK_FEW &&
		      (int32_t)(una - l->slow_end) >= 0;
	if (!slot->quick)
		l->slow_end = l->tx_next;
	return slot->quick ? SN_QUICK_MAY : SN_QUICK_NO;
}

#endif
