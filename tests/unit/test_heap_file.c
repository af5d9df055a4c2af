/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What shareable heaps are made of: which files a peer may map and which not, that the one with huge pages has them, and that
 * making it leaves nothing behind in the process that asked.
 */
#include "unit.h"

#include "base/thp.h"
#include "copy/heap_file.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BYTES ((size_t)64 << 20)

/* Or the test is skipped, where this system lets nobody mount anything. */
static int huge_file(void)
{
	int fd = sn_heap_file_huge(BYTES);
	if (fd < 0) {
		print_message("no user namespace, or no mount in it: %s\n", strerror(errno));
		skip();
	}
	return fd;
}

static void only_what_cannot_be_cut_short_may_be_mapped(void **state)
{
	char name[] = "/dev/shm/sennit-test-XXXXXX";
	int sealed = sn_heap_file_sealed(BYTES),
	    open_end = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int named = mkstemp(name), pipes[2];
	assert_true(sealed >= 700);
	assert_true(sn_heap_file_good(sealed, BYTES));
	assert_false(sn_heap_file_good(sealed, BYTES + 4096));
	assert_int_equal(ftruncate(open_end, (off_t)BYTES), 0);
	assert_int_equal(fcntl(open_end, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_false(sn_heap_file_good(open_end, BYTES));
	if (named >= 0) { /* the file system has a limit, or somebody may open the file by its name */
		assert_int_equal(ftruncate(named, (off_t)BYTES), 0);
		assert_false(sn_heap_file_good(named, BYTES));
		unlink(name);
		close(named);
	}
	assert_int_equal(pipe(pipes), 0);
	assert_false(sn_heap_file_good(pipes[0], 0));
	assert_false(sn_heap_file_good(-1, BYTES));
	for (int i = 0; i < 2; i++)
		close(pipes[i]);
	close(sealed);
	close(open_end);
}

static size_t pages_of_2_mib(const void *at)
{
	char line[256], first[32];
	size_t kib = 0;
	bool here = false;
	FILE *f = fopen("/proc/self/smaps", "re");
	assert_non_null(f);
	snprintf(first, sizeof(first), "%lx-", (unsigned long)(uintptr_t)at);
	while (fgets(line, sizeof(line), f)) {
		here = here ? strncmp(line, "VmFlags:", 8) != 0 : !strncmp(line, first, strlen(first));
		if (here)
			sscanf(line, "ShmemPmdMapped: %zu", &kib);
	}
	fclose(f);
	return kib / 2048;
}

static void it_has_huge_pages(void **state)
{
	char text[SN_THP_TEXT];
	int fd = huge_file();
	assert_true(fd >= 700 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(at != MAP_FAILED);
	madvise(at, BYTES, MADV_HUGEPAGE);
	memset(at, 7, BYTES);
	size_t huge = pages_of_2_mib(at);
	munmap(at, BYTES);
	close(fd);
	if (!sn_thp_read("shmem_enabled", text) || strstr(text, "[deny]")) {
		print_message("this kernel has no huge pages for shared memory\n");
		skip();
	}
	assert_true(huge > 0); /* how many depends on what other memory is free */
}

static int maps(int fd)
{
	uint8_t *at = sn_heap_file_good(fd, BYTES)
			      ? mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
			      : NULL;
	if (!at || at == MAP_FAILED || at[BYTES - 1] != 5)
		return 1;
	at[0] = 6;
	return 0;
}

static int opens(pid_t of, int fd)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", of, fd);
	return maps(open(path, O_RDWR | O_CLOEXEC));
}

/* In the handshake the descriptor is sent; the library in front opens it by its number. */
static void another_process_maps_it(void **state)
{
	int fd = huge_file(), status;
	char name[256] = "", path[64];
	uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(at != MAP_FAILED);
	at[BYTES - 1] = 5;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_true(readlink(path, name, sizeof(name) - 1) > 0);
	assert_non_null(strstr(name, SN_HEAP_NAME));
	pid_t me = getpid(), child = fork();
	if (!child)
		_exit(maps(fd) + 2 * opens(me, fd));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(at[0], 6);
	munmap(at, BYTES);
	close(fd);
}

static void link_of(const char *name, char to[64])
{
	ssize_t n = readlink(name, to, 63);
	assert_true(n > 0);
	to[n] = 0;
}

static int descriptors(void)
{
	int n = 0;
	for (int fd = 0; fd < 1000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void the_process_stays_as_it_was(void **state)
{
	char users[2][64], mounts[2][64];
	struct stat tmp[2];
	sigset_t mask[2];
	int before = descriptors();
	for (int i = 0, fd = -1; i < 2; i++) {
		link_of("/proc/self/ns/user", users[i]);
		link_of("/proc/self/ns/mnt", mounts[i]);
		assert_int_equal(stat("/tmp", &tmp[i]), 0);
		sigprocmask(SIG_SETMASK, NULL, &mask[i]);
		if (!i)
			fd = huge_file();
		else
			close(fd);
	}
	assert_string_equal(users[0], users[1]);
	assert_string_equal(mounts[0], mounts[1]);
	assert_true(tmp[0].st_dev == tmp[1].st_dev && tmp[0].st_ino == tmp[1].st_ino);
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		assert_int_equal(sigismember(&mask[0], sig), sigismember(&mask[1], sig));
	assert_int_equal(descriptors(), before);
	assert_true(waitpid(-1, NULL, __WALL | WNOHANG) < 0 && errno == ECHILD);
}

static int under_a_filter(void)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &all};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 2;
	return sn_heap_file_huge(BYTES) < 0 && errno == EPERM && sn_heap_file_sealed(BYTES) >= 0 ? 0 : 1;
}

/* It might end the process. */
static void no_filter_is_tried(void **state)
{
	int status;
	pid_t child = fork();
	if (!child)
		_exit(under_a_filter());
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WEXITSTATUS(status) == 2)
		skip();
	assert_int_equal(status, 0);
}

static int among_many_mounts(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return 2;
	for (int i = 0; i < 301; i++)
		if (mount("sennit-test", "/mnt", "tmpfs", 0, NULL))
			return 2;
	return sn_heap_file_huge(BYTES) < 0 && errno == E2BIG ? 0 : 1;
}

/* Each process would copy them. */
static void where_there_are_many_mounts_it_is_not_made(void **state)
{
	int status;
	pid_t child = fork();
	if (!child)
		_exit(among_many_mounts());
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WEXITSTATUS(status) == 2) {
		print_message("this process may not mount anything\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_cannot_be_cut_short_may_be_mapped),
		cmocka_unit_test(it_has_huge_pages),
		cmocka_unit_test(another_process_maps_it),
		cmocka_unit_test(the_process_stays_as_it_was),
		cmocka_unit_test(no_filter_is_tried),
		cmocka_unit_test(where_there_are_many_mounts_it_is_not_made),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
