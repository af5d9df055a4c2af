/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies by way of the peer's shareable heap (copy/heap.h): which message may go that way, and the copy itself. Used by
 * claims (claim.c), by pulls (rdv.c) and by copies in which both sides take part (share.c).
 *
 * The first copy that touches a page of the peer's maps it here, by a fault. One that reads maps the pages around it as
 * well, 16 at a time (130 ns each); one that writes maps a single page and costs 850 ns, which was more than the copy. So a
 * byte of each 64 KiB is read before they are written. (MADV_POPULATE_READ for all of it took 150 ns a page, and wants to
 * be told what is mapped already, which the peer's giving back of memory changes.)
 *
 * Budget: no system call; one copy of each byte; one line in 1024 read before it is written.
 */
#include "copy/bypass.h"
#include "local/local.h"

#define AROUND                                                                                               \
	((uintptr_t)64 << 10) /* what a fault that reads maps, aligned so: the kernel's fault_around_bytes */

bool sn_mapped_take(struct sn_link *link, uint32_t generation, struct iovec *iov, uint32_t count)
{
	return generation && generation == link->heap_generation &&
	       sn_heap_translate(&link->heap, iov, count);
}

static void touch(const char *at, uint64_t len)
{
	for (const char *end = at + len; at < end; at = (const char *)(((uintptr_t)at / AROUND + 1) * AROUND))
		(void)*(const volatile char *)at;
}

static void touch_all(const struct iovec *iov, uint32_t count, uint64_t offset, uint64_t len)
{
	for (uint32_t i = 0; i < count && len; i++) {
		uint64_t n = iov[i].iov_len;
		if (offset < n) {
			uint64_t take = SN_MIN_OF(n - offset, len);
			touch((const char *)iov[i].iov_base + offset, take);
			len -= take;
			offset = 0;
		} else {
			offset -= n;
		}
	}
}

void sn_mapped_copy(struct sn_link *link, bool reads, const struct iovec *own, uint32_t own_count,
		    const struct iovec *theirs, uint32_t their_count, uint64_t offset, uint64_t len)
{
	if (reads) {
		sn_segs_copy(own, own_count, theirs, their_count, offset, len);
	} else {
		touch_all(theirs, their_count, offset, len);
		sn_segs_copy(theirs, their_count, own, own_count, offset, len);
	}
	link->rail->count.copy_mapped_bytes += len;
}
