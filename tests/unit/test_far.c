/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the peer's core shares a cache with this one follows where it is seen to be: at once at first, after a few
 * looks that agree when it moves, and not for a look that was disturbed, or at a line that nobody has written.
 */
#include "unit.h"

#include "copy/far.h"
#include <string.h>

static struct sn_far far;
static uint64_t now, written;

static int start(void **state)
{
	memset(&far, 0, sizeof(far));
	now = 1000;
	written = 7;
	return 0;
}

/* The line's page is not there yet. */
static void touch(void)
{
	assert_false(sn_far_look(&far, now, ++written, 2500));
	assert_false(far.known);
}

static bool look(uint64_t ns)
{
	now += SN_FAR_LOOK_NS;
	assert_true(sn_far_asks(&far, now));
	return sn_far_look(&far, now, ++written, ns);
}

/* Several that change nothing. */
static void in_vain(int n, uint64_t ns)
{
	while (n--)
		assert_false(look(ns));
}

static void the_first_look_is_believed(void **state)
{
	touch();
	assert_true(look(140));
	assert_true(far.known && far.far);
	start(NULL);
	touch();
	assert_true(look(45));
	assert_true(far.known && !far.far);
}

static void a_move_is_seen_after_a_few_looks(void **state)
{
	touch();
	look(45);
	in_vain(SN_FAR_DOUBTS - 1, 140);
	assert_true(look(140));
	assert_true(far.far);
	in_vain(SN_FAR_DOUBTS - 1, 45);
	assert_true(look(45));
	assert_false(far.far);
}

/* Whether lines take long is only a hint, so each look says it anew. */
static void whether_lines_take_long_is_what_the_last_look_says(void **state)
{
	touch();
	assert_false(sn_far_apart(&far));
	look(45);
	assert_false(sn_far_apart(&far));
	look(SN_FAR_APART_NS - 1);
	assert_false(sn_far_apart(&far));
	look(SN_FAR_APART_NS);
	assert_true(sn_far_apart(&far) && !far.far);
	look(140);
	assert_true(sn_far_apart(&far) && !far.far);
	look(30);
	assert_false(sn_far_apart(&far));
}

static void disturbed_looks_change_nothing(void **state)
{
	touch();
	look(45);
	for (int i = 0; i < 100; i++) {
		assert_false(look(5000));
		assert_false(look(2000000));
		assert_false(look(50));
	}
	assert_false(far.far);
}

static void what_lies_between_changes_nothing(void **state)
{
	touch();
	look(45);
	in_vain(20, 100);
	assert_false(far.far);
	for (int i = 0; i < SN_FAR_DOUBTS; i++)
		look(140);
	in_vain(20, 100);
	assert_true(far.far);
}

static void a_line_that_nobody_has_written_says_nothing(void **state)
{
	touch();
	look(140);
	for (int i = 0; i < 20; i++)
		assert_false(sn_far_look(&far, now += SN_FAR_LOOK_NS, written, 5));
	assert_true(far.far);
	assert_false(look(140));
}

static void it_looks_seldom(void **state)
{
	unsigned looks = 0;
	touch();
	for (uint64_t t = 1; t < 10 * SN_FAR_LOOK_NS; t += 500) {
		if (!sn_far_asks(&far, t))
			continue;
		looks++;
		sn_far_look(&far, t, ++written, 45);
	}
	assert_in_range(looks, 9, 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_first_look_is_believed, start),
		cmocka_unit_test_setup(a_move_is_seen_after_a_few_looks, start),
		cmocka_unit_test_setup(whether_lines_take_long_is_what_the_last_look_says, start),
		cmocka_unit_test_setup(disturbed_looks_change_nothing, start),
		cmocka_unit_test_setup(what_lies_between_changes_nothing, start),
		cmocka_unit_test_setup(a_line_that_nobody_has_written_says_nothing, start),
		cmocka_unit_test_setup(it_looks_seldom, start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
