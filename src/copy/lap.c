/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/lap.h"
#include <string.h>

#define WORSE	 1.4f /* a group this much above the ones before */
#define ODD	 3 /* and so many of them: something has changed. One may be the peer, who tries something */
#define HOPELESS 1.5f  /* times dearer: tried a quarter as often */
#define BETTER	 0.97f /* less than this difference is noise */
#define TRIAL	 4     /* groups: the other way, this one, the other, this */

static void trial_begin(struct sn_lap *l)
{
	l->trial = TRIAL;
	l->way = !l->way;
	l->groups = l->odd = 0;
	l->least[0] = l->least[1] = 0;
}

/* Disturbances only make a group slower, so the faster one of each way counts. */
static void trial_group(struct sn_lap *l, float ns)
{
	float *least = &l->least[l->way];
	if (!(*least > 0) || ns < *least)
		*least = ns;
	if (--l->trial) {
		l->way = !l->way;
		return;
	}
	memcpy(l->ns, l->least, sizeof(l->ns));
	if (l->ns[!l->way] < l->ns[l->way] * BETTER)
		l->way = !l->way;
}

/* A group is over. */
static void judge(struct sn_lap *l, float ns, uint64_t bound, unsigned preferred)
{
	float *known = &l->ns[l->way], other = l->ns[!l->way];
	if (ns > (float)bound) {
		*l = (struct sn_lap){.way = (uint8_t)preferred, .shift = l->shift};
		return;
	}
	if (l->trial) {
		trial_group(l, ns);
		return;
	}
	if (*known > 0 && ns > *known * WORSE) {
		l->odd++;
	} else {
		*known = *known > 0 ? *known + (ns - *known) / 4 : ns;
		l->odd = 0;
	}
	unsigned hold = other > *known * HOPELESS ? 4 * SN_LAP_HOLD : SN_LAP_HOLD;
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
