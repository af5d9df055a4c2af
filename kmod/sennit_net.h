/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The network in the kernel: what net.c (endpoints and calls), netpull.c (fetching) and netwire.c (frames) share.
 *
 *   file -> endpoints -> links, fetches -> region
 *
 * An endpoint's lock guards its links, fetches, credit and ring; frames and timers take it in softirqs, calls with
 * bottom halves off. A fetch is counted: by the table of its endpoint until it ends, by its worker while that is
 * queued, and by each fragment that a DMA channel copies. It is over at once, whatever ends it; it ends, and its end is
 * told, when no fragment is flying any more. What holds a region is let go by a worker, for that may sleep.
 */
#ifndef SENNIT_NET_H
#define SENNIT_NET_H

#include "sennit_kmod.h"
#include <linux/etherdevice.h>
#include <linux/eventfd.h>
#include <linux/if_arp.h>
#include <linux/netdevice.h>
#include <linux/siphash.h>
#include <linux/skbuff.h>
#include <linux/timer.h>

#define SN_ETHERTYPE	 0x88B6
#define SN_PORT_BYTES	 2 /* between the Ethernet header and the frame */
#define SN_WIRE_VERSION	 1
#define SN_WIRE_PULL	 6
#define SN_WIRE_DATA	 7
#define SN_WIRE_PIECES	 64
#define SN_WIRE_FRAG_MIN 256
#define SN_BLOCK_ASKED	 65000 /* bytes of a block, with headers */
#define SN_NET_BLOCKS	 16    /* of one fetch under way */

struct sn_wire_head {
	u8 version;   /*  0 */
	u8 type;      /*  1 */
	__le16 len;   /*  2 */
	__le32 link;  /*  4 */
	__le64 mac;   /*  8 */
	__le32 seq;   /* 16 */
	__le32 ack;   /* 20 */
	__le64 sack;  /* 24 */
	__le32 check; /* 32 */
	__le16 flags; /* 36 */
	u8 rail;      /* 38 */
	u8 reserved;  /* 39 */
} __packed;

struct sn_wire_data {
	struct sn_wire_head h;
	__le32 pull;   /* 40 */
	__le32 round;  /* 44 */
	__le64 offset; /* 48 */
} __packed;

struct sn_wire_pull {
	struct sn_wire_head h;
	__le32 rdv;	/* 40 */
	__le32 pull;	/* 44 */
	__le64 offset;	/* 48 */
	__le64 end;	/* 56 */
	__le64 want;	/* 64 */
	__le32 frag;	/* 72 */
	__le32 round;	/* 76 */
	u8 rail;	/* 80 */
	u8 reserved[7]; /* 81 */
} __packed;
static_assert(sizeof(struct sn_wire_head) == 40 && sizeof(struct sn_wire_data) == 56 &&
	      sizeof(struct sn_wire_pull) == 88);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define timer_delete_sync del_timer_sync
#endif

struct sn_net;
struct sn_pull;
struct sn_channel;

struct sn_link {
	struct sn_net *net;
	struct list_head node;
	u32 id, rx_link, tx_link, round;
	u8 to[ETH_ALEN + SN_PORT_BYTES];
	siphash_key_t rx_key, tx_key;
	struct list_head asked; /* blocks, in the order of their rounds */
	struct timer_list timer;
	u64 srtt, var, heard, cut_at; /* ns */
	unsigned int backoff;
	unsigned int flying; /* fragments with a DMA channel */
};

struct sn_pull_block {
	struct list_head node; /* link->asked */
	struct sn_pull *pull;
	bool active, end_seen, fresh;
	u8 last;
	unsigned int later, tries;
	u32 round, bytes;
	u64 index, missing, asked_at;
	u64 flying; /* pieces that came and are being copied */
};

struct sn_pull {
	struct kref ref;
	struct sn_net *net;
	struct sn_link *link;
	struct list_head node; /* net->pulls, oldest first; none when it is over */
	struct sn_end end;
	struct sn_channel *channel; /* NULL: the CPU copies */
	struct work_struct pin, release;
	u64 pin_at, pin_to; /* what the worker has still to pin */
	u64 cookie, sack;
	u32 ack, seq, number, rdv, frag, pieces;
	u8 rail, lane; /* ours, by which PULL leaves; the peer's, by which DATA is to come */
	u64 start, len, left, blocks, next_block;
	unsigned int flying;
	bool over, report;
	int status;
	u64 done;
	struct sn_pull_block block[SN_NET_BLOCKS];
};

struct sn_net {
	struct kref ref; /* the file's, and each fetch's */
	struct sn_ctx *ctx;
	struct packet_type packet;
	netdevice_tracker tracker;
	struct net_device *dev; /* NULL: it has gone */
	struct list_head all;	/* of the module, for devices that go */
	u32 id, mtu;
	u8 port[SN_PORT_BYTES];
	struct eventfd_ctx *event;
	struct sennit_net_ring *ring;
	u32 head; /* the kernel's own: the ring is the program's to spoil */
	spinlock_t lock;
	struct xarray links; /* with the file's calls one at a time: calls */
	struct mutex calls;
	struct list_head pulls;
	u32 n_pulls, generation, turn;
	struct sn_pull *table[SENNIT_NET_PULLS];
	u64 credit, asked;
	wait_queue_head_t landed; /* fragments of a fetch or a link */
	struct sk_buff_head out;  /* frames to send when the lock is let go */
};

/* net.c */
void sn_net_free(struct kref *ref);

/* netwire.c */
u64 sn_wire_mac(const siphash_key_t *key, const struct sn_wire_head *h);
u32 sn_wire_check(struct sk_buff *skb, unsigned int from, unsigned int to);
u32 sn_wire_check_of(const void *bytes, unsigned int len);

/* netpull.c; the endpoint's lock is held, but for sn_net_flush, sn_pull_timer and sn_pull_free */
void sn_pull_schedule(struct sn_net *n);
void sn_pull_end(struct sn_pull *p, int status, bool report);
u64 sn_pull_done(const struct sn_pull *p);
void sn_pull_shape(struct sn_pull *p);
bool sn_pull_frame(struct sn_net *n, struct sk_buff *skb, const struct sn_wire_data *d, u32 len);
void sn_pull_timer(struct timer_list *t);
void sn_pull_pin_work(struct work_struct *work);
void sn_pull_release_work(struct work_struct *work);
void sn_pull_free(struct kref *ref);
void sn_net_flush(struct sn_net *n);
void sn_pull_flies(struct sn_pull *p, struct sn_pull_block *b, unsigned int index);
void sn_pull_landed(struct sn_pull *p, struct sn_pull_block *b, unsigned int index, u32 len, int status);

/* netdma.c */
bool sn_netdma_place(struct sn_pull *p, struct sn_pull_block *b, unsigned int index, struct sk_buff *skb,
		     unsigned int at, u64 offset, u32 len);
struct sn_channel *sn_netdma_channel(u64 len);
void sn_netdma_unpick(struct sn_channel *c);

#endif
