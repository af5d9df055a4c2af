/* SPDX-License-Identifier: BSD-3-Clause */
/* Authentication and damage detection of frames: SipHash-2-4 over the header, a four-lane CRC-32C over the payload. */
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

/*
 * The payload's check. Add pieces in order; all but the last have a multiple of 8 bytes. Cost: 8 bytes a cycle where
 * the processor has the CRC-32C instruction (x86 with SSE 4.2, ARMv8 with CRC), 4 where that is slow (AMD), about 1
 * byte a cycle else.
 */
struct sn_check {
	uint32_t lane[4];
	unsigned next; /* lane of the next word */
};
void sn_check_start(struct sn_check *c);
void sn_check_add(struct sn_check *c, const void *bytes, size_t len);
/* All pieces, of any lengths. */
void sn_check_pieces(struct sn_check *c, const struct iovec *iov, uint32_t count);
uint32_t sn_check_end(const struct sn_check *c);
static inline uint32_t sn_check_of(const void *bytes, size_t len)
{
	struct sn_check c;
	sn_check_start(&c);
	sn_check_add(&c, bytes, len);
	return sn_check_end(&c);
}
/*
 * Of SN_CHECK_HEAD bytes and of those of a body, which go to `to`, too, where nothing of it lies, unless that is
 * NULL: the body is read once.
 */
#define SN_CHECK_HEAD 16
uint32_t sn_check_piece(const void *head, const void *bytes, size_t len, void *to);
/* The plain C way whatever the processor has, for tests. */
uint32_t sn_check_portable(const void *bytes, size_t len);

#endif
