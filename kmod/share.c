// SPDX-License-Identifier: GPL-2.0
/*
 * A copy that several callers do together: whoever is in the library takes the next piece, so a sender and a receiver
 * that both wait halve the time, and neither waits for one that does not come. A runner that is killed gives its piece
 * back. Each runner has one piece at a time and pieces given back are taken first, so there are never more of them than
 * runners may be.
 */
#include "sennit_kmod.h"
#include <linux/sched/signal.h>
#include <linux/slab.h>

#define SN_RUNNERS_MAX 16
#define SN_SHARES_MAX  4096 /* per context */
#define SN_SHARE_SOME  16   /* pieces in one call that asks for some */

struct sn_share {
	struct sn_handle handle;
	struct sn_ctx *ctx;
	struct sn_end dst, src;
	u64 len;
	spinlock_t lock;
	u64 next; /* first byte that nobody has taken */
	u64 done;
	u64 given_back[SN_RUNNERS_MAX];
	unsigned int n_given_back;
	unsigned int runners;
	int error;
	u32 id; /* in ctx->shares; written before it is published */
	wait_queue_head_t wait;
};

static void sn_share_free(struct kref *ref)
{
	struct sn_share *s = container_of(ref, struct sn_share, handle.ref);

	sn_end_close(&s->dst);
	sn_end_close(&s->src);
	sn_ctx_put(s->ctx);
	kfree(s);
}

static void sn_share_put(struct sn_share *s)
{
	kref_put(&s->handle.ref, sn_share_free);
}

int sn_share_open(struct sn_ctx *ctx, void *arg)
{
	struct sennit_share_open *o = arg;
	struct sn_share *s;
	int err;

	if (o->dst.kind == SENNIT_END_MEMORY || o->src.kind == SENNIT_END_MEMORY)
		return -EINVAL;
	s = kzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);
	if (!s)
		return -ENOMEM;
	err = sn_end_open(ctx, &o->dst, o->len, SENNIT_WRITE, &s->dst);
	if (err)
		goto no_dst;
	err = sn_end_open(ctx, &o->src, o->len, SENNIT_READ, &s->src);
	if (err)
		goto no_src;
	s->ctx = ctx;
	kref_get(&ctx->ref);
	s->len = o->len;
	spin_lock_init(&s->lock);
	init_waitqueue_head(&s->wait);
	sn_handle_init(&s->handle, SN_HANDLE_SHARE, ctx->cred);
	err = xa_alloc(&ctx->shares, &s->id, s, XA_LIMIT(1, SN_SHARES_MAX), GFP_KERNEL_ACCOUNT);
	if (err) {
		sn_share_put(s);
		return err == -EBUSY ? -ENOSPC : err;
	}
	/* Nobody can close it before it is published: its id never leaves the kernel. */
	o->handle = sn_handle_publish(&s->handle);
	return 0;
no_src:
	sn_end_close(&s->dst);
no_dst:
	kfree(s);
	return err;
}

/* The next piece, or 0 when there is none (left, or to be had any more). */
static u64 sn_share_take(struct sn_share *s, u64 *at)
{
	u64 n = 0;

	spin_lock(&s->lock);
	if (!s->error && s->n_given_back) {
		*at = s->given_back[--s->n_given_back];
		n = min_t(u64, SN_PIECE_BYTES, s->len - *at);
	} else if (!s->error && s->next < s->len) {
		*at = s->next;
		n = min_t(u64, SN_PIECE_BYTES, s->len - s->next);
		s->next += n;
	}
	spin_unlock(&s->lock);
	return n;
}

static void sn_share_give(struct sn_share *s, u64 at, u64 n, int err)
{
	bool last;

	spin_lock(&s->lock);
	if (!err)
		s->done += n;
	else if (err == -EINTR)
		s->given_back[s->n_given_back++] = at;
	else if (!s->error)
		s->error = err;
	last = err || s->done == s->len;
	spin_unlock(&s->lock);
	if (last)
		wake_up_all(&s->wait);
}

static bool sn_share_is_over(struct sn_share *s)
{
	bool over;

	spin_lock(&s->lock);
	over = s->error || s->done == s->len;
	spin_unlock(&s->lock);
	return over;
}

static bool sn_share_has_news(struct sn_share *s)
{
	return sn_share_is_over(s) || READ_ONCE(s->n_given_back);
}

static int sn_share_work(struct sn_share *s, struct sennit_share_run *run)
{
	unsigned int room = run->flags & SENNIT_SHARE_SOME ? SN_SHARE_SOME : UINT_MAX;
	u64 at, n;
	int err;

	for (;;) {
		while (room && (n = sn_share_take(s, &at))) {
			u64 copied = 0;

			err = sn_copy_cpu(&s->dst, &s->src, at, n, &copied);
			sn_count(SENNIT_C_SHARED_PIECES, 1);
			sn_count(SENNIT_C_COPY_BYTES, copied);
			sn_share_give(s, at, n, err);
			if (err == -EINTR)
				return err;
			if (!err)
				run->mine += n;
			room--;
		}
		if (!room || !(run->flags & SENNIT_SHARE_WAIT) || sn_share_is_over(s))
			return 0;
		err = wait_event_interruptible(s->wait, sn_share_has_news(s));
		if (err)
			return -EINTR;
	}
}

int sn_share_run(struct sn_ctx *ctx, void *arg)
{
	struct sennit_share_run *run = arg;
	struct sn_handle *h;
	struct sn_share *s;
	bool last;
	int err = 0;

	run->mine = 0;
	run->done = 0;
	run->error = 0;
	if (run->flags & ~(SENNIT_SHARE_WAIT | SENNIT_SHARE_SOME))
		return -EINVAL;
	h = sn_handle_find(run->handle, SN_HANDLE_SHARE);
	if (!h)
		return -ENOENT;
	s = container_of(h, struct sn_share, handle);
	spin_lock(&s->lock);
	if (s->runners == SN_RUNNERS_MAX)
		err = -EBUSY;
	else
		s->runners++;
	spin_unlock(&s->lock);
	if (!err) {
		err = sn_share_work(s, run);
		spin_lock(&s->lock);
		last = --s->runners == 0;
		run->done = s->done;
		run->error = s->error;
		spin_unlock(&s->lock);
		if (last)
			wake_up_all(&s->wait);
	}
	sn_share_put(s);
	return err;
}

/* Runners that are at it finish their piece and then see the error. */
static void sn_share_end(struct sn_share *s)
{
	sn_handle_withdraw(&s->handle);
	spin_lock(&s->lock);
	if (!s->error && s->done < s->len)
		s->error = -EPIPE;
	spin_unlock(&s->lock);
	wake_up_all(&s->wait);
	sn_share_put(s);
}

static bool sn_share_is_quiet(struct sn_share *s)
{
	bool quiet;

	spin_lock(&s->lock);
	quiet = !s->runners;
	spin_unlock(&s->lock);
	return quiet;
}

int sn_share_close(struct sn_ctx *ctx, void *arg)
{
	struct sennit_share_close *c = arg;
	struct sn_handle *h = sn_handle_find(c->handle, SN_HANDLE_SHARE);
	struct sn_share *s;
	int err = -ENOENT;

	if (!h)
		return -ENOENT;
	s = container_of(h, struct sn_share, handle);
	/* Of several closers at once, the one that takes it out of the table ends it. */
	if (s->ctx == ctx && xa_cmpxchg(&ctx->shares, s->id, s, NULL, GFP_KERNEL) == s) {
		sn_share_end(s);
		/* The opener may give its memory another use from now on: no piece may still be on its way there. */
		err = wait_event_killable(s->wait, sn_share_is_quiet(s)) ? -EINTR : 0;
	}
	sn_share_put(s);
	return err;
}

void sn_share_close_all(struct sn_ctx *ctx)
{
	struct sn_share *s;
	unsigned long id;

	xa_for_each(&ctx->shares, id, s)
	{
		xa_erase(&ctx->shares, id);
		sn_share_end(s);
	}
}
