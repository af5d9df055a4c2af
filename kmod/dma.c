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
 * What a channel does not do right (an error, no descriptors, a silence of dma_timeout_ms) the CPU copies again.
 *
 * Where the two processes share a cache, the CPU copies the head of the message, so that the receiver finds it there.
 */
#include "sennit_dma.h"
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#define SN_BLOCK_MAPS                                                                                        \
	(2 * SN_BLOCK_BYTES / PAGE_SIZE + 2) /* two pieces a page when the ends differ in offset */
#define SN_BLOCKS 4

unsigned int sn_dma_fragment = 1024;
module_param_named(dma_fragment, sn_dma_fragment, uint, 0644);
MODULE_PARM_DESC(dma_fragment,
		 "contiguous pieces shorter than this are copied by the CPU (default: 1024 bytes)");
unsigned int sn_dma_head = 65536;
module_param_named(dma_head, sn_dma_head, uint, 0644);
MODULE_PARM_DESC(dma_head,
		 "bytes at a message's head that the CPU copies, when both processes share a cache");

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

/*
 * Submits part i of a block. When there is no descriptor the engine is let run until one comes back: briefly for a block's
 * first part, which the CPU can do as well; for a later one as long as the channel is not silent.
 */
static bool sn_block_submit_part(struct sn_block *b, struct sn_channel *c, unsigned int i)
{
	bool ends = b->unordered || i + 1 == b->maps, good;
	unsigned long flags = DMA_CTRL_ACK | (ends ? DMA_PREP_INTERRUPT : 0);
	unsigned long since = jiffies;
	struct sn_dma_map *m = &b->map[i];
	struct dma_async_tx_descriptor *tx;
	struct sn_silence silence;

	sn_silence_begin(&silence, c);
	while (sn_channel_enter(c)) {
		tx = dmaengine_prep_dma_memcpy(c->chan, m->dst, m->src, m->len, flags);
		if (tx) {
			tx->callback_result = ends ? sn_block_end : sn_block_part;
			tx->callback_param = b;
			good = !dma_submit_error(dmaengine_submit(tx));
		}
		sn_channel_leave(c);
		if (tx)
			return good;
		if (i ? sn_channel_is_silent(c, &silence, 1) : time_after(jiffies, since + 1))
			return false;
		dma_async_issue_pending(c->chan);
		usleep_range(50, 200);
	}
	return false;
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

/* False: the engine cannot do it. */
static bool sn_block_map_all(struct sn_block *b, struct sn_channel *c)
{
	struct dma_chan *chan = c->chan;
	struct device *dev = chan->device->dev;
	struct sn_span dst = b->dst, src = b->src;
	unsigned int engine = 1u << chan->device->copy_align;
	unsigned int cache = sn_channel_line(c);
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
	if (b->len < READ_ONCE(sn_dma_fragment) || !sn_block_map_all(b, c))
		return;
	b->unordered = dma_has_cap(DMA_COMPLETION_NO_ORDER, c->chan->device->cap_mask);
	b->left = b->unordered ? b->maps : 1;
	for (i = 0; i < b->maps && sn_block_submit_part(b, c, i); i++) {
		b->submitted = true;
		b->complete = i + 1 == b->maps;
	}
	if (sn_channel_enter(c)) {
		dma_async_issue_pending(c->chan);
		sn_channel_leave(c);
	}
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
	s64 expected =
		READ_ONCE(c->ns_per_block) * b->len / SN_BLOCK_BYTES - ktime_to_ns(ktime_sub(now, begin));
	u64 nap = clamp_t(s64, expected, 10 * NSEC_PER_USEC, NSEC_PER_SEC), last = 0;
	struct sn_silence silence;

	if (!b->submitted)
		return false;
	sn_silence_begin(&silence, c);
	while (!b->complete || !sn_block_is_done(b)) {
		if (READ_ONCE(c->quiet))
			return false;
		/* A channel that gave no descriptor for the rest of a block it had begun is as good as silent. */
		if (!b->complete || sn_channel_is_silent(c, &silence, nsecs_to_jiffies(last) + 1)) {
			copy->leaked = !sn_channel_stop(c);
			return false;
		}
		sn_count(SENNIT_C_DMA_SLEEPS, 1);
		wait_event_hrtimeout(copy->wait, READ_ONCE(b->left) == 0, ns_to_ktime(nap));
		last = nap;
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
	u64 head = warm ? min_t(u64, len, READ_ONCE(sn_dma_head)) : 0;
	struct sn_channel *channel = sn_channel_pick();
	struct sn_dma_copy *copy;
	int err;

	copy = channel ? kvzalloc(sizeof(*copy), GFP_KERNEL) : NULL;
	if (!copy) {
		if (channel)
			sn_channel_put(channel);
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
	sn_channel_put(channel);
	if (copy->leaked)
		__module_get(THIS_MODULE); /* for a callback that may come yet */
	else
		kvfree(copy);
	return err;
}
