/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_TESTS_TOPOLOGY_PAL_H
#define SN_TESTS_TOPOLOGY_PAL_H

#define EXPORT __attribute__((visibility("default")))

EXPORT int opal_hwloc_base_get_topology(char *topology); /* of at least 256 bytes */
EXPORT int hwloc_topology_load(void *topology);
EXPORT int hwloc_topology_set_components(void *topology, unsigned long flags, const char *name);

#endif
