/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes from another host may have to pass somebody who waits for the core of him who waits for it: a network in
 * user space, ranks in other containers, the kernel's own threads. Then it comes right after a yield that gave the
 * core away for a moment, and not otherwise. Where that was so several times, the core had better be given away from
 * the beginning. Who keeps it for longer is no such one.
 */
#ifndef SN_BRINGER_H
#define SN_BRINGER_H

#include <stdbool.h>
#include <stdint.h>

/* A yield has taken so many ns, and the look after it has found what came from another host, or nothing. */
void sn_bringer_seen(uint64_t away, bool found);
/* Is it brought so? Budget: one load. */
bool sn_bringer_sure(void);

#endif
