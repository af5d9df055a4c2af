/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_SHIM_GPU_H
#define SN_SHIM_GPU_H

#include <stdbool.h>

/*
 * May a buffer be memory of a GPU's, which only its library, and an MPI that knows it, can read? Any thread may ask,
 * at any time.
 */
bool sn_gpu_is_here(void);
/* If that was so when it was asked last, say so where the collectives are shown. */
bool sn_gpu_tell(void);

#endif
