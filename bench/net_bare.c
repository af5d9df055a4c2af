/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's own limit between two hosts: ping-pong and stream with the very calls that sennit's drivers make, and
 * nothing above them: no matching, no authentication, no acknowledgement, no loss. One copy out, one copy in.
 *
 *   net_bare udp|ether|plain|joined|xdp 0|1 SIZE          0 starts, once 1 listens, and prints "SIZE us-one-way" (the median);
 *   net_bare udp|ether|plain|joined|xdp 0|1 SIZE stream   "SIZE MB/s"; 10.77.0.1 and .2 on eth0
 *   net_bare udp|ether|plain|joined|xdp 0|1 SIZE wake     "SIZE us": there and back, 5 ms after the last time, and 1 sleeps in poll()
 *
 * udp: both ends connected; what fits into a datagram by send and recv, else UDP_SEGMENT, UDP_GRO, headers and
 * payload scattered by one recvmsg. ether: AF_PACKET, what fits into a frame out by send, more by sendmmsg, in by a
 * ring, TPACKET_V2. plain: without the ring, recvmmsg, headers and payload scattered, and what is longer than a page
 * out by a socket that says that it is to lie in one stretch. joined: likewise, many frames behind one head that
 * looks like IP's, for the kernel to cut up, as src/net/bulk.c does. xdp: AF_XDP, which sennit does not use
 * (docs/experiments.md).
 *
 * A stream has at most four UNITs under way: the other end says when it has one.
 */
#include "net_bare.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECONDS	   0.15
#define MOST	   20000
#define WAKES	   75
#define ASLEEP	   5000 /* us */
#define UNIT	   (256u << 10)
#define WHOLE	   15872 /* bytes of a frame that are to lie in one stretch */
#define GSO_UDP_L4 5	 /* VIRTIO_NET_HDR_GSO_UDP_L4, since Linux 6.2 */
#define WINDOW	   8	 /* messages that have buffers of their own where a stream arrives */

int bare_fd;
unsigned bare_mtu, bare_frag;
uint8_t *bare_buf, bare_heads[64 * 1024], bare_front[FRONT];
static int self;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void bare_die(const char *what)
{
	perror(what);
	exit(1);
}

struct ifreq bare_eth0(unsigned long what)
{
	struct ifreq r = {0};
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	strcpy(r.ifr_name, "eth0");
	if (s < 0 || ioctl(s, what, &r) < 0)
		bare_die("eth0");
	close(s);
	return r;
}

/* ---- udp ---- */

static void udp_open(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7777)};
	int one = 1, size = BUFFER, probe = IP_PMTUDISC_PROBE;
	char text[32];

	bare_fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	snprintf(text, sizeof(text), "10.77.0.%d", self + 1);
	inet_pton(AF_INET, text, &a.sin_addr);
	if (bare_fd < 0 || bind(bare_fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		bare_die("bind");
	snprintf(text, sizeof(text), "10.77.0.%d", 2 - self);
	inet_pton(AF_INET, text, &a.sin_addr);
	if (connect(bare_fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		bare_die("connect");
	setsockopt(bare_fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(bare_fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	setsockopt(bare_fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	setsockopt(bare_fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe));
	bare_frag = bare_mtu - 28 - HEAD;
}

/* Header and payload in turn, from `at` on: a train of at most 64 frames and 64 KiB. Returns its payload. */
static size_t train(struct iovec *iov, size_t *count, size_t at, size_t end)
{
	size_t bytes = 0, n = 0;

	while (n < 64 && at + bytes < end && (n + 1) * (HEAD + bare_frag) <= 65000) {
		size_t len = end - at - bytes < bare_frag ? end - at - bytes : bare_frag;
		iov[2 * n] = (struct iovec){bare_heads + n * HEAD, HEAD};
		iov[2 * n + 1] = (struct iovec){bare_buf + at + bytes, len};
		bytes += len;
		n++;
	}
	*count = 2 * n;
	return bytes;
}

/* The quickest calls there are, for what fits into one datagram: the head and the payload lie side by side. */
static void udp_send_one(size_t at, size_t size)
{
	memcpy(bare_heads + HEAD, bare_buf + at, size);
	while (send(bare_fd, bare_heads, HEAD + size, 0) < 0)
		if (errno != EAGAIN && errno != ECONNREFUSED)
			bare_die("send");
}

static void udp_receive_one(size_t at, size_t size)
{
	while (recv(bare_fd, bare_heads, sizeof(bare_heads), 0) < 0)
		;
	memcpy(bare_buf + at, bare_heads + HEAD, size);
}

static void udp_send(size_t at, size_t size)
{
	struct iovec iov[128];
	union {
		struct cmsghdr align;
		uint8_t room[CMSG_SPACE(sizeof(uint16_t))];
	} control;

	if (size <= bare_frag) {
		udp_send_one(at, size);
		return;
	}
	for (size_t end = at + size; at < end;) {
		struct msghdr m = {.msg_iov = iov};
		size_t bytes = train(iov, &m.msg_iovlen, at, end);
		if (m.msg_iovlen > 2) {
			uint16_t segment = (uint16_t)(HEAD + bare_frag);
			m.msg_control = &control;
			m.msg_controllen = sizeof(control);
			struct cmsghdr *c = CMSG_FIRSTHDR(&m);
			c->cmsg_level = IPPROTO_UDP;
			c->cmsg_type = UDP_SEGMENT;
			c->cmsg_len = CMSG_LEN(sizeof(segment));
			memcpy(CMSG_DATA(c), &segment, sizeof(segment));
		}
		if (sendmsg(bare_fd, &m, 0) >= 0)
			at += bytes;
		else if (errno != EAGAIN && errno != ECONNREFUSED)
			bare_die("sendmsg");
	}
}

static void udp_receive(size_t at, size_t size)
{
	struct iovec iov[128];

	if (size <= bare_frag) {
		udp_receive_one(at, size);
		return;
	}
	for (size_t end = at + size; at < end;) {
		struct msghdr m = {.msg_iov = iov};
		train(iov, &m.msg_iovlen, at, end);
		ssize_t n = recvmsg(bare_fd, &m, 0);
		if (n < 0)
			continue;
		size_t frames = ((size_t)n + HEAD + bare_frag - 1) / (HEAD + bare_frag);
		at += (size_t)n - frames * HEAD;
	}
}

/* ---- ether ---- */

static struct {
	uint8_t *base;
	unsigned slot, per_block, count, at;
} ring;

static struct tpacket2_hdr *slot_of(unsigned i)
{
	return (void *)(ring.base + (size_t)(i / ring.per_block) * 65536 +
			(size_t)(i % ring.per_block) * ring.slot);
}

void bare_front_fill(void)
{
	struct ifreq mac = bare_eth0(SIOCGIFHWADDR);

	bare_frag = bare_mtu - 2 - HEAD;
	memset(bare_front, 0xff, 6); /* there are two on the wire */
	memcpy(bare_front + 6, mac.ifr_hwaddr.sa_data, 6);
	bare_front[12] = ETHERTYPE >> 8;
	bare_front[13] = ETHERTYPE & 0xff;
}

static void packet_open(void)
{
	bare_fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
	if (bare_fd < 0)
		bare_die("packet socket");
	bare_front_fill();
}

static void packet_bind(int fd, int type)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)type)};

	ll.sll_ifindex = (int)if_nametoindex("eth0");
	if (bind(fd, (struct sockaddr *)&ll, sizeof(ll)) < 0)
		bare_die("bind");
}

static int whole_fd;

static void whole_open(void)
{
	int size = BUFFER, one = 1;

	whole_fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
	if (whole_fd < 0 || setsockopt(whole_fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) < 0)
		bare_die("PACKET_VNET_HDR");
	setsockopt(whole_fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	packet_bind(whole_fd, 0);
}

static void ether_open(void)
{
	int version = TPACKET_V2;

	packet_open();
	ring.slot = TPACKET_ALIGN(TPACKET_ALIGN(TPACKET2_HDRLEN + 16) + 16 + bare_mtu + 32);
	ring.per_block = 65536 / ring.slot;
	unsigned blocks = BUFFER / 65536;
	ring.count = blocks * ring.per_block;
	struct tpacket_req q = {65536, blocks, ring.slot, ring.count};
	if (setsockopt(bare_fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(bare_fd, SOL_PACKET, PACKET_RX_RING, &q, sizeof(q)) < 0)
		bare_die("packet ring");
	packet_bind(bare_fd, ETHERTYPE);
	whole_open();
	ring.base = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_SHARED, bare_fd, 0);
	if (ring.base == MAP_FAILED)
		bare_die("mmap");
}

static void ether_receive(size_t at, size_t size)
{
	for (size_t end = at + size; at < end;) {
		struct tpacket2_hdr *h = slot_of(ring.at);
		if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			continue;
		const uint8_t *from = (const uint8_t *)h + h->tp_mac + FRONT;
		size_t len = end - at < bare_frag ? end - at : bare_frag; /* short ones are padded */
		memcpy(bare_heads, from, HEAD);
		memcpy(bare_buf + at, from + HEAD, len);
		at += len;
		__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		ring.at = (ring.at + 1) % ring.count;
	}
}

/* ---- plain ---- */

static void plain_open(void)
{
	int size = BUFFER;

	packet_open();
	setsockopt(bare_fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(bare_fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	packet_bind(bare_fd, ETHERTYPE);
	whole_open();
}

/* As many frames as a call takes, from `at` on: Ethernet header, header and payload in turn. Returns how many. */
static unsigned burst(struct mmsghdr *m, struct iovec (*iov)[3], size_t at, size_t end)
{
	unsigned n = 0;

	for (; n < 64 && at < end; n++) {
		size_t len = end - at < bare_frag ? end - at : bare_frag;
		iov[n][0] = (struct iovec){bare_front, FRONT};
		iov[n][1] = (struct iovec){bare_heads + n * HEAD, HEAD};
		iov[n][2] = (struct iovec){bare_buf + at, len};
		m[n].msg_hdr = (struct msghdr){.msg_iov = iov[n], .msg_iovlen = 3};
		at += len;
	}
	return n;
}

static void plain_move(size_t at, size_t size, int (*call)(struct mmsghdr *, unsigned))
{
	struct mmsghdr m[64];
	struct iovec iov[64][3];

	for (size_t end = at + size; at < end;) {
		int n = call(m, burst(m, iov, at, end));
		for (int i = 0; i < n; i++)
			at += iov[i][2].iov_len;
	}
}

/* Each with what the kernel wants to know of it in front: as bulk.c */
static int out_whole(struct mmsghdr *m, unsigned count)
{
	static struct {
		struct virtio_net_hdr about;
		uint8_t front[FRONT];
	} head[64];

	for (unsigned i = 0; i < count; i++) {
		struct iovec *iov = m[i].msg_hdr.msg_iov;
		size_t len = FRONT + HEAD + iov[2].iov_len;
		head[i].about.hdr_len = (uint16_t)(len < WHOLE ? len : WHOLE);
		memcpy(head[i].front, bare_front, FRONT);
		iov[0] = (struct iovec){&head[i], sizeof(head[i])};
	}
	return sendmmsg(whole_fd, m, count, 0);
}

static int out(struct mmsghdr *m, unsigned count)
{
	return bare_mtu > 4096 ? out_whole(m, count) : sendmmsg(bare_fd, m, count, 0);
}

static int in(struct mmsghdr *m, unsigned count)
{
	return recvmmsg(bare_fd, m, count < 16 ? count : 16, 0, NULL); /* as bulk.c */
}

static void plain_send(size_t at, size_t size)
{
	plain_move(at, size, out);
}

static void plain_receive(size_t at, size_t size)
{
	plain_move(at, size, in);
}

static void ether_send(size_t at, size_t size)
{
	static uint8_t frame[FRONT + 65536];

	if (size > bare_frag) {
		plain_send(at, size);
		return;
	}
	memcpy(frame, bare_front, FRONT);
	memcpy(frame + FRONT, bare_heads, HEAD);
	memcpy(frame + FRONT + HEAD, bare_buf + at, size);
	send(bare_fd, frame, FRONT + HEAD + size, MSG_DONTWAIT);
}

/* ---- joined ---- */

struct __attribute__((packed)) joined { /* what stands before a train of frames */
	struct virtio_net_hdr about;
	uint8_t ether[14];
	struct iphdr ip;
	struct udphdr udp;
};

#define JOINED_HEAD (sizeof(struct joined) - sizeof(struct virtio_net_hdr))

static struct sockaddr_ll joined_to; /* says that it is IP */

static void joined_open(void)
{
	int size = BUFFER;

	packet_open();
	bare_frag = bare_mtu - (JOINED_HEAD - 14) - HEAD;
	setsockopt(bare_fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	packet_bind(bare_fd, ETHERTYPE);
	whole_open();
	joined_to = (struct sockaddr_ll){
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_halen = ETH_ALEN};
	joined_to.sll_ifindex = (int)if_nametoindex("eth0");
}

static struct joined joined_head(size_t frames, size_t bytes)
{
	struct joined h = {.ip = {.version = 4,
				  .ihl = 5,
				  .ttl = 1,
				  .protocol = IPPROTO_UDP,
				  .tot_len = htons((uint16_t)(28 + bytes))},
			   .udp = {.len = htons((uint16_t)(8 + bytes))}};

	memcpy(h.ether, bare_front, sizeof(h.ether));
	h.about.hdr_len = (uint16_t)(frames > 1			   ? JOINED_HEAD
				     : JOINED_HEAD + bytes < WHOLE ? JOINED_HEAD + bytes
								   : WHOLE);
	if (frames > 1) {
		h.about.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		h.about.gso_type = GSO_UDP_L4;
		h.about.gso_size = (uint16_t)(HEAD + bare_frag);
		h.about.csum_start = offsetof(struct joined, udp) - offsetof(struct joined, ether);
		h.about.csum_offset = offsetof(struct udphdr, check);
	}
	return h;
}

static void joined_send(size_t at, size_t size)
{
	struct iovec iov[1 + 128];

	for (size_t end = at + size; at < end;) {
		struct msghdr m = {.msg_iov = iov};
		size_t pieces, bytes = train(iov + 1, &pieces, at, end);
		struct joined head = joined_head(pieces / 2, bytes + pieces / 2 * HEAD);
		iov[0] = (struct iovec){&head, sizeof(head)};
		m.msg_iovlen = 1 + pieces;
		if (pieces > 2) {
			m.msg_name = &joined_to;
			m.msg_namelen = sizeof(joined_to);
		}
		if (sendmsg(whole_fd, &m, 0) >= 0)
			at += bytes;
		else if (errno != EAGAIN && errno != ENOBUFS)
			bare_die("sendmsg");
	}
}

static void joined_receive(size_t at, size_t size)
{
	struct iovec iov[1 + 128];
	uint8_t head[JOINED_HEAD];

	iov[0] = (struct iovec){head, sizeof(head)};
	for (size_t end = at + size; at < end;) {
		struct msghdr m = {.msg_iov = iov};
		train(iov + 1, &m.msg_iovlen, at, end);
		m.msg_iovlen++;
		ssize_t n = recvmsg(bare_fd, &m, 0);
		if (n < 0)
			continue;
		size_t bytes = (size_t)n - JOINED_HEAD;
		at += bytes - (bytes + HEAD + bare_frag - 1) / (HEAD + bare_frag) * HEAD;
	}
}

/* ---- all ---- */

static const struct way {
	const char *name;
	void (*open)(void), (*send)(size_t at, size_t size), (*receive)(size_t at, size_t size);
} ways[] = {
	{"udp", udp_open, udp_send, udp_receive},
	{"ether", ether_open, ether_send, ether_receive},
	{"plain", plain_open, plain_send, plain_receive},
	{"joined", joined_open, joined_send, joined_receive},
	{"xdp", xdp_open, xdp_send, xdp_receive},
};
static const struct way *way;

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double round_trip(size_t size)
{
	double start = now();

	way->send(0, size);
	way->receive(0, size);
	return now() - start;
}

static void pingpong(size_t size)
{
	static double t[MOST];
	int rounds = 0;

	for (int i = 0; i < 10; i++)
		round_trip(size);
	for (double end = now() + SECONDS; rounds < 5 || (rounds < MOST && now() < end); rounds++)
		t[rounds] = round_trip(size);
	qsort(t, (size_t)rounds, sizeof(t[0]), by_value);
	printf("%zu %.3f\n", size, t[rounds / 2] / 2 * 1e6);
	fflush(stdout);
}

static void wake(size_t size)
{
	double t[WAKES];

	for (int i = 0; i < WAKES; i++) {
		usleep(ASLEEP);
		t[i] = round_trip(size);
	}
	qsort(t, WAKES, sizeof(t[0]), by_value);
	printf("%zu %.3f\n", size, t[WAKES / 2] * 1e6);
	fflush(stdout);
}

static void answer(size_t size, bool sleeps)
{
	struct pollfd p = {.fd = bare_fd, .events = POLLIN};

	for (;;) {
		if (sleeps)
			poll(&p, 1, -1);
		way->receive(0, size);
		way->send(0, size);
	}
}

/* What is sent before something is said: some messages, or a part of one. */
static size_t part_of(size_t size, unsigned *parts)
{
	size_t part = size < UNIT ? size : UNIT;

	*parts = (unsigned)(UNIT / part);
	return part;
}

static void stream(size_t size)
{
	unsigned parts;
	size_t part = part_of(size, &parts), at = 0, units = 0, before = 0;
	double start = now() + SECONDS / 2; /* what is sent before that does not count, as with net_mpi */

	for (double t; (t = now()) < start + SECONDS; units++) {
		if (t < start)
			before = units + 1;
		for (unsigned i = 0; i < parts; i++, at = (at + part) % size)
			way->send(at, part);
		if (units >= 3)
			way->receive(0, 8);
	}
	for (int i = 0; i < 3; i++)
		way->receive(0, 8);
	printf("%zu %.1f\n", size, (double)((units - before) * parts * part) / (now() - start) / 1e6);
	fflush(stdout);
}

static void take(size_t size)
{
	unsigned parts;
	size_t part = part_of(size, &parts), at = 0, room = size * WINDOW < MESSAGE ? size * WINDOW : size;

	for (;;) {
		for (unsigned i = 0; i < parts; i++, at = (at + part) % room)
			way->receive(at, part);
		way->send(0, 8);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	bool streams = argc > 4 && strcmp(argv[4], "stream") == 0,
	     sleeps = argc > 4 && strcmp(argv[4], "wake") == 0;
	size_t size = strtoul(argv[3], NULL, 10);
	self = atoi(argv[2]);
	bare_mtu = (unsigned)bare_eth0(SIOCGIFMTU).ifr_mtu;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(argv[1], ways[i].name) == 0)
			way = &ways[i];
	if (way == NULL || size == 0 || size > MESSAGE || (streams && size > UNIT && size % UNIT))
		return 2;
	bare_buf = malloc(MESSAGE);
	memset(bare_buf, 1, MESSAGE);
	way->open();
	if (self == 0) {
		(streams ? stream : sleeps ? wake : pingpong)(size);
		return 0;
	}
	puts("listening"); /* it ends when it is killed */
	fflush(stdout);
	if (streams)
		take(size);
	answer(size, sleeps);
}
