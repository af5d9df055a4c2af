/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More processes than cores, and the one beside this on its core computes: who waits looks on, and then sleeps, and does not
 * yield. The clock, the sleep, the yield, and who waits on which core are this program's.
 */
#include "base/base.h"
#include "progress/bell.h"
#include "unit.h"
#include <sched.h>

static uint64_t clock_now(void);
static int sleep_on_bell(int (*ready)(void *arg), void *arg, unsigned max_us);
static int give_way(void);
static bool alone_here(void);

#define sn_now_ns	clock_now
#define sn_bell_wait	sleep_on_bell
#define sched_yield	give_way
#define sn_spread_alone alone_here
#undef __x86_64__ /* there the yield is an instruction and no call */
#include "progress/beside.c"
#include "progress/relax.c"

#define LOOK	   30u /* ns between two readings of the clock */
#define TIME_SLICE 3000000u
#define SOON	   10000u  /* ns: while the looks go on, */
#define LATER	   200000u /* and after them */

static uint64_t now_ns = 1000000000, begun, due;
static bool computes, waits; /* who shares this core */
static unsigned naps, yields;
static uint64_t awake; /* ns before the first nap */

static uint64_t clock_now(void)
{
	return now_ns += LOOK;
}

static bool alone_here(void)
{
	return !waits;
}

static int give_way(void)
{
	yields++;
	now_ns += computes ? TIME_SLICE : 1000;
	return 0;
}

/* Who is rung for is back at once. */
static int sleep_on_bell(int (*ready)(void *arg), void *arg, unsigned max_us)
{
	uint64_t end = now_ns + max_us * 1000u;
	if (!naps++)
		awake = now_ns - begun;
	now_ns = SN_MAX_OF(now_ns, SN_MIN_OF(due, end));
	return ready(arg);
}

static int is_due(void *arg)
{
	return clock_now() >= due;
}

/* One wait for what comes in so long; how late it was found. */
static uint64_t late(uint64_t ns)
{
	uint64_t idle = 0;
	naps = yields = 0;
	begun = clock_now();
	due = begun + ns;
	while (!sn_relax_step(&idle, 20000, is_due, NULL))
		;
	return now_ns - due;
}

/* Until the looks at the clock and a lost turn have told. */
static void lose_turns(void)
{
	for (int i = 0; i < 4 * CLOCKED; i++)
		late(SOON);
}

static int setup(void **state)
{
	computes = waits = false;
	now_ns += 2 * (uint64_t)LONGEST;
	sn_relax_crowd(1000);
	for (int i = 0; i < 2 * CLOCKED; i++)
		late(SOON);
	computes = true;
	return 0;
}

static void who_has_lost_a_turn_looks_and_sleeps(void **state)
{
	lose_turns();
	for (int i = 0; i < 100; i++) {
		assert_true(late(SOON) < 1000);
		assert_int_equal(naps + yields, 0);
	}
	for (int i = 0; i < 50; i++) { /* in less time than it is taken to be so */
		assert_true(late(LATER) < 1000);
		assert_int_equal(yields, 0);
		assert_true(naps > 0);
	}
}

static void others_that_wait_here_are_given_the_core(void **state)
{
	waits = true;
	lose_turns();
	late(LATER);
	assert_true(yields > 0);
	waits = false;
	lose_turns();
	late(SOON);
	assert_int_equal(yields, 0);
	waits = true;
	late(SOON);
	assert_true(yields > 0);
}

static void with_nobody_who_computes_yields_are_as_before(void **state)
{
	computes = false;
	for (int i = 0; i < 100; i++) {
		late(SOON);
		assert_true(yields > 0);
		assert_int_equal(naps, 0);
	}
}

/* One turn in so long is lost to find out; and forgotten at once, when none is. */
static void it_is_asked_again(void **state)
{
	unsigned lost = 0;
	lose_turns();
	while (mine.lasts < LONGEST)
		late(SOON);
	uint64_t end = mine.until + 20 * (uint64_t)(LONGEST + TIME_SLICE);
	while (now_ns < end) {
		late(SOON);
		lost += yields;
	}
	assert_in_range(lost, 19, 21);
	computes = false;
	now_ns += LONGEST;
	late(SOON);
	late(SOON);
	assert_true(yields > 0);
	assert_int_equal(mine.lasts, 0);
}

static void a_turn_lost_now_and_then_is_no_rank_that_computes(void **state)
{
	for (int i = 0; i < 1000; i++) {
		computes = i % 100 == 0;
		late(SOON);
		assert_true(yields > 0);
		now_ns += 1000000;
	}
}

/* At first each wait looks on; soon one in eight, until it helps. */
static void looks_in_vain_become_few(void **state)
{
	unsigned looked = 0;
	lose_turns();
	late(SOON);
	for (int i = 0; i < 80; i++) {
		late(LATER);
		looked += awake >= spin_ns();
	}
	assert_in_range(looked, 80 / (WITHOUT + 1), 80 / (WITHOUT + 1) + 4);
	for (unsigned i = 0; i <= WITHOUT; i++)
		late(SOON);
	for (int i = 0; i < 10; i++) {
		late(SOON);
		assert_int_equal(naps + yields, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(who_has_lost_a_turn_looks_and_sleeps, setup),
		cmocka_unit_test_setup(others_that_wait_here_are_given_the_core, setup),
		cmocka_unit_test_setup(with_nobody_who_computes_yields_are_as_before, setup),
		cmocka_unit_test_setup(it_is_asked_again, setup),
		cmocka_unit_test_setup(a_turn_lost_now_and_then_is_no_rank_that_computes, setup),
		cmocka_unit_test_setup(looks_in_vain_become_few, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
