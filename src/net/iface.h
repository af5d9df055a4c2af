/* SPDX-License-Identifier: BSD-3-Clause */
/* Which network interface the drivers use. */
#ifndef SN_NET_IFACE_H
#define SN_NET_IFACE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct sn_iface {
	char name[IF_NAMESIZE];
	unsigned index;
	uint32_t mtu;
	bool loopback, running, has_mac, has4, has6;
	bool shared; /* another interface has an address in the same network */
	uint8_t mac[6];
	struct in_addr addr4;
	struct in6_addr addr6; /* not link-local */
	uint8_t prefix4, prefix6;
	long score;
};

/*
 * The interface called `where`, or holding the address `where`; with where NULL or "" the best one that is up and of
 * the needed kind: fastest first, one with the default route before its equals, then bridges of container engines,
 * then those without a carrier, and loopback only when there is no other. ether: it must have a MAC address; else an
 * IP address. Negative sn_error.
 */
int sn_iface_choose(const char *where, bool ether, struct sn_iface *out);

/*
 * All interfaces that are up, have a carrier and an IP address (or, ether, only a MAC address and no IP one), without
 * loopback and bridges of container engines, the best first. Returns how many, at most max.
 */
unsigned sn_iface_all(bool ether, struct sn_iface *out, unsigned max);

/* What the setting `net` may say of an interface or an address. */
#define SN_IFACE_WHERE 64

/*
 * The next entry of the setting `net` where that is a list of "udp" and "ether", each with ":" and an interface or
 * address if one is to be used. *at begins as the setting. 1: taken, and *at stands behind it; 0: there is no more;
 * negative sn_error: it is something else.
 */
int sn_iface_entry(const char **at, bool *ether, char where[SN_IFACE_WHERE]);

#endif
