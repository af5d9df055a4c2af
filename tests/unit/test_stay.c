/* SPDX-License-Identifier: BSD-3-Clause */
/* Who posts something long to another host, and whether he is taken for somebody who has gone: by made-up clocks. */
#include "base/base.h"
#include "net/stay.h"
#include "unit.h"

#define US 1000u

static uint64_t clock_ns = 1000000 * US;

/* A window of posts, and then looks 1 us apart until it shows that he waits. */
static bool posts_and_waits(struct sn_net_stay *s)
{
	bool may_go = sn_net_may_go(s, clock_ns);

	for (unsigned looks = 1; !sn_net_looks(s, clock_ns += US, 0, false); looks++) {
		s->done = clock_ns;
		assert_true(looks < 100);
	}
	return may_go;
}

static void who_always_waits_is_trusted(void **state)
{
	struct sn_net_stay s = {0};
	unsigned windows = 1;

	for (; posts_and_waits(&s); windows++)
		assert_true(windows < 100);
	assert_true(windows > 1);
	assert_false(posts_and_waits(&s));
}

static void until_he_was_away(void **state)
{
	struct sn_net_stay s = {0};

	while (posts_and_waits(&s))
		;
	assert_false(sn_net_may_go(&s, clock_ns));
	assert_false(sn_net_looks(&s, clock_ns += 1000 * US, 0, false));
	assert_true(posts_and_waits(&s));
}

/* One who has waited for long, and after his next post is not seen for so long. */
static struct sn_net_stay away_for(uint64_t ns)
{
	struct sn_net_stay s = {0};

	for (unsigned windows = 0; windows < 1000; windows++)
		posts_and_waits(&s);
	assert_false(sn_net_may_go(&s, clock_ns));
	assert_false(sn_net_looks(&s, clock_ns += ns, 0, false));
	return s;
}

/* He is trusted still when he has lost his core for a moment, but not when that comes again and again. */
static void who_loses_his_core_is_trusted_still(void **state)
{
	struct sn_net_stay s = away_for(100 * US);
	unsigned times = 0;

	assert_false(posts_and_waits(&s));
	while (!sn_net_may_go(&s, clock_ns)) {
		assert_false(sn_net_looks(&s, clock_ns += 100 * US, 0, false));
		assert_true(++times < 8);
	}
}

/* But when he has computed he is expected to do so again. */
static void who_has_computed_is_not(void **state)
{
	struct sn_net_stay s = away_for(1000 * US);

	for (unsigned phases = 0; phases < 100; phases++) {
		for (unsigned windows = 0; windows < 12; windows++)
			posts_and_waits(&s);
		assert_true(sn_net_may_go(&s, clock_ns));
		assert_false(sn_net_looks(&s, clock_ns += 1000 * US, 0, false));
	}
}

/* Where the threads would take his core, who computes for a little each time is let alone; not who does so for longer. */
static void who_computes_a_little_on_a_full_host_is_trusted(void **state)
{
	struct sn_net_stay s = {0};
	unsigned windows = 1;

	for (; sn_net_may_go(&s, clock_ns); windows++) {
		assert_true(windows < 100);
		assert_false(sn_net_looks(&s, clock_ns += 900 * US, 0, true));
		for (unsigned looks = 0; !sn_net_looks(&s, clock_ns += US, 0, true); looks++) {
			s.done = clock_ns;
			assert_true(looks < 100);
		}
	}
	assert_false(sn_net_looks(&s, clock_ns += 900 * US, 0, true));
	assert_false(sn_net_may_go(&s, clock_ns));
	assert_false(sn_net_looks(&s, clock_ns += 1100 * US, 0, true));
	assert_true(sn_net_may_go(&s, clock_ns));
}

/* The thread that his own post has woken finds him there, and one that wakes later does not. */
static void who_posted_a_moment_ago_is_here(void **state)
{
	struct sn_net_stay s = {0};

	assert_false(sn_net_just_posted(&s, clock_ns));
	sn_net_may_go(&s, clock_ns);
	assert_true(sn_net_just_posted(&s, clock_ns + 10 * US));
	assert_false(sn_net_just_posted(&s, clock_ns + 1000 * US));
	sn_net_looks(&s, clock_ns + 999 * US, 0,
		     false); /* a look is not a post: whether he looks is counted */
	assert_false(sn_net_just_posted(&s, clock_ns + 1000 * US));
}

/* The thread that each frame wakes has the application's core meanwhile: it is away when it has not called for 2 ms. */
static void who_has_called_lately_is_here(void **state)
{
	struct sn_net_here h = {0};

	assert_true(sn_net_calls(&h, 5, clock_ns));
	assert_false(sn_net_calls(&h, 5, clock_ns + 10 * US));
	assert_true(sn_net_called(&h, 5, clock_ns + 20 * US));
	assert_false(sn_net_calls(&h, 5, clock_ns + 1000 * US));
	assert_true(sn_net_called(&h, 5, clock_ns + 1000 * US));
	assert_false(sn_net_calls(&h, 5, clock_ns + 3000 * US));
	assert_false(sn_net_called(&h, 5, clock_ns + 3000 * US));
	assert_true(sn_net_calls(&h, 6, clock_ns + 3001 * US));
	assert_true(sn_net_called(&h, 6, clock_ns + 3002 * US));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_always_waits_is_trusted),
		cmocka_unit_test(until_he_was_away),
		cmocka_unit_test(who_loses_his_core_is_trusted_still),
		cmocka_unit_test(who_has_computed_is_not),
		cmocka_unit_test(who_computes_a_little_on_a_full_host_is_trusted),
		cmocka_unit_test(who_posted_a_moment_ago_is_here),
		cmocka_unit_test(who_has_called_lately_is_here),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
