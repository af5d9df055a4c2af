// SPDX-License-Identifier: GPL-2.0
/*
 * Ports: an endpoint's interfaces. Frames come by a protocol handler of each port's own; what is not DATA for a fetch of the
 * kernel is left to the program's socket. An interface that goes takes those fetches with it (-ENODEV) that have no other;
 * the program's socket then hears of it too.
 */
#include "sennit_net.h"
#include <linux/capability.h>
#include <linux/nsproxy.h>
#include <net/net_namespace.h>

static LIST_HEAD(sn_nets);
static DEFINE_MUTEX(sn_nets_lock);

static bool sn_port_wants(const struct sn_port *port, struct sk_buff *skb, struct sn_wire_data *d, u32 *len)
{
	u8 name[SN_PORT_BYTES];

	if (skb->pkt_type != PACKET_HOST || skb_copy_bits(skb, 0, name, sizeof(name)) ||
	    memcmp(name, port->name, sizeof(name)) || skb_copy_bits(skb, SN_PORT_BYTES, d, sizeof(*d)))
		return false;
	*len = le16_to_cpu(d->h.len);
	return d->h.version == SN_WIRE_VERSION && d->h.type == SN_WIRE_DATA && *len > sizeof(*d) &&
	       *len <= skb->len - SN_PORT_BYTES && *len <= port->mtu &&
	       (le32_to_cpu(d->pull) & SENNIT_PULL_NUMBER);
}

static int sn_port_receive(struct sk_buff *skb, struct net_device *dev, struct packet_type *packet,
			   struct net_device *orig)
{
	struct sn_port *port = container_of(packet, struct sn_port, packet);
	struct sn_net *n = port->net;
	struct sn_wire_data d;
	u32 len;

	/* Other handlers may hold the frame too: it is only read. */
	if (sn_port_wants(port, skb, &d, &len)) {
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

static int sn_port_plug(struct sn_port *port, u32 ifindex, u32 mtu, const u8 *name)
{
	struct net *ns = current->nsproxy->net_ns;
	struct net_device *dev;
	unsigned int most;

	if (!ns_capable(ns->user_ns, CAP_NET_RAW))
		return -EPERM;
	dev = dev_get_by_index(ns, ifindex);
	if (!dev)
		return -ENODEV;
	most = min_t(unsigned int, READ_ONCE(dev->mtu), U16_MAX); /* some interfaces may have an MTU of 0 */
	if (dev->type != ARPHRD_ETHER || mtu < sizeof(struct sn_wire_data) + SN_WIRE_FRAG_MIN ||
	    mtu + (u64)SN_PORT_BYTES > most) {
		dev_put(dev);
		return -EINVAL;
	}
	netdev_hold(dev, &port->tracker, GFP_KERNEL);
	dev_put(dev);
	port->dev = dev;
	port->mtu = mtu;
	memcpy(port->name, name, sizeof(port->name));
	port->credit = 256 << 10;
	port->packet.type = htons(SN_ETHERTYPE);
	port->packet.dev = dev;
	port->packet.func = sn_port_receive;
	return 0;
}

/* No frame comes by it any more, once a grace period has passed. */
static void sn_port_deafen(struct sn_port *port)
{
	__dev_remove_pack(&port->packet);
}

/*
 * Lets the interface go. The port is deaf, and a grace period has passed since. Who calls is the only one to do so: it holds
 * sn_nets_lock, or the endpoint has left the list.
 */
static void sn_port_unplug(struct sn_port *port)
{
	struct net_device *dev = port->dev;
	struct sn_net *n = port->net;
	struct sn_pull *p, *next;
	struct sk_buff *skb, *after;

	spin_lock_bh(&n->lock);
	port->dev = NULL;
	list_for_each_entry_safe(p, next, &n->pulls, node) sn_pull_unplugged(p, port - n->ports);
	skb_queue_walk_safe(&n->out, skb, after)
	{
		if (skb->dev != dev)
			continue;
		__skb_unlink(skb, &n->out);
		kfree_skb(skb);
	}
	spin_unlock_bh(&n->lock);
	sn_net_flush(n);
	netdev_put(dev, &port->tracker);
}

/*
 * One more port for the endpoint: its first, or another one. An interface that goes, or goes to another namespace, is
 * taken out of its namespace's table first, and then told of. So what is found there under the lock, and put on the
 * list, will be told of.
 */
int sn_port_open(struct sn_net *n, u32 ifindex, u32 mtu, const u8 *name, u32 *index)
{
	struct sn_port *port;
	int err;

	mutex_lock(&sn_nets_lock);
	port = &n->ports[n->n_ports];
	if (n->ended)
		err = -ENOENT;
	else if (n->n_ports == SENNIT_NET_PORTS)
		err = -ENOSPC;
	else
		err = sn_port_plug(port, ifindex, mtu, name);
	if (err)
		goto out;
	port->net = n;
	if (list_empty(&n->all))
		list_add(&n->all, &sn_nets);
	*index = n->n_ports;
	smp_store_release(&n->n_ports, n->n_ports + 1); /* the port first, for who looks without a lock */
	dev_add_pack(&port->packet);
out:
	mutex_unlock(&sn_nets_lock);
	return err;
}

/*
 * The endpoint's end: its fetches are over, no frame comes any more, no port is added. The grace period is waited for without
 * the lock: who holds RTNL waits for that.
 */
void sn_ports_close(struct sn_net *n)
{
	struct sn_pull *p, *next;
	unsigned int i, plugged = 0;

	mutex_lock(&sn_nets_lock);
	n->ended = true;
	list_del_init(&n->all);
	mutex_unlock(&sn_nets_lock);
	spin_lock_bh(&n->lock);
	list_for_each_entry_safe(p, next, &n->pulls, node) sn_pull_end(p, -ECANCELED, true);
	spin_unlock_bh(&n->lock);
	for (i = 0; i < n->n_ports; i++) {
		if (!n->ports[i].dev)
			continue;
		sn_port_deafen(&n->ports[i]);
		plugged++;
	}
	if (plugged)
		synchronize_net();
	for (i = 0; i < n->n_ports; i++)
		if (n->ports[i].dev)
			sn_port_unplug(&n->ports[i]);
}

/* Does this to every port at the interface; returns how many there are. sn_nets_lock is held. */
static unsigned int sn_ports_of(const struct net_device *dev, void (*each)(struct sn_port *port))
{
	unsigned int i, count = 0;
	struct sn_net *n;

	list_for_each_entry(n, &sn_nets, all)
	{
		for (i = 0; i < n->n_ports; i++) {
			if (n->ports[i].dev != dev)
				continue;
			each(&n->ports[i]);
			count++;
		}
	}
	return count;
}

/* RTNL is held, for everybody: one grace period, however many ports there are. */
static int sn_net_event(struct notifier_block *block, unsigned long event, void *ptr)
{
	const struct net_device *dev = netdev_notifier_info_to_dev(ptr);

	if (event != NETDEV_UNREGISTER)
		return NOTIFY_DONE;
	mutex_lock(&sn_nets_lock);
	if (sn_ports_of(dev, sn_port_deafen)) {
		synchronize_net();
		sn_ports_of(dev, sn_port_unplug);
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
