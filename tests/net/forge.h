/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames made by hand, with the keys: for what only a mad peer sends. They seem to come from node a and go to node b of a
 * simulated network, or the other way if the caller says so.
 */
#ifndef SN_TESTS_NET_FORGE_H
#define SN_TESTS_NET_FORGE_H

#include "sim.h"

#define MTU 1472

extern struct node *a, *b;
extern struct sn_net_link *at_a, *at_b; /* a's link to b, and b's to a; both are open */

extern union forged {
	uint8_t bytes[4096];
	struct sn_wire_head h;
	struct sn_wire_hello hello;
	struct sn_wire_pull pull;
	struct sn_wire_data data;
	struct sn_wire_probe probe;
	struct sn_wire_slice slice;
	struct sn_wire_push push;
} f;

void forge_begin(uint8_t type, uint32_t len); /* in f, from a to b */
void forge_seal(const struct sn_sip_key *key);
void forge_deliver_to(const struct node *to);
void forge_deliver(void); /* to b */
void forge_sealed(void);  /* sealed by a, and delivered */
void forge_hello(uint8_t type);
void forge_hello_sealed(void);
void forge_msg(const void *payload, uint32_t len); /* the next MSG frame, with this for a payload */

#endif
