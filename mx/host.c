/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts and their numbers. A host is one board: sennit spreads over its interfaces by itself. Its NIC id is made of the IPv4
 * address by which others reach it, in the form of a MAC address of local meaning: 02:00 and the four bytes.
 */
#include "mx.h"
#include "net/iface.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NIC_PREFIX UINT64_C(0x0200)
#define NIC_SHIFT  32

static uint64_t own;

static uint64_t nic_of(struct in_addr ip)
{
	return NIC_PREFIX << NIC_SHIFT | ntohl(ip.s_addr);
}

/* The address of the best interface that the network rail uses; of a host without a network, loopback. */
void mx_host_init(void)
{
	struct sn_iface all[8];
	struct in_addr ip = {htonl(INADDR_LOOPBACK)};
	unsigned n = sn_iface_all(false, all, sizeof(all) / sizeof(all[0]));
	for (unsigned i = n; i-- > 0;)
		if (all[i].has4)
			ip = all[i].addr4;
	own = nic_of(ip);
}

uint64_t mx_host_nic(void)
{
	return own;
}

bool mx_host_of_nic(uint64_t nic, struct in_addr *ip)
{
	ip->s_addr = htonl((uint32_t)nic);
	return nic >> NIC_SHIFT == NIC_PREFIX;
}

bool mx_host_is_here(struct in_addr ip)
{
	struct ifaddrs *list;
	bool found = ntohl(ip.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
	if (found || getifaddrs(&list))
		return found;
	for (const struct ifaddrs *a = list; a && !found; a = a->ifa_next)
		found = a->ifa_addr && a->ifa_addr->sa_family == AF_INET &&
			((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr.s_addr == ip.s_addr;
	freeifaddrs(list);
	return found;
}

static bool resolve(const char *name, struct in_addr *ip)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	if (getaddrinfo(name, NULL, &hints, &found))
		return false;
	*ip = ((const struct sockaddr_in *)(const void *)found->ai_addr)->sin_addr;
	freeaddrinfo(found);
	return true;
}

static bool own_name(const char *name)
{
	char mine[MX_MAX_HOSTNAME_LEN] = "";
	gethostname(mine, sizeof(mine) - 1);
	return strcasecmp(name, mine) == 0 || strcasecmp(name, "localhost") == 0;
}

/* Also "name:0", as MX numbers the boards of a host. */
mx_return_t mx_hostname_to_nic_id(char *hostname, uint64_t *nic_id)
{
	char name[MX_MAX_HOSTNAME_LEN];
	struct in_addr ip;
	if (!hostname || !nic_id || !*hostname || strlen(hostname) >= sizeof(name))
		return mx_fail(NULL, MX_BAD_HOSTNAME_ARGS, "mx_hostname_to_nic_id");
	snprintf(name, sizeof(name), "%s", hostname);
	char *board = strchr(name, ':');
	if (board && strcmp(board, ":0") != 0)
		return mx_fail(NULL, MX_HOST_NOT_FOUND, "mx_hostname_to_nic_id: %s: a host has one board, 0",
			       name);
	if (board)
		*board = '\0';
	if (own_name(name))
		*nic_id = own;
	else if (resolve(name, &ip))
		*nic_id = mx_host_is_here(ip) ? own : nic_of(ip);
	else
		return mx_fail(NULL, MX_HOST_NOT_FOUND, "mx_hostname_to_nic_id: %s", name);
	return MX_SUCCESS;
}

mx_return_t mx_nic_id_to_hostname(uint64_t nic_id, char *hostname)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	if (!hostname)
		return mx_fail(NULL, MX_BAD_HOSTNAME_ARGS, "mx_nic_id_to_hostname");
	if (!mx_host_of_nic(nic_id, &sa.sin_addr))
		return mx_fail(NULL, MX_NIC_NOT_FOUND, "mx_nic_id_to_hostname: %#" PRIx64, nic_id);
	hostname[MX_MAX_HOSTNAME_LEN - 1] = '\0';
	if (nic_id == own && gethostname(hostname, MX_MAX_HOSTNAME_LEN - 1) == 0)
		return MX_SUCCESS;
	/* of a host without a name, its address */
	if (getnameinfo((const struct sockaddr *)(const void *)&sa, sizeof(sa), hostname, MX_MAX_HOSTNAME_LEN,
			NULL, 0, 0))
		inet_ntop(AF_INET, &sa.sin_addr, hostname, MX_MAX_HOSTNAME_LEN);
	return MX_SUCCESS;
}

mx_return_t mx_board_number_to_nic_id(uint32_t board, uint64_t *nic_id)
{
	if (!mx_is_open())
		return mx_fail(NULL, MX_NOT_INITIALIZED, "mx_board_number_to_nic_id");
	if (board != 0 || !nic_id)
		return mx_fail(NULL, MX_BOARD_UNKNOWN, "mx_board_number_to_nic_id: board %u", board);
	*nic_id = own;
	return MX_SUCCESS;
}

mx_return_t mx_nic_id_to_board_number(uint64_t nic_id, uint32_t *board)
{
	if (!mx_is_open())
		return mx_fail(NULL, MX_NOT_INITIALIZED, "mx_nic_id_to_board_number");
	if (nic_id != own || !board)
		return mx_fail(NULL, MX_BOARD_UNKNOWN, "mx_nic_id_to_board_number: %#" PRIx64, nic_id);
	*board = 0;
	return MX_SUCCESS;
}
