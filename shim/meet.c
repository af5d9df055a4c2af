/* SPDX-License-Identifier: BSD-3-Clause */
#include "agree.h"
#include "base/copy.h"
#include "base/launched.h"
#include "begun.h"
#include "beside.h"
#include "gpu.h"
#include "here.h"
#include "shared.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST   64 /* communicators that have memory at once */
#define LOOKED 8  /* looks of one who waits, of which one is the MPI's, too */
#define QUIET  64 /* and where each has a core not of the first ones: the MPI looks as long as a line needs */
#define NAP_NS 1000000
#define ASKED  8 /* naps, after one of which it is asked whether the other has ended */

#define NAME "sennit-flat"

#define FREED UINTPTR_MAX /* in place of the handle of a communicator that is being freed */

/* One for each communicator whose ranks have been asked, with memory or without. */
static struct sn_meet *_Atomic meets;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* to take one of them */
static _Atomic unsigned with_memory;
static handle byte_type, any_op, self;
static _Thread_local handle ending __attribute__((tls_model("initial-exec")));

/* ---- which there are ---- */

static bool is_none(handle comm)
{
	static _Atomic handle none;
	if (!likely(none))
		none = sn_mpi_handle(SN_COMM_NULL);
	return sn_mpi_plain(comm) == none;
}

static inline bool is_of(const struct sn_meet *m, handle comm)
{
	return atomic_load_explicit(&m->comm, memory_order_acquire) == comm;
}

static struct sn_meet *find(handle comm)
{
	struct sn_meet *m = atomic_load(&meets);
	while (m && !is_of(m, comm))
		m = m->older;
	return m;
}

/* Else its calls are still counted. */
static inline bool asked(const struct sn_meet *m)
{
	return atomic_load_explicit(&m->counted, memory_order_relaxed) >= SN_MEET_CALLS;
}

struct sn_meet *sn_meet_of(handle comm)
{
	static _Thread_local struct sn_meet *last __attribute__((tls_model("initial-exec")));
	comm = sn_mpi_plain(comm);
	if (likely(last && is_of(last, comm) && asked(last)))
		return last;
	struct sn_meet *m = find(comm);
	return m && asked(m) ? last = m : NULL;
}

bool sn_meet_room(void)
{
	return atomic_load_explicit(&with_memory, memory_order_relaxed) < MOST;
}

/* One that is nobody's, or a new one. */
static struct sn_meet *take(handle comm)
{
	struct sn_meet *m = find(0);
	bool is_new = !m;
	if (is_new && !(m = calloc(1, sizeof(*m))))
		return NULL;
	atomic_store(&m->comm, comm);
	if (is_new) {
		m->older = atomic_load(&meets);
		atomic_store(&meets, m);
	}
	return m;
}

static struct sn_meet *find_or_take(handle comm)
{
	comm = sn_mpi_plain(comm);
	pthread_mutex_lock(&lock);
	struct sn_meet *m = find(comm);
	if (!m)
		m = take(comm);
	pthread_mutex_unlock(&lock);
	return m;
}

static void no_more_waits(struct sn_meet *m)
{
	if (m->waits)
		atomic_fetch_sub(&sn_meet_waiting, 1);
	m->waits = false;
}

struct sn_meet *sn_meet_never(handle comm)
{
	struct sn_meet *m = find_or_take(comm);
	if (m) {
		no_more_waits(m);
		atomic_store(&m->counted, SN_MEET_CALLS);
	} else {
		sn_proof_failed(comm);
	}
	return m;
}

/* Such a call is the same on all ranks, and so is how many there were. */
struct sn_meet *sn_meet_after(handle comm)
{
	struct sn_meet *m = find_or_take(comm);
	if (!m)
		sn_proof_failed(comm);
	return m && atomic_fetch_add(&m->counted, 1) + 1 >= SN_MEET_CALLS ? sn_meet_here(comm) : NULL;
}

_Atomic unsigned sn_meet_waiting;

void sn_meet_counts(handle comm, bool sums)
{
	struct sn_meet *m = find_or_take(comm);
	if (!m)
		return;
	if (!m->waits)
		atomic_fetch_add(&sn_meet_waiting, 1);
	m->waits = true;
	m->sums_went |= sums;
	if (atomic_load(&m->counted) < SN_MEET_CALLS - 1)
		atomic_fetch_add(&m->counted, 1);
}

bool sn_meet_counted(handle comm, bool sums)
{
	const struct sn_meet *m = find(sn_mpi_plain(comm));
	return m && m->waits && (!sums || m->sums_went) && atomic_load(&m->counted) >= SN_MEET_CALLS - 1;
}

void sn_meet_in_time(handle comm)
{
	struct sn_meet *m = is_none(comm) || sn_meet_is_ending(comm) ? NULL : find(sn_mpi_plain(comm));
	if (m && m->waits && atomic_load(&m->counted) == SN_MEET_CALLS - 1)
		sn_meet_here(comm);
}

/* ---- the memory ---- */

/* Of /proc/PID/stat: when it began (field 22), in the kernel's own time; 0: it has ended, or there is none. *known: it could be read. */
static uint64_t began(int pid, bool *known)
{
	char path[32], text[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	*known = fd >= 0;
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	const char *field = strrchr(text, ')'); /* the second */
	bool over = !field || strchr("ZX", field[2]);
	for (int k = 3; field && k <= 22; k++) {
		field = strchr(field + 1, ' ');
		if (field && k == 20 && sn_decimal(field) > 1)
			over = false; /* its first thread has, and others have not */
	}
	return field && !over ? sn_decimal(field) : 0;
}

struct place { /* told by the first rank */
	struct sn_shared_place shared;
	uint64_t key;
};

static struct sn_meet_memory *make(unsigned ranks, struct place *at)
{
	struct timespec now;
	struct sn_meet_memory *mem = sn_shared_make(NAME, sn_meet_bytes(ranks), &at->shared);
	if (!mem)
		return NULL;
	clock_gettime(CLOCK_MONOTONIC, &now);
	at->key = (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec << 16 ^ (uint64_t)at->shared.pid;
	mem->key = at->key;
	return mem;
}

static struct sn_meet_memory *attach(unsigned ranks, const struct place *at)
{
	struct sn_meet_memory *mem = sn_shared_attach(NAME, sn_meet_bytes(ranks), &at->shared);
	if (mem && mem->key != at->key) {
		munmap(mem, sn_meet_bytes(ranks));
		mem = NULL;
	}
	return mem;
}

/* What they bring to these stacks another thread may write, which is in the MPI. */
static bool all_say(int mine, handle comm, handle type, handle min)
{
	int all = 0;
	bool told = !sn_proof_mpi.allreduce(&mine, &all, 1, type, min, comm);
	sn_quick_told();
	return told && all;
}

bool sn_meet_all(bool mine, handle comm)
{
	return all_say(mine, comm, sn_mpi_handle(SN_INT), sn_mpi_handle(SN_MIN));
}

static bool first_says(struct place *at, handle comm, handle type)
{
	struct place said = *at;
	bool told = !sn_proof_mpi.bcast(&said, sizeof(said) / sizeof(int), type, 0, comm);
	sn_quick_told();
	if (!told)
		return false;
	*at = said;
	return true;
}

/* Only if each rank has all those that there are: so who lends brings nothing along. */
static void borrow(struct sn_meet *m, handle comm, handle type, handle min)
{
	bool all = true;
	for (unsigned r = 0; r < m->ranks; r++) {
		const struct sn_lent *theirs = &m->mem->heap[r];
		if (r != m->rank)
			m->heaps[r] = sn_lend_map(m->mem->pid[r], m->mem->began[r], theirs);
		all &= r == m->rank || m->heaps[r] || !theirs->span.bytes;
	}
	m->lends = all_say(all, comm, type, min);
}

static void find_handles(void)
{
	byte_type = sn_mpi_handle(SN_BYTE);
	any_op = sn_mpi_handle(SN_BOR);
	self = sn_mpi_handle(SN_COMM_SELF);
}

/*
 * For all kinds of sums, of which begun.h's are the longest. Flat: those of half of them, and one more of a pair. Long ones have an operand
 * behind.
 */
_Static_assert(2 * SN_MEET_SUMS <= SN_MEET_BRINGS, "long.h: a sum, and an operand");
static char *sums_of(unsigned ranks)
{
	size_t flat = ((size_t)ranks / 2 + 1) * SN_MEET_ROOM;
	return aligned_alloc(64, flat > SN_MEET_BRINGS ? flat : SN_MEET_BRINGS);
}

/* Whoever lacks something takes part as far as it is said to the others. */
static void share(struct sn_meet *m, handle comm)
{
	handle type = sn_mpi_handle(SN_INT), min = sn_mpi_handle(SN_MIN);
	int ranks, rank;
	struct place at = {.shared.fd = -1};
	if (sn_proof_mpi.comm_size(comm, &ranks) || sn_proof_mpi.comm_rank(comm, &rank) || !type || !min)
		return;
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_handles);
	m->ranks = (unsigned)ranks;
	m->rank = (unsigned)rank;
	m->ring = sn_meet_ring_of(m->ranks);
	m->lap = sn_meet_lap_of(m->ranks);
	bool fits = sn_meet_room();
	struct sn_meet_memory *mem = rank || !fits ? NULL : make(m->ranks, &at);
	if (!first_says(&at, comm, type))
		return;
	if (rank && fits)
		mem = attach(m->ranks, &at);
	bool known = false;
	if (mem) {
		mem->pid[rank] = (int32_t)getpid();
		mem->began[rank] = began(mem->pid[rank], &known);
		mem->heap[rank] = m->heap = sn_lend_own();
	}
	m->sums = sums_of(m->ranks);
	bool ok = all_say(known && m->sums && sn_shared_may(), comm, type, min);
	if (!rank && at.shared.fd >= 0)
		close(at.shared.fd);
	if (ok && mem) {
		m->mem = mem;
		atomic_fetch_add(&with_memory, 1);
		borrow(m, comm, type, min);
		m->begins = all_say(sn_begun_may(), comm, type, min);
	} else if (mem) {
		munmap(mem, sn_meet_bytes(m->ranks));
	}
}

struct sn_meet *sn_meet_set_up(handle comm, bool here)
{
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	struct sn_meet *m = sn_meet_never(comm);
	if (!m)
		return NULL;
	share(m, comm);
	atomic_store_explicit(&m->ep, q ? q->endpoint() : NULL, memory_order_relaxed);
	m->here = m->mem && here;
	return m;
}

/* Where several threads may call, one that is none may be said twice to be so. */
static bool is_here(handle comm)
{
	handle handlers[2];
	if (!sn_quick_serial())
		return sn_here_comm(comm);
	sn_proof_quiet(handlers);
	bool here = sn_here_comm(comm);
	sn_proof_loud(handlers);
	return here;
}

struct sn_meet *sn_meet_here(handle comm)
{
	return is_here(comm) ? sn_meet_set_up(comm, true) : sn_meet_never(comm);
}

__attribute__((noinline)) struct sn_meet *sn_meet_first(
	const struct sn_collective *c, struct sn_meet *(*first_of)(const struct sn_collective *c))
{
	return sn_meet_is_ending(c->comm) || is_none(c->comm) ? NULL : first_of(c);
}

unsigned sn_meet_ranks(const struct sn_collective *c)
{
	int ranks, inter;
	bool none = c->root < 0 || sn_proof_mpi.comm_test_inter(c->comm, &inter) || inter ||
		    sn_proof_mpi.comm_size(c->comm, &ranks);
	return none ? 0 : (unsigned)ranks;
}

__attribute__((noinline)) int sn_meet_no_buffer(handle comm, unsigned rank, const char *name)
{
	fprintf(stderr, "sennit: rank %u of a communicator has no buffer for %s that MPI allows\n", rank,
		name);
	return sn_proof_failed(comm);
}

/* ---- a communicator is freed, or an endpoint ---- */

bool sn_meet_is_ending(handle comm)
{
	return ending && ending == sn_mpi_plain(comm);
}

void sn_meet_ends(struct sn_meet_ending *e, handle comm)
{
	*e = (struct sn_meet_ending){sn_mpi_plain(comm), ending, find(sn_mpi_plain(comm))};
	if (e->meet)
		sn_begun_end_all(e->meet);
	ending = e->comm;
	if (e->meet)
		sn_beside_free(e->meet);
	if (e->meet)
		atomic_store(&e->meet->comm, FREED);
}

void sn_meet_ended(struct sn_meet_ending *e, bool ended)
{
	struct sn_meet *m = e->meet;
	ending = e->outer;
	if (m && ended) {
		no_more_waits(m);
		if (m->mem) {
			munmap(m->mem, sn_meet_bytes(m->ranks));
			atomic_fetch_sub(&with_memory, 1);
		}
		free(m->sums);
		memset((char *)m + offsetof(struct sn_meet, ep), 0,
		       sizeof(*m) - offsetof(struct sn_meet, ep));
	}
	if (m)
		atomic_store(&m->comm, ended ? 0 : e->comm);
}

int sn_meet_size(struct sn_meet *m, const struct sn_collective *c)
{
	int size = 0;
	unsigned generation = sn_type_generation(c->type, c->generation);
	if (likely(m->type == c->type && m->generation == generation))
		return m->size;
	if (sn_proof_mpi.type_size(c->type, &size))
		return 0;
	m->type = c->type;
	m->generation = generation;
	m->size = size;
	return size;
}

void sn_meet_each(void (*what)(struct sn_meet *m))
{
	for (struct sn_meet *m = atomic_load(&meets); m; m = m->older)
		what(m);
}

void sn_meet_gone(const void *ep)
{
	for (struct sn_meet *m = atomic_load(&meets); m; m = m->older)
		if (atomic_load_explicit(&m->ep, memory_order_relaxed) == ep)
			atomic_store_explicit(&m->ep, NULL, memory_order_relaxed);
}

/* ---- waiting ---- */

struct awaited {
	const struct sn_meet *m;
	const _Atomic uint64_t *word;
	uint64_t number;
	unsigned rank; /* whose it is */
	unsigned looks, quiet;
};

static int come(const struct awaited *w)
{
	return atomic_load(w->word) >= w->number;
}

/*
 * What has come is brought to the MPI, and the MPI hears of it. It takes both: an MPI_Iprobe that finds a message moves nothing, and one that lies
 * there is found each time; nor does MPICH's on the communicator of one rank. The MPI is not to sleep here: no message ends this wait.
 */
void sn_meet_look(const struct sn_meet *m)
{
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	uint32_t kind = sn_mpi_thread.kind;
	void *ep = atomic_load_explicit(&m->ep, memory_order_relaxed);
	if (ep)
		q->progress(ep);
	sn_mpi_thread.kind = SN_SHIM_POLLS;
	sn_proof_look(atomic_load_explicit(&m->comm, memory_order_relaxed));
	sn_mpi_thread.kind = kind;
}

/* While there is a window, what others do to it is done here (shim.h). Then nobody sleeps. */
static bool others_depend(void)
{
	return atomic_load_explicit(&sn_mpi_shim.elsewhere, memory_order_relaxed) != 0;
}

static int look(void *arg)
{
	struct awaited *w = arg;
	if (come(w))
		return 1;
	if (++w->looks % LOOKED == 0 && (w->looks > w->quiet || others_depend()))
		sn_meet_look(w->m);
	return 0;
}

/* Of who is waited for: who comes wakes nobody who waits for somebody else. */
static uint32_t bit(unsigned rank)
{
	return 1u << rank % 32;
}

static void nap(const struct awaited *w)
{
	struct sn_meet_memory *mem = w->m->mem;
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += NAP_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	atomic_fetch_add(&mem->sleepers, 1);
	uint32_t bell = atomic_load(&mem->bell);
	if (!come(w))
		syscall(SYS_futex, &mem->bell, FUTEX_WAIT_BITSET, bell, &until, NULL, bit(w->rank));
	atomic_fetch_sub(&mem->sleepers, 1);
}

void sn_meet_nap(struct sn_meet *m, unsigned rank, const _Atomic uint64_t *word, uint64_t number)
{
	struct awaited w = {m, word, number, rank, 0, 0};
	if (!others_depend())
		nap(&w);
}

/* Not by its number alone, which may be another's by now. */
static bool has_ended(const struct sn_meet_memory *mem, unsigned rank)
{
	bool known;
	uint64_t now = began(mem->pid[rank], &known);
	return known ? now != mem->began[rank] : kill(mem->pid[rank], 0) < 0 && errno == ESRCH;
}

bool sn_meet_has_ended(const struct sn_meet *m, unsigned rank)
{
	return has_ended(m->mem, rank);
}

void sn_meet_fails(struct sn_meet *m, unsigned rank)
{
	fprintf(stderr,
		"sennit: process %d, rank %u of a communicator, has ended before a collective that the "
		"others "
		"are in\n",
		m->mem->pid[rank], rank);
	atomic_store(&m->mem->failed, 1);
}

static __attribute__((noinline)) int wait_for(struct sn_meet *m, handle comm, unsigned rank,
					      const _Atomic uint64_t *word, uint64_t number)
{
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	struct awaited w = {m, word, number, rank, 0, q->crowded() ? 0 : QUIET};
	struct sn_agree_wait so_far = {0};
	unsigned naps = 0;
	bool here = q->awake(look, &w) && come(&w);
	while (!here) {
		uint64_t events = q->events();
		if (!others_depend())
			nap(&w);
		sn_meet_look(m);
		/* no message ends a nap: where some have come, there may be more */
		if (others_depend() || q->events() != events)
			q->awake(look, &w);
		bool asks = ++naps % ASKED == 0, ended = asks && has_ended(m->mem, rank);
		if (asks)
			sn_agree_differ(m, &so_far); /* then it has failed */
		bool failed = atomic_load(&m->mem->failed);
		here = come(&w);
		if (!here && ended)
			sn_meet_fails(m, rank);
		if (!here && (ended || failed))
			return sn_proof_failed(comm);
	}
	return 0;
}

static void wake(struct sn_meet_memory *mem, unsigned rank)
{
	atomic_fetch_add(&mem->bell, 1);
	syscall(SYS_futex, &mem->bell, FUTEX_WAKE_BITSET, SN_MEET_RANKS, NULL, NULL, bit(rank));
}

void sn_meet_say(struct sn_meet *m, _Atomic uint64_t *word, uint64_t number)
{
	atomic_store(word, number); /* before it looks for sleepers */
	if (!likely(!atomic_load(&m->mem->sleepers)))
		wake(m->mem, m->rank);
}

void sn_meet_said(struct sn_meet *m)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (!likely(!atomic_load(&m->mem->sleepers)))
		wake(m->mem, m->rank);
}

int sn_meet_await(struct sn_meet *m, handle comm, unsigned rank, const _Atomic uint64_t *word,
		  uint64_t number)
{
	if (likely(atomic_load_explicit(word, memory_order_acquire) >= number))
		return 0;
	return wait_for(m, comm, rank, word, number);
}

bool sn_meet_gpu(struct sn_meet *m, const struct sn_collective *c)
{
	if (likely(atomic_load_explicit(&m->from, memory_order_relaxed) == c->from &&
		   atomic_load_explicit(&m->to, memory_order_relaxed) == c->to))
		return atomic_load_explicit(&m->gpu, memory_order_relaxed);
	bool gpu = sn_gpu_is_here();
	atomic_store_explicit(&m->from, c->from, memory_order_relaxed);
	atomic_store_explicit(&m->to, c->to, memory_order_relaxed);
	atomic_store_explicit(&m->gpu, gpu, memory_order_relaxed);
	return gpu;
}

/*
 * A GPU's library may come later than all ranks have agreed, and then this rank's buffers may be such memory, which only the MPI may know to
 * copy: so it does, as a sum of this rank alone, which no message of the program's can meet.
 */
void sn_meet_copy(struct sn_meet *m, const struct sn_collective *c, void *to, const void *from, size_t len)
{
	if (likely(!sn_meet_gpu(m, c)))
		sn_copy_between(to, from, len);
	else
		sn_proof_mpi.allreduce(from, to, (int)len, byte_type, any_op, self);
}
