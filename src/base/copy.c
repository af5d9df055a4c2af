/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between processes: by which instructions. The library in front of the MPI has them, too, so they need nothing of
 * base.c.
 */
#include "base/base.h"
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

#ifdef __x86_64__
/* Each by its name: of an array gcc 12 makes halves. */
static inline __attribute__((target("avx2"))) void copy_two_lines(char *to, const char *from)
{
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)from),
		b = _mm256_loadu_si256((const __m256i *)(const void *)from + 1),
		c = _mm256_loadu_si256((const __m256i *)(const void *)from + 2),
		d = _mm256_loadu_si256((const __m256i *)(const void *)from + 3);
	_mm256_storeu_si256((__m256i *)(void *)to, a);
	_mm256_storeu_si256((__m256i *)(void *)to + 1, b);
	_mm256_storeu_si256((__m256i *)(void *)to + 2, c);
	_mm256_storeu_si256((__m256i *)(void *)to + 3, d);
}
#endif

/*
 * Lines that another core has are where copies between processes go. A loop of stores fetches each line before it
 * writes it, which takes two to three times as long as the copy if that core shares no cache with this one; rep movsb
 * does not fetch lines that it writes as a whole. The C library takes it or not by thresholds of its own: up to 2.38
 * not beyond the size of the second-level cache on AMD processors, and from 2.39 on never there.
 *
 * Where it writes up to 15 bytes behind what it reads within a page, on Zen 3 up to 31, on AMD since then it is some 20
 * times slower, in the C library and the kernel, too (bug 30994 of glibc): 2.1 GB/s in place of 50, measured on both;
 * rep movsq 18, a loop of wide loads and stores 41 to 60, of 16 bytes 25. A large block of the C library's begins 16
 * bytes behind a page, so to copy into it what begins with one is to stumble there. So a loop it is, wherever that is so
 * on any processor. Sanitizers do not see what these instructions read; and places that overlap are left to the C
 * library: what is wrong of a program that sends to itself comes to no harm by it here.
 */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                \
	!defined(SANITIZED)
static bool strings; /* the processor says that these instructions are fast */
static bool wide_lines;
static unsigned trips = SN_COPY_TRIPS / 2;

static void __attribute__((constructor)) look_for_strings(void)
{
	uint32_t a, b, c, d;
	strings = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 9;
	__builtin_cpu_init();
	wide_lines = __builtin_cpu_supports("avx2");
	if (__builtin_cpu_is("znver3"))
		trips = SN_COPY_TRIPS;
}

static inline void by_strings(void *to, const void *from, size_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

bool sn_copy_by_strings(void *to, const void *from, size_t n)
{
	if (strings)
		by_strings(to, from, n);
	return strings;
}

static __attribute__((target("avx2"))) void by_wide_lines(char *to, const char *from, size_t n)
{
	for (; n >= 128; n -= 128, to += 128, from += 128)
		copy_two_lines(to, from);
	memcpy(to, from, n);
}

static void by_lines(char *to, const char *from, size_t n)
{
	for (; n >= 64; n -= 64, to += 64, from += 64) {
		__m128i v[4];
		for (int k = 0; k < 4; k++)
			v[k] = _mm_loadu_si128((const __m128i *)(const void *)from + k);
		for (int k = 0; k < 4; k++)
			_mm_storeu_si128((__m128i *)(void *)to + k, v[k]);
	}
	memcpy(to, from, n);
}

void sn_copy_strings(void *to, const void *from, size_t n)
{
	bool apart = (uintptr_t)to - (uintptr_t)from >= n;
	unsigned behind = sn_copy_behind(to, from);
	if (sn_unlikely(apart && behind && behind < trips))
		(wide_lines ? by_wide_lines : by_lines)(to, from, n);
	else if (sn_likely(apart && strings && n >= SN_COPY_LONG))
		by_strings(to, from, n);
	else
		memcpy(to, from, n);
}
#else
void sn_copy_strings(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
}

bool sn_copy_by_strings(void *to, const void *from, size_t n)
{
	(void)to, (void)from, (void)n;
	return false;
}
#endif

/*
 * Out of lines that another core has written. rep movsb begins slowly and asks for few of them at a time; what a loop
 * asks for depends on the processor. On an AMD one it is ahead where the lines that it writes are there already (else
 * 4 KiB took 1.16 times as long), not for more than two pages, and with the widest loads, as those ask for a line
 * each. An Intel one has a lower clock for some time after such loads, and all that the process does with it: 4 KiB
 * through the ring took 1.15 times as long, 8 KiB 1.2 times. There it is narrower loads with the lines asked for
 * ahead, read and to be written, of any length: 8 to 32 KiB to where nothing is in the cache took 0.73 to 0.86 of rep
 * movsb's time, to where it is 0.93 to 0.98.
 */
#define WIDE_MOST  8192u
#define LOOP_STEP  256u
#define LOOP_AHEAD 1024u

#ifdef __x86_64__
static bool wide, loops;

static void __attribute__((constructor)) look_for_wide_loads(void)
{
	__builtin_cpu_init();
	loops = __builtin_cpu_is("intel") && __builtin_cpu_supports("avx2");
	wide = !loops && __builtin_cpu_supports("avx512f");
}

static void __attribute__((target("avx512f"))) copy_wide(char *to, const char *from, size_t n)
{
	for (; n >= LOOP_STEP; n -= LOOP_STEP, to += LOOP_STEP, from += LOOP_STEP) {
		__m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + 64),
			c = _mm512_loadu_si512(from + 128), d = _mm512_loadu_si512(from + 192);
		_mm512_storeu_si512(to, a);
		_mm512_storeu_si512(to + 64, b);
		_mm512_storeu_si512(to + 128, c);
		_mm512_storeu_si512(to + 192, d);
	}
	memcpy(to, from, n);
}

static inline void ask(char *to, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i += SN_LINE) {
		__builtin_prefetch(from + i);
		sn_line_own(to + i);
	}
}

static void __attribute__((target("avx2"))) copy_ahead(char *to, const char *from, size_t n)
{
	ask(to, from, SN_MIN_OF(n, (size_t)LOOP_AHEAD));
	for (; n >= LOOP_STEP; n -= LOOP_STEP, to += LOOP_STEP, from += LOOP_STEP) {
		if (n > LOOP_AHEAD)
			ask(to + LOOP_AHEAD, from + LOOP_AHEAD, SN_MIN_OF(n - LOOP_AHEAD, (size_t)LOOP_STEP));
		copy_two_lines(to, from);
		copy_two_lines(to + LOOP_STEP / 2, from + LOOP_STEP / 2);
	}
	memcpy(to, from, n);
}

bool sn_copy_asks_ahead(void)
{
	return loops;
}

void sn_copy_home(void *to, const void *from, size_t n, bool again)
{
	if (sn_likely(loops && n >= SN_COPY_MEDIUM))
		copy_ahead(to, from, n);
	else if (again && wide && n >= SN_COPY_MEDIUM && n <= WIDE_MOST)
		copy_wide(to, from, n);
	else
		sn_copy_between(to, from, n);
}
#else
bool sn_copy_asks_ahead(void)
{
	return false;
}

void sn_copy_home(void *to, const void *from, size_t n, bool again)
{
	(void)again;
	sn_copy_between(to, from, n);
}
#endif

/*
 * Each page's lines are asked for before it is written, as rep movsb asks for few at a time and stops at the end of a page.
 */
void sn_copy_away(void *to, const void *from, size_t n)
{
	while (n) {
		size_t piece = SN_MIN_OF(SN_COPY_PAGE - (uintptr_t)to % SN_COPY_PAGE, n);
		for (size_t i = 0; i < piece; i += SN_LINE)
			sn_line_own((const char *)to + i);
		sn_copy_between(to, from, piece);
		to = (char *)to + piece;
		from = (const char *)from + piece;
		n -= piece;
	}
}
