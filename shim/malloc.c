/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In front of malloc: large allocations come from an arena (heap.c), all others from the malloc that the program has. That
 * may be the C library's or any other; its hooks, and those that MPI libraries set for it, are left as they are.
 */
#include "heap.h"
#include "object.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* A rank may start a program of another C library, which has it not, and loads what is in front of it all the same. */
#pragma weak dladdr1

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	size_t (*usable)(void *);
} next;

static _Atomic int state; /* 0 nobody has looked for them, 1 somebody does, 2 they are there */

/* dlsym may allocate: what it asks for meanwhile comes from here, and is never given back. */
static char early[16384] __attribute__((aligned(16)));
static _Atomic size_t early_used;

static void *early_alloc(size_t size)
{
	size_t at = atomic_fetch_add(&early_used, (size + 31) & ~(size_t)15);
	if (at + size + 16 > sizeof(early))
		return NULL;
	memcpy(early + at, &size, sizeof(size));
	return early + at + 16;
}

static bool is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof(early);
}

static size_t early_size(const void *p)
{
	size_t size;
	memcpy(&size, (const char *)p - 16, sizeof(size));
	return size;
}

static void find(void *slot, const char *name)
{
	void *at = dlsym(RTLD_NEXT, name);
	memcpy(slot, &at, sizeof(at));
}

/*
 * A tool that watches memory has a free of its own, and gives back by the one behind that what it has for itself; while what
 * it allocates by a name that it does not watch, or by none of its own, comes here (Extrae: posix_memalign). So it gets nothing
 * from the arena. This is where its code is, if it stands right behind us.
 */
static struct {
	uintptr_t from, bytes;
} tool;

#define OURS	     NULL /* called by nobody else */
#define CALLER	     __builtin_return_address(0)
#define IS_TOOLS(by) ((uintptr_t)(by)-tool.from < tool.bytes)

struct frees {
	uintptr_t next, of_libc;
};

static int note_tool(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct frees *f = arg;
	uintptr_t from = UINTPTR_MAX, to = 0;
	(void)size;
	if (!sn_object_holds(info, f->next))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && !sn_object_holds(info, f->of_libc); i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;
		if (p->p_type != PT_LOAD)
			continue;
		from = at < from ? at : from;
		to = at + p->p_memsz > to ? at + p->p_memsz : to;
	}
	tool.from = from;
	tool.bytes = to > from ? to - from : 0;
	return 1;
}

/* False: it is this very call that looks for them. The first call comes before there are threads. */
static bool ready(void)
{
	int idle = 0;
	if (__builtin_expect(atomic_load_explicit(&state, memory_order_acquire) == 2, 1))
		return true;
	if (!atomic_compare_exchange_strong(&state, &idle, 1))
		return false;
	find(&next.malloc, "malloc");
	find(&next.calloc, "calloc");
	find(&next.realloc, "realloc");
	find(&next.free, "free");
	find(&next.posix_memalign, "posix_memalign");
	find(&next.aligned_alloc, "aligned_alloc");
	find(&next.memalign, "memalign");
	find(&next.usable, "malloc_usable_size");
	struct frees f = {(uintptr_t)next.free, (uintptr_t)dlsym(RTLD_NEXT, "gnu_get_libc_version")};
	/* a sanitizer's runtime, which begins just now, stands before that with one that is not ready, and there are no arenas */
	if (f.of_libc && !sn_heap_sanitized())
		dl_iterate_phdr(note_tool, &f);
	atomic_store_explicit(&state, 2, memory_order_release);
	return true;
}

static void *large(const void *by, size_t align, size_t size, size_t spare)
{
	bool zero;
	return size >= SN_HEAP_MIN && size <= PTRDIFF_MAX && !IS_TOOLS(by)
		       ? sn_arena_alloc(align, size, spare, &zero)
		       : NULL;
}

static void *alloc(const void *by, size_t size)
{
	if (!ready())
		return early_alloc(size);
	void *p = large(by, 16, size, 0);
	return p ? p : next.malloc(size);
}

EXPORT void *malloc(size_t size)
{
	return alloc(CALLER, size);
}

bool sn_malloc_is_ours(void)
{
	Dl_info called, here;
	const ElfW(Sym) *symbol = NULL;
	const void *at = dlsym(RTLD_DEFAULT, "malloc");
	if (!at || !dladdr1 || !dladdr1(at, &called, (void **)&symbol, RTLD_DL_SYMENT) ||
	    !dladdr(early, &here))
		return false;
	/* a program that is not position-independent and takes its address has an entry for it that leads here */
	return called.dli_fbase == here.dli_fbase || (symbol && symbol->st_shndx == SHN_UNDEF);
}

EXPORT void *calloc(size_t count, size_t each)
{
	size_t size;
	bool zero;
	if (!ready()) /* that memory was never used before */
		return __builtin_mul_overflow(count, each, &size) ? NULL : early_alloc(size);
	if (__builtin_mul_overflow(count, each, &size) || size < SN_HEAP_MIN || size > PTRDIFF_MAX ||
	    IS_TOOLS(CALLER))
		return next.calloc(count, each);
	void *p = sn_arena_alloc(16, size, 0, &zero);
	if (!p)
		return next.calloc(count, each);
	return zero ? p : memset(p, 0, size);
}

EXPORT void free(void *p)
{
	if (!p || is_early(p))
		return;
	if (sn_arena_owns(p))
		sn_arena_free(p);
	else if (ready())
		next.free(p);
}

static size_t size_of(void *p)
{
	if (is_early(p))
		return early_size(p);
	return sn_arena_owns(p) ? sn_arena_size(p) : next.usable(p);
}

EXPORT void *realloc(void *p, size_t size)
{
	if (!p)
		return alloc(CALLER, size);
	bool ours = is_early(p) || sn_arena_owns(p);
	if (!ours && ready() && (size < SN_HEAP_MIN || IS_TOOLS(CALLER) || !sn_arena_takes(size)))
		return next.realloc(p, size); /* which need not copy */
	if (ours && !size) {
		free(p);
		return NULL;
	}
	if (ours && !is_early(p) && size >= SN_HEAP_MIN && sn_arena_resize(p, size))
		return p;
	size_t old = size_of(p);
	if (!ours && old >= size) /* it fits where it is, or malloc knows better */
		return next.realloc(p, size);
	/* what has grown, and has to move, is given room, so that it need not soon again */
	void *fresh = ours && !is_early(p) && size > old ? large(OURS, 16, size, size / 2) : NULL;
	fresh = fresh ? fresh : alloc(OURS, size);
	if (!fresh)
		return NULL;
	memcpy(fresh, p, old < size ? old : size);
	free(p);
	return fresh;
}

static bool power_of_two(size_t n)
{
	return n && !(n & (n - 1));
}

EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	if (!ready())
		return ENOMEM;
	if (!power_of_two(align) || align % sizeof(void *))
		return EINVAL;
	void *p = large(CALLER, align, size, 0);
	if (!p)
		return next.posix_memalign(out, align, size);
	*out = p;
	return 0;
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	void *p = ready() && power_of_two(align) ? large(CALLER, align, size, 0) : NULL;
	return p || !ready() ? p : next.aligned_alloc(align, size);
}

static void *aligned(const void *by, size_t align, size_t size)
{
	void *p = ready() && power_of_two(align) ? large(by, align, size, 0) : NULL;
	return p || !ready() ? p : next.memalign(align, size);
}

EXPORT void *memalign(size_t align, size_t size)
{
	return aligned(CALLER, align, size);
}

EXPORT void *valloc(size_t size)
{
	return aligned(CALLER, 4096, size);
}

EXPORT void *pvalloc(size_t size)
{
	return aligned(CALLER, 4096, (size + 4095) & ~(size_t)4095);
}

EXPORT size_t malloc_usable_size(void *p)
{
	return p && ready() ? size_of(p) : 0;
}
