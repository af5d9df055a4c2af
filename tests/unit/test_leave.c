/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who posts something long is taken for one who may go away, so what has come is looked at, and what comes is to
 * ring. Of several receives from other hosts that are posted in a row the first does that: the next ones would each
 * take in another part of what has come for those before them, and a receive of a short message that is to be posted
 * behind them would wait for it. Nor does a send look of one who is trusted to wait soon and has room to post on; one that
 * concerns this node alone does.
 */
#include "core/core.h"
#include "unit.h"

#define LONG (1u << 20)

static sn_ep ep;
static unsigned looks, said;

static int look(void *rail)
{
	looks++;
	return 0;
}

static void say(void *rail)
{
	said++;
}

static bool idle(void *rail)
{
	return false;
}

static bool trusted;

static bool stays(const void *rail)
{
	return trusted;
}

static const struct sn_rail_ops ops = {
	.far = true, .progress = look, .leave = say, .busy = idle, .stays = stays};

static void posts(unsigned times, uint64_t len, enum sn_leaves how)
{
	looks = said = 0;
	for (unsigned i = 0; i < times; i++)
		sn_core_leave(&ep, len, true, how);
}

static void the_first_receive_of_a_row_looks(void **state)
{
	posts(8, LONG, SN_LEAVES_ONCE);
	assert_int_equal(looks, 1);
	assert_int_equal(said, 1);
	sn_core_progress(&ep); /* the application's */
	posts(8, LONG, SN_LEAVES_ONCE);
	assert_int_equal(looks, 1);
	assert_int_equal(said, 1);
}

static void each_send_looks(void **state)
{
	posts(8, LONG, SN_LEAVES_SENT);
	assert_int_equal(looks, 8);
	assert_int_equal(said, 8);
}

static void who_stays_does_not_look(void **state)
{
	trusted = true;
	posts(8, LONG, SN_LEAVES_SENT);
	assert_int_equal(looks, 0);
	assert_int_equal(said, 8);
	sn_core_leave(&ep, LONG, false, SN_LEAVES); /* of this node */
	assert_int_equal(looks, 1);
	posts(8, LONG, SN_LEAVES); /* a receive from anybody */
	assert_int_equal(looks, 8);
	trusted = false;
	posts(8, LONG, SN_LEAVES_SENT);
	assert_int_equal(looks, 8);
}

static void short_ones_say_it_without_a_look(void **state)
{
	sn_core_progress(&ep);
	posts(8, SN_LEAVE_FAR, SN_LEAVES_ONCE);
	assert_int_equal(looks, 0);
	assert_int_equal(said, 1);
}

int main(void)
{
	sn_list_init(&ep.deferred);
	sn_list_init(&ep.early);
	ep.rail_count = 1;
	ep.rails[0].ops = &ops;
	ep.left_calls = 1; /* nobody has said anything */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_receive_of_a_row_looks),
		cmocka_unit_test(each_send_looks),
		cmocka_unit_test(who_stays_does_not_look),
		cmocka_unit_test(short_ones_say_it_without_a_look),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
