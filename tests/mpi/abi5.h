/* SPDX-License-Identifier: BSD-3-Clause */
/* The ABI of MPI 5 (mpi_abi.h) has no numbers for Fortran, but such for any other language. */
#ifndef TEST_ABI5_H
#define TEST_ABI5_H

#include <mpi.h>

#ifdef MPI_H_ABI
#define MPI_Request_c2f MPI_Request_toint
#define MPI_Request_f2c MPI_Request_fromint
#endif

#endif
