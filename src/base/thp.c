/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thp.h"
#include "base/small_file.h"
#include <stddef.h>
#include <string.h>

#define FOLDER "/sys/kernel/mm/transparent_hugepage/"

bool sn_thp_read(const char *name, char text[SN_THP_TEXT])
{
	char path[sizeof(FOLDER) + 32] = FOLDER;
	strncat(path, name, 31);
	return sn_read_text(path, text, SN_THP_TEXT);
}

bool sn_thp_shared(void)
{
	char text[SN_THP_TEXT];
	return sn_thp_read("shmem_enabled", text) && !strstr(text, "[never]") && !strstr(text, "[deny]");
}
