/* SPDX-License-Identifier: BSD-3-Clause */
/* What launchers tell their ranks about the job, in variables that each names in its own way. */
#ifndef SN_LAUNCHED_H
#define SN_LAUNCHED_H

#include <stdbool.h>
#include <stdint.h>

struct sn_launched { /* 0 where no launcher says */
	int rank;    /* of this process among those of its job on this node */
	int here;    /* how many these are */
	int all;     /* on all nodes */
	bool hydra;  /* by the launcher of MPICH and Intel MPI */
};
struct sn_launched sn_launched(void);
/* Its rank in MPI_COMM_WORLD; -1: no launcher says. */
int sn_launched_rank(void);
/* By one of valgrind's tools, which takes every malloc's place and sees what this process does, and no other. */
bool sn_launched_by_valgrind(void);
/*
 * The number at the beginning of a text, 0 if there is none. strtol() is another symbol from glibc 2.38 on, and programs of
 * other C libraries, which have neither, load what the shim has of this.
 */
uint64_t sn_decimal(const char *text);

#endif
