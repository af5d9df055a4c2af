/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/huge.h"
#include "base/base.h"
#include "base/conf.h"
#include "base/thp.h"
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static bool system_allows(void)
{
	char text[SN_THP_TEXT];
	return sn_thp_read("enabled", text) && !strstr(text, "[never]");
}

/* True: a collapse was tried, which is enough for one message. */
static bool region_seen(struct sn_huge *h, uint64_t region)
{
	/* the regions of one buffer have slots one after another, and do not push each other out; buffers far apart may */
	uint32_t slot = (uint32_t)((region + sn_mix64(region / SN_HUGE_SLOTS)) % SN_HUGE_SLOTS);
	if (h->at[slot].region != region + 1) {
		h->at[slot].region = region + 1;
		h->at[slot].uses = 0;
	}
	if (++h->at[slot].uses % SN_HUGE_AGAIN != SN_HUGE_AFTER)
		return false;
	void *at = (void *)(uintptr_t)(region * SN_HUGE_BYTES);
	if (madvise(at, SN_HUGE_BYTES, MADV_COLLAPSE))
		h->refused++;
	else
		h->collapsed++;
	return true;
}

void sn_huge_seen(struct sn_huge *h, const struct iovec *iov, uint32_t count)
{
	if (sn_unlikely(!h->allowed))
		h->allowed = sn_conf_num(SN_CONF_HUGE) && system_allows() ? 1 : -1;
	if (h->allowed < 0)
		return;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t from = (uint64_t)(uintptr_t)iov[i].iov_base, end = from + iov[i].iov_len;
		uint64_t region = (from + SN_HUGE_BYTES - 1) / SN_HUGE_BYTES;
		for (; (region + 1) * SN_HUGE_BYTES <= end; region++)
			if (region_seen(h, region))
				return;
	}
}
