/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this machine looks like: processors, caches, and whether another process shares it. Read from /proc and /sys,
 * any of which may be missing in a container; each figure has a value that is safe when it is not known.
 */
#include "base/base.h"
#include "base/launched.h"
#include <ctype.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CPUS_MOST 65536 /* give up asking for larger affinity masks */

static struct sn_topo topo;
static int quota_cpus; /* cores that the cgroup's quota pays for, rounded up; 0 no quota */

/* The first line of a small file, without its newline. */
static bool read_line(const char *path, char *out, int room)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	bool ok = fgets(out, room, f) != NULL;
	fclose(f);
	if (ok)
		out[strcspn(out, "\n")] = '\0';
	return ok;
}

/* The number a small file holds, or -1. */
static long long read_number(const char *path)
{
	char line[64], *end;
	if (!read_line(path, line, sizeof line))
		return -1;
	long long n = strtoll(line, &end, 10);
	return end == line ? -1 : n;
}

/* "0-3,8": how many there are. */
static int cpu_count(const char *list)
{
	int count = 0;
	for (const char *at = list; isdigit((unsigned char)*at);) {
		char *end;
		long from = strtol(at, &end, 10), to = from;
		if (*end == '-')
			to = strtol(end + 1, &end, 10);
		if (to < from || to - from > CPUS_MOST)
			return count;
		count += (int)(to - from + 1);
		at = *end == ',' ? end + 1 : end;
	}
	return count;
}

static int affinity_count(void)
{
	for (int cpus = 1024; cpus <= CPUS_MOST; cpus *= 4) {
		cpu_set_t *set = CPU_ALLOC(cpus);
		if (!set)
			return 0;
		size_t size = CPU_ALLOC_SIZE(cpus);
		int n = sched_getaffinity(0, size, set) ? 0 : CPU_COUNT_S(size, set);
		CPU_FREE(set);
		if (n)
			return n;
	}
	return 0;
}

static void quota_apply(long long quota, long long period)
{
	if (quota <= 0 || period <= 0)
		return;
	long long cpus = (quota + period - 1) / period;
	if (cpus < CPUS_MOST && (!quota_cpus || cpus < quota_cpus))
		quota_cpus = (int)cpus;
}

/* One cgroup directory, either version of the interface. */
static void quota_read(const char *dir)
{
	char path[600], line[64], *end;
	snprintf(path, sizeof path, "%s/cpu.max", dir);
	if (read_line(path, line, sizeof line)) { /* "200000 100000", or "max 100000" */
		long long quota = strtoll(line, &end, 10);
		quota_apply(quota, strtoll(end, NULL, 10));
	}
	snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
	long long quota = read_number(path); /* -1: none */
	snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
	quota_apply(quota, read_number(path));
}

/* The quota may stand at any level above us, so each directory up to the mount is read. */
static void quota_read_up(const char *mount, const char *group)
{
	char dir[512];
	if ((size_t)snprintf(dir, sizeof dir, "%s%s", mount, group) >= sizeof dir)
		return;
	for (size_t base = strlen(mount);;) {
		quota_read(dir);
		char *slash = strrchr(dir, '/');
		if (!slash || (size_t)(slash - dir) < base || strlen(dir) <= base)
			return;
		*slash = '\0';
	}
}

static void read_quota(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/cgroup", "re");
	if (!f)
		return;
	while (fgets(line, sizeof line,
		     f)) { /* "0::/group" (version 2) or "3:cpu,cpuacct:/group" (version 1) */
		line[strcspn(line, "\n")] = '\0';
		char *names = strchr(line, ':');
		char *group = names ? strchr(names + 1, ':') : NULL;
		if (!group)
			continue;
		*group++ = '\0';
		names++;
		if (!*names)
			quota_read_up("/sys/fs/cgroup", group);
		else if (!strcmp(names, "cpu") || !strcmp(names, "cpu,cpuacct") ||
			 !strcmp(names, "cpuacct,cpu"))
			quota_read_up("/sys/fs/cgroup/cpu", group);
	}
	fclose(f);
}

static uint64_t hash_text(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = sn_mix64(h ^ (unsigned char)*text) + 0x9e3779b97f4a7c15u;
	return h;
}

/*
 * Abstract sockets are seen by the processes of one network namespace of one running kernel, so that is what makes two
 * processes "on the same node", whatever the container or host name. Where the boot id is hidden, the host's name and
 * the kernel build stand in for it: wrong answers are then possible, and end in a refused connection, never in mixed
 * data, as local peers prove that they have the endpoint's key.
 */
static uint64_t read_host_id(void)
{
	uint64_t h = 0x73656e6e6974u;
	char boot[64];
	struct utsname u;
	struct stat st;
	if (read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot))
		h = hash_text(h, boot);
	else if (!uname(&u))
		h = hash_text(hash_text(h, u.nodename), u.version);
	if (!stat("/proc/self/ns/net", &st))
		h = sn_mix64(h ^ sn_mix64(st.st_ino) ^ ((uint64_t)st.st_dev << 32));
	return h ? h : 1;
}

static bool hash_file(const char *path, uint64_t *h)
{
	char line[512];
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof line, f))
		*h = hash_text(*h, line);
	fclose(f);
	return true;
}

/*
 * A scheduling group is a cgroup, or in the topmost one a session (sched_autogroup). Paths of cgroups are as the
 * namespace shows them. All cgroups count, not only that of the processor: the answer may be "not the same" by
 * mistake, never "the same".
 */
static uint64_t read_group(void)
{
	uint64_t h = 1;
	struct stat st;
	if (!hash_file("/proc/self/cgroup", &h) || stat("/proc/self/ns/cgroup", &st))
		return 0;
	if (read_number("/proc/sys/kernel/sched_autogroup_enabled") > 0 &&
	    !hash_file("/proc/self/autogroup", &h))
		return 0;
	h = sn_mix64(h ^ sn_mix64(st.st_ino) ^ ((uint64_t)st.st_dev << 32));
	return h ? h : 1;
}

/* The directory of the data cache of this level, as seen from a CPU. */
static bool cache_dir(int cpu, int level, char *dir, size_t room)
{
	for (int index = 0; index < 16; index++) {
		char path[160], text[32];
		snprintf(dir, room, "/sys/devices/system/cpu/cpu%d/cache/index%d", cpu, index);
		snprintf(path, sizeof path, "%s/level", dir);
		long long found = read_number(path);
		if (found < 0)
			return false;
		if (found != level)
			continue;
		snprintf(path, sizeof path, "%s/type", dir);
		if (read_line(path, text, sizeof text) && strcmp(text, "Instruction") != 0)
			return true;
	}
	return false;
}

static uint64_t cache_size(int cpu, int level)
{
	char dir[96], path[128], text[32], *end;
	if (!cache_dir(cpu, level, dir, sizeof dir))
		return 0;
	snprintf(path, sizeof path, "%s/size", dir);
	if (!read_line(path, text, sizeof text))
		return 0;
	uint64_t n = strtoull(text, &end, 10);
	if (*end == 'K')
		n <<= 10;
	else if (*end == 'M')
		n <<= 20;
	else if (*end == 'G')
		n <<= 30;
	return n;
}

static void read_model(char *out, size_t room)
{
	char line[256];
	struct utsname u;
	snprintf(out, room, "%.63s",
		 uname(&u) ? "unknown" : u.machine); /* what stays where cpuinfo has no name */
	FILE *f = fopen("/proc/cpuinfo", "re");
	if (!f)
		return;
	while (fgets(line, sizeof line, f)) {
		char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(out, room, "%s", colon + 1 + strspn(colon + 1, " "));
		break;
	}
	fclose(f);
}

static void read_topo(void)
{
	char list[1024];
	if (read_line("/sys/devices/system/cpu/online", list, sizeof list))
		topo.cpus = cpu_count(list);
	if (topo.cpus < 1)
		topo.cpus = SN_MAX_OF((int)sysconf(_SC_NPROCESSORS_ONLN), 1);
	read_quota();
	int allowed = affinity_count();
	topo.allowed = allowed ? allowed : topo.cpus;
	if (quota_cpus)
		topo.allowed = SN_MIN_OF(topo.allowed, quota_cpus);
	topo.host_id = read_host_id();
	topo.group = read_group();
	topo.launched = sn_launched().here;
	int cpu = SN_MAX_OF(sched_getcpu(), 0);
	topo.l2_size = cache_size(cpu, 2);
	for (int level = 4; level >= 2 && !topo.llc_size; level--)
		topo.llc_size = cache_size(cpu, level);
	read_model(topo.cpu_model, sizeof topo.cpu_model);
}

const struct sn_topo *sn_topo(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, read_topo);
	return &topo;
}

int sn_topo_cpus_allowed(void)
{
	const struct sn_topo *t = sn_topo();
	int n = affinity_count();
	if (!n)
		return t->allowed;
	return quota_cpus ? SN_MIN_OF(n, quota_cpus) : n;
}
