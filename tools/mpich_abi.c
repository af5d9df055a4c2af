/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Debian and Ubuntu build MPICH for UCX alone, and such a library cannot load any libfabric provider. MPICH, Intel MPI and
 * others have kept one ABI since 2014 (mpich.org/abi), so a program linked with libmpich.so.12 also runs with another
 * library of that ABI, which only has to be found under that name. The dynamic loader looks for names, so the name is
 * given by a link in a directory of its own under the user's cache, put in front of LD_LIBRARY_PATH. The directory is named
 * after its target and reused: nothing piles up, nothing has to be cleaned up after a job.
 */
#include "plan.h"
#include "tool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIRS   256
#define MAX_NEEDED 512

struct dirs {
	char *dir[MAX_DIRS];
	unsigned count;
};

static void dirs_add(struct dirs *d, char *dir)
{
	if (d->count < MAX_DIRS)
		d->dir[d->count++] = dir;
	else
		free(dir);
}

static void dirs_free(struct dirs *d)
{
	for (unsigned i = 0; i < d->count; i++)
		free(d->dir[i]);
}

/* Each element of a colon-separated list, with a suffix. */
static void dirs_add_list(struct dirs *d, const char *list, const char *suffix)
{
	for (const char *p = list; p && *p;) {
		const char *end = strchrnul(p, ':');
		if (end > p)
			dirs_add(d, sn_tool_printf("%.*s%s", (int)(end - p), p, suffix));
		p = *end ? end + 1 : NULL;
	}
}

static void dirs_add_under(struct dirs *d, const char *variable, const char *suffix)
{
	const char *root = getenv(variable);
	if (root && *root)
		dirs_add(d, sn_tool_printf("%s%s", root, suffix));
}

static void dirs_add_launcher(struct dirs *d, const struct sn_launcher *l)
{
	if (l->mpi == SN_MPI_PROGRAM)
		return;
	char *bin = sn_tool_dirname(l->path);
	dirs_add(d, sn_tool_printf("%s/../lib", bin));
	dirs_add(d, sn_tool_printf("%s/../" SN_LIBDIR, bin));
	dirs_add(d, sn_tool_printf("%s/../lib64", bin));
	free(bin);
}

static void dirs_add_system(struct dirs *d)
{
	dirs_add(d, sn_tool_strdup("/usr/local/lib"));
	dirs_add(d, sn_tool_strdup("/usr/lib/" SN_MULTIARCH));
	dirs_add(d, sn_tool_strdup("/usr/lib64"));
	dirs_add(d, sn_tool_strdup("/usr/lib64/mpich/lib"));
	dirs_add(d, sn_tool_strdup("/usr/lib"));
}

/* Where a library may be at hand: near the launcher, in an active Python or conda environment, in Intel's places, beside
 * any command in PATH, and where the system keeps its own. */
static void dirs_collect(struct dirs *d, const struct sn_launcher *l)
{
	dirs_add_launcher(d, l);
	dirs_add_under(d, "VIRTUAL_ENV", "/lib");
	dirs_add_under(d, "CONDA_PREFIX", "/lib");
	dirs_add_list(d, getenv("LD_LIBRARY_PATH"), "");
	dirs_add_under(d, "I_MPI_ROOT", "/lib");
	dirs_add_under(d, "I_MPI_ROOT", "/lib/release");
	dirs_add_list(d, getenv("PATH"), "/../lib");
	dirs_add_under(d, "HOME", "/.local/lib");
	dirs_add(d, sn_tool_strdup("/opt/intel/oneapi/mpi/latest/lib"));
	dirs_add(d, sn_tool_strdup("/opt/intel/oneapi/mpi/latest/lib/release"));
	dirs_add(d, sn_tool_strdup("/opt/mpich/lib"));
	dirs_add_system(d);
}

static bool is_intel(const char *path)
{
	static const char name[] = "Intel(R) MPI Library";
	return sn_tool_file_contains(path, name, sizeof(name) - 1);
}

/* Made for this kind of machine, of MPICH's family, and naming libfabric.so.1 as a whole string: linked or dlopened. */
static bool suits(const char *path)
{
	static const char fabric[] = "\0libfabric.so.1", mpich[] = "MPICH Version";
	struct sn_elf self, elf;
	return sn_elf_read(path, &elf) && sn_elf_read(sn_tool_self(), &self) && elf.machine == self.machine &&
	       sn_tool_file_contains(path, fabric, sizeof(fabric)) &&
	       (is_intel(path) || sn_tool_file_contains(path, mpich, sizeof(mpich) - 1));
}

static char *find_in(const struct dirs *d, const char *name, bool must_suit)
{
	for (unsigned i = 0; i < d->count; i++) {
		char *file = sn_tool_printf("%s/%s", d->dir[i], name);
		char *real = realpath(file, NULL);
		free(file);
		if (real && (!must_suit || suits(real)))
			return real;
		free(real);
	}
	return NULL;
}

char *sn_mpich_find(const struct sn_launcher *l)
{
	struct dirs d = {.count = 0};
	dirs_collect(&d, l);
	char *found = find_in(&d, "libmpi.so.12", true);
	if (!found)
		found = find_in(&d, "libmpich.so.12", true);
	dirs_free(&d);
	return found;
}

bool sn_mpich_installed_suits(const struct sn_launcher *l)
{
	struct dirs d = {.count = 0};
	dirs_add_list(&d, getenv("LD_LIBRARY_PATH"), "");
	dirs_add_launcher(&d, l);
	dirs_add_system(&d);
	char *found = find_in(&d, "libmpich.so.12", false);
	bool yes = found && suits(found);
	free(found);
	dirs_free(&d);
	return yes;
}

/* The program's own list, in which $ORIGIN is its directory. */
static void dirs_add_search(struct dirs *d, const char *file, const char *list)
{
	static const char origin[] = "$ORIGIN";
	char *bin = sn_tool_dirname(file);
	for (const char *p = list; *p;) {
		size_t n = strcspn(p, ":"),
		       skip = strncmp(p, origin, sizeof(origin) - 1) ? 0 : sizeof(origin) - 1;
		if (n)
			dirs_add(d, sn_tool_printf("%s%.*s", skip ? bin : "", (int)(n - skip), p + skip));
		p += n + (p[n] == ':');
	}
	free(bin);
}

struct origin { /* of a DT_RPATH: the program's, which counts for what its libraries need, too, unless they have a DT_RUNPATH */
	char *file;
	char search[sizeof(((struct sn_elf *)0)->search)];
};

static void origin_is(struct origin *program, const char *file, const struct sn_elf *elf)
{
	program->file = sn_tool_strdup(file);
	if (elf->search_first)
		memcpy(program->search, elf->search, sizeof(program->search));
}

/* As the loader looks for what this file needs. */
static void dirs_of_loader(struct dirs *d, const char *file, const struct sn_elf *elf,
			   const struct origin *program)
{
	if (elf->search_first)
		dirs_add_search(d, file, elf->search);
	if (elf->search_first || !*elf->search)
		dirs_add_search(d, program->file, program->search);
	dirs_add_list(d, getenv("LD_LIBRARY_PATH"), "");
	if (!elf->search_first)
		dirs_add_search(d, file, elf->search);
	dirs_add_system(d);
}

static const char *needs_mpi(const struct sn_elf *elf)
{
	static const char *const libraries[] = {"libmpich.so.12", "libmpi.so.12", "libmpi.so.40"};
	for (unsigned i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (sn_elf_needs(elf, libraries[i]))
			return libraries[i];
	return NULL;
}

/* Files that are needed, by names that are all different. */
struct needed {
	char *name[MAX_NEEDED], *file[MAX_NEEDED];
	unsigned count;
};

static void needed_add(struct needed *n, const char *name, char *file)
{
	n->name[n->count] = sn_tool_strdup(name);
	n->file[n->count++] = file;
}

static bool needed_has(const struct needed *n, const char *name)
{
	for (unsigned i = 0; i < n->count; i++)
		if (strcmp(n->name[i], name) == 0)
			return true;
	return false;
}

/* What this file needs and has not been seen. */
static void needed_by(struct needed *n, const char *file, const struct sn_elf *elf,
		      const struct origin *program)
{
	struct dirs d = {.count = 0};
	dirs_of_loader(&d, file, elf, program);
	for (unsigned i = 0; i < elf->needed_count && n->count < MAX_NEEDED; i++) {
		char *found = needed_has(n, elf->needed[i]) ? NULL : find_in(&d, elf->needed[i], false);
		if (found)
			needed_add(n, elf->needed[i], found);
	}
	dirs_free(&d);
}

/*
 * The MPI library that a program is linked with, itself or by way of others: Fortran's bindings are in a library of their own,
 * which is often all that a program names. *elf is of who names it, *by (or NULL) its path; the caller frees that.
 */
static const char *mpi_of(const char *file, struct sn_elf *elf, char **by, struct origin *program)
{
	struct needed n = {.count = 0};
	const char *library = NULL;
	needed_add(&n, "", sn_tool_strdup(file));
	*by = NULL;
	for (unsigned i = 0; i < n.count && !library; i++) {
		if (!sn_elf_read(n.file[i], elf))
			continue;
		if (i == 0)
			origin_is(program, file, elf);
		library = needs_mpi(elf);
		if (library)
			*by = sn_tool_strdup(n.file[i]);
		else
			needed_by(&n, n.file[i], elf, program);
	}
	for (unsigned i = 0; i < n.count; i++) {
		free(n.name[i]);
		free(n.file[i]);
	}
	return library;
}

/* The first file in argv that asks for an MPI library, and which. *elf and *by: as above; *origin: of the program, freed likewise. */
static const char *program(char *const *argv, struct sn_elf *elf, char **by, struct origin *origin)
{
	const char *library = NULL;
	*by = NULL;
	*origin = (struct origin){0};
	for (; *argv && !library; argv++) {
		char *file = **argv == '-' ? NULL : sn_tool_which(*argv);
		free(origin->file);
		*origin = (struct origin){0};
		library = file ? mpi_of(file, elf, by, origin) : NULL;
		free(file);
	}
	return library;
}

const char *sn_mpich_program_library(char *const *argv)
{
	struct sn_elf elf;
	struct origin origin;
	char *file;
	const char *library = program(argv, &elf, &file, &origin);
	free(origin.file);
	free(file);
	return library;
}

enum sn_mpich_kind sn_mpich_program_runs_on(char *const *argv, const char **library)
{
	struct sn_elf elf;
	struct origin origin;
	char *file;
	struct dirs d = {.count = 0};
	*library = program(argv, &elf, &file, &origin);
	if (!*library) {
		free(origin.file);
		free(file);
		return SN_MPICH_UNKNOWN;
	}
	dirs_of_loader(&d, file, &elf, &origin);
	free(origin.file);
	char *found = find_in(&d, *library, false);
	enum sn_mpich_kind kind = !found || !suits(found) ? SN_MPICH_UNKNOWN
				  : is_intel(found)	  ? SN_MPICH_INTEL
							  : SN_MPICH_ITSELF;
	free(found);
	free(file);
	dirs_free(&d);
	return kind;
}

/* musl's loader ends a program whose LD_PRELOAD asks for symbols of glibc. */
static bool of_another_libc(const struct sn_elf *elf)
{
	bool other = false;
	for (unsigned i = 0; i < elf->needed_count; i++)
		other |= strncmp(elf->needed[i], "libc.", 5) == 0;
	return other && !sn_elf_needs(elf, "libc.so.6");
}

enum sn_program sn_mpich_program_kind(char *const *argv, const char **name)
{
	for (; *argv; argv++) {
		char *file = **argv == '-' ? NULL : sn_tool_which(*argv);
		struct sn_elf elf;
		bool ok = file && sn_elf_read(file, &elf);
		free(file);
		if (ok && elf.named && !elf.needed_count) /* a loader: the program follows */
			continue;
		*name = *argv;
		if (ok && elf.bits == 64 && !elf.needed_count)
			return SN_PROGRAM_STATIC;
		if (ok)
			return of_another_libc(&elf) ? SN_PROGRAM_OTHER_LIBC : SN_PROGRAM_OPEN;
	}
	return SN_PROGRAM_OPEN;
}

static char *cache_dir(const char *library)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	uint64_t hash = 14695981039346656037u; /* FNV-1a: a name for the target, no secret */
	for (const char *c = library; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211u;
	if (cache && *cache == '/')
		return sn_tool_printf("%s/sennit/mpich-%016llx", cache, (unsigned long long)hash);
	if (home && *home == '/')
		return sn_tool_printf("%s/.cache/sennit/mpich-%016llx", home, (unsigned long long)hash);
	return NULL;
}

static void add_link(struct sn_plan *p, const char *name, char *target)
{
	char *real = realpath(target, NULL);
	free(target);
	if (real && p->link_count < SN_PLAN_LINKS_MAX)
		p->links[p->link_count++] =
			(struct sn_plan_link){.name = sn_tool_strdup(name), .target = real};
	else
		free(real);
}

/* The links: the library under the name that programs ask for, its Fortran and C++ companions, and the folder in which
 * the mpich wheel keeps what its library finds by $ORIGIN/mpich (the loader takes $ORIGIN from the link, not its target). */
static void add_links(struct sn_plan *p, const char *library, const char *dir)
{
	add_link(p, "libmpich.so.12", sn_tool_strdup(library));
	add_link(p, "libmpi.so.12", sn_tool_strdup(library));
	add_link(p, "libmpichfort.so.12", sn_tool_printf("%s/libmpifort.so.12", dir));
	add_link(p, "libmpichcxx.so.12", sn_tool_printf("%s/libmpicxx.so.12", dir));
	add_link(p, "libfabric.so.1", sn_tool_printf("%s/libfabric.so.1", dir));
	add_link(p, "mpich", sn_tool_printf("%s/mpich", dir));
}

int sn_mpich_redirect(struct sn_plan *p, const struct sn_launcher *l, const char *given,
		      enum sn_mpich_kind *kind)
{
	char *library = given ? realpath(given, NULL) : sn_mpich_find(l);
	if (given && (!library || !suits(library))) {
		sn_tool_complain("%s is %s", given,
				 library ? "not a library of MPICH's ABI that uses libfabric" : "not there");
		free(library);
		return -1;
	}
	if (!library) {
		sn_tool_complain("%s uses a libmpich.so.12 that was built for UCX alone, which cannot load "
				 "sennit (nor any "
				 "libfabric provider).\n"
				 "  The same program runs unchanged on another library with MPICH's ABI: "
				 "MPICH 4 or 5 built with\n"
				 "  libfabric, or Intel MPI. None was found. For example:\n"
				 "    python3 -m venv ~/mpich && ~/mpich/bin/pip install mpich\n"
				 "    sennit run --mpich-lib ~/mpich/lib/libmpi.so.12 -- ...",
				 l->mpi == SN_MPI_PROGRAM ? "the program" : l->title);
		return -1;
	}
	p->link_dir = cache_dir(library);
	if (!p->link_dir) {
		sn_tool_complain("neither XDG_CACHE_HOME nor HOME is set: no place for the link to %s (set "
				 "XDG_CACHE_HOME to a folder of yours)",
				 library);
		free(library);
		return -1;
	}
	*kind = is_intel(library) ? SN_MPICH_INTEL : SN_MPICH_ITSELF;
	char *dir = sn_tool_dirname(library);
	add_links(p, library, dir);
	sn_plan_prepend(p, "LD_LIBRARY_PATH", p->link_dir);
	sn_plan_note(p, "libmpich.so.12 of this machine cannot use libfabric: %s takes its place (same ABI)",
		     library);
	free(dir);
	free(library);
	return 0;
}
