/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/kpull.h"
#include "base/conf.h"
#include "base/log.h"
#include "copy/kmod.h"
#include "net/net.h"
#include "sennit_ioctl.h"
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define KPULL_MIN (64u << 10) /* shorter ones are there before the kernel has pinned their memory */

enum { COPY_AUTO = 0, COPY_KMOD = 5 }; /* values of the setting "copy" */

struct sn_kpull {
	struct sn_kmod *kmod;
	struct sennit_net_ring *ring;
	int event;
	uint32_t id, tail;
	uint64_t unread;	      /* completions taken of which the event has not been read */
	struct sennit_net_port first; /* what it was opened with */
	int port[SN_NET_RAILS]; /* the kernel's index for each of the engine's ports; -1: not the kernel's */
};
_Static_assert(SN_NET_RAILS <= SENNIT_NET_PORTS, "the kernel knows so many rails");

struct sn_kpull *sn_kpull_open(unsigned ifindex, const uint8_t port[2], uint32_t mtu)
{
	int64_t copy = sn_conf_num(SN_CONF_COPY);
	struct sn_kpull *k = copy == COPY_AUTO || copy == COPY_KMOD ? calloc(1, sizeof(*k)) : NULL;
	if (k == NULL)
		return NULL;
	k->event = -1;
	k->kmod = sn_kmod_acquire();
	if (k->kmod == NULL)
		goto fail;
	k->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct sennit_net_open o = {
		.ifindex = ifindex, .mtu = mtu, .port = {port[0], port[1]}, .event = k->event};
	if (k->event < 0 || ioctl(k->kmod->fd, SENNIT_IOC_NET_OPEN, &o))
		goto fail;
	k->id = o.id;
	k->first = (struct sennit_net_port){.ifindex = ifindex, .mtu = mtu, .port = {port[0], port[1]}};
	k->ring = mmap(NULL, sizeof(*k->ring), PROT_READ, MAP_SHARED, k->kmod->fd, (off_t)k->id << 16);
	if (k->ring != MAP_FAILED) {
		sn_info("long messages from the network are fetched by the kernel module");
		return k;
	}
	k->ring = NULL;
fail:
	sn_fail_forget(); /* without it nothing is missing */
	sn_kpull_close(k);
	return NULL;
}

static void close_endpoint(struct sn_kpull *k)
{
	struct sennit_net_close c = {.id = k->id};

	if (k->ring)
		munmap(k->ring, sizeof(*k->ring));
	k->ring = NULL;
	if (k->id && ioctl(k->kmod->fd, SENNIT_IOC_NET_CLOSE, &c))
		sn_debug("kernel module: closing a network endpoint failed");
	k->id = 0;
}

void sn_kpull_close(struct sn_kpull *k)
{
	close_endpoint(k);
	if (k->event >= 0)
		close(k->event);
	if (k->kmod)
		sn_kmod_release(k->kmod);
	free(k);
}

struct sn_kpull *sn_kpull_gather(struct sn_net *n)
{
	struct sn_kpull *all = NULL;

	for (unsigned i = 0; i < n->cfg.ports; i++) {
		struct sn_net_port *p = &n->port[i];
		struct sn_kpull *k = p->driver->kernel ? p->driver->kernel(p->drv) : NULL;
		int index = -1;
		if (k && all == NULL) {
			all = k;
			index = 0;
			for (unsigned before = 0; before < i; before++)
				k->port[before] = -1;
		} else if (k) { /* what is open for this port alone is not used */
			struct sennit_net_port a = k->first;
			a.net = all->id;
			close_endpoint(k);
			if (ioctl(all->kmod->fd, SENNIT_IOC_NET_PORT, &a) == 0)
				index = (int)a.index;
		}
		if (all)
			all->port[i] = index;
	}
	return all;
}

void sn_kpull_in_child(struct sn_kpull *k)
{
	close(k->event);
	sn_kmod_in_child(); /* after the local rail's it does nothing */
}

int sn_kpull_fd(const struct sn_kpull *k)
{
	return k->event;
}

/* The kernel's number for the link, made at the first fetch, which says where its PULL frames go. 0: none. */
static uint32_t link_of(struct sn_kpull *k, struct sn_net_link *l)
{
	struct sennit_net_link a = {
		.net = k->id, .rx_link = (uint32_t)l->session, .tx_link = (uint32_t)l->peer_session};

	if (l->kernel)
		return l->kernel;
	memcpy(a.rx_key, l->rx_key.k, sizeof(a.rx_key));
	memcpy(a.tx_key, l->tx_key.k, sizeof(a.tx_key));
	if (ioctl(k->kmod->fd, SENNIT_IOC_NET_LINK, &a) == 0)
		l->kernel = a.id;
	explicit_bzero(&a, sizeof(a));
	return l->kernel;
}

/*
 * The peer's rails that are up, as the kernel is to know them; returns how many. 0: none, or one arrives at a port that is
 * not the kernel's, and then user space spreads the body over all of them.
 */
static unsigned lanes_of(const struct sn_kpull *k, const struct sn_net_pull *p,
			 struct sennit_net_lane lanes[SENNIT_NET_PORTS])
{
	const struct sn_net_link *l = p->link;
	unsigned n = 0;

	for (unsigned i = 0; i < SN_NET_RAILS; i++) {
		const struct sn_net_lane *lane = &l->lane[i];
		const struct sn_net_way *way = &l->way[lane->port];
		if (!lane->known || lane->down || way->state != SN_WAY_UP)
			continue;
		if (k->port[lane->port] < 0)
			return 0;
		struct sennit_net_lane *a = &lanes[n++];
		*a = (struct sennit_net_lane){.lane = (uint8_t)i,
					      .rail = lane->port,
					      .port = (uint8_t)k->port[lane->port],
					      .frag = sn_net_lane_frag(p, i),
					      .rate = sn_model_rate_of(&lane->model, p->len, l->net->now),
					      .latency = lane->model.latency};
		memcpy(a->to, way->path.bytes, 6); /* the Ethernet header and the peer's port: packet.c */
		memcpy(a->to + 6, way->path.bytes + 14, 2);
	}
	return n;
}

/* The strategy's way of spreading a body, as the kernel calls it. -1: it has none like it. */
static int deal_of(const struct sn_strategy *s)
{
	if (s->block == sn_strategy_split.block)
		return SENNIT_DEAL_SPLIT;
	if (s->block == sn_strategy_equal.block)
		return SENNIT_DEAL_EQUAL;
	return s->block == sn_strategy_fifo.block ? SENNIT_DEAL_FASTEST : -1;
}

bool sn_kpull_start(struct sn_kpull *k, struct sn_net_link *l, struct sn_net_pull *p)
{
	struct sennit_net_pull a = {.net = k->id,
				    .rdv = p->rdv,
				    .end = p->len,
				    .cookie = p->number,
				    .sack = l->rx_sack,
				    .ack = l->rx_next,
				    .seq = l->tx_next};
	int deal = deal_of(&l->net->strategy);
	struct iovec parts[SN_IOV_MAX];
	uint64_t covered;

	if (p->len < KPULL_MIN || deal < 0 || sn_net_lane_trial(p) >= 0) /* user space tries a rail */
		return false;
	a.deal = (uint8_t)deal;
	a.n_lanes = (uint8_t)lanes_of(k, p, a.lanes);
	a.link = a.n_lanes ? link_of(k, l) : 0;
	if (a.link == 0)
		return false;
	uint32_t count = sn_iov_slice(p->iov, p->iov_count, 0, p->len, parts, SN_IOV_MAX, &covered);
	if (covered < p->len || sn_kmod_region_get(k->kmod, parts, count, SN_KMOD_WRITE, &p->region) != SN_OK)
		return false;
	a.region = p->region->id;
	if (ioctl(k->kmod->fd, SENNIT_IOC_NET_PULL, &a)) {
		sn_kmod_region_put(k->kmod, p->region);
		p->region = NULL;
		return false;
	}
	p->kernel = a.number;
	l->net->counts[SN_NC_KERNEL_PULLS]++;
	return true;
}

static void leave(struct sn_kpull *k, struct sn_net_pull *p)
{
	sn_kmod_region_put(k->kmod, p->region);
	p->region = NULL;
	p->kernel = 0;
}

void sn_kpull_cancel(struct sn_kpull *k, struct sn_net_pull *p)
{
	struct sennit_net_cancel c = {.net = k->id, .number = p->kernel};

	if (ioctl(k->kmod->fd, SENNIT_IOC_NET_CANCEL, &c))
		sn_debug("kernel module: a fetch had ended by itself");
	leave(k, p);
}

void sn_kpull_unlink(struct sn_kpull *k, struct sn_net_link *l)
{
	struct sennit_net_unlink u = {.net = k->id, .link = l->kernel};

	if (l->kernel && ioctl(k->kmod->fd, SENNIT_IOC_NET_UNLINK, &u))
		sn_debug("kernel module: a link had gone");
	l->kernel = 0;
}

/* What the fetch has shown of the peer's rails. */
static void learn(struct sn_net_pull *p, const struct sennit_net_done *d)
{
	struct sn_net_link *l = p->link;

	for (unsigned i = 0; i < SN_NET_RAILS; i++) {
		struct sn_net_lane *lane = &l->lane[i];
		if (d->lane[i].kib == 0 || !lane->known)
			continue;
		p->given[i] = (uint64_t)d->lane[i].kib << 10;
		lane->bytes += p->given[i];
		lane->heard_at = l->way[lane->port].heard_at = l->net->now;
		if (d->lane[i].kib_s) /* so many bytes, in a second */
			sn_model_rate(&lane->model, p->len, (uint64_t)d->lane[i].kib_s << 10, 1000000000);
	}
}

/*
 * The event is read before the ring: so what is signalled and not taken here keeps it readable. The kernel writes to
 * the ring first, so a signal may be later than this look; the next one reads it, or it would wake for nothing who
 * sleeps on it, again and again.
 */
static void read_event(struct sn_kpull *k)
{
	uint64_t signals;

	if (read(k->event, &signals, sizeof(signals)) == sizeof(signals))
		k->unread -= signals;
}

int sn_kpull_poll(struct sn_kpull *k, struct sn_net *n)
{
	int events = 0;

	if (k->unread || k->tail != __atomic_load_n(&k->ring->head, __ATOMIC_ACQUIRE))
		read_event(k);
	while (k->tail != __atomic_load_n(&k->ring->head, __ATOMIC_ACQUIRE)) {
		struct sennit_net_done d = k->ring->done[k->tail++ % SENNIT_NET_RING];
		struct sn_net_pull *p = sn_net_table_get(&n->pull_table, (uint32_t)d.cookie);
		k->unread++;
		if (p == NULL || p->kernel != d.number) /* cancelled meanwhile */
			continue;
		leave(k, p);
		learn(p, &d);
		sn_net_stream_ack(p->link, d.ack, d.sack);
		sn_net_heard(p->link);
		sn_net_pull_kernel_done(p, d.status == 0 ? p->len : SN_MIN_OF(d.done, p->len));
		events++;
	}
	return events;
}
