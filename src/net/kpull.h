/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetches handed to the kernel module (docs/kmod.md), for Ethernet ports where it is loaded: the data come in softirqs, by
 * all rails of the peer, whether this process runs or not. What the kernel does not take, or gives up, pull.c does.
 *
 * Budget: one system call for a fetch, none to look whether one has ended, and one when some have.
 */
#ifndef SN_NET_KPULL_H
#define SN_NET_KPULL_H

#include <stdbool.h>
#include <stdint.h>

struct sn_kpull;
struct sn_net;
struct sn_net_link;
struct sn_net_pull;

/* NULL: no module, or it does not want to. */
struct sn_kpull *sn_kpull_open(unsigned ifindex, const uint8_t port[2], uint32_t mtu);
void sn_kpull_close(struct sn_kpull *k);
void sn_kpull_in_child(struct sn_kpull *k); /* after fork: closes what is the parent's */
int sn_kpull_fd(const struct sn_kpull *k);  /* polls readable when a fetch has ended */
/* One for all of the engine's ports of which the kernel can fetch; NULL: there is none. */
struct sn_kpull *sn_kpull_gather(struct sn_net *n);
/* Have the kernel fetch all of p, by those lanes of the link that are up. False: it does not. */
bool sn_kpull_start(struct sn_kpull *k, struct sn_net_link *l, struct sn_net_pull *p);
/* The kernel writes nothing for it any more when this returns. */
void sn_kpull_cancel(struct sn_kpull *k, struct sn_net_pull *p);
void sn_kpull_unlink(struct sn_kpull *k, struct sn_net_link *l);
/* Report what has ended; returns how many. */
int sn_kpull_poll(struct sn_kpull *k, struct sn_net *n);

#endif
