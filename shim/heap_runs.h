/* SPDX-License-Identifier: BSD-3-Clause */
/* What is free of an arena (heap.c), in runs of units, by their place; two that touch are one. */
#ifndef SN_SHIM_HEAP_RUNS_H
#define SN_SHIM_HEAP_RUNS_H

#include <stdbool.h>
#include <stddef.h>

/* More holes than anybody has seen: what is freed beyond is not used again. */
#define SN_HEAP_RUNS ((size_t)1 << 18)

struct sn_run {
	size_t at, count;
	size_t kept; /* so many units may have memory: an estimate */
	bool used;   /* some may, and hold what was written there */
};

struct sn_runs {
	struct sn_run *run; /* room for SN_HEAP_RUNS */
	size_t count;
	size_t kept; /* in all of them */
};

/* The first run that begins at or after this unit. */
size_t sn_runs_after(const struct sn_runs *r, size_t at);
/* Returns the run of which it is now; NULL: there is no room. */
struct sn_run *sn_runs_add(struct sn_runs *r, size_t at, size_t count, size_t kept);
/* It has no memory any more. */
void sn_runs_emptied(struct sn_runs *r, struct sn_run *run);
/* Take `count` units of run i, from unit `at` on: first those with memory, as far as is known. */
void sn_runs_take(struct sn_runs *r, size_t i, size_t at, size_t count);

#endif
