/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim.h"
#include "agree.h"
#include "closing.h"
#include "crowd.h"
#include "flat.h"
#include "holder.h"
#include "large.h"
#include "node.h"
#include "object.h"
#include "requests.h"
#include "stale.h"
#include "unlocks.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void *sn_mpi_enter(uint32_t index); /* called by entry.S only */

static const char *const names[] = {
#define WAITS(name)	 #name, "P" #name,
#define POLLS(name)	 #name, "P" #name,
#define WAITS_OURS(name) WAITS(name)
#define POLLS_OURS(name) POLLS(name)
#include "calls.h"
};
#define COUNT (sizeof(names) / sizeof(names[0]))

extern void *_Atomic sn_mpi_next[COUNT]; /* entry.S */
/* Initial-exec: a library that is loaded at start has room in every thread's static block. */
_Thread_local struct sn_shim_thread sn_mpi_thread __attribute__((tls_model("initial-exec")));

static struct sn_shim_thread *this_thread(void)
{
	return &sn_mpi_thread;
}

static void forget(const void *ep)
{
	sn_quick_forget();
	sn_meet_gone(ep);
	sn_requests_gone(ep);
}

struct sn_shim sn_mpi_shim = {.version = SN_SHIM_VERSION,
			      .pass = SN_SHIM_NOBODY,
			      .thread = this_thread,
			      .forget = forget,
			      .give = sn_requests_read,
			      .waits_long = sn_agree_waits_long};

_Static_assert(offsetof(struct sn_shim, stays) == 4 && offsetof(struct sn_shim, pass) == 8 &&
		       offsetof(struct sn_shim_thread, tenure) == 8,
	       "entry.S reads them");

__attribute__((visibility("default"))) struct sn_shim *sennit_mpi_shim(void)
{
	return &sn_mpi_shim;
}

/*
 * MPICH and Open MPI yield after each look that found nothing. But the provider has decided by then whether to spin, to
 * yield or to sleep: a second yield hands the core on once more when it has just come back (with more ranks than cores a
 * round trip took three switches instead of one), and costs a system call where nobody wants the core. So the first yield
 * after such a look returns at once. Who yields of his own accord, in whatever thread, does so, but at most once in a call
 * that waits; in the provider too, which yields before it says that it has waited.
 */
__attribute__((visibility("default"))) int sched_yield(void)
{
	sn_mpi_thread.yields++;
	if (sn_mpi_thread.owed && sn_unlocks_is_mpis(__builtin_return_address(0))) {
		atomic_load (&sn_mpi_shim.wait)();
		return 0;
	}
	if (sn_mpi_thread.looked && !atomic_load_explicit(&sn_own_asked, memory_order_relaxed)) {
		sn_mpi_thread.looked = 0;
		return 0;
	}
	return (int)syscall(SYS_sched_yield);
}

/* ---- the next definition of a name ---- */

struct objects {
	const char **name;
	size_t count, room;
};

struct holder {
	uintptr_t address;
	const void *object;
};

static int holds(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct holder *h = arg;
	(void)size;
	if (sn_object_holds(info, h->address))
		h->object = info->dlpi_phdr;
	return h->object != NULL;
}

/*
 * What is the same for all that lies in one object. Not by dladdr(), which compares each of the object's symbols to
 * name the nearest.
 */
static const void *object_of(const void *symbol)
{
	struct holder h = {.address = (uintptr_t)symbol};
	if (symbol)
		dl_iterate_phdr(holds, &h);
	return h.object;
}

/* Only their names: to look into one here could wait for a lock whose holder waits for the one that is held here. */
static int note_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct objects *o = arg;
	(void)size;
	if (!info->dlpi_name ||
	    !*info->dlpi_name) /* the program: to search it is to search everything, us first */
		return 0;
	if (o->count == o->room) {
		size_t room = o->room ? 2 * o->room : 64;
		const char **name = realloc(o->name, room * sizeof(*name));
		if (!name)
			return 1;
		o->name = name;
		o->room = room;
	}
	o->name[o->count++] = info->dlpi_name;
	return 0;
}

static void *find_in(const char *object, const char *name, const void *own)
{
	void *lib = dlopen(object, RTLD_LAZY | RTLD_NOLOAD);
	if (!lib)
		return NULL;
	void *found = dlsym(lib, name);
	dlclose(lib); /* one of two references: it stays */
	return found && object_of(found) != own ? found : NULL;
}

/*
 * RTLD_NEXT knows only what was loaded for all to see. An interpreter loads its MPI module, and with it the MPI
 * library, for that module alone: then each loaded object is asked in turn. That takes some 10 us an object, and a
 * rank asks for a dozen functions that most MPIs do not have: where all see the MPI itself, what they do not see is
 * not there.
 */
void *sn_mpi_find(const char *name)
{
	struct objects o = {0};
	void *found = dlsym(RTLD_NEXT, name);
	if (found || dlsym(RTLD_NEXT, "PMPI_Init"))
		return found;
	dl_iterate_phdr(note_object, &o);
	for (size_t i = 0; i < o.count && !found; i++)
		found = find_in(o.name[i], name, object_of(&sn_mpi_shim));
	free(o.name);
	return found;
}

bool sn_mpi_same_object(const void *a, const void *b)
{
	const void *object = object_of(a);
	return object && object == object_of(b);
}

/* ---- which MPI ---- */

/* If so, crowd.c is told. */
bool sn_mpi_is_open_mpi(const void *function)
{
	Dl_info info;
	void *lib = dladdr(function, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	bool yes = lib && dlsym(lib, "ompi_mpi_comm_world");
	if (yes)
		sn_crowd_in_open_mpi(lib);
	if (lib)
		dlclose(lib);
	return yes;
}

_Atomic enum sn_mpi_threads sn_mpi_promised;

/* Threads that ask at once hear the same. */
__attribute__((noinline)) enum sn_mpi_threads sn_mpi_ask_for_threads(void)
{
	union {
		void *symbol;
		int (*asks)(int *answer);
	} initialized = {sn_mpi_find("PMPI_Initialized")}, level = {sn_mpi_find("PMPI_Query_thread")};
	enum sn_mpi_threads several = atomic_load(&sn_mpi_shim.at_once) ? SEVERAL : NOTHING, known = NOTHING;
	int yes = 0, provided = sn_mpi_multiple();
	if (initialized.symbol && level.symbol && !initialized.asks(&yes) && yes && !level.asks(&provided))
		known = provided < sn_mpi_multiple() ? ONE : several;
	atomic_store_explicit(&sn_mpi_promised, known, memory_order_relaxed);
	return known;
}

/* ---- entering by the slow way ---- */

/* What stands before it would only hand it on, for who does not go the quick way. */
static void *_Atomic real[COUNT];
static _Atomic unsigned char idle[COUNT];

static inline bool idles(uint32_t index)
{
	unsigned char when = atomic_load_explicit(&idle[index], memory_order_relaxed);
	return when == SN_QUICK_IDLE ||
	       (when == SN_QUICK_IDLE_SO_FAR && !sn_requests_about() && !sn_forgotten_any());
}

/* Where it leads to: what goes the quick way relies on its caller's pass. */
static void *definition(uint32_t index, bool quickly)
{
	void *mpis = atomic_load_explicit(&real[index], memory_order_relaxed);
	void *looks = sn_forgotten_any() ? sn_quick_looks(names[index], mpis) : NULL;
	if (looks)
		return looks;
	return !quickly && idles(index) ? mpis
					: atomic_load_explicit(&sn_mpi_next[index], memory_order_relaxed);
}

void *sn_mpi_enter(uint32_t index)
{
	static _Atomic uint64_t known[(COUNT + 63) / 64];
	if (sn_mpi_thread.freeing)
		sn_elsewhere_freed();
	bool quickly = sn_mpi_thread.tenure == atomic_load(&sn_mpi_shim.pass) || sn_holder_enter();
	sn_requests_before();
	uint64_t bit = UINT64_C(1) << index % 64;
	if (atomic_load_explicit(&known[index / 64], memory_order_acquire) & bit)
		return definition(index, quickly);
	void *next = sn_mpi_find(names[index]), *stand_in;
	if (!next && ((stand_in = sn_large_stand_in(names[index], NULL)) ||
		      (stand_in = sn_node_stand_in(names[index], NULL)) ||
		      (stand_in = sn_quick_stand_in(names[index], NULL)))) {
		atomic_store_explicit(&sn_mpi_next[index], stand_in, memory_order_relaxed);
		atomic_fetch_or_explicit(&known[index / 64], bit, memory_order_release);
		return stand_in;
	}
	if (!next) {
		fprintf(stderr, "sennit: the MPI library has no %s, which the program calls\n", names[index]);
		abort();
	}
	static _Atomic bool asked;
	if (!atomic_exchange(&asked, true))
		sn_mpi_is_open_mpi(next);
	sn_closing_see(names[index]);
	stand_in = sn_node_stand_in(names[index], next);
	if (sn_elsewhere_begins(names[index]))
		return stand_in ? stand_in : next;
	next = sn_stale_stand_in(names[index], next);
	atomic_store_explicit(&real[index], next, memory_order_relaxed);
	atomic_store_explicit(&idle[index], sn_quick_idle(names[index]), memory_order_relaxed);
	if (!stand_in)
		stand_in = sn_elsewhere_stand_in(names[index], next);
	if (!stand_in)
		stand_in = sn_large_stand_in(names[index], next);
	next = stand_in ? stand_in : sn_quick_stand_in(names[index], next);
	atomic_store_explicit(&sn_mpi_next[index], next, memory_order_relaxed);
	atomic_fetch_or_explicit(&known[index / 64], bit, memory_order_release);
	return definition(index, quickly);
}
