// SPDX-License-Identifier: GPL-2.0
/*
 * Regions: a vector of a process's memory under one name. Declaring one costs an allocation and a notifier for each
 * segment; no page is touched.
 */
#include "sennit_kmod.h"
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/* Copies a vector of segments in, once. Empty segments are dropped; none may wrap or leave user space. */
struct sn_vec *sn_vec_get(u64 segs, u32 n)
{
	const struct sennit_seg __user *from = u64_to_user_ptr(segs);
	struct sn_vec *vec;
	u32 i, kept = 0;

	if (n > SENNIT_MAX_SEGS)
		return ERR_PTR(-EINVAL);
	vec = kvzalloc(struct_size(vec, segs, n), GFP_KERNEL_ACCOUNT);
	if (!vec)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(vec->segs, from, n * sizeof(*from))) {
		kvfree(vec);
		return ERR_PTR(-EFAULT);
	}
	for (i = 0; i < n; i++) {
		struct sennit_seg s = vec->segs[i];

		if (!s.len)
			continue;
		if (s.len > SENNIT_MAX_LENGTH || vec->length + s.len > SENNIT_MAX_LENGTH ||
		    s.addr != (unsigned long)s.addr ||
		    !access_ok((void __user *)(unsigned long)s.addr, s.len)) {
			kvfree(vec);
			return ERR_PTR(-EINVAL);
		}
		vec->length += s.len;
		vec->segs[kept++] = s;
	}
	vec->n = kept;
	return vec;
}

static void sn_region_ahead_work(struct work_struct *work);

/* A region that nobody can find yet. The caller runs in ctx->mm. */
struct sn_region *sn_region_new(struct sn_ctx *ctx, const struct sn_vec *vec, u32 access)
{
	struct sn_region *r;
	unsigned int i;
	int err;

	r = kvzalloc(struct_size(r, segs, vec->n), GFP_KERNEL_ACCOUNT);
	if (!r)
		return ERR_PTR(-ENOMEM);
	sn_handle_init(&r->handle, SN_HANDLE_REGION, ctx->cred);
	r->ctx = ctx;
	kref_get(&ctx->ref);
	r->access = access;
	INIT_WORK(&r->ahead, sn_region_ahead_work);
	for (i = 0; i < vec->n; i++) {
		struct sn_seg *seg = &r->segs[i];

		seg->region = r;
		seg->addr = untagged_addr(vec->segs[i].addr); /* as the notifiers know it */
		seg->len = vec->segs[i].len;
		seg->start = r->length;
		seg->first = seg->addr >> PAGE_SHIFT;
		seg->pages = ((seg->addr + seg->len - 1) >> PAGE_SHIFT) - seg->first + 1;
		spin_lock_init(&seg->lock);
		seg->pins = RB_ROOT;
		seg->next_chunk = 1;
		err = mmu_interval_notifier_insert(&seg->notifier, ctx->mm, seg->first << PAGE_SHIFT,
						   seg->pages << PAGE_SHIFT, &sn_pin_notifier_ops);
		if (err) {
			sn_region_kill(r);
			sn_region_put(r);
			return ERR_PTR(err);
		}
		r->length += seg->len;
		r->n_segs = i + 1;
	}
	return r;
}

/*
 * Ends a region: nobody finds it, nothing new is pinned, its notifiers are gone. Copies that hold it come to an end
 * with an error at their next step. May be called more than once; only the first does anything. Sleeps.
 */
void sn_region_kill(struct sn_region *r)
{
	unsigned int i;

	if (test_and_set_bit(SN_REGION_KILLED, &r->flags))
		return;
	sn_handle_withdraw(&r->handle);
	WRITE_ONCE(r->dead, true);
	/* A background pinner sees dead and stops; its reference is its own, so this need not wait for it. */
	for (i = 0; i < r->n_segs; i++) {
		sn_pin_drop_all(&r->segs[i]);
		mmu_interval_notifier_remove(&r->segs[i].notifier);
	}
}

void sn_region_free(struct kref *ref)
{
	struct sn_region *r = container_of(ref, struct sn_region, handle.ref);

	sn_ctx_put(r->ctx);
	kvfree(r);
}

struct sn_region *sn_region_by_id(struct sn_ctx *ctx, u32 id)
{
	struct sn_region *r;

	xa_lock(&ctx->regions);
	r = xa_load(&ctx->regions, id);
	if (r)
		kref_get(&r->handle.ref);
	xa_unlock(&ctx->regions);
	return r ? r : ERR_PTR(-ENOENT);
}

struct sn_region *sn_region_by_handle(u64 value)
{
	struct sn_handle *h = sn_handle_find(value, SN_HANDLE_REGION);

	return h ? container_of(h, struct sn_region, handle) : ERR_PTR(-ENOENT);
}

/* The segment that holds this byte; offset is below the region's length. */
struct sn_seg *sn_region_seg(struct sn_region *r, u64 offset)
{
	unsigned int lo = 0, hi = r->n_segs - 1;

	while (lo < hi) {
		unsigned int mid = (lo + hi + 1) / 2;

		if (r->segs[mid].start <= offset)
			lo = mid;
		else
			hi = mid - 1;
	}
	return &r->segs[lo];
}

int sn_region_declare(struct sn_ctx *ctx, void *arg)
{
	struct sennit_declare *d = arg;
	struct sn_region *r;
	struct sn_vec *vec;
	int err;

	if (d->reserved || !d->nsegs || !d->access || (d->access & ~(SENNIT_READ | SENNIT_WRITE)))
		return -EINVAL;
	vec = sn_vec_get(d->segs, d->nsegs);
	if (IS_ERR(vec))
		return PTR_ERR(vec);
	if (!vec->n) {
		kvfree(vec);
		return -EINVAL;
	}
	if (atomic_inc_return(&ctx->n_regions) > SN_REGIONS_MAX)
		r = ERR_PTR(-ENOSPC);
	else
		r = sn_region_new(ctx, vec, d->access);
	kvfree(vec);
	if (IS_ERR(r)) {
		atomic_dec(&ctx->n_regions);
		return PTR_ERR(r);
	}
	d->handle = sn_handle_publish(&r->handle);
	d->length = r->length;
	/* From here on another thread of the caller may undeclare it: r is not touched after a success. */
	err = xa_alloc(&ctx->regions, &d->id, r, xa_limit_31b, GFP_KERNEL_ACCOUNT);
	if (err) {
		atomic_dec(&ctx->n_regions);
		sn_region_kill(r);
		sn_region_put(r);
		return err;
	}
	sn_count(SENNIT_C_REGIONS_DECLARED, 1);
	return 0;
}

int sn_region_undeclare(struct sn_ctx *ctx, void *arg)
{
	struct sennit_undeclare *u = arg;
	struct sn_region *r;

	if (u->reserved)
		return -EINVAL;
	r = xa_erase(&ctx->regions, u->id);
	if (!r)
		return -ENOENT;
	atomic_dec(&ctx->n_regions);
	sn_region_kill(r);
	sn_region_put(r);
	return 0;
}

void sn_region_close_all(struct sn_ctx *ctx)
{
	struct sn_region *r;
	unsigned long id;

	xa_for_each(&ctx->regions, id, r)
	{
		xa_erase(&ctx->regions, id);
		sn_region_kill(r);
		sn_region_put(r);
	}
}

/*
 * Pinning ahead: a worker pins chunk after chunk while the copy is still in earlier ones. It takes only what the limits
 * leave free, for evicting what it pinned a moment ago, before the copy came there, would be running in a circle.
 */
static void sn_region_ahead_work(struct work_struct *work)
{
	struct sn_region *r = container_of(work, struct sn_region, ahead);
	bool write = r->access & SENNIT_WRITE;

	u64 at = r->ahead_at;

	while (!READ_ONCE(r->dead) && at < r->ahead_end) {
		struct sn_seg *seg = sn_region_seg(r, at);
		u64 skew = seg->addr & ~PAGE_MASK;
		struct sn_pinset *ps = sn_pin_get(seg, (at - seg->start + skew) >> PAGE_SHIFT, write, true);

		if (IS_ERR(ps))
			break; /* whoever copies there finds the same error and reports it */
		at = seg->start + min_t(u64, seg->len, ((u64)(ps->first + ps->count) << PAGE_SHIFT) - skew);
		sn_pin_put(ps);
		cond_resched();
	}
	clear_bit_unlock(SN_REGION_AHEAD, &r->flags);
	sn_region_put(r);
}

/* Starts it, unless it runs or waits to run: then that run goes on as it is. */
void sn_region_ahead(struct sn_region *r, u64 offset, u64 len)
{
	if (test_and_set_bit_lock(SN_REGION_AHEAD, &r->flags))
		return;
	kref_get(&r->handle.ref);
	r->ahead_at = offset;
	r->ahead_end = offset + len;
	sn_pin_queue_ahead(&r->ahead);
}

int sn_region_prepare(struct sn_ctx *ctx, void *arg)
{
	struct sennit_prepare *p = arg;
	struct sn_region *r;
	int err = 0;

	if (p->reserved)
		return -EINVAL;
	r = sn_region_by_id(ctx, p->id);
	if (IS_ERR(r))
		return PTR_ERR(r);
	if (p->offset > r->length || p->len > r->length - p->offset)
		err = -EINVAL;
	else if (p->len)
		sn_region_ahead(r, p->offset, p->len);
	sn_region_put(r);
	return err;
}
