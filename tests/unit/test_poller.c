/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who polls for the progress thread is of the lowest scheduling class, and the progress thread is not; a word that changes is
 * reported however the threads meet, and one that does not is not; it ends in the middle of its work.
 */
#include "base/base.h"
#include "progress/poller.h"
#include "sennit/sennit.h"
#include "unit.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define LAPS	2000
#define LONG_NS 1000000000u

static _Atomic uint32_t *word, *answer;

/* The class of this process's thread of that name, -1: there is none. */
static int class_of(const char *wanted)
{
	int class = -1;
	DIR *dir = opendir("/proc/self/task");
	assert_non_null(dir);
	/* cppcheck-suppress readdirCalled ; this directory is read by this thread alone */
	for (const struct dirent *e; class < 0 && (e = readdir(dir));) {
		char path[64], name[32] = "";
		snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", e->d_name);
		FILE *f = fopen(path, "re");
		if (f && fgets(name, sizeof(name), f) && !strncmp(name, wanted, strlen(wanted)))
			class = sched_getscheduler((pid_t)strtol(e->d_name, NULL, 10));
		if (f)
			fclose(f);
	}
	closedir(dir);
	return class;
}

static void only_the_poller_is_of_the_lowest_class(void **state)
{
	sn_ep *ep;
	assert_int_equal(sn_ep_open(NULL, &ep), 0);
	while (class_of("sennit-poll") !=
	       SCHED_IDLE) /* it changes its class and its name itself; else the alarm comes */
		usleep(1000);
	assert_int_equal(class_of("sennit-move"), SCHED_OTHER);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
	sn_ep_close(ep);
	while (class_of("sennit-poll") !=
	       -1) /* who has joined it is told before the kernel takes its name away */
		usleep(1000);
}

static void *changer(void *arg)
{
	for (uint32_t lap = 1; lap <= LAPS; lap++) {
		for (unsigned i = 0; i < lap % 50; i++)
			sn_cpu_relax();
		atomic_store(word, lap);
		while (atomic_load(answer) != lap)
			sched_yield();
	}
	return NULL;
}

static void each_change_is_reported(void **state)
{
	pthread_t thread;
	assert_true(sn_poller_start());
	assert_int_equal(pthread_create(&thread, NULL, changer, NULL), 0);
	for (uint32_t lap = 0; lap < LAPS; lap++) {
		while (sn_poller_watch(word, lap, sn_now_ns() + LONG_NS) != SN_WATCHED_CHANGED)
			;
		assert_int_equal(atomic_load(word), lap + 1);
		atomic_store(answer, lap + 1);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(sn_poller_cpu_ns() > 0);
	sn_poller_stop();
}

static void what_does_not_change_is_not_reported(void **state)
{
	uint32_t same = atomic_load(word);
	assert_true(sn_poller_start());
	for (int i = 0; i < 20; i++) {
		uint64_t until = sn_now_ns() + 1000000;
		enum sn_watched how = sn_poller_watch(word, same, until);
		assert_int_not_equal(how, SN_WATCHED_CHANGED);
		assert_true(how == SN_WATCHED_WANTED || sn_now_ns() >= until);
	}
	assert_int_equal(sn_poller_watch(word, same + 1, sn_now_ns() + LONG_NS), SN_WATCHED_CHANGED);
	sn_poller_stop();
	assert_int_equal(sn_poller_watch(word, same, sn_now_ns() + LONG_NS), SN_WATCHED_OVER);
	assert_int_equal(sn_poller_cpu_ns(), 0);
}

static void *watch_long(void *arg)
{
	while (sn_poller_watch(word, *(const uint32_t *)arg, sn_now_ns() + LONG_NS) != SN_WATCHED_CHANGED)
		;
	return NULL;
}

/* As when an endpoint closes: the progress thread has gone, the poller may be in the middle of a job that it has left. */
static void it_ends_in_the_middle_of_a_job(void **state)
{
	for (int i = 0; i < 50; i++) {
		pthread_t thread;
		uint32_t same = atomic_load(word);
		assert_true(sn_poller_start());
		assert_int_equal(pthread_create(&thread, NULL, watch_long, &same), 0);
		usleep((useconds_t)i * 10);
		atomic_store(word, same + 1);
		assert_int_equal(pthread_join(thread, NULL), 0);
		sn_poller_stop();
	}
}

int main(void)
{
	alarm(100);
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (word == MAP_FAILED)
		return 1;
	answer = word + 32;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_poller_is_of_the_lowest_class),
		cmocka_unit_test(each_change_is_reported),
		cmocka_unit_test(what_does_not_change_is_not_reported),
		cmocka_unit_test(it_ends_in_the_middle_of_a_job),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
