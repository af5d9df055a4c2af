/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/memfd.h"
#include "base/base.h"
#include "base/log.h"
#include "sennit/sennit.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int sn_fd_limit_raise(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= limit.rlim_max)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &limit);
}

/* Systems with vm.memfd_noexec=2 insist on MFD_NOEXEC_SEAL, kernels before 6.3 do not know it. */
static int memfd_open(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

/*
 * Where a filter refuses that: a file without a name on the file system of POSIX shared memory. It cannot be sealed; all of its
 * memory is there from the start, so that no process dies of it where that file system has a limit.
 */
static int unnamed_open(size_t bytes)
{
	int error, fd = open("/dev/shm", O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 && (error = posix_fallocate(fd, 0, (off_t)bytes))) {
		close(fd);
		errno = error;
		fd = -1;
	}
	return fd;
}

static void *map(int fd, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, bytes, MADV_DONTFORK);
	madvise(at, bytes, MADV_DONTDUMP);
	return at;
}

void sn_memfd_touch(void *at, size_t bytes)
{
	madvise(at, bytes, MADV_POPULATE_WRITE);
}

static int code_of(int error)
{
	return error == EPERM || error == EACCES || error == ENOSYS ? SN_ERR_PERM : SN_ERR_NOMEM;
}

/* Longer than that, and ftruncate kills the process (SIGXFSZ), which would say nothing of what to change. */
static bool too_long(size_t bytes)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
		return false;
	sn_fail(SN_ERR_NOMEM,
		"%zu bytes of shared memory, but the limit on the size of files, which counts for it, is "
		"%llu bytes "
		"(ulimit -f)",
		bytes, (unsigned long long)limit.rlim_cur);
	return true;
}

int sn_memfd_new(const char *name, size_t bytes, void **mapped)
{
	if (too_long(bytes))
		return SN_ERR_NOMEM;
	int fd = memfd_open(name);
	if (fd < 0 && errno == EMFILE && sn_fd_limit_raise())
		fd = memfd_open(name);
	int refused = fd < 0 && code_of(errno) == SN_ERR_PERM ? errno : 0;
	if (refused)
		fd = unnamed_open(bytes);
	if (fd < 0 && refused)
		return sn_fail(SN_ERR_PERM, "memfd_create: %s; a file without a name in /dev/shm: %s",
			       strerror(refused), strerror(errno));
	if (fd < 0)
		return sn_fail(code_of(errno), "memfd_create: %s", strerror(errno));
	if (!ftruncate(fd, (off_t)bytes) && (*mapped = map(fd, bytes)) &&
	    (refused || !fcntl(fd, F_ADD_SEALS, SEALS)))
		return fd;
	int rc = sn_fail(code_of(errno), "%zu bytes of shared memory: %s", bytes, strerror(errno));
	close(fd);
	return rc;
}

/* Only who means to can cut it short while it is used: it is this user's, and nobody finds it by a name. */
static bool is_unnamed(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !st->st_nlink &&
	       st->st_blocks * 512 >= st->st_size;
}

bool sn_memfd_good(int fd, size_t bytes)
{
	struct stat st;
	struct statfs fs;
	int seals = fcntl(fd, F_GET_SEALS);
	/* of hugetlbfs a page may be missing in spite of the seals, and its reader would die of it */
	if (fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC || fstat(fd, &st) || st.st_size != (off_t)bytes)
		return false;
	/* F_SEAL_SEAL: no more can be put on, as of any file that is no memfd */
	return seals >= 0 && (seals & F_SEAL_SEAL) && ((seals & SEALS) == SEALS || is_unnamed(&st));
}

void *sn_memfd_map(int fd, size_t bytes)
{
	if (!sn_memfd_good(fd, bytes)) {
		sn_fail(SN_ERR_PROTO, "a peer sent shared memory that is not sealed or not of %zu bytes",
			bytes);
		return NULL;
	}
	void *at = map(fd, bytes);
	if (!at)
		sn_fail(SN_ERR_NOMEM, "mapping a peer's shared memory: %s", strerror(errno));
	return at;
}
