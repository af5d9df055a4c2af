/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who loses the core while he waits has a short slice from the third time on, and no longer than he loses it. The
 * times are made up, the slices are the kernel's.
 */
#include "base/base.h"
#include "progress/bell.h"
#include "progress/relax.h"
#include "progress/slice.h"
#include "unit.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MS    1000000u
#define SHORT 101000u

struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static uint64_t now = MS, usual;

static struct attributes attributes(void)
{
	struct attributes a = {.size = sizeof(a)};
	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0))
		a.runtime = 0;
	return a;
}

static uint64_t slice(void)
{
	return attributes().runtime;
}

static bool ask_for(uint64_t ns)
{
	struct attributes a = attributes();
	a.runtime = ns;
	return !syscall(SYS_sched_setattr, 0, &a, 0);
}

static void yields(unsigned times, uint64_t ns)
{
	for (unsigned i = 0; i < times; i++, now += ns)
		sn_slice_yielded(now, now + ns);
}

static void expect(bool is_short)
{
	assert_int_equal(sn_slice_short(), is_short);
	assert_int_equal(slice(), is_short ? SHORT : usual);
}

static void who_keeps_the_core_has_the_usual_one(void **state)
{
	yields(100000, 2000);
	expect(false);
	for (int i = 0; i < 20; i++) { /* and who loses it now and then */
		yields(1, 4 * MS);
		now += 1000u * (uint64_t)MS;
	}
	expect(false);
	assert_int_equal(sn_slice_count(), 0);
}

static void who_loses_it_three_times_a_short_one(void **state)
{
	now += 3000u * (uint64_t)MS;
	yields(2, 4 * MS);
	expect(false);
	yields(1, MS);
	expect(true);
	assert_int_equal(sn_slice_count(), 1);
	now += 1000u * (uint64_t)MS; /* what he does in between does not count */
	yields(5000, 2000);
	expect(true);
	yields(1, MS); /* lost again */
	yields(9000, 2000);
	expect(true);
	yields(2000, 2000);
	expect(false);
}

static void and_who_sleeps(void **state)
{
	for (int i = 0; i < 3; i++)
		sn_slice_lost(now += MS);
	expect(true);
	yields(11000, 2000);
	expect(false);
}

static void in_a_thread(void *(*run)(void *arg))
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
	pthread_join(thread, NULL);
}

static void *begins_with_it(void *arg)
{
	assert_int_equal(slice(), SHORT);
	yields(3, 4 * MS);
	expect(true);
	yields(11000, 2000);
	expect(false);
	return NULL;
}

static void a_thread_that_was_born_with_it_gets_rid_of_it(void **state)
{
	yields(3, 4 * MS);
	in_a_thread(begins_with_it);
	expect(true);
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		sn_bell_before_fork(); /* as the handlers of a process with an endpoint do */
		sn_bell_after_fork(true);
		_exit(sn_slice_short() || slice() != usual ? 1 : 0);
	}
	int status;
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	expect(true);
	yields(11000, 2000);
	expect(false);
}

static void *has_asked(void *arg)
{
	assert_true(ask_for(7 * MS));
	yields(10, 4 * MS);
	assert_false(sn_slice_short());
	assert_int_equal(slice(), 7 * MS);
	assert_true(ask_for(0)); /* nor later */
	yields(10, 4 * MS);
	expect(false);
	return NULL;
}

static void *asks_meanwhile(void *arg)
{
	yields(3, 4 * MS);
	expect(true);
	assert_true(ask_for(7 * MS));
	yields(11000, 2000);
	assert_false(sn_slice_short());
	assert_int_equal(slice(), 7 * MS);
	return NULL;
}

static void what_the_program_asked_for_stays(void **state)
{
	in_a_thread(has_asked);
	in_a_thread(asks_meanwhile);
}

static void *is_nice(void *arg)
{
	struct sched_param none = {0};
	assert_int_equal(setpriority(PRIO_PROCESS, (id_t)gettid(), 5), 0);
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none), 0);
	for (int is_short = 1; is_short >= 0; is_short--) {
		is_short ? yields(3, 4 * MS) : yields(11000, 2000);
		expect(is_short);
		assert_int_equal(attributes().nice, 5);
		assert_int_equal(attributes().flags, 1);
	}
	return NULL;
}

static void so_does_everything_else(void **state)
{
	in_a_thread(is_nice);
}

static void *in_a_batch(void *arg)
{
	struct sched_param none = {0};
	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &none), 0);
	yields(10, 4 * MS);
	assert_false(sn_slice_short());
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &none), 0);
	yields(3, 4 * MS);
	expect(true);
	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &none), 0); /* which keeps the slice */
	yields(11000, 2000);
	expect(false);
	return NULL;
}

static void nor_is_another_class_touched(void **state)
{
	in_a_thread(in_a_batch);
}

static atomic_bool done;

static void *computes(void *arg)
{
	while (!atomic_load(&done))
		;
	return NULL;
}

static int never(void *arg)
{
	return 0;
}

/* With the policy for who waits, and a thread that computes on the only core there is. */
static void who_waits_in_a_crowd(unsigned max_nap_us)
{
	cpu_set_t all, one;
	pthread_t thread;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	atomic_store(&done, false);
	assert_int_equal(pthread_create(&thread, NULL, computes, NULL), 0);
	uint64_t idle = 0;
	for (uint64_t end = sn_now_ns() + 20000u * (uint64_t)MS; !sn_slice_short() && sn_now_ns() < end;) {
		sn_relax_crowd(100); /* each time: he finds out by himself that it is not so */
		sn_relax_step(&idle, max_nap_us, never, NULL);
	}
	expect(true);
	sn_relax_crowd(0);
	idle = 0;
	sn_relax_step(&idle, 0, never, NULL); /* with a core for each */
	expect(false);
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void who_yields_in_a_crowd(void **state)
{
	who_waits_in_a_crowd(0);
}

static void who_sleeps_in_a_crowd(void **state)
{
	who_waits_in_a_crowd(100);
}

static void who_may_not_nap_has_the_usual_one(void **state)
{
	now += 3000u * (uint64_t)MS;
	yields(3, 4 * MS);
	expect(true);
	sn_relax_turn(true);
	expect(false);
}

/* Where there are no slices, or they may not be asked for, nothing happens. */
static void an_older_kernel_is_left_alone(void **state)
{
	yields(10, 4 * MS);
	assert_false(sn_slice_short());
	assert_int_equal(sn_slice_count(), 0);
}

int main(void)
{
	alarm(100);
	sn_bell_open();
	bool may = ask_for(0); /* else this process was perhaps started with another */
	usual = slice();
	if (!usual || !may) {
		const struct CMUnitTest old[] = {cmocka_unit_test(an_older_kernel_is_left_alone)};
		int failed = cmocka_run_group_tests(old, NULL, NULL);
		printf("this kernel has no slices that a thread could ask for (before Linux 6.12): only that "
		       "nothing "
		       "happens was tested\n");
		return failed ? 1 : 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_keeps_the_core_has_the_usual_one),
		cmocka_unit_test(who_loses_it_three_times_a_short_one),
		cmocka_unit_test(and_who_sleeps),
		cmocka_unit_test(a_thread_that_was_born_with_it_gets_rid_of_it),
		cmocka_unit_test(what_the_program_asked_for_stays),
		cmocka_unit_test(so_does_everything_else),
		cmocka_unit_test(nor_is_another_class_touched),
		cmocka_unit_test(who_yields_in_a_crowd),
		cmocka_unit_test(who_sleeps_in_a_crowd),
		cmocka_unit_test(who_may_not_nap_has_the_usual_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
