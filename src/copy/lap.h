/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of two ways, where what a copy costs does not tell: learned from the laps of the program's own loop. Ring or
 * straight, for messages of some KiB to some ten KiB; through the cache or past it, for larger ones.
 *
 * What a copy costs its sender says little here. A sender that writes straight into the receiver's buffer is done
 * sooner than one that copies into the ring; but then the bytes lie in the sender's cache, and a receiver that looks
 * at them fetches every line, which a copy out of the ring has done already. Likewise stores that bypass the cache
 * are done sooner where the lines are not in it, and leave a receiver that looks at them to fetch them from memory.
 * Which of the two the program pays for only the program's own speed tells. So messages of one size to one peer are
 * sent in groups that all go one way, and what is compared is how long a group took, whatever the program did in
 * between. That means something only while messages follow each other closely: a group that took longer than the
 * caller's bound a message says nothing, and the way that the caller prefers is taken.
 *
 * Every so many groups there is a trial: two groups go the other way and then two this one, and the faster ones are
 * compared; the preferred way also wins where they are level. Where the other way is much dearer a trial ends with
 * its first group, or when that begins, if it is dearer by far; where it is much cheaper, with the first of each. The
 * first trials come close together, in case one was misled; then, while they say the same again, SN_LAP_HOLD groups
 * apart, or so many more that trials lose a hundredth of the time; where the caller says so (`seldom`) a quarter of
 * that, if the preferred way wins. When three groups in a row took much longer than those before, or much shorter
 * (the program does something else now, or the cores have moved), there is one at once. The first messages of each
 * group are not counted: their lines still lie where the way before has left them. After a pause what was learned
 * holds again as soon as a group shows that messages follow each other as before.
 *
 * The peer learns as well, and where both send in turn its trials change what this side measures. So each side says
 * when it tries (`tries`, which the caller shows the peer): groups in which the peer did are not counted, no trial
 * begins meanwhile, and of two that began at once one (`first`) goes on. A peer that never ends a trial, because it
 * sends no such messages any more, is waited for during SN_LAP_STUCK groups. What else the caller tries at the same
 * messages counts as the peer's.
 *
 * Long messages average out more, and there are fewer of them: with `shift` the groups are that many times halved,
 * and a way that is twice as dear is left sooner. A change is as many messages as before, or as many groups if it is
 * twofold.
 *
 * Pure arithmetic. Budget: a handful of instructions, and two readings of the clock in SN_LAP_GROUP messages.
 */
#ifndef SN_COPY_LAP_H
#define SN_COPY_LAP_H

#include <stdbool.h>
#include <stdint.h>

#define SN_LAP_SKIP	8u
#define SN_LAP_GROUP	24u
#define SN_LAP_SOON	8u
#define SN_LAP_HOLD	64u
#define SN_LAP_HOLD_MAX 1024u
#define SN_LAP_STUCK	16u

struct sn_lap {
	uint64_t since; /* when this group began, then its counted part; 0: not known */
	float ns[2];	/* a message, with each way; 0: not known */
	float least[2]; /* in this trial */
	float worth;	/* the caller's: while the preferred way takes less a message nothing is tried */
	uint16_t count, groups, hold;
	uint8_t way; /* 0 or 1: of this group */
	uint8_t trial, odd;
	uint8_t shift; /* the caller's; else 0. At most 2 */
	bool first;    /* the caller's: the peer's is the opposite */
	bool seldom;   /* the caller's: what is not preferred is seldom better, and trying it costs */
	bool paused;
	uint8_t tries;	       /* trials begun and ended */
	uint8_t peer, blocked; /* what the peer has shown last, and for how many groups that holds us up */
};

/* The next message is about to go: is a clock reading due? */
static inline bool sn_lap_asks(const struct sn_lap *l)
{
	return l->count == SN_LAP_SKIP >> l->shift || l->count == SN_LAP_GROUP >> l->shift;
}

/* Nothing is due, as with nearly all: *way is the next message's, and sn_lap_next() needs not be called for it. */
static inline bool sn_lap_goes_on(struct sn_lap *l, unsigned *way)
{
	if (!l->count || sn_lap_asks(l))
		return false;
	l->count++;
	*way = l->way;
	return true;
}

/* What the peer is to see: odd while this side tries. */
static inline uint8_t sn_lap_shows(const struct sn_lap *l)
{
	return (uint8_t)(l->tries << 1 | (l->trial != 0));
}

/* Nothing is known of it, or of its two ways: the next group goes the way that is preferred. */
static inline bool sn_lap_fresh(const struct sn_lap *l)
{
	return !(l->ns[0] > 0) && !(l->ns[1] > 0);
}

/* The caller has learned that something else holds now: the next message is the first one of a fresh lap. Those that are not
 * asked about meanwhile go this way. */
void sn_lap_anew(struct sn_lap *l, unsigned way);

/* The way for it. now, and peer (what the peer shows): needed only if a reading is due. bound: ns a message. preferred: the
 * way where nothing can be learned. */
unsigned sn_lap_next(struct sn_lap *l, uint64_t now, uint64_t bound, unsigned preferred, uint8_t peer);

#endif
