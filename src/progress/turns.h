/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More processes than cores: does a yield hand the core to the others at all?
 *
 * It does not where they are in another scheduling group than this process: sched_yield() looks only among the tasks of its
 * own group. Launchers that give each rank a session of its own (MPICH's Hydra) make such groups where the kernel groups
 * by session (sched_autogroup), and containers do. Then ranks that yield to each other each keep the core until the end
 * of their time slice, some milliseconds, and a collective of four ranks takes a hundred times as long as it should. There
 * who waits must sleep at once, and be woken.
 *
 * It shows in the waiting itself: many yields, none of them a switch, and then the core is lost for much longer than
 * a yield takes. Three times within a short while, and this process sleeps instead of yielding, for a second, and for
 * twice as long each time that it is seen again. But somebody who is alone on his core sees the same when a stranger's
 * job takes it. So it counts only where some peer is not known to be in the same group, which each says on its bell page.
 */
#ifndef SN_TURNS_H
#define SN_TURNS_H

#include <stdbool.h>
#include <stdint.h>

/* Do yields hand nothing on? Budget: one load. */
bool sn_turns_in_vain(uint64_t now);
/* Have they ever? For who does not know what time it is. Budget: one load. */
bool sn_turns_doubted(void);
/*
 * This thread has yielded, and looked at the clock (ns) before and after. Budget: nothing if that took no longer than
 * a yield.
 */
void sn_turns_yielded(uint64_t before, uint64_t after);
/* The same with what the kernel counts: switches of this thread so far. */
void sn_turns_judge(uint64_t now, uint64_t switches);

#endif
