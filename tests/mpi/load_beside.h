/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries of nothing that lie beside the tests' programs (run.py, build), called like those that a GPU comes with. */
#ifndef SN_TESTS_LOAD_BESIDE_H
#define SN_TESTS_LOAD_BESIDE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
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

#endif
