/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries of nothing that lie beside the tests' programs (run.py, build), called like those that a GPU comes with. */
#ifndef SN_TESTS_LOAD_BESIDE_H
#define SN_TESTS_LOAD_BESIDE_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static inline bool load_beside(const char *name)
{
	char path[512];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	path[n > 0 ? n : 0] = 0;
	char *slash = strrchr(path, '/');
	if (!slash)
		return false;
	strcpy(slash + 1, name);
	static void *library; /* stays */
	library = dlopen(path, RTLD_NOW);
	return library != NULL;
}

/* Does the table that `sennit info --peer` shows of this process hold these words? */
static inline bool is_shown(const char *words)
{
	bool found = false;
	for (int i = 0; i < 1024 && !found; i++) {
		char path[64], name[64] = "";
		struct stat st;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		if (readlink(path, name, sizeof(name) - 1) < 0 || !strstr(name, "sennit-live"))
			continue;
		int fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		size_t len = !fstat(fd, &st) ? (size_t)st.st_size : 0;
		void *table = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
		if (table != MAP_FAILED) {
			found = memmem(table, len, words, strlen(words));
			munmap(table, len);
		}
		close(fd);
	}
	return found;
}

#endif
