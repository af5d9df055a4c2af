/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How close large messages come to what the machine can do: the C API's ping-pong beside the best bare copy, in turn, same
 * buffers again and again. Prints the lines that rows.c prints.
 *   capibw, capimap        MB/s, buffers in ordinary memory; in the shareable heap, if it is in front (LD_PRELOAD)
 *   capibwpart, capimappart  that over the bare method: both sides' kernel copies at once; both sides' copies of mapped memory
 * bulk [MS [LARGEST]]: for each figure; bytes
 */
#include "pair.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

#define LARGEST	 ((size_t)64 << 20)
#define SMALLEST ((size_t)8 << 10)
#define TURNS	 3 /* of each, alternating; the best counts: what disturbs only adds */

static uint8_t *own[2], *mapped[2][2]; /* [outgoing, incoming]; [side][likewise], which both processes see */
static uint64_t step;
static size_t largest = LARGEST;

/* Nobody goes on before both are here. */
static void together(void)
{
	atomic_store_explicit(&shared->steps[side].n, ++step, memory_order_release);
	probe_await(&shared->steps[!side], step);
}

/* A message from side `from`: each side copies its half, the sender the upper one. */
static void bare_kernel(int from, size_t len)
{
	size_t half = len / 2 & ~(size_t)4095;
	bool sends = side == from;
	struct iovec here = {sends ? own[0] + half : own[1], sends ? len - half : half},
		     there = {(uint8_t *)shared->at[!side] + (sends ? LARGEST + half : 0), here.iov_len};
	ssize_t n = sends ? process_vm_writev(shared->pid[!side], &here, 1, &there, 1, 0)
			  : process_vm_readv(shared->pid[!side], &here, 1, &there, 1, 0);
	if (n != (ssize_t)here.iov_len) {
		perror("bench: process_vm_readv or _writev");
		exit(1);
	}
}

static void bare_mapped(int from, size_t len)
{
	size_t half = len / 2 & ~(size_t)4095, at = side == from ? half : 0;
	memcpy(mapped[!from][1] + at, mapped[from][0] + at, side == from ? len - half : half);
}

static double bare(void (*copy)(int, size_t), size_t len, long rounds)
{
	together();
	double start = bench_now();
	for (long i = 0; i < 2 * rounds; i++) {
		copy((int)(i % 2), len);
		together();
	}
	return bench_now() - start;
}

static double ours(size_t len, long rounds)
{
	together();
	double start = bench_now();
	for (long i = 0; i < 2 * rounds; i++) {
		sn_req *req;
		if (i % 2 == side)
			check(sn_isend(ep, peer, own[0], len, 1, &req), "send");
		else
			check(sn_irecv(ep, peer, own[1], len, 1, UINT64_MAX, &req), "receive");
		wait_for(req);
	}
	return bench_now() - start;
}

/* Rounds that take about so long, by what a byte costs at most. */
static long rounds_of(size_t len, double seconds)
{
	long n = (long)(seconds * 5e9 / (double)(2 * len));
	return n < 4 ? 4 : n;
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

static void row(const char *kind, void (*copy)(int, size_t), size_t len, double seconds)
{
	long rounds = rounds_of(len, seconds);
	double before = probe_ns(shared->lines, side, &probe_round),
	       bytes = 2.0 * (double)len * (double)rounds;
	double best[2] = {1e9, 1e9};
	bare(copy, len, 2);
	ours(len, 100 > rounds ? rounds : 100); /* the pair learns */
	for (int i = 0; i < TURNS; i++) {
		best[0] = least(best[0], ours(len, rounds));
		best[1] = least(best[1], bare(copy, len, rounds));
	}
	double after = probe_ns(shared->lines, side, &probe_round);
	if (side != 0)
		return;
	printf("%s:%zu %.6g %.1f %.1f\n", kind, len, bytes / best[0] / 1e6, before, after);
	printf("%spart:%zu %.4g %.1f %.1f\n", kind, len, best[1] / best[0], before, after);
	fflush(stdout);
}

static void *shared_memory(void)
{
	void *at = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		perror("bench: memory");
		exit(1);
	}
	return at;
}

static void rows(const char *kind, void (*copy)(int, size_t), uint8_t *both, double seconds)
{
	memset(both, side + 1, 2 * LARGEST);
	own[0] = both;
	own[1] = both + LARGEST;
	shared->at[side] = both;
	together();
	for (size_t len = SMALLEST; len <= largest; len *= 2)
		row(kind, copy, len, seconds);
	together();
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) / 1000 : 0.01;
	if (argc > 2)
		largest = strtoul(argv[2], NULL, 10);
	if (largest > LARGEST)
		largest = LARGEST;
	for (int i = 0; i < 4; i++)
		mapped[i / 2][i % 2] = shared_memory();
	pair_fork();
	memset(mapped[side][0], 1, LARGEST);
	memset(mapped[side][1], 2, LARGEST);
	open_pair();
	uint8_t *private =
		mmap(NULL, 2 * LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (private == MAP_FAILED)
		check(SN_ERR_NOMEM, "memory");
	rows("capibw", bare_kernel, private, seconds);
	munmap(private, 2 * LARGEST);
	if (dlsym(RTLD_DEFAULT, "sennit_heap_info")) {
		uint8_t *heap = malloc(2 * LARGEST);
		if (heap)
			rows("capimap", bare_mapped, heap, seconds);
		else
			check(SN_ERR_NOMEM, "memory");
		free(heap);
	}
	return pair_end();
}
