/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Ethernet driver's second socket: everything leaves by it (what is long or joined by one more), and the frames
 * that carry the bodies of rendezvous come in. See bulk.c.
 */
#ifndef SN_NET_BULK_H
#define SN_NET_BULK_H

#include "net/driver.h"
#include "net/iface.h"

struct sn_bulk;

/* For frames to this endpoint port. Negative sn_error. */
int sn_bulk_open(const struct sn_iface *iface, const uint8_t port[2], struct sn_bulk **bulk);
void sn_bulk_close(struct sn_bulk *b);
void sn_bulk_in_child(struct sn_bulk *b); /* closes what it must not keep open for the parent */
int sn_bulk_fd(const struct sn_bulk *b);
uint64_t sn_bulk_room(const struct sn_bulk *b);
/* As the driver's send and receive. *error: the errno of what the system refused for good, else untouched. */
unsigned sn_bulk_send(struct sn_bulk *b, const struct sn_net_out *frames, unsigned count, int *error);
unsigned sn_bulk_receive(struct sn_bulk *b, struct sn_net_in *frames, unsigned max,
			 const struct sn_net_place *place);
void sn_bulk_counters(struct sn_bulk *b, void (*fn)(void *arg, const char *name, uint64_t value), void *arg);

/* ---- packet.c: what packet sockets have in common ---- */
#define SN_ETHERTYPE	  0x88B6 /* IEEE 802 local experimental ethertype 2 */
#define SN_ETHERTYPE_BODY 0x88B5 /* and 1: bodies */
#define SN_ETHER_HEAD	  16	 /* 14 and the port */
#define SN_ETHER_PART	  8	 /* of an address: the MAC and the port */
#define SN_ETHER_BODY	  42 /* 14, what looks like an IPv4 header, and what looks like UDP's, with the port */
/* A socket for the frames to this port, of one of the types. Not bound yet. */
int sn_packet_socket(const uint8_t port[2], bool body);
int sn_packet_bind(int fd, const struct sn_iface *iface, int type);
uint64_t sn_packet_overruns(int fd); /* since the last time */
/* The part of an address by which peers find such a socket. */
void sn_packet_part(struct sn_addr_part *part, uint8_t type, const uint8_t mac[6], const uint8_t port[2]);
/* What stands before a frame to the endpoint port with this address. False: none can be sent there. */
bool sn_packet_head(const uint8_t mac[6], const uint8_t to[SN_ETHER_PART], uint8_t head[SN_ETHER_HEAD]);

#endif
