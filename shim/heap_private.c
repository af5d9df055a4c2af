/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that was shared becomes this process's own, where it is (heap.c says when, and why). */
#include "heap.h"
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

static bool map_private(const struct sn_heap_shown *s, char *at, size_t bytes, int access, off_t offset)
{
	return sn_heap_mmap(at, bytes, access, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, s->fd, offset) !=
	       MAP_FAILED;
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
