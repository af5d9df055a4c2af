/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open MPI's btl/ofi, which has its windows over libfabric, sleeps for a second when it is closed, since libfabric's
 * provider "sockets" could not be closed at once. So over Open MPI 5 each program took a second more to end than it
 * needs: 1.2 s in all, of which now 0.2 remain. Ours needs no such time, and where `sennit run` has set FI_PROVIDER
 * there is no other. One such sleep, since Open MPI sleeps second by second where it is asked to wait for a debugger,
 * too.
 */
#include "closing.h"
#include "object.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static _Atomic bool closes; /* MPI_Finalize has begun, and nothing has been left out yet */
static union {
	void *symbol;
	unsigned (*function)(unsigned seconds);
} next;

/* Not when it is called, for it may be from a signal's handler. */
__attribute__((constructor)) static void find_next(void)
{
	next.symbol = dlsym(RTLD_NEXT, "sleep");
}

void sn_closing_see(const char *name)
{
	if (!strcmp(name + (*name == 'P'), "MPI_Finalize"))
		atomic_store(&closes, true);
}

static bool is_open_mpis(const void *caller)
{
	const char *file = sn_file_with(caller);
	return sn_begins(file, "mca_btl_ofi.so") || sn_begins(file, "libopen-pal.so");
}

__attribute__((visibility("default"))) unsigned int sleep(unsigned seconds)
{
	bool left_out = seconds == 1 && sn_ours_is_alone() && atomic_load(&closes) &&
			is_open_mpis(__builtin_return_address(0)) && atomic_exchange(&closes, false);
	return left_out ? 0 : next.function(seconds);
}
