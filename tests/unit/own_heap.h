/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the shareable heap ask of this process's own, and of a child's. */
#ifndef SN_TESTS_OWN_HEAP_H
#define SN_TESTS_OWN_HEAP_H

#include "copy/heap.h"
#include "unit.h"
#include <sys/wait.h>

/* Are all of these bytes where peers may map them? */
static inline bool ours(void *p, size_t n)
{
	struct sn_heap_info own;
	struct iovec v = {p, n};
	return sn_heap_own(&own) && sn_heap_holds(&own, &v, 1);
}

/* The status of a child that returns what fn does. */
static inline int child(int (*fn)(void *arg), void *arg)
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	if (!pid)
		_exit(fn(arg));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#endif
