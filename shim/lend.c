/* SPDX-License-Identifier: BSD-3-Clause */
#include "lend.h"
#include "copy/heap.h"
#include "copy/heap_file.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME SN_HEAP_NAME " (deleted)"

static const _Atomic uint32_t *_Atomic generation; /* the library's, in use now; 0: none */
static const struct sn_heap_guarded *_Atomic guarded;

struct sn_lent sn_lend_own(void)
{
	union {
		void *symbol;
		int (*function)(struct sn_heap_info *out);
	} info = {dlsym(RTLD_DEFAULT, "sennit_heap_info")};
	struct sn_heap_info own = {0};
	atomic_store(&guarded, dlsym(RTLD_DEFAULT, "sennit_heap_guarded"));
	atomic_store(&generation, dlsym(RTLD_DEFAULT, "sennit_heap_generation"));
	if (!info.symbol || !atomic_load(&generation) || info.function(&own) || own.version != 2)
		return (struct sn_lent){0};
	return (struct sn_lent){own.span, own.fd, own.generation};
}

bool sn_lend_holds(const struct sn_lent *own, const void *at, size_t len)
{
	return own->span.bytes && sn_heap_place(&own->span, (uintptr_t)at, len) != SN_HEAP_NOWHERE &&
	       atomic_load_explicit(atomic_load_explicit(&generation, memory_order_relaxed),
				    memory_order_acquire) == own->generation &&
	       !sn_heap_is_guarded(atomic_load_explicit(&guarded, memory_order_relaxed), at, len);
}

static char *map(int pid, const struct sn_lent *theirs, uint64_t *open_bytes)
{
	char path[64], to[64] = "";
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, theirs->fd);
	ssize_t n = readlink(path, to, sizeof(to) - 1);
	if (n < (ssize_t)sizeof(NAME) - 1 || strcmp(to + n - (sizeof(NAME) - 1), NAME) != 0)
		return NULL; /* it must not even be opened: it may be a device */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const struct sn_heap_span *span = &theirs->span;
	uint64_t bytes = sn_heap_length(span);
	void *at = MAP_FAILED;
	if (fd >= 0 && sn_heap_file_good(fd, bytes))
		at = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, bytes, MADV_DONTFORK);
	madvise(at, bytes, MADV_DONTDUMP);
	/* What comes later makes this part longer; a second mapping, which may be one too many, this does. */
	if (sn_heap_open(at, open_bytes, 1, span->bytes, PROT_READ) &&
	    (!span->static_bytes || !mprotect((char *)at + span->static_at, span->static_bytes, PROT_READ)))
		return at;
	munmap(at, bytes);
	return NULL;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct known {
	int pid;
	uint64_t began;
	struct sn_lent heap;
	char *at;
	uint64_t open; /* so much of it can be read */
} * known;
static size_t count;

/* With the lock held. */
static const char *find_or_map(int pid, uint64_t began, const struct sn_lent *theirs)
{
	for (size_t i = 0; i < count; i++)
		if (known[i].pid == pid && known[i].began == began &&
		    known[i].heap.generation == theirs->generation)
			return known[i].at;
	struct known *more = realloc(known, (count + 1) * sizeof(*known));
	uint64_t open_bytes = 0;
	char *at = more ? map(pid, theirs, &open_bytes) : NULL;
	if (more)
		known = more;
	if (at)
		known[count++] = (struct known){pid, began, *theirs, at, open_bytes};
	return at;
}

const char *sn_lend_map(int pid, uint64_t began, const struct sn_lent *theirs)
{
	if (!theirs->span.bytes)
		return NULL;
	pthread_mutex_lock(&lock);
	const char *at = find_or_map(pid, began, theirs);
	pthread_mutex_unlock(&lock);
	return at;
}

uint64_t sn_lend_reach(const char *heap, uint64_t far)
{
	uint64_t open = 0;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++) {
		struct known *k = &known[i];
		if (k->at != heap)
			continue;
		sn_heap_open(k->at, &k->open, far, k->heap.span.bytes, PROT_READ);
		open = k->open;
	}
	pthread_mutex_unlock(&lock);
	return open;
}
