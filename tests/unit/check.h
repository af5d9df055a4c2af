/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks in forked processes, where cmocka's assertions end nothing. */
#ifndef SN_TESTS_CHECK_H
#define SN_TESTS_CHECK_H

#include "sennit/sennit.h"
#include "unit.h"

#ifndef CHECK_FAILED /* what else a failure is to do: tell the other processes */
#define CHECK_FAILED() ((void)0)
#endif

/* A failure ends the process, and its parent sees the status. */
#define CHECK(cond)                                                                                          \
	do {                                                                                                 \
		if (!(cond)) {                                                                               \
			fprintf(stderr, "process %d: %s:%d: %s (%s)\n", getpid(), __FILE__, __LINE__, #cond, \
				sn_last_error());                                                            \
			CHECK_FAILED();                                                                      \
			_exit(1);                                                                            \
		}                                                                                            \
	} while (0)

#endif
