/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/bypass.h"
#include "base/base.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LINE 64u

void sn_copy_bypass(void *to, const void *from, size_t len)
{
#ifdef __SSE2__
	size_t head =
		SN_MIN_OF(-(uintptr_t)to % LINE, len); /* whole lines: else each costs a read and a write */
	memcpy(to, from, head);
	char *at = (char *)to + head;
	const char *in = (const char *)from + head;
	size_t lines = (len - head) / LINE;
	for (size_t i = 0; i < lines; i++, at += LINE, in += LINE) {
		__m128i v[4];
		for (unsigned k = 0; k < 4; k++)
			v[k] = _mm_loadu_si128((const __m128i *)(const void *)in + k);
		for (unsigned k = 0; k < 4; k++)
			_mm_stream_si128((__m128i *)(void *)at + k, v[k]);
	}
	memcpy(at, in, (len - head) % LINE);
	_mm_sfence(); /* else they may become visible after what says that they are there */
#else
	memcpy(to, from, len);
#endif
}
