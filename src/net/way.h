/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ways lead to a peer. See way.c; a part of net.h. */
#ifndef SN_NET_WAY_H
#define SN_NET_WAY_H

#include "net/net.h"

/* Set up the ways to a peer of which one address part is known. False: no port leads there. */
bool sn_net_ways_first(struct sn_net_link *l, const struct sn_addr_part *part);
void sn_net_ways_also(struct sn_net_link *l,
		      const struct sn_addr_part *part); /* another part of its address */
void sn_net_ways_rotate(
	struct sn_net_link *l); /* connecting, and nobody answers: each way tries the next part */
/* The peer's word came on the port n->in_port from its port with this address. */
void sn_net_way_back(struct sn_net_link *l, const struct sn_wire_hello *h);
void sn_net_ways_open(struct sn_net_link *l, uint32_t peer_mtu);
int sn_net_ports_in(struct sn_net_link *l, const uint8_t *body, uint32_t len); /* a PORTS record */
void sn_net_ports_out(struct sn_net_link *l);
struct sn_net_way *sn_net_way_main(struct sn_net_link *l);  /* one that is up; else the likeliest */
struct sn_net_way *sn_net_way_reply(struct sn_net_link *l); /* the way back of the last frame, if it is up */
void sn_net_way_turn(struct sn_net_link *l); /* acknowledgements and questions leave by the next one */
/* By the strategy: the way for a frame of short messages; NULL: all are busy. except: not this one, if there is another. */
struct sn_net_way *sn_net_way_small(struct sn_net_link *l, uint32_t bytes, const struct sn_net_way *except);
struct sn_net_way *sn_net_way_other(struct sn_net_link *l,
				    const struct sn_net_way *than); /* up, NULL if none */
void sn_net_way_sent(struct sn_net_way *w, uint32_t bytes);
void sn_net_way_heard(struct sn_net_link *l, unsigned port, unsigned rail, uint32_t len);
void sn_net_way_answered(struct sn_net_way *w); /* it carries frames, and answers come */
void sn_net_way_down(struct sn_net_way *w);	/* nothing comes through */
uint64_t sn_net_way_timer(struct sn_net_way *w);
/* How many leading bits the two addresses share, within the port's network all the same; -1: they are of different kinds. */
int sn_net_affinity(const struct sn_net_port *p, const struct sn_addr_part *b);

#endif
