/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The second that Open MPI sleeps for libfabric's sake in MPI_Finalize is left out where no provider but ours is used, and no other
 * sleep of anybody's is. The program runs itself again with the library in front; SENNIT_MPI_LIB says where that is.
 */
#include "closing_mpi.h"
#include "unit.h"

static void before_mpi_finalize_all_sleep(void **state)
{
	closing_sleeps(1);
	assert_int_equal(closing_slept(), 1);
}

static void where_there_are_other_providers_it_sleeps(void **state)
{
	unsigned before = closing_slept();
	setenv("FI_PROVIDER", "tcp", 1);
	assert_int_equal(MPI_Finalize(), 7);
	unsetenv("FI_PROVIDER");
	assert_int_equal(MPI_Finalize(), 7);
	assert_int_equal(closing_slept(), before + 2);
}

static void with_ours_alone_it_does_not(void **state)
{
	unsigned before = closing_slept();
	setenv("FI_PROVIDER", "sennit", 1);
	assert_int_equal(MPI_Finalize(), 7);
	assert_int_equal(closing_slept(), before);
	closing_sleeps(2);
	sleep(1); /* the program's own */
	assert_int_equal(closing_slept(), before + 3);
}

int main(int argc, char **argv)
{
	if (!unit_preloaded("SENNIT_MPI_LIB", argv))
		return 77;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_mpi_finalize_all_sleep),
		cmocka_unit_test(where_there_are_other_providers_it_sleeps),
		cmocka_unit_test(with_ours_alone_it_does_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
