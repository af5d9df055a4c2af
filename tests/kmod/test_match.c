// SPDX-License-Identifier: BSD-3-Clause
/* LiMIC's interface: matching by source, tag and context with wildcards, in order; the later side copies; nothing hangs. */
#include "kt.h"

#define FOREVER SENNIT_FOREVER

static uint64_t join_job(int fd, uint64_t job, uint32_t rank)
{
	struct sennit_join j = {.job = job, .rank = rank};

	KT_CHECK(ioctl(fd, SENNIT_IOC_JOIN, &j) == 0);
	return j.job;
}

static int post(int fd, unsigned long what, int peer, int tag, unsigned context, void *at, size_t len,
		uint64_t *request)
{
	struct sennit_seg seg = {(uintptr_t)at, len};
	struct sennit_post p = {.peer = peer, .tag = tag, .context = context, .nsegs = len ? 1 : 0};
	int rc;

	p.segs = (uintptr_t)&seg;
	rc = ioctl(fd, what, &p);
	*request = p.request;
	return rc;
}

static uint64_t send_to(int fd, int peer, int tag, unsigned context, void *at, size_t len)
{
	uint64_t request;

	KT_CHECK(post(fd, SENNIT_IOC_SEND, peer, tag, context, at, len, &request) == 0);
	return request;
}

static uint64_t recv_from(int fd, int peer, int tag, unsigned context, void *at, size_t len)
{
	uint64_t request;

	KT_CHECK(post(fd, SENNIT_IOC_RECV, peer, tag, context, at, len, &request) == 0);
	return request;
}

static struct sennit_wait finish(int fd, uint64_t request)
{
	struct sennit_wait w = {.request = request, .timeout_us = FOREVER};

	KT_CHECK(ioctl(fd, SENNIT_IOC_WAIT, &w) == 0);
	return w;
}

static bool is_done(int fd, uint64_t request, uint64_t timeout_us)
{
	struct sennit_wait w = {.request = request, .timeout_us = timeout_us};
	int rc = ioctl(fd, SENNIT_IOC_WAIT, &w);

	KT_CHECK(rc == 0 || errno == EAGAIN);
	return rc == 0;
}

static struct sennit_probe probe(int fd, int peer, int tag, unsigned context)
{
	struct sennit_probe p = {.peer = peer, .tag = tag, .context = context};

	KT_CHECK(ioctl(fd, SENNIT_IOC_PROBE, &p) == 0);
	return p;
}

/* Two ranks in one process, each with a file of its own: the rules are the same. */
struct pair {
	int a, b;
};

static struct pair two_ranks(void)
{
	struct pair p = {kt_open(), kt_open()};

	join_job(p.b, join_job(p.a, 0, 0), 1);
	return p;
}

static void close_pair(struct pair p)
{
	close(p.a);
	close(p.b);
}

static void later_side_copies(void)
{
	struct pair p = two_ranks();
	const size_t len = 300 * KT_PAGE + 5;
	char *from = kt_map(len), *to = kt_map(len);
	uint64_t s, r;
	struct sennit_wait w;

	kt_fill(from, len, 1);
	r = recv_from(p.b, 0, 7, 1, to, len); /* expected */
	KT_CHECK(!is_done(p.b, r, 0));
	s = send_to(p.a, 1, 7, 1, from, len);
	KT_CHECK(kt_same(to, len, 1)); /* before anybody waits */
	w = finish(p.b, r);
	KT_CHECK(w.error == 0 && w.len == len && w.source == 0 && w.tag == 7);
	KT_CHECK(finish(p.a, s).error == 0);

	kt_fill(from, len, 2);
	s = send_to(p.a, 1, 8, 1, from, len); /* unexpected: nothing is pinned until it is wanted */
	kt_wait_unpinned(0);
	KT_CHECK(probe(p.b, SENNIT_ANY, SENNIT_ANY, 1).found && probe(p.b, 0, 8, 1).len == len);
	KT_CHECK(!probe(p.b, 0, 9, 1).found && !probe(p.b, 0, 8, 2).found);
	r = recv_from(p.b, 0, 8, 1, to, len);
	KT_CHECK(kt_same(to, len, 2) && is_done(p.b, r, 0) && is_done(p.a, s, 0));
	kt_wait_unpinned(0);
	close_pair(p);
	munmap(from, len);
	munmap(to, len);
}

static void wildcards_and_order(void)
{
	struct pair p = two_ranks();
	int values[6] = {0, 1, 2, 3, 4, 5}, got[6];
	uint64_t s[6], r;
	struct sennit_wait w;

	for (int i = 0; i < 6; i++)
		s[i] = send_to(p.a, 1, i % 2, i / 4, &values[i], sizeof(int)); /* contexts 0 0 0 0 1 1 */
	r = recv_from(p.b, SENNIT_ANY, 1, 0, &got[0], sizeof(int));
	w = finish(p.b, r);
	KT_CHECK(got[0] == 1 && w.tag == 1 && w.source == 0);
	r = recv_from(p.b, SENNIT_ANY, SENNIT_ANY, 0, &got[0], sizeof(int));
	KT_CHECK(finish(p.b, r).tag == 0 && got[0] == 0);
	r = recv_from(p.b, 0, SENNIT_ANY, 1, &got[0], sizeof(int));
	KT_CHECK(finish(p.b, r).error == 0 && got[0] == 4);
	r = recv_from(p.b, SENNIT_ANY, SENNIT_ANY, 0, &got[0], sizeof(int));
	KT_CHECK(finish(p.b, r).error == 0 && got[0] == 2);
	r = recv_from(p.b, SENNIT_ANY, SENNIT_ANY, 0, &got[0], sizeof(int));
	KT_CHECK(finish(p.b, r).error == 0 && got[0] == 3);
	r = recv_from(p.b, SENNIT_ANY, SENNIT_ANY, 1, &got[0], sizeof(int));
	KT_CHECK(finish(p.b, r).error == 0 && got[0] == 5);
	for (int i = 0; i < 6; i++)
		KT_CHECK(finish(p.a, s[i]).error == 0);
	/* Receives are satisfied in the order of their posting, the first that fits. */
	for (int i = 0; i < 6; i++)
		s[i] = recv_from(p.b, i % 2 ? 0 : SENNIT_ANY, i < 3 ? 5 : SENNIT_ANY, 0, &got[i],
				 sizeof(int));
	for (int i = 0; i < 6; i++)
		KT_CHECK(finish(p.a, send_to(p.a, 1, i < 2 ? 6 : 5, 0, &values[i], sizeof(int))).error == 0);
	KT_CHECK(got[3] == 0 && got[4] == 1 && got[0] == 2 && got[1] == 3 && got[2] == 4 && got[5] == 5);
	for (int i = 0; i < 6; i++)
		KT_CHECK(finish(p.b, s[i]).error == 0);
	close_pair(p);
}

static void short_and_empty_messages(void)
{
	struct pair p = two_ranks();
	char from[100] = "truncated", to[4] = "";
	struct sennit_wait w;
	uint64_t s = send_to(p.a, 1, 0, 0, from, sizeof(from)), r = recv_from(p.b, 0, 0, 0, to, sizeof(to));

	w = finish(p.b, r);
	KT_CHECK(w.error == -EMSGSIZE && w.len == 4 && memcmp(to, "trun", 4) == 0);
	w = finish(p.a, s);
	KT_CHECK(w.error == 0);
	r = recv_from(p.b, 0, 0, 0, NULL, 0);
	s = send_to(p.a, 1, 0, 0, NULL, 0);
	KT_CHECK(finish(p.b, r).len == 0 && finish(p.a, s).error == 0);
	s = send_to(p.a, 1, 0, 0, NULL, 0);
	r = recv_from(p.b, 0, 0, 0, to, sizeof(to));
	KT_CHECK(finish(p.b, r).error == 0 && finish(p.a, s).error == 0);
	close_pair(p);
}

static void cancelling_and_errors(void)
{
	struct pair p = two_ranks();
	char buf[8] = "";
	uint64_t r = recv_from(p.b, 0, 0, 0, buf, sizeof(buf)), s;
	struct sennit_cancel c = {r};
	struct sennit_join again = {.rank = 9};
	int alone = kt_open();

	KT_CHECK(!is_done(p.b, r, 1000));
	KT_CHECK(ioctl(p.b, SENNIT_IOC_CANCEL, &c) == 0);
	KT_FAILS(ioctl(p.b, SENNIT_IOC_CANCEL, &c), EBUSY);
	KT_CHECK(finish(p.b, r).error == -ECANCELED);
	KT_FAILS(ioctl(p.b, SENNIT_IOC_CANCEL, &c), ENOENT);
	s = send_to(p.a, 1, 0, 0, buf, sizeof(buf)); /* the cancelled receive does not take it */
	KT_CHECK(!is_done(p.a, s, 0));
	KT_CHECK(finish(p.b, recv_from(p.b, 0, 0, 0, buf, sizeof(buf))).error == 0);
	KT_CHECK(finish(p.a, s).error == 0);

	KT_FAILS(post(p.a, SENNIT_IOC_SEND, SENNIT_ANY, 0, 0, buf, 1, &s), EINVAL);
	KT_FAILS(post(p.a, SENNIT_IOC_RECV, -2, 0, 0, buf, 1, &s), EINVAL);
	KT_FAILS(post(alone, SENNIT_IOC_SEND, 0, 0, 0, buf, 1, &s), ENOTCONN);
	KT_FAILS(ioctl(p.a, SENNIT_IOC_JOIN, &again), EISCONN);
	again.job = 12345;
	KT_FAILS(ioctl(alone, SENNIT_IOC_JOIN, &again), ENOENT);
	/* Memory that is not there is an error of both requests, whichever side's it is. */
	r = recv_from(p.b, 0, 0, 0, (void *)8, 100);
	s = send_to(p.a, 1, 0, 0, buf, sizeof(buf));
	KT_CHECK(finish(p.b, r).error == -EFAULT && finish(p.a, s).error == -EFAULT);
	r = recv_from(p.b, 0, 0, 0, buf, sizeof(buf));
	s = send_to(p.a, 1, 0, 0, (void *)8, 8);
	KT_CHECK(finish(p.b, r).error == -EFAULT && finish(p.a, s).error == -EFAULT);
	close(alone);
	close_pair(p);
}

static void a_rank_is_taken_once(void)
{
	struct pair p = two_ranks();
	int other = kt_open();
	struct sennit_join j = {.rank = 1};

	j.job = join_job(other, 0, 1);
	close(other); /* its last member gone, the job is too */
	other = kt_open();
	KT_FAILS(ioctl(other, SENNIT_IOC_JOIN, &j), ENOENT);
	close(other);
	close_pair(p);
}

/* What only a rank that goes could satisfy ends with EPIPE, at once and later. */
static void a_peer_that_dies_is_an_error(void)
{
	int fd = kt_open(), up[2];
	char buf[16] = "", *big = kt_map(64 * KT_PAGE);
	uint64_t job = join_job(fd, 0, 0), from_it, to_it, any;
	pid_t child;
	char c = 0;

	KT_CHECK(pipe(up) == 0);
	child = kt_fork();
	if (!child) {
		int mine = kt_open();

		join_job(mine, job, 1);
		send_to(mine, 0, 99, 0, buf, sizeof(buf));
		kt_say(up[1], &c, 1);
		pause();
	}
	kt_hear(up[0], &c, 1);
	from_it = recv_from(fd, 1, 5, 0, buf, sizeof(buf));
	to_it = send_to(fd, 1, 5, 0, big, 64 * KT_PAGE);
	any = recv_from(fd, SENNIT_ANY, 5, 0, buf, sizeof(buf));
	KT_CHECK(probe(fd, 1, 99, 0).found);
	kill(child, SIGKILL);
	KT_CHECK(finish(fd, from_it).error == -EPIPE);
	KT_CHECK(finish(fd, to_it).error == -EPIPE);
	KT_CHECK(!is_done(fd, any, 0)); /* somebody else may come yet */
	KT_CHECK(!probe(fd, 1, 99, 0).found);
	KT_CHECK(finish(fd, recv_from(fd, 1, 99, 0, buf, sizeof(buf))).error == -EPIPE);
	KT_CHECK(finish(fd, send_to(fd, 1, 99, 0, buf, sizeof(buf))).error == -EPIPE);
	KT_CHECK(waitpid(child, NULL, 0) == child);
	close(fd);
	munmap(big, 64 * KT_PAGE);
}

#define RANKS  4
#define ROUNDS 60

/* Everybody sends to everybody, sizes and order at random, receives with and without wildcards; every byte is checked. */
static void traffic_of(int rank, uint64_t job)
{
	const size_t max = 100000;
	int fd = kt_open();
	char *out = kt_map(max), *in = kt_map(max);
	uint64_t seed = 77 + rank, sends[RANKS];

	join_job(fd, job, rank + 1);
	for (int round = 0; round < ROUNDS; round++) {
		size_t len = 1 + (kt_random(&seed) % (round % 5 ? 3000 : max));

		kt_fill(out, len, rank * 50 + round);
		for (int to = 0; to < RANKS; to++)
			sends[to] = send_to(fd, to + 1, round, 3, out, len);
		for (int from = 0; from < RANKS; from++) {
			/* By name or any: in any one round both are taken from the same four. */
			int whom = round % 2 ? from + 1 : SENNIT_ANY;
			struct sennit_wait w = finish(fd, recv_from(fd, whom, round, 3, in, max));

			KT_CHECK(w.error == 0 && w.tag == round && w.source >= 1 && w.source <= RANKS);
			KT_CHECK(kt_same(in, w.len, (w.source - 1) * 50 + round));
		}
		for (int to = 0; to < RANKS; to++)
			KT_CHECK(finish(fd, sends[to]).error == 0);
	}
	close(fd);
}

static void traffic_among_four(void)
{
	int fd = kt_open();
	uint64_t job = join_job(fd, 0, 0), count = kt_counter(SENNIT_C_MESSAGES_SENT);
	pid_t children[RANKS];

	for (int i = 0; i < RANKS; i++) {
		children[i] = kt_fork();
		if (!children[i]) {
			traffic_of(i, job);
			_exit(0);
		}
	}
	for (int i = 0; i < RANKS; i++)
		kt_join(children[i]);
	KT_CHECK(kt_counter(SENNIT_C_MESSAGES_SENT) - count == RANKS * RANKS * ROUNDS);
	printf("  expected %lu, unexpected %lu\n", (unsigned long)kt_counter(SENNIT_C_MESSAGES_EXPECTED),
	       (unsigned long)kt_counter(SENNIT_C_MESSAGES_UNEXPECTED));
	close(fd);
}

int main(void)
{
	KT_RUN(later_side_copies);
	KT_RUN(wildcards_and_order);
	KT_RUN(short_and_empty_messages);
	KT_RUN(cancelling_and_errors);
	KT_RUN(a_rank_is_taken_once);
	KT_RUN(a_peer_that_dies_is_an_error);
	KT_RUN(traffic_among_four);
	kt_wait_unpinned(0);
	return 0;
}
