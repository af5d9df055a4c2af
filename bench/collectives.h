/* SPDX-License-Identifier: BSD-3-Clause */
/* For rows.c: the collectives, with its buffers. */
#ifndef SN_BENCH_COLLECTIVES_H
#define SN_BENCH_COLLECTIVES_H

static void neighbours(int n)
{
	static const int far[] = {1, 2, 4};
	MPI_Request req[12];
	int count = 0;
	for (int i = 0; i < 3; i++) {
		int to[] = {(rank + far[i]) % ranks, (rank + ranks - far[i] % ranks) % ranks};
		for (int k = 0; k < 2 && to[k] != rank; k++) { /* in the other direction is another message */
			size_t at = (size_t)(2 * i + k) * (size_t)n;
			MPI_Irecv(theirs + at, n, MPI_BYTE, to[k], 2 * i + !k, MPI_COMM_WORLD, &req[count++]);
			MPI_Isend(mine + at, n, MPI_BYTE, to[k], 2 * i + k, MPI_COMM_WORLD, &req[count++]);
		}
	}
	MPI_Waitall(count, req, MPI_STATUSES_IGNORE);
}

static double collective(const char *kind, size_t len, long rounds)
{
	int n = (int)len, right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Comm all = MPI_COMM_WORLD;
	MPI_Barrier(all);
	double start = MPI_Wtime();
	for (long i = 0; i < rounds; i++) {
		int root = (int)(i % ranks);
		if (!strcmp(kind, "alltoall"))
			MPI_Alltoall(mine, n, MPI_BYTE, theirs, n, MPI_BYTE, all);
		else if (!strcmp(kind, "allreduce"))
			MPI_Allreduce(mine, theirs, n / 8, MPI_DOUBLE, MPI_SUM, all);
		else if (!strcmp(kind, "bcast"))
			MPI_Bcast(i % 2 ? mine : theirs, n, MPI_BYTE, root, all);
		else if (!strcmp(kind, "reduce"))
			MPI_Reduce(mine, theirs, n / 8, MPI_DOUBLE, MPI_SUM, root, all);
		else if (!strcmp(kind, "gather"))
			MPI_Gather(mine, n, MPI_BYTE, theirs, n, MPI_BYTE, root, all);
		else if (!strcmp(kind, "scatter"))
			MPI_Scatter(mine, n, MPI_BYTE, theirs, n, MPI_BYTE, root, all);
		else if (!strcmp(kind, "neighbours"))
			neighbours(n);
		else
			MPI_Sendrecv(mine, n, MPI_BYTE, right, 1, theirs, n, MPI_BYTE, left, 1, all,
				     MPI_STATUS_IGNORE);
	}
	MPI_Barrier(all);
	return MPI_Wtime() - start;
}

#endif
