/* SPDX-License-Identifier: BSD-3-Clause */
/* sennit: the command. The work is in the files of the subcommands. */
#include "sennit/sennit.h"
#include "tool.h"
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} subcommands[] = {
	{"run", sn_tool_run},	{"info", sn_tool_info}, {"doctor", sn_tool_doctor},
	{"perf", sn_tool_perf}, {"tune", sn_tool_tune}, {"top", sn_tool_top},
};

struct chosen {
	int index; /* of the subcommand in argv; 0: none */
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct chosen *c = state->input;
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	c->index = state->next - 1;
	state->next = state->argc;
	return 0;
}

static const struct argp argp = {
	.parser = parse_option,
	.args_doc = "SUBCOMMAND [ARGUMENT...]",
	.doc = "Messages between processes over shared memory, single copy and plain networks, under the MPI "
	       "that you have."
	       "\vSubcommands (each with its own --help):\n\n"
	       "  run      run an MPI program over sennit: sennit run -- mpirun -n 2 ./a.out\n"
	       "  info     version, rails, machine, and every setting with value and origin\n"
	       "  doctor   what each path needs, whether it is there, and what to change\n"
	       "  perf     latency and bandwidth between two processes of this machine\n"
	       "  tune     measure this machine's copies, keep the thresholds, draw the curves\n"
	       "  top      what running processes and the kernel module show, again and again\n",
};

static void print_version(FILE *stream, struct argp_state *state)
{
	fprintf(stream, "sennit %s\n", sn_version());
}

/* What people type who do not know the command yet: sennit help, sennit help run, sennit -h, sennit run -h. */
static void ask_for_help(int argc, char **argv)
{
	static char help[] = "--help";
	if (argc == 3 && strcmp(argv[1], "help") == 0) {
		argv[1] = argv[2];
		argv[2] = help;
	}
	for (int i = 1; i < argc && i <= 2; i++)
		if (strcmp(argv[i], "-h") == 0 || (i == 1 && strcmp(argv[i], "help") == 0))
			argv[i] = help;
}

int main(int argc, char **argv)
{
	struct chosen c = {0};
	argp_program_version_hook = print_version;
	argp_err_exit_status = SN_EXIT_USAGE;
	ask_for_help(argc, argv);
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &c);
	if (!c.index) {
		sn_tool_complain(
			"no subcommand was given: run, info, doctor, perf, tune or top (sennit --help)");
		return SN_EXIT_USAGE;
	}
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++) {
		if (strcmp(argv[c.index], subcommands[i].name) != 0)
			continue;
		char *name = sn_tool_printf("sennit %s", subcommands[i].name);
		argv[c.index] = name;
		int status = subcommands[i].main(argc - c.index, argv + c.index);
		free(name);
		return status;
	}
	sn_tool_complain("%s is not a subcommand: run, info, doctor, perf, tune or top (sennit --help)",
			 argv[c.index]);
	return SN_EXIT_USAGE;
}
