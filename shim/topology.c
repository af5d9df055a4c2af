/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open MPI 4 has hwloc discover the machine in each rank that uses libfabric, and nowhere else: of several cards it takes
 * the nearest. Where libfabric has sennit alone there is none to take, and 13 of the 15 ms of processor time that this
 * costs here are left out: the configuration of each PCI device, and a look from each core ("x86"), to which the rank is
 * bound in turn, whoever else is on it. The cores and caches are known without, from what the kernel shows.
 */
#include "topology.h"
#include "abi.h"
#include "library.h"
#include <unistd.h>

#define NOT_THESE 1UL /* HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST */
#define KNOWN	  "/sys/devices/system/cpu/cpu0/topology"

static union {
	void *symbol;
	int (*load)(void *topology);
} hwlocs;

static union {
	void *symbol;
	int (*set)(void *topology, unsigned long flags, const char *name);
} components;

/*
 * Those that list accelerators load their drivers for it, in each rank, with threads and with whatever these need: Mesa's OpenCL throws C++
 * exceptions while it is loaded, which ends a program in C that has AddressSanitizer. Open MPI reads of all this no more than where the
 * cores are.
 */
static const char *const drivers[] = {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"};

static int load(void *topology)
{
	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		components.set(topology, NOT_THESE, drivers[i]);
	components.set(topology, NOT_THESE, "linux:pci");
	components.set(topology, NOT_THESE, "pci"); /* Debian's plugin, which would do it instead */
	if (!access(KNOWN, F_OK))
		components.set(topology, NOT_THESE, "x86");
	return hwlocs.load(topology);
}

void sn_topology_lighten(void)
{
	struct sn_library pal;
	if (sn_mpi_family != OPEN_MPI || !sn_ours_is_alone() || getenv("HWLOC_COMPONENTS") ||
	    !sn_library_named(&pal, "libopen-pal.so"))
		return;
	void *its = dlopen(pal.info.dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
	if (!its)
		return;
	hwlocs.symbol = dlsym(its, "hwloc_topology_load");
	components.symbol = dlsym(its, "hwloc_topology_set_components"); /* since 2.1 */
	if (hwlocs.symbol && components.symbol)
		sn_library_redirect(&pal, "hwloc_topology_load", (void (*)(void))load);
	dlclose(its);
}
