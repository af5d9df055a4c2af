// SPDX-License-Identifier: BSD-3-Clause
/* LiMIC's interface: matching by source, tag and context with wildcards, in order; the later side copies; nothing hangs. */
#include "kt.h"
#include "sennit_limic.h"

static struct sn_limic join_job(uint64_t job, unsigned rank)
{
	struct sn_limic l;

	KT_CHECK(sn_limic_open(&l, job, rank) == 0);
	return l;
}

static uint64_t send_to(struct sn_limic l, int peer, int tag, unsigned context, const void *at, size_t len)
{
	uint64_t request;

	KT_CHECK(sn_limic_isend(&l, peer, tag, context, at, len, &request) == 0);
	return request;
}

static uint64_t recv_from(struct sn_limic l, int peer, int tag, unsigned context, void *at, size_t len)
{
	uint64_t request;

	KT_CHECK(sn_limic_irecv(&l, peer, tag, context, at, len, &request) == 0);
	return request;
}

static struct sn_limic_status finish(struct sn_limic l, uint64_t request)
{
	struct sn_limic_status s;

	KT_CHECK(sn_limic_wait(&l, request, SENNIT_FOREVER, &s) == 0);
	return s;
}

static bool is_done(struct sn_limic l, uint64_t request, uint64_t timeout_us)
{
	int rc = sn_limic_wait(&l, request, timeout_us, NULL);

	KT_CHECK(rc == 0 || rc == -EAGAIN);
	return rc == 0;
}

/* The length of the message that waits, or -1. */
static int64_t probe(struct sn_limic l, int peer, int tag, unsigned context)
{
	struct sn_limic_status s = {0};
	int rc = sn_limic_probe(&l, peer, tag, context, &s);

	KT_CHECK(rc == 0 || rc == 1);
	KT_CHECK(!rc || ((peer < 0 || s.source == peer) && (tag < 0 || s.tag == tag)));
	return rc ? (int64_t)s.len : -1;
}

/* Two ranks in one process, each with a file of its own: the rules are the same. */
struct pair {
	struct sn_limic a, b;
};

static struct pair two_ranks(void)
{
	struct pair p = {.a = join_job(0, 0)};

	p.b = join_job(p.a.job, 1);
	return p;
}

static void close_pair(struct pair p)
{
	sn_limic_close(&p.a);
	sn_limic_close(&p.b);
}

static void later_side_copies(void)
{
	struct pair p = two_ranks();
	const size_t len = 300 * KT_PAGE + 5;
	char *from = kt_map(len), *to = kt_map(len);
	uint64_t s, r;
	struct sn_limic_status w;

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
	KT_CHECK(probe(p.b, SENNIT_ANY, SENNIT_ANY, 1) == (int64_t)len &&
		 probe(p.b, 0, 8, 1) == (int64_t)len);
	KT_CHECK(probe(p.b, 0, 9, 1) < 0 && probe(p.b, 0, 8, 2) < 0);
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
	struct sn_limic_status w;

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
	struct sn_limic_status w;
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
	struct sennit_join again = {.rank = 9};
	struct sn_limic alone = {.fd = kt_open()};

	KT_CHECK(!is_done(p.b, r, 1000));
	KT_CHECK(sn_limic_cancel(&p.b, r) == 0);
	KT_CHECK(sn_limic_cancel(&p.b, r) == -EBUSY);
	KT_CHECK(finish(p.b, r).error == -ECANCELED);
	KT_CHECK(sn_limic_cancel(&p.b, r) == -ENOENT);
	s = send_to(p.a, 1, 0, 0, buf, sizeof(buf)); /* the cancelled receive does not take it */
	KT_CHECK(!is_done(p.a, s, 0));
	KT_CHECK(finish(p.b, recv_from(p.b, 0, 0, 0, buf, sizeof(buf))).error == 0);
	KT_CHECK(finish(p.a, s).error == 0);

	KT_CHECK(sn_limic_isend(&p.a, SENNIT_ANY, 0, 0, buf, 1, &s) == -EINVAL);
	KT_CHECK(sn_limic_irecv(&p.a, -2, 0, 0, buf, 1, &s) == -EINVAL);
	KT_CHECK(sn_limic_isend(&alone, 0, 0, 0, buf, 1, &s) == -ENOTCONN);
	KT_FAILS(ioctl(p.a.fd, SENNIT_IOC_JOIN, &again), EISCONN);
	again.job = 12345;
	KT_FAILS(ioctl(alone.fd, SENNIT_IOC_JOIN, &again), ENOENT);
	/* Memory that is not there is an error of both requests, whichever side's it is. */
	r = recv_from(p.b, 0, 0, 0, (void *)8, 100);
	s = send_to(p.a, 1, 0, 0, buf, sizeof(buf));
	KT_CHECK(finish(p.b, r).error == -EFAULT && finish(p.a, s).error == -EFAULT);
	r = recv_from(p.b, 0, 0, 0, buf, sizeof(buf));
	s = send_to(p.a, 1, 0, 0, (void *)8, 8);
	KT_CHECK(finish(p.b, r).error == -EFAULT && finish(p.a, s).error == -EFAULT);
	sn_limic_close(&alone);
	close_pair(p);
}

static void vectors_on_both_sides(void)
{
	struct pair p = two_ranks();
	char from[3000], to[3000] = "";
	struct sennit_seg out[3] = {
		{(uintptr_t)from, 1000}, {(uintptr_t)from + 1000, 1}, {(uintptr_t)from + 1001, 1999}};
	struct sennit_seg in[2] = {{(uintptr_t)to, 1999}, {(uintptr_t)to + 1999, 1001}};
	uint64_t s, r = 0;

	for (int first = 0; first < 2; first++) {
		kt_fill(from, sizeof(from), first + 60);
		if (first)
			KT_CHECK(sn_limic_irecvv(&p.b, 0, 0, 0, in, 2, &r) == 0);
		KT_CHECK(sn_limic_isendv(&p.a, 1, 0, 0, out, 3, &s) == 0);
		if (!first)
			KT_CHECK(sn_limic_irecvv(&p.b, 0, 0, 0, in, 2, &r) == 0);
		KT_CHECK(finish(p.b, r).len == 3000 && finish(p.a, s).error == 0);
		KT_CHECK(kt_same(to, sizeof(to), first + 60));
	}
	close_pair(p);
}

static void a_rank_is_taken_once(void)
{
	struct pair p = two_ranks();
	struct sn_limic other;
	uint64_t job;

	KT_CHECK(sn_limic_open(&other, p.a.job, 1) == -EADDRINUSE);
	other = join_job(p.a.job, 2);
	sn_limic_close(&other);
	KT_CHECK(sn_limic_open(&other, p.a.job, 2) == -EADDRINUSE); /* a rank that went does not come back */
	other = join_job(0, 1);
	job = other.job;
	sn_limic_close(&other); /* its last member gone, the job is too */
	KT_CHECK(sn_limic_open(&other, job, 1) == -ENOENT);
	close_pair(p);
}

/* What only a rank that goes could satisfy ends with EPIPE, at once and later. */
static void a_peer_that_dies_is_an_error(void)
{
	struct sn_limic l = join_job(0, 0);
	char buf[16] = "", *big = kt_map(64 * KT_PAGE);
	uint64_t from_it, to_it, any;
	pid_t child;
	char c = 0;
	int up[2];

	KT_CHECK(pipe(up) == 0);
	child = kt_fork();
	if (!child) {
		send_to(join_job(l.job, 1), 0, 99, 0, buf, sizeof(buf));
		kt_say(up[1], &c, 1);
		pause();
	}
	kt_hear(up[0], &c, 1);
	from_it = recv_from(l, 1, 5, 0, buf, sizeof(buf));
	to_it = send_to(l, 1, 5, 0, big, 64 * KT_PAGE);
	any = recv_from(l, SENNIT_ANY, 5, 0, buf, sizeof(buf));
	KT_CHECK(probe(l, 1, 99, 0) == sizeof(buf));
	kill(child, SIGKILL);
	KT_CHECK(finish(l, from_it).error == -EPIPE);
	KT_CHECK(finish(l, to_it).error == -EPIPE);
	KT_CHECK(!is_done(l, any, 0)); /* somebody else may come yet */
	KT_CHECK(probe(l, 1, 99, 0) < 0);
	KT_CHECK(finish(l, recv_from(l, 1, 99, 0, buf, sizeof(buf))).error == -EPIPE);
	KT_CHECK(finish(l, send_to(l, 1, 99, 0, buf, sizeof(buf))).error == -EPIPE);
	KT_CHECK(waitpid(child, NULL, 0) == child);
	sn_limic_close(&l);
	munmap(big, 64 * KT_PAGE);
}

#define RANKS  4
#define ROUNDS 60

/* Everybody sends to everybody, sizes and order at random, receives with and without wildcards; every byte is checked. */
static void traffic_of(int rank, uint64_t job)
{
	const size_t max = 100000;
	struct sn_limic l = join_job(job, rank + 1);
	char *out = kt_map(max), *in = kt_map(max);
	uint64_t seed = 77 + rank, sends[RANKS];

	for (int round = 0; round < ROUNDS; round++) {
		size_t len = 1 + (kt_random(&seed) % (round % 5 ? 3000 : max));

		kt_fill(out, len, rank * 50 + round);
		for (int to = 0; to < RANKS; to++)
			sends[to] = send_to(l, to + 1, round, 3, out, len);
		for (int from = 0; from < RANKS; from++) {
			/* By name or any: in any one round both are taken from the same four. */
			int whom = round % 2 ? from + 1 : SENNIT_ANY;
			struct sn_limic_status w = finish(l, recv_from(l, whom, round, 3, in, max));

			KT_CHECK(w.error == 0 && w.tag == round && w.source >= 1 && w.source <= RANKS);
			KT_CHECK(kt_same(in, w.len, (w.source - 1) * 50 + round));
		}
		for (int to = 0; to < RANKS; to++)
			KT_CHECK(finish(l, sends[to]).error == 0);
	}
	sn_limic_close(&l);
}

static void traffic_among_four(void)
{
	struct sn_limic l = join_job(0, 0);
	uint64_t count = kt_counter(SENNIT_C_MESSAGES_SENT);
	pid_t children[RANKS];

	for (int i = 0; i < RANKS; i++) {
		children[i] = kt_fork();
		if (!children[i]) {
			traffic_of(i, l.job);
			_exit(0);
		}
	}
	for (int i = 0; i < RANKS; i++)
		kt_join(children[i]);
	KT_CHECK(kt_counter(SENNIT_C_MESSAGES_SENT) - count == RANKS * RANKS * ROUNDS);
	printf("  expected %lu, unexpected %lu\n", (unsigned long)kt_counter(SENNIT_C_MESSAGES_EXPECTED),
	       (unsigned long)kt_counter(SENNIT_C_MESSAGES_UNEXPECTED));
	sn_limic_close(&l);
}

int main(int argc, char **argv)
{
	kt_options(argc, argv);
	KT_RUN(later_side_copies);
	KT_RUN(wildcards_and_order);
	KT_RUN(short_and_empty_messages);
	KT_RUN(cancelling_and_errors);
	KT_RUN(vectors_on_both_sides);
	KT_RUN(a_rank_is_taken_once);
	KT_RUN(a_peer_that_dies_is_an_error);
	KT_RUN(traffic_among_four);
	kt_wait_unpinned(0);
	return 0;
}
