/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The board: posted receives of one endpoint, in shared memory, that senders on the node may claim and write into while
 * the receiver computes. With the ring, where announced sends stand, it makes whoever arrives later do the copy (LiMIC's
 * rule) without either side waiting for the other to call the library.
 *
 * MPI's order. A sender may take a receive for a message only if no earlier message of its own could take it, and no
 * earlier receive could take the message:
 *  - The sender claims only when the receiver has consumed everything the sender ever put into the ring (head == tail,
 *    nothing queued). A consumed message was matched with the earliest fitting receive, or searched in vain before it
 *    was queued as unexpected; a receive posted later looks among the unexpected first. So none of them can want a receive
 *    that still stands here. The receiver publishes its head only after that matching.
 *  - The receiver exposes a receive only if no earlier open receive that is *not* on the board overlaps with it. Of those
 *    on the board the sender takes the one with the smallest serial number. It reads the board's count (`shown`) first
 *    and ignores younger entries: while it looked at one slot, an older receive may have appeared in a slot it had
 *    already passed, but only together with a serial above that count.
 *  - The receiver takes an entry off by compare-and-swap before it matches it with a message from elsewhere; if a sender
 *    was faster the receive is gone, and matching goes on with the next. The word that is swapped holds the serial
 *    number, so a slot used again in the meantime is never mistaken (and fields read before the swap were stable).
 * tests/model/board.pml checks exactly this, with planted errors.
 *
 * Death. A claim names the claimant, so when a peer dies the receives that it had claimed end with an error.
 *
 * Trust. The receiver believes nothing but the words' states; what was posted it keeps itself. The sender writes where the
 * board says, into the receiver's own memory, which is the receiver's to lose.
 */
#ifndef SN_LOCAL_BOARD_H
#define SN_LOCAL_BOARD_H

#include "base/base.h"

#define SN_BOARD_SLOTS 64
#define SN_BOARD_SEGS  4
#define SN_BOARD_BYTES 12288

enum { SN_BOARD_FREE = 0, SN_BOARD_POSTED = 1, SN_BOARD_CLAIMED = 2 };

/* serial (40) | claimant's tag (22) | state (2) */
#define SN_BOARD_SERIAL_SHIFT 24
#define SN_BOARD_TAG_MASK     0xfffffcu
#define SN_BOARD_AGES	      (UINT64_MAX >> SN_BOARD_SERIAL_SHIFT) /* serials are compared modulo this plus 1 */

struct sn_board_slot {
	_Atomic uint64_t word;	   /*  0 */
	_Atomic uint64_t claimant; /*  8 the claimant's endpoint id, stored just after the claim */
	uint64_t source;	   /* 16 endpoint id, 0: any */
	uint64_t bits, mask;	   /* 24, 32 */
	uint64_t room;		   /* 40 */
	uint32_t seg_count;	   /* 48 */
	uint32_t heap; /* 52 generation of the owner's shareable heap that holds it all; 0: none */
	struct {
		uint64_t at, len;
	} seg[SN_BOARD_SEGS]; /* 56 */
	uint64_t region;      /* 120 the kernel module's name for the memory, 0: none */
};
_Static_assert(sizeof(struct sn_board_slot) == 128, "two lines a slot");

struct sn_board {
	_Atomic uint64_t
		used; /*  0 slots that are not free: a hint that keeps an empty board one line long */
	_Atomic uint64_t shown;	 /*  8 serials below this are on the board, or never will be */
	_Atomic uint32_t module; /* 16 its owner uses the kernel module */
	_Atomic uint32_t cpu;	 /* 20 the processor on which he last took part in a large copy, plus 1 */
	uint8_t pad[40];
	struct sn_board_slot slot[SN_BOARD_SLOTS];
	/* on a line of their own: the owner writes them whenever he looks for messages, peers read them seldom */
	_Atomic uint64_t polls; /* grows while the owner is inside the library */
	uint8_t pad2[56];
};
_Static_assert(sizeof(struct sn_board) <= SN_BOARD_BYTES, "fits the mapping");

static inline void sn_board_tick(struct sn_board *b)
{
	atomic_store_explicit(&b->polls, atomic_load_explicit(&b->polls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* ---- the receiver's side (one thread at a time: the endpoint's lock) ---- */

/* Expose a receive; the slot, or -1 if none is free or it has too many segments. Serials grow from call to call. */
int sn_board_post(struct sn_board *b, uint64_t serial, uint64_t source, uint64_t bits, uint64_t mask,
		  const struct iovec *iov, uint32_t count, uint64_t room, uint32_t heap, uint64_t region);
/* Take it off again: true, or false if a sender has claimed it. */
bool sn_board_take(struct sn_board *b, int slot, uint64_t serial);
/* Has this endpoint claimed it? */
bool sn_board_claimed_by(const struct sn_board *b, int slot, uint64_t serial, uint64_t id);
/* A claimed entry is finished. */
void sn_board_clear(struct sn_board *b, int slot);

/* ---- the sender's side ---- */

struct sn_board_claim {
	int slot;
	uint64_t serial, room, region;
	uint32_t seg_count, heap;
	struct iovec seg[SN_BOARD_SEGS]; /* addresses in the receiver */
	bool mapped,
		bypass; /* the claimant's: they are addresses here, in its heap; to be written past the cache */
};
/* Claim the oldest entry that a message with these bits from endpoint `id` may take. False: none. Budget: one line when
 * the board is empty; one locked instruction per claim. */
bool sn_board_claim(struct sn_board *b, uint64_t id, uint64_t bits, struct sn_board_claim *claim);

#endif
