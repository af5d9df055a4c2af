/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric's provider "verbs" reads all of /proc/kallsyms when it is set up, older versions twice, to learn whether
 * the kernel can register the memory of GPUs. libfabric sets up all that was built into it, and only then looks which
 * FI_PROVIDER asks for. The kernel makes up these hundred thousand lines each time: 0.12 to 0.15 s of processor time
 * for each rank, in Debian's libfabric. Where `sennit run` has set FI_PROVIDER nobody would use the answer, and
 * libfabric is told that there is no such file, as on kernels that are built without. All others open what they name.
 */
#include "object.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef FILE *opener(const char *name, const char *mode);

/* By other names here than others call them: in some C libraries fopen64 is a macro. */
EXPORT opener sn_opening_fopen __asm__("fopen");
EXPORT opener sn_opening_fopen64 __asm__("fopen64");

static _Atomic(opener *) next_fopen, next_fopen64;

/* Files are opened before our constructor runs, too. musl has no fopen64 to be found. */
static opener *find(_Atomic(opener *) *slot, const char *symbol)
{
	opener *found;
	void *at = dlsym(RTLD_NEXT, symbol);
	if (!at)
		at = dlsym(RTLD_NEXT, "fopen");
	memcpy(&found, &at, sizeof(found));
	atomic_store_explicit(slot, found, memory_order_relaxed);
	return found;
}

/* Not when it is called, where that can be: dlsym takes a lock, which a forked child may find taken for ever. */
__attribute__((constructor)) static void find_next(void)
{
	find(&next_fopen, "fopen");
	find(&next_fopen64, "fopen64");
}

static bool in_vain(const char *mode, const void *caller)
{
	return sn_ours_is_alone() && mode && *mode == 'r' && !strchr(mode, '+') &&
	       sn_begins(sn_file_with(caller), "libfabric");
}

/* Of any other file the name alone is compared. The next one is called last, so that it sees who called. */
static inline FILE *open_it(_Atomic(opener *) *slot, const char *symbol, const char *name, const char *mode,
			    const void *caller)
{
	if (name && !strcmp(name, "/proc/kallsyms") && in_vain(mode, caller)) {
		errno = ENOENT;
		return NULL;
	}
	opener *next = atomic_load_explicit(slot, memory_order_relaxed);
	if (!next)
		next = find(slot, symbol);
	return next(name, mode);
}

FILE *sn_opening_fopen(const char *name, const char *mode)
{
	return open_it(&next_fopen, "fopen", name, mode, __builtin_return_address(0));
}

FILE *sn_opening_fopen64(const char *name, const char *mode)
{
	return open_it(&next_fopen64, "fopen64", name, mode, __builtin_return_address(0));
}
