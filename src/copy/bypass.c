/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/bypass.h"
#include "base/base.h"
#ifdef __SSE2__
#include <cpuid.h>
#include <immintrin.h>
#endif

#define LINE  64u
#define AHEAD 512 /* bytes; asking beyond the end harms nobody */

#ifdef __SSE2__
static inline void line(char *to, const char *from)
{
	__m128i v[4];
	__builtin_prefetch(from + AHEAD);
	for (unsigned k = 0; k < 4; k++)
		v[k] = _mm_loadu_si128((const __m128i *)(const void *)from + k);
	for (unsigned k = 0; k < 4; k++)
		_mm_stream_si128((__m128i *)(void *)to + k, v[k]);
}
#endif

void sn_copy_bypass(void *to, const void *from, size_t len)
{
#ifdef __SSE2__
	size_t head =
		SN_MIN_OF(-(uintptr_t)to % LINE, len); /* whole lines: else each costs a read and a write */
	memcpy(to, from, head);
	char *at = (char *)to + head;
	const char *in = (const char *)from + head;
	size_t left = len - head;
	/*
	 * Line after line: with four pages abreast, a tenth faster on an Intel machine, an AMD one was 3 to 10 times
	 * slower.
	 */
	for (; left >= LINE; left -= LINE, at += LINE, in += LINE)
		line(at, in);
	memcpy(at, in, left);
	_mm_sfence(); /* else they may become visible after what says that they are there */
#else
	memcpy(to, from, len);
#endif
}

#ifdef __SSE2__
bool sn_copy_gives_back(void)
{
	static _Atomic signed char can; /* 0: not asked yet */
	signed char now = atomic_load_explicit(&can, memory_order_relaxed);
	unsigned a, b = 0, c, d;
	if (sn_likely(now))
		return now > 0;
	now = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_CLFLUSHOPT ? 1 : -1;
	atomic_store_explicit(&can, now, memory_order_relaxed);
	return now > 0;
}

__attribute__((target("clflushopt"))) void sn_copy_give_back(const void *at, size_t len)
{
	if (!sn_copy_gives_back())
		return;
	for (uintptr_t line = (uintptr_t)at & ~(uintptr_t)(LINE - 1); line < (uintptr_t)at + len;
	     line += LINE)
		_mm_clflushopt((void *)line);
}
#else
bool sn_copy_gives_back(void)
{
	return false;
}

void sn_copy_give_back(const void *at, size_t len)
{
	(void)at;
	(void)len;
}
#endif
