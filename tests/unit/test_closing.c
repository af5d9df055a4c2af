/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The second that Open MPI sleeps for libfabric's sake in MPI_Finalize is left out where no provider but ours is
 * used, and no other sleep of anybody's is. The program runs itself again with the library in front; SENNIT_MPI_LIB
 * says where that is.
 */
#include "closing_mpi.h"
#include "unit.h"

static unsigned before;

static int setup(void **state)
{
	before = closing_slept();
	return setenv("FI_PROVIDER", "sennit", 1);
}

static void before_mpi_finalize_all_sleep(void **state)
{
	closing_sleeps(1);
	assert_int_equal(closing_slept(), before + 1);
}

static void where_there_are_other_providers_it_sleeps(void **state)
{
	setenv("FI_PROVIDER", "tcp", 1);
	assert_int_equal(MPI_Finalize(), 7);
	unsetenv("FI_PROVIDER");
	assert_int_equal(MPI_Finalize(), 7);
	assert_int_equal(closing_slept(), before + 2);
}

static void with_ours_alone_one_second_is_left_out(void **state)
{
	sleep(1);	   /* the program's own */
	closing_sleeps(2); /* another one's */
	assert_int_equal(closing_slept(), before + 3);
	assert_int_equal(MPI_Finalize(), 7);
	assert_int_equal(closing_slept(), before + 3);
	closing_sleeps(1); /* somebody waits, second by second */
	assert_int_equal(closing_slept(), before + 4);
}

int main(int argc, char **argv)
{
	if (!unit_preloaded("SENNIT_MPI_LIB", argv))
		return 77;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(before_mpi_finalize_all_sleep, setup),
		cmocka_unit_test_setup(where_there_are_other_providers_it_sleeps, setup),
		cmocka_unit_test_setup(with_ours_alone_one_second_is_left_out, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
