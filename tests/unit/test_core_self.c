/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's promises, seen by an endpoint that talks to itself: no rail, no second process, every rule of matching. */
#include "sennit/sennit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static sn_ep *ep;
static sn_peer self;

static int setup(void **state)
{
	uint8_t addr[SN_ADDR_MAX];
	size_t len = sizeof(addr);
	assert_int_equal(sn_ep_open(NULL, &ep), 0);
	assert_int_equal(sn_ep_address(ep, addr, &len), 0);
	assert_true(len <= SN_ADDR_MAX);
	assert_int_equal(sn_peer_add(ep, addr, len, &self), 0);
	return 0;
}

static int teardown(void **state)
{
	sn_ep_close(ep);
	return 0;
}

static void fill(uint8_t *b, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(i * 31 + seed + (i >> 8));
}

static void wait_ok(sn_req *req, sn_completion *c, int status)
{
	sn_completion mine = {0};
	c = c ? c : &mine;
	assert_int_equal(sn_wait(ep, req, c, 60000000), SN_OK);
	assert_int_equal(c->status, status);
}

static void every_size_arrives_intact_posted_or_unexpected(void **state)
{
	static const size_t sizes[] = {0, 1, 40, 41, 512, 513, 4096, 4097, 16384, 16385, 1 << 20, 5000001};
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		size_t n = sizes[k];
		uint8_t *a = malloc(n + 1), *b = malloc(n + 1);
		fill(a, n, (unsigned)k);
		for (int posted_first = 0; posted_first < 2; posted_first++) {
			sn_req *s, *r;
			sn_completion c;
			memset(b, 0xee, n + 1);
			if (posted_first)
				assert_int_equal(sn_irecv(ep, self, b, n, 7, UINT64_MAX, &r), 0);
			assert_int_equal(sn_isend(ep, self, a, n, 7, &s), 0);
			if (!posted_first)
				assert_int_equal(sn_irecv(ep, SN_ANY_PEER, b, n, 7, UINT64_MAX, &r), 0);
			wait_ok(r, &c, SN_OK);
			assert_int_equal(c.len, n);
			assert_int_equal(c.peer, self);
			wait_ok(s, NULL, SN_OK);
			assert_memory_equal(a, b, n);
			assert_int_equal(b[n], 0xee);
		}
		free(a);
		free(b);
	}
}

/* Without a request, and without the ways for others: at once, what is short enough for that; and nothing overtakes. */
static void what_is_tried_arrives_in_order(void **state)
{
	static const size_t sizes[] = {0, 1, 48, 49, 513, SN_INJECT_MAX, SN_INJECT_MAX + 1};
	uint8_t a[SN_INJECT_MAX + 1], b[SN_INJECT_MAX + 2];
	uint64_t len;
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		size_t n = sizes[k];
		bool may = n <= SN_INJECT_MAX;
		fill(a, n, (unsigned)k);
		memset(b, 0xee, n + 1);
		assert_int_equal(sn_try_send(ep, self, a, n, 7, 0, 0), may ? SN_OK : SN_ERR_AGAIN);
		if (!may)
			break;
		/* with other bits than expected, and with less room, it stays */
		assert_int_equal(sn_try_recv(ep, self, b, n, 7, UINT64_MAX, 8, 1, &len), SN_ERR_AGAIN);
		if (n)
			assert_int_equal(sn_try_recv(ep, self, b, n - 1, 7, UINT64_MAX, 7, 1, &len),
					 SN_ERR_AGAIN);
		assert_int_equal(sn_try_recv(ep, self, b, n, 7, UINT64_MAX, 7, 1, &len), SN_OK);
		assert_int_equal(len, n);
		assert_memory_equal(a, b, n);
		assert_int_equal(b[n], 0xee);
	}
	int in[4] = {-1, -1, -1, -1}, big[50000] = {7}, big_in[50000] = {0};
	sn_req *posted = sn_try_post(ep, self, &in[0], 4, 5, UINT64_MAX), *sent, *awaited;
	assert_non_null(posted);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sn_try_send(ep, self, &i, 4, 5, 0, 0), SN_OK);
	assert_int_equal(sn_isend(ep, self, big, sizeof(big), 5, &sent), SN_OK);
	int last = 2;
	assert_int_equal(sn_try_send(ep, self, &last, 4, 5, 0, 0), SN_OK);
	assert_int_equal(sn_try_test(posted, 5, 1, &len), SN_OK);
	assert_int_equal(in[0], 0);
	assert_int_equal(sn_try_recv(ep, self, &in[1], 4, 5, UINT64_MAX, 5, 1, &len), SN_OK);
	assert_int_equal(in[1], 1);
	/* the long one is next, and only announced */
	assert_int_equal(sn_try_recv(ep, self, &in[2], 4, 5, UINT64_MAX, 5, 1, &len), SN_ERR_AGAIN);
	assert_int_equal(sn_irecv(ep, self, big_in, sizeof(big_in), 5, UINT64_MAX, &awaited), SN_OK);
	wait_ok(awaited, NULL, SN_OK);
	wait_ok(sent, NULL, SN_OK);
	assert_int_equal(big_in[0], 7);
	assert_int_equal(sn_try_recv(ep, self, &in[2], 4, 5, UINT64_MAX, 5, 1, &len), SN_OK);
	assert_int_equal(in[2], 2);
}

static void try_self(const uint8_t *a, uint8_t *b, size_t n, sn_peer from, uint64_t want, uint64_t mask,
		     int rc)
{
	memset(b, 0xee, n + 1);
	assert_int_equal(sn_try_self(ep, self, a, n, 7, from, b, n, want, mask), rc);
	if (!rc)
		assert_memory_equal(a, b, n);
	assert_int_equal(b[rc ? 0 : n], 0xee);
}

/* In one with its receive: unless a receive stands before that, or a message before the other. */
static void one_to_oneself_overtakes_nothing(void **state)
{
	static const size_t sizes[] = {0, 1, 48, 49, 4096, 4097, 100000};
	static uint8_t a[100001], b[100001], c[100001];
	sn_completion done;
	sn_req *r, *s;
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		size_t n = sizes[k];
		fill(a, n, (unsigned)k);
		try_self(a, b, n, self, 7, UINT64_MAX, SN_OK);
		try_self(a, b, n, SN_ANY_PEER, 3, 3, SN_OK);
		try_self(a, b, n, self, 8, UINT64_MAX, SN_ERR_AGAIN);
		if (n)
			assert_int_equal(sn_try_self(ep, self, a, n, 7, self, b, n - 1, 7, UINT64_MAX),
					 SN_ERR_AGAIN);
		assert_int_equal(sn_try_self(ep, self, a, n, 7, self + 1, b, n, 7, UINT64_MAX), SN_ERR_AGAIN);
		assert_int_equal(sn_try_self(ep, self + 1, a, n, 7, self + 1, b, n, 7, UINT64_MAX),
				 SN_ERR_AGAIN);
		for (int other = 0; other < 2; other++) { /* which is no hindrance */
			uint64_t bits = other ? 9 : 7;
			int rc = other ? SN_OK : SN_ERR_AGAIN;
			assert_int_equal(sn_irecv(ep, SN_ANY_PEER, c, n, bits, UINT64_MAX, &r), 0);
			try_self(a, b, n, self, 7, UINT64_MAX, rc);
			memset(c, 0xee, n + 1);
			assert_int_equal(sn_try_send(ep, self, a, n, bits, 0, 0),
					 SN_OK); /* as it is posted */
			wait_ok(r, &done, SN_OK);
			assert_int_equal(done.len, n);
			assert_memory_equal(a, c, n);
			assert_int_equal(sn_isend(ep, self, a, n, bits, &s), 0);
			try_self(a, b, n, self, 7, UINT64_MAX, rc);
			assert_int_equal(sn_irecv(ep, self, c, n, bits, UINT64_MAX, &r), 0);
			wait_ok(r, NULL, SN_OK);
			wait_ok(s, NULL, SN_OK);
			assert_memory_equal(a, c, n);
		}
	}
	assert_int_equal(sn_try_self(NULL, self, a, 8, 7, self, b, 8, 7, UINT64_MAX), SN_ERR_AGAIN);
	assert_int_equal(sn_try_self(ep, self, NULL, 8, 7, self, b, 8, 7, UINT64_MAX), SN_ERR_AGAIN);
}

static void a_long_message_is_cut_and_both_lengths_are_reported(void **state)
{
	for (size_t n = 100; n <= 100000; n *= 1000) {
		uint8_t *a = malloc(n), b[11];
		fill(a, n, 1);
		b[10] = 0x55;
		sn_req *s, *r;
		sn_completion c;
		assert_int_equal(sn_irecv(ep, self, b, 10, 1, UINT64_MAX, &r), 0);
		assert_int_equal(sn_isend(ep, self, a, n, 1, &s), 0);
		wait_ok(r, &c, SN_ERR_TRUNCATED);
		wait_ok(s, NULL, SN_OK);
		assert_int_equal(c.len, 10);
		assert_int_equal(c.full_len, n);
		assert_memory_equal(a, b, 10);
		assert_int_equal(b[10], 0x55);
		free(a);
	}
}

static void receives_match_in_posting_order_across_wildcards(void **state)
{
	int a = 0, b[4] = {-1, -1, -1, -1};
	sn_req *r[4];
	sn_irecv(ep, self, &b[0], 4, 5, UINT64_MAX, &r[0]);
	sn_irecv(ep, SN_ANY_PEER, &b[1], 4, 0, 0, &r[1]);
	sn_irecv(ep, self, &b[2], 4, 5, 0xff, &r[2]);
	sn_irecv(ep, SN_ANY_PEER, &b[3], 4, 5, UINT64_MAX, &r[3]);
	for (a = 0; a < 4; a++) {
		sn_req *s;
		assert_int_equal(sn_isend(ep, self, &a, 4, 5, &s), 0);
		wait_ok(s, NULL, SN_OK);
	}
	for (int i = 0; i < 4; i++) {
		wait_ok(r[i], NULL, SN_OK);
		assert_int_equal(b[i], i);
	}
}

static void segments_are_gathered_and_scattered(void **state)
{
	enum { N = 50000 };
	uint8_t *a = malloc(N), *b = calloc(1, N);
	fill(a, N, 9);
	struct iovec out[20], in[17];
	for (int i = 0; i < 20; i++)
		out[i] = (struct iovec){a + (size_t)i * (N / 20), N / 20};
	size_t at = 0;
	for (int i = 0; i < 17; i++) {
		size_t n = i < 16 ? (size_t)(i * 100 + 1) : N - at;
		in[i] = (struct iovec){b + at, n};
		at += n;
	}
	sn_msg m = {.peer = self, .iov = out, .iov_count = 20, .bits = 3};
	sn_req *s, *r;
	assert_int_equal(sn_post_send(ep, &m, &s), 0);
	sn_msg q = {.peer = self, .iov = in, .iov_count = 17, .bits = 3, .mask = UINT64_MAX};
	assert_int_equal(sn_post_recv(ep, &q, &r), 0);
	wait_ok(r, NULL, SN_OK);
	wait_ok(s, NULL, SN_OK);
	assert_memory_equal(a, b, N);
	free(a);
	free(b);
}

static void a_synchronous_send_completes_only_when_matched(void **state)
{
	for (size_t n = 8; n <= 80000; n *= 10000) {
		uint8_t *a = calloc(1, n);
		sn_req *s, *r;
		assert_int_equal(sn_issend(ep, self, a, n, 4, &s), 0);
		for (int i = 0; i < 10; i++)
			assert_int_equal(sn_test(ep, s, NULL), SN_ERR_AGAIN);
		assert_int_equal(sn_irecv(ep, self, a, n, 4, UINT64_MAX, &r), 0);
		wait_ok(s, NULL, SN_OK);
		wait_ok(r, NULL, SN_OK);
		free(a);
	}
}

static void probe_claim_and_discard(void **state)
{
	sn_completion c;
	sn_claim *claim;
	sn_req *s[3], *r;
	uint8_t *big = calloc(1, 100000);
	int small = 42, got = 0;
	assert_int_equal(sn_probe(ep, 0, self, 1, UINT64_MAX, &c), SN_ERR_AGAIN);
	sn_isend(ep, self, &small, 4, 1, &s[0]);
	sn_isend(ep, self, big, 100000, 1, &s[1]);
	sn_isend(ep, self, &small, 4, 1, &s[2]);
	assert_int_equal(sn_probe(ep, 0, SN_ANY_PEER, 1, UINT64_MAX, &c), SN_OK);
	assert_int_equal(c.full_len, 4);
	assert_int_equal(sn_mprobe(ep, 0, self, 1, UINT64_MAX, &c, &claim), SN_OK);
	assert_memory_equal(sn_claim_data(ep, claim), &small, 4); /* what is announced only is not here yet */
	sn_claim *second;
	assert_int_equal(sn_mprobe(ep, 0, self, 1, UINT64_MAX, &c, &second), SN_OK);
	assert_int_equal(c.full_len, 100000);
	assert_null(sn_claim_data(ep, second));
	assert_int_equal(sn_discard(ep, second), SN_OK);
	wait_ok(s[1], NULL, SN_OK);
	struct iovec v = {&got, 4};
	sn_msg m = {.peer = SN_ANY_PEER, .iov = &v, .iov_count = 1, .mask = UINT64_MAX, .bits = 1};
	assert_int_equal(sn_mrecv(ep, claim, &m, &r), 0);
	wait_ok(r, NULL, SN_OK);
	assert_int_equal(got, 42);
	sn_irecv(ep, self, &got, 4, 1, UINT64_MAX, &r);
	wait_ok(r, &c, SN_OK);
	assert_int_equal(c.full_len, 4);
	wait_ok(s[0], NULL, SN_OK);
	wait_ok(s[2], NULL, SN_OK);
	free(big);
}

static void cancel_takes_back_a_receive_once(void **state)
{
	int x;
	sn_req *r, *s;
	assert_int_equal(sn_irecv(ep, self, &x, 4, 1, UINT64_MAX, &r), 0);
	assert_int_equal(sn_cancel(ep, r), SN_OK);
	assert_int_equal(sn_cancel(ep, r), SN_ERR_AGAIN);
	wait_ok(r, NULL, SN_ERR_CANCELED);
	x = 3;
	assert_int_equal(sn_isend(ep, self, &x, 4, 1, &s), 0);
	wait_ok(s, NULL, SN_OK);
	assert_int_equal(sn_irecv(ep, self, &x, 4, 1, UINT64_MAX, &r), 0);
	assert_int_equal(sn_cancel(ep, r), SN_ERR_AGAIN);
	wait_ok(r, NULL, SN_OK);
}

static void a_multi_receive_hands_out_its_buffer_piece_by_piece(void **state)
{
	static uint8_t buf[20000];
	uint8_t a[6000];
	struct iovec v = {buf, sizeof(buf)}, o = {a, 0};
	sn_req *s;
	sn_completion c;
	fill(a, sizeof(a), 2);
	sn_msg early = {.peer = self, .iov = &o, .iov_count = 1};
	o.iov_len = 100;
	assert_int_equal(sn_post_msend(ep, &early, &s), 0); /* unexpected: taken by the post below */
	wait_ok(s, NULL, SN_OK);
	sn_msg m = {.peer = SN_ANY_PEER,
		    .flags = SN_MULTI | SN_CQ,
		    .iov = &v,
		    .iov_count = 1,
		    .min_room = 5000,
		    .context = &v};
	assert_int_equal(sn_post_mrecv(ep, &m, NULL), 0);
	static const size_t sizes[] = {100, 333, 6000, 0, 6000, 3000};
	size_t at = 0;
	for (int i = 0; i < 6; i++) {
		if (i) {
			o.iov_len = sizes[i];
			assert_int_equal(sn_post_msend(ep, &early, &s), 0);
			sn_wait(ep, s, NULL, 1000000);
		}
		assert_int_equal(sn_poll(ep, &c, 1), 1);
		assert_ptr_equal(c.context, &v);
		assert_int_equal(c.len, sizes[i]);
		assert_ptr_equal(c.buf, buf + at);
		assert_memory_equal(c.buf, a, sizes[i]);
		at = (at + sizes[i] + 7) & ~(size_t)7;
		assert_int_equal(!!(c.flags & SN_COMP_BUFFER_DONE), i == 5);
	}
	assert_int_equal(sn_poll(ep, &c, 1), 0);
}

static void one_sided_access_is_checked_and_exact(void **state)
{
	enum { N = 70000 };
	uint8_t *mem = calloc(1, N), *a = malloc(N), *b = calloc(1, N);
	fill(a, N, 5);
	sn_region *g, *dup;
	sn_req *r;
	assert_int_equal(sn_region_add(ep, mem, N, 77, SN_REMOTE_READ | SN_REMOTE_WRITE, &g), 0);
	assert_int_equal(sn_region_add(ep, mem, N, 77, SN_REMOTE_READ, &dup), SN_ERR_INVALID);
	for (size_t n = 10; n <= 60000; n *= 6000) {
		struct iovec v = {a, n}, w = {b, n};
		sn_msg m = {.peer = self, .iov = &v, .iov_count = 1};
		sn_remote to = {77, 1000};
		assert_int_equal(sn_put(ep, &m, &to, &r), 0);
		wait_ok(r, NULL, SN_OK);
		assert_memory_equal(mem + 1000, a, n);
		m.iov = &w;
		assert_int_equal(sn_get(ep, &m, &to, &r), 0);
		wait_ok(r, NULL, SN_OK);
		assert_memory_equal(b, a, n);
		sn_remote beyond = {77, N - n + 1}, nobody = {78, 0};
		assert_int_equal(sn_put(ep, &m, &beyond, &r), 0);
		wait_ok(r, NULL, SN_ERR_ACCESS);
		assert_int_equal(sn_get(ep, &m, &beyond, &r), 0);
		wait_ok(r, NULL, SN_ERR_ACCESS);
		assert_int_equal(sn_get(ep, &m, &nobody, &r), 0);
		wait_ok(r, NULL, SN_ERR_ACCESS);
	}
	assert_int_equal(sn_region_free(ep, g), 0);
	free(mem);
	free(a);
	free(b);
}

static void atomics_compute_and_fetch(void **state)
{
	int64_t cell[3] = {10, 20, 30}, add[3] = {1, 2, 3}, old[3], cmp = 11, swap = 99;
	sn_region *g;
	sn_req *r;
	sn_region_add(ep, cell, sizeof(cell), 5, SN_REMOTE_READ | SN_REMOTE_WRITE, &g);
	struct iovec v = {add, sizeof(add)}, res = {old, sizeof(old)};
	sn_msg m = {.peer = self, .iov = &v, .iov_count = 1};
	sn_remote at = {5, 0};
	sn_atomic a = {.type = SN_INT64, .op = SN_SUM, .result = &res, .result_count = 1};
	assert_int_equal(sn_atomic_post(ep, &m, &at, &a, &r), 0);
	wait_ok(r, NULL, SN_OK);
	assert_int_equal(old[0] + old[1] + old[2], 60);
	assert_int_equal(cell[0], 11);
	assert_int_equal(cell[2], 33);
	struct iovec sv = {&swap, 8}, cv = {&cmp, 8}, rv = {old, 8};
	m.iov = &sv;
	sn_atomic cs = {.type = SN_INT64,
			.op = SN_CSWAP,
			.compare = &cv,
			.compare_count = 1,
			.result = &rv,
			.result_count = 1};
	assert_int_equal(sn_atomic_post(ep, &m, &at, &cs, &r), 0);
	wait_ok(r, NULL, SN_OK);
	assert_int_equal(old[0], 11);
	assert_int_equal(cell[0], 99);
	a.op = SN_BAND;
	a.type = SN_DOUBLE;
	assert_int_equal(sn_atomic_post(ep, &m, &at, &a, &r), SN_ERR_INVALID);
	sn_ep *other; /* which has had no region of its own */
	assert_int_equal(sn_ep_open(NULL, &other), 0);
	assert_int_equal(sn_region_free(other, g), SN_ERR_INVALID);
	sn_ep_close(other);
	sn_region_free(ep, g);
}

static void bad_arguments_are_named(void **state)
{
	sn_req *r;
	int x = 0;
	assert_int_equal(sn_isend(ep, 12345, &x, 4, 0, &r), SN_ERR_INVALID);
	assert_non_null(strstr(sn_last_error(), "12345"));
	assert_int_equal(sn_isend(ep, self, NULL, 4, 0, &r), SN_ERR_INVALID);
	assert_int_equal(sn_irecv(ep, self, &x, 4, 0x100, 0xff, &r), SN_ERR_INVALID);
	struct iovec many[2] = {{&x, SIZE_MAX / 2 + 5}, {&x, SIZE_MAX / 2 + 5}};
	sn_msg m = {.peer = self, .iov = many, .iov_count = 2};
	assert_int_equal(sn_post_send(ep, &m, &r), SN_ERR_INVALID);
	m.iov_count = SN_IOV_MAX + 1;
	assert_int_equal(sn_post_send(ep, &m, &r), SN_ERR_INVALID);
	m = (sn_msg){.peer = self, .flags = SN_INJECT, .iov = (struct iovec[]){{&x, 4097}}, .iov_count = 1};
	assert_int_equal(sn_post_send(ep, &m, &r), SN_ERR_INVALID);
	uint8_t addr[SN_ADDR_MAX] = "nonsense that is no address";
	sn_peer p;
	assert_int_equal(sn_peer_add(ep, addr, sizeof(addr), &p), SN_ERR_INVALID);
	assert_int_equal(sn_ep_open(NULL, NULL), SN_ERR_INVALID);
	size_t len = 3;
	assert_int_equal(sn_ep_address(ep, addr, &len), SN_ERR_INVALID);
	assert_true(len > 3);
}

static int told_count, told_status;

static void told(void *arg, const sn_completion *c)
{
	assert_true(c->flags & SN_COMP_FORGET);
	assert_int_equal(c->bits, 7);
	assert_int_equal(c->len, 3);
	told_count++;
	told_status = c->status;
}

/* An injected message that nobody asks after: who hears of all completions hears of it, good or bad. */
static void a_forgotten_message_is_still_accounted_for(void **state)
{
	sn_ep_attr attr = {.on_complete = told};
	uint8_t addr[SN_ADDR_MAX];
	size_t len = sizeof(addr);
	sn_ep *loud, *gone;
	sn_peer me, nobody;
	struct iovec v = {"abc", 3};
	sn_msg m = {.flags = SN_INJECT | SN_FORGET, .iov = &v, .iov_count = 1, .bits = 7};
	sn_req *req = (sn_req *)(void *)&m;
	assert_int_equal(sn_ep_open(&attr, &loud), 0);
	assert_int_equal(sn_ep_address(loud, addr, &len), 0);
	assert_int_equal(sn_peer_add(loud, addr, len, &me), 0);
	m.peer = me;
	assert_int_equal(sn_post_send(loud, &m, &req), 0);
	assert_null(req);
	assert_int_equal(told_count, 1);
	assert_int_equal(told_status, SN_OK);
	assert_int_equal(sn_ep_quiet(loud, 1), 0); /* who hears only of what fails */
	assert_int_equal(sn_post_send(loud, &m, NULL), 0);
	assert_int_equal(told_count, 1);
	assert_int_equal(sn_ep_quiet(loud, 0), 0);
	assert_int_equal(sn_ep_quiet(NULL, 0), SN_ERR_INVALID);
	len = sizeof(addr);
	setenv("PMI_RANK", "1234567", 1);
	assert_int_equal(sn_ep_open(NULL, &gone), 0);
	unsetenv("PMI_RANK");
	assert_int_equal(sn_ep_address(gone, addr, &len), 0);
	sn_ep_close(gone);
	assert_int_equal(sn_peer_add(loud, addr, len, &nobody), 0);
	m.peer = nobody;
	for (int posted = 1; told_status == SN_OK;
	     posted++) { /* the first may leave before the end is known */
		assert_int_equal(sn_post_send(loud, &m, NULL), 0);
		assert_int_equal(told_count, posted + 1);
		sn_progress(loud);
	}
	assert_int_equal(told_status, SN_ERR_PEER_GONE);
	int told_before = told_count;
	assert_int_equal(sn_inject(loud, nobody, "abc", 3, 7, 0, 0),
			 SN_ERR_PEER_GONE); /* known now: the call says so */
	assert_non_null(strstr(sn_last_error(), "rank 1234567 "));
	assert_int_equal(told_count, told_before);
	sn_ep_close(loud);
}

/* Not one of something that was tried at opening and is not needed: no accelerator, no module. */
static void a_time_out_says_its_own_reason(void **state)
{
	uint8_t byte;
	sn_req *r;
	sn_completion c = {0};

	assert_string_equal(sn_last_error(), "");
	assert_int_equal(sn_irecv(ep, self, &byte, 1, 3, UINT64_MAX, &r), 0);
	assert_int_equal(sn_wait(ep, r, &c, 1000), SN_ERR_TIMEOUT);
	assert_non_null(strstr(sn_last_error(), "not done after 1000 us"));
	assert_int_equal(sn_cancel(ep, r), SN_OK);
	wait_ok(r, NULL, SN_ERR_CANCELED);
}

/* sn_inject, sn_tsend and sn_trecv are short for posts with flags, whatever they are given. */
static void the_short_ways_do_what_the_long_ones_do(void **state)
{
	static char out[SN_INJECT_MAX + 1], in[SN_INJECT_MAX + 1];
	static const size_t sizes[] = {0, 1, 8, 40, 41, 4096};
	sn_completion c;
	for (size_t k = 0; k < 2 * (sizeof(sizes) / sizeof(sizes[0])); k++) {
		size_t n = sizes[k / 2];
		bool posted_first = k % 2;
		fill((uint8_t *)out, n, (unsigned)k);
		if (posted_first)
			assert_int_equal(sn_trecv(ep, self, in, sizeof(in), k, UINT64_MAX, &c), 0);
		assert_int_equal(sn_inject(ep, self, out, n, k, 99, SN_DATA), 0);
		if (!posted_first)
			assert_int_equal(sn_trecv(ep, SN_ANY_PEER, in, sizeof(in), k, UINT64_MAX, &c), 0);
		assert_int_equal(sn_poll(ep, &c, 1), 1);
		assert_ptr_equal(c.context, &c);
		assert_int_equal(c.status, SN_OK);
		assert_int_equal(c.len, n);
		assert_int_equal(c.bits, k);
		assert_true(c.flags & SN_COMP_DATA);
		assert_int_equal(c.data, 99);
		assert_memory_equal(in, out, n);
	}
	assert_int_equal(sn_trecv(ep, self, in, sizeof(in), 7, UINT64_MAX, &c), 0);
	assert_int_equal(sn_tsend(ep, self, out, 8, 7, 0, SN_FORGET, NULL), 0);
	assert_int_equal(sn_poll(ep, &c, 1), 1);
	assert_int_equal(c.op, SN_OP_RECV);
	assert_int_equal(sn_tsend(ep, self + 1, out, 8, 1, 0, 0, NULL), SN_ERR_INVALID);
	assert_int_equal(sn_tsend(ep, self, NULL, 8, 1, 0, 0, NULL), SN_ERR_INVALID);
	assert_int_equal(sn_tsend(NULL, self, out, 8, 1, 0, 0, NULL), SN_ERR_INVALID);
	assert_int_equal(sn_inject(ep, self, out, SN_INJECT_MAX + 1, 1, 0, 0), SN_ERR_INVALID);
	assert_int_equal(sn_inject(ep, self + 1, out, 8, 1, 0, 0), SN_ERR_INVALID);
	assert_int_equal(sn_inject(ep, self, NULL, 8, 1, 0, 0), SN_ERR_INVALID);
	assert_int_equal(sn_inject(NULL, self, out, 8, 1, 0, 0), SN_ERR_INVALID);
	assert_int_equal(sn_trecv(ep, self, in, 8, 3, 1, NULL), SN_ERR_INVALID); /* bits outside the mask */
	assert_int_equal(sn_trecv(ep, self + 1, in, 8, 1, 1, NULL), SN_ERR_INVALID);
	assert_int_equal(sn_trecv(ep, self, NULL, 8, 1, 1, NULL), SN_ERR_INVALID);
	assert_int_equal(sn_trecv(NULL, self, in, 8, 1, 1, NULL), SN_ERR_INVALID);
}

/* An MPI shows its user the name of this error. */
static void no_descriptors_are_a_lack_and_no_refusal(void **state)
{
	int status;
	pid_t pid = fork(); /* the soft limit would be raised to the hard one, which stays */
	if (pid == 0) {
		sn_ep *other;
		bool lack = !setrlimit(RLIMIT_NOFILE, &(struct rlimit){0}) &&
			    sn_ep_open(NULL, &other) == SN_ERR_NOMEM &&
			    strstr(sn_last_error(), "Too many open files");
		_exit(lack ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_time_out_says_its_own_reason, setup,
						teardown), /* first: no error yet */
		cmocka_unit_test_setup_teardown(every_size_arrives_intact_posted_or_unexpected, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_tried_arrives_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(one_to_oneself_overtakes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(a_long_message_is_cut_and_both_lengths_are_reported, setup,
						teardown),
		cmocka_unit_test_setup_teardown(receives_match_in_posting_order_across_wildcards, setup,
						teardown),
		cmocka_unit_test_setup_teardown(segments_are_gathered_and_scattered, setup, teardown),
		cmocka_unit_test_setup_teardown(a_synchronous_send_completes_only_when_matched, setup,
						teardown),
		cmocka_unit_test_setup_teardown(probe_claim_and_discard, setup, teardown),
		cmocka_unit_test_setup_teardown(cancel_takes_back_a_receive_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_multi_receive_hands_out_its_buffer_piece_by_piece, setup,
						teardown),
		cmocka_unit_test_setup_teardown(one_sided_access_is_checked_and_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(atomics_compute_and_fetch, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_arguments_are_named, setup, teardown),
		cmocka_unit_test_setup_teardown(the_short_ways_do_what_the_long_ones_do, setup, teardown),
		cmocka_unit_test(no_descriptors_are_a_lack_and_no_refusal),
		cmocka_unit_test(a_forgotten_message_is_still_accounted_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
