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
		unsigned way = sn_lap_next(&lap, sn_lap_asks(&lap) ? now : 0, BOUND, preferred, 0);
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

static struct sn_lap side[2];

static unsigned side_next(int s)
{
	return sn_lap_next(&side[s], now, BOUND, 0, sn_lap_shows(&side[!s]));
}

/* A message each way in turn, and both sides learn, one began `skew` messages earlier. After 1500 the other way becomes the
 * better one: how many of the next `rounds` each way go it. */
static unsigned two_sides(unsigned skew, unsigned rounds)
{
	unsigned ones = 0;
	memset(side, 0, sizeof(side));
	side[1].first = true;
	for (unsigned i = 0; i < skew + 1500 + rounds; i++) {
		bool before = i < skew + 1500;
		for (int s = i < skew; s < 2; s++) {
			unsigned way = side_next(s);
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

/* Both send at once, and a turn takes what both ways together cost, some less or more. The mean of n turns. */
static uint64_t exchange(unsigned n, const uint64_t ns[2][2], uint64_t *seed)
{
	uint64_t began = now;
	for (unsigned i = 0; i < n; i++) {
		unsigned a = side_next(0), b = side_next(1);
		now += ns[a][b] * (90 + unit_random(seed) % 21) / 100;
		if (unit_random(seed) % 1000 == 0)
			now += 100000;
	}
	return (now - began) / n;
}

static void who_sends_at_once_is_not_misled_by_the_other(void **state)
{
	/* 64 KiB exchanged, near and far: each side straight (1) or through the ring */
	static const uint64_t costs[][2][2] = {{{5600, 4400}, {4400, 2000}}, {{6500, 5000}, {5000, 3200}}};
	uint64_t worst = 0;
	for (unsigned i = 0; i < 2; i++) {
		for (uint64_t seed = 1; seed < 200; seed++) {
			uint64_t random = seed, best = costs[i][1][1];
			memset(side, 0, sizeof(side));
			side[1].first = true;
			exchange(500, costs[i], &random);
			uint64_t share = exchange(10000, costs[i], &random) * 100 / (best + 100);
			worst = share > worst ? share : worst;
		}
	}
	print_message("at worst %u percent of the time of the best\n", (unsigned)worst);
	assert_true(worst <= 112);
}

static void a_peer_that_tries_for_ever_does_not_hold_us_up(void **state)
{
	for (unsigned i = 0; i < 2000; i++)
		now += sn_lap_next(&lap, now, BOUND, 0, 1) ? 2000 : 4000;
	assert_int_equal(lap.way, 1);
}

static void what_is_seldom_better_is_seldom_tried(void **state)
{
	uint64_t seed = 5;
	lap.seldom = true;
	assert_true(laps(15000, 2000, 2600, 0, &seed) <= 8 * SN_LAP_GROUP);
	assert_true(laps(15000, 2000, 2600, 0, &seed) <= 6 * SN_LAP_GROUP);
	laps(10 * SN_LAP_GROUP, 4000, 2600, 0, &seed); /* the cores have moved */
	assert_true(laps(1000, 4000, 2600, 0, &seed) >= 900);
}

static void what_is_fast_enough_is_not_tried(void **state)
{
	uint64_t seed = 6;
	lap.worth = 6000;
	assert_int_equal(laps(5000, 4000, 2500, 0, &seed), 0);
	laps(20 * SN_LAP_GROUP, 20000, 5000, 0, &seed); /* the cores have moved */
	assert_true(laps(1000, 20000, 5000, 0, &seed) >= 900);
	laps(20 * SN_LAP_GROUP, 2000, 5000, 0,
	     &seed); /* and back: the other way is tried though this one is fast, too */
	assert_true(laps(2000, 2000, 5000, 0, &seed) <= 100);
}

/*
 * Long messages, and a program that begins to touch its buffers: three groups by far slower, and one that is by far
 * faster, are enough.
 */
static void a_change_that_is_clear_is_answered_at_once(void **state)
{
	lap.shift = 2;
	lap.seldom = true;
	lap.worth = 6000;
	laps(1000, 3000, 9000, 0, NULL);
	laps(5 * (SN_LAP_GROUP >> 2), 30000, 5000, 0, NULL);
	assert_true(laps(100, 30000, 5000, 0, NULL) >= 90);
}

/* A loop that has found way 0 to be the better one. The messages of a group. */
static unsigned settled(unsigned shift, uint64_t ns1)
{
	unsigned group = SN_LAP_GROUP >> shift;
	start(NULL);
	lap.shift = (uint8_t)shift;
	laps(40 * group, 3000, ns1, 0, NULL);
	return group;
}

/* Three groups that somebody else had the core in look like a change; the way that is dearer is tried then, and not taken. */
static void what_is_cheaper_than_a_disturbance_is_not_taken(void **state)
{
	for (unsigned shift = 1; shift <= 2; shift++) {
		unsigned group = settled(shift, 5000);
		while (lap.trial || lap.way || lap.count != group)
			laps(1, 3000, 5000, 0, NULL);
		lap.hold = UINT16_MAX;
		laps(3 * group, 30000, 30000, 0, NULL);
		assert_in_range(laps(12 * group, 3000, 5000, 0, NULL), 1, 2 * group);
		assert_int_equal(lap.way, 0);
	}
}

/* One group that somebody else had the core in is not one, nor are several, each followed by an ordinary one. */
static void one_group_is_no_change(void **state)
{
	for (unsigned shift = 0; shift <= 2; shift++) {
		unsigned group = settled(shift, 4000);
		lap.hold = UINT16_MAX;
		lap.trial = lap.way = 0;
		uint8_t tries = lap.tries;
		for (unsigned i = 0; i < 20; i++) {
			laps(group, 30000, 30000, 0, NULL);
			laps(3 * group, 3000, 4000, 0, NULL);
		}
		assert_int_equal(lap.tries, tries);
	}
}

static void anew_it_begins_as_preferred(void **state)
{
	laps(2000, 4000, 2500, 0, NULL);
	assert_int_equal(lap.way, 1);
	sn_lap_anew(&lap, 0);
	assert_true(sn_lap_fresh(&lap));
	assert_int_equal(lap.way, 0);
	assert_int_equal(laps(SN_LAP_GROUP, 4000, 2500, 0, NULL), 0);
	assert_true(laps(1000, 4000, 2500, 0, NULL) >= 900);
	while (!lap.trial)
		laps(1, 4000, 2500, 0, NULL);
	uint8_t tries = lap.tries;
	sn_lap_anew(&lap, 1); /* who looks sees that the trial has ended */
	assert_int_equal(sn_lap_shows(&lap), (uint8_t)((tries + 1) << 1));
	assert_int_equal(lap.way, 1);
}

static void what_is_dearer_by_far_costs_a_few_messages(void **state)
{
	laps(2000, 3000, 40000, 0, NULL);
	lap.shift = 1;
	lap.count = 0;
	unsigned tried = laps(20000, 3000, 40000, 0, NULL);
	assert_in_range(tried, 1, 8 * (SN_LAP_SKIP >> 1));
}

static void what_was_learned_holds_after_a_pause(void **state)
{
	laps(2000, 4000, 2500, 0, NULL);
	while (lap.count != SN_LAP_SKIP + 1)
		laps(1, 4000, 2500, 0, NULL);
	now += 1000 * BOUND;
	uint8_t tries = lap.tries;
	assert_int_equal(lap.trial, 0);
	laps(SN_LAP_GROUP, 4000, 2500, 0, NULL);
	assert_int_equal(lap.way, 0);
	laps(SN_LAP_GROUP, 4000, 2500, 0, NULL);
	assert_int_equal(laps(2 * SN_LAP_GROUP, 4000, 2500, 0, NULL), 2 * SN_LAP_GROUP);
	assert_int_equal(lap.tries, tries);
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
		sn_lap_next(&lap, now += 3000, BOUND, 0, 0);
	}
	assert_true(reads <= 201);
}

/* Where nothing is due it is asked without a call, and says the same. */
static void the_short_way_to_ask_says_the_same(void **state)
{
	struct sn_lap asked = lap;
	unsigned shortly = 0, changes = 0, before = 0;
	for (unsigned i = 0; i < 50000; i++) {
		unsigned way, want = sn_lap_next(&lap, now, BOUND, 0, 0);
		if (sn_lap_goes_on(&asked, &way))
			shortly++;
		else
			way = sn_lap_next(&asked, now, BOUND, 0, 0);
		assert_int_equal(way, want);
		changes += want != before;
		before = want;
		now += i / 20000 % 2 == want ? 900 : 1300;
	}
	assert_in_range(shortly, 44000, 49999);
	assert_true(changes > 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_faster_way_carries_nearly_all, start),
		cmocka_unit_test_setup(noise_changes_little, start),
		cmocka_unit_test_setup(a_change_is_answered_within_a_few_groups, start),
		cmocka_unit_test_setup(a_program_that_becomes_faster_is_a_change_too, start),
		cmocka_unit_test_setup(both_sides_find_it_whenever_they_began, start),
		cmocka_unit_test_setup(who_sends_at_once_is_not_misled_by_the_other, start),
		cmocka_unit_test_setup(a_peer_that_tries_for_ever_does_not_hold_us_up, start),
		cmocka_unit_test_setup(what_is_seldom_better_is_seldom_tried, start),
		cmocka_unit_test_setup(what_is_fast_enough_is_not_tried, start),
		cmocka_unit_test_setup(a_change_that_is_clear_is_answered_at_once, start),
		cmocka_unit_test_setup(what_is_cheaper_than_a_disturbance_is_not_taken, start),
		cmocka_unit_test_setup(one_group_is_no_change, start),
		cmocka_unit_test_setup(anew_it_begins_as_preferred, start),
		cmocka_unit_test_setup(what_is_dearer_by_far_costs_a_few_messages, start),
		cmocka_unit_test_setup(what_was_learned_holds_after_a_pause, start),
		cmocka_unit_test_setup(programs_that_compute_get_what_is_preferred, start),
		cmocka_unit_test_setup(long_messages_take_fewer, start),
		cmocka_unit_test_setup(the_clock_is_read_twice_a_group, start),
		cmocka_unit_test_setup(the_short_way_to_ask_says_the_same, start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
