/* SPDX-License-Identifier: BSD-3-Clause */
/* Who waits in a crowd moves to the core where fewer wait, and nobody moves without a reason. The peers are made up. */
#include "base/base.h"
#include "progress/spread.h"
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PEERS 3
#define EACH  1000000000u /* ns between two looks */
#define TRIES 200	  /* the kernel may move this process just before it looks */

static struct sn_bell peers[PEERS];
static cpu_set_t all;
static uint64_t now = 1;

static uint64_t own_id(void)
{
	return atomic_load(&sn_bell_own()->id);
}

static int setup(void **state)
{
	if (sn_bell_open() || sched_getaffinity(0, sizeof(all), &all))
		return -1;
	atomic_store(&sn_bell_own()->id, UINT64_C(1) << 32); /* so that there are smaller and larger ones */
	for (int i = 0; i < PEERS; i++) {
		memset(&peers[i], 0, sizeof(peers[i]));
		sn_spread_see(&peers[i]);
	}
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < PEERS; i++)
		sn_spread_forget(&peers[i]);
	return 0;
}

static int here(void)
{
	int cpu = sched_getcpu();
	assert_true(cpu >= 0);
	return cpu;
}

/* Those listed wait on this core; how often this process has moved in `tries` looks. */
static uint64_t looks_as_listed(int tries)
{
	uint64_t before = sn_spread_moves();
	for (int t = 0; t < tries && sn_spread_moves() == before; t++) {
		for (int i = 0; i < PEERS; i++)
			atomic_store(&peers[i].cpu, (unsigned)here() + 1);
		sn_spread_look(now += EACH);
	}
	return sn_spread_moves() - before;
}

/* The peers have these numbers, which are read when they are seen. */
static uint64_t looks(uint64_t first_id, uint64_t step, int tries)
{
	for (int i = 0; i < PEERS; i++) {
		sn_spread_forget(&peers[i]);
		atomic_store(&peers[i].id, first_id + (uint64_t)i * step);
	}
	for (int i = 0; i < PEERS; i++)
		sn_spread_see(&peers[i]);
	return looks_as_listed(tries);
}

static void need_two_cores(void)
{
	if (CPU_COUNT(&all) < 2) {
		print_message("one core only: nowhere to move to\n");
		skip();
	}
}

static void the_last_on_a_full_core_moves(void **state)
{
	need_two_cores();
	cpu_set_t after;
	int tries = 0;
	do /* the kernel may move it back at once */
		assert_int_equal(looks(1, 1, TRIES), 1);
	while (atomic_load(&sn_bell_own()->cpu) == atomic_load(&peers[0].cpu) && ++tries < TRIES);
	assert_in_range(tries, 0, TRIES - 1);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&after, &all)); /* it is not bound */
}

static void the_first_ones_stay(void **state)
{
	need_two_cores();
	assert_int_equal(looks(own_id() + 1, 1, TRIES), 0);
	assert_int_equal(looks(own_id() - 1, 2, TRIES), 0); /* second of four, of whom two must go */
	assert_int_equal(looks(own_id() - 3, 2, TRIES), 1); /* third */
}

static void sleepers_and_strangers_do_not_count(void **state)
{
	for (int i = 0; i < PEERS; i++)
		atomic_store(&peers[i].sleeping, 1);
	assert_int_equal(looks(1, 1, TRIES), 0);
	for (int i = 0; i < PEERS; i++) {
		atomic_store(&peers[i].sleeping, 0);
		sn_spread_forget(&peers[i]);
	}
	assert_int_equal(looks_as_listed(TRIES), 0);
}

static void one_with_several_endpoints_counts_once(void **state)
{
	assert_int_equal(looks(own_id(), 0, TRIES), 0);		   /* nor does this process count itself */
	assert_int_equal(looks(7, 0, TRIES), CPU_COUNT(&all) > 1); /* two here, none there: one too many */
	sn_spread_forget(&peers[0]); /* the one that counted: another does from now on */
	assert_int_equal(looks_as_listed(TRIES), CPU_COUNT(&all) > 1);
	sn_spread_forget(&peers[2]); /* one that did not */
	assert_int_equal(looks_as_listed(TRIES), CPU_COUNT(&all) > 1);
	sn_spread_forget(&peers[1]);
	assert_int_equal(looks_as_listed(TRIES), 0);
	atomic_store(&sn_bell_own()->id, 1);
	assert_int_equal(looks(7, 0, TRIES), 0); /* and then it is the other's turn to go */
}

/* So long before the next look. */
static void waited(int peer, uint64_t ms_ago)
{
	atomic_store(&peers[peer].waited, (uint32_t)((now + EACH) / 1000000 - ms_ago));
}

/* A peer that has not waited for long computes. */
static void who_is_alone_on_a_core_knows(void **state)
{
	need_two_cores();
	looks(own_id() + 1, 1, 1); /* smaller numbers stay where they are; and these have never waited */
	assert_true(sn_spread_alone());
	atomic_store(&peers[0].sleeping, 1); /* it is woken for this core */
	for (int i = 0; i < PEERS; i++) {
		for (int t = 0; t < TRIES; t++) { /* the kernel may move this process just before it looks */
			waited(i, 0);
			looks_as_listed(1);
			if (!sn_spread_alone())
				break;
		}
		assert_false(sn_spread_alone());
		waited(i, 1000);
		looks_as_listed(1);
		assert_true(sn_spread_alone());
	}
	atomic_store(&peers[0].waited, UINT32_MAX); /* one with several threads: nobody knows */
	atomic_store(&peers[0].cpu, 0);
	sn_spread_look(now += EACH);
	assert_false(sn_spread_alone());
}

static void nonsense_is_not_believed(void **state)
{
	for (int i = 0; i < PEERS; i++) {
		atomic_store(&peers[i].id, 1 + (uint64_t)i);
		atomic_store(&peers[i].cpu, i ? UINT32_MAX - (uint32_t)i : SN_BELL_CPUS + 1);
	}
	uint64_t before = sn_spread_moves();
	sn_spread_look(now += EACH);
	assert_int_equal(sn_spread_moves(), before);
}

static void *other(void *arg)
{
	sn_spread_look(now += EACH);
	return NULL;
}

static void *other_counts(void *arg)
{
	assert_int_equal(sn_spread_rivals(), -1);
	return NULL;
}

/* Peers are told so, whoever finds it out. */
static void several_threads_are_nowhere_and_always_wait(void **state)
{
	pthread_t thread;
	sn_spread_look(now += EACH);
	assert_int_not_equal(atomic_load(&sn_bell_own()->cpu), 0);
	assert_int_equal(pthread_create(&thread, NULL, other_counts, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&sn_bell_own()->cpu), 0);
	assert_int_equal(atomic_load(&sn_bell_own()->waited), UINT32_MAX);
	sn_spread_after_fork(); /* as if it had never been */
}

/* Last: it holds for the rest of the process. */
static void several_threads_take_no_part(void **state)
{
	pthread_t thread;
	sn_spread_look(now += EACH);
	assert_int_not_equal(atomic_load(&sn_bell_own()->cpu), 0);
	assert_int_equal(pthread_create(&thread, NULL, other, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&sn_bell_own()->cpu), 0);
	assert_int_equal(looks(1, 1, TRIES), 0);
}

int main(void)
{
	alarm(150);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_last_on_a_full_core_moves, setup, teardown),
		cmocka_unit_test_setup_teardown(the_first_ones_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(sleepers_and_strangers_do_not_count, setup, teardown),
		cmocka_unit_test_setup_teardown(one_with_several_endpoints_counts_once, setup, teardown),
		cmocka_unit_test_setup_teardown(who_is_alone_on_a_core_knows, setup, teardown),
		cmocka_unit_test_setup_teardown(nonsense_is_not_believed, setup, teardown),
		cmocka_unit_test_setup_teardown(several_threads_are_nowhere_and_always_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(several_threads_take_no_part, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
