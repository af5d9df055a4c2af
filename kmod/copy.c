// SPDX-License-Identifier: GPL-2.0
/*
 * Single copy. Budget for a piece of SN_STEP_BYTES whose pages are pinned: two tree look-ups, no allocation, one copy of
 * each byte. The caller's own memory is not pinned, it is written and read by way of its page tables.
 *
 * A piece whose pages went stale while it was copied is copied again from what is mapped there now; if nothing is, the
 * copy ends with EFAULT. So what a finished copy wrote is in the memory that the process has, and what a late
 * invalidation overtook went to a page that was still held, and to nobody else's.
 */
#include "sennit_kmod.h"
#include <linux/highmem.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define SN_REDO_MAX 1000 /* pieces in a row that changed under the copy, before it gives up */

/* The pinned pages at a place of a region, as many as are in one pin set and at most len bytes. */
int sn_span_get(struct sn_end *end, u64 at, u64 len, bool write, struct sn_span *span)
{
	struct sn_region *r = end->region;
	u64 offset = end->offset + at, in;
	struct sn_seg *seg = sn_region_seg(r, offset);
	bool fresh;

	in = offset - seg->start + offset_in_page(seg->addr);
	span->ps = sn_pin_get(seg, in >> PAGE_SHIFT, write, false);
	if (IS_ERR(span->ps))
		return PTR_ERR(span->ps);
	span->page = (in >> PAGE_SHIFT) - span->ps->first;
	span->offset = offset_in_page(in);
	span->len = min3(len, seg->len - (offset - seg->start),
			 ((u64)(span->ps->count - span->page) << PAGE_SHIFT) - span->offset);
	fresh = !READ_ONCE(span->ps->referenced);
	WRITE_ONCE(span->ps->referenced, true);
	if (write)
		WRITE_ONCE(span->ps->dirty, true);
	/* This copy came to memory that was not pinned: let a worker pin what follows while this is being copied. */
	if (fresh && span->len < len)
		sn_region_ahead(r, offset + span->len, len - span->len);
	return 0;
}

/* The same for softirqs, for writing: false when the pages are not there right now. */
bool sn_span_try(struct sn_end *end, u64 at, u64 len, struct sn_span *span)
{
	u64 offset = end->offset + at, in;
	struct sn_seg *seg = sn_region_seg(end->region, offset);

	in = offset - seg->start + offset_in_page(seg->addr);
	span->ps = sn_pin_try(seg, in >> PAGE_SHIFT);
	if (!span->ps)
		return false;
	span->page = (in >> PAGE_SHIFT) - span->ps->first;
	span->offset = offset_in_page(in);
	span->len = min3(len, seg->len - (offset - seg->start),
			 ((u64)(span->ps->count - span->page) << PAGE_SHIFT) - span->offset);
	WRITE_ONCE(span->ps->referenced, true);
	WRITE_ONCE(span->ps->dirty, true);
	return true;
}

/* True: the pages were what the process had mapped, all the time until now. */
bool sn_span_put(struct sn_span *span)
{
	bool good;

	smp_mb(); /* the bytes were moved before this look */
	good = !READ_ONCE(span->ps->stale);
	sn_pin_put(span->ps);
	return good;
}

void sn_span_advance(struct sn_span *span, unsigned int n)
{
	span->offset += n;
	if (span->offset == PAGE_SIZE) {
		span->offset = 0;
		span->page++;
	}
}

/*
 * The kernel's memcpy() is rep movsb on processors that say it is fast. On AMD since Zen 3 it is 20 times slower
 * where it writes up to 15 bytes behind what it reads within a page, on Zen 3 up to 31 (2.1 GB/s in place of 50); by
 * eight bytes at a time it is not (18).
 */
void sn_copy_page(struct page *dst, unsigned int to, struct page *src, unsigned int from, unsigned int n)
{
#ifdef CONFIG_X86_64
	unsigned int behind = offset_in_page(to - from);

	if (behind && behind < 32 && n >= 64) {
		char *at = kmap_local_page(src), *put = kmap_local_page(dst);
		const void *in = at + from;
		void *out = put + to;
		unsigned long words = n / 8;

		asm volatile("rep movsq" : "+D"(out), "+S"(in), "+c"(words) : : "memory");
		memcpy(out, in, n % 8);
		kunmap_local(put);
		kunmap_local(at);
		return;
	}
#endif
	memcpy_page(dst, to, src, from, n);
}

static void sn_move(struct sn_span *dst, struct sn_span *src, u64 n)
{
	while (n) {
		unsigned int c = min3(n, (u64)PAGE_SIZE - dst->offset, (u64)PAGE_SIZE - src->offset);

		sn_copy_page(dst->ps->pages[dst->page], dst->offset, src->ps->pages[src->page], src->offset,
			     c);
		sn_span_advance(dst, c);
		sn_span_advance(src, c);
		n -= c;
	}
}

/* Between pinned pages and an address of the caller, which may fault: nothing is locked here. */
static int sn_move_user(struct sn_span *span, void __user *user, u64 n, bool to_user)
{
	while (n) {
		unsigned int c = min_t(u64, n, PAGE_SIZE - span->offset);
		void *page = kmap_local_page(span->ps->pages[span->page]);
		unsigned long left = to_user ? copy_to_user(user, page + span->offset, c)
					     : copy_from_user(page + span->offset, user, c);

		kunmap_local(page);
		if (left)
			return -EFAULT;
		sn_span_advance(span, c);
		user += c;
		n -= c;
	}
	return 0;
}

/* Where byte `at` of a vector lies, and how many bytes follow it there. */
static void __user *sn_vec_at(struct sn_vec *vec, u64 at, u64 *room)
{
	if (at < vec->at_start) {
		vec->at = 0;
		vec->at_start = 0;
	}
	while (at - vec->at_start >= vec->segs[vec->at].len) {
		vec->at_start += vec->segs[vec->at].len;
		vec->at++;
	}
	*room = vec->segs[vec->at].len - (at - vec->at_start);
	return u64_to_user_ptr(vec->segs[vec->at].addr + (at - vec->at_start));
}

/* Copies up to n bytes at `at`; returns how many, 0 when they must be copied again, or an error. */
static s64 sn_copy_step(struct sn_end *dst, struct sn_end *src, u64 at, u64 len)
{
	u64 n = min_t(u64, len, SN_STEP_BYTES), room;
	struct sn_span to, from;
	void __user *user;
	bool good = true;
	int err = 0;

	if (dst->region) {
		err = sn_span_get(dst, at, len, true, &to);
		if (err)
			return err;
		n = min(n, to.len);
	}
	if (src->region) {
		err = sn_span_get(src, at, len, false, &from);
		if (err)
			goto out;
		n = min(n, from.len);
	}
	if (dst->region && src->region) {
		sn_move(&to, &from, n);
	} else if (dst->region) {
		user = sn_vec_at(src->vec, src->offset + at, &room);
		n = min(n, room);
		err = sn_move_user(&to, user, n, false);
	} else {
		user = sn_vec_at(dst->vec, dst->offset + at, &room);
		n = min(n, room);
		err = sn_move_user(&from, user, n, true);
	}
	if (src->region)
		good &= sn_span_put(&from);
out:
	if (dst->region)
		good &= sn_span_put(&to);
	if (err)
		return err;
	return good ? n : 0;
}

/* Copies bytes [at, at + len) of the two ends with the CPU. *copied counts on. */
int sn_copy_cpu(struct sn_end *dst, struct sn_end *src, u64 at, u64 len, u64 *copied)
{
	unsigned int redone = 0;
	u64 done = 0;

	while (done < len) {
		s64 n;

		if (fatal_signal_pending(current))
			return -EINTR;
		n = sn_copy_step(dst, src, at + done, len - done);
		if (n < 0)
			return n;
		if (!n) {
			sn_count(SENNIT_C_COPY_REDONE, 1);
			if (++redone > SN_REDO_MAX)
				return -EFAULT;
			continue;
		}
		redone = 0;
		done += n;
		*copied += n;
		cond_resched();
	}
	return 0;
}

/*
 * The copy through a DMA channel. Both ends must be pinned for it, so the caller's memory becomes a region for as long
 * as that takes.
 */
static int sn_copy_dma(struct sn_ctx *ctx, struct sn_end *dst, struct sn_end *src, u64 len, bool warm,
		       u64 *copied)
{
	struct sn_end *own = dst->vec ? dst : src->vec ? src : NULL;
	int err;

	if (own) {
		struct sn_region *r = sn_region_new(ctx, own->vec, own == dst ? SENNIT_WRITE : SENNIT_READ);

		if (IS_ERR(r))
			return PTR_ERR(r);
		own->region = r;
	}
	err = sn_dma_copy(dst, src, len, warm, copied);
	if (own) {
		sn_region_kill(own->region);
		sn_region_put(own->region);
		own->region = NULL;
	}
	return err;
}

/* One copy, by whichever means its size and place ask for. ctx is the caller's; len lies within both ends. */
int sn_copy(struct sn_ctx *ctx, struct sn_end *dst, struct sn_end *src, u64 len, u64 *copied)
{
	struct sn_ctx *to = dst->region ? dst->region->ctx : ctx;
	struct sn_ctx *from = src->region ? src->region->ctx : ctx;
	int err;

	*copied = 0;
	if (sn_dma_wants(from, to, len))
		err = sn_copy_dma(ctx, dst, src, len, sn_dma_shares_cache(ctx, to), copied);
	else
		err = sn_copy_cpu(dst, src, 0, len, copied);
	sn_count(SENNIT_C_COPIES, 1);
	sn_count(SENNIT_C_COPY_BYTES, *copied);
	if (err)
		sn_count(SENNIT_C_COPY_ERRORS, 1);
	return err;
}

/* Resolves an end that a caller named, for len bytes with the given access. */
int sn_end_open(struct sn_ctx *ctx, const struct sennit_end *from, u64 len, u32 access, struct sn_end *end)
{
	u64 total;
	int err = 0;

	memset(end, 0, sizeof(*end));
	if (from->kind == SENNIT_END_MEMORY) {
		end->vec = sn_vec_get(from->ref, from->nsegs);
		if (IS_ERR(end->vec))
			return PTR_ERR(end->vec);
		total = end->vec->length;
	} else {
		if (from->nsegs)
			return -EINVAL;
		if (from->kind == SENNIT_END_REGION && from->ref == (u32)from->ref)
			end->region = sn_region_by_id(ctx, from->ref);
		else if (from->kind == SENNIT_END_HANDLE)
			end->region = sn_region_by_handle(from->ref);
		else
			return -EINVAL;
		if (IS_ERR(end->region))
			return PTR_ERR(end->region);
		total = end->region->length;
		if (!(end->region->access & access))
			err = -EACCES;
	}
	end->offset = from->offset;
	if (!err && (from->offset > total || len > total - from->offset))
		err = -EINVAL;
	if (err)
		sn_end_close(end);
	return err;
}

void sn_end_close(struct sn_end *end)
{
	if (end->region)
		sn_region_put(end->region);
	kvfree(end->vec);
}

int sn_copy_call(struct sn_ctx *ctx, void *arg)
{
	struct sennit_copy *c = arg;
	struct sn_end dst, src;
	int err;

	c->copied = 0;
	if (c->dst.kind == SENNIT_END_MEMORY && c->src.kind == SENNIT_END_MEMORY)
		return -EINVAL;
	err = sn_end_open(ctx, &c->dst, c->len, SENNIT_WRITE, &dst);
	if (err)
		return err;
	err = sn_end_open(ctx, &c->src, c->len, SENNIT_READ, &src);
	if (!err) {
		err = sn_copy(ctx, &dst, &src, c->len, &c->copied);
		sn_end_close(&src);
	}
	sn_end_close(&dst);
	return err;
}
