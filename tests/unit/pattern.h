/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the bytes of a message are, by its number. They are written and compared by memcpy() and memcmp() of pieces:
 * so the sanitizers see all bytes of a buffer, but not one by one.
 */
#ifndef TEST_PATTERN_H
#define TEST_PATTERN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PATTERN_PIECE 256u

static inline uint8_t pattern(uint64_t number, uint64_t at)
{
	uint64_t x = number * 0x9e3779b97f4a7c15u + at;

	return (uint8_t)(x ^ (x >> 7) ^ (x >> 29));
}

__attribute__((no_sanitize_thread, no_sanitize_address)) static inline uint64_t pattern_piece(uint8_t *piece,
											      uint64_t number,
											      uint64_t from,
											      uint64_t len)
{
	uint64_t n = len - from < PATTERN_PIECE ? len - from : PATTERN_PIECE;

	for (uint64_t i = 0; i < n; i++)
		piece[i] = pattern(number, from + i);
	return n;
}

static inline void pattern_fill(void *to, uint64_t len, uint64_t number)
{
	uint8_t piece[PATTERN_PIECE];

	for (uint64_t at = 0, n; at < len; at += n) {
		n = pattern_piece(piece, number, at, len);
		memcpy((uint8_t *)to + at, piece, n);
	}
}

/* If not: says where. */
static inline bool pattern_holds(const void *buf, uint64_t len, uint64_t number)
{
	const uint8_t *at = buf;
	uint8_t piece[PATTERN_PIECE];

	for (uint64_t from = 0, n; from < len; from += n) {
		n = pattern_piece(piece, number, from, len);
		if (memcmp(at + from, piece, n) == 0)
			continue;
		uint64_t i = 0;
		while (at[from + i] == piece[i])
			i++;
		fprintf(stderr, "message %llu, byte %llu of %llu: %u, not %u\n", (unsigned long long)number,
			(unsigned long long)(from + i), (unsigned long long)len, at[from + i], piece[i]);
		return false;
	}
	return true;
}

#endif
