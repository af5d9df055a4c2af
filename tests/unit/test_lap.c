/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring or straight follows the laps of the program: the faster one carries nearly all messages, a change of what the program
 * does is answered soon, disturbances are not, and a program that computes in between gets the way that is preferred.
 */
#include "unit.h"

#include "copy/lap.h"
#include <stdbool.h>
#include <string.h>

#define BOUND 50000

static struct sn_lap lap;
static uint64_t now;

static int start(void **state)
{
	memset(&lap, 0, sizeof(lap));
	now = 1000;
	return 0;
}

/* n messages, each with so many ns to the next, by its way; how many went way 1. */
static unsigned laps(unsigned n, uint64_t ns0, uint64_t ns1, unsigned preferred, uint64_t *seed)
{
	unsigned ones = 0;
	for (unsigned i = 0; i < n; i++) {
		unsigned way = sn_lap_next(&lap, sn_lap_asks(&lap) ? now : 0, BOUND, preferred);
		assert_in_range(way, 0, 1);
		ones += way;
		uint64_t ns = way ? ns1 : ns0;
		if (seed)
			ns = ns * (85 + unit_random(seed) % 31) / 100;
		if (seed && unit_random(seed) % 500 == 0)
			ns += 300000; /* a lost core */
		now += ns;
	}
	return ones;
}

static void the_faster_way_carries_nearly_all(void **state)
{
	laps(200, 4000, 2500, 0, NULL);
	assert_true(laps(5000, 4000, 2500, 0, NULL) >= 4800);
	laps(2000, 2500, 4000, 0, NULL);
	assert_true(laps(5000, 2500, 4000, 0, NULL) <= 200);
}

static void noise_changes_little(void **state)
{
	uint64_t seed = 11;
	laps(500, 4000, 5200, 0, &seed);
	assert_true(laps(20000, 4000, 5200, 0, &seed) <= 3000);
}

static void a_change_is_answered_within_a_few_groups(void **state)
{
	laps(3000, 4000, 2500, 0, NULL);
	laps(10 * SN_LAP_GROUP, 4000, 9000, 0, NULL); /* the receiver looks at the bytes now */
	assert_true(laps(1000, 4000, 9000, 0, NULL) <= 100);
}

static void a_program_that_becomes_faster_is_a_change_too(void **state)
{
	laps(3000, 10000, 14000, 0, NULL); /* it looks at the bytes */
	laps(10 * SN_LAP_GROUP, 2600, 1800, 0, NULL);
	assert_true(laps(1000, 2600, 1800, 0, NULL) >= 900);
}

/* A message each way in turn, and both sides learn, one began `skew` messages earlier. After 1500 the other way becomes the
 * better one: how many of the next `rounds` each way go it. */
static unsigned two_sides(unsigned skew, unsigned rounds)
{
	struct sn_lap side[2] = {{.twos = false}, {.twos = true}};
	unsigned ones = 0;
	for (unsigned i = 0; i < skew + 1500 + rounds; i++) {
		bool before = i < skew + 1500;
		for (int s = i < skew; s < 2; s++) {
			unsigned way = sn_lap_next(&side[s], now, BOUND, 0);
			now += before ? (way ? 14000 : 10000) : (way ? 1700 : 2700);
			ones += before ? 0 : way;
		}
	}
	return ones;
}

static void both_sides_find_it_whenever_they_began(void **state)
{
	unsigned worst = UINT32_MAX;
	for (unsigned skew = 0; skew < 8 * SN_LAP_GROUP; skew++) {
		unsigned ones = two_sides(skew, 900);
		worst = ones < worst ? ones : worst;
	}
	print_message("at least %u of 1800 went the better way\n", worst);
	assert_true(worst >= 1200);
}

static void programs_that_compute_get_what_is_preferred(void **state)
{
	assert_int_equal(laps(3000, 4 * BOUND, 4 * BOUND, 1, NULL), 3000);
	start(NULL);
	assert_int_equal(laps(3000, 4 * BOUND, 4 * BOUND, 0, NULL), 0);
	laps(2000, 4000, 2500, 0, NULL); /* a loop, and then not any more */
	laps(2 * SN_LAP_GROUP, 4 * BOUND, 4 * BOUND, 0, NULL);
	assert_int_equal(laps(1000, 4 * BOUND, 4 * BOUND, 0, NULL), 0);
}

static void long_messages_take_fewer(void **state)
{
	lap.shift = 2;
	laps(30, 4000, 2500, 0, NULL);
	assert_true(laps(100, 4000, 2500, 0, NULL) >= 90);
	laps(10, 4 * BOUND, 4 * BOUND, 0, NULL);
	assert_int_equal(lap.shift, 2);
}

static void the_clock_is_read_twice_a_group(void **state)
{
	unsigned reads = 0;
	for (unsigned i = 0; i < 100 * SN_LAP_GROUP; i++) {
		reads += sn_lap_asks(&lap);
		sn_lap_next(&lap, now += 3000, BOUND, 0);
	}
	assert_true(reads <= 201);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_faster_way_carries_nearly_all, start),
		cmocka_unit_test_setup(noise_changes_little, start),
		cmocka_unit_test_setup(a_change_is_answered_within_a_few_groups, start),
		cmocka_unit_test_setup(a_program_that_becomes_faster_is_a_change_too, start),
		cmocka_unit_test_setup(both_sides_find_it_whenever_they_began, start),
		cmocka_unit_test_setup(programs_that_compute_get_what_is_preferred, start),
		cmocka_unit_test_setup(long_messages_take_fewer, start),
		cmocka_unit_test_setup(the_clock_is_read_twice_a_group, start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
