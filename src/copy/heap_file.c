/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/heap_file.h"
#include "base/small_file.h"
#include "base/thp.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

#define SEALS	    (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define FD_FROM	    700 /* out of the way of programs that count on low numbers */
#define STACK_BYTES ((size_t)64 << 10)
#define MOUNTS	    300

static int failed(int fd)
{
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

static int moved_up(int low)
{
	int fd = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, FD_FROM);
	if (fd < 0)
		return low;
	close(low);
	return fd;
}

int sn_heap_file_sealed(size_t bytes)
{
	int fd = memfd_create(SN_HEAP_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(SN_HEAP_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	fd = moved_up(fd);
	if (!ftruncate(fd, (off_t)bytes) && !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	return failed(fd);
}

/* ---- with huge pages ------------------------------------------------------------------------------------------ */

struct child {
	unsigned uid, gid;
	int fd, error;
};

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (!done)
		failed(fd);
	else
		close(fd);
	return done;
}

/* In the namespace, too, this user is who he is: the file is to be his. */
static bool remain(unsigned uid, unsigned gid)
{
	char users[48], groups[48];
	snprintf(users, sizeof(users), "%u %u 1", uid, uid);
	snprintf(groups, sizeof(groups), "%u %u 1", gid, gid);
	return put("/proc/self/setgroups", "deny") && put("/proc/self/uid_map", users) &&
	       put("/proc/self/gid_map", groups);
}

/* size=0: no limit. The mount is in nobody's sight, and covers the folder in this namespace only. */
static int file_in(const char *folder, const char *path)
{
	if (mount(SN_HEAP_NAME, folder, "tmpfs", MS_NOSUID | MS_NODEV,
		  "huge=advise,size=0,nr_inodes=0,mode=700"))
		return -1;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && unlink(path))
		return failed(fd);
	return fd;
}

/* As after vfork(): in the parent's memory, and its descriptors too, while the thread that made it waits. */
static int child_main(void *arg)
{
	struct child *c = arg;
	if (remain(c->uid, c->gid)) {
		c->fd = file_in("/tmp", "/tmp/" SN_HEAP_NAME);
		if (c->fd < 0 && errno == ENOENT) /* a system without that folder */
			c->fd = file_in("/dev", "/dev/" SN_HEAP_NAME);
	}
	c->error = errno;
	_exit(0);
}

/* No handler of the program's may run in the child. */
static int made_by_child(void)
{
	struct child c = {.uid = geteuid(), .gid = getegid(), .fd = -1, .error = ECANCELED};
	sigset_t all, before;
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
			   -1, 0);
	/* cppcheck-suppress memleak ; it does not know MAP_FAILED */
	if (stack == MAP_FAILED)
		return -1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int pid = clone(child_main, stack + STACK_BYTES,
			CLONE_NEWUSER | CLONE_NEWNS | CLONE_FILES | CLONE_VM | CLONE_VFORK, &c);
	if (pid < 0)
		c.error = errno;
	else
		while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	munmap(stack, STACK_BYTES);
	errno = c.error;
	return c.fd;
}

/*
 * A filter may be this thread's alone, so /proc/self/status, which tells of the first one, would not do. Ubuntu lets such a
 * namespace be made, has nothing mounted in it, and puts a line into the system's log.
 */
static bool would_be_refused(void)
{
	char text[8];
	int filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
	if (filter > 0 || (filter < 0 && errno != EINVAL)) /* that: a kernel without filters */
		return true;
	return geteuid() &&
	       sn_read_text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", text, sizeof(text)) &&
	       *text == '1';
}

/* The namespace begins with a copy of the mounts, one process after the other: 4 us for each in a virtual machine. */
static bool many_mounts(void)
{
	char text[4096];
	int fd = open("/proc/self/mounts", O_RDONLY | O_CLOEXEC), lines = 0;
	ssize_t n = 0;
	while (fd >= 0 && lines <= MOUNTS && (n = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < n; i++)
			lines += text[i] == '\n';
	if (fd >= 0)
		close(fd);
	return lines > MOUNTS;
}

int sn_heap_file_huge(size_t bytes)
{
	char shared[SN_THP_TEXT];
	int fd = -1;
	if (sn_thp_read("shmem_enabled", shared) && strstr(shared, "[deny]"))
		errno = EOPNOTSUPP; /* whatever a file system's options say */
	else if (would_be_refused())
		errno = EPERM;
	else if (many_mounts())
		errno = E2BIG;
	else
		fd = moved_up(made_by_child());
	if (fd < 0)
		return -1;
	if (!ftruncate(fd, (off_t)bytes) && sn_heap_file_good(fd, bytes))
		return fd;
	return failed(fd);
}

bool sn_heap_file_good(int fd, uint64_t bytes)
{
	struct stat st;
	struct statfs fs;
	/* of hugetlbfs a page may be missing in spite of the seals, and its reader would die of it */
	if (fstat(fd, &st) || fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC || st.st_size < (off_t)bytes)
		return false;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SEAL))
		return false; /* a memfd that could be, and is not */
	return (seals & SEALS) == SEALS ||
	       (S_ISREG(st.st_mode) && st.st_uid == geteuid() && !st.st_nlink && !fs.f_blocks);
}
