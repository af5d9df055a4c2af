/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_SHIM_CLOSING_H
#define SN_SHIM_CLOSING_H

/* A function of the MPI's is called for the first time. */
void sn_closing_see(const char *name);

#endif
