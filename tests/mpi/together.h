/* SPDX-License-Identifier: BSD-3-Clause */
/* What together.c and together_flat.c share. */
#ifndef SN_TESTS_TOGETHER_H
#define SN_TESTS_TOGETHER_H

#include <mpi.h>
#include <stdbool.h>

#define ROUNDS 150
#define ROOM   24  /* ints, or doubles */
#define PAGE   512 /* doubles */

extern int rank, ranks;
extern long calls; /* that a tool should have seen */

void expect(bool right, const char *what, long i);
void barrier(MPI_Comm comm);
void allreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
void one_bcast(int *v, int n, int root, MPI_Comm comm, int i);
void one_sum(int n, MPI_Comm comm, bool in_place, int i);
void barriers(MPI_Comm comm);

void flat_ones(void);

#endif
