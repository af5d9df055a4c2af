/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For test_heap_before: a tool that watches what the program allocates by some names, and gives its own memory back by the
 * functions behind its own.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define N      ((size_t)4 << 20)

EXPORT void sennit_test_tool(void);

static void give_back(void *p)
{
	union {
		void *symbol;
		void (*free)(void *);
	} next = {dlsym(RTLD_NEXT, "free")};
	memset(p, 3, N);
	next.free(p);
}

EXPORT void free(void *p)
{
	union {
		void *symbol;
		void (*free)(void *);
	} next = {dlsym(RTLD_NEXT, "free")};
	next.free(p);
}

EXPORT void sennit_test_tool(void)
{
	void *aligned = NULL;
	if (posix_memalign(&aligned, 4096, N))
		abort();
	give_back(aligned);
	give_back(malloc(N));
	give_back(calloc(1, N));
	give_back(realloc(NULL, N));
	give_back(realloc(malloc(N / 2), N));
	give_back(aligned_alloc(64, N));
}
