/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A double of a copy engine with one queue: a plain file of a page where descriptors are put (copy/dsa.h), or a pipe
 * that they are written to, as to a queue that may not be mapped; and a thread that does what they say, well or
 * badly. It reads them, and writes its records, as the kernel's header has them. Its folder goes with it.
 */
#ifndef SN_TESTS_DSA_DOUBLE_H
#define SN_TESTS_DSA_DOUBLE_H

#include "copy/dsa.h"
#include <fcntl.h>
#include <linux/idxd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum dsa_how { DSA_WELL, DSA_PARTLY, DSA_BADLY, DSA_LATE, DSA_NEVER, DSA_HELD };

struct dsa_double {
	char dir[64];
	_Atomic enum dsa_how how;
	_Atomic bool quit;
	_Atomic unsigned done, odd; /* descriptors; of these, such as an engine would refuse */
	struct sn_dsa_double *page; /* or NULL, and */
	int pipe;
	pthread_t thread;
};

static void dsa_double_do(struct dsa_double *d, const struct dsa_hw_desc *desc)
{
	static unsigned turn;
	struct dsa_completion_record *r = (struct dsa_completion_record *)(uintptr_t)desc->completion_addr;
	uint32_t n = desc->xfer_size;
	uint8_t status = DSA_COMP_SUCCESS;

	d->done++;
	if (desc->opcode != DSA_OPCODE_MEMMOVE ||
	    (desc->flags & ~IDXD_OP_FLAG_BOF) != (IDXD_OP_FLAG_CRAV | IDXD_OP_FLAG_RCR | IDXD_OP_FLAG_CC) ||
	    desc->completion_addr % 32 || !n || n > SN_DSA_PART || desc->pasid || desc->priv || desc->rsvd ||
	    desc->int_handle || desc->rsvd1)
		d->odd++;
	if (d->how == DSA_NEVER)
		return;
	if (d->how == DSA_LATE)
		usleep(3000);
	while (d->how == DSA_HELD && !d->quit)
		usleep(1000);
	if (d->how == DSA_PARTLY && turn++ % 2) { /* a page was not there */
		n /= 3;
		status = DSA_COMP_PAGE_FAULT_NOBOF | 0x80;
	} else if (d->how == DSA_BADLY) {
		n = 0;
		status = DSA_COMP_BAD_OPCODE;
	}
	memcpy((void *)(uintptr_t)desc->dst_addr, (const void *)(uintptr_t)desc->src_addr, n);
	r->bytes_completed = n;
	atomic_thread_fence(memory_order_release);
	r->status = status;
}

static void *dsa_double_run(void *arg)
{
	struct dsa_double *d = arg;

	while (!d->quit) {
		uint32_t full = 1, claimed = 1;
		struct dsa_hw_desc desc;

		if (d->page ? !atomic_compare_exchange_strong(&d->page->full, &full, 0)
			    : read(d->pipe, &desc, sizeof(desc)) != sizeof(desc)) {
			usleep(20);
			continue;
		}
		if (d->page) {
			memcpy(&desc, &d->page->desc, sizeof(desc));
			atomic_compare_exchange_strong(&d->page->claimed, &claimed,
						       0); /* 2: the queue was closed */
		}
		dsa_double_do(d, &desc);
	}
	return NULL;
}

static inline struct dsa_double *dsa_double_start_as(bool pipe)
{
	struct dsa_double *d = calloc(1, sizeof(*d));
	char path[100];

	strcpy(d->dir, "/tmp/sennit-dsa-XXXXXX");
	if (!mkdtemp(d->dir))
		abort();
	snprintf(path, sizeof(path), "%s/wq0.0", d->dir);
	if (pipe) {
		d->pipe = mkfifo(path, 0600) ? -1 : open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (d->pipe < 0)
			abort();
	} else {
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, 4096))
			abort();
		d->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (d->page == MAP_FAILED)
			abort();
	}
	if (pthread_create(&d->thread, NULL, dsa_double_run, d))
		abort();
	return d;
}

static inline struct dsa_double *dsa_double_start(void)
{
	return dsa_double_start_as(false);
}

/* An attribute as the kernel has it in sysfs. */
static inline void dsa_double_says(struct dsa_double *d, const char *what, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/sys", d->dir);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/sys/wq0.0", d->dir);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/sys/wq0.0/%s", d->dir, what);
	FILE *f = fopen(path, "w");
	if (!f || fprintf(f, "%s\n", value) < 0 || fclose(f))
		abort();
}

static inline void dsa_double_stop(struct dsa_double *d)
{
	static const char *const files[] = {"wq0.0", "sys/wq0.0/mode", "sys/wq0.0/size",
					    "sys/wq0.0/block_on_fault"};
	char path[128];

	d->quit = true;
	pthread_join(d->thread, NULL);
	if (d->page)
		munmap(d->page, 4096);
	else
		close(d->pipe);
	for (unsigned i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "%s/%s", d->dir, files[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/sys/wq0.0", d->dir);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/sys", d->dir);
	rmdir(path);
	rmdir(d->dir);
	free(d);
}

#endif
