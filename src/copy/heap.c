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
	if (library.info && !library.info(out) && out->version == 2)
		return true;
	memset(out, 0, sizeof(*out));
	return false;
}

static uint64_t place(const struct sn_heap_span *s, const struct iovec *v)
{
	return sn_heap_place(s, (uintptr_t)v->iov_base, v->iov_len);
}

static bool range_good(uint64_t at, uint64_t bytes)
{
	return bytes <= SN_HEAP_BYTES_MAX && bytes <= UINT64_MAX - at;
}

bool sn_heap_span_good(const struct sn_heap_span *s)
{
	return s->bytes && range_good(s->base, s->bytes) && range_good(s->statics, s->static_bytes) &&
	       (!s->static_bytes || (s->static_at >= s->bytes && range_good(0, s->static_at)));
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
		if (iov[i].iov_len && (place(&own->span, &iov[i]) == SN_HEAP_NOWHERE ||
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
		uint64_t at = place(&peer->span, &iov[i]);
		if (at == SN_HEAP_NOWHERE)
			return false;
		if (at < peer->span.bytes)
			far = SN_MAX_OF(far, at + iov[i].iov_len);
	}
	if (!sn_likely(far <= peer->open) &&
	    !sn_heap_open(peer->map, &peer->open, far, peer->span.bytes, PROT_READ | PROT_WRITE))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (iov[i].iov_len)
			iov[i].iov_base = (char *)peer->map + place(&peer->span, &iov[i]);
	return true;
}

struct sn_heap_peer sn_heap_map(int fd, const struct sn_heap_span *span)
{
	struct sn_heap_peer peer = {.span = *span};
	uint64_t bytes = sn_heap_length(span);
	if (!sn_heap_span_good(span) || !sn_heap_file_good(fd, bytes))
		return peer;
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	/* cppcheck-suppress memleak ; it does not know MAP_FAILED */
	if (at == MAP_FAILED)
		return peer;
	if (span->static_bytes &&
	    mprotect((char *)at + span->static_at, span->static_bytes, PROT_READ | PROT_WRITE)) {
		munmap(at, bytes);
		return peer;
	}
	madvise(at, bytes, MADV_DONTFORK);
	madvise(at, bytes, MADV_DONTDUMP);
	/* what this side writes first, a receive buffer that nobody has touched, gets them as the owner's long blocks do */
	madvise(at, span->bytes, MADV_HUGEPAGE);
	peer.map = at;
	return peer;
}

void sn_heap_unmap(struct sn_heap_peer *peer)
{
	if (peer->map)
		munmap(peer->map, sn_heap_length(&peer->span));
	peer->map = NULL;
}
