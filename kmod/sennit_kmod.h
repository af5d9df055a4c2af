/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the module's files share. Who owns whom:
 *
 *   file -> context -> regions -> segments -> pin sets -> pages
 *
 * A context lives as long as its file or any of its regions. A region is *published* (found by id and handle) until it
 * is killed, by its owner or at close, and lives on, dead, while copies hold it: a dead region pins nothing any more.
 * A pin set is one chunk of pinned pages, counted: its segment's tree holds one reference while the pages are what the
 * process has mapped there, each copy that uses it holds one more. An invalidation takes it out of the tree, at any
 * moment; its pages are let go by whoever drops the last reference, so no copy ever touches a page that is not held.
 *
 * Locks, outermost first: job->lock; a network endpoint's lock; seg->lock; the LRU's lock. The last two are also taken
 * from MMU notifiers, so nothing allocates or sleeps below them; and all but the first from softirqs.
 */
#ifndef SENNIT_KMOD_H
#define SENNIT_KMOD_H

#include "sennit_ioctl.h"
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/sched/mm.h>
#include <linux/spinlock.h>
#include <linux/version.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#define SN_CHUNK_MAX   1024	    /* pages in the largest pin chunk */
#define SN_STEP_BYTES  (64u << 10)  /* copied by the CPU between two looks at signals and invalidations */
#define SN_PIECE_BYTES (256u << 10) /* the unit in which callers share a transfer */
#define SN_REGIONS_MAX 16384	    /* per context */

struct sn_member;

enum sn_handle_kind { SN_HANDLE_REGION, SN_HANDLE_SHARE, SN_HANDLE_JOB };

/* What other processes may name, and how many hold it. */
struct sn_handle {
	struct rb_node node;
	struct kref ref;
	enum sn_handle_kind kind;
	u64 value;
	const struct cred *cred;
};

struct sn_ctx {
	struct kref ref;
	struct mm_struct *mm;	 /* mmgrab: the struct, not the memory */
	const struct cred *cred; /* the opener's */
	u64 memlock;		 /* RLIMIT_MEMLOCK in pages as the owner's last call had it */
	int cpu;		 /* where the owner last called from */
	struct xarray regions;	 /* id -> region */
	struct xarray shares;	 /* transfers that this file opened */
	struct xarray requests;	 /* id -> request, of LiMIC's interface */
	struct xarray nets;	 /* id -> network endpoint */
	atomic_t n_regions;
	atomic_t n_requests;
	struct mutex join_lock;
	struct sn_member *member;   /* set once by join */
	wait_queue_head_t wait;	    /* completions of this context's requests */
	wait_queue_head_t pin_wait; /* chunks of its regions that are being pinned */
};

struct sn_seg {
	struct mmu_interval_notifier notifier;
	struct sn_region *region;
	u64 addr, len;
	u64 start;	     /* where it begins in the region */
	unsigned long first; /* page number of its first page */
	unsigned long pages;
	spinlock_t lock;
	struct rb_root pins;	 /* sn_pinset by first page */
	unsigned int next_chunk; /* pages to pin next: doubles, starts anew when nothing is pinned */
};

enum sn_region_flag { SN_REGION_KILLED, SN_REGION_AHEAD };

struct sn_region {
	struct sn_handle handle;
	struct sn_ctx *ctx;
	u64 length;
	u32 access;
	bool dead;
	unsigned long flags;	  /* enum sn_region_flag */
	struct work_struct ahead; /* pins [ahead_at, ahead_end) in the background */
	u64 ahead_at, ahead_end;
	unsigned int n_segs;
	struct sn_seg segs[];
};

enum sn_pin_state { SN_PINNING, SN_READY, SN_GONE };

struct sn_pinset {
	refcount_t refs;
	struct sn_seg *seg;
	struct sn_region *region; /* counted: keeps seg valid */
	struct rb_node node;
	struct list_head lru;
	struct work_struct release;
	unsigned long first, count; /* pages of the segment */
	enum sn_pin_state state;    /* written under seg->lock */
	bool stale;  /* no longer what is mapped; written under seg->lock, read by copies without */
	bool linked; /* in the segment's tree */
	bool writable;
	bool dirty;
	bool referenced; /* used since the LRU last looked */
	struct page *pages[];
};

/* A vector of the caller's own memory, copied in once. */
struct sn_vec {
	u32 n;
	u32 at;	      /* the segment that pos is in */
	u64 at_start; /* where that segment begins */
	u64 length;
	struct sennit_seg segs[];
};

/* One end of a copy: region or vec. */
struct sn_end {
	struct sn_region *region;
	struct sn_vec *vec;
	u64 offset;
};

/* main.c */
void sn_ctx_free(struct kref *ref);
static inline void sn_ctx_put(struct sn_ctx *ctx)
{
	kref_put(&ctx->ref, sn_ctx_free);
}

/* handle.c */
void sn_handle_init(struct sn_handle *h, enum sn_handle_kind kind, const struct cred *cred);
u64 sn_handle_publish(struct sn_handle *h);
void sn_handle_withdraw(struct sn_handle *h);
struct sn_handle *sn_handle_find(u64 value, enum sn_handle_kind kind);

/* region.c */
struct sn_vec *sn_vec_get(u64 segs, u32 n);
struct sn_region *sn_region_new(struct sn_ctx *ctx, const struct sn_vec *vec, u32 access);
void sn_region_kill(struct sn_region *r);
void sn_region_free(struct kref *ref);
struct sn_region *sn_region_by_id(struct sn_ctx *ctx, u32 id);
struct sn_region *sn_region_by_handle(u64 value);
struct sn_seg *sn_region_seg(struct sn_region *r, u64 offset);
void sn_region_ahead(struct sn_region *r, u64 offset, u64 len);
int sn_region_declare(struct sn_ctx *ctx, void *arg);
int sn_region_undeclare(struct sn_ctx *ctx, void *arg);
int sn_region_prepare(struct sn_ctx *ctx, void *arg);
void sn_region_close_all(struct sn_ctx *ctx);
static inline void sn_region_put(struct sn_region *r)
{
	kref_put(&r->handle.ref, sn_region_free);
}

/* pin.c */
extern const struct mmu_interval_notifier_ops sn_pin_notifier_ops;
struct sn_pinset *sn_pin_get(struct sn_seg *seg, unsigned long page, bool write, bool ahead);
void sn_pin_put(struct sn_pinset *ps);
struct sn_pinset *sn_pin_try(struct sn_seg *seg, unsigned long page);
bool sn_pin_queue_ahead(struct work_struct *work);
void sn_pin_drop_all(struct sn_seg *seg);
u64 sn_pin_total(void);
u64 sn_pin_limit(void);
int sn_pin_init(void);
void sn_pin_exit(void);

/* copy.c */
struct sn_span {
	struct sn_pinset *ps;
	unsigned long page; /* of the pin set */
	unsigned int offset;
	u64 len;
};
int sn_span_get(struct sn_end *end, u64 at, u64 len, bool write, struct sn_span *span);
bool sn_span_try(struct sn_end *end, u64 at, u64 len, struct sn_span *span);
bool sn_span_put(struct sn_span *span);
void sn_span_advance(struct sn_span *span, unsigned int n);
void sn_copy_page(struct page *dst, unsigned int to, struct page *src, unsigned int from, unsigned int n);
int sn_copy(struct sn_ctx *ctx, struct sn_end *dst, struct sn_end *src, u64 len, u64 *copied);
int sn_copy_cpu(struct sn_end *dst, struct sn_end *src, u64 at, u64 len, u64 *copied);
int sn_copy_call(struct sn_ctx *ctx, void *arg);
int sn_end_open(struct sn_ctx *ctx, const struct sennit_end *from, u64 len, u32 access, struct sn_end *end);
void sn_end_close(struct sn_end *end);

/* share.c */
int sn_share_open(struct sn_ctx *ctx, void *arg);
int sn_share_run(struct sn_ctx *ctx, void *arg);
int sn_share_close(struct sn_ctx *ctx, void *arg);
void sn_share_close_all(struct sn_ctx *ctx);

/* match.c */
int sn_match_join(struct sn_ctx *ctx, void *arg);
int sn_match_send(struct sn_ctx *ctx, void *arg);
int sn_match_recv(struct sn_ctx *ctx, void *arg);
int sn_match_wait(struct sn_ctx *ctx, void *arg);
int sn_match_probe(struct sn_ctx *ctx, void *arg);
int sn_match_cancel(struct sn_ctx *ctx, void *arg);
void sn_match_leave(struct sn_ctx *ctx);

/* dma.c */
bool sn_dma_wants(struct sn_ctx *caller, struct sn_ctx *owner, u64 len);
int sn_dma_copy(struct sn_end *dst, struct sn_end *src, u64 len, bool warm, u64 *copied);
bool sn_dma_shares_cache(const struct sn_ctx *caller, const struct sn_ctx *owner);
void sn_dma_info(struct sennit_info *info);
void sn_dma_open(void);
void sn_dma_close(void);
void sn_dma_init(struct dentry *debugfs);
void sn_dma_exit(void);

/* net.c */
int sn_net_open(struct sn_ctx *ctx, void *arg);
int sn_net_close(struct sn_ctx *ctx, void *arg);
int sn_net_link(struct sn_ctx *ctx, void *arg);
int sn_net_unlink(struct sn_ctx *ctx, void *arg);
int sn_net_pull(struct sn_ctx *ctx, void *arg);
int sn_net_cancel(struct sn_ctx *ctx, void *arg);
int sn_net_port(struct sn_ctx *ctx, void *arg);
int sn_net_map(struct sn_ctx *ctx, struct vm_area_struct *vma);
void sn_net_close_all(struct sn_ctx *ctx);
int sn_net_init(void);
void sn_net_exit(void);

/*
 * Between two steps between which another thread may come: the module that tests/kmod/lab/wide.sh builds stays there
 * for so long that one does. A process only, and busy, since some of these places may not sleep.
 */
static inline void sn_linger(unsigned int ms)
{
#ifdef SN_WIDE
	if (in_task())
		mdelay(ms);
#endif
}

/* counters.c */
void sn_count(enum sennit_counter c, u64 n);
int sn_counters_call(struct sn_ctx *ctx, void *arg);
struct dentry *sn_counters_init(void);
void sn_counters_exit(void);

#endif
