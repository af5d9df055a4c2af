/* SPDX-License-Identifier: BSD-3-Clause */
/* May there be arenas in this process, how large, and of which pages? */
#include "base/launched.h"
#include "base/memory.h"
#include "base/small_file.h"
#include "base/thp.h"
#include "copy/heap_file.h"
#include "heap.h"
#include "heap_pieces.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * Each rank maps the arena of each other, up to three times. Without an end 192 ranks on a node of 768 GiB would want
 * 432 TiB of address space, and there are 128; with this one it is 18. What finds no room in an arena is malloc's.
 */
#define MORE 8
#define SPARE                                                                                                \
	8 /* a rank keeps no more than this part of its share of the memory: what is freed may be what another needs */

/* There only where a sanitizer's runtime is loaded. */
#define RUNTIME(name) extern __attribute__((weak)) void name(void)
RUNTIME(__asan_init);
RUNTIME(__hwasan_init);
RUNTIME(__lsan_init);
RUNTIME(__msan_init);
RUNTIME(__tsan_init);

/* Such a program is run to have its allocations watched: what came from here nobody would watch, nor look through for
 * the last pointer to a block that has leaked. */
bool sn_heap_sanitized(void)
{
	return __asan_init || __hwasan_init || __lsan_init || __msan_init || __tsan_init;
}

bool sn_heap_says_no(const char *name)
{
	const char *setting = getenv(name);
	return setting && (!strcasecmp(setting, "no") || !strcasecmp(setting, "off") ||
			   !strcmp(setting, "0") || !strcasecmp(setting, "false"));
}

bool sn_heap_may(void)
{
	char mode[8];
	/* First of all: a runtime that is just beginning asks by way of __register_atfork(), and its own close() is not ready. */
	if (sn_heap_sanitized())
		return false;
	sn_read_text("/proc/sys/vm/overcommit_memory", mode, sizeof(mode));
	/* Where memory is promised only once (2), a mapping as large as the machine is refused, or taken from others. */
	return mode[0] != '2' && sysconf(_SC_PAGESIZE) == SN_HEAP_UNIT && sn_malloc_is_ours() &&
	       !sn_launched_by_valgrind() && !sn_heap_says_no("SENNIT_HEAP");
}

/* Where the launcher says only how many there are in all: no more of them here than cores. */
static size_t ranks_here(void)
{
	struct sn_launched job = sn_launched();
	long cores = sysconf(_SC_NPROCESSORS_CONF);
	int here = job.here ? job.here : cores > 0 && cores < job.all ? (int)cores : job.all;
	return here > 0 ? (size_t)here : 1;
}

size_t sn_heap_bytes(size_t *keep)
{
	struct rlimit limit;
	size_t bytes = sn_memory_of_machine(), ranks = ranks_here();
	*keep = sn_memory_allowed() / SPARE / ranks / SN_HEAP_UNIT;
	if (ranks > MORE)
		bytes = bytes / ranks * MORE;
	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur != RLIM_INFINITY)
		return 0; /* address space is counted: a large mapping would take it from the program */
	if (getrlimit(RLIMIT_FSIZE, &limit) || (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes))
		return 0;
	return bytes & ~(SN_PIECE - 1);
}

/*
 * What a process has written of it by the time of a fork exists twice when it is written again, and it is never freed: so of each
 * rank no more than half its share of half the memory.
 */
size_t sn_heap_static_bytes(void)
{
	struct sn_launched job = sn_launched();
	struct rlimit limit;
	if ((job.all <= 1 && job.here <= 1) || getrlimit(RLIMIT_FSIZE, &limit) ||
	    limit.rlim_cur != RLIM_INFINITY)
		return 0;
	return sn_memory_allowed() / 4 / ranks_here();
}

/*
 * *huge: so much of the arena is to ask for huge pages. All of it where all memory gets them, or root has switched them on
 * for shared memory. Elsewhere a program may count on it that what it allocates and never touches costs nothing, so of each
 * rank no more than its share of half the memory, which even if all of that exists leaves as much; of all its generations
 * together, since the blocks of earlier ones live on. None where the file has no huge pages.
 *
 * A file system of its own is for a rank: what else runs in the same environment (compilers, shells, a rank's children) is
 * mapped by no peer, nobody knows how many of them there are, and each would copy the system's list of mounts.
 *
 * *most: the longest block. Where other memory gets huge pages and an arena cannot, a program would lose more than it wins
 * by it, but with blocks that are shorter than a huge page.
 */
int sn_heap_file(size_t bytes, size_t behind, uint64_t before, bool forked, size_t *huge, size_t *most)
{
	struct sn_launched job = sn_launched();
	char usual[SN_THP_TEXT];
	bool known = sn_thp_read("enabled", usual), always = known && strstr(usual, "[always]");
	bool shared = sn_thp_shared();
	int fd = -1;
	*huge = *most = bytes;
	if (!always && !shared) {
		uint64_t share = sn_memory_allowed() / 2 / ranks_here();
		share -= before < share ? before : share;
		*huge = share < bytes ? share & ~(SN_PIECE - 1) : bytes;
	}
	if (known && !shared && (job.all || job.here) && !forked && !strstr(usual, "[never]") &&
	    !sn_heap_says_no("SENNIT_HUGE"))
		fd = sn_heap_file_huge(bytes + behind);
	if (fd >= 0)
		return fd;
	if (!shared)
		*huge = 0;
	if (always && !shared)
		*most = SN_PIECE - 1;
	return sn_heap_file_sealed(bytes + behind);
}
