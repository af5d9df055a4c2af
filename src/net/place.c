/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where DATA goes before it is known to be DATA: so that a driver which can be told beforehand lets the kernel put the
 * pieces of a train where they belong (udp.c asks, input.c undoes what was guessed wrong).
 */
#include "net/net.h"

/* The bytes of this piece in the application's buffer if they lie together, or NULL. */
static uint8_t *place_of(const struct sn_net_pull *p, uint64_t offset, uint32_t len)
{
	struct iovec v;
	uint64_t covered;

	if (p->iov_count == 1)
		return (uint8_t *)p->iov[0].iov_base + offset;
	if (sn_iov_slice(p->iov, p->iov_count, offset, len, &v, 1, &covered) != 1 || covered != len)
		return NULL;
	return v.iov_base;
}

/*
 * The pieces that a train will bring, if its first frame is the DATA that it looks like: those still missing of the
 * block, from this one on, for a sender answers a PULL in that order. Only an authentic head is believed, and only
 * places that are still to be filled are given, so whatever lands there is written over, or is right.
 */
unsigned sn_net_guess(void *arg, const uint8_t *head, uint32_t size, uint32_t bytes,
		      struct sn_net_spot spot[SN_NET_BATCH])
{
	const struct sn_wire_data *d = (const void *)head;
	struct sn_net *net = arg;
	struct sn_net_pull *p = sn_net_table_get(&net->pull_table, le32toh(d->pull));
	unsigned piece, n = 0;
	enum sn_drop why;

	if (p == NULL || d->h.version != SN_WIRE_VERSION || d->h.type != SN_WIRE_DATA ||
	    le16toh(d->h.len) != size || le32toh(d->h.link) != (uint32_t)p->link->session ||
	    le64toh(d->h.mac) != sn_auth_mac(&p->link->rx_key, &d->h))
		return 0;
	struct sn_net_block *b =
		sn_net_locate(p, le64toh(d->offset), size - (uint32_t)sizeof(*d), &piece, &why);
	if (b == NULL)
		return 0;
	for (uint64_t rest = b->missing >> piece << piece; rest && bytes && n < SN_NET_BATCH;
	     rest &= rest - 1) {
		uint64_t offset = sn_net_block_start(p, b) + (uint64_t)__builtin_ctzll(rest) * b->frag;
		uint32_t len = (uint32_t)SN_MIN_OF((uint64_t)b->frag, sn_net_block_end(p, b) - offset);
		uint32_t frame = SN_MIN_OF(bytes, size);
		uint8_t *at = place_of(p, offset, len);
		if (at == NULL || frame != len + sizeof(*d))
			break;
		spot[n++] = (struct sn_net_spot){at, len, p->number, offset};
		bytes -= frame;
	}
	return n;
}
