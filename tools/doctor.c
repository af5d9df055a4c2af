/* SPDX-License-Identifier: BSD-3-Clause */
/* sennit doctor: what each path needs, whether it is there, and what to change. */
#include "doctor.h"
#include "tool.h"
#include <argp.h>
#include <stdarg.h>
#include <stdio.h>

static unsigned found[3]; /* findings by health */

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	if (key == ARGP_KEY_ARG)
		argp_error(state, "'%s': no arguments are expected", arg);
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.parser = parse_option,
	.doc = "Check what sennit's paths need, between processes of this user, and say what to change."
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

int sn_tool_doctor(int argc, char **argv)
{
	if (argp_parse(&argp, argc, argv, 0, NULL, NULL) != 0)
		return SN_EXIT_USAGE;
	puts("Between processes of this user");
	sn_doctor_kernel();
	sn_doctor_engine();
	puts("\nLimits and surroundings");
	sn_doctor_limits();
	puts("\nMPI");
	sn_doctor_mpi();
	printf("\n%u ok, %u limited, %u missing\n", found[SN_HEALTH_OK], found[SN_HEALTH_LIMITED],
	       found[SN_HEALTH_MISSING]);
	return found[SN_HEALTH_MISSING] ? 1 : 0;
}
