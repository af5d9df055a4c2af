/* SPDX-License-Identifier: BSD-3-Clause */
/* How much slower rep movsb is where it writes a little behind what it reads (base/copy.c): the kernel copies by it, too. */
#include "base/base.h"

/* In 10 us: the least of several, for this core may be taken away in between. 0: there is no such copy here. */
static uint64_t takes(char *to, const char *from, size_t n)
{
	uint64_t least = UINT64_MAX;
	for (int k = 0; k < 6; k++) {
		uint64_t start = sn_now_ns();
		if (!sn_copy_by_strings(to, from, n))
			return 0;
		uint64_t took = sn_now_ns() - start;
		least = k > 0 && took < least ? took : least;
	}
	return least + 1;
}

unsigned sn_copy_stumbles(unsigned behind)
{
	static _Atomic unsigned known[2]; /* threads that ask at once measure the same */
	static char area[2][8192] __attribute__((aligned(4096)));
	unsigned far = behind >= SN_COPY_TRIPS / 2,
		 times = atomic_load_explicit(&known[far], memory_order_relaxed);
	if (times)
		return times;
	uint64_t usual = takes(area[0] + 1024, area[1], 4096);
	uint64_t there = takes(area[0] + SN_COPY_TRIPS / 4 + far * SN_COPY_TRIPS / 2, area[1], 4096);
	times = usual ? (unsigned)SN_MAX_OF(there / usual, (uint64_t)1) : 1;
	atomic_store_explicit(&known[far], times, memory_order_relaxed);
	return times;
}
