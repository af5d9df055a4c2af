/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many processes on one node, each connected with every other: every pair exchanges checked messages, and the memory that
 * a pair takes stays below what the documentation says.
 *
 *   many [PROCESSES]
 */
#include "sides.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Both directions of a pair: their rings as far as they were touched, page tables and private state. docs/tuning.md */
#define PAIR_BYTES (160u << 10)

static uint64_t bits_of(int from, int to)
{
	return (uint64_t)from << 20 | (uint64_t)to;
}

/* Memory of the machine that is neither free nor cache that can be dropped: shared memory counts once. */
static double used_bytes(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	unsigned long long total = 0, available = 0;

	CHECK(f, "no /proc/meminfo");
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "MemTotal: %llu", &total);
		sscanf(line, "MemAvailable: %llu", &available);
	}
	fclose(f);
	return ((double)total - (double)available) * 1024;
}

/* All to all, three sizes; every receive is posted first by half of the pairs, afterwards by the others. */
static void talk(struct side *s, size_t len)
{
	int n = s->b->sides;
	char *in = malloc((size_t)n * len), *out = malloc((size_t)n * len);
	sn_req **req = malloc(2 * (size_t)n * sizeof(*req));
	sn_completion c;

	CHECK(in && out && req, "no memory");
	for (int i = 0; i < n; i++) {
		int to = (s->me + i) % n;

		fill(out + (size_t)to * len, bits_of(s->me, to), len);
		req[to] = post_send(s, to, out + (size_t)to * len, len, bits_of(s->me, to), 0);
		req[n + to] = post_recv(s, to, in + (size_t)to * len, len, bits_of(to, s->me));
	}
	for (int i = 0; i < 2 * n; i++) {
		c = finish(s, req[i]);
		CHECK(c.status == 0 && c.len == len, "message with side %d: %s", i % n,
		      sn_strerror(c.status));
		if (i >= n)
			check(in + (size_t)(i - n) * len, bits_of(i - n, s->me), len, "all to all");
	}
	free(in);
	free(out);
	free(req);
}

static void member(struct side *s)
{
	talk(s, 64);
	talk(s, 3000);
	talk(s, 100000); /* rendezvous */
	atomic_fetch_add(&s->b->step, 1);
	while (atomic_load(&s->b->step) <= s->b->sides) { /* all connected: the parent looks at the memory */
		sn_progress(s->ep);
		usleep(20000);
	}
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 256;
	double pairs = (double)n * (n - 1) / 2, before, start = seconds();
	struct board *b = board_new(n);

	for (int i = 0; i < n; i++)
		side_start(b, i, NULL, member);
	await(&b->opened, n);
	before = used_bytes(); /* processes and endpoints, no connection yet or few */
	await(&b->step, n);
	double each = (used_bytes() - before) / pairs;
	atomic_fetch_add(&b->step, 1);
	sides_join(b, 0);
	printf("%d processes, %.0f pairs, %.1f KiB a pair, %.1f s\n", n, pairs, each / 1024,
	       seconds() - start);
	CHECK(each < PAIR_BYTES, "a pair takes %.1f KiB, the bound is %u", each / 1024, PAIR_BYTES >> 10);
	return 0;
}
