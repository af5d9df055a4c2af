/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Intel MPI needs alone. MPI_Comm_disconnect: where a communicator has carried synchronous messages that were
 * received by MPI_Mrecv (mpi4py.futures sends no others), its count of what is under way never comes down over
 * libfabric, whatever the provider, and there the call jumps through NULL. Among ranks that have begun together
 * nothing is disconnected but that communicator: MPI_Barrier and MPI_Comm_free do the same.
 */
#ifndef SN_SHIM_INTEL_H
#define SN_SHIM_INTEL_H

#include "abi.h"

/* comm: where the handle `was` stands. False: the MPI has to; else *rc is what the call returns. */
bool sn_intel_disconnects(void *comm, handle was, int *rc);

#endif
