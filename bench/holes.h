/* SPDX-License-Identifier: BSD-3-Clause */
/* For rows.c: messages of types with holes, with its buffers. */
#ifndef SN_BENCH_HOLES_H
#define SN_BENCH_HOLES_H

#define COLUMNS	   100 /* of a matrix of doubles: no power of two, for which caches have few places */
#define PARTICLE   32  /* bytes from one to the next: three doubles, an int */
#define NEIGHBOURS 4

/* As programs do, one type is made and used again and again, and what uses it first is not timed (rows.c). */
static MPI_Datatype column_of(size_t len)
{
	static MPI_Datatype type;
	static size_t last;
	if (len == last)
		return type;
	if (last)
		MPI_Type_free(&type);
	last = len;
	MPI_Type_vector((int)(len / sizeof(double)), 1, COLUMNS, MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	for (int i = 0; i < 300; i++)
		MPI_Sendrecv(mine, 1, type, (rank + 1) % ranks, 1, theirs, 1, type,
			     (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return type;
}

static MPI_Datatype particle(void)
{
	static MPI_Datatype type;
	static bool made;
	int lens[2] = {3, 1};
	MPI_Aint at[2] = {0, 3 * sizeof(double)};
	MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT}, padded;
	if (made)
		return type;
	made = true;
	MPI_Type_create_struct(2, lens, at, types, &padded);
	MPI_Type_create_resized(padded, 0, PARTICLE, &type);
	MPI_Type_free(&padded);
	MPI_Type_commit(&type);
	return type;
}

/* A column to the right, and one from the left, by MPI_Sendrecv. */
static double column(size_t len, long rounds)
{
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Datatype type = column_of(len);
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	for (long i = 0; i < rounds; i++)
		MPI_Sendrecv(mine, 1, type, right, 1, theirs, 1, type, left, 1, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Wtime() - start;
}

/* Particles: so many bytes of them each way, four times, by MPI_Irecv, MPI_Isend and MPI_Waitall. */
static double particles(size_t len, long rounds)
{
	int n = (int)(len / PARTICLE), right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Datatype type = particle();
	MPI_Request r[2 * NEIGHBOURS];
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
	return MPI_Wtime() - start;
}

#endif
