/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes on two cores, each with an endpoint of the C API: what the benchmarks that use it share. */
#ifndef SN_BENCH_PAIR_H
#define SN_BENCH_PAIR_H

#include "probe.h"
#include <sched.h>
#include <sennit/sennit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
	struct probe_line lines[2], steps[2];
	_Atomic int ready[2];
	void *at[2]; /* of each side, for the other to copy from */
	pid_t pid[2];
	uint8_t addr[2][SN_ADDR_MAX];
	size_t addr_len[2];
};

static struct shared *shared;
static int side;
static pid_t child;
static sn_ep *ep;
static sn_peer peer;
static uint64_t probe_round;

static void check(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "bench: %s: %s\n", what, sn_last_error());
	exit(1);
}

static void meet(int step)
{
	atomic_store(&shared->ready[side], step);
	while (atomic_load(&shared->ready[!side]) < step)
		sched_yield();
}

static void open_pair(void)
{
	sn_ep_attr attr = {.threads = SN_THREAD_SERIAL};
	shared->addr_len[side] = SN_ADDR_MAX;
	check(sn_ep_open(&attr, &ep), "open");
	check(sn_ep_address(ep, shared->addr[side], &shared->addr_len[side]), "address");
	meet(1);
	check(sn_peer_add(ep, shared->addr[!side], shared->addr_len[!side], &peer), "peer");
}

static void bind_self(void)
{
	cpu_set_t all, one;
	int skip = side;
	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all) && skip-- == 0) {
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof(one), &one);
			return;
		}
	}
}

static void wait_for(sn_req *req)
{
	sn_completion c;
	check(sn_wait(ep, req, &c, -1), "wait");
	check(c.status, "a message");
}

/* Both processes return from it, each bound to a core of its own. */
static void pair_fork(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	child = shared == MAP_FAILED ? -1 : fork();
	if (child < 0) {
		perror("bench: a second process");
		exit(1);
	}
	side = child == 0;
	if (side == 1)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	shared->pid[side] = getpid();
	bind_self();
}

/* The exit status of the program. */
static int pair_end(void)
{
	meet(2);
	sn_ep_close(ep);
	if (side == 1)
		return 0;
	int status = 0;
	return waitpid(child, &status, 0) != child || status;
}

#endif
