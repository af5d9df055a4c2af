/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes exchange messages of all shapes over the local rail; every byte is checked (local_harness.h). */
#include "local_exchange.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void all_sizes_by_read(void **state)
{
	int sock;
	pid_t pid;
	struct sn_ep *ep = run((struct plan){.copy = "read", .messages = 150, .seed = 1}, &sock, &pid);
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
	struct sn_ep *ep = run((struct plan){.copy = "write", .messages = 150, .seed = 2}, &sock, &pid);
	if (side_count(ep, "local.refused_write") == 0)
		assert_true(side_count(ep, "local.copy_write_bytes") > 0);
	assert_int_equal(side_count(ep, "local.copy_read_bytes"), 0);
	end(ep, sock, pid);
}

static void all_sizes_by_stream(void **state)
{
	int sock;
	pid_t pid;
	struct sn_ep *ep = run((struct plan){.copy = "stream", .messages = 150, .seed = 3}, &sock, &pid);
	assert_true(side_count(ep, "local.copy_stream_bytes") > 0);
	assert_int_equal(side_count(ep, "local.copy_read_bytes"), 0);
	assert_int_equal(side_count(ep, "local.copy_write_bytes"), 0);
	end(ep, sock, pid);
}

static void all_sizes_through_a_small_ring(void **state)
{
	int sock;
	pid_t pid;
	struct plan p = {.copy = "stream", .ring = "16384", .eager = "64", .messages = 150, .seed = 4};
	struct sn_ep *ep = run(p, &sock, &pid);
	assert_true(side_count(ep, "local.tx_queued") > 0);
	end(ep, sock, pid);
}

int main(void)
{
	alarm(TEST_SECONDS);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_sizes_by_read),
		cmocka_unit_test(all_sizes_by_write),
		cmocka_unit_test(all_sizes_by_stream),
		cmocka_unit_test(all_sizes_through_a_small_ring),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
