/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A datagram that names its destination costs a look at the routes, a sixth of its whole way between two hosts of one machine
 * (bench/net_bare, with and without connect). So who is sent to often gets a socket of his own, connected, that only sends.
 *
 * Its datagrams leave with the address and the port of the socket that receives, so that nothing on the way, a
 * firewall say, sees a difference; yet it must take nothing of what comes. So it is bound to that port and to a
 * multicast address (of those that are kept for documents): to be bound to one says what is received, and leaves it
 * to the route which address is sent from. Errors that come back from the network for what was sent find the other
 * socket, as they did.
 *
 * Where the system does not play along, or the route would choose another address of ours, there is no such socket.
 * They stand in a table by a hash of the address; of two that meet there the one sent to more often has the place.
 *
 * What comes is found sooner, too, by a socket that is connected to where it comes from: the kernel looks for such a socket
 * before it looks at the routes, and the tenth of the way that this takes is spared (the same program). But each socket that
 * receives costs a system call a look, so there is one such beside the one for everybody, for one of those who are sent to
 * often; it stands in the same place, and the kernel prefers it for what comes from there. Changing whose it is loses
 * nothing: what it has stays in it, and what comes from others goes to the other socket. It is there from the beginning,
 * connected to nobody's port, so that what is watched for its becoming readable does not change.
 */
#include "net/udp_out.h"
#include "base/base.h"
#include "base/log.h"
#include "net/driver.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define OFTEN	  32 /* datagrams that make it worth a socket */
#define KEEP	  64 /* datagrams to others that take the place of one that is not used */
#define NOBODY	  9  /* a port from which nothing comes */
#define OUT_BYTES (2 << 20)

static socklen_t length(const union sn_udp_addr *a)
{
	return a->sa.sa_family == AF_INET6 ? sizeof(a->in6) : sizeof(a->in);
}

static bool same_host(const union sn_udp_addr *a, const union sn_udp_addr *b)
{
	if (a->sa.sa_family == AF_INET6)
		return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16) == 0;
	return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
}

/* The port stands at one place in both families. */
static bool same(const union sn_udp_addr *a, const union sn_udp_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family || a->in.sin_port != b->in.sin_port)
		return false;
	if (a->sa.sa_family == AF_INET6 && a->in6.sin6_scope_id != b->in6.sin6_scope_id)
		return false;
	return same_host(a, b);
}

static int new_socket(const struct sn_udp_outs *o)
{
	const char *device = o->device;
	int fd = socket(o->own.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && device &&
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, (socklen_t)strlen(device)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Would the route there choose our address? */
static bool from_own(const struct sn_udp_outs *o, const union sn_udp_addr *to)
{
	union sn_udp_addr from = {0};
	socklen_t len = sizeof(from);
	int fd = new_socket(o);
	bool same = fd >= 0 && connect(fd, &to->sa, length(to)) == 0 &&
		    getsockname(fd, &from.sa, &len) == 0 && same_host(&from, &o->own);

	if (fd >= 0)
		close(fd);
	return same;
}

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

uint64_t sn_udp_set_up(int fd, bool v6, int in)
{
	_Static_assert(IPV6_PMTUDISC_PROBE == IP_PMTUDISC_PROBE, "one value for both");
	set_int(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
		IP_PMTUDISC_PROBE);
	return sn_net_buffers(fd, in, OUT_BYTES);
}

static int connected(const struct sn_udp_outs *o, const union sn_udp_addr *to)
{
	union sn_udp_addr bound = o->own;
	bool v6 = bound.sa.sa_family == AF_INET6;
	int fd = new_socket(o);

	if (fd < 0)
		return -1;
	if (v6)
		inet_pton(AF_INET6, "ff0e::db8:0:1", &bound.in6.sin6_addr);
	else
		inet_pton(AF_INET, "233.252.0.1", &bound.in.sin_addr);
	sn_udp_set_up(fd, v6, 0); /* nothing comes in by it */
	if (bind(fd, &bound.sa, length(&bound)) == 0 && connect(fd, &to->sa, length(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void open_out(struct sn_udp_outs *o, struct sn_udp_out *out)
{
	int error = errno;

	out->fd = from_own(o, &out->to) ? connected(o, &out->to) : -1;
	out->open = true; /* or it has been tried */
	if (out->fd < 0)
		sn_info("no connected UDP socket: %s", strerror(errno));
	errno = error;
}

static void end_out(struct sn_udp_out *out)
{
	if (out->open && out->fd >= 0)
		close(out->fd);
	*out = (struct sn_udp_out){0};
}

static void set_reuse(int fd, int on)
{
	set_int(fd, SOL_SOCKET, SO_REUSEPORT, on);
}

/*
 * Only while this binds may another socket of this user share the place. Of two there the kernel tries the one that
 * stands first before it looks at the routes: with IPv4 the newer one, with IPv6 the older one of those that may
 * share.
 */
void sn_udp_in_open(struct sn_udp_outs *o, int *fd)
{
	union sn_udp_addr nobody = o->own;
	int both[2] = {*fd, new_socket(o)}, first = o->own.sa.sa_family == AF_INET;

	nobody.in.sin_port = htons(NOBODY);
	o->in = -1;
	if (both[1] < 0)
		return;
	set_reuse(both[0], 1);
	set_reuse(both[1], 1);
	bool up = bind(both[1], &o->own.sa, length(&o->own)) == 0 &&
		  connect(both[first], &nobody.sa, length(&nobody)) == 0;
	set_reuse(both[0], 0);
	set_reuse(both[1], 0);
	if (up) {
		o->in = both[first];
		*fd = both[!first];
		return;
	}
	sn_info("no second UDP socket that receives: %s", strerror(errno));
	close(both[1]);
}

/* Datagrams go to that peer: so the answers come by the socket that is connected to it, unless another's come there. */
static void answers_come(struct sn_udp_outs *o, struct sn_udp_out *out)
{
	if (sn_likely(o->in_of == out)) {
		o->in_keep = KEEP;
		return;
	}
	if (o->in < 0)
		return;
	if (o->in_keep > 0) {
		o->in_keep--;
		return;
	}
	o->in_keep = KEEP;
	o->in_of = connect(o->in, &out->to.sa, length(&out->to)) == 0 ? out : NULL;
}

static struct sn_udp_out *place_of(struct sn_udp_outs *o, const union sn_udp_addr *to)
{
	uint32_t h;

	if (to->sa.sa_family == AF_INET6)
		memcpy(&h, to->in6.sin6_addr.s6_addr + 12, sizeof(h));
	else
		h = to->in.sin_addr.s_addr;
	h = (h ^ (uint32_t)to->in.sin_port << 8) * 0x9e3779b1u;
	return &o->out[h / (UINT32_MAX / SN_UDP_OUTS + 1)];
}

int sn_udp_out(struct sn_udp_outs *o, const union sn_udp_addr *to)
{
	struct sn_udp_out *out = place_of(o, to);

	if (!same(&out->to, to)) {
		if (out->keep > 0) {
			out->keep--;
			return -1;
		}
		if (o->in_of == out)
			o->in_of = NULL;
		end_out(out);
		out->to = *to;
	}
	out->keep = KEEP;
	if (out->open) {
		answers_come(o, out);
		return out->fd;
	}
	if (o->own.sa.sa_family != 0 && ++out->sends == OFTEN)
		open_out(o, out);
	return -1;
}

void sn_udp_outs_close(struct sn_udp_outs *o)
{
	for (unsigned i = 0; i < SN_UDP_OUTS; i++)
		end_out(&o->out[i]);
	if (o->in >= 0)
		close(o->in);
	o->in = -1;
}

unsigned sn_udp_outs_open(const struct sn_udp_outs *o)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SN_UDP_OUTS; i++)
		n += o->out[i].open && o->out[i].fd >= 0;
	return n;
}
