/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DMA channels: what cache.c (who shares one), channel.c (taking and giving up), dma.c (copies that sleep) and
 * netdma.c (fragments) share.
 */
#ifndef SENNIT_DMA_H
#define SENNIT_DMA_H

#include "sennit_kmod.h"
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/mutex.h>

#define SN_BLOCK_BYTES (256u << 10)

/*
 * How long a channel has said nothing, in jiffies, as far as somebody was there to hear it: each look counts for what
 * may pass until the next one, and no more. A machine that was stopped (a guest that gets no processor, a laptop that
 * sleeps) finds its timers over before its engines have said a word.
 */
struct sn_silence {
	unsigned long looked, heard, lasts;
};

struct sn_channel {
	struct dma_chan *chan;
	struct mutex stop;   /* giving up */
	bool closed;	     /* nothing is submitted any more */
	bool quiet;	     /* closed, and the engine has stopped: what was submitted will not run */
	bool sleeps;	     /* its driver sleeps when it is short of descriptors */
	atomic_t submitting; /* callers between sn_channel_enter and _leave */
	atomic_t users;
	unsigned long heard; /* when it last called back, in jiffies */
	u64 ns_per_block; /* what a full block takes, smoothed; written without a lock, any value is good */
	/* fragments: netdma.c */
	spinlock_t lock;	 /* of what follows; callbacks take it, from any context */
	struct list_head queued; /* to be submitted by the worker */
	struct list_head flying, landed;
	unsigned int pending;	   /* on the three lists */
	struct sn_silence silence; /* since pending was last 0 */
	dma_cookie_t last;
	struct tasklet_struct landing;
	struct work_struct submit;
	struct delayed_work watch;
};

/* cache.c */
void sn_caches_look(void);
bool sn_caches_shared(int a, int b);
u64 sn_cache_bytes(int cpu);

/* channel.c */
struct sn_channel *sn_channel_pick(void);
static inline void sn_channel_put(struct sn_channel *c)
{
	atomic_dec(&c->users);
}
void sn_silence_begin(struct sn_silence *s, const struct sn_channel *c);
bool sn_channel_is_silent(const struct sn_channel *c, struct sn_silence *s, unsigned long due);
bool sn_channel_stop(struct sn_channel *c);
bool sn_channel_wants(u64 len);
bool sn_channel_may_sleep(const struct sn_channel *c);

/* May a descriptor be submitted now? If so, sn_channel_leave() comes after it. */
static inline bool sn_channel_enter(struct sn_channel *c)
{
	atomic_inc(&c->submitting);
	smp_mb__after_atomic(); /* stop: closed is written before submitting is read */
	if (!READ_ONCE(c->closed))
		return true;
	atomic_dec(&c->submitting);
	return false;
}

static inline void sn_channel_leave(struct sn_channel *c)
{
	atomic_dec_return_release(&c->submitting);
}

/* Where the CPU's cache does not see the engine's writes, the engine must not write a part of one of its lines. */
static inline unsigned int sn_channel_line(const struct sn_channel *c)
{
	return dev_is_dma_coherent(c->chan->device->dev) ? 1 : dma_get_cache_alignment();
}

/* netdma.c */
extern unsigned int sn_dma_head, sn_dma_fragment;
void sn_netdma_init(struct sn_channel *c);
void sn_netdma_exit(struct sn_channel *c);
void sn_netdma_abort(struct sn_channel *c);

#endif
