/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/memory.h"
#include "base/launched.h"
#include "base/small_file.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t sn_memory_of_machine(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
	return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : UINT64_C(1) << 32;
}

/* A limit may stand at any level above us. Where there is none the file says "max", or (version 1) a number beyond any memory. */
static uint64_t least_up(uint64_t least, const char *mount, const char *group, const char *name)
{
	char path[512], text[32];
	size_t len = strlen(group);
	for (;;) {
		int n = snprintf(path, sizeof(path), "%s%.*s/%s", mount, (int)len, group, name);
		uint64_t limit = n > 0 && (size_t)n < sizeof(path) && sn_read_text(path, text, sizeof(text))
					 ? sn_decimal(text)
					 : 0;
		if (limit && limit < least)
			least = limit;
		if (!len)
			return least;
		while (len && group[--len] != '/')
			;
	}
}

uint64_t sn_memory_allowed(void)
{
	char text[4096]; /* a line for each controller, in Kubernetes of 200 characters */
	uint64_t least = sn_memory_of_machine();
	if (!sn_read_text("/proc/self/cgroup", text, sizeof(text)))
		return least;
	for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		/* "0::/group" (version 2), or "9:memory:/group" */
		char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
		if (group && group == names + 1) {
			least = least_up(least, "/sys/fs/cgroup", group + 1, "memory.max");
			least = least_up(least, "/sys/fs/cgroup/unified", group + 1, "memory.max");
		} else if (group && !strncmp(names, ":memory:", 8))
			least = least_up(least, "/sys/fs/cgroup/memory", group + 1, "memory.limit_in_bytes");
	}
	return least;
}
