/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process that leaves waits for: that everything it gave away has arrived, and for nothing that cannot come any more.
 * Two engines in a simulated network, the time is theirs.
 */
#include "sim.h"

static struct node *a, *b;
static bool failed;

static void pair(uint64_t seed)
{
	const struct sim_net_params p = {.delay = 20000, .mtu = 1500, .path_mtu = 1500, .queue = 1000};

	sim_start(seed, &p);
	model_start();
	a = node_new(0, 3000 * SIM_MS, 16384);
	b = node_new(1, 3000 * SIM_MS, 16384);
	node_post(a, b, 100);
	node_post(b, a, 100);
	sim_run(sim.now + 100 * SIM_MS);
	if (model_undelivered() || !sn_net_idle(a->net))
		sim_fail("no connection");
}

static void end(void)
{
	failed |= sim.failed;
	node_free(a);
	node_free(b);
	sim_end();
	model_end();
}

/* From here on it is as in the rail's close: nobody above takes anything, and the model fails if it is offered something. */
static void leaves(struct node *n)
{
	n->asleep_until = UINT64_MAX;
	n->quiet = true;
	n->net->closing = true;
	node_progress(n);
}

static void wants(const struct node *n, bool idle, const char *what)
{
	if (sn_net_idle(n->net) != idle)
		sim_fail("%s: %s", what, idle ? "it waits on" : "it does not wait");
}

/* The sender of a body keeps a copy until it hears that all is there. That it must hear, among messages for nobody. */
static void body_out(void)
{
	pair(1);
	node_post(a, b, 20000);
	leaves(a);
	wants(a, false, "a body under way");
	node_post(b, a, 8);
	node_post(b, a, 3000);
	sim_run(sim.now + 50 * SIM_MS);
	wants(a, true, "the body has arrived");
	end();
}

/* The same with the answer there already, unread, when it begins to leave. */
static void answer_in(void)
{
	pair(2);
	node_post(a, b, 20000);
	a->asleep_until = sim.now + 50 * SIM_MS;
	a->quiet = true;
	sim_run(sim.now + 40 * SIM_MS);
	wants(a, false, "an answer that nobody has read");
	leaves(a);
	sim_run(sim.now + 10 * SIM_MS);
	wants(a, true, "the answer is there");
	end();
}

/* Who has left acknowledges nothing. */
static void peer_left(void)
{
	pair(3);
	sim.cut[0][1] = true;
	node_post(a, b, 8);
	leaves(a);
	sim_run(sim.now + 50 * SIM_MS);
	wants(a, false, "a message that was lost");
	sn_net_goodbye(b->net);
	sim_run(sim.now + 10 * SIM_MS);
	wants(a, true, "the peer has left");
	end();
}

int main(void)
{
	body_out();
	answer_in();
	peer_left();
	return failed;
}
