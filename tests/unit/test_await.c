/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receive that is awaited (sn_try_await) ends by a word, in its turn, as soon as anybody has looked; with any other
 * message than it expects, or once it is held, it is as one of sn_try_post's (test_try).
 */
#include "core/core.h"
#include "sides.h"

#define LOOKS 64
#define EXACT UINT64_MAX
#define MARK  (UINT64_C(1) << 40) /* a bit that receives do not look at */

static void move(void)
{
	for (int i = 0; i < 100; i++)
		sn_progress(side[i % 2].ep);
}

static int send_try(uint64_t value, uint64_t bits)
{
	return sn_try_send(side[0].ep, side[0].peer, &value, sizeof(value), bits, 0, 0);
}

static int send_sync(uint64_t *value, uint64_t bits)
{
	struct iovec v = {value, sizeof(*value)};
	sn_msg m = {.peer = side[0].peer, .flags = SN_SYNC, .iov = &v, .iov_count = 1, .bits = bits};
	return sn_post_send(side[0].ep, &m, NULL);
}

/* The first message makes the connection. */
static int setup(void **state)
{
	sn_ep_attr attr = {.on_complete = tell};
	uint64_t got = 0;
	told.count = 0;
	setenv("SENNIT_PROGRESS", "0", 1); /* nobody else looks */
	sides_open(&attr);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sn_ep_quiet(side[i].ep, 1), 0);
	assert_int_equal(sn_inject(side[0].ep, side[0].peer, &(uint64_t){1}, sizeof(got), 1, 0, 0), 0);
	assert_int_equal(sn_trecv(side[1].ep, side[1].peer, &got, sizeof(got), 1, EXACT, NULL), 0);
	while (!told.count)
		move();
	told.count = 0;
	return 0;
}

static sn_req *await_tag(uint64_t tag, uint64_t *value, uint64_t mask, int64_t *came)
{
	*came = -1;
	sn_req *req = sn_try_await(side[1].ep, side[1].peer, value, sizeof(*value), tag, mask, tag, came);
	assert_non_null(req);
	return req;
}

static sn_req *await(uint64_t *value, uint64_t mask, int64_t *came)
{
	return await_tag(5, value, mask, came);
}

/* By whatever look, in the order of their receives; what lay there before its receive is told to who asks. */
static void a_word_says_that_one_has_come(void **state)
{
	enum { MANY = 300 };
	uint64_t got[MANY];
	int64_t came[MANY];
	sn_req *req[MANY];
	assert_int_equal(send_try(0, 5), SN_OK);
	move();
	for (uint64_t k = 0; k < MANY; k++)
		req[k] = await(&got[k], EXACT, &came[k]);
	assert_int_equal(came[0], -1);
	assert_int_equal(sn_try_awaited(req[0], 5, 1, &came[0]), SN_OK);
	assert_int_equal(sn_try_awaited(req[1], 5, 1, &came[1]), SN_ERR_AGAIN);
	for (uint64_t k = 1; k < MANY; k++)
		assert_int_equal(send_try(k, 5), SN_OK);
	assert_int_equal(sn_try_awaited(req[1], 5, LOOKS, &came[1]), SN_OK);
	move();
	for (uint64_t k = 0; k < MANY; k++) {
		assert_int_equal(came[k], sizeof(got[k]));
		assert_int_equal(got[k], k);
	}
	assert_int_equal(told.count, 0);
}

/* Also where the next message is not for a receive like the one posted last, and where it wants an answer. */
static void of_several_kinds_each_says_so(void **state)
{
	enum { MANY = 8 };
	uint64_t got[MANY];
	int64_t came[MANY];
	for (int turn = 0; turn < 3; turn++) {
		for (uint64_t k = 0; k < MANY; k++)
			await_tag(5 + k % 2, &got[k], EXACT, &came[k]);
		for (uint64_t k = 0; k < MANY; k++) {
			uint64_t i = turn == 1 ? MANY - 1 - k : k; /* the other tag first */
			assert_int_equal(turn < 2 ? send_try(k, 5 + i % 2) : send_sync(&k, 5 + i % 2), SN_OK);
			move();
		}
		for (uint64_t k = 0; k < MANY; k++) {
			assert_int_equal(came[k], sizeof(got[k]));
			assert_int_equal(got[k], turn == 1 ? (k ^ 1) : k);
		}
		while (turn == 2 && told.count < MANY) /* of what is sent, that it was received */
			move();
		assert_int_equal(told.count, turn < 2 ? 0 : MANY);
	}
}

/*
 * Too long, or other bits: the word says nothing, and it can be handed over with its message; so can one that is held
 * before that comes.
 */
static void one_that_is_held_says_nothing(void **state)
{
	for (int other = 0; other < 3; other++) {
		uint64_t got[3] = {0}, out[2] = {11, 0};
		int64_t came[3];
		sn_req *req[3];
		int context;
		told.count = 0;
		for (int k = 0; k < 3; k++)
			req[k] = await(&got[k], ~MARK, &came[k]);
		if (!other)
			assert_int_equal(sn_try_hold(req[1], &came[1]), SN_OK);
		assert_int_equal(send_try(10, 5), SN_OK);
		assert_in_range(sn_tsend(side[0].ep, side[0].peer, out, other == 1 ? sizeof(out) : 8,
					 other == 2 ? 5 | MARK : 5, 0, SN_FORGET, NULL),
				0, 1);
		assert_int_equal(send_try(12, 5), SN_OK);
		move();
		assert_int_equal(came[1], -1);
		if (other)
			assert_int_not_equal(sn_try_awaited(req[1], 5, LOOKS, &came[1]), SN_ERR_AGAIN);
		assert_int_equal(sn_try_hold(req[1], &came[1]), SN_OK);
		sn_try_hand_over(req[1], &context);
		assert_int_equal(told.count, 1);
		assert_ptr_equal(told.last.context, &context);
		assert_int_equal(told.last.status, other == 1 ? SN_ERR_TRUNCATED : SN_OK);
		assert_int_equal(told.last.bits, other == 2 ? 5 | MARK : 5);
		for (int k = 0; k < 3; k += 2) {
			assert_int_equal(came[k], 8);
			assert_int_equal(sn_try_hold(req[k], &came[k]), SN_ERR_INVALID);
		}
		for (uint64_t k = 0; k < 3; k++)
			assert_int_equal(got[k], 10 + k);
	}
	told.count = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_word_says_that_one_has_come, setup, sides_close),
		cmocka_unit_test_setup_teardown(of_several_kinds_each_says_so, setup, sides_close),
		cmocka_unit_test_setup_teardown(one_that_is_held_says_nothing, setup, sides_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
