/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/join.h"
#include "base/base.h"
#include <string.h>

#define SEGMENTS 64	      /* the kernel's limit for one packet */
#define MOST	 (65535 - 48) /* bytes of it, without what stands before: UDP's header and the longer of IP's */
#define PAD	 8	      /* the part of a segment that may be filled up */

static uint8_t padding[65536]; /* zeros; never written */

static bool same_way(const struct sn_net_out *a, const struct sn_net_out *b)
{
	return a->to == b->to || memcmp(a->to, b->to, sizeof(*a->to)) == 0;
}

unsigned sn_join_count(const struct sn_net_out *f, unsigned count, uint32_t *size)
{
	unsigned n = 1;

	*size = f[0].len;
	if (count > 2 && f[1].len > *size && f[2].len <= f[1].len)
		*size = f[1].len;
	while (n < count && n < SEGMENTS && f[n].len <= *size && same_way(&f[n], &f[0]) &&
	       (n + 1) * *size <= MOST) {
		n++;
		if (f[n - 1].len < *size - *size / PAD)
			break;
	}
	if (n == 1)
		*size = f[0].len;
	return n;
}

/* A piece more, which may lie right behind the one before. Returns how many more entries that takes. */
static unsigned add_piece(const struct iovec *first, struct iovec *next, const struct iovec *piece)
{
	struct iovec *last = next - 1;

	if (next > first && (uint8_t *)last->iov_base + last->iov_len == piece->iov_base) {
		last->iov_len += piece->iov_len;
		return 0;
	}
	*next = *piece;
	return 1;
}

unsigned sn_join_out(struct iovec *iov, const struct sn_net_out *f, unsigned n, uint32_t size)
{
	unsigned count = 0;

	for (unsigned k = 0; k < n; k++) {
		for (uint32_t v = 0; v < f[k].iov_count; v++)
			count += add_piece(iov, iov + count, &f[k].iov[v]);
		if (k < n - 1 && size > f[k].len)
			iov[count++] = (struct iovec){padding, size - f[k].len};
	}
	return count;
}

unsigned sn_join_in(struct iovec *iov, uint8_t *bytes, uint32_t size, const struct sn_net_spot *spot,
		    unsigned placed)
{
	size_t rest = (size_t)placed * size;
	unsigned n = 0;

	for (unsigned i = 0; i < placed; i++) {
		uint32_t used = SN_NET_HEAD + spot[i].len;
		iov[n++] = (struct iovec){bytes + (size_t)i * size, SN_NET_HEAD};
		iov[n++] = (struct iovec){spot[i].at, spot[i].len};
		if (used < size) /* a frame that is longer, or filled up */
			iov[n++] = (struct iovec){bytes + (size_t)i * size + used, size - used};
	}
	if (rest < SN_JOIN_BYTES)
		iov[n++] = (struct iovec){bytes + rest, SN_JOIN_BYTES - rest};
	return n;
}

void sn_join_undo(uint8_t *bytes, uint32_t size, const struct sn_net_spot *spot, unsigned placed, size_t n)
{
	for (unsigned i = 0; i < placed; i++) {
		size_t at = (size_t)i * size + SN_NET_HEAD;
		if (at >= n)
			break;
		memcpy(bytes + at, spot[i].at, SN_MIN_OF(n - at, (size_t)spot[i].len));
	}
}
