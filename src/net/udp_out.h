/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets that are connected, to send and receive UDP datagrams without a route look-up each. See udp_out.c. */
#ifndef SN_NET_UDP_OUT_H
#define SN_NET_UDP_OUT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

union sn_udp_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

#define SN_UDP_OUTS 64 /* a power of two */

struct sn_udp_outs {
	union sn_udp_addr own; /* of the socket that receives; family 0: none are made */
	const char *device;    /* that it is held to, or NULL */
	int in;		       /* receives what the peer of `in_of` sends; -1: there is no such socket */
	unsigned in_keep;
	struct sn_udp_out *in_of;
	struct sn_udp_out {
		union sn_udp_addr to;
		int fd; /* once open */
		unsigned sends, keep;
		bool open;
	} out[SN_UDP_OUTS];
};

/*
 * Path MTU discovery, and buffers, of which that for what comes has so many bytes; returns the bytes of frames that
 * fit it.
 */
uint64_t sn_udp_set_up(int fd, bool v6, int in);

/* *fd is bound to o->own. Afterwards it is what receives from everybody but the peer that o->in is connected to. */
void sn_udp_in_open(struct sn_udp_outs *o, int *fd);

/* The socket connected to that address, or -1: there is none. */
int sn_udp_out(struct sn_udp_outs *o, const union sn_udp_addr *to);

void sn_udp_outs_close(struct sn_udp_outs *o);

unsigned sn_udp_outs_open(const struct sn_udp_outs *o);

#endif
