/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel MPI's collectives keep to a shared memory of their own within a node, whatever the fabric. Nothing there
 * rings a bell: a rank that gives its core away in one is back too late, or looks in vain (8-byte allreduce, two
 * ranks a core: 9 to 13 us; four: 35 to 58; by messages 8; 27 to 32). And where each has a core, what goes by
 * messages is done without the MPI (collective.h): two ranks near, us, medians of 3 to 8, in that memory -> by
 * messages (Intel MPI by itself): alltoall of 8 bytes 0.64 to 0.90 -> 0.15 to 0.18 (0.58), of 4 KiB 1.3 -> 0.60 to
 * 0.67 (0.94 to 1.16), allreduce 0.28 -> 0.17 (0.26), broadcast 0.28 to 0.32 -> 0.22 to 0.24 (0.25), of 4 KiB 0.88 ->
 * 0.60 (1.0), allgather 0.32 -> 0.18 (0.39), barrier 0.22 -> 0.19 (0.22). What is not, loses: reduce of 8 bytes 0.43
 * -> 0.47 (0.40), scan 0.32 -> 0.42 (0.34), reduce-scatter 0.48 -> 0.64 (0.51), of 64 KiB 13 -> 48 (79). So where all
 * ranks are here, all go by messages.
 *
 * All ranks of a job must decide the same: by what the launcher tells all of them.
 */
#include "base/launched.h"
#include <stdlib.h>

__attribute__((constructor)) static void collectives_by_messages(void)
{
	struct sn_launched job = sn_launched();
	if (job.here > 1 && job.here == job.all)
		setenv("I_MPI_COLL_INTRANODE", "pt2pt", 0);
}
