/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where an MPI lets its lock go, for those that wait in it beside other threads (ofi/beside.c). MPICH yields between
 * unlock and lock (shim.c has the yield). Intel MPI does nothing there: 4 ranks of three threads on two cores took 36
 * s for what takes 3.3 now, and Intel MPI by itself 5 to 7 (tests/mpi/later.c). It finds pthread_mutex_lock() by a
 * table of addresses of its own, of which one entry is changed: nobody else's calls are concerned. Not that of
 * pthread_mutex_unlock(), which also ends a call whose message another thread has brought meanwhile.
 */
#include "unlocks.h"
#include "abi.h"
#include "library.h"
#include "quick.h"
#include <errno.h>
#include <pthread.h>

static int lock(pthread_mutex_t *mutex)
{
	if (!likely(!sn_mpi_thread.owed)) {
		int was = errno;
		atomic_load (&sn_mpi_shim.wait)();
		errno = was;
	}
	return pthread_mutex_lock(mutex);
}

static struct sn_library mpi;

bool sn_unlocks_is_mpis(const void *code)
{
	return sn_object_holds(&mpi.info, (uintptr_t)code);
}

void sn_unlocks_see(void)
{
	struct sn_library library;
	if (sn_mpi_family != MPICH || !sn_library_with(&library, (uintptr_t)sn_mpi_find("PMPI_Init_thread")))
		return;
	mpi = library;
	if (!sn_mpi_is_intels() || sn_library_redirect(&mpi, "pthread_mutex_lock", (void (*)(void))lock))
		atomic_store(&sn_mpi_shim.lets_go, 1);
}
