/* SPDX-License-Identifier: BSD-3-Clause */
/* Huge pages are asked for where long blocks are, and never for what a short one has a part of. */
#include "unit.h"

#include "heap.h"
#include "heap_pieces.h"
#include <sys/mman.h>

#define MIB    ((size_t)1 << 20)
#define PIECES 512

static char base[1]; /* of which nothing but addresses are taken */
static bool asked[PIECES];
static int calls, refused;

int sn_heap_advise(void *at, size_t bytes, int advice)
{
	size_t from = (size_t)((uintptr_t)at - (uintptr_t)base);
	assert_int_equal(advice, MADV_HUGEPAGE);
	assert_true(bytes && from % SN_PIECE == 0 && bytes % SN_PIECE == 0 &&
		    from + bytes <= PIECES * SN_PIECE);
	calls++;
	if (refused)
		return -1;
	for (size_t i = from / SN_PIECE; i < (from + bytes) / SN_PIECE; i++) {
		assert_false(asked[i]);
		asked[i] = true;
	}
	return 0;
}

static size_t count(void)
{
	size_t n = 0;
	for (size_t i = 0; i < PIECES; i++)
		n += asked[i];
	return n;
}

static void begin(struct sn_pieces *p, size_t most)
{
	memset(asked, 0, sizeof(asked));
	calls = refused = 0;
	assert_true(sn_pieces_begin(p, base, PIECES * SN_PIECE, most));
}

static void short_blocks_ask_for_none(void **state)
{
	struct sn_pieces p;
	begin(&p, PIECES * SN_PIECE / 2);
	for (size_t at = 0; at + 2 * MIB < PIECES * SN_PIECE; at += 2 * MIB - 4096)
		sn_pieces_block(&p, at, 2 * MIB - 4096);
	assert_int_equal(calls, 0);
	sn_pieces_end(&p);
}

static void a_long_one_asks_for_what_is_its_own(void **state)
{
	struct sn_pieces p;
	begin(&p, PIECES * SN_PIECE / 2);
	sn_pieces_block(&p, 1 * MIB, 2 * MIB); /* half of two */
	assert_int_equal(calls, 0);
	sn_pieces_block(&p, 9 * MIB, 4 * MIB);
	assert_true(asked[5] && count() == 1);
	sn_pieces_block(&p, 13 * MIB, 3 * MIB); /* behind it: what they share, too */
	assert_true(asked[6] && asked[7] && count() == 3);
	sn_pieces_block(&p, 9 * MIB, 12 * MIB); /* the first has grown, the second is gone */
	assert_true(asked[8] && asked[9] && count() == 5);
	int before = calls;
	sn_pieces_block(&p, 8 * MIB + 4096, 12 * MIB);
	assert_int_equal(calls, before);
	sn_pieces_end(&p);
}

static void no_more_ask_than_may(void **state)
{
	struct sn_pieces p;
	begin(&p, 10 * SN_PIECE);
	sn_pieces_block(&p, 0, 11 * SN_PIECE);
	assert_int_equal(count(), 0);
	sn_pieces_block(&p, 0, 7 * SN_PIECE);
	sn_pieces_block(&p, 20 * SN_PIECE, 3 * SN_PIECE);
	sn_pieces_block(&p, 30 * SN_PIECE, SN_PIECE);
	assert_int_equal(count(), 10);
	sn_pieces_end(&p);
	begin(&p, 10 * SN_PIECE);
	refused = 1;
	sn_pieces_block(&p, 0, 7 * SN_PIECE);
	refused = 0;
	sn_pieces_block(&p, 0, 7 * SN_PIECE);
	assert_int_equal(count(), 7);
	sn_pieces_end(&p);
	begin(&p, 0);
	sn_pieces_block(&p, 0, 7 * SN_PIECE);
	assert_int_equal(calls, 0);
	sn_pieces_end(&p);
}

static void where_all_may_all_do_at_once(void **state)
{
	struct sn_pieces p;
	begin(&p, PIECES * SN_PIECE);
	assert_int_equal(count(), PIECES);
	sn_pieces_block(&p, 9 * MIB, 40 * MIB);
	assert_int_equal(calls, 1);
	sn_pieces_end(&p);
}

/* Blocks that stay, anywhere: whatever asks lies in one that is long, or in two. */
static void nothing_asks_that_a_short_block_is_in(void **state)
{
	enum { UNITS = PIECES * 8 }; /* of 256 KiB */
	static uint8_t in[UNITS];    /* 1: a short block, 2: a long one */
	uint64_t seed = 20261130;
	struct sn_pieces p;
	begin(&p, PIECES * SN_PIECE - SN_PIECE);
	for (int i = 0; i < 20000; i++) {
		size_t n = 1 + unit_random(&seed) % 40, at = unit_random(&seed) % (UNITS - n);
		bool free = true;
		for (size_t k = at; k < at + n; k++)
			free &= !in[k];
		if (!free)
			continue;
		memset(&in[at], n < 8 ? 1 : 2, n);
		sn_pieces_block(&p, at * 256 * 1024, n * 256 * 1024);
		for (size_t k = 0; k < UNITS; k++)
			assert_true(!asked[k / 8] || in[k] == 2);
	}
	assert_true(count() > PIECES / 8);
	sn_pieces_end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(short_blocks_ask_for_none),
					   cmocka_unit_test(a_long_one_asks_for_what_is_its_own),
					   cmocka_unit_test(no_more_ask_than_may),
					   cmocka_unit_test(where_all_may_all_do_at_once),
					   cmocka_unit_test(nothing_asks_that_a_short_block_is_in)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
