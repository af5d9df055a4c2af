/* SPDX-License-Identifier: BSD-3-Clause */
/* For rows.c and calls.c, with their ranks and fail(): the probe of an MPI program, between ranks 0 and 1. */
#ifndef SN_BENCH_PROBE_MPI_H
#define SN_BENCH_PROBE_MPI_H

#include "probe.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROBE_MEMORY 4096 /* bytes, of which the lines are the first */

static struct probe_line *lines;

/* Rank 0's memfd, opened by the others through /proc: nothing is left behind. */
static void probe_open(void)
{
	char path[64] = "";
	int fd = -1;
	if (rank == 0) {
		fd = memfd_create("bench", 0);
		if (fd < 0 || ftruncate(fd, PROBE_MEMORY))
			fail("memfd");
		snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), fd);
	}
	MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, MPI_COMM_WORLD);
	if (rank > 0)
		fd = open(path, O_RDWR);
	lines = mmap(NULL, PROBE_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || lines == MAP_FAILED)
		fail("the probe's memory");
	MPI_Barrier(MPI_COMM_WORLD);
	close(fd);
}

/* All ranks call it. ns; with more than two ranks 0. */
static double probe(void)
{
	static uint64_t round;
	MPI_Barrier(MPI_COMM_WORLD);
	double ns = ranks == 2 ? probe_ns(lines, rank, &round) : 0;
	MPI_Barrier(MPI_COMM_WORLD);
	return ns;
}

#endif
