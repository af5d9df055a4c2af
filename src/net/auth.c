/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/auth.h"

/* ---- SipHash-2-4 (Aumasson, Bernstein: SipHash: a fast short-input PRF, 2012) ---- */

#define ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
#define SIP_0	   0x736f6d6570736575u
#define SIP_1	   0x646f72616e646f6du
#define SIP_2	   0x6c7967656e657261u
#define SIP_3	   0x7465646279746573u

#define INLINE inline __attribute__((always_inline))

/* Of v[4], which are words, or registers of several words that are hashed side by side. */
#define SIP_ROUND(v)                                                                                         \
	do {                                                                                                 \
		(v)[0] += (v)[1];                                                                            \
		(v)[1] = ROTL((v)[1], 13) ^ (v)[0];                                                          \
		(v)[0] = ROTL((v)[0], 32);                                                                   \
		(v)[2] += (v)[3];                                                                            \
		(v)[3] = ROTL((v)[3], 16) ^ (v)[2];                                                          \
		(v)[0] += (v)[3];                                                                            \
		(v)[3] = ROTL((v)[3], 21) ^ (v)[0];                                                          \
		(v)[2] += (v)[1];                                                                            \
		(v)[1] = ROTL((v)[1], 17) ^ (v)[2];                                                          \
		(v)[2] = ROTL((v)[2], 32);                                                                   \
	} while (0)

static INLINE uint64_t sip(const struct sn_sip_key *key, const uint64_t *words, unsigned count)
{
	uint64_t v[4] = {key->k[0] ^ SIP_0, key->k[1] ^ SIP_1, key->k[0] ^ SIP_2, key->k[1] ^ SIP_3};

#pragma GCC unroll 5
	for (unsigned i = 0; i <= count; i++) {
		uint64_t m = i < count ? words[i] : (uint64_t)(count * 8 & 0xff) << 56;
		v[3] ^= m;
		SIP_ROUND(v);
		SIP_ROUND(v);
		v[0] ^= m;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		SIP_ROUND(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t sn_sip(const struct sn_sip_key *key, const uint64_t *words, unsigned count)
{
	return sip(key, words, count);
}

/* ---- keys ---- */

enum {
	USE_HELLO = 1,
	USE_LINK = 3,
	USE_MASK = 5
}; /* first word of what is hashed, so that no two uses ever meet */

static struct sn_sip_key endpoint_key(const uint8_t ep_key[12])
{
	static const uint8_t use[4] = {'S', 'N', 'k', '1'};
	uint8_t raw[16];
	uint64_t w[2];

	memcpy(raw, ep_key, 12);
	memcpy(raw + 12, use, sizeof(use));
	memcpy(w, raw, 16);
	return (struct sn_sip_key){{le64toh(w[0]), le64toh(w[1])}};
}

void sn_auth_hello_key(struct sn_sip_key *out, const uint8_t ep_key[12])
{
	struct sn_sip_key k = endpoint_key(ep_key);

	for (uint64_t i = 0; i < 2; i++) {
		uint64_t n = USE_HELLO + i;
		out->k[i] = sn_sip(&k, &n, 1);
	}
}

void sn_auth_link_key(struct sn_sip_key *out, const uint8_t ep_key[12], uint64_t from_session,
		      uint64_t to_session)
{
	struct sn_sip_key k = endpoint_key(ep_key);

	for (uint64_t i = 0; i < 2; i++)
		out->k[i] = sn_sip(&k, (uint64_t[]){USE_LINK + i, from_session, to_session}, 3);
}

uint64_t sn_auth_mac(const struct sn_sip_key *key, const struct sn_wire_head *h)
{
	uint64_t raw[5];

	memcpy(raw, h, sizeof(raw));
	const uint64_t w[4] = {le64toh(raw[0]), le64toh(raw[2]), le64toh(raw[3]), le64toh(raw[4])};
	return sip(key, w, 4);
}

#if defined(__x86_64__)
/*
 * Those of a train, one in each element of wide registers: a hash by itself is a chain of steps that wait for each other. Eight
 * take 55 ns in 512-bit registers, where one by one they take 168 (Zen 5), and 124 in pairs of 256-bit ones, 247 (Zen 3).
 */
struct lots {
	uint64_t word[5][SN_AUTH_MACS], key[2][SN_AUTH_MACS];
};

static INLINE void lots_of(struct lots *l, const struct sn_auth_of of[SN_AUTH_MACS])
{
	for (unsigned i = 0; i < SN_AUTH_MACS; i++) {
		uint64_t raw[5];
		memcpy(raw, of[i].h, sizeof(raw));
		l->word[0][i] = raw[0];
		for (unsigned w = 1; w < 4; w++)
			l->word[w][i] = raw[w + 1];
		l->word[4][i] = 32ULL << 56;
		l->key[0][i] = of[i].key->k[0];
		l->key[1][i] = of[i].key->k[1];
	}
}

typedef uint64_t sip8 __attribute__((vector_size(64)));
typedef uint64_t sip4 __attribute__((vector_size(32)));

#define LOTS_KEY(v, l, at)                                                                                   \
	do {                                                                                                 \
		memcpy(&(v)[0], (l)->key[0] + (at), sizeof((v)[0]));                                         \
		memcpy(&(v)[1], (l)->key[1] + (at), sizeof((v)[1]));                                         \
		(v)[2] = (v)[0] ^ SIP_2;                                                                     \
		(v)[3] = (v)[1] ^ SIP_3;                                                                     \
		(v)[0] ^= SIP_0;                                                                             \
		(v)[1] ^= SIP_1;                                                                             \
	} while (0)

__attribute__((target("avx512f"))) static void macs_512(uint64_t mac[SN_AUTH_MACS],
							const struct sn_auth_of of[SN_AUTH_MACS])
{
	struct lots l;
	sip8 m, v[4];

	lots_of(&l, of);
	LOTS_KEY(v, &l, 0);
	for (unsigned w = 0; w < 5; w++) {
		memcpy(&m, l.word[w], sizeof(m));
		v[3] ^= m;
		SIP_ROUND(v);
		SIP_ROUND(v);
		v[0] ^= m;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		SIP_ROUND(v);
	m = v[0] ^ v[1] ^ v[2] ^ v[3];
	memcpy(mac, &m, sizeof(m));
}

/* Two by two by hand: compilers leave half of a vector that is wider than a register in memory. */
__attribute__((target("avx2"))) static void macs_256(uint64_t mac[SN_AUTH_MACS],
						     const struct sn_auth_of of[SN_AUTH_MACS])
{
	struct lots l;
	sip4 m, n, v[4], u[4];

	lots_of(&l, of);
	LOTS_KEY(v, &l, 0);
	LOTS_KEY(u, &l, 4);
	for (unsigned w = 0; w < 5; w++) {
		memcpy(&m, l.word[w], sizeof(m));
		memcpy(&n, l.word[w] + 4, sizeof(n));
		v[3] ^= m;
		u[3] ^= n;
		for (int i = 0; i < 2; i++) {
			SIP_ROUND(v);
			SIP_ROUND(u);
		}
		v[0] ^= m;
		u[0] ^= n;
	}
	v[2] ^= 0xff;
	u[2] ^= 0xff;
	for (int i = 0; i < 4; i++) {
		SIP_ROUND(v);
		SIP_ROUND(u);
	}
	m = v[0] ^ v[1] ^ v[2] ^ v[3];
	n = u[0] ^ u[1] ^ u[2] ^ u[3];
	memcpy(mac, &m, sizeof(m));
	memcpy(mac + 4, &n, sizeof(n));
}

/*
 * Registers of 512 bits, where they cost nothing else: an Intel processor that has them and no vpclmulqdq (before Ice
 * Lake) lowers its clock for some time after them.
 */
static bool have_512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}
#endif

void sn_auth_macs(uint64_t mac[SN_AUTH_MACS], struct sn_auth_of of[SN_AUTH_MACS], unsigned count)
{
#if defined(__x86_64__)
	if (count > (have_512() ? SN_AUTH_MACS / 3 : SN_AUTH_MACS / 2) && __builtin_cpu_supports("avx2")) {
		for (unsigned i = count; i < SN_AUTH_MACS; i++)
			of[i] = of[0];
		(have_512() ? macs_512 : macs_256)(mac, of);
		return;
	}
#endif
	for (unsigned i = 0; i < count; i++)
		mac[i] = sn_auth_mac(of[i].key, of[i].h);
}

void sn_auth_mask(const struct sn_sip_key *hello_key, struct sn_wire_hello *h)
{
	uint8_t *at = (uint8_t *)&h->secret;
	size_t left = sizeof(h->secret);

	for (uint64_t i = 0; left > 0; i++) {
		uint64_t w = sn_sip(hello_key, (uint64_t[]){USE_MASK, le64toh(h->session), h->h.type, i}, 4);
		for (size_t b = 0; b < 8 && left > 0; b++, left--)
			*at++ ^= (uint8_t)(w >> (8 * b));
	}
}
