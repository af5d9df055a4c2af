/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The budget of small messages between two that know each other: no system call (the rail's own count), no allocation
 * (malloc stands still), and no locked instruction in the functions that do the work (disassembled).
 */
#include "local_exchange.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define MEASURED 1
#endif

#ifdef MEASURED
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
static uint64_t allocations;

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t nmemb, size_t size)
{
	allocations++;
	return __libc_calloc(nmemb, size);
}
#else
static uint64_t allocations;
#endif

static void echo(struct sn_ep *a, struct sn_ep *b, struct sn_peer_state *to_b, struct sn_peer_state *to_a,
		 uint64_t len)
{
	static uint8_t buf[16384];
	uint8_t imm[SN_IMM_MAX];
	struct iovec v = {buf, len};
	struct sn_peer_state *from[2] = {to_b, to_a};
	struct sn_ep *to[2] = {b, a};
	for (int i = 0; i < 2; i++) {
		uint64_t number = from[i]->sent++;
		struct sn_out out = {.head = side_head(number, len, imm), .iov = &v, .iov_count = len != 0};
		pattern_fill(buf, len, number);
		/* the request is only a token: nobody will ask for it */
		assert_int_equal(sn_rail_local.post(from[i]->link, &out, (struct sn_req *)(void *)buf), 1);
		assert_true(side_progress(to[i]) >= 1); /* padding counts too */
	}
}

static void small_messages_cost_no_system_call_and_no_allocation(void **state)
{
	plan = (struct plan){.seed = 0};
	settings();
	struct sn_ep *a = side_open(), *b = side_open();
	struct address at_b = side_address(b);
	struct sn_peer_state *to_b = peer_add(a, &at_b);
	assert_int_equal(side_send(to_b, 1, false, 1), 1);
	while (!b->peer_count || b->peers[0]->finished < 1)
		side_progress(b);
	struct sn_peer_state *to_a = b->peers[0];
	assert_int_equal(side_send(to_a, 1, false, 1), 1);
	while (to_b->finished < 1)
		side_progress(a);
	uint64_t before[2] = {side_count(a, "local.system_calls"), side_count(b, "local.system_calls")};
	uint64_t allocated = allocations;
	for (int i = 0; i < 3000; i++) /* several laps of the ring */
		echo(a, b, to_b, to_a, (uint64_t)(i % 97) * (i % 97));
	assert_int_equal(allocations, allocated);
	assert_int_equal(side_count(a, "local.system_calls"), before[0]);
	assert_int_equal(side_count(b, "local.system_calls"), before[1]);
	assert_true(side_count(a, "local.tx_eager") > 3000);
	side_close(a);
	side_close(b);
}

static void rendezvous_allocates_nothing_in_the_steady_state(void **state)
{
	/* The harness itself allocates requests and buffers, so the rail's share is counted by difference: none grows. */
	plan = (struct plan){.copy = "read"};
	settings();
	struct sn_ep *a = side_open(), *b = side_open();
	struct address at_b = side_address(b);
	struct sn_peer_state *to_b = peer_add(a, &at_b);
	uint64_t cost[2] = {0, 0};
	for (int lap = 0; lap < 40; lap++) {
		uint64_t before = allocations;
		assert_true(side_send(to_b, 20000, false, 1) >= 0);
		while (a->sends_open || !b->peer_count || b->peers[0]->finished < (uint64_t)lap + 1) {
			side_progress(b);
			side_progress(a);
		}
		cost[lap >= 20] = allocations - before;
	}
#ifndef MEASURED
	cost[1] = 4;
#endif
	assert_int_equal(cost[1], 4); /* two requests, two buffers: all of the harness */
	side_close(a);
	side_close(b);
}

static bool locked(const char *line)
{
	if (strstr(line, "lock ") || strstr(line, "mfence") || strstr(line, "\tdmb") ||
	    strstr(line, "\tldaxr"))
		return true;
	const char *xchg = strstr(line, "\txchg ");
	return xchg && strchr(xchg, '('); /* with memory: locked by itself; between registers it is nothing */
}

static void no_locked_instruction_on_the_fast_path(void **state)
{
	static const char *const functions[] = {"sn_send_post",	  "sn_recv_look", "sn_send_now",
						"local_progress", "write_eager",  "take",
						"take_message",	  "poll_rings"};
#ifndef MEASURED
	print_message("not an optimized gcc build: the instructions are not those of the product\n");
	skip();
#endif
	bool seen[3] = {false, false, false};
	for (unsigned i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		char command[200], line[512];
		snprintf(command, sizeof(command),
			 "objdump -d --no-show-raw-insn --disassemble=%s /proc/%d/exe 2>/dev/null",
			 functions[i], (int)getpid());
		FILE *out = popen(command, "r"); /* NOLINT(cert-env33-c): a fixed command about ourselves */
		assert_non_null(out);
		while (fgets(line, sizeof(line), out)) {
			if (i < 3 && strstr(line, ":\t"))
				seen[i] = true;
			if (locked(line))
				fail_msg("%s: %s", functions[i], line);
		}
		pclose(out);
	}
	if (!seen[0] && !seen[1] && !seen[2]) {
		print_message("objdump is not installed (Debian: binutils)\n");
		skip();
	}
	assert_true(seen[0] && seen[1] && seen[2]);
}

int main(void)
{
	alarm(TEST_SECONDS);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_messages_cost_no_system_call_and_no_allocation),
		cmocka_unit_test(rendezvous_allocates_nothing_in_the_steady_state),
		cmocka_unit_test(no_locked_instruction_on_the_fast_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
