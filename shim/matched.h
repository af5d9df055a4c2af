/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of our own, for what MPI_Mprobe finds: Python's way to receive objects (mpi4py's recv), MPI_Mprobe and MPI_Mrecv, without
 * the MPI, which asks the provider twice for each, and reads its queue twice.
 *
 * A call that is made again with the same source (one rank), tag and communicator is watched, as a receive is (quick.h): if the
 * provider was asked for one message by its match bits, and that was found, the next such call asks so. What has these very bits (where MPIs
 * mark what they have to answer) is taken, and the program gets a handle that the MPI can never make, of a
 * slot here. Its MPI_Mrecv copies it, where it fits, of a type of the MPI's own without holes.
 *
 * It can become the MPI's at any time: its MPI_Mprobe is called then, and takes what was taken. So is whatever is rare: other
 * bits, a message that is only announced as yet (long ones), other types, a buffer that is too short, MPI_Imrecv, Fortran's
 * handles; and its communicator is freed, after which nobody could ask there. A slot's name stays its own until the
 * call that uses the message up.
 *
 * As with requests of our own (requests.h), whoever finds the MPI's functions by itself finds all of these.
 *
 * Budget, a pair of calls seen before: one lock for the look, two for the copy, and two more for the slot; no allocation, no call of the MPI, but one
 * in SN_QUICK_PERIOD.
 */
#ifndef SN_SHIM_MATCHED_H
#define SN_SHIM_MATCHED_H

#include "quick.h"
#include <stdbool.h>

/* Is it the name of one of these? */
bool sn_matched_is(const char *name);
/* What stands before this definition of such a name, or before none, of one of MPI 4 or 5; else NULL. */
void *sn_matched_stand_in(const char *name, void *definition);
/* This communicator is about to be freed. */
void sn_matched_ends(handle comm);

#endif
