/* SPDX-License-Identifier: BSD-3-Clause */
/* All that the MPI library of test_found has. */
#ifndef SN_TESTS_FOUND_MPI_H
#define SN_TESTS_FOUND_MPI_H

#define FOUND __attribute__((visibility("default")))

FOUND int PMPI_Init(int *argc, char ***argv);
FOUND int PMPI_Request_free(void *request);
FOUND int MPI_Request_free(void *request);

#endif
