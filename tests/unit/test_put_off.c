/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the progress thread has put off is told first, and only then what the call finds in which it is told: completions, and
 * peers' accesses to memory, each in the order in which they came.
 */
#include "core/core.h"
#include "sides.h"

static uint64_t heard[16];
static unsigned count;
static uint8_t window[64];
static sn_region *region;

static void hear(void *arg, const sn_completion *c)
{
	if (c->op != SN_OP_TARGET_PUT && c->op != SN_OP_RECV)
		return;
	assert_in_range(count, 0, 15);
	heard[count++] = c->op == SN_OP_RECV ? c->bits : c->data;
}

static void until_heard(unsigned wanted)
{
	while (count < wanted) /* what is never told meets the alarm */
		for (int i = 0; i < 2; i++)
			sn_progress(side[i].ep);
	assert_int_equal(count, wanted);
	for (unsigned i = 0; i < wanted; i++)
		assert_int_equal(heard[i], i + 1);
	count = 0;
}

static int setup(void **state)
{
	sn_ep_attr attr = {.on_complete = hear, .on_target = hear};
	setenv("SENNIT_PROGRESS", "0", 1); /* its part is played here */
	sides_open(&attr);
	return sn_region_add(side[1].ep, window, sizeof(window), 7, SN_REMOTE_WRITE, &region);
}

static int teardown(void **state)
{
	sn_region_free(side[1].ep, region);
	return sides_close(state);
}

static void put(uint64_t data)
{
	struct iovec v = {&data, sizeof(data)};
	sn_msg msg = {
		.peer = side[0].peer, .iov = &v, .iov_count = 1, .flags = SN_DATA | SN_INJECT, .data = data};
	assert_int_equal(sn_put(side[0].ep, &msg, &(sn_remote){7, 0}, NULL), 0);
}

/* As a visit does with what it finds. */
static void put_off(sn_op op, uint64_t what)
{
	struct sn_req *req = sn_core_req_new(side[1].ep);
	assert_non_null(req);
	req->role = op == SN_OP_RECV ? SN_ROLE_CALLBACK : SN_ROLE_TARGET;
	req->comp = (sn_completion){.op = op, .bits = what, .data = what};
	sn_core_defer(req);
}

static void accesses_are_told_in_order(void **state)
{
	put(1); /* there is a connection */
	until_heard(1);
	for (int i = 0; i < 50; i++) {
		put_off(SN_OP_TARGET_PUT, 1);
		put_off(SN_OP_TARGET_PUT, 2);
		put(3);
		put(4);
		until_heard(4);
	}
}

static void receives_and_accesses_are_told_in_order(void **state)
{
	static uint64_t in;
	put(1);
	until_heard(1);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(sn_trecv(side[1].ep, side[1].peer, &in, sizeof(in), 3, UINT64_MAX, NULL), 0);
		put_off(SN_OP_TARGET_PUT, 1);
		put_off(SN_OP_RECV, 2);
		assert_int_equal(sn_inject(side[0].ep, side[0].peer, &in, sizeof(in), 3, 0, 0), 0);
		put(4);
		until_heard(4);
	}
}

int main(void)
{
	alarm(150);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(accesses_are_told_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(receives_and_accesses_are_told_in_order, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
