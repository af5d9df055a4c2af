/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bodies over Ethernet: a packet socket without rings. For a frame of 8 bytes the ring is the shortest way there is.
 * But what comes through a ring is copied twice, by the kernel into it and by us out of it, and a body of 64 KiB and
 * more takes up to 1.9 times as long that way as through the calls here, which copy it once (bench/net_bare, "ether"
 * and "plain").
 *
 * Joined frames. As many frames as fit into 64 KiB leave as one packet, which the kernel (or the card) cuts up, as it
 * does for UDP. It does so for IP alone. So what stands before a frame of a body looks like headers of IPv4 and UDP,
 * and the kernel is told, with the packet and not in it, that its protocol is IP (a socket with PACKET_VNET_HDR;
 * Linux 6.2). On the wire the type is ours: no IP stack looks at these frames, no firewall of IP, and no address or
 * route is needed. Between two hosts of one machine nothing cuts the packet up, and it arrives whole. How long its
 * frames are stands where IP's source address would. Where such packets do not come through, the engine notices
 * (probe.c), and frames are sent one by one; where this system refuses them, this driver does so for a second.
 *
 * A frame's head is read to one place and its body to where it belongs, if that is known. A guess that was wrong
 * costs a copy.
 *
 * Everything leaves here: which socket a frame arrives at is the receiver's affair. A ring to send from is no faster
 * for bodies of 64 KiB to 1 MiB, and slower for short frames: the kernel maps each into a buffer of its own in pages,
 * where a call copies it. A short frame, which most often is alone, is copied behind its header, so that the call
 * takes one piece.
 *
 * A frame longer than a page the kernel lays into several, but for its first 14 bytes: both sides then take and give
 * back three pieces of memory a frame, and whoever looks at its head, as the filters do, finds it in the last place.
 * A socket with PACKET_VNET_HDR may say how much of each frame is to lie in one stretch.
 *
 * Budget: one system call for up to IN_FRAMES in, or one joined packet, or SN_NET_BATCH out. Looking costs a call,
 * too, and so is done while something is expected, and else only now and then: what nobody has been waiting for may
 * lie here as well as in a stash.
 */
#include "net/bulk.h"
#include "base/log.h"
#include "net/call.h"
#include "net/join.h"
#include "net/wire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define IN_FRAMES    16	 /* a call */
#define SHORT	     512 /* bytes */
#define SELDOM	     64	 /* looks of which one is made though nothing is expected */
#define SINGLES	     8	 /* packets of one frame after which several are asked for at a time */
#define BUFFER_BYTES (8 << 20)
#define WHOLE	     15872 /* of a frame that are to lie in one stretch: four pages, less what the kernel adds */
#define APART	     1000000000ULL /* ns without joining, after a refusal */
#define REFUSED_LONG 1000000ULL	   /* ns for which the device may drop one frame again and again */

struct SN_PACKED looks { /* what stands before the frame of a body */
	uint8_t ether[14];
	struct iphdr ip; /* saddr: length of the frames that are joined, 0 or more than there is: it is one */
	struct udphdr udp;
};
_Static_assert(sizeof(struct looks) == SN_ETHER_BODY, "as the filter expects it");

struct SN_PACKED head { /* for the kernel, and on the wire */
	struct virtio_net_hdr about;
	union {
		uint8_t plain[SN_ETHER_HEAD];
		struct looks looks;
	};
};
_Static_assert(offsetof(struct head, plain) == 10, "nothing between");

struct packet_in {	    /* what a call read */
	uint32_t len, size; /* of what follows its head; of the frames in it */
	unsigned placed;    /* frames of which the ends stand at spot */
	const struct sn_net_spot *spot;
};

struct sn_bulk {
	int fd;
	int whole; /* a socket that sends what is long in one stretch, and what is joined; -1: there is none */
	uint64_t room;
	struct sockaddr_ll to; /* of joined packets: their protocol */
	/* out */
	struct mmsghdr out[SN_NET_BATCH];
	unsigned out_frames[SN_NET_BATCH]; /* in each packet */
	struct iovec out_iov[SN_NET_BATCH + SN_JOIN_IOVS];
	struct head head[SN_NET_BATCH];
	uint64_t apart_until; /* clock up to which no frames are joined; 0: they are */
	uint64_t refused_at;  /* clock at which the device began to drop the first frame; 0: it does not */
	/* in */
	unsigned looks, singles; /* singles: packets of one frame in a row */
	unsigned count, at;	 /* packets read, and the one being handed out */
	uint32_t offset;	 /* in that one */
	struct packet_in read[IN_FRAMES];
	struct sn_net_spot spot[SN_NET_BATCH];
	struct mmsghdr in[IN_FRAMES];
	struct iovec in_iov[IN_FRAMES][1 + 4], joined_iov[1 + SN_JOIN_IN];
	struct looks front[IN_FRAMES];
	uint64_t send_calls, whole_calls, joined, receive_calls, joined_in, errors, odd, overruns;
	uint8_t bytes[]; /* IN_FRAMES times SN_JOIN_BYTES */
};

/*
 * It has no protocol, so nothing comes in there. -1: the kernel has no such thing; net.ether_whole_calls and _joined
 * stay 0.
 */
static int open_whole(const struct sn_iface *iface)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_ifindex = (int)iface->index};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

	if (fd >= 0 && setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) == 0 &&
	    bind(fd, (struct sockaddr *)&ll, sizeof(ll)) == 0) {
		sn_net_buffers(fd, 0, BUFFER_BYTES);
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

int sn_bulk_open(const struct sn_iface *iface, const uint8_t port[2], struct sn_bulk **bulk)
{
	struct sn_bulk *b = malloc(sizeof(*b) + (size_t)IN_FRAMES * SN_JOIN_BYTES);

	if (b == NULL)
		return sn_fail(SN_ERR_NOMEM, "no memory for a packet socket");
	memset(b, 0, sizeof(*b)); /* and not what is read to: most of it is never used */
	*bulk = b;
	b->whole = -1;
	b->fd = sn_packet_socket(port, true);
	if (b->fd < 0)
		return b->fd;
	b->whole = open_whole(iface);
	b->to = (struct sockaddr_ll){.sll_family = AF_PACKET,
				     .sll_protocol = htons(ETH_P_IP),
				     .sll_ifindex = (int)iface->index,
				     .sll_halen = ETH_ALEN};
	b->room = sn_net_buffers(b->fd, BUFFER_BYTES, BUFFER_BYTES);
	return sn_packet_bind(b->fd, iface, SN_ETHERTYPE_BODY);
}

void sn_bulk_in_child(struct sn_bulk *b)
{
	if (b->fd >= 0)
		close(b->fd);
	if (b->whole >= 0)
		close(b->whole);
}

void sn_bulk_close(struct sn_bulk *b)
{
	sn_bulk_in_child(b);
	free(b);
}

int sn_bulk_fd(const struct sn_bulk *b)
{
	return b->fd;
}

uint64_t sn_bulk_room(const struct sn_bulk *b)
{
	return b->room;
}

/* ---- out ---- */

/*
 * A device that drops a frame (ENOBUFS) gets it again, before all others. That is right where its queue is full. One
 * that will never take it, as a veth pair whose far end has a smaller MTU, would block the others for good: after a
 * while the frame is given up, as lost.
 */
static bool refused_long(struct sn_bulk *b)
{
	uint64_t now = sn_now_ns();

	if (b->refused_at == 0)
		b->refused_at = now;
	if (now < b->refused_at + REFUSED_LONG)
		return false;
	b->refused_at = 0;
	return true;
}

/* The system took none of the packets from `at` on: is the first of them lost, then? If not, there is no room now. */
static bool lost(struct sn_bulk *b, int *error)
{
	if (errno == EAGAIN || errno == EINTR)
		return false;
	if (errno == ENOBUFS && !refused_long(b))
		return false;
	if (errno != ENOBUFS)
		*error = errno;
	b->errors++;
	return true;
}

static int send_short(const struct sn_bulk *b, const struct sn_net_out *f)
{
	uint8_t bytes[SN_ETHER_HEAD + SHORT], *at = bytes + SN_ETHER_HEAD;

	memcpy(bytes, f->to->bytes, SN_ETHER_HEAD);
	for (uint32_t v = 0; v < f->iov_count; v++) {
		memcpy(at, f->iov[v].iov_base, f->iov[v].iov_len);
		at += f->iov[v].iov_len;
	}
	return sn_net_call_send(b->fd, bytes, SN_ETHER_HEAD + f->len) < 0 ? -1 : 1;
}

/* Of the frames from here on, how many go into one packet, and how long its segments are. */
static unsigned group(const struct sn_bulk *b, const struct sn_net_out *f, unsigned count, uint32_t *size)
{
	unsigned may = 0;

	while (may < count && f[may].how == SN_OUT_JOINED)
		may++;
	return sn_join_count(f, b->apart_until || b->whole < 0 || may == 0 ? 1 : may, size);
}

/*
 * What stands before a body: see above. The kernel writes the length of each frame that it cuts off where these say
 * theirs.
 */
static void front(struct looks *l, const struct sn_net_path *to, uint32_t len, uint32_t size)
{
	const uint16_t type = htons(SN_ETHERTYPE_BODY);

	memcpy(l->ether, to->bytes, 12);
	memcpy(l->ether + 12, &type, 2);
	l->udp = (struct udphdr){.len = htons((uint16_t)(sizeof(l->udp) + len))};
	memcpy(&l->udp.dest, to->bytes + 14, 2);
	l->ip = (struct iphdr){.version = 4,
			       .ihl = sizeof(l->ip) / 4,
			       .ttl = 1,
			       .protocol = IPPROTO_UDP,
			       .tot_len = htons((uint16_t)(sizeof(l->ip) + sizeof(l->udp) + len)),
			       .saddr = htonl(size)};
}

/*
 * What stands before the frames of a packet, len bytes together. Returns its own length, without what is for the
 * kernel alone.
 */
static uint32_t head(struct head *h, const struct sn_net_out *f, unsigned n, uint32_t len, uint32_t size)
{
	uint32_t front_len = f->how == SN_OUT_PLAIN ? SN_ETHER_HEAD : SN_ETHER_BODY;

	if (f->how == SN_OUT_PLAIN)
		memcpy(h->plain, f->to->bytes, SN_ETHER_HEAD);
	else
		front(&h->looks, f->to, len, size);
	uint32_t whole = SN_MIN_OF(front_len + len, (uint32_t)WHOLE);
	h->about = (struct virtio_net_hdr){.hdr_len = (uint16_t)whole};
	if (n > 1)
		h->about = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
						   .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
						   .gso_size = (uint16_t)size,
						   .hdr_len = SN_ETHER_BODY,
						   .csum_start = offsetof(struct looks, udp),
						   .csum_offset = offsetof(struct udphdr, check)};
	return front_len;
}

/* Describe the frames as packets; returns how many there are. */
static unsigned describe(struct sn_bulk *b, const struct sn_net_out *frames, unsigned count)
{
	struct iovec *iov = b->out_iov;
	unsigned packets = 0;

	if (b->apart_until && sn_now_ns() >= b->apart_until)
		b->apart_until = 0;
	for (unsigned i = 0; i < count; packets++) {
		struct msghdr *m = &b->out[packets].msg_hdr;
		struct head *h = &b->head[packets];
		uint32_t size, len = 0;
		unsigned n = group(b, frames + i, count - i, &size);
		*m = (struct msghdr){.msg_iov = iov,
				     .msg_iovlen = 1 + sn_join_out(iov + 1, frames + i, n, size)};
		for (size_t v = 1; v < m->msg_iovlen; v++)
			len += (uint32_t)iov[v].iov_len;
		uint32_t front_len = head(h, frames + i, n, len, size);
		iov[0] = b->whole >= 0 ? (struct iovec){h, sizeof(h->about) + front_len}
				       : (struct iovec){h->plain, front_len};
		if (n > 1) {
			m->msg_name = &b->to;
			m->msg_namelen = sizeof(b->to);
			b->joined++;
		}
		b->out_frames[packets] = n;
		iov += m->msg_iovlen;
		i += n;
	}
	return packets;
}

/* This kernel, or this device, takes no joined packets. Any other error would meet the frames one by one, too. */
static bool is_refusal(int error)
{
	return error == EIO || error == EINVAL || error == EOPNOTSUPP || error == EMSGSIZE;
}

static int send_packets(struct sn_bulk *b, unsigned from, unsigned count)
{
	b->send_calls++;
	b->whole_calls += b->whole >= 0;
	return sendmmsg(b->whole >= 0 ? b->whole : b->fd, b->out + from, count, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static unsigned send_several(struct sn_bulk *b, const struct sn_net_out *frames, unsigned count, int *error)
{
	unsigned done = 0, at = 0, packets = describe(b, frames, count);

	while (at < packets) {
		int n = send_packets(b, at, packets - at);
		if (n < 0 && b->out_frames[at] > 1 && is_refusal(errno)) {
			b->apart_until = sn_now_ns() + APART;
			packets = describe(b, frames + done, count - done);
			at = 0;
			continue;
		}
		if (n < 0 && !lost(b, error))
			break;
		if (n >= 0)
			b->refused_at = 0;
		for (n = n < 0 ? 1 : n; n > 0; n--)
			done += b->out_frames[at++];
	}
	return done;
}

unsigned sn_bulk_send(struct sn_bulk *b, const struct sn_net_out *frames, unsigned count, int *error)
{
	if (count > 1 || frames->len > SHORT || frames->how != SN_OUT_PLAIN)
		return send_several(b, frames, count, error);
	b->send_calls++;
	if (send_short(b, frames) < 0 && !lost(b, error))
		return 0;
	b->refused_at = 0;
	return 1;
}

/* ---- in ---- */

/* Where packet i goes: what follows the head of its first frames to their places, everything else to bytes of its own. */
static void prepare(struct sn_bulk *b, unsigned i, struct iovec *iov, uint32_t size,
		    const struct sn_net_spot *spot, unsigned placed)
{
	uint8_t *bytes = b->bytes + (size_t)i * SN_JOIN_BYTES;

	iov[0] = (struct iovec){&b->front[i], sizeof(b->front[i])};
	b->read[i] = (struct packet_in){.size = size, .spot = spot, .placed = placed};
	b->in[i].msg_hdr = (struct msghdr){.msg_iov = iov,
					   .msg_iovlen = 1 + sn_join_in(iov + 1, bytes, size, spot, placed)};
}

static void forget_places(struct sn_bulk *b, unsigned i, uint32_t expected)
{
	struct packet_in *p = &b->read[i];

	sn_join_undo(b->bytes + (size_t)i * SN_JOIN_BYTES, expected, p->spot, p->placed, p->len);
	p->placed = 0;
}

/* What has come as packet i, of which frames of `expected` bytes were expected. True: several frames. */
static bool came(struct sn_bulk *b, unsigned i, uint32_t expected)
{
	struct packet_in *p = &b->read[i];
	uint32_t len = b->in[i].msg_len, size = ntohl(b->front[i].ip.saddr);

	p->len = 0;
	if (len <= SN_ETHER_BODY || (b->in[i].msg_hdr.msg_flags & MSG_TRUNC)) {
		b->odd++;
		return false;
	}
	p->len = len - SN_ETHER_BODY;
	bool joined = size < p->len && size >= sizeof(struct sn_wire_head);
	p->size = joined ? size : p->len;
	b->joined_in += joined;
	if (p->placed && p->len > SN_NET_HEAD && p->size != expected && (joined || p->len > expected))
		forget_places(b, i, expected);
	return joined;
}

/*
 * One packet, of as many frames as it may have, or several of one frame each, as they come from a card: by what came
 * last. What is not handed out at once has no places, for their owners may go away; so where one of several turns out
 * to be joined none has.
 */
static void read_packets(struct sn_bulk *b, unsigned max, const struct sn_net_place *place)
{
	unsigned ask = b->singles < SINGLES ? 1 : SN_MIN_OF(max, (unsigned)IN_FRAMES), placed = 0, joined = 0;
	uint32_t size = 0;

	if (place)
		placed = place->expect(place->arg, b->spot, ask == 1 ? max : ask, &size);
	if (ask == 1)
		prepare(b, 0, b->joined_iov, size, b->spot, placed);
	for (unsigned i = 0; ask > 1 && i < ask; i++)
		prepare(b, i, b->in_iov[i], size, b->spot + i, i < placed);
	b->receive_calls++;
	int got = recvmmsg(b->fd, b->in, ask, MSG_DONTWAIT, NULL);
	b->at = b->offset = 0;
	b->count = got < 0 ? 0 : (unsigned)got;
	for (unsigned i = 0; i < b->count; i++)
		joined += came(b, i, size);
	for (unsigned i = 0; joined && ask > 1 && i < b->count; i++)
		forget_places(b, i, size);
	if (b->count)
		b->singles = joined ? 0 : b->singles + b->count;
}

unsigned sn_bulk_receive(struct sn_bulk *b, struct sn_net_in *frames, unsigned max,
			 const struct sn_net_place *place)
{
	unsigned n = 0;

	if (b->at == b->count) {
		if (place == NULL && ++b->looks % SELDOM)
			return 0;
		read_packets(b, max, place);
	}
	for (; b->at < b->count; b->at++, b->offset = 0) {
		const struct packet_in *p = &b->read[b->at];
		while (b->offset < p->len) {
			if (n == max)
				return n;
			uint32_t len = SN_MIN_OF(p->size, p->len - b->offset);
			unsigned k = b->offset / p->size;
			frames[n++] = (struct sn_net_in){
				.data = b->bytes + (size_t)b->at * SN_JOIN_BYTES + b->offset,
				.len = len,
				.spot = k < p->placed && len > SN_NET_HEAD ? &p->spot[k] : NULL};
			b->offset += len;
		}
	}
	return n;
}

void sn_bulk_counters(struct sn_bulk *b, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	b->overruns += sn_packet_overruns(b->fd);
	fn(arg, "net.ether_send_calls", b->send_calls);
	fn(arg, "net.ether_whole_calls", b->whole_calls);
	fn(arg, "net.ether_joined_sends", b->joined);
	fn(arg, "net.ether_joined_receives", b->joined_in);
	fn(arg, "net.ether_bulk_receives", b->receive_calls);
	fn(arg, "net.ether_send_errors", b->errors);
	fn(arg, "net.ether_bulk_odd_frames", b->odd);
	fn(arg, "net.ether_bulk_overruns", b->overruns);
}
