/* SPDX-License-Identifier: BSD-3-Clause */
/* For test_heap_before: a library that allocates before the shareable heap's own constructor has run. */
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) unsigned char *sennit_test_before;

__attribute__((constructor)) static void allocate(void)
{
	sennit_test_before = malloc((size_t)1 << 20);
	if (sennit_test_before)
		memset(sennit_test_before, 7, (size_t)1 << 20);
}
