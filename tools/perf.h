/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_PERF_H
#define SN_PERF_H

#include "pair.h"
#include <stdbool.h>
#include <stdio.h>

#define SN_PERF_SIZES 64

struct sn_perf_plan { /* the same on both sides: the second side takes no decisions of its own */
	size_t sizes[SN_PERF_SIZES];
	unsigned size_count;
	unsigned iterations; /* 0: chosen by size */
	unsigned warmup;     /* likewise */
	unsigned window;     /* most messages in flight for bandwidth */
	bool latency, bandwidth;
};

struct sn_perf_result { /* of one size */
	size_t size;
	unsigned iterations, window;
	double latency_us[3]; /* half a round trip: percentiles 50, 90, 99 */
	double mbytes_s
		[3]; /* 10^6 bytes a second: the rate that 50, 90, 99 % of the windows reached or passed */
	uint64_t checked; /* bytes compared with the pattern on both sides */
	uint64_t wrong;	  /* offset of the first wrong byte + 1; 0: none */
};

/* Run one size, together with the other side, which calls it too. r is filled on the first side, except checked and
 * wrong, which each side counts for itself. 0 or a negative sn_error. */
int sn_perf_run(struct sn_pair *p, const struct sn_perf_plan *plan, size_t size, struct sn_perf_result *r);

/* ---- perf_report.c ---- */
/* Percentiles 50, 90 and 99 of n > 0 samples, which get sorted. */
void sn_perf_percentiles(double *samples, size_t n, double out[3]);
void sn_perf_print_head(const struct sn_perf_plan *plan, bool json, const int cpus[2]);
void sn_perf_print(const struct sn_perf_plan *plan, const struct sn_perf_result *r, bool json, bool first);
void sn_perf_print_foot(bool json);

#endif
