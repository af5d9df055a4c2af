/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of every length at which the memory of one that nobody has posted for changes, many of each, received in reverse:
 * each has its own memory, for all of its bytes. That serves the next ones, and shorter ones, and is given back with the
 * endpoint, wherever they are then.
 */
#include "pattern.h"
#include "sennit/sennit.h"
#include "unit.h"
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define MANY 150 /* more than a slab holds of the shortest */

static const size_t lengths[] = {SN_INJECT_MAX, 2048, 1024, 512, 256, 128, 64, 8, 0};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static sn_ep *ep;
static sn_peer self;
static uint8_t out[SN_INJECT_MAX], in[SN_INJECT_MAX];

static void open_it(void)
{
	uint8_t addr[SN_ADDR_MAX];
	size_t len = sizeof(addr);
	assert_int_equal(sn_ep_open(NULL, &ep), 0);
	assert_int_equal(sn_ep_address(ep, addr, &len), 0);
	assert_int_equal(sn_peer_add(ep, addr, len, &self), 0);
}

static void send_many(size_t len)
{
	sn_req *req;
	for (unsigned i = 0; i < MANY; i++) {
		pattern_fill(out, len, i);
		assert_int_equal(sn_isend(ep, self, out, len, i, &req), 0);
		assert_int_equal(sn_wait(ep, req, NULL, 10000000), 0);
	}
}

static void receive_many(size_t len)
{
	sn_completion c;
	sn_req *req;
	for (unsigned i = MANY; i-- > 0;) {
		assert_int_equal(sn_irecv(ep, self, in, sizeof(in), i, UINT64_MAX, &req), 0);
		assert_int_equal(sn_wait(ep, req, &c, 10000000), 0);
		assert_int_equal(c.len, len);
		assert_true(pattern_holds(in, len, i));
	}
}

static size_t used(void)
{
	return mallinfo2().uordblks;
}

static void each_has_memory_of_its_own_which_serves_the_next(void **state)
{
	open_it();
	for (size_t k = LENGTHS;
	     k-- > 0;) { /* the shortest first, or those would have what longer ones had */
		send_many(lengths[k]);
		receive_many(lengths[k]);
	}
	size_t before = used();
	for (size_t k = 0; k < LENGTHS; k++) {
		send_many(lengths[k]);
		receive_many(lengths[k]);
	}
	assert_int_equal(used(), before);
	sn_ep_close(ep);
}

static void shorter_ones_need_no_more(void **state)
{
	open_it();
	send_many(lengths[0]);
	receive_many(lengths[0]);
	size_t before = used();
	for (size_t k = 1; k < LENGTHS; k++) {
		send_many(lengths[k]);
		receive_many(lengths[k]);
	}
	assert_int_equal(used(), before);
	send_many(lengths[0]); /* and are as long as they were */
	receive_many(lengths[0]);
	assert_int_equal(used(), before);
	sn_ep_close(ep);
}

static void all_of_it_goes_with_the_endpoint(void **state)
{
	size_t before = 0;
	for (int lap = 0; lap < 3; lap++) {
		open_it();
		for (size_t k = 0; k < LENGTHS; k++)
			send_many(lengths[k]);
		sn_ep_close(ep);
		if (lap == 1)
			before = used();
	}
	assert_in_range(used(), 0, before + 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_memory_of_its_own_which_serves_the_next),
		cmocka_unit_test(shorter_ones_need_no_more),
		cmocka_unit_test(all_of_it_goes_with_the_endpoint),
	};
	setenv("SENNIT_NET", "off", 1);
	setenv("SENNIT_PROGRESS", "0", 1); /* what is allocated is this thread's */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
