/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of a rail: a latency, and a rate for each class of sizes, as moving averages of what transfers showed. A sample
 * is a run of arrivals, so it needs no clock on the other side. Bad news counts for more: a rail that slows to a tenth is
 * known after one run, and while a run goes on badly its own figure is used at once.
 */
#include "sched/sched.h"

#define RUN_BYTES (96u << 10) /* a run this long, or ... */
#define RUN_LEAST (16u << 10) /* ... at least this at its end, ... */
#define RUN_TIME  30000u      /* ... and this many ns is a sample */
#define LATE	  4000000u    /* ns that a run may stand still before that is news */

static unsigned class_of(uint64_t size)
{
	return size <= 4096 ? 0 : size <= 16384 ? 1 : size <= 65536 ? 2 : 3;
}

void sn_model_latency(struct sn_model *m, uint64_t ns)
{
	ns = SN_MAX_OF(ns, (uint64_t)1);
	/* The least counts, as all else is queues; but it forgets, or a longer way would never be believed. */
	if (m->latency == 0 || ns < m->latency)
		m->latency = ns;
	else
		m->latency += (ns - m->latency) / 16;
}

void sn_model_rate(struct sn_model *m, uint64_t size, uint64_t bytes, uint64_t ns)
{
	uint64_t *r = &m->rate[class_of(size)];
	uint64_t sample = (uint64_t)((double)bytes * 1e9 / (double)SN_MAX_OF(ns, (uint64_t)1));

	sample = SN_MAX_OF(sample, (uint64_t)1);
	m->samples++;
	if (*r == 0)
		*r = sample;
	else if (sample < *r / 2)
		*r = (*r + 3 * sample) / 4;
	else if (sample < *r)
		*r -= (*r - sample) / 4;
	else
		*r += (sample - *r) / 4;
}

static void sample(struct sn_model *m, uint64_t size, uint64_t least, uint64_t now)
{
	if (!m->running || m->run_bytes < least || now - m->run_from < RUN_TIME)
		return;
	sn_model_rate(m, size, m->run_bytes, now - m->run_from);
	m->run_from = now;
	m->run_bytes = 0;
}

void sn_model_arrived(struct sn_model *m, uint64_t size, uint64_t bytes, uint64_t now)
{
	if (!m->running) { /* the first arrival starts the clock and is not counted */
		m->running = true;
		m->run_from = now;
		m->run_bytes = 0;
		return;
	}
	m->run_bytes += bytes;
	sample(m, size, RUN_BYTES, now);
}

void sn_model_idle(struct sn_model *m, uint64_t size, uint64_t now)
{
	sample(m, size, RUN_LEAST, now);
	m->running = false;
}

uint64_t sn_model_rate_of(const struct sn_model *m, uint64_t size, uint64_t now)
{
	unsigned c = class_of(size);
	uint64_t rate = 0;

	for (unsigned d = 0; d < SN_MODEL_CLASSES && rate == 0; d++) { /* the nearest class that is known */
		if (c + d < SN_MODEL_CLASSES)
			rate = m->rate[c + d];
		if (rate == 0 && d <= c)
			rate = m->rate[c - d];
	}
	if (m->running && rate && now - m->run_from > LATE) {
		uint64_t shown =
			(uint64_t)((double)(m->run_bytes + 1500) * 1e9 / (double)(now - m->run_from));
		rate = SN_MIN_OF(rate, SN_MAX_OF(shown, (uint64_t)1));
	}
	return rate;
}
