/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Libraries of a program run their constructors before the shareable heap runs its own: what they allocate is
 * inherited across a fork, with the heap and with the heap switched off. And a tool that watches memory gives back what it
 * has for itself without the heap. The program runs itself again with the libraries in front; SENNIT_HEAP_LIB,
 * SENNIT_BEFORE_LIB and SENNIT_TOOL_LIB say where they are.
 */
#include "check.h"
#include "copy/heap.h"
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#define N ((size_t)1 << 20)

/*
 * In a heap that nobody has used before: two free runs have been joined, of which only the second has memory; so much is taken of
 * the first, and calloc gets the rest.
 */
static int calloc_is_zero(void)
{
	const size_t n = 4 * N;
	unsigned char *first = malloc(N), *far = aligned_alloc(128 * N, n);
	CHECK(first && far);
	size_t gap = (size_t)(far - first) - N, dirty = 0;
	memset(far, 0xff, n);
	__asm__ volatile(""
			 :
			 : "r"(far)
			 : "memory"); /* or the compiler knows that nobody reads it, as it knows calloc */
	free(far);
	unsigned char *volatile others;
	unsigned char *some = malloc(n);
	others = calloc(1, gap);
	CHECK(some && others);
	for (size_t k = 0; k < gap; k++)
		dirty += others[k] != 0;
	CHECK(dirty == 0);
	free(first);
	free(some);
	free(others);
	return 0;
}

/* In the program that has both in front: 0, or what was wrong. */
static int look(bool off)
{
	struct sn_heap_info own;
	int status;
	union {
		void *symbol;
		void (*allocates)(void);
	} tool = {dlsym(RTLD_DEFAULT, "sennit_test_tool")};
	if (tool.symbol)
		tool.allocates();
	unsigned char **at = (unsigned char **)dlsym(RTLD_DEFAULT, "sennit_test_before");
	CHECK(at && *at);
	if (!off && !sn_heap_own(&own)) {
		fprintf(stderr,
			"the heap leaves itself out here: huge pages always, limited address space, or "
			"no overcommit\n");
		return 77;
	}
	if (off)
		CHECK(!sn_heap_own(&own));
	else
		CHECK(calloc_is_zero() == 0);
	pid_t pid = fork();
	if (!pid) {
		for (size_t i = 0; i < N; i++)
			if ((*at)[i] != 7)
				_exit(1);
		memset(*at, 8, N);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		fprintf(stderr, "the child was killed by signal %d\n", WTERMSIG(status));
	CHECK(status == 0);
	CHECK((*at)[0] == 7 && (*at)[N - 1] == 7);
	return 0;
}

static int again(const char *mode, const char *preload)
{
	int status;
	pid_t pid = fork();
	if (!pid) {
		setenv("LD_PRELOAD", preload, 1);
		setenv("SENNIT_HEAP", mode, 1);
		execl("/proc/self/exe", "test_heap_before", mode, (char *)NULL);
		_exit(127);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

int main(int argc, char **argv)
{
	const char *heap = getenv("SENNIT_HEAP_LIB"), *before = getenv("SENNIT_BEFORE_LIB"),
		   *tool = getenv("SENNIT_TOOL_LIB");
	char preload[4096];
	if (argc > 1)
		return look(!strcmp(argv[1], "no"));
	if (!heap || !before || !tool || access(heap, R_OK) || access(before, R_OK) || access(tool, R_OK)) {
		fprintf(stderr,
			"SENNIT_HEAP_LIB, SENNIT_BEFORE_LIB or SENNIT_TOOL_LIB names no library: this "
			"build has none\n");
		return 77;
	}
	CHECK((size_t)snprintf(preload, sizeof(preload), "%s:%s", heap, before) < sizeof(preload));
	CHECK(again("no", preload) == 0);
	int with = again("yes", preload);
	if (WIFEXITED(with) && WEXITSTATUS(with) == 77)
		return 77;
	CHECK(with == 0);
	CHECK((size_t)snprintf(preload, sizeof(preload), "%s:%s:%s", heap, tool, before) < sizeof(preload));
	CHECK(again("yes", preload) == 0);
	return 0;
}
