/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The network in the kernel: what net.c (endpoints and calls), netport.c (interfaces), netpull.c (fetching), netlane.c
 * (the rails that bring it) and netwire.c (frames) share.
 *
 *   file -> endpoints -> ports, links (-> lanes), fetches -> region
 *
 * A port is one of our interfaces, a lane one of a peer's rails as it arrives here; src/net/net.h has the same words.
 *
 * An endpoint's lock guards its links, fetches, credit and ring; frames and timers take it in softirqs, calls with
 * bottom halves off. A fetch is counted: by the table of its endpoint until it ends, by its worker while that is
 * queued, and by each fragment that a DMA channel copies. It is over at once, whatever ends it; it ends, and its end is
 * told, when no fragment is flying any more. What holds a region is let go by a worker, for that may sleep.
 */
#ifndef SENNIT_NET_H
#define SENNIT_NET_H

#include "sennit_kmod.h"
#include "sennit_lanes.h"
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
#define SN_NET_PART	 12    /* pieces of a block at least, when several lanes divide a short body */
#define SN_MS		 1000000ull
#define SN_TRIES	 16 /* a block that brings nothing so often ends the fetch */

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
	__le16 frag;	/* 72 */
	__le16 more;	/* 74 */
	__le32 round;	/* 76 */
	u8 rail;	/* 80 */
	u8 reserved[3]; /* 81 */
	__le32 rate;	/* 84: KiB/s that this rail of the peer's has shown here */
} __packed;
static_assert(sizeof(struct sn_wire_head) == 40 && sizeof(struct sn_wire_data) == 56 &&
	      sizeof(struct sn_wire_pull) == 88);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define timer_delete_sync del_timer_sync
#endif

struct sn_net;
struct sn_pull;
struct sn_channel;

struct sn_port { /* an interface of an endpoint's */
	struct sn_net *net;
	struct packet_type packet;
	netdevice_tracker tracker;
	struct net_device *dev; /* NULL: it has gone */
	u32 mtu;
	u8 name[SN_PORT_BYTES]; /* frames for this port are ours */
	u64 credit, asked;	/* bytes under way to it: allowed, and asked for */
	u64 rate, rate_at;	/* the best that a lane has shown here of late */
};

struct sn_lane { /* a rail of a peer's */
	struct sn_link *link;
	u8 to[ETH_ALEN + SN_PORT_BYTES];
	u8 rail, port;		/* ours, in the header of PULL; index of the port by which that leaves */
	bool down;		/* nothing comes by it; others are asked instead, until retry_at */
	struct list_head asked; /* blocks, in the order of their rounds */
	struct timer_list timer;
	u64 asked_bytes, srtt, var, heard, cut_at, retry_at; /* ns */
	unsigned int backoff, retries;
	struct sn_lane_model model;
};

struct sn_link {
	struct sn_net *net;
	u32 id, rx_link, tx_link, round;
	u8 to[ETH_ALEN + SN_PORT_BYTES];
	siphash_key_t rx_key, tx_key;
	struct sn_lane lane[SENNIT_NET_PORTS]; /* by the peer's number */
	unsigned int flying;		       /* fragments with a DMA channel */
};

struct sn_pull_block {
	struct list_head node; /* lane->asked */
	struct sn_pull *pull;
	bool active, end_seen, fresh;
	u8 last, lane, port, moves;
	unsigned int later, tries;
	u32 round, bytes, frag;
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
	u32 ack, seq, number, rdv, room; /* room: bytes of a block */
	u8 lanes, n_lanes, deal;	 /* lanes: a bit for each that may be asked */
	bool wait;			 /* no lane takes a block of it now */
	u32 frag[SENNIT_NET_PORTS];
	u64 given[SENNIT_NET_PORTS], brought[SENNIT_NET_PORTS]; /* bytes */
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
	struct list_head all; /* of the module, for devices that go */
	bool ended;	      /* no port is added any more; under the list's lock, as ports are */
	unsigned int n_ports; /* never fewer */
	struct sn_port ports[SENNIT_NET_PORTS];
	struct eventfd_ctx *event;
	struct sennit_net_ring *ring;
	u32 head; /* the kernel's own: the ring is the program's to spoil */
	spinlock_t lock;
	struct xarray links; /* with the file's calls one at a time: calls */
	struct mutex calls;
	struct list_head pulls;
	u32 n_pulls, generation, turn;
	unsigned int several; /* fetches from more than one lane */
	struct sn_pull *table[SENNIT_NET_PULLS];
	wait_queue_head_t landed; /* fragments of a fetch or a link */
	struct sk_buff_head out;  /* frames to send when the lock is let go */
};

static_assert(sizeof(struct sennit_net_ring) <= 65536);

/* net.c */
void sn_net_free(struct kref *ref);

/* netport.c */
int sn_port_open(struct sn_net *n, u32 ifindex, u32 mtu, const u8 *name, u32 *index);
void sn_ports_close(struct sn_net *n);

/* netwire.c */
u64 sn_wire_mac(const siphash_key_t *key, const struct sn_wire_head *h);
u32 sn_wire_check(struct sk_buff *skb, unsigned int from, unsigned int to);
u32 sn_wire_check_of(const void *bytes, unsigned int len);

/* netlane.c; the endpoint's lock is held, but for sn_lane_timer */
void sn_lanes_init(struct sn_link *l);
void sn_lanes_take(struct sn_pull *p, const struct sennit_net_lane *lanes, unsigned int n);
void sn_lane_timer(struct timer_list *t);
void sn_lane_asked(struct sn_lane *lane);
void sn_lane_emptied(struct sn_lane *lane);
void sn_lane_news(struct sn_pull *p, struct sn_pull_block *b, unsigned int from, u32 round, u32 len);
void sn_credit_cut(struct sn_lane *lane);
bool sn_net_has_room(const struct sn_net *n);
int sn_lane_for(const struct sn_pull *p);
bool sn_lane_steal(struct sn_pull *p);
void sn_pull_unplugged(struct sn_pull *p, unsigned int port);
static inline struct sn_lane *sn_block_lane(const struct sn_pull_block *b)
{
	return &b->pull->link->lane[b->lane];
}

/* netpull.c; the endpoint's lock is held, but for sn_net_flush and sn_pull_free */
void sn_pull_schedule(struct sn_net *n);
void sn_pull_end(struct sn_pull *p, int status, bool report);
u64 sn_pull_done(const struct sn_pull *p);
void sn_pull_shape(struct sn_pull *p);
void sn_block_again(struct sn_pull_block *b);
bool sn_block_move(struct sn_pull_block *b, unsigned int lane);
bool sn_pull_frame(struct sn_net *n, struct sk_buff *skb, const struct sn_wire_data *d, u32 len);
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
