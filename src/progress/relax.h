/* SPDX-License-Identifier: BSD-3-Clause */
/* What somebody who waits does between two looks: spin, yield, or nap on the bell. */
#ifndef SN_RELAX_H
#define SN_RELAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So long, in ns, may a network be silent before it wakes sleepers by itself: whoever waits for it sleeps only after that. */
#define SN_RELAX_FAR_ARM (150 * 1000ULL)

/*
 * One step of waiting, after a look that found nothing. *idle is the caller's, 0 at the first step and again after
 * anything came. poll(arg) looks again; true if it found something. A nap takes at most max_nap_us and ends when a peer
 * rings the bell; max_nap_us 0 never naps.
 */
bool sn_relax_step(uint64_t *idle, unsigned max_nap_us, int (*poll)(void *arg), void *arg);

/*
 * Likewise for somebody who polls and may do other things between two looks: he naps only if it shows in the rhythm of
 * his calls that he does nothing else.
 */
void sn_relax_polled(uint64_t *idle, unsigned max_nap_us, int (*poll)(void *arg), void *arg);

/* Of somebody whose wait begins anew though nothing has come: how long he has slept in it says nothing. */
void sn_relax_interrupted(void);

/*
 * Of somebody who waits in a crowd for what may come by ways that ring no bell, too, where he looks between two
 * calls: he gives the core away once, unless he has done so himself (yielded).
 */
void sn_relax_turn(bool yielded);

/*
 * Likewise for who looks at memory of his own, where no bell rings: poll() is called until it finds something (true),
 * or until it is time to sleep.
 */
bool sn_relax_awake(int (*poll)(void *arg), void *arg);

/* What was done so far in this process. */
void sn_relax_counters(void (*fn)(void *arg, const char *name, uint64_t value), void *arg);

/* How many local peers of the busiest endpoint of this process may want its cores: with itself, or what else the launcher has
 * started here, more than its cores means not to spin. Who waits looks again, every 50 ms, how many cores there are. */
void sn_relax_crowd(unsigned peers);
bool sn_relax_crowded(void);
/*
 * The threads beside the application's may run on so many cores: with as many processes as that one of them takes its core
 * from an application, unless that waits. Not in a crowd.
 */
void sn_relax_threads(unsigned cores);
bool sn_relax_full(void);
/* Some answers come from other hosts (true), or no more; calls add up. */
void sn_relax_far(bool far);
/*
 * Of somebody who has looked for one for a few us: he gives the core away before each look, for 50 us. True: poll
 * found something.
 */
bool sn_relax_far_step(int (*poll)(void *arg), void *arg);
/*
 * These have come, time and again, when the core had been given to somebody, who passes them on: so it is given away
 * at once.
 */
bool sn_relax_far_turns(void);
/* What that means, in words: "3 processes for 2 cores: who waits yields, ...". */
void sn_relax_describe(unsigned peers, char *out, size_t room);

#endif
