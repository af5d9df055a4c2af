/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose code calls: what is right for one MPI is not for another, nor for a program that uses libfabric itself. */
#include "ofi.h"

#include <dlfcn.h>

bool sn_ofi_code_of(const void *code, const char *symbol)
{
	Dl_info of_code, of_symbol;
	void *lib = dladdr(code, &of_code) ? dlopen(of_code.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	void *at = lib ? dlsym(lib, symbol) : NULL; /* in what it is linked with, too */
	bool yes = at && dladdr(at, &of_symbol) && of_symbol.dli_fbase == of_code.dli_fbase;

	if (lib)
		dlclose(lib);
	return yes;
}
