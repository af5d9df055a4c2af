/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of a rail: a latency, and a rate for each class of sizes, as moving averages of what transfers showed. A sample
 * needs no clock on the other side: it is what came between two arrivals, over the time between them. What came at the
 * very moment at which the clock was started is not counted, for nobody knows since when it stood there. Transfers
 * too short to tell anything alone are added up, so that every one counts.
 *
 * Bad news counts for more: a rail that slows to a tenth is known after one sample, and while arrivals stay away their
 * silence is used at once. Good news is believed when the sample before says so too, for a heap that had waited somewhere
 * looks like a fast rail, once. And nothing is believed for ever: a rail that is not used because it was slow would
 * never show that it has recovered, so its figure rises with time towards the best that it has shown.
 */
#include "sched/sched.h"

#define RUN_BYTES   (96u << 10) /* arrivals of so many bytes, or ... */
#define RUN_LEAST   (16u << 10) /* ... at least this at their end, with those of transfers before, ... */
#define RUN_TIME    30000u	/* ... and this many ns are a sample */
#define LATE	    4000000u	/* ns that a run may stand still before that is news */
#define FORGET	    500000000u /* ns without use after which a rate is worth only half as much as good news */
#define FORGET_MOST 20	       /* doublings */

static unsigned class_of(uint64_t size)
{
	return size <= 4096 ? 0 : size <= 16384 ? 1 : size <= 65536 ? 2 : 3;
}

void sn_model_latency(struct sn_model *m, uint64_t ns)
{
	ns = SN_MAX_OF(ns, (uint64_t)1);
	/* The least counts, as all else is queues; but it forgets, or a longer way would never be believed. One long wait
	 * is not a long way: no sample counts for more than twice what was known. */
	if (m->latency == 0 || ns < m->latency)
		m->latency = ns;
	else
		m->latency += (SN_MIN_OF(ns, 2 * m->latency) - m->latency + 15) / 16;
}

void sn_model_rate(struct sn_model *m, uint64_t size, uint64_t bytes, uint64_t ns)
{
	struct sn_model_class *c = &m->of[class_of(size)];
	uint64_t sample = (uint64_t)((double)bytes * 1e9 / (double)SN_MAX_OF(ns, (uint64_t)1));
	uint64_t before = c->last;

	sample = SN_MAX_OF(sample, (uint64_t)1);
	m->samples++;
	c->last = sample;
	if (c->rate == 0)
		c->rate = sample;
	else if (sample < c->rate / 2)
		c->rate = (c->rate + 3 * sample) / 4;
	else if (sample < c->rate)
		c->rate -= (c->rate - sample) / 4;
	else {
		if (sample > c->rate + c->rate / 2)
			sample = SN_MAX_OF(c->rate, SN_MIN_OF(sample, before));
		c->rate += (sample - c->rate) / 4;
	}
	/* The best is forgotten, too, but slowly. */
	c->best = SN_MAX_OF(c->rate, c->best - c->best / 256);
}

void sn_model_least(struct sn_model *m, uint64_t size, uint64_t bytes, uint64_t ns)
{
	struct sn_model_class *c = &m->of[class_of(size)];
	uint64_t shown = (uint64_t)((double)bytes * 1e9 / (double)SN_MAX_OF(ns, (uint64_t)1));

	c->rate = SN_MAX_OF(c->rate, shown);
	c->best = SN_MAX_OF(c->best, c->rate);
}

/* What came after run_from, until run_at, makes a sample if it is enough, with what was left over before. */
static void sample(struct sn_model *m, uint64_t size, uint64_t least)
{
	struct sn_model_class *c = &m->of[class_of(size)];

	if (m->run_at - c->at > FORGET)
		c->bytes = c->ns = 0;
	c->at = m->run_at;
	c->bytes += m->run_bytes;
	c->ns += m->run_at - m->run_from;
	m->run_bytes = 0;
	m->run_from = m->run_at;
	if (c->bytes < least || c->ns < RUN_TIME)
		return;
	sn_model_rate(m, size, c->bytes, c->ns);
	c->bytes = c->ns = 0;
}

void sn_model_arrived(struct sn_model *m, uint64_t size, uint64_t bytes, uint64_t now)
{
	m->used_at = now;
	if (!m->running) { /* the first arrival starts the clock */
		m->running = true;
		m->run_from = m->run_at = now;
		m->run_bytes = 0;
		return;
	}
	if (now > m->run_at) {
		if (m->run_bytes >= RUN_BYTES)
			sample(m, size, RUN_BYTES);
		m->run_at = now;
	}
	if (now > m->run_from)
		m->run_bytes += bytes;
}

void sn_model_idle(struct sn_model *m, uint64_t size, uint64_t now)
{
	if (m->running && m->run_bytes)
		sample(m, size, RUN_LEAST);
	m->used_at = now;
	m->running = false;
}

/* What this class's figure is worth now. */
static uint64_t rate_now(const struct sn_model *m, const struct sn_model_class *c, uint64_t now)
{
	uint64_t idle = m->used_at && now > m->used_at ? (now - m->used_at) / FORGET : 0;

	if (sn_likely(idle == 0 || c->rate >= c->best))
		return c->rate;
	return SN_MIN_OF(c->rate << SN_MIN_OF(idle, (uint64_t)FORGET_MOST), c->best);
}

uint64_t sn_model_rate_of(const struct sn_model *m, uint64_t size, uint64_t now)
{
	unsigned c = class_of(size);
	uint64_t rate = 0;

	for (unsigned d = 0; d < SN_MODEL_CLASSES && rate == 0; d++) { /* the nearest class that is known */
		if (c + d < SN_MODEL_CLASSES)
			rate = rate_now(m, &m->of[c + d], now);
		if (rate == 0 && d <= c)
			rate = rate_now(m, &m->of[c - d], now);
	}
	if (m->running && rate && now > m->run_from && now - m->run_from > LATE) {
		uint64_t shown =
			(uint64_t)((double)(m->run_bytes + 1500) * 1e9 / (double)(now - m->run_from));
		rate = SN_MIN_OF(rate, SN_MAX_OF(shown, (uint64_t)1));
	}
	return rate;
}
