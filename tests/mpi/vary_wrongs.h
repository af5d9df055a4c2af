/* SPDX-License-Identifier: BSD-3-Clause */
/* For vary.c, with its calls: what MPI does not allow. Its handler is called, and what follows is right again. */
#ifndef VARY_WRONGS_H
#define VARY_WRONGS_H

/* Who gets less than is wanted hears nothing, and who gets more does; what follows is right again. */
static void disagree(const struct memory *m, MPI_Comm comm)
{
	int out[RANKS], in[RANKS], wants[RANKS], places[RANKS];
	for (int i = 0; i < 12; i++) {
		int more = i % 2 ? 8 : -8, root = i % ranks, wanted = i % 3 ? 104 : 24;
		for (int r = 0; r < ranks; r++) {
			out[r] = wanted + (rank == root ? more : 0);
			in[r] = wanted + (r == root && r == rank ? more : 0);
			wants[r] = wanted;
			places[r] = 200 * r;
		}
		told = 0;
		MPI_Alltoallv(m->out, out, places, MPI_BYTE, m->in, in, places, MPI_BYTE, comm);
		expect(told == (more > 0 && rank != root), "MPI_Alltoallv of other lengths", i);
		MPI_Barrier(MPI_COMM_WORLD);
		told = 0;
		MPI_Gatherv(m->out, wanted + (rank != root ? more : 0), MPI_BYTE, m->in, wants, places,
			    MPI_BYTE, root, comm);
		expect(told == (more > 0 && rank == root), "MPI_Gatherv of other lengths", i);
		told = 0;
		MPI_Scatterv(m->out, out, places, MPI_BYTE, m->in, wanted + (rank == root ? more : 0),
			     MPI_BYTE, root, comm);
		expect(told == (more > 0 && rank != root), "MPI_Scatterv of other lengths", i);
		for (int k = 0; k < KINDS; k++)
			any(m, (unsigned)k, root, 104, comm, i);
	}
}

/* A message comes where none is expected: of it the MPI says that it is too long. Or none where one is. */
static void disagree_about_messages(const struct memory *m, MPI_Comm comm)
{
	int counts[RANKS], places[RANKS];
	for (int r = 0; r < ranks; r++) {
		counts[r] = 100;
		places[r] = 200 * r;
	}
	told = 0;
	MPI_Gatherv(m->out, rank ? 30000 : 100, MPI_BYTE, m->in, counts, places, MPI_BYTE, 0, comm);
	expect(told > 0 || rank, "a message that nobody expects", told);
	MPI_Barrier(MPI_COMM_WORLD);
	any(m, GATHERV, 0, 104, comm, 1);
	for (int r = 0; r < ranks; r++)
		counts[r] = r ? 30000 : 100;
	told = 0;
	MPI_Gatherv(m->out, 100, MPI_BYTE, m->in, counts, places, MPI_BYTE, 0, comm);
	expect(told == !rank, "no message where one is expected", told);
	MPI_Barrier(MPI_COMM_WORLD);
	told = 0;
	MPI_Gatherv(m->out, 100, MPI_BYTE, m->in, counts, places, MPI_BYTE, 0, comm);
	expect(told == 1, "after that", told);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Nobody waits for a rank whose arguments are wrong, and what follows is right again. */
static void one_is_wrong(const struct memory *m, MPI_Comm comm)
{
	int counts[RANKS], places[RANKS];
	for (int i = 0; i < 3 * ranks; i++) {
		int root = i % ranks;
		for (int r = 0; r < RANKS; r++) {
			counts[r] = 8;
			places[r] = 8 * r;
		}
		told = 0;
		MPI_Gatherv(m->out, rank == root ? -1 : 8, MPI_BYTE, m->in, counts, places, MPI_BYTE, root,
			    comm);
		expect(told == (rank == root), "no count of the root's own", told);
		told = 0;
		MPI_Gatherv(m->out, 8, rank == root ? NONSENSE : MPI_BYTE, m->in, counts, places, MPI_BYTE,
			    root, comm);
		expect(told == (rank == root), "no type of the root's own", told);
		counts[(root + 1) % ranks] = 0;
		told = 0;
		MPI_Scatterv(m->out, counts, places, MPI_BYTE, m->in,
			     ranks > 1 && rank == (root + 1) % ranks ? -1 : 8, MPI_BYTE, root, comm);
		expect(told == (ranks > 1 && rank == (root + 1) % ranks), "no count where nothing comes",
		       told);
		told = 0;
		MPI_Gatherv(rank == root ? m->out : MPI_IN_PLACE, 8, MPI_BYTE, m->in, counts, places,
			    MPI_BYTE, root, comm);
		expect(told == (ranks > 1), "in place on other ranks than the root", told);
		any(m, (unsigned)i, root, 104, comm, i);
	}
}

static void wrongs(const struct memory *m, bool ours)
{
	MPI_Errhandler handler, was;
	MPI_Comm comm;
	int none[RANKS], places[RANKS] = {0};
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_create_errhandler(tell, &handler);
	MPI_Comm_get_errhandler(MPI_COMM_WORLD, &was);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Comm_set_errhandler(comm, handler);
	for (int i = 0; i < 80; i++)
		any(m, (unsigned)i, i % ranks, 104, comm, i);
	for (int r = 0; r < RANKS; r++)
		none[r] = -1;
	for (int i = 0; i < 3; i++) {
		told = 0;
		MPI_Gatherv(m->out, 8, MPI_BYTE, m->in, none, places, MPI_BYTE, ranks, comm);
		MPI_Scatterv(m->out, none, places, MPI_BYTE, m->in, 8, MPI_BYTE, ranks, comm);
		expect(told == 2, "no root", told);
		told = 0;
		MPI_Alltoallv(m->out, none, places, MPI_BYTE, m->in, none, places, MPI_BYTE, comm);
		expect(told == 1, "no count", told);
		told = 0;
		MPI_Gatherv(m->out, -1, MPI_INT, m->in, none, places, MPI_INT, 0, comm);
		expect(told == 1, "no count of MPI_Gatherv's", told);
		MPI_Barrier(MPI_COMM_WORLD);
		any(m, (unsigned)i, i % ranks, 104, comm, i);
	}
	if (ours)
		one_is_wrong(m, comm);
	if (ours)
		disagree(m, comm);
	if (ours)
		disagree_about_messages(m, comm);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, was);
	MPI_Errhandler_free(&handler);
	MPI_Errhandler_free(&was);
	MPI_Comm_free(&comm);
}

#endif
