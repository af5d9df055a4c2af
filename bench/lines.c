/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a line costs that one core writes and another one reads, again and again: "lines" prints, for each way of
 * writing and each of reading, nanoseconds a line for both, between the first two cores. On some processors a line
 * that the other core still holds takes the writer several times as long as the copy of it; then stores past the
 * cache, or a reader that gives lines back (copy/bypass.h), are what helps. bench_where says how far apart the cores
 * are at the moment.
 */
#include "copy/bypass.h"
#include "probe.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES  (64u << 10) /* smaller than any second-level cache */
#define ROUNDS 200
#define WARM   20

enum { STORE, PAST, WRITERS };
enum { LOAD, LOAD_GIVE_BACK, READERS };

static const char *const writer[] = {"written through the cache", "written past it"};
static const char *const reader[] = {"read", "read and given back"};

static _Alignas(4096) char line[BYTES], mine[2][BYTES];
static _Alignas(128) _Atomic unsigned long written;
static _Alignas(128) _Atomic unsigned long read_;
static double ns[2];
static int how_read;

static bool onto(int core)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(core, &set);
	return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

static void await(_Atomic unsigned long *at, unsigned long n)
{
	for (int looks = 0; atomic_load_explicit(at, memory_order_acquire) < n; looks++)
		if (looks > PROBE_PATIENCE)
			sched_yield();
}

static void *reads(void *pinned)
{
	*(bool *)pinned = onto(1);
	for (unsigned long n = 1; n <= (unsigned long)WRITERS * READERS * (ROUNDS + WARM); n++) {
		await(&written, n);
		double start = bench_now();
		memcpy(mine[1], line, BYTES);
		if (how_read == LOAD_GIVE_BACK)
			sn_copy_give_back(line, BYTES);
		ns[1] += (bench_now() - start) * 1e9;
		atomic_store_explicit(&read_, n, memory_order_release);
	}
	return NULL;
}

int main(void)
{
	pthread_t other;
	bool pinned = false;
	unsigned long n = 0;
	if (!onto(0) || pthread_create(&other, NULL, reads, &pinned)) {
		perror("lines: a second thread");
		return 1;
	}
	for (int w = 0; w < WRITERS; w++) {
		for (how_read = 0; how_read < READERS; how_read++) {
			for (int i = -WARM; i < ROUNDS; i++) {
				if (i == 0)
					ns[0] = ns[1] = 0;
				mine[0][i & 63]++;
				double start = bench_now();
				if (w == PAST)
					sn_copy_bypass(line, mine[0], BYTES);
				else
					memcpy(line, mine[0], BYTES);
				ns[0] += (bench_now() - start) * 1e9;
				atomic_store_explicit(&written, ++n, memory_order_release);
				await(&read_, n);
				if (memcmp(mine[1], mine[0], BYTES) != 0) {
					fprintf(stderr, "lines: what was read is not what was written\n");
					return 1;
				}
			}
			printf("%-26s %5.1f ns a line, %-20s %5.1f\n", writer[w],
			       ns[0] / ROUNDS / (BYTES / 64), reader[how_read],
			       ns[1] / ROUNDS / (BYTES / 64));
		}
	}
	pthread_join(other, NULL);
	if (!pinned)
		fprintf(stderr, "lines: there is no second core, the figures mean nothing\n");
	return !pinned;
}
