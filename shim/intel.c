/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel MPI's collectives keep to a shared memory of their own within a node, whatever the fabric. Nothing there rings a bell: a
 * rank that gives its core away in one is back too late, or looks in vain (8-byte allreduce, two ranks a core: 9 to 13 us; four: 35
 * to 58). So where there are more ranks than cores, and all of them are here, they go by messages (8; 27 to 32). Else
 * they stay as they are: two ranks with a core each need 0.28 us and not 0.58.
 *
 * All ranks of a job must decide the same: by what the launcher tells all of them, and by the machine.
 */
#include "base/launched.h"
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void collectives_by_messages(void)
{
	struct sn_launched job = sn_launched();
	if (job.here > sysconf(_SC_NPROCESSORS_ONLN) && job.here == job.all)
		setenv("I_MPI_COLL_INTRANODE", "pt2pt", 0);
}
