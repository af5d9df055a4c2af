/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who was woken soon stays awake the next times, but not where that is dearer than to sleep: where somebody else
 * wants his core, or where his waits have become long ones that he sleeps through elsewhere. The clock, the sleep and
 * the yield are this program's, so that the machine's other work changes nothing.
 */
#include "base/base.h"
#include "progress/bell.h"
#include "unit.h"
#include <sched.h>

static uint64_t clock_now(void);
static int sleep_on_bell(int (*ready)(void *arg), void *arg, unsigned max_us);
static int give_way(void);

#define sn_now_ns    clock_now
#define sn_bell_wait sleep_on_bell
#define sched_yield  give_way
#undef __x86_64__ /* there the yield is an instruction and no call */
#include "progress/relax.c"

#define LOOK	   30u	   /* ns between two readings of the clock */
#define SHORT	   200000u /* ns: a wait in which one naps */
#define LONG	   5000000u
#define TIME_SLICE 4000000u

static uint64_t now_ns = 1000000000, due;
static bool stranger; /* on this core, who computes */

static uint64_t clock_now(void)
{
	return now_ns += LOOK;
}

static int give_way(void)
{
	if (stranger)
		now_ns += TIME_SLICE;
	return 0;
}

/* Who is rung for is back at once, as the kernel prefers him to who has computed. */
static int sleep_on_bell(int (*ready)(void *arg), void *arg, unsigned max_us)
{
	uint64_t end = now_ns + max_us * 1000u;
	now_ns = SN_MAX_OF(now_ns, SN_MIN_OF(due, end));
	return ready(arg);
}

static int is_due(void *arg)
{
	return clock_now() >= due;
}

static int never(void *arg)
{
	return 0;
}

static void note_naps(void *arg, const char *name, uint64_t value)
{
	if (strcmp(name, "progress.naps") == 0)
		*(uint64_t *)arg = value;
}

static uint64_t naps(void)
{
	uint64_t n = 0;
	sn_relax_counters(note_naps, &n);
	return n;
}

/* How many naps there were in a wait of so long. */
static uint64_t naps_in(uint64_t ns)
{
	uint64_t idle = 0, before = naps();
	due = clock_now() + ns;
	while (!is_due(NULL))
		sn_relax_step(&idle, 20000, is_due, NULL);
	return naps() - before;
}

/* As if nothing had been learned yet; the next wait forgets what the one before it was. */
static int setup(void **state)
{
	stranger = false;
	now_ns += 2 * (uint64_t)LOST_FOR_NS;
	sn_relax_crowd(0);
	naps_in(LONG);
	naps_in(SHORT / 8);
	return 0;
}

/* One sleep would make others sleep, so the next time he is awake; until a wait takes so long that to sleep was right. */
static void who_has_slept_for_less_than_1_ms_stays_awake(void **state)
{
	for (int tries = 0; tries < 3; tries++) {
		assert_true(naps_in(LONG) > 0);
		assert_true(naps_in(SHORT) > 0);
		for (int i = 0; i < 10; i++)
			assert_int_equal(naps_in(SHORT), 0);
		assert_true(naps_in(2 * SHORT) > 0); /* not for longer than that */
		assert_int_equal(naps_in(2 * SHORT), 0);
	}
}

static void who_sleeps_elsewhere_does_not_stay_awake_first(void **state)
{
	naps_in(SHORT);
	assert_int_equal(naps_in(SHORT), 0);
	uint64_t start = now_ns;
	assert_false(sn_relax_awake(never, NULL));
	assert_true(now_ns - start >= SHORT);
	start = now_ns;
	assert_false(sn_relax_awake(never, NULL));
	assert_true(now_ns - start < SHORT);
}

/* As where another thread calls: nobody knows what he waited for, and how long that takes. */
static void what_is_interrupted_teaches_nothing(void **state)
{
	for (int i = 0; i < 20; i++) {
		assert_true(naps_in(SHORT) > 0);
		sn_relax_interrupted();
	}
}

/* To him a yield gives a time slice, and what was to be waited for is long there when that is over. */
static void who_shares_his_core_with_a_stranger_sleeps(void **state)
{
	naps_in(SHORT);
	assert_int_equal(naps_in(SHORT), 0);
	stranger = true;
	for (int i = 0; i < SN_LOST_TIMES; i++) {
		assert_int_equal(naps_in(SHORT), 0);
		assert_true(now_ns - due >= TIME_SLICE - SHORT);
	}
	uint64_t since = now_ns;
	while (now_ns - since < LOST_FOR_NS - TIME_SLICE) {
		assert_true(naps_in(SHORT) > 0);
		assert_true(now_ns - due < SHORT);
	}
}

/* A virtual machine that stood still, a daemon. */
static void a_core_lost_once_is_no_stranger(void **state)
{
	for (int i = 0; i < 20; i++) {
		naps_in(SHORT);
		assert_int_equal(naps_in(SHORT), 0);
		stranger = true;
		naps_in(SHORT);
		stranger = false;
		assert_int_equal(naps_in(SHORT), 0);
		now_ns += LOST_WITHIN_NS;
	}
}

int main(void)
{
	alarm(150);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(who_has_slept_for_less_than_1_ms_stays_awake, setup),
		cmocka_unit_test_setup(who_sleeps_elsewhere_does_not_stay_awake_first, setup),
		cmocka_unit_test_setup(what_is_interrupted_teaches_nothing, setup),
		cmocka_unit_test_setup(who_shares_his_core_with_a_stranger_sleeps, setup),
		cmocka_unit_test_setup(a_core_lost_once_is_no_stranger, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
