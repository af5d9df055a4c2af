/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/cma.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static enum sn_guard_outcome through(int fd, char *to, const char *from, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = pwrite(fd, from + at, len - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EFAULT ? SN_GUARD_SOURCE : SN_GUARD_FAILED;
		at += (size_t)n;
	}
	for (size_t at = 0; at < len;) {
		ssize_t n = pread(fd, to + at, len - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EFAULT ? SN_GUARD_DESTINATION : SN_GUARD_FAILED;
		at += (size_t)n;
	}
	return SN_GUARD_OK;
}

/* The kernel copies in and out of user memory for read and write, and says EFAULT where a load or store would trap. */
enum sn_guard_outcome sn_copy_guarded(void *to, const void *from, size_t len)
{
	int fd = memfd_create("sennit-guard", MFD_CLOEXEC);
	if (fd < 0)
		return SN_GUARD_FAILED;
	enum sn_guard_outcome outcome = through(fd, to, from, len);
	close(fd);
	return outcome;
}
