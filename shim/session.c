/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of one node in one scheduling group. MPICH's launcher (hydra_pmi_proxy) gives each rank a session of its own, and
 * where Linux groups processes by session (sched_autogroup) sched_yield() then hands the core to no other rank, ever
 * (progress/turns.h): with more ranks than cores each message would cost a sleep and a wake-up, or a time slice. What the
 * launcher wants of the session is the process group, to kill a rank together with its children. So there, and only where
 * sessions are groups, a rank gets that and stays in the session of its launcher, which has no terminal either.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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
	if (strcmp(program_invocation_short_name, "hydra_pmi_proxy") == 0 && sessions_are_groups() &&
	    !setpgid(0, 0))
		return getpid();
	return (pid_t)syscall(SYS_setsid);
}
