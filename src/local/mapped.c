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
#include "progress/relax.h"

#define FEW 4 /* segments */

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

enum how { AS_USUAL, HOME, AWAY, PAST };

static void copy_one(enum how how, void *to, const void *from, size_t n)
{
	switch (how) {
	case HOME: sn_copy_home(to, from, n, false); break;
	case AWAY: sn_copy_away(to, from, n); break;
	case PAST: sn_copy_bypass(to, from, n); break;
	default: sn_copy_between(to, from, n);
	}
}

/* A few segments at a time: the caller may be a coroutine, with little stack. */
static void copy(enum how how, const struct iovec *to, uint32_t to_count, const struct iovec *from,
		 uint32_t from_count, uint64_t offset, uint64_t len)
{
	struct iovec out[FEW], in[FEW];
	uint64_t covered, read;
	while (len) {
		uint32_t outs = sn_iov_slice(to, to_count, offset, len, out, FEW, &covered),
			 ins = sn_iov_slice(from, from_count, offset, len, in, FEW, &read);
		if (!(covered = SN_MIN_OF(covered, read)))
			return;
		offset += covered;
		len -= covered;
		for (uint32_t o = 0, i = 0; o < outs && i < ins;) {
			size_t n = SN_MIN_OF(out[o].iov_len, in[i].iov_len);
			copy_one(how, out[o].iov_base, in[i].iov_base, n);
			out[o] = (struct iovec){(char *)out[o].iov_base + n, out[o].iov_len - n};
			in[i] = (struct iovec){(char *)in[i].iov_base + n, in[i].iov_len - n};
			o += !out[o].iov_len;
			i += !in[i].iov_len;
		}
	}
}

/*
 * Between cores that share a cache rep movsb writes the peer's lines as fast as anything. In a crowd the lines are in
 * no cache or in this core's, and it is the only one that writes them without reading them first: by loops an
 * alltoall of 64 KiB took 1.2 to 1.4 times as long with 4 and 8 ranks on two cores.
 */
static enum how how_to(const struct sn_link *link, const struct sn_mapped *m)
{
	if (m->bypass && !m->back)
		return PAST;
	if (sn_relax_crowded())
		return AS_USUAL;
	if (m->reads)
		return HOME;
	return sn_way_apart(link) ? AWAY : AS_USUAL;
}

static void give_back(const struct iovec *iov, uint32_t count, uint64_t offset, uint64_t len)
{
	struct iovec at[FEW];
	uint64_t covered;
	for (uint32_t n; len && (n = sn_iov_slice(iov, count, offset, len, at, FEW, &covered));
	     offset += covered, len -= covered)
		for (uint32_t i = 0; i < n; i++)
			sn_copy_give_back(at[i].iov_base, at[i].iov_len);
}

void sn_mapped_copy(struct sn_link *link, const struct sn_mapped *m, uint64_t offset, uint64_t len)
{
	const struct iovec *to = m->reads ? m->own : m->theirs, *from = m->reads ? m->theirs : m->own;
	uint32_t to_count = m->reads ? m->own_count : m->their_count,
		 from_count = m->reads ? m->their_count : m->own_count;
	if (!m->reads)
		touch_all(to, to_count, offset, len);
	copy(how_to(link, m), to, to_count, from, from_count, offset, len);
	if (m->back)
		give_back(from, from_count, offset, len);
	link->rail->count.copy_mapped_bytes += len;
}
