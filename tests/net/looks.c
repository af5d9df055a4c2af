/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a driver looks that has two places to look at (both.c), while one of them gives, or neither: here the places
 * are this program's.
 */
#include "net/bulk.h"
#include "net/ring.h"
#include <stdio.h>

static unsigned receive_ring(struct sn_ring *r, struct sn_net_in *frames, unsigned max);
static const struct sn_net_driver udp;

#define sn_net_udp	udp
#define sn_net_both	tested
#define sn_ring_receive receive_ring
#include "net/both.c"

static unsigned in_ring, in_udp, looks; /* looks: at UDP */
static bool failed;

static unsigned receive_ring(struct sn_ring *r, struct sn_net_in *frames, unsigned max)
{
	unsigned n = SN_MIN_OF(in_ring, max);

	in_ring -= n;
	return n;
}

static unsigned receive_udp(void *drv, struct sn_net_in *frames, unsigned max,
			    const struct sn_net_place *place)
{
	unsigned n = SN_MIN_OF(in_udp, max);

	looks++;
	in_udp -= n;
	return n;
}

static const struct sn_net_driver udp = {.receive = receive_udp};

/* So many looks, all of which are due at UDP; each finds so much in the ring. Returns how many were made there. */
static unsigned look(struct both *b, unsigned count, unsigned ring)
{
	struct sn_net_in frames[SN_NET_BATCH];

	looks = 0;
	for (unsigned i = 0; i < count; i++) {
		in_ring = ring;
		tested.wide(b, false);
		tested.receive(b, frames, SN_NET_BATCH, NULL);
	}
	return looks;
}

static void expect(const char *when, unsigned found, unsigned least, unsigned most)
{
	if (found >= least && found <= most)
		return;
	printf("FAILED: %s: %u looks at UDP, not %u to %u\n", when, found, least, most);
	failed = true;
}

int main(void)
{
	struct both b = {.fd = -1};
	struct sn_net_in frames[SN_NET_BATCH];

	look(&b, 1000, 1);
	expect("the ring gives", look(&b, 800, 1), 100, 100);
	look(&b, SELDOM, 0);
	expect("the ring has fallen silent", look(&b, 100, 0), 100, 100);
	expect("it gives again", look(&b, 800, 1), 99, 101);
	in_udp = 1;
	expect("a datagram has come", look(&b, SELDOM, 1), 1, SELDOM);
	expect("and is taken", in_udp, 0, 0);
	expect("so the two give in turn", look(&b, 20, 1), 20, 20);
	look(&b, 1000, 1);
	in_udp = 1;
	tested.wide(&b, true);
	looks = 0;
	tested.receive(&b, frames, SN_NET_BATCH, NULL);
	expect("it has to be", looks, 1, 1);
	return failed || in_udp;
}
