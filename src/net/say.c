/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said about the end of a peer. */
#include "base/log.h"
#include "net/net.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

static void part_text(const struct sn_addr_part *p, char *out, size_t size)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (p->type == SN_ADDR_ETHER)
		snprintf(out, size, "%02x:%02x:%02x:%02x:%02x:%02x", p->bytes[0], p->bytes[1], p->bytes[2],
			 p->bytes[3], p->bytes[4], p->bytes[5]);
	else
		snprintf(out, size, "%s",
			 inet_ntop(p->type == SN_ADDR_UDP6 ? AF_INET6 : AF_INET, p->bytes, ip, sizeof(ip)));
}

void sn_net_say_gone(const struct sn_net_link *l, int status)
{
	const struct sn_net *n = l->net;
	char where[64];

	part_text(&l->part[0], where, sizeof(where));
	if (l->bye_came && status == 0)
		sn_debug("net: the peer at %s has left", where);
	else if (l->bye_came)
		sn_info("net: the peer at %s has given us up", where);
	else if (l->state == SN_LINK_CONNECTING)
		sn_warn("no answer from %s in %" PRIu64 " ms, though the process there gave its address: a "
			"firewall, or no way for %s between the hosts? `sennit doctor HOST` looks into it",
			where, (uint64_t)(n->cfg.peer_timeout / SN_NET_MS),
			l->part[0].type == SN_ADDR_ETHER ? "Ethernet frames of type 88B6" : "UDP");
	else if (n->now >= l->heard_at + n->cfg.peer_timeout)
		sn_info("net: the peer at %s has been silent for %" PRIu64 " ms", where,
			(uint64_t)(n->cfg.peer_timeout / SN_NET_MS));
	else
		sn_info("net: the peer at %s is gone: %s", where, sn_strerror(status));
}
