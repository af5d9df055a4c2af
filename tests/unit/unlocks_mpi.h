/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_TESTS_UNLOCKS_MPI_H
#define SN_TESTS_UNLOCKS_MPI_H

/* 0: all went well. */
__attribute__((visibility("default"))) int mpi_lets_go(void);
__attribute__((visibility("default"))) int mpi_yields(void);

#endif
