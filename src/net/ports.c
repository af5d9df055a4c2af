/* SPDX-License-Identifier: BSD-3-Clause */
/* Which drivers the network rail opens, and on what: the setting SENNIT_NET; and how their descriptors are watched. */
#include "net/ports.h"
#include "base/conf.h"
#include "base/launched.h"
#include "base/log.h"
#include "net/iface.h"
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct ports {
	struct sn_net_cfg_port *port;
	unsigned ports;
};

static int open_port(struct ports *r, const struct sn_net_driver *driver, const char *where)
{
	struct sn_net_cfg_port *p = &r->port[r->ports];

	if (r->ports == SN_NET_RAILS)
		return sn_fail(SN_ERR_INVALID, "more than %d network rails", SN_NET_RAILS);
	p->driver = driver;
	int rc = driver->open(where, &p->drv, &p->part);
	if (!rc) {
		r->ports++;
		sn_info("network rail over %s%s%s, frames up to %u bytes", driver->name, where ? " on " : "",
			where ? where : "", driver->mtu(p->drv));
	}
	return rc;
}

/*
 * A packet socket takes 10 ms to make and 20 to close, so there is none where all ranks are on this host, as far as
 * the launcher says.
 */
static int open_udp(struct ports *r, const char *where)
{
	struct sn_launched job = sn_launched();
	bool others = !job.all || job.here < job.all;

	if (others && open_port(r, &sn_net_both, where) == 0)
		return 0;
	return open_port(r, &sn_net_udp, where);
}

/*
 * auto: UDP on every interface with an IP address, for whatever lies between two hosts carries IP, the fastest first,
 * with the short cut over Ethernet where that is allowed; Ethernet frames on those that have no IP address. One that
 * does not open is left out, unless all are.
 */
static int open_all(struct ports *r)
{
	struct sn_iface iface[SN_NET_RAILS];
	unsigned n = sn_iface_all(false, iface, SN_NET_RAILS);

	for (unsigned i = 0; i < n; i++)
		if (open_udp(r, iface[i].name) < 0)
			sn_info("no rail over %s: %s", iface[i].name, sn_last_error());
	n = sn_iface_all(true, iface, SN_NET_RAILS - r->ports);
	for (unsigned i = 0; i < n; i++)
		if (open_port(r, &sn_net_packet, iface[i].name) < 0)
			sn_info("no rail over %s: %s", iface[i].name, sn_last_error());
	if (r->ports == 0)
		return open_port(r, &sn_net_udp, NULL);
	sn_fail_forget(); /* of those that were left out */
	return 0;
}

static int open_them(struct ports *r)
{
	const char *set = sn_conf_str(SN_CONF_NET), *at = set;
	char where[SN_IFACE_WHERE];
	bool ether;
	int rc;

	if (strcmp(set, "off") == 0)
		return sn_fail(SN_ERR_UNSUPPORTED, "switched off (SENNIT_NET)");
	if (strcmp(set, "auto") == 0)
		return open_all(r);
	while ((rc = sn_iface_entry(&at, &ether, where)) > 0) {
		rc = open_port(r, ether ? &sn_net_packet : &sn_net_udp, *where ? where : NULL);
		if (rc)
			return rc;
	}
	return rc;
}

int sn_net_ports_open(struct sn_net_cfg_port *port, unsigned *ports)
{
	struct ports r = {port, 0};
	int rc = open_them(&r);

	*ports = r.ports;
	return rc;
}

unsigned sn_net_ports_fds(const struct sn_net_cfg_port *ports, unsigned count, int fd[SN_NET_PORTS_FDS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++)
		n += ports[i].driver->fds(ports[i].drv, fd + n);
	return n;
}

int sn_net_ports_watch(const struct sn_net_cfg_port *ports, unsigned count, int epoll, int how)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT};
	int fd[SN_NET_PORTS_FDS], rc = 0;
	unsigned n = sn_net_ports_fds(ports, count, fd);

	for (unsigned i = 0; i < n; i++) {
		e.data.fd = fd[i];
		rc |= epoll_ctl(epoll, how, fd[i], &e);
	}
	return rc;
}

void sn_net_ports_in_child(const struct sn_net_cfg_port *ports, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		int fd[SN_NET_FDS];

		if (ports[i].driver->in_child) {
			ports[i].driver->in_child(ports[i].drv);
			continue;
		}
		for (unsigned n = ports[i].driver->fds(ports[i].drv, fd); n > 0; n--)
			close(fd[n - 1]);
	}
}

void sn_net_error_taken(int fd)
{
	int error;

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof(error)});
}

void sn_net_ports_rang(int epoll)
{
	struct epoll_event e[SN_NET_PORTS_FDS]; /* all that there can be */

	for (int n = epoll_wait(epoll, e, SN_NET_PORTS_FDS, 0); n > 0; n--)
		if (e[n - 1].events & EPOLLERR)
			sn_net_error_taken(e[n - 1].data.fd);
}
