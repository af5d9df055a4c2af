/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives with a length for each rank: MPI_Alltoallv and MPI_Alltoallw (vary.h), MPI_Gatherv (rooted.h), MPI_Scatterv
 * (bcast.h), and these with _c, by which Python calls them (mpi4py from 4 on). Whether a rank calls the one or the other is its own
 * affair, so both go the same way: counts and places are read as they are given. Where the MPI has none with _c, what
 * an int has room for is the one without.
 */
#ifndef SN_SHIM_VARYING_H
#define SN_SHIM_VARYING_H

#include <stdbool.h>

/* Is it the name of one of these? */
bool sn_varying_is(const char *name);
/* What stands before this definition of such a name; or before none, of one with _c. */
void *sn_varying_stand_in(const char *name, void *definition);

#endif
