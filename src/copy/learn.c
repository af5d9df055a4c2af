/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/learn.h"
#include "base/base.h"

#define FAR_OFF	 1.7f /* a sample this much above or below the average is odd */
#define HOPELESS 4.0f /* two samples of a way this much dearer are enough */
#define SELDOM	 8u   /* at most: a way that seemed dear may have met a lost core */

void sn_learn_init(struct sn_learn *l, const uint32_t mbytes_s[SN_WAYS], const uint32_t start_ns[SN_WAYS])
{
	memset(l, 0, sizeof(*l));
	for (unsigned i = 0; i < SN_LEARN_CLASSES; i++) {
		float len = (float)(UINT64_C(1) << (i + SN_LEARN_FIRST));
		for (unsigned w = 0; w < SN_WAYS; w++)
			if (mbytes_s[w])
				l->at[i].cost[w] =
					1e6f / (float)mbytes_s[w] + (float)start_ns[w] * 1000.0f / len;
	}
}

unsigned sn_learn_class_of(uint64_t len)
{
	unsigned log = len ? 63u - (unsigned)__builtin_clzll(len) : 0;
	if (log < SN_LEARN_FIRST)
		return 0;
	return SN_MIN_OF(log - SN_LEARN_FIRST, (unsigned)SN_LEARN_CLASSES - 1);
}

enum sn_way sn_learn_best(const struct sn_learn_class *c, unsigned allowed)
{
	unsigned best = SN_WAYS;
	for (unsigned w = 0; w < SN_WAYS; w++)
		if ((allowed >> w & 1) && (best == SN_WAYS || c->cost[w] < c->cost[best]))
			best = w;
	return best == SN_WAYS ? SN_WAY_SINGLE : (enum sn_way)best;
}

/* The next way in turn among these. */
static unsigned next_probe(struct sn_learn_class *c, unsigned among)
{
	do
		c->probe = (uint8_t)((c->probe + 1) % SN_WAYS);
	while (!(among >> c->probe & 1));
	return c->probe;
}

/* Is it still to be asked, where all are asked anew? */
static bool is_unsure(const struct sn_learn_class *c, unsigned way, unsigned best)
{
	unsigned enough = c->cost[way] > HOPELESS * c->cost[best] ? 2 : SN_LEARN_FRESH;
	return c->samples[way] < enough;
}

enum sn_way sn_learn_pick(struct sn_learn_class *c, unsigned allowed)
{
	allowed &= (1u << SN_WAYS) - 1;
	if (!allowed)
		return SN_WAY_SINGLE;
	unsigned best = sn_learn_best(c, allowed), others = allowed & ~(1u << best);
	c->turn++;
	if (c->fresh) {
		unsigned unsure = 0;
		for (unsigned w = 0; w < SN_WAYS; w++)
			unsure |= (unsigned)is_unsure(c, w, best) << w;
		c->fresh = unsure & allowed ? c->fresh - 1 : 0;
		if (unsure & allowed)
			return (enum sn_way)next_probe(c, unsure & allowed);
	}
	if (!others || c->turn % SN_LEARN_EXPLORE)
		return (enum sn_way)best;
	unsigned other = next_probe(c, others);
	if (c->samples[other] > 1 && c->cost[other] >= 2 * c->cost[best]) {
		unsigned dearer = (unsigned)SN_MIN_OF(c->cost[other] / c->cost[best], (float)SELDOM);
		/* each counts its own turns: of one count two ways may never meet theirs */
		if (++c->skipped[other] % dearer)
			return (enum sn_way)best;
	}
	return (enum sn_way)other;
}

void sn_learn_restart(struct sn_learn_class *c)
{
	memset(c->samples, 0, sizeof(c->samples));
	c->fresh = SN_LEARN_FRESH * SN_WAYS;
	c->odd = 0;
	c->relearned++;
}

bool sn_learn_note(struct sn_learn_class *c, enum sn_way way, uint64_t len, uint64_t ns)
{
	if (!len)
		return false;
	float cost = (float)ns * 1000.0f / (float)len, known = c->cost[way];
	if (c->turn <= 1 && !c->relearned && !c->samples[way] && cost > known)
		return false;
	bool odd = c->samples[way] && (cost > known * FAR_OFF || cost * FAR_OFF < known);
	if (!c->samples[way]) {
		c->cost[way] = cost;
	} else if (!odd) {
		c->cost[way] += (cost - known) / 4;
	} else if (way != c->best || (c->fresh && cost < known)) {
		/* Asked seldom, or lately not at all. Nothing is much faster by chance; slower, easily. */
		c->cost[way] = cost < known ? cost : known + (cost - known) / 4;
	} else if (++c->odd >= SN_LEARN_ODD) {
		sn_learn_restart(c);
		c->cost[way] = cost;
	}
	if (way == c->best && !odd)
		c->odd = 0;
	if (c->samples[way] < UINT16_MAX)
		c->samples[way]++;
	unsigned tried = 0;
	for (unsigned w = 0; w < SN_WAYS; w++)
		tried |= (unsigned)(c->samples[w] != 0) << w;
	uint8_t best = (uint8_t)sn_learn_best(c, tried), before = c->best;
	c->best = best;
	return best != before;
}

const char *sn_way_name(enum sn_way way)
{
	static const char *const names[SN_WAYS] = {"single", "shared", "stream", "module", "engine"};
	return (unsigned)way < SN_WAYS ? names[way] : "unknown";
}
