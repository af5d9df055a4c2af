/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/lap.h"
#include "base/base.h"
#include <string.h>

#define CHANGED	 1.4f /* a group this much above the ones before, or below */
#define ODD	 3 /* and so many of them: something has changed. One may be the peer, who tries something */
#define HOPELESS 1.5f  /* times dearer: tried a quarter as often */
#define BETTER	 0.97f /* less than this difference is noise */
#define LEVEL	 1.06f /* nor is this, against the preferred way */
#define TRIAL	 4     /* groups: the other way, this one, the other, this; or the other twice, then this */

static void trial_begin(struct sn_lap *l)
{
	if (l->odd)
		l->hold = 0;
	l->trial = TRIAL;
	l->way = !l->way;
	l->groups = l->odd = 0;
	l->least[0] = l->least[1] = 0;
}

/* Disturbances only make a group slower, so the faster one of each way counts. */
static void trial_group(struct sn_lap *l, float ns, unsigned preferred)
{
	float *least = &l->least[l->way];
	if (!(*least > 0) || ns < *least)
		*least = ns;
	if (--l->trial) {
		if (!l->twos || l->trial == TRIAL / 2)
			l->way = !l->way;
		return;
	}
	memcpy(l->ns, l->least, sizeof(l->ns));
	bool changed = l->ns[!l->way] < l->ns[l->way] * (l->way == preferred ? BETTER : LEVEL);
	l->way ^= changed;
	if (l->ns[!l->way] > l->ns[l->way] * HOPELESS)
		l->hold = SN_LAP_HOLD;
	else
		l->hold = changed || !l->hold ? SN_LAP_SOON : (uint16_t)SN_MIN_OF(2 * l->hold, SN_LAP_HOLD);
}

/* A group is over. */
static void judge(struct sn_lap *l, float ns, uint64_t bound, unsigned preferred)
{
	float *known = &l->ns[l->way], other = l->ns[!l->way];
	if (ns > (float)bound) {
		*l = (struct sn_lap){.way = (uint8_t)preferred, .shift = l->shift, .twos = l->twos};
		return;
	}
	if (l->trial) {
		trial_group(l, ns, preferred);
		return;
	}
	if (*known > 0 && (ns > *known * CHANGED || ns * CHANGED < *known)) {
		l->odd++;
	} else {
		*known = *known > 0 ? *known + (ns - *known) / 4 : ns;
		l->odd = 0;
	}
	unsigned hold = other > *known * HOPELESS ? 4u * l->hold : l->hold;
	if (l->odd == ODD || !(other > 0) || ++l->groups >= hold)
		trial_begin(l);
}

unsigned sn_lap_next(struct sn_lap *l, uint64_t now, uint64_t bound, unsigned preferred)
{
	if (!l->count && !(l->ns[0] > 0) && !(l->ns[1] > 0))
		l->way = (uint8_t)preferred;
	unsigned skip = SN_LAP_SKIP >> l->shift, group = SN_LAP_GROUP >> l->shift;
	if (l->count == skip)
		l->since = now;
	if (l->count == group) {
		l->count = 0;
		judge(l, (float)(now - l->since) / (float)(group - skip), bound, preferred);
	}
	l->count++;
	return l->way;
}
