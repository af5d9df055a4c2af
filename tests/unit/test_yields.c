/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The yields of a program that libsennit-mpi.so stands in front of: each is a system call, in every thread, whether or not
 * the provider is there; only the first after a look of the provider is not. Counted are the system calls, by a filter that
 * makes a signal of each. The program runs itself again with the library in front; SENNIT_MPI_LIB says where that is. And
 * what the library sets for Intel MPI.
 */
#include "progress/caller.h"
#include "shim.h"
#include "unit.h"
#include "yields.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>

#define N 20

static unsigned yields(unsigned times)
{
	unsigned before = yields_counted;
	for (unsigned i = 0; i < times; i++)
		assert_int_equal(sched_yield(), 0);
	return yields_counted - before;
}

static void each_is_a_system_call(void **state)
{
	assert_true(yields_count()); /* here: cmocka sets handlers before each test */
	assert_int_equal(yields(N), N);
}

static void only_the_first_after_a_look_is_none(void **state)
{
	assert_true(yields_count());
	sn_caller_find();
	assert_non_null(sn_caller_shim()); /* the library's version is ours */
	struct sn_shim_thread *own = sn_caller_shim()->thread();
	for (int i = 0; i < 3; i++) {
		own->looked = 1;
		assert_int_equal(yields(N), N - 1);
	}
}

static void *other_thread(void *arg)
{
	assert_int_equal(yields(N), N);
	return arg;
}

static void a_look_is_of_one_thread(void **state)
{
	pthread_t other;
	assert_true(yields_count());
	sn_caller_shim()->thread()->looked = 1;
	assert_int_equal(pthread_create(&other, NULL, other_thread, NULL), 0);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(yields(N), N - 1);
}

/* Of a program that the library stands in front of, in a job of `all` ranks with `here` of them on this node. */
static bool collectives_go_by_messages(const char *here, const char *all)
{
	setenv("MPI_LOCALNRANKS", here, 1);
	setenv("PMI_SIZE", all, 1);
	pid_t pid = fork();
	if (!pid) {
		execl("/bin/sh", "sh", "-c", "test \"$I_MPI_COLL_INTRANODE\" = pt2pt", (char *)NULL);
		_exit(127);
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) == 0;
}

static void intel_mpi_sends_messages_within_a_node(void **state)
{
	assert_true(collectives_go_by_messages("1000000", "1000000"));
	assert_true(collectives_go_by_messages("2", "2"));
	assert_false(collectives_go_by_messages("1", "1")); /* to whom? */
	assert_false(
		collectives_go_by_messages("1000000", "1000001")); /* elsewhere they may decide otherwise */
	setenv("I_MPI_COLL_INTRANODE", "shm", 1);
	assert_false(collectives_go_by_messages("1000000", "1000000"));
}

int main(int argc, char **argv)
{
	if (!unit_preloaded("SENNIT_MPI_LIB", argv))
		return 77;
	if (!yields_count()) {
		fprintf(stderr, "this kernel has no seccomp filters\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_a_system_call),
		cmocka_unit_test(only_the_first_after_a_look_is_none),
		cmocka_unit_test(a_look_is_of_one_thread),
		cmocka_unit_test(intel_mpi_sends_messages_within_a_node),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
