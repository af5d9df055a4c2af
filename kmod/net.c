// SPDX-License-Identifier: GPL-2.0
/*
 * Network endpoints: which interface and port, links with their keys, fetches, the ring of completions. Frames come by a
 * protocol handler of the endpoint's own; what is not DATA for a fetch of the kernel is left to the program's socket.
 *
 * An interface that goes takes the endpoint's fetches with it (-ENODEV); the program's socket then hears of it too.
 */
#include "sennit_net.h"
#include <linux/capability.h>
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <net/net_namespace.h>

static LIST_HEAD(sn_nets);
static DEFINE_MUTEX(sn_nets_lock);

void sn_net_free(struct kref *ref)
{
	struct sn_net *n = container_of(ref, struct sn_net, ref);

	xa_destroy(&n->links);
	vfree(n->ring); /* pages that are still mapped stay until they are not */
	kfree(n);
}

static bool sn_net_wants(struct sn_net *n, struct sk_buff *skb, struct sn_wire_data *d, u32 *len)
{
	u8 port[SN_PORT_BYTES];

	if (skb->pkt_type != PACKET_HOST || skb_copy_bits(skb, 0, port, sizeof(port)) ||
	    memcmp(port, n->port, sizeof(port)) || skb_copy_bits(skb, SN_PORT_BYTES, d, sizeof(*d)))
		return false;
	*len = le16_to_cpu(d->h.len);
	return d->h.version == SN_WIRE_VERSION && d->h.type == SN_WIRE_DATA && *len > sizeof(*d) &&
	       *len <= skb->len - SN_PORT_BYTES && *len <= n->mtu &&
	       (le32_to_cpu(d->pull) & SENNIT_PULL_NUMBER);
}

static int sn_net_receive(struct sk_buff *skb, struct net_device *dev, struct packet_type *packet,
			  struct net_device *orig)
{
	struct sn_net *n = container_of(packet, struct sn_net, packet);
	struct sn_wire_data d;
	u32 len;

	/* Other handlers may hold the frame too: it is only read. */
	if (sn_net_wants(n, skb, &d, &len)) {
		spin_lock(&n->lock);
		if (!sn_pull_frame(n, skb, &d, len))
			sn_count(SENNIT_C_NET_DROPS, 1);
		spin_unlock(&n->lock);
		if (!skb_queue_empty_lockless(&n->out))
			sn_net_flush(n);
	}
	consume_skb(skb);
	return NET_RX_SUCCESS;
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

/* Stops listening; fetches end with `status`, links stay. sn_nets_lock is held. */
static void sn_net_unplug(struct sn_net *n, int status)
{
	struct net_device *dev = n->dev;
	struct sn_pull *p, *next;

	if (!dev)
		return;
	dev_remove_pack(&n->packet); /* no handler runs any more when it returns */
	spin_lock_bh(&n->lock);
	n->dev = NULL;
	list_for_each_entry_safe(p, next, &n->pulls, node) sn_pull_end(p, status, true);
	__skb_queue_purge(&n->out);
	spin_unlock_bh(&n->lock);
	netdev_put(dev, &n->tracker);
}

static int sn_net_plug(struct sn_net *n, const struct sennit_net_open *o)
{
	struct net *ns = current->nsproxy->net_ns;
	struct net_device *dev;
	unsigned int most;

	if (!ns_capable(ns->user_ns, CAP_NET_RAW))
		return -EPERM;
	dev = dev_get_by_index(ns, o->ifindex);
	if (!dev)
		return -ENODEV;
	most = min_t(unsigned int, READ_ONCE(dev->mtu), U16_MAX); /* some interfaces may have an MTU of 0 */
	if (dev->type != ARPHRD_ETHER || o->mtu < sizeof(struct sn_wire_data) + SN_WIRE_FRAG_MIN ||
	    o->mtu + (u64)SN_PORT_BYTES > most) {
		dev_put(dev);
		return -EINVAL;
	}
	netdev_hold(dev, &n->tracker, GFP_KERNEL);
	dev_put(dev);
	n->dev = dev;
	n->packet.type = htons(SN_ETHERTYPE);
	n->packet.dev = dev;
	n->packet.func = sn_net_receive;
	return 0;
}

static struct sn_net *sn_net_new(struct sn_ctx *ctx, const struct sennit_net_open *o)
{
	struct sn_net *n = kzalloc(sizeof(*n), GFP_KERNEL_ACCOUNT);
	int err = -ENOMEM;

	if (!n)
		return ERR_PTR(err);
	kref_init(&n->ref);
	n->ctx = ctx;
	n->mtu = o->mtu;
	memcpy(n->port, o->port, sizeof(n->port));
	spin_lock_init(&n->lock);
	mutex_init(&n->calls);
	xa_init_flags(&n->links, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	INIT_LIST_HEAD(&n->pulls);
	INIT_LIST_HEAD(&n->all);
	__skb_queue_head_init(&n->out);
	init_waitqueue_head(&n->landed);
	n->credit = 256 << 10;
	n->ring = vmalloc_user(PAGE_ALIGN(sizeof(*n->ring)));
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
	err = sn_net_plug(n, o);
	if (!err)
		return n;
	if (n->event)
		eventfd_ctx_put(n->event);
fail:
	sn_net_put(n);
	return ERR_PTR(err);
}

/* Out of the table already: no call finds it. */
static void sn_net_end(struct sn_net *n)
{
	struct eventfd_ctx *event;
	struct sn_link *l;
	unsigned long id;

	mutex_lock(&sn_nets_lock);
	list_del_init(&n->all);
	sn_net_unplug(n, -ECANCELED);
	mutex_unlock(&sn_nets_lock);
	mutex_lock(&n->calls); /* whoever found it before is through */
	xa_for_each(&n->links, id, l)
	{
		xa_erase(&n->links, id);
		sn_net_quiesce(n, &l->flying);
		timer_delete_sync(&l->timer);
		kfree_sensitive(l);
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
	bool gone;
	int err;

	if (o->reserved || o->zero[0] || o->zero[1])
		return -EINVAL;
	n = sn_net_new(ctx, o);
	if (IS_ERR(n))
		return PTR_ERR(n);
	mutex_lock(&sn_nets_lock);
	list_add(&n->all, &sn_nets);
	dev_add_pack(&n->packet);
	gone = n->dev->reg_state != NETREG_REGISTERED;
	mutex_unlock(&sn_nets_lock);
	/* It began to go before it was listed, so the notifier may have passed it by: nobody else would let it go. */
	if (gone) {
		sn_net_end(n);
		return -ENODEV;
	}
	err = xa_alloc(&ctx->nets, &o->id, n, XA_LIMIT(1, SENNIT_NETS), GFP_KERNEL_ACCOUNT);
	if (err)
		sn_net_end(n);
	return err == -EBUSY ? -ENOSPC : err;
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
	int err;

	if (!n)
		return -ENOENT;
		/* A fork's child has no use for it, and would keep the file open, with all that is pinned for it. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, VM_DONTCOPY);
#else
	vma->vm_flags |= VM_DONTCOPY;
#endif
	err = remap_vmalloc_range(vma, n->ring, vma->vm_pgoff & ((1 << (16 - PAGE_SHIFT)) - 1));
	sn_net_put(n);
	return err;
}

/* ---- links and fetches ---- */

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
	INIT_LIST_HEAD(&l->asked);
	timer_setup(&l->timer, sn_pull_timer, 0);
	mutex_lock(&n->calls);
	err = n->dev ? xa_alloc(&n->links, &l->id, l, XA_LIMIT(1, SENNIT_NET_LINKS), GFP_KERNEL_ACCOUNT)
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
		sn_net_quiesce(n, &l->flying);
		timer_delete_sync(&l->timer); /* with nothing asked for it is not set again */
		kfree_sensitive(l);
	}
	mutex_unlock(&n->calls);
	sn_net_flush(n);
	sn_net_put(n);
	return l ? 0 : -ENOENT;
}

static int sn_net_pull_check(const struct sn_net *n, const struct sennit_net_pull *a,
			     const struct sn_region *r)
{
	if (!(r->access & SENNIT_WRITE))
		return -EACCES;
	if (a->zero || a->reserved || a->start >= a->end || a->end > r->length ||
	    a->frag < SN_WIRE_FRAG_MIN || a->frag > n->mtu - sizeof(struct sn_wire_data))
		return -EINVAL;
	return 0;
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
	p->frag = a->frag;
	p->rail = a->rail;
	p->lane = a->lane;
	p->start = p->pin_at = p->pin_to = a->start;
	p->len = a->end;
	p->left = a->end - a->start;
	p->channel = sn_netdma_channel(p->left);
	sn_pull_shape(p);
	return p;
}

/* Gives it a number and asks for its first blocks. The lock is held. */
static int sn_pull_begin(struct sn_net *n, struct sn_pull *p)
{
	unsigned int i;

	if (!n->dev)
		return -ENODEV;
	if (n->n_pulls == SENNIT_NET_PULLS)
		return -ENOSPC;
	for (i = ++n->generation; n->table[i % SENNIT_NET_PULLS]; i++)
		;
	p->number = SENNIT_PULL_NUMBER | ((n->generation << 8 | i % SENNIT_NET_PULLS) & ~SENNIT_PULL_NUMBER);
	n->table[i % SENNIT_NET_PULLS] = p;
	n->n_pulls++;
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
	err = p->link ? sn_pull_begin(n, p) : -ENOENT;
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

/* ---- interfaces that go ---- */

static int sn_net_event(struct notifier_block *block, unsigned long event, void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);
	struct sn_net *n;

	if (event != NETDEV_UNREGISTER)
		return NOTIFY_DONE;
	mutex_lock(&sn_nets_lock);
	list_for_each_entry(n, &sn_nets, all)
	{
		if (n->dev == dev)
			sn_net_unplug(n, -ENODEV);
	}
	mutex_unlock(&sn_nets_lock);
	return NOTIFY_DONE;
}

static struct notifier_block sn_net_notifier = {.notifier_call = sn_net_event};

int sn_net_init(void)
{
	return register_netdevice_notifier(&sn_net_notifier);
}

void sn_net_exit(void)
{
	unregister_netdevice_notifier(&sn_net_notifier);
}
