/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/local.h"
#include <stdlib.h>

void sn_segs_free(struct sn_segs *s)
{
	if (s->at != s->few)
		free(s->at);
	s->at = s->few;
	s->count = 0;
}

int sn_segs_take(struct sn_segs *s, const uint8_t *from, uint32_t count, uint64_t len)
{
	s->at = s->few;
	s->count = 0;
	if (count > SN_SEGS_INLINE) {
		s->at = malloc(count * sizeof(*s->at));
		if (!s->at) {
			s->at = s->few;
			return SN_ERR_NOMEM;
		}
	}
	uint64_t left = len;
	for (uint32_t i = 0; i < count; i++) {
		struct sn_rec_seg seg;
		memcpy(&seg, from + i * sizeof(seg), sizeof(seg));
		if (seg.len > left) {
			sn_segs_free(s);
			return SN_ERR_PROTO;
		}
		left -= seg.len;
		s->at[i] = (struct iovec){(void *)(uintptr_t)seg.at, seg.len};
	}
	s->count = count;
	if (!left)
		return 0;
	sn_segs_free(s);
	return SN_ERR_PROTO;
}

void sn_segs_put(uint8_t *to, const struct iovec *iov, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct sn_rec_seg seg = {(uint64_t)(uintptr_t)iov[i].iov_base, iov[i].iov_len};
		memcpy(to + i * sizeof(seg), &seg, sizeof(seg));
	}
}
