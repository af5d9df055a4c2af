/* SPDX-License-Identifier: BSD-3-Clause */
/* sennit run: start an MPI program with sennit under its MPI. */
#include "launcher.h"
#include "plan.h"
#include "tool.h"
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
	bool dry_run, quiet;
	const char *provider_dir, *mpich_lib;
	char **command; /* NULL: none was given */
};

static const struct argp_option option_table[] = {
	{"dry-run", 'n', NULL, 0, "Print, as shell commands, what would be set and executed; do nothing", 0},
	{"quiet", 'q', NULL, 0, "Do not report variables that were kept or libraries that were replaced", 0},
	{"provider-dir", 'p', "DIR", 0, "Where libsennit-fi.so lies (default: beside this command)", 0},
	{"mpich-lib", 'l', "FILE", 0,
	 "The library to use in place of a libmpich.so.12 that cannot use libfabric (default: searched for)",
	 0},
	{0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'n': o->dry_run = true; return 0;
	case 'q': o->quiet = true; return 0;
	case 'p': o->provider_dir = arg; return 0;
	case 'l': o->mpich_lib = arg; return 0;
	case ARGP_KEY_ARG: /* the command: everything from here on is its own */
		o->command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = option_table,
	.parser = parse_option,
	.args_doc = "-- COMMAND [ARGUMENT...]",
	.doc = "Run COMMAND with sennit under its MPI.\vCOMMAND is an MPI launcher (mpirun, mpiexec) with "
	       "its arguments: "
	       "sennit finds out which MPI it belongs to and sets what that MPI needs. Any other command, "
	       "such as a program "
	       "that is started without a launcher, a batch system's starter or a script, is run with "
	       "everything set that "
	       "any known MPI needs. Variables that are already set are kept, and reported.",
};

/* Can what is to be run load the provider? Scripts do not tell. */
static int check_machine(const char *provider, const char *command)
{
	struct sn_elf lib, cmd;
	if (!sn_elf_read(provider, &lib)) {
		sn_tool_complain("%s is not a shared library", provider);
		return -1;
	}
	if (!sn_elf_read(command, &cmd) || (cmd.machine == lib.machine && cmd.bits == lib.bits))
		return 0;
	sn_tool_complain("%s is for %s (%d bit), but %s is for %s (%d bit): build sennit for that machine",
			 command, sn_elf_machine(&cmd), cmd.bits, provider, sn_elf_machine(&lib), lib.bits);
	return -1;
}

static char *find_provider(const struct options *o)
{
	char *tried;
	char *provider = sn_tool_provider(o->provider_dir, &tried);
	if (!provider)
		sn_tool_complain("libsennit-fi.so was not found; looked for\n%s\n"
				 "Build with `make`, install with `make install`, or give its directory with "
				 "--provider-dir.",
				 tried);
	free(tried);
	if (!provider || !strchr(provider, ':'))
		return provider;
	sn_tool_complain("%s cannot be loaded: libfabric splits FI_PROVIDER_PATH at a colon.\n"
			 "Install sennit at a path without one.",
			 provider);
	free(provider);
	return NULL;
}

static int execute(const struct sn_plan *plan, const struct options *o)
{
	for (unsigned i = 0; i < plan->note_count && !o->quiet; i++)
		sn_tool_complain("%s", plan->notes[i]);
	if (!o->quiet)
		sn_tool_unknown_settings();
	sn_tool_tune_first();
	if (sn_plan_apply(plan) != 0)
		return 1;
	fflush(NULL);
	execv(plan->path, plan->argv);
	sn_tool_complain("cannot execute %s: %s", plan->path, strerror(errno));
	return errno == ENOENT ? SN_EXIT_NOT_FOUND : SN_EXIT_CANNOT_EXEC;
}

static int run(const struct options *o, const char *command, const char *provider)
{
	struct sn_launcher launcher;
	struct sn_plan plan;
	if (check_machine(provider, command) != 0)
		return SN_EXIT_CANNOT_EXEC;
	sn_launcher_identify(command, &launcher);
	int status = 1;
	if (sn_plan_make(&plan, &launcher, o->command, provider, o->mpich_lib) == 0) {
		if (o->dry_run) {
			printf("# %s\n", launcher.title);
			sn_plan_print(&plan);
			status = 0;
		} else {
			status = execute(&plan, o);
		}
	}
	sn_plan_free(&plan);
	return status;
}

int sn_tool_run(int argc, char **argv)
{
	struct options o = {0};
	error_t error = argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	if (error) {
		sn_tool_complain("%s", strerror(error));
		return 1;
	}
	if (!o.command) {
		sn_tool_complain("no command was given: sennit run -- mpirun -n 2 ./program");
		return SN_EXIT_USAGE;
	}
	char *command = sn_tool_which(o.command[0]);
	if (!command) {
		int why = errno;
		sn_tool_complain("%s: %s", o.command[0], why == ENOENT ? "command not found" : strerror(why));
		return why == ENOENT ? SN_EXIT_NOT_FOUND : SN_EXIT_CANNOT_EXEC;
	}
	char *provider = find_provider(&o);
	int status = provider ? run(&o, command, provider) : 1;
	free(provider);
	free(command);
	return status;
}
