/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who loses the core while he waits has a short slice from the third time on, and no longer than he loses it. The times are made up, the slices
 * are the kernel's.
 */
#include "base/base.h"
#include "progress/slice.h"
#include "unit.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#define MS    1000000u
#define SHORT 100000u

struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static uint64_t now = MS, usual;

static uint64_t slice(void)
{
	struct attributes a = {.size = sizeof(a)};
	assert_int_equal(syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0), 0);
	return a.runtime;
}

static void ask_for(uint64_t ns)
{
	struct attributes a = {.size = sizeof(a), .runtime = ns};
	assert_int_equal(syscall(SYS_sched_setattr, 0, &a, 0), 0);
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
		now += 300 * MS;
	}
	expect(false);
	assert_int_equal(sn_slice_count(), 0);
}

static void who_loses_it_three_times_a_short_one(void **state)
{
	now += 1000u * (uint64_t)MS;
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
		sn_slice_sleeps(now += MS);
	expect(true);
	yields(11000, 2000);
	expect(false);
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
	pthread_t thread;
	yields(3, 4 * MS);
	assert_int_equal(pthread_create(&thread, NULL, begins_with_it, NULL), 0);
	pthread_join(thread, NULL);
	expect(true);
	yields(11000, 2000);
	expect(false);
}

static void *has_asked(void *arg)
{
	ask_for(7 * MS);
	yields(10, 4 * MS);
	assert_false(sn_slice_short());
	assert_int_equal(slice(), 7 * MS);
	return NULL;
}

static void what_the_program_asked_for_stays(void **state)
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, has_asked, NULL), 0);
	pthread_join(thread, NULL);
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
	return NULL;
}

static void nor_is_another_class_touched(void **state)
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, in_a_batch, NULL), 0);
	pthread_join(thread, NULL);
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
	alarm(60);
	usual = slice();
	if (!usual) {
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
		cmocka_unit_test(nor_is_another_class_touched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
