/* SPDX-License-Identifier: BSD-3-Clause */
#include "sides.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int this_side = -1;

void side_fail(const char *file, int line, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "FAILED: side %d, %s:%d: %s\n", this_side,
		strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, text);
	exit(1);
}

void skip(const char *why)
{
	printf("skipped: %s\n", why);
	exit(77);
}

double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void await(atomic_int *value, int at_least)
{
	while (atomic_load(value) < at_least)
		usleep(200);
}

struct board *board_new(int sides)
{
	struct board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(b != MAP_FAILED && sides <= SIDES_MAX, "no memory for the board");
	b->sides = sides;
	alarm(LIFE); /* and with the parent all sides end */
	return b;
}

static void side_open(struct side *s)
{
	size_t len = SN_ADDR_MAX;
	int rc = sn_ep_open(NULL, &s->ep);

	CHECK(rc == 0, "sn_ep_open: %s (%s)", sn_strerror(rc), sn_last_error());
	rc = sn_ep_address(s->ep, s->b->addr[s->me], &len);
	CHECK(rc == 0, "sn_ep_address: %s", sn_strerror(rc));
	s->b->addr_len[s->me] = len;
	atomic_fetch_add(&s->b->opened, 1);
	await(&s->b->opened, s->b->sides);
	s->peer = calloc((size_t)s->b->sides, sizeof(*s->peer));
	CHECK(s->peer, "no memory");
	for (int i = 0; i < s->b->sides; i++) {
		rc = sn_peer_add(s->ep, s->b->addr[i], s->b->addr_len[i], &s->peer[i]);
		CHECK(rc == 0, "sn_peer_add: %s (%s)", sn_strerror(rc), sn_last_error());
	}
}

static void body(struct board *b, int i, side_fn fn)
{
	struct side s = {.b = b, .me = i};

	this_side = i;
	alarm(LIFE);
	side_open(&s);
	fn(&s);
	atomic_fetch_add(&b->done, 1);
	sn_ep_close(s.ep);
	free(s.peer);
	exit(0);
}

/* True in the parent. Only it writes the pid: the child sees the same board. */
static bool forked(struct board *b, int i)
{
	fflush(NULL);
	pid_t pid = fork();
	CHECK(pid >= 0, "fork: %s", strerror(errno));
	if (pid)
		b->pid[i] = pid;
	return pid != 0;
}

void side_start(struct board *b, int i, void (*before)(void), side_fn fn)
{
	if (forked(b, i))
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (before)
		before();
	body(b, i, fn);
}

/* The first process only holds the namespaces: one made with CLONE_NEWPID shows in its children. */
bool side_start_in(struct board *b, int i, int namespaces, side_fn fn)
{
	int ok[2];
	char answer = 0;

	CHECK(pipe(ok) == 0, "pipe: %s", strerror(errno));
	if (forked(b, i)) {
		close(ok[1]);
		if (read(ok[0], &answer, 1) != 1)
			answer = 0;
		close(ok[0]);
		return answer == 1;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(LIFE);
	answer = unshare(namespaces) == 0;
	if (write(ok[1], &answer, 1) != 1 || !answer)
		exit(0);
	close(ok[0]);
	close(ok[1]);
	pid_t inner = fork();
	if (inner == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body(b, i, fn);
	}
	int status;
	while (waitpid(inner, &status, 0) < 0 && errno == EINTR)
		;
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int side_wait(struct board *b, int i)
{
	int status;

	while (waitpid(b->pid[i], &status, 0) < 0)
		CHECK(errno == EINTR, "waitpid: %s", strerror(errno));
	return status;
}

void sides_join(struct board *b, uint64_t dead)
{
	for (int i = 0; i < b->sides; i++) {
		int status = side_wait(b, i);

		if (i < 64 && dead >> i & 1)
			CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "side %d was not killed",
			      i);
		else
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "side %d ended with status %x",
			      i, status);
	}
}

static uint64_t word(uint64_t key, uint64_t i)
{
	uint64_t x = (key + i) * 0x9e3779b97f4a7c15u;

	return x ^ (x >> 29);
}

void fill(void *buf, uint64_t key, size_t len)
{
	for (size_t at = 0; at < len; at += 8) {
		uint64_t w = word(key, at);

		memcpy((char *)buf + at, &w, len - at < 8 ? len - at : 8);
	}
}

void check(const void *buf, uint64_t key, size_t len, const char *what)
{
	for (size_t at = 0; at < len; at += 8) {
		uint64_t w = word(key, at);

		CHECK(memcmp((const char *)buf + at, &w, len - at < 8 ? len - at : 8) == 0,
		      "%s: wrong bytes at offset %zu of %zu", what, at, len);
	}
}

sn_req *post_send(struct side *s, int to, const void *buf, size_t len, uint64_t bits, uint32_t flags)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};
	sn_msg m = {.peer = s->peer[to], .flags = flags, .iov = &v, .iov_count = 1, .bits = bits};
	sn_req *req = NULL;
	int rc = sn_post_send(s->ep, &m, &req);

	CHECK(rc == 0, "sn_post_send to side %d: %s (%s)", to, sn_strerror(rc), sn_last_error());
	return req;
}

sn_req *post_recv(struct side *s, int from, void *buf, size_t len, uint64_t bits)
{
	sn_req *req = NULL;
	int rc = sn_irecv(s->ep, s->peer[from], buf, len, bits, ANY_BITS, &req);

	CHECK(rc == 0, "sn_irecv from side %d: %s (%s)", from, sn_strerror(rc), sn_last_error());
	return req;
}

sn_completion finish(struct side *s, sn_req *req)
{
	sn_completion c;
	int rc = sn_wait(s->ep, req, &c, 40000000);

	CHECK(rc == 0, "sn_wait: %s", sn_strerror(rc));
	return c;
}

/* One message each way; either side posts its receive before or after it sends. */
static void one(struct side *s, int with, uint64_t bits, size_t len, bool recv_first)
{
	char *out = malloc(len + 1), *in = malloc(len + 1);
	sn_req *r = NULL, *t;
	sn_completion c;

	CHECK(out && in, "no memory");
	fill(out, bits * 2 + (uint64_t)s->me, len);
	if (recv_first)
		r = post_recv(s, with, in, len + 1, bits);
	t = post_send(s, with, out, len, bits, bits % 3 ? 0 : SN_SYNC);
	if (!recv_first) {
		sn_progress(s->ep);
		r = post_recv(s, with, in, len + 1, bits);
	}
	c = finish(s, r);
	CHECK(c.status == 0 && c.len == len, "receive of %zu bytes: %s, %llu bytes", len,
	      sn_strerror(c.status), (unsigned long long)c.len);
	check(in, bits * 2 + (uint64_t)with, len, "exchange");
	c = finish(s, t);
	CHECK(c.status == 0, "send of %zu bytes: %s", len, sn_strerror(c.status));
	atomic_fetch_add(&s->b->progress[s->me], 1);
	free(out);
	free(in);
}

void exchange(struct side *s, int with, int rounds, size_t longest)
{
	uint64_t bits = 1;

	for (int i = 0; i < rounds; i++)
		for (size_t len = 0; len <= longest; len = len * 3 + 1, bits++)
			one(s, with, bits, len, (bits + (uint64_t)s->me * (uint64_t)i) % 2 == 0);
	one(s, with, bits, longest, true);
}

struct wanted {
	const char *name;
	uint64_t value;
};

static void look(void *arg, const char *name, uint64_t value)
{
	struct wanted *w = arg;

	if (strncmp(name, w->name, strlen(w->name)) == 0)
		w->value += value;
}

/* The sum of the counters whose names begin so. */
uint64_t counter(struct side *s, const char *name)
{
	struct wanted w = {.name = name};

	sn_counters(s->ep, look, &w);
	return w.value;
}
