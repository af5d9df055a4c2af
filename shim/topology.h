/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_SHIM_TOPOLOGY_H
#define SN_SHIM_TOPOLOGY_H

/* Before MPI_Init: have Open MPI look at this machine for no longer than it needs to. */
void sn_topology_lighten(void);

#endif
