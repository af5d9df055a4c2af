/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that was shared becomes this process's own, where it is (heap.c says when, and why). */
#include "heap.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READ_WRITE (PROT_READ | PROT_WRITE)

struct turn {
	const struct sn_heap_shown *shown;
	bool failed;
};

#define PIECES 256 /* each is a mapping, of which a process has 65,530 */

static bool map_one(char *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
	return !bytes || sn_heap_mmap(at, bytes, access, flags | MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
				      offset) != MAP_FAILED;
}

/*
 * What there is, as the file has it. A core file has of such memory what is written to, so something is; nothing else changes by it.
 */
static bool map_data(const struct sn_heap_shown *s, char *at, size_t bytes, int access, off_t offset)
{
	if (!map_one(at, bytes, access, 0, s->fd, offset))
		return false;
	if (bytes && (access & READ_WRITE) == READ_WRITE)
		__atomic_fetch_or(at, 0, __ATOMIC_RELAXED);
	return true;
}

/* What there is not is nobody's: of the file it would exist twice once it is written, there and here. */
static bool map_private(const struct sn_heap_shown *s, char *at, size_t bytes, int access, off_t offset)
{
	off_t end = offset + (off_t)bytes, hole;
	for (int i = 0; offset < end; i++, at += hole - offset, offset = hole) {
		off_t data = i < PIECES ? lseek(s->fd, offset, SEEK_DATA) : offset;
		if (data < 0)
			data = errno == ENXIO ? end : offset;
		data = data < end ? data : end;
		if (!map_one(at, (size_t)(data - offset), access, MAP_ANONYMOUS, -1, 0))
			return false;
		at += data - offset;
		offset = data;
		hole = i < PIECES && data < end ? lseek(s->fd, data, SEEK_HOLE) : end;
		hole = hole < 0 || hole > end ? end : hole;
		if (!map_data(s, at, (size_t)(hole - offset), access, offset))
			return false;
	}
	return true;
}

/* What of this mapping is not the program's own. */
static bool one_mapping(const struct sn_mapping *m, void *arg)
{
	struct turn *t = arg;
	const struct sn_heap_shown *s = t->shown;
	uint64_t low = (uintptr_t)s->at, high = low + s->bytes;
	uint64_t from = m->from > low ? m->from : low, to = m->to < high ? m->to : high;
	if (from < to && m->shared && m->inode == s->ino && m->device == s->dev)
		t->failed = !map_private(s, s->at + (from - low), to - from, m->access,
					 (off_t)(m->offset + (from - m->from)));
	return m->to < high && !t->failed;
}

bool sn_heap_privatize(const struct sn_heap_shown *shown)
{
	struct turn turn = {.shown = shown};
	if (!shown->bytes)
		return true;
	if (!sn_heap_mappings(one_mapping, &turn))
		return map_private(shown, shown->at, shown->bytes, READ_WRITE, shown->offset);
	return !turn.failed;
}

void sn_heap_copy_apart(void *at, size_t bytes)
{
	if (!bytes)
		return;
	char *copy = mmap(NULL, bytes, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	/* cppcheck-suppress memleak ; it does not know MAP_FAILED */
	if (copy == MAP_FAILED)
		abort(); /* the child would find a hole where its memory was */
	sn_heap_unguard(at, bytes);
	memcpy(copy, at, bytes);
	/* not by mremap(), which asks heap.c whose memory that is */
	if (syscall(SYS_mremap, copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == -1)
		abort();
}
