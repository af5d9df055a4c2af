/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In front of calls that mean another thing for memory of malloc's than for blocks of a shared file, or count what the arenas
 * have taken of the address space.
 */
#include "heap.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

int sn_heap_advise(void *at, size_t bytes, int advice)
{
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

/* Of anonymous memory these leave zeros, of a file what stands there; and MADV_FREE is refused. */
static bool forgets(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED || advice == MADV_FREE;
}

EXPORT int madvise(void *at, size_t bytes, int advice)
{
	return forgets(advice) && sn_arena_owns(at) && sn_arena_forget(at, bytes)
		       ? 0
		       : sn_heap_advise(at, bytes, advice);
}

/* ---- limits --------------------------------------------------------------------------------------------------- */

/* Of a line of /proc/self/maps: the bytes of a shared mapping that nobody may access. */
static uint64_t bytes_reserved(const char *line)
{
	char *end;
	uint64_t from = strtoull(line, &end, 16), to = *end == '-' ? strtoull(end + 1, &end, 16) : from;
	return strncmp(end, " ---s", 5) ? 0 : to - from;
}

/*
 * Address space without memory: what blocks have not reached, of our arenas and of the peers' that the engine has mapped. No
 * allocation here.
 */
static uint64_t reserved(void)
{
	char text[4096];
	size_t have = 0;
	uint64_t sum = 0;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	ssize_t n;
	while (fd >= 0 && (n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *line = text, *end;
		have += (size_t)n;
		text[have] = '\0';
		for (; (end = strchr(line, '\n')); line = end + 1)
			sum += bytes_reserved(line);
		have -= (size_t)(line - text);
		memmove(text, line, have);
		if (have == sizeof(text) - 1) /* a line as long as that: not one of these */
			have = 0;
	}
	if (fd >= 0)
		close(fd);
	return sum;
}

/*
 * A program that limits its address space means its own: what is reserved comes on top, and from then on nothing more is.
 * (Where the limit is there before the program is, there are no arenas.)
 */
static int limited(pid_t pid, const struct rlimit *want, struct rlimit *old)
{
	struct rlimit more;
	if (want && want->rlim_cur != RLIM_INFINITY && (pid == 0 || pid == getpid())) {
		uint64_t sum = sn_arena_confine() ? reserved() : 0;
		more = *want;
		more.rlim_cur += sum < RLIM_INFINITY - more.rlim_cur ? sum : 0;
		if (more.rlim_max != RLIM_INFINITY)
			more.rlim_max += sum < RLIM_INFINITY - more.rlim_max ? sum : 0;
		if (syscall(SYS_prlimit64, pid, RLIMIT_AS, &more, old) == 0)
			return 0;
	}
	return (int)syscall(SYS_prlimit64, pid, RLIMIT_AS, want, old);
}

static int prlimit_any(pid_t pid, int what, const struct rlimit *want, struct rlimit *old)
{
	return what == RLIMIT_AS ? limited(pid, want, old)
				 : (int)syscall(SYS_prlimit64, pid, what, want, old);
}

/* glibc's types for these differ between C and C++, and are integers and pointers to 64-bit limits in all. */
EXPORT int sn_setrlimit(int what, const struct rlimit *want) __asm__("setrlimit");
EXPORT int sn_setrlimit64(int what, const struct rlimit *want) __asm__("setrlimit64");
EXPORT int sn_prlimit(pid_t pid, int what, const struct rlimit *want, struct rlimit *old) __asm__("prlimit");
EXPORT int sn_prlimit64(pid_t pid, int what, const struct rlimit *want,
			struct rlimit *old) __asm__("prlimit64");

int sn_setrlimit(int what, const struct rlimit *want)
{
	return prlimit_any(0, what, want, NULL);
}
int sn_setrlimit64(int what, const struct rlimit *want)
{
	return prlimit_any(0, what, want, NULL);
}
int sn_prlimit(pid_t pid, int what, const struct rlimit *want, struct rlimit *old)
{
	return prlimit_any(pid, what, want, old);
}
int sn_prlimit64(pid_t pid, int what, const struct rlimit *want, struct rlimit *old)
{
	return prlimit_any(pid, what, want, old);
}
