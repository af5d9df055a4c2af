/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/lap.h"
#include "base/base.h"
#include <string.h>

#define CHANGED	 1.4f  /* a group this much above the ones before, or below */
#define ODD	 3u    /* and so many of them, of messages that are not long: something has changed */
#define GIVEN_UP 2.0f  /* times dearer in the first group of a trial: no second one */
#define TAKEN	 2.0f  /* times cheaper: nor then, if a group of this way, measured now, says the same */
#define UNLIKELY 1.15f /* likewise, of a way that is seldom the better one */
#define NO_GROUP                                                                                             \
	4.0f /* times dearer before the counted part of that group: it ends there; long messages: GIVEN_UP */
#define SHARE	 0.01f /* of the time may be lost to trials of what is dearer */
#define HOPELESS 0.5f  /* so much dearer in a first trial: the next ones come later */
#define SELDOM	 4     /* and so many times less where the caller says so */
#define GROWTH	 8u    /* times the groups before */
#define BETTER	 0.97f /* less than this difference is noise */
#define LEVEL	 1.06f /* nor is this, against the preferred way */
#define TRIAL	 4     /* groups: the other way twice, then this one twice */
#define OTHER	 2.0f
#define CHECK	 5 /* after the first of these: is this way so much dearer now, too? Else once more */

/* So many groups in a row, each counted by how much it is out of the ordinary. */
static bool has_changed(const struct sn_lap *l)
{
	return l->odd >= ODD << l->shift;
}

/*
 * Of long messages a group that took more than twice as long, or half, counts as many as it has messages fewer than
 * others.
 */
static uint8_t oddness(const struct sn_lap *l, float ns, float known)
{
	float ratio = ns > known ? ns / known : known / ns;
	return ratio > GIVEN_UP ? (uint8_t)(1u << l->shift) : 1;
}

static void trial_begin(struct sn_lap *l)
{
	if (has_changed(l))
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

/*
 * How many groups until the next trial, after one in which `tried` groups, or parts of one, went the way that is so
 * much dearer: so many that SHARE of the time is lost. Not so many at first, whatever it cost: it may have been
 * misled.
 */
static uint16_t hold_for(const struct sn_lap *l, float dearer, float tried, bool changed)
{
	if (changed || !l->hold)
		return dearer < HOPELESS ? SN_LAP_SOON : SN_LAP_HOLD;
	unsigned least = SN_MIN_OF(2u * l->hold, SN_LAP_HOLD),
		 most = SN_MIN_OF(GROWTH * l->hold, SN_LAP_HOLD_MAX);
	float due = SN_MIN_OF(dearer * tried / SHARE, (float)most);
	return (uint16_t)SN_MAX_OF(least, (unsigned)due);
}

static void conclude(struct sn_lap *l, float tried, unsigned preferred)
{
	bool changed = other_wins(l, preferred);
	l->way ^= changed;
	float dearer = SN_MAX_OF(l->ns[!l->way] / l->ns[l->way] - 1, 0.0f);
	l->hold = hold_for(l, dearer, l->seldom && l->way == preferred ? SELDOM * tried : tried, changed);
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
		conclude(l, 1, preferred);
	} else if (l->trial == TRIAL && ns * TAKEN < this) {
		l->way = !l->way;
		l->trial = CHECK;
	} else if (l->trial == CHECK && ns > TAKEN * l->least[!l->way]) {
		memcpy(l->ns, l->least, sizeof(l->ns));
		conclude(l, 1, preferred);
		l->hold = SN_LAP_SOON;
	} else if (l->trial == CHECK) {
		l->trial = 1;
	} else if (l->trial > 1) {
		l->way ^= l->trial == TRIAL / 2 + 1;
		l->trial--;
	} else {
		memcpy(l->ns, l->least, sizeof(l->ns));
		conclude(l, OTHER, preferred);
	}
}

/* This way is so much dearer that it shows before anything is counted; and this was no pause. */
static bool is_no_use(const struct sn_lap *l, uint64_t now, uint64_t bound, unsigned messages)
{
	if (l->trial != TRIAL || !l->since || !(l->ns[!l->way] > 0))
		return false;
	float ns = (float)(now - l->since) / (float)messages;
	return ns > (l->shift ? GIVEN_UP : NO_GROUP) * l->ns[!l->way] && ns <= (float)bound;
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
		l->odd += oddness(l, ns, *known);
		if (has_changed(l))
			*known = ns;
	} else {
		*known = *known > 0 ? *known + (ns - *known) / 4 : ns;
		l->odd = 0;
	}
	if (l->way == preferred && *known < l->worth) {
		l->odd = has_changed(l) ? 0 : l->odd;
	} else if (has_changed(l) || !(l->ns[!l->way] > 0) || ++l->groups >= l->hold) {
		trial_begin(l);
	} else if (l->paused && !l->odd) {
		l->way ^= other_wins(l, preferred);
		l->paused = false;
	}
}

void sn_lap_anew(struct sn_lap *l, unsigned way)
{
	trial_end(l);
	l->way = (uint8_t)way;
	l->ns[0] = l->ns[1] = 0;
	l->count = l->groups = l->hold = l->odd = 0;
	l->paused = false;
}

unsigned sn_lap_next(struct sn_lap *l, uint64_t now, uint64_t bound, unsigned preferred, uint8_t peer)
{
	if (!l->count && sn_lap_fresh(l))
		l->way = (uint8_t)preferred;
	unsigned skip = SN_LAP_SKIP >> l->shift, group = SN_LAP_GROUP >> l->shift;
	if (!l->count)
		l->since = 0; /* the caller has begun anew */
	if (l->count == skip && is_no_use(l, now, bound, skip)) {
		l->ns[l->way] = (float)(now - l->since) / (float)skip;
		l->way = !l->way;
		conclude(l, (float)skip / (float)group, preferred);
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
