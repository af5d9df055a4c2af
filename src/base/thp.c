/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thp.h"
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "/sys/kernel/mm/transparent_hugepage/"

bool sn_thp_read(const char *name, char text[SN_THP_TEXT])
{
	char path[sizeof(FOLDER) + 32] = FOLDER;
	strncat(path, name, 31);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, SN_THP_TEXT - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

bool sn_thp_shared(void)
{
	char text[SN_THP_TEXT];
	return sn_thp_read("shmem_enabled", text) && !strstr(text, "[never]") && !strstr(text, "[deny]");
}
