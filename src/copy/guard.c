/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/cma.h"
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * A program may make pages accessible when they are used, in a handler of SIGSEGV (a collector's write barrier, a pager of its
 * own): one that asks where. The kernel's copies do not call it; a load or a store of ours does. Those that only say where
 * a process died, as the MPIs and UCX have one, do not count: then it is an error of the message.
 */
static bool serves_faults(void)
{
	static const char *const tell[] = {"libopen-pal", "libopen-rte", "libmpi", "libucs", "libpmix"};
	struct sigaction is;
	Dl_info in;
	bool served = !sigaction(SIGSEGV, NULL, &is) && is.sa_flags & SA_SIGINFO;
	if (served && dladdr((void *)(uintptr_t)is.sa_sigaction, &in) && in.dli_fname)
		for (size_t i = 0; i < sizeof(tell) / sizeof(tell[0]); i++)
			served &= !strstr(in.dli_fname, tell[i]);
	return served;
}

/* Whatever becomes of it there: if the handler returns, it is accessible. */
static bool touched(const char *at, bool to_write)
{
	if (!serves_faults())
		return false;
	volatile char *byte = (volatile char *)(uintptr_t)at, was = *byte;
	if (to_write)
		*byte = was;
	return true;
}

static enum sn_guard_outcome through(int fd, char *to, const char *from, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = pwrite(fd, from + at, len - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EFAULT && touched(from + at, false))
			continue;
		if (n <= 0)
			return n < 0 && errno == EFAULT ? SN_GUARD_SOURCE : SN_GUARD_FAILED;
		at += (size_t)n;
	}
	for (size_t at = 0; at < len;) {
		ssize_t n = pread(fd, to + at, len - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EFAULT && touched(to + at, true))
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
