/* SPDX-License-Identifier: BSD-3-Clause */
#include "flat.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RANKS  64
#define ROOM   1024 /* bytes of an operand */
#define FORMS  16   /* of a communicator */
#define COMMS  64
#define LOOKED 8  /* looks of one who waits, of which one is the MPI's, too */
#define PERIOD 64 /* calls, of which one looks for the MPI, that its own affairs go on */
#define NAP_NS 1000000
#define ASKED  8 /* naps, after one of which it is asked whether the other has ended */

#define NAME "sennit-flat"

struct line {		       /* one rank's */
	_Atomic uint64_t call; /*  0 that it has come to */
	uint64_t unused;       /*  8 */
	char data[48]; /* 16 what it brings along, if that fits; so that the longest types are aligned */
};
_Static_assert(sizeof(struct line) == 64, "a cache line");

struct memory {	      /* then lines [2][ranks], and what does not fit into them [2][ranks][ROOM] */
	uint64_t key; /*   0 not another's */
	_Atomic uint32_t sleepers; /*   8 */
	_Atomic uint32_t bell;	   /*  12 grows when somebody has written who has seen sleepers */
	_Atomic uint32_t failed;   /*  16 one has ended, so no call that not all have come to will be over */
	int32_t pid[RANKS];	   /*  20 */
	uint64_t began[RANKS];	   /* 280 */
	char pad[40];
	struct line line[]; /* 832 */
};
_Static_assert(sizeof(struct memory) == 832, "lines of the cache");

struct form {
	int kind, count, size;
	handle op;
};

struct sn_flat {
	handle comm;	    /* 0: nobody's */
	void *ep;	    /* of the MPI, by which messages of such a call go; NULL: it is no more */
	struct memory *mem; /* NULL: not all ranks have it, and it stays so */
	uint64_t call;
	unsigned ranks, rank;
	unsigned forms;
	struct form form[FORMS];
	handle type; /* of the last call, and its size */
	int size;
	uintptr_t from, to; /* its regions, and whether they may be a GPU's */
	bool gpu;
};

static struct sn_flat flats[COMMS];
static unsigned used; /* all that follow are nobody's */
static handle byte_type, any_op, self;

/* What is passed itself: MPICH's are numbers, with whatever lies above them. */
static inline handle plain(handle h)
{
	return sn_quick_is_open_mpi() ? h : (uint32_t)h;
}

static size_t bytes(unsigned ranks)
{
	return sizeof(struct memory) + 2 * (size_t)ranks * (sizeof(struct line) + ROOM);
}

static inline struct line *line_of(const struct sn_flat *f, unsigned rank)
{
	return &f->mem->line[(f->call & 1) * f->ranks + rank];
}

static inline char *operand(const struct sn_flat *f, unsigned rank, size_t len)
{
	struct line *l = line_of(f, rank);
	char *longer = (char *)&f->mem->line[2 * f->ranks];
	return len <= sizeof(l->data) ? l->data : longer + (size_t)(l - f->mem->line) * ROOM;
}

/* ---- which calls ---- */

static struct sn_flat *flat_of(handle comm)
{
	static unsigned last;
	comm = plain(comm);
	if (likely(last < used && flats[last].comm == comm))
		return &flats[last];
	for (unsigned i = 0; i < used; i++)
		if (flats[i].comm == comm)
			return &flats[last = i];
	return NULL;
}

/* Likewise of all ranks: a type of the MPI's own, if the operation is. */
static inline int size_of(struct sn_flat *f, const struct sn_collective *c)
{
	int size = 0;
	if (c->kind != SN_ALLREDUCE || f->type == c->type)
		return c->kind == SN_ALLREDUCE ? f->size : 0;
	if (sn_proof_mpi.type_size(c->type, &size))
		return 0;
	f->type = c->type;
	f->size = size;
	return size;
}

static bool has(const struct sn_flat *f, const struct form *wanted)
{
	bool found = false;
	for (unsigned i = 0; i < f->forms && !found; i++) {
		const struct form *k = &f->form[i];
		found = k->kind == wanted->kind && k->count == wanted->count && k->op == wanted->op &&
			k->size == wanted->size;
	}
	return found;
}

static struct form form_of(struct sn_flat *f, const struct sn_collective *c)
{
	return (struct form){c->kind, c->count, size_of(f, c), plain(c->op)};
}

struct sn_flat *sn_flat_of(const struct sn_collective *c)
{
	struct sn_flat *f =
		likely(!used) || c->kind > SN_ALLREDUCE || c->kind == SN_BCAST ? NULL : flat_of(c->comm);
	if (likely(!f) || !f->forms)
		return NULL;
	struct form form = form_of(f, c);
	return has(f, &form) ? f : NULL;
}

static bool fits(const struct sn_collective *c)
{
	int ranks, size = 0;
	if (c->kind == SN_ALLREDUCE && sn_proof_mpi.type_size(c->type, &size))
		return false;
	return (c->kind == SN_ALLREDUCE || c->kind == SN_BARRIER) &&
	       (size_t)size * (size_t)c->count <= ROOM && !sn_proof_mpi.comm_size(c->comm, &ranks) &&
	       ranks > 2 && ranks <= RANKS;
}

bool sn_flat_wanted(const struct sn_shim_quick *q, struct sn_seen *e)
{
	if (e->flat == SN_FLAT_UNKNOWN)
		e->flat = fits(&e->call) ? SN_FLAT_FITS : SN_FLAT_NEVER;
	if (likely(e->flat == SN_FLAT_NEVER) || !q->crowded())
		return false;
	struct sn_flat *f = flat_of(e->call.comm);
	return f ? f->mem && f->forms < FORMS : used < COMMS || flat_of(0) != NULL;
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
		if (field && k == 20 && strtol(field, NULL, 10) > 1)
			over = false; /* its first thread has, and others have not */
	}
	return field && !over ? strtoull(field, NULL, 10) : 0;
}

/* Are its numbers of processes those of this one's namespace? */
static bool proc_is_ours(void)
{
	char me[16] = "";
	return readlink("/proc/self", me, sizeof(me) - 1) > 0 && strtol(me, NULL, 10) == getpid();
}

struct place { /* told by the first rank */
	int32_t pid, fd;
	uint64_t key;
};

static struct memory *map(int fd, unsigned ranks)
{
	void *mem = mmap(NULL, bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* cppcheck-suppress memleak ; it does not know MAP_FAILED */
	return mem == MAP_FAILED ? NULL : mem;
}

static struct memory *make(unsigned ranks, struct place *at)
{
	struct timespec now;
	int fd = memfd_create(NAME, MFD_CLOEXEC);
	*at = (struct place){.pid = (int32_t)getpid(), .fd = -1};
	struct memory *mem = fd >= 0 && !ftruncate(fd, (off_t)bytes(ranks)) ? map(fd, ranks) : NULL;
	if (!mem) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	at->fd = fd;
	at->key = (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec << 16 ^ (uint64_t)at->pid;
	mem->key = at->key;
	return mem;
}

/* In another container a process may have the same number: nothing is opened that is not what was told. */
static struct memory *attach(unsigned ranks, const struct place *at)
{
	char path[64], to[64];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", at->pid, at->fd);
	ssize_t n = at->fd >= 0 ? readlink(path, to, sizeof(to)) : -1;
	static const char name[] = "/memfd:" NAME;
	if (n < (ssize_t)sizeof(name) - 1 || memcmp(to, name, sizeof(name) - 1) != 0)
		return NULL;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct memory *mem = fd >= 0 && lseek(fd, 0, SEEK_END) == (off_t)bytes(ranks) ? map(fd, ranks) : NULL;
	if (fd >= 0)
		close(fd);
	if (mem && mem->key != at->key) {
		munmap(mem, bytes(ranks));
		mem = NULL;
	}
	return mem;
}

/* A handle of the MPI's own. Open MPI's are addresses, and the program may have a copy in place of the library's. */
static handle handle_of(const char *open_mpis, handle mpichs)
{
	if (!sn_quick_is_open_mpi())
		return mpichs;
	void *global = dlsym(RTLD_DEFAULT, open_mpis);
	return (handle)(global ? global : sn_mpi_find(open_mpis));
}

/* All ranks call it at once. Whoever lacks something takes part as far as it is said to the others. */
static void set_up(struct sn_flat *f, handle comm)
{
	handle type = handle_of("ompi_mpi_int", 0x4c000405), min = handle_of("ompi_mpi_op_min", 0x58000002);
	int ranks, rank, ok;
	struct place at = {0};
	if (sn_proof_mpi.comm_size(comm, &ranks) || sn_proof_mpi.comm_rank(comm, &rank) || !type || !min)
		return;
	byte_type = handle_of("ompi_mpi_byte", 0x4c00010d);
	any_op = handle_of("ompi_mpi_op_bor", 0x58000008);
	self = handle_of("ompi_mpi_comm_self", 0x44000001);
	f->ranks = (unsigned)ranks;
	f->rank = (unsigned)rank;
	struct memory *mem = rank ? NULL : make(f->ranks, &at);
	if (sn_proof_mpi.bcast(&at, sizeof(at) / sizeof(int), type, 0, comm))
		return;
	if (rank)
		mem = attach(f->ranks, &at);
	bool known = false;
	if (mem) {
		mem->pid[rank] = (int32_t)getpid();
		mem->began[rank] = began(mem->pid[rank], &known);
	}
	int has_it = known && proc_is_ours();
	if (sn_proof_mpi.allreduce(&has_it, &ok, 1, type, min, comm))
		ok = 0;
	if (!rank && at.fd >= 0)
		close(at.fd);
	if (ok)
		f->mem = mem;
	else if (mem)
		munmap(mem, bytes(f->ranks));
}

void sn_flat_agreed(const struct sn_seen *e)
{
	const struct sn_collective *c = &e->call;
	struct sn_flat *f = flat_of(c->comm);
	if (!f) {
		f = flat_of(0);
		f = f ? f : &flats[used++];
		*f = (struct sn_flat){0};
		f->comm = plain(c->comm);
		set_up(f, c->comm);
	}
	f->ep = e->step->way.ep;
	struct form form = form_of(f, c);
	if (f->mem && !has(f, &form))
		f->form[f->forms++] = form;
}

void sn_flat_end(handle comm)
{
	struct sn_flat *f = used ? flat_of(comm) : NULL;
	if (!f)
		return;
	if (f->mem)
		munmap(f->mem, bytes(f->ranks));
	*f = (struct sn_flat){0};
}

void sn_flat_forget(void)
{
	for (unsigned i = 0; i < used; i++)
		flats[i].type = 0;
}

void sn_flat_gone(const void *ep)
{
	for (unsigned i = 0; i < used; i++)
		if (flats[i].ep == ep)
			flats[i].ep = NULL;
}

/* ---- waiting ---- */

static struct {
	const struct line *line;
	unsigned rank; /* whose it is */
	uint64_t call;
	unsigned looks;
} awaited;

static int come(void)
{
	return atomic_load(&awaited.line->call) == awaited.call;
}

/*
 * What has come is brought to the MPI, and the MPI hears of it. It takes both: an MPI_Iprobe that finds a message moves nothing, and one that lies
 * there is found each time; nor does MPICH's on the communicator of one rank. The MPI is not to sleep here: no message ends this wait.
 */
static void look_for_mpi(const struct sn_flat *f)
{
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	uint32_t kind = sn_mpi_thread.kind;
	if (f->ep)
		q->progress(f->ep);
	sn_mpi_thread.kind = SN_SHIM_POLLS;
	sn_proof_look(f->comm);
	sn_mpi_thread.kind = kind;
}

/* While there is a window, what others do to it is done here (shim.h). Then nobody sleeps. */
static bool others_depend(void)
{
	return atomic_load_explicit(&sn_mpi_shim.elsewhere, memory_order_relaxed) != 0;
}

static int look(void *arg)
{
	if (come())
		return 1;
	if (++awaited.looks % LOOKED == 0 || others_depend())
		look_for_mpi(arg);
	return 0;
}

/* Of who is waited for: who comes wakes nobody who waits for somebody else. */
static uint32_t bit(unsigned rank)
{
	return 1u << rank % 32;
}

static void nap(struct memory *mem)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += NAP_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	atomic_fetch_add(&mem->sleepers, 1);
	uint32_t bell = atomic_load(&mem->bell);
	if (!come())
		syscall(SYS_futex, &mem->bell, FUTEX_WAIT_BITSET, bell, &until, NULL, bit(awaited.rank));
	atomic_fetch_sub(&mem->sleepers, 1);
}

/* Not by its number alone, which may be another's by now. */
static bool has_ended(const struct memory *mem, unsigned rank)
{
	bool known;
	uint64_t now = began(mem->pid[rank], &known);
	return known ? now != mem->began[rank] : kill(mem->pid[rank], 0) < 0 && errno == ESRCH;
}

/* 0, or an error of the MPI's, whose handler has been called. */
static __attribute__((noinline)) int wait_for(struct sn_flat *f, handle comm, unsigned rank)
{
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	awaited.line = line_of(f, rank);
	awaited.call = f->call;
	awaited.rank = rank;
	unsigned naps = 0;
	bool here = q->awake(look, f) && come();
	while (!here) {
		uint64_t events = q->events();
		if (!others_depend())
			nap(f->mem);
		look_for_mpi(f);
		/* no message ends a nap: where some have come, there may be more */
		if (others_depend() || q->events() != events)
			q->awake(look, f);
		bool ended = ++naps % ASKED == 0 && has_ended(f->mem, rank);
		bool failed = atomic_load(&f->mem->failed);
		here = come();
		if (!here && ended) {
			fprintf(stderr,
				"sennit: process %d, rank %u of a communicator, has ended before a "
				"collective that the others are in\n",
				f->mem->pid[rank], rank);
			atomic_store(&f->mem->failed, 1);
		}
		if (!here && (ended || failed))
			return sn_proof_failed(comm);
	}
	return 0;
}

/* ---- the call ---- */

static void wake(struct memory *mem, unsigned rank)
{
	atomic_fetch_add(&mem->bell, 1);
	syscall(SYS_futex, &mem->bell, FUTEX_WAKE_BITSET, RANKS, NULL, NULL, bit(rank));
}

/*
 * A GPU's library may come later than all ranks have agreed, and then this rank's buffers may be such memory, which only the MPI may know to
 * copy: so it does, as a sum of this rank alone, which no message of the program's can meet. Asked where buffers are not the last one's.
 */
static inline void copy(struct sn_flat *f, const struct sn_collective *c, void *to, const void *from,
			size_t len)
{
	if (!likely(f->from == c->from && f->to == c->to)) {
		f->from = c->from;
		f->to = c->to;
		f->gpu = sn_proof_has_gpu();
	}
	if (likely(!f->gpu))
		memcpy(to, from, len);
	else
		sn_proof_mpi.allreduce(from, to, (int)len, byte_type, any_op, self);
}

static void come_along(struct sn_flat *f, const struct sn_collective *c, const void *mine, size_t len)
{
	f->call++;
	if (len)
		copy(f, c, operand(f, f->rank, len), mine, len);
	atomic_store(&line_of(f, f->rank)->call, f->call); /* before it looks for sleepers */
	if (!likely(!atomic_load(&f->mem->sleepers)))
		wake(f->mem, f->rank);
}

static int await_all(struct sn_flat *f, handle comm)
{
	int rc = 0;
	for (unsigned r = 0; r < f->ranks && !rc; r++)
		if (atomic_load_explicit(&line_of(f, r)->call, memory_order_acquire) != f->call)
			rc = wait_for(f, comm, r);
	return rc;
}

/*
 * Step by step: at[i] is the sum that rank ^ 2i has then, of those i that are not done with. What is read of the others stays as it is.
 */
static void fold(struct sn_flat *f, const struct sn_collective *c, char *to, size_t len)
{
	static char sums[RANKS / 2][ROOM] __attribute__((aligned(64)));
	char *at[RANKS / 2];
	unsigned turned = sn_proof_turned(f->rank, 0);
	for (unsigned i = 0; i < RANKS / 2; i++)
		at[i] = sums[i];
	for (unsigned i = 0; i < f->ranks / 2; i++) {
		memcpy(sums[i], operand(f, f->rank ^ (2 * i | turned), len), len);
		sn_proof_mpi.reduce_local(operand(f, f->rank ^ (2 * i | !turned), len), sums[i], c->count,
					  c->type, c->op);
	}
	for (unsigned half = 1, step = 1; 2 * half < f->ranks; half *= 2, step++) {
		turned = sn_proof_turned(f->rank, step);
		for (unsigned i = 0; i < f->ranks / 2; i += 2 * half) {
			char *in = at[turned ? i : i | half], *sum = at[turned ? i | half : i];
			sn_proof_mpi.reduce_local(in, sum, c->count, c->type, c->op);
			at[i] = sum;
		}
	}
	copy(f, c, to, at[0], len);
}

int sn_flat_do(struct sn_flat *f, const struct sn_collective *c, const void *from, void *to)
{
	size_t len = (size_t)size_of(f, c) * (size_t)c->count;
	/* who has failed writes no more, so what others still read stays as it is */
	if (!likely(!atomic_load_explicit(&f->mem->failed, memory_order_relaxed)))
		return sn_proof_failed(c->comm);
	come_along(f, c, len && sn_in_place(from) ? to : from, len);
	int rc = await_all(f, c->comm);
	if (!rc && len)
		fold(f, c, to, len);
	if (f->call % PERIOD == 0 && !rc)
		look_for_mpi(f);
	return rc;
}
