/* SPDX-License-Identifier: BSD-3-Clause */
/* Plays Intel MPI's library for test_unlocks: it keeps the address of pthread_mutex_lock() where nobody may write. */
#include "unlocks_mpi.h"
#include <pthread.h>
#include <sched.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int mpi_lets_go(void)
{
	return pthread_mutex_lock(&lock) || pthread_mutex_unlock(&lock);
}

int mpi_yields(void)
{
	return sched_yield();
}
