/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of the program's own: which of them there are, and whether operands may come in any order (long.h). */
#ifndef SN_SHIM_OPS_H
#define SN_SHIM_OPS_H

#include "abi.h"

/*
 * Was it made by MPI_Op_create, for any order (commute), and not been freed since? Then all ranks know it alike, for MPI demands that
 * the operation of a call is the same on all of them. Of what was made in another way (MPI_Op_create_c, Open MPI's
 * Fortran) nothing is known.
 */
bool sn_op_commutes(handle op);
/* What stands before this definition of a name; NULL: nothing. */
void *sn_ops_stand_in(const char *name, void *definition);

#endif
