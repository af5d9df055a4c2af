/* SPDX-License-Identifier: BSD-3-Clause */
/* The network as `sennit info` and `sennit doctor` show it: interfaces, what each is used for and why, offloads. */
#include "base/conf.h"
#include "doctor.h"
#include "net/iface.h"
#include "sennit/sennit.h"
#include "tool.h"
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST	     8
#define WANTED_BYTES (8 << 20) /* of a socket's receive buffer: what udp.c asks for */

static bool may_packet(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Does this kernel cut up and join datagrams? With a device that cannot, it does so itself. */
static bool kernel_option(int name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), value = 0;
	bool can = fd >= 0 && setsockopt(fd, IPPROTO_UDP, name, &value, sizeof(value)) == 0;

	if (fd >= 0)
		close(fd);
	return can;
}

/* One of the device's switches: "on", "off", "?". */
static const char *device_switch(const char *name, uint32_t command)
{
	struct ethtool_value v = {.cmd = command};
	struct ifreq r = {.ifr_data = (void *)&v};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool told;

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	told = fd >= 0 && ioctl(fd, SIOCETHTOOL, &r) == 0;
	if (fd >= 0)
		close(fd);
	return !told ? "?" : v.data ? "on" : "off";
}

static void address_text(const struct sn_iface *i, char *out, size_t size)
{
	char ip[INET6_ADDRSTRLEN] = "no IP address";

	if (i->has4)
		inet_ntop(AF_INET, &i->addr4, ip, sizeof(ip));
	else if (i->has6)
		inet_ntop(AF_INET6, &i->addr6, ip, sizeof(ip));
	snprintf(out, size, "%s", ip);
}

/* What stands before the first interface, and before those after it. */
static const char *heading(bool first)
{
	return first ? "network    " : "           ";
}

static void print_iface(const struct sn_iface *i, const char *use, bool first)
{
	char ip[INET6_ADDRSTRLEN];

	address_text(i, ip, sizeof(ip));
	printf("%s%s (%s, MTU %" PRIu32 ", segmentation %s, receive offload %s): %s\n", heading(first),
	       i->name, ip, i->mtu, device_switch(i->name, ETHTOOL_GGSO),
	       device_switch(i->name, ETHTOOL_GGRO), use);
}

static unsigned print_auto(void)
{
	struct sn_iface iface[MOST];
	unsigned n = sn_iface_all(false, iface, MOST), m;

	for (unsigned i = 0; i < n; i++) {
		char use[160];
		snprintf(use, sizeof(use), "%s; %s",
			 i ? "UDP, one more rail" : "UDP, as it has an IP address; the first rail",
			 !iface[i].has_mac ? "no Ethernet frames go there"
			 : may_packet()
				 ? "short messages by Ethernet frames, to peers for which they come through"
				 : "for short messages, too, as Ethernet frames need CAP_NET_RAW");
		print_iface(&iface[i], use, i == 0);
	}
	m = sn_iface_all(true, iface, MOST - n);
	for (unsigned i = 0; i < m; i++)
		print_iface(&iface[i],
			    may_packet() ? "Ethernet frames, as it has no IP address"
					 : "not used: no IP address, and Ethernet frames need CAP_NET_RAW",
			    n + i == 0);
	return n + m;
}

void sn_tool_print_network(void)
{
	const char *set = sn_conf_str(SN_CONF_NET), *at = set;
	char where[SN_IFACE_WHERE];
	bool ether, first = true;
	int rc;

	if (strcmp(set, "off") == 0) {
		puts("network    off (setting net)");
		return;
	}
	if (strcmp(set, "auto") == 0) {
		if (print_auto() == 0)
			puts("network    no interface is up that leads to other hosts");
		return;
	}
	for (; (rc = sn_iface_entry(&at, &ether, where)) > 0; first = false) {
		struct sn_iface i;
		if (sn_iface_choose(where, ether, &i) != SN_OK)
			printf("%s%s\n", heading(first), sn_last_error());
		else
			print_iface(&i,
				    ether ? "Ethernet frames, by the setting net" : "UDP, by the setting net",
				    first);
	}
	if (rc < 0)
		printf("%s%s\n", heading(first), sn_last_error());
}

/* The interface that is asked first, by the setting, all of which must be right. Negative sn_error. */
int sn_tool_first_iface(struct sn_iface *out, bool *ether)
{
	const char *at = sn_conf_str(SN_CONF_NET);
	char where[SN_IFACE_WHERE] = "", next[SN_IFACE_WHERE];
	bool next_ether;
	int rc = 0;

	*ether = false;
	if (strcmp(at, "auto") != 0)
		rc = sn_iface_entry(&at, ether, where);
	while (rc > 0)
		rc = sn_iface_entry(&at, &next_ether, next);
	if (rc < 0)
		return rc;
	return sn_iface_choose(where, *ether, out);
}

/* ---- doctor ---- */

/* What the setting would take. */
static void check_network(void)
{
	struct sn_iface i;
	char addr[INET6_ADDRSTRLEN];
	bool ether;

	if (strcmp(sn_conf_str(SN_CONF_NET), "off") == 0) {
		sn_doctor_report(SN_HEALTH_LIMITED, "network", "SENNIT_NET=auto",
				 "switched off: no other host can be reached");
		return;
	}
	if (sn_tool_first_iface(&i, &ether) != SN_OK) {
		sn_doctor_report(SN_HEALTH_LIMITED, "network",
				 "an interface that is up (`ip addr`), or another value of SENNIT_NET",
				 "other hosts cannot be reached: %s", sn_last_error());
		return;
	}
	address_text(&i, addr, sizeof(addr));
	if (i.loopback)
		sn_doctor_report(SN_HEALTH_LIMITED, "network", "an interface that leads to the other hosts",
				 "only the loopback interface is up: no other host can be reached");
	else
		sn_doctor_report(SN_HEALTH_OK, "network", NULL,
				 "other hosts by %s on %s (%s, MTU %" PRIu32 ")",
				 ether ? "Ethernet frames" : "UDP", i.name, addr, i.mtu);
}

static void check_raw_ethernet(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), error = errno;
	bool wanted = strstr(sn_conf_str(SN_CONF_NET), "ether") != NULL;

	if (fd >= 0) {
		close(fd);
		sn_doctor_report(SN_HEALTH_OK, "raw Ethernet", NULL,
				 "used for short messages (setting net=auto); may be used for all (ether)");
	} else {
		sn_doctor_report(wanted ? SN_HEALTH_MISSING : SN_HEALTH_OK, "raw Ethernet",
				 "run as root, or with CAP_NET_RAW on every host; or SENNIT_NET=udp",
				 "not for this user (%s; it needs CAP_NET_RAW): UDP is used, which is "
				 "somewhat slower",
				 strerror(error));
	}
}

static void check_buffers(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = WANTED_BYTES, got = 0;
	socklen_t len = sizeof(got);

	if (fd < 0)
		return;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &got, &len);
	close(fd);
	got /= 2; /* the kernel doubles what it is asked for */
	sn_doctor_report(got >= WANTED_BYTES ? SN_HEALTH_OK : SN_HEALTH_LIMITED, "socket buffers",
			 "sysctl net.core.rmem_max=8388608 net.core.wmem_max=2097152 (as root; in "
			 "/etc/sysctl.d to keep it)",
			 got >= WANTED_BYTES ? "%d KiB for what comes by UDP"
					     : "%d KiB for what comes by UDP, 8192 are wanted: long messages "
					       "from several hosts at once lose frames, and take longer",
			 got >> 10);
}

static void check_offloads(void)
{
	bool out = kernel_option(UDP_SEGMENT), in = kernel_option(UDP_GRO);

	sn_doctor_report(out && in ? SN_HEALTH_OK : SN_HEALTH_LIMITED, "UDP offloads", "Linux 5.0 or later",
			 "trains of frames %s in one call, and %s joined", out ? "leave" : "do not leave",
			 in ? "arrive" : "do not arrive");
}

void sn_doctor_net(void)
{
	check_network();
	check_raw_ethernet();
	check_buffers();
	check_offloads();
}
