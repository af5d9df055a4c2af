/* SPDX-License-Identifier: BSD-3-Clause */
/* What every unit test includes: cmocka and the headers it wants before it. */
#ifndef SN_TESTS_UNIT_H
#define SN_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A small generator of its own, so that a seed gives the same run everywhere. */
static inline uint64_t unit_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* The seed of a randomized test: UNIT_SEED repeats a run. */
static inline uint64_t unit_seed(void)
{
	const char *given = getenv("UNIT_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)getpid() * 2654435761u;
	print_message("seed %llu (UNIT_SEED repeats this run)\n", (unsigned long long)seed);
	return seed;
}

/*
 * For a test of a library that is loaded before all others: runs this program again behind the one that `setting`, a
 * variable of the environment, names. True: it is loaded. False: this build has none, or none was named.
 */
static inline bool unit_preloaded(const char *setting, char **argv)
{
	const char *library = getenv(setting), *loaded = getenv("LD_PRELOAD");
	if (!library || access(library, R_OK)) {
		fprintf(stderr, "%s names no library: this build has none\n", setting);
		return false;
	}
	if (!loaded || strcmp(loaded, library)) {
		setenv("LD_PRELOAD", library, 1);
		execv("/proc/self/exe", argv);
		perror("/proc/self/exe");
		exit(1);
	}
	return true;
}

#endif
