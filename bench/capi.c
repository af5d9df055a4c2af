/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C API's rows, between two processes on two cores; prints the lines that rows.c prints.
 *   capilat    us, half a round trip of sn_send and sn_recv
 *   capipost   likewise, of posts that are waited for
 *   capirate   million messages/s, windows of 64 posts in one direction
 * capi [MS [capilat|capirate]]
 *   capiratio  capilat over the bare exchange of a cache line in each direction, probed around it
 */
#include "pair.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW	64
#define LARGEST 4096

static char out[WINDOW][LARGEST], in[WINDOW][LARGEST];

static double calls(size_t len, long rounds)
{
	double start = bench_now();
	for (long i = 0; i < rounds; i++) {
		sn_completion c;
		if (side == 0)
			check(sn_send(ep, peer, out[0], len, 1), "send");
		check(sn_recv(ep, peer, in[0], len, 1, UINT64_MAX, NULL, &c), "receive");
		check(c.status, "a message");
		if (side == 1)
			check(sn_send(ep, peer, out[0], len, 1), "send");
	}
	return bench_now() - start;
}

static void post_one(size_t len)
{
	sn_req *req;
	check(sn_isend(ep, peer, out[0], len, 1, &req), "send");
	wait_for(req);
}

static double posts(size_t len, long rounds)
{
	double start = bench_now();
	for (long i = 0; i < rounds; i++) {
		sn_req *req;
		check(sn_irecv(ep, peer, in[0], len, 1, UINT64_MAX, &req), "receive");
		if (side == 0)
			post_one(len);
		wait_for(req);
		if (side == 1)
			post_one(len);
	}
	return bench_now() - start;
}

static double rate(size_t len, long windows)
{
	sn_req *req[WINDOW];
	double start = bench_now();
	for (long w = 0; w < windows; w++) {
		for (int i = 0; i < WINDOW; i++) {
			if (side == 0)
				check(sn_isend(ep, peer, out[i], len, 2, &req[i]), "send");
			else
				check(sn_irecv(ep, peer, in[i], len, 2, UINT64_MAX, &req[i]), "receive");
		}
		for (int i = 0; i < WINDOW; i++)
			wait_for(req[i]);
		sn_req *answer;
		if (side == 0) {
			check(sn_irecv(ep, peer, in[0], 0, 3, UINT64_MAX, &answer), "receive");
		} else {
			check(sn_isend(ep, peer, out[0], 0, 3, &answer), "send");
		}
		wait_for(answer);
	}
	return bench_now() - start;
}

static void row(const char *kind, double (*timed)(size_t, long), size_t len, double seconds)
{
	bool rates = timed == rate;
	double before = probe_ns(shared->lines, side, &probe_round);
	timed(len, 100);
	/* both sides run the same number of rounds: by size only */
	long rounds = (long)(seconds * (rates ? 5e4 : 1e6));
	double each = timed(len, rounds) / (double)rounds;
	double after = probe_ns(shared->lines, side, &probe_round);
	if (side != 0)
		return;
	printf("%s:%zu %.6g %.1f %.1f\n", kind, len, rates ? WINDOW / each / 1e6 : each / 2 * 1e6, before,
	       after);
	if (timed == calls)
		printf("capiratio:%zu %.6g %.1f %.1f\n", len, each / 2 * 1e9 / ((before + after) / 2), before,
		       after);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {0, 8, 32, 64, 512, 4096};
	double seconds = argc > 1 ? atof(argv[1]) / 1000 : 0.1;
	pair_fork();
	memset(out, 1, sizeof(out));
	memset(in, 2, sizeof(in));
	open_pair();
	const char *only = argc > 2 ? argv[2] : "";
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && strcmp(only, "capirate") != 0; i++) {
		row("capilat", calls, sizes[i], seconds);
		row("capipost", posts, sizes[i], seconds);
	}
	if (strcmp(only, "capilat") != 0)
		row("capirate", rate, 8, seconds);
	return pair_end();
}
