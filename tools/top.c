/* SPDX-License-Identifier: BSD-3-Clause */
/* sennit top: the kernel module's counters, and what running processes show of themselves, again and again. */
#include "copy/kmod.h"
#include "sennit/sennit.h"
#include "tool.h"
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNTERS 96

struct options {
	double seconds;
	long times; /* 0: until it is ended */
	const char *pid;
	bool all;
};

static const struct argp_option option_table[] = {
	{"seconds", 'd', "SECONDS", 0, "Between two looks (default: 1)", 0},
	{"times", 'n', "N", 0, "Look N times, one below the other, and end (default: until interrupted)", 0},
	{"all", 'a', NULL, 0, "Also counters that are 0", 0},
	{0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	char *end = NULL;
	switch (key) {
	case 'd':
		o->seconds = strtod(arg, &end);
		if (end == arg || *end || !(o->seconds >= 0.05 && o->seconds <= 86400))
			argp_error(state, "'%s' is no time between 0.05 and 86400 seconds", arg);
		return 0;
	case 'n':
		o->times = strtol(arg, &end, 10);
		if (end == arg || *end || o->times < 1)
			argp_error(state, "'%s' is no number of looks", arg);
		return 0;
	case 'a': o->all = true; return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			return ARGP_ERR_UNKNOWN;
		o->pid = arg;
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = option_table,
	.parser = parse_option,
	.args_doc = "[PID]",
	.doc = "Show the kernel module's counters, with what they grew by a second, and the endpoints of the "
	       "process "
	       "PID (default: all that this user may look into), how each peer is reached and what was "
	       "learned.",
};

struct look {
	bool all;
	double seconds; /* since the last one; 0: this is the first */
	unsigned n;
	uint64_t last[COUNTERS];
};

static void show(void *arg, const char *name, uint64_t value)
{
	struct look *l = arg;
	if (l->n == COUNTERS)
		return;
	uint64_t grown = value - l->last[l->n];
	l->last[l->n++] = value;
	if (!value && !l->all)
		return;
	printf("    %-24s %16" PRIu64, name, value);
	if (l->seconds > 0 && grown && grown <= INT64_MAX)
		printf(" %14.0f/s", (double)grown / l->seconds);
	putchar('\n');
}

static void show_module(struct sn_kmod *k, struct look *l)
{
	if (!k) {
		printf("kernel module: %s\n", sn_last_error());
		return;
	}
	printf("kernel module: %u DMA channels\n", k->dma_channels);
	l->n = 0;
	if (sn_kmod_counters(k, show, l) != SN_OK)
		printf("    %s\n", sn_last_error());
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pause_for(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	nanosleep(&t, NULL);
}

int sn_tool_top(int argc, char **argv)
{
	struct options o = {.seconds = 1};
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return SN_EXIT_USAGE;
	struct look look = {.all = o.all};
	struct sn_kmod *k = NULL;
	bool screen = !o.times && isatty(STDOUT_FILENO);
	double before = 0;
	int status = 0;
	for (long i = 0; !status && (!o.times || i < o.times); i++) {
		if (i)
			pause_for(o.seconds);
		if (screen)
			fputs("\033[H\033[2J", stdout);
		if (!k && sn_kmod_open(&k) != SN_OK)
			k = NULL;
		double t = now();
		look.seconds = before > 0 ? t - before : 0;
		before = t;
		show_module(k, &look);
		status = sn_tool_live(o.pid);
		fflush(stdout);
		if (ferror(stdout))
			status = 1;
	}
	if (k)
		sn_kmod_close(k);
	return status;
}
