/* SPDX-License-Identifier: BSD-3-Clause */
/* Many threads: on one endpoint, with one each, and those that wait and are woken. */
#include "mx_test.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS 4 /* and of them in wait_somehow() one of each kind */

static mx_endpoint_t ep;
static mx_endpoint_addr_t self;
static _Atomic unsigned count;

static void run_all(void *(*fn)(void *), unsigned n)
{
	pthread_t t[2 * THREADS];
	for (uintptr_t i = 0; i < n; i++)
		CHECK(pthread_create(&t[i], NULL, fn, (void *)i) == 0);
	for (unsigned i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

static void begin(void)
{
	OK(mx_init());
	ep = open_any();
	self = own_addr(ep);
}

static void end(void)
{
	OK(mx_close_endpoint(ep));
	OK(mx_finalize());
}

/* Each posts and waits for its own by mx_wait_any, all on one endpoint, so each completes what others wait for. */
static void *any_mine(void *arg)
{
	enum { N = 2000 };
	const uint64_t mine = (uintptr_t)arg << 32, mask = UINT64_C(0xff) << 32;
	unsigned char in[64], out[64];
	mx_status_t st;
	uint32_t result;
	for (unsigned i = 0; i < N; i++) {
		mx_segment_t si = {in, sizeof(in)}, so = {pattern(out, sizeof(out), i), i % 65};
		mx_request_t r, s;
		OK(mx_irecv(ep, &si, 1, mine | i, MX_MATCH_MASK_NONE, in, &r));
		OK(mx_isend(ep, &so, 1, self, mine | i, out, &s));
		for (unsigned n = 0; n < 2; n++) {
			OK(mx_wait_any(ep, MX_INFINITE, mine, mask, &st, &result));
			CHECK(result && st.code == MX_STATUS_SUCCESS && st.match_info == (mine | i));
			CHECK(st.context == in || st.context == out);
		}
		CHECK(is_pattern(in, i % 65, i));
	}
	return NULL;
}

static void wait_any(void)
{
	begin();
	run_all(any_mine, THREADS);
	end();
}

/* One sends, all others wait for any: each message is told to one of them, once. */
static void *take_some(void *arg)
{
	mx_status_t st;
	uint32_t result;
	for (;;) {
		OK(mx_wait_any(ep, MX_INFINITE, 0, 0, &st, &result));
		if (!result) /* woken, at the end */
			return NULL;
		CHECK(st.code == MX_STATUS_SUCCESS);
		atomic_fetch_add(&count, 1);
	}
}

static void share(void)
{
	enum { N = 4000 };
	pthread_t t[THREADS];
	begin();
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, take_some, NULL) == 0);
	for (unsigned i = 0; i < N; i++) {
		mx_request_t r;
		OK(mx_irecv(ep, NULL, 0, 0, 0, NULL, &r));
		OK(mx_isend(ep, NULL, 0, self, i, NULL, NULL));
	}
	while (atomic_load(&count) < N)
		OK(mx_progress(ep));
	for (unsigned i = 0; i < THREADS; i++) {
		/* who is on the way to his wait is woken the next time */
		while (pthread_tryjoin_np(t[i], NULL))
			OK(mx_wakeup(ep));
	}
	CHECK(atomic_load(&count) == N);
	end();
}

/* An endpoint each, that all the others send to. */
static mx_endpoint_t eps[THREADS];

static void *to_all(void *arg)
{
	enum { N = 300, LEN = 40000 };
	unsigned me = (unsigned)(uintptr_t)arg;
	unsigned char *in = malloc(LEN), *out = pattern(malloc(LEN), LEN, me);
	mx_endpoint_addr_t to[THREADS];
	mx_request_t s[THREADS];
	uint64_t nic;
	uint32_t id;
	for (unsigned i = 0; i < THREADS; i++) {
		OK(mx_decompose_endpoint_addr(own_addr(eps[i]), &nic, &id));
		OK(mx_connect(eps[me], nic, id, KEY, MX_INFINITE, &to[i]));
	}
	for (unsigned n = 0; n < N; n++) {
		uint32_t len = n % 10 ? n : LEN;
		for (unsigned i = 0; i < THREADS; i++)
			s[i] = isend(eps[me], to[i], out, len, me);
		for (unsigned i = 0; i < THREADS; i++) {
			mx_status_t st = finish_well(eps[me], irecv(eps[me], in, LEN, i, MX_MATCH_MASK_NONE));
			CHECK(st.msg_length == len && is_pattern(in, len, i));
			CHECK(memcmp(&st.source, &to[i], sizeof(to[i])) == 0);
		}
		for (unsigned i = 0; i < THREADS; i++)
			finish_well(eps[me], s[i]);
	}
	free(in);
	free(out);
	return NULL;
}

static void endpoints(void)
{
	OK(mx_init());
	for (unsigned i = 0; i < THREADS; i++)
		eps[i] = open_any();
	run_all(to_all, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		OK(mx_close_endpoint(eps[i]));
	OK(mx_finalize());
}

/* ---- being woken ---- */

static void *wait_somehow(void *arg)
{
	mx_request_t r = NULL;
	mx_status_t st;
	uint32_t result = 1;
	switch ((uintptr_t)arg) {
	case 0:
		r = irecv(ep, NULL, 0, 99, MX_MATCH_MASK_NONE);
		atomic_fetch_add(&count, 1);
		OK(mx_wait(ep, &r, MX_INFINITE, &st, &result));
		CHECK(r != NULL);
		OK(mx_cancel(ep, &r, &result));
		CHECK(result == 1);
		result = 0;
		break;
	case 1:
		atomic_fetch_add(&count, 1);
		OK(mx_wait_any(ep, MX_INFINITE, 0, 0, &st, &result));
		break;
	case 2:
		atomic_fetch_add(&count, 1);
		OK(mx_peek(ep, MX_INFINITE, &r, &result));
		break;
	default: atomic_fetch_add(&count, 1); OK(mx_probe(ep, MX_INFINITE, 0, 0, &st, &result));
	}
	CHECK(!result);
	atomic_fetch_sub(&count, 1);
	return NULL;
}

static void wakeup(void)
{
	pthread_t t[THREADS];
	begin();
	OK(mx_wakeup(ep)); /* nobody waits: nothing is kept for later */
	for (unsigned i = 0; i < 50; i++) {
		for (uintptr_t k = 0; k < THREADS; k++)
			CHECK(pthread_create(&t[k], NULL, wait_somehow, (void *)k) == 0);
		while (atomic_load(&count) < THREADS)
			sched_yield();
		usleep(i % 5 * 1000);
		while (atomic_load(&count)) {
			OK(mx_wakeup(ep));
			usleep(100);
		}
		for (unsigned k = 0; k < THREADS; k++)
			pthread_join(t[k], NULL);
	}
	end();
}

/* A handler that several threads may come across is called once for each message, by one of them at a time. */
static _Atomic int inside;

static mx_unexp_handler_action_t count_it(void *context, mx_endpoint_addr_t source, uint64_t match,
					  uint32_t length, void *data)
{
	CHECK(atomic_fetch_add(&inside, 1) == 0);
	atomic_fetch_add(&count, 1);
	CHECK(atomic_fetch_sub(&inside, 1) == 1);
	return match & 1 ? MX_RECV_FINISHED : MX_RECV_CONTINUE;
}

static void *send_and_take(void *arg)
{
	enum { N = 1000 };
	const uint64_t mine = (uintptr_t)arg << 32;
	for (unsigned i = 0; i < N; i++) {
		mx_request_t s = isend(ep, self, &i, sizeof(i), mine | i);
		if (i % 2 == 0)
			CHECK(finish_well(ep, irecv(ep, &i, sizeof(i), mine | i, MX_MATCH_MASK_NONE))
				      .msg_length == sizeof(i));
		finish_well(ep, s);
	}
	return NULL;
}

static void handler(void)
{
	mx_status_t st;
	uint32_t result;
	begin();
	OK(mx_register_unexp_handler(ep, count_it, NULL));
	run_all(send_and_take, THREADS);
	OK(mx_progress(ep));
	OK(mx_iprobe(ep, 0, 0, &st, &result));
	CHECK(!result && atomic_load(&count) >= THREADS * 500);
	end();
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{"wait_any", wait_any}, {"share", share},     {"endpoints", endpoints},
		{"wakeup", wakeup},	{"handler", handler}, {NULL, NULL},
	};
	return run_tests(tests, argc, argv);
}
