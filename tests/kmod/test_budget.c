// SPDX-License-Identifier: BSD-3-Clause
/*
 * What a message costs, as far as emulation can tell: pages pinned, chunks, look-ups, bytes moved, system calls, and, on a
 * machine that is booted with boot.sh -i, where a nanosecond is an instruction, instructions. Prints the table that
 * docs/kmod.md shows; holds what does not depend on the kernel's version.
 */
#include "kt.h"
#include <sys/uio.h>
#include <time.h>

#define MAX ((size_t)4 << 20)

static int fd;
static char *from, *to;

struct cost {
	uint64_t ns, pinned, chunks, looks, bytes, redone, calls;
};

static uint64_t accepted[256];

/* Calls of the device by this process, so far. */
static uint64_t calls(void)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(accepted) / sizeof(*accepted); i++)
		sum += accepted[i];
	return sum;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct cost count(void)
{
	struct cost c = {.pinned = kt_counter(SENNIT_C_PAGES_PINNED),
			 .chunks = kt_counter(SENNIT_C_PIN_CHUNKS)};

	c.looks = kt_counter(SENNIT_C_PIN_HITS) + c.chunks;
	c.bytes = kt_counter(SENNIT_C_COPY_BYTES);
	c.redone = kt_counter(SENNIT_C_COPY_REDONE);
	return c;
}

/* One copy, one system call. */
static struct cost measure(struct sennit_end dst, struct sennit_end src, size_t len)
{
	struct cost before = count(), after;
	uint64_t called = calls(), start = now(), ns;

	KT_CHECK(kt_copy(fd, dst, src, len, NULL) == 0);
	ns = now() - start;
	called = calls() - called;
	after = count();
	KT_CHECK(called == 1);
	return (struct cost){ns,
			     after.pinned - before.pinned,
			     after.chunks - before.chunks,
			     after.looks - before.looks,
			     after.bytes - before.bytes,
			     after.redone - before.redone,
			     called};
}

static void show(const char *how, size_t len, struct cost c)
{
	printf("%-18s %8zu %10lu %7lu %7lu %9lu %11.2f %5lu\n", how, len, (unsigned long)c.ns,
	       (unsigned long)c.pinned, (unsigned long)c.chunks, (unsigned long)c.looks,
	       (double)c.bytes / (double)len, (unsigned long)c.calls);
}

static void of_one_size(size_t len)
{
	struct kt_region src = kt_declare(fd, from, len, SENNIT_READ),
			 dst = kt_declare(fd, to, len, SENNIT_WRITE);
	struct sennit_seg seg = {(uintptr_t)to, len};
	struct iovec a = {from, len}, b = {to, len};
	uint64_t pages = len / KT_PAGE, start;
	struct cost c = measure(kt_mine(&seg, 1), kt_handle(src.handle, 0), len);

	show("region, first", len, c);
	KT_CHECK(c.pinned == pages && c.bytes == len);
	c = measure(kt_mine(&seg, 1), kt_handle(src.handle, 0), len);
	show("region, again", len, c);
	/* Pinned once: a copy that finds its pages looks up a set for each step, and steps end with sets. */
	KT_CHECK(c.pinned == 0 && c.chunks == 0 && c.bytes == len && c.looks <= len / 65536 + 12);
	c = measure(kt_id(dst.id, 0), kt_handle(src.handle, 0), len);
	show("two, first", len, c);
	KT_CHECK(c.pinned == pages); /* the other one's only */
	c = measure(kt_id(dst.id, 0), kt_handle(src.handle, 0), len);
	show("two, again", len, c);
	KT_CHECK(c.pinned == 0 && c.bytes == len && c.looks <= 2 * (len / 65536 + 24));
	start = now();
	KT_CHECK(process_vm_readv(getpid(), &b, 1, &a, 1, 0) == (ssize_t)len);
	printf("%-18s %8zu %10lu\n", "process_vm_readv", len, (unsigned long)(now() - start));
	KT_CHECK(kt_undeclare(fd, src.id) == 0 && kt_undeclare(fd, dst.id) == 0);
	kt_wait_unpinned(0);
}

int main(void)
{
	fd = kt_open();
	from = kt_map(MAX);
	to = kt_map(MAX);
	kt_fill(from, MAX, 1);
	kt_fill(to, MAX, 2);
	kt_accepted = accepted;
	printf("%-18s %8s %10s %7s %7s %9s %11s %5s\n", "copy", "bytes", "instr.", "pinned", "chunks",
	       "look-ups", "moved/byte", "calls");
	for (size_t len = KT_PAGE; len <= MAX; len *= 4)
		of_one_size(len);
	KT_CHECK(memcmp(from, to, MAX) == 0);
	printf("overlap misses: %lu\n", (unsigned long)kt_counter(SENNIT_C_OVERLAP_MISSES));
	return 0;
}
