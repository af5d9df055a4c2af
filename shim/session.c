/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of one node in one scheduling group. MPICH's launcher (hydra_pmi_proxy) gives each rank a session of its own, and
 * where Linux groups processes by session (sched_autogroup) sched_yield() then hands the core to no other rank, ever
 * (progress/turns.h): with more ranks than cores each message would cost a sleep and a wake-up, or a time slice. What the
 * launcher wants of the session is the process group, to kill a rank together with its children. So there, and only where
 * sessions are groups, a rank gets that and stays in the session of its launcher, which has no terminal either.
 *
 * Groups also share the cores among each other: the ranks of one session together get as much as whatever else runs in one,
 * say somebody's make, and each in a session of its own as much as all of that. So a rank that need not share its core with
 * others of its job, and hands it to nobody, gets its session after all: when its program begins, as what forks the launcher
 * does not say how many there will be. Where they do share one, it is to weigh as much as theirs would, if this user may say
 * that (CAP_SYS_NICE, or RLIMIT_NICE); else it is one among others.
 */
#include "base/launched.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LAUNCHER "hydra_pmi_proxy"

static int sessions_are_groups(void)
{
	char on = '0';
	int fd = open("/proc/sys/kernel/sched_autogroup_enabled", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, &on, 1);
	close(fd);
	return n == 1 && on == '1';
}

__attribute__((visibility("default"))) pid_t setsid(void)
{
	if (strcmp(program_invocation_short_name, LAUNCHER) == 0 && sessions_are_groups() && !setpgid(0, 0))
		return getpid();
	return (pid_t)syscall(SYS_setsid);
}

static int started_by_it(void)
{
	char name[sizeof(LAUNCHER)] = "", path[32];
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)getppid());
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, name, sizeof(name) - 1);
	close(fd);
	return n == sizeof(name) - 1 && strcmp(name, LAUNCHER) == 0;
}

/* Each step of nice is a quarter more, and the least value -20. All ranks write the same, and that one may not is no fault. */
static void weigh_as(int sessions)
{
	char text[8];
	int nice = 0;
	for (int weight = 1024; weight < 1024 * sessions && nice > -20; weight += weight / 4)
		nice--;
	int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = write(fd, text, (size_t)snprintf(text, sizeof(text), "%d", nice));
	(void)n;
	close(fd);
}

/*
 * The launcher may have bound this rank, so its own cores count. Ranks of MPI_Comm_spawn share them with those that are
 * there already. The group has this process's number before and after, but a leader of one cannot begin a session.
 */
__attribute__((constructor)) static void group_with_others(void)
{
	int here = sn_launched().here;
	pid_t pid = getpid();
	cpu_set_t cores;
	if (!here || getpgrp() != pid || getsid(0) == pid || getenv("PMI_SPAWNED") || !started_by_it() ||
	    !sessions_are_groups() || sched_getaffinity(getppid(), sizeof(cores), &cores))
		return;
	if (here > CPU_COUNT(&cores))
		weigh_as(here);
	else if (!setpgid(0, getpgid(getppid())))
		syscall(SYS_setsid);
}
