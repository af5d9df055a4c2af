/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf.h"
#include <inttypes.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Nearest rank: the smallest sample that at least this share of the samples does not exceed. */
void sn_perf_percentiles(double *samples, size_t n, double out[3])
{
	static const unsigned share[3] = {50, 90, 99};
	qsort(samples, n, sizeof(*samples), ascending);
	for (int i = 0; i < 3; i++) {
		size_t rank = (n * share[i] + 99) / 100;
		out[i] = samples[rank ? rank - 1 : 0];
	}
}

void sn_perf_print_head(const struct sn_perf_plan *plan, bool json, const int cpus[2])
{
	if (json) {
		printf("{\"version\": \"%s\", \"cpus\": [%d, %d], \"results\": [", sn_version(), cpus[0],
		       cpus[1]);
		return;
	}
	if (cpus[0] >= 0)
		printf("# two processes on cpus %d and %d; every byte of the verification rounds is "
		       "compared\n",
		       cpus[0], cpus[1]);
	else
		printf("# two processes, not bound; every byte of the verification rounds is compared\n");
	printf("%10s", "bytes");
	if (plan->latency)
		printf("  %10s %10s %10s", "us p50", "p90", "p99");
	if (plan->bandwidth)
		printf("  %10s %10s %10s", "MB/s p50", "p90", "p99");
	putchar('\n');
}

static void print_json(const struct sn_perf_plan *plan, const struct sn_perf_result *r, bool first)
{
	printf("%s\n  {\"bytes\": %zu, \"iterations\": %u", first ? "" : ",", r->size, r->iterations);
	if (plan->latency)
		printf(", \"latency_us\": {\"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f}", r->latency_us[0],
		       r->latency_us[1], r->latency_us[2]);
	if (plan->bandwidth && r->size > 0)
		printf(", \"window\": %u, \"mbytes_per_s\": {\"p50\": %.6g, \"p90\": %.6g, \"p99\": %.6g}",
		       r->window, r->mbytes_s[0], r->mbytes_s[1], r->mbytes_s[2]);
	printf(", \"checked_bytes\": %" PRIu64 "}", r->checked);
}

void sn_perf_print(const struct sn_perf_plan *plan, const struct sn_perf_result *r, bool json, bool first)
{
	if (json) {
		print_json(plan, r, first);
		fflush(stdout);
		return;
	}
	printf("%10zu", r->size);
	if (plan->latency)
		printf("  %10.2f %10.2f %10.2f", r->latency_us[0], r->latency_us[1], r->latency_us[2]);
	if (plan->bandwidth && r->size > 0)
		printf("  %10.1f %10.1f %10.1f", r->mbytes_s[0], r->mbytes_s[1], r->mbytes_s[2]);
	putchar('\n');
	fflush(stdout);
}

void sn_perf_print_foot(bool json)
{
	if (json)
		puts("\n]}");
}
