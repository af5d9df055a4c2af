/* SPDX-License-Identifier: BSD-3-Clause */
/* What a test of the provider is where libfabric's headers are missing. */
#ifndef SN_TESTS_OFI_MISSING_H
#define SN_TESTS_OFI_MISSING_H

#include <stdio.h>

int main(void)
{
	puts("skipped: libfabric's headers are missing");
	return 77;
}

#endif
