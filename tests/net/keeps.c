/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bodies of which the sender keeps a copy: their requests end at once, the model writes over the buffers then, and
 * what the network loses comes from the copy. Long ones only where bodies go one at a time. Two engines in a
 * simulated network, the time is theirs.
 */
#include "sim.h"

#define LONG 260000

static struct node *a, *b;

static void come(void)
{
	uint64_t until = sim.now + 2000 * SIM_MS;

	while (sim.now < until && model_undelivered() && !sim.failed)
		sim_run(sim.now + SIM_MS);
	sim_run(sim.now + 20 * SIM_MS); /* DONE, too */
	model_check_all(false);
}

/* Is there a copy of the newest body that n has announced? */
static bool keeps(const struct node *n)
{
	const struct sn_net_link *l = sn_container(n->net->links.next, struct sn_net_link, node);

	return !sn_list_empty(&l->sends) &&
	       sn_container(l->sends.prev, struct sn_net_send, node)->kept.iov_base != NULL;
}

static void to_and_fro(unsigned times, bool kept)
{
	for (unsigned i = 0; i < times && !sim.failed; i++) {
		struct node *from = i & 1 ? b : a;
		node_post(from, i & 1 ? a : b, LONG);
		if (keeps(from) != kept)
			sim_fail(kept ? "a body that goes alone is not kept" : "a body is kept too soon");
		come();
	}
}

static void both(double loss)
{
	const struct sim_net_params p = {
		.delay = 5000, .mtu = 1472, .path_mtu = 65535, .queue = 2048, .loss = loss};

	sim_start(17, &p);
	model_start();
	sim.bare = true;
	a = node_new(0, 3000 * SIM_MS, 16384);
	b = node_new(1, 3000 * SIM_MS, 16384);
	node_post(a, b, 8); /* they meet */
	come();
	if (loss > 0) { /* lost acknowledgements may make a body stay longer than the next one waits */
		for (unsigned i = 0; i < 40; i++) {
			node_post(i & 1 ? b : a, i & 1 ? a : b, LONG);
			come();
		}
	} else {
		to_and_fro(4, true);
		node_post(a, b, LONG);
		node_post(b, a, LONG);
		come();
		to_and_fro(2 * SN_NET_CROSSED - 2, false);
		to_and_fro(2, true);
		node_post(a, b, LONG);
		node_post(a, b, LONG);
		if (keeps(a))
			sim_fail("a body behind another one is kept");
		come();
	}
	if (a->net->sends.count || b->net->sends.count)
		sim_fail("a body is not done");
	node_free(a);
	node_free(b);
	sim_end();
	model_end();
}

int main(void)
{
	bool failed = false;

	both(0);
	failed |= sim.failed;
	both(0.03);
	return failed | sim.failed;
}
