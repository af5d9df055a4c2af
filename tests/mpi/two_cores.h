/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_TESTS_TWO_CORES_H
#define SN_TESTS_TWO_CORES_H

#include <sched.h>

/* Of those that it has, so that more ranks are a crowd on any machine. Before MPI_Init. */
static inline void bind_to_two(void)
{
	cpu_set_t has, two;
	CPU_ZERO(&two);
	if (sched_getaffinity(0, sizeof(has), &has))
		return;
	for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&two) < 2; c++)
		if (CPU_ISSET(c, &has))
			CPU_SET(c, &two);
	sched_setaffinity(0, sizeof(two), &two);
}

#endif
