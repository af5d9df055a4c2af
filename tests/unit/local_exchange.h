/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes that exchange messages of all shapes under given settings and injected faults. */
#ifndef LOCAL_EXCHANGE_H
#define LOCAL_EXCHANGE_H

#include "local_harness.h"

static const uint64_t sizes[] = {0,	1,     7,      8,      39,	40,	 41,	  63,	  64,
				 65,	103,   104,    105,    500,	1000,	 4000,	  4095,	  4096,
				 4097,	8191,  8192,   16383,  16384,	16385,	 20000,	  32768,  65535,
				 65536, 65537, 100003, 300000, 1048576, 1048577, 2500003, 4194304};
#define SIZES (sizeof(sizes) / sizeof(*sizes))

struct plan {
	const char *copy, *fault, *eager, *ring;
	uint64_t messages;
	uint32_t seed;
	uint32_t percent;
	uint32_t walls; /* CLONE_NEW... */
	bool refuse;
};
static struct plan plan;

static inline void settings(void)
{
	setenv("SENNIT_COPY", plan.copy ? plan.copy : "auto", 1);
	setenv("SENNIT_EAGER", plan.eager ? plan.eager : "16384", 1);
	setenv("SENNIT_RING", plan.ring ? plan.ring : "262144", 1);
	sn_conf_reload();
	CHECK(sn_fault_set(plan.fault));
}

/* Send `messages` of varying shape and receive as many, at most 16 of them open at a time. */
static inline void exchange(struct sn_ep *ep, struct sn_peer_state *peer, uint64_t messages, uint32_t seed)
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

static inline void other_side(int sock)
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

static inline struct sn_ep *both(struct sn_peer_state **peer, int *sock, pid_t *pid)
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

static inline void end(struct sn_ep *ep, int sock, pid_t pid)
{
	side_close(ep);
	close(sock);
	reap(pid);
}

static inline struct sn_ep *run(struct plan p, int *sock, pid_t *pid)
{
	struct sn_peer_state *peer;
	plan = p;
	return both(&peer, sock, pid);
}

#endif
