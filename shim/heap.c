/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for large allocations that peers may map: arenas.
 *
 * An arena is a file without a name (copy/heap_file.h) as large as the machine's memory (where there are many ranks, as heap_may.c
 * says), mapped shared, accessible as far as blocks reach (copy/heap.h); pages exist once they are touched, and go back to
 * the system (a hole is punched) when more freed memory is kept than RETAIN, and than a RETAIN_PARTth of what is in use (a page
 * that comes anew is zeroed first, and programs that free much allocate much), or than is to spare. Blocks are whole pages, first
 * fit from below. What describes them lies outside, so that a peer who writes where it may not spoils contents and nothing else.
 *
 * What the program gets begins IN bytes into the first page, unless it asks for more alignment: where copies stumble
 * (base/copy.c), the C library's, of a block to what begins with a page or a little behind that, or back, took 20 times as long,
 * as MPI_Put and MPI_Get do in windows that are shared memory of the MPI's own.
 *
 * Fork. After a fork neither process may see what the other writes, as with any heap. So just before it the arena is
 * mapped anew at the same addresses, *private*: the same pages, copied when somebody writes. Parent and child then have
 * each their own, and the file keeps what it was: an exact snapshot, at the price of one mmap. From then on peers
 * do not see what the parent writes, so the arena's generation has ended: its blocks live on until they are freed, new
 * ones come from a new arena, which peers that connect later learn of. An arena without a block in it need not change: it
 * is not inherited (MADV_DONTFORK). vfork, posix_spawn, system and popen share memory or call exec, and cost nothing.
 * A clone() that bypasses fork's handlers does not inherit large blocks at all: it faults rather than share them.
 *
 * Threads: one lock; whether a pointer is ours is decided without it, by bounds that only widen.
 */
#include "heap.h"
#include "copy/heap.h"
#include "heap_pieces.h"
#include "heap_runs.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNIT	    ((size_t)SN_HEAP_UNIT)
#define IN	    ((size_t)128)
#define ARENAS	    8 /* generations with blocks in use: when there are more, malloc serves */
#define RETAIN	    (((size_t)128 << 20) / UNIT)
#define RETAIN_PART 4
#define NONE	    SIZE_MAX
#define SPARE	    (1u << 31) /* in a length: some of it is there to grow into */
#define READ_WRITE  (PROT_READ | PROT_WRITE)

struct arena {
	char *base;
	size_t bytes, units;
	int fd;
	dev_t dev;
	ino_t ino;
	uint32_t generation;
	bool shared;
	size_t huge; /* so many bytes may get huge pages */
	struct sn_pieces pieces;
	uint32_t *length; /* of the block that begins at this unit, and SPARE; else 0 */
	struct sn_runs free;
	size_t fresh;  /* units from here on were never given out */
	uint64_t open; /* so many bytes can be accessed */
	size_t live;   /* blocks */
	size_t used;   /* units in them */
};

static struct {
	pthread_mutex_t lock;
	struct arena at[ARENAS];
	unsigned count; /* slots of at[] that were ever used */
	uint32_t made;
	struct arena *now; /* the one that new blocks come from */
	size_t most, keep; /* the longest block that it may have; so much that is free, at most, in units */
	uint64_t huge;	   /* bytes of all arenas that may get huge pages by our advice */
	bool decided, off; /* off is for good */
	bool forked;	   /* this process is a rank's child */
	_Atomic uintptr_t low, high;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER, .low = UINTPTR_MAX};

/* ---- arenas --------------------------------------------------------------------------------------------------- */

/* The descriptor may have been closed by a program that closes whatever it does not know. */
static bool fd_good(const struct arena *a)
{
	struct stat st;
	return a->fd >= 0 && !fstat(a->fd, &st) && st.st_dev == a->dev && st.st_ino == a->ino;
}

static void bounds_widen(const struct arena *a)
{
	uintptr_t low = (uintptr_t)a->base, high = low + a->bytes;
	if (low < atomic_load(&heap.low))
		atomic_store(&heap.low, low);
	if (high > atomic_load(&heap.high))
		atomic_store(&heap.high, high);
}

static void *mapped(size_t bytes, int access, int flags, int fd)
{
	void *at = mmap(NULL, bytes, access, flags | MAP_NORESERVE, fd, 0);
	/* cppcheck-suppress memleak ; it does not know MAP_FAILED */
	return at == MAP_FAILED ? NULL : at;
}

__attribute__((visibility("default"))) _Atomic uint32_t sennit_heap_generation; /* in use now; 0: none */

static void decide(void);

/* With the lock held. */
static struct arena *arena_make(void)
{
	unsigned slot = 0;
	while (slot < heap.count && heap.at[slot].bytes)
		slot++;
	if (slot == ARENAS)
		return NULL;
	struct arena *a = &heap.at[slot];
	struct stat st;
	memset(a, 0, sizeof(*a));
	a->bytes = sn_heap_bytes(&heap.keep);
	a->units = a->bytes / UNIT;
	a->fd = a->bytes ? sn_heap_file(a->bytes, heap.huge, heap.forked, &a->huge, &heap.most) : -1;
	heap.off = a->fd < 0 || fstat(a->fd, &st);
	if (heap.off) {
		a->bytes = 0;
		return NULL;
	}
	a->dev = st.st_dev;
	a->ino = st.st_ino;
	a->base = mapped(a->bytes, PROT_NONE, MAP_SHARED, a->fd);
	a->length = mapped(a->units * sizeof(*a->length), READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	a->free.run =
		mapped(SN_HEAP_RUNS * sizeof(*a->free.run), READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (!a->base || !a->length || !a->free.run || sn_heap_advise(a->base, a->bytes, MADV_DONTFORK) ||
	    !sn_pieces_begin(&a->pieces, a->base, a->bytes, a->huge)) {
		heap.off = true; /* what was mapped stays: this happens once, if ever */
		a->bytes = 0;
		return NULL;
	}
	sn_heap_advise(a->base, a->bytes, MADV_DONTDUMP);
	a->generation = ++heap.made;
	heap.huge += a->huge;
	a->shared = true;
	bounds_widen(a);
	sn_heap_forget_guards(a->base, a->bytes);
	heap.count += slot == heap.count;
	atomic_store(&sennit_heap_generation, a->generation);
	return heap.now = a;
}

/* The one that new blocks come from. With the lock held, which a thread that is cancelled in here would keep. */
static struct arena *arena_now(void)
{
	int before;
	if (heap.now || (heap.decided && heap.off))
		return heap.now;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (!heap.decided)
		decide();
	struct arena *a = heap.off ? NULL : arena_make();
	pthread_setcancelstate(before, NULL);
	return a;
}

/* Whatever is to lie before that unit can be accessed, and goes into a core file. */
static bool open_up(struct arena *a, size_t units)
{
	uint64_t was = a->open;
	bool can = sn_heap_open(a->base, &a->open, units * UNIT, a->bytes, READ_WRITE);
	if (a->open > was)
		sn_heap_advise(a->base + was, a->open - was, MADV_DODUMP);
	return can;
}

static struct arena *arena_of(const void *p)
{
	for (unsigned i = 0; i < heap.count; i++)
		if ((const char *)p >= heap.at[i].base &&
		    (const char *)p < heap.at[i].base + heap.at[i].bytes)
			return &heap.at[i];
	return NULL;
}

/* ---- what is free ---------------------------------------------------------------------------------------------- */

static size_t align_up(const struct arena *a, size_t at, size_t align)
{
	uintptr_t p = (uintptr_t)a->base + at * UNIT;
	return ((p + align - 1) / align * align - (uintptr_t)a->base) / UNIT;
}

/* *zero: no memory lies there. */
static bool find(struct arena *a, size_t align, size_t count, size_t *at, bool *zero)
{
	for (size_t i = 0; i < a->free.count; i++) {
		const struct sn_run *run = &a->free.run[i];
		*at = align_up(a, run->at, align);
		if (*at + count <= run->at + run->count) {
			*zero = !run->used;
			sn_runs_take(&a->free, i, *at, count);
			return true;
		}
	}
	return false;
}

/* ---- blocks --------------------------------------------------------------------------------------------------- */

/* NULL: none has blocks of this size. With the lock held. */
static struct arena *arena_for(size_t size)
{
	struct arena *a = arena_now();
	return a && size <= heap.most ? a : NULL;
}

bool sn_arena_takes(size_t size)
{
	pthread_mutex_lock(&heap.lock);
	bool takes = arena_for(size);
	pthread_mutex_unlock(&heap.lock);
	return takes;
}

/* Room for so many units, or NONE. */
static size_t place(struct arena *a, size_t align, size_t count, bool *zero)
{
	size_t at;
	if (find(a, align, count, &at, zero))
		return at;
	at = align_up(a, a->fresh, align);
	if (at < a->fresh || at + count > a->units || at + count < at || !open_up(a, at + count))
		return NONE;
	if (at > a->fresh)
		sn_runs_add(&a->free, a->fresh, at - a->fresh, 0);
	a->fresh = at + count;
	*zero = true;
	return at;
}

void *sn_arena_alloc(size_t align, size_t size, size_t spare, bool *zero)
{
	size_t in = align > IN ? 0 : IN;
	size_t count = (size + in + UNIT - 1) / UNIT, all = count + spare / UNIT, at = NONE;
	void *p = NULL;
	align = align < UNIT ? UNIT : align;
	*zero = false;
	pthread_mutex_lock(&heap.lock);
	struct arena *a = arena_for(size);
	if (a && all > count && all < SPARE)
		at = place(a, align, all, zero);
	if (a && at == NONE)
		at = place(a, align, all = count, zero);
	if (at != NONE) {
		a->length[at] = (uint32_t)(all | (all > count ? SPARE : 0));
		a->used += all;
		a->live++;
		sn_pieces_block(&a->pieces, at * UNIT, all * UNIT);
		p = a->base + at * UNIT + in;
	}
	pthread_mutex_unlock(&heap.lock);
	return p;
}

bool sn_arena_near(const void *p, size_t bytes)
{
	uintptr_t at = (uintptr_t)p;
	return at < atomic_load_explicit(&heap.high, memory_order_relaxed) &&
	       at + bytes > atomic_load_explicit(&heap.low, memory_order_relaxed);
}

bool sn_arena_owns(const void *p)
{
	if (!sn_arena_near(p, 1))
		return false;
	pthread_mutex_lock(&heap.lock); /* other mappings may lie between two arenas */
	bool ours = arena_of(p) != NULL;
	pthread_mutex_unlock(&heap.lock);
	return ours;
}

static size_t length_of(const struct arena *a, size_t at)
{
	return a->length[at] & ~SPARE;
}

/*
 * The block's arena, its first unit, and how far into that it begins. A pointer that is no block ends the program, as it does in
 * malloc.
 */
static struct arena *block_of(const void *p, size_t *at, size_t *in)
{
	struct arena *a = arena_of(p);
	*at = a ? (size_t)((const char *)p - a->base) / UNIT : 0;
	*in = a ? (size_t)((const char *)p - a->base) % UNIT : 0;
	if (!a || (*in && *in != IN) || !a->length[*at])
		abort();
	return a;
}

static size_t retained(const struct arena *a)
{
	size_t part = a->used / RETAIN_PART, most = part > RETAIN ? part : RETAIN;
	return most < heap.keep ? most : heap.keep;
}

/*
 * These units are free. Memory that is given back is, of a shared arena, a hole in the file, of the whole run of which they
 * are now; of a private one this process's own copies.
 */
static void release(struct arena *a, size_t at, size_t count)
{
	a->used -= count;
	if (!a->shared) {
		sn_heap_advise(a->base + at * UNIT, count * UNIT, MADV_DONTNEED);
		return;
	}
	sn_heap_unguard(a->base + at * UNIT, count * UNIT);
	struct sn_run *run = sn_runs_add(&a->free, at, count, count);
	if (run && a->free.kept > retained(a) &&
	    !sn_heap_advise(a->base + run->at * UNIT, run->count * UNIT, MADV_REMOVE))
		sn_runs_emptied(&a->free, run);
}

/* The last block of a generation that has ended is gone. */
static void arena_drop(struct arena *a)
{
	munmap(a->base, a->bytes);
	munmap(a->length, a->units * sizeof(*a->length));
	munmap(a->free.run, SN_HEAP_RUNS * sizeof(*a->free.run));
	sn_pieces_end(&a->pieces);
	heap.huge -= a->huge;
	if (fd_good(a))
		close(a->fd);
	memset(a, 0, sizeof(*a));
	a->fd = -1;
}

void sn_arena_free(void *p)
{
	size_t at, in;
	int error = errno; /* free() leaves it alone */
	pthread_mutex_lock(&heap.lock);
	struct arena *a = block_of(p, &at, &in);
	size_t count = length_of(a, at);
	a->length[at] = 0;
	a->live--;
	release(a, at, count);
	if (!a->shared && !a->live)
		arena_drop(a);
	pthread_mutex_unlock(&heap.lock);
	errno = error;
}

size_t sn_arena_size(const void *p)
{
	size_t at, in;
	pthread_mutex_lock(&heap.lock);
	const struct arena *a = block_of(p, &at, &in);
	size_t size = length_of(a, at) * UNIT - in;
	pthread_mutex_unlock(&heap.lock);
	return size;
}

/* Longer: from the run behind it, and from what was never used. */
static bool grow(struct arena *a, size_t at, size_t count)
{
	size_t old = length_of(a, at), end = at + old, more = count - old, i = sn_runs_after(&a->free, end);
	bool follows = i < a->free.count && a->free.run[i].at == end;
	size_t free = follows ? a->free.run[i].count : 0, some = free < more ? free : more;
	if (some < more) {
		size_t rest = more - some;
		if (end + free != a->fresh || a->units - a->fresh < rest || !open_up(a, a->fresh + rest))
			return false;
		a->fresh += rest;
	}
	if (some)
		sn_runs_take(&a->free, i, end, some);
	a->length[at] = (uint32_t)count | (a->length[at] & SPARE);
	a->used += more;
	sn_pieces_block(&a->pieces, at * UNIT, count * UNIT);
	return true;
}

/* Shorter, if it is worth it: who has grown goes on to grow. */
static void shrink(struct arena *a, size_t at, size_t count)
{
	size_t old = length_of(a, at);
	if (!a->shared || !count || old - count <= (a->length[at] & SPARE ? old / 2 : old / 4))
		return;
	a->length[at] = (uint32_t)count;
	release(a, at + count, old - count);
}

bool sn_arena_resize(void *p, size_t size)
{
	size_t at, in;
	pthread_mutex_lock(&heap.lock);
	struct arena *a = block_of(p, &at, &in);
	size_t count = size / UNIT + (size % UNIT + in + UNIT - 1) / UNIT;
	bool done = count <= length_of(a, at);
	if (done)
		shrink(a, at, count);
	else
		done = a->shared && size <= heap.most && count < SPARE && grow(a, at, count);
	pthread_mutex_unlock(&heap.lock);
	return done;
}

int sn_arena_forget(void *at, size_t bytes)
{
	int rc = 1;
	pthread_mutex_lock(&heap.lock);
	const struct arena *a = arena_of(at);
	size_t end = a ? a->fresh * UNIT : 0, from = a ? (size_t)((char *)at - a->base) : 0;
	if (a && from % UNIT == 0 && from < end && bytes <= end - from) {
		bytes = (bytes + UNIT - 1) & ~(UNIT - 1);
		if (a->shared) {
			rc = sn_heap_advise(at, bytes, MADV_REMOVE);
		} else { /* behind these pages the file has what was there once */
			const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
			const void *same = bytes ? sn_heap_mmap(at, bytes, READ_WRITE, flags, -1, 0) : at;
			rc = same == MAP_FAILED;
		}
		rc = rc ? -1 : 0;
	}
	pthread_mutex_unlock(&heap.lock);
	return rc;
}

void sn_arena_confine(void)
{
	pthread_mutex_lock(&heap.lock);
	heap.most = 0;
	heap.off = heap.decided = true;
	pthread_mutex_unlock(&heap.lock);
}

/* ---- fork ----------------------------------------------------------------------------------------------------- */

/* The descriptor is lost: copy each block, and put the copy in its place, which all may access. */
static void privatize_by_copy(struct arena *a)
{
	/* In between, too, the child has something that is its arena's, and nobody else finds room there. */
	for (size_t i = 0; i < a->free.count; i++) {
		const struct sn_run *run = &a->free.run[i];
		void *between = sn_heap_mmap(a->base + run->at * UNIT, run->count * UNIT, PROT_NONE,
					     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
		/* cppcheck-suppress memleak ; it is the arena's */
		if (between == MAP_FAILED)
			break; /* one mapping too many: the rest is left to chance */
	}
	for (size_t at = 0; at < a->fresh; at++) {
		size_t bytes = length_of(a, at) * UNIT;
		if (!bytes)
			continue;
		char *copy = mapped(bytes, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		if (!copy)
			abort(); /* the child would find a hole where its heap was */
		sn_heap_unguard(a->base + at * UNIT, bytes);
		memcpy(copy, a->base + at * UNIT, bytes);
		/* not by mremap(), which asks here whose memory that is */
		if (syscall(SYS_mremap, copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			    a->base + at * UNIT) == -1)
			abort();
	}
}

/* What of this mapping is the arena's, not the program's own: the same pages, with the same access. a->shared: that failed. */
static bool privatize_mapping(const struct sn_mapping *m, void *arg)
{
	struct arena *a = arg;
	uint64_t low = (uintptr_t)a->base, high = low + a->fresh * UNIT;
	uint64_t from = m->from > low ? m->from : low, to = m->to < high ? m->to : high;
	if (from < to && m->shared && m->inode == a->ino && m->device == a->dev)
		a->shared = sn_heap_mmap(a->base + (from - low), to - from, m->access,
					 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, a->fd,
					 (off_t)(m->offset + (from - m->from))) == MAP_FAILED;
	return m->to < high && !a->shared;
}

/* With the lock held: from here on peers do not see what is written here. */
static void generation_end(struct arena *a)
{
	a->shared = !fd_good(a);
	if (!a->shared && !sn_heap_mappings(privatize_mapping, a))
		a->shared = sn_heap_mmap(a->base, a->fresh * UNIT, READ_WRITE,
					 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, a->fd, 0) == MAP_FAILED;
	if (a->shared)
		privatize_by_copy(a);
	a->shared = false;
	heap.now = NULL;
	atomic_store(&sennit_heap_generation, 0);
}

static void before_fork(void)
{
	pthread_mutex_lock(&heap.lock);
	if (heap.now && heap.now->live)
		generation_end(heap.now);
}

void sn_arena_part(const void *at, size_t bytes)
{
	if (!sn_arena_near(at, bytes))
		return;
	pthread_mutex_lock(&heap.lock);
	struct arena *a = heap.now;
	if (a && a->live && (const char *)at < a->base + a->fresh * UNIT &&
	    (const char *)at + bytes > a->base)
		generation_end(a);
	pthread_mutex_unlock(&heap.lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&heap.lock);
}

static void in_child(void)
{
	heap.forked = true;
	for (unsigned i = 0; i < heap.count; i++) {
		if (heap.at[i].bytes && fd_good(&heap.at[i]))
			close(heap.at[i].fd);
		heap.at[i].fd = -1;
		/* behind its blocks nothing was inherited, and now or later lies what is others' */
		if (heap.at[i].fresh * UNIT < heap.at[i].bytes)
			heap.at[i].bytes = heap.at[i].fresh * UNIT;
	}
	if (heap.now) { /* it had no blocks, and is not here */
		memset(heap.now, 0, sizeof(*heap.now));
		heap.now->fd = -1;
		heap.now = NULL;
		atomic_store(&sennit_heap_generation, 0);
	}
	pthread_mutex_unlock(&heap.lock);
}

/*
 * pthread_atfork() is this, in glibc. In another C library, of a program that a rank starts, it is missing, and so is the
 * heap.
 */
static int register_next(void (*before)(void), void (*parent)(void), void (*child)(void), void *dso)
{
	int (*next)(void (*)(void), void (*)(void), void (*)(void), void *);
	void *at = dlsym(RTLD_NEXT, "__register_atfork");
	memcpy(&next, &at, sizeof(next));
	return next ? next(before, parent, child, dso) : ENOMEM;
}

extern void *__dso_handle __attribute__((visibility("hidden")));

/*
 * With the lock held, before the first arena: may there be any? That may be long before our constructor, for the libraries
 * behind us run theirs first, and what they allocate must be inherited across a fork as well.
 */
static void decide(void)
{
	heap.off |= !sn_heap_may() || register_next(before_fork, in_parent, in_child, __dso_handle);
	heap.decided = true;
}

__attribute__((constructor)) static void start(void)
{
	pthread_mutex_lock(&heap.lock);
	if (!heap.decided)
		decide();
	pthread_mutex_unlock(&heap.lock);
}

/*
 * Whoever registers finds the heap's handlers there: so these are the last before a fork and the first after it, and what the
 * others' free and allocate, or wait for, is as at any other time.
 */
__attribute__((visibility("default"))) int __register_atfork(void (*before)(void), void (*parent)(void),
							     void (*child)(void), void *dso);
__attribute__((visibility("default"))) int __register_atfork(void (*before)(void), void (*parent)(void),
							     void (*child)(void), void *dso)
{
	start();
	return register_next(before, parent, child, dso);
}

/* ---- for the engine ------------------------------------------------------------------------------------------- */

__attribute__((visibility("default"))) int sennit_heap_info(struct sn_heap_info *out);
__attribute__((visibility("default"))) int sennit_heap_info(struct sn_heap_info *out)
{
	pthread_mutex_lock(&heap.lock);
	const struct arena *a = arena_now();
	int rc = a && fd_good(a) ? 0 : -1;
	if (!rc)
		*out = (struct sn_heap_info){.version = 1,
					     .generation = a->generation,
					     .fd = a->fd,
					     .base = (uint64_t)(uintptr_t)a->base,
					     .bytes = a->bytes};
	pthread_mutex_unlock(&heap.lock);
	return rc;
}

__attribute__((visibility("default"))) int sennit_heap_refetch(uint32_t generation, void *at, size_t len);
__attribute__((visibility("default"))) int sennit_heap_refetch(uint32_t generation, void *at, size_t len)
{
	int rc = -1;
	pthread_mutex_lock(&heap.lock);
	const struct arena *a = arena_of(at);
	if (a && a->generation == generation && !a->shared && fd_good(a)) {
		size_t done = 0;
		ssize_t n = 1;
		for (; done < len && n > 0; done += n > 0 ? (size_t)n : 0)
			n = pread(a->fd, (char *)at + done, len - done,
				  (off_t)((char *)at - a->base + (ptrdiff_t)done));
		rc = done == len ? 0 : -1;
	}
	pthread_mutex_unlock(&heap.lock);
	return rc;
}
