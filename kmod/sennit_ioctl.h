/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * What programs may ask of /dev/sennit. Fixed-width fields only, so 32-bit programs use the same structs.
 *
 * One open file belongs to the process (the address space) that opened it: a fork's child or a process that was
 * handed the descriptor gets EPERM and opens its own. Reserved fields and unknown flags must be zero (EINVAL).
 * Calls return 0 or -1 with errno; fields marked "out" are written in both cases.
 *
 * Errors of calls that move data: EFAULT (memory is not there, or not with the needed access), ENOENT (no such region
 * or handle, or it is another user's: the two are not told apart), EACCES (the region was declared without this
 * access), ESRCH (its owner has gone), ENOMEM (nothing may be pinned under RLIMIT_MEMLOCK or the system's limit).
 */
#ifndef SENNIT_IOCTL_H
#define SENNIT_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define SENNIT_DEVICE	  "/dev/sennit"
#define SENNIT_ABI	  1
#define SENNIT_MAX_SEGS	  1024	       /* segments in one vector */
#define SENNIT_MAX_LENGTH (1ULL << 44) /* bytes in one region */

struct sennit_seg {
	__u64 addr;
	__u64 len;
};

/* What the module is and has. All out. */
struct sennit_info {
	__u32 abi;
	__u32 max_segs;
	__u32 max_regions; /* per open file */
	__u32 dma_channels;
	__u64 dma_threshold; /* bytes from which a copy goes to a DMA channel */
	__u64 pinned_pages;  /* now, by everybody */
	__u64 pin_limit;     /* pages, for everybody together */
	__u32 n_counters;
	__u32 reserved;
};

/* Region access that its owner grants, to itself as to others. */
#define SENNIT_READ  1u
#define SENNIT_WRITE 2u

/*
 * Names a vector of the caller's memory. Nothing is pinned and nothing is checked but the shape: memory that is not
 * there shows when it is used. id is for the owner; handle may be given to processes of the same user.
 */
struct sennit_declare {
	__u64 segs; /* struct sennit_seg[nsegs] */
	__u32 nsegs;
	__u32 access;
	__u32 id;	/* out */
	__u32 reserved; /* 0 */
	__u64 handle;	/* out */
	__u64 length;	/* out: bytes in all segments */
};

struct sennit_undeclare {
	__u32 id;
	__u32 reserved; /* 0 */
};

/* Starts pinning a part of one's region in the background, so that it overlaps the rendezvous. Returns at once. */
struct sennit_prepare {
	__u32 id;
	__u32 reserved; /* 0 */
	__u64 offset;
	__u64 len;
};

enum sennit_end_kind {
	SENNIT_END_REGION = 1, /* ref: the caller's own region id */
	SENNIT_END_HANDLE = 2, /* ref: a region's handle, anybody's */
	SENNIT_END_MEMORY = 3, /* ref: address of struct sennit_seg[nsegs], memory of the caller */
};

struct sennit_end {
	__u32 kind;
	__u32 nsegs; /* MEMORY only, else 0 */
	__u64 ref;
	__u64 offset; /* bytes into the region or vector */
};

/* One copy, done when the call returns. At most one end may be MEMORY. EINTR: the caller is being killed. */
struct sennit_copy {
	struct sennit_end dst;
	struct sennit_end src;
	__u64 len;
	__u64 copied; /* out: bytes moved, counted from the start */
};

/*
 * A copy whose work callers share: up to 16 at a time, in any processes of the user, run it (EBUSY beyond), and each takes
 * the next piece until none is left. Both ends are regions. The transfer lives until it is closed by whoever opened it, or
 * that file is closed.
 */
struct sennit_share_open {
	struct sennit_end dst;
	struct sennit_end src;
	__u64 len;
	__u64 handle; /* out */
};

#define SENNIT_SHARE_WAIT 1u /* return only when every piece is done, also those that others took */
#define SENNIT_SHARE_SOME                                                                                    \
	2u /* return after 16 pieces (4 MiB), so that a caller can look after other things */

struct sennit_share_run {
	__u64 handle;
	__u64 mine;  /* out: bytes that this call moved */
	__u64 done;  /* out: bytes that all have moved so far */
	__s32 error; /* out: 0, or why the transfer failed (negative errno) */
	__u32 flags;
};

/* Returns when no runner is copying any more. Only for whoever opened it. EINTR: killed; it is closed all the same. */
struct sennit_share_close {
	__u64 handle;
};

/* LiMIC's interface: messages matched in the kernel by source, tag and context within a job. */
#define SENNIT_ANY (-1)

/*
 * job 0 founds a job and puts its handle there; a handle joins it. One job and rank for one open file (EISCONN).
 * EADDRINUSE: somebody has this rank, or had it.
 */
struct sennit_join {
	__u64 job; /* in, out */
	__u32 rank;
	__u32 reserved; /* 0 */
};

/*
 * Starts a send to rank `peer`, or a receive from it (receives: SENNIT_ANY for peer and tag as wildcards). ENOTCONN: not
 * joined. EAGAIN: too many requests of this file are open, or too many of the job wait to be matched.
 */
struct sennit_post {
	__s32 peer;
	__s32 tag;
	__u32 context;
	__u32 nsegs;
	__u64 segs; /* the message's memory, to be left alone until the request is complete; nsegs 0 is empty */
	__u64 request; /* out */
};

#define SENNIT_FOREVER (~0ULL)

/*
 * Completes a request and forgets it. EAGAIN: not complete within timeout_us (0 asks once). A completed request has
 * error 0, EMSGSIZE (the receive was shorter: len bytes were kept), EPIPE (the peer has gone), ECANCELED, or a copy's
 * error, negative.
 */
struct sennit_wait {
	__u64 request;
	__u64 timeout_us;
	__s32 source;	/* out: the receive's sender */
	__s32 tag;	/* out */
	__u64 len;	/* out: bytes moved */
	__s32 error;	/* out */
	__u32 reserved; /* 0 */
};

/* Is a message waiting that this receive would take? */
struct sennit_probe {
	__s32 peer; /* in: or SENNIT_ANY; out: the sender */
	__s32 tag;  /* in: or SENNIT_ANY; out: the message's */
	__u32 context;
	__u32 found; /* out */
	__u64 len;   /* out */
};

/* Takes back a request that nothing has matched; it then completes with ECANCELED. EBUSY: it was matched already. */
struct sennit_cancel {
	__u64 request;
};

/*
 * The network in the kernel: fetches of rendezvous data over raw Ethernet (docs/protocol.md), from PULL to the last DATA,
 * without any process. Everything else about a link stays with the program, which has a packet socket for it. Needs
 * CAP_NET_RAW in the network namespace, as that socket does.
 */
#define SENNIT_NETS	   16	       /* endpoints of one file */
#define SENNIT_NET_LINKS   4096	       /* of one endpoint */
#define SENNIT_NET_PULLS   256	       /* under way at an endpoint */
#define SENNIT_NET_RING	   512	       /* entries of the ring of completions */
#define SENNIT_NET_PORTS   8	       /* of one endpoint; and rails of one peer */
#define SENNIT_PULL_NUMBER 0x80000000u /* numbers of fetches by the kernel have this bit, others must not */

/* mmap of the device at offset id * 64 KiB maps the endpoint's struct sennit_net_ring. */
struct sennit_net_open {
	__u32 ifindex;
	__u32 mtu;	/* of a frame, without the 16 bytes before it */
	__u8 port[2];	/* frames for this port are the endpoint's */
	__u8 zero[2];	/* 0 */
	__s32 event;	/* an eventfd to signal at completions, or -1 */
	__u32 id;	/* out */
	__u32 reserved; /* 0 */
};

struct sennit_net_close {
	__u32 id;
	__u32 reserved; /* 0 */
};

/*
 * Another interface and port for the endpoint, besides the one that it was opened with (which has index 0). ENOSPC:
 * too many.
 */
struct sennit_net_port {
	__u32 net;
	__u32 ifindex;
	__u32 mtu;
	__u8 port[2];
	__u8 zero[2];	/* 0 */
	__u32 index;	/* out */
	__u32 reserved; /* 0 */
};

struct sennit_net_link {
	__u32 net;
	__u32 id;	 /* out */
	__u8 to[8];	 /* MAC address and port of the peer: where PULL goes, if the fetch does not say */
	__u64 rx_key[2]; /* link keys: of what comes, and of what goes */
	__u64 tx_key[2];
	__u32 rx_link; /* the header's link number: in what comes, and in what goes */
	__u32 tx_link;
};

/* Ends its fetches as SENNIT_IOC_NET_CANCEL does. */
struct sennit_net_unlink {
	__u32 net;
	__u32 link;
};

/* How the blocks of a body are dealt out to the peer's rails: as src/sched's strategies split, equal and fifo do. */
enum sennit_net_deal {
	SENNIT_DEAL_SPLIT = 0, /* by what each has shown it can do, so that all finish together */
	SENNIT_DEAL_EQUAL = 1,
	SENNIT_DEAL_FASTEST = 2,
};

/* A rail of the peer's, as it arrives here. The kernel learns its rate and latency; these are for the first time. */
struct sennit_net_lane {
	__u8 to[8];	/* where PULL goes */
	__u8 lane;	/* the peer's number for it, below SENNIT_NET_PORTS */
	__u8 rail;	/* ours, in the header of PULL */
	__u8 port;	/* index of the endpoint's port by which PULL leaves */
	__u8 zero[5];	/* 0 */
	__u32 frag;	/* bytes of a piece that it carries */
	__u32 reserved; /* 0 */
	__u64 rate;	/* bytes a second; 0: not known */
	__u64 latency;	/* ns */
};

/*
 * Starts a fetch of bytes [start, end) of a body into an own region, whose first byte is the body's. ENOSPC: too many.
 * With n_lanes, from so many rails of the peer's (and frag, rail and lane are 0); without, from the one that these name, by
 * port 0 and the link's address.
 */
struct sennit_net_pull {
	__u32 net;
	__u32 link;
	__u32 region;
	__u32 rdv;
	__u64 start;
	__u64 end;
	__u64 cookie; /* comes back with the completion */
	__u64 sack;   /* sack, ack and seq: for the headers of the PULL frames */
	__u32 ack;
	__u32 seq;
	__u32 frag;
	__u32 number; /* out */
	__u8 rail;    /* ours, in the header of PULL */
	__u8 lane;    /* the peer's, by which DATA is to come */
	__u16 zero;   /* 0 */
	__u8 n_lanes;
	__u8 deal;	/* enum sennit_net_deal */
	__u16 reserved; /* 0 */
	struct sennit_net_lane lanes[SENNIT_NET_PORTS];
};

/* Ends a fetch: nothing is written any more when the call returns. ENOENT: it had ended by itself. */
struct sennit_net_cancel {
	__u32 net;
	__u32 number;
	__u64 done; /* out: bytes of the body that are there, without a gap, from its start */
};

struct sennit_net_done {
	__u64 cookie;
	__u64 done; /* as above */
	__u64 sack; /* the newest acknowledgement that came with DATA */
	__u32 ack;
	__u32 number;
	__s32 status; /* 0, or a negative errno: the rest must be fetched another way */
	__u32 reserved;
	struct {
		__u32 kib;   /* that the peer's rail of this number brought of it */
		__u32 kib_s; /* at this rate, as the kernel knows it; 0: not measured */
	} lane[SENNIT_NET_PORTS];
};

struct sennit_net_ring {
	__u32 head;   /* written by the kernel: completions so far */
	__u32 frames; /* DATA frames that were placed so far: a sign of life */
	__u32 reserved[14];
	struct sennit_net_done done[SENNIT_NET_RING]; /* completion i is at i % SENNIT_NET_RING */
};

/* Copies up to n counters, in the order of enum sennit_counter. */
struct sennit_counters {
	__u64 values; /* __u64[n] */
	__u32 n;
	__u32 reserved; /* 0 */
};

/* Append only. */
enum sennit_counter {
	SENNIT_C_REGIONS_DECLARED,
	SENNIT_C_PAGES_PINNED,
	SENNIT_C_PAGES_UNPINNED,
	SENNIT_C_PIN_CHUNKS,
	SENNIT_C_PIN_HITS,    /* memory was pinned already */
	SENNIT_C_PIN_RETRIES, /* the memory moved while it was being pinned */
	SENNIT_C_PIN_FAILURES,
	SENNIT_C_OVERLAP_MISSES, /* a copy waited for a chunk that another was pinning */
	SENNIT_C_INVALIDATIONS,	 /* pinned chunks dropped because the memory changed */
	SENNIT_C_EVICTIONS,	 /* pinned chunks dropped for a limit */
	SENNIT_C_SHRINKS,	 /* pinned chunks dropped for the system's memory pressure */
	SENNIT_C_COPIES,
	SENNIT_C_COPY_BYTES,
	SENNIT_C_COPY_REDONE, /* pieces copied again because the memory changed meanwhile */
	SENNIT_C_COPY_ERRORS,
	SENNIT_C_SHARED_PIECES,
	SENNIT_C_MESSAGES_SENT,
	SENNIT_C_MESSAGES_EXPECTED,   /* the receive was there first */
	SENNIT_C_MESSAGES_UNEXPECTED, /* the send was there first */
	SENNIT_C_DMA_COPIES,
	SENNIT_C_DMA_BYTES,
	SENNIT_C_DMA_BLOCKS,
	SENNIT_C_DMA_SLEEPS,
	SENNIT_C_DMA_ERRORS,   /* blocks that a channel failed and the CPU copied */
	SENNIT_C_DMA_TIMEOUTS, /* channels given up */
	SENNIT_C_DENIED,       /* handles refused for another user's credentials */
	SENNIT_C_NET_PULLS,    /* fetches started */
	SENNIT_C_NET_ENDED,    /* and ended whole */
	SENNIT_C_NET_GIVEN_UP, /* or left to the program */
	SENNIT_C_NET_FRAMES,   /* DATA frames placed */
	SENNIT_C_NET_BYTES,
	SENNIT_C_NET_MISSES, /* DATA frames dropped because their pages were not pinned (yet): overlap misses */
	SENNIT_C_NET_DROPS,  /* DATA frames dropped: not authentic, damaged, out of range */
	SENNIT_C_NET_STRAYS, /* DATA frames for no fetch, or a piece that was there */
	SENNIT_C_NET_ASKED,  /* PULL frames sent */
	SENNIT_C_NET_AGAIN,  /* of these: for what had been asked for before */
	SENNIT_C_NET_DMA_BYTES,
	SENNIT_C_COUNT
};

/* Their names, for an array of SENNIT_C_COUNT. */
#define SENNIT_COUNTER_NAMES                                                                                 \
	{                                                                                                    \
		[SENNIT_C_REGIONS_DECLARED] = "regions_declared", [SENNIT_C_PAGES_PINNED] = "pages_pinned",  \
		[SENNIT_C_PAGES_UNPINNED] = "pages_unpinned", [SENNIT_C_PIN_CHUNKS] = "pin_chunks",          \
		[SENNIT_C_PIN_HITS] = "pin_hits", [SENNIT_C_PIN_RETRIES] = "pin_retries",                    \
		[SENNIT_C_PIN_FAILURES] = "pin_failures", [SENNIT_C_OVERLAP_MISSES] = "overlap_misses",      \
		[SENNIT_C_INVALIDATIONS] = "invalidations", [SENNIT_C_EVICTIONS] = "evictions",              \
		[SENNIT_C_SHRINKS] = "shrinks", [SENNIT_C_COPIES] = "copies",                                \
		[SENNIT_C_COPY_BYTES] = "copy_bytes", [SENNIT_C_COPY_REDONE] = "copy_redone",                \
		[SENNIT_C_COPY_ERRORS] = "copy_errors", [SENNIT_C_SHARED_PIECES] = "shared_pieces",          \
		[SENNIT_C_MESSAGES_SENT] = "messages_sent",                                                  \
		[SENNIT_C_MESSAGES_EXPECTED] = "messages_expected",                                          \
		[SENNIT_C_MESSAGES_UNEXPECTED] = "messages_unexpected",                                      \
		[SENNIT_C_DMA_COPIES] = "dma_copies", [SENNIT_C_DMA_BYTES] = "dma_bytes",                    \
		[SENNIT_C_DMA_BLOCKS] = "dma_blocks", [SENNIT_C_DMA_SLEEPS] = "dma_sleeps",                  \
		[SENNIT_C_DMA_ERRORS] = "dma_errors", [SENNIT_C_DMA_TIMEOUTS] = "dma_timeouts",              \
		[SENNIT_C_DENIED] = "denied", [SENNIT_C_NET_PULLS] = "net_pulls",                            \
		[SENNIT_C_NET_ENDED] = "net_ended", [SENNIT_C_NET_GIVEN_UP] = "net_given_up",                \
		[SENNIT_C_NET_FRAMES] = "net_frames", [SENNIT_C_NET_BYTES] = "net_bytes",                    \
		[SENNIT_C_NET_MISSES] = "net_misses", [SENNIT_C_NET_DROPS] = "net_drops",                    \
		[SENNIT_C_NET_STRAYS] = "net_strays", [SENNIT_C_NET_ASKED] = "net_asked",                    \
		[SENNIT_C_NET_AGAIN] = "net_again", [SENNIT_C_NET_DMA_BYTES] = "net_dma_bytes",              \
	}

#define SENNIT_IOC_INFO	       _IOR(0xE5, 0x00, struct sennit_info)
#define SENNIT_IOC_DECLARE     _IOWR(0xE5, 0x01, struct sennit_declare)
#define SENNIT_IOC_UNDECLARE   _IOW(0xE5, 0x02, struct sennit_undeclare)
#define SENNIT_IOC_PREPARE     _IOW(0xE5, 0x03, struct sennit_prepare)
#define SENNIT_IOC_COPY	       _IOWR(0xE5, 0x04, struct sennit_copy)
#define SENNIT_IOC_SHARE_OPEN  _IOWR(0xE5, 0x05, struct sennit_share_open)
#define SENNIT_IOC_SHARE_RUN   _IOWR(0xE5, 0x06, struct sennit_share_run)
#define SENNIT_IOC_SHARE_CLOSE _IOW(0xE5, 0x07, struct sennit_share_close)
#define SENNIT_IOC_JOIN	       _IOWR(0xE5, 0x08, struct sennit_join)
#define SENNIT_IOC_SEND	       _IOWR(0xE5, 0x09, struct sennit_post)
#define SENNIT_IOC_RECV	       _IOWR(0xE5, 0x0a, struct sennit_post)
#define SENNIT_IOC_WAIT	       _IOWR(0xE5, 0x0b, struct sennit_wait)
#define SENNIT_IOC_PROBE       _IOWR(0xE5, 0x0c, struct sennit_probe)
#define SENNIT_IOC_CANCEL      _IOW(0xE5, 0x0d, struct sennit_cancel)
#define SENNIT_IOC_COUNTERS    _IOW(0xE5, 0x0e, struct sennit_counters)
#define SENNIT_IOC_NET_OPEN    _IOWR(0xE5, 0x0f, struct sennit_net_open)
#define SENNIT_IOC_NET_CLOSE   _IOW(0xE5, 0x10, struct sennit_net_close)
#define SENNIT_IOC_NET_LINK    _IOWR(0xE5, 0x11, struct sennit_net_link)
#define SENNIT_IOC_NET_UNLINK  _IOW(0xE5, 0x12, struct sennit_net_unlink)
#define SENNIT_IOC_NET_PULL    _IOWR(0xE5, 0x13, struct sennit_net_pull)
#define SENNIT_IOC_NET_CANCEL  _IOWR(0xE5, 0x14, struct sennit_net_cancel)
#define SENNIT_IOC_NET_PORT    _IOWR(0xE5, 0x15, struct sennit_net_port)

#endif
