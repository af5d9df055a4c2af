/* SPDX-License-Identifier: BSD-3-Clause */
/* Authentication of frames: SipHash-2-4 over the header, which holds the payload's check (net/check.h). */
#ifndef SN_NET_AUTH_H
#define SN_NET_AUTH_H

#include "net/wire.h"

struct sn_sip_key {
	uint64_t k[2];
};

/* SipHash-2-4 of `count` little-endian words. */
uint64_t sn_sip(const struct sn_sip_key *key, const uint64_t *words, unsigned count);

/* The hello key and the link key of docs/protocol.md, from the receiving endpoint's key. */
void sn_auth_hello_key(struct sn_sip_key *out, const uint8_t ep_key[12]);
void sn_auth_link_key(struct sn_sip_key *out, const uint8_t ep_key[12], uint64_t from_session,
		      uint64_t to_session);

uint64_t sn_auth_mac(const struct sn_sip_key *key, const struct sn_wire_head *h);
/* Those of up to SN_AUTH_MACS headers, for less than one by one; `of` beyond `count` is written over. */
#define SN_AUTH_MACS 8
struct sn_auth_of {
	const struct sn_sip_key *key;
	const struct sn_wire_head *h;
};
void sn_auth_macs(uint64_t mac[SN_AUTH_MACS], struct sn_auth_of of[SN_AUTH_MACS], unsigned count);
/* Put the mask over a HELLO's secret part, or take it off. */
void sn_auth_mask(const struct sn_sip_key *hello_key, struct sn_wire_hello *h);

#endif
