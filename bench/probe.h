/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where are the cores? A cache line in shared memory goes back and forth between two processes; the time for one way
 * tells whether they share a cache at this moment (tens of ns) or not. Virtual machines move cores within minutes, so every
 * figure is taken between two probes and carries both.
 */
#ifndef SN_BENCH_PROBE_H
#define SN_BENCH_PROBE_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

struct probe_line {
	_Alignas(64) _Atomic uint64_t n;
};

struct probe {
	/* written by side 0, by side 1: the bare pair that a message is compared with */
	struct probe_line line[2];
	uint64_t round; /* each side's own copy is in its own memory */
};

#define PROBE_ROUNDS 2000

static inline double bench_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define PROBE_PATIENCE                                                                                       \
	20000 /* looks, some ten us: beyond that the other has no core, and may need this one */

static inline void probe_await(const struct probe_line *line, uint64_t n)
{
	for (int looks = 0; atomic_load_explicit(&line->n, memory_order_acquire) < n; looks++)
		if (looks > PROBE_PATIENCE)
			sched_yield();
}

/* Both sides call it. Nanoseconds for one way. */
static inline double probe_ns(struct probe_line *lines, int side, uint64_t *round)
{
	double start = 0;
	for (int i = -100; i < PROBE_ROUNDS; i++) {
		uint64_t n = ++*round;
		if (i == 0)
			start = bench_now();
		if (side == 0)
			atomic_store_explicit(&lines[0].n, n, memory_order_release);
		probe_await(&lines[!side], n);
		if (side == 1)
			atomic_store_explicit(&lines[1].n, n, memory_order_release);
	}
	return (bench_now() - start) * 1e9 / (2 * PROBE_ROUNDS);
}

#endif
