// SPDX-License-Identifier: GPL-2.0
/*
 * Copies handed to a DMA engine (any dmaengine channel that does DMA_MEMCPY: I/OAT, IDXD's kernel queues, others), after
 * Goglin's work on I/OAT in Open-MX.
 *
 * A copy uses one channel, the one with the fewest users, so several messages spread over several channels. It is cut
 * into blocks of at most SN_BLOCK_BYTES, of which SN_BLOCKS are under way at most: their pages are pinned and mapped,
 * and both are undone as each block ends. The caller sleeps meanwhile, for as long as the block is expected to take at
 * the rate that the channel has shown, or until the engine's interrupt; it never polls without sleeping.
 *
 * What a channel does not do right (an error, no descriptors, a silence of dma_timeout_ms) the CPU copies again. A
 * silent channel is stopped before its pages are let go, and is not used again; one that cannot be stopped keeps the
 * pages for ever.
 *
 * The threshold is where offloading begins to pay: measured for each channel when it is taken, by timing it against the
 * CPU; and where the two processes share a cache, not below that cache's size, for there the CPU's copy is faster. In
 * that case, too, the CPU copies the head of the message, so that the receiver finds it in the cache.
 */
#include "sennit_kmod.h"
#include <linux/delay.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/topology.h>
#ifdef CONFIG_X86
#include <asm/processor.h>
#endif

#define SN_CHANNELS_MAX 16
#define SN_BLOCK_BYTES	(256u << 10)
#define SN_BLOCK_MAPS                                                                                        \
	(2 * SN_BLOCK_BYTES / PAGE_SIZE + 2) /* two pieces a page when the ends differ in offset */
#define SN_BLOCKS     4
#define SN_TEST_BYTES (128u << 10)
#define SN_TEST_ORDER get_order(SN_TEST_BYTES)

static bool dma = true;
module_param(dma, bool, 0644);
MODULE_PARM_DESC(dma, "hand large copies to DMA channels where the machine has any (default: yes)");
static unsigned int dma_channels = 4;
module_param(dma_channels, uint, 0644);
MODULE_PARM_DESC(dma_channels, "channels to take while the device is open, at most 16 (default: 4)");
static unsigned long dma_threshold;
module_param(dma_threshold, ulong, 0644);
MODULE_PARM_DESC(dma_threshold, "bytes from which a copy is offloaded (default 0: as calibrated)");
static unsigned int dma_fragment = 1024;
module_param(dma_fragment, uint, 0644);
MODULE_PARM_DESC(dma_fragment,
		 "contiguous pieces shorter than this are copied by the CPU (default: 1024 bytes)");
static unsigned int dma_head = 65536;
module_param(dma_head, uint, 0644);
MODULE_PARM_DESC(dma_head,
		 "bytes at a message's head that the CPU copies, when both processes share a cache");
static unsigned int dma_timeout_ms = 2000;
module_param(dma_timeout_ms, uint, 0644);
MODULE_PARM_DESC(dma_timeout_ms, "a channel that is silent for longer is given up (default: 2000 ms)");

struct sn_channel {
	struct dma_chan *chan;
	struct mutex lock; /* submitting, and giving up */
	bool closed;	   /* nothing is submitted any more */
	bool quiet;	   /* closed, and the engine has stopped: what was submitted will not run */
	atomic_t users;
	unsigned long heard; /* when it last called back, in jiffies */
	u64 ns_per_block; /* what a full block takes, smoothed; written without a lock, any value is good */
};

struct sn_dma_map {
	dma_addr_t dst, src;
	unsigned int len;
};

struct sn_dma_copy;

struct sn_block {
	struct sn_dma_copy *copy;
	struct sn_span dst, src; /* hold the pages */
	u64 at, len;
	unsigned int maps;
	bool submitted;	   /* something of it is with the engine */
	bool complete;	   /* all of it was submitted */
	bool unordered;	   /* the channel's parts end in any order, so each one counts */
	unsigned int left; /* callbacks that end it; under copy->wait.lock, as failed is */
	bool failed;
	ktime_t start;
	struct sn_dma_map map[SN_BLOCK_MAPS];
};

struct sn_dma_copy {
	struct sn_channel *channel;
	struct sn_end *dst, *src;
	wait_queue_head_t wait;
	ktime_t last_done;
	bool leaked;
	unsigned int head, count; /* the ring of blocks under way */
	struct sn_block blocks[SN_BLOCKS];
};

static DEFINE_MUTEX(sn_channels_lock);
static struct sn_channel sn_channels[SN_CHANNELS_MAX];
static unsigned int sn_n_channels; /* grows from 0 once, while files are open */
static unsigned int sn_opens;
static u64 sn_threshold = U64_MAX;

static u64 sn_cache_bytes(void)
{
#ifdef CONFIG_X86
	return (u64)boot_cpu_data.x86_cache_size << 10;
#else
	return 2 << 20;
#endif
}

bool sn_dma_shares_cache(const struct sn_ctx *caller, const struct sn_ctx *owner)
{
	int a = READ_ONCE(caller->cpu), b = READ_ONCE(owner->cpu);

	return topology_physical_package_id(a) == topology_physical_package_id(b);
}

bool sn_dma_wants(struct sn_ctx *from, struct sn_ctx *to, u64 len)
{
	u64 threshold = READ_ONCE(dma_threshold);

	if (!READ_ONCE(dma) || !smp_load_acquire(&sn_n_channels))
		return false;
	if (threshold)
		return len >= threshold;
	threshold = READ_ONCE(sn_threshold);
	if (sn_dma_shares_cache(from, to))
		threshold = max(threshold, sn_cache_bytes());
	return len >= threshold;
}

void sn_dma_info(struct sennit_info *info)
{
	u64 threshold = READ_ONCE(dma_threshold);

	info->dma_channels = READ_ONCE(dma) ? smp_load_acquire(&sn_n_channels) : 0;
	info->dma_threshold = threshold ? threshold : READ_ONCE(sn_threshold);
}

/* Nanoseconds that a channel takes for one copy of len bytes; 0 when it fails. */
static u64 sn_channel_time(struct dma_chan *chan, struct page *dst, struct page *src, unsigned int len)
{
	struct device *dev = chan->device->dev;
	dma_addr_t from = dma_map_page(dev, src, 0, len, DMA_TO_DEVICE);
	dma_addr_t to = dma_map_page(dev, dst, 0, len, DMA_FROM_DEVICE);
	struct dma_async_tx_descriptor *tx = NULL;
	ktime_t start = ktime_get();
	dma_cookie_t cookie;
	u64 ns = 0;

	if (!dma_mapping_error(dev, from) && !dma_mapping_error(dev, to))
		tx = dmaengine_prep_dma_memcpy(chan, to, from, len, DMA_CTRL_ACK | DMA_PREP_INTERRUPT);
	if (tx) {
		cookie = dmaengine_submit(tx);
		if (!dma_submit_error(cookie)) {
			if (dma_sync_wait(chan, cookie) == DMA_COMPLETE)
				ns = ktime_to_ns(ktime_sub(ktime_get(), start)) + 1;
			else
				dmaengine_terminate_sync(chan);
		}
	}
	if (!dma_mapping_error(dev, from))
		dma_unmap_page(dev, from, len, DMA_TO_DEVICE);
	if (!dma_mapping_error(dev, to))
		dma_unmap_page(dev, to, len, DMA_FROM_DEVICE);
	return ns;
}

/*
 * Times a channel against the CPU. Its own time for a large copy less that for a page is its rate, the rest its cost of
 * starting. Returns the length from which to use it, or 0: it does not copy right.
 */
static u64 sn_channel_calibrate(struct sn_channel *c)
{
	struct page *src = alloc_pages(GFP_KERNEL | __GFP_ZERO, SN_TEST_ORDER);
	struct page *dst = alloc_pages(GFP_KERNEL | __GFP_ZERO, SN_TEST_ORDER);
	u64 small, large, cpu, per, threshold = 0;
	ktime_t start;

	if (!src || !dst)
		goto out;
	memset(page_address(src), 0x5a, SN_TEST_BYTES);
	small = sn_channel_time(c->chan, dst, src, PAGE_SIZE);
	large = small ? sn_channel_time(c->chan, dst, src, SN_TEST_BYTES) : 0;
	if (!large)
		return 0; /* it may write there yet: the pages are given up with it */
	if (memcmp(page_address(dst), page_address(src), SN_TEST_BYTES))
		goto out;
	start = ktime_get();
	memcpy(page_address(dst), page_address(src), SN_TEST_BYTES);
	cpu = ktime_to_ns(ktime_sub(ktime_get(), start)) + 1;
	per = large > small ? large - small : 1;
	c->ns_per_block = per * (SN_BLOCK_BYTES / SN_TEST_BYTES) + small;
	/* The CPU's time for this many bytes is twice the cost of starting; no less than a block, to be worth a sleep. */
	threshold = max_t(u64, SN_BLOCK_BYTES, div64_u64(2 * small * SN_TEST_BYTES, cpu));
out:
	if (src)
		__free_pages(src, SN_TEST_ORDER);
	if (dst)
		__free_pages(dst, SN_TEST_ORDER);
	return threshold;
}

/* Channels are held while anybody has the device open, and looked for again at every open until there are some. */
void sn_dma_open(void)
{
	unsigned int n = 0, want = min_t(unsigned int, READ_ONCE(dma_channels), SN_CHANNELS_MAX);
	u64 threshold = 0;
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	mutex_lock(&sn_channels_lock);
	sn_opens++;
	while (READ_ONCE(dma) && !sn_n_channels && n < want) {
		struct sn_channel *c = &sn_channels[n];
		u64 own;

		c->chan = dma_request_chan_by_mask(&mask);
		if (IS_ERR_OR_NULL(c->chan))
			break;
		own = sn_channel_calibrate(c);
		if (!own) {
			pr_warn("sennit: DMA channel %s does not copy; not used\n", dma_chan_name(c->chan));
			dma_release_channel(c->chan);
			break;
		}
		mutex_init(&c->lock);
		c->closed = c->quiet = false;
		c->heard = jiffies;
		atomic_set(&c->users, 0);
		threshold = max(threshold, own);
		n++;
	}
	if (n) {
		WRITE_ONCE(sn_threshold, threshold);
		smp_store_release(&sn_n_channels, n);
	}
	mutex_unlock(&sn_channels_lock);
}

void sn_dma_close(void)
{
	mutex_lock(&sn_channels_lock);
	if (--sn_opens == 0) {
		while (sn_n_channels)
			dma_release_channel(sn_channels[--sn_n_channels].chan);
		WRITE_ONCE(sn_threshold, U64_MAX);
	}
	mutex_unlock(&sn_channels_lock);
}

static struct sn_channel *sn_channel_pick(void)
{
	unsigned int i, n = smp_load_acquire(&sn_n_channels);
	struct sn_channel *best = NULL;

	for (i = 0; i < n; i++) {
		struct sn_channel *c = &sn_channels[i];

		if (!READ_ONCE(c->closed) && (!best || atomic_read(&c->users) < atomic_read(&best->users)))
			best = c;
	}
	if (best)
		atomic_inc(&best->users);
	return best;
}

static void sn_block_report(struct sn_block *b, const struct dmaengine_result *result, bool counts)
{
	struct sn_dma_copy *copy = b->copy;
	unsigned long flags;

	WRITE_ONCE(copy->channel->heard, jiffies);
	spin_lock_irqsave(&copy->wait.lock, flags);
	if (result && result->result != DMA_TRANS_NOERROR)
		b->failed = true;
	if (counts && --b->left == 0)
		wake_up_locked(&copy->wait);
	spin_unlock_irqrestore(&copy->wait.lock, flags); /* the last touch: see sn_block_is_done */
}

/* Of a part whose end ends the block. */
static void sn_block_end(void *param, const struct dmaengine_result *result)
{
	sn_block_report(param, result, true);
}

/* Of a part that others follow, on a channel that goes in order: only its failure is news. */
static void sn_block_part(void *param, const struct dmaengine_result *result)
{
	sn_block_report(param, result, false);
}

/* Once this is true the callbacks have left the copy alone, and it may be freed. */
static bool sn_block_is_done(struct sn_block *b)
{
	bool done;

	spin_lock_irq(&b->copy->wait.lock);
	done = b->left == 0;
	spin_unlock_irq(&b->copy->wait.lock);
	return done;
}

/* Nothing was heard of it for dma_timeout_ms, counted from `since` at the earliest: of no message that it works on. */
static bool sn_channel_is_silent(struct sn_channel *c, unsigned long since)
{
	unsigned long heard = READ_ONCE(c->heard);

	return time_after(jiffies, (time_after(heard, since) ? heard : since) +
					   msecs_to_jiffies(READ_ONCE(dma_timeout_ms)));
}

/*
 * The descriptor for part i of a block. When there is none the engine is let run until one comes back: briefly for a
 * block's first part, which the CPU can do as well; for a later one as long as the channel is not silent.
 */
static struct dma_async_tx_descriptor *sn_block_prepare(struct sn_block *b, struct sn_channel *c,
							unsigned int i)
{
	bool ends = b->unordered || i + 1 == b->maps;
	unsigned long flags = DMA_CTRL_ACK | (ends ? DMA_PREP_INTERRUPT : 0);
	unsigned long since = jiffies;
	struct sn_dma_map *m = &b->map[i];
	struct dma_async_tx_descriptor *tx;

	for (;;) {
		tx = dmaengine_prep_dma_memcpy(c->chan, m->dst, m->src, m->len, flags);
		if (tx || (i ? sn_channel_is_silent(c, since) : time_after(jiffies, since + 1)))
			break;
		dma_async_issue_pending(c->chan);
		usleep_range(50, 200);
	}
	if (tx) {
		tx->callback_result = ends ? sn_block_end : sn_block_part;
		tx->callback_param = b;
	}
	return tx;
}

/* Maps the block's next piece; false when that cannot be done. */
static bool sn_block_map(struct sn_block *b, struct device *dev, struct sn_span *dst, struct sn_span *src,
			 unsigned int len)
{
	struct sn_dma_map *m = &b->map[b->maps];

	m->len = len;
	m->src = dma_map_page(dev, src->ps->pages[src->page], src->offset, len, DMA_TO_DEVICE);
	if (dma_mapping_error(dev, m->src))
		return false;
	m->dst = dma_map_page(dev, dst->ps->pages[dst->page], dst->offset, len, DMA_FROM_DEVICE);
	if (dma_mapping_error(dev, m->dst)) {
		dma_unmap_page(dev, m->src, len, DMA_TO_DEVICE);
		return false;
	}
	b->maps++;
	return true;
}

/*
 * False: the engine cannot do it. Where the CPU's cache does not see the engine's writes, the engine must not write a part
 * of a cache line, for the process may be writing the rest of it.
 */
static bool sn_block_map_all(struct sn_block *b, struct dma_chan *chan)
{
	struct device *dev = chan->device->dev;
	struct sn_span dst = b->dst, src = b->src;
	unsigned int engine = 1u << chan->device->copy_align;
	unsigned int cache = dev_is_dma_coherent(dev) ? 1 : dma_get_cache_alignment();
	u64 left = b->len;

	while (left) {
		unsigned int n = min3(left, (u64)PAGE_SIZE - dst.offset, (u64)PAGE_SIZE - src.offset);

		if (!IS_ALIGNED(dst.offset | src.offset | n, engine) || !IS_ALIGNED(dst.offset | n, cache) ||
		    b->maps == SN_BLOCK_MAPS || !sn_block_map(b, dev, &dst, &src, n))
			return false;
		sn_span_advance(&dst, n);
		sn_span_advance(&src, n);
		left -= n;
	}
	return true;
}

static void sn_block_unmap(struct sn_block *b, struct device *dev)
{
	unsigned int i;

	for (i = 0; i < b->maps; i++) {
		dma_unmap_page(dev, b->map[i].src, b->map[i].len, DMA_TO_DEVICE);
		dma_unmap_page(dev, b->map[i].dst, b->map[i].len, DMA_FROM_DEVICE);
	}
}

/* Hands a block to the engine. What could not be handed over is left to the CPU, when the block's turn comes. */
static void sn_block_submit(struct sn_block *b, struct sn_channel *c)
{
	unsigned int i;

	b->start = ktime_get();
	if (b->len < READ_ONCE(dma_fragment) || !sn_block_map_all(b, c->chan))
		return;
	b->unordered = dma_has_cap(DMA_COMPLETION_NO_ORDER, c->chan->device->cap_mask);
	b->left = b->unordered ? b->maps : 1;
	mutex_lock(&c->lock);
	for (i = 0; i < b->maps && !c->closed; i++) {
		struct dma_async_tx_descriptor *tx = sn_block_prepare(b, c, i);

		if (!tx || dma_submit_error(dmaengine_submit(tx)))
			break;
		b->submitted = true;
		b->complete = i + 1 == b->maps;
	}
	dma_async_issue_pending(c->chan);
	mutex_unlock(&c->lock);
	sn_count(SENNIT_C_DMA_BLOCKS, b->submitted);
}

/* Starts the next block at `at`; returns its length or an error. */
static s64 sn_block_start(struct sn_dma_copy *copy, u64 at, u64 len)
{
	struct sn_block *b = &copy->blocks[(copy->head + copy->count) % SN_BLOCKS];
	int err;

	err = sn_span_get(copy->dst, at, len, true, &b->dst);
	if (err)
		return err;
	err = sn_span_get(copy->src, at, len, false, &b->src);
	if (err) {
		sn_span_put(&b->dst);
		return err;
	}
	b->copy = copy;
	b->at = at;
	b->len = min3(b->dst.len, b->src.len, (u64)SN_BLOCK_BYTES);
	b->maps = 0;
	b->submitted = b->complete = b->failed = false;
	copy->count++;
	sn_block_submit(b, copy->channel);
	return b->len;
}

/* Gives up a channel that has been silent for too long. False: it does not stop. */
static bool sn_channel_stop(struct sn_channel *c)
{
	mutex_lock(&c->lock);
	if (!c->closed) {
		WRITE_ONCE(c->closed, true);
		WRITE_ONCE(c->quiet, !dmaengine_terminate_sync(c->chan));
		sn_count(SENNIT_C_DMA_TIMEOUTS, 1);
		pr_warn("sennit: DMA channel %s is silent; %s\n", dma_chan_name(c->chan),
			c->quiet ? "not used any more" : "it cannot be stopped, its pages stay pinned");
	}
	mutex_unlock(&c->lock);
	return c->quiet;
}

/*
 * Sleeps until the engine has left the block alone: first for as long as it should take, then for shorter and shorter
 * naps, and never past the engine's interrupt. True: it copied it all, and without an error.
 */
static bool sn_block_wait(struct sn_block *b)
{
	struct sn_dma_copy *copy = b->copy;
	struct sn_channel *c = copy->channel;
	ktime_t now = ktime_get(),
		begin = ktime_after(copy->last_done, b->start) ? copy->last_done : b->start;
	unsigned long since = jiffies;
	s64 expected =
		READ_ONCE(c->ns_per_block) * b->len / SN_BLOCK_BYTES - ktime_to_ns(ktime_sub(now, begin));
	u64 nap = clamp_t(s64, expected, 10 * NSEC_PER_USEC, NSEC_PER_SEC);

	if (!b->submitted)
		return false;
	while (!b->complete || !sn_block_is_done(b)) {
		if (READ_ONCE(c->quiet))
			return false;
		/* A channel that gave no descriptor for the rest of a block it had begun is as good as silent. */
		if (!b->complete || sn_channel_is_silent(c, since)) {
			copy->leaked = !sn_channel_stop(c);
			return false;
		}
		sn_count(SENNIT_C_DMA_SLEEPS, 1);
		wait_event_hrtimeout(copy->wait, READ_ONCE(b->left) == 0, ns_to_ktime(nap));
		nap = clamp_t(u64, nap / 2, 20 * NSEC_PER_USEC, 10 * NSEC_PER_MSEC);
	}
	now = ktime_get();
	if (b->len == SN_BLOCK_BYTES)
		WRITE_ONCE(c->ns_per_block, (3 * c->ns_per_block + ktime_to_ns(ktime_sub(now, begin))) / 4);
	copy->last_done = now;
	return !b->failed;
}

/* Ends the oldest block under way: waits for it, lets its pages go, and has the CPU do what the engine did not. */
static int sn_block_finish(struct sn_dma_copy *copy, bool wanted, u64 *copied)
{
	struct sn_block *b = &copy->blocks[copy->head];
	bool by_engine = sn_block_wait(b), good;

	copy->head = (copy->head + 1) % SN_BLOCKS;
	copy->count--;
	if (copy->leaked)
		return -EIO; /* the engine may write there still: neither unmapped nor unpinned */
	sn_block_unmap(b, copy->channel->chan->device->dev);
	if (b->submitted && !by_engine)
		sn_count(SENNIT_C_DMA_ERRORS, 1);
	good = sn_span_put(&b->dst);
	good &= sn_span_put(&b->src);
	if (!wanted)
		return 0;
	if (!by_engine || !good)
		return sn_copy_cpu(copy->dst, copy->src, b->at, b->len, copied);
	*copied += b->len;
	sn_count(SENNIT_C_DMA_BYTES, b->len);
	return 0;
}

static int sn_dma_blocks(struct sn_dma_copy *copy, u64 at, u64 len, u64 *copied)
{
	int err = 0, start_err = 0, end_err;

	while (at < len && !err && !start_err) {
		s64 n = fatal_signal_pending(current) ? -EINTR : sn_block_start(copy, at, len - at);

		if (n < 0)
			start_err = n;
		else
			at += n;
		if (copy->count == SN_BLOCKS)
			err = sn_block_finish(copy, true, copied);
	}
	/* Blocks count as far as they are one piece from the start; those after a failure are only waited for. */
	while (copy->count) {
		end_err = sn_block_finish(copy, !err, copied);
		if (!err)
			err = end_err;
	}
	return err ? err : start_err;
}

/* Both ends are regions. warm: they share a cache. */
int sn_dma_copy(struct sn_end *dst, struct sn_end *src, u64 len, bool warm, u64 *copied)
{
	u64 head = warm ? min_t(u64, len, READ_ONCE(dma_head)) : 0;
	struct sn_channel *channel = sn_channel_pick();
	struct sn_dma_copy *copy;
	int err;

	copy = channel ? kvzalloc(sizeof(*copy), GFP_KERNEL) : NULL;
	if (!copy) {
		if (channel)
			atomic_dec(&channel->users);
		return sn_copy_cpu(dst, src, 0, len, copied);
	}
	copy->channel = channel;
	copy->dst = dst;
	copy->src = src;
	init_waitqueue_head(&copy->wait);
	err = sn_copy_cpu(dst, src, 0, head, copied);
	if (!err)
		err = sn_dma_blocks(copy, head, len, copied);
	sn_count(SENNIT_C_DMA_COPIES, 1);
	atomic_dec(&channel->users);
	if (copy->leaked)
		__module_get(THIS_MODULE); /* for a callback that may come yet */
	else
		kvfree(copy);
	return err;
}
