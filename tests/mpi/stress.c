/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A randomized stress of an MPI, every received byte checked.
 *
 *   stress [-t SECONDS] [-r ROUNDS] [-s SEED] [-m LONGEST MESSAGE] [-b BYTES A ROUND] [-n MESSAGES A STORM AND RANK]
 *          [-w SECONDS A ROUND MAY TAKE] [-f FILE] [-o] [-d]
 *
 * It ends after SECONDS, though not before LEAST rounds, or after ROUNDS, whichever comes first; with -f not before FILE
 * is there. It prints its seed first and what it did last, and fails on the first wrong byte. A round is a function of the
 * seed and its number alone; what differs between two runs is the timing.
 * -o, -d: see stress.h. Needs about 4 times BYTES A ROUND of memory, all ranks together.
 */
#include "stress.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LEAST 10 /* so that a machine that is slow to start tests something, too */

struct args {
	double seconds;
	const char *file;
	int rounds;
	unsigned watch;
	uint64_t seed;
	struct limits lim;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void parse(int argc, char **argv, struct args *a)
{
	int c;

	while ((c = getopt(argc, argv, "t:r:s:m:b:n:w:f:")) != -1) {
		switch (c) {
		case 't': a->seconds = atof(optarg); break;
		case 'r': a->rounds = atoi(optarg); break;
		case 's': a->seed = strtoull(optarg, NULL, 0); break;
		case 'm': a->lim.max_len = strtoull(optarg, NULL, 0); break;
		case 'b': a->lim.round_bytes = strtoull(optarg, NULL, 0); break;
		case 'n': a->lim.max_msgs = atoi(optarg); break;
		case 'w': a->watch = (unsigned)atoi(optarg); break;
		case 'f': a->file = optarg; break;
		default: exit(2);
		}
	}
}

static void open_world(struct world *w)
{
	MPI_Comm_rank(MPI_COMM_WORLD, &w->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &w->size);
	w->comm[0] = MPI_COMM_WORLD;
	MPI_Comm_dup(MPI_COMM_WORLD, &w->comm[1]);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -w->rank, &w->comm[2]);
	MPI_Comm_split(MPI_COMM_WORLD, w->rank % 2, w->rank, &w->comm[3]);
	MPI_Comm_dup(MPI_COMM_WORLD, &w->coll);
}

static void close_world(struct world *w)
{
	for (int i = 1; i < COMMS; i++)
		MPI_Comm_free(&w->comm[i]);
	MPI_Comm_free(&w->coll);
}

static void one_round(const struct world *w, const struct args *a, uint64_t seed)
{
	struct rng r = {seed};

	switch (below(&r, 10)) {
	case 0: step_ring(w, &a->lim, &r); break;
	case 1: step_sendrecv(w, &a->lim, &r); break;
	case 2: step_blocking(w, &a->lim, &r); break;
	case 3: step_truncate(w, &a->lim, &r); break;
	case 4: step_cancel(w, &a->lim, &r); break;
	case 5: step_collectives(w, &a->lim, &r); break;
	default: storm(w, &a->lim, seed);
	}
}

/* Rank 0's word counts. */
static int goes_on(const struct args *a, double since)
{
	bool more =
		now() - since < a->seconds || st.round + 1 < LEAST || (a->file && access(a->file, F_OK) != 0);
	return more && st.round + 1 < a->rounds;
}

int main(int argc, char **argv)
{
	struct args a = {.seconds = 10, .rounds = 1 << 30, .watch = 60};
	struct world w;
	double sum[2], mine[2];
	int go = 1;

	a.lim = (struct limits){.max_len = 64 << 20, .round_bytes = 192 << 20, .max_msgs = 400};
	a.seed = (uint64_t)time(NULL) * 1000003u ^ (uint64_t)getpid();
	parse(argc, argv, &a);
	st.doing = "MPI_Init";
	watch_start(a.watch);
	MPI_Init(&argc, &argv);
	open_world(&w);
	MPI_Bcast(&a.seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	must(w.size >= 2, "needs two ranks or more");
	st.rank = w.rank;
	st.size = w.size;
	st.seed = a.seed;
	if (w.rank == 0)
		printf("stress: %d ranks, seed %llu\n", w.size, (unsigned long long)a.seed);
	fflush(stdout);
	double start = now();
	for (st.round = 0; go; st.round++) {
		watch_feed();
		one_round(&w, &a, mix(a.seed, (uint64_t)st.round));
		st.doing = "agreeing to go on";
		MPI_Barrier(
			MPI_COMM_WORLD); /* the wildcards of one round must not meet the messages of the next */
		go = goes_on(&a, start);
		MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	mine[0] = st.messages;
	mine[1] = st.bytes;
	MPI_Reduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (w.rank == 0)
		printf("stress: %d rounds, %.0f messages, %.1f MiB, every byte right\n", st.round, sum[0],
		       sum[1] / (1 << 20));
	close_world(&w);
	st.doing = "MPI_Finalize";
	MPI_Finalize();
	return 0;
}
