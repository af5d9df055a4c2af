/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who waits for another host, and finds what comes only after he has given his core to somebody who passes it on,
 * learns to give it at once; and forgets that. What is learned from are made-up yields; what is done then is done.
 */
#include "base/base.h"
#include "progress/bringer.h"
#include "progress/relax.h"
#include "unit.h"

#define SHORT 200u    /* ns of a yield to nobody, ... */
#define TURN  5000u   /* ... to who passes something on, ... */
#define SLICE 200000u /* ... to somebody with work of his own */
#define FIRST 64      /* looks before anything else is done */

static void see(unsigned times, uint64_t away, bool found)
{
	while (times--)
		sn_bringer_seen(away, found);
}

static void read_yields(void *arg, const char *name, uint64_t value)
{
	if (strcmp(name, "progress.yields") == 0)
		*(uint64_t *)arg = value;
}

static uint64_t yields(void)
{
	uint64_t n = 0;
	sn_relax_counters(read_yields, &n);
	return n;
}

struct wait {
	unsigned looks;
	uint64_t before;
};

static int is_there(void *arg)
{
	struct wait *w = arg;
	w->looks++;
	return yields() > w->before;
}

/* How many looks it takes until the core has been given away. */
static unsigned looks_of_a_wait(void)
{
	struct wait w = {0, yields()};
	uint64_t idle = 0;
	while (!sn_relax_step(&idle, 0, is_there, &w))
		;
	return w.looks;
}

static void forget(void)
{
	see(1, SLICE, false);
	assert_false(sn_relax_far_turns());
}

static void who_brings_is_given_the_core_at_once(void **state)
{
	forget();
	assert_true(looks_of_a_wait() > FIRST);
	forget();
	see(3, TURN, true);
	assert_false(sn_relax_far_turns());
	see(100, TURN, false); /* says nothing */
	assert_false(sn_relax_far_turns());
	see(1, TURN, true);
	assert_true(sn_relax_far_turns());
	assert_int_equal(looks_of_a_wait(), 1);
}

static void no_more_when_it_comes_by_itself(void **state)
{
	see(100, TURN, true);
	see(8, SHORT, true);
	assert_true(sn_relax_far_turns());
	see(100, SHORT, false);
	assert_true(sn_relax_far_turns());
	see(1, SHORT, true);
	assert_false(sn_relax_far_turns());
	forget();
	assert_true(looks_of_a_wait() > FIRST);
}

static void nor_who_keeps_the_core(void **state)
{
	for (int i = 0; i < 20; i++) {
		see(3, TURN, true);
		see(1, SLICE, true);
		assert_false(sn_relax_far_turns());
	}
	see(100, TURN, true);
	see(1, SLICE, false);
	assert_false(sn_relax_far_turns());
}

static void nor_where_all_are_on_this_host(void **state)
{
	see(100, TURN, true);
	sn_relax_far(false);
	assert_false(sn_relax_far_turns());
	assert_true(looks_of_a_wait() > FIRST);
	sn_relax_far(true);
}

int main(void)
{
	sn_relax_crowd(0);
	sn_relax_far(true);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_brings_is_given_the_core_at_once),
		cmocka_unit_test(no_more_when_it_comes_by_itself),
		cmocka_unit_test(nor_who_keeps_the_core),
		cmocka_unit_test(nor_where_all_are_on_this_host),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
