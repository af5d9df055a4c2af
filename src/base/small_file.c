/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/small_file.h"
#include <fcntl.h>
#include <unistd.h>

bool sn_read_text(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, room - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}
