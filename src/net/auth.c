/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/auth.h"
#include <pthread.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

/* ---- SipHash-2-4 (Aumasson, Bernstein: SipHash: a fast short-input PRF, 2012) ---- */

#define ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = ROTL(v[1], 13) ^ v[0];
	v[0] = ROTL(v[0], 32);
	v[2] += v[3];
	v[3] = ROTL(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = ROTL(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = ROTL(v[1], 17) ^ v[2];
	v[2] = ROTL(v[2], 32);
}

uint64_t sn_sip(const struct sn_sip_key *key, const uint64_t *words, unsigned count)
{
	uint64_t v[4] = {key->k[0] ^ 0x736f6d6570736575u, key->k[1] ^ 0x646f72616e646f6du,
			 key->k[0] ^ 0x6c7967656e657261u, key->k[1] ^ 0x7465646279746573u};

	for (unsigned i = 0; i <= count; i++) {
		uint64_t m = i < count ? words[i] : (uint64_t)(count * 8 & 0xff) << 56;
		v[3] ^= m;
		sip_round(v);
		sip_round(v);
		v[0] ^= m;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
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
	return sn_sip(key, w, 4);
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

/* ---- check ---- */

static uint32_t crc_table[8][256]; /* slicing by eight */

static uint32_t word_portable(uint32_t crc, uint64_t w)
{
	w ^= crc;
	uint32_t out = 0;
	for (int i = 0; i < 8; i++)
		out ^= crc_table[7 - i][(w >> (8 * i)) & 0xff];
	return out;
}

static uint64_t load_word(const uint8_t *at)
{
	uint64_t w;
	memcpy(&w, at, 8);
	return le64toh(w);
}

/* `words` full words, beginning in lane 0 and ending in lane 3. */
static void quads_portable(uint32_t lane[4], const uint8_t *at, size_t words)
{
	for (size_t i = 0; i < words; i++)
		lane[i & 3] = word_portable(lane[i & 3], load_word(at + 8 * i));
}

#if defined(__x86_64__)
#define HAVE_FAST 1
__attribute__((target("sse4.2"))) static void quads_fast(uint32_t lane[4], const uint8_t *at, size_t words)
{
	uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];

	for (; words > 0; words -= 4, at += 32) {
		a = __builtin_ia32_crc32di(a, load_word(at));
		b = __builtin_ia32_crc32di(b, load_word(at + 8));
		c = __builtin_ia32_crc32di(c, load_word(at + 16));
		d = __builtin_ia32_crc32di(d, load_word(at + 24));
	}
	lane[0] = (uint32_t)a;
	lane[1] = (uint32_t)b;
	lane[2] = (uint32_t)c;
	lane[3] = (uint32_t)d;
}
__attribute__((target("sse4.2"))) static uint32_t word_fast(uint32_t crc, uint64_t w)
{
	return (uint32_t)__builtin_ia32_crc32di(crc, w);
}
static bool have_fast(void)
{
	return __builtin_cpu_supports("sse4.2");
}

/*
 * Four lanes at once in a 512-bit register, 128 bits of each, by carry-less multiplication (Gopal and others: Fast CRC computation
 * for generic polynomials using PCLMULQDQ, 2009): three times as fast as the instruction above on long pieces.
 *
 * A block of words w0, w1 of one lane is the polynomial w0 x^64 + w1, lowest bit first. D bits later it is worth
 * w0 x^(D+64) + w1 x^D, and this modulo the CRC's polynomial is as good. The product of two reflected words comes out one bit too
 * high, so the factors are x^(D+63) and x^(D-1).
 */
#define HAVE_WIDE 1
#define WIDE	  __attribute__((target("avx512f,avx512bw,vpclmulqdq,sse4.2")))
#define STEP	  4 /* registers in flight: a product takes several cycles */

static uint64_t fold_step[2], fold_next[2]; /* factors for STEP registers and for one */

/* x^n modulo the polynomial, reflected into the high half of a word. */
static uint64_t power(unsigned n)
{
	uint32_t c = 0x80000000u; /* 1 */

	while (n-- > 0)
		c = (c >> 1) ^ (c & 1 ? 0x82f63b78u : 0);
	return (uint64_t)c << 32;
}

static void fold_init(void)
{
	for (unsigned i = 0; i < 2; i++) {
		fold_step[i] = power(128 * STEP + (i ? 0 : 64) - 1);
		fold_next[i] = power(128 + (i ? 0 : 64) - 1);
	}
}

/* Two words of each lane, side by side. */
WIDE static inline __m512i wide_load(const uint8_t *at)
{
	return _mm512_permutexvar_epi64(_mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0), _mm512_loadu_si512(at));
}

WIDE static inline __m512i wide_fold(__m512i x, __m512i by, __m512i next)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00),
					 _mm512_clmulepi64_epi128(x, by, 0x11), next, 0x96);
}

WIDE static __m512i wide_factors(const uint64_t f[2])
{
	return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)f[1], (long long)f[0]));
}

WIDE static void quads_wide(uint32_t lane[4], const uint8_t *at, size_t words)
{
	const __m512i far = wide_factors(fold_step), near = wide_factors(fold_next);
	__m512i x[STEP];
	uint64_t last[8];

	if (words < (size_t)16 * STEP) {
		quads_fast(lane, at, words);
		return;
	}
	for (unsigned i = 0; i < STEP; i++, at += 64, words -= 8)
		x[i] = wide_load(at);
	x[0] = _mm512_xor_si512(x[0], _mm512_set_epi64(0, lane[3], 0, lane[2], 0, lane[1], 0, lane[0]));
	for (; words >= (size_t)8 * STEP; at += (size_t)64 * STEP, words -= (size_t)8 * STEP)
		for (unsigned i = 0; i < STEP; i++)
			x[i] = wide_fold(x[i], far, wide_load(at + (size_t)64 * i));
	for (unsigned i = 1; i < STEP; i++)
		x[0] = wide_fold(x[0], near, x[i]);
	for (; words >= 8; at += 64, words -= 8)
		x[0] = wide_fold(x[0], near, wide_load(at));
	_mm512_storeu_si512(last, x[0]);
	for (unsigned i = 0; i < 4; i++)
		lane[i] = word_fast(word_fast(0, last[2 * i]), last[2 * i + 1]);
	quads_fast(lane, at, words);
}

/*
 * The same with a 128-bit register for each lane. On AMD's processors the instruction takes several cycles a
 * word, and the products, in another unit, half as many: pieces of 1,400 bytes 8.9 GB/s in place of 5.2 on a Zen 1. Where the instruction
 * takes one it is as fast as these.
 */
#define FOLD	   __attribute__((target("pclmul,sse4.2")))
#define FOLD_LEAST 32 /* words */

FOLD static inline __m128i fold(__m128i x, __m128i by, __m128i next)
{
	return _mm_xor_si128(
		_mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)), next);
}

FOLD static uint32_t fold_end(__m128i x)
{
	return word_fast(word_fast(0, (uint64_t)_mm_cvtsi128_si64(x)), (uint64_t)_mm_extract_epi64(x, 1));
}

/* a to d are the lanes'; the two words of a lane lie in two of the four pieces of 16 bytes. Written out: compilers leave arrays in memory. */
FOLD static void quads_fold(uint32_t lane[4], const uint8_t *at, size_t words)
{
	const __m128i by = _mm_set_epi64x((long long)fold_next[1], (long long)fold_next[0]), none = {0};
	__m128i a = none, b = none, c = none, d = none;

	if (words < FOLD_LEAST) {
		quads_fast(lane, at, words);
		return;
	}
	__m128i first = _mm_set_epi64x(lane[1], lane[0]), second = _mm_set_epi64x(lane[3], lane[2]);
	for (; words >= 8; at += 64, words -= 8) {
		const __m128i *p = (const void *)at;
		__m128i v0 = _mm_xor_si128(_mm_loadu_si128(p), first);
		__m128i v1 = _mm_xor_si128(_mm_loadu_si128(p + 1), second);
		__m128i v2 = _mm_loadu_si128(p + 2), v3 = _mm_loadu_si128(p + 3);
		a = fold(a, by, _mm_unpacklo_epi64(v0, v2));
		b = fold(b, by, _mm_unpackhi_epi64(v0, v2));
		c = fold(c, by, _mm_unpacklo_epi64(v1, v3));
		d = fold(d, by, _mm_unpackhi_epi64(v1, v3));
		first = second = none;
	}
	lane[0] = fold_end(a);
	lane[1] = fold_end(b);
	lane[2] = fold_end(c);
	lane[3] = fold_end(d);
	quads_fast(lane, at, words);
}

static bool have_fold(void)
{
	return __builtin_cpu_is("amd") && __builtin_cpu_supports("pclmul");
}

static bool have_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("vpclmulqdq");
}
#elif defined(__aarch64__)
#define HAVE_FAST 1
#if defined(__clang__)
#define crc32c_word __builtin_arm_crc32cd
#define WITH_CRC    __attribute__((target("crc")))
#else
#define crc32c_word __builtin_aarch64_crc32cx
#define WITH_CRC    __attribute__((target("+crc")))
#endif
WITH_CRC static uint32_t word_fast(uint32_t crc, uint64_t w)
{
	return crc32c_word(crc, w);
}
WITH_CRC static void quads_fast(uint32_t lane[4], const uint8_t *at, size_t words)
{
	for (; words > 0; words -= 4, at += 32)
		for (int i = 0; i < 4; i++)
			lane[i] = crc32c_word(lane[i], load_word(at + 8 * i));
}
static bool have_fast(void)
{
	return getauxval(AT_HWCAP) & HWCAP_CRC32;
}
#endif

struct check_ways { /* of one word, and of many */
	uint32_t (*word)(uint32_t crc, uint64_t w);
	void (*quads)(uint32_t lane[4], const uint8_t *at, size_t words);
};
static const struct check_ways portable = {word_portable, quads_portable};
static struct check_ways ways = {word_portable, quads_portable};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void check_init(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int b = 0; b < 8; b++)
			c = (c >> 1) ^ (c & 1 ? 0x82f63b78u : 0);
		crc_table[0][i] = c;
	}
	for (int t = 1; t < 8; t++)
		for (uint32_t i = 0; i < 256; i++)
			crc_table[t][i] =
				(crc_table[t - 1][i] >> 8) ^ crc_table[0][crc_table[t - 1][i] & 0xff];
#ifdef HAVE_FAST
	if (have_fast())
		ways = (struct check_ways){word_fast, quads_fast};
#endif
#ifdef HAVE_WIDE
	fold_init();
	if (have_fast() && have_fold())
		ways.quads = quads_fold;
	if (have_fast() && have_wide())
		ways.quads = quads_wide;
#endif
}

void sn_check_start(struct sn_check *c)
{
	pthread_once(&once, check_init);
	memset(c->lane, 0xff, sizeof(c->lane));
	c->next = 0;
}

static void check_words(struct sn_check *c, const uint8_t *at, size_t len, const struct check_ways *by)
{
	for (; c->next != 0 && len >= 8; at += 8, len -= 8) {
		c->lane[c->next] = by->word(c->lane[c->next], load_word(at));
		c->next = (c->next + 1) & 3;
	}
	size_t bulk = len / 32 * 4;
	by->quads(c->lane, at, bulk);
	at += bulk * 8;
	len -= bulk * 8;
	while (len > 0) {
		uint8_t last[8] = {0};
		size_t n = SN_MIN_OF(len, (size_t)8);
		memcpy(last, at, n);
		c->lane[c->next] = by->word(c->lane[c->next], load_word(last));
		c->next = (c->next + 1) & 3;
		at += n;
		len -= n;
	}
}

static uint32_t check_end(const struct sn_check *c, const struct check_ways *by)
{
	uint32_t crc = by->word(UINT32_MAX, (uint64_t)c->lane[1] << 32 | c->lane[0]);
	return by->word(crc, (uint64_t)c->lane[3] << 32 | c->lane[2]);
}

void sn_check_add(struct sn_check *c, const void *bytes, size_t len)
{
	check_words(c, bytes, len, &ways);
}

void sn_check_pieces(struct sn_check *c, const struct iovec *iov, uint32_t count)
{
	uint8_t word[8];
	size_t have = 0; /* bytes of a word that lies across pieces */

	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *at = iov[i].iov_base;
		size_t len = iov[i].iov_len, n = have ? SN_MIN_OF(8 - have, len) : 0;
		memcpy(word + have, at, n);
		have += n;
		at += n;
		len -= n;
		if (have == 8) {
			sn_check_add(c, word, 8);
			have = 0;
		}
		if (len >= 8)
			sn_check_add(c, at, len & ~(size_t)7);
		if (have == 0 && len % 8) {
			have = len % 8;
			memcpy(word, at + (len & ~(size_t)7), have);
		}
	}
	if (have)
		sn_check_add(c, word, have);
}

uint32_t sn_check_end(const struct sn_check *c)
{
	return check_end(c, &ways);
}

uint32_t sn_check_portable(const void *bytes, size_t len)
{
	struct sn_check c;

	sn_check_start(&c);
	check_words(&c, bytes, len, &portable);
	return check_end(&c, &portable);
}
