/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies in mapped memory put every byte where it belongs and touch no other, past the cache as well as through it, whatever
 * the alignments, lengths and pieces of both lists.
 */
#include "unit.h"

#include "local/local.h"

#define ROOM (3 * 65536u)

static uint8_t from[ROOM], to[ROOM], expected[ROOM];
static struct sn_rail rail;
static struct sn_link local_link = {.rail = &rail};

/* Cut `len` bytes from `at` on into at most max pieces, with gaps between them; how many. */
static uint32_t cut(uint8_t *at, uint64_t len, struct iovec *out, uint32_t max, uint64_t *seed)
{
	uint32_t n = 0;
	for (; len && n + 1 < max; n++) {
		uint64_t some = 1 + unit_random(seed) % (len * 2), piece = SN_MIN_OF(len, some);
		out[n] = (struct iovec){at, piece};
		at += piece + unit_random(seed) % 70;
		len -= piece;
	}
	if (len)
		out[n++] = (struct iovec){at, len};
	return n;
}

static uint8_t *byte_of(const struct iovec *v, uint64_t at)
{
	for (; at >= v->iov_len; v++)
		at -= v->iov_len;
	return (uint8_t *)v->iov_base + at;
}

static void every_byte_lands_where_it_belongs(void **state)
{
	uint64_t seed = 5;
	for (unsigned i = 0; i < ROOM; i++)
		from[i] = (uint8_t)(i * 7 + (i >> 8));
	for (int i = 0; i < 600; i++) {
		struct iovec a[4], b[4];
		uint64_t len = 1 + unit_random(&seed) % (i % 3 ? 5000 : ROOM - 1000);
		uint64_t offset = unit_random(&seed) % len, n = 1 + unit_random(&seed) % (len - offset);
		uint32_t na = cut(from + unit_random(&seed) % 100, len, a, 4, &seed),
			 nb = cut(to + unit_random(&seed) % 100, len, b, 4, &seed);
		memset(to, 0xee, ROOM);
		memset(expected, 0xee, ROOM);
		for (uint64_t k = offset; k < offset + n; k++)
			expected[byte_of(b, k) - to] = *byte_of(a, k);
		bool reads = i & 1;
		struct sn_mapped m = {reads ? b : a,
				      reads ? a : b,
				      reads ? nb : na,
				      reads ? na : nb,
				      reads,
				      i & 2,
				      reads && i % 4 == 3 && i & 8};
		sn_mapped_copy(&local_link, &m, offset, n);
		assert_memory_equal(to, expected, ROOM);
	}
	assert_true(rail.count.copy_mapped_bytes > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte_lands_where_it_belongs)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
