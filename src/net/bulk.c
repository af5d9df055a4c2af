/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bodies over Ethernet: a packet socket without rings. For a frame of 8 bytes the ring is the shortest way there is. But what comes
 * through a ring is copied twice, by the kernel into it and by us out of it, and a body of 64 KiB and more takes up to 1.9 times
 * as long that way as through the calls here, which copy it once (bench/net_bare, "ether" and "plain").
 *
 * A frame's head is read to one place and its body to where it belongs, if that is known. A guess that was wrong costs a copy.
 *
 * Everything leaves here: which socket a frame arrives at is the receiver's affair. A ring to send from is no faster for bodies of 64
 * KiB to 1 MiB, and slower for short frames: the kernel maps each into a buffer of its own in pages, where a call copies it.
 * A short frame, which most often is alone, is copied behind its header, so that the call takes one piece.
 *
 * A frame longer than a page the kernel lays into several, but for its first 14 bytes: both sides then take and give back three pieces of
 * memory a frame, and whoever looks at its head, as the filters do, finds it in the last place. A socket with PACKET_VNET_HDR
 * may say how much of each frame is to lie in one stretch. (The segmentation for which this header was made is refused to frames
 * that are not IP: the kernel compares their type.)
 *
 * Budget: one system call for up to IN_FRAMES in or SN_NET_BATCH out. Looking costs a call, too, and so is done while something is
 * expected, and else only now and then: what nobody has been waiting for may lie here as well as in a stash.
 */
#include "net/bulk.h"
#include "base/log.h"
#include "net/call.h"
#include "net/wire.h"
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IN_FRAMES    16	 /* a call */
#define SHORT	     512 /* bytes */
#define SELDOM	     64	 /* looks of which one is made though nothing is expected */
#define BUFFER_BYTES (8 << 20)
#define PAGED	     4000  /* bytes of a frame that the kernel may lay into pages */
#define WHOLE	     15872 /* of it that are to lie in one stretch: four pages, less what the kernel adds */
#define REFUSED_LONG 1000000ULL /* ns for which the device may drop one frame again and again */

struct head { /* what stands before a frame when it is sent: for the kernel, and on the wire */
	struct virtio_net_hdr about;
	uint8_t ether[SN_ETHER_HEAD];
};
_Static_assert(offsetof(struct head, ether) == 10 && sizeof(struct head) == 26, "nothing between");

struct sn_bulk {
	int fd;
	int whole; /* a socket that sends long frames in one stretch; -1: there is none */
	uint32_t mtu, stride;
	uint64_t room;
	unsigned looks;
	struct sn_net_spot spot[SN_NET_BATCH];
	struct mmsghdr in[IN_FRAMES], out[SN_NET_BATCH];
	struct iovec in_iov[IN_FRAMES][3], out_iov[SN_NET_BATCH][2 + SN_NET_PIECES];
	struct head head[SN_NET_BATCH];
	uint64_t send_calls, whole_calls, receive_calls, errors, odd, overruns;
	uint64_t refused_at; /* clock at which the device began to drop the first frame; 0: it does not */
	uint8_t bytes[];     /* IN_FRAMES times stride */
};

/* It has no protocol, so nothing comes in there. -1: the kernel has no such thing, and net.ether_whole_calls stays 0. */
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

int sn_bulk_open(const struct sn_iface *iface, const uint8_t port[2], uint32_t mtu, struct sn_bulk **bulk)
{
	uint32_t stride = (SN_ETHER_HEAD + mtu + 63) & ~63u;
	struct sn_bulk *b = calloc(1, sizeof(*b) + (size_t)IN_FRAMES * stride);

	if (b == NULL)
		return sn_fail(SN_ERR_NOMEM, "no memory for a packet socket");
	*bulk = b;
	b->mtu = mtu;
	b->stride = stride;
	b->whole = -1;
	b->fd = sn_packet_socket(port, true);
	if (b->fd < 0)
		return b->fd;
	if (mtu >= PAGED)
		b->whole = open_whole(iface);
	b->room = sn_net_buffers(b->fd, BUFFER_BYTES, BUFFER_BYTES);
	return sn_packet_bind(b->fd, iface);
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
 * A device that drops a frame (ENOBUFS) gets it again, before all others. That is right where its queue is full. One that will
 * never take it, as a veth pair whose far end has a smaller MTU, would block the others for good: after a while the frame is
 * given up, as lost.
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

/* The system took none of the frames from `at` on: is the first of them lost, then? If not, there is no room now. */
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

static void describe(struct sn_bulk *b, const struct sn_net_out *frames, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct sn_net_out *f = &frames[i];
		struct iovec *iov = b->out_iov[i];
		struct head *h = &b->head[i];
		iov[0] = (struct iovec){(void *)f->to->bytes, SN_ETHER_HEAD};
		if (b->whole >= 0) {
			h->about.hdr_len = (uint16_t)SN_MIN_OF(SN_ETHER_HEAD + f->len, (uint32_t)WHOLE);
			memcpy(h->ether, f->to->bytes, SN_ETHER_HEAD);
			iov[0] = (struct iovec){h, sizeof(*h)};
		}
		memcpy(iov + 1, f->iov, f->iov_count * sizeof(*iov));
		b->out[i].msg_hdr = (struct msghdr){.msg_iov = iov, .msg_iovlen = 1 + f->iov_count};
	}
}

unsigned sn_bulk_send(struct sn_bulk *b, const struct sn_net_out *frames, unsigned count, int *error)
{
	bool alone = count == 1 && frames->len <= SHORT, whole = !alone && b->whole >= 0;
	unsigned done = 0;

	if (!alone)
		describe(b, frames, count);
	while (done < count) {
		b->send_calls++;
		b->whole_calls += whole;
		int n = alone ? send_short(b, frames)
			      : sendmmsg(whole ? b->whole : b->fd, b->out + done, count - done,
					 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && !lost(b, error))
			break;
		if (n >= 0)
			b->refused_at = 0;
		done += n < 0 ? 1 : (unsigned)n;
	}
	return done;
}

/* ---- in ---- */

/* What follows the head goes to the spot; what is longer than expected, behind where it would else have gone. */
static void prepare(struct sn_bulk *b, unsigned i, const struct sn_net_spot *spot)
{
	const uint32_t head = SN_ETHER_HEAD + SN_NET_HEAD;
	uint8_t *at = b->bytes + (size_t)i * b->stride;
	struct iovec *iov = b->in_iov[i];
	unsigned n = 1;

	iov[0] = (struct iovec){at, b->stride};
	if (spot) {
		iov[0].iov_len = head;
		iov[n++] = (struct iovec){spot->at, spot->len};
		iov[n++] = (struct iovec){at + head + spot->len, b->stride - head - spot->len};
	}
	b->in[i].msg_hdr = (struct msghdr){.msg_iov = iov, .msg_iovlen = n};
}

static bool handed_out(struct sn_bulk *b, unsigned i, const struct sn_net_spot *spot, struct sn_net_in *in)
{
	uint8_t *data = b->bytes + (size_t)i * b->stride + SN_ETHER_HEAD;
	uint32_t len = b->in[i].msg_len - SN_ETHER_HEAD;

	if (b->in[i].msg_len <= SN_ETHER_HEAD || (b->in[i].msg_hdr.msg_flags & MSG_TRUNC)) {
		b->odd++;
		return false;
	}
	if (spot && len <= SN_NET_HEAD)
		spot = NULL;
	if (spot && len > SN_NET_HEAD + spot->len) {
		memcpy(data + SN_NET_HEAD, spot->at, spot->len);
		spot = NULL;
	}
	*in = (struct sn_net_in){.data = data, .len = len, .spot = spot};
	return true;
}

unsigned sn_bulk_receive(struct sn_bulk *b, struct sn_net_in *frames, unsigned max,
			 const struct sn_net_place *place)
{
	unsigned n = 0, placed = 0, ask = SN_MIN_OF(max, (unsigned)IN_FRAMES);
	uint32_t size;

	if (place == NULL && ++b->looks % SELDOM)
		return 0;
	if (place)
		placed = place->expect(place->arg, b->spot, ask, &size);
	for (unsigned i = 0; i < ask; i++)
		prepare(b, i, i < placed ? &b->spot[i] : NULL);
	b->receive_calls++;
	int got = recvmmsg(b->fd, b->in, ask, MSG_DONTWAIT, NULL);
	for (int i = 0; i < got; i++)
		n += handed_out(b, (unsigned)i, (unsigned)i < placed ? &b->spot[i] : NULL, &frames[n]);
	return n;
}

void sn_bulk_counters(struct sn_bulk *b, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	b->overruns += sn_packet_overruns(b->fd);
	fn(arg, "net.ether_send_calls", b->send_calls);
	fn(arg, "net.ether_whole_calls", b->whole_calls);
	fn(arg, "net.ether_bulk_receives", b->receive_calls);
	fn(arg, "net.ether_send_errors", b->errors);
	fn(arg, "net.ether_bulk_odd_frames", b->odd);
	fn(arg, "net.ether_bulk_overruns", b->overruns);
}
