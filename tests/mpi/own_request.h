/* SPDX-License-Identifier: BSD-3-Clause */
/* Which requests are of libsennit-mpi.so's own (shim/requests.h), for asked.c and pending.c. */
#ifndef SN_TESTS_OWN_REQUEST_H
#define SN_TESTS_OWN_REQUEST_H

#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* An address in libsennit-mpi.so, or one of the numbers that MPICH gives to nothing. */
static inline bool is_own(MPI_Request r)
{
	uintptr_t value = 0;
	Dl_info info;
	memcpy(&value, &r, sizeof(r));
	if (sizeof(r) == sizeof(int))
		return (value & 0xffff0000) == 0x2c5e0000;
	return dladdr((void *)value, &info) && strstr(info.dli_fname, "libsennit-mpi");
}

#endif
