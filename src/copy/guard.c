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
 * own): one that asks where, and returns. The kernel's copies do not call it; a load or a store of ours does. Those that only
 * say where a process died, as MPIs, UCX and sanitizers have one, do not count: then it is an error of the message.
 */
static bool serves_faults(void)
{
	static const char *const tell[] = {"libopen-", "libprrte", "libpmix",  "libmpi",   "libucs",
					   "libasan",  "libtsan",  "libubsan", "libifcore"};
	struct sigaction is;
	Dl_info in;
	bool served = !sigaction(SIGSEGV, NULL, &is) && is.sa_flags & SA_SIGINFO;
	if (!served || !dladdr((void *)(uintptr_t)is.sa_sigaction, &in) || !in.dli_fname)
		return served;
	const char *slash = strrchr(in.dli_fname, '/'), *name = slash ? slash + 1 : in.dli_fname;
	for (size_t i = 0; i < sizeof(tell) / sizeof(tell[0]); i++)
		served &= strncmp(name, tell[i], strlen(tell[i])) != 0;
	return served;
}

#define TOUCHES 3 /* of one byte, after which it is given up */

struct touched {
	const char *at;
	int times;
};

/* If the handler returns, it is accessible, unless another thread has changed that again. */
static bool touch(struct touched *t, const char *at, bool to_write)
{
	t->times = t->at == at ? t->times + 1 : 1;
	t->at = at;
	if (!at || t->times > TOUCHES || !serves_faults())
		return false;
	volatile char *byte = (volatile char *)(uintptr_t)at, was = *byte;
	if (to_write)
		*byte = was;
	return true;
}

static enum sn_guard_outcome through(int fd, char *to, const char *from, size_t len)
{
	struct touched last = {"", 0};
	for (size_t at = 0; at < len;) {
		ssize_t n = pwrite(fd, from + at, len - at, (off_t)at);
		if (n < 0 && (errno == EINTR || (errno == EFAULT && touch(&last, from + at, false))))
			continue;
		if (n <= 0)
			return n < 0 && errno == EFAULT ? SN_GUARD_SOURCE : SN_GUARD_FAILED;
		at += (size_t)n;
	}
	for (size_t at = 0; at < len;) {
		ssize_t n = pread(fd, to + at, len - at, (off_t)at);
		if (n < 0 && (errno == EINTR || (errno == EFAULT && touch(&last, to + at, true))))
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
