/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a sender waits before it sends a short message again, and a receiver before it asks again: no longer than
 * it must where frames are lost, and long enough where they are not. Two engines in a simulated network, the time is
 * theirs.
 */
#include "sim.h"

#define TIMEOUT (3000 * SIM_MS)
#define BODIES	80

static struct node *a, *b;
static bool failed;
static unsigned slow_bodies; /* that took as long as the timer for a peer who is away */

static uint64_t settle(uint64_t step, uint64_t longest)
{
	uint64_t start = sim.now;

	do
		sim_run(sim.now + step);
	while (model_undelivered() && !sim.failed && sim.now < start + longest);
	if (model_undelivered())
		sim_fail("a message took more than %llu ms", (unsigned long long)(longest / SIM_MS));
	return sim.now - start;
}

static void to_and_fro(unsigned messages, uint64_t step)
{
	for (unsigned i = 0; i < messages && !sim.failed; i++) {
		node_post(i & 1 ? b : a, i & 1 ? a : b, 8);
		settle(step, 400 * SIM_MS);
	}
}

/* Connected, and the round trip known. */
static struct sn_net_way *pair(uint64_t seed, double loss)
{
	const struct sim_net_params p = {
		.delay = 5000, .loss = loss, .mtu = 1472, .path_mtu = 65535, .queue = 2048};

	sim_start(seed, &p);
	model_start();
	a = node_new(0, TIMEOUT, 16384);
	b = node_new(1, TIMEOUT, 16384);
	to_and_fro(20, 20 * SIM_MS);
	return &sn_container(a->net->links.next, struct sn_net_link, node)->way[0];
}

static void end(void)
{
	model_check_all(false);
	failed |= sim.failed;
	node_free(a);
	node_free(b);
	sim_end();
	model_end();
}

/*
 * Those that are lost cost their timers and no more: each is there after one or two of the shortest, and the others
 * do not notice.
 */
static void lossy(uint64_t seed, double loss, unsigned lost)
{
	const unsigned messages = 600;

	pair(seed, loss);
	uint64_t start = sim.now;
	to_and_fro(messages, 20000);
	if (sim.now - start > messages * 20000ull + lost * 2 * SN_NET_RTO_ONE)
		sim_fail("seed %llu: %u messages took %lu us", (unsigned long long)seed, messages,
			 (unsigned long)((sim.now - start) / 1000));
	end();
}

/*
 * What is lost of bodies that came unasked, and is lost again when it has been asked for, costs timers made from the
 * round trip of the messages, though no answer to a PULL has ever been measured; and short ones, for who sends at
 * this moment is not away: a body of which the end is lost is there before the timer for a peer who is would have
 * fired.
 */
static void lossy_bodies(uint64_t seed)
{
	pair(seed, 0.01);
	for (unsigned i = 0; i < BODIES && !sim.failed; i++) {
		node_post(i & 1 ? b : a, i & 1 ? a : b, 65536);
		uint64_t took = settle(20000, 400 * SIM_MS);
		if (took >= SN_NET_RTO_FIRST)
			sim_fail("seed %llu: a body of 64 KiB took %llu us", (unsigned long long)seed,
				 (unsigned long long)took / 1000);
		slow_bodies += took >= SN_NET_RTO_MIN;
	}
	end();
}

/*
 * Messages to one who takes them as they come, goes away to compute, and so acknowledges late: the sender learns that
 * from the first ones that it sends again, for nothing is lost. And then it waits for a lost one no longer than
 * before, if answers come promptly again.
 */
static void computes(uint64_t seed)
{
	const struct sn_net_way *way = pair(seed, 0);
	uint64_t prompt = sn_net_stream_rto(way), away = (2 + sim_below(14)) * SIM_MS;

	for (unsigned i = 0; i < 60; i++) {
		node_post(a, b, 8);
		sim_run(sim.now + 20000);
		b->asleep_until = sim.now + away;
		sim_run(b->asleep_until + SIM_MS);
	}
	if (model_undelivered() || a->net->counts[SN_NC_RESEND_TIMER] > 12)
		sim_fail("%llu of 60 sent again to one who is %llu ms away",
			 (unsigned long long)a->net->counts[SN_NC_RESEND_TIMER],
			 (unsigned long long)(away / SIM_MS));
	to_and_fro(200, 20 * SIM_MS);
	if (prompt > SN_NET_MS / 2 || sn_net_stream_rto(way) > prompt)
		sim_fail("the timer is %llu us after prompt answers, and was %llu",
			 (unsigned long long)sn_net_stream_rto(way) / 1000,
			 (unsigned long long)prompt / 1000);
	end();
}

int main(void)
{
	for (uint64_t seed = 1; seed <= 60 && !failed; seed++) {
		lossy(seed, 0.001, 8); /* more are lost less often than once in 1e8 */
		lossy(seed, 0.01, 25);
		lossy_bodies(seed);
		computes(seed);
	}
	printf("%u of %u bodies waited for the timer for a peer who is away\n", slow_bodies, 60u * BODIES);
	return failed || slow_bodies > 60 * BODIES / 200;
}
