/* SPDX-License-Identifier: BSD-3-Clause */
/* sennit tune: measure what copies cost on this machine, keep it, and draw the curves. */
#include "copy/tune.h"
#include "base/base.h"
#include "base/conf.h"
#include "base/launched.h"
#include "base/log.h"
#include "sennit/sennit.h"
#include "tool.h"
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES	  5
#define PLOT_WIDE 56

struct options {
	bool show;
};

static const struct argp_option option_table[] = {
	{"show", 's', NULL, 0, "Measure nothing: show what was measured before", 0},
	{0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 's': o->show = true; return 0;
	case ARGP_KEY_ARG: argp_error(state, "'%s': no arguments are expected", arg); return EINVAL;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = option_table,
	.parser = parse_option,
	.doc = "Measure what copies between two cores cost on this machine, keep the thresholds that follow, "
	       "and "
	       "draw the curves.\vThe figures depend on whether the cores share a cache (near) or not (far), "
	       "so each "
	       "class is measured when it holds and kept by itself. sennit run measures once by itself, "
	       "before "
	       "the first job on a machine. Leave the machine alone for the half second that it takes.",
};

static const char letters[SN_TUNE_WAYS] = {'R', 's', 'k', 'm', 'b'};

static void print_size(int64_t bytes)
{
	if (bytes >= 1 << 20)
		printf("%4" PRId64 " MiB", bytes >> 20);
	else
		printf("%4" PRId64 " KiB", bytes >> 10);
}

static double rate(const struct sn_tune *t, int way, int i) /* GB/s */
{
	return t->ns[way][i] ? (double)((int64_t)SN_TUNE_SMALLEST << i) / (double)t->ns[way][i] : 0;
}

/* One line a size: a letter for each way, where its speed puts it. */
static void draw(const struct sn_tune *t)
{
	double most = 0;
	for (int way = 0; way < SN_TUNE_WAYS; way++)
		for (int i = 0; i < SN_TUNE_SIZES; i++)
			most = SN_MAX_OF(most, rate(t, way, i));
	if (most <= 0)
		return;
	printf("  GB/s     ");
	for (int way = 0; way < SN_TUNE_WAYS; way++)
		printf("%7s %c", sn_tune_way_name((enum sn_tune_way)way), letters[way]);
	printf("   0 %*.*f\n", PLOT_WIDE - 2, 0, most);
	for (int i = 0; i < SN_TUNE_SIZES; i++) {
		char line[PLOT_WIDE + 1];
		memset(line, ' ', PLOT_WIDE);
		line[PLOT_WIDE] = '\0';
		printf("  ");
		print_size((int64_t)SN_TUNE_SMALLEST << i);
		for (int way = 0; way < SN_TUNE_WAYS; way++) {
			double gbs = rate(t, way, i);
			if (gbs <= 0) {
				printf("%9s", "-");
				continue;
			}
			printf("%9.1f", gbs);
			line[(int)(gbs / most * (PLOT_WIDE - 1))] = letters[way];
		}
		printf("   |%s|\n", line);
	}
}

static void print_threshold(const char *name, int64_t value, enum sn_conf_id id)
{
	const char *where = NULL;
	enum sn_conf_origin origin = sn_conf_origin(id, &where);
	printf("  %-12s ", name);
	if (value == SN_TUNE_NEVER)
		printf("%-10s", "never");
	else
		printf("%-10" PRId64, value);
	if (origin > SN_ORIGIN_MEASURED)
		printf(" not used: %s comes from %s", sn_conf_str(id), where);
	putchar('\n');
}

static void print_class(enum sn_tune_class class, const struct sn_tune *t)
{
	char path[512];
	printf("cores %s: a cache line goes over in %" PRId64 " ns%s\n", sn_tune_class_name(class),
	       t->line_ns, t->measured ? "" : " (assumed; not measured yet)");
	print_threshold("eager", t->eager, SN_CONF_EAGER);
	print_threshold("chunk", t->chunk, SN_CONF_CHUNK);
	print_threshold("single_copy", t->single_copy, SN_CONF_SINGLE_COPY);
	print_threshold("nontemporal", t->nontemporal, SN_CONF_NONTEMPORAL);
	draw(t);
	if (t->measured && sn_tune_path(class, path, sizeof(path)))
		printf("  kept in %s\n", path);
}

static int measure(struct sn_tune *t, enum sn_tune_class *class)
{
	int rc = SN_ERR_AGAIN;
	for (int i = 0; i < TRIES && rc == SN_ERR_AGAIN; i++)
		rc = sn_tune_measure(t, class);
	return rc;
}

int sn_tool_tune(int argc, char **argv)
{
	struct options o = {0};
	struct sn_tune t;
	enum sn_tune_class class;
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return SN_EXIT_USAGE;
	if (o.show) {
		for (int c = 0; c < SN_TUNE_CLASSES; c++)
			print_class((enum sn_tune_class)c, sn_tune_of((enum sn_tune_class)c));
		return 0;
	}
	if (measure(&t, &class) || sn_tune_save(class, &t)) {
		sn_tool_complain("%s", sn_last_error());
		return 1;
	}
	print_class(class, &t);
	return 0;
}

/* One of several ranks, which would all measure at once and take each other's cores: seconds, for nothing. */
static bool is_among_ranks(void)
{
	return sn_launched().all > 1 && sn_launched_rank() >= 0;
}

void sn_tool_tune_first(void)
{
	struct sn_tune t;
	enum sn_tune_class class;
	if (!sn_conf_num(SN_CONF_TUNE) || sn_tune_known() || is_among_ranks())
		return;
	/* Without a place to keep it in (no home, or a read-only one) the next run would only do it again. */
	if (sn_tune_place() || sn_tune_measure(&t, &class) || sn_tune_save(class, &t))
		sn_info("this machine's copies were not measured: %s; the built-in thresholds are used",
			sn_last_error());
	else
		sn_info("first run on this machine: its copies were measured, cores %s",
			sn_tune_class_name(class));
}
