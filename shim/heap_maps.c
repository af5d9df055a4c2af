/* SPDX-License-Identifier: BSD-3-Clause */
/* What is mapped in this process. */
#include "copy/heap_file.h"
#include "heap.h"
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A number of the kernel's, as it writes them: the C library's functions have other names from one version to the next. */
static uint64_t number(const char **at, unsigned base)
{
	uint64_t n = 0;
	for (;; (*at)++) {
		char c = **at;
		if (c >= '0' && c <= '9')
			n = n * base + (uint64_t)(c - '0');
		else if (base == 16 && c >= 'a' && c <= 'f')
			n = n * base + (uint64_t)(c - 'a' + 10);
		else
			return n;
	}
}

/* "7f0000000000-7f0000001000 rw-s 00000000 00:01 1234 /a/name" */
static bool parse(const char *line, struct sn_mapping *m)
{
	m->from = number(&line, 16);
	if (*line++ != '-')
		return false;
	m->to = number(&line, 16);
	if (strnlen(line, 6) < 6)
		return false;
	m->access = (line[1] == 'r' ? PROT_READ : 0) | (line[2] == 'w' ? PROT_WRITE : 0) |
		    (line[3] == 'x' ? PROT_EXEC : 0);
	m->shared = line[4] == 's';
	line += 6;
	m->offset = number(&line, 16);
	line += *line == ' ';
	uint64_t major = number(&line, 16);
	line += *line == ':';
	m->device = makedev(major, number(&line, 16));
	line += *line == ' ';
	m->inode = number(&line, 10);
	m->heap = strstr(line, SN_HEAP_NAME);
	return true;
}

static bool read_all(int fd, bool (*each)(const struct sn_mapping *m, void *arg), void *arg)
{
	char text[4096];
	size_t have = 0;
	struct sn_mapping m;
	ssize_t n;
	while ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *line = text, *end;
		have += (size_t)n;
		text[have] = '\0';
		for (; (end = strchr(line, '\n')); line = end + 1)
			if (parse(line, &m) && !each(&m, arg))
				return true;
		have -= (size_t)(line - text);
		memmove(text, line, have);
		if (have == sizeof(text) - 1) /* a line as long as that: not one of these */
			have = 0;
	}
	return n == 0;
}

bool sn_heap_mappings(bool (*each)(const struct sn_mapping *m, void *arg), void *arg)
{
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	bool read = fd >= 0 && read_all(fd, each, arg);
	if (fd >= 0)
		close(fd);
	pthread_setcancelstate(before, NULL);
	return read;
}
