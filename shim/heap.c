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
 * A child that was made by the system call itself does not inherit large blocks at all: it faults rather than share them.
 *
 * Statics. The program's static memory (statics.h) is the end of the first arena's file, and so of its generation.
 *
 * Threads: one lock; whether a pointer is ours is decided without it, by bounds that only widen.
 */
#include "copy/heap.h"
#include "heap_arena.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNIT	    ((size_t)SN_HEAP_UNIT)
#define IN	    ((size_t)128)
#define RETAIN	    (((size_t)128 << 20) / UNIT)
#define RETAIN_PART 4
#define NONE	    SIZE_MAX
#define READ_WRITE  (PROT_READ | PROT_WRITE)

struct sn_heap_state sn_heap = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .low = UINTPTR_MAX, .static_low = UINTPTR_MAX};

/* ---- arenas --------------------------------------------------------------------------------------------------- */

/* The descriptor may have been closed by a program that closes whatever it does not know. */
bool sn_arena_fd_good(const struct sn_arena *a)
{
	struct stat st;
	return a->fd >= 0 && !fstat(a->fd, &st) && st.st_dev == a->dev && st.st_ino == a->ino;
}

static void bounds_widen(const struct sn_arena *a)
{
	uintptr_t low = (uintptr_t)a->base, high = low + a->bytes;
	if (low < atomic_load(&sn_heap.low))
		atomic_store(&sn_heap.low, low);
	if (high > atomic_load(&sn_heap.high))
		atomic_store(&sn_heap.high, high);
}

static void *mapped(size_t bytes, int access, int flags, int fd)
{
	void *at = mmap(NULL, bytes, access, flags | MAP_NORESERVE, fd, 0);
	/* cppcheck-suppress memleak ; it does not know MAP_FAILED */
	return at == MAP_FAILED ? NULL : at;
}

__attribute__((visibility("default"))) _Atomic uint32_t sennit_heap_generation;

/* What may change its place: nothing any more, once the program's own code may have run. */
static struct sn_statics statics(void)
{
	static struct sn_statics found;
	if (sn_heap.started)
		return (struct sn_statics){0};
	if (!found.bytes)
		found = sn_statics_find(sn_heap_static_bytes());
	return found;
}

/*
 * The program's static memory from now on lies in the file, where it keeps its addresses. Huge pages may make memory of what is
 * never touched; that is bounded by what there may be of it.
 */
static void take_statics(struct sn_arena *a)
{
	if (a->statics.bytes > sn_heap.most || !sn_statics_move(&a->statics, a->fd, a->static_at))
		a->statics.bytes = 0;
	if (!a->statics.bytes)
		return;
	if (a->huge)
		sn_heap_advise(a->statics.at, a->statics.bytes, MADV_HUGEPAGE);
	sn_heap.huge += a->huge ? a->statics.bytes : 0;
	a->live++;
	uintptr_t low = (uintptr_t)a->statics.at;
	atomic_store(&sn_heap.static_high, low + a->statics.bytes);
	atomic_store(&sn_heap.static_low, low);
}

static void decide(void);

/* With the lock held. */
static struct sn_arena *arena_make(void)
{
	unsigned slot = 0;
	while (slot < sn_heap.count && (sn_heap.at[slot].bytes || sn_heap.at[slot].statics.bytes))
		slot++;
	if (slot == SN_ARENAS)
		return NULL;
	struct sn_arena *a = &sn_heap.at[slot];
	struct stat st;
	memset(a, 0, sizeof(*a));
	a->bytes = sn_heap_bytes(&sn_heap.keep);
	a->units = a->bytes / UNIT;
	if (a->bytes)
		a->statics = statics();
	a->static_at = a->bytes + (uintptr_t)a->statics.at % SN_PIECE;
	a->fd = a->bytes ? sn_heap_file(a->bytes, a->static_at - a->bytes + a->statics.bytes, sn_heap.huge,
					sn_heap.forked, &a->huge, &sn_heap.most)
			 : -1;
	sn_heap.off = a->fd < 0 || fstat(a->fd, &st);
	if (sn_heap.off) {
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
		sn_heap.off = true; /* what was mapped stays: this happens once, if ever */
		a->bytes = 0;
		return NULL;
	}
	sn_heap_advise(a->base, a->bytes, MADV_DONTDUMP);
	take_statics(a);
	a->generation = ++sn_heap.made;
	sn_heap.huge += a->huge;
	a->shared = true;
	bounds_widen(a);
	sn_heap_forget_guards(a->base, a->bytes);
	sn_heap.count += slot == sn_heap.count;
	atomic_store(&sennit_heap_generation, a->generation);
	return sn_heap.now = a;
}

/* The one that new blocks come from. With the lock held, which a thread that is cancelled in here would keep. */
struct sn_arena *sn_arena_now(void)
{
	int before;
	if (sn_heap.now || (sn_heap.decided && sn_heap.off))
		return sn_heap.now;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (!sn_heap.decided)
		decide();
	struct sn_arena *a = sn_heap.off ? NULL : arena_make();
	pthread_setcancelstate(before, NULL);
	return a;
}

/* Whatever is to lie before that unit can be accessed, and goes into a core file. */
static bool open_up(struct sn_arena *a, size_t units)
{
	uint64_t was = a->open;
	bool can = sn_heap_open(a->base, &a->open, units * UNIT, a->bytes, READ_WRITE);
	if (a->open > was)
		sn_heap_advise(a->base + was, a->open - was, MADV_DODUMP);
	return can;
}

static struct sn_arena *arena_of(const void *p)
{
	for (unsigned i = 0; i < sn_heap.count; i++)
		if ((const char *)p >= sn_heap.at[i].base &&
		    (const char *)p < sn_heap.at[i].base + sn_heap.at[i].bytes)
			return &sn_heap.at[i];
	return NULL;
}

const struct sn_arena *sn_arena_place(const void *p, uint64_t *at, size_t *left)
{
	const struct sn_arena *a = arena_of(p), *first = &sn_heap.at[0];
	uintptr_t in = (uintptr_t)p - (uintptr_t)(a ? a->base : first->statics.at);
	if (a) {
		*at = in;
		*left = in < a->fresh * UNIT ? a->fresh * UNIT - in : 0;
		return a;
	}
	*at = first->static_at + in;
	*left = in < first->statics.bytes ? first->statics.bytes - in : 0;
	return *left ? first : NULL;
}

/* ---- what is free ---------------------------------------------------------------------------------------------- */

static size_t align_up(const struct sn_arena *a, size_t at, size_t align)
{
	uintptr_t p = (uintptr_t)a->base + at * UNIT;
	return ((p + align - 1) / align * align - (uintptr_t)a->base) / UNIT;
}

/* *zero: no memory lies there. */
static bool find(struct sn_arena *a, size_t align, size_t count, size_t *at, bool *zero)
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
static struct sn_arena *arena_for(size_t size)
{
	struct sn_arena *a = sn_arena_now();
	return a && size <= sn_heap.most ? a : NULL;
}

bool sn_arena_takes(size_t size)
{
	pthread_mutex_lock(&sn_heap.lock);
	bool takes = arena_for(size);
	pthread_mutex_unlock(&sn_heap.lock);
	return takes;
}

/* Room for so many units, or NONE. */
static size_t place(struct sn_arena *a, size_t align, size_t count, bool *zero)
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
	pthread_mutex_lock(&sn_heap.lock);
	struct sn_arena *a = arena_for(size);
	if (a && all > count && all < SN_HAS_SPARE)
		at = place(a, align, all, zero);
	if (a && at == NONE)
		at = place(a, align, all = count, zero);
	if (at != NONE) {
		a->length[at] = (uint32_t)(all | (all > count ? SN_HAS_SPARE : 0));
		a->used += all;
		a->live++;
		sn_pieces_block(&a->pieces, at * UNIT, all * UNIT);
		p = a->base + at * UNIT + in;
	}
	pthread_mutex_unlock(&sn_heap.lock);
	return p;
}

bool sn_arena_near(const void *p, size_t bytes)
{
	uintptr_t at = (uintptr_t)p;
	return at < atomic_load_explicit(&sn_heap.high, memory_order_relaxed) &&
	       at + bytes > atomic_load_explicit(&sn_heap.low, memory_order_relaxed);
}

bool sn_statics_near(const void *p, size_t bytes)
{
	uintptr_t at = (uintptr_t)p;
	return at < atomic_load_explicit(&sn_heap.static_high, memory_order_relaxed) &&
	       at + bytes > atomic_load_explicit(&sn_heap.static_low, memory_order_relaxed);
}

bool sn_heap_near(const void *p, size_t bytes)
{
	return sn_arena_near(p, bytes) || sn_statics_near(p, bytes);
}

bool sn_arena_owns(const void *p)
{
	if (!sn_arena_near(p, 1))
		return false;
	pthread_mutex_lock(&sn_heap.lock); /* other mappings may lie between two arenas */
	bool ours = arena_of(p) != NULL;
	pthread_mutex_unlock(&sn_heap.lock);
	return ours;
}

/*
 * The block's arena, its first unit, and how far into that it begins. A pointer that is no block ends the program, as it does in
 * malloc.
 */
static struct sn_arena *block_of(const void *p, size_t *at, size_t *in)
{
	struct sn_arena *a = arena_of(p);
	*at = a ? (size_t)((const char *)p - a->base) / UNIT : 0;
	*in = a ? (size_t)((const char *)p - a->base) % UNIT : 0;
	if (!a || (*in && *in != IN) || !a->length[*at])
		abort();
	return a;
}

static size_t retained(const struct sn_arena *a)
{
	size_t part = a->used / RETAIN_PART, most = part > RETAIN ? part : RETAIN;
	return most < sn_heap.keep ? most : sn_heap.keep;
}

/*
 * These units are free. Memory that is given back is, of a shared arena, a hole in the file, of the whole run of which they
 * are now; of a private one this process's own copies.
 */
static void release(struct sn_arena *a, size_t at, size_t count)
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
static void arena_drop(struct sn_arena *a)
{
	munmap(a->base, a->bytes);
	munmap(a->length, a->units * sizeof(*a->length));
	munmap(a->free.run, SN_HEAP_RUNS * sizeof(*a->free.run));
	sn_pieces_end(&a->pieces);
	sn_heap.huge -= a->huge;
	if (sn_arena_fd_good(a))
		close(a->fd);
	memset(a, 0, sizeof(*a));
	a->fd = -1;
}

void sn_arena_free(void *p)
{
	size_t at, in;
	int error = errno; /* free() leaves it alone */
	pthread_mutex_lock(&sn_heap.lock);
	struct sn_arena *a = block_of(p, &at, &in);
	size_t count = sn_arena_length(a, at);
	a->length[at] = 0;
	a->live--;
	release(a, at, count);
	if (!a->shared && !a->live)
		arena_drop(a);
	pthread_mutex_unlock(&sn_heap.lock);
	errno = error;
}

size_t sn_arena_size(const void *p)
{
	size_t at, in;
	pthread_mutex_lock(&sn_heap.lock);
	const struct sn_arena *a = block_of(p, &at, &in);
	size_t size = sn_arena_length(a, at) * UNIT - in;
	pthread_mutex_unlock(&sn_heap.lock);
	return size;
}

/* Longer: from the run behind it, and from what was never used. */
static bool grow(struct sn_arena *a, size_t at, size_t count)
{
	size_t old = sn_arena_length(a, at), end = at + old, more = count - old,
	       i = sn_runs_after(&a->free, end);
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
	a->length[at] = (uint32_t)count | (a->length[at] & SN_HAS_SPARE);
	a->used += more;
	sn_pieces_block(&a->pieces, at * UNIT, count * UNIT);
	return true;
}

/* Shorter, if it is worth it: who has grown goes on to grow. */
static void shrink(struct sn_arena *a, size_t at, size_t count)
{
	size_t old = sn_arena_length(a, at);
	if (!a->shared || !count || old - count <= (a->length[at] & SN_HAS_SPARE ? old / 2 : old / 4))
		return;
	a->length[at] = (uint32_t)count;
	release(a, at + count, old - count);
}

bool sn_arena_resize(void *p, size_t size)
{
	size_t at, in;
	pthread_mutex_lock(&sn_heap.lock);
	struct sn_arena *a = block_of(p, &at, &in);
	size_t count = size / UNIT + (size % UNIT + in + UNIT - 1) / UNIT;
	bool done = count <= sn_arena_length(a, at);
	if (done)
		shrink(a, at, count);
	else
		done = a->shared && size <= sn_heap.most && count < SN_HAS_SPARE && grow(a, at, count);
	pthread_mutex_unlock(&sn_heap.lock);
	return done;
}

int sn_arena_forget(void *at, size_t bytes)
{
	int rc = 1;
	pthread_mutex_lock(&sn_heap.lock);
	uint64_t in_file;
	size_t left;
	const struct sn_arena *a = sn_arena_place(at, &in_file, &left);
	if (a && (uintptr_t)at % UNIT == 0 && left && bytes <= left) {
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
	pthread_mutex_unlock(&sn_heap.lock);
	return rc;
}

void sn_arena_confine(void)
{
	pthread_mutex_lock(&sn_heap.lock);
	sn_heap.most = 0;
	sn_heap.off = sn_heap.decided = true;
	pthread_mutex_unlock(&sn_heap.lock);
}

/* ---- the beginning -------------------------------------------------------------------------------------- */

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

static void before_fork(void)
{
	sn_heap_before_fork(true);
}

static void in_child(void)
{
	sn_heap_in_child(true);
}

/*
 * With the lock held, before the first arena: may there be any? That may be long before our constructor, for the libraries
 * behind us run theirs first, and what they allocate must be inherited across a fork as well.
 */
static void decide(void)
{
	sn_heap.off |=
		!sn_heap_may() || register_next(before_fork, sn_heap_in_parent, in_child, __dso_handle);
	sn_heap.decided = true;
}

static void start(void)
{
	pthread_mutex_lock(&sn_heap.lock);
	if (!sn_heap.decided)
		decide();
	pthread_mutex_unlock(&sn_heap.lock);
}

/* Static memory changes its place before the program's own code runs, or not at all. */
__attribute__((constructor)) static void begin(void)
{
	start();
	pthread_mutex_lock(&sn_heap.lock);
	if (!sn_heap.now && !sn_heap.off && statics().bytes)
		sn_arena_now();
	sn_heap.started = true;
	pthread_mutex_unlock(&sn_heap.lock);
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
