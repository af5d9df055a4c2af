/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames straight over Ethernet: an AF_PACKET socket with a ring that the kernel fills (TPACKET_V2), for the shortest way in
 * there is without a driver of our own. The bodies of rendezvous come in by another socket, by which everything leaves but what is long
 * or joined, which has one of its own (bulk.c). All need CAP_NET_RAW in the network namespace.
 *
 * A frame is: destination and source MAC, ethertype 0x88B6, the receiver's 2-byte endpoint port, then the protocol frame; bodies have
 * a type of their own, and another head. The kernel filters by port, so a process sees only what is meant for it (or for a namesake: 1 in
 * 65,536). What a peer's kernel sends for ours, which has asked for it (DATA with the top bit in its number), is the module's.
 *
 * Budget: receiving looks at one word of shared memory and makes no system call; frames are read where the kernel put
 * them. Sending costs one system call for a batch. While a body is expected a look costs one call.
 */
#include "base/base.h"
#include "base/log.h"
#include "net/bulk.h"
#include "net/kpull.h"
#include "net/wire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define RX_BYTES (4u << 20)

struct ring {
	uint8_t *base;
	uint32_t frame, per_block, block, count, at;
};

struct packet {
	int fd;
	uint32_t mtu;
	uint8_t mac[6];
	uint8_t port[2];
	uint8_t *map;
	size_t map_len;
	struct ring rx;
	struct sn_bulk *bulk;
	struct sn_kpull *kernel;
	uint32_t held; /* slots handed out by the last receive */
	uint64_t odd, overruns;
	int trouble;
};

static struct tpacket2_hdr *slot(const struct ring *r, uint32_t i)
{
	return (void *)(r->base + (size_t)(i / r->per_block) * r->block +
			(size_t)(i % r->per_block) * r->frame);
}

static uint32_t status(const struct tpacket2_hdr *h)
{
	return __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);
}

static void set_status(struct tpacket2_hdr *h, uint32_t to)
{
	__atomic_store_n(&h->tp_status, to, __ATOMIC_RELEASE);
}

/* ---- open ---- */

/* Slots as small as the MTU allows, in blocks of 64 KiB (or one slot, if that is more). */
static void shape(struct ring *r, uint32_t mtu, struct tpacket_req *req)
{
	uint32_t need = TPACKET_ALIGN(TPACKET2_HDRLEN + 16) + SN_ETHER_HEAD + mtu + 32;

	r->frame = TPACKET_ALIGN(need);
	r->block = 65536;
	while (r->block < r->frame)
		r->block *= 2;
	r->per_block = r->block / r->frame;
	uint32_t blocks = SN_MAX_OF(RX_BYTES / r->block, 2u);
	r->count = blocks * r->per_block;
	*req = (struct tpacket_req){.tp_block_size = r->block,
				    .tp_block_nr = blocks,
				    .tp_frame_size = r->frame,
				    .tp_frame_nr = r->count};
}

static int set_ring(struct packet *p)
{
	struct tpacket_req rx;
	int version = TPACKET_V2;

	shape(&p->rx, p->mtu, &rx);
	if (setsockopt(p->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(p->fd, SOL_PACKET, PACKET_RX_RING, &rx, sizeof(rx)) < 0)
		return sn_fail(SN_ERR_NOMEM, "a packet ring: %s", strerror(errno));
	p->map_len = (size_t)rx.tp_block_size * rx.tp_block_nr;
	p->map = mmap(NULL, p->map_len, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	if (p->map == MAP_FAILED) {
		p->map = NULL;
		return sn_fail(SN_ERR_NOMEM, "mapping a packet ring: %s", strerror(errno));
	}
	madvise(p->map, p->map_len, MADV_DONTFORK); /* a child must not keep the socket alive */
	p->rx.base = p->map;
	return 0;
}

/* ---- what bulk.c needs, too ---- */

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
		rc = set_ring(p);
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
	if (p->map)
		munmap(p->map, p->map_len);
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
	part->type = SN_ADDR_ETHER;
	part->len = 8;
	memcpy(part->bytes, p->mac, 6);
	memcpy(part->bytes + 6, p->port, 2);
	*drv = p;
	return 0;
}

/* A path is the Ethernet header as it will stand before the frame. */
static bool packet_resolve(void *drv, const struct sn_addr_part *part, struct sn_net_path *path)
{
	const struct packet *p = drv;
	uint16_t type = htons(SN_ETHERTYPE);

	if (part->type != SN_ADDR_ETHER || part->len != 8 || (part->bytes[0] & 1) ||
	    memcmp(part->bytes, p->mac, 6) == 0) /* a card does not hear itself */
		return false;
	memcpy(path->bytes, part->bytes, 6);
	memcpy(path->bytes + 6, p->mac, 6);
	memcpy(path->bytes + 12, &type, 2);
	memcpy(path->bytes + 14, part->bytes + 6, 2);
	return true;
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

static unsigned ring_receive(struct packet *p, struct sn_net_in *frames, unsigned max)
{
	struct ring *r = &p->rx;
	unsigned n = 0;

	for (; p->held > 0; p->held--) {
		set_status(slot(r, r->at), TP_STATUS_KERNEL);
		r->at = r->at + 1 == r->count ? 0 : r->at + 1;
	}
	uint32_t at = r->at;
	while (n < max && p->held < r->count) {
		struct tpacket2_hdr *h = slot(r, at);
		if (!(status(h) & TP_STATUS_USER))
			break;
		p->held++;
		at = at + 1 == r->count ? 0 : at + 1;
		if (h->tp_snaplen <= SN_ETHER_HEAD || h->tp_snaplen < h->tp_len) {
			p->odd++;
			continue;
		}
		frames[n++] = (struct sn_net_in){.data = (uint8_t *)h + h->tp_mac + SN_ETHER_HEAD,
						 .len = h->tp_snaplen - SN_ETHER_HEAD};
	}
	return n;
}

static unsigned packet_receive(void *drv, struct sn_net_in *frames, unsigned max,
			       const struct sn_net_place *place)
{
	struct packet *p = drv;
	unsigned n = ring_receive(p, frames, max); /* short messages first */

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
	fn(arg, "net.ether_odd_frames", p->odd);
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
