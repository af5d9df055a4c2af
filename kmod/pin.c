// SPDX-License-Identifier: GPL-2.0
/*
 * Pinning on demand. A copy that needs a page asks for the pin set that covers it; if there is none it makes one, a
 * chunk of 1 page at first, twice as many each time, up to SN_CHUNK_MAX, so that the first bytes move early and the
 * cost of many pages is paid in few calls.
 *
 * Against a process that changes its memory at the same time: a pin set stands in the tree, in state SN_PINNING, before
 * its pages are looked up, so every invalidation that begins from then on finds it and marks it stale;
 * mmu_interval_read_begin() then waits for those that began earlier. A set that is stale when its pages have come is
 * thrown away and pinned again. Breaking copy-on-write invalidates the very page that is being pinned, so one more
 * round is usual there; sets beside it are left alone.
 *
 * Limits: pages count in mm->pinned_vm (VmPin of /proc/PID/status) against RLIMIT_MEMLOCK of the memory's owner, and in
 * one total against the module's parameter. At a limit the least recently used idle sets go first.
 */
#include "sennit_kmod.h"
#include <linux/atomic.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/shrinker.h>
#include <linux/slab.h>

#define SN_PIN_TRIES	64
#define SN_CHARGE_TRIES 32
#define SN_EVICT_LOOK	256 /* sets looked at before the LRU's lock is let go for a moment */
#define SN_DROP_SOME	64  /* sets dropped before the segment's is */

static unsigned long pin_limit_pages;
module_param(pin_limit_pages, ulong, 0644);
MODULE_PARM_DESC(pin_limit_pages,
		 "pages that may be pinned by all processes together (0: a quarter of memory)");

static LIST_HEAD(sn_lru);
static DEFINE_SPINLOCK(sn_lru_lock);
static unsigned long sn_lru_pages; /* under sn_lru_lock */
static atomic_long_t sn_pinned;
static struct workqueue_struct *sn_release_wq, *sn_ahead_wq;

u64 sn_pin_total(void)
{
	return atomic_long_read(&sn_pinned);
}

u64 sn_pin_limit(void)
{
	unsigned long limit = READ_ONCE(pin_limit_pages);

	return limit ? limit : totalram_pages() / 4;
}

bool sn_pin_queue_ahead(struct work_struct *work)
{
	return queue_work(sn_ahead_wq, work);
}

static void sn_pin_uncharge(struct mm_struct *mm, unsigned long n)
{
	atomic64_sub(n, &mm->pinned_vm);
	atomic_long_sub(n, &sn_pinned);
}

/*
 * A page is marked dirty under its lock, for its file may be truncated meanwhile. Who has that lock is not waited
 * for: he may be writing to a file system that does not answer, and everybody at a limit waits for this worker.
 * Nothing is lost by that: pinning for writing made the page dirty, and whatever has cleaned it since has protected
 * it first, which took the set away, so that what was written later was written again, into pages that were looked up
 * anew.
 */
static void sn_pin_dirty(struct page *page)
{
	struct folio *folio = page_folio(page);

	if (folio_test_dirty(folio) || !folio_trylock(folio))
		return;
	folio_mark_dirty(folio);
	folio_unlock(folio);
}

/* Lets the pages go. A worker's, for file systems may sleep when a page becomes dirty. */
static void sn_pin_release(struct sn_pinset *ps)
{
	struct sn_region *r = ps->region;
	unsigned long i;

	for (i = 0; i < ps->count && READ_ONCE(ps->dirty); i++)
		sn_pin_dirty(ps->pages[i]);
	unpin_user_pages(ps->pages, ps->count);
	/* Before they are free to be charged again: what is pinned by the counters is never more than what is charged. */
	sn_count(SENNIT_C_PAGES_UNPINNED, ps->count);
	sn_pin_uncharge(r->ctx->mm, ps->count);
	kvfree(ps);
	sn_region_put(r);
}

static void sn_pin_release_work(struct work_struct *work)
{
	sn_pin_release(container_of(work, struct sn_pinset, release));
}

/* From any context, notifiers too: the last reference hands the pages to a worker. */
void sn_pin_put(struct sn_pinset *ps)
{
	if (refcount_dec_and_test(&ps->refs))
		queue_work(sn_release_wq, &ps->release);
}

static void sn_lru_add(struct sn_pinset *ps)
{
	spin_lock_bh(&sn_lru_lock);
	list_add_tail(&ps->lru, &sn_lru);
	sn_lru_pages += ps->count;
	spin_unlock_bh(&sn_lru_lock);
}

/* Takes a set out of its tree. True: it was there, and the caller now has the tree's reference. seg->lock is held. */
static bool sn_pin_unlink(struct sn_pinset *ps)
{
	if (!ps->linked)
		return false;
	ps->linked = false;
	WRITE_ONCE(ps->stale, true);
	rb_erase(&ps->node, &ps->seg->pins);
	if (RB_EMPTY_ROOT(&ps->seg->pins))
		ps->seg->next_chunk = 1;
	if (ps->state == SN_READY) {
		spin_lock_bh(&sn_lru_lock);
		list_del_init(&ps->lru);
		sn_lru_pages -= ps->count;
		spin_unlock_bh(&sn_lru_lock);
	}
	return true;
}

/* The set that covers this page; if none, *next is the first one beyond it. seg->lock is held. */
static struct sn_pinset *sn_pin_find(struct sn_seg *seg, unsigned long page, struct sn_pinset **next)
{
	struct rb_node *n = seg->pins.rb_node;

	*next = NULL;
	while (n) {
		struct sn_pinset *ps = rb_entry(n, struct sn_pinset, node);

		if (page < ps->first) {
			*next = ps;
			n = n->rb_left;
		} else if (page >= ps->first + ps->count) {
			n = n->rb_right;
		} else {
			return ps;
		}
	}
	return NULL;
}

static void sn_pin_link(struct sn_seg *seg, struct sn_pinset *ps)
{
	struct rb_node **at = &seg->pins.rb_node, *parent = NULL;

	while (*at) {
		parent = *at;
		at = ps->first < rb_entry(parent, struct sn_pinset, node)->first ? &parent->rb_left
										 : &parent->rb_right;
	}
	rb_link_node(&ps->node, parent, at);
	rb_insert_color(&ps->node, &seg->pins);
	ps->linked = true;
}

/* Some of the sets that overlap pages [at, to), from the first on; returns where it has got to. seg->lock is held. */
static unsigned long sn_pin_drop_some(struct sn_seg *seg, unsigned long at, unsigned long to)
{
	struct sn_pinset *ps, *next;
	unsigned int some = SN_DROP_SOME;

	while (at < to && some--) {
		ps = sn_pin_find(seg, at, &next);
		if (!ps)
			ps = next;
		if (!ps || ps->first >= to)
			return to;
		at = ps->first + ps->count;
		if (ps->state == SN_PINNING) {
			WRITE_ONCE(ps->stale, true);
		} else if (sn_pin_unlink(ps)) {
			sn_count(SENNIT_C_INVALIDATIONS, 1);
			sn_pin_put(ps);
		}
	}
	return at;
}

/*
 * Drops every set that overlaps pages [at, to); one that is being pinned is marked, and its pinner starts again. They may be
 * a page each, and very many, so softirqs are let in between some and some. A set that comes up behind them meanwhile is not
 * of the old memory: who makes it waits for the invalidation to end (or sees that the region is dead).
 */
static void sn_pin_drop(struct sn_seg *seg, unsigned long at, unsigned long to)
{
	while (at < to) {
		spin_lock_bh(&seg->lock);
		at = sn_pin_drop_some(seg, at, to);
		spin_unlock_bh(&seg->lock);
	}
}

void sn_pin_drop_all(struct sn_seg *seg)
{
	sn_pin_drop(seg, 0, seg->pages);
}

/*
 * The memory below is about to change: unmapped, remapped, moved, write-protected (fork, mprotect), truncated,
 * migrated, discarded, or the process ends. Nothing here waits: copies in flight work on pages that they hold, see
 * that the set is stale, and look again.
 */
static bool sn_pin_invalidate(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range,
			      unsigned long seq)
{
	struct sn_seg *seg = container_of(notifier, struct sn_seg, notifier);
	unsigned long from = max(range->start >> PAGE_SHIFT, seg->first) - seg->first;
	unsigned long to = min(((range->end - 1) >> PAGE_SHIFT) + 1, seg->first + seg->pages) - seg->first;

	spin_lock_bh(&seg->lock);
	mmu_interval_set_seq(notifier, seq);
	spin_unlock_bh(&seg->lock);
	sn_pin_drop(seg, from, to);
	return true;
}

const struct mmu_interval_notifier_ops sn_pin_notifier_ops = {.invalidate = sn_pin_invalidate};

enum sn_evict_mode { SN_EVICT_LIMIT, SN_EVICT_PRESSURE };

/* Drops idle sets, least recently used first, of one process or (mm NULL) of all; returns the pages dropped. */
static unsigned long sn_pin_evict(struct mm_struct *mm, unsigned long want, enum sn_evict_mode mode)
{
	unsigned long freed = 0, looks = 0, all;
	unsigned int held = 0;

	spin_lock_bh(&sn_lru_lock);
	all = 2 * sn_lru_pages; /* each set once with its second chance, once without */
	while (freed < want && looks <= all && !list_empty(&sn_lru)) {
		struct sn_pinset *ps = list_first_entry(&sn_lru, struct sn_pinset, lru);
		bool mine = false;

		/* The list is everybody's and may be long: nobody's softirqs wait for all of it. */
		if (++held > SN_EVICT_LOOK) {
			held = 0;
			spin_unlock_bh(&sn_lru_lock);
			cond_resched();
			spin_lock_bh(&sn_lru_lock);
			continue;
		}
		looks += ps->count;
		list_move_tail(&ps->lru, &sn_lru);
		if ((mm && ps->region->ctx->mm != mm) || refcount_read(&ps->refs) > 1)
			continue;
		if (READ_ONCE(ps->referenced)) {
			WRITE_ONCE(ps->referenced, false);
			continue;
		}
		refcount_inc(&ps->refs); /* on the LRU means in the tree, so the count is not zero */
		spin_unlock_bh(&sn_lru_lock);
		spin_lock_bh(&ps->seg->lock);
		mine = sn_pin_unlink(ps);
		spin_unlock_bh(&ps->seg->lock);
		if (mine) {
			freed += ps->count;
			sn_count(mode == SN_EVICT_PRESSURE ? SENNIT_C_SHRINKS : SENNIT_C_EVICTIONS, 1);
			sn_pin_put(ps);
		}
		sn_pin_put(ps);
		spin_lock_bh(&sn_lru_lock);
	}
	spin_unlock_bh(&sn_lru_lock);
	return freed;
}

/* 0 and the pages are counted; else which limit is in the way: 1 the process's, 2 the system's. */
static int sn_pin_try_charge(struct sn_ctx *ctx, unsigned long n)
{
	if (atomic64_add_return(n, &ctx->mm->pinned_vm) > READ_ONCE(ctx->memlock)) {
		atomic64_sub(n, &ctx->mm->pinned_vm);
		return 1;
	}
	if (atomic_long_add_return(n, &sn_pinned) > sn_pin_limit()) {
		sn_pin_uncharge(ctx->mm, n);
		return 2;
	}
	return 0;
}

/*
 * Counts up to n pages against the limits and returns how many it got. At a limit: evicts as many and, as their release
 * is a worker's, waits for it; then tries with fewer. Pinning ahead never evicts, but may take what was let go here: a last
 * page is asked for some times.
 */
static unsigned long sn_pin_charge(struct sn_ctx *ctx, unsigned long n, bool ahead)
{
	unsigned int tries = 0;

	while (n) {
		int limit = sn_pin_try_charge(ctx, n);

		if (!limit)
			return n;
		if (!ahead) {
			unsigned long let_go = sn_pin_evict(limit == 1 ? ctx->mm : NULL, n, SN_EVICT_LIMIT);

			flush_workqueue(sn_release_wq);
			if (!sn_pin_try_charge(ctx, n))
				return n;
			if (n == 1 && let_go && ++tries < SN_CHARGE_TRIES)
				continue;
		}
		n /= 2;
	}
	return 0;
}

static long sn_pin_pages(struct mm_struct *mm, struct sn_pinset *ps, unsigned long start)
{
	unsigned int flags = FOLL_LONGTERM | (ps->writable ? FOLL_WRITE : 0);
	long got;

	mmap_read_lock(mm);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
	got = pin_user_pages_remote(mm, start, ps->count, flags, ps->pages, NULL);
#else
	got = pin_user_pages_remote(mm, start, ps->count, flags, ps->pages, NULL, NULL);
#endif
	mmap_read_unlock(mm);
	return got;
}

/*
 * Fills a set that stands in the tree as SN_PINNING, and makes it SN_READY with as many pages as there were, or removes
 * it and returns the error. The caller has its own reference.
 */
static int sn_pin_fill(struct sn_seg *seg, struct sn_pinset *ps)
{
	struct sn_ctx *ctx = seg->region->ctx;
	unsigned long asked = ps->count;
	int tries;
	long got = -ESRCH;

	if (!mmget_not_zero(ctx->mm))
		goto out;
	for (tries = 0; tries < SN_PIN_TRIES; tries++) {
		/* Both before the wait: what begins after this line marks the set, what began before is waited for. */
		spin_lock_bh(&seg->lock);
		WRITE_ONCE(ps->stale, false);
		if (tries > 2) /* somebody keeps changing this memory: ask for little */
			ps->count = 1;
		spin_unlock_bh(&seg->lock);
		mmu_interval_read_begin(&seg->notifier);
		sn_linger(2);
		got = sn_pin_pages(ctx->mm, ps, (seg->first + ps->first) << PAGE_SHIFT);
		if (got <= 0)
			break;

		spin_lock_bh(&seg->lock);
		if (READ_ONCE(seg->region->dead)) {
			spin_unlock_bh(&seg->lock);
			unpin_user_pages(ps->pages, got);
			got = -ENOENT;
			break;
		}
		if (!ps->stale) {
			ps->count = got;
			smp_store_release(&ps->state,
					  SN_READY); /* its pages first, for who looks without the lock */
			sn_lru_add(ps);
			spin_unlock_bh(&seg->lock);
			break;
		}
		spin_unlock_bh(&seg->lock);
		unpin_user_pages(ps->pages, got);
		sn_count(SENNIT_C_PIN_RETRIES, 1);
		got = fatal_signal_pending(current) ? -EINTR : -EFAULT;
		if (got == -EINTR)
			break;
		cond_resched();
	}
	mmput(ctx->mm);
out:
	if (got > 0) {
		sn_pin_uncharge(ctx->mm, asked - got);
		sn_count(SENNIT_C_PAGES_PINNED, got);
		sn_count(SENNIT_C_PIN_CHUNKS, 1);
		return 0;
	}
	spin_lock_bh(&seg->lock);
	WRITE_ONCE(ps->state, SN_GONE);
	if (sn_pin_unlink(ps))
		refcount_dec(&ps->refs); /* the tree's; the caller's is still there */
	ps->count = 0;
	spin_unlock_bh(&seg->lock);
	sn_pin_uncharge(ctx->mm, asked);
	sn_count(SENNIT_C_PIN_FAILURES, 1);
	/* Refusals of other kinds (a mapping that may not be pinned for long, for one) are as good as no memory there. */
	return got == -EINTR || got == -ENOMEM || got == -ENOENT || got == -ESRCH ? got : -EFAULT;
}

static struct sn_pinset *sn_pin_alloc(struct sn_seg *seg, unsigned long n, bool write)
{
	struct sn_pinset *ps = kvzalloc(struct_size(ps, pages, n), GFP_KERNEL_ACCOUNT);

	if (!ps)
		return NULL;
	refcount_set(&ps->refs, 2); /* the tree's and the caller's */
	ps->seg = seg;
	ps->region = seg->region;
	INIT_LIST_HEAD(&ps->lru);
	INIT_WORK(&ps->release, sn_pin_release_work);
	ps->writable = write;
	ps->state = SN_PINNING;
	return ps;
}

/* One set takes no more than an eighth of what may be pinned, so that copies that run beside each other all get some. */
static unsigned long sn_pin_chunk(struct sn_seg *seg, unsigned long page)
{
	u64 most = min_t(u64, READ_ONCE(seg->region->ctx->memlock), sn_pin_limit()) / 8;
	unsigned long n = min_t(unsigned long, READ_ONCE(seg->next_chunk), seg->pages - page);

	return min_t(u64, n, max_t(u64, most, 1));
}

/*
 * Makes the set for a page that nothing covers. Returns it, NULL when somebody else was faster (look again), or an
 * error.
 */
static struct sn_pinset *sn_pin_make(struct sn_seg *seg, unsigned long page, bool write, bool ahead)
{
	struct sn_ctx *ctx = seg->region->ctx;
	struct sn_pinset *ps, *next;
	unsigned long n, room;
	int err;

	n = sn_pin_charge(ctx, sn_pin_chunk(seg, page), ahead);
	if (!n)
		return ERR_PTR(-ENOMEM);
	ps = sn_pin_alloc(seg, n, write);
	if (!ps) {
		sn_pin_uncharge(ctx->mm, n);
		return ERR_PTR(-ENOMEM);
	}
	spin_lock_bh(&seg->lock);
	if (sn_pin_find(seg, page, &next) || READ_ONCE(seg->region->dead)) {
		spin_unlock_bh(&seg->lock);
		sn_pin_uncharge(ctx->mm, n);
		kvfree(ps);
		return READ_ONCE(seg->region->dead) ? ERR_PTR(-ENOENT) : NULL;
	}
	room = next ? next->first - page : n;
	ps->first = page;
	ps->count = min(n, room);
	kref_get(&seg->region->handle.ref);
	sn_pin_link(seg, ps);
	seg->next_chunk = min_t(unsigned long, 2 * seg->next_chunk, SN_CHUNK_MAX);
	spin_unlock_bh(&seg->lock);
	sn_pin_uncharge(ctx->mm, n - ps->count);

	err = sn_pin_fill(seg, ps);
	wake_up_all(&seg->region->ctx->pin_wait);
	if (err) {
		sn_pin_put(ps); /* with no pages: only its memory is released */
		return ERR_PTR(err);
	}
	return ps;
}

/*
 * The set that covers a page of a segment, pinned, with a reference for the caller; waits for one that is being made.
 * The caller holds the region. Sleeps.
 */
struct sn_pinset *sn_pin_get(struct sn_seg *seg, unsigned long page, bool write, bool ahead)
{
	struct sn_pinset *ps, *next;

	for (;;) {
		if (fatal_signal_pending(current))
			return ERR_PTR(-EINTR);
		spin_lock_bh(&seg->lock);
		ps = sn_pin_find(seg, page, &next);
		if (ps && ps->state == SN_READY && write && !ps->writable) {
			sn_pin_unlink(ps); /* pinned for reading: pin it anew */
			spin_unlock_bh(&seg->lock);
			sn_pin_put(ps);
			continue;
		}
		if (ps)
			refcount_inc(&ps->refs);
		spin_unlock_bh(&seg->lock);
		sn_linger(4);

		if (!ps) {
			ps = sn_pin_make(seg, page, write, ahead);
			if (ps)
				return ps;
			continue;
		}
		if (smp_load_acquire(&ps->state) == SN_READY) {
			/* It may have become ready since, and for reading only: then it is looked at again above. */
			if (!write || ps->writable) {
				WRITE_ONCE(ps->referenced, true);
				sn_count(SENNIT_C_PIN_HITS, 1);
				return ps;
			}
		} else {
			sn_count(SENNIT_C_OVERLAP_MISSES, 1);
			wait_event_killable(seg->region->ctx->pin_wait, READ_ONCE(ps->state) != SN_PINNING);
		}
		sn_pin_put(ps);
	}
}

/*
 * For softirqs: the set that covers a page if it is ready, and writable, with a reference for the caller; NULL if not.
 */
struct sn_pinset *sn_pin_try(struct sn_seg *seg, unsigned long page)
{
	struct sn_pinset *ps, *next;

	spin_lock_bh(&seg->lock);
	ps = sn_pin_find(seg, page, &next);
	if (ps && ps->state == SN_READY && ps->writable)
		refcount_inc(&ps->refs);
	else
		ps = NULL;
	spin_unlock_bh(&seg->lock);
	return ps;
}

static unsigned long sn_shrink_count(struct shrinker *shrinker, struct shrink_control *sc)
{
	return READ_ONCE(sn_lru_pages);
}

/* Pages are let go by the worker, so reclaim never waits for a page's lock here. */
static unsigned long sn_shrink_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	unsigned long freed = sn_pin_evict(NULL, sc->nr_to_scan, SN_EVICT_PRESSURE);

	return freed ? freed : SHRINK_STOP;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
static struct shrinker *sn_shrinker;

static int sn_shrinker_start(void)
{
	sn_shrinker = shrinker_alloc(0, "sennit");
	if (!sn_shrinker)
		return -ENOMEM;
	sn_shrinker->count_objects = sn_shrink_count;
	sn_shrinker->scan_objects = sn_shrink_scan;
	sn_shrinker->seeks = DEFAULT_SEEKS;
	shrinker_register(sn_shrinker);
	return 0;
}

static void sn_shrinker_stop(void)
{
	shrinker_free(sn_shrinker);
}
#else
static struct shrinker sn_shrinker = {
	.count_objects = sn_shrink_count,
	.scan_objects = sn_shrink_scan,
	.seeks = DEFAULT_SEEKS,
};

static int sn_shrinker_start(void)
{
	return register_shrinker(&sn_shrinker, "sennit");
}

static void sn_shrinker_stop(void)
{
	unregister_shrinker(&sn_shrinker);
}
#endif

int sn_pin_init(void)
{
	int err;

	sn_release_wq = alloc_workqueue("sennit_release", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	sn_ahead_wq = alloc_workqueue("sennit_ahead", WQ_UNBOUND, 0);
	err = sn_release_wq && sn_ahead_wq ? sn_shrinker_start() : -ENOMEM;
	if (err) {
		if (sn_release_wq)
			destroy_workqueue(sn_release_wq);
		if (sn_ahead_wq)
			destroy_workqueue(sn_ahead_wq);
	}
	return err;
}

/* No file is open: what is left are references of workers. Those that pin end first, then what they let go. */
void sn_pin_exit(void)
{
	sn_shrinker_stop();
	destroy_workqueue(sn_ahead_wq);
	destroy_workqueue(sn_release_wq);
}
