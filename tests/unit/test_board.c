/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The board by itself: the oldest fitting receive is claimed, one newer than what was read of the board is not, also
 * where the serials, of which a slot holds 40 bits, begin anew. Under concurrency the model (tests/model/board.pml)
 * has it.
 */
#include "local/board.h"
#include "unit.h"

#define ME 77

static struct sn_board *board;
static char memory[8][16];

static int setup(void **state)
{
	board = calloc(1, SN_BOARD_BYTES);
	return !board;
}

static int teardown(void **state)
{
	free(board);
	return 0;
}

static int post(uint64_t serial, uint64_t bits)
{
	struct iovec iov = {memory[bits & 7], sizeof(memory[0])};
	return sn_board_post(board, serial, 0, bits, 7, &iov, 1, sizeof(memory[0]), 0, 0);
}

/* Slots are used lowest first: take the first ones off, so that age and place differ. */
static void in_order_from(uint64_t first)
{
	struct sn_board_claim c;
	int slot[8];
	for (uint64_t k = 0; k < 8; k++)
		slot[k] = post(first + k, 5);
	for (unsigned k = 0; k < 4; k++)
		assert_true(sn_board_take(board, slot[k], first + k));
	for (uint64_t k = 8; k < 12; k++)
		assert_in_range(post(first + k, 5), 0, 3);
	for (uint64_t k = 4; k < 12; k++) {
		assert_true(sn_board_claim(board, ME, 5, &c));
		assert_int_equal(c.serial, (first + k) & SN_BOARD_AGES);
		assert_true(sn_board_claimed_by(board, c.slot, first + k, ME));
		sn_board_clear(board, c.slot);
	}
	assert_false(sn_board_claim(board, ME, 5, &c));
}

static void the_oldest_is_claimed(void **state)
{
	in_order_from(0);
	in_order_from(1000);
}

static void the_oldest_is_claimed_where_serials_begin_anew(void **state)
{
	for (uint64_t before = 1; before < 14; before++)
		in_order_from(SN_BOARD_AGES + 1 - before);
	in_order_from(3 * (SN_BOARD_AGES + 1) - 6);
}

/* An older one may have appeared in a slot that was already passed. */
static void newer_than_what_was_read_is_left(void **state)
{
	static const uint64_t at[] = {10, SN_BOARD_AGES, SN_BOARD_AGES + 1, SN_BOARD_AGES + 2};
	struct sn_board_claim c;
	for (unsigned k = 0; k < sizeof(at) / sizeof(at[0]); k++) {
		int slot = post(at[k], 3);
		for (uint64_t less = 0; less < 3; less++) {
			atomic_store(&board->shown, at[k] - less);
			assert_false(sn_board_claim(board, ME, 3, &c));
		}
		atomic_store(&board->shown, at[k] + 1);
		assert_true(sn_board_claim(board, ME, 3, &c));
		assert_int_equal(c.slot, slot);
		sn_board_clear(board, slot);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_oldest_is_claimed, setup, teardown),
		cmocka_unit_test_setup_teardown(the_oldest_is_claimed_where_serials_begin_anew, setup,
						teardown),
		cmocka_unit_test_setup_teardown(newer_than_what_was_read_is_left, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
