/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/lap.h"
#include "base/base.h"
#include <string.h>

#define CHANGED	 1.4f  /* a group this much above the ones before, or below */
#define ODD	 3     /* and so many of them: something has changed */
#define GIVEN_UP 2.0f  /* times dearer in the first group of a trial: no second one */
#define UNLIKELY 1.15f /* likewise, of a way that is seldom the better one */
#define NO_GROUP 4.0f  /* times dearer before the counted part of that group: it ends there */
#define HOPELESS 1.5f  /* times dearer: the next trials come much later */
#define BETTER	 0.97f /* less than this difference is noise */
#define LEVEL	 1.06f /* nor is this, against the preferred way */
#define TRIAL	 4     /* groups: the other way twice, then this one twice */

static void trial_begin(struct sn_lap *l)
{
	if (l->odd)
		l->hold = 0;
	l->trial = TRIAL;
	l->tries++;
	l->way = !l->way;
	l->groups = l->odd = 0;
	l->least[0] = l->least[1] = 0;
}

static void trial_end(struct sn_lap *l)
{
	if (l->trial)
		l->tries++;
	l->trial = 0;
}

/* Is the other way the better one? */
static bool other_wins(const struct sn_lap *l, unsigned preferred)
{
	return l->ns[!l->way] < l->ns[l->way] * (l->way == preferred ? BETTER : LEVEL);
}

static void conclude(struct sn_lap *l, unsigned preferred)
{
	bool changed = other_wins(l, preferred);
	l->way ^= changed;
	if (l->ns[!l->way] > l->ns[l->way] * (l->seldom && l->way == preferred ? 1.0f : HOPELESS))
		l->hold = !changed && l->hold >= SN_LAP_HOLD ? 4 * SN_LAP_HOLD : SN_LAP_HOLD;
	else
		l->hold = changed || !l->hold ? SN_LAP_SOON : (uint16_t)SN_MIN_OF(2 * l->hold, SN_LAP_HOLD);
	trial_end(l);
}

/* Disturbances only make a group slower, so the faster one of each way counts. */
static void trial_group(struct sn_lap *l, float ns, unsigned preferred)
{
	float *least = &l->least[l->way], this = l->ns[!l->way];
	if (!(*least > 0) || ns < *least)
		*least = ns;
	bool unlikely = l->seldom && l->way != preferred;
	if (l->trial == TRIAL && (l->hold || unlikely) && this > 0 &&
	    ns > this * (unlikely ? UNLIKELY : GIVEN_UP)) {
		l->ns[l->way] = ns;
		l->way = !l->way;
		conclude(l, preferred);
	} else if (l->trial > 1) {
		l->way ^= l->trial == TRIAL / 2 + 1;
		l->trial--;
	} else {
		memcpy(l->ns, l->least, sizeof(l->ns));
		conclude(l, preferred);
	}
}

/* This way is so much dearer that it shows before anything is counted; and this was no pause. */
static bool is_no_use(const struct sn_lap *l, uint64_t now, uint64_t bound, unsigned messages)
{
	if (l->trial != TRIAL || !l->since || !(l->ns[!l->way] > 0))
		return false;
	float ns = (float)(now - l->since) / (float)messages;
	return ns > NO_GROUP * l->ns[!l->way] && ns <= (float)bound;
}

/* The peer tries something, or did so in this group, which then says nothing about our way. */
static bool peer_tries(struct sn_lap *l, uint8_t peer)
{
	bool same = peer == l->peer, tries = !same || peer % 2;
	l->peer = peer;
	l->blocked = tries && same ? (uint8_t)SN_MIN_OF(l->blocked + 1, SN_LAP_STUCK) : 0;
	return tries && l->blocked < SN_LAP_STUCK;
}

/* A group is over. */
static void judge(struct sn_lap *l, float ns, uint64_t bound, unsigned preferred, uint8_t peer)
{
	float *known = &l->ns[l->way];
	bool confounded = peer_tries(l, peer);
	if (ns > (float)bound) {
		trial_end(l);
		l->way = (uint8_t)preferred;
		l->paused = true;
		return;
	}
	if (confounded) {
		if (l->trial && peer % 2 && !l->first) { /* both began at once */
			trial_end(l);
			l->way = !l->way;
			l->groups = UINT16_MAX / 2;
		}
		return;
	}
	if (l->trial) {
		trial_group(l, ns, preferred);
		return;
	}
	if (*known > 0 && (ns > *known * CHANGED || ns * CHANGED < *known)) {
		if (++l->odd == ODD)
			*known = ns;
	} else {
		*known = *known > 0 ? *known + (ns - *known) / 4 : ns;
		l->odd = 0;
	}
	if (l->odd == ODD || !(l->ns[!l->way] > 0) || ++l->groups >= l->hold) {
		trial_begin(l);
	} else if (l->paused && !l->odd) {
		l->way ^= other_wins(l, preferred);
		l->paused = false;
	}
}

unsigned sn_lap_next(struct sn_lap *l, uint64_t now, uint64_t bound, unsigned preferred, uint8_t peer)
{
	if (!l->count && !(l->ns[0] > 0) && !(l->ns[1] > 0))
		l->way = (uint8_t)preferred;
	unsigned skip = SN_LAP_SKIP >> l->shift, group = SN_LAP_GROUP >> l->shift;
	if (!l->count)
		l->since = 0; /* the caller has begun anew */
	if (l->count == skip && is_no_use(l, now, bound, skip)) {
		l->ns[l->way] = (float)(now - l->since) / (float)skip;
		l->way = !l->way;
		conclude(l, preferred);
		l->count = 0;
		l->since = now;
	} else if (l->count == skip) {
		l->since = now;
	} else if (l->count == group) {
		l->count = 0;
		judge(l, (float)(now - l->since) / (float)(group - skip), bound, preferred, peer);
		l->since = now;
	}
	l->count++;
	return l->way;
}
