/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libsennit-mpi.so asks for the MPI's functions when the first of a kind is called, for each of them by two names, and most
 * MPIs lack some. It does so without a walk through all that is loaded, which took a rank 2.6 ms in its first MPI_Wait or
 * MPI_Testany, and nine ranks that start on two cores ten. The program runs itself again with the library in front;
 * SENNIT_MPI_LIB says where that is.
 */
#include "found_mpi.h"
#include "unit.h"
#include <dlfcn.h>

static unsigned opened, named;

/* In place of the C library's. */
FOUND void *dlopen(const char *file, int mode)
{
	union {
		void *symbol;
		void *(*function)(const char *file, int mode);
	} next = {dlsym(RTLD_NEXT, "dlopen")};
	opened++;
	return next.function(file, mode);
}

FOUND int dladdr(const void *address, Dl_info *info)
{
	union {
		void *symbol;
		int (*function)(const void *address, Dl_info *info);
	} next = {dlsym(RTLD_NEXT, "dladdr")};
	named++;
	return next.function(address, info);
}

static void what_is_not_there_is_not_looked_for_everywhere(void **state)
{
	int request = 1;
	assert_int_equal(MPI_Request_free(&request), 7);
	assert_int_equal(request, 0); /* the MPI's has been called */
	print_message("%u objects opened, %u symbols named\n", opened, named);
	assert_in_range(opened, 1, 2); /* to see whether it is Open MPI */
	assert_in_range(named, 1, 8);
}

int main(int argc, char **argv)
{
	if (!unit_preloaded("SENNIT_MPI_LIB", argv))
		return 77;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_there_is_not_looked_for_everywhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
