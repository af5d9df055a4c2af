/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path's frame size (packetization layer path MTU discovery, RFC 8899, in the small): frames of the sizes worth trying
 * are sent padded and answered; the longest that is answered is used. Until then, and after a black hole, frames have
 * the size that every path carries.
 */
#include "net/net.h"

static const uint8_t zeros[SN_WIRE_LEN_MAX];
static const uint32_t ladder[] = {0 /* the ceiling */, 8900, 4000, 1400};
#define STEPS (sizeof(ladder) / sizeof(ladder[0]))
#define TRIES 3
#define AGAIN                                                                                                \
	(5000 * SN_NET_MS) /* a path that carried less is tried again: a loss may have been the reason */

static uint32_t step_size(const struct sn_net_link *l)
{
	return l->probe_step == 0 ? l->ceiling : ladder[l->probe_step];
}

uint32_t sn_net_probe_hope(const struct sn_net_link *l)
{
	bool young = l->probe_at != SN_NET_NEVER && l->probe_step == 0 && l->probe_tries < TRIES;

	return young ? SN_MAX_OF(l->ceiling, l->mtu) : l->mtu;
}

static void probe_out(struct sn_net_link *l)
{
	struct sn_net *n = l->net;
	struct sn_wire_probe *p = sn_net_out_ctrl(l, SN_WIRE_PROBE, sizeof(*p));
	struct sn_net_out *out = &n->out[n->out_count - 1];
	uint32_t size = step_size(l);

	p->h.len = htole16((uint16_t)size);
	p->size = htole32(size);
	out->iov[1] = (struct iovec){(void *)zeros, size - sizeof(*p)};
	out->iov_count = 2;
	out->len = size;
	sn_net_out_seal(n, &l->tx_key);
	n->counts[SN_NC_PROBES]++;
	l->probe_tries++;
	l->probe_at = n->now + sn_net_rto(&l->rtt, 0);
	sn_net_arm(n, l->probe_at);
}

void sn_net_probe_start(struct sn_net_link *l)
{
	l->probe_step = 0;
	l->probe_tries = 0;
	l->probe_at = SN_NET_NEVER;
	if (l->ceiling > l->mtu)
		probe_out(l);
}

uint64_t sn_net_probe_timer(struct sn_net_link *l)
{
	if (l->net->now < l->probe_at)
		return l->probe_at;
	if (l->probe_step == STEPS) {
		sn_net_probe_start(l);
		return l->probe_at;
	}
	if (l->probe_tries >= TRIES) {
		l->probe_tries = 0;
		do
			l->probe_step++;
		while (l->probe_step < STEPS &&
		       (ladder[l->probe_step] >= l->ceiling || ladder[l->probe_step] <= l->mtu));
	}
	if (l->probe_step < STEPS)
		probe_out(l);
	else
		l->probe_at = l->net->now + AGAIN;
	return l->probe_at;
}

void sn_net_probe_in(struct sn_net_link *l, uint32_t len)
{
	struct sn_wire_probe *p = sn_net_out_ctrl(l, SN_WIRE_PROBED, sizeof(*p));

	p->size = htole32(len);
	sn_net_out_seal(l->net, &l->tx_key);
}

void sn_net_probed_in(struct sn_net_link *l, uint32_t size)
{
	if (size <= l->mtu || size > l->ceiling) /* late, or nonsense */
		return;
	l->mtu = size;
	l->probe_step = STEPS;
	l->probe_at = size == l->ceiling ? SN_NET_NEVER : l->net->now + AGAIN;
	sn_net_arm(l->net, l->probe_at);
}

void sn_net_probe_hole(struct sn_net_link *l)
{
	if (l->mtu <= SN_WIRE_BASE_MTU)
		return;
	l->net->counts[SN_NC_REPROBES]++;
	l->mtu = SN_WIRE_BASE_MTU;
	l->probe_step = STEPS;
	l->probe_tries = 0;
	l->probe_at = l->net->now + AGAIN / 10;
	sn_net_arm(l->net, l->probe_at);
}
