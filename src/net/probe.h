/* SPDX-License-Identifier: BSD-3-Clause */
/* What a way carries: frames of which length, and joined ones. See probe.c; a part of net.h. */
#ifndef SN_NET_PROBE_H
#define SN_NET_PROBE_H

#include "net/net.h"

uint32_t sn_net_probe_hope(
	const struct sn_net_link *l); /* the frame size that the best path probably carries */
/* The driver is to join what is marked so. Returns the frame, not sealed. */
struct sn_wire_probe *sn_net_probe_frame(struct sn_net_way *w, uint32_t size, enum sn_net_how how);
void sn_net_probe_start(struct sn_net_way *w);
void sn_net_probe_try(struct sn_net_way *w); /* the shortest probe: does anything come through? */
void sn_net_probe_train(struct sn_net_way *w);
void sn_net_probe_in(struct sn_net_link *l, const struct sn_wire_probe *p, uint32_t len);
void sn_net_probed_in(struct sn_net_link *l, const struct sn_wire_probe *p);
uint64_t sn_net_probe_timer(struct sn_net_way *w);
void sn_net_probe_hole(struct sn_net_way *w); /* frames of this size stopped coming through */
/* Are pieces of this length those that are asked for where longer ones do not come through? */
static inline bool sn_net_shortest(uint32_t frag)
{
	return frag + sizeof(struct sn_wire_data) <= SN_WIRE_BASE_MTU;
}
void sn_net_probe_join(struct sn_net_way *w); /* bodies are sent: do joined frames come through? */
/* Has that been asked? */
static inline bool sn_net_join_asked(const struct sn_net_way *w)
{
	return w->joins || w->join_at != SN_NET_NEVER;
}
void sn_net_probe_doubt(struct sn_net_way *w); /* do joined frames, and bodies at all, come through? */

#endif
