/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Which of a peer's rails brings the next block: the strategies of src/sched, and its model of a rail, in whole
 * numbers, for there is no floating point in softirqs. Nothing here knows the kernel: unit.test_kernel_lanes holds
 * each choice against the strategy's own, and the model's figures against those of src/sched/model.c, which explains
 * them. Whoever includes this has u64, u32, bool and div64_u64().
 */
#ifndef SENNIT_LANES_H
#define SENNIT_LANES_H

#define SN_LANE_BYTES_MOST                                                                                   \
	(1ull << 34) /* times of more than that are told apart no more: nothing overflows */
#define SN_LANE_RATE_MOST    (1ull << 50)
#define SN_LANE_LATENCY_MOST (1ull << 40)
#define SN_LANE_SECOND	     1000000000ull /* ns; and the bytes a second of a rail that nobody has measured */

struct sn_lane_seen { /* struct sn_sched_rail */
	bool usable, room;
	u64 latency, rate, queued, given;
};

struct sn_lane_model { /* struct sn_model, of one class of sizes */
	u64 latency, rate;
	u64 best, last;	   /* rate that it was, of late; sample, as it came */
	u64 bytes, ns, at; /* arrivals too few for a sample yet; the last of them */
	u64 used_at;	   /* something came */
	u64 run_from, run_at, run_bytes;
	bool running;
};

static inline u64 sn_lane_least(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* ns for so many bytes at this rate */
static inline u64 sn_lane_span(u64 bytes, u64 rate)
{
	return div64_u64(sn_lane_least(bytes, SN_LANE_BYTES_MOST) * SN_LANE_SECOND, rate);
}

static inline u64 sn_lane_time(const struct sn_lane_seen *r, u64 bytes)
{
	return r->latency + sn_lane_span(r->queued + bytes, r->rate ? r->rate : SN_LANE_SECOND);
}

/* The one that is through first, of those with room. -1: none has. */
static inline int sn_lane_first(const struct sn_lane_seen *r, unsigned int count, u64 bytes)
{
	u64 least = ~0ull;
	unsigned int i;
	int best = -1;

	for (i = 0; i < count; i++) {
		u64 t;

		if (!r[i].usable || !r[i].room)
			continue;
		t = sn_lane_time(&r[i], bytes);
		if (t < least) {
			least = t;
			best = (int)i;
		}
	}
	return best;
}

/* When would the others, all of them together, have everything through? src/sched/split.c explains it. */
static inline u64 sn_lane_without(const struct sn_lane_seen *r, unsigned int count, unsigned int self,
				  u64 left, u64 bytes)
{
	u64 rate = 0, total = left, latency = ~0ull, one = ~0ull, all;
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (i == self || !r[i].usable)
			continue;
		rate += r[i].rate ? r[i].rate : SN_LANE_SECOND;
		total += r[i].queued;
		latency = sn_lane_least(latency, r[i].latency);
		one = sn_lane_least(one, sn_lane_time(&r[i], bytes));
	}
	if (!rate)
		return ~0ull;
	all = latency + sn_lane_span(total, rate);
	return all > one ? all : one;
}

static inline int sn_lane_split(const struct sn_lane_seen *r, unsigned int count, u64 left, u64 bytes)
{
	int best = sn_lane_first(r, count, bytes);

	if (best >= 0 &&
	    sn_lane_time(&r[best], bytes) > sn_lane_without(r, count, (unsigned int)best, left, bytes))
		return -1;
	return best;
}

/* Each the same share. */
static inline int sn_lane_equal(const struct sn_lane_seen *r, unsigned int count)
{
	unsigned int i;
	int best = -1;

	for (i = 0; i < count; i++)
		if (r[i].usable && (best < 0 || r[i].given < r[best].given))
			best = (int)i;
	return best >= 0 && r[best].room ? best : -1;
}

/* The fastest, for all: fifo. */
static inline int sn_lane_fastest(const struct sn_lane_seen *r, unsigned int count)
{
	unsigned int i;
	int best = -1;

	for (i = 0; i < count; i++)
		if (r[i].usable && (best < 0 || r[i].rate > r[best].rate))
			best = (int)i;
	return best >= 0 && r[best].room ? best : -1;
}

/* ---- the model ---- */

static inline void sn_lane_latency(struct sn_lane_model *m, u64 ns)
{
	if (!ns)
		ns = 1;
	if (!m->latency || ns < m->latency)
		m->latency = ns;
	else
		m->latency += (sn_lane_least(ns, 2 * m->latency) - m->latency + 15) / 16;
}

static inline void sn_lane_rate(struct sn_lane_model *m, u64 bytes, u64 ns)
{
	u64 sample = div64_u64(sn_lane_least(bytes, SN_LANE_BYTES_MOST) * SN_LANE_SECOND, ns ? ns : 1);
	u64 before = m->last;

	if (!sample)
		sample = 1;
	m->last = sample;
	if (!m->rate) {
		m->rate = sample;
	} else if (sample < m->rate / 2) {
		m->rate = (m->rate + 3 * sample) / 4;
	} else if (sample < m->rate) {
		m->rate -= (m->rate - sample) / 4;
	} else {
		if (sample > m->rate + m->rate / 2) {
			sample = sn_lane_least(sample, before);
			if (sample < m->rate)
				sample = m->rate;
		}
		m->rate += (sample - m->rate) / 4;
	}
	m->best -= m->best / 256;
	if (m->best < m->rate)
		m->best = m->rate;
}

#define SN_LANE_FORGET 500000000ull /* ns */

static inline void sn_lane_sample(struct sn_lane_model *m, u64 least)
{
	if (m->run_at - m->at > SN_LANE_FORGET)
		m->bytes = m->ns = 0;
	m->at = m->run_at;
	m->bytes += m->run_bytes;
	m->ns += m->run_at - m->run_from;
	m->run_bytes = 0;
	m->run_from = m->run_at;
	if (m->bytes < least || m->ns < 30000)
		return;
	sn_lane_rate(m, m->bytes, m->ns);
	m->bytes = m->ns = 0;
}

static inline void sn_lane_arrived(struct sn_lane_model *m, u64 bytes, u64 now)
{
	m->used_at = now;
	if (!m->running) { /* the first starts the clock */
		m->running = true;
		m->run_from = m->run_at = now;
		m->run_bytes = 0;
		return;
	}
	if (now > m->run_at) {
		if (m->run_bytes >= 96u << 10)
			sn_lane_sample(m, 96u << 10);
		m->run_at = now;
	}
	if (now > m->run_from)
		m->run_bytes += bytes;
}

static inline void sn_lane_idle(struct sn_lane_model *m, u64 now)
{
	if (m->running && m->run_bytes)
		sn_lane_sample(m, 16u << 10);
	m->used_at = now;
	m->running = false;
}

/* What is known, rising with time towards the best; or what the silence of a run shows, if that is clearly less. */
static inline u64 sn_lane_rate_of(const struct sn_lane_model *m, u64 now)
{
	u64 rate = m->rate, shown;
	u64 idle = m->used_at && now > m->used_at ? div64_u64(now - m->used_at, SN_LANE_FORGET) : 0;

	if (idle && rate < m->best) {
		idle = sn_lane_least(idle, 10);
		rate = rate > SN_LANE_RATE_MOST >> idle ? m->best : sn_lane_least(rate << idle, m->best);
	}
	if (!m->running || !rate || now <= m->run_from || now - m->run_from <= 4000000)
		return rate;
	shown = div64_u64(sn_lane_least(m->run_bytes + 1500, SN_LANE_BYTES_MOST) * SN_LANE_SECOND,
			  now - m->run_from);
	return sn_lane_least(rate, shown ? shown : 1);
}

#endif
