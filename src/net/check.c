/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/check.h"
#include <endian.h>
#include <pthread.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define INLINE inline __attribute__((always_inline))

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

static bool have_portable(void)
{
	return true;
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

/*
 * Where such registers cost nothing else: an Intel processor that has them and no vpclmulqdq (before Ice Lake) lowers its clock
 * for some time after them.
 */
static bool have_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("vpclmulqdq");
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

static bool have_folding(void)
{
	return have_fast() && __builtin_cpu_supports("pclmul");
}

/*
 * Half of the lanes by products in 256-bit registers and the others by the instruction, which another unit does meanwhile: on a
 * Zen 3 a piece of 1,398 bytes takes 52 to 61 ns, by products alone 59 to 62, by the instruction alone 68 to 92, and in
 * 128-bit registers 117 to 121.
 */
#define MIXED __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.2")))

MIXED static INLINE __m256i mixed_fold(__m256i x, __m256i by, __m256i next)
{
	return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(x, by, 0x00),
						 _mm256_clmulepi64_epi128(x, by, 0x11)),
				next);
}

MIXED static INLINE __m256i mixed_factors(unsigned n)
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)fold_by[n]));
}

/* Two words of lane 0 and two of lane 2; all of the 64 bytes go to `to`, too, if that is not NULL. */
MIXED static INLINE __m256i mixed_load(const uint8_t *at, uint8_t *to)
{
	__m256i first = _mm256_loadu_si256((const void *)at),
		second = _mm256_loadu_si256((const void *)(at + 32));

	if (to) {
		_mm256_storeu_si256((void *)to, first);
		_mm256_storeu_si256((void *)(to + 32), second);
	}
	return _mm256_unpacklo_epi64(first, second);
}

/* Two words each of lane 1, which is *b, and of lane 3. */
MIXED static INLINE void mixed_words(uint64_t *b, uint64_t *d, const uint8_t *at)
{
	*b = __builtin_ia32_crc32di(*b, load_word(at + 8));
	*d = __builtin_ia32_crc32di(*d, load_word(at + 24));
	*b = __builtin_ia32_crc32di(*b, load_word(at + 40));
	*d = __builtin_ia32_crc32di(*d, load_word(at + 56));
}

MIXED static INLINE void quads_mixed(uint32_t lane[4], const uint8_t *at, size_t words, uint8_t *to)
{
	const __m256i far = mixed_factors(2), near = mixed_factors(1);
	uint64_t b = lane[1], d = lane[3];

	if (words < FOLD_LEAST) {
		quads_fast(lane, at, words, to);
		return;
	}
	__m256i x = _mm256_xor_si256(mixed_load(at, to), _mm256_set_epi64x(0, lane[2], 0, lane[0]));
	__m256i y = mixed_load(at + 64, to ? to + 64 : NULL);
	mixed_words(&b, &d, at);
	mixed_words(&b, &d, at + 64);
	for (at += 128, words -= 16; words >= 16; at += 128, words -= 16) {
		to = to ? to + 128 : NULL;
		x = mixed_fold(x, far, mixed_load(at, to));
		mixed_words(&b, &d, at);
		y = mixed_fold(y, far, mixed_load(at + 64, to ? to + 64 : NULL));
		mixed_words(&b, &d, at + 64);
	}
	to = to ? to + 128 : NULL;
	x = mixed_fold(x, near, y);
	if (words >= 8) {
		x = mixed_fold(x, near, mixed_load(at, to));
		mixed_words(&b, &d, at);
		at += 64;
		words -= 8;
		to = to ? to + 64 : NULL;
	}
	lane[0] = fold_end(_mm256_castsi256_si128(x));
	lane[1] = (uint32_t)b;
	lane[2] = fold_end(_mm256_extracti128_si256(x, 1));
	lane[3] = (uint32_t)d;
	quads_fast(lane, at, words, to);
}

static bool have_mixed(void)
{
	return have_folding() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
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

struct way {
	const char *name;
	bool (*have)(void);
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
	static const struct way name = {#name, have_##name, add_##name, end_##name, piece_##name}

WAY(portable, , word_portable, quads_portable);
#ifdef HAVE_FAST
WAY(fast, FAST, word_fast, quads_fast);
#endif
#ifdef HAVE_WIDE
WAY(folding, FOLD, word_fast, quads_fold);
WAY(mixed, MIXED, word_fast, quads_mixed);
WAY(wide, WIDE, word_fast, quads_wide);
#endif
static const struct way *const all[] = {
	&portable,
#ifdef HAVE_FAST
	&fast,
#endif
#ifdef HAVE_WIDE
	&folding,  &mixed, &wide,
#endif
};
static struct way way; /* the fastest */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Not sn_now_ns(): the module's lab takes this file alone. */
static uint64_t clock_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The least that a few pieces of a usual length take, of several times. */
static uint64_t cost_of(const struct way *w)
{
	static const uint8_t head[SN_CHECK_HEAD];
	uint8_t from[1408], to[1408];
	uint64_t least = UINT64_MAX;

	memset(from, 1, sizeof(from));
	for (int i = 0; i < 12; i++) { /* wide registers take some us to wake */
		uint64_t began = clock_ns();
		for (int j = 0; j < 4; j++)
			from[j] ^= (uint8_t)w->piece(head, from, sizeof(from), to);
		uint64_t took = clock_ns() - began;
		least = SN_MIN_OF(least, took);
	}
	return least;
}

/*
 * By measurement, within some 40 us: which is fastest is another one from one processor to the next of the same maker (the
 * instruction takes one cycle a word or several), and all give the same.
 */
static void check_init(void)
{
	uint64_t least = UINT64_MAX;

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
#ifdef HAVE_WIDE
	fold_init();
#endif
	way = portable;
	for (size_t i = 1; i < sizeof(all) / sizeof(all[0]); i++) {
		uint64_t cost = all[i]->have() ? cost_of(all[i]) : UINT64_MAX;
		if (cost < least) {
			least = cost;
			way = *all[i];
		}
	}
}

void sn_check_start(struct sn_check *c)
{
	pthread_once(&once, check_init);
	start(c);
}

void sn_check_add(struct sn_check *c, const void *bytes, size_t len)
{
	way.add(c, bytes, len);
}

uint32_t sn_check_piece(const void *head, const void *bytes, size_t len, void *to)
{
	pthread_once(&once, check_init);
	return way.piece(head, bytes, len, to);
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
	return way.end(c);
}

const char *sn_check_way(unsigned n)
{
	pthread_once(&once, check_init);
	return n < sizeof(all) / sizeof(all[0]) && all[n]->have() ? all[n]->name : NULL;
}

uint32_t sn_check_piece_by(unsigned n, const void *head, const void *bytes, size_t len, void *to)
{
	return all[n]->piece(head, bytes, len, to);
}

uint32_t sn_check_by(unsigned n, const void *bytes, size_t len)
{
	struct sn_check c;

	sn_check_start(&c);
	all[n]->add(&c, bytes, len);
	return all[n]->end(&c);
}
