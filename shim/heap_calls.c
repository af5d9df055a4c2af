/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In front of calls that mean another thing for memory of malloc's than for blocks of a shared file, or count what the arenas
 * have taken of the address space.
 */
#include "heap.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef int (*advise_fn)(void *, size_t, int);

/* By way of others who stand in front of it, or have changed its beginning, as they count what is no longer there. */
int sn_heap_advise(void *at, size_t bytes, int advice)
{
	static _Atomic(advise_fn) next;
	advise_fn call = atomic_load_explicit(&next, memory_order_relaxed);
	if (!call) {
		void *f = dlsym(RTLD_NEXT, "madvise");
		memcpy(&call, &f, sizeof(call));
		atomic_store_explicit(&next, call, memory_order_relaxed);
	}
	return call ? call(at, bytes, advice) : (int)syscall(SYS_madvise, at, bytes, advice);
}

/* Of anonymous memory these leave zeros, of a file what stands there; and the second is refused. */
EXPORT int madvise(void *at, size_t bytes, int advice)
{
	int rc = 1;
	if ((advice == MADV_DONTNEED || advice == MADV_FREE) && sn_arena_owns(at))
		rc = sn_arena_forget(at, bytes);
	return rc <= 0 ? rc : sn_heap_advise(at, bytes, advice);
}

/* ---- limits --------------------------------------------------------------------------------------------------- */

static _Atomic uint64_t added; /* to the limit that the program has set */
static pid_t
	self; /* whose limits and arenas these are: not those of a child that shares our memory before it calls exec */

static void own(void)
{
	self = getpid();
}

__attribute__((constructor)) static void start(void)
{
	own();
	pthread_atfork(NULL, NULL, own);
}

/* A number of the kernel's, as it writes them: the C library's functions have other names from one version to the next. */
static uint64_t hex(const char **at)
{
	uint64_t n = 0;
	for (;; (*at)++) {
		char c = **at;
		if (c >= '0' && c <= '9')
			n = n << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			n = n << 4 | (uint64_t)(c - 'a' + 10);
		else
			return n;
	}
}

/* Of a line of /proc/self/maps: the bytes of a shared mapping that nobody may access. */
static uint64_t bytes_reserved(const char *line)
{
	uint64_t from = hex(&line);
	if (*line++ != '-')
		return 0;
	uint64_t to = hex(&line);
	return strncmp(line, " ---s", 5) ? 0 : to - from;
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

static rlim_t more(rlim_t limit, uint64_t by)
{
	return limit == RLIM_INFINITY || by >= RLIM_INFINITY - limit ? limit : limit + by;
}

static rlim_t less(rlim_t limit, uint64_t by)
{
	return limit == RLIM_INFINITY || limit < by ? limit : limit - by;
}

/*
 * A program that limits its address space means its own: what is reserved comes on top, and from then on nothing more is taken
 * of that, so that the limit is one. (Where it is there before the program is, there are no arenas.)
 */
static int address_space(const struct rlimit *want, struct rlimit *old)
{
	uint64_t before = atomic_load(&added), now = before;
	struct rlimit was, set;
	if (want && want->rlim_cur != RLIM_INFINITY && !before)
		now = reserved();
	if (want)
		set = (struct rlimit){more(want->rlim_cur, now), more(want->rlim_max, now)};
	int rc = (int)syscall(SYS_prlimit64, 0, RLIMIT_AS, want ? &set : NULL, &was);
	if (rc)
		return rc;
	if (now && !before) {
		sn_arena_confine();
		atomic_store(&added, now);
	}
	if (old)
		*old = (struct rlimit){less(was.rlim_cur, before), less(was.rlim_max, before)};
	return 0;
}

static int limits(pid_t pid, int what, const struct rlimit *want, struct rlimit *old)
{
	pid_t me = getpid();
	if (what == RLIMIT_AS && me == self && (pid == 0 || pid == me))
		return address_space(want, old);
	return (int)syscall(SYS_prlimit64, pid, what, want, old);
}

/* The types that the headers give them differ between C and C++. */
EXPORT int sn_getrlimit(int what, struct rlimit *old) __asm__("getrlimit");
EXPORT int sn_getrlimit64(int what, struct rlimit *old) __asm__("getrlimit64");
EXPORT int sn_setrlimit(int what, const struct rlimit *want) __asm__("setrlimit");
EXPORT int sn_setrlimit64(int what, const struct rlimit *want) __asm__("setrlimit64");
EXPORT int sn_prlimit(pid_t pid, int what, const struct rlimit *want, struct rlimit *old) __asm__("prlimit");
EXPORT int sn_prlimit64(pid_t pid, int what, const struct rlimit *want,
			struct rlimit *old) __asm__("prlimit64");

int sn_getrlimit(int what, struct rlimit *old)
{
	return limits(0, what, NULL, old);
}
int sn_getrlimit64(int what, struct rlimit *old)
{
	return limits(0, what, NULL, old);
}
int sn_setrlimit(int what, const struct rlimit *want)
{
	return limits(0, what, want, NULL);
}
int sn_setrlimit64(int what, const struct rlimit *want)
{
	return limits(0, what, want, NULL);
}
int sn_prlimit(pid_t pid, int what, const struct rlimit *want, struct rlimit *old)
{
	return limits(pid, what, want, old);
}
int sn_prlimit64(pid_t pid, int what, const struct rlimit *want, struct rlimit *old)
{
	return limits(pid, what, want, old);
}
