/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ways of net_bare share: one host's end, its interface eth0, and the message that is sent again and again. */
#ifndef NET_BARE_H
#define NET_BARE_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#define HEAD	  56	      /* what a frame of sennit's carries before a piece */
#define BUFFER	  (8 << 20)   /* of a socket, or of a ring */
#define MESSAGE	  (16u << 20) /* longest */
#define FRONT	  16	      /* Ethernet's header and sennit's port */
#define ETHERTYPE 0x88B5

extern int bare_fd;
extern unsigned bare_mtu, bare_frag; /* frag: bytes of payload in a frame */
extern uint8_t *bare_buf, bare_heads[64 * 1024], bare_front[FRONT];

void bare_die(const char *what);
struct ifreq bare_eth0(unsigned long what); /* the answer to that ioctl */
void bare_front_fill(void);		    /* bare_front and bare_frag of a frame without IP */

/*
 * net_bare_xdp.c: AF_XDP, copy mode. Each end loads a program that hands its frames to the socket, for as long as it
 * lives.
 */
void xdp_open(void);
void xdp_send(size_t at, size_t size);
void xdp_receive(size_t at, size_t size);

#endif
