/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For test_heap_maps: a library whose constructor, while the dynamic linker has its lock, waits for a thread that changes the
 * access to a page.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

static char page[8192] __attribute__((aligned(4096)));

static void *protects(void *arg)
{
	(void)arg;
	mprotect(page, 4096, PROT_READ);
	return NULL;
}

__attribute__((constructor)) static void wait_for_thread(void)
{
	pthread_t t;
	if (pthread_create(&t, NULL, protects, NULL) || pthread_join(t, NULL))
		abort();
}
