// SPDX-License-Identifier: GPL-2.0
/*
 * A DMA engine for tests on machines that have none: a dmaengine provider whose channels are kernel threads, which copy
 * from and to the DMA addresses they are given, late, wrong or never as the parameters say. Never shipped.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/version.h>

#define DD_CHANNELS_MAX 8

static unsigned int channels = 2;
module_param(channels, uint, 0444);
static unsigned int delay_us;
module_param(delay_us, uint, 0644);
MODULE_PARM_DESC(delay_us, "each copy takes so much longer");
static unsigned int fail_every;
module_param(fail_every, uint, 0644);
MODULE_PARM_DESC(fail_every, "every n-th copy is not done and reported as failed");
static unsigned int lose_every;
module_param(lose_every, uint, 0644);
MODULE_PARM_DESC(lose_every, "at every n-th copy the channel falls silent");
static unsigned int starve_every;
module_param(starve_every, uint, 0644);
MODULE_PARM_DESC(starve_every, "every n-th request for a descriptor is refused");
static bool sleepy;
module_param(sleepy, bool, 0644);
MODULE_PARM_DESC(sleepy, "whoever asks for a descriptor sleeps first");
static bool unordered;
module_param(unordered, bool, 0444);
MODULE_PARM_DESC(unordered, "say that copies may end in any order");
static unsigned long bytes;
module_param(bytes, ulong, 0444);
static unsigned int busy_channels; /* bit mask of channels that ever copied */
module_param(busy_channels, uint, 0444);

struct dd_desc {
	struct dma_async_tx_descriptor tx;
	struct list_head list;
	dma_addr_t dst, src;
	size_t len;
};

struct dd_chan {
	struct dma_chan chan;
	unsigned int index;
	spinlock_t lock;
	struct list_head submitted, issued;
	struct task_struct *thread;
	wait_queue_head_t wait;
	bool busy, silent;
	dma_cookie_t error;
	unsigned int count, prepared;
};

static struct dd_chan dd_chans[DD_CHANNELS_MAX];
static struct dma_device dd_device;
static struct platform_device *dd_platform;

static dma_cookie_t dd_submit(struct dma_async_tx_descriptor *tx)
{
	struct dd_chan *c = container_of(tx->chan, struct dd_chan, chan);
	struct dd_desc *d = container_of(tx, struct dd_desc, tx);

	spin_lock_bh(&c->lock);
	tx->cookie = ++c->chan.cookie;
	list_add_tail(&d->list, &c->submitted);
	spin_unlock_bh(&c->lock);
	return tx->cookie;
}

static struct dma_async_tx_descriptor *dd_prepare(struct dma_chan *chan, dma_addr_t dst, dma_addr_t src,
						  size_t len, unsigned long flags)
{
	struct dd_chan *c = container_of(chan, struct dd_chan, chan);
	struct dd_desc *d;

	if (READ_ONCE(sleepy))
		usleep_range(20, 50);
	if (starve_every && ++c->prepared % starve_every == 0)
		return NULL;
	d = kzalloc(sizeof(*d), GFP_NOWAIT);
	if (!d)
		return NULL;
	dma_async_tx_descriptor_init(&d->tx, chan);
	d->tx.tx_submit = dd_submit;
	d->tx.flags = flags;
	d->dst = dst;
	d->src = src;
	d->len = len;
	return &d->tx;
}

static void dd_issue(struct dma_chan *chan)
{
	struct dd_chan *c = container_of(chan, struct dd_chan, chan);

	spin_lock_bh(&c->lock);
	list_splice_tail_init(&c->submitted, &c->issued);
	spin_unlock_bh(&c->lock);
	wake_up(&c->wait);
}

static enum dma_status dd_status(struct dma_chan *chan, dma_cookie_t cookie, struct dma_tx_state *state)
{
	struct dd_chan *c = container_of(chan, struct dd_chan, chan);

	if (READ_ONCE(c->error) == cookie)
		return DMA_ERROR;
	return dma_async_is_complete(cookie, READ_ONCE(chan->completed_cookie), chan->cookie);
}

static int dd_terminate(struct dma_chan *chan)
{
	struct dd_chan *c = container_of(chan, struct dd_chan, chan);
	struct dd_desc *d, *next;
	LIST_HEAD(all);

	spin_lock_bh(&c->lock);
	list_splice_init(&c->submitted, &all);
	list_splice_tail_init(&c->issued, &all);
	spin_unlock_bh(&c->lock);
	list_for_each_entry_safe(d, next, &all, list) kfree(d);
	return 0;
}

static void dd_synchronize(struct dma_chan *chan)
{
	struct dd_chan *c = container_of(chan, struct dd_chan, chan);

	while (READ_ONCE(c->busy))
		usleep_range(50, 100);
}

static int dd_alloc(struct dma_chan *chan)
{
	struct dd_chan *c = container_of(chan, struct dd_chan, chan);

	c->silent = false;
	c->error = 0;
	return 1;
}

static void dd_free(struct dma_chan *chan)
{
	dd_terminate(chan);
	dd_synchronize(chan);
}

static void dd_run(struct dd_chan *c, struct dd_desc *d)
{
	struct dmaengine_result result = {.result = DMA_TRANS_NOERROR};
	struct dma_async_tx_descriptor *tx = &d->tx;

	if (READ_ONCE(delay_us))
		usleep_range(delay_us, delay_us + 20);
	c->count++;
	if (lose_every && c->count % lose_every == 0) {
		c->silent = true;
		kfree(d);
		return;
	}
	if (fail_every && c->count % fail_every == 0) {
		result.result = DMA_TRANS_READ_FAILED;
		WRITE_ONCE(c->error, tx->cookie);
	} else {
		memcpy(phys_to_virt(d->dst), phys_to_virt(d->src), d->len);
		bytes += d->len;
		busy_channels |= 1u << c->index;
	}
	smp_store_release(&c->chan.completed_cookie, tx->cookie);
	if (tx->callback_result)
		tx->callback_result(tx->callback_param, &result);
	else if (tx->callback)
		tx->callback(tx->callback_param);
	kfree(d);
}

static int dd_thread(void *arg)
{
	struct dd_chan *c = arg;

	while (!kthread_should_stop()) {
		struct dd_desc *d;

		wait_event_interruptible(c->wait, kthread_should_stop() ||
							  (!c->silent && !list_empty_careful(&c->issued)));
		spin_lock_bh(&c->lock);
		d = c->silent ? NULL : list_first_entry_or_null(&c->issued, struct dd_desc, list);
		if (d)
			list_del(&d->list);
		WRITE_ONCE(c->busy, d != NULL);
		spin_unlock_bh(&c->lock);
		if (d)
			dd_run(c, d);
		WRITE_ONCE(c->busy, false);
	}
	return 0;
}

static int dd_probe(struct platform_device *pdev)
{
	unsigned int i, n = min_t(unsigned int, channels, DD_CHANNELS_MAX);

	dd_device.dev = &pdev->dev;
	INIT_LIST_HEAD(&dd_device.channels);
	dma_cap_set(DMA_MEMCPY, dd_device.cap_mask);
	dma_cap_set(DMA_PRIVATE, dd_device.cap_mask);
	if (unordered)
		dma_cap_set(DMA_COMPLETION_NO_ORDER, dd_device.cap_mask);
	dd_device.device_alloc_chan_resources = dd_alloc;
	dd_device.device_free_chan_resources = dd_free;
	dd_device.device_prep_dma_memcpy = dd_prepare;
	dd_device.device_issue_pending = dd_issue;
	dd_device.device_tx_status = dd_status;
	dd_device.device_terminate_all = dd_terminate;
	dd_device.device_synchronize = dd_synchronize;
	for (i = 0; i < n; i++) {
		struct dd_chan *c = &dd_chans[i];

		c->index = i;
		spin_lock_init(&c->lock);
		INIT_LIST_HEAD(&c->submitted);
		INIT_LIST_HEAD(&c->issued);
		init_waitqueue_head(&c->wait);
		c->chan.device = &dd_device;
		c->chan.cookie = c->chan.completed_cookie = DMA_MIN_COOKIE;
		list_add_tail(&c->chan.device_node, &dd_device.channels);
		c->thread = kthread_run(dd_thread, c, "dmadouble%u", i);
		if (IS_ERR(c->thread))
			return PTR_ERR(c->thread);
	}
	return dma_async_device_register(&dd_device);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
static void dd_remove(struct platform_device *pdev)
#else
static int dd_remove(struct platform_device *pdev)
#endif
{
	unsigned int i;

	dma_async_device_unregister(&dd_device);
	for (i = 0; i < DD_CHANNELS_MAX; i++) {
		if (dd_chans[i].thread)
			kthread_stop(dd_chans[i].thread);
	}
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
	return 0;
#endif
}

static struct platform_driver dd_driver = {
	.driver = {.name = "dmadouble"},
	.probe = dd_probe,
	.remove = dd_remove,
};

static int __init dd_init(void)
{
	struct platform_device_info info = {.name = "dmadouble", .dma_mask = DMA_BIT_MASK(64)};
	int err = platform_driver_register(&dd_driver);

	if (err)
		return err;
	dd_platform = platform_device_register_full(&info);
	if (IS_ERR(dd_platform)) {
		platform_driver_unregister(&dd_driver);
		return PTR_ERR(dd_platform);
	}
	return 0;
}

static void __exit dd_exit(void)
{
	platform_device_unregister(dd_platform);
	platform_driver_unregister(&dd_driver);
}

module_init(dd_init);
module_exit(dd_exit);
MODULE_DESCRIPTION("a DMA engine for sennit's tests");
MODULE_AUTHOR("the sennit authors");
MODULE_LICENSE("GPL");
