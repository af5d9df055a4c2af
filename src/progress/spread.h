/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More processes than cores: who waits sees to it that each core has as many of them as the others.
 *
 * The kernel places a process where it was woken and then moves it only if it has not run for half a millisecond. Ranks that
 * give their cores to each other run all the time, so what the start of a job has left (seven ranks on one core and one on
 * the other, or all on one) stays so for hundreds of milliseconds, and half of the machine turns in circles. So each
 * process writes on its bell page on which core it waits. When it finds two more awake ones on its own core than on
 * another, and it is among the last of them by number, it moves: it binds itself to the other core and gives the binding up
 * at once. From then on the kernel may move it as before.
 *
 * Counted are this process and the peers that it knows and that do not sleep. One with several threads that wait takes no
 * part: it has no core of its own.
 */
#ifndef SN_SPREAD_H
#define SN_SPREAD_H

#include "progress/bell.h"

/* A peer's bell was mapped, or is about to be unmapped. */
void sn_spread_see(struct sn_bell *bell);
void sn_spread_forget(struct sn_bell *bell);
void sn_spread_after_fork(void); /* in the child: bells are not mapped there */

/* Are all peers whose bells are mapped known to be in this process's scheduling group? */
bool sn_spread_one_group(void);

/*
 * How many peers may want a core of this thread's, as far as they have told; they are told of this thread's. -1:
 * several threads wait, which may be bound apart, or it is not known.
 */
int sn_spread_rivals(void);

/* Who waits in a crowd, at each step. Budget: one load, and every 2 ms a few system calls. */
void sn_spread_look(uint64_t now);

/*
 * Does no peer wait on this core, awake or asleep, as far as was known at the last such look? Each writes on its page
 * when it last waited, and one that has not done so for a tenth of a second computes. Budget: two loads.
 */
bool sn_spread_alone(void);

uint64_t sn_spread_moves(void); /* of this process, so far */

#endif
