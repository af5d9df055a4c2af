/* SPDX-License-Identifier: BSD-3-Clause */
/* Of test_closing, a library of its own. */
#ifndef SN_TESTS_CLOSING_MPI_H
#define SN_TESTS_CLOSING_MPI_H

#define FOUND __attribute__((visibility("default")))

FOUND int PMPI_Init(int *argc, char ***argv);
FOUND int PMPI_Finalize(void);
FOUND int MPI_Finalize(void);
FOUND unsigned closing_sleeps(unsigned seconds); /* one more than are left */
FOUND unsigned closing_slept(void);		 /* seconds */

#endif
