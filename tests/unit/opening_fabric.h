/* SPDX-License-Identifier: BSD-3-Clause */
/* Of test_opening, a library of its own. */
#ifndef SN_TESTS_OPENING_FABRIC_H
#define SN_TESTS_OPENING_FABRIC_H

#include <stdbool.h>
#include <stdio.h>

#ifndef __GLIBC__ /* musl's is a macro, if it has one */
#undef fopen64
#define fopen64 fopen
#endif

#define FOUND __attribute__((visibility("default")))

FOUND FILE *opening_fabric_opens(const char *name, const char *mode);
FOUND FILE *opening_fabric_opens_64(const char *name, const char *mode);
FOUND bool opening_fabric_early(void); /* it could open a file before libsennit-mpi.so was set up */

#endif
