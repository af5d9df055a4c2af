/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers that large messages use again and again get huge pages, keep what is in them, and others are left alone. */
#include "unit.h"

#include "copy/huge.h"
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

static uint8_t *memory(size_t n)
{
	uint8_t *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(at != MAP_FAILED);
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(i * 7 + (i >> 11));
	return at;
}

static void what_is_used_again_is_collapsed_and_stays_whole(void **state)
{
	static struct sn_huge h;
	uint8_t *at = memory(16 * MIB);
	struct iovec v = {at + 5, 16 * MIB - 5};
	for (int i = 0; i < SN_HUGE_AFTER + 40; i++) {
		uint64_t before = h.collapsed + h.refused;
		sn_huge_seen(&h, &v, 1);
		assert_true(h.collapsed + h.refused <= before + 1); /* at most one for each message */
		if (i < SN_HUGE_AFTER - 1)
			assert_int_equal(h.collapsed + h.refused, 0);
	}
	for (size_t i = 0; i < 16 * MIB; i++)
		assert_int_equal(at[i], (uint8_t)(i * 7 + (i >> 11)));
	munmap(at, 16 * MIB);
	if (h.allowed < 0 || !h.collapsed) {
		print_message("the system has no huge pages to collapse into\n");
		skip();
	}
	assert_in_range(h.collapsed + h.refused, 6, 8); /* parts of 2 MiB; the kernel may lack a page */
}

static void parts_and_gaps_are_left_alone(void **state)
{
	static struct sn_huge h;
	uint8_t *at = memory(2 * MIB);
	struct iovec small = {at + 4096, 2 * MIB - 4096}, none = {NULL, 0};
	for (int i = 0; i < SN_HUGE_AFTER + 40; i++) {
		sn_huge_seen(&h, &small, 1);
		sn_huge_seen(&h, &none, 1);
	}
	assert_int_equal(h.collapsed + h.refused, 0);
	munmap(at, 2 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_used_again_is_collapsed_and_stays_whole),
					   cmocka_unit_test(parts_and_gaps_are_left_alone)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
