/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A train brings the pieces of a block one behind the other, with heads that are alike but for the offset, the check and
 * the mac. What the first has shown of its link, its fetch and its block holds for the next ones: nothing of that is
 * looked up again. Each is proved and checked as every other frame.
 */
#ifndef SN_NET_RUN_H
#define SN_NET_RUN_H

#include "net/net.h"
#include <string.h>

struct sn_net_run { /* within what one driver call has brought; block NULL: there is none */
	struct sn_net_link *link;
	struct sn_net_pull *pull;
	struct sn_net_block *block;
	const struct sn_wire_data *last; /* PUSH is alike */
	uint32_t number;		 /* the fetch's */
	unsigned piece;			 /* that it was */
};

/* The same bytes from `from` on, and before `to`? */
static inline bool sn_net_run_same(const void *head, const void *last, size_t from, size_t to)
{
	return memcmp((const uint8_t *)head + from, (const uint8_t *)last + from, to - from) == 0;
}

/* Is this frame of `len` bytes, by its head, the piece that follows in the block? */
static inline bool sn_net_run_next(const struct sn_net_run *r, const struct sn_wire_data *d, uint32_t len)
{
	const struct sn_net_block *b = r->block;

	if (!b || len < sizeof(*d) || r->link->state != SN_LINK_OPEN ||
	    sn_net_table_get(&r->link->net->pull_table, r->number) != r->pull || !b->active)
		return false;
	const struct sn_wire_data *l = r->last;
	uint32_t frag = le16toh(l->h.len) - SN_NET_HEAD;
	uint64_t offset = le64toh(l->offset) + frag;
	bool alike = len == le16toh(l->h.len) &&
		     sn_net_run_same(d, l, 0, offsetof(struct sn_wire_data, h.mac)) &&
		     sn_net_run_same(d, l, offsetof(struct sn_wire_data, h.seq),
				     offsetof(struct sn_wire_data, h.check)) &&
		     sn_net_run_same(d, l, offsetof(struct sn_wire_data, h.flags),
				     offsetof(struct sn_wire_data, offset));
	unsigned piece = r->piece + 1;

	return alike && le64toh(d->offset) == offset && b->frag == frag &&
	       offset == sn_net_block_start(r->pull, b) + (uint64_t)piece * frag &&
	       offset + frag <= sn_net_block_end(r->pull, b) && piece < 64 && b->missing >> piece & 1;
}

#endif
