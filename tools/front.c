/* SPDX-License-Identifier: BSD-3-Clause */
/* What `sennit run` puts in front of programs: libraries of ours, and what the C library is to leave out. */
#include "base/conf.h"
#include "plan.h"
#include "tool.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* One library more of ours. */
static void preload(struct sn_plan *p, const char *library)
{
	if (library[strcspn(library, " :")]) {
		sn_plan_note(p, "%s cannot be preloaded: its path contains a space or a colon", library);
		return;
	}
	char *before = p->in_front;
	p->in_front = before ? sn_tool_printf("%s:%s", library, before) : sn_tool_strdup(library);
	free(before);
}

char *sn_plan_ours(const char *provider, const char *name)
{
	static const char *const places[] = {"", "/../sennit"};
	char *dir = sn_tool_dirname(provider), *found = NULL;
	for (unsigned i = 0; i < 2 && !found; i++) {
		char *file = sn_tool_printf("%s%s/%s", dir, places[i], name);
		found = realpath(file, NULL);
		free(file);
	}
	free(dir);
	return found;
}

static void preload_ours(struct sn_plan *p, const char *provider, const char *name)
{
	char *found = sn_plan_ours(provider, name);
	if (found)
		preload(p, found);
	free(found);
}

/*
 * glibc has the kernel tell each thread its core in a page of the thread's, at every switch, which costs a switch of ranks that
 * share a core a twentieth of its time. Nothing here needs that (sched_getcpu() takes 3 ns instead of 2), and libraries that do ask the kernel
 * for it themselves when glibc has not.
 */
static void without_rseq(struct sn_plan *p)
{
	const char *now = getenv("GLIBC_TUNABLES");
	if (!now || !strstr(now, "glibc.pthread.rseq="))
		sn_plan_prepend(p, "GLIBC_TUNABLES", "glibc.pthread.rseq=0");
}

/* What tells the provider which MPI calls wait: programs that make no MPI call never notice. And the heap that peers may
 * map (src/copy/heap.h). */
static void in_front(struct sn_plan *p, const char *provider)
{
	if (sn_conf_num(SN_CONF_SHIM))
		preload_ours(p, provider, "libsennit-mpi.so");
	if (sn_conf_num(SN_CONF_HEAP))
		preload_ours(p, provider, "libsennit-heap.so");
	if (p->in_front) /* before those of the user */
		sn_plan_prepend(p, "LD_PRELOAD", p->in_front);
	if (!sn_conf_num(SN_CONF_HUGE) && !getenv("SENNIT_HUGE")) /* that library reads no file of settings */
		sn_plan_prepend(p, "SENNIT_HUGE", "no");
}

/* Programs that start others in an environment of their own. */
static bool resets_environment(char *const *argv)
{
	static const char *const names[] = {"sudo", "su", "doas", "runuser"};
	const char *name = strrchr(argv[0], '/');
	name = name ? name + 1 : argv[0];
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return !strcmp(name, "env") && argv[1] &&
	       (!strcmp(argv[1], "-i") || !strcmp(argv[1], "-") || !strcmp(argv[1], "--ignore-environment"));
}

/*
 * Does its file give it rights that who starts it has not (set-user-ID, setcap)? Then the C library leaves out what is
 * to be loaded, and ours reads no setting from the environment (secure_getenv()).
 */
static bool gains_rights(const char *name)
{
	struct stat s;
	char *file = sn_tool_which(name);
	bool gains = false;
	if (file && !stat(file, &s))
		gains = ((s.st_mode & S_ISUID) && s.st_uid != getuid()) ||
			((s.st_mode & S_ISGID) && (s.st_mode & S_IXGRP) && s.st_gid != getgid()) ||
			(getuid() && getxattr(file, "security.capability", NULL, 0) > 0);
	free(file);
	return gains;
}

/* What goes in front of the program: not of one that would die of it. */
void sn_plan_in_front(struct sn_plan *p, const struct sn_launcher *l, char *const *argv, const char *provider)
{
	const char *name = NULL;
	enum sn_program kind = sn_mpich_program_kind(argv + (l->mpi != SN_MPI_PROGRAM), &name);
	if (kind != SN_PROGRAM_OPEN)
		sn_plan_note(p,
			     "%s is %s, so nothing can be loaded under it: if it is the MPI program it runs "
			     "without sennit",
			     name,
			     kind == SN_PROGRAM_STATIC ? "statically linked"
						       : "made for another C library than sennit");
	if (resets_environment(argv))
		sn_plan_note(
			p, "%s may take the environment away, and sennit with it: put `sennit run` behind it",
			argv[0]);
	else if (kind == SN_PROGRAM_OPEN && name && gains_rights(name))
		sn_plan_note(
			p,
			"%s is given rights by its file (set-user-ID, setcap), so the system loads nothing "
			"under it and "
			"settings in the environment are not read: messages go over sennit, without what its "
			"libraries do and mend",
			name);
	if (kind != SN_PROGRAM_OTHER_LIBC) {
		in_front(p, provider);
		without_rseq(p);
	}
}

/*
 * Tools are often named so (Open MPI: -x LD_PRELOAD=FILE; Hydra: -genv LD_PRELOAD FILE, -env ...), and what the environment says is
 * then nothing to the program. `-x LD_PRELOAD` alone hands that on.
 */
void sn_plan_in_front_by_arguments(struct sn_plan *p)
{
	static const char name[] = "LD_PRELOAD";
	const size_t n = sizeof(name) - 1;
	for (char **a = p->argv; p->in_front && a[0] && a[1]; a++) {
		const char *option = a[0] + (a[0][0] == '-' && a[0][1] == '-');
		bool hydra = !strcmp(option, "-genv") || !strcmp(option, "-env");
		if ((!hydra && strcmp(option, "-x") != 0) || strncmp(a[1], name, n) != 0)
			continue;
		char **words = a[1][n] == '=' ? &a[1] : hydra && !a[1][n] ? &a[2] : NULL;
		if (!words || !*words)
			continue;
		size_t head = words == &a[1] ? n + 1 : 0;
		char *both = sn_tool_printf("%.*s%s:%s", (int)head, *words, p->in_front, *words + head);
		free(*words);
		*words = both;
	}
}
