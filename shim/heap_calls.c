/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In front of calls that mean another thing for memory of malloc's than for blocks of a shared file, or count what the arenas
 * have taken of the address space; and of forks that call no handlers.
 */
#include "copy/heap.h"
#include "heap.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef int (*advise_fn)(void *, size_t, int);
typedef void *(*map_fn)(void *, size_t, int, int, int, off_t);
typedef void *(*remap_fn)(void *, size_t, size_t, int, void *);

enum call { MADVISE, MPROTECT, MMAP, MREMAP, MUNMAP, SHMAT, CLONE, FORK, CALLS };

/*
 * By way of others who stand in front of it, or have changed its beginning, as they count what is no longer there. Found when the
 * process starts, if nobody asks before: later another thread that loads a library may have the dynamic linker's lock, and wait.
 */
static void *behind(enum call call)
{
	static const char *const names[CALLS] = {"madvise", "mprotect", "mmap",	 "mremap",
						 "munmap",  "shmat",	"clone", "_Fork"};
	static _Atomic(void *) next[CALLS];
	void *f = atomic_load_explicit(&next[call], memory_order_relaxed);
	if (!f) {
		f = dlsym(RTLD_NEXT, names[call]);
		atomic_store_explicit(&next[call], f, memory_order_relaxed);
	}
	return f;
}

int sn_heap_advise(void *at, size_t bytes, int advice)
{
	void *f = behind(MADVISE);
	advise_fn call;
	memcpy(&call, &f, sizeof(call));
	return call ? call(at, bytes, advice) : (int)syscall(SYS_madvise, at, bytes, advice);
}

int sn_heap_protect(void *at, size_t bytes, int access)
{
	void *f = behind(MPROTECT);
	advise_fn call;
	memcpy(&call, &f, sizeof(call));
	return call ? call(at, bytes, access) : (int)syscall(SYS_mprotect, at, bytes, access);
}

void *sn_heap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
	void *f = behind(MMAP);
	map_fn call;
	memcpy(&call, &f, sizeof(call));
	return call ? call(at, bytes, access, flags, fd, offset)
		    : (void *)syscall(SYS_mmap, at, bytes, access, flags, fd, offset); /* NOLINT */
}

/* Of anonymous memory these leave zeros, of a file what stands there; and the second is refused. */
EXPORT int madvise(void *at, size_t bytes, int advice)
{
	int rc = 1;
	if ((advice == MADV_DONTNEED || advice == MADV_FREE) && sn_heap_near(at, 1))
		rc = sn_arena_forget(at, bytes);
	return rc <= 0 ? rc : sn_heap_advise(at, bytes, advice);
}

/* What the program maps over a part of a block is not what peers see in the arena. */
EXPORT void *mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
	if (flags & MAP_FIXED)
		sn_arena_part(at, bytes);
	return sn_heap_mmap(at, bytes, access, flags, fd, offset);
}

EXPORT void *mmap64(void *at, size_t bytes, int access, int flags, int fd, off64_t offset)
	__attribute__((alias("mmap")));

/* Nor what it moves there, or away from there. */
EXPORT void *mremap(void *at, size_t bytes, size_t new_bytes, int flags, ...)
{
	remap_fn call;
	va_list more;
	va_start(more, flags);
	void *to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	sn_arena_part(at, bytes);
	if (flags & MREMAP_FIXED)
		sn_arena_part(to, new_bytes);
	void *f = behind(MREMAP);
	memcpy(&call, &f, sizeof(call));
	return call ? call(at, bytes, new_bytes, flags, to)
		    : (void *)syscall(SYS_mremap, at, bytes, new_bytes, flags, to); /* NOLINT */
}

/* Of static memory, which nobody frees: whatever comes there next is the program's own. */
EXPORT int munmap(void *at, size_t bytes)
{
	int (*call)(void *, size_t);
	void *f = behind(MUNMAP);
	memcpy(&call, &f, sizeof(call));
	if (sn_statics_near(at, bytes))
		sn_arena_part(at, bytes);
	return call ? call(at, bytes) : (int)syscall(SYS_munmap, at, bytes);
}

/* A segment may come in the place of memory that is there. */
EXPORT void *shmat(int id, const void *at, int flags)
{
	void *(*call)(int, const void *, int);
	struct shmid_ds segment;
	void *f = behind(SHMAT);
	memcpy(&call, &f, sizeof(call));
	if (flags & SHM_REMAP && at && !shmctl(id, IPC_STAT, &segment))
		sn_arena_part(at, segment.shm_segsz);
	return call ? call(id, at, flags) : (void *)syscall(SYS_shmat, id, at, flags); /* NOLINT */
}

EXPORT struct sn_heap_guarded sennit_heap_guarded;
static atomic_bool guarded;

/* By whoever is first; a second one's is not used, and costs nothing. What had to be noted without them was all, and stays so. */
static _Atomic uint64_t *pages(void)
{
	struct sn_heap_guarded *g = &sennit_heap_guarded;
	bool any = atomic_load(&g->any);
	_Atomic uint64_t *now = atomic_load(&g->pages);
	if (now || any)
		return now;
	void *new = (void *)syscall(SYS_mmap, NULL, SN_HEAP_WORDS * sizeof(*now), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); /* NOLINT */
	if (new == MAP_FAILED)
		return NULL;
	return atomic_compare_exchange_strong(&g->pages, &now, new) ? new : now;
}

/* One call may be for all of the address space. */
static void guard(const void *at, size_t bytes)
{
	uintptr_t first = (uintptr_t)at >> SN_HEAP_PAGE, last = ((uintptr_t)at + bytes - 1) >> SN_HEAP_PAGE;
	if (!bytes)
		return;
	_Atomic uint64_t *bits = pages();
	for (uintptr_t w = first / 64, n = 0; bits && w <= last / 64 && n < SN_HEAP_WORDS; w++, n++)
		atomic_fetch_or(&bits[w % SN_HEAP_WORDS], sn_heap_bits(w, first, last));
	atomic_store(&sennit_heap_guarded.any, 1);
}

/* In an arena longer than all the bits it may be another page that is guarded. */
void sn_heap_forget_guards(const void *at, size_t bytes)
{
	static atomic_bool beyond;
	if (bytes >> SN_HEAP_PAGE > SN_HEAP_WORDS * 64)
		atomic_store(&beyond, true);
	if (atomic_load_explicit(&beyond, memory_order_relaxed))
		return;
	uintptr_t first = (uintptr_t)at >> SN_HEAP_PAGE, last = ((uintptr_t)at + bytes - 1) >> SN_HEAP_PAGE;
	_Atomic uint64_t *bits = atomic_load(&sennit_heap_guarded.pages);
	for (uintptr_t w = first / 64, n = 0; bits && bytes && w <= last / 64 && n < SN_HEAP_WORDS; w++, n++)
		if (atomic_load_explicit(&bits[w % SN_HEAP_WORDS], memory_order_relaxed))
			atomic_fetch_and(&bits[w % SN_HEAP_WORDS], ~sn_heap_bits(w, first, last));
}

void sn_heap_unguard(void *at, size_t bytes)
{
	if (!atomic_load_explicit(&guarded, memory_order_relaxed))
		return;
	sn_heap_protect(at, bytes, PROT_READ | PROT_WRITE);
	sn_heap_forget_guards(at, bytes);
}

/* Who gets this memory later would not know. No lock: heap.c calls this with its own, and handlers of SIGSEGV do. */
EXPORT int mprotect(void *at, size_t bytes, int access)
{
	bool other = access != (PROT_READ | PROT_WRITE) && sn_heap_near(at, bytes);
	if (other)
		atomic_store(&guarded, true);
	if (other && (access & (PROT_READ | PROT_WRITE)) != (PROT_READ | PROT_WRITE))
		guard(at, bytes);
	return sn_heap_protect(at, bytes, access);
}

/* ---- forks without handlers ----------------------------------------------------------------------------------- */

/*
 * A handler of a signal may do so while its own thread is in here: then, after a tenth of a second, the child goes without
 * the memory that is shared, and faults there.
 */
static bool before(void)
{
	for (int i = 0; i < 1000; i++) {
		if (sn_heap_before_fork(false))
			return true;
		usleep(100);
	}
	return false;
}

EXPORT pid_t _Fork(void)
{
	pid_t (*call)(void);
	void *f = behind(FORK);
	memcpy(&call, &f, sizeof(call));
	if (!call) {
		errno = ENOSYS;
		return -1;
	}
	bool told = before();
	pid_t pid = call();
	if (told && pid)
		sn_heap_in_parent();
	else if (told)
		sn_heap_in_child(true);
	return pid;
}

struct child {
	int (*main)(void *);
	void *arg;
	bool own_descriptors;
};

static int child_main(void *arg)
{
	const struct child *c = arg;
	sn_heap_in_child(c->own_descriptors);
	return c->main(c->arg);
}

/* The further arguments are there or not; whoever is behind us takes those that the flags say. */
EXPORT int clone(int (*child)(void *), void *stack, int flags, void *arg, ...)
{
	int (*call)(int (*)(void *), void *, int, void *, ...);
	void *f = behind(CLONE);
	va_list more;
	va_start(more, arg);
	pid_t *parent_tid = va_arg(more, pid_t *);
	void *tls = va_arg(more, void *);
	pid_t *child_tid = va_arg(more, pid_t *);
	va_end(more);
	memcpy(&call, &f, sizeof(call));
	if (flags & CLONE_VM || !before())
		return call(child, stack, flags, arg, parent_tid, tls, child_tid);
	struct child c = {child, arg, !(flags & CLONE_FILES)};
	int pid = call(child_main, stack, flags, &c, parent_tid, tls, child_tid);
	sn_heap_in_parent();
	return pid;
}

/* ---- limits --------------------------------------------------------------------------------------------------- */

static _Atomic uint64_t added; /* to the limit that the program has set */
static pid_t
	self; /* whose limits and arenas these are: not those of a child that shares our memory before it calls exec */

static void own(void)
{
	self = getpid();
}

__attribute__((constructor)) static void start(void)
{
	own();
	pthread_atfork(NULL, NULL, own);
	for (enum call call = 0; call < CALLS; call++)
		behind(call);
}

static bool add_reserved(const struct sn_mapping *m, void *sum)
{
	bool peers = m->heap && !sn_heap_near((const void *)m->from, m->to - m->from); /* NOLINT */
	if (m->shared && (m->access == PROT_NONE || peers))
		*(uint64_t *)sum += m->to - m->from;
	return true;
}

/* Address space that is not of the program's making: what blocks have not reached, and what is mapped of peers'. */
static uint64_t reserved(void)
{
	uint64_t sum = 0;
	sn_heap_mappings(add_reserved, &sum);
	return sum;
}

static rlim_t more(rlim_t limit, uint64_t by)
{
	return limit == RLIM_INFINITY || by >= RLIM_INFINITY - limit ? limit : limit + by;
}

static rlim_t less(rlim_t limit, uint64_t by)
{
	return limit == RLIM_INFINITY || limit < by ? limit : limit - by;
}

/*
 * A program that limits its address space means its own: what is reserved comes on top, and from then on nothing more is taken
 * of that, so that the limit is one. (Where it is there before the program is, there are no arenas.)
 */
static int address_space(const struct rlimit *want, struct rlimit *old)
{
	uint64_t before = atomic_load(&added), now = before;
	struct rlimit was, set;
	if (want && want->rlim_cur != RLIM_INFINITY && !before)
		now = reserved();
	if (want)
		set = (struct rlimit){more(want->rlim_cur, now), more(want->rlim_max, now)};
	int rc = (int)syscall(SYS_prlimit64, 0, RLIMIT_AS, want ? &set : NULL, &was);
	if (rc)
		return rc;
	if (now && !before) {
		sn_arena_confine();
		atomic_store(&added, now);
	}
	if (old)
		*old = (struct rlimit){less(was.rlim_cur, before), less(was.rlim_max, before)};
	return 0;
}

static int limits(pid_t pid, int what, const struct rlimit *want, struct rlimit *old)
{
	pid_t me = getpid();
	if (what == RLIMIT_AS && me == self && (pid == 0 || pid == me))
		return address_space(want, old);
	return (int)syscall(SYS_prlimit64, pid, what, want, old);
}

/* The types that the headers give them differ between C and C++. */
EXPORT int sn_getrlimit(int what, struct rlimit *old) __asm__("getrlimit");
EXPORT int sn_getrlimit64(int what, struct rlimit *old) __asm__("getrlimit64");
EXPORT int sn_setrlimit(int what, const struct rlimit *want) __asm__("setrlimit");
EXPORT int sn_setrlimit64(int what, const struct rlimit *want) __asm__("setrlimit64");
EXPORT int sn_prlimit(pid_t pid, int what, const struct rlimit *want, struct rlimit *old) __asm__("prlimit");
EXPORT int sn_prlimit64(pid_t pid, int what, const struct rlimit *want,
			struct rlimit *old) __asm__("prlimit64");

int sn_getrlimit(int what, struct rlimit *old)
{
	return limits(0, what, NULL, old);
}
int sn_getrlimit64(int what, struct rlimit *old)
{
	return limits(0, what, NULL, old);
}
int sn_setrlimit(int what, const struct rlimit *want)
{
	return limits(0, what, want, NULL);
}
int sn_setrlimit64(int what, const struct rlimit *want)
{
	return limits(0, what, want, NULL);
}
int sn_prlimit(pid_t pid, int what, const struct rlimit *want, struct rlimit *old)
{
	return limits(pid, what, want, old);
}
int sn_prlimit64(pid_t pid, int what, const struct rlimit *want, struct rlimit *old)
{
	return limits(pid, what, want, old);
}
