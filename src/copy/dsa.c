/* SPDX-License-Identifier: BSD-3-Clause */
/* See dsa.h. */
#include "copy/dsa.h"
#include "base/base.h"
#include "base/conf.h"
#include "base/log.h"
#include "sennit/sennit.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#define QUEUES	    8
#define SILENCE_NS  2000000000u
#define LOOK_NS	    100000000u /* of it, at most, between two looks: a machine that was stopped heard nothing */
#define WAIT_CYCLES 4000       /* of one poll that finds nothing */
#define PORTAL	    4096

_Static_assert(sizeof(struct sn_dsa_desc) == 64 && sizeof(struct sn_dsa_record) == 32,
	       "as the engine has them");

enum kind { SHARED, DEDICATED, DOUBLE };

struct queue {
	enum kind kind;
	int fd;
	void *portal;  /* NULL: descriptors are written to the file */
	uint32_t size; /* descriptors that it holds */
	bool block_on_fault;
	_Atomic uint32_t used;	     /* of these, by this process */
	_Atomic uint32_t submitting; /* threads between the look at `shut` and the end of giving */
	_Atomic bool shut;	     /* nothing is given it any more */
	_Atomic bool closed;	     /* and the engine has stopped */
	pthread_mutex_t closing;
	char name[80];
};

struct sn_dsa {
	unsigned count;
	_Atomic unsigned next;
	struct queue queue[QUEUES];
};

struct part {
	struct sn_dsa_record record;
	uint8_t *to;
	const uint8_t *from;
	uint32_t len;
	bool submitted;
};

struct sn_dsa_copy {
	struct part part[SN_DSA_PARTS]; /* a ring, in the order of their bytes */
	struct queue *q;
	const struct iovec *to, *from;
	uint32_t to_count, from_count;
	uint64_t at, len; /* at: cut into parts so far */
	uint64_t engine;
	uint64_t looked, silence; /* when somebody last did, and, in ns, how long no part ended meanwhile */
	unsigned head, count;
};

/* ---- instructions ---- */

static bool has_enqcmd, has_movdir64b;
#if defined(__x86_64__)
static bool has_waitpkg;
#endif

static void look_at_cpu(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return;
	has_waitpkg = c >> 5 & 1;
	has_movdir64b = c >> 28 & 1;
	has_enqcmd = c >> 29 & 1;
#endif
}

/* False: the queue is full (or, of a device, refuses). The descriptor's and the record's memory is written before. */
static bool give(struct queue *q, const struct sn_dsa_desc *desc)
{
	if (q->kind == DOUBLE) {
		struct sn_dsa_double *page = q->portal;
		uint32_t is_free = 0;

		if (!atomic_compare_exchange_strong(&page->claimed, &is_free, 1))
			return false;
		memcpy(&page->desc, desc, sizeof(*desc));
		atomic_store_explicit(&page->full, 1, memory_order_release);
		return true;
	}
	if (!q->portal)
		return write(q->fd, desc, sizeof(*desc)) == (ssize_t)sizeof(*desc);
#if defined(__x86_64__)
	_mm_sfence();
	if (q->kind == DEDICATED) {
		__asm__ volatile(".byte 0x66, 0x0f, 0x38, 0xf8, 0x02"
				 :
				 : "a"(q->portal), "d"(desc)
				 : "memory");
		return true;
	}
	uint8_t retry;
	__asm__ volatile(".byte 0xf2, 0x0f, 0x38, 0xf8, 0x02\n\tsetz %0"
			 : "=q"(retry)
			 : "a"(q->portal), "d"(desc)
			 : "memory", "cc");
	return !retry;
#else
	return false;
#endif
}

/* Until the record is written, or a few microseconds. */
static void await(const struct sn_dsa_record *r)
{
#if defined(__x86_64__)
	if (has_waitpkg) {
		uint64_t until = __rdtsc() + WAIT_CYCLES;

		__asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0xf0"
				 :
				 : "a"(r)
				 : "memory"); /* umonitor rax */
		if (!r->status)
			__asm__ volatile(".byte 0xf2, 0x0f, 0xae, 0xf1" /* umwait ecx */
					 :
					 : "c"(1), "a"((uint32_t)until), "d"((uint32_t)(until >> 32))
					 : "memory", "cc");
		return;
	}
#endif
	for (int i = 0; i < 64 && !r->status; i++)
		sn_cpu_relax();
}

/* ---- queues ---- */

/* An attribute of a queue as text, or "". */
static void attribute(const char *dir, const char *name, const char *what, char out[32])
{
	char path[512];
	FILE *f;

	out[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s/%s", dir, name, what);
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(out, 32, f))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	fclose(f);
}

static bool open_queue(struct queue *q, const char *dir, const char *sys, const char *name)
{
	static const char *const kinds[] = {"shared", "dedicated", "double"};
	char path[512], mode[32], size[32], block[32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	q->fd = open(path, O_RDWR | O_CLOEXEC);
	if (q->fd < 0) {
		sn_debug("%s: %s", path, strerror(errno));
		return false;
	}
	attribute(sys, name, "mode", mode);
	attribute(sys, name, "size", size);
	attribute(sys, name, "block_on_fault", block);
	q->kind = strcmp(mode, "dedicated") == 0 ? DEDICATED : SHARED;
	if (fstat(q->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size >= PORTAL)
		q->kind = DOUBLE;
	q->size = (uint32_t)strtoul(size, NULL, 10);
	q->size = q->size ? SN_MIN_OF(q->size, 1024u) : 16;
	q->block_on_fault = strcmp(block, "1") == 0;
	pthread_mutex_init(&q->closing, NULL);
	snprintf(q->name, sizeof(q->name), "%.40s (%s, %u entries)", name, kinds[q->kind], q->size);
	if (q->kind == DOUBLE || (q->kind == SHARED && has_enqcmd) ||
	    (q->kind == DEDICATED && has_movdir64b)) {
		q->portal = mmap(NULL, PORTAL, q->kind == DOUBLE ? PROT_READ | PROT_WRITE : PROT_WRITE,
				 MAP_SHARED | MAP_POPULATE, q->fd, 0);
		if (q->portal != MAP_FAILED && madvise(q->portal, PORTAL, MADV_DONTFORK) == 0)
			return true;
		sn_debug("%s: mmap: %s", path, strerror(errno));
	} else {
		sn_debug("%s: this processor has no instruction for a %s queue", path, kinds[q->kind]);
	}
	/* A kernel that takes no descriptors by write() says so of none. */
	q->portal = NULL;
	if (q->kind != DOUBLE && write(q->fd, path, 0) == 0) {
		snprintf(q->name, sizeof(q->name), "%.40s (%s, %u entries, by system calls)", name,
			 kinds[q->kind], q->size);
		return true;
	}
	close(q->fd);
	return false;
}

/* The kernel lets go of a queue when it has stopped. Nobody may be giving it anything: its portal and its number go. */
static void close_queue(struct queue *q, bool silent)
{
	pthread_mutex_lock(&q->closing);
	if (!atomic_load(&q->closed)) {
		if (silent)
			sn_warn("the copy engine's queue %s is silent; not used any more", q->name);
		atomic_store(&q->shut, true);
		while (atomic_load(&q->submitting))
			sn_cpu_relax();
		if (q->kind == DOUBLE)
			atomic_store(&((struct sn_dsa_double *)q->portal)->claimed,
				     2); /* takes nothing more */
		if (q->portal)
			munmap(q->portal, PORTAL);
		close(q->fd);
		atomic_store_explicit(&q->closed, true, memory_order_release);
	}
	pthread_mutex_unlock(&q->closing);
}

int sn_dsa_open(const char *dir, struct sn_dsa **out)
{
	char sys[512];
	struct dirent *e;
	struct sn_dsa *d;
	DIR *list = dir[0] == '/' ? opendir(dir) : NULL;

	if (!list && strcasecmp(dir, "off") == 0)
		return sn_fail(SN_ERR_UNSUPPORTED, "no copy engine: switched off (SENNIT_DSA)");
	if (!list)
		return sn_fail(SN_ERR_UNSUPPORTED, "no engine with queues for programs: %s: %s", dir,
			       dir[0] == '/' ? strerror(errno)
					     : "neither a folder's full path nor off (SENNIT_DSA)");
	d = calloc(1, sizeof(*d));
	if (!d) {
		closedir(list);
		return sn_fail(SN_ERR_NOMEM, "no memory for the engine's queues");
	}
	look_at_cpu();
	if (strcmp(dir, "/dev/dsa") == 0)
		snprintf(sys, sizeof(sys), "/sys/bus/dsa/devices");
	else
		snprintf(sys, sizeof(sys), "%s/sys", dir);
	/* cppcheck-suppress readdirCalled ; this directory is read by this thread alone */
	while (d->count < QUEUES && (e = readdir(list)))
		if (strncmp(e->d_name, "wq", 2) == 0 && open_queue(&d->queue[d->count], dir, sys, e->d_name))
			d->count++;
	closedir(list);
	if (!d->count) {
		free(d);
		return sn_fail(SN_ERR_UNSUPPORTED,
			       "no queue in %s that this user may open and this processor can feed", dir);
	}
	*out = d;
	return SN_OK;
}

void sn_dsa_close(struct sn_dsa *d)
{
	for (unsigned i = 0; i < d->count; i++)
		close_queue(&d->queue[i], false);
	free(d);
}

unsigned sn_dsa_queues(const struct sn_dsa *d)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->count; i++)
		n += !atomic_load(&d->queue[i].closed);
	return n;
}

const char *sn_dsa_describe(const struct sn_dsa *d, unsigned i)
{
	return i < d->count ? d->queue[i].name : "";
}

/* ---- one for the process ---- */

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sn_dsa *shared;
static unsigned shared_users;

struct sn_dsa *sn_dsa_acquire(void)
{
	pthread_mutex_lock(&shared_lock);
	if (!shared && sn_dsa_open(sn_conf_str(SN_CONF_DSA), &shared) != SN_OK) {
		sn_fail_forget(); /* it has been logged */
		shared = NULL;
	}
	shared_users += shared != NULL;
	struct sn_dsa *d = shared;
	pthread_mutex_unlock(&shared_lock);
	return d;
}

void sn_dsa_release(struct sn_dsa *d)
{
	pthread_mutex_lock(&shared_lock);
	if (d == shared && --shared_users == 0) {
		sn_dsa_close(shared);
		shared = NULL;
	}
	pthread_mutex_unlock(&shared_lock);
}

/* The portals are not mapped here; the files would keep a dedicated queue from the parent's successor. */
void sn_dsa_in_child(void)
{
	pthread_mutex_init(&shared_lock, NULL);
	for (unsigned i = 0; shared && i < shared->count; i++)
		if (!atomic_load(&shared->queue[i].closed))
			close(shared->queue[i].fd);
	shared = NULL;
	shared_users = 0;
}

/* ---- copies ---- */

static uint8_t *locate(const struct iovec *iov, uint32_t count, uint64_t at, uint64_t *room)
{
	for (uint32_t i = 0; i < count; i++) {
		if (at < iov[i].iov_len) {
			*room = SN_MIN_OF(*room, iov[i].iov_len - at);
			return (uint8_t *)iov[i].iov_base + at;
		}
		at -= iov[i].iov_len;
	}
	*room = 0;
	return NULL;
}

static bool submit(struct sn_dsa_copy *c, struct part *p)
{
	struct queue *q = c->q;
	struct sn_dsa_desc desc = {.completion = (uintptr_t)&p->record,
				   .src = (uintptr_t)p->from,
				   .dst = (uintptr_t)p->to,
				   .bytes = p->len};

	desc.flags_opcode = (uint32_t)SN_DSA_MEMMOVE << 24 | SN_DSA_FLAG_CRAV | SN_DSA_FLAG_RCR |
			    SN_DSA_FLAG_CC | (q->block_on_fault ? SN_DSA_FLAG_BOF : 0);
	p->record = (struct sn_dsa_record){.status = 0};
	atomic_fetch_add(&q->submitting, 1);
	bool given = false;
	if (!atomic_load(&q->shut)) {
		given = atomic_fetch_add_explicit(&q->used, 1, memory_order_relaxed) < q->size &&
			give(q, &desc);
		if (!given)
			atomic_fetch_sub_explicit(&q->used, 1, memory_order_relaxed);
	}
	atomic_fetch_sub(&q->submitting, 1);
	return given;
}

/* Cuts the next parts and hands them over. A part that finds the queue full is the CPU's when its turn comes. */
static void feed(struct sn_dsa_copy *c)
{
	while (c->count < SN_DSA_PARTS && c->at < c->len) {
		struct part *p = &c->part[(c->head + c->count) % SN_DSA_PARTS];
		uint64_t room = SN_MIN_OF(c->len - c->at, (uint64_t)SN_DSA_PART);

		p->to = locate(c->to, c->to_count, c->at, &room);
		p->from = locate(c->from, c->from_count, c->at, &room);
		p->len = (uint32_t)room;
		if (!room) /* the vectors are shorter than was said */
			return;
		p->submitted = submit(c, p);
		if (!p->submitted && c->count) /* let the engine come to an end first */
			return;
		c->at += room;
		c->count++;
		if (!p->submitted)
			return;
	}
}

/* The oldest part is over; what the engine left of it the CPU copies. */
static void finish(struct sn_dsa_copy *c)
{
	struct part *p = &c->part[c->head];
	uint8_t status = p->submitted ? p->record.status & SN_DSA_STATUS_MASK : 0;
	uint32_t by_engine = 0;

	atomic_thread_fence(memory_order_acquire);
	if (status == SN_DSA_SUCCESS)
		by_engine = p->len;
	else if (status == SN_DSA_PAGE_FAULT)
		by_engine = SN_MIN_OF(p->record.bytes, p->len);
	memcpy(p->to + by_engine, p->from + by_engine, p->len - by_engine);
	c->engine += by_engine;
	if (p->submitted)
		atomic_fetch_sub_explicit(&c->q->used, 1, memory_order_relaxed);
	c->head = (c->head + 1) % SN_DSA_PARTS;
	c->count--;
	c->looked = sn_now_ns();
	c->silence = 0;
}

static bool is_silent(struct sn_dsa_copy *c)
{
	uint64_t now = sn_now_ns();

	c->silence += SN_MIN_OF(now - c->looked, (uint64_t)LOOK_NS);
	c->looked = now;
	return c->silence > SILENCE_NS;
}

/* The oldest part, if it is over or its queue is. */
static bool reap(struct sn_dsa_copy *c)
{
	struct part *p = &c->part[c->head];

	if (p->submitted && !p->record.status) {
		await(&p->record);
		if (!p->record.status && is_silent(c))
			close_queue(c->q, true);
		if (!p->record.status && !atomic_load_explicit(&c->q->closed, memory_order_acquire))
			return false;
	}
	finish(c);
	return true;
}

struct sn_dsa_copy *sn_dsa_copy_start(struct sn_dsa *d, const struct iovec *to, uint32_t to_count,
				      const struct iovec *from, uint32_t from_count, uint64_t len)
{
	struct sn_dsa_copy *c;
	unsigned first = atomic_fetch_add_explicit(&d->next, 1, memory_order_relaxed), i = 0;
	const unsigned count = d->count;

	if (!count)
		return NULL;
	while (i < count && atomic_load(&d->queue[(first + i) % count].closed))
		i++;
	if (i == count || posix_memalign((void **)&c, 64, sizeof(*c)))
		return NULL;
	memset(c, 0, sizeof(*c));
	c->q = &d->queue[(first + i) % count];
	c->to = to;
	c->to_count = to_count;
	c->from = from;
	c->from_count = from_count;
	c->len = len;
	c->looked = sn_now_ns();
	feed(c);
	return c;
}

bool sn_dsa_copy_poll(struct sn_dsa_copy *c, uint64_t *engine)
{
	while (c->count && reap(c))
		feed(c);
	*engine = c->engine;
	return !c->count;
}

void sn_dsa_copy_end(struct sn_dsa_copy *c)
{
	c->at = c->len; /* nothing more is begun */
	while (c->count)
		reap(c);
	free(c);
}
