/* SPDX-License-Identifier: BSD-3-Clause */
/* Where Intel MPI takes its lock again, the provider is asked to wait (shim/unlocks.c); nowhere else, and only if it has to. */
#include "abi.h"
#include "quick.h"
#include "unit.h"
#include "unlocks.h"
#include "unlocks_mpi.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool intels;
static unsigned waits;

static void wait_here(void)
{
	waits++;
	sn_mpi_thread.owed = NULL;
	errno = EINTR;
}

/* What the rest of libsennit-mpi.so has for it. */
enum sn_mpi_family sn_mpi_family = MPICH;
struct sn_shim sn_mpi_shim = {.version = SN_SHIM_VERSION, .wait = wait_here};
_Thread_local struct sn_shim_thread sn_mpi_thread;

void *sn_mpi_find(const char *name)
{
	union {
		int (*function)(void);
		void *symbol;
	} of = {mpi_lets_go};
	return strcmp(name, "impi_malloc") != 0 || intels ? of.symbol : NULL;
}

static void only_what_is_mpichs_or_intels(void **state)
{
	sn_mpi_family = OPEN_MPI;
	sn_unlocks_see();
	assert_int_equal(sn_mpi_shim.lets_go, 0);
	sn_mpi_family = MPICH;
	sn_unlocks_see();
	assert_int_equal(sn_mpi_shim.lets_go, 1);
	sn_mpi_thread.owed = &waits;
	assert_int_equal(mpi_lets_go(), 0); /* MPICH yields: nothing is changed */
	assert_int_equal(waits, 0);
	sn_mpi_shim.lets_go = 0;
}

static void intels_lock_waits_for_what_is_owed(void **state)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	intels = true;
	sn_unlocks_see();
	assert_int_equal(sn_mpi_shim.lets_go, 1);
	sn_mpi_thread.owed = NULL;
	assert_int_equal(mpi_lets_go(), 0);
	assert_int_equal(waits, 0);
	for (unsigned i = 1; i <= 3; i++) {
		sn_mpi_thread.owed = &waits;
		pthread_mutex_lock(&own);
		pthread_mutex_unlock(&own);
		assert_int_equal(waits, i - 1);
		errno = 0;
		assert_int_equal(mpi_lets_go(), 0);
		assert_int_equal(waits, i);
		assert_int_equal(errno, 0);
		assert_int_equal(mpi_lets_go(), 0);
		assert_int_equal(waits, i);
	}
	sn_unlocks_see(); /* once more changes nothing */
	sn_mpi_thread.owed = &waits;
	assert_int_equal(mpi_lets_go(), 0);
	assert_int_equal(waits, 4);
}

static void code_of_the_mpis_is_known(void **state)
{
	union {
		int (*function)(void);
		void *code;
	} theirs = {mpi_yields}, libcs = {rand};
	assert_true(sn_unlocks_is_mpis((char *)theirs.code + 1));
	assert_false(sn_unlocks_is_mpis(libcs.code));
	assert_false(sn_unlocks_is_mpis(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_mpichs_or_intels),
		cmocka_unit_test(intels_lock_waits_for_what_is_owed),
		cmocka_unit_test(code_of_the_mpis_is_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
