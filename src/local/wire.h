/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What two processes on one node tell each other: once over a socket, then in shared memory. Both run on the same
 * machine, so byte order is the machine's; the magic would not match otherwise. Versions must be equal: a job uses one
 * version of sennit.
 *
 * The sender of a channel creates it and the receiver maps it too. Either may be hostile to the other within the limits
 * of one user, so every field is copied out once and checked before it is used, on both sides.
 */
#ifndef SN_LOCAL_WIRE_H
#define SN_LOCAL_WIRE_H

#include "copy/heap.h"
#include "local/job.h"
#include "sennit/sennit.h"
#include <stddef.h>
#include <stdint.h>

#define SN_LOCAL_MAGIC	 0x4c4e5331u /* "1SNL" */
#define SN_LOCAL_VERSION 7

/*
 * The handshake. Whoever connects sends a HELLO, with descriptors: its bell, its board, its heap if it has one, and the
 * channel of its direction. The other side answers with a WELCOME: likewise. The channel is missing from the WELCOME (no_channel) when a HELLO of the
 * other side's own, on a second connection, carries it: both connected at the same time. Since each direction's
 * channel belongs to its sender, nothing needs to be decided between the two.
 */
struct sn_local_hello {
	uint32_t magic;		   /*   0 */
	uint16_t version;	   /*   4 */
	uint8_t welcome;	   /*   6 1: an answer */
	uint8_t no_channel;	   /*   7 1: only the bell comes along */
	uint8_t key[12];	   /*   8 the receiver's key: the sender has its address */
	uint32_t pid;		   /*  20 as the sender sees itself, for logs */
	uint64_t cookie_at;	   /*  24 where the sender keeps its cookie: src/copy/probe.c */
	uint64_t cookie;	   /*  32 */
	uint32_t ring_bytes;	   /*  40 of the channel */
	uint32_t addr_len;	   /*  44 */
	uint8_t addr[SN_ADDR_MAX]; /* 48 the sender's whole address */
	struct sn_heap_span
		heap; /* 112 the sender's shareable heap, whose descriptor comes last; 0 bytes: it has none */
	uint32_t heap_generation; /* 152 */
	uint32_t zero;		  /* 156 */
};
_Static_assert(sizeof(struct sn_local_hello) == 160 && offsetof(struct sn_local_hello, addr) == 48,
	       "handshake layout");

/* ---- the channel ---------------------------------------------------------------------------------------------- */

#define SN_CELL	       64
#define SN_RING_OFFSET 4096 /* the ring starts on the second page */
#define SN_RING_BYTES_MIN                                                                                    \
	32768 /* an injected message, and a list of 256 segments, fit into a quarter of it */
#define SN_RING_BYTES_MAX (16u << 20)

#define SN_JOBS 16 /* shared copies under way in each direction; more go unshared */

#define SN_TRIES 24 /* what a sender tries, by sizes */

struct sn_chan {
	uint8_t unused0[64];
	_Atomic uint64_t head; /*  64 cells consumed so far; written by the receiver, lazily */
	/*
	 * 72 likewise: it keeps so much that nobody has posted for that long messages had better be announced; only a
	 * hint
	 */
	_Atomic uint32_t full;
	uint8_t unused1[52];
	/* 128 written by the sender: it has something queued, ring its bell when head moves */
	_Atomic uint32_t want_room;
	/* 132 written by the sender: its endpoint is closed, and with it ends every right to read, or write, memory that it
	 * named */
	_Atomic uint32_t closed;
	uint8_t unused2[56];
	/* 192 written by the sender: while it tries another way for its messages (way.c); only a hint */
	_Atomic uint8_t tries[SN_TRIES];
	/* 216 written by the sender, once: up to this length its messages do not look for a receive on the board */
	_Atomic uint32_t whole;
	uint8_t unused3[64 - SN_TRIES - 4];
	struct sn_job job[SN_JOBS]; /* 256 opened by the sender of this channel: job.h */
};
_Static_assert(offsetof(struct sn_chan, job) == 256 && sizeof(struct sn_chan) <= SN_RING_OFFSET,
	       "on the page before the ring");
_Static_assert(offsetof(struct sn_chan, head) == 64 && offsetof(struct sn_chan, full) == 72 &&
		       offsetof(struct sn_chan, want_room) == 128 && offsetof(struct sn_chan, tries) == 192 &&
		       offsetof(struct sn_chan, whole) == 216,
	       "one line each");

/*
 * A record is one or more contiguous cells. The first 24 bytes are its header, the payload follows and runs on through
 * the next cells without further headers.
 */
struct sn_cell {
	_Atomic uint32_t mark; /*  0 type (8) | flags (8) << 8 | cells (16) << 16; 0: nothing here yet */
	uint32_t len;	       /*  4 body bytes (24) | immediate bytes (8) << 24 */
	uint64_t bits;	       /*  8 */
	uint64_t data;	       /* 16 */
	uint8_t payload[40];   /* 24 */
};
_Static_assert(sizeof(struct sn_cell) == SN_CELL && offsetof(struct sn_cell, payload) == 24, "cell layout");

#define SN_REC_HEAD	  24
#define SN_REC_BODY_MAX	  ((1u << 24) - 1)
#define SN_REC_CELLS_MAX  65535u
#define SN_REC_SEEN_SHIFT 5

/* Type: what (high 4 bits) and, for messages, the core's kind (low 4 bits). Append only. */
enum sn_rec {
	SN_REC_MSG = 0x10, /* eager; payload: imm, body */
	SN_REC_RTS = 0x20, /* announces; payload: struct sn_rec_rts, imm, padding to 8, segments */
	SN_REC_FIN =
		0x30, /* to the sender of an RTS. bits: its number; data: status. It may reuse its buffer */
	SN_REC_CTS =
		0x40, /* to the sender of an RTS. bits: its number; data: the pull's number; payload: struct sn_rec_cts,
			       segments. The receiver cannot read: send */
	SN_REC_DATA = 0x50, /* bits: the pull's number; data: offset; payload: body */
	SN_REC_DONE =
		0x60, /* bits: the pull's number; data: status. The sender wrote everything, or had to give up */
	SN_REC_CLAIM = 0x80, /* a message written straight into a receive on the board (board.h). bits, data,
				flags: the message's; payload: struct sn_rec_claim */
	SN_REC_SHARE = 0x90, /* a message that is being written into a receive on the board, in a job that the
				receiver may share (job.h). bits, data, flags: the message's; payload: struct
				sn_rec_share, segments */
	SN_REC_COST = 0xa0, /* to a sender that asked for a stream. bits: length; data: what it took, in ns */
	SN_REC_KSHARE =
		0xb0, /* to the sender of an RTS. bits: its number; data: the kernel module's name for a copy
				 that both sides may run (kcopy.c) */
	SN_REC_PAD = 0x70, /* nothing, up to the end of the ring */
};

enum { /* flags; the low 4 bits of messages are the core's */
       SN_RECF_GUARD =
	       0x10, /* CTS, DATA: this message has met an unreadable page: copy with care on both sides */
       SN_RECF_PART =
	       0x10, /* MSG: a struct sn_rec_part comes before imm and body, which are still being written */
       SN_RECF_SEEN =
	       0xe0, /* MSG of several cells: how many cells its sender had consumed by then, modulo 8; only a hint */
       SN_RECF_SLOT = 0x10, /* RTS: the message has claimed the receive in rts.slot, but could not write it */
       SN_RECF_STREAM = 0x20, /* RTS: stream it, if there is no reason against it, and say what it took */
       SN_RECF_HEAP = 0x80,   /* RTS, SHARE, CTS: all segments lie in the shareable heap that was handed over.
			      CLAIM: the message was written by way of the receiver's */
       SN_RECF_WRITE = 0x20,  /* CTS: the segments are there, write if you can */
       SN_RECF_SHARE = 0x40,  /* CTS: the segments are there, and the receiver reads: share the job cts.job */
};

struct sn_rec_part { /* at the end of the record's first cell; imm and body follow on the next, a line of their own */
	uint8_t pad[36];
	_Atomic uint32_t filled; /* 36 bytes of the body that are there */
};
struct sn_rec_rts {
	uint64_t len;	    /*  0 of the whole body */
	uint64_t id;	    /*  8 the sender's number for it */
	uint32_t seg_count; /* 16 */
	uint32_t slot;	    /* 20 with SN_RECF_SLOT, else 0 */
	uint64_t region;    /* 24 the kernel module's name for the body, 0: none */
};
struct sn_rec_claim {
	uint64_t len;  /*  0 of the whole message; the receive got as much of it as there was room for */
	uint32_t slot; /*  8 */
	uint32_t zero; /* 12 */
};
struct sn_rec_cts {
	uint64_t offset;    /*  0 where to continue */
	uint64_t len;	    /*  8 where to stop: the receiver may want less than was announced */
	uint32_t seg_count; /* 16 */
	uint32_t job;	    /* 20 with SN_RECF_SHARE, else 0 */
};
struct sn_rec_share {
	uint64_t full_len;  /*  0 of the whole message */
	uint64_t len;	    /*  8 what is copied: less if the receive has less room */
	uint32_t slot;	    /* 16 on the receiver's board */
	uint32_t job;	    /* 20 in the sender's channel */
	uint32_t seg_count; /* 24 the sender's segments follow; they hold full_len bytes */
	uint32_t zero;	    /* 28 */
};
struct sn_rec_seg {
	uint64_t at, len;
};
_Static_assert(sizeof(struct sn_rec_rts) == 32 && sizeof(struct sn_rec_cts) == 24 &&
		       sizeof(struct sn_rec_seg) == 16 && sizeof(struct sn_rec_claim) == 16 &&
		       sizeof(struct sn_rec_share) == 32 &&
		       sizeof(struct sn_rec_part) == SN_CELL - SN_REC_HEAD,
	       "record layout");

/* The payload runs on past the first cell: not an access to the member, whose size would be wrong. */
static inline uint8_t *sn_cell_payload(struct sn_cell *cell)
{
	return (uint8_t *)cell + SN_REC_HEAD;
}

static inline uint32_t sn_rec_mark(unsigned type, unsigned flags, uint32_t cells)
{
	return type | flags << 8 | cells << 16;
}

#endif
