// SPDX-License-Identifier: GPL-2.0
/*
 * Network endpoints: the calls. Links with their keys, fetches and the pinning of their memory, the ring of completions.
 */
#include "sennit_net.h"
#include <linux/slab.h>
#include <linux/vmalloc.h>

void sn_net_free(struct kref *ref)
{
	struct sn_net *n = container_of(ref, struct sn_net, ref);

	xa_destroy(&n->links);
	vfree(n->ring); /* pages that are still mapped stay until they are not */
	kfree(n);
}

/* As vmalloc_user() does it, but charged to the caller's memory cgroup. */
static struct sennit_net_ring *sn_net_ring_new(void)
{
	unsigned int i, count = PFN_UP(sizeof(struct sennit_net_ring));
	struct page **pages = kvcalloc(count, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	void *ring = NULL;

	for (i = 0; pages && i < count; i++) {
		pages[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!pages[i])
			break;
	}
	if (pages && i == count)
		ring = vmap(pages, count, VM_MAP | VM_MAP_PUT_PAGES, PAGE_KERNEL);
	if (!ring) {
		while (i--)
			__free_page(pages[i]);
		kvfree(pages);
	}
	return ring;
}

static struct sn_net *sn_net_by_id(struct sn_ctx *ctx, u32 id)
{
	struct sn_net *n;

	xa_lock(&ctx->nets);
	n = xa_load(&ctx->nets, id);
	if (n)
		kref_get(&n->ref);
	xa_unlock(&ctx->nets);
	return n;
}

static void sn_net_put(struct sn_net *n)
{
	kref_put(&n->ref, sn_net_free);
}

/* ---- what DMA channels have yet ---- */

static bool sn_net_is_quiet(struct sn_net *n, const unsigned int *flying)
{
	bool quiet;

	spin_lock_bh(&n->lock);
	quiet = !*flying;
	spin_unlock_bh(&n->lock);
	return quiet;
}

/* Waits until no fragment of a fetch or a link is flying: as long as a channel's silence is borne, at most. */
static void sn_net_quiesce(struct sn_net *n, const unsigned int *flying)
{
	wait_event(n->landed, sn_net_is_quiet(n, flying));
}

/* ---- opening and closing ---- */

static struct sn_net *sn_net_new(struct sn_ctx *ctx, const struct sennit_net_open *o)
{
	struct sn_net *n = kzalloc(sizeof(*n), GFP_KERNEL_ACCOUNT);
	int err = -ENOMEM;

	if (!n)
		return ERR_PTR(err);
	kref_init(&n->ref);
	n->ctx = ctx;
	spin_lock_init(&n->lock);
	mutex_init(&n->calls);
	xa_init_flags(&n->links, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	INIT_LIST_HEAD(&n->pulls);
	INIT_LIST_HEAD(&n->all);
	__skb_queue_head_init(&n->out);
	init_waitqueue_head(&n->landed);
	n->ring = sn_net_ring_new();
	if (!n->ring)
		goto fail;
	if (o->event >= 0) {
		n->event = eventfd_ctx_fdget(o->event);
		if (IS_ERR(n->event)) {
			err = PTR_ERR(n->event);
			n->event = NULL;
			goto fail;
		}
	}
	return n;
fail:
	sn_net_put(n);
	return ERR_PTR(err);
}

/* Its fetches are over: with nothing asked for no timer is set again. */
static void sn_link_free(struct sn_link *l)
{
	unsigned int k;

	sn_net_quiesce(l->net, &l->flying);
	for (k = 0; k < SENNIT_NET_PORTS; k++)
		timer_delete_sync(&l->lane[k].timer);
	kfree_sensitive(l);
}

/* Out of the table already: no call finds it. */
static void sn_net_end(struct sn_net *n)
{
	struct eventfd_ctx *event;
	struct sn_link *l;
	unsigned long id;

	sn_ports_close(n);
	mutex_lock(&n->calls); /* whoever found it before is through */
	xa_for_each(&n->links, id, l)
	{
		xa_erase(&n->links, id);
		sn_link_free(l);
	}
	spin_lock_bh(&n->lock);
	event = n->event;
	n->event = NULL;
	spin_unlock_bh(&n->lock);
	mutex_unlock(&n->calls);
	if (event)
		eventfd_ctx_put(event);
	sn_net_put(n);
}

int sn_net_open(struct sn_ctx *ctx, void *arg)
{
	struct sennit_net_open *o = arg;
	struct sn_net *n;
	u32 index;
	int err;

	if (o->reserved || o->zero[0] || o->zero[1])
		return -EINVAL;
	n = sn_net_new(ctx, o);
	if (IS_ERR(n))
		return PTR_ERR(n);
	err = sn_port_open(n, o->ifindex, o->mtu, o->port, &index);
	if (err) {
		sn_net_end(n);
		return err;
	}
	err = xa_alloc(&ctx->nets, &o->id, n, XA_LIMIT(1, SENNIT_NETS), GFP_KERNEL_ACCOUNT);
	if (err)
		sn_net_end(n);
	return err == -EBUSY ? -ENOSPC : err;
}

int sn_net_port(struct sn_ctx *ctx, void *arg)
{
	struct sennit_net_port *a = arg;
	struct sn_net *n;
	int err;

	if (a->reserved || a->zero[0] || a->zero[1])
		return -EINVAL;
	n = sn_net_by_id(ctx, a->net);
	if (!n)
		return -ENOENT;
	err = sn_port_open(n, a->ifindex, a->mtu, a->port, &a->index);
	sn_net_put(n);
	return err;
}

int sn_net_close(struct sn_ctx *ctx, void *arg)
{
	struct sennit_net_close *c = arg;
	struct sn_net *n;

	if (c->reserved)
		return -EINVAL;
	n = xa_erase(&ctx->nets, c->id);
	if (!n)
		return -ENOENT;
	sn_net_end(n);
	return 0;
}

void sn_net_close_all(struct sn_ctx *ctx)
{
	struct sn_net *n;
	unsigned long id;

	xa_for_each(&ctx->nets, id, n)
	{
		xa_erase(&ctx->nets, id);
		sn_net_end(n);
	}
}

int sn_net_map(struct sn_ctx *ctx, struct vm_area_struct *vma)
{
	struct sn_net *n = sn_net_by_id(ctx, vma->vm_pgoff >> (16 - PAGE_SHIFT));
	unsigned long first = vma->vm_pgoff & ((1 << (16 - PAGE_SHIFT)) - 1), i;
	int err = 0;

	if (!n)
		return -ENOENT;
	if (first + vma_pages(vma) > PFN_UP(sizeof(*n->ring)))
		err = -EINVAL;
		/* A fork's child has no use for it, and would keep the file open, with all that is pinned for it. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
#else
	vma->vm_flags |= VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP;
#endif
	for (i = 0; !err && i < vma_pages(vma); i++)
		err = vm_insert_page(vma, vma->vm_start + i * PAGE_SIZE,
				     vmalloc_to_page((void *)n->ring + (first + i) * PAGE_SIZE));
	sn_net_put(n);
	return err;
}

/* ---- links and fetches ---- */

/* Has any of its interfaces not gone? */
static bool sn_net_is_plugged(const struct sn_net *n)
{
	unsigned int i, ports = smp_load_acquire(&n->n_ports);

	for (i = 0; i < ports; i++)
		if (READ_ONCE(n->ports[i].dev))
			return true;
	return false;
}

int sn_net_link(struct sn_ctx *ctx, void *arg)
{
	struct sennit_net_link *a = arg;
	struct sn_net *n = sn_net_by_id(ctx, a->net);
	struct sn_link *l;
	int err = -ENOMEM;

	if (!n)
		return -ENOENT;
	l = kzalloc(sizeof(*l), GFP_KERNEL_ACCOUNT);
	if (!l)
		goto out;
	l->net = n;
	l->rx_link = a->rx_link;
	l->tx_link = a->tx_link;
	memcpy(l->to, a->to, sizeof(l->to));
	memcpy(&l->rx_key, a->rx_key, sizeof(l->rx_key));
	memcpy(&l->tx_key, a->tx_key, sizeof(l->tx_key));
	memset(a->rx_key, 0, sizeof(a->rx_key)); /* not given back */
	memset(a->tx_key, 0, sizeof(a->tx_key));
	sn_lanes_init(l);
	mutex_lock(&n->calls);
	err = sn_net_is_plugged(n)
		      ? xa_alloc(&n->links, &l->id, l, XA_LIMIT(1, SENNIT_NET_LINKS), GFP_KERNEL_ACCOUNT)
		      : -ENODEV;
	a->id = l->id;
	mutex_unlock(&n->calls);
	if (err)
		kfree_sensitive(l);
out:
	sn_net_put(n);
	return err == -EBUSY ? -ENOSPC : err;
}

int sn_net_unlink(struct sn_ctx *ctx, void *arg)
{
	struct sennit_net_unlink *a = arg;
	struct sn_net *n = sn_net_by_id(ctx, a->net);
	struct sn_pull *p, *next;
	struct sn_link *l;

	if (!n)
		return -ENOENT;
	mutex_lock(&n->calls);
	l = xa_erase(&n->links, a->link);
	if (l) {
		spin_lock_bh(&n->lock);
		list_for_each_entry_safe(p, next, &n->pulls, node)
		{
			if (p->link == l)
				sn_pull_end(p, -ECANCELED, false);
		}
		sn_pull_schedule(n);
		spin_unlock_bh(&n->lock);
		sn_link_free(l);
	}
	mutex_unlock(&n->calls);
	sn_net_flush(n);
	sn_net_put(n);
	return l ? 0 : -ENOENT;
}

static bool sn_net_frag_is_good(const struct sn_net *n, u32 port, u32 frag)
{
	return port < smp_load_acquire(&n->n_ports) && frag >= SN_WIRE_FRAG_MIN &&
	       frag <= n->ports[port].mtu - sizeof(struct sn_wire_data);
}

static bool sn_net_lanes_are_good(const struct sn_net *n, const struct sennit_net_pull *a)
{
	unsigned int i, seen = 0;

	if (a->n_lanes > SENNIT_NET_PORTS || a->deal > SENNIT_DEAL_FASTEST || a->frag || a->rail || a->lane)
		return false;
	for (i = 0; i < a->n_lanes; i++) {
		const struct sennit_net_lane *l = &a->lanes[i];

		if (l->lane >= SENNIT_NET_PORTS || seen >> l->lane & 1 || l->reserved ||
		    memchr_inv(l->zero, 0, sizeof(l->zero)) || !sn_net_frag_is_good(n, l->port, l->frag))
			return false;
		seen |= 1u << l->lane;
	}
	return true;
}

static int sn_net_pull_check(const struct sn_net *n, const struct sennit_net_pull *a,
			     const struct sn_region *r)
{
	if (!(r->access & SENNIT_WRITE))
		return -EACCES;
	if (a->zero || a->reserved || a->start >= a->end || a->end > r->length)
		return -EINVAL;
	if (a->n_lanes)
		return sn_net_lanes_are_good(n, a) ? 0 : -EINVAL;
	return a->deal || a->lane >= SENNIT_NET_PORTS || !sn_net_frag_is_good(n, 0, a->frag) ? -EINVAL : 0;
}

static struct sn_pull *sn_pull_new(struct sn_net *n, const struct sennit_net_pull *a, struct sn_region *r)
{
	struct sn_pull *p = kzalloc(sizeof(*p), GFP_KERNEL_ACCOUNT);

	if (!p)
		return NULL;
	kref_init(&p->ref);
	kref_get(&n->ref);
	p->net = n;
	p->end.region = r;
	INIT_WORK(&p->pin, sn_pull_pin_work);
	INIT_WORK(&p->release, sn_pull_release_work);
	p->cookie = a->cookie;
	p->sack = a->sack;
	p->ack = a->ack;
	p->seq = a->seq;
	p->rdv = a->rdv;
	p->deal = a->deal;
	p->start = p->pin_at = p->pin_to = a->start;
	p->len = a->end;
	p->left = a->end - a->start;
	p->channel = sn_netdma_channel(p->left);
	return p;
}

static void sn_pull_take_lanes(struct sn_pull *p, const struct sennit_net_pull *a)
{
	struct sennit_net_lane one = {.lane = a->lane, .rail = a->rail, .frag = a->frag};

	memcpy(one.to, p->link->to, sizeof(one.to));
	sn_lanes_take(p, a->n_lanes ? a->lanes : &one, a->n_lanes ? a->n_lanes : 1);
	sn_pull_shape(p);
}

/* Gives it a number and asks for its first blocks. The lock is held. */
static int sn_pull_begin(struct sn_net *n, struct sn_pull *p)
{
	unsigned int i, k, plugged = 0;

	for (k = 0; k < SENNIT_NET_PORTS; k++)
		plugged += p->lanes >> k & 1 && n->ports[p->link->lane[k].port].dev;
	if (!plugged)
		return -ENODEV;
	if (n->n_pulls == SENNIT_NET_PULLS)
		return -ENOSPC;
	for (i = ++n->generation; n->table[i % SENNIT_NET_PULLS]; i++)
		;
	p->number = SENNIT_PULL_NUMBER | ((n->generation << 8 | i % SENNIT_NET_PULLS) & ~SENNIT_PULL_NUMBER);
	n->table[i % SENNIT_NET_PULLS] = p;
	n->n_pulls++;
	n->several += p->n_lanes > 1;
	list_add_tail(&p->node, &n->pulls);
	sn_pull_schedule(n);
	return 0;
}

int sn_net_pull(struct sn_ctx *ctx, void *arg)
{
	struct sennit_net_pull *a = arg;
	struct sn_net *n = sn_net_by_id(ctx, a->net);
	struct sn_region *r;
	struct sn_pull *p;
	int err;

	if (!n)
		return -ENOENT;
	r = sn_region_by_id(ctx, a->region);
	if (IS_ERR(r)) {
		sn_net_put(n);
		return PTR_ERR(r);
	}
	err = sn_net_pull_check(n, a, r);
	p = err ? NULL : sn_pull_new(n, a, r);
	if (!p) {
		sn_region_put(r);
		sn_net_put(n);
		return err ? err : -ENOMEM;
	}
	mutex_lock(&n->calls);
	p->link = xa_load(&n->links, a->link);
	spin_lock_bh(&n->lock);
	err = -ENOENT;
	if (p->link) {
		sn_pull_take_lanes(p, a);
		err = sn_pull_begin(n, p);
	}
	a->number = p->number; /* it may have ended before the caller has it */
	spin_unlock_bh(&n->lock);
	mutex_unlock(&n->calls);
	if (err) {
		sn_netdma_unpick(p->channel);
		kref_put(&p->ref, sn_pull_free);
	} else {
		sn_count(SENNIT_C_NET_PULLS, 1);
	}
	sn_net_flush(n);
	sn_net_put(n);
	return err;
}

int sn_net_cancel(struct sn_ctx *ctx, void *arg)
{
	struct sennit_net_cancel *a = arg;
	struct sn_net *n = sn_net_by_id(ctx, a->net);
	struct sn_pull *p;
	int err = -ENOENT;

	a->done = 0;
	if (!n)
		return -ENOENT;
	spin_lock_bh(&n->lock);
	p = n->table[a->number % SENNIT_NET_PULLS];
	if (p && p->number == a->number) {
		kref_get(&p->ref);
		err = p->over ? -ENOENT : 0; /* over: the end is told when its last fragment is there */
		sn_pull_end(p, -ECANCELED, false);
		a->done = err ? 0 : p->done;
		sn_pull_schedule(n);
	} else {
		p = NULL;
	}
	spin_unlock_bh(&n->lock);
	sn_net_flush(n);
	if (p) {
		sn_net_quiesce(n, &p->flying);
		kref_put(&p->ref, sn_pull_free);
	}
	sn_net_put(n);
	return err;
}

/* ---- the worker ---- */

void sn_pull_free(struct kref *ref)
{
	struct sn_pull *p = container_of(ref, struct sn_pull, ref);

	sn_pin_queue_ahead(&p->release);
}

void sn_pull_release_work(struct work_struct *work)
{
	struct sn_pull *p = container_of(work, struct sn_pull, release);

	sn_region_put(p->end.region);
	kref_put(&p->net->ref, sn_net_free);
	kfree(p);
}

void sn_pull_pin_work(struct work_struct *work)
{
	struct sn_pull *p = container_of(work, struct sn_pull, pin);
	struct sn_region *r = p->end.region;
	struct sn_net *n = p->net;
	struct sn_pinset *ps;
	u64 at, to;

	for (;;) {
		struct sn_seg *seg;
		u64 skew, next;

		spin_lock_bh(&n->lock);
		at = p->pin_at;
		to = p->over ? 0 : p->pin_to;
		if (at < to) /* a frame that finds nothing there sets it back */
			p->pin_at = to;
		spin_unlock_bh(&n->lock);
		if (at >= to)
			break;
		while (at < to) {
			seg = sn_region_seg(r, at);
			skew = offset_in_page(seg->addr);
			ps = sn_pin_get(seg, (at - seg->start + skew) >> PAGE_SHIFT, true, false);
			if (IS_ERR(ps))
				break;
			next = seg->start +
			       min_t(u64, seg->len, ((u64)(ps->first + ps->count) << PAGE_SHIFT) - skew);
			sn_pin_put(ps);
			at = next;
			cond_resched();
		}
		if (at < to) {
			spin_lock_bh(&n->lock);
			sn_pull_end(p, PTR_ERR(ps), true);
			sn_pull_schedule(n);
			spin_unlock_bh(&n->lock);
			sn_net_flush(n);
			break;
		}
	}
	kref_put(&p->ref, sn_pull_free);
}
