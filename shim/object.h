/* SPDX-License-Identifier: BSD-3-Clause */
/* What the loader tells of libraries; and for those that stand in for the C library, whether libfabric has ours alone. */
#ifndef SN_SHIM_OBJECT_H
#define SN_SHIM_OBJECT_H

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline bool sn_begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Has `sennit run` seen to it that libfabric uses no other provider than ours? */
static inline bool sn_ours_is_alone(void)
{
	const char *provider = getenv("FI_PROVIDER");
	return provider && !strcmp(provider, "sennit");
}

/* The file's name without its folder; "": there is none. */
static inline const char *sn_file_of(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

/* Likewise, of the library that this code or data lies in. */
static inline const char *sn_file_with(const void *address)
{
	Dl_info info;
	return sn_file_of(dladdr(address, &info) ? info.dli_fname : NULL);
}

/* Does the address lie in this library, or program? */
static inline bool sn_object_holds(const struct dl_phdr_info *info, uintptr_t address)
{
	bool yes = false;
	for (int i = 0; i < info->dlpi_phnum && !yes; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		yes = p->p_type == PT_LOAD && address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz;
	}
	return yes;
}

#endif
