/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Under a library that stands in front of the C library's sockets (libvma and the like) no call goes past it: here
 * the program itself does so, as its functions come before all others.
 */
#include "unit.h"

#include "net/call.h"
#include "net/driver.h"

static unsigned received;

__attribute__((visibility("default"))) ssize_t recv(int fd, void *at, size_t len, int flags)
{
	received++;
	return recvfrom(fd, at, len, flags, NULL, NULL);
}

static void nobody_is_passed_by(void **state)
{
	int pair[2];
	char c = 1;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	sn_net_buffers(pair[0], 4096, 4096);
	assert_false(sn_net_bare_calls);
	assert_int_equal(sn_net_call_send(pair[0], &c, 1), 1);
	assert_int_equal(sn_net_call_recv(pair[1], &c, 1), 1);
	assert_int_equal(received, 1);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_is_passed_by)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
