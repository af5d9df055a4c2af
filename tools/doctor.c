/* SPDX-License-Identifier: BSD-3-Clause */
/* sennit doctor: what each path needs, whether it is there, and what to change. */
#include "doctor.h"
#include "tool.h"
#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define HOSTS 64

static unsigned found[3]; /* findings by health */

struct options {
	const char *rsh;
	bool answer;
	char *host[HOSTS];
	unsigned hosts;
};

static const struct argp_option option_table[] = {
	{"rsh", 'r', "COMMAND", 0, "How to start a command on a HOST (default: ssh)", 0},
	{"answer", 'a', NULL, OPTION_HIDDEN, "Be the other half, on a HOST", 0},
	{0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'r': o->rsh = arg; return 0;
	case 'a': o->answer = true; return 0;
	case ARGP_KEY_ARG:
		if (o->hosts == HOSTS || *arg == '-' || *arg == 0)
			argp_error(state, "'%s': not a host, or more than %d", arg, HOSTS);
		else
			o->host[o->hosts++] = arg;
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = option_table,
	.parser = parse_option,
	.args_doc = "[HOST...]",
	.doc = "Check what sennit's paths need, between processes of this user and, with HOST, between this "
	       "host and "
	       "others, and say what to change. On each HOST the same sennit is started, over ssh, and "
	       "messages are "
	       "exchanged with it."
	       "\vExit status: 0 when everything that sennit needs is there (some paths may be limited), 1 "
	       "when something is "
	       "missing.",
};

void sn_doctor_report(enum sn_health health, const char *what, const char *fix, const char *fmt, ...)
{
	static const char *const words[] = {"ok", "limited", "MISSING"};
	va_list ap;
	found[health]++;
	printf("%-8s %-16s ", words[health], what);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	if (fix && health != SN_HEALTH_OK)
		printf("%-25s -> %s\n", "", fix);
	fflush(stdout); /* checks fork */
}

static void own_host(void)
{
	puts("Between processes of this user");
	sn_doctor_kernel();
	sn_doctor_engine();
	puts("\nLimits and surroundings");
	sn_doctor_limits();
	putchar('\n');
}

int sn_tool_doctor(int argc, char **argv)
{
	struct options o = {.rsh = "ssh"};
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return SN_EXIT_USAGE;
	if (o.hosts) /* a host that does not answer is not waited for as long as in a job */
		setenv("SENNIT_PEER_TIMEOUT", "4000", 0);
	if (o.answer)
		return sn_doctor_answer();
	if (!o.hosts)
		own_host();
	puts("Other hosts");
	sn_doctor_net();
	for (unsigned i = 0; i < o.hosts; i++)
		sn_doctor_host(o.rsh, o.host[i]);
	if (!o.hosts) {
		puts("\nMPI");
		sn_doctor_mpi();
	}
	printf("\n%u ok, %u limited, %u missing\n", found[SN_HEALTH_OK], found[SN_HEALTH_LIMITED],
	       found[SN_HEALTH_MISSING]);
	return found[SN_HEALTH_MISSING] ? 1 : 0;
}
