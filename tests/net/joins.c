/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths that lose packets of several frames, or all that are like bodies, at first, from some moment on, or on one
 * rail of two: what leaves otherwise comes through. Two engines in a simulated network, the time is theirs.
 */
#include "sim.h"

static struct node *a, *b;
static bool failed;

static void begin(uint64_t seed, unsigned rails, unsigned unjoined)
{
	const struct sim_net_params p = {.delay = 5000, .mtu = 1472, .path_mtu = 65535, .queue = 2048};

	sim_start(seed, &p);
	sim.rails = rails;
	sim.unjoined = unjoined;
	for (unsigned i = 0; i < rails; i++) /* both are worth using */
		sim.rail[i].byte_time_ps = rails > 1 ? 1000 : 0;
	model_start();
	a = node_new(0, 3000 * SIM_MS, 16384);
	b = node_new(1, 3000 * SIM_MS, 16384);
}

static void end(void)
{
	failed |= sim.failed;
	node_free(a);
	node_free(b);
	sim_end();
	model_end();
}

static void all_come(uint64_t longest)
{
	uint64_t until = sim.now + longest;

	for (unsigned i = 0; i < 4; i++)
		node_post(a, b, 300000);
	while (sim.now < until && model_undelivered() && !sim.failed)
		sim_run(sim.now + 5 * SIM_MS);
	model_check_all(false);
}

static const struct sn_net_way *ways(void)
{
	return sn_container(a->net->links.next, struct sn_net_link, node)->way;
}

/*
 * A path that begins to lose joined packets costs time, and little of it; it is used for them again when it carries
 * them again.
 */
static void unjoins(unsigned at_first)
{
	begin(1 + at_first, 1, at_first);
	all_come(3000 * SIM_MS);
	const struct sn_net_way *w = ways();
	if (w->joins == (at_first == 1))
		sim_fail(w->joins ? "lost packets are said to pass" : "packets that pass are not tried");
	sim.unjoined = 0;
	sim_run(sim.now + 6000 * SIM_MS);
	all_come(3000 * SIM_MS);
	if (!w->joins)
		sim_fail("packets that pass again are not tried again");
	sim.unjoined = 1;
	all_come(200 * SIM_MS);
	if (w->joins || a->net->counts[SN_NC_JOIN_DOUBTS] == 0)
		sim_fail("packets that are lost are sent again and again");
	end();
}

/*
 * The same on one of two rails, where what does not come by one is asked for on the other: it is that one that is
 * doubted, and the good one is not.
 */
static void one_unjoins(unsigned bad)
{
	begin(3 + bad, 2, 0);
	for (unsigned i = 0; i < 5; i++)
		all_come(3000 * SIM_MS);
	const struct sn_net_way *w = ways();
	uint64_t tried = w[!bad].join_from;
	if (!w[0].joins || !w[1].joins)
		sim_fail("packets that pass are not tried");
	sim.unjoined = 1u << bad;
	all_come(3000 * SIM_MS);
	for (unsigned i = 0; i < 20; i++)
		all_come(50 * SIM_MS);
	if (w[bad].joins)
		sim_fail("packets that are lost are sent again and again");
	if (!w[!bad].joins || w[!bad].join_from != tried)
		sim_fail("a good rail is doubted");
	end();
}

/*
 * Nothing that is like a body comes through on these rails, from the beginning or later: it goes as other frames do,
 * and stays so.
 */
static void no_bodies(unsigned rails, unsigned bad, bool later)
{
	begin(5 + rails, rails, 0);
	for (unsigned i = 0; later && i < 3; i++)
		all_come(50 * SIM_MS);
	sim.bodiless = bad;
	for (unsigned i = 0; i < 3; i++)
		all_come(500 * SIM_MS);
	for (unsigned i = 0; i < 4; i++) {
		sim_run(sim.now + 20000 * SIM_MS);
		all_come(50 * SIM_MS);
	}
	const struct sn_net_way *w = ways();
	for (unsigned i = 0; i < rails; i++)
		if (w[i].plain != (bad >> i & 1))
			sim_fail(w[i].plain ? "a good rail has no bodies"
					    : "bodies are lost again and again");
	sim.bodiless = 0;
	sim_run(sim.now + 6000 * SIM_MS);
	if (w[0].plain || w[rails - 1].plain)
		sim_fail("what passes again is not tried again");
	end();
}

/* Who was away while he was asked has lost nothing, however often that was. */
static void away(void)
{
	begin(9, 1, 0);
	for (unsigned i = 0; i < 3; i++)
		all_come(50 * SIM_MS);
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned k = 0; k < 4; k++)
			node_post(a, b, 300000);
		sim_run(sim.now + 4000 + sim_below(4000));
		a->asleep_until = sim.now + 20 * SIM_MS;
		sim_run(a->asleep_until);
		all_come(50 * SIM_MS);
	}
	if (b->net->counts[SN_NC_AGAIN_TIMER] < 20)
		sim_fail("nobody was asked again");
	if (!ways()->joins || a->net->counts[SN_NC_JOIN_DOUBTS])
		sim_fail("%llu doubts", (unsigned long long)a->net->counts[SN_NC_JOIN_DOUBTS]);
	end();
}

int main(void)
{
	away();
	for (unsigned i = 0; i < 2; i++) {
		unjoins(i);
		one_unjoins(i);
		no_bodies(1, 1, i);
		for (unsigned bad = 1; bad < 4; bad++)
			no_bodies(2, bad, i);
	}
	return failed;
}
