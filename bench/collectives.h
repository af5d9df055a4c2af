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

/* The same length for each rank; what comes lies the other way round. */
static void vary(const char *kind, int n, int root)
{
	static int *counts, *displs, *back;
	if (!counts) {
		counts = malloc(sizeof(int) * (size_t)ranks);
		displs = malloc(sizeof(int) * (size_t)ranks);
		back = malloc(sizeof(int) * (size_t)ranks);
	}
	for (int r = 0; r < ranks; r++) {
		counts[r] = n;
		displs[r] = r * n;
		back[r] = (ranks - 1 - r) * n;
	}
	if (!strcmp(kind, "allgatherv"))
		MPI_Allgatherv(mine, n, MPI_BYTE, theirs, counts, back, MPI_BYTE, MPI_COMM_WORLD);
	else if (!strcmp(kind, "alltoallv"))
		MPI_Alltoallv(mine, counts, displs, MPI_BYTE, theirs, counts, back, MPI_BYTE, MPI_COMM_WORLD);
	else if (!strcmp(kind, "gatherv"))
		MPI_Gatherv(mine, n, MPI_BYTE, theirs, counts, back, MPI_BYTE, root, MPI_COMM_WORLD);
	else
		MPI_Scatterv(mine, counts, displs, MPI_BYTE, theirs, n, MPI_BYTE, root, MPI_COMM_WORLD);
}

/* Those that do not block, and MPI_Wait. */
static void begun(const char *kind, int n, int root)
{
	MPI_Request req;
	if (!strcmp(kind, "iallreduce"))
		MPI_Iallreduce(mine, theirs, n / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &req);
	else if (!strcmp(kind, "ibcast"))
		MPI_Ibcast(mine, n, MPI_BYTE, root, MPI_COMM_WORLD, &req);
	else
		MPI_Ialltoall(mine, n, MPI_BYTE, theirs, n, MPI_BYTE, MPI_COMM_WORLD, &req);
	MPI_Wait(&req, MPI_STATUS_IGNORE);
}

/* How long it is the receiver asks, as Python does for objects. */
static void probed(int n, int to, int from)
{
	MPI_Message message;
	MPI_Status status;
	int len;
	MPI_Send(mine, n, MPI_BYTE, to, 1, MPI_COMM_WORLD);
	MPI_Mprobe(from, 1, MPI_COMM_WORLD, &message, &status);
	MPI_Get_count(&status, MPI_BYTE, &len);
	MPI_Mrecv(theirs, len, MPI_BYTE, &message, MPI_STATUS_IGNORE);
}

/*
 * FEW messages to the right and from the left. fresh: none is like another of the last 5,000, as their tags, lengths
 * and buffers are others; else they are the same, and ended by who asks again and again whether they are all over.
 */
static void several(int n, bool fresh, long nth)
{
	enum { FEW = 4, TAGS = 20000, PLACES = 64 };
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, all_over = 0;
	MPI_Request req[2 * FEW];
	for (int k = 0; k < FEW; k++) {
		int tag = fresh ? (int)((nth * FEW + k) % TAGS) : k, len = fresh ? 1 + (n * 7 + tag) % n : n;
		size_t at = (size_t)(fresh ? (nth + k * 16) % PLACES : k) * (size_t)n;
		MPI_Irecv(theirs + at, n, MPI_BYTE, left, tag, MPI_COMM_WORLD, &req[k]);
		MPI_Isend(mine + at, len, MPI_BYTE, right, tag, MPI_COMM_WORLD, &req[FEW + k]);
	}
	if (fresh)
		MPI_Waitall(2 * FEW, req, MPI_STATUSES_IGNORE);
	while (!fresh && !all_over)
		MPI_Testall(2 * FEW, req, &all_over, MPI_STATUSES_IGNORE);
}

enum collective_kind {
	ALLTOALL,
	ALLREDUCE,
	BCAST,
	REDUCE,
	GATHER,
	SCATTER,
	VARY,
	BEGUN,
	PROBED,
	FRESH,
	ASKED,
	NEIGHBOURS,
	EXCHANGE
};

static enum collective_kind collective_kind(const char *kind)
{
	static const char *const names[EXCHANGE] = {
		[ALLTOALL] = "alltoall", [ALLREDUCE] = "allreduce",  [BCAST] = "bcast",	  [REDUCE] = "reduce",
		[GATHER] = "gather",	 [SCATTER] = "scatter",	     [PROBED] = "probed", [FRESH] = "fresh",
		[ASKED] = "asked",	 [NEIGHBOURS] = "neighbours"};
	for (int k = 0; k < EXCHANGE; k++)
		if (names[k] && !strcmp(kind, names[k]))
			return (enum collective_kind)k;
	return kind[strlen(kind) - 1] == 'v' ? VARY : *kind == 'i' ? BEGUN : EXCHANGE;
}

static double collective(const char *kind, size_t len, long rounds)
{
	int n = (int)len, right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Comm all = MPI_COMM_WORLD;
	enum collective_kind which =
		collective_kind(kind); /* to compare names costs as much as a short message */
	MPI_Barrier(all);
	double start = MPI_Wtime();
	for (long i = 0; i < rounds; i++) {
		int root = (int)(i % ranks);
		switch (which) {
		case ALLTOALL: MPI_Alltoall(mine, n, MPI_BYTE, theirs, n, MPI_BYTE, all); break;
		case ALLREDUCE: MPI_Allreduce(mine, theirs, n / 8, MPI_DOUBLE, MPI_SUM, all); break;
		case BCAST: MPI_Bcast(i % 2 ? mine : theirs, n, MPI_BYTE, root, all); break;
		case REDUCE: MPI_Reduce(mine, theirs, n / 8, MPI_DOUBLE, MPI_SUM, root, all); break;
		case GATHER: MPI_Gather(mine, n, MPI_BYTE, theirs, n, MPI_BYTE, root, all); break;
		case SCATTER: MPI_Scatter(mine, n, MPI_BYTE, theirs, n, MPI_BYTE, root, all); break;
		case VARY: vary(kind, n, root); break;
		case BEGUN: begun(kind, n, root); break;
		case PROBED: probed(n, right, left); break;
		case FRESH:
		case ASKED: several(n, which == FRESH, i); break;
		case NEIGHBOURS: neighbours(n); break;
		case EXCHANGE:
			MPI_Sendrecv(mine, n, MPI_BYTE, right, 1, theirs, n, MPI_BYTE, left, 1, all,
				     MPI_STATUS_IGNORE);
		}
	}
	MPI_Barrier(all);
	return MPI_Wtime() - start;
}

#endif
