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
 * Registers of 512 bits, where they cost nothing else: an Intel processor that has them and no vpclmulqdq (before Ice
 * Lake) lowers its clock for some time after them. There one hash after the other takes 28 ns each, in place of 12,
 * and streams are 2 to 4 % faster all the same.
 */
static bool have_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("vpclmulqdq");
}

/*
 * Those of a train, one in each element of 512-bit registers: a hash by itself is a chain of steps that wait for each
 * other, 21 ns on an AMD EPYC, where eight side by side take 55.
 */
typedef uint64_t sip8 __attribute__((vector_size(64)));
#define WIDE512 __attribute__((target("avx512f")))

WIDE512 static void macs_wide(uint64_t mac[SN_AUTH_MACS], const struct sn_auth_of of[SN_AUTH_MACS])
{
	uint64_t word[5][SN_AUTH_MACS], key[2][SN_AUTH_MACS];
	sip8 k[2], m, v[4];

	for (unsigned i = 0; i < SN_AUTH_MACS; i++) {
		uint64_t raw[5];
		memcpy(raw, of[i].h, sizeof(raw));
		word[0][i] = raw[0];
		for (unsigned w = 1; w < 4; w++)
			word[w][i] = raw[w + 1];
		word[4][i] = 32ULL << 56;
		key[0][i] = of[i].key->k[0];
		key[1][i] = of[i].key->k[1];
	}
	memcpy(k, key, sizeof(k));
	v[0] = k[0] ^ SIP_0;
	v[1] = k[1] ^ SIP_1;
	v[2] = k[0] ^ SIP_2;
	v[3] = k[1] ^ SIP_3;
	for (unsigned w = 0; w < 5; w++) {
		memcpy(&m, word[w], sizeof(m));
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
#endif

void sn_auth_macs(uint64_t mac[SN_AUTH_MACS], struct sn_auth_of of[SN_AUTH_MACS], unsigned count)
{
#if defined(__x86_64__)
	if (count > SN_AUTH_MACS / 3 && have_wide()) {
		for (unsigned i = count; i < SN_AUTH_MACS; i++)
			of[i] = of[0];
		macs_wide(mac, of);
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

/* ---- check ---- */

static uint32_t crc_table[8][256]; /* slicing by eight */

static INLINE uint32_t word_portable(uint32_t crc, uint64_t w)
{
	w ^= crc;
	uint32_t out = 0;
	for (int i = 0; i < 8; i++)
		out ^= crc_table[7 - i][(w >> (8 * i)) & 0xff];
	return out;
}

static INLINE uint64_t load_word(const uint8_t *at)
{
	uint64_t w;
	memcpy(&w, at, 8);
	return le64toh(w);
}

/* The `len` last bytes of a piece of `all`: a word filled up with zeros. */
static INLINE uint64_t load_part(const uint8_t *at, size_t len, size_t all)
{
	uint8_t bytes[8] = {0};

	if (sn_likely(all >= 8))
		return load_word(at + len - 8) >> (64 - 8 * len);
	memcpy(bytes, at, len);
	return load_word(bytes);
}

/* `words` full words, beginning in lane 0 and ending in lane 3; they go to `to`, too, if that is not NULL. */
static INLINE void quads_portable(uint32_t lane[4], const uint8_t *at, size_t words, uint8_t *to)
{
	if (to)
		memcpy(to, at, words * 8);
	for (size_t i = 0; i < words; i++)
		lane[i & 3] = word_portable(lane[i & 3], load_word(at + 8 * i));
}

#if defined(__x86_64__)
#define HAVE_FAST 1
#define FAST	  __attribute__((target("sse4.2")))
FAST static INLINE void quads_fast(uint32_t lane[4], const uint8_t *at, size_t words, uint8_t *to)
{
	uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];

	if (to)
		memcpy(to, at, words * 8);
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
FAST static INLINE uint32_t word_fast(uint32_t crc, uint64_t w)
{
	return (uint32_t)__builtin_ia32_crc32di(crc, w);
}
static bool have_fast(void)
{
	return __builtin_cpu_supports("sse4.2");
}

/*
 * Four lanes at once in a 512-bit register, 128 bits of each, by carry-less multiplication (Gopal and others: Fast
 * CRC computation for generic polynomials using PCLMULQDQ, 2009): three times as fast as the instruction above on
 * long pieces.
 *
 * A block of words w0, w1 of one lane is the polynomial w0 x^64 + w1, lowest bit first. D bits later it is worth w0
 * x^(D+64) + w1 x^D, and this modulo the CRC's polynomial is as good. The product of two reflected words comes out
 * one bit too high, so the factors are x^(D+63) and x^(D-1).
 */
#define HAVE_WIDE 1
#define WIDE	  __attribute__((target("avx512f,avx512bw,vpclmulqdq,sse4.2")))
#define STEP                                                                                                 \
	4 /* registers in flight: a product takes several cycles. They are memory if a loop over them is left */

static uint64_t fold_by[STEP + 1][2]; /* factors for so many registers */

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
	for (unsigned n = 1; n <= STEP; n++)
		for (unsigned i = 0; i < 2; i++)
			fold_by[n][i] = power(128 * n + (i ? 0 : 64) - 1);
}

/* Two words of each lane, side by side; the bytes go to `to`, too, if that is not NULL. */
WIDE static INLINE __m512i wide_load(const uint8_t *at, uint8_t *to)
{
	__m512i v = _mm512_loadu_si512(at);

	if (to)
		_mm512_storeu_si512(to, v);
	return _mm512_permutexvar_epi64(_mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0), v);
}

WIDE static INLINE __m512i wide_fold(__m512i x, __m512i by, __m512i next)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00),
					 _mm512_clmulepi64_epi128(x, by, 0x11), next, 0x96);
}

WIDE static INLINE __m512i wide_factors(unsigned n)
{
	return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)fold_by[n]));
}

/* The lanes of x, each as the check of all its words so far. */
WIDE static INLINE void wide_lanes(uint32_t lane[4], __m512i x)
{
	uint64_t last[8];

	_mm512_storeu_si512(last, x);
#pragma GCC unroll 4
	for (unsigned i = 0; i < 4; i++)
		lane[i] = word_fast(word_fast(0, last[2 * i]), last[2 * i + 1]);
}

WIDE static INLINE void quads_wide(uint32_t lane[4], const uint8_t *at, size_t words, uint8_t *to)
{
	const __m512i far = wide_factors(STEP), near = wide_factors(1);
	const size_t step = (size_t)64 * STEP;
	__m512i x[STEP];

	if (words < (size_t)16 * STEP) {
		quads_fast(lane, at, words, to);
		return;
	}
#pragma GCC unroll 4
	for (unsigned i = 0; i < STEP; i++)
		x[i] = wide_load(at + (size_t)64 * i, to ? to + (size_t)64 * i : NULL);
	x[0] = _mm512_xor_si512(x[0], _mm512_set_epi64(0, lane[3], 0, lane[2], 0, lane[1], 0, lane[0]));
	for (at += step, words -= step / 8; words >= step / 8; at += step, words -= step / 8) {
		to = to ? to + step : NULL;
#pragma GCC unroll 4
		for (unsigned i = 0; i < STEP; i++)
			x[i] = wide_fold(x[i], far,
					 wide_load(at + (size_t)64 * i, to ? to + (size_t)64 * i : NULL));
	}
#pragma GCC unroll 4
	for (unsigned i = 0; i + 1 < STEP; i++)
		x[STEP - 1] = wide_fold(x[i], wide_factors(STEP - 1 - i), x[STEP - 1]);
	to = to ? to + step : NULL;
	for (; words >= 8; at += 64, words -= 8, to = to ? to + 64 : NULL)
		x[STEP - 1] = wide_fold(x[STEP - 1], near, wide_load(at, to));
	wide_lanes(lane, x[STEP - 1]);
	quads_fast(lane, at, words, to);
}

/*
 * The same with a 128-bit register for each lane. On AMD's processors the instruction takes several cycles a word,
 * and the products, in another unit, half as many: pieces of 1,400 bytes 8.9 GB/s in place of 5.2 on a Zen 1. Where
 * the instruction takes one it is as fast as these.
 */
#define FOLD	   __attribute__((target("pclmul,sse4.2")))
#define FOLD_LEAST 32 /* words */

FOLD static INLINE __m128i fold(__m128i x, __m128i by, __m128i next)
{
	return _mm_xor_si128(
		_mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)), next);
}

FOLD static INLINE uint32_t fold_end(__m128i x)
{
	return word_fast(word_fast(0, (uint64_t)_mm_cvtsi128_si64(x)), (uint64_t)_mm_extract_epi64(x, 1));
}

/*
 * a to d are the lanes'; the two words of a lane lie in two of the four pieces of 16 bytes. Written out: compilers
 * leave arrays in memory.
 */
FOLD static INLINE void quads_fold(uint32_t lane[4], const uint8_t *at, size_t words, uint8_t *to)
{
	const __m128i by = _mm_loadu_si128((const void *)fold_by[1]), none = {0};
	__m128i a = none, b = none, c = none, d = none;

	if (words < FOLD_LEAST) {
		quads_fast(lane, at, words, to);
		return;
	}
	if (to)
		memcpy(to, at, words * 8);
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
	quads_fast(lane, at, words, NULL);
}

static bool have_fold(void)
{
	return __builtin_cpu_is("amd") && __builtin_cpu_supports("pclmul");
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
#define FAST WITH_CRC
FAST static INLINE uint32_t word_fast(uint32_t crc, uint64_t w)
{
	return crc32c_word(crc, w);
}
FAST static INLINE void quads_fast(uint32_t lane[4], const uint8_t *at, size_t words, uint8_t *to)
{
	if (to)
		memcpy(to, at, words * 8);
	for (; words > 0; words -= 4, at += 32)
		for (int i = 0; i < 4; i++)
			lane[i] = crc32c_word(lane[i], load_word(at + 8 * i));
}
static bool have_fast(void)
{
	return getauxval(AT_HWCAP) & HWCAP_CRC32;
}
#endif

/*
 * A piece, by the given way of one word and of many. Where the bytes are to go as well (`to`) the last of them, which
 * are not whole blocks, are copied 32 at a time: what lies there before them is the same.
 */
#define CHECK_LAST 32

static INLINE void add_by(struct sn_check *c, const uint8_t *at, size_t len, uint8_t *to,
			  uint32_t (*word)(uint32_t crc, uint64_t w),
			  void (*quads)(uint32_t lane[4], const uint8_t *at, size_t words, uint8_t *to))
{
	if (to && len < CHECK_LAST)
		memcpy(to, at, len);
	else if (to)
		memcpy(to + len - CHECK_LAST, at + len - CHECK_LAST, CHECK_LAST);
	uint32_t lane[4]; /* from the next word's on */
	const size_t all = len;

#pragma GCC unroll 4
	for (unsigned i = 0; i < 4; i++)
		lane[i] = c->lane[(c->next + i) & 3];
	size_t bulk = len / 32 * 4;
	quads(lane, at, bulk, to);
	at += bulk * 8;
	len -= bulk * 8;
#pragma GCC unroll 4
	for (unsigned i = 0; i < 4; i++)
		if (len > 8 * i)
			lane[i] = word(lane[i], len >= 8 * (i + 1) ? load_word(at + 8 * i)
								   : load_part(at + 8 * i, len - 8 * i, all));
#pragma GCC unroll 4
	for (unsigned k = 0; k < 4; k++)
		c->lane[(c->next + k) & 3] = lane[k];
	c->next = (c->next + (unsigned)(len + 7) / 8) & 3;
}

static INLINE uint32_t end_by(const struct sn_check *c, uint32_t (*word)(uint32_t crc, uint64_t w))
{
	uint32_t crc = word(UINT32_MAX, (uint64_t)c->lane[1] << 32 | c->lane[0]);
	return word(crc, (uint64_t)c->lane[3] << 32 | c->lane[2]);
}

static INLINE void start(struct sn_check *c)
{
	memset(c->lane, 0xff, sizeof(c->lane));
	c->next = 0;
}

struct check_ways {
	void (*add)(struct sn_check *c, const uint8_t *at, size_t len);
	uint32_t (*end)(const struct sn_check *c);
	/* All of it in one go, as then the lanes are registers from the beginning to the end. */
	uint32_t (*piece)(const uint8_t *head, const uint8_t *at, size_t len, uint8_t *to);
};

/* A way: one function for each of these, compiled for the processor that has it. */
#define WAY(name, target, word, quads)                                                                       \
	target static void add_##name(struct sn_check *c, const uint8_t *at, size_t len)                     \
	{                                                                                                    \
		add_by(c, at, len, NULL, word, quads);                                                       \
	}                                                                                                    \
	target static uint32_t end_##name(const struct sn_check *c)                                          \
	{                                                                                                    \
		return end_by(c, word);                                                                      \
	}                                                                                                    \
	target static uint32_t piece_##name(const uint8_t *head, const uint8_t *at, size_t len, uint8_t *to) \
	{                                                                                                    \
		struct sn_check c;                                                                           \
		start(&c);                                                                                   \
		add_by(&c, head, SN_CHECK_HEAD, NULL, word, quads);                                          \
		if (to)                                                                                      \
			add_by(&c, at, len, to, word, quads);                                                \
		else                                                                                         \
			add_by(&c, at, len, NULL, word, quads);                                              \
		return end_by(&c, word);                                                                     \
	}                                                                                                    \
	static const struct check_ways name = {add_##name, end_##name, piece_##name}

WAY(portable, , word_portable, quads_portable);
#ifdef HAVE_FAST
WAY(fast, FAST, word_fast, quads_fast);
#endif
#ifdef HAVE_WIDE
WAY(folding, FOLD, word_fast, quads_fold);
WAY(wide, WIDE, word_fast, quads_wide);
#endif
static struct check_ways ways = {add_portable, end_portable, piece_portable};
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
		ways = fast;
#endif
#ifdef HAVE_WIDE
	fold_init();
	if (have_fast() && have_fold())
		ways = folding;
	if (have_fast() && have_wide())
		ways = wide;
#endif
}

void sn_check_start(struct sn_check *c)
{
	pthread_once(&once, check_init);
	start(c);
}

void sn_check_add(struct sn_check *c, const void *bytes, size_t len)
{
	ways.add(c, bytes, len);
}

uint32_t sn_check_piece(const void *head, const void *bytes, size_t len, void *to)
{
	pthread_once(&once, check_init);
	return ways.piece(head, bytes, len, to);
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
	return ways.end(c);
}

uint32_t sn_check_portable(const void *bytes, size_t len)
{
	struct sn_check c;

	sn_check_start(&c);
	portable.add(&c, bytes, len);
	return portable.end(&c);
}
