/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A packet socket's ring that the kernel fills (TPACKET_V2): a look is at one word of shared memory, and frames are
 * read where the kernel put them.
 */
#ifndef SN_NET_RING_H
#define SN_NET_RING_H

#include "net/driver.h"

struct sn_ring {
	uint8_t *base;
	size_t len;
	uint32_t frame, per_block, block, count, at;
	uint32_t held; /* slots handed out by the last receive */
	uint64_t odd;
};

/* For frames up to so long, in `bytes` of memory. Negative sn_error. */
int sn_ring_open(struct sn_ring *r, int fd, uint32_t mtu, uint32_t bytes);
void sn_ring_close(struct sn_ring *r); /* also one that is zero */
bool sn_ring_glance(const struct sn_ring *r);
/* As the driver's receive. */
unsigned sn_ring_receive(struct sn_ring *r, struct sn_net_in *frames, unsigned max);

#endif
