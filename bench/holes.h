/* SPDX-License-Identifier: BSD-3-Clause */
/* For rows.c: messages of types with holes, with its buffers. */
#ifndef SN_BENCH_HOLES_H
#define SN_BENCH_HOLES_H

#define COLUMNS	   64 /* of a matrix of doubles */
#define PARTICLE   32 /* bytes from one to the next: three doubles, an int */
#define NEIGHBOURS 4

/* A column to the right, and one from the left, by MPI_Sendrecv. */
static double column(size_t len, long rounds)
{
	int n = (int)(len / sizeof(double)), right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Datatype type;
	MPI_Type_vector(n, 1, COLUMNS, MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	for (long i = 0; i < rounds; i++)
		MPI_Sendrecv(mine, 1, type, right, 1, theirs, 1, type, left, 1, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	double took = MPI_Wtime() - start;
	MPI_Type_free(&type);
	return took;
}

/* Particles: so many bytes of them each way, four times, by MPI_Irecv, MPI_Isend and MPI_Waitall. */
static double particles(size_t len, long rounds)
{
	int lens[2] = {3, 1}, n = (int)(len / PARTICLE), right = (rank + 1) % ranks,
	    left = (rank + ranks - 1) % ranks;
	MPI_Aint at[2] = {0, 3 * sizeof(double)};
	MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT}, padded, type;
	MPI_Request r[2 * NEIGHBOURS];
	MPI_Type_create_struct(2, lens, at, types, &padded);
	MPI_Type_create_resized(padded, 0, PARTICLE, &type);
	MPI_Type_free(&padded);
	MPI_Type_commit(&type);
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	for (long i = 0; i < rounds; i++) {
		for (int k = 0; k < NEIGHBOURS; k++)
			MPI_Irecv(theirs + (size_t)k * len, n, type, left, k, MPI_COMM_WORLD, &r[k]);
		for (int k = 0; k < NEIGHBOURS; k++)
			MPI_Isend(mine + (size_t)k * len, n, type, right, k, MPI_COMM_WORLD,
				  &r[NEIGHBOURS + k]);
		MPI_Waitall(2 * NEIGHBOURS, r, MPI_STATUSES_IGNORE);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	double took = MPI_Wtime() - start;
	MPI_Type_free(&type);
	return took;
}

#endif
