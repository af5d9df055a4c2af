/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fault of the program's: the last rank makes another collective than the others, or one of another length. Whoever
 * waits in vain for it hears of it, and nobody hears anything as long as one is merely late, even for longer than that takes.
 *
 *   unequal CASE     of those in which it is so
 *   unequal slow     all alike, and the last rank comes late to each, after one that its MPI refuses
 */
#include "stress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG	100000 /* of doubles */
#define LATE_MS 1800

enum { BARRIER, BCAST, ALLREDUCE, REDUCE, ALLTOALL, ALLGATHER, SCAN, IALLREDUCE, ALLTOALLV };

struct called {
	int kind, count, root;
};
static const struct {
	struct called last, others; /* what the last rank calls, and what the others do */
} cases[] = {
	{{ALLREDUCE, LONG, 0}, {ALLREDUCE, 1, 0}},   {{ALLREDUCE, 1, 0}, {ALLREDUCE, LONG, 0}},
	{{SCAN, 2, 0}, {ALLREDUCE, LONG, 0}},	     {{BCAST, 4, 0}, {BCAST, LONG, 0}},
	{{IALLREDUCE, 1, 0}, {IALLREDUCE, LONG, 0}}, {{ALLTOALLV, 4, 0}, {ALLGATHER, 4, 0}},
};
/* What is done slowly. */
static const struct called each[] = {{BARRIER, 0, 0},  {BCAST, 5, 1},  {ALLREDUCE, LONG, 0},
				     {ALLTOALL, 7, 0}, {REDUCE, 4, 0}, {IALLREDUCE, 8, 0}};

static int rank, ranks;
static double out[4 * LONG], in[4 * LONG];

static int make(const struct called *c)
{
	static int counts[64], displs[64];
	MPI_Comm w = MPI_COMM_WORLD;
	MPI_Datatype type = MPI_DOUBLE;
	MPI_Request r;
	int rc;
	for (int i = 0; i < ranks; i++) {
		counts[i] = c->count;
		displs[i] = i * c->count;
	}
	switch (c->kind) {
	case BARRIER: return MPI_Barrier(w);
	case BCAST: return MPI_Bcast(in, c->count, type, c->root, w);
	case ALLREDUCE: return MPI_Allreduce(out, in, c->count, type, MPI_SUM, w);
	case REDUCE: return MPI_Reduce(out, in, c->count, type, MPI_SUM, c->root, w);
	case ALLTOALL: return MPI_Alltoall(out, c->count, type, in, c->count, type, w);
	case ALLGATHER: return MPI_Allgather(out, c->count, type, in, c->count, type, w);
	case SCAN: return MPI_Scan(out, in, c->count, type, MPI_SUM, w);
	case ALLTOALLV: return MPI_Alltoallv(out, counts, displs, type, in, counts, displs, type, w);
	default: break;
	}
	rc = MPI_Iallreduce(out, in, c->count, type, MPI_SUM, w, &r);
	return rc ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE);
}

/* The MPI refuses it, and that is nobody else's affair. */
static void refused(const struct called *c)
{
	struct called wrong = *c;
	wrong.count = -1;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	must(make(&wrong), "a negative count is right");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Each is known by then as one that has been before, and where it goes without the MPI, and for how long, is settled. */
static void slowly(void)
{
	for (size_t k = 0; k < sizeof(each) / sizeof(each[0]); k++) {
		for (int i = 0; i < 20; i++)
			must(!make(&each[k]), "call %d of %zu", i, k);
		for (int i = 0; i < each[k].count; i++)
			out[i] = rank + 1;
		if (rank == ranks - 1 && each[k].kind != BARRIER && each[k].kind != IALLREDUCE)
			refused(&each[k]);
		if (rank == ranks - 1)
			nanosleep(&(struct timespec){LATE_MS / 1000, LATE_MS % 1000 * 1000000L}, NULL);
		must(!make(&each[k]), "call %zu, late", k);
		if (each[k].kind == ALLREDUCE || each[k].kind == IALLREDUCE)
			must(in[each[k].count - 1] == ranks * (ranks + 1) / 2, "a sum is %g",
			     in[each[k].count - 1]);
	}
	if (rank == 0)
		printf("unequal: all is well, every byte right\n");
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	must(argc == 2, "which case?");
	if (!strcmp(argv[1], "slow")) {
		slowly();
		MPI_Finalize();
		return 0;
	}
	size_t k = strtoul(argv[1], NULL, 10);
	must(k < sizeof(cases) / sizeof(cases[0]), "there is no case %zu", k);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; i < 20; i++)
		must(!make(&each[i % 2]), "call %d", i);
	int rc = make(rank == ranks - 1 ? &cases[k].last : &cases[k].others);
	if (rc) {
		fprintf(stderr, "unequal: rank %d has heard of it\n", rank);
		usleep(300000); /* what the launcher has of it by then it shows */
		MPI_Abort(MPI_COMM_WORLD, 3);
	}
	sleep(60); /* of the others one hears */
	return 1;
}
