/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire format of the network rail: docs/protocol.md says what each field means, this is how it lies in memory.
 * Everything is little endian. Frames may lie at any address, so the structs are packed and fields are read through
 * le16toh and friends. The readers check every length before they look; what they hand out points into the frame.
 */
#ifndef SN_NET_WIRE_H
#define SN_NET_WIRE_H

#include "base/base.h"
#include "core/rail.h"
#include <endian.h>

#define SN_WIRE_VERSION	  1
#define SN_WIRE_WINDOW	  64 /* MSG frames in flight at most: what ack and sack can name, less one */
#define SN_WIRE_PIECES	  64 /* pieces of a block, at most */
#define SN_WIRE_LEN_MAX	  65535
#define SN_WIRE_EAGER_MAX 65536 /* longest body that may come in FIRST and MORE */
#define SN_WIRE_SLICE	  1024
#define SN_WIRE_BASE_MTU                                                                                     \
	1232 /* frames of this size get through everywhere: IPv6's 1280 less its and UDP's header */
#define SN_WIRE_FRAG_MIN    256
#define SN_WIRE_RAILS	    8		 /* rails of one endpoint */
#define SN_WIRE_BLOCK	    65000	 /* bytes of a block with headers: what one cut-up datagram carries */
#define SN_WIRE_PUSHES	    512		 /* pieces that may be pushed for one rendezvous */
#define SN_WIRE_PULL_KERNEL (1ULL << 31) /* in the numbers of fetches by a kernel, and in no others */
#define SN_WIRE_LAZY	    0x80	 /* flags of RDV: nobody waits for DONE */
#define SN_WIRE_WORD_MAX    30		 /* log2 of the most that may be pushed */

#define SN_WIRE_PROBE_JOINED 1 /* `joined` of PROBE and PROBED: it is */
#define SN_WIRE_PROBE_BODY   2 /* alone, as a body is */
#define SN_WIRE_PROBE_QUICK  3 /* by the short cut */

enum sn_wire_type {
	SN_WIRE_HELLO = 1,
	SN_WIRE_WELCOME = 2,
	SN_WIRE_BYE = 3,
	SN_WIRE_ACK = 4,
	SN_WIRE_MSG = 5,
	SN_WIRE_PULL = 6,
	SN_WIRE_DATA = 7,
	SN_WIRE_PROBE = 8,
	SN_WIRE_PROBED = 9,
	SN_WIRE_SLICE_OF = 10,
	SN_WIRE_PUSH = 11,
	SN_WIRE_TYPES = 12,
};

enum { SN_WIRE_F_ANSWER = 1, SN_WIRE_F_TWICE = 2 }; /* sn_wire_head.flags */

#define SN_PACKED __attribute__((packed))

struct SN_PACKED sn_wire_head {
	uint8_t version;  /*  0 */
	uint8_t type;	  /*  1 */
	uint16_t len;	  /*  2 */
	uint32_t link;	  /*  4 */
	uint64_t mac;	  /*  8 */
	uint32_t seq;	  /* 16 */
	uint32_t ack;	  /* 20 */
	uint64_t sack;	  /* 24 */
	uint32_t check;	  /* 32 */
	uint16_t flags;	  /* 36 */
	uint8_t rail;	  /* 38 */
	uint8_t reserved; /* 39 */
};
_Static_assert(sizeof(struct sn_wire_head) == 40, "frame header");
_Static_assert(offsetof(struct sn_wire_head, sack) == 24, "frame header");

struct SN_PACKED sn_wire_hello {
	struct sn_wire_head h;		  /*   0 */
	uint64_t session;		  /*  40 */
	uint64_t peer_session;		  /*  48 */
	uint64_t id;			  /*  56 */
	uint32_t mtu;			  /*  64 */
	uint16_t part_len;		  /*  68 */
	uint8_t part_type;		  /*  70 */
	uint8_t addr_len;		  /*  71 */
	struct SN_PACKED sn_wire_secret { /*  72: masked on the wire */
		uint8_t key[12];	  /*  72 */
		uint8_t part[30];	  /*  84 */
		uint8_t push;		  /* 114 */
		uint8_t reserved;	  /* 115 */
		uint8_t addr[64];	  /* 116 */
	} secret;
};
_Static_assert(sizeof(struct sn_wire_hello) == 180, "HELLO");
_Static_assert(offsetof(struct sn_wire_hello, secret) == 72, "HELLO");
_Static_assert(offsetof(struct sn_wire_hello, secret.addr) == 116, "HELLO");
_Static_assert(SN_ADDR_MAX == sizeof(((struct sn_wire_secret *)0)->addr), "HELLO carries any address");

struct SN_PACKED sn_wire_bye {
	struct sn_wire_head h; /*  0 */
	int32_t status;	       /* 40 */
	uint32_t answer;       /* 44 */
};
_Static_assert(sizeof(struct sn_wire_bye) == 48, "BYE");

struct SN_PACKED sn_wire_pull {
	struct sn_wire_head h; /*  0 */
	uint32_t rdv;	       /* 40 */
	uint32_t pull;	       /* 44 */
	uint64_t offset;       /* 48 */
	uint64_t end;	       /* 56 */
	uint64_t want;	       /* 64 */
	uint16_t frag;	       /* 72 */
	uint16_t more;	       /* 74 */
	uint32_t round;	       /* 76 */
	uint8_t rail;	       /* 80 */
	uint8_t push;	       /* 81 */
	uint8_t tries;	       /* 82 */
	uint8_t silent;	       /* 83 */
	uint32_t rate;	       /* 84 */
};
_Static_assert(sizeof(struct sn_wire_pull) == 88, "PULL");

struct SN_PACKED sn_wire_data {
	struct sn_wire_head h; /*  0 */
	uint32_t pull;	       /* 40 */
	uint32_t round;	       /* 44 */
	uint64_t offset;       /* 48 */
};
_Static_assert(sizeof(struct sn_wire_data) == 56, "DATA");

struct SN_PACKED sn_wire_push {
	struct sn_wire_head h; /*  0 */
	uint32_t rdv;	       /* 40 */
	uint16_t frag;	       /* 44 */
	uint16_t count;	       /* 46 */
	uint64_t offset;       /* 48 */
};
_Static_assert(sizeof(struct sn_wire_push) == sizeof(struct sn_wire_data), "PUSH");

struct SN_PACKED sn_wire_probe {
	struct sn_wire_head h; /*  0 */
	uint32_t size;	       /* 40 */
	uint8_t rail;	       /* 44 */
	uint8_t train;	       /* 45 */
	uint8_t joined;	       /* 46 */
	uint8_t reserved;      /* 47 */
};
_Static_assert(sizeof(struct sn_wire_probe) == 48, "PROBE");

struct SN_PACKED sn_wire_slice {
	struct sn_wire_head h; /*  0 */
	uint32_t offset;       /* 40 */
	uint32_t total;	       /* 44 */
};
_Static_assert(sizeof(struct sn_wire_slice) == 48, "SLICE");

/* ---- records of a MSG frame ---- */
enum sn_wire_what {
	SN_REC_EAGER = 1,
	SN_REC_FIRST = 2,
	SN_REC_MORE = 3,
	SN_REC_RDV = 4,
	SN_REC_DONE = 5,
	SN_REC_PORTS = 6
};

struct SN_PACKED sn_wire_rec {
	uint8_t what;	    /*  0 */
	uint8_t kind;	    /*  1: DONE: the word on pushing */
	uint8_t flags;	    /*  2 */
	uint8_t imm_len;    /*  3 */
	uint32_t bytes;	    /*  4: body bytes; RDV, DONE: the rendezvous' number */
	uint64_t bits;	    /*  8: DONE: the status */
	uint64_t data;	    /* 16 */
	uint64_t len;	    /* 24: of the whole body */
	uint32_t frag;	    /* 32 */
	uint16_t push_frag; /* 36 */
	uint16_t push;	    /* 38 */
};
_Static_assert(sizeof(struct sn_wire_rec) == 40, "record");

/* A record, read. Pointers go into the frame. */
struct sn_rec {
	uint8_t what;
	struct sn_head head; /* .imm set; .len the whole body's */
	const uint8_t *body;
	uint32_t body_len;
	uint32_t rdv;
	uint32_t frag;
	uint16_t push_frag, push; /* RDV */
	uint8_t word;		  /* DONE */
	bool lazy;		  /* RDV */
	int64_t status;
};

enum { SN_WIRE_EAGER_HEAD = offsetof(struct sn_wire_rec, len) }; /* EAGER has nothing from there on */
/* Bytes of a record's head; 0 for an unknown one. */
uint32_t sn_wire_rec_head(uint8_t what);
/* Write a record without its body at dst (room checked by the caller): returns its length so far. */
uint32_t sn_wire_rec_put(uint8_t *dst, const struct sn_rec *rec);
/* The same for the commonest one: EAGER without immediate data. */
static inline uint32_t sn_wire_eager_put(uint8_t *dst, const struct sn_head *head, uint32_t body_len)
{
	const struct sn_wire_rec w = {
		.what = SN_REC_EAGER,
		.kind = head->kind,
		.flags = head->flags,
		.bytes = htole32(body_len),
		.bits = htole64(head->bits),
		.data = htole64(head->data),
	};

	memcpy(dst, &w, SN_WIRE_EAGER_HEAD);
	return SN_WIRE_EAGER_HEAD;
}
/* Read the record at *at and step over it: 1, 0 at the end, -1 if it makes no sense. */
int sn_wire_rec_next(const uint8_t **at, const uint8_t *end, struct sn_rec *rec);

/* ---- frames ---- */
/* Why a frame was dropped; counted under these names. */
enum sn_drop {
	SN_DROP_SHORT,	 /* shorter than its header or type needs, or than its len says */
	SN_DROP_LONG,	 /* longer than we said we receive */
	SN_DROP_VERSION, /* another version */
	SN_DROP_TYPE,	 /* unknown type */
	SN_DROP_LINK,	 /* no link with that number */
	SN_DROP_STATE,	 /* the link is not open */
	SN_DROP_MAC,	 /* not authentic */
	SN_DROP_CHECK,	 /* payload damaged */
	SN_DROP_HELLO,	 /* HELLO or WELCOME with impossible content */
	SN_DROP_STALE,	 /* HELLO or WELCOME of a session that is over */
	SN_DROP_REFUSED, /* the core did not take the peer */
	SN_DROP_AGAIN,	 /* MSG seen before */
	SN_DROP_WINDOW,	 /* MSG beyond the window */
	SN_DROP_RECORD,	 /* a record makes no sense: the peer is disconnected */
	SN_DROP_PULL,	 /* DATA for no fetch, or a piece that was not missing */
	SN_DROP_RANGE,	 /* PULL, DATA, PUSH, SLICE or PROBED outside its message, or of no rail */
	SN_DROP_RDV,	 /* PULL for no rendezvous */
	SN_DROP_BUSY,	 /* PULL beyond what we queue */
	SN_DROP_MEMORY,	 /* no memory */
	SN_DROP_PUSH,	 /* PUSH that nobody waits for, or for which there is no room */
	SN_DROP_COUNT
};
const char *sn_drop_name(enum sn_drop d); /* "net.drop_short" */

/*
 * Is this the start of a frame we can look at: long enough for its type, version, type, len within what arrived? Cuts
 * *len down to the frame's own length (padding off). 0, or negative with *why.
 */
int sn_wire_check(const uint8_t *frame, uint32_t *len, uint32_t longest, enum sn_drop *why);
/* Least length of a frame of this type, 0 if there is none such. */
uint32_t sn_wire_min(uint8_t type);
/* Pieces of this size in a block, as both ends of a PUSH count them. */
static inline uint32_t sn_wire_block(uint32_t frag)
{
	uint32_t pieces = SN_WIRE_BLOCK / (frag + (uint32_t)sizeof(struct sn_wire_data));

	return SN_MAX_OF(1u, SN_MIN_OF(pieces, (uint32_t)SN_WIRE_PIECES));
}
/* The bits of the first `count` of at most 64 pieces. */
static inline uint64_t sn_wire_all(uint64_t count)
{
	return count == 64 ? UINT64_MAX : (1ULL << count) - 1;
}
/* Start a header; seq, ack, sack, flags 0. */
void sn_wire_start(struct sn_wire_head *h, uint8_t type, uint32_t len, uint32_t link);
/* Is this HELLO's or WELCOME's content possible (after the mask is off)? */
bool sn_wire_hello_ok(const struct sn_wire_hello *h);

#endif
