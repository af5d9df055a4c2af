/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who waits has been without his core for much longer than a yield takes. A single time may be chance: a virtual
 * machine that stood still, a daemon; several within a short while are not.
 */
#ifndef SN_LOST_H
#define SN_LOST_H

#include <stdbool.h>
#include <stdint.h>

#define SN_LOST_NS    500000u /* a yield takes a microsecond, a round of them some */
#define SN_LOST_TIMES 3

struct sn_lost {	/* a thread's own */
	uint64_t first; /* of the times that count */
	unsigned times;
};

/* Once more, now (ns). True: as often as that within so long; then it is counted anew. */
static inline bool sn_lost_often(struct sn_lost *l, uint64_t now, uint64_t within_ns)
{
	if (!l->times || now - l->first > within_ns) {
		l->first = now;
		l->times = 0;
	}
	if (++l->times < SN_LOST_TIMES)
		return false;
	l->times = 0;
	return true;
}

#endif
