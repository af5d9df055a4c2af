/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often who waits looks at the network, and whether he waits.
 *
 * Who posts something long may go away to compute; if he then looks STAYS times in a row he waits. One who did so
 * TRUSTED times is not expected to go away: to have the network watched for him would wake two threads for each window
 * of a stream, each time for 40 us of the core that he looks on, and for 20 more of the sender's, who on a virtual
 * machine pays for the interrupt. If he goes away all the same, the service thread's timer finds that out, once, and
 * he begins anew. But one who has only lost his core for 50 us (to those two threads, for one) looks as if he had
 * been away for a moment, and would have them woken for the next sixteen windows, and lose it again: so that takes
 * half of what he has.
 */
#ifndef SN_NET_STAY_H
#define SN_NET_STAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sn_net_stay {
	unsigned left; /* looks until it shows that he waits; 0: he did not leave */
	unsigned
		stayed; /* one more for each time that he did not go away, half for each moment that he did */
	uint64_t done;	/* clock when he was last inside, or said that he may go */
	_Atomic uint64_t posted; /* clock when he said so */
};

/* What the service thread knows of the application's calls. */
struct sn_net_here {
	uint32_t calls;	   /* as they were when it looked last */
	uint64_t grown_at; /* clock when it saw that they had grown */
};

#define SN_NET_HERE 2000000u /* ns */

/* Has the application called since the last time somebody asked? */
static inline bool sn_net_calls(struct sn_net_here *h, uint32_t calls, uint64_t now)
{
	bool grown = calls != h->calls;

	h->calls = calls;
	if (grown)
		h->grown_at = now;
	return grown;
}

/*
 * Or lately? The thread may have had its core since, woken by each frame that came: who took that for an absence took
 * all frames in the application's place, for as long as they came, and the application did not get its core back.
 */
static inline bool sn_net_called(struct sn_net_here *h, uint32_t calls, uint64_t now)
{
	return sn_net_calls(h, calls, now) || now < h->grown_at + SN_NET_HERE;
}

/* ns until the next look, by one who has heard nothing for `silence`. At last a watched descriptor would have rung. */
static inline uint64_t sn_net_pause(uint64_t silence)
{
	const uint64_t fresh = 20000, most = 200000, part = 16;

	return silence < fresh ? 0 : silence / part < most ? silence / part : most;
}

/* So long was nobody here between two looks, of which the second was due `pause` after the first: he was away. */
static inline bool sn_net_away(uint64_t gap, uint64_t pause)
{
	return gap > 50000u + pause;
}

/* He is trusted to stay, and has posted something a moment ago, so that he has not been away since. */
bool sn_net_stays(const struct sn_net_stay *s, uint64_t now);
/* He may go away now. False: he is trusted to stay. */
bool sn_net_may_go(struct sn_net_stay *s, uint64_t now);
/*
 * He posted something a moment ago. What is watched from then on may ring before he is through, and where the thread
 * that it wakes has only his core, it must not take him for somebody who has gone: it would do his work in his place,
 * a frame at a time, each with a wake.
 */
bool sn_net_just_posted(const struct sn_net_stay *s, uint64_t now);
/*
 * A look that began at `now`; none was due for `pause` ns after the last. True: he has shown that he waits. full: every core
 * has its process, so the threads that are woken for him take his own core, from what he computes. What is pushed to him
 * lies in the kernel's buffer meanwhile. So it is no reason to have them woken that he was away for less than a millisecond.
 */
bool sn_net_looks(struct sn_net_stay *s, uint64_t now, uint64_t pause, bool full);

#endif
