/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that travel as one packet, which the kernel (or the card) cuts up where it must, and where each of them is
 * read to: what the drivers have in common. No state.
 */
#ifndef SN_NET_JOIN_H
#define SN_NET_JOIN_H

#include "net/driver.h"

#define SN_JOIN_BYTES 65536				   /* longest packet */
#define SN_JOIN_IOVS  (SN_NET_BATCH * (2 + SN_NET_PIECES)) /* of a batch, less than the 1,024 of a call */
#define SN_JOIN_IN    (3 * SN_NET_BATCH + 1)		   /* pieces that a packet is read to, at most */

/*
 * How many of these frames, all to one place, go into one packet, and the length of its segments: equally long, only
 * the last may be shorter. A short frame before longer ones is padded, which costs less than a packet of its own (3
 * us); a frame says itself where it ends.
 */
unsigned sn_join_count(const struct sn_net_out *f, unsigned count, uint32_t *size);
/* The pieces of n frames in one packet; returns how many entries that takes. */
unsigned sn_join_out(struct iovec *iov, const struct sn_net_out *f, unsigned n, uint32_t size);
/*
 * The pieces to read a packet of frames of `size` into: a frame's head, and all of it if no place is known, lies in
 * `bytes` where it would lie anyway. Returns how many.
 */
unsigned sn_join_in(struct iovec *iov, uint8_t *bytes, uint32_t size, const struct sn_net_spot *spot,
		    unsigned placed);
/* The guess was wrong: all n bytes that were read so, in one piece. */
void sn_join_undo(uint8_t *bytes, uint32_t size, const struct sn_net_spot *spot, unsigned placed, size_t n);

#endif
