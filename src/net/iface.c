/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/iface.h"
#include "base/base.h"
#include "base/conf.h"
#include "base/log.h"
#include "sennit/sennit.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_arp.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define IFACES 64 /* looked at; more on one machine are virtual ones of many containers */

/* Mbit/s as the driver tells; virtual devices often do not know. */
static long link_speed(const char *name)
{
	char path[64];
	long speed = 0;

	snprintf(path, sizeof(path), "/sys/class/net/%.20s/speed", name);
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fscanf(f, "%ld", &speed) != 1 || speed < 0)
		speed = 0;
	fclose(f);
	return speed;
}

static bool has_default_route(const char *name)
{
	char line[256], iface[32];
	unsigned long dest;
	bool found = false;
	FILE *f = fopen("/proc/net/route", "re");

	if (f == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%31s %lx", iface, &dest) == 2 && dest == 0 && strcmp(iface, name) == 0;
	fclose(f);
	return found;
}

static struct sn_iface *entry(struct sn_iface *table, unsigned *count, const char *name)
{
	for (unsigned i = 0; i < *count; i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	if (*count == IFACES)
		return NULL;
	struct sn_iface *e = &table[(*count)++];
	*e = (struct sn_iface){.index = if_nametoindex(name)};
	snprintf(e->name, sizeof(e->name), "%s", name);
	return e;
}

/* Leading ones of a netmask. */
static uint8_t prefix_of(const struct sockaddr *mask)
{
	const struct sockaddr_in *in = (const void *)mask;
	const struct sockaddr_in6 *in6 = (const void *)mask;
	unsigned bits = 0;

	if (mask && mask->sa_family == AF_INET)
		bits = (unsigned)__builtin_popcount(in->sin_addr.s_addr);
	for (unsigned i = 0; mask && mask->sa_family == AF_INET6 && i < 16; i++)
		bits += (unsigned)__builtin_popcount(in6->sin6_addr.s6_addr[i]);
	return (uint8_t)bits;
}

static bool same_bits(const void *a, const void *b, unsigned bits)
{
	const uint8_t *x = a, *y = b;
	unsigned whole = bits / 8;

	return bits && memcmp(x, y, whole) == 0 &&
	       (bits % 8 == 0 || (x[whole] ^ y[whole]) >> (8 - bits % 8) == 0);
}

/* Then a route to a peer says nothing about the interface: each socket has to be held to its own. */
static bool same_network(const struct sn_iface *a, const struct sn_iface *b)
{
	if (a->has4 && b->has4 && same_bits(&a->addr4, &b->addr4, SN_MIN_OF(a->prefix4, b->prefix4)))
		return true;
	return a->has6 && b->has6 && same_bits(&a->addr6, &b->addr6, SN_MIN_OF(a->prefix6, b->prefix6));
}

static void add_address(struct sn_iface *e, const struct ifaddrs *a)
{
	const struct sockaddr_ll *ll = (const void *)a->ifa_addr;
	const struct sockaddr_in6 *in6 = (const void *)a->ifa_addr;

	e->loopback = a->ifa_flags & IFF_LOOPBACK;
	e->running = a->ifa_flags & IFF_RUNNING;
	switch (a->ifa_addr->sa_family) {
	case AF_PACKET:
		e->has_mac = ll->sll_hatype == ARPHRD_ETHER && ll->sll_halen == 6;
		memcpy(e->mac, ll->sll_addr, 6);
		break;
	case AF_INET:
		if (!e->has4) {
			e->addr4 = ((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr;
			e->prefix4 = prefix_of(a->ifa_netmask);
		}
		e->has4 = true;
		break;
	case AF_INET6:
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)) /* means nothing without the other side's scope */
			break;
		if (!e->has6) {
			e->addr6 = in6->sin6_addr;
			e->prefix6 = prefix_of(a->ifa_netmask);
		}
		e->has6 = true;
		break;
	default: break;
	}
}

/* Does the interface hold this address? Then it is the one to advertise. */
static bool holds(struct sn_iface *e, const struct ifaddrs *a, const char *where)
{
	struct in_addr want4;
	struct in6_addr want6;

	if (a->ifa_addr->sa_family == AF_INET && inet_pton(AF_INET, where, &want4) == 1) {
		if (((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr.s_addr != want4.s_addr)
			return false;
		e->addr4 = want4;
		e->prefix4 = prefix_of(a->ifa_netmask);
		return true;
	}
	if (a->ifa_addr->sa_family == AF_INET6 && inet_pton(AF_INET6, where, &want6) == 1) {
		if (memcmp(&((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr, &want6,
			   16) != 0)
			return false;
		e->addr6 = want6;
		e->prefix6 = prefix_of(a->ifa_netmask);
		e->has6 = true;
		e->has4 = false;
		return true;
	}
	return false;
}

static void finish(struct sn_iface *e)
{
	struct ifreq r = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", e->name);
	e->mtu = fd >= 0 && ioctl(fd, SIOCGIFMTU, &r) == 0 ? (uint32_t)r.ifr_mtu : 1500;
	if (fd >= 0)
		close(fd);
	static const char *const virtual_bridges[] = {"docker", "virbr", "br-", "lxc", "cni", "podman"};
	e->score =
		SN_MIN_OF(link_speed(e->name), 1000000L) * 4 + (has_default_route(e->name) ? 2 : 0) + e->has4;
	for (size_t i = 0; i < sizeof(virtual_bridges) / sizeof(virtual_bridges[0]); i++)
		if (strncmp(e->name, virtual_bridges[i], strlen(virtual_bridges[i])) == 0)
			e->score = -1;
	if (!e->running) /* no carrier, or none yet */
		e->score = -2;
	if (e->loopback)
		e->score = -3;
}

int sn_iface_choose(const char *where, bool ether, struct sn_iface *out)
{
	struct ifaddrs *all;
	struct sn_iface table[IFACES], *best = NULL;
	unsigned count = 0;
	bool given = where && *where;

	if (getifaddrs(&all) < 0)
		return sn_fail(SN_ERR_PERM, "the network interfaces cannot be listed: %s", strerror(errno));
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (a->ifa_addr == NULL || !(a->ifa_flags & IFF_UP))
			continue;
		struct sn_iface *e = entry(table, &count, a->ifa_name);
		if (e == NULL)
			continue;
		add_address(e, a);
		if (given && (strcmp(e->name, where) == 0 || holds(e, a, where)))
			best = e;
	}
	freeifaddrs(all);
	for (unsigned i = 0; i < count && !given; i++) {
		struct sn_iface *e = &table[i];
		if (ether ? !e->has_mac : !e->has4 && !e->has6)
			continue;
		finish(e);
		if (best == NULL || e->score > best->score)
			best = e;
	}
	if (best == NULL)
		return given ? sn_fail(SN_ERR_INVALID,
				       "no interface that is up has the name or address \"%s\"", where)
			     : sn_fail(SN_ERR_UNSUPPORTED, "no interface is up with %s address",
				       ether ? "an Ethernet" : "an IP");
	if (ether ? !best->has_mac : !best->has4 && !best->has6)
		return sn_fail(SN_ERR_UNSUPPORTED, "interface %s has no %s address", best->name,
			       ether ? "Ethernet" : "IP");
	finish(best);
	for (unsigned i = 0; i < count; i++)
		best->shared |= &table[i] != best && !table[i].loopback && same_network(best, &table[i]);
	*out = *best;
	return 0;
}

static int by_score(const void *a, const void *b)
{
	const struct sn_iface *x = a, *y = b;

	return x->score != y->score ? (x->score < y->score ? 1 : -1) : (x->index < y->index ? -1 : 1);
}

unsigned sn_iface_all(bool ether, struct sn_iface *out, unsigned max)
{
	struct ifaddrs *all;
	struct sn_iface table[IFACES];
	unsigned count = 0, n = 0;

	if (getifaddrs(&all) < 0)
		return 0;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		struct sn_iface *e = NULL;
		if (a->ifa_addr && (a->ifa_flags & IFF_UP))
			e = entry(table, &count, a->ifa_name);
		if (e)
			add_address(e, a);
	}
	freeifaddrs(all);
	for (unsigned i = 0; i < count; i++) {
		finish(&table[i]);
		bool ip = table[i].has4 || table[i].has6;
		if (table[i].score < 0 || (ether ? ip || !table[i].has_mac : !ip))
			table[i].score = -1;
	}
	qsort(table, count, sizeof(table[0]), by_score);
	for (unsigned i = 0; i < count && n < max && table[i].score >= 0; i++)
		out[n++] = table[i];
	return n;
}

int sn_iface_entry(const char **at, bool *ether, char where[SN_IFACE_WHERE])
{
	const char *set = sn_conf_str(SN_CONF_NET);
	size_t len = strcspn(*at, ","), word = strcspn(*at, ":,");

	if (**at == 0)
		return *at > set ? 0 : sn_fail(SN_ERR_INVALID, "SENNIT_NET is empty");
	*ether = word == 5 && strncmp(*at, "ether", 5) == 0;
	if ((!*ether && !(word == 3 && strncmp(*at, "udp", 3) == 0)) || len - word > SN_IFACE_WHERE)
		return sn_fail(
			SN_ERR_INVALID,
			"SENNIT_NET is \"%s\": use auto, off, or a list of udp[:where] and ether[:where]",
			set);
	memset(where, 0, SN_IFACE_WHERE);
	if (word < len)
		memcpy(where, *at + word + 1, len - word - 1);
	*at += len + ((*at)[len] == ',');
	return 1;
}
