/* SPDX-License-Identifier: BSD-3-Clause */
/* For rows.c: one-sided calls in a window of MPI_Win_allocate, with its buffers. */
#ifndef SN_BENCH_ONESIDED_H
#define SN_BENCH_ONESIDED_H

/* Rank 0 to rank 1, which waits in a barrier meanwhile, but for fences: those are everybody's, each to the next one. */
static double onesided(const char *kind, size_t len, long rounds)
{
	bool fences = !strcmp(kind, "winfence"), locks = !strcmp(kind, "winlock"),
	     begins = rank == 0 || fences;
	bool sums = !strcmp(kind, "winsum");
	int n = (int)len, target = fences ? (rank + 1) % ranks : 1;
	long one = 1;
	void *base;
	MPI_Win win;
	MPI_Win_allocate((MPI_Aint)(len < 8 ? 8 : len), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
	memset(base, 0, len);
	if (fences)
		MPI_Win_fence(0, win);
	else if (!locks)
		MPI_Win_lock_all(0, win);
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	for (long i = 0; begins && i < rounds; i++) {
		if (locks)
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
		if (!strcmp(kind, "winget"))
			MPI_Get(theirs, n, MPI_BYTE, target, 0, n, MPI_BYTE, win);
		else if (sums)
			MPI_Fetch_and_op(&one, theirs, MPI_LONG, target, 0, MPI_SUM, win);
		else
			MPI_Put(mine, n, MPI_BYTE, target, 0, n, MPI_BYTE, win);
		if (fences)
			MPI_Win_fence(0, win);
		else if (locks)
			MPI_Win_unlock(target, win);
		else
			MPI_Win_flush(target, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	double took = MPI_Wtime() - start;
	if (!fences && !locks)
		MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	return took;
}

#endif
