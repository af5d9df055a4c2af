/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The poller: a second thread beside the progress thread, of the lowest scheduling class (SCHED_IDLE), which watches one
 * word and does nothing else. It runs on cores that nobody else wants; whoever wants one takes it in the middle of a look.
 *
 * Why a thread of its own. The progress thread moves data under the endpoints' locks, and a thread of SCHED_IDLE that
 * loses its core while it holds a lock gets one back when everybody else sleeps, while the application waits for that
 * lock; nor can a user without privileges take a thread out of that class again for as long as it works. The poller holds no
 * lock, ever. What it sees it tells the progress thread with a futex: on its own core, which the kernel counts as idle, so
 * that is a switch of threads (2 us here) and not the wake-up of a core (25 to 50 us on a virtual machine).
 *
 * Nobody may rely on a thread of that class. So the progress thread sleeps meanwhile for SLICE at most, and when the poller
 * has not looked once in that time, its core is wanted: then nobody polls. The same if the poller finds that it has lost
 * its core and got it back, which happens where the others are of another control group, against which its class does
 * not count.
 */
#ifndef SN_POLLER_H
#define SN_POLLER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum sn_watched {
	SN_WATCHED_CHANGED, /* the word is no longer what it was */
	SN_WATCHED_OVER,    /* the time is over */
	SN_WATCHED_WANTED   /* somebody else wants the core */
};

/*
 * One at a time, by the progress thread and who starts and ends it. Start with signals blocked. False: there is no
 * such thread.
 */
bool sn_poller_start(void);
void sn_poller_stop(void);
void sn_poller_after_fork(void); /* in the child, where the thread does not exist */

/*
 * Sleep until *word is not seq, which is in memory shared with other processes; whoever changes it need not wake anybody.
 * until: ns, at most 30 minutes away. Budget: a futex wait, and a wake if the poller slept.
 */
enum sn_watched sn_poller_watch(_Atomic uint32_t *word, uint32_t seq, uint64_t until);

uint64_t sn_poller_cpu_ns(void); /* the processor time that it has used */

/*
 * For both threads: all cores that the process may ever use. One that is bound to a core computes there, and others
 * may be idle.
 */
void sn_poller_roam(pthread_t thread);

#endif
