/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames over UDP, IPv4 or IPv6: one frame a datagram.
 *
 * Frames of one length to one peer leave as one large datagram that the kernel (or the card) cuts up (UDP_SEGMENT),
 * and arrive joined again (UDP_GRO); several such in one call (sendmmsg, recvmmsg). The calls are given up for good
 * when the kernel does not know them; joining for a second when it is refused, which may be for one way or length of
 * frames only. Path MTU discovery is ours (probe.c): the kernel is told to set "don't fragment" and to have no
 * opinion.
 *
 * While fetches are under way a call scatters what it reads: the heads here, the bodies to where those that should come next
 * belong. So the payload is copied once. What turns out to be something else is copied again.
 *
 * Who is sent to often gets a socket of his own to send from, and one of those a socket that receives (udp_out.c).
 *
 * Budget: one system call to look, whether something is there or not, and now and then one more; one for up to 64
 * frames out to one peer.
 */
#include "base/base.h"
#include "base/log.h"
#include "net/call.h"
#include "net/driver.h"
#include "net/iface.h"
#include "net/join.h"
#include "net/udp_in.h"
#include "net/udp_out.h"
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define APART	     1000000000ULL /* ns without joining, after a refusal */
#define BUFFER_BYTES (8 << 20)	   /* of a socket that receives */

_Static_assert(sizeof(union sn_udp_addr) <= sizeof(struct sn_net_path), "a path holds any UDP address");

struct udp {
	int fd;
	bool v6, loopback, mmsg;
	uint8_t prefix;
	uint32_t mtu;
	uint64_t room;
	struct sn_udp_in in;
	struct mmsghdr out[SN_NET_BATCH];
	unsigned out_frames[SN_NET_BATCH]; /* in each datagram */
	int out_fd[SN_NET_BATCH];	   /* that it leaves through */
	struct sn_udp_outs outs;
	char device[IF_NAMESIZE]; /* that the sockets are held to */
	struct iovec out_iov[SN_JOIN_IOVS];
	union sn_udp_cmsg out_control[SN_NET_BATCH];
	uint64_t apart_until; /* clock up to which no frames are joined; 0: they are */
	uint64_t send_calls, joined, errors;
	int trouble;
};

/* ---- open ---- */

/*
 * With two interfaces in one network the kernel would send everything through the first, and answer for both
 * addresses there: the socket is held to its interface (any user may, since Linux 5.7). The neighbours' answers and
 * strict reverse path filtering are still the kernel's business: docs/troubleshooting.md.
 */
static void hold_to(struct udp *u, const struct sn_iface *iface)
{
	if (!iface->shared)
		return;
	memcpy(u->device, iface->name, sizeof(u->device));
	u->outs.device = u->device;
	if (setsockopt(u->fd, SOL_SOCKET, SO_BINDTODEVICE, iface->name, (socklen_t)strlen(iface->name)) < 0)
		sn_info("%s shares its network with another interface, and the socket cannot be held to it: "
			"%s",
			iface->name, strerror(errno));
}

static int bind_part(struct udp *u, const struct sn_iface *iface, struct sn_addr_part *part)
{
	union sn_udp_addr a = {0};
	socklen_t len = u->v6 ? sizeof(a.in6) : sizeof(a.in);

	a.sa.sa_family = u->v6 ? AF_INET6 : AF_INET;
	if (u->v6)
		a.in6.sin6_addr = iface->addr6;
	else
		a.in.sin_addr = iface->addr4;
	if (bind(u->fd, &a.sa, len) < 0 || getsockname(u->fd, &a.sa, &len) < 0)
		return sn_fail(SN_ERR_PERM, "bind a UDP socket on %s: %s", iface->name, strerror(errno));
	part->type = u->v6 ? SN_ADDR_UDP6 : SN_ADDR_UDP4;
	if (u->v6) {
		memcpy(part->bytes, &a.in6.sin6_addr, 16);
		memcpy(part->bytes + 16, &a.in6.sin6_port, 2);
	} else {
		memcpy(part->bytes, &a.in.sin_addr, 4);
		memcpy(part->bytes + 4, &a.in.sin_port, 2);
	}
	part->len = u->v6 ? 18 : 6;
	u->outs.own = a;
	return 0;
}

static void udp_close(void *drv)
{
	struct udp *u = drv;

	if (u->fd >= 0)
		close(u->fd);
	sn_udp_outs_close(&u->outs);
	sn_udp_in_free(&u->in);
	free(u);
}

static void udp_in_child(void *drv)
{
	struct udp *u = drv;

	close(u->fd);
	sn_udp_outs_close(&u->outs);
}

/* Returns how many bytes of frames fit into its buffer. */
static uint64_t set_options(const struct udp *u, int fd)
{
	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &(int){1},
		   sizeof(int)); /* an older kernel: datagrams come one by one */
	return sn_udp_set_up(fd, u->v6, BUFFER_BYTES);
}

static int udp_open(const char *where, void **drv, struct sn_addr_part *part)
{
	struct sn_iface iface;
	int rc = sn_iface_choose(where, false, &iface);
	struct udp *u = rc ? NULL : calloc(1, sizeof(*u));

	if (rc)
		return rc;
	if (u == NULL || !sn_udp_in_new(&u->in)) {
		free(u);
		return sn_fail(SN_ERR_NOMEM, "no memory for UDP buffers");
	}
	u->outs.in = -1;
	u->v6 = !iface.has4;
	u->loopback = iface.loopback;
	u->fd = socket(u->v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (u->fd < 0)
		rc = sn_fail(SN_ERR_PERM, "a UDP socket: %s", strerror(errno));
	else
		rc = bind_part(u, &iface, part);
	if (rc) {
		udp_close(u);
		return rc;
	}
	hold_to(u, &iface);
	sn_udp_in_open(&u->outs, &u->fd);
	u->prefix = u->v6 ? iface.prefix6 : iface.prefix4;
	u->mtu = SN_MIN_OF(iface.mtu, 65535u) - (u->v6 ? 48 : 28);
	u->mmsg = true;
	u->room = set_options(u, u->fd);
	if (u->outs.in >= 0)
		set_options(u, u->outs.in);
	sn_udp_in_start(&u->in, u->fd, u->outs.in);
	*drv = u;
	return 0;
}

static bool udp_resolve(void *drv, const struct sn_addr_part *part, struct sn_net_path *path)
{
	const struct udp *u = drv;
	union sn_udp_addr a = {0};

	if (part->type == SN_ADDR_UDP4 && part->len == 6 && !u->v6) {
		a.in.sin_family = AF_INET;
		memcpy(&a.in.sin_addr, part->bytes, 4);
		memcpy(&a.in.sin_port, part->bytes + 4, 2);
		if ((ntohl(a.in.sin_addr.s_addr) >> 24 == 127) != u->loopback)
			return false; /* its loopback is not ours */
	} else if (part->type == SN_ADDR_UDP6 && part->len == 18 && u->v6) {
		a.in6.sin6_family = AF_INET6;
		memcpy(&a.in6.sin6_addr, part->bytes, 16);
		memcpy(&a.in6.sin6_port, part->bytes + 16, 2);
		if (!!IN6_IS_ADDR_LOOPBACK(&a.in6.sin6_addr) != u->loopback)
			return false;
	} else {
		return false;
	}
	memcpy(path->bytes, &a, sizeof(a));
	return true;
}

static unsigned udp_prefix(void *drv)
{
	return ((struct udp *)drv)->prefix;
}

static uint32_t udp_mtu(void *drv)
{
	return ((struct udp *)drv)->mtu;
}

static uint64_t udp_room(void *drv)
{
	return ((struct udp *)drv)->room;
}

static unsigned udp_fds(void *drv, int fd[SN_NET_FDS])
{
	const struct udp *u = drv;

	fd[0] = u->fd;
	fd[1] = u->outs.in;
	return u->outs.in < 0 ? 1 : 2;
}

/* ---- out ---- */

/* How many of the frames from here on go into one datagram, and the length of its segments. */
static unsigned group(const struct udp *u, const struct sn_net_out *f, unsigned count, uint32_t *size)
{
	return sn_join_count(f, u->apart_until ? 1 : count, size);
}

/* Which socket sends there; the datagram says where to if that does not know it. */
static int to_whom(struct udp *u, const struct sn_net_path *path, struct msghdr *m)
{
	union sn_udp_addr to;

	memcpy(&to, path->bytes, sizeof(to));
	int fd = sn_udp_out(&u->outs, &to);
	if (fd >= 0)
		return fd;
	m->msg_name = (void *)path->bytes;
	m->msg_namelen = u->v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	return u->fd;
}

/* Describe the frames as datagrams; returns how many there are. */
static unsigned describe(struct udp *u, const struct sn_net_out *frames, unsigned count)
{
	unsigned msgs = 0, iovs = 0;

	if (u->apart_until && sn_now_ns() >= u->apart_until)
		u->apart_until = 0;
	for (unsigned i = 0; i < count; msgs++) {
		struct msghdr *m = &u->out[msgs].msg_hdr;
		uint32_t segment;
		unsigned n = group(u, frames + i, count - i, &segment);
		*m = (struct msghdr){.msg_iov = &u->out_iov[iovs]};
		u->out_fd[msgs] = to_whom(u, frames[i].to, m);
		m->msg_iovlen = sn_join_out(m->msg_iov, frames + i, n, segment);
		iovs += (unsigned)m->msg_iovlen;
		u->out_frames[msgs] = n;
		if (n > 1) {
			m->msg_control = &u->out_control[msgs];
			m->msg_controllen = CMSG_SPACE(sizeof(uint16_t));
			struct cmsghdr *c = CMSG_FIRSTHDR(m);
			uint16_t size = (uint16_t)segment;
			c->cmsg_level = IPPROTO_UDP;
			c->cmsg_type = UDP_SEGMENT;
			c->cmsg_len = CMSG_LEN(sizeof(size));
			memcpy(CMSG_DATA(c), &size, sizeof(size));
			u->joined++;
		}
		i += n;
	}
	return msgs;
}

/* How many datagrams went out, or -1 with errno if not even the first did. */
static int send_msgs(struct udp *u, unsigned from, unsigned count)
{
	int fd = u->out_fd[from];
	unsigned same = 1;

	while (same < count && u->out_fd[from + same] == fd)
		same++;
	u->send_calls++;
	if (u->mmsg && same > 1) {
		int n = sendmmsg(fd, u->out + from, same, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0 || errno != ENOSYS)
			return n;
		u->mmsg = false;
	}
	const struct msghdr *m = &u->out[from].msg_hdr;
	if (m->msg_iovlen == 1 && m->msg_name == NULL && m->msg_controllen == 0) /* 0.1 us less */
		return sn_net_call_send(fd, m->msg_iov->iov_base, m->msg_iov->iov_len) < 0 ? -1 : 1;
	return sendmsg(fd, m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 1;
}

/*
 * One short frame in one piece, mostly to somebody who has a socket of his own: what most messages are. Negative: as
 * any other, then.
 */
static int send_one(struct udp *u, const struct sn_net_out *f)
{
	struct iovec piece = f->iov[0];
	struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};

	if (f->iov_count != 1)
		return -1;
	int fd = to_whom(u, f->to, &m); /* once: it counts what goes to whom */
	u->send_calls++;
	u->trouble = 0;
	ssize_t sent = sn_likely(m.msg_name == NULL) ? sn_net_call_send(fd, piece.iov_base, piece.iov_len)
						     : sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sn_likely(sent >= 0))
		return 1;
	if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)
		return 0;
	u->trouble = errno;
	u->errors++;
	return 1;
}

/* This kernel, or the way there, does not cut datagrams up. Any other error would meet the frames one by one, too. */
static bool is_refusal(int error)
{
	return error == EIO || error == EINVAL || error == EOPNOTSUPP;
}

static unsigned udp_send(void *drv, const struct sn_net_out *frames, unsigned count)
{
	struct udp *u = drv;
	int one = count == 1 ? send_one(u, frames) : -1;

	if (one >= 0)
		return (unsigned)one;
	unsigned done = 0, at = 0, msgs = describe(u, frames, count);

	while (at < msgs) {
		int n = send_msgs(u, at, msgs - at);
		if (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR))
			return done;
		if (n < 0 && u->out_frames[at] > 1 && is_refusal(errno)) {
			u->apart_until = sn_now_ns() + APART;
			msgs = describe(u, frames + done, count - done);
			at = 0;
			continue;
		}
		u->trouble = n < 0 ? errno : 0;
		if (n < 0) { /* refused for good: as if lost */
			u->errors++;
			n = 1;
		}
		for (; n > 0; n--)
			done += u->out_frames[at++];
	}
	return done;
}

/* ---- in ---- */

static unsigned udp_receive(void *drv, struct sn_net_in *frames, unsigned max,
			    const struct sn_net_place *place)
{
	return sn_udp_receive(&((struct udp *)drv)->in, frames, max, place);
}

static bool udp_glance(void *drv)
{
	return sn_udp_glance(&((struct udp *)drv)->in);
}

static int udp_trouble(void *drv)
{
	return ((struct udp *)drv)->trouble;
}

static void udp_counters(void *drv, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	const struct udp *u = drv;
	uint64_t overruns = 0;

	for (int i = 0; i < 2; i++) {
		uint32_t info[SK_MEMINFO_VARS] = {0};
		socklen_t len = sizeof(info);
		getsockopt(i ? u->outs.in : u->fd, SOL_SOCKET, SO_MEMINFO, info, &len);
		overruns += info[SK_MEMINFO_DROPS];
	}
	fn(arg, "net.udp_send_calls", u->send_calls);
	fn(arg, "net.udp_receive_calls", u->in.calls);
	fn(arg, "net.udp_plain_calls", u->in.plain_calls);
	fn(arg, "net.udp_joined_sends", u->joined);
	fn(arg, "net.udp_connected", sn_udp_outs_open(&u->outs));
	fn(arg, "net.udp_send_errors", u->errors);
	fn(arg, "net.udp_truncated", u->in.truncated);
	fn(arg, "net.udp_overruns", overruns);
}

const struct sn_net_driver sn_net_udp = {
	.name = "udp",
	.together = 2048,
	.open = udp_open,
	.close = udp_close,
	.resolve = udp_resolve,
	.prefix = udp_prefix,
	.mtu = udp_mtu,
	.room = udp_room,
	.send = udp_send,
	.receive = udp_receive,
	.glance = udp_glance,
	.fds = udp_fds,
	.trouble = udp_trouble,
	.in_child = udp_in_child,
	.counters = udp_counters,
};
