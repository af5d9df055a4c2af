/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this machine can do at most, without any library: bare copies between two processes on two processors, the same
 * buffers again and again. The figures that sennit's large messages are measured against.
 *
 * copy_bare [MILLISECONDS]: time for each figure. Prints MB/s (10^6 bytes), one row a method, and the one-way time of a
 * cache line before and after: when the two differ the cores have moved, and the run is worth nothing.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LARGEST ((size_t)64 << 20)
#define PIECE	((size_t)16 << 10)
#define RING	8

struct shared {
	_Atomic uint64_t turn; /* barrier: counts arrivals */
	uint8_t pad0[56];
	_Atomic uint32_t line; /* ping-pong */
	uint8_t pad1[60];
	_Atomic uint64_t put; /* pieces of the pipe */
	uint8_t pad2[56];
	_Atomic uint64_t got;
	uint8_t pad3[56];
	void *private_at[2];
	pid_t pid[2];
	_Atomic uint32_t stop;
	uint8_t ring[RING][PIECE];
};

static struct shared *sh;
static uint8_t *own, *mapped[2]; /* private memory; memory that both processes map, one of each side */
static int side;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void barrier(void)
{
	uint64_t n = atomic_fetch_add(&sh->turn, 1) + 1;
	uint64_t want = (n + 1) / 2 * 2;
	while (atomic_load_explicit(&sh->turn, memory_order_acquire) < want)
		__builtin_ia32_pause();
}

static double line_ns(void)
{
	const uint32_t rounds = 20000;
	barrier();
	double start = now();
	for (uint32_t i = 0; i < rounds; i++) {
		uint32_t want = 2 * i + (uint32_t)side;
		while (atomic_load_explicit(&sh->line, memory_order_acquire) != want)
			__builtin_ia32_pause();
		atomic_store_explicit(&sh->line, want + 1, memory_order_release);
	}
	double took = (now() - start) / rounds / 2;
	barrier();
	if (!side)
		atomic_store(&sh->line, 0);
	barrier();
	return took;
}

/* Side 0 sends, side 1 receives. Each does its part of one message; the barrier after it makes it whole. */
static void vm(bool write, size_t from, size_t len)
{
	struct iovec here = {own + from, len}, there = {(uint8_t *)sh->private_at[!side] + from, len};
	ssize_t n = write ? process_vm_writev(sh->pid[!side], &here, 1, &there, 1, 0)
			  : process_vm_readv(sh->pid[!side], &here, 1, &there, 1, 0);
	if (n != (ssize_t)len) {
		perror("process_vm_readv or _writev");
		exit(1);
	}
}

static void kernel_one(size_t len)
{
	if (side)
		vm(false, 0, len);
}

static void kernel_both(size_t len)
{
	size_t half = len / 2 & ~(size_t)4095;
	if (side)
		vm(false, 0, half);
	else
		vm(true, half, len - half);
}

static void mapped_one(size_t len)
{
	if (side)
		memcpy(mapped[1], mapped[0], len);
}

static void mapped_both(size_t len)
{
	size_t half = len / 2 & ~(size_t)4095, at = side ? 0 : half;
	memcpy(mapped[1] + at, mapped[0] + at, side ? half : len - half);
}

static void piped(size_t len)
{
	static uint64_t n;
	for (size_t at = 0; at < len; at += PIECE, n++) {
		size_t part = len - at < PIECE ? len - at : PIECE;
		if (side) {
			while (atomic_load_explicit(&sh->put, memory_order_acquire) <= n)
				__builtin_ia32_pause();
			memcpy(own + at, sh->ring[n % RING], part);
			atomic_store_explicit(&sh->got, n + 1, memory_order_release);
		} else {
			while (n - atomic_load_explicit(&sh->got, memory_order_acquire) >= RING)
				__builtin_ia32_pause();
			memcpy(sh->ring[n % RING], own + at, part);
			atomic_store_explicit(&sh->put, n + 1, memory_order_release);
		}
	}
}

static double rate(void (*method)(size_t), size_t len, double budget_ns)
{
	double end = 0, start = 0;
	unsigned n = 0;
	barrier();
	if (!side)
		atomic_store(&sh->stop, 0);
	method(len);
	barrier();
	start = now();
	do {
		method(len);
		n++;
		end = now();
		if (!side && end - start > budget_ns)
			atomic_store(&sh->stop, n);
		barrier();
	} while (!atomic_load(&sh->stop));
	end = now();
	barrier();
	return (double)len * n / (end - start) * 1e3;
}

static const struct {
	const char *name;
	void (*run)(size_t);
} methods[] = {{"kernel, one side", kernel_one},
	       {"kernel, both sides", kernel_both},
	       {"piped through a ring", piped},
	       {"mapped, one side", mapped_one},
	       {"mapped, both sides", mapped_both}};

static void run(double budget_ns)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(side, &set);
	sched_setaffinity(0, sizeof(set), &set);
	sh->pid[side] = getpid();
	own = malloc(LARGEST);
	if (!own)
		exit(1);
	memset(own, side + 1, LARGEST);
	memset(mapped[side], side + 1, LARGEST);
	sh->private_at[side] = own;
	barrier();
	double before = line_ns();
	if (!side)
		printf("%-22s%9s%9s%9s%9s%9s%9s\n", "MB/s", "64K", "256K", "1M", "4M", "16M", "64M");
	for (unsigned m = 0; m < sizeof(methods) / sizeof(*methods); m++) {
		if (!side)
			printf("%-22s", methods[m].name);
		for (size_t len = 65536; len <= LARGEST; len *= 4) {
			double r = rate(methods[m].run, len, budget_ns);
			if (!side)
				printf("%9.0f", r);
			fflush(stdout);
		}
		if (!side)
			printf("\n");
	}
	double after = line_ns();
	if (!side)
		printf("a cache line one way: %.0f ns before, %.0f ns after\n", before, after);
}

int main(int argc, char **argv)
{
	double budget_ns = (argc > 1 ? atof(argv[1]) : 20) * 1e6;
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2; i++)
		mapped[i] = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED || mapped[0] == MAP_FAILED || mapped[1] == MAP_FAILED)
		return 1;
	pid_t pid = fork();
	side = pid == 0;
	run(budget_ns);
	if (side)
		_exit(0);
	int status;
	return waitpid(pid, &status, 0) != pid || status != 0;
}
