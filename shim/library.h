/* SPDX-License-Identifier: BSD-3-Clause */
/* A library of this process, and what it calls. */
#ifndef SN_SHIM_LIBRARY_H
#define SN_SHIM_LIBRARY_H

#include "object.h"

struct sn_library {
	struct dl_phdr_info info;
	const ElfW(Dyn) * dynamic;
	uintptr_t fixed, fixed_end; /* what is not to be written any more, once its references are bound */
};

/* The one, or the program, that this lies in; or whose file's name begins so. False: there is none. */
bool sn_library_with(struct sn_library *out, uintptr_t address);
bool sn_library_named(struct sn_library *out, const char *begins);

/*
 * Have it call `function` where it calls another library's function of this name: one entry of its own table of addresses is
 * changed, so nobody else's calls are concerned. False: it has no such entry, or it cannot be written; nothing was done.
 */
bool sn_library_redirect(const struct sn_library *library, const char *name, void (*function)(void));

#endif
