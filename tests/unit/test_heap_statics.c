/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The static memory of a rank lies where peers may map it, and is to the program as it was: zero, its own across every kind of
 * fork, with the access that it was given. The program runs itself again with the library in front; SENNIT_HEAP_LIB says
 * where that is.
 */
#include "check.h"
#include "own_heap.h"
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define N    ((size_t)1 << 20)
#define PAGE ((size_t)4096)

static uint8_t array[4 * N] __attribute__((aligned(4096)));
static uint8_t full[N] = {1}; /* what the file holds stays where it is */

static int holds(const uint8_t *p, size_t n, uint8_t value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			return 1;
	return 0;
}

/* What only this process has from here on: it is the same in it and in its child, and then each one's own. */
static int changes(void *arg)
{
	uint8_t *p = arg;
	if (holds(p, N, 7))
		return 1;
	memset(p, 8, N);
	usleep(20000); /* the parent writes meanwhile */
	return holds(p, N, 8);
}

static int changes_in_clone(void *arg)
{
	_exit(changes(arg));
}

static void written_to_while(pid_t pid)
{
	int status;
	assert_true(pid > 0);
	memset(array, 9, N);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(holds(array, N, 9), 0);
}

static int forked(pid_t (*how)(void))
{
	memset(array, 7, N);
	pid_t pid = how();
	if (!pid)
		_exit(changes(array));
	written_to_while(pid);
	return ours(array, N);
}

static int by_fork(void *arg)
{
	return forked(fork);
}

static int by_raw_fork(void *arg)
{
	return forked(_Fork);
}

static int by_clone(void *arg)
{
	char *stack = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(array, 7, N);
	written_to_while(clone(changes_in_clone, stack + 16 * PAGE, SIGCHLD, array));
	munmap(stack, 16 * PAGE);
	return ours(array, N);
}

static int forgets(void)
{
	memset(array, 9, 3 * N);
	if (madvise(array + PAGE, N - PAGE, MADV_DONTNEED) ||
	    madvise(array + 4 * N - PAGE, PAGE, MADV_DONTNEED))
		return 1;
	return holds(array, PAGE, 9) + holds(array + PAGE, N - PAGE, 0) + holds(array + N, 2 * N, 9);
}

static int is_not_needed(void *arg)
{
	int shared = forgets();
	pid_t pid = fork();
	if (!pid)
		_exit(forgets());
	int status;
	waitpid(pid, &status, 0);
	return shared + status + forgets();
}

static int is_guarded(void *arg)
{
	if (mprotect(array + N, PAGE, PROT_READ) || ours(array, 4 * N) || !ours(array, N) ||
	    !ours(array + N + PAGE, N))
		return 1;
	memset(array, 3, N);
	pid_t pid = fork();
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile uint8_t *)(array + N) = 1;
		_exit(0);
	}
	int status;
	waitpid(pid, &status, 0);
	return !WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV || holds(array, N, 3);
}

static bool lies_over(const void *p)
{
	return p == array + N;
}

static int is_the_programs_own(void)
{
	return ours(array, 3 * N) + holds(array, N, 5) + holds(array + N, N, 0) + holds(array + 2 * N, N, 5);
}

static int is_mapped_over(void *arg)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	memset(array, 5, 3 * N);
	return lies_over(mmap(array + N, N, PROT_READ | PROT_WRITE, flags, -1, 0)) ? is_the_programs_own()
										   : 1;
}

static int is_unmapped_first(void *arg)
{
	memset(array, 5, 3 * N);
	munmap(array + N, N);
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	return lies_over(mmap(array + N, N, PROT_READ | PROT_WRITE, flags, -1, 0)) ? is_the_programs_own()
										   : 1;
}

static int is_a_segment_now(void *arg)
{
	memset(array, 5, 3 * N);
	int id = shmget(IPC_PRIVATE, N, IPC_CREAT | 0600);
	bool there = lies_over(shmat(id, array + N, SHM_REMAP));
	shmctl(id, IPC_RMID, NULL);
	return there ? is_the_programs_own() : 1;
}

static int loses_its_descriptors(void *arg)
{
	memset(array, 7, N);
	if (mprotect(array + 2 * N, PAGE, PROT_NONE))
		return 1;
	for (int fd = 3; fd < 4096; fd++)
		close(fd);
	pid_t pid = fork();
	if (!pid)
		_exit(changes(array));
	written_to_while(pid);
	return 0;
}

/* Each in a process of its own that has its static memory in the file, as a fork's child has not. */
static struct {
	const char *name;
	int (*run)(void *arg);
} cases[] = {{"by_fork", by_fork},
	     {"by_raw_fork", by_raw_fork},
	     {"by_clone", by_clone},
	     {"is_not_needed", is_not_needed},
	     {"is_guarded", is_guarded},
	     {"is_mapped_over", is_mapped_over},
	     {"is_unmapped_first", is_unmapped_first},
	     {"is_a_segment_now", is_a_segment_now},
	     {"loses_its_descriptors", loses_its_descriptors}};
enum { CASES = sizeof(cases) / sizeof(cases[0]), OTHERS = 3 };

static void on_its_own(void **state)
{
	char number[] = {'0', '\0'}, *const argv[] = {"test_heap_statics", number, NULL};
	int status;
	for (int i = 0; i < CASES; i++)
		number[0] += *state == &cases[i] ? i : 0;
	pid_t pid = vfork();
	if (!pid) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void is_shareable_and_zero(void **state)
{
	assert_true(ours(array, sizeof(array)));
	assert_false(ours(full, sizeof(full)));
	assert_int_equal(holds(array, sizeof(array), 0), 0);
	void *block = malloc(N);
	struct iovec both[2] = {{array + 1, N}, {block, N}};
	struct sn_heap_info own;
	assert_true(sn_heap_own(&own) && sn_heap_holds(&own, both, 2));
	free(block);
}

/* As a peer maps it. */
static void is_seen_by_peers(void **state)
{
	struct sn_heap_info own;
	uint8_t *block = malloc(N);
	assert_true(sn_heap_own(&own));
	struct sn_heap_peer peer = sn_heap_map(own.fd, &own.span);
	assert_non_null(peer.map);
	struct iovec v[2] = {{array + N - 3, 2 * N}, {block, N}};
	memset(array + N - 3, 4, 2 * N);
	memset(block, 6, N);
	assert_true(sn_heap_translate(&peer, v, 2));
	assert_ptr_not_equal(v[0].iov_base, array + N - 3);
	assert_int_equal(holds(v[0].iov_base, 2 * N, 4) + holds(v[1].iov_base, N, 6), 0);
	((uint8_t *)v[0].iov_base)[5] = 77;
	assert_int_equal(array[N + 2], 77);
	struct iovec beyond = {array + 3 * N, 4 * N};
	assert_false(sn_heap_translate(&peer, &beyond, 1));
	sn_heap_unmap(&peer);
	free(block);
}

static void what_cannot_be_is_refused(void **state)
{
	const uint64_t most = SN_HEAP_BYTES_MAX;
	const struct sn_heap_span bad[] = {
		{0, 0, 0, 0, 0},
		{4096, most + 1, 0, 0, 0},
		{UINT64_MAX - 4096, 8192, 0, 0, 0},
		{4096, 4096, UINT64_MAX - 4096, 8192, 4096},
		{4096, 4096, 4096, most + 1, 4096},
		{4096, 8192, 4096, 4096, 4096},
		{4096, 4096, 4096, 4096, UINT64_MAX - 2048},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(sn_heap_span_good(&bad[i]));
	const struct sn_heap_span good = {1 << 20, 4096, 1 << 30, 4096, 8192};
	assert_true(sn_heap_span_good(&good));
	assert_int_equal(sn_heap_length(&good), 12288);
	assert_int_equal(sn_heap_place(&good, (1 << 30) + 96, 4000), 8192 + 96);
	assert_int_equal(sn_heap_place(&good, (1 << 20) + 96, 4000), 96);
	assert_true(sn_heap_place(&good, (1 << 30) + 97, 4000) == SN_HEAP_NOWHERE);
	assert_true(sn_heap_place(&good, (1 << 20) - 1, 2) == SN_HEAP_NOWHERE);
}

int main(int argc, char **argv)
{
	if (!unit_preloaded("SENNIT_HEAP_LIB", argv)) /* a sanitizer has its own malloc */
		return 77;
	if (!ours(array, sizeof(array))) {
		fprintf(stderr,
			"static memory stays as it is here: huge pages always, limited address space, no "
			"overcommit, or no /proc/self/pagemap\n");
		return argc > 1 ? 1 : 77;
	}
	if (argc > 1)
		return cases[argv[1][0] - '0'].run(NULL);
	struct CMUnitTest tests[OTHERS + CASES] = {cmocka_unit_test(is_shareable_and_zero),
						   cmocka_unit_test(is_seen_by_peers),
						   cmocka_unit_test(what_cannot_be_is_refused)};
	for (int i = 0; i < CASES; i++)
		tests[OTHERS + i] = (struct CMUnitTest){cases[i].name, on_its_own, NULL, NULL, &cases[i]};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
