/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C API's rows, between two processes on two cores; prints the lines that rows.c prints.
 *   capilat    us, half a round trip        capirate   million messages/s, windows of 64 in one direction
 * capi [MS [capilat|capirate]]
 *   capiratio  capilat over the bare exchange of a cache line in each direction, probed around it
 */
#include "probe.h"
#include <sched.h>
#include <sennit/sennit.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WINDOW	64
#define LARGEST 4096

struct shared {
	struct probe_line lines[2];
	_Atomic int ready[2];
	uint8_t addr[2][SN_ADDR_MAX];
	size_t addr_len[2];
};

static struct shared *shared;
static int side;
static sn_ep *ep;
static sn_peer peer;
static uint64_t probe_round;
static char out[WINDOW][LARGEST], in[WINDOW][LARGEST];

static void check(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "capi: %s: %s\n", what, sn_last_error());
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

static void send_one(size_t len)
{
	sn_req *req;
	check(sn_isend(ep, peer, out[0], len, 1, &req), "send");
	wait_for(req);
}

static double pingpong(size_t len, long rounds)
{
	double start = bench_now();
	for (long i = 0; i < rounds; i++) {
		sn_req *req;
		check(sn_irecv(ep, peer, in[0], len, 1, UINT64_MAX, &req), "receive");
		if (side == 0)
			send_one(len);
		wait_for(req);
		if (side == 1)
			send_one(len);
	}
	return bench_now() - start;
}

static double rate(size_t len, long windows)
{
	sn_req *req[WINDOW];
	double start = bench_now();
	for (long w = 0; w < windows; w++) {
		for (int i = 0; i < WINDOW; i++) {
			if (side == 0)
				check(sn_isend(ep, peer, out[i], len, 2, &req[i]), "send");
			else
				check(sn_irecv(ep, peer, in[i], len, 2, UINT64_MAX, &req[i]), "receive");
		}
		for (int i = 0; i < WINDOW; i++)
			wait_for(req[i]);
		sn_req *answer;
		if (side == 0) {
			check(sn_irecv(ep, peer, in[0], 0, 3, UINT64_MAX, &answer), "receive");
		} else {
			check(sn_isend(ep, peer, out[0], 0, 3, &answer), "send");
		}
		wait_for(answer);
	}
	return bench_now() - start;
}

static void row(const char *kind, size_t len, double seconds)
{
	bool rates = !strcmp(kind, "capirate");
	double (*timed)(size_t, long) = rates ? rate : pingpong;
	double before = probe_ns(shared->lines, side, &probe_round);
	timed(len, 100);
	/* both sides run the same number of rounds: by size only */
	long rounds = (long)(seconds * (rates ? 5e4 : 1e6));
	double each = timed(len, rounds) / (double)rounds;
	double after = probe_ns(shared->lines, side, &probe_round);
	if (side != 0)
		return;
	printf("%s:%zu %.6g %.1f %.1f\n", kind, len, rates ? WINDOW / each / 1e6 : each / 2 * 1e6, before,
	       after);
	if (!rates)
		printf("capiratio:%zu %.6g %.1f %.1f\n", len, each / 2 * 1e9 / ((before + after) / 2), before,
		       after);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {0, 8, 32, 64, 512, 4096};
	double seconds = argc > 1 ? atof(argv[1]) / 1000 : 0.1;
	shared = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	pid_t child = fork();
	side = child == 0;
	if (side == 1)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	bind_self();
	memset(out, 1, sizeof(out));
	memset(in, 2, sizeof(in));
	open_pair();
	const char *only = argc > 2 ? argv[2] : "";
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && strcmp(only, "capirate") != 0; i++)
		row("capilat", sizes[i], seconds);
	if (strcmp(only, "capilat") != 0)
		row("capirate", 8, seconds);
	meet(2);
	sn_ep_close(ep);
	if (side == 1)
		return 0;
	int status = 0;
	return waitpid(child, &status, 0) != child || status;
}
