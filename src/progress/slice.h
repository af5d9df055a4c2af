/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More processes than cores, and some compute: who waits gets the core back soon.
 *
 * Who yields to one that computes, or sleeps and is woken, has the core again when the other's time slice is over, or
 * at the timer's next tick: 1 to 4 ms. A thread may ask for a shorter slice (sched_setattr(2), from Linux 6.12 on,
 * earlier ones take no notice of it; no privilege is needed): its share of the core stays the same, but comes in
 * smaller pieces, so that it takes the core from one that computes as soon as it is woken, and a yield costs it 0.1
 * ms of that share in place of the usual 1.4 to 3.
 *
 * It is not asked for always: among ranks that all exchange messages each turn then goes to who has had least of the
 * core in place of to the next one (16 ranks on two cores, exchange with six neighbours 64 KiB 1.35 times the time,
 * alltoall of 4 KiB 1.2). So a thread asks once it has lost the core three times within two seconds, by yields or
 * sleeps, and takes it back when it has spent 20 ms with yields that did not lose it, or waits where there is a core
 * for each. What it starts meanwhile has the short slice as well, which the kernel copies: another thread, or
 * program, until it waits here itself. One that only computes keeps it, and is switched some hundred times a second
 * more often where it shares its core.
 *
 * errno is not kept.
 */
#ifndef SN_SLICE_H
#define SN_SLICE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * This thread has yielded, and looked at the clock (ns) before and after. Budget: two comparisons if it did not lose
 * the core.
 */
void sn_slice_yielded(uint64_t before, uint64_t after);
/*
 * It has lost the core, or sleeps now, and whoever computes meanwhile has it. Budget: some comparisons; each third
 * time, if it is refused, a system call.
 */
void sn_slice_lost(uint64_t now);
/* Has this thread a short slice? Then it is to look at the clock before and after each yield. */
bool sn_slice_short(void);
/* It has the usual one from now on. Budget: a load, and two system calls if it was short. */
void sn_slice_usual(void);
/* How many times a thread got a short one so far. */
uint64_t sn_slice_count(void);

#endif
