/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/heap.h"
#include "base/base.h"
#include "base/log.h"
#include "copy/heap_file.h"
#include "sennit/sennit.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

/* The library in front of the program, if there is one. */
static struct {
	int (*info)(struct sn_heap_info *out);
	int (*refetch)(uint32_t generation, void *at, size_t len);
	const _Atomic uint32_t *generation; /* in use now; 0: none */
	const struct sn_heap_guarded *guarded;
} library;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look(void)
{
	void *info = dlsym(RTLD_DEFAULT, "sennit_heap_info"),
	     *refetch = dlsym(RTLD_DEFAULT, "sennit_heap_refetch"),
	     *generation = dlsym(RTLD_DEFAULT, "sennit_heap_generation");
	if (!info || !refetch || !generation)
		return;
	memcpy(&library.refetch, &refetch, sizeof(refetch));
	memcpy(&library.info, &info, sizeof(info));
	library.generation = generation;
	library.guarded = dlsym(RTLD_DEFAULT, "sennit_heap_guarded");
}

bool sn_heap_own(struct sn_heap_info *out)
{
	pthread_once(&once, look);
	memset(out, 0, sizeof(*out));
	if (library.info && !library.info(out) && out->version == 1)
		return true;
	memset(out, 0, sizeof(*out));
	return false;
}

static bool inside(uint64_t base, uint64_t bytes, const struct iovec *v)
{
	uint64_t at = (uint64_t)(uintptr_t)v->iov_base;
	return at >= base && at - base <= bytes && v->iov_len <= bytes - (at - base);
}

bool sn_heap_current(const struct sn_heap_info *own)
{
	return own->generation &&
	       atomic_load_explicit(library.generation, memory_order_acquire) == own->generation;
}

bool sn_heap_holds(const struct sn_heap_info *own, const struct iovec *iov, uint32_t count)
{
	if (!count || !sn_heap_current(own))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (iov[i].iov_len && (!inside(own->base, own->bytes, &iov[i]) ||
				       sn_heap_is_guarded(library.guarded, iov[i].iov_base, iov[i].iov_len)))
			return false;
	return true;
}

void sn_heap_refetch(const struct sn_heap_info *own, const struct iovec *iov, uint32_t count, uint64_t offset,
		     uint64_t len)
{
	struct iovec parts[SN_IOV_MAX];
	uint64_t covered;
	if (!own->generation || sn_heap_current(own))
		return;
	uint32_t n = sn_iov_slice(iov, count, offset, len, parts, SN_IOV_MAX, &covered);
	for (uint32_t i = 0; i < n; i++)
		if (library.refetch(own->generation, parts[i].iov_base, parts[i].iov_len))
			sn_warn("a message that arrived while this process forked is damaged: the shared "
				"heap "
				"of before is lost (SENNIT_HEAP=no avoids this)");
}

bool sn_heap_translate(struct sn_heap_peer *peer, struct iovec *iov, uint32_t count)
{
	uint64_t far = 0;
	if (!peer->map)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (!iov[i].iov_len)
			continue;
		if (!inside(peer->base, peer->bytes, &iov[i]))
			return false;
		far = SN_MAX_OF(far, (uint64_t)(uintptr_t)iov[i].iov_base + iov[i].iov_len - peer->base);
	}
	if (!sn_likely(far <= peer->open) &&
	    !sn_heap_open(peer->map, &peer->open, far, peer->bytes, PROT_READ | PROT_WRITE))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (iov[i].iov_len)
			iov[i].iov_base =
				(char *)peer->map + ((uint64_t)(uintptr_t)iov[i].iov_base - peer->base);
	return true;
}

void *sn_heap_map(int fd, uint64_t bytes)
{
	if (!sn_heap_file_good(fd, bytes))
		return NULL;
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	/* cppcheck-suppress memleak ; it does not know MAP_FAILED */
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, bytes, MADV_DONTFORK);
	madvise(at, bytes, MADV_DONTDUMP);
	/* what this side writes first, a receive buffer that nobody has touched, gets them as the owner's long blocks do */
	madvise(at, bytes, MADV_HUGEPAGE);
	return at;
}

void sn_heap_unmap(struct sn_heap_peer *peer)
{
	if (peer->map)
		munmap(peer->map, peer->bytes);
	peer->map = NULL;
}
