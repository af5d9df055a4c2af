/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measurements. Latency: a ping-pong, each round trip timed by itself, so that percentiles mean something. Bandwidth:
 * windows of messages in one direction, each window answered by an empty message and timed as a whole. Before and
 * after the timed part the same loops run with patterns, and every byte is compared.
 */
#include "base/base.h"
#include "perf.h"
#include <stdlib.h>
#include <string.h>

#define BUFFER_MAX ((size_t)64 << 20) /* of a window, unless one message is longer */
#define BITS	   2

struct job {
	struct sn_pair *pair;
	size_t size;
	unsigned iterations, warmup, window;
	unsigned char *out, *in; /* window messages each */
	sn_req **reqs;		 /* window */
	double *samples;	 /* iterations */
	uint64_t checked, wrong;
};

/* Enough samples for a 99th percentile where messages are short, bounded time where they are long. */
static unsigned iterations_for(size_t size)
{
	if (size <= 4096)
		return 10000;
	if (size <= 65536)
		return 2000;
	return size <= ((size_t)1 << 20) ? 400 : 100;
}

static int ping(struct job *j)
{
	sn_req *req;
	sn_completion c;
	int error = sn_irecv(j->pair->ep, j->pair->peer, j->in, j->size, 1, UINT64_MAX, &req);
	if (!error)
		error = sn_pair_send(j->pair, j->out, j->size);
	if (!error)
		error = sn_wait(j->pair->ep, req, &c, -1);
	return error ? error : c.status;
}

static int pong(struct job *j)
{
	int error = sn_pair_recv(j->pair, j->in, j->size);
	return error ? error : sn_pair_send(j->pair, j->out, j->size);
}

static int latency(struct job *j, unsigned rounds, double *samples)
{
	int error = 0;
	for (unsigned i = 0; i < rounds && !error; i++) {
		uint64_t start = sn_now_ns();
		error = j->pair->second ? pong(j) : ping(j);
		if (samples)
			samples[i] = (double)(sn_now_ns() - start) / 2000.0;
	}
	return error;
}

static int finish_window(struct job *j, unsigned posted, int error)
{
	for (unsigned w = 0; w < posted; w++) {
		sn_completion c = {.status = 0};
		int e = sn_wait(j->pair->ep, j->reqs[w], &c, -1);
		if (!error)
			error = e ? e : c.status;
	}
	return error;
}

/* One window from the first side to the second, which answers. */
static int send_window(struct job *j)
{
	int error = 0;
	unsigned posted = 0;
	for (; posted < j->window && !error; posted += !error)
		error = sn_isend(j->pair->ep, j->pair->peer, j->out + posted * j->size, j->size, BITS,
				 &j->reqs[posted]);
	error = finish_window(j, posted, error);
	return error ? error : sn_pair_recv(j->pair, NULL, 0);
}

static int receive_window(struct job *j)
{
	int error = 0;
	unsigned posted = 0;
	for (; posted < j->window && !error; posted += !error)
		error = sn_irecv(j->pair->ep, j->pair->peer, j->in + posted * j->size, j->size, BITS,
				 UINT64_MAX, &j->reqs[posted]);
	error = finish_window(j, posted, error);
	return error ? error : sn_pair_send(j->pair, NULL, 0);
}

static int bandwidth(struct job *j, unsigned windows, double *samples)
{
	int error = 0;
	for (unsigned i = 0; i < windows && !error; i++) {
		uint64_t start = sn_now_ns();
		error = j->pair->second ? receive_window(j) : send_window(j);
		uint64_t took = SN_MAX_OF(sn_now_ns() - start, (uint64_t)1);
		if (samples)
			samples[i] = (double)j->size * j->window * 1000.0 / (double)took;
	}
	return error;
}

static void compare(struct job *j, size_t len, uint64_t seed)
{
	size_t good = sn_pattern_check(j->in, len, seed);
	j->checked += len;
	if (good < len && !j->wrong)
		j->wrong = good + 1;
}

/* A ping-pong, or a window, with every byte compared. */
static int verify(struct job *j, bool window, uint64_t seed)
{
	size_t len = window ? j->size * j->window : j->size;
	sn_pattern_fill(j->out, len, seed + j->pair->second);
	memset(j->in, 0x5a, len);
	int error = window ? bandwidth(j, 1, NULL) : latency(j, 1, NULL);
	if (!error && (!window || j->pair->second))
		compare(j, len, seed + !j->pair->second);
	return error;
}

static int measure(struct job *j, bool window, double percentiles[3])
{
	int error = verify(j, window, j->size + 1);
	unsigned count = window ? SN_MAX_OF(j->iterations / j->window, 10u) : j->iterations;
	unsigned warmup = window ? SN_MAX_OF(j->warmup / j->window, 1u) : j->warmup;
	if (!error)
		error = window ? bandwidth(j, warmup, NULL) : latency(j, warmup, NULL);
	if (!error)
		error = window ? bandwidth(j, count, j->samples) : latency(j, count, j->samples);
	if (!error)
		error = verify(j, window, j->size + 3);
	if (error)
		return error;
	if (window) /* the percentiles of a rate count from the fast end */
		for (unsigned i = 0; i < count; i++)
			j->samples[i] = -j->samples[i];
	sn_perf_percentiles(j->samples, count, percentiles);
	for (int i = 0; i < 3 && window; i++)
		percentiles[i] = -percentiles[i];
	return 0;
}

int sn_perf_run(struct sn_pair *p, const struct sn_perf_plan *plan, size_t size, struct sn_perf_result *r)
{
	size_t fit = BUFFER_MAX / SN_MAX_OF(size, (size_t)1);
	struct job j = {.pair = p, .size = size};
	j.window = (unsigned)SN_MAX_OF(SN_MIN_OF((size_t)plan->window, fit), (size_t)1);
	j.iterations = plan->iterations ? plan->iterations : iterations_for(size);
	j.warmup = plan->warmup ? plan->warmup : j.iterations / 10 + 1;
	size_t room = SN_MAX_OF(size * j.window, (size_t)1);
	j.out = malloc(room);
	j.in = malloc(room);
	j.reqs = calloc(j.window, sizeof(*j.reqs));
	j.samples = calloc(SN_MAX_OF(j.iterations, 10u), sizeof(*j.samples));
	int error = j.out && j.in && j.reqs && j.samples ? 0 : SN_ERR_NOMEM;
	*r = (struct sn_perf_result){.size = size, .iterations = j.iterations, .window = j.window};
	if (!error && !sn_pair_meet(p))
		error = SN_ERR_PEER_GONE;
	if (!error && plan->latency)
		error = measure(&j, false, r->latency_us);
	if (!error && plan->bandwidth && size > 0)
		error = measure(&j, true, r->mbytes_s);
	r->checked = j.checked;
	r->wrong = j.wrong;
	free(j.samples);
	free(j.reqs);
	free(j.in);
	free(j.out);
	return error;
}
