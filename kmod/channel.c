// SPDX-License-Identifier: GPL-2.0
/*
 * DMA channels (any dmaengine channel that does DMA_MEMCPY: I/OAT, IDXD's kernel queues, others): taken while somebody has
 * the device open, calibrated, picked for messages, and given up. dma.c uses them for copies, netdma.c for what comes from
 * the network.
 *
 * The threshold is where offloading begins to pay: measured by timing each channel against the CPU; and where the two
 * processes share a cache, not below that cache's size, for there the CPU's copy is faster. A worker measures when
 * the module is loaded, so that nobody's open waits for it, and lets the channels go again, for a channel taken is a
 * channel that others do not get. What is not measured yet when it is taken (a driver that came later, a channel that
 * had failed) is measured then.
 *
 * A silent channel is stopped before its pages are let go, and is not used again; one that cannot be stopped keeps the
 * pages for ever. Submitting takes no lock of ours (drivers have theirs, and some sleep in it): whoever submits says so, and
 * who stops a channel first closes it and then waits until nobody is submitting.
 */
#include "sennit_dma.h"
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/device/driver.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#define SN_CHANNELS_MAX 16
#define SN_TEST_BYTES	(128u << 10)
#define SN_TEST_ORDER	get_order(SN_TEST_BYTES)
#define SN_TEST_ROUNDS	3	    /* the best counts: the others may have been interrupted, or cold */
#define SN_TEST_SECONDS 5	    /* a channel that is silent for longer does not copy */
#define SN_AWAY		(HZ / 10ul) /* who looks so much later than he meant to was away */

static bool dma = true;
module_param(dma, bool, 0644);
MODULE_PARM_DESC(dma, "hand large copies to DMA channels where the machine has any (default: yes)");
static unsigned int dma_channels = 4;
module_param(dma_channels, uint, 0644);
MODULE_PARM_DESC(dma_channels, "channels to take while the device is open, at most 16 (default: 4)");
static unsigned long dma_threshold;
module_param(dma_threshold, ulong, 0644);
MODULE_PARM_DESC(dma_threshold, "bytes from which a copy is offloaded (default 0: as calibrated)");
static bool dma_sleeps;
module_param(dma_sleeps, bool, 0644);
MODULE_PARM_DESC(dma_sleeps,
		 "the channels' driver sleeps: network fragments are submitted by a worker (IDXD: always)");
static unsigned int dma_timeout_ms = 2000;
module_param(dma_timeout_ms, uint, 0644);
MODULE_PARM_DESC(dma_timeout_ms, "a channel that is silent for longer is given up (default: 2000 ms)");

static DEFINE_MUTEX(sn_channels_lock);
static struct sn_channel sn_channels[SN_CHANNELS_MAX];
static unsigned int sn_n_channels; /* grows from 0 once, while files are open */
static unsigned int sn_opens;
static u64 sn_threshold = U64_MAX;

/* What was measured of a channel, until the module goes or the channel fails. Under sn_channels_lock. */
#define SN_CHANNEL_NAME 64

struct sn_calibration {
	char name[SN_CHANNEL_NAME]; /* of device and channel; empty: nothing is known here */
	u64 threshold, ns_per_block;
};

static struct sn_calibration sn_calibrations[SN_CHANNELS_MAX];

bool sn_dma_shares_cache(const struct sn_ctx *caller, const struct sn_ctx *owner)
{
	return sn_caches_shared(READ_ONCE(caller->cpu), READ_ONCE(owner->cpu));
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
		threshold = max(threshold, sn_cache_bytes(READ_ONCE(to->cpu)));
	return len >= threshold;
}

/* For what comes from the network: nobody has it in a cache yet. */
bool sn_channel_wants(u64 len)
{
	u64 threshold = READ_ONCE(dma_threshold);

	return READ_ONCE(dma) && smp_load_acquire(&sn_n_channels) &&
	       len >= (threshold ? threshold : READ_ONCE(sn_threshold));
}

void sn_dma_info(struct sennit_info *info)
{
	u64 threshold = READ_ONCE(dma_threshold);

	info->dma_channels = READ_ONCE(dma) ? smp_load_acquire(&sn_n_channels) : 0;
	info->dma_threshold = threshold ? threshold : READ_ONCE(sn_threshold);
}

/*
 * Waits for one copy. dma_sync_wait() would never let go of its CPU, which on a kernel that preempts nobody keeps from
 * running whoever works for the channel there (a thread that was woken on this CPU, an interrupt's thread).
 */
static bool sn_channel_waited(struct dma_chan *chan, dma_cookie_t cookie)
{
	unsigned long waited = 0, looked = jiffies;

	dma_async_issue_pending(chan);
	for (;;) {
		enum dma_status status = dma_async_is_tx_complete(chan, cookie, NULL, NULL);
		unsigned long now = jiffies;

		if (status != DMA_IN_PROGRESS || waited > SN_TEST_SECONDS * HZ)
			return status == DMA_COMPLETE;
		waited += min(now - looked, SN_AWAY); /* as a silence is counted */
		looked = now;
		cond_resched();
		cpu_relax();
	}
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
			if (sn_channel_waited(chan, cookie))
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

/* The shortest of some times; 0: it failed once. */
static u64 sn_channel_best(struct dma_chan *chan, struct page *dst, struct page *src, unsigned int len)
{
	u64 best = U64_MAX;
	int i;

	for (i = 0; i < SN_TEST_ROUNDS && best; i++)
		best = min(best, sn_channel_time(chan, dst, src, len));
	return best;
}

static u64 sn_cpu_best(void *dst, const void *src, unsigned int len)
{
	u64 best = U64_MAX;
	int i;

	for (i = 0; i < SN_TEST_ROUNDS; i++) {
		ktime_t start = ktime_get();

		memcpy(dst, src, len);
		best = min_t(u64, best, ktime_to_ns(ktime_sub(ktime_get(), start)) + 1);
	}
	return best;
}

/*
 * Times a channel against the CPU. Its own time for a large copy less that for a page is its rate, the rest its cost of
 * starting. False: it does not copy right.
 */
static bool sn_channel_calibrate(struct dma_chan *chan, struct sn_calibration *result)
{
	struct page *src = alloc_pages(GFP_KERNEL | __GFP_ZERO, SN_TEST_ORDER);
	struct page *dst = alloc_pages(GFP_KERNEL | __GFP_ZERO, SN_TEST_ORDER);
	u64 small, large, cpu, per;
	bool good = false;

	if (!src || !dst)
		goto out;
	memset(page_address(src), 0x5a, SN_TEST_BYTES);
	small = sn_channel_best(chan, dst, src, PAGE_SIZE);
	large = small ? sn_channel_best(chan, dst, src, SN_TEST_BYTES) : 0;
	if (!large)
		return false; /* it may write there yet: the pages are given up with it */
	good = !memcmp(page_address(dst), page_address(src), SN_TEST_BYTES);
	if (!good)
		goto out;
	cpu = sn_cpu_best(page_address(dst), page_address(src), SN_TEST_BYTES);
	per = large > small ? large - small : 1;
	result->ns_per_block = per * (SN_BLOCK_BYTES / SN_TEST_BYTES) + small;
	/* The CPU's time for this many bytes is twice the cost of starting; no less than a block, to be worth a sleep. */
	result->threshold = max_t(u64, SN_BLOCK_BYTES, div64_u64(2 * small * SN_TEST_BYTES, cpu));
out:
	if (src)
		__free_pages(src, SN_TEST_ORDER);
	if (dst)
		__free_pages(dst, SN_TEST_ORDER);
	return good;
}

static struct sn_calibration *sn_calibration_named(const char *name)
{
	unsigned int i;

	for (i = 0; i < SN_CHANNELS_MAX; i++)
		if (!strcmp(sn_calibrations[i].name, name))
			return &sn_calibrations[i];
	return NULL;
}

/* What is known of a channel, or NULL; and the name under which it stands or would stand. */
static struct sn_calibration *sn_calibration_find(struct dma_chan *chan, char name[SN_CHANNEL_NAME])
{
	snprintf(name, SN_CHANNEL_NAME, "%s %s", dev_name(chan->device->dev), dma_chan_name(chan));
	return sn_calibration_named(name);
}

/* The same, measured now if it was not before; NULL: it does not copy. */
static const struct sn_calibration *sn_channel_known(struct dma_chan *chan)
{
	char name[SN_CHANNEL_NAME];
	struct sn_calibration *k = sn_calibration_find(chan, name);

	if (k)
		return k;
	k = sn_calibration_named("");
	if (!k) /* of channels that are there no more, most likely */
		k = &sn_calibrations[0];
	k->name[0] = 0;
	if (!sn_channel_calibrate(chan, k))
		return NULL;
	strscpy(k->name, name, sizeof(k->name));
	return k;
}

static void sn_channel_forget(struct dma_chan *chan)
{
	char name[SN_CHANNEL_NAME];
	struct sn_calibration *k = sn_calibration_find(chan, name);

	if (k)
		k->name[0] = 0;
}

/* IDXD's prepares wait, asleep, for a free descriptor. */
static bool sn_channel_is_sleepy(const struct sn_channel *c)
{
	const struct device_driver *driver = c->chan->device->dev->driver;

	return driver && !strcmp(driver->name, "idxd");
}

/* Must a worker submit? dma_sleeps=1 has every driver treated like IDXD's, from the next fragment on. */
bool sn_channel_may_sleep(const struct sn_channel *c)
{
	return c->sleeps || READ_ONCE(dma_sleeps);
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
		const struct sn_calibration *known;

		c->chan = dma_request_chan_by_mask(&mask);
		if (IS_ERR_OR_NULL(c->chan))
			break;
		known = sn_channel_known(c->chan);
		if (!known) {
			pr_warn("sennit: DMA channel %s does not copy; not used\n", dma_chan_name(c->chan));
			dma_release_channel(c->chan);
			break;
		}
		mutex_init(&c->stop);
		c->closed = c->quiet = false;
		c->sleeps = sn_channel_is_sleepy(c);
		c->heard = jiffies;
		atomic_set(&c->users, 0);
		atomic_set(&c->submitting, 0);
		sn_netdma_init(c);
		c->ns_per_block = known->ns_per_block;
		threshold = max(threshold, known->threshold);
		n++;
	}
	if (n) {
		sn_caches_look();
		WRITE_ONCE(sn_threshold, threshold);
		smp_store_release(&sn_n_channels, n);
	}
	mutex_unlock(&sn_channels_lock);
}

void sn_dma_close(void)
{
	mutex_lock(&sn_channels_lock);
	if (--sn_opens == 0) {
		/* No file, so no copy and no fragment: what may be left is the end of a callback. */
		while (sn_n_channels) {
			struct sn_channel *c = &sn_channels[--sn_n_channels];

			cancel_delayed_work_sync(&c->watch);
			if (c->closed)
				sn_channel_forget(c->chan);
			dma_release_channel(c->chan);
			sn_netdma_exit(c);
		}
		WRITE_ONCE(sn_threshold, U64_MAX);
	}
	mutex_unlock(&sn_channels_lock);
}

static void sn_calibrate_work(struct work_struct *unused)
{
	sn_dma_open();
	sn_dma_close();
}
static DECLARE_WORK(sn_calibrating, sn_calibrate_work);

static int sn_calibrations_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	mutex_lock(&sn_channels_lock);
	for (i = 0; i < SN_CHANNELS_MAX; i++)
		if (sn_calibrations[i].name[0])
			seq_printf(m, "%s threshold %llu ns_per_block %llu\n", sn_calibrations[i].name,
				   sn_calibrations[i].threshold, sn_calibrations[i].ns_per_block);
	mutex_unlock(&sn_channels_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sn_calibrations);

/* The module was loaded; its files go into this folder. */
void sn_dma_init(struct dentry *debugfs)
{
	debugfs_create_file("dma", 0444, debugfs, NULL, &sn_calibrations_fops);
	queue_work(system_unbound_wq, &sn_calibrating);
}

void sn_dma_exit(void)
{
	cancel_work_sync(&sn_calibrating);
}

/* The channel with the fewest users, with one more; NULL: none is usable. sn_channel_put() ends the use. */
struct sn_channel *sn_channel_pick(void)
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

void sn_silence_begin(struct sn_silence *s, const struct sn_channel *c)
{
	*s = (struct sn_silence){.looked = jiffies, .heard = READ_ONCE(c->heard)};
}

/* Nothing was heard for dma_timeout_ms, of no message that it works on. The last look was to be `due` jiffies ago. */
bool sn_channel_is_silent(const struct sn_channel *c, struct sn_silence *s, unsigned long due)
{
	unsigned long heard = READ_ONCE(c->heard), now = jiffies;

	if (heard != s->heard)
		s->lasts = 0;
	else
		s->lasts += min(now - s->looked, due + SN_AWAY);
	s->heard = heard;
	s->looked = now;
	return s->lasts > msecs_to_jiffies(READ_ONCE(dma_timeout_ms));
}

/* Gives up a channel that has been silent for too long. False: it does not stop. Sleeps. */
bool sn_channel_stop(struct sn_channel *c)
{
	mutex_lock(&c->stop);
	if (!c->closed) {
		WRITE_ONCE(c->closed, true);
		smp_mb(); /* sn_channel_enter: submitting is written before closed is read */
		while (atomic_read_acquire(&c->submitting))
			usleep_range(20, 100);
		WRITE_ONCE(c->quiet, !dmaengine_terminate_sync(c->chan));
		sn_count(SENNIT_C_DMA_TIMEOUTS, 1);
		pr_warn("sennit: DMA channel %s is silent; %s\n", dma_chan_name(c->chan),
			c->quiet ? "not used any more" : "it cannot be stopped, its pages stay pinned");
		sn_netdma_abort(c);
	}
	mutex_unlock(&c->stop);
	return c->quiet;
}
