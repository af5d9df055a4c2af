/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"
#include "base/conf.h"
#include "base/thp.h"
#include "copy/heap_file.h"
#include "doctor.h"
#include "tool.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FDS_PER_PEER 3 /* a socket, a pidfd, and one on the way while a connection is made */
#define FDS_WANTED   (256 * FDS_PER_PEER + 64)

static void check_yama(void)
{
	static const char *const meaning[] = {
		"any process of a user may copy from another of the same user",
		"only ancestors, and processes that were permitted, may copy",
		"only privileged processes may copy",
		"nobody may copy, until the next boot",
	};
	char line[16];
	if (!sn_tool_read_line("/proc/sys/kernel/yama/ptrace_scope", line, sizeof(line))) {
		sn_doctor_report(SN_HEALTH_OK, "yama", NULL,
				 "this kernel has no Yama: nothing is restricted");
		return;
	}
	int scope = atoi(line);
	sn_doctor_report(scope == 0 ? SN_HEALTH_OK : SN_HEALTH_LIMITED, "yama",
			 scope == 3 ? "kernel.yama.ptrace_scope=0 at boot"
				    : "sysctl kernel.yama.ptrace_scope=0 (as root)",
			 "ptrace_scope is %d: %s", scope, meaning[scope & 3]);
}

static int status_number(const char *key)
{
	char line[256];
	int value = -1;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			value = atoi(line + strlen(key));
	if (f)
		fclose(f);
	return value;
}

static void check_seccomp(void)
{
	int mode = status_number("Seccomp:");
	if (mode <= 0)
		sn_doctor_report(SN_HEALTH_OK, "seccomp", NULL, "no filter on this process");
	else
		sn_doctor_report(SN_HEALTH_OK, "seccomp", NULL,
				 "a filter is active (mode %d); the lines above show what it lets through",
				 mode);
}

/* The first namespaces of a machine have fixed inode numbers (linux/proc_ns.h). */
static void check_namespaces(void)
{
	static const struct {
		const char *path, *name;
		unsigned long first;
	} kinds[] = {{"/proc/self/ns/user", "user", 0xEFFFFFFDu}, {"/proc/self/ns/pid", "pid", 0xEFFFFFFCu}};
	char own[32] = "";
	for (unsigned i = 0; i < 2; i++) {
		struct stat st;
		if (stat(kinds[i].path, &st) == 0 && st.st_ino != kinds[i].first)
			snprintf(own + strlen(own), sizeof(own) - strlen(own), "%s%s", *own ? ", " : "",
				 kinds[i].name);
	}
	if (!*own)
		sn_doctor_report(SN_HEALTH_OK, "namespaces", NULL,
				 "user and pid namespaces are the machine's first ones");
	else
		sn_doctor_report(
			SN_HEALTH_OK, "namespaces", NULL,
			"inside a container (own namespaces: %s): with ranks in other containers, share its "
			"pid and "
			"user namespace for single copy, and the network namespace for any shared memory",
			own);
}

static void check_descriptors(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return;
	bool enough = r.rlim_max >= FDS_WANTED;
	uint64_t peers = r.rlim_max > 64 ? (r.rlim_max - 64) / FDS_PER_PEER : 0;
	sn_doctor_report(
		enough ? SN_HEALTH_OK : SN_HEALTH_LIMITED, "descriptors",
		"raise the hard limit: ulimit -Hn, /etc/security/limits.conf, docker --ulimit nofile=65536",
		"%" PRIu64 " (up to %" PRIu64 "): enough for about %" PRIu64 " peers on the node",
		(uint64_t)r.rlim_cur, (uint64_t)r.rlim_max, peers);
}

static void check_memlock(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_MEMLOCK, &r) != 0)
		return;
	if (r.rlim_cur == RLIM_INFINITY)
		sn_doctor_report(SN_HEALTH_OK, "locked memory", NULL,
				 "unlimited (today's paths pin nothing)");
	else
		sn_doctor_report(SN_HEALTH_OK, "locked memory", NULL,
				 "%" PRIu64 " KiB (today's paths pin nothing)", (uint64_t)r.rlim_cur >> 10);
}

static void check_huge_pages(void)
{
	char line[SN_THP_TEXT];
	if (!sn_thp_read("enabled", line)) {
		sn_doctor_report(SN_HEALTH_LIMITED, "huge pages", "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
				 "no transparent huge pages: a single copy of a large buffer takes about "
				 "twice as long");
		return;
	}
	bool never = strstr(line, "[never]"), always = strstr(line, "[always]");
	sn_doctor_report(never ? SN_HEALTH_LIMITED : SN_HEALTH_OK, "huge pages",
			 "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
			 "transparent huge pages: %s",
			 never	  ? "never: a single copy of a large buffer takes about twice as long"
			 : always ? "always"
				  : "where a program asks for them (madvise)");
}

/* Where peers map large allocations (shim/heap.c). */
static void check_shared_huge_pages(void)
{
	char usual[SN_THP_TEXT] = "", shared[SN_THP_TEXT];
	if (!sn_conf_num(SN_CONF_HEAP))
		return;
	if (!sn_thp_read("shmem_enabled", shared)) {
		sn_doctor_report(SN_HEALTH_LIMITED, "shared memory",
				 "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
				 "no huge pages: what peers map is in pages of 4 KiB");
		return;
	}
	sn_thp_read("enabled", usual);
	bool wanted = sn_conf_num(SN_CONF_HUGE) && !strstr(usual, "[never]");
	int own = wanted && !sn_thp_shared() ? sn_heap_file_huge(4096) : -1;
	if (own >= 0)
		close(own);
	sn_doctor_report(
		own >= 0 || sn_thp_shared() ? SN_HEALTH_OK : SN_HEALTH_LIMITED, "shared memory",
		!sn_conf_num(SN_CONF_HUGE)
			? "SENNIT_HUGE=yes"
			: "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled (as root), or "
			  "user "
			  "namespaces allowed (docker --security-opt seccomp=unconfined, "
			  "user.max_user_namespaces)",
		"%s",
		own >= 0 ? "large allocations that peers map are in huge pages, of a file system of their own"
		: sn_thp_shared() ? "large allocations that peers map are in huge pages"
		: strstr(usual, "[always]")
			? "peers map no allocations of 2 MiB and more, since other memory gets huge pages "
			  "and "
			  "shared memory does not: the kernel copies those, and sums in them take twice as "
			  "long"
			: "large allocations that peers map are in pages of 4 KiB: what is not in the "
			  "cache takes up to 1.6 times as long, the first use of a buffer up to 5 times");
}

static void check_cpus(void)
{
	const struct sn_topo *t = sn_topo();
	if (t->allowed >= 2)
		sn_doctor_report(SN_HEALTH_OK, "processors", NULL, "%d of %d are open to this process",
				 t->allowed, t->cpus);
	else
		sn_doctor_report(
			SN_HEALTH_LIMITED, "processors", "taskset, the cgroup's cpu quota, or docker --cpus",
			"%d of %d is open to this process: waiting ranks take turns", t->allowed, t->cpus);
}

void sn_doctor_limits(void)
{
	check_cpus();
	check_yama();
	check_seccomp();
	check_namespaces();
	check_descriptors();
	check_memlock();
	check_huge_pages();
	check_shared_huge_pages();
}
