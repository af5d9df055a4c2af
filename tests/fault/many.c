/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many processes on one node, each connected with every other: every pair exchanges checked messages, and the memory that
 * a pair takes stays below what the documentation says.
 *
 *   many [PROCESSES]
 */
#include "sides.h"
#include <malloc.h>
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

static struct board *the_board;

/* This process's share of all memory that it maps, and its page tables. */
static uint64_t own_bytes(void)
{
	static const char *const files[] = {"/proc/self/smaps_rollup", "/proc/self/status"};
	unsigned long long pss = 0, tables = 0;
	char line[256];

	malloc_trim(0);
	for (int i = 0; i < 2; i++) {
		FILE *f = fopen(files[i], "r");

		CHECK(f, "no %s", files[i]);
		while (fgets(line, sizeof(line), f)) {
			sscanf(line, "Pss: %llu", &pss);
			sscanf(line, "VmPTE: %llu", &tables);
		}
		fclose(f);
	}
	return (pss + tables) * 1024;
}

/* Before it has an endpoint. */
static void note_before(void)
{
	atomic_fetch_add(&the_board->before, own_bytes());
	atomic_fetch_add(&the_board->started, 1);
	await(&the_board->started, the_board->sides);
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
	talk(s, 20000); /* rendezvous */
	atomic_fetch_add(&s->b->step, 1);
	while (atomic_load(&s->b->step) < s->b->sides) { /* all are connected, and none has left */
		sn_progress(s->ep);
		usleep(5000);
	}
	atomic_fetch_add(&s->b->after, own_bytes());
	atomic_fetch_add(&s->b->measured, 1);
	await(&s->b->measured, s->b->sides);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 256;
	double pairs = (double)n * (n - 1) / 2, start = seconds(), each;
	struct board *b = board_new(n);

	the_board = b;
	for (int i = 0; i < n; i++)
		side_start(b, i, note_before, member);
	sides_join(b, 0);
	each = ((double)atomic_load(&b->after) - (double)atomic_load(&b->before)) / pairs;
	printf("%d processes, %.0f pairs, %.1f KiB a pair, %.1f s\n", n, pairs, each / 1024,
	       seconds() - start);
	CHECK(each < PAIR_BYTES, "a pair takes %.1f KiB, the bound is %u", each / 1024, PAIR_BYTES >> 10);
	return 0;
}
