/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs that play the core to a rail: a tagged message comes as any other does. */
#ifndef SN_TESTS_ARRIVE_TAGGED_H
#define SN_TESTS_ARRIVE_TAGGED_H

#include "core/rail.h"

int sn_core_arrive_tagged(struct sn_peer_state *peer, uint8_t flags, uint64_t bits, uint64_t data,
			  const void *body, uint64_t len)
{
	const struct sn_in in = {.head = {.kind = SN_K_TAGGED,
					  .flags = flags,
					  .bits = bits,
					  .data = data,
					  .len = len,
					  .imm = ""},
				 .body = len ? body : NULL};

	return sn_core_arrive(peer, &in);
}

#endif
