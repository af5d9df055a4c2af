// SPDX-License-Identifier: GPL-2.0
/*
 * Received fragments copied by a DMA channel, asynchronously. A fragment becomes a *piece*: it holds the frame, the pinned
 * pages and their mappings from the softirq that received it until the engine has called back; nobody waits for it. The
 * channel is its fetch's, so several messages spread over several channels, and each channel has at most dma_pending
 * pieces under way; what comes beyond that, or has no channel, the CPU copies at once. So it does with the head of a body,
 * where the receiving CPU shares a cache with the owner's, and with fragments cut too small for an engine.
 *
 * Callbacks come in any context, some from inside the submission, with the driver's locks held: they only move the piece to
 * its channel's list of the landed and schedule a tasklet, which lets go of what the piece held, has the CPU copy what
 * the engine failed (from the frame, which is still there), and tells the fetch. A watch, as long as anything is under
 * way, looks whether the channel has fallen silent: then it is stopped and its pieces land as failed.
 *
 * Budget of a piece: one allocation; a mapping, a descriptor and a callback for each contiguous run; no lock held while the
 * engine works.
 */
#include "sennit_dma.h"
#include "sennit_net.h"
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/slab.h>

#define SN_PIECE_SPANS 4 /* a fragment that lies in more pin sets is the CPU's */
#define SN_WATCH_MS    20

static unsigned int dma_pending = 64;
module_param(dma_pending, uint, 0644);
MODULE_PARM_DESC(dma_pending, "network fragments under way on a channel, at most (default: 64; 0: none)");

/* Bytes that are contiguous on both sides. */
struct sn_run {
	struct page *src, *dst;
	unsigned int src_at, dst_at, len;
	dma_addr_t from, to;
	bool mapped; /* else the CPU has copied it */
};

struct sn_piece {
	struct list_head node; /* one of the channel's */
	struct sn_channel *channel;
	struct sn_pull *pull; /* counted */
	struct sn_pull_block *block;
	struct sk_buff *skb;
	u64 offset;
	u32 len;
	unsigned int index; /* in its block */
	atomic_t left;	    /* callbacks to come, and one for who submits */
	bool failed;
	bool gone; /* the channel cannot be stopped: what it has it keeps */
	unsigned int n_spans, n_runs, most;
	unsigned int by_engine, engine_runs; /* bytes, and the runs that they are */
	struct sn_span spans[SN_PIECE_SPANS];
	struct sn_run runs[];
};

/* ---- what lies where ---- */

/* Where byte `at` of a frame is; how many are contiguous there, 0: not in plain pages. */
static unsigned int sn_skb_at(const struct sk_buff *skb, unsigned int at, struct page **page,
			      unsigned int *in)
{
	unsigned int head = skb_headlen(skb), i;

	if (at < head) {
		*page = virt_to_page(skb->data + at);
		*in = offset_in_page(skb->data + at);
		return min_t(unsigned int, head - at, PAGE_SIZE - *in);
	}
	at -= head;
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *f = &skb_shinfo(skb)->frags[i];

		if (at < skb_frag_size(f)) {
			if (!skb_frag_page(f)) /* a device's memory */
				return 0;
			*page = skb_frag_page(f) + ((skb_frag_off(f) + at) >> PAGE_SHIFT);
			*in = offset_in_page(skb_frag_off(f) + at);
			return min_t(unsigned int, skb_frag_size(f) - at, PAGE_SIZE - *in);
		}
		at -= skb_frag_size(f);
	}
	return 0;
}

static bool sn_piece_add(struct sn_piece *d, struct page *src, unsigned int src_at, const struct sn_span *dst,
			 unsigned int dst_in, unsigned int len)
{
	if (d->n_runs == d->most)
		return false;
	d->runs[d->n_runs++] = (struct sn_run){.src = src,
					       .dst = dst->ps->pages[dst->page],
					       .src_at = src_at,
					       .dst_at = dst->offset + dst_in,
					       .len = len};
	return true;
}

/*
 * A contiguous run: one part for the engine, and before and after it, for the CPU, what fills no whole line of a cache.
 * The line's rest is another fragment's: mappings may not share one, and where the cache does not see the engine's writes
 * one would undo the other's. All the CPU's where the engine wants both sides aligned and they are not.
 */
static bool sn_piece_run(struct sn_piece *d, struct page *src, unsigned int src_at, const struct sn_span *dst,
			 unsigned int len)
{
	unsigned int engine = 1u << d->channel->chan->device->copy_align;
	unsigned int line = max3(engine, sn_channel_line(d->channel), (unsigned int)L1_CACHE_BYTES);
	unsigned int lead = min(len, ALIGN(dst->offset, line) - dst->offset);
	unsigned int body = ALIGN_DOWN(len - lead, line);

	if ((src_at ^ dst->offset) & (engine - 1)) {
		lead = len;
		body = 0;
	}
	if (lead && !sn_piece_add(d, src, src_at, dst, 0, lead))
		return false;
	if (body) {
		if (!sn_piece_add(d, src, src_at + lead, dst, lead, body))
			return false;
		d->runs[d->n_runs - 1].mapped = true; /* to be */
		d->by_engine += body;
		d->engine_runs++;
	}
	return len == lead + body ||
	       sn_piece_add(d, src, src_at + lead + body, dst, lead + body, len - lead - body);
}

static bool sn_piece_lay(struct sn_piece *d, unsigned int at)
{
	u64 offset = d->offset;
	u32 left = d->len;

	while (left) {
		struct sn_span *span = &d->spans[d->n_spans], here;

		if (d->n_spans == SN_PIECE_SPANS || !sn_span_try(&d->pull->end, offset, left, span))
			return false;
		d->n_spans++;
		here = *span;
		offset += span->len;
		left -= span->len;
		while (here.len) {
			struct page *src;
			unsigned int in, n = sn_skb_at(d->skb, at, &src, &in);

			n = min3((u64)n, here.len, (u64)PAGE_SIZE - here.offset);
			if (!n || !sn_piece_run(d, src, in, &here, n))
				return false;
			sn_span_advance(&here, n);
			here.len -= n;
			at += n;
		}
	}
	return true;
}

static void sn_run_copy(const struct sn_run *r)
{
	sn_copy_page(r->dst, r->dst_at, r->src, r->src_at, r->len);
}

static void sn_piece_unmap(struct sn_piece *d, unsigned int n)
{
	struct device *dev = d->channel->chan->device->dev;

	while (n--) {
		struct sn_run *r = &d->runs[n];

		if (!r->mapped)
			continue;
		dma_unmap_page(dev, r->from, r->len, DMA_TO_DEVICE);
		dma_unmap_page(dev, r->to, r->len, DMA_FROM_DEVICE);
	}
}

/* Maps what is the engine's and copies the rest. */
static bool sn_piece_map(struct sn_piece *d)
{
	struct device *dev = d->channel->chan->device->dev;
	unsigned int i;

	for (i = 0; i < d->n_runs; i++) {
		struct sn_run *r = &d->runs[i];

		if (!r->mapped) {
			sn_run_copy(r);
			continue;
		}
		r->from = dma_map_page(dev, r->src, r->src_at, r->len, DMA_TO_DEVICE);
		if (dma_mapping_error(dev, r->from))
			break;
		r->to = dma_map_page(dev, r->dst, r->dst_at, r->len, DMA_FROM_DEVICE);
		if (dma_mapping_error(dev, r->to)) {
			dma_unmap_page(dev, r->from, r->len, DMA_TO_DEVICE);
			break;
		}
	}
	if (i == d->n_runs)
		return true;
	sn_piece_unmap(d, i);
	return false;
}

/* ---- landing ---- */

/* The last callback, or who submitted, or who stopped the channel. */
static void sn_piece_land(struct sn_piece *d)
{
	struct sn_channel *c = d->channel;
	unsigned long flags;

	spin_lock_irqsave(&c->lock, flags);
	if (!d->gone) {
		list_move_tail(&d->node, &c->landed);
		tasklet_schedule(&c->landing); /* inside, so that the channel is there yet */
	}
	spin_unlock_irqrestore(&c->lock, flags);
}

static void sn_piece_callback(void *param, const struct dmaengine_result *result)
{
	struct sn_piece *d = param;

	WRITE_ONCE(d->channel->heard, jiffies);
	if (result && result->result != DMA_TRANS_NOERROR)
		WRITE_ONCE(d->failed, true);
	if (atomic_dec_and_test(&d->left))
		sn_piece_land(d);
}

static void sn_piece_free(struct sn_piece *d)
{
	consume_skb(d->skb);
	kref_put(&d->pull->ref, sn_pull_free);
	kfree(d);
}

/* Unmapped first: where mappings are bounced, that is when the bytes come. */
static void sn_piece_end(struct sn_piece *d)
{
	struct sn_pull *p = d->pull;
	struct sn_net *n = p->net;
	unsigned int i;
	bool good = true;

	if (d->gone) { /* its memory, its pages and its mappings stay, for the engine's sake, and the module with them */
		__module_get(THIS_MODULE);
		spin_lock(&n->lock);
		sn_pull_landed(p, d->block, d->index, d->len, -EIO);
		spin_unlock(&n->lock);
		return;
	}
	sn_piece_unmap(d, d->n_runs);
	spin_lock(&n->lock);
	if (!d->failed) {
		sn_count(SENNIT_C_NET_DMA_BYTES, d->by_engine);
	} else if (!p->over) {
		sn_count(SENNIT_C_DMA_ERRORS, 1);
		for (i = 0; i < d->n_runs; i++)
			sn_run_copy(&d->runs[i]);
	}
	for (i = 0; i < d->n_spans; i++)
		good &= sn_span_put(&d->spans[i]);
	sn_pull_landed(p, d->block, d->index, d->len, good ? 0 : -EAGAIN);
	spin_unlock(&n->lock);
	if (!skb_queue_empty_lockless(&n->out))
		sn_net_flush(n);
	sn_piece_free(d);
}

static void sn_channel_landing(struct tasklet_struct *t)
{
	struct sn_channel *c = from_tasklet(c, t, landing);
	struct sn_piece *d, *next;
	LIST_HEAD(landed);

	spin_lock_irq(&c->lock);
	list_splice_init(&c->landed, &landed);
	list_for_each_entry(d, &landed, node) c->pending--;
	spin_unlock_irq(&c->lock);
	list_for_each_entry_safe(d, next, &landed, node) sn_piece_end(d);
}

/* ---- taking off ---- */

/*
 * What cannot be submitted lands as failed. The channel is entered: who stops it finds nobody that touches a piece but the
 * engine.
 */
static void sn_piece_submit(struct sn_piece *d)
{
	struct sn_channel *c = d->channel;
	unsigned int i, left = d->engine_runs;
	bool good = true;

	for (i = 0; left && good; i++) {
		struct sn_run *r = &d->runs[i];
		struct dma_async_tx_descriptor *tx;
		dma_cookie_t cookie;

		if (!r->mapped)
			continue;
		left--;
		tx = dmaengine_prep_dma_memcpy(c->chan, r->to, r->from, r->len,
					       DMA_CTRL_ACK | (left ? 0 : DMA_PREP_INTERRUPT));
		good = tx != NULL;
		if (!good)
			break;
		tx->callback_result = sn_piece_callback;
		tx->callback_param = d;
		atomic_inc(&d->left);
		cookie = dmaengine_submit(tx);
		good = !dma_submit_error(cookie);
		if (good)
			WRITE_ONCE(c->last, cookie);
		else
			atomic_dec(&d->left);
	}
	if (!good)
		WRITE_ONCE(d->failed, true);
	dma_async_issue_pending(c->chan);
	if (atomic_dec_and_test(&d->left))
		sn_piece_land(d);
}

/* For drivers that sleep. */
static void sn_channel_submit_work(struct work_struct *work)
{
	struct sn_channel *c = container_of(work, struct sn_channel, submit);
	struct sn_piece *d;

	while (sn_channel_enter(c)) { /* else its pieces have landed */
		spin_lock_irq(&c->lock);
		d = list_first_entry_or_null(&c->queued, struct sn_piece, node);
		if (d)
			list_move_tail(&d->node, &c->flying);
		spin_unlock_irq(&c->lock);
		if (d)
			sn_piece_submit(d);
		sn_channel_leave(c);
		if (!d)
			return;
	}
}

static void sn_channel_watch_work(struct work_struct *work)
{
	struct sn_channel *c = container_of(work, struct sn_channel, watch.work);
	bool idle, silent;

	/* A driver that had no cause to interrupt looks at its engine now. */
	if (sn_channel_enter(c)) {
		dmaengine_tx_status(c->chan, READ_ONCE(c->last), NULL);
		sn_channel_leave(c);
	}
	spin_lock_irq(&c->lock);
	idle = !c->pending;
	silent = !idle && sn_channel_is_silent(c, &c->silence, msecs_to_jiffies(SN_WATCH_MS));
	spin_unlock_irq(&c->lock);
	if (idle)
		return;
	if (silent)
		sn_channel_stop(c);
	schedule_delayed_work(&c->watch, msecs_to_jiffies(SN_WATCH_MS));
}

/* The channel was stopped (or was not, when it could not be): its pieces land. Nobody submits. */
void sn_netdma_abort(struct sn_channel *c)
{
	struct sn_piece *d;

	spin_lock_irq(&c->lock);
	list_splice_tail_init(&c->queued, &c->flying);
	list_for_each_entry(d, &c->flying, node)
	{
		d->failed = true;
		d->gone = !c->quiet;
	}
	list_splice_tail_init(&c->flying, &c->landed);
	tasklet_schedule(&c->landing);
	spin_unlock_irq(&c->lock);
}

static bool sn_piece_board(struct sn_piece *d, bool sleeps)
{
	struct sn_channel *c = d->channel;
	unsigned long flags;
	bool room;

	spin_lock_irqsave(&c->lock, flags);
	room = c->pending < READ_ONCE(dma_pending);
	if (room) {
		if (!c->pending++) {
			sn_silence_begin(&c->silence, c);
			schedule_delayed_work(&c->watch, msecs_to_jiffies(SN_WATCH_MS));
		}
		list_add_tail(&d->node, sleeps ? &c->queued : &c->flying);
	}
	spin_unlock_irqrestore(&c->lock, flags);
	return room;
}

static bool sn_piece_is_heads(const struct sn_pull *p, u64 offset)
{
	return offset < p->start + READ_ONCE(sn_dma_head) &&
	       sn_caches_shared(raw_smp_processor_id(), READ_ONCE(p->net->ctx->cpu));
}

/* It is the engine's from here on, whatever comes of it. False: the channel has no room, or was stopped. */
static bool sn_piece_go(struct sn_piece *d)
{
	struct sn_channel *c = d->channel;
	bool room, sleeps = sn_channel_may_sleep(c);

	if (!sn_channel_enter(c))
		return false;
	room = sn_piece_board(d, sleeps);
	if (room) {
		skb_get(d->skb);
		kref_get(&d->pull->ref);
		sn_pull_flies(d->pull, d->block, d->index);
		if (sleeps)
			queue_work(system_highpri_wq, &c->submit);
		else
			sn_piece_submit(d);
	}
	sn_channel_leave(c);
	return room;
}

static struct sn_piece *sn_piece_new(struct sn_pull *p, struct sk_buff *skb, u64 offset, u32 len)
{
	/* Contiguous on both sides: so many at most, and each in up to three. */
	unsigned int most = 3 * (2 * (len / PAGE_SIZE + SN_PIECE_SPANS) + skb_shinfo(skb)->nr_frags);
	struct sn_piece *d;

	d = kzalloc(struct_size(d, runs, most), GFP_ATOMIC | __GFP_NOWARN);
	if (!d)
		return NULL;
	d->channel = p->channel;
	d->pull = p;
	d->skb = skb;
	d->offset = offset;
	d->len = len;
	d->most = most;
	atomic_set(&d->left, 1);
	return d;
}

/* Hands a fragment (of the frame, from `at` on) to the fetch's channel. False: the CPU is to copy it. */
bool sn_netdma_place(struct sn_pull *p, struct sn_pull_block *b, unsigned int index, struct sk_buff *skb,
		     unsigned int at, u64 offset, u32 len)
{
	struct sn_channel *c = p->channel;
	struct sn_piece *d;
	unsigned int i;

	if (!c || READ_ONCE(c->closed) || READ_ONCE(c->pending) >= READ_ONCE(dma_pending) ||
	    sn_piece_is_heads(p, offset))
		return false;
	d = sn_piece_new(p, skb, offset, len);
	if (!d)
		return false;
	d->block = b;
	d->index = index;
	if (sn_piece_lay(d, at) && d->engine_runs &&
	    d->by_engine / d->engine_runs >= READ_ONCE(sn_dma_fragment) && sn_piece_map(d)) {
		if (sn_piece_go(d))
			return true;
		sn_piece_unmap(d, d->n_runs);
	}
	for (i = 0; i < d->n_spans; i++)
		sn_span_put(&d->spans[i]);
	kfree(d);
	return false;
}

/* ---- channels ---- */

struct sn_channel *sn_netdma_channel(u64 len)
{
	return READ_ONCE(dma_pending) && sn_channel_wants(len) ? sn_channel_pick() : NULL;
}

void sn_netdma_unpick(struct sn_channel *c)
{
	if (c)
		sn_channel_put(c);
}

void sn_netdma_init(struct sn_channel *c)
{
	spin_lock_init(&c->lock);
	INIT_LIST_HEAD(&c->queued);
	INIT_LIST_HEAD(&c->flying);
	INIT_LIST_HEAD(&c->landed);
	c->pending = 0;
	tasklet_setup(&c->landing, sn_channel_landing);
	INIT_WORK(&c->submit, sn_channel_submit_work);
	INIT_DELAYED_WORK(&c->watch, sn_channel_watch_work);
}

/* The channel was released: no callback runs. */
void sn_netdma_exit(struct sn_channel *c)
{
	cancel_work_sync(&c->submit);
	tasklet_kill(&c->landing);
}
