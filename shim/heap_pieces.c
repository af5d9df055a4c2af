/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap_pieces.h"
#include "heap.h"
#include <sys/mman.h>

#define PLACES 4096
#define BITS   ((size_t)64)

static size_t bytes_of(size_t count)
{
	return (count + BITS - 1) / BITS * sizeof(uint64_t);
}

bool sn_pieces_begin(struct sn_pieces *p, char *base, size_t bytes, size_t most)
{
	*p = (struct sn_pieces){.base = base, .count = bytes / SN_PIECE, .left = most / SN_PIECE};
	if (most >= bytes) {
		sn_heap_advise(base, bytes, MADV_HUGEPAGE); /* where it does not help it does no harm */
		return true;
	}
	void *asks = !p->left ? NULL
			      : mmap(NULL, bytes_of(p->count), PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	/* cppcheck-suppress memleak ; it does not know MAP_FAILED */
	if (asks == MAP_FAILED)
		return false;
	p->asks = asks;
	return true;
}

void sn_pieces_end(struct sn_pieces *p)
{
	if (p->asks)
		munmap(p->asks, bytes_of(p->count));
	p->asks = NULL;
}

static bool asks(const struct sn_pieces *p, size_t i)
{
	return i < p->count && p->asks[i / BITS] >> i % BITS & 1;
}

/* These, of which none does yet. */
static void ask(struct sn_pieces *p, size_t from, size_t to)
{
	bool joins = (from && asks(p, from - 1)) || asks(p, to);
	if (to - from > p->left || (!joins && p->places == PLACES) ||
	    sn_heap_advise(p->base + from * SN_PIECE, (to - from) * SN_PIECE, MADV_HUGEPAGE))
		return;
	p->left -= to - from;
	p->places += !joins;
	for (size_t i = from; i < to; i++)
		p->asks[i / BITS] |= UINT64_C(1) << i % BITS;
}

void sn_pieces_block(struct sn_pieces *p, size_t at, size_t bytes)
{
	if (bytes < SN_PIECE || !p->asks)
		return;
	size_t from = (at == p->end ? at : at + SN_PIECE - 1) / SN_PIECE, end = (at + bytes) / SN_PIECE;
	p->end = at + bytes;
	for (size_t to; from < end; from = to) {
		for (to = from; to < end && !asks(p, to); to++)
			;
		if (to > from)
			ask(p, from, to);
		while (to < end && asks(p, to))
			to++;
	}
}
