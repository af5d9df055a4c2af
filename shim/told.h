/* SPDX-License-Identifier: BSD-3-Clause */
/* A request of the MPI's for what has ended without it: a generalized one, that is complete and says what it is told here. */
#ifndef SN_SHIM_TOLD_H
#define SN_SHIM_TOLD_H

#include "abi.h"

/* error: what it ends with, or 0. Ends the program where there is no memory. */
handle sn_told_request(int source, int tag, int64_t len, int error);

/* Likewise, of what has not ended yet, and then has. */
handle sn_told_later(void **state);
void sn_told_now(handle request, void *state, int source, int tag, int error);

#endif
