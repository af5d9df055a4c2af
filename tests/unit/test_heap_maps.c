/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program does with the pages of a large allocation of its own is as with memory of malloc's: what it maps over some of
 * them, or moves there, and the access that it takes away are as they were after a fork, and peers are not shown what lies
 * below. The program runs itself again with the library in front; SENNIT_HEAP_LIB says where that is.
 */
#include "check.h"
#include "own_heap.h"
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define N    ((size_t)1 << 20)
#define PAGE ((size_t)4096)

/* 1, then N of 2, then 1. */
static int is_as_made(uint8_t *p)
{
	for (size_t i = 0; i < 3 * N; i++)
		if (p[i] != (i < N || i >= 2 * N ? 1 : 2))
			return 1;
	return 0;
}

static int changes(void *arg)
{
	uint8_t *p = arg;
	if (is_as_made(p))
		return 1;
	memset(p, 9, 3 * N);
	return 0;
}

static void is_the_programs_own(uint8_t *p)
{
	assert_int_equal(is_as_made(p), 0);
	assert_false(ours(p, 3 * N)); /* peers would see what was before */
	assert_int_equal(child(changes, p), 0);
	assert_int_equal(is_as_made(p), 0);
	free(p);
	void *next = malloc(N);
	assert_true(ours(next, N));
	free(next);
}

static uint8_t *made(void)
{
	uint8_t *p = aligned_alloc(PAGE, 3 * N);
	assert_true(ours(p, 3 * N));
	memset(p, 1, 3 * N);
	return p;
}

static void what_is_mapped_over_a_block(void **state)
{
	uint8_t *p = made();
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	assert_ptr_equal(mmap(p + N, N, PROT_READ | PROT_WRITE, flags, -1, 0), p + N);
	memset(p + N, 2, N);
	is_the_programs_own(p);
}

static void what_is_moved_into_a_block(void **state)
{
	uint8_t *p = made();
	uint8_t *q = mmap(NULL, N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(q, MAP_FAILED);
	memset(q, 2, N);
	assert_ptr_equal(mremap(q, N, N, MREMAP_MAYMOVE | MREMAP_FIXED, p + N), p + N);
	is_the_programs_own(p);
}

static int writes(void *arg)
{
	uint8_t *p = arg;
	signal(SIGSEGV, SIG_DFL);
	*(volatile uint8_t *)p = 1;
	return 0;
}

static int reads(void *arg)
{
	uint8_t *p = arg;
	return *p == 1 ? 0 : 1;
}

static bool killed(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void access_that_is_taken_away(void **state)
{
	uint8_t *p = made();
	assert_int_equal(mprotect(p, PAGE, PROT_NONE), 0);
	assert_int_equal(mprotect(p + N, N, PROT_READ), 0);
	assert_false(ours(p, 8)); /* a peer would not ask the program's handler */
	assert_false(ours(p, 3 * N));
	assert_false(ours(p + 2 * N - 8, 8));
	assert_true(ours(p + PAGE, N - PAGE));
	assert_true(ours(p + 3 * N - 8, 8));
	for (int i = 0; i < 2; i++) { /* the second from what the first fork made private */
		assert_true(killed(child(writes, p)));
		assert_true(killed(child(writes, p + N)));
		assert_true(killed(child(writes, p + 2 * N - 1)));
		assert_int_equal(child(reads, p + N), 0);
		assert_int_equal(child(writes, p + PAGE), 0);
		assert_int_equal(child(writes, p + 2 * N), 0);
	}
	free(p);
}

/* Of malloc's such a block would be mapped anew each time. */
static void what_is_freed_without_access(void **state)
{
	for (int i = 0; i < 4; i++) {
		uint8_t *p = made();
		assert_int_equal(mprotect(p + N, PAGE, PROT_NONE), 0);
		free(p);
	}
}

static int forks_without_descriptors(void *arg)
{
	uint8_t *p = arg;
	uint8_t *mine = malloc(N);
	if (!mine || !ours(mine, N))
		return 1;
	memset(mine, 1, N);
	if (mprotect(mine + N / 2 - (uintptr_t)mine % PAGE, PAGE, PROT_NONE))
		return 1;
	for (int fd = 3; fd < 4096; fd++) /* the heap's are high */
		close(fd);
	return child(reads, mine) || *mine != 1 || *p != 1;
}

/* In a child, as they do not come back: what cannot be read has to be copied, too. */
static void a_fork_without_descriptors(void **state)
{
	uint8_t *p = made();
	assert_int_equal(child(forks_without_descriptors, p), 0);
	free(p);
}

int main(int argc, char **argv)
{
	struct sn_heap_info own;
	if (!unit_preloaded("SENNIT_HEAP_LIB", argv))
		return 77;
	alarm(60); /* before anything here has called mprotect() */
	void *waits = dlopen(getenv("SENNIT_WAITS_LIB"), RTLD_NOW);
	if (!waits || dlclose(waits))
		return 1;
	void *p = malloc(4 * N);
	bool all = sn_heap_own(&own) && ours(p, 4 * N);
	free(p);
	if (!all) {
		fprintf(stderr,
			"the heap leaves itself, or long blocks, out here: huge pages always, limited "
			"address space, or no overcommit\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_freed_without_access), cmocka_unit_test(what_is_mapped_over_a_block),
		cmocka_unit_test(what_is_moved_into_a_block),	cmocka_unit_test(access_that_is_taken_away),
		cmocka_unit_test(a_fork_without_descriptors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
