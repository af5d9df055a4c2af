/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each MPI must be told so that all of its traffic goes over sennit. Everything goes through the environment,
 * which every launcher hands to the ranks it starts on this node. For ranks on other nodes Hydra passes on the whole
 * environment by itself (Intel's when I_MPI_HYDRA_ENV=all), and Open MPI passes on OMPI_MCA_* and what -x names.
 */
#include "plan.h"
#include "base/conf.h"
#include "base/launched.h"
#include "tool.h"
#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define INTELS_TAGS "MPIR_CVAR_CH4_OFI_TAG_BITS" /* and MPICH's */

void sn_plan_note(struct sn_plan *p, const char *fmt, ...)
{
	va_list ap;
	if (p->note_count == SN_PLAN_NOTES_MAX)
		return;
	va_start(ap, fmt);
	if (vasprintf(&p->notes[p->note_count], fmt, ap) >= 0)
		p->note_count++;
	va_end(ap);
}

/* Do the launcher's own arguments set this variable (Open MPI: -x NAME[=VALUE]; Hydra: -genv NAME VALUE, -env ...)? */
static bool set_by_arguments(char *const *argv, const char *name)
{
	size_t n = strlen(name);
	for (; argv[0] && argv[1]; argv++) {
		const char *option = argv[0] + (argv[0][0] == '-' && argv[0][1] == '-');
		if (strcmp(option, "-x") && strcmp(option, "-genv") && strcmp(option, "-env"))
			continue;
		if (strncmp(argv[1], name, n) == 0 && (argv[1][n] == 0 || argv[1][n] == '='))
			return true;
	}
	return false;
}

/* The value that --mca NAME VALUE among the launcher's arguments gives an MCA parameter, or NULL. */
static const char *mca_argument(char *const *argv, const char *name)
{
	for (; argv[0] && argv[1] && argv[2]; argv++) {
		const char *option = argv[0] + (argv[0][0] == '-' && argv[0][1] == '-');
		if ((strcmp(option, "-mca") == 0 || strcmp(option, "-gmca") == 0) &&
		    strcmp(argv[1], name) == 0)
			return argv[2];
	}
	return NULL;
}

static void add(struct sn_plan *p, const char *name, const char *value, bool keep)
{
	if (p->env_count == SN_PLAN_ENV_MAX)
		return; /* more than the table below can ever ask for */
	p->env[p->env_count++] =
		(struct sn_plan_env){.name = name, .value = sn_tool_strdup(value), .keep = keep};
}

/* As if that had never been set here; what the user has set stays. */
static void unset(struct sn_plan *p, const char *name)
{
	for (unsigned i = 0; i < p->env_count; i++) {
		if (strcmp(p->env[i].name, name) != 0 || p->env[i].keep)
			continue;
		free(p->env[i].value);
		memmove(&p->env[i], &p->env[i + 1], (p->env_count - i - 1) * sizeof(p->env[0]));
		p->env_count--;
		return;
	}
}

void sn_plan_set(struct sn_plan *p, char *const *argv, const char *name, const char *value)
{
	const char *now = getenv(name);
	const char *mca = strncmp(name, "OMPI_MCA_", 9) == 0 ? mca_argument(argv, name + 9) : NULL;
	if (mca && strcmp(mca, value) != 0)
		sn_plan_note(
			p,
			"the command line sets %s to %s, which wins over %s=%s: sennit may not be used, or "
			"not in full",
			name + 9, mca, name, value);
	else if (now && strcmp(now, value) != 0)
		sn_plan_note(p,
			     "%s=%s is already set and kept, so sennit may not be used, or not in full (it "
			     "sets %s)",
			     name, now, value);
	else if (set_by_arguments(argv, name))
		sn_plan_note(p, "%s is set on the command line, which wins", name);
	add(p, name, now ? now : value, now != NULL);
}

void sn_plan_prepend(struct sn_plan *p, const char *name, const char *dir)
{
	const char *now = getenv(name);
	char *value = now && *now ? sn_tool_printf("%s:%s", dir, now) : sn_tool_strdup(dir);
	add(p, name, value, false);
	free(value);
}

/*
 * libfabric: where the provider lies, and that no other is to be taken. FI_PROVIDER_PATH replaces libfabric's own
 * directory of providers; with FI_PROVIDER=sennit none of those would be used, and directories that the user has set
 * stay behind ours.
 */
static void for_libfabric(struct sn_plan *p, char *const *argv, const char *provider)
{
	char *dir = sn_tool_dirname(provider);
	sn_plan_prepend(p, "FI_PROVIDER_PATH", dir);
	free(dir);
	sn_plan_set(p, argv, "FI_PROVIDER", "sennit");
}

/* Has the user chosen what moves Open MPI's messages such that cm, and so libfabric, cannot? "ob1,ucx", or what is not wanted: "^cm". */
static bool another_pml(char *const *argv)
{
	const char *given = mca_argument(argv, "pml"), *chosen = given ? given : getenv("OMPI_MCA_pml");
	return chosen && *chosen && (strstr(chosen, "cm") != NULL) == (*chosen == '^');
}

/*
 * Has /dev/shm room for windows? Both of Open MPI's ways have them there, but where one does not fit osc/rdma returns an error
 * on all ranks, and osc/sm only on one, for which the others then wait. Containers often have 64 MiB.
 */
static bool shm_is_large(void)
{
	struct statvfs fs;
	return !statvfs("/dev/shm", &fs) && (uint64_t)fs.f_blocks * fs.f_frsize >= UINT64_C(1) << 30;
}

/*
 * pml cm and mtl ofi are named although Open MPI 5 would choose them: if sennit cannot be loaded the job then fails and
 * says so, instead of running over something else in silence. Debian's configuration also excludes mtl ofi.
 *
 * Open MPI up to 5.0.8 sets its BTLs up only where pml ob1 may be chosen, and has no windows over several ranks without
 * (MPI_ERR_WIN). So nothing but ucx is excluded there, and cm chosen as the better one; and since ob1 is left with no BTL
 * but one that needs libfabric too, a job without sennit still fails. One-sided calls then go over sennit as well.
 * A user who asks for another pml gets that BTL for it otherwise, and ob1 calls what it lacks (a segmentation fault).
 *
 * Windows of MPI_Win_allocate on one node are memory that all ranks map. Open MPI 5 has osc/sm make them, which then copies;
 * Open MPI 4 prefers osc/rdma by one (101 to 100), which takes two to five times as long (a fence after a put of 8 bytes 2.7 us, by
 * osc/sm 0.9) and remains for the windows that osc/sm does not make, and where /dev/shm is small.
 */
static void for_open_mpi(struct sn_plan *p, char *const *argv, const struct sn_launcher *l)
{
	bool cm_alone_fails = l->cm_alone_fails;
	bool chosen = getenv("OMPI_MCA_osc_rdma_priority") || mca_argument(argv, "osc_rdma_priority");
	if (l->mpi == SN_MPI_OPEN4 && !chosen &&
	    shm_is_large()) /* without a word: sennit is used in either case */
		sn_plan_set(p, argv, "OMPI_MCA_osc_rdma_priority", "99");
	sn_plan_set(p, argv, "OMPI_MCA_pml", cm_alone_fails ? "^ucx" : "cm");
	if (cm_alone_fails && !another_pml(argv))
		sn_plan_set(p, argv, "OMPI_MCA_btl", "self,ofi");
	sn_plan_set(p, argv, "OMPI_MCA_mtl", "ofi");
}

/* Does this file of parameters say something of them? path: freed. */
static bool file_chooses(char *path)
{
	char line[4096];
	bool yes = false;
	FILE *f = fopen(path, "re");
	while (f && !yes && fgets(line, sizeof(line), f))
		yes = !strncmp(line + strspn(line, " \t"), "coll", 4);
	if (f)
		fclose(f);
	free(path);
	return yes;
}

/* Distributions keep it in /etc/openmpi, or in /etc/openmpi-x86_64. */
static bool system_chooses(void)
{
	glob_t found = {0};
	bool yes = false;
	if (glob("/etc/openmpi*/openmpi-mca-params.conf", 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc && !yes; i++)
			yes = file_chooses(sn_tool_strdup(found.gl_pathv[i]));
	globfree(&found);
	return yes;
}

/* The environment wins over these files, so what stands there would be lost without a word. */
static bool files_choose(const struct sn_launcher *l)
{
	const char *home = getenv("HOME");
	char *real = realpath(l->path, NULL), *dir = sn_tool_dirname(real ? real : l->path);
	bool yes = getenv("OMPI_MCA_mca_base_param_files") ||
		   (home && file_chooses(sn_tool_printf("%s/.openmpi/mca-params.conf", home))) ||
		   file_chooses(sn_tool_printf("%s/../etc/openmpi-mca-params.conf", dir)) || system_chooses();
	free(dir);
	free(real);
	return yes;
}

/* Has the user, or who has installed it, chosen among Open MPI's collectives? */
static bool chooses_collectives(const struct sn_launcher *l, char *const *argv)
{
	bool yes = files_choose(l);
	for (char **e = environ; *e && !yes; e++)
		yes = !strncmp(*e, "OMPI_MCA_coll", 13);
	for (; *argv && !yes; argv++) {
		const char *option = *argv + strspn(*argv, "-");
		yes = !strncmp(*argv, "coll", 4) || !strncmp(*argv, "OMPI_MCA_coll", 13) ||
		      !strncmp(*argv, "mca_base_param_files", 20) ||
		      (option > *argv && (!strcmp(option, "tune") || !strcmp(option, "am")));
	}
	return yes;
}

/* Is this one of several that a launcher has started? Not if it is a launcher itself: one in a shell of `srun --pty` is of rank 0. */
static bool is_rank(const struct sn_launcher *l)
{
	return (l->mpi == SN_MPI_PROGRAM || l->mpi == SN_MPI_UNKNOWN) && sn_launched_rank() >= 0;
}

/*
 * Of 4 to 8 KiB Open MPI makes an MPI_Allreduce on two ranks by a ring, in two exchanges, though by one of what is shorter or longer
 * (shim/openmpi-allreduce.rules). Rules of the user's own stay. One decision for all ranks: each by itself could come to another.
 */
static void collectives_of_open_mpi(struct sn_plan *p, const struct sn_launcher *l, char *const *argv,
				    const char *provider)
{
	char *rules = is_rank(l) || chooses_collectives(l, argv)
			      ? NULL
			      : sn_plan_ours(provider, "openmpi-allreduce.rules");
	if (rules) {
		sn_plan_set(p, argv, "OMPI_MCA_coll_tuned_use_dynamic_rules", "1");
		sn_plan_set(p, argv, "OMPI_MCA_coll_tuned_dynamic_rules_filename", rules);
	}
	free(rules);
}

/*
 * Without NOLOCAL, MPICH keeps messages on the node to its own shared memory. With NOPACK, its default, a matched receive
 * from any source into a derived type of few pieces ends in a segmentation fault, over any provider (5.0, ofi_recv.h: the
 * address is looked up with the channel number of "any source", -1).
 */
static void for_mpich(struct sn_plan *p, char *const *argv)
{
	sn_plan_set(p, argv, "MPIR_CVAR_CH4_NETMOD", "ofi");
	sn_plan_set(p, argv, "MPIR_CVAR_NOLOCAL", "1");
	sn_plan_set(p, argv, "MPIR_CVAR_CH4_OFI_ENABLE_PT2PT_NOPACK", "0");
}

/* Over libfabric its tags end at 2^19 - 1, else at 2^30 - 1; so at 2^24 - 1, of 32,767 ranks. MPICH's, which read that too, do not. */
static void for_intel_mpi(struct sn_plan *p, char *const *argv, bool mpichs_too)
{
	sn_plan_set(p, argv, "I_MPI_FABRICS", "ofi");
	if (!mpichs_too && !getenv(INTELS_TAGS) && !getenv("MPIR_CVAR_CH4_OFI_RANK_BITS"))
		sn_plan_set(p, argv, INTELS_TAGS, "25");
}

/* What ranks on other nodes need of the environment; returns how many names. The caller frees each. */
static size_t exported(const struct sn_plan *p, char *const *argv, char **names)
{
	size_t n = 0;
	for (unsigned i = 0; i < p->env_count; i++)
		if (strncmp(p->env[i].name, "OMPI_MCA_", 9) != 0 && !set_by_arguments(argv, p->env[i].name))
			names[n++] = sn_tool_strdup(p->env[i].name);
	for (char **e = environ; *e; e++) {
		char *name = sn_tool_printf("%.*s", (int)strcspn(*e, "="), *e);
		if (strncmp(name, "SENNIT_", 7) == 0 && !set_by_arguments(argv, name))
			names[n++] = name;
		else
			free(name);
	}
	return n;
}

/*
 * The file in which --app says what is to be started, or NULL. It may be an argument of the program's as well; so nothing is done
 * about it that would be wrong there, and beside an -x of the user's the parameter below would be.
 */
static const char *appfile(char *const *argv)
{
	const char *file = NULL;
	for (; argv[0]; argv++) {
		if (argv[1] && (strcmp(argv[0], "--app") == 0 || strcmp(argv[0], "-app") == 0))
			file = argv[1];
		if (strcmp(argv[0], "-x") == 0 || strcmp(argv[0], "--x") == 0)
			return NULL;
	}
	return file;
}

static bool file_exports(const char *path)
{
	char line[4096], *rest;
	bool yes = false;
	FILE *f = fopen(path, "re");
	while (f && !yes && fgets(line, sizeof(line), f))
		for (char *word = strtok_r(line, " \t\n", &rest); word && !yes;
		     word = strtok_r(NULL, " \t\n", &rest))
			yes = strcmp(word, "-x") == 0 || strcmp(word, "--x") == 0;
	if (f)
		fclose(f);
	return yes;
}

/*
 * Open MPI 4 drops its command line's -x where --app names a file of programs; this parameter reaches all of them. False: one has
 * an -x, which it cannot be mixed with.
 */
static bool export_to_file(struct sn_plan *p, const char *file, char *const *names, size_t count)
{
	if (file_exports(file)) {
		sn_plan_note(
			p,
			"%s has options -x: each of its lines needs -x FI_PROVIDER_PATH -x FI_PROVIDER, too, "
			"if ranks run on other nodes",
			file);
		return false;
	}
	char *list = sn_tool_strdup("");
	for (size_t i = 0; i < count; i++) {
		char *more = sn_tool_printf("%s%s%s", list, i ? ";" : "", names[i]);
		free(list);
		list = more;
	}
	add(p, "OMPI_MCA_mca_base_env_list", list, false);
	free(list);
	return true;
}

/* -x NAME for each name at out[n] and after; returns where they end. */
static size_t put_exports(char *const *names, size_t count, char **out, size_t n)
{
	for (size_t i = 0; i < count; i++) {
		out[n++] = sn_tool_strdup("-x");
		out[n++] = sn_tool_strdup(names[i]);
	}
	return n;
}

/*
 * Open MPI passes variables other than OMPI_MCA_* to other nodes only when asked with -x, once per variable, and 4.x only for
 * the program before whose name that stands, where several are started as one job (mpirun -n 1 ./a : -n 3 ./b). It takes
 * them from its own environment. -x cannot be mixed with the parameter mca_base_env_list (4.x ends the job).
 */
static char **insert_exports(struct sn_plan *p, const struct sn_launcher *l, char *const *argv)
{
	size_t argc = 0, env_count = 0, n = 0, programs = 1, count = 0;
	const char *file = l->mpi == SN_MPI_OPEN4 ? appfile(argv) : NULL;
	bool listed = false;
	for (; argv[argc]; argc++)
		programs += strcmp(argv[argc], ":") == 0;
	for (char **e = environ; *e; e++)
		env_count++;
	char **names = calloc(env_count + SN_PLAN_ENV_MAX, sizeof(*names));
	char **out = calloc(argc + 1 + programs * 2 * (env_count + SN_PLAN_ENV_MAX), sizeof(*out));
	if (!out || !names) {
		free(out);
		free(names);
		return NULL;
	}
	if (getenv("OMPI_MCA_mca_base_env_list") || mca_argument(argv, "mca_base_env_list"))
		sn_plan_note(p, "mca_base_env_list is set, so no -x options are added: name FI_PROVIDER_PATH "
				"and FI_PROVIDER "
				"in it if ranks run on other nodes");
	else
		count = exported(p, argv, names);
	listed = file && count && export_to_file(p, file, names, count);
	for (size_t i = 0; i < argc; i++) {
		out[n++] = sn_tool_strdup(argv[i]);
		if (!listed && (i == 0 || strcmp(argv[i], ":") == 0))
			n = put_exports(names, count, out, n);
	}
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
	return out;
}

static char **copy_arguments(char *const *argv)
{
	size_t argc = 0;
	while (argv[argc])
		argc++;
	char **out = calloc(argc + 1, sizeof(*out));
	for (size_t i = 0; out && i < argc; i++)
		out[i] = sn_tool_strdup(argv[i]);
	return out;
}

/*
 * MPICH and Intel MPI: a program may be linked with a libmpich.so.12 that cannot use libfabric (Debian's); it is then
 * given another library with the same ABI. Python and scripts show no library: then the launcher's own build decides.
 * The launchers of both start programs that run on either library, and each has to be told in its own words.
 */
static int check_mpich_library(struct sn_plan *p, const struct sn_launcher *l, char *const *argv,
			       const char *mpich_lib)
{
	bool launcher = l->mpi == SN_MPI_MPICH || l->mpi == SN_MPI_INTEL;
	const char *wants;
	enum sn_mpich_kind kind = sn_mpich_program_runs_on(argv + launcher, &wants);
	bool redirect = launcher && !l->ofi;
	if (wants && strcmp(wants, "libmpi.so.40") == 0 && launcher)
		sn_plan_note(
			p,
			"the program is linked with Open MPI but started by %s: every rank would run alone",
			l->title);
	if (wants)
		redirect = strcmp(wants, "libmpich.so.12") == 0 && !sn_mpich_installed_suits(l);
	if ((redirect || mpich_lib) && sn_mpich_redirect(p, l, mpich_lib, &kind) != 0)
		return -1;
	if (kind == SN_MPICH_INTEL && l->mpi == SN_MPI_MPICH)
		for_intel_mpi(p, argv, false);
	if (kind == SN_MPICH_ITSELF && l->mpi == SN_MPI_INTEL) {
		for_mpich(p, argv);
		unset(p, INTELS_TAGS);
	}
	return 0;
}

/* By Open MPI: what is started as it stands, but not over sennit, or not as one job. */
static void note_the_program(struct sn_plan *p, const struct sn_launcher *l, char *const *argv)
{
	const char *wants = sn_mpich_program_library(argv + 1);
	if (wants && strcmp(wants, "libmpi.so.40") != 0)
		sn_plan_note(p,
			     "the program is linked with MPICH or Intel MPI (%s) but started by %s: every "
			     "rank would run alone, or, with an MPICH that joins by PMIx, without sennit",
			     wants, l->title);
}

int sn_plan_make(struct sn_plan *p, const struct sn_launcher *l, char **argv, const char *provider,
		 const char *mpich_lib)
{
	memset(p, 0, sizeof(*p));
	bool any = l->mpi == SN_MPI_PROGRAM || l->mpi == SN_MPI_UNKNOWN;
	bool open_mpi = l->mpi == SN_MPI_OPEN4 || l->mpi == SN_MPI_OPEN5;
	if (l->instead_of[0])
		sn_plan_note(p,
			     "%s would start whichever mpiexec.hydra comes first in PATH: %s is run instead",
			     l->instead_of, l->path);
	if (l->mpi == SN_MPI_UNKNOWN)
		sn_plan_note(p, "%s does not say which MPI it belongs to: set up for all that are known",
			     l->path);
	for_libfabric(p, argv, provider);
	sn_plan_in_front(p, l, argv, provider);
	if (open_mpi || any) {
		for_open_mpi(p, argv, l);
		/* The EFA provider in libfabric 1.11 (Ubuntu 22.04) aborts a process that forks, whatever provider is chosen, unless this is set. */
		if (l->fork_aborts)
			sn_plan_set(p, argv, "RDMAV_FORK_SAFE", "1");
		collectives_of_open_mpi(p, l, argv, provider);
	}
	if (l->mpi == SN_MPI_MPICH || any)
		for_mpich(p, argv);
	if (l->mpi == SN_MPI_INTEL || any)
		for_intel_mpi(p, argv, any);
	if (l->mpi == SN_MPI_INTEL)
		sn_plan_set(p, argv, "I_MPI_HYDRA_ENV", "all");
	if (open_mpi)
		note_the_program(p, l, argv);
	else if (check_mpich_library(p, l, argv, mpich_lib) != 0)
		return -1;
	p->argv = open_mpi ? insert_exports(p, l, argv) : copy_arguments(argv);
	if (!p->argv) {
		sn_tool_complain("out of memory");
		return -1;
	}
	p->path = sn_tool_strdup(l->path);
	if (l->instead_of[0]) {
		free(p->argv[0]);
		p->argv[0] = sn_tool_strdup(l->path);
	}
	if (any)
		sn_plan_for_srun(p);
	if (l->mpi != SN_MPI_PROGRAM)
		sn_plan_in_front_by_arguments(p);
	return 0;
}

static int make_directories(const char *path)
{
	char *copy = sn_tool_strdup(path);
	int error = 0;
	for (char *p = copy + 1; !error; p++) {
		if (*p != '/' && *p)
			continue;
		char c = *p;
		*p = 0;
		if (mkdir(copy, 0700) != 0 && errno != EEXIST)
			error = errno;
		*p = c;
		if (!c)
			break;
	}
	free(copy);
	return error;
}

/* Make or correct one link, without a moment in which another sennit run could find none. */
static int make_link(const char *dir, const struct sn_plan_link *k)
{
	char *path = sn_tool_printf("%s/%s", dir, k->name);
	char *fresh = sn_tool_printf("%s.%ld", path, (long)getpid());
	char now[PATH_MAX];
	ssize_t n = readlink(path, now, sizeof(now) - 1);
	now[n > 0 ? n : 0] = 0;
	int error = 0;
	if (strcmp(now, k->target) != 0 && (symlink(k->target, fresh) != 0 || rename(fresh, path) != 0)) {
		error = errno;
		unlink(fresh);
	}
	free(path);
	free(fresh);
	return error;
}

int sn_plan_apply(const struct sn_plan *p)
{
	int error = p->link_dir ? make_directories(p->link_dir) : 0;
	for (unsigned i = 0; i < p->link_count && !error; i++)
		error = make_link(p->link_dir, &p->links[i]);
	if (error) {
		sn_tool_complain("cannot make the links in %s: %s (XDG_CACHE_HOME chooses another place)",
				 p->link_dir, strerror(error));
		return -1;
	}
	for (unsigned i = 0; i < p->env_count; i++) {
		if (!p->env[i].keep && setenv(p->env[i].name, p->env[i].value, 1) != 0) {
			sn_tool_complain("cannot set %s: %s", p->env[i].name, strerror(errno));
			return -1;
		}
	}
	return 0;
}

static void print_words(const char *first, const char *second, const char *third)
{
	fputs(first, stdout);
	sn_tool_print_quoted(second);
	if (third) {
		putchar(' ');
		sn_tool_print_quoted(third);
	}
	putchar('\n');
}

void sn_plan_print(const struct sn_plan *p)
{
	for (unsigned i = 0; i < p->note_count; i++)
		printf("# %s\n", p->notes[i]);
	if (p->link_dir)
		print_words("mkdir -p ", p->link_dir, NULL);
	for (unsigned i = 0; i < p->link_count; i++) {
		char *path = sn_tool_printf("%s/%s", p->link_dir, p->links[i].name);
		print_words("ln -sfn ", p->links[i].target, path);
		free(path);
	}
	for (unsigned i = 0; i < p->env_count; i++) {
		printf("%sexport %s=", p->env[i].keep ? "# already set: " : "", p->env[i].name);
		sn_tool_print_quoted(p->env[i].value);
		putchar('\n');
	}
	for (char **a = p->argv; *a; a++) {
		if (a != p->argv)
			putchar(' ');
		sn_tool_print_quoted(*a);
	}
	putchar('\n');
}

void sn_plan_free(struct sn_plan *p)
{
	for (unsigned i = 0; i < p->env_count; i++)
		free(p->env[i].value);
	for (unsigned i = 0; i < p->link_count; i++) {
		free(p->links[i].name);
		free(p->links[i].target);
	}
	for (unsigned i = 0; i < p->note_count; i++)
		free(p->notes[i]);
	for (char **a = p->argv; a && *a; a++)
		free(*a);
	free(p->argv);
	free(p->path);
	free(p->in_front);
	free(p->link_dir);
	memset(p, 0, sizeof(*p));
}
