/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's own limit between two hosts: ping-pong with the very calls that sennit's drivers make, and nothing above
 * them: no matching, no authentication, no acknowledgement, no loss. One copy out, one copy in.
 *
 *   net_bare udp|ether|plain 0|1 SIZE    0 starts, once 1 listens, and prints "SIZE us-one-way" (the median); 10.77.0.1 and .2 on eth0
 *
 * udp: both ends connected; what fits into a datagram by send and recv, else UDP_SEGMENT, UDP_GRO, headers and payload scattered by
 * one recvmsg. ether: AF_PACKET rings, TPACKET_V2. plain: AF_PACKET
 * without rings, sendmmsg and recvmmsg, headers and payload scattered.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD	  56 /* what a frame of sennit's carries before a piece */
#define BUFFER	  (8 << 20)
#define ETHERTYPE 0x88B5
#define SECONDS	  0.15
#define MOST	  20000

static int fd, self;
static unsigned mtu, frag; /* bytes of payload in a frame */
static uint8_t *buf, heads[64 * 1024];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct ifreq eth0(unsigned long what)
{
	struct ifreq r = {0};
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	strcpy(r.ifr_name, "eth0");
	if (s < 0 || ioctl(s, what, &r) < 0)
		die("eth0");
	close(s);
	return r;
}

/* ---- udp ---- */

static void udp_open(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7777)};
	int one = 1, size = BUFFER, probe = IP_PMTUDISC_PROBE;
	char text[32];

	fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	snprintf(text, sizeof(text), "10.77.0.%d", self + 1);
	inet_pton(AF_INET, text, &a.sin_addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("bind");
	snprintf(text, sizeof(text), "10.77.0.%d", 2 - self);
	inet_pton(AF_INET, text, &a.sin_addr);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("connect");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe));
	frag = mtu - 28 - HEAD;
}

/* Header and payload in turn, from `at` on: a train of at most 64 frames and 64 KiB. Returns its payload. */
static size_t train(struct iovec *iov, size_t *count, size_t at, size_t size)
{
	size_t bytes = 0, n = 0;

	while (n < 64 && at + bytes < size && (n + 1) * (HEAD + frag) <= 65000) {
		size_t len = size - at - bytes < frag ? size - at - bytes : frag;
		iov[2 * n] = (struct iovec){heads + n * HEAD, HEAD};
		iov[2 * n + 1] = (struct iovec){buf + at + bytes, len};
		bytes += len;
		n++;
	}
	*count = 2 * n;
	return bytes;
}

/* The quickest calls there are, for what fits into one datagram: the head and the payload lie side by side. */
static void udp_send_one(size_t size)
{
	memcpy(heads + HEAD, buf, size);
	while (send(fd, heads, HEAD + size, 0) < 0)
		if (errno != EAGAIN && errno != ECONNREFUSED)
			die("send");
}

static void udp_receive_one(size_t size)
{
	while (recv(fd, heads, sizeof(heads), 0) < 0)
		;
	memcpy(buf, heads + HEAD, size);
}

static void udp_send(size_t size)
{
	struct iovec iov[128];
	union {
		struct cmsghdr align;
		uint8_t room[CMSG_SPACE(sizeof(uint16_t))];
	} control;

	if (size <= frag) {
		udp_send_one(size);
		return;
	}
	for (size_t at = 0; at < size;) {
		struct msghdr m = {.msg_iov = iov};
		size_t bytes = train(iov, &m.msg_iovlen, at, size);
		if (m.msg_iovlen > 2) {
			uint16_t segment = (uint16_t)(HEAD + frag);
			m.msg_control = &control;
			m.msg_controllen = sizeof(control);
			struct cmsghdr *c = CMSG_FIRSTHDR(&m);
			c->cmsg_level = IPPROTO_UDP;
			c->cmsg_type = UDP_SEGMENT;
			c->cmsg_len = CMSG_LEN(sizeof(segment));
			memcpy(CMSG_DATA(c), &segment, sizeof(segment));
		}
		if (sendmsg(fd, &m, 0) >= 0)
			at += bytes;
		else if (errno != EAGAIN && errno != ECONNREFUSED)
			die("sendmsg");
	}
}

static void udp_receive(size_t size)
{
	struct iovec iov[128];

	if (size <= frag) {
		udp_receive_one(size);
		return;
	}
	for (size_t at = 0; at < size;) {
		struct msghdr m = {.msg_iov = iov};
		train(iov, &m.msg_iovlen, at, size);
		ssize_t n = recvmsg(fd, &m, 0);
		if (n < 0)
			continue;
		size_t frames = ((size_t)n + HEAD + frag - 1) / (HEAD + frag);
		at += (size_t)n - frames * HEAD;
	}
}

/* ---- ether ---- */

static struct {
	uint8_t *rx, *tx;
	unsigned slot, per_block, count, rx_at, tx_at;
} ring;
static uint8_t ether_head[14];

static struct tpacket2_hdr *slot_of(uint8_t *base, unsigned i)
{
	return (void *)(base + (size_t)(i / ring.per_block) * 65536 +
			(size_t)(i % ring.per_block) * ring.slot);
}

static void packet_open(void)
{
	struct ifreq mac = eth0(SIOCGIFHWADDR);

	fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
	if (fd < 0)
		die("packet socket");
	frag = mtu - 2 - HEAD;
	memset(ether_head, 0xff, 6); /* there are two on the wire */
	memcpy(ether_head + 6, mac.ifr_hwaddr.sa_data, 6);
	ether_head[12] = ETHERTYPE >> 8;
	ether_head[13] = ETHERTYPE & 0xff;
}

static void packet_bind(void)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE)};

	ll.sll_ifindex = (int)if_nametoindex("eth0");
	if (bind(fd, (struct sockaddr *)&ll, sizeof(ll)) < 0)
		die("bind");
}

static void ether_open(void)
{
	int version = TPACKET_V2;

	packet_open();
	ring.slot = TPACKET_ALIGN(TPACKET_ALIGN(TPACKET2_HDRLEN + 16) + 16 + mtu + 32);
	ring.per_block = 65536 / ring.slot;
	unsigned blocks = BUFFER / 65536;
	ring.count = blocks * ring.per_block;
	struct tpacket_req q = {65536, blocks, ring.slot, ring.count};
	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &q, sizeof(q)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &q, sizeof(q)) < 0)
		die("packet rings");
	packet_bind();
	ring.rx = mmap(NULL, 2UL * BUFFER, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring.rx == MAP_FAILED)
		die("mmap");
	ring.tx = ring.rx + BUFFER;
}

static void ether_send(size_t size)
{
	unsigned waiting = 0;

	for (size_t at = 0; at < size;) {
		struct tpacket2_hdr *h = slot_of(ring.tx, ring.tx_at);
		if (__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) != TP_STATUS_AVAILABLE) {
			send(fd, "", 0, MSG_DONTWAIT);
			continue;
		}
		size_t len = size - at < frag ? size - at : frag;
		uint8_t *to = (uint8_t *)h + TPACKET2_HDRLEN - sizeof(struct sockaddr_ll);
		memcpy(to, ether_head, 14);
		memcpy(to + 16, heads, HEAD);
		memcpy(to + 16 + HEAD, buf + at, len);
		h->tp_len = (unsigned)(16 + HEAD + len);
		__atomic_store_n(&h->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
		ring.tx_at = (ring.tx_at + 1) % ring.count;
		at += len;
		if (++waiting == 16 || at == size) {
			send(fd, "", 0, MSG_DONTWAIT);
			waiting = 0;
		}
	}
}

static void ether_receive(size_t size)
{
	for (size_t at = 0; at < size;) {
		struct tpacket2_hdr *h = slot_of(ring.rx, ring.rx_at);
		if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			continue;
		const uint8_t *from = (const uint8_t *)h + h->tp_mac + 16;
		size_t len = size - at < frag ? size - at : frag; /* short ones are padded */
		memcpy(heads, from, HEAD);
		memcpy(buf + at, from + HEAD, len);
		at += len;
		__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		ring.rx_at = (ring.rx_at + 1) % ring.count;
	}
}

/* ---- plain ---- */

static void plain_open(void)
{
	int size = BUFFER;

	packet_open();
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	packet_bind();
}

/* As many frames as a call takes, from `at` on: Ethernet header, header and payload in turn. Returns how many. */
static unsigned burst(struct mmsghdr *m, struct iovec (*iov)[3], size_t at, size_t size)
{
	unsigned n = 0;

	for (; n < 64 && at < size; n++) {
		size_t len = size - at < frag ? size - at : frag;
		iov[n][0] = (struct iovec){ether_head, 16};
		iov[n][1] = (struct iovec){heads + n * HEAD, HEAD};
		iov[n][2] = (struct iovec){buf + at, len};
		m[n].msg_hdr = (struct msghdr){.msg_iov = iov[n], .msg_iovlen = 3};
		at += len;
	}
	return n;
}

static void plain_move(size_t size, int (*call)(struct mmsghdr *, unsigned))
{
	struct mmsghdr m[64];
	struct iovec iov[64][3];

	for (size_t at = 0; at < size;) {
		int n = call(m, burst(m, iov, at, size));
		for (int i = 0; i < n; i++)
			at += iov[i][2].iov_len;
	}
}

static int out(struct mmsghdr *m, unsigned count)
{
	return sendmmsg(fd, m, count, 0);
}

static int in(struct mmsghdr *m, unsigned count)
{
	return recvmmsg(fd, m, count, 0, NULL);
}

static void plain_send(size_t size)
{
	plain_move(size, out);
}

static void plain_receive(size_t size)
{
	plain_move(size, in);
}

/* ---- all ---- */

static void (*send_all)(size_t), (*receive_all)(size_t);

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double round_trip(size_t size)
{
	double start = now();

	send_all(size);
	receive_all(size);
	return now() - start;
}

static void measure(size_t size)
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

/* The other end. It says when it listens, and ends when it is killed. */
static void serve(size_t size)
{
	puts("listening");
	fflush(stdout);
	for (;;) {
		receive_all(size);
		send_all(size);
	}
}

static const struct {
	const char *name;
	void (*open)(void), (*send)(size_t), (*receive)(size_t);
} ways[] = {
	{"udp", udp_open, udp_send, udp_receive},
	{"ether", ether_open, ether_send, ether_receive},
	{"plain", plain_open, plain_send, plain_receive},
};

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	self = atoi(argv[2]);
	mtu = (unsigned)eth0(SIOCGIFMTU).ifr_mtu;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(argv[1], ways[i].name) != 0)
			continue;
		ways[i].open();
		send_all = ways[i].send;
		receive_all = ways[i].receive;
	}
	if (send_all == NULL)
		return 2;
	buf = malloc(16 << 20);
	memset(buf, 1, 16 << 20);
	size_t size = strtoul(argv[3], NULL, 10);
	if (self == 1)
		serve(size);
	measure(size);
	return 0;
}
