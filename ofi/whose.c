/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose code calls: what is right for one MPI is not for another, nor for a program that uses libfabric itself. */
#include "ofi.h"

#include <dlfcn.h>

void *sn_ofi_library_of(const void *code)
{
	Dl_info info;

	return dladdr(code, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

bool sn_ofi_code_of(const void *code, const char *symbol)
{
	Dl_info of_code, of_symbol;
	void *lib = sn_ofi_library_of(code);
	void *at = lib ? dlsym(lib, symbol) : NULL; /* in what it is linked with, too */
	bool yes = at && dladdr(code, &of_code) && dladdr(at, &of_symbol) &&
		   of_symbol.dli_fbase == of_code.dli_fbase;

	if (lib)
		dlclose(lib);
	return yes;
}
