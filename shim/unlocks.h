/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_SHIM_UNLOCKS_H
#define SN_SHIM_UNLOCKS_H

#include "shim.h"
#include <stdbool.h>

/* Once it is known that several threads may call at once, and before they do. */
void sn_unlocks_see(void);

/* Does this code lie in the MPI, of which that was seen? */
bool sn_unlocks_is_mpis(const void *code);

#endif
