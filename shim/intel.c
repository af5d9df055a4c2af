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
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void collectives_by_messages(void)
{
	struct sn_launched job = sn_launched();
	if (job.here > 1 && job.here == job.all)
		setenv("I_MPI_COLL_INTRANODE", "pt2pt", 0);
}

/* ---- MPI_Comm_disconnect ---- */

static struct {
	int (*test_inter)(handle comm, int *inter);
	int (*group)(handle comm, handle *group);
	int (*remote_group)(handle comm, handle *group);
	int (*size)(handle group, int *size);
	int (*translate)(handle a, int n, const int *in_a, handle b, int *in_b);
	int (*drop)(handle *group);
	int (*barrier)(handle comm);
	int (*free)(void *comm);
} mpi;
static bool known;

static void find(void)
{
	static const char *const names[] = {
		"PMPI_Comm_test_inter",	      "PMPI_Comm_group", "PMPI_Comm_remote_group", "PMPI_Group_size",
		"PMPI_Group_translate_ranks", "PMPI_Group_free", "PMPI_Barrier",	   "PMPI_Comm_free"};
	_Static_assert(sizeof(names) / sizeof(names[0]) * sizeof(void *) == sizeof(mpi), "one for each");
	known = sn_mpi_family == MPICH && sn_mpi_is_intels();
	for (size_t i = 0; known && i < sizeof(names) / sizeof(names[0]); i++) {
		void *found = sn_mpi_find(names[i]);
		memcpy((char *)&mpi + i * sizeof(found), &found, sizeof(found));
		known = found != NULL;
	}
}

static bool is_of_world(handle group, handle world)
{
	int size = 0, n = 0, *ranks = NULL;
	if (!mpi.size(group, &size) && size > 0)
		ranks = malloc(2 * (size_t)size * sizeof(*ranks));
	for (int i = 0; ranks && i < size; i++)
		ranks[i] = i;
	if (ranks && !mpi.translate(group, size, ranks, world, ranks + size))
		while (n < size && ranks[size + n] >= 0)
			n++;
	free(ranks);
	return size > 0 && n == size;
}

/* Its ranks, and those on its other side. */
static bool is_within(handle comm)
{
	handle world = 0, local = 0, remote = 0;
	int inter = 0;
	bool yes = !mpi.test_inter(comm, &inter) && !mpi.group(sn_mpi_handle(SN_COMM_WORLD), &world) &&
		   !mpi.group(comm, &local) && is_of_world(local, world) &&
		   (!inter || (!mpi.remote_group(comm, &remote) && is_of_world(remote, world)));
	handle *groups[] = {&world, &local, &remote};
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		if (*groups[i])
			mpi.drop(groups[i]);
	return yes;
}

bool sn_intel_disconnects(void *comm, handle was, int *rc)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
	if (!known || was == sn_mpi_handle(SN_COMM_NULL) || was == sn_mpi_handle(SN_COMM_WORLD) ||
	    was == sn_mpi_handle(SN_COMM_SELF) || !is_within(was))
		return false;
	*rc = mpi.barrier(was);
	if (!*rc)
		*rc = mpi.free(comm);
	return true;
}
