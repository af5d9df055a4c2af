/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that do not block, as far as short ones go without messages (begun.h), and these with _c, by which Python
 * calls them (mpi4py from 4 on). Whether a rank calls the one or the other is its own affair, so both go the same way. Where
 * the MPI has none with _c, what an int has room for is the one without.
 */
#ifndef SN_SHIM_BEGINNING_H
#define SN_SHIM_BEGINNING_H

#include <stdbool.h>

/* Is it the name of one of these? */
bool sn_beginning_is(const char *name);
/* What stands before this definition of such a name; or before none, of one with _c. */
void *sn_beginning_stand_in(const char *name, void *definition);

#endif
