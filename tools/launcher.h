/* SPDX-License-Identifier: BSD-3-Clause */
/* Which MPI does a command start? Asked of the command itself, with --version, and of the files around it. */
#ifndef SN_LAUNCHER_H
#define SN_LAUNCHER_H

#include <limits.h>
#include <stdbool.h>

enum sn_mpi {
	SN_MPI_PROGRAM, /* not a launcher: an ordinary program, or a script that may start any MPI */
	SN_MPI_OPEN4,	/* Open MPI up to 4.x */
	SN_MPI_OPEN5,	/* Open MPI from 5.0: PRRTE */
	SN_MPI_MPICH,	/* MPICH and what is built from it, under Hydra */
	SN_MPI_INTEL,	/* Intel MPI's Hydra */
	SN_MPI_UNKNOWN, /* named like a launcher, but says nothing that is known here */
};

struct sn_launcher {
	enum sn_mpi mpi;
	char path[PATH_MAX];  /* what is to be executed */
	char title[96];	      /* "Open MPI 4.1.4" */
	bool ofi, ucx;	      /* MPICH: what the library was built for, as far as the launcher tells */
	bool cm_alone_fails;  /* Open MPI 5.0.0 to 5.0.8: with pml cm alone there are no windows */
	bool fork_aborts;     /* Open MPI 4 up to 4.1.2: of the time when libfabric ended who forks */
	bool unversioned;     /* Open MPI of which nothing but PRRTE has said something */
	char instead_of[128]; /* the command asked for, when `path` is another one; else "" */
};

/*
 * Identify the command at `path` (from sn_tool_which). Runs it with --version, and ompi_info beside it, only if it is
 * named like a launcher: an ordinary program would do its work.
 */
void sn_launcher_identify(const char *path, struct sn_launcher *l);
/*
 * The program of that name beside the command at `path`, or beside what that links to, as a new string; NULL: there is
 * none. (Debian links both through /etc/alternatives; a folder of a user's own may have the launcher alone.)
 */
char *sn_launcher_beside(const char *path, const char *name);
/* What sn_launcher_identify makes of the text that --version printed (apart for tests). */
void sn_launcher_parse(const char *text, struct sn_launcher *l);

#endif
