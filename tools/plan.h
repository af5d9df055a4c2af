/* SPDX-License-Identifier: BSD-3-Clause */
/* What `sennit run` is going to do: the environment it sets, the command it executes, and what the user should know. */
#ifndef SN_PLAN_H
#define SN_PLAN_H

#include "launcher.h"
#include <stdbool.h>

#define SN_PLAN_ENV_MAX	  24
#define SN_PLAN_NOTES_MAX 24
#define SN_PLAN_LINKS_MAX 8

struct sn_plan_env {
	const char *name;
	char *value;
	bool keep; /* the user has set it: left alone */
};

struct sn_plan_link { /* a symbolic link to make in .link_dir */
	char *name, *target;
};

struct sn_plan {
	struct sn_plan_env env[SN_PLAN_ENV_MAX];
	unsigned env_count;
	char *in_front; /* libraries of ours, as LD_PRELOAD names them; NULL: none */
	char *path;	/* to execute */
	char **argv; /* with these words: the first is what the user gave, since Open MPI's launcher that is called by its
			 * path puts its own directories in front of everybody's PATH, and so another Python before a user's */
	char *link_dir; /* NULL: no links are needed */
	struct sn_plan_link links[SN_PLAN_LINKS_MAX];
	unsigned link_count;
	char *notes[SN_PLAN_NOTES_MAX]; /* sentences for the user */
	unsigned note_count;
};

/*
 * Make the plan for argv (argv[0] as the user gave it, l->path what it resolved to). provider is the path of
 * libsennit-fi.so, mpich_lib NULL or the MPI library to put in place of a libmpich.so.12 that cannot use libfabric.
 * Returns 0, or -1 with a message printed: the command cannot run over sennit.
 */
int sn_plan_make(struct sn_plan *p, const struct sn_launcher *l, char **argv, const char *provider,
		 const char *mpich_lib);
/* Carry it out: make the links, set the environment. 0, or -1 with a message printed. */
int sn_plan_apply(const struct sn_plan *p);
/* Print it as shell commands. */
void sn_plan_print(const struct sn_plan *p);
void sn_plan_free(struct sn_plan *p);

void sn_plan_note(struct sn_plan *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Set a variable, unless the environment or the launcher's arguments already do: then note it. */
void sn_plan_set(struct sn_plan *p, char *const *argv, const char *name, const char *value);
/* Put a directory in front of a list of directories. */
void sn_plan_prepend(struct sn_plan *p, const char *name, const char *dir);

/* ---- front.c ---- */
/* Put in front of the program what is to be there; not of one that would die of it. */
void sn_plan_in_front(struct sn_plan *p, const struct sn_launcher *l, char *const *argv,
		      const char *provider);
/* The launcher's own arguments may set LD_PRELOAD, and win: put what is in front of the program there, too (p->argv). */
void sn_plan_in_front_by_arguments(struct sn_plan *p);
/* The path of a file of ours, beside the provider or where libraries for programs are installed (the caller frees it).
 * NULL: it is not there. */
char *sn_plan_ours(const char *provider, const char *name);

/* ---- srun.c ---- */
/* What srun is told to hand on of the environment is then too little: add what has been set (p->env, p->argv). */
void sn_plan_for_srun(struct sn_plan *p);

/* ---- mpich_abi.c: programs linked with a libmpich.so.12 that was built without libfabric ---- */
/* Which MPI library does the program in argv ask for: "libmpich.so.12", "libmpi.so.12", "libmpi.so.40", or NULL if that
 * does not show (a script, Python). */
const char *sn_mpich_program_library(char *const *argv);
/*
 * Which of those that can use libfabric does it run on, as far as that shows: MPICH, and what is built from it, or
 * Intel's? *library: as above.
 */
enum sn_mpich_kind { SN_MPICH_UNKNOWN, SN_MPICH_ITSELF, SN_MPICH_INTEL };
enum sn_mpich_kind sn_mpich_program_runs_on(char *const *argv, const char **library);
/* Can something be loaded under the first program in argv? */
enum sn_program { SN_PROGRAM_OPEN, SN_PROGRAM_STATIC, SN_PROGRAM_OTHER_LIBC };
enum sn_program sn_mpich_program_kind(char *const *argv, const char **name);
/* Can the libmpich.so.12 that such a program would load by itself use libfabric? */
bool sn_mpich_installed_suits(const struct sn_launcher *l);
/* Add to the plan what makes libmpich.so.12 resolve to a library that can. given: the user's choice or NULL. -1 with a
 * message printed if none is at hand. */
int sn_mpich_redirect(struct sn_plan *p, const struct sn_launcher *l, const char *given,
		      enum sn_mpich_kind *kind);
/* Find such a library: its path (caller frees), or NULL. */
char *sn_mpich_find(const struct sn_launcher *l);

#endif
