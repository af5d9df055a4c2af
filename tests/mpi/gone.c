/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 1 dies, and its launcher is told to go on. Rank 0 sends it short messages, which nobody waits for, and nothing
 * else: one of these sends has to fail. With a third rank the two that live exchange messages meanwhile, so that what
 * reads of errors by the way must survive them. What rank 0 has found is written to the file that is named.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SECONDS 12.0
#define STOP	1 /* to rank 2: rank 0 has found what it looked for */

static void say(const char *path, int rc, int sends, double seconds)
{
	FILE *f = fopen(path, "w");
	if (f)
		fprintf(f, "%s after %d sends and %.1f s\n", rc ? "an error" : "no error", sends, seconds);
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	int rank, ranks, rc = 0, sends = 0, stop = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (argc < 2)
		MPI_Abort(MPI_COMM_WORLD, 2);
	if (rank == 1) {
		MPI_Recv(&stop, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		raise(SIGKILL);
	}
	double start = MPI_Wtime(), now = start;
	while (!stop && !rc && now < start + SECONDS) {
		if (rank == 0) {
			rc = MPI_Send(&rank, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
			sends++;
		}
		now = MPI_Wtime();
		if (rank == 0 && (rc || now >= start + SECONDS)) {
			stop = STOP;
			say(argv[1], rc, sends, now - start);
		}
		if (ranks > 2) {
			int other = -1;
			MPI_Sendrecv(&stop, 1, MPI_INT, 2 - rank, 7, &other, 1, MPI_INT, 2 - rank, 7,
				     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			stop |= rank == 2 && other == STOP;
		}
		usleep(10000);
	}
	fflush(NULL);
	_exit(3); /* MPI_Finalize would wait for the dead */
}
