/* SPDX-License-Identifier: BSD-3-Clause */
/* What libsennit-mpi.so, where it is loaded, knows of the calling thread (shim/shim.h). */
#ifndef SN_CALLER_H
#define SN_CALLER_H

#include <stdbool.h>

struct sn_shim;
struct sn_shim_thread;

/* Look for the library; once is enough. */
void sn_caller_find(void);
/* NULL: it is not there. */
struct sn_shim *sn_caller_shim(void);
/* Is this thread in an MPI call that certainly waits? False where nothing is known. */
bool sn_caller_waits(void);

#endif
