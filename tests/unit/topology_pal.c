/* SPDX-License-Identifier: BSD-3-Clause */
/* Plays Open MPI's libopen-pal.so for test_topology. */
#include "topology_pal.h"

int opal_hwloc_base_get_topology(char *topology)
{
	return hwloc_topology_load(topology);
}
