/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies by the kernel between two processes: every byte, wherever both ends lie in their pages, and what is said of
 * those that fail.
 */
#include "unit.h"

#include "copy/cma.h"
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define PAGE  ((size_t)4096)
#define MOST  ((size_t)300 << 10)
#define ROOM  (MOST + 4 * PAGE)
#define CHUNK ((uint64_t)64 << 10) /* of cma.c */

static uint64_t cookie = 0x5e7717;
static uint8_t *mine, *theirs; /* of the child, at the same address here */
static struct sn_cma_peer child;

static uint8_t byte(size_t i)
{
	return (uint8_t)(i * 7 + (i >> 9) + 3);
}

static uint8_t *memory(void)
{
	void *at = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(at != MAP_FAILED);
	return at;
}

/* A process that has the pattern at `theirs`, but for its last page, which it does not have. */
static int begin(void **state)
{
	int up[2];
	char c;
	mine = memory();
	theirs = memory();
	assert_int_equal(pipe(up), 0);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (size_t i = 0; i < ROOM; i++)
			theirs[i] = byte(i);
		munmap(theirs + ROOM - PAGE, PAGE);
		if (write(up[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	assert_true(pid > 0);
	assert_int_equal(read(up[0], &c, 1), 1);
	close(up[0]);
	close(up[1]);
	child = (struct sn_cma_peer){.pid = pid, .cookie_at = (uint64_t)(uintptr_t)&cookie, .cookie = cookie};
	int read_error, write_error;
	sn_probe_peer(&child, &read_error, &write_error);
	if (read_error || write_error) {
		print_message("SKIP: this process may not read the memory of its child: %s\n",
			      strerror(read_error ? read_error : write_error));
		kill(pid, SIGKILL);
		_exit(77);
	}
	return 0;
}

static int end(void **state)
{
	kill(child.pid, SIGKILL);
	return waitpid(child.pid, NULL, 0) == child.pid ? 0 : -1;
}

/* How many calls that takes: one, but where the kernel stumbles so many for each part. */
static uint64_t calls_for(const void *to, const void *from, uint64_t n, uint64_t each)
{
	bool parts =
		n >= CHUNK / 4 && sn_copy_trips(to, from) && sn_copy_stumbles(sn_copy_behind(to, from)) >= 3;
	return parts ? (n + CHUNK - 1) / CHUNK * each : 1;
}

/* Another program had the core meanwhile, and a look may have been due. */
static bool late(uint64_t start)
{
	return sn_now_ns() - start >= SN_CMA_KNOWN_NS;
}

static const uint64_t lengths[] = {1, 4097, 16384, CHUNK, CHUNK + 5, MOST - 77};

static void what_is_read_is_exact(void **state)
{
	for (unsigned k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
		for (size_t behind = 0; behind < 20; behind++) {
			uint64_t n = lengths[k], done = 0, calls = 0;
			size_t at = behind * 131 % PAGE; /* of theirs, in its page */
			struct iovec to = {mine + at + behind, n}, from = {theirs + at, n};
			int error = 0;
			memset(mine, 0x55, ROOM);
			uint64_t start = child.known = sn_now_ns(); /* no look at who it is */
			assert_int_equal(sn_cma_read(&child, &to, 1, &from, 1, 0, n, &done, &error, &calls),
					 SN_CMA_OK);
			assert_true(done == n);
			assert_true(late(start) || calls == calls_for(to.iov_base, from.iov_base, n, 1));
			for (size_t i = 0; i < n; i++)
				assert_int_equal(mine[at + behind + i], byte(at + i));
			for (size_t i = 0; i < at + behind; i++)
				assert_int_equal(mine[i], 0x55);
			for (size_t i = at + behind + n; i < ROOM; i++)
				assert_int_equal(mine[i], 0x55);
		}
	}
}

static void what_is_written_is_exact(void **state)
{
	uint8_t *back = memory();
	for (unsigned k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
		for (size_t behind = 0; behind < 20; behind++) {
			uint64_t n = lengths[k], done = 0, calls = 0;
			size_t at = behind * 131 % PAGE;
			struct iovec from = {mine + at, n}, to = {theirs + at + behind, n};
			struct iovec all = {theirs, ROOM - PAGE}, here = {back, ROOM - PAGE};
			int error = 0;
			memset(back, 0x33, ROOM);
			assert_int_equal(process_vm_writev(child.pid, &here, 1, &all, 1, 0), ROOM - PAGE);
			for (size_t i = 0; i < ROOM; i++)
				mine[i] = byte(i + k);
			uint64_t start = child.known = sn_now_ns();
			assert_int_equal(sn_cma_write(&child, &from, 1, &to, 1, 0, n, &done, &error, &calls),
					 SN_CMA_OK);
			assert_true(done == n);
			assert_true(late(start) || calls == calls_for(to.iov_base, from.iov_base, n, 2));
			assert_int_equal(process_vm_readv(child.pid, &here, 1, &all, 1, 0), ROOM - PAGE);
			for (size_t i = 0; i < ROOM - PAGE; i++)
				assert_int_equal(back[i], i >= at + behind && i < at + behind + n
								  ? byte(i - behind + k)
								  : 0x33);
		}
	}
	munmap(back, ROOM);
}

/* Parts of a message, a peer that is to be recognized, and a page that is not there, in one call or in several. */
static void a_part_and_a_fault_are_said_right(void **state)
{
	for (size_t behind = 0; behind < 20; behind += 5) {
		uint64_t done = 0, calls = 0, most = ROOM - PAGE;
		struct iovec to = {mine + behind, ROOM - behind}, from = {theirs, ROOM - behind};
		int error = 0;
		child.known = 0;
		assert_int_equal(
			sn_cma_read(&child, &to, 1, &from, 1, 100, CHUNK + 200, &done, &error, &calls),
			SN_CMA_OK);
		assert_true(done == CHUNK + 200 && child.known);
		assert_int_equal(
			sn_cma_read(&child, &to, 1, &from, 1, 0, ROOM - behind, &done, &error, &calls),
			SN_CMA_FAULT);
		assert_int_equal(error, EFAULT);
		assert_true(done <= most);
		to = (struct iovec){theirs + behind, ROOM - behind};
		from = (struct iovec){mine, ROOM - behind};
		assert_int_equal(
			sn_cma_write(&child, &from, 1, &to, 1, 0, ROOM - behind, &done, &error, &calls),
			SN_CMA_FAULT);
		assert_true(done <= most);
		uint64_t right = child.cookie;
		child.cookie++; /* it is somebody else */
		child.known = 0;
		from = (struct iovec){theirs, CHUNK * 2};
		to = (struct iovec){mine + behind, CHUNK * 2};
		assert_int_equal(sn_cma_read(&child, &to, 1, &from, 1, 0, CHUNK * 2, &done, &error, &calls),
				 SN_CMA_REFUSED);
		assert_true(done == 0 && error == ESRCH);
		child.cookie = right;
	}
}

/* Memory of our own that is not there, or only to be read: an error, and not the end of the process. */
static void an_end_of_our_own_that_faults_is_an_error(void **state)
{
	uint8_t *holed = memory();
	munmap(holed + CHUNK * 2, PAGE);
	mprotect(holed, PAGE, PROT_READ);
	for (size_t behind = 0; behind < 20; behind += 5) {
		uint64_t done = 0, calls = 0, n = CHUNK * 3;
		struct iovec here = {holed + PAGE + behind, n}, there = {theirs, n};
		int error = 0;
		child.known = sn_now_ns();
		assert_int_equal(sn_cma_read(&child, &here, 1, &there, 1, 0, n, &done, &error, &calls),
				 SN_CMA_FAULT);
		assert_true(error == EFAULT && done < CHUNK * 2);
		here.iov_base = holed + behind;
		assert_int_equal(sn_cma_read(&child, &here, 1, &there, 1, 0, n, &done, &error, &calls),
				 SN_CMA_FAULT);
		assert_true(error == EFAULT && done == 0);
		here.iov_base = holed;
		there.iov_base = theirs + behind;
		assert_int_equal(sn_cma_write(&child, &here, 1, &there, 1, 0, n, &done, &error, &calls),
				 SN_CMA_FAULT);
		assert_true(error == EFAULT && done <= CHUNK * 2);
	}
	munmap(holed, ROOM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read_is_exact),
		cmocka_unit_test(what_is_written_is_exact),
		cmocka_unit_test(a_part_and_a_fault_are_said_right),
		cmocka_unit_test(an_end_of_our_own_that_faults_is_an_error),
	};
	alarm(150);
	return cmocka_run_group_tests(tests, begin, end);
}
