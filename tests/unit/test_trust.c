/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who posts something long may go away to compute, and then the progress thread has to stand in. Who stays, again and
 * again, is trusted to, and nobody is woken for him (engine.h): what counts as staying, and what as going.
 */
#include "base/base.h"
#include "core/core.h"
#include "progress/bell.h"
#include "progress/engine.h"
#include "progress/relax.h"
#include "unit.h"
#include <unistd.h>

#define PATIENT 60000000 /* us */

/*
 * Posts and begins to wait at once, until that is believed. A wait may begin late, where somebody else takes the
 * core; and the thread may be on guard, and notice only after a quarter of a second that there are calls again.
 */
static void earn_trust(sn_ep *ep)
{
	uint64_t end = sn_now_ns() + UINT64_C(1000) * PATIENT;
	for (unsigned spared = 0; spared < 100;) {
		assert_true(sn_now_ns() < end);
		sn_progress(ep);
		spared += !sn_engine_hint(true);
		sn_engine_stay();
	}
}

static void work(uint64_t ns)
{
	for (uint64_t end = sn_now_ns() + ns; sn_now_ns() < end;)
		;
}

/* As where others have the core. */
static void lie_still(uint64_t ns)
{
	usleep((useconds_t)(ns / 1000));
}

/* Does so for so long before it waits. How often, until that is noticed? */
static unsigned unnoticed(sn_ep *ep, void (*does)(uint64_t ns), uint64_t ns)
{
	unsigned n = 0;
	for (; n < 1000 && !sn_engine_hint(true); n++) {
		sn_progress(ep);
		does(ns);
		sn_engine_stay();
	}
	return n;
}

/*
 * A post, and nothing more until the thread has taken the guard; then calls, as many as it needs to see them. Still
 * trusted?
 */
static bool is_trusted_after_leaving(sn_ep *ep)
{
	do
		earn_trust(ep);
	while (sn_engine_hint(true)); /* the thread has just taken the guard, and told nobody */
	uint64_t end = sn_now_ns() + UINT64_C(1000) * PATIENT;
	while (!sn_bell_guarded() && sn_now_ns() < end)
		usleep(1000);
	assert_true(sn_bell_guarded());
	for (end = sn_now_ns() + 300000000u; sn_now_ns() < end;)
		sn_progress(ep);
	return !sn_engine_hint(true);
}

static void who_waits_at_once_needs_no_guard(void **state)
{
	sn_ep *ep;
	assert_int_equal(sn_ep_open(NULL, &ep), 0);
	earn_trust(ep);
	assert_in_range(unnoticed(ep, work, 100000), 0, 20);
	earn_trust(ep);
	assert_true(sn_engine_hint(false)); /* another host's rings by other ways */
	sn_engine_stayed();		    /* and others may be under way from there */
	assert_true(sn_bell_guarded());
	sn_engine_stay();
	unsigned missed = 0; /* the thread may look away just when the post is made */
	while (missed < 10 && is_trusted_after_leaving(ep))
		missed++;
	assert_in_range(missed, 0, 9);
	sn_ep_close(ep);
}

/*
 * The most of several times until it is 100, or the least until it is 20: on a busy machine the thread may just be on
 * guard.
 */
static unsigned bounded(sn_ep *ep, void (*does)(uint64_t ns), uint64_t ns, bool least)
{
	uint64_t end = sn_now_ns() + UINT64_C(1000) * PATIENT;
	unsigned n = least ? 1000 : 0;
	while ((least ? n > 20 : n < 100) && sn_now_ns() < end) {
		earn_trust(ep);
		unsigned now = unnoticed(ep, does, ns);
		n = least ? SN_MIN_OF(n, now) : SN_MAX_OF(n, now);
	}
	return n;
}

/* As who copies. */
static void work_inside(uint64_t ns)
{
	bool entered = sn_engine_enter();
	work(ns);
	sn_engine_exit(entered);
}

/* As who loses the core now and then. */
static void work_seldom(uint64_t ns)
{
	static unsigned turn;
	if (++turn % 16 == 0)
		work(ns);
}

static void who_copies_for_long_or_is_late_once_is_trusted(void **state)
{
	sn_ep *ep;
	assert_int_equal(sn_ep_open(NULL, &ep), 0);
	assert_true(bounded(ep, work_inside, 100000, false) >= 100);
	assert_true(bounded(ep, work_seldom, 100000, false) >= 100);
	assert_in_range(bounded(ep, work, 100000, true), 0, 20);
	sn_ep_close(ep);
}

/* So often spared of so many hints, after each of which a long message ends in the library. */
static unsigned spared_of(sn_ep *ep, unsigned hints, uint64_t away)
{
	unsigned spared = 0;
	for (unsigned i = 0; i < hints; i++) {
		sn_progress(ep);
		spared += !sn_engine_hint(true);
		work(away);
		bool entered = sn_engine_enter();
		if (sn_engine_asks())
			sn_engine_stayed();
		sn_engine_exit(entered);
	}
	return spared;
}

static void whose_message_ends_before_he_waits_is_trusted_if_that_is_no_post(void **state)
{
	sn_ep *ep;
	assert_int_equal(sn_ep_open(NULL, &ep), 0);
	uint64_t end = sn_now_ns() + UINT64_C(1000) * PATIENT;
	while (spared_of(ep, 100, 0) < 50)
		assert_true(sn_now_ns() < end);
	assert_in_range(spared_of(ep, 100, 100000), 0, 20);
	atomic_store(&sn_engine_habit.posting, true);
	assert_int_equal(spared_of(ep, 100, 0), 0);
	atomic_store(&sn_engine_habit.posting, false);
	sn_ep_close(ep);
}

/*
 * To wake the thread is to take the core from somebody who has something to do, so it is done for those who work for
 * longer; by their own time, not for those who had to wait for the core.
 */
static void in_a_crowd_who_works_a_little_needs_no_guard(void **state)
{
	sn_ep *ep;
	assert_int_equal(sn_ep_open(NULL, &ep), 0);
	assert_in_range(unnoticed(ep, work, 100000), 0, 20);
	sn_relax_crowd(1000);
	assert_true(bounded(ep, work, 100000, false) >= 100);
	assert_true(bounded(ep, lie_still, 400000, false) >= 100);
	assert_in_range(bounded(ep, work, 1000000, true), 0, 20);
	earn_trust(ep);
	assert_true(sn_engine_hint(false)); /* who is on another host takes no core of these */
	sn_engine_stay();
	sn_ep_close(ep);
	sn_relax_crowd(0);
}

/*
 * A tick of the thread's, while the application looks by itself, is no reason to take down the guard of one who has
 * left since.
 */
static void a_guard_outlasts_a_tick(void **state)
{
	assert_int_equal(sn_bell_open(), 0); /* no endpoint, so no thread that guards */
	sn_bell_guard_set(true);
	sn_bell_guard(false, NULL, NULL, NULL, 1000);
	assert_true(sn_bell_guarded());
	sn_bell_guard_set(false);
	sn_bell_guard(false, NULL, NULL, NULL, 1000);
	assert_false(sn_bell_guarded());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_waits_at_once_needs_no_guard),
		cmocka_unit_test(who_copies_for_long_or_is_late_once_is_trusted),
		cmocka_unit_test(whose_message_ends_before_he_waits_is_trusted_if_that_is_no_post),
		cmocka_unit_test(in_a_crowd_who_works_a_little_needs_no_guard),
		cmocka_unit_test(a_guard_outlasts_a_tick),
	};
	setenv("SENNIT_NET", "off", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
