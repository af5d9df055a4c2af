/* SPDX-License-Identifier: BSD-3-Clause */
#include "shared.h"
#include "base/launched.h"
#include "base/small_file.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

bool sn_shared_may(void)
{
	char me[16] = "";
	return readlink("/proc/self", me, sizeof(me) - 1) > 0 && sn_decimal(me) == (uint64_t)getpid();
}

uint64_t sn_shared_host(void)
{
	char boot[64], space[64] = "", all[160];
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	if (!sn_read_text("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) ||
	    readlink("/proc/self/ns/pid", space, sizeof(space) - 1) <= 0 || !sn_shared_may())
		return SN_SHARED_NOBODY;
	snprintf(all, sizeof(all), "%s %s %u", boot, space, geteuid());
	for (const char *c = all; *c; c++)
		hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	return hash;
}

static void *map(int fd, size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* cppcheck-suppress memleak ; it does not know MAP_FAILED */
	return mem == MAP_FAILED ? NULL : mem;
}

/* A file that gets longer than the program may write ends it by a signal. */
static bool allowed(size_t bytes)
{
	struct rlimit limit;
	return !getrlimit(RLIMIT_FSIZE, &limit) &&
	       (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

void *sn_shared_make(const char *name, size_t bytes, struct sn_shared_place *at)
{
	int fd = allowed(bytes) ? memfd_create(name, MFD_CLOEXEC) : -1;
	void *mem = fd >= 0 && !ftruncate(fd, (off_t)bytes) ? map(fd, bytes) : NULL;
	if (!mem && fd >= 0)
		close(fd);
	*at = (struct sn_shared_place){(int32_t)getpid(), mem ? fd : -1};
	return mem;
}

/* In another container a process may have the same number: nothing is opened that is not what was told. */
void *sn_shared_attach(const char *name, size_t bytes, const struct sn_shared_place *at)
{
	char path[64], is[64], to[64];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", at->pid, at->fd);
	size_t len = (size_t)snprintf(is, sizeof(is), "/memfd:%s", name);
	ssize_t n = at->fd >= 0 ? readlink(path, to, sizeof(to)) : -1;
	if (n < (ssize_t)len || memcmp(to, is, len) != 0)
		return NULL;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *mem = fd >= 0 && lseek(fd, 0, SEEK_END) == (off_t)bytes ? map(fd, bytes) : NULL;
	if (fd >= 0)
		close(fd);
	return mem;
}
