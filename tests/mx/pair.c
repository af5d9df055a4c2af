/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes, on one host or on two.
 *   mx_pair CASE                   both: the second is forked
 *   mx_pair CASE serve NUMBER      one of them
 *   mx_pair CASE HOST NUMBER       the other, which connects by host name
 */
#include "mx_test.h"
#include <signal.h>
#include <sys/wait.h>

static mx_endpoint_t ep;
static mx_endpoint_addr_t other;
static int server, far;
static pid_t child;

/* ---- meeting ---- */

static void say_hello(void)
{
	finish_well(ep, isend(ep, other, NULL, 0, 0xe110));
}

static void wait_for_hello(void)
{
	other = finish_well(ep, irecv(ep, NULL, 0, 0xe110, MX_MATCH_MASK_NONE)).source;
}

static void connect_to(uint64_t nic, uint32_t id)
{
	mx_return_t rc;
	mx_set_error_handler(MX_ERRORS_RETURN);
	while ((rc = mx_connect(ep, nic, id, KEY, MX_INFINITE, &other)) == MX_CONNECTION_FAILED)
		usleep(10000); /* not there yet */
	OK(rc);
	mx_set_error_handler(MX_ERRORS_ARE_FATAL);
	say_hello();
}

static void meet_forked(void)
{
	int ends[2];
	uint64_t nic;
	uint32_t id;
	CHECK(pipe(ends) == 0);
	child = fork();
	server = child != 0;
	OK(mx_init());
	ep = open_any();
	OK(mx_decompose_endpoint_addr(own_addr(ep), &nic, &id));
	if (server) {
		CHECK(write(ends[1], &id, sizeof(id)) == sizeof(id));
		wait_for_hello();
	} else {
		CHECK(read(ends[0], &id, sizeof(id)) == sizeof(id));
		connect_to(nic, id);
	}
}

static void meet_named(char *host, const char *number)
{
	uint64_t nic;
	far = 1;
	server = strcmp(host, "serve") == 0;
	OK(mx_init());
	OK(mx_open_endpoint(0, server ? (uint32_t)atoi(number) : MX_ANY_ENDPOINT, KEY, NULL, 0, &ep));
	if (server) {
		wait_for_hello();
		return;
	}
	OK(mx_hostname_to_nic_id(host, &nic));
	connect_to(nic, (uint32_t)atoi(number));
	uint64_t met;
	uint32_t id;
	OK(mx_decompose_endpoint_addr(other, &met, &id));
	CHECK(met == nic && id == (uint32_t)atoi(number));
}

static void part(void)
{
	int status;
	OK(mx_close_endpoint(ep));
	OK(mx_finalize());
	if (child) {
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

/* ---- cases ---- */

static void pingpong(void)
{
	static const uint32_t lengths[] = {0, 1, 8, 100, 1000, 4096, 16384, 32768, 65536, 1 << 20, 4 << 20};
	unsigned char *buf = malloc(4 << 20);
	for (unsigned l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
		uint32_t len = lengths[l];
		for (unsigned i = 0; i < (len > 65536 ? 8 : 200); i++) {
			unsigned seed = l * 1000 + i;
			if (server) {
				memset(buf, 0, len);
				CHECK(finish_well(ep, irecv(ep, buf, len, i, MX_MATCH_MASK_NONE))
					      .xfer_length == len);
				CHECK(is_pattern(buf, len, seed));
				finish_well(ep, isend(ep, other, pattern(buf, len, seed + 1), len, i));
			} else {
				mx_request_t r = isend(ep, other, pattern(buf, len, seed), len, i);
				finish_well(ep, r);
				finish_well(ep, irecv(ep, buf, len, i, MX_MATCH_MASK_NONE));
				CHECK(is_pattern(buf, len, seed + 1));
			}
		}
	}
	free(buf);
}

/* Both send at random, of every kind and in every order, and check all that comes; the same numbers on both sides. */
static void random_loop(void)
{
	enum { N = 400, WINDOW = 16, MAX = 200000 };
	unsigned seed = 4711;
	unsigned char *in = malloc((size_t)WINDOW * MAX), *out = malloc((size_t)WINDOW * MAX);
	for (unsigned round = 0; round < N / WINDOW; round++) {
		mx_request_t s[WINDOW], r[WINDOW];
		uint32_t len[WINDOW];
		unsigned late = (unsigned)rand_r(&seed) % 2;
		for (unsigned i = 0; i < WINDOW; i++) {
			len[i] = (unsigned)rand_r(&seed) % (1u << rand_r(&seed) % 18);
			pattern(out + (size_t)i * MAX, len[i], round + i);
		}
		for (unsigned i = 0; i < WINDOW && !late; i++)
			r[i] = irecv(ep, in + (size_t)i * MAX, MAX, round << 8 | i, MX_MATCH_MASK_NONE);
		for (unsigned i = 0; i < WINDOW; i++)
			s[i] = rand_r(&seed) % 3
				       ? isend(ep, other, out + (size_t)i * MAX, len[i], round << 8 | i)
				       : issend(ep, other, out + (size_t)i * MAX, len[i], round << 8 | i);
		for (unsigned i = WINDOW; i-- > 0 && late;)
			r[i] = irecv(ep, in + (size_t)i * MAX, MAX, round << 8 | i, MX_MATCH_MASK_NONE);
		for (unsigned i = 0; i < WINDOW; i++) {
			CHECK(finish_well(ep, r[i]).msg_length == len[i]);
			CHECK(is_pattern(in + (size_t)i * MAX, len[i], round + i));
			finish_well(ep, s[i]);
		}
	}
	free(in);
	free(out);
}

/* Many receives posted and many messages under way at once. */
static void many(void)
{
	enum { N = 5000 };
	static mx_request_t s[N], r[N];
	static unsigned in[N], out[N];
	for (unsigned i = 0; i < N; i++)
		r[i] = irecv(ep, &in[i], sizeof(in[i]), i, MX_MATCH_MASK_NONE);
	for (unsigned i = N; i-- > 0;) {
		out[i] = i * 3;
		s[i] = isend(ep, other, &out[i], sizeof(out[i]), i);
	}
	for (unsigned i = 0; i < N; i++) {
		finish_well(ep, r[i]);
		CHECK(in[i] == i * 3);
		finish_well(ep, s[i]);
	}
}

/* A synchronous message ends when it is received, and not before. */
static void synchronous(void)
{
	uint32_t result;
	mx_status_t st;
	unsigned char byte = 1;
	if (server) {
		finish_well(ep, irecv(ep, &byte, 1, 2, MX_MATCH_MASK_NONE)); /* sent after the other */
		finish_well(ep, isend(ep, other, &byte, 1, 3));
		finish_well(ep, irecv(ep, &byte, 1, 4, MX_MATCH_MASK_NONE));
		finish_well(ep, irecv(ep, &byte, 1, 1, MX_MATCH_MASK_NONE));
		return;
	}
	mx_request_t s = issend(ep, other, &byte, 1, 1);
	finish_well(ep, isend(ep, other, &byte, 1, 2));
	finish_well(ep, irecv(ep, &byte, 1, 3, MX_MATCH_MASK_NONE)); /* so the first has been there, too */
	OK(mx_test(ep, &s, &st, &result));
	CHECK(!result);
	finish_well(ep, isend(ep, other, &byte, 1, 4));
	finish_well(ep, s);
}

/* A host that is not there: nobody waits longer than he wants to. 10.77.0.9 is nobody's in net.py. */
static void no_such_host(void)
{
	mx_endpoint_addr_t addr;
	mx_request_t r;
	uint64_t nic;
	uint32_t result;
	OK(mx_hostname_to_nic_id("10.77.0.9", &nic));
	CHECK(mx_connect(ep, nic, 1, KEY, 50, &addr) == MX_TIMEOUT);
	OK(mx_iconnect(ep, nic, 1, KEY, 7, NULL, &r));
	OK(mx_cancel(ep, &r, &result));
	CHECK(result && !r);
	OK(mx_iconnect(ep, nic, 1, KEY, 7, NULL, &r));
	OK(mx_set_request_timeout(ep, r, 20));
	mx_status_t st = finish(ep, r);
	CHECK(st.code == MX_STATUS_TIMEOUT && st.match_info == 7);
}

/* Connections that must not come about. */
static void refused(void)
{
	mx_endpoint_addr_t addr;
	mx_request_t r;
	uint64_t nic;
	uint32_t id, result;
	if (server) { /* computes, so to speak: others connect all the same */
		CHECK(finish_well(ep, irecv(ep, NULL, 0, 1, MX_MATCH_MASK_NONE)).code == MX_STATUS_SUCCESS);
		return;
	}
	OK(mx_decompose_endpoint_addr(other, &nic, &id));
	mx_set_error_handler(MX_ERRORS_RETURN);
	CHECK(mx_connect(ep, nic, id, KEY + 1, MX_INFINITE, &addr) == MX_BAD_CONNECTION_KEY);
	CHECK(mx_connect(ep, nic, 254, KEY, MX_INFINITE, &addr) == MX_CONNECTION_FAILED);
	CHECK(mx_connect(ep, nic, 1 << 20, KEY, MX_INFINITE, &addr) == MX_BAD_ENDPOINT_ID);
	CHECK(mx_connect(ep, 5, id, KEY, MX_INFINITE, &addr) == MX_NIC_NOT_FOUND);
	OK(mx_iconnect(ep, nic, id, KEY + 1, 7, &addr, &r));
	mx_status_t st = finish(ep, r);
	CHECK(st.code == MX_STATUS_BAD_KEY && st.match_info == 7 && st.context == &addr);
	OK(mx_iconnect(ep, nic, 254, KEY, 7, &addr, &r));
	CHECK(finish(ep, r).code == MX_STATUS_ENDPOINT_CLOSED);
	if (far)
		no_such_host();
	OK(mx_set_request_timeout(ep, NULL, 10000));
	OK(mx_iconnect(ep, nic, id, KEY, 7, &addr, &r));
	OK(mx_set_request_timeout(ep, r, MX_INFINITE));
	OK(mx_wait_any(ep, MX_INFINITE, 7, MX_MATCH_MASK_NONE, &st, &result));
	CHECK(result && st.code == MX_STATUS_SUCCESS && memcmp(&st.source, &other, sizeof(other)) == 0);
	finish_well(ep, isend(ep, other, NULL, 0, 1));
}

/* The other side is killed: what is under way with it ends, and its number is free. */
static void killed(void)
{
	static unsigned char big[1 << 20];
	uint64_t nic;
	uint32_t id;
	if (!server) {
		finish_well(ep, isend(ep, other, big, 1, 1));
		pause();
	}
	finish_well(ep, irecv(ep, big, 1, 1, MX_MATCH_MASK_NONE));
	OK(mx_decompose_endpoint_addr(other, &nic, &id));
	mx_request_t s = issend(ep, other, big, sizeof(big), 2);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
	child = 0;
	CHECK(finish(ep, s).code == MX_STATUS_ENDPOINT_CLOSED);
	CHECK(finish(ep, isend(ep, other, big, 1, 3)).code == MX_STATUS_ENDPOINT_CLOSED);
	OK(mx_close_endpoint(open_again(id)));
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{"pingpong", pingpong}, {"random_loop", random_loop},
		{"many", many},		{"synchronous", synchronous},
		{"refused", refused},	{"killed", killed},
		{NULL, NULL},
	};
	alarm(50);
	if (argc > 3)
		meet_named(argv[2], argv[3]);
	else if (argc > 1)
		meet_forked();
	int rc = run_tests(tests, argc, argv);
	if (argc > 1)
		part();
	return rc;
}
