/* SPDX-License-Identifier: BSD-3-Clause */
/* What the UDP driver reads: from its two sockets, in datagrams that the kernel may have joined. See udp_in.c. */
#ifndef SN_NET_UDP_IN_H
#define SN_NET_UDP_IN_H

#include "net/join.h"
#include <sys/socket.h>

#define SN_UDP_MSGS 8 /* datagrams a call */

union sn_udp_cmsg { /* room for one control message with a segment size */
	struct cmsghdr align;
	uint8_t room[CMSG_SPACE(sizeof(int))];
};

struct sn_udp_in {
	int all, one;	/* the socket for everybody, and the one for one peer, or -1 */
	int warm, from; /* the one that gave something last, and the one that is read */
	unsigned streak,
		vain;	  /* looks at `warm` that found something, no other's between; that found nothing */
	unsigned alone;	  /* looks at it since one at the other */
	bool plain, mmsg; /* the kernel joins nothing for `one`; recvmmsg is there */
	unsigned single,
		run; /* datagrams from `one` that were one frame; looks at it in a row that found something */
	uint8_t *bytes; /* SN_UDP_MSGS times SN_JOIN_BYTES */
	struct mmsghdr msg[SN_UDP_MSGS];
	struct iovec iov[SN_UDP_MSGS];
	union sn_udp_cmsg control[SN_UDP_MSGS];
	unsigned ask;	    /* datagrams to ask for with the next call */
	unsigned count, at; /* datagrams of the last call, and the one being handed out */
	uint32_t offset;    /* in that one */
	unsigned placed;    /* frames of the only datagram whose ends stand at spot */
	struct sn_net_spot spot[SN_NET_BATCH];
	struct iovec train[SN_JOIN_IN];
	uint64_t calls, plain_calls, truncated;
};

bool sn_udp_in_new(struct sn_udp_in *u); /* false: no memory */
/* Both sockets are open, and have UDP_GRO if the kernel knows that. */
void sn_udp_in_start(struct sn_udp_in *u, int all, int one);
void sn_udp_in_free(struct sn_udp_in *u);
bool sn_udp_glance(struct sn_udp_in *u); /* as the driver's glance */
/* As the driver's receive. */
unsigned sn_udp_receive(struct sn_udp_in *u, struct sn_net_in *frames, unsigned max,
			const struct sn_net_place *place);

#endif
