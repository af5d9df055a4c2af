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
#include "intel.h"
#include "base/launched.h"
#include "proof.h"
#include <pthread.h>
#include <stdlib.h>

__attribute__((constructor)) static void collectives_by_messages(void)
{
	struct sn_launched job = sn_launched();
	if (job.here > 1 && job.here == job.all)
		setenv("I_MPI_COLL_INTRANODE", "pt2pt", 0);
}

/* ---- MPI_Comm_disconnect ---- */

static union {
	void *symbol;
	int (*group)(handle comm, handle *group);
	int (*size)(handle group, int *size);
	int (*barrier)(handle comm);
	int (*free)(void *comm);
} remote_group, group_size, barrier, comm_free;
static bool known;

static void find(void)
{
	if (sn_mpi_family != MPICH || !sn_mpi_is_intels())
		return;
	remote_group.symbol = sn_mpi_find("PMPI_Comm_remote_group");
	group_size.symbol = sn_mpi_find("PMPI_Group_size");
	barrier.symbol = sn_mpi_find("PMPI_Barrier");
	comm_free.symbol = sn_mpi_find("PMPI_Comm_free");
	known = sn_proof_find() && remote_group.symbol && group_size.symbol && barrier.symbol &&
		comm_free.symbol;
}

static bool is_of_world(int (*of)(handle comm, handle *group), handle comm)
{
	handle group = 0;
	int size = 0;
	if (of(comm, &group))
		return false;
	bool yes = !group_size.size(group, &size) && sn_proof_of_world(group, size);
	sn_proof_mpi.group_free(&group);
	return yes;
}

/* Its ranks, and those on its other side. */
static bool is_within(handle comm)
{
	int inter = 0;
	return !sn_proof_mpi.comm_test_inter(comm, &inter) && is_of_world(sn_proof_mpi.comm_group, comm) &&
	       (!inter || is_of_world(remote_group.group, comm));
}

bool sn_intel_disconnects(void *comm, handle was, int *rc)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
	if (!known || was == sn_mpi_handle(SN_COMM_NULL) || was == sn_mpi_handle(SN_COMM_WORLD) ||
	    was == sn_mpi_handle(SN_COMM_SELF) || !is_within(was))
		return false;
	*rc = barrier.barrier(was);
	if (!*rc)
		*rc = comm_free.free(comm);
	return true;
}
