/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For test_heap_before: a library that allocates before the shareable heap's own constructor has run, and in handlers of a fork
 * that stand before the heap's: they come when it has made ready, or has yet to in the child.
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
}

__attribute__((constructor)) static void allocate(void)
{
	pthread_atfork(comes_and_goes, comes_and_goes, comes_and_goes);
	sennit_test_before = malloc((size_t)1 << 20);
	if (sennit_test_before)
		memset(sennit_test_before, 7, (size_t)1 << 20);
}
