/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program whose threads have megabytes of variables of their own (threadprivate, thread_local): the C library takes
 * them out of each thread's stack, of sennit's own threads, too.
 */
#include "check.h"
#include <sys/stat.h>

#define LARGE ((size_t)4 << 20)

static __thread char own[LARGE];

static unsigned threads(void)
{
	struct stat tasks;
	assert_int_equal(stat("/proc/self/task", &tasks), 0);
	return (unsigned)tasks.st_nlink - 2;
}

static void its_threads_start(void **state)
{
	sn_ep *ep;
	unsigned before = threads();
	setenv("SENNIT_PROGRESS", "1", 1);
	setenv("SENNIT_POLL", "1", 1);
	memset(own, 1, sizeof(own));
	assert_int_equal(sn_ep_open(NULL, &ep), SN_OK);
	/* the service thread and that of progress; more are who polls for it, and a sanitizer's */
	assert_true(threads() - before >= 2);
	sn_ep_close(ep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(its_threads_start)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
