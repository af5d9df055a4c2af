/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shareable heap, as the engine sees it. libsennit-heap.so (shim/heap.c), which `sennit run` puts in front of programs,
 * takes large allocations from memory that peers may map, so that a large message between two such buffers is copied
 * without the kernel. In a program without that library there is none, and everything goes as before.
 *
 * The memory is one file for each process, its *arena*, which has no name, a memfd or one with huge pages (heap_file.h). It
 * is handed over with the handshake, as descriptors are; peers name bytes in it by their address in the owner, which is
 * checked against the arena's bounds. Behind the blocks the file holds what the program has as static memory.
 *
 * Fork. Before a fork the arena is made private, at the same addresses (the reason is told in shim/heap.c): what peers see
 * stays as it was, and is not what the owner sees any more. Such an arena is of an old generation and nothing in it is
 * offered to peers again. A peer that was just then writing has written into the old memory: sn_heap_refetch() brings
 * those bytes over when the message is whole.
 */
#ifndef SN_COPY_HEAP_H
#define SN_COPY_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define SN_HEAP_BYTES_MAX (UINT64_C(1) << 46)

/* What of its owner's address space an arena is, and where in the file. */
struct sn_heap_span {
	uint64_t base, bytes;		/*  0 its blocks: from the file's beginning on */
	uint64_t statics, static_bytes; /* 16 the program's own static memory; 0 bytes: that is not there */
	uint64_t static_at;		/* 32 where this begins in the file */
};

#define SN_HEAP_NOWHERE UINT64_MAX
/* Where in the file these bytes are; SN_HEAP_NOWHERE: not all of them are in one part of it. */
static inline uint64_t sn_heap_place(const struct sn_heap_span *s, uint64_t at, uint64_t len)
{
	uint64_t in = at - s->base;
	if (__builtin_expect(in <= s->bytes && len <= s->bytes - in, 1))
		return in;
	in = at - s->statics;
	return in <= s->static_bytes && len <= s->static_bytes - in ? s->static_at + in : SN_HEAP_NOWHERE;
}
static inline uint64_t sn_heap_length(const struct sn_heap_span *s)
{
	return s->static_bytes ? s->static_at + s->static_bytes : s->bytes;
}
/* May what a peer says of its arena be true? */
bool sn_heap_span_good(const struct sn_heap_span *s);

struct sn_heap_info {	  /* also the interface to libsennit-heap.so */
	uint32_t version; /* 2 */
	uint32_t generation;
	int fd; /* the library's: not to be closed */
	struct sn_heap_span span;
};

/*
 * Where the program has taken access away from itself (mprotect), it may be to hear of what is read, or written: in the handler of a
 * collector, or of a checkpoint that saves what has changed. A peer's mapping would pass that by, so none of these pages is
 * offered until its block is freed, nor one that lies 256 GiB away from it.
 */
#define SN_HEAP_PAGE  12
#define SN_HEAP_WORDS ((size_t)1 << 20)
struct sn_heap_guarded { /* libsennit-heap.so's */
	_Atomic uint32_t any;
	_Atomic(_Atomic uint64_t *)
		pages; /* a bit of each; NULL, where there are any: all, as there was no memory */
};
static inline bool sn_heap_has_guards(const struct sn_heap_guarded *g)
{
	return g && atomic_load_explicit(&g->any, memory_order_acquire);
}
/* Those bits of that word that are of this range's pages. */
static inline uint64_t sn_heap_bits(uintptr_t word, uintptr_t first, uintptr_t last)
{
	uint64_t bits = UINT64_MAX;
	if (word == first / 64)
		bits &= UINT64_MAX << first % 64;
	if (word == last / 64)
		bits &= UINT64_MAX >> (63 - last % 64);
	return bits;
}
static inline bool sn_heap_is_guarded(const struct sn_heap_guarded *g, const void *at, size_t len)
{
	uintptr_t first = (uintptr_t)at >> SN_HEAP_PAGE, last = ((uintptr_t)at + len - 1) >> SN_HEAP_PAGE;
	if (__builtin_expect(!len || !sn_heap_has_guards(g), 1))
		return false;
	_Atomic uint64_t *pages = atomic_load_explicit(&g->pages, memory_order_acquire);
	bool yes = !pages;
	for (uintptr_t w = first / 64; w <= last / 64 && !yes; w++)
		yes = atomic_load_explicit(&pages[w % SN_HEAP_WORDS], memory_order_relaxed) &
		      sn_heap_bits(w, first, last);
	return yes;
}

/* This process's arena; false: there is none. */
bool sn_heap_own(struct sn_heap_info *out);
/* Is this arena, as it was when it was handed over, still the one in use? Budget: one load. */
bool sn_heap_current(const struct sn_heap_info *own);
/* And do all these bytes lie in it, where peers may read and write? */
bool sn_heap_holds(const struct sn_heap_info *own, const struct iovec *iov, uint32_t count);
/* If it is not in use any more: bring over what peers have written into its memory. */
void sn_heap_refetch(const struct sn_heap_info *own, const struct iovec *iov, uint32_t count, uint64_t offset,
		     uint64_t len);

/*
 * An arena may be as long as the machine's memory, and who reads where nothing was written makes a page there. So its owner
 * and its peers have access only as far as blocks reach, in steps, and the rest of the mapping without: mlockall() would
 * fill it, as would valgrind's search for leaks and a core file. Static memory has it from the beginning.
 */
#define SN_HEAP_STEP ((uint64_t)8 << 20)

/* What is to be accessible, for blocks that reach so far; len: of the mapping. */
static inline uint64_t sn_heap_reach(uint64_t far, uint64_t len)
{
	uint64_t to = (far + SN_HEAP_STEP - 1) / SN_HEAP_STEP * SN_HEAP_STEP;
	return to < len ? to : len;
}

/* Have so much of a mapping accessible, of which *open is. False: it cannot be. Budget: a system call for each step. */
static inline bool sn_heap_open(void *map, uint64_t *open, uint64_t far, uint64_t len, int access)
{
	uint64_t to = sn_heap_reach(far, len);
	if (to > *open && !mprotect((char *)map + *open, to - *open, access))
		*open = to;
	return far <= *open;
}

/* ---- a peer's arena ---- */
struct sn_heap_peer {
	struct sn_heap_span span; /* as the peer sees it */
	void *map;		  /* NULL: none */
	uint64_t open;		  /* so much of its blocks can be accessed here */
};
/* What a peer sent as its arena. Without a map: it may not be mapped (heap_file.h), or cannot be; the kernel copies. */
struct sn_heap_peer sn_heap_map(int fd, const struct sn_heap_span *span);
void sn_heap_unmap(struct sn_heap_peer *peer);
/* Turn addresses in the peer into addresses here, in place. False: they are not all in its arena; nothing has changed.
 * Budget: no system call, but one for each further SN_HEAP_STEP of the arena. */
bool sn_heap_translate(struct sn_heap_peer *peer, struct iovec *iov, uint32_t count);

#endif
