/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each facility is tried, not looked up: policies (Yama, seccomp, SELinux, namespaces) decide together, and only the
 * call itself tells the outcome. Single copy is tried between two siblings, as two ranks of one job are.
 */
#include "base/conf.h"
#include "copy/dsa.h"
#include "copy/kmod.h"
#include "doctor.h"
#include "sennit/sennit.h"
#include "tool.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

static volatile uint64_t cookie = 0x5e0017; /* same address in both siblings */

/* In the child that copies: 0, or the errno of the refusal. */
static int copy_from_sibling(pid_t pid, bool write)
{
	uint64_t value = 0x17005e;
	struct iovec here = {&value, sizeof(value)}, there = {(void *)(uintptr_t)&cookie, sizeof(cookie)};
	ssize_t n = write ? process_vm_writev(pid, &here, 1, &there, 1, 0)
			  : process_vm_readv(pid, &here, 1, &there, 1, 0);
	if (n < 0)
		return errno;
	return n == sizeof(value) && (write || value == 0x5e0017) ? 0 : EIO;
}

/* Start the sibling that is copied from: it says through the pipe that it is ready, and waits to be killed. */
static pid_t start_target(bool allow_tracers)
{
	int fds[2];
	char ready;
	if (pipe2(fds, O_CLOEXEC) != 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (allow_tracers)
			prctl(PR_SET_PTRACER, -1L, 0, 0, 0);
		if (write(fds[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	if (pid > 0 && read(fds[0], &ready, 1) != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(fds[0]);
	return pid;
}

/* The errno that one sibling gets copying from or to the other; 0 when it works. */
static int try_single_copy(bool write, bool allow_tracers)
{
	pid_t target = start_target(allow_tracers);
	if (target < 0)
		return EAGAIN;
	pid_t copier = fork();
	if (copier == 0)
		_exit(copy_from_sibling(target, write));
	int status = EAGAIN << 8;
	if (copier > 0)
		waitpid(copier, &status, 0);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

static const char *single_copy_fix(int error)
{
	char scope[16];
	if (error == ENOSYS)
		return "the kernel was built without CONFIG_CROSS_MEMORY_ATTACH, or a seccomp filter hides "
		       "the call";
	if (sn_tool_read_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope)) && scope[0] != '0')
		return "sysctl kernel.yama.ptrace_scope=0 (as root; in /etc/sysctl.d to keep it)";
	return "containers: run them with --cap-add=SYS_PTRACE, or a seccomp profile that allows "
	       "process_vm_readv";
}

static void check_single_copy(void)
{
	static const char *const names[] = {"process_vm_readv", "process_vm_writev"};
	for (int write = 0; write < 2; write++) {
		int plain = try_single_copy(write, false);
		int allowed = plain ? try_single_copy(write, true) : 0;
		if (!plain)
			sn_doctor_report(SN_HEALTH_OK, names[write], NULL,
					 "works between two processes: large messages are "
					 "copied once");
		else if (!allowed)
			sn_doctor_report(
				SN_HEALTH_LIMITED, names[write], single_copy_fix(plain),
				"refused (%s) unless the other process permits it with PR_SET_PTRACER",
				strerror(plain));
		else
			sn_doctor_report(
				SN_HEALTH_LIMITED, names[write], single_copy_fix(plain),
				"refused (%s): large messages outside the shareable heap are copied twice",
				strerror(plain));
	}
}

#define MEMFD_ENOUGH (32u << 20) /* more than the longest ring that the setting `ring` allows */

/* The kernel counts it for shared memory as well, and kills who goes beyond it. */
static bool file_size_limited(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    limit.rlim_cur >= MEMFD_ENOUGH)
		return false;
	sn_doctor_report(SN_HEALTH_MISSING, "memfd", "ulimit -f unlimited",
			 "the limit on the size of files, %llu bytes, counts for shared memory, too",
			 (unsigned long long)limit.rlim_cur);
	return true;
}

static void check_memfd(void)
{
	if (file_size_limited())
		return;
	int want = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int fd = memfd_create("sennit-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool ok = fd >= 0 && ftruncate(fd, 4096) == 0 && fcntl(fd, F_ADD_SEALS, want) == 0 &&
		  (fcntl(fd, F_GET_SEALS) & want) == want;
	int error = errno;
	void *map = ok ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (map != MAP_FAILED)
		munmap(map, 4096);
	if (fd >= 0)
		close(fd);
	if (ok && map != MAP_FAILED)
		sn_doctor_report(SN_HEALTH_OK, "memfd", NULL,
				 "shared memory without files, sealed against truncation");
	else
		sn_doctor_report(SN_HEALTH_MISSING, "memfd",
				 "Linux 3.17 or later, and a seccomp profile that allows memfd_create",
				 "memfd_create or its seals are refused (%s): sennit cannot share memory",
				 strerror(error));
}

/* Bind, connect and read the peer's credentials on an abstract socket. 0 or an errno. */
static int try_abstract_socket(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int len = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "sennit-doctor-%ld", (long)getpid());
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
	struct ucred cred;
	socklen_t cred_size = sizeof(cred);
	int error = 0;
	int l = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
	    c = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (l < 0 || c < 0 || bind(l, (struct sockaddr *)&a, size) != 0 || listen(l, 1) != 0 ||
	    connect(c, (struct sockaddr *)&a, size) != 0 ||
	    getsockopt(c, SOL_SOCKET, SO_PEERCRED, &cred, &cred_size) != 0)
		error = errno;
	else if (cred.uid != geteuid())
		error = EACCES;
	if (l >= 0)
		close(l);
	if (c >= 0)
		close(c);
	return error;
}

static void check_sockets(void)
{
	int error = try_abstract_socket();
	if (!error)
		sn_doctor_report(SN_HEALTH_OK, "abstract sockets", NULL,
				 "peers find each other and prove who they are");
	else
		sn_doctor_report(SN_HEALTH_MISSING, "abstract sockets",
				 "allow AF_UNIX sockets (AppArmor, seccomp, systemd)",
				 "refused (%s): processes of this machine cannot find each other",
				 strerror(error));
}

static void check_membarrier(void)
{
	long known = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	int want = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
	if (known > 0 && (known & want) == want)
		sn_doctor_report(SN_HEALTH_OK, "membarrier", NULL,
				 "a sender pays nothing to see whether the receiver sleeps");
	else
		sn_doctor_report(SN_HEALTH_LIMITED, "membarrier",
				 "Linux 4.16 or later; a seccomp profile that allows membarrier",
				 "not offered: each small message costs one more fence");
}

static void check_pidfd(void)
{
	long fd = syscall(SYS_pidfd_open, getpid(), 0);
	if (fd >= 0) {
		close((int)fd);
		sn_doctor_report(SN_HEALTH_OK, "pidfd", NULL,
				 "the death of a peer is seen even if its child keeps its sockets");
	} else {
		sn_doctor_report(SN_HEALTH_LIMITED, "pidfd",
				 "Linux 5.3 or later; a seccomp profile that allows pidfd_open",
				 "not offered (%s): the death of a peer is seen by its closed socket alone",
				 strerror(errno));
	}
}

/* Optional, so its absence is no fault; but a device that may not be opened is one. */
static void check_module(void)
{
	struct sn_kmod *k;
	int rc = sn_kmod_open(&k);
	if (rc == SN_OK) {
		sn_doctor_report(SN_HEALTH_OK, "kernel module", NULL,
				 "loaded: large messages are copied by it; %u DMA channels", k->dma_channels);
		sn_kmod_close(k);
	} else if (access("/dev/sennit", F_OK) != 0) {
		sn_doctor_report(SN_HEALTH_OK, "kernel module", NULL,
				 "not loaded, and not needed (sennit-kmod(4))");
	} else {
		sn_doctor_report(SN_HEALTH_LIMITED, "kernel module",
				 "permissions of /dev/sennit (the udev rule), or a module of this version",
				 "loaded, but not used: %s", sn_last_error());
	}
}

static void check_engine(void)
{
	struct sn_dsa *d;
	if (strcmp(sn_conf_str(SN_CONF_DSA), "off") == 0) {
		sn_doctor_report(SN_HEALTH_OK, "copy engine", NULL, "switched off (dsa=off)");
	} else if (sn_dsa_open(sn_conf_str(SN_CONF_DSA), &d) == SN_OK) {
		sn_doctor_report(SN_HEALTH_OK, "copy engine", NULL, "%u queues, the first %s",
				 sn_dsa_queues(d), sn_dsa_describe(d, 0));
		sn_dsa_close(d);
	} else {
		sn_doctor_report(SN_HEALTH_OK, "copy engine", NULL, "not used, and not needed: %s",
				 sn_last_error());
	}
}

void sn_doctor_kernel(void)
{
	check_single_copy();
	check_module();
	check_engine();
	check_memfd();
	check_sockets();
	check_membarrier();
	check_pidfd();
}
