/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation of the program's own, whose operands may not be exchanged, for sums.c and together.c. */
#ifndef SN_TESTS_OWN_OP_H
#define SN_TESTS_OWN_OP_H

#include <mpi.h>

static void shift(void *in, void *inout, int *n, MPI_Datatype *type)
{
	int *a = in, *b = inout;
	(void)type;
	for (int k = 0; k < *n; k++)
		b[k] = a[k] * 10 + b[k] % 10;
}

#endif
