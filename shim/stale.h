/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lay in memory before, and is taken for something.
 *
 * Open MPI's libfabric code (pml/cm), 4.1 to 5.0.11 at least, begins a send without saying that it has no error
 * (MCA_PML_CM_HVY_SEND_REQUEST_INIT_COMMON): until it is over its request has what lay in that memory before. Where any
 * other request of one MPI_Waitall, or its like, fails, all that have an error are freed
 * (ompi_errhandler_request_invoke), those that are pending, too: the program is told MPI_ERR_PENDING, finds
 * MPI_REQUEST_NULL, writes into the buffer, and that is what arrives. Only requests that were never used before, so some
 * of a program's first ones.
 *
 * Of one that
 * is persistent and was never started the error is what such a call returns, in place of that of the one that failed.
 *
 * So before such a call what is pending, or not started, is said to have no error. Where that lies in a request is found in the two of
 * the MPI's that are known, MPI_REQUEST_NULL and the one that is empty; if they do not agree nothing is done.
 *
 * Open MPI 4 looks for the communicator of a send that is to be cancelled where only a receive has it
 * (ompi_mtl_ofi_cancel), and ends in a segmentation fault. No Open MPI cancels a send, which the standard allows: so
 * nothing is done.
 */
#ifndef SN_SHIM_STALE_H
#define SN_SHIM_STALE_H

#include "abi.h"

void sn_stale_clear_of(int n, const void *requests);

/* Before the MPI is given a list of requests, by whose errors it may free others of them. */
static inline void sn_stale_clear(int n, const void *requests)
{
	if (sn_mpi_family == OPEN_MPI && n > 1 && requests)
		sn_stale_clear_of(n, requests);
}

/* Of Open MPI's libfabric code, and not of ours (requests.h). */
bool sn_stale_is_a_send(handle request);

/* What stands before this definition of a name: itself, or a function that does so and calls it. */
void *sn_stale_stand_in(const char *name, void *definition);

#endif
