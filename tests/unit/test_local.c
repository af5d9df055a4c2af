/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes exchange messages of all shapes over the local rail; every byte is checked (local_harness.h). */
#include "local_harness.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint64_t sizes[] = {0,	1,     7,      8,      39,	40,	 41,	  63,	  64,
				 65,	103,   104,    105,    500,	1000,	 4000,	  4095,	  4096,
				 4097,	8191,  8192,   16383,  16384,	16385,	 20000,	  32768,  65535,
				 65536, 65537, 100003, 300000, 1048576, 1048577, 2500003, 4194304};
#define SIZES (sizeof(sizes) / sizeof(*sizes))

struct plan {
	const char *copy, *fault, *eager, *ring;
	uint64_t messages;
	uint32_t seed;
};
static struct plan plan;

static void settings(void)
{
	setenv("SENNIT_COPY", plan.copy ? plan.copy : "auto", 1);
	setenv("SENNIT_EAGER", plan.eager ? plan.eager : "16384", 1);
	setenv("SENNIT_RING", plan.ring ? plan.ring : "262144", 1);
	sn_conf_reload();
	CHECK(sn_fault_set(plan.fault));
}

/* Send `messages` of varying shape and receive as many, at most 16 of them open at a time. */
static void exchange(struct sn_ep *ep, struct sn_peer_state *peer, uint64_t messages, uint32_t seed)
{
	uint64_t idle = 0;
	while (peer->sent < messages || peer->finished < messages || ep->sends_open) {
		if (peer->sent < messages && ep->sends_open < 16) {
			uint64_t len = sizes[peer->sent < SIZES ? peer->sent : next_random(&seed) % SIZES];
			if (next_random(&seed) % 3 == 0 && len < 100000)
				len = next_random(&seed) % 40000;
			bool inject = len <= SN_INJECT_MAX && next_random(&seed) % 4 == 0;
			CHECK(side_send(peer, len, inject, 1 + next_random(&seed) % 9) >= 0);
			side_progress(ep);
			continue;
		}
		side_step(ep, &idle);
	}
	CHECK(ep->sends_failed == 0 && ep->pulls_failed == 0 && !peer->gone);
}

static void other_side(int sock)
{
	settings();
	struct sn_ep *ep = side_open();
	struct address a = swap_address(sock, ep);
	struct sn_peer_state *peer = peer_add(ep, &a);
	exchange(ep, peer, plan.messages, plan.seed + 1);
	tell(sock, 'd');
	CHECK(hear_progress(sock, ep) == 'd');
	side_close(ep);
}

static struct sn_ep *both(struct sn_peer_state **peer, int *sock, pid_t *pid)
{
	*pid = spawn(other_side, sock);
	settings();
	struct sn_ep *ep = side_open();
	struct address a = swap_address(*sock, ep);
	*peer = peer_add(ep, &a);
	exchange(ep, *peer, plan.messages, plan.seed);
	CHECK(hear_progress(*sock, ep) == 'd');
	tell(*sock, 'd');
	return ep;
}

static void end(struct sn_ep *ep, int sock, pid_t pid)
{
	side_close(ep);
	close(sock);
	reap(pid);
}

static struct sn_ep *run(struct plan p, int *sock, pid_t *pid)
{
	struct sn_peer_state *peer;
	plan = p;
	return both(&peer, sock, pid);
}

static void all_sizes_by_read(void **state)
{
	int sock;
	pid_t pid;
	struct sn_ep *ep = run((struct plan){.copy = "read", .messages = 300, .seed = 1}, &sock, &pid);
	if (side_count(ep, "local.refused_read") == 0) {
		assert_true(side_count(ep, "local.copy_read_bytes") > 0);
		assert_int_equal(side_count(ep, "local.copy_stream_bytes"), 0);
	}
	end(ep, sock, pid);
}

static void all_sizes_by_write(void **state)
{
	int sock;
	pid_t pid;
	struct sn_ep *ep = run((struct plan){.copy = "write", .messages = 300, .seed = 2}, &sock, &pid);
	if (side_count(ep, "local.refused_write") == 0)
		assert_true(side_count(ep, "local.copy_write_bytes") > 0);
	assert_int_equal(side_count(ep, "local.copy_read_bytes"), 0);
	end(ep, sock, pid);
}

static void all_sizes_by_stream(void **state)
{
	int sock;
	pid_t pid;
	struct sn_ep *ep = run((struct plan){.copy = "stream", .messages = 300, .seed = 3}, &sock, &pid);
	assert_true(side_count(ep, "local.copy_stream_bytes") > 0);
	assert_int_equal(side_count(ep, "local.copy_read_bytes"), 0);
	assert_int_equal(side_count(ep, "local.copy_write_bytes"), 0);
	end(ep, sock, pid);
}

static void all_sizes_through_a_small_ring(void **state)
{
	int sock;
	pid_t pid;
	struct plan p = {.copy = "stream", .ring = "16384", .eager = "64", .messages = 300, .seed = 4};
	struct sn_ep *ep = run(p, &sock, &pid);
	assert_true(side_count(ep, "local.tx_queued") > 0);
	end(ep, sock, pid);
}

int main(void)
{
	alarm(55);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_sizes_by_read),
		cmocka_unit_test(all_sizes_by_write),
		cmocka_unit_test(all_sizes_by_stream),
		cmocka_unit_test(all_sizes_through_a_small_ring),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
