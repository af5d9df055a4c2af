/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives posted from a peer that closes its endpoint in good order (sn_ep_patient, sn_ep_in_vain). */
#include "sennit/sennit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

static bool moves(sn_ep *one, sn_ep *other, sn_req *req, sn_completion *c)
{
	for (int i = 0; i < 1000000; i++) {
		sn_progress(other);
		if (sn_test(one, req, c) == SN_OK)
			return true;
	}
	return false;
}

/* Receives from who has left in good order: without patience they end, with it they are there to be cancelled. */
static void receives_outlive_who_has_left(void **state)
{
	static uint8_t room[65536];
	for (int patient = 0; patient < 2; patient++) {
		uint8_t addr[2][SN_ADDR_MAX];
		size_t len[2] = {SN_ADDR_MAX, SN_ADDR_MAX};
		sn_ep *stays, *leaves;
		sn_peer to, from;
		sn_req *req[3], *r;
		sn_completion c;
		assert_int_equal(sn_ep_open(NULL, &stays), 0);
		assert_int_equal(sn_ep_open(NULL, &leaves), 0);
		assert_int_equal(sn_ep_patient(stays, patient), 0);
		assert_int_equal(sn_ep_address(stays, addr[0], &len[0]), 0);
		assert_int_equal(sn_ep_address(leaves, addr[1], &len[1]), 0);
		assert_int_equal(sn_peer_add(leaves, addr[0], len[0], &to), 0);
		assert_int_equal(sn_peer_add(stays, addr[1], len[1], &from), 0);
		assert_int_equal(sn_isend(leaves, to, "x", 1, 1, &r), 0);
		assert_int_equal(sn_irecv(stays, from, room, 1, 1, UINT64_MAX, &req[0]), 0);
		assert_true(moves(stays, leaves, req[0], &c) && moves(leaves, stays, r, &c));
		assert_int_equal(sn_irecv(stays, from, room, 1, 2, UINT64_MAX, &req[0]), 0);
		assert_int_equal(sn_irecv(stays, from, room, sizeof(room), 3, UINT64_MAX, &req[1]), 0);
		sn_progress(stays);
		assert_int_equal(sn_ep_in_vain(stays), 0);
		sn_ep_close(leaves);
		while (!sn_peer_left(stays, from))
			sn_progress(stays);
		assert_int_equal(sn_irecv(stays, from, room, 1, 4, UINT64_MAX, &req[2]), 0);
		assert_int_equal(sn_ep_in_vain(stays), patient ? SN_ERR_PEER_GONE : 0);
		for (int i = 0; i < 3; i++) {
			int status = patient ? SN_ERR_CANCELED : SN_ERR_PEER_GONE;
			if (patient) {
				assert_int_equal(sn_test(stays, req[i], &c), SN_ERR_AGAIN);
				assert_int_equal(sn_cancel(stays, req[i]), SN_OK);
			}
			assert_int_equal(sn_wait(stays, req[i], &c, 60000000), SN_OK);
			assert_int_equal(c.status, status);
		}
		assert_int_equal(sn_ep_in_vain(stays), 0);
		sn_ep_close(stays);
	}
	assert_int_equal(sn_ep_patient(NULL, 1), SN_ERR_INVALID);
	assert_int_equal(sn_ep_in_vain(NULL), SN_ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(receives_outlive_who_has_left)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
