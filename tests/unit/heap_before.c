/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For test_heap_before: a library that allocates before the shareable heap's own constructor has run, and in handlers of a fork
 * that a library registers before anything large is allocated.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) unsigned char *sennit_test_before;

static unsigned char *kept;

/* Before the fork, and on both sides after it: what the one before left is there, in the child too. */
static void comes_and_goes(void)
{
	unsigned char *fresh = malloc((size_t)1 << 20);
	if (!fresh || (kept && kept[1000] != 5))
		abort();
	memset(fresh, 5, (size_t)1 << 20);
	free(kept);
	kept = fresh;
	free(malloc(200000)); /* by a mapping of its own, which may lie where the heap was */
}

__attribute__((constructor)) static void allocate(void)
{
	pthread_atfork(comes_and_goes, comes_and_goes, comes_and_goes);
	sennit_test_before = malloc((size_t)1 << 20);
	if (sennit_test_before)
		memset(sennit_test_before, 7, (size_t)1 << 20);
}
