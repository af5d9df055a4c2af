/* SPDX-License-Identifier: BSD-3-Clause */
/* Two endpoints of this process, each of which knows the other, and what their callback was told last. */
#ifndef SN_TESTS_SIDES_H
#define SN_TESTS_SIDES_H

#include "sennit/sennit.h"
#include "unit.h"

static struct {
	sn_ep *ep;
	sn_peer peer; /* the other side */
} side[2];

static inline void sides_open(const sn_ep_attr *attr)
{
	uint8_t addr[2][SN_ADDR_MAX];
	size_t len[2] = {SN_ADDR_MAX, SN_ADDR_MAX};
	setenv("SENNIT_NET", "off", 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sn_ep_open(attr, &side[i].ep), 0);
		assert_int_equal(sn_ep_address(side[i].ep, addr[i], &len[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(sn_peer_add(side[i].ep, addr[!i], len[!i], &side[i].peer), 0);
}

/* A cmocka teardown. */
static inline int sides_close(void **state)
{
	for (int i = 0; i < 2; i++)
		sn_ep_close(side[i].ep);
	return 0;
}

static struct {
	unsigned count;
	sn_completion last;
} told;

static inline void tell(void *arg, const sn_completion *c)
{
	told.count++;
	told.last = *c;
}

#endif
