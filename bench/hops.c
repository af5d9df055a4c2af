/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What it takes two processes on one core to hand it to each other, with nothing in between: "hops YIELD FUTEX", us a hop, by
 * sched_yield() and by waking the other and sleeping. More ranks than cores cannot be faster than their switches times that.
 */
#include "probe.h"
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS	20000
#define REPEATS 5

static _Atomic uint32_t *turn;

static void hand_over(uint32_t n, bool sleeps)
{
	atomic_store(turn, n + 1);
	if (sleeps)
		syscall(SYS_futex, turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void await(uint32_t n, bool sleeps)
{
	for (uint32_t seen; (seen = atomic_load(turn)) != n;)
		if (sleeps)
			syscall(SYS_futex, turn, FUTEX_WAIT, seen, NULL, NULL, 0);
		else
			sched_yield();
}

static double hops(uint32_t side, bool sleeps)
{
	double start = bench_now();
	for (uint32_t n = side; n < ROUNDS; n += 2) {
		await(n, sleeps);
		hand_over(n, sleeps);
	}
	await(ROUNDS + side, sleeps);
	double us = (bench_now() - start) * 1e6 / ROUNDS;
	if (side == 0)
		hand_over(ROUNDS, sleeps);
	return us;
}

/* The least of several: what disturbs from outside only adds. Between two of them side 1 begins the count anew. */
static double least(uint32_t side, bool sleeps)
{
	double best = 1e9;
	for (int i = 0; i < REPEATS; i++) {
		double us = hops(side, sleeps);
		best = us < best ? us : best;
		if (side == 1)
			atomic_store(turn, 0);
		else
			await(0, false);
	}
	return best;
}

int main(void)
{
	cpu_set_t one;
	turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (turn == MAP_FAILED || sched_setaffinity(0, sizeof(one), &one))
		return 1;
	pid_t child = fork();
	if (child < 0)
		return 1;
	double yield = least(child != 0, false), futex = least(child != 0, true);
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	printf("hops %.3f %.3f\n", yield, futex);
	return 0;
}
