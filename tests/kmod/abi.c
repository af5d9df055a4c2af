// SPDX-License-Identifier: BSD-3-Clause
/* The device's structs, as 64-bit and as 32-bit programs see them: no padding, and the same for both. Never run. */
#include "sennit_ioctl.h"
#include <stddef.h>

/* The struct is as long as that, and its last field ends there. */
#define ENDS(name, last, size)                                                                               \
	_Static_assert(sizeof(struct name) == (size), #name);                                                \
	_Static_assert(offsetof(struct name, last) + sizeof(((struct name *)0)->last) == (size), #name)

ENDS(sennit_seg, len, 16);
ENDS(sennit_info, reserved, 48);
ENDS(sennit_declare, length, 40);
ENDS(sennit_undeclare, reserved, 8);
ENDS(sennit_prepare, len, 24);
ENDS(sennit_end, offset, 24);
ENDS(sennit_copy, copied, 64);
ENDS(sennit_share_open, handle, 64);
ENDS(sennit_share_run, flags, 32);
ENDS(sennit_share_close, handle, 8);
ENDS(sennit_join, reserved, 16);
ENDS(sennit_post, request, 32);
ENDS(sennit_wait, reserved, 40);
ENDS(sennit_probe, len, 24);
ENDS(sennit_cancel, request, 8);
ENDS(sennit_net_open, reserved, 24);
ENDS(sennit_net_close, reserved, 8);
ENDS(sennit_net_link, tx_link, 56);
ENDS(sennit_net_unlink, link, 8);
ENDS(sennit_net_port, reserved, 24);
ENDS(sennit_net_lane, latency, 40);
ENDS(sennit_net_pull, lanes, 392);
ENDS(sennit_net_cancel, done, 16);
ENDS(sennit_net_done, lane, 104);
ENDS(sennit_net_ring, done, 64 + 104 * SENNIT_NET_RING);
ENDS(sennit_counters, reserved, 16);
_Static_assert(offsetof(struct sennit_net_link, rx_key) == 16 &&
		       offsetof(struct sennit_net_link, rx_link) == 48,
	       "link");
_Static_assert(offsetof(struct sennit_net_pull, start) == 16 && offsetof(struct sennit_net_pull, ack) == 48 &&
		       offsetof(struct sennit_net_pull, lanes) == 72,
	       "pull");
_Static_assert(offsetof(struct sennit_wait, source) == 16 && offsetof(struct sennit_wait, len) == 24, "wait");
_Static_assert(offsetof(struct sennit_info, dma_threshold) == 16 && offsetof(struct sennit_join, rank) == 8,
	       "info");
