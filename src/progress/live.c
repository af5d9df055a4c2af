/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/live.h"
#include "base/base.h"
#include "base/log.h"
#include "progress/memfd.h"
#include "sennit/sennit.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME	  "sennit-live"
#define LINK_TEXT "/memfd:" NAME
#define TRIES	  1000 /* looks at a row that is being written */

static struct {
	pthread_mutex_t lock;
	struct sn_live_table *table;
	int fd;
	uint32_t used; /* rows; with the last one the table goes */
	uint32_t hint; /* no free row before this one */
	bool failed;   /* said once */
} live = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
	pthread_mutex_lock(&live.lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&live.lock);
}

/* The mapping is not inherited, the descriptor is: nobody may take this for the child's table. */
static void in_child(void)
{
	if (live.fd >= 0)
		close(live.fd);
	live.fd = -1;
	live.table = NULL;
	live.hint = live.used = 0;
	live.failed = false;
	pthread_mutex_unlock(&live.lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

/* With the lock held. */
static bool table_make(void)
{
	void *map;
	if (live.table || live.failed)
		return live.table != NULL;
	int fd = sn_memfd_new(NAME, SN_LIVE_BYTES, &map);
	if (fd < 0) {
		live.failed = true;
		sn_info("no live view: %s", sn_last_error());
		sn_fail_forget();
		return false;
	}
	live.fd = fd;
	live.table = map;
	live.table->pid = (uint32_t)getpid();
	live.table->magic = SN_LIVE_MAGIC;
	return true;
}

static void put(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%s", from);
}

struct sn_live_row *sn_live_add(uint64_t ep, const char *scope, const char *name, const char *unit)
{
	struct sn_live_row *row = NULL;
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&live.lock);
	if (table_make()) {
		uint32_t i = live.hint;
		while (i < SN_LIVE_ROWS &&
		       atomic_load_explicit(&live.table->row[i].seq, memory_order_relaxed))
			i++;
		live.hint = i;
		if (i < SN_LIVE_ROWS)
			row = &live.table->row[i];
		else
			atomic_fetch_add(&live.table->overflowed, 1);
		if (i < SN_LIVE_ROWS && i >= atomic_load(&live.table->rows))
			atomic_store(&live.table->rows, i + 1);
	}
	if (row) {
		live.used++;
		atomic_store_explicit(&row->seq, 1, memory_order_relaxed);
		atomic_thread_fence(memory_order_release);
		row->ep = ep;
		put(row->scope, sizeof(row->scope), scope);
		put(row->name, sizeof(row->name), name);
		put(row->unit, sizeof(row->unit), unit);
		row->text[0] = '\0';
		atomic_store_explicit(&row->number, 0, memory_order_relaxed);
		atomic_store_explicit(&row->seq, 2, memory_order_release);
	}
	pthread_mutex_unlock(&live.lock);
	return row;
}

/* With the lock held. A row of the parent's table, in a forked child, is not here. */
static void row_free(struct sn_live_row *row)
{
	if (!live.table || row < live.table->row || row >= live.table->row + SN_LIVE_ROWS ||
	    !atomic_load(&row->seq))
		return;
	atomic_store_explicit(&row->seq, 0, memory_order_release);
	live.hint = SN_MIN_OF(live.hint, (uint32_t)(row - live.table->row));
	if (--live.used)
		return;
	munmap(live.table, SN_LIVE_BYTES);
	close(live.fd);
	live.table = NULL;
	live.fd = -1;
	live.hint = 0;
}

void sn_live_remove(struct sn_live_row *row)
{
	if (!row)
		return;
	pthread_mutex_lock(&live.lock);
	row_free(row);
	pthread_mutex_unlock(&live.lock);
}

void sn_live_remove_scope(uint64_t ep, const char *scope)
{
	pthread_mutex_lock(&live.lock);
	for (uint32_t i = 0; live.table && i < atomic_load(&live.table->rows); i++) {
		struct sn_live_row *row = &live.table->row[i];
		if (atomic_load(&row->seq) && row->ep == ep &&
		    (!scope || !strncmp(row->scope, scope, sizeof(row->scope) - 1)))
			row_free(row);
	}
	pthread_mutex_unlock(&live.lock);
}

void sn_live_text(struct sn_live_row *row, const char *fmt, ...)
{
	va_list ap;
	if (!row)
		return;
	uint32_t seq = atomic_load_explicit(&row->seq, memory_order_relaxed);
	atomic_store_explicit(&row->seq, seq + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	va_start(ap, fmt);
	vsnprintf(row->text, sizeof(row->text), fmt, ap);
	va_end(ap);
	seq += 2;
	atomic_store_explicit(&row->seq, seq ? seq : 2, memory_order_release);
}

/* ---- readers ------------------------------------------------------------------------------------------------- */

/* Opened through /proc: the kernel checks who asks. What is found there is checked like anything that is not ours. */
static const struct sn_live_table *map_fd(const char *path)
{
	const struct sn_live_table *t = MAP_FAILED;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (sn_memfd_good(fd, SN_LIVE_BYTES))
		t = mmap(NULL, SN_LIVE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (t == MAP_FAILED || t->magic == SN_LIVE_MAGIC)
		return t == MAP_FAILED ? NULL : t;
	sn_live_unmap(t);
	return NULL;
}

const struct sn_live_table *sn_live_map(pid_t pid)
{
	char path[64], link[64];
	const struct sn_live_table *t = NULL;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	if (!dir)
		return NULL;
	/* cppcheck-suppress readdirCalled ; this directory is read by this thread alone */
	for (const struct dirent *e; !t && (e = readdir(dir));) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", (int)pid, e->d_name);
		ssize_t n = readlink(path, link, sizeof(link) - 1);
		if (n < (ssize_t)sizeof(LINK_TEXT) - 1 ||
		    strncmp(link, LINK_TEXT, sizeof(LINK_TEXT) - 1) != 0)
			continue;
		t = map_fd(path);
	}
	closedir(dir);
	if (!t)
		errno = ENOENT;
	return t;
}

void sn_live_unmap(const struct sn_live_table *t)
{
	munmap((void *)(uintptr_t)t, SN_LIVE_BYTES);
}

bool sn_live_read(const struct sn_live_table *t, uint32_t index, struct sn_live_row *out)
{
	const struct sn_live_row *row = &t->row[index];
	for (int i = 0; i < TRIES; i++) {
		uint32_t seq = atomic_load_explicit(&row->seq, memory_order_acquire);
		if (!seq)
			return false;
		memcpy(out, row, sizeof(*out));
		atomic_thread_fence(memory_order_acquire);
		if (!(seq & 1) && atomic_load_explicit(&row->seq, memory_order_relaxed) == seq) {
			out->scope[sizeof(out->scope) - 1] = out->name[sizeof(out->name) - 1] = '\0';
			out->unit[sizeof(out->unit) - 1] = out->text[sizeof(out->text) - 1] = '\0';
			return true;
		}
		sn_cpu_relax();
	}
	return false;
}
