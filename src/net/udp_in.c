/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading UDP datagrams: joined or one by one, with bodies scattered to where they belong, from two sockets.
 */
#include "net/udp_in.h"
#include "base/base.h"
#include "net/call.h"
#include "net/join.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>

#define LONG	16384 /* bytes of a datagram after which one is read at a time */
#define STREAK	16    /* looks after which it is clear who gives, and if in vain, that nobody does */
#define ALONE	16    /* looks at one socket alone */
#define SINGLES 64    /* datagrams of one frame after which nothing need be joined */
#define CROWD	4     /* looks in a row that found something, after which it had better be */
#define PART	1024  /* bytes of a frame that may be one of several of a message; two in a row are */

bool sn_udp_in_new(struct sn_udp_in *u)
{
	u->bytes = malloc((size_t)SN_UDP_MSGS * SN_JOIN_BYTES);
	u->ask = 1;
	u->mmsg = true;
	return u->bytes != NULL;
}

void sn_udp_in_start(struct sn_udp_in *u, int all, int one)
{
	u->all = u->warm = all;
	u->one = one;
}

void sn_udp_in_free(struct sn_udp_in *u)
{
	free(u->bytes);
}

/* The length of the frames that a joined datagram is made of; its own length if it is not joined. */
static uint32_t segment_size(struct msghdr *m, uint32_t len)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		int size;
		if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO)
			continue;
		memcpy(&size, CMSG_DATA(c), sizeof(size));
		if (size > 0 && (uint32_t)size < len)
			return (uint32_t)size;
	}
	return len;
}

/* One datagram, in the given pieces. Its length, or negative. */
static ssize_t read_one(struct sn_udp_in *u, struct iovec *iov, size_t count)
{
	u->msg[0].msg_hdr = (struct msghdr){.msg_iov = iov,
					    .msg_iovlen = count,
					    .msg_control = &u->control[0],
					    .msg_controllen = sizeof(u->control[0])};
	u->calls++;
	return recvmsg(u->from, &u->msg[0].msg_hdr, MSG_DONTWAIT);
}

static inline void read_plain(struct sn_udp_in *u)
{
	ssize_t n = sn_net_call_recv(u->from, u->bytes, SN_JOIN_BYTES);

	u->calls++;
	u->plain_calls++;
	u->msg[0] = (struct mmsghdr){.msg_len = n > 0 ? (unsigned)n : 0};
	u->count = n > 0;
}

/* The next datagram, its bodies at the places where they belong if it is what is expected. False: nothing is. */
static bool fill_placed(struct sn_udp_in *u, const struct sn_net_place *place)
{
	uint32_t size;

	u->count = u->at = u->offset = 0;
	u->placed = place->expect(place->arg, u->spot, SN_NET_BATCH, &size);
	if (u->placed == 0)
		return false;
	ssize_t n = read_one(u, u->train, sn_join_in(u->train, u->bytes, size, u->spot, u->placed));
	if (n < 0)
		return true;
	u->msg[0].msg_len = (unsigned)n;
	u->count = 1;
	uint32_t segment = segment_size(&u->msg[0].msg_hdr, (uint32_t)n);
	bool fits = segment == size || n <= SN_NET_HEAD || (segment == (uint32_t)n && segment < size);
	if (!fits) {
		sn_join_undo(u->bytes, size, u->spot, u->placed, (size_t)n);
		u->placed = 0;
	}
	return true;
}

/*
 * How many datagrams to ask for next. One, as long as they come one by one: asking for more makes the kernel look
 * twice. More, once they come in crowds. But one after a long one, which may begin a body: what follows has a place
 * as soon as that is known.
 */
static unsigned ask_next(const struct sn_udp_in *u, unsigned asked)
{
	bool crowd = u->count == asked || u->count > 1;

	return u->mmsg && crowd && u->msg[u->count - 1].msg_len < LONG ? SN_UDP_MSGS : 1;
}

static void fill(struct sn_udp_in *u)
{
	unsigned ask = u->ask;

	u->count = u->at = u->offset = u->placed = 0;
	if (u->plain && u->from == u->one) {
		read_plain(u);
		return;
	}
	for (unsigned i = 0; i < ask; i++) {
		u->iov[i] = (struct iovec){u->bytes + (size_t)i * SN_JOIN_BYTES, SN_JOIN_BYTES};
		u->msg[i].msg_hdr = (struct msghdr){.msg_iov = &u->iov[i],
						    .msg_iovlen = 1,
						    .msg_control = &u->control[i],
						    .msg_controllen = sizeof(u->control[i])};
	}
	if (ask > 1) {
		u->calls++;
		int n = recvmmsg(u->from, u->msg, ask, MSG_DONTWAIT, NULL);
		if (n > 0)
			u->count = (unsigned)n;
		else if (n < 0 && errno == ENOSYS)
			u->mmsg = false;
	} else {
		ssize_t n = read_one(u, &u->iov[0], 1);
		if (n >= 0) {
			u->msg[0].msg_len = (unsigned)n;
			u->count = 1;
		}
	}
	u->ask = ask_next(u, ask);
}

/* ---- which socket, and how ---- */

/*
 * To join datagrams and say where each ends costs a lone one 0.15 us of its 3.5 (a message header and a control
 * message go in and out of the kernel with every look). So as long as the peer's datagrams are one frame each, the
 * kernel is not asked to. If then it has joined ones that somebody cut up for it anyway, it takes them apart again,
 * which is dear: so after a few in a row, two long ones, or when a body is expected, it is asked again. One that was
 * joined before loses all but its first frame, as the network may.
 */
static void set_plain(struct sn_udp_in *u, bool plain)
{
	int join = !plain;

	u->single = u->run = 0;
	if (u->plain != plain && setsockopt(u->one, IPPROTO_UDP, UDP_GRO, &join, sizeof(join)) == 0)
		u->plain = plain;
}

static void learn(struct sn_udp_in *u)
{
	u->run++;
	if (u->plain) {
		if (u->run >= CROWD || (u->run > 1 && u->msg[0].msg_len >= PART))
			set_plain(u, false);
	} else if (u->placed || u->count > 1 ||
		   segment_size(&u->msg[0].msg_hdr, u->msg[0].msg_len) < u->msg[0].msg_len) {
		u->single = 0;
	} else {
		u->single++;
	}
}

static bool read_from(struct sn_udp_in *u, int fd, const struct sn_net_place *place)
{
	u->from = fd;
	if (place && u->plain)
		set_plain(u, false);
	if (!place || !fill_placed(u, place))
		fill(u);
	if (fd != u->one)
		return u->count > 0;
	if (u->count > 0) {
		learn(u);
		return true;
	}
	u->run = 0;
	if (u->single >= SINGLES && !place) /* and it is empty now */
		set_plain(u, true);
	return false;
}

static void look_at_other(struct sn_udp_in *u, int other, const struct sn_net_place *place)
{
	u->alone = 0;
	if (!read_from(u, other, place))
		return;
	u->warm = other;
	u->streak = u->vain = 0;
}

/*
 * Two sockets receive (udp_out.c), and messages mostly come one after the other from one peer. So while one of the
 * two gives all, most looks are at that one only: one at the other is as long as the look that it delays. What comes
 * there waits for 5 us at most.
 */
static void look(struct sn_udp_in *u, const struct sn_net_place *place)
{
	int other = u->warm == u->all ? u->one : u->all;

	if (other >= 0 && u->alone >= ALONE) {
		look_at_other(u, other, place);
		if (u->count)
			return;
	}
	u->alone++;
	if (read_from(u, u->warm, place)) {
		u->vain = 0;
		u->streak++;
		return;
	}
	if (++u->vain == STREAK)
		u->streak = 0;
	if (other >= 0 && (u->streak < STREAK || u->alone >= ALONE))
		look_at_other(u, other, place);
}

/* Not while it is unclear who gives, nor when it is the other one's turn. A glance in vain says nothing about that. */
bool sn_udp_glance(struct sn_udp_in *u)
{
	if (u->at != u->count || !u->plain || u->warm != u->one || u->streak < STREAK || u->alone >= ALONE)
		return true;
	u->alone++;
	u->from = u->one;
	u->at = u->offset = u->placed = 0;
	read_plain(u);
	if (u->count == 0) {
		u->run = 0;
		return false;
	}
	learn(u);
	u->vain = 0;
	u->streak++;
	return true;
}

unsigned sn_udp_receive(struct sn_udp_in *u, struct sn_net_in *frames, unsigned max,
			const struct sn_net_place *place)
{
	unsigned n = 0;

	if (u->at == u->count)
		look(u, place);
	for (; u->at < u->count; u->at++, u->offset = 0) {
		struct mmsghdr *m = &u->msg[u->at];
		if (m->msg_hdr.msg_flags & MSG_TRUNC) {
			u->truncated++;
			continue;
		}
		uint32_t size = segment_size(&m->msg_hdr, m->msg_len);
		while (u->offset < m->msg_len) {
			if (n == max)
				return n;
			uint32_t len = SN_MIN_OF(size, m->msg_len - u->offset);
			unsigned i = u->offset / size;
			frames[n++] = (struct sn_net_in){
				.data = u->bytes + (size_t)u->at * SN_JOIN_BYTES + u->offset,
				.len = len,
				.spot = i < u->placed && len > SN_NET_HEAD ? &u->spot[i] : NULL};
			u->offset += len;
		}
	}
	return n;
}
