/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP, and beside it a packet socket on the same interface: short frames that leave alone may go straight over
 * Ethernet, which saves the IP layer of both sides, 1.5 us of 3.5. Everything else is UDP's: bodies and trains, which
 * it carries as fast or faster, and whatever the packet socket does not take. Whether Ethernet frames come through to
 * a peer is the engine's affair (quick.c).
 *
 * Looking. The ring costs a look at memory, UDP a system call as long as a tenth of a message's way. So as long as
 * the ring gives, only it is looked at, until the engine says that it is time (once a microsecond, which is heeded
 * less while the ring gives all, and has for long; and always while long messages are under way); and when UDP has
 * given something last, both.
 *
 * Every frame of our type is shown to every packet socket of the host, 30 ns each; so of many processes here only the
 * first have one.
 */
#include "base/base.h"
#include "base/log.h"
#include "net/bulk.h"
#include "net/call.h"
#include "net/quick.h"
#include "net/ring.h"
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define RX_BYTES (1u << 20)
#define SHORT	 512 /* bytes of a frame that is copied behind its head, so that the call takes one piece */
#define STREAK	 64  /* looks that found something in the ring, after which ... */
#define SELDOM	 8   /* ... one look at UDP in so many that are due is made */
#define REFUSED	 256 /* frames that are UDP's after one that was refused for good */

struct both {
	void *udp;
	int fd;
	uint8_t mac[6], port[2];
	char name[IF_NAMESIZE];
	struct sn_ring ring;
	bool wide, warm; /* warm: the ring gave what came last */
	unsigned streak; /* looks at which the ring gave something, and UDP nothing since */
	unsigned passed; /* looks at UDP that were due meanwhile */
	unsigned dry;	 /* and since the ring gave something last */
	unsigned refused;
	uint64_t sent, came, errors, overruns;
};

/* ---- open ---- */

/*
 * How many packet sockets of this network namespace take frames of our type, of all or of those that are older than
 * this one, as they are listed.
 */
static unsigned listeners(ino_t own)
{
	char line[256];
	unsigned n = 0, type;
	unsigned long inode;
	FILE *f = fopen("/proc/net/packet", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*s %*s %x %*s %*s %*s %*s %lu", &type, &inode) != 2)
			continue;
		if (own && inode == own)
			break;
		n += type == SN_ETHERTYPE;
	}
	if (f)
		fclose(f);
	return n;
}

static int crowded(ino_t own)
{
	if (listeners(own) < SN_QUICK_CROWD)
		return 0;
	return sn_fail(SN_ERR_UNSUPPORTED,
		       "%u processes of this host have Ethernet sockets, and each is shown every frame",
		       SN_QUICK_CROWD);
}

/*
 * Counted beforehand, as to open and close one in vain takes tens of ms; and when it is bound, as of those that open
 * at once all are found to be too many: the oldest of them stay.
 */
static int open_ring(struct both *b, const struct sn_iface *iface)
{
	struct stat s = {0};

	memcpy(b->mac, iface->mac, sizeof(b->mac));
	memcpy(b->name, iface->name, sizeof(b->name));
	sn_random(b->port, sizeof(b->port));
	int rc = crowded(0);
	if (!rc)
		rc = b->fd = sn_packet_socket(b->port, false);
	if (rc >= 0)
		rc = sn_ring_open(&b->ring, b->fd, SN_QUICK_MOST, RX_BYTES);
	if (!rc)
		rc = sn_packet_bind(b->fd, iface, SN_ETHERTYPE);
	if (!rc)
		rc = fstat(b->fd, &s) == 0 ? crowded(s.st_ino) : 0;
	return rc;
}

static void both_close(void *drv)
{
	struct both *b = drv;

	if (b->udp)
		sn_net_udp.close(b->udp);
	sn_ring_close(&b->ring);
	if (b->fd >= 0)
		close(b->fd);
	free(b);
}

static void both_in_child(void *drv)
{
	const struct both *b = drv;

	sn_net_udp.in_child(b->udp);
	close(b->fd);
}

static int both_open(const char *where, void **drv, struct sn_addr_part *part)
{
	struct sn_iface iface;
	int rc = sn_iface_choose(where, false, &iface);

	if (rc)
		return rc;
	if (!iface.has_mac || iface.mtu < 1280)
		return sn_fail(SN_ERR_UNSUPPORTED, "%s carries no Ethernet frames", iface.name);
	struct both *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return sn_fail(SN_ERR_NOMEM, "no memory for a packet socket");
	b->fd = -1;
	rc = open_ring(b, &iface);
	if (!rc)
		rc = sn_net_udp.open(where, &b->udp, part);
	if (rc) {
		both_close(b);
		return rc;
	}
	*drv = b;
	return 0;
}

static bool both_resolve(void *drv, const struct sn_addr_part *part, struct sn_net_path *path)
{
	return sn_net_udp.resolve(((struct both *)drv)->udp, part, path);
}

static bool both_quick_part(void *drv, struct sn_addr_part *part)
{
	const struct both *b = drv;

	*part = (struct sn_addr_part){0};
	sn_packet_part(part, SN_ADDR_QUICK, b->mac, b->port);
	return true;
}

/* One that is ours no longer leads a switch astray: what is for whoever has it now, by UDP too, would come here. */
static bool has_mac(const struct both *b)
{
	struct ifreq r = {0};

	memcpy(r.ifr_name, b->name, sizeof(b->name));
	return ioctl(b->fd, SIOCGIFHWADDR, &r) < 0 ||
	       memcmp(r.ifr_hwaddr.sa_data, b->mac, sizeof(b->mac)) == 0;
}

static bool both_quick_path(void *drv, const struct sn_addr_part *part, struct sn_net_path *path)
{
	return has_mac(drv) && part->type == SN_ADDR_QUICK && part->len == SN_ETHER_PART &&
	       sn_packet_head(((struct both *)drv)->mac, part->bytes, path->quick);
}

static unsigned both_prefix(void *drv)
{
	return sn_net_udp.prefix(((struct both *)drv)->udp);
}

static uint32_t both_mtu(void *drv)
{
	return sn_net_udp.mtu(((struct both *)drv)->udp);
}

static uint64_t both_room(void *drv)
{
	return sn_net_udp.room(((struct both *)drv)->udp);
}

static int both_trouble(void *drv)
{
	return sn_net_udp.trouble(((struct both *)drv)->udp);
}

static unsigned both_fds(void *drv, int fd[SN_NET_FDS])
{
	const struct both *b = drv;
	unsigned n = sn_net_udp.fds(b->udp, fd);

	fd[n] = b->fd;
	return n + 1;
}

/* ---- out ---- */

static ssize_t send_pieces(int fd, const struct sn_net_out *f)
{
	struct iovec iov[1 + 1 + SN_NET_PIECES];
	const struct msghdr m = {.msg_iov = iov, .msg_iovlen = 1 + f->iov_count};

	iov[0] = (struct iovec){(void *)(uintptr_t)f->to->quick, SN_ETHER_HEAD};
	memcpy(iov + 1, f->iov, f->iov_count * sizeof(*iov));
	return sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* False: UDP has to take it. */
static bool send_quick(struct both *b, const struct sn_net_out *f)
{
	uint8_t bytes[SN_ETHER_HEAD + SHORT];
	ssize_t rc;

	if (b->refused) {
		b->refused--;
		return false;
	}
	if (f->len <= SHORT && f->iov_count == 1) {
		memcpy(bytes, f->to->quick, SN_ETHER_HEAD);
		memcpy(bytes + SN_ETHER_HEAD, f->iov[0].iov_base, f->len);
		rc = sn_net_call_send(b->fd, bytes, SN_ETHER_HEAD + f->len);
	} else {
		rc = send_pieces(b->fd, f);
	}
	b->sent += rc >= 0;
	if (sn_likely(rc >= 0))
		return true;
	b->errors++;
	if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
		b->refused = REFUSED;
	return false;
}

static unsigned both_send(void *drv, const struct sn_net_out *frames, unsigned count)
{
	struct both *b = drv;
	unsigned done = 0;

	for (; done < count && frames[done].quick; done++)
		if (!send_quick(b, &frames[done]) && frames[done].quick == SN_QUICK_MAY)
			break;
	return done == count ? count : done + sn_net_udp.send(b->udp, frames + done, count - done);
}

/* ---- in ---- */

static void both_wide(void *drv, bool must)
{
	struct both *b = drv;

	b->dry++;
	b->wide = must || b->streak < STREAK || b->dry > SELDOM || ++b->passed % SELDOM == 0;
}

static bool both_glance(void *drv)
{
	const struct both *b = drv;

	return sn_ring_glance(&b->ring) || (!b->warm && sn_net_udp.glance(b->udp));
}

static unsigned both_receive(void *drv, struct sn_net_in *frames, unsigned max,
			     const struct sn_net_place *place)
{
	struct both *b = drv;
	unsigned n = sn_ring_receive(&b->ring, frames, max);
	bool all = b->wide || place || (!b->warm && n == 0);

	b->came += n;
	b->warm |= n > 0;
	b->streak += n > 0;
	b->wide = false;
	if (n)
		b->dry = 0;
	if (!all || n == max)
		return n;
	unsigned more = sn_net_udp.receive(b->udp, frames + n, max - n, place);
	if (more) {
		b->streak = 0;
		b->warm = n > 0;
	}
	return n + more;
}

static void both_counters(void *drv, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	struct both *b = drv;

	sn_net_udp.counters(b->udp, fn, arg);
	b->overruns += sn_packet_overruns(b->fd);
	fn(arg, "net.quick_sent", b->sent);
	fn(arg, "net.quick_came", b->came);
	fn(arg, "net.quick_send_errors", b->errors);
	fn(arg, "net.quick_overruns", b->overruns);
	fn(arg, "net.quick_odd_frames", b->ring.odd);
}

const struct sn_net_driver sn_net_both = {
	.name = "udp",
	.together = 2048,
	.open = both_open,
	.close = both_close,
	.resolve = both_resolve,
	.prefix = both_prefix,
	.mtu = both_mtu,
	.room = both_room,
	.send = both_send,
	.receive = both_receive,
	.glance = both_glance,
	.wide = both_wide,
	.quick_part = both_quick_part,
	.quick_path = both_quick_path,
	.fds = both_fds,
	.trouble = both_trouble,
	.in_child = both_in_child,
	.counters = both_counters,
};
