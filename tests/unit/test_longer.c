/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who was woken soon stays awake the next times, but not where that is dearer than to sleep: where somebody else wants
 * his core, or where his waits have become long ones that he sleeps through elsewhere.
 */
#include "base/base.h"
#include "progress/relax.h"
#include "unit.h"
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#define SHORT 200000u /* ns: a wait in which one naps */
#define LONG  5000000u

static uint64_t due;

static int is_due(void *arg)
{
	return sn_now_ns() >= due;
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

/* How many naps there were in a wait of so long, and what that took in truth. */
static uint64_t naps_in(uint64_t ns, uint64_t *took)
{
	uint64_t idle = 0, before = naps(), start = sn_now_ns();
	due = start + ns;
	while (!is_due(NULL))
		sn_relax_step(&idle, 20000, is_due, NULL);
	*took = sn_now_ns() - start;
	return naps() - before;
}

/* Until nobody naps in a wait of that length. False: others take the core all the time. */
static bool stays_awake(void)
{
	uint64_t took;
	for (int tries = 0; tries < 500; tries++)
		if (!naps_in(SHORT, &took) && took < SHORT + SHORT / 8)
			return true;
	return false;
}

static void be_skipped(void)
{
	print_message("a busy machine: others take the core all the time\n");
	skip();
}

static int setup(void **state)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	sn_relax_crowd(0);
	return sched_setaffinity(0, sizeof(one), &one);
}

/*
 * One sleep would make others sleep, so the next time he is awake; until a wait takes so long that to sleep was right. Judged where
 * nobody has taken the core meanwhile.
 */
static void who_has_slept_for_less_than_1_ms_stays_awake(void **state)
{
	unsigned awake = 0, forgotten = 0;
	uint64_t took;
	for (int tries = 0; tries < 500 && (awake < 20 || forgotten < 3); tries++) {
		if (!naps_in(LONG, &took))
			continue; /* without his core all the time */
		uint64_t naps_after = naps_in(SHORT, &took);
		forgotten += naps_after > 0;
		for (int i = 0; i < 10 && naps_after && took < 3 * SHORT; i++) {
			uint64_t more = naps_in(SHORT, &took);
			if (took > SHORT + SHORT / 8)
				break;
			assert_int_equal(more, 0);
			awake++;
		}
	}
	while (!naps_in(LONG, &took))
		;
	naps_in(SHORT / 8, &took); /* what was learned is forgotten, for the other tests */
	if (awake >= 20 && forgotten >= 3)
		return;
	be_skipped();
}

static void who_sleeps_elsewhere_does_not_stay_awake_first(void **state)
{
	uint64_t start, took = 0, least = UINT64_MAX; /* of some, as the core may be taken away */
	for (int tries = 0; took < SHORT && tries < 20; tries++) {
		if (!stays_awake())
			be_skipped();
		start = sn_now_ns();
		assert_false(sn_relax_awake(never, NULL));
		took = sn_now_ns() - start;
	}
	assert_true(took >= SHORT);
	for (int i = 0; i < 20; i++) {
		start = sn_now_ns();
		assert_false(sn_relax_awake(never, NULL));
		least = SN_MIN_OF(least, sn_now_ns() - start);
	}
	assert_true(least < SHORT);
}

/* As where another thread calls: nobody knows what he waited for, and how long that takes. */
static void what_is_interrupted_teaches_nothing(void **state)
{
	uint64_t napped = 0, took;
	naps_in(LONG, &took);
	naps_in(SHORT / 8, &took); /* forgotten, what was before */
	for (int i = 0; i < 20; i++) {
		napped += naps_in(SHORT, &took) != 0;
		sn_relax_interrupted();
	}
	assert_true(napped >= 10); /* without his core for that time he does not nap */
}

/* To him a yield gives a time slice, and what was to be waited for is long there when that is over. */
static void who_shares_his_core_with_a_stranger_sleeps(void **state)
{
	uint64_t napped = 0, took;
	if (!stays_awake())
		be_skipped();
	pid_t stranger = fork();
	assert_true(stranger >= 0);
	if (!stranger)
		for (alarm(100);;)
			;
	for (int i = 0; i < 100; i++)
		napped += naps_in(SHORT, &took) != 0;
	kill(stranger, SIGKILL);
	assert_int_equal(waitpid(stranger, NULL, 0), stranger);
	assert_true(napped >= 20);
}

int main(void)
{
	alarm(150);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_slept_for_less_than_1_ms_stays_awake),
		cmocka_unit_test(who_sleeps_elsewhere_does_not_stay_awake_first),
		cmocka_unit_test(what_is_interrupted_teaches_nothing),
		cmocka_unit_test(who_shares_his_core_with_a_stranger_sleeps),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
