/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who yields in vain sleeps instead, and nobody else does: what is judged are made-up yields and switches. Senders
 * fence for a process that sleeps so, and it is woken as before.
 */
#include "base/base.h"
#include "progress/bell.h"
#include "progress/spread.h"
#include "progress/turns.h"
#include "unit.h"

#define MS 1000000u

static uint64_t now = MS, switches;
static struct sn_bell stranger;

/* The core is lost after `yields` yields, of which so many switched. */
static void lose(unsigned yields, unsigned switched)
{
	for (unsigned i = 0; i < yields; i++)
		sn_turns_yielded(now, now + 1000);
	now += 4 * MS;
	sn_turns_judge(now, switches += switched);
}

static void yields_that_switch_are_not_in_vain(void **state)
{
	for (int i = 0; i < 20; i++)
		lose(100, 90);
	for (int i = 0; i < 20; i++)
		lose(10, 0); /* too few to know */
	for (int i = 0; i < 20; i++) {
		lose(10000, 1); /* alone on its core, and then somebody else once in a while */
		now += 100 * MS;
	}
	assert_false(sn_turns_in_vain(now) || sn_turns_doubted());
	assert_int_equal(atomic_load(&sn_bell_own()->need_fence), 0);
}

/* What takes the core is then a stranger's, to whom nobody would yield anyway. */
static void nor_are_those_to_peers_of_the_same_group(void **state)
{
	stranger.group = sn_topo()->group;
	for (int i = 0; i < 20; i++)
		lose(1000, 1);
	bool known = stranger.group != 0;
	stranger.group++;
	assert_true(!known || !sn_turns_in_vain(now));
	now += 100000u * (uint64_t)MS;
}

static void yields_without_a_switch_are(void **state)
{
	lose(1000, 1);
	lose(1000, 1);
	assert_false(sn_turns_in_vain(now));
	lose(1000, 1);
	assert_true(sn_turns_in_vain(now));
	assert_true(sn_turns_in_vain(now + 900 * MS));
	assert_false(sn_turns_in_vain(now += 1100 * MS)); /* then it tries again */
	assert_true(sn_turns_doubted());
	for (int i = 0; i < 3; i++)
		lose(1000, 1);
	assert_true(sn_turns_in_vain(now + 1900 * MS)); /* and for longer each time */
	assert_false(sn_turns_in_vain(now + 2100 * MS));
	assert_int_equal(atomic_load(&sn_bell_own()->need_fence), 1);
}

static int never(void *arg)
{
	return 0;
}

static int rung(void *arg)
{
	sn_bell_ring(arg, false); /* a sender between the flag and the sleep */
	return 0;
}

static void who_sleeps_so_is_woken(void **state)
{
	assert_int_equal(sn_bell_ring(sn_bell_own(), false), 0);
	sn_bell_wait(rung, sn_bell_own(), 200000000); /* else the alarm comes */
	sn_bell_wait(never, NULL, 1000);
}

static int setup(void **state)
{
	bool refused = sn_bell_open() || atomic_load(&sn_bell_own()->need_fence);
	if (refused)
		print_message("no bell, or no membarrier here: %s\n", "nothing to be said about fences");
	stranger.group = sn_topo()->group + 1;
	sn_spread_see(&stranger);
	return refused;
}

int main(void)
{
	alarm(150);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(yields_that_switch_are_not_in_vain),
		cmocka_unit_test(nor_are_those_to_peers_of_the_same_group),
		cmocka_unit_test(yields_without_a_switch_are),
		cmocka_unit_test(who_sleeps_so_is_woken),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
