/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The static memory of a program: what a Fortran program has in COMMON blocks, modules and SAVE, or a C program as static
 * arrays. The loader makes it of pages that nobody can share; before the program's own code runs, those that are still empty
 * become a part of the file that peers map (heap.c), at the same addresses, so that messages from and to there are copied as
 * those of large allocations are.
 */
#ifndef SN_SHIM_STATICS_H
#define SN_SHIM_STATICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_statics {
	char *at; /* whole pages */
	size_t bytes;
};

/*
 * The pages at the end of the program's static memory to which nothing has been written yet (at its beginning lie variables of
 * libraries that the program has taken over, as the C library's stdout). bytes 0: there are fewer than 64 KiB, or more than
 * `most`, or somebody has mapped something else there. No allocation. Budget: a system call for each 4 MiB.
 */
struct sn_statics sn_statics_find(size_t most);
/* They lie in this file from now on, at this place. False: they do not. */
bool sn_statics_move(const struct sn_statics *s, int fd, uint64_t offset);

#endif
