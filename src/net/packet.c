/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames straight over Ethernet: an AF_PACKET socket with a ring that the kernel fills (TPACKET_V2), for the shortest
 * way in there is without a driver of our own. The bodies of rendezvous come in by another socket, by which
 * everything leaves but what is long or joined, which has one of its own (bulk.c). All need CAP_NET_RAW in the
 * network namespace.
 *
 * A frame is: destination and source MAC, ethertype 0x88B6, the receiver's 2-byte endpoint port, then the protocol
 * frame; bodies have a type of their own, and another head. The kernel filters by port, so a process sees only what
 * is meant for it (or for a namesake: 1 in 65,536). What a peer's kernel sends for ours, which has asked for it (DATA
 * with the top bit in its number), is the module's.
 *
 * Budget: receiving looks at one word of shared memory and makes no system call; frames are read where the kernel put
 * them. Sending costs one system call for a batch. While a body is expected a look costs one call.
 */
#include "base/base.h"
#include "base/log.h"
#include "net/bulk.h"
#include "net/kpull.h"
#include "net/ring.h"
#include "net/wire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define RX_BYTES (4u << 20)

struct packet {
	int fd;
	uint32_t mtu;
	uint8_t mac[6];
	uint8_t port[2];
	struct sn_ring rx;
	struct sn_bulk *bulk;
	struct sn_kpull *kernel;
	uint64_t overruns;
	int trouble;
};

/* ---- what others need, too ---- */

/* Only frames with our port. The socket is bound to the ethertype, so that is already decided. */
static int set_filter(int fd, const uint8_t port[2], bool body)
{
	const uint32_t own = (uint32_t)port[0] << 8 | port[1],
		       at = body ? SN_ETHER_BODY - sizeof(struct udphdr) + offsetof(struct udphdr, dest)
				 : SN_ETHER_HEAD - 2,
		       type = SN_ETHER_HEAD + offsetof(struct sn_wire_head, type),
		       number = SN_ETHER_HEAD + offsetof(struct sn_wire_data, pull);
	struct sock_filter code[] =
		{
			{BPF_LD | BPF_H | BPF_ABS, 0, 0, at},
			{BPF_JMP | BPF_JEQ | BPF_K, 0, 5, own},
			{BPF_LD | BPF_B | BPF_ABS, 0, 0, type},
			{BPF_JMP | BPF_JEQ | BPF_K, 0, 2, SN_WIRE_DATA},
			{BPF_LD | BPF_B | BPF_ABS, 0, 0, number + 3}, /* little endian: its top bit */
			{BPF_JMP | BPF_JSET | BPF_K, 1, 0, SN_WIRE_PULL_KERNEL >> 24},
			{BPF_RET | BPF_K, 0, 0, UINT32_MAX},
			{BPF_RET | BPF_K, 0, 0, 0},
		},
			   of_bodies[] = {
				   code[0],
				   {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, own},
				   {BPF_RET | BPF_K, 0, 0, UINT32_MAX},
				   {BPF_RET | BPF_K, 0, 0, 0},
			   };
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	if (body)
		prog = (struct sock_fprog){sizeof(of_bodies) / sizeof(of_bodies[0]), of_bodies};
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0)
		return sn_fail(SN_ERR_PERM, "packet filter: %s", strerror(errno));
	return 0;
}

int sn_packet_socket(const uint8_t port[2], bool body)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return sn_fail(SN_ERR_PERM, "a packet socket needs CAP_NET_RAW in this network namespace: %s",
			       strerror(errno));
	int rc = set_filter(fd, port, body);
	if (rc)
		close(fd);
	return rc ? rc : fd;
}

int sn_packet_bind(int fd, const struct sn_iface *iface, int type)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET,
				 .sll_protocol = htons((uint16_t)type),
				 .sll_ifindex = (int)iface->index};

	if (bind(fd, (struct sockaddr *)&ll, sizeof(ll)) < 0)
		return sn_fail(SN_ERR_PERM, "bind a packet socket to %s: %s", iface->name, strerror(errno));
	return 0;
}

void sn_packet_part(struct sn_addr_part *part, uint8_t type, const uint8_t mac[6], const uint8_t port[2])
{
	part->type = type;
	part->len = SN_ETHER_PART;
	memcpy(part->bytes, mac, 6);
	memcpy(part->bytes + 6, port, 2);
}

bool sn_packet_head(const uint8_t mac[6], const uint8_t to[SN_ETHER_PART], uint8_t head[SN_ETHER_HEAD])
{
	uint16_t type = htons(SN_ETHERTYPE);

	if ((to[0] & 1) || memcmp(to, mac, 6) == 0) /* a card does not hear itself */
		return false;
	memcpy(head, to, 6);
	memcpy(head + 6, mac, 6);
	memcpy(head + 12, &type, 2);
	memcpy(head + 14, to + 6, 2);
	return true;
}

uint64_t sn_packet_overruns(int fd)
{
	struct tpacket_stats s = {0};
	socklen_t len = sizeof(s);

	getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &s, &len);
	return s.tp_drops;
}

/* ---- open ---- */

static int set_up(struct packet *p, const struct sn_iface *iface)
{
	int rc = p->fd = sn_packet_socket(p->port, false);

	if (rc >= 0)
		rc = sn_ring_open(&p->rx, p->fd, p->mtu, RX_BYTES);
	if (!rc)
		rc = sn_bulk_open(iface, p->port, &p->bulk);
	return rc ? rc : sn_packet_bind(p->fd, iface, SN_ETHERTYPE);
}

static void packet_close(void *drv)
{
	struct packet *p = drv;

	if (p->kernel)
		sn_kpull_close(p->kernel);
	if (p->bulk)
		sn_bulk_close(p->bulk);
	sn_ring_close(&p->rx);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

/* The rings are not mapped there, nor is the kernel's. */
static void packet_in_child(void *drv)
{
	struct packet *p = drv;

	close(p->fd);
	sn_bulk_in_child(p->bulk);
	if (p->kernel)
		sn_kpull_in_child(p->kernel);
}

static struct sn_kpull *packet_kernel(void *drv)
{
	return ((struct packet *)drv)->kernel;
}

static int packet_open(const char *where, void **drv, struct sn_addr_part *part)
{
	struct sn_iface iface;
	int rc = sn_iface_choose(where, true, &iface);

	if (rc)
		return rc;
	if (iface.mtu < 1280)
		return sn_fail(SN_ERR_UNSUPPORTED, "interface %s has an MTU of %u: too short", iface.name,
			       iface.mtu);
	struct packet *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return sn_fail(SN_ERR_NOMEM, "no memory for a packet socket");
	memcpy(p->mac, iface.mac, 6);
	sn_random(p->port, sizeof(p->port));
	p->mtu = SN_MIN_OF(iface.mtu, 65535u) - (SN_ETHER_BODY - 14);
	rc = set_up(p, &iface);
	if (rc) {
		packet_close(p);
		return rc;
	}
	p->kernel = sn_kpull_open(iface.index, p->port, p->mtu); /* without it nothing is missing */
	sn_packet_part(part, SN_ADDR_ETHER, p->mac, p->port);
	*drv = p;
	return 0;
}

/* A path is the Ethernet header as it will stand before the frame. */
static bool packet_resolve(void *drv, const struct sn_addr_part *part, struct sn_net_path *path)
{
	const struct packet *p = drv;

	return part->type == SN_ADDR_ETHER && part->len == SN_ETHER_PART &&
	       sn_packet_head(p->mac, part->bytes, path->bytes);
}

static uint32_t packet_mtu(void *drv)
{
	return ((struct packet *)drv)->mtu;
}

static uint64_t packet_room(void *drv)
{
	const struct packet *p = drv;

	return SN_MIN_OF((uint64_t)p->rx.count * p->mtu * 3 / 4, sn_bulk_room(p->bulk));
}

static unsigned packet_fds(void *drv, int fd[SN_NET_FDS])
{
	const struct packet *p = drv;

	fd[0] = p->fd;
	fd[1] = sn_bulk_fd(p->bulk);
	if (p->kernel)
		fd[2] = sn_kpull_fd(p->kernel);
	return p->kernel ? 3 : 2;
}

/* ---- out ---- */

static unsigned packet_send(void *drv, const struct sn_net_out *frames, unsigned count)
{
	struct packet *p = drv;

	p->trouble = 0;
	return sn_bulk_send(p->bulk, frames, count, &p->trouble);
}

/* ---- in ---- */

static unsigned packet_receive(void *drv, struct sn_net_in *frames, unsigned max,
			       const struct sn_net_place *place)
{
	struct packet *p = drv;
	unsigned n = sn_ring_receive(&p->rx, frames, max); /* short messages first */

	return n == max ? n : n + sn_bulk_receive(p->bulk, frames + n, max - n, place);
}

static int packet_trouble(void *drv)
{
	return ((struct packet *)drv)->trouble;
}

static void packet_counters(void *drv, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	struct packet *p = drv;

	p->overruns += sn_packet_overruns(p->fd);
	fn(arg, "net.ether_odd_frames", p->rx.odd);
	fn(arg, "net.ether_ring_overruns", p->overruns);
	sn_bulk_counters(p->bulk, fn, arg);
}

const struct sn_net_driver sn_net_packet = {
	.name = "ether",
	.together = 2048,
	.joins = true,
	.open = packet_open,
	.close = packet_close,
	.resolve = packet_resolve,
	.mtu = packet_mtu,
	.room = packet_room,
	.send = packet_send,
	.receive = packet_receive,
	.fds = packet_fds,
	.trouble = packet_trouble,
	.kernel = packet_kernel,
	.in_child = packet_in_child,
	.counters = packet_counters,
};
