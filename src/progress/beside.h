/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More processes than cores, and whoever shares this one's core computes: nobody else waits there.
 *
 * Then a yield helps nobody who would send something. It gives the core to one who keeps it until his slice is over,
 * or the next tick of the timer: 0.1 to 4 ms, and as long on the other side, so that each message of a ping-pong
 * finds its receiver away. Who sleeps and is woken has the core at once, as he has had less than his share of it. And
 * as long as both sides have their cores, which is a slice or two, an answer takes a microsecond. So there who waits
 * looks on first, for as long as one does who has a core of his own (setting spin), and then sleeps at once. What he
 * looks in vain comes off his own share of the core; so after it some waits go without.
 *
 * It is told by three yields within a short while after which the core was away for longer than a round of others who
 * wait takes, while nobody is known to wait on this core (sn_spread_alone()); a single one may be a daemon. And for a
 * while only: by then one yield more tells whether it is still so.
 *
 * Ping-pong of 8 bytes beside ranks that compute, old and new alternated, medians of seven, us, Xeon, two cores: 4
 * ranks over Open MPI 4 139 -> 1.1, over MPICH 5 122 -> 1.1, 8 ranks 524 -> 49 and 400 -> 2.6. Collectives and
 * exchanges, where all wait, level. To yield between the looks and the sleep, for 0.1 to 1 ms, made 8 ranks slower
 * (44 -> 96 to 392).
 */
#ifndef SN_BESIDE_H
#define SN_BESIDE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * This thread has yielded, and looked at the clock (ns) before and after. Budget: a comparison and a store if it did
 * not lose the core.
 */
void sn_beside_yielded(uint64_t before, uint64_t after);
/* Has it lost it so lately? For who does not know what time it is. Budget: one load. */
bool sn_beside_lately(void);
/* Does this thread wait beside such as compute, now? */
bool sn_beside(uint64_t now);
/* A wait begins there: is it to look on first? And did that find something? */
bool sn_beside_looks(void);
void sn_beside_looked(bool found);

#endif
