/* SPDX-License-Identifier: BSD-3-Clause */
/* sennit info: what this build and machine are, and every setting with its value and where that came from. */
#include "base/base.h"
#include "base/conf.h"
#include "copy/dsa.h"
#include "copy/kmod.h"
#include "copy/tune.h"
#include "core/rail.h"
#include "progress/relax.h"
#include "sennit/sennit.h"
#include "tool.h"
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	bool settings, man, peer;
	const char *pid;
};

static const struct argp_option option_table[] = {
	{"settings", 's', NULL, 0, "Only the settings, with their help", 0},
	{"man", 'm', NULL, 0, "The settings as a section of a manual page", 0},
	{"peer", 'p', "PID", OPTION_ARG_OPTIONAL,
	 "Live, of processes that are running: each peer, how it is reached and what was learned of it", 0},
	{0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 's': o->settings = true; return 0;
	case 'm': o->man = true; return 0;
	case 'p':
		o->peer = true;
		o->pid = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->peer && !o->pid) { /* --peer PID as well as --peer=PID */
			o->pid = arg;
			return 0;
		}
		argp_error(state, "'%s': no arguments are expected", arg);
		return EINVAL;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = option_table,
	.parser = parse_option,
	.doc = "Show version, rails, machine, and every setting with its value and origin.",
};

/* The rails of this build. */
static const struct {
	const struct sn_rail_ops *ops;
	const char *what;
} rails[] = {
	{&sn_rail_local, "processes on this node: shared memory, single copy by the kernel"},
	{&sn_rail_net, "other hosts: UDP, or raw Ethernet frames (setting net)"},
};

/* The index'th of the choices "a|b|c". */
static char *choice(const char *choices, int64_t index)
{
	const char *p = choices;
	for (; index > 0 && *p; p++)
		index -= *p == '|';
	return sn_tool_printf("%.*s", (int)strcspn(p, "|"), p);
}

static char *value_text(const struct sn_conf_desc *d, int64_t value, const char *string)
{
	switch (d->type) {
	case SN_TYPE_BOOL: return sn_tool_strdup(value ? "yes" : "no");
	case SN_TYPE_ENUM: return choice(d->choices, value);
	case SN_TYPE_STR: return sn_tool_strdup(string && *string ? string : "\"\"");
	default: return sn_tool_printf("%" PRId64 "%s%s", value, *d->unit ? " " : "", d->unit);
	}
}

/* "any of a, b, c", "0 to 100 us". */
static char *range_text(const struct sn_conf_desc *d)
{
	switch (d->type) {
	case SN_TYPE_BOOL: return sn_tool_strdup("yes or no");
	case SN_TYPE_STR: return sn_tool_strdup("text");
	case SN_TYPE_NUM:
		return sn_tool_printf("%" PRId64 " to %" PRId64 "%s%s", d->min, d->max, *d->unit ? " " : "",
				      d->unit);
	default: break;
	}
	char *list = sn_tool_strdup(d->choices);
	for (char *c = list; *c; c++)
		if (*c == '|')
			*c = ' ';
	char *text = sn_tool_printf("one of: %s", list);
	free(list);
	return text;
}

static char *upper_name(const char *name)
{
	char *s = sn_tool_printf("SENNIT_%s", name);
	for (char *c = s; *c; c++)
		if (*c >= 'a' && *c <= 'z')
			*c = (char)(*c - 'a' + 'A');
	return s;
}

/* Lines of at most 76 columns, indented. */
static void print_wrapped(const char *text)
{
	const size_t indent = 6, width = 76;
	size_t column = 0;
	while (*text) {
		size_t word = strcspn(text, " ");
		if (column && column + 1 + word > width) {
			putchar('\n');
			column = 0;
		}
		column += (size_t)printf("%*s%.*s", column ? 1 : (int)indent, "", (int)word, text);
		text += word;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void print_setting(enum sn_conf_id id, bool with_help)
{
	const struct sn_conf_desc *d = sn_conf_desc(id);
	const char *where = NULL;
	enum sn_conf_origin origin = sn_conf_origin(id, &where);
	const char *string = d->type == SN_TYPE_STR ? sn_conf_str(id) : NULL;
	char *value = value_text(d, d->type == SN_TYPE_STR ? 0 : sn_conf_num(id), string);
	printf("  %-14s %-16s %s%s%s%s\n", d->name, value, sn_conf_origin_name(origin),
	       where && *where ? " (" : "", where && *where ? where : "", where && *where ? ")" : "");
	if (with_help) {
		char *range = range_text(d);
		print_wrapped(d->help);
		printf("      %s.\n\n", range);
		free(range);
	}
	free(value);
}

/* A paragraph in roff: backslashes, and dots or quotes at the start of a line, are special there. */
static void print_roff(const char *text)
{
	bool start = true;
	for (; *text; text++) {
		if (start && (*text == '.' || *text == '\''))
			fputs("\\&", stdout);
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
		start = *text == '\n';
	}
}

static void print_man(void)
{
	puts(".SH SETTINGS\nEach setting is read, later ones winning, from\n.IR /etc/sennit.conf ,\n"
	     ".I ~/.config/sennit.conf\n(lines \"name = value\") and the environment (the variable given "
	     "below).\n"
	     "Numbers of bytes take the suffixes k, m and g.");
	for (int id = 0; id < SN_CONF_COUNT; id++) {
		const struct sn_conf_desc *d = sn_conf_desc((enum sn_conf_id)id);
		char *variable = upper_name(d->name), *def = value_text(d, d->def, d->def_str),
		     *range = range_text(d);
		printf(".TP\n.BR %s \", \" %s\n", d->name, variable);
		print_roff(d->help);
		printf("\nDefault: ");
		print_roff(def);
		printf("; ");
		print_roff(range);
		puts(".");
		free(range);
		free(def);
		free(variable);
	}
}

static void print_bytes(const char *label, uint64_t bytes)
{
	if (!bytes)
		printf(", %s unknown", label);
	else if (bytes >= 1u << 20)
		printf(", %s %.1f MiB", label, (double)bytes / (1 << 20));
	else
		printf(", %s %" PRIu64 " KiB", label, bytes >> 10);
}

static void print_machine(void)
{
	const struct sn_topo *t = sn_topo();
	printf("machine    %s\n           %d cpus online, %d for this process", t->cpu_model, t->cpus,
	       t->allowed);
	print_bytes("L2", t->l2_size);
	print_bytes("last-level cache", t->llc_size);
	printf("\nhost id    %016" PRIx64
	       " (processes with the same one reach each other by shared memory)\n",
	       t->host_id);
}

/* What base/copy.c and cma.c avoid, where there is something to avoid. */
static void print_copies(void)
{
	unsigned times = sn_copy_stumbles(1), far = sn_copy_stumbles(SN_COPY_TRIPS - 1);
	if (times > 1)
		printf("copies     rep movsb is %u times slower here 1 to %u bytes behind its source within "
		       "a page: a loop copies there%s\n",
		       times, (far > 1 ? SN_COPY_TRIPS : SN_COPY_TRIPS / 2) - 1,
		       times < 3 ? "" : ", and the kernel's copies go by way of a place that lies better");
}

/* By how many processes share the cores: the last number that may spin, and one more. */
static void print_waiting(void)
{
	char text[128];
	unsigned cores = (unsigned)sn_topo()->allowed;
	sn_relax_describe(cores ? cores - 1 : 0, text, sizeof(text));
	printf("waiting    %s\n", text);
	sn_relax_describe(cores, text, sizeof(text));
	printf("           %s (live: --peer)\n", text);
}

/* A rail that is open reports counters that begin with its name. */
static void note_rail(void *arg, const char *name, uint64_t value)
{
	bool *open = arg;
	for (size_t i = 0; i < sizeof(rails) / sizeof(rails[0]); i++) {
		size_t n = strlen(rails[i].ops->name);
		open[i] |= strncmp(name, rails[i].ops->name, n) == 0 && name[n] == '.';
	}
}

static void print_rails(void)
{
	bool open[sizeof(rails) / sizeof(rails[0])] = {false};
	sn_ep *ep = NULL;
	int error = sn_ep_open(NULL, &ep);
	if (!error)
		sn_counters(ep, note_rail, open);
	for (size_t i = 0; i < sizeof(rails) / sizeof(rails[0]); i++)
		printf("%s%-8s %s%s\n", i ? "           " : "rails      ", rails[i].ops->name, rails[i].what,
		       open[i] ? "" : "; not open here (SENNIT_LOG=info says why)");
	if (error)
		printf("           an endpoint does not open: %s\n", sn_last_error());
	sn_ep_close(ep);
}

static void print_module(void)
{
	struct sn_kmod *k;
	if (sn_kmod_open(&k) != SN_OK) {
		printf("module     %s\n", sn_last_error());
		return;
	}
	printf("module     /dev/sennit: %u DMA channels", k->dma_channels);
	if (k->dma_channels)
		printf(", used from %" PRIu64 " KiB", k->dma_threshold >> 10);
	putchar('\n');
	sn_kmod_close(k);
}

static void print_engine(void)
{
	struct sn_dsa *d;
	if (sn_dsa_open(sn_conf_str(SN_CONF_DSA), &d) != SN_OK) {
		printf("engine     %s\n", sn_last_error());
		return;
	}
	for (unsigned i = 0; i < sn_dsa_queues(d); i++)
		printf("%s%s\n", i ? "           " : "engine     ", sn_dsa_describe(d, i));
	sn_dsa_close(d);
}

int sn_tool_info(int argc, char **argv)
{
	struct options o = {0};
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return SN_EXIT_USAGE;
	if (o.peer)
		return sn_tool_live(o.pid);
	if (o.man) {
		print_man();
		return 0;
	}
	if (!o.settings) {
		char *provider = sn_tool_provider(NULL, NULL);
		printf("sennit     %s\n", sn_version());
		printf("provider   %s\n", provider ? provider : "libsennit-fi.so is not beside this command");
		free(provider);
		print_rails();
		sn_tool_print_network();
		print_module();
		print_engine();
		print_machine();
		print_waiting();
		print_copies();
		puts("settings");
	}
	sn_tune_apply();
	for (int id = 0; id < SN_CONF_COUNT; id++)
		print_setting((enum sn_conf_id)id, o.settings);
	return sn_tool_unknown_settings() ? 1 : 0;
}
