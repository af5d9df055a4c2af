/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said about the end of a peer. */
#include "base/log.h"
#include "net/net.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

/* The peer's first address, and its rank if that is known. */
static void where_text(const struct sn_net_link *l, char *out, size_t size)
{
	const struct sn_addr_part *p = &l->part[0];
	int at, rank = sn_core_peer_rank(l->peer);
	char ip[INET6_ADDRSTRLEN] = "?";

	if (p->type == SN_ADDR_ETHER)
		at = snprintf(out, size, "%02x:%02x:%02x:%02x:%02x:%02x", p->bytes[0], p->bytes[1],
			      p->bytes[2], p->bytes[3], p->bytes[4], p->bytes[5]);
	else
		at = snprintf(
			out, size, "%s",
			inet_ntop(p->type == SN_ADDR_UDP6 ? AF_INET6 : AF_INET, p->bytes, ip, sizeof(ip)));
	if (rank >= 0)
		snprintf(out + at, size - (size_t)at, " (rank %d)", rank);
}

/* What the system says against sending there, if anything. */
static void trouble_text(const struct sn_net_link *l, char *out, size_t size)
{
	const struct sn_net_port *p = l->way[l->reply].port;
	int error = p->driver->trouble ? p->driver->trouble(p->drv) : 0;

	*out = 0;
	if (error)
		snprintf(out, size, ", and the system here refuses to send (%s)", strerror(error));
}

static bool is_own(const struct sn_net *n, const struct sn_addr_part *p)
{
	/* but for the port, which the last two bytes are */
	for (unsigned i = 0; i < n->cfg.ports; i++)
		if (n->port[i].part.type == p->type &&
		    memcmp(n->port[i].part.bytes, p->bytes, p->len - 2u) == 0)
			return true;
	return false;
}

static bool is_loopback(const struct sn_addr_part *p)
{
	return (p->type == SN_ADDR_UDP4 && p->bytes[0] == 127) ||
	       (p->type == SN_ADDR_UDP6 &&
		memcmp(p->bytes, &in6addr_loopback, sizeof(in6addr_loopback)) == 0);
}

/* What speaks for frames that go to the wrong process. */
static void astray_text(const struct sn_net_link *l, char *out, size_t size)
{
	const struct sn_net *n = l->net;
	int at = 0;

	*out = 0;
	if (is_own(n, &l->part[0]))
		at = snprintf(
			out, size, "%s",
			is_loopback(&l->part[0])
				? ". Each network namespace has that address for itself: ranks in containers "
				  "of one host have to share one, or to be joined by another interface"
				: ". This host has that address, too: each needs one of its own");
	if (n->drops[SN_DROP_MAC])
		snprintf(out + at, size - (size_t)at,
			 ". %" PRIu64
			 " frames came here that this process's key does not fit: they were meant for "
			 "another one, or changed on the way",
			 n->drops[SN_DROP_MAC]);
}

/*
 * Logged, and kept as the reason for the requests that end with it: said to the user where he has to do something. A peer
 * that closed its endpoint in good order is no news.
 */
void sn_net_say_gone(const struct sn_net_link *l, int status)
{
	const struct sn_net *n = l->net;
	uint64_t ms = n->cfg.peer_timeout / SN_NET_MS;
	char where[80], trouble[96], astray[320];

	where_text(l, where, sizeof(where));
	trouble_text(l, trouble, sizeof(trouble));
	if (l->bye_came && status == 0) {
		sn_fail_note("the peer at %s has left", where);
	} else if (l->bye_came) {
		sn_fail_note("the peer at %s has given us up", where);
		sn_info("net: %s", sn_last_error());
	} else if (l->state == SN_LINK_CONNECTING) {
		astray_text(l, astray, sizeof(astray));
		sn_fail_note(
			"no answer from %s in %" PRIu64 " ms, though the process there gave its address%s: a "
			"firewall, or no way for %s between the hosts? `sennit doctor HOST` looks into it%s",
			where, ms, trouble,
			l->part[0].type == SN_ADDR_ETHER ? "Ethernet frames of type 88B6" : "UDP", astray);
		sn_warn("%s", sn_last_error());
	} else if (l->in_vain >= SN_NET_ASK * SN_NET_ASK_FULL) {
		sn_fail_note("the peer at %s has been silent for %" PRIu64
			     " ms (SENNIT_PEER_TIMEOUT)%s: its process "
			     "or host is dead or stuck, or the network between is cut",
			     where, ms, trouble);
		sn_warn("%s", sn_last_error());
	} else {
		sn_fail_note("the peer at %s is gone: %s", where, sn_strerror(status));
		sn_info("net: %s", sn_last_error());
	}
}
