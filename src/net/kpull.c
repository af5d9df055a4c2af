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
};

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

void sn_kpull_close(struct sn_kpull *k)
{
	struct sennit_net_close c = {.id = k->id};

	if (k->ring)
		munmap(k->ring, sizeof(*k->ring));
	if (k->id && ioctl(k->kmod->fd, SENNIT_IOC_NET_CLOSE, &c))
		sn_debug("kernel module: closing a network endpoint failed");
	if (k->event >= 0)
		close(k->event);
	if (k->kmod)
		sn_kmod_release(k->kmod);
	free(k);
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

/* The kernel's number for the link, made at the first fetch. 0: none. */
static uint32_t link_of(struct sn_kpull *k, struct sn_net_link *l)
{
	const uint8_t *path = l->way[0].path.bytes; /* the Ethernet header and the peer's port: packet.c */
	struct sennit_net_link a = {
		.net = k->id, .rx_link = (uint32_t)l->session, .tx_link = (uint32_t)l->peer_session};

	if (l->kernel)
		return l->kernel;
	memcpy(a.to, path, 6);
	memcpy(a.to + 6, path + 14, 2);
	memcpy(a.rx_key, l->rx_key.k, sizeof(a.rx_key));
	memcpy(a.tx_key, l->tx_key.k, sizeof(a.tx_key));
	if (ioctl(k->kmod->fd, SENNIT_IOC_NET_LINK, &a) == 0)
		l->kernel = a.id;
	explicit_bzero(&a, sizeof(a));
	return l->kernel;
}

bool sn_kpull_start(struct sn_kpull *k, struct sn_net_link *l, struct sn_net_pull *p, unsigned lane)
{
	struct iovec parts[SN_IOV_MAX];
	uint64_t covered;

	if (p->len < KPULL_MIN || l->way[0].state != SN_WAY_UP || !link_of(k, l))
		return false;
	uint32_t count = sn_iov_slice(p->iov, p->iov_count, 0, p->len, parts, SN_IOV_MAX, &covered);
	if (covered < p->len || sn_kmod_region_get(k->kmod, parts, count, SN_KMOD_WRITE, &p->region) != SN_OK)
		return false;
	struct sennit_net_pull a = {.net = k->id,
				    .link = l->kernel,
				    .region = p->region->id,
				    .rdv = p->rdv,
				    .end = p->len,
				    .cookie = p->number,
				    .sack = l->rx_sack,
				    .ack = l->rx_next,
				    .seq = l->tx_next,
				    .frag = sn_net_lane_frag(p, lane),
				    .lane = (uint8_t)lane};
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

int sn_kpull_poll(struct sn_kpull *k, struct sn_net *n)
{
	uint64_t unused;
	int events = 0;

	while (k->tail != __atomic_load_n(&k->ring->head, __ATOMIC_ACQUIRE)) {
		struct sennit_net_done d = k->ring->done[k->tail++ % SENNIT_NET_RING];
		struct sn_net_pull *p = sn_net_table_get(&n->pull_table, (uint32_t)d.cookie);
		if (p == NULL || p->kernel != d.number) /* cancelled meanwhile */
			continue;
		leave(k, p);
		sn_net_stream_ack(p->link, d.ack, d.sack);
		sn_net_heard(p->link);
		sn_net_pull_kernel_done(p, d.status == 0 ? p->len : SN_MIN_OF(d.done, p->len));
		events++;
	}
	if (events && read(k->event, &unused, sizeof(unused)) < 0)
		sn_debug("kernel module: no event");
	return events;
}
