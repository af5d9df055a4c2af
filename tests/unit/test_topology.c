/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI's look at the machine leaves out what takes long (shim/topology.c); where it is for something else, and others' looks, do not. */
#include "abi.h"
#include "topology.h"
#include "topology_pal.h"
#include "unit.h"

#include <stdlib.h>

enum sn_mpi_family sn_mpi_family = OPEN_MPI;

#define WITHOUT "looked without: opencl cuda nvml rsmi levelzero gl linux:pci pci x86"

static char topology[256];

static const char *looked(void)
{
	assert_int_equal(opal_hwloc_base_get_topology(topology), 7);
	return topology;
}

static void as_it_is(void **state)
{
	static const struct {
		enum sn_mpi_family family;
		const char *provider, *components;
	} asked[] = {{MPICH, "sennit", NULL},
		     {OPEN_MPI, NULL, NULL},
		     {OPEN_MPI, "sennit,tcp", NULL},
		     {OPEN_MPI, "sennit", "x86"}};
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		sn_mpi_family = asked[i].family;
		unsetenv("FI_PROVIDER");
		unsetenv("HWLOC_COMPONENTS");
		if (asked[i].provider)
			setenv("FI_PROVIDER", asked[i].provider, 1);
		if (asked[i].components)
			setenv("HWLOC_COMPONENTS", asked[i].components, 1);
		sn_topology_lighten();
		assert_string_equal(looked(), "looked without: ");
	}
}

static void without_what_takes_long(void **state)
{
	sn_mpi_family = OPEN_MPI;
	setenv("FI_PROVIDER", "sennit", 1);
	unsetenv("HWLOC_COMPONENTS");
	sn_topology_lighten();
	assert_string_equal(looked(), WITHOUT);
	sn_topology_lighten(); /* once more changes nothing */
	assert_string_equal(looked(), WITHOUT);
	assert_int_equal(hwloc_topology_load(topology), 7); /* the program's own */
	assert_string_equal(topology, "looked without: ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_it_is),
		cmocka_unit_test(without_what_takes_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
