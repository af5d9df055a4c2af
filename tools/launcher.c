/* SPDX-License-Identifier: BSD-3-Clause */
#include "launcher.h"
#include "tool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_TIMEOUT_MS 20000 /* a cold file system and a loaded machine need seconds */

static bool named_like_a_launcher(const char *path)
{
	static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun", "prun", "oshrun"};
	char *real = realpath(path, NULL);
	const char *both[] = {path, real ? real : path};
	bool yes = false;
	for (unsigned i = 0; i < 2; i++) {
		const char *slash = strrchr(both[i], '/');
		const char *base = slash ? slash + 1 : both[i];
		for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++)
			yes |= strncmp(base, names[n], strlen(names[n])) == 0;
	}
	free(real);
	return yes;
}

/* The word after `key`, up to a blank or comma. */
static bool word_after(const char *text, const char *key, char *word, size_t size)
{
	const char *p = strstr(text, key);
	if (!p)
		return false;
	p += strlen(key);
	p += strspn(p, " \t");
	size_t n = strcspn(p, " \t\r\n,");
	if (n == 0 || n >= size)
		return false;
	memcpy(word, p, n);
	word[n] = 0;
	return true;
}

/* What --with-device=ch4:... says. Without one, MPICH 4 and later build ch4 over libfabric. */
static void parse_device(const char *text, const char *version, struct sn_launcher *l)
{
	char device[256];
	if (word_after(text, "--with-device=", device, sizeof(device))) {
		/* the value may hold a comma ("ch4:ucx,ofi"): look up to the closing quote or blank instead */
		const char *p = strstr(text, "--with-device=") + strlen("--with-device=");
		snprintf(device, sizeof(device), "%.*s", (int)strcspn(p, " '\r\n"), p);
		bool ch4 = strncmp(device, "ch4", 3) == 0;
		l->ucx = ch4 && strstr(device, "ucx");
		l->ofi = ch4 && (strstr(device, "ofi") || !strchr(device, ':'));
	} else {
		l->ofi = atoi(version) >= 4;
	}
}

void sn_launcher_parse(const char *text, struct sn_launcher *l)
{
	char version[32] = "";
	l->mpi = SN_MPI_UNKNOWN;
	l->ofi = l->ucx = l->cm_alone_fails = l->fork_aborts = l->unversioned = false;
	snprintf(l->title, sizeof(l->title), "an unknown MPI");
	if (word_after(text, "(Open MPI)", version, sizeof(version)) ||
	    word_after(text, "(OpenRTE)", version, sizeof(version)) ||
	    word_after(text, "Open MPI v", version, sizeof(version))) {
		int part[3] = {0};
		sscanf(version, "%d.%d.%d", &part[0], &part[1], &part[2]);
		l->mpi = part[0] >= 5 ? SN_MPI_OPEN5 : SN_MPI_OPEN4;
		l->cm_alone_fails = part[0] == 5 && !part[1] && part[2] < 9;
		l->fork_aborts = part[0] == 4 && (!part[1] || (part[1] == 1 && part[2] < 3));
		snprintf(l->title, sizeof(l->title), "Open MPI %s", version);
	} else if (strstr(text, "PRRTE") || strstr(text, "help-schizo-ompi")) {
		l->mpi = SN_MPI_OPEN5;
		l->unversioned = true;
		snprintf(l->title, sizeof(l->title), "Open MPI 5 or later (PRRTE)");
	} else if (strstr(text, "Intel(R) MPI Library")) {
		if (!word_after(text, "Version", version, sizeof(version)))
			version[0] = 0;
		l->mpi = SN_MPI_INTEL;
		l->ofi = true;
		snprintf(l->title, sizeof(l->title), "Intel MPI %s", version);
	} else if (strstr(text, "HYDRA build details")) {
		if (!word_after(text, "Version:", version, sizeof(version)))
			version[0] = 0;
		l->mpi = SN_MPI_MPICH;
		parse_device(text, version, l);
		snprintf(l->title, sizeof(l->title), "MPICH %s", version);
	}
}

static void ask(const char *path, struct sn_launcher *l)
{
	static char text[65536]; /* Hydra prints its whole configure line */
	char *argv[] = {(char *)(uintptr_t)path, (char *)(uintptr_t) "--version", NULL};
	snprintf(l->path, sizeof(l->path), "%s", path);
	sn_tool_capture(argv, text, sizeof(text), VERSION_TIMEOUT_MS);
	sn_launcher_parse(text, l);
}

static char *which_in_folder_of(const char *path, const char *name)
{
	char *dir = sn_tool_dirname(path), *beside = sn_tool_printf("%s/%s", dir, name);
	char *found = sn_tool_which(beside);
	free(beside);
	free(dir);
	return found;
}

char *sn_launcher_beside(const char *path, const char *name)
{
	char *found = which_in_folder_of(path, name), *real = found ? NULL : realpath(path, NULL);
	if (real)
		found = which_in_folder_of(real, name);
	free(real);
	return found;
}

/* PRRTE packaged by itself does not know of which Open MPI it is a part, and Ubuntu 26.04's does not find its own words. */
static void ask_ompi_info(const char *path, struct sn_launcher *l)
{
	char *found = sn_launcher_beside(path, "ompi_info");
	struct sn_launcher other = {0};
	if (found)
		ask(found, &other);
	if (found && other.mpi == SN_MPI_OPEN5) {
		snprintf(other.path, sizeof(other.path), "%s", path);
		*l = other;
	}
	free(found);
}

/* Intel's mpirun is a script that ends in whatever mpiexec.hydra stands first in PATH, which may be another MPI's. */
static void prefer_hydra_beside(const char *path, struct sn_launcher *l)
{
	struct sn_elf elf;
	if (sn_elf_read(path, &elf) || l->mpi == SN_MPI_OPEN4 || l->mpi == SN_MPI_OPEN5)
		return;
	char *found = sn_launcher_beside(path, "mpiexec.hydra");
	if (found && sn_elf_read(found, &elf)) {
		struct sn_launcher other = {0};
		ask(found, &other);
		if (other.mpi == SN_MPI_INTEL) {
			*l = other;
			snprintf(l->instead_of, sizeof(l->instead_of), "%s", path);
		}
	}
	free(found);
}

void sn_launcher_identify(const char *path, struct sn_launcher *l)
{
	memset(l, 0, sizeof(*l));
	if (!named_like_a_launcher(path)) {
		l->mpi = SN_MPI_PROGRAM;
		snprintf(l->path, sizeof(l->path), "%s", path);
		snprintf(l->title, sizeof(l->title), "a program, not an MPI launcher");
		return;
	}
	ask(path, l);
	if (l->unversioned)
		ask_ompi_info(path, l);
	prefer_hydra_beside(path, l);
}
