/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short cuts that work, that never did, that end in the midst, or while nobody speaks, and peers that are late:
 * nothing is lost, and what it costs is little. Two engines in a simulated network, the time is theirs.
 */
#include "sim.h"

#define TIMEOUT (3000 * SIM_MS)

static struct node *a, *b;
static bool failed;

static void begin(uint64_t seed, bool quick, bool lost)
{
	const struct sim_net_params p = {.delay = 5000, .mtu = 1472, .path_mtu = 65535, .queue = 2048};

	sim_start(seed, &p);
	sim.quick = quick;
	sim.unquick = lost;
	model_start();
	a = node_new(0, TIMEOUT, 16384);
	b = node_new(1, TIMEOUT, 16384);
}

static uint64_t counted(enum sn_net_count what)
{
	return a->net->counts[what] + b->net->counts[what];
}

static void end(void)
{
	if (counted(SN_NC_GONE))
		sim_fail("a peer was given up");
	failed |= sim.failed;
	node_free(a);
	node_free(b);
	sim_end();
	model_end();
}

/* There and back so often; returns how long the longest took. */
static uint64_t rounds(unsigned count, uint64_t len)
{
	uint64_t longest = 0;

	for (unsigned i = 0; i < 2 * count; i++) {
		uint64_t from = sim.now;
		node_post(i & 1 ? b : a, i & 1 ? a : b, len);
		while (sim.now < from + TIMEOUT && model_undelivered() && !sim.failed)
			sim_run(sim.now + 500);
		longest = SN_MAX_OF(longest, sim.now - from);
	}
	model_check_all(false);
	return longest;
}

static uint32_t most(const struct node *n)
{
	return sn_container(n->net->links.next, struct sn_net_link, node)->way[0].path.quick_most;
}

static bool used(void)
{
	return most(a) && most(b);
}

/* One that works is used, and halves the way of what is short; bodies arrive as ever. */
static void works(void)
{
	begin(1, false, false);
	rounds(50, 8);
	uint64_t before = rounds(10, 8);
	end();
	begin(1, true, false);
	rounds(50, 8);
	if (!used() || rounds(10, 8) + 2000 > before)
		sim_fail("a short cut brings nothing");
	rounds(5, 300000);
	rounds(20, 2000);
	if (counted(SN_NC_QUICK_DOUBTS) || counted(SN_NC_RESEND_FAST) || counted(SN_NC_RESEND_TIMER))
		sim_fail("it is doubted");
	end();
}

/* One that never did costs a few frames, and no time. */
static void never_did(void)
{
	begin(2, false, false);
	uint64_t before = rounds(500, 8);
	end();
	begin(2, true, true);
	uint64_t longest = rounds(500, 8);
	if (longest > before || used() || counted(SN_NC_RESEND_TIMER) || sim.lost > 6)
		sim_fail("%llu ns, not %llu; %llu frames lost", (unsigned long long)longest,
			 (unsigned long long)before, (unsigned long long)sim.lost);
	end();
}

/* Nor does it where one only listens, and tries it while an acknowledgement waits for company: that comes all the same. */
static void never_did_one_way(uint64_t pause)
{
	begin(6, true, true);
	for (unsigned i = 0; i < 20; i++) {
		node_post(a, b, 8);
		sim_run(sim.now + pause);
	}
	if (used() || sim.lost == 0 || counted(SN_NC_RESEND_TIMER))
		sim_fail("%llu sent again, with pauses of %llu ns",
			 (unsigned long long)counted(SN_NC_RESEND_TIMER), (unsigned long long)pause);
	end();
}

/* A short message right behind one that takes several frames does not overtake it: that would look like a loss. */
static void behind_a_train(void)
{
	begin(7, true, false);
	rounds(50, 8);
	for (unsigned i = 0; i < 50; i++) {
		node_post(a, b, 4096);
		node_post(a, b, 8);
		sim_run(sim.now + SIM_MS / 2);
	}
	if (!used() || counted(SN_NC_RESEND_FAST) || counted(SN_NC_QUICK_DOUBTS))
		sim_fail("%llu frames are taken for lost", (unsigned long long)counted(SN_NC_RESEND_FAST));
	end();
}

/* It ends under way: a few ms, once; and is found again when it is there again, and many frames have been sent. */
static void ends(uint64_t len, unsigned until_again)
{
	begin(3, true, false);
	rounds(50, len);
	if (!used())
		sim_fail("it is not used");
	sim.unquick = 1;
	uint64_t longest = rounds(1, len);
	if (longest > 5 * SIM_MS || rounds(20, len) > 5 * SIM_MS || used())
		sim_fail("it costs %llu ns", (unsigned long long)longest);
	uint64_t lost = sim.lost;
	rounds(100, len);
	sim_run(sim.now + 100 * SIM_MS);
	if (sim.lost > lost + 6)
		sim_fail("%llu frames go astray", (unsigned long long)(sim.lost - lost));
	sim.unquick = 0;
	rounds(until_again, len);
	sim_run(sim.now + 10 * SIM_MS);
	if (!used())
		sim_fail("it is not found again");
	end();
}

/* It ends while nobody has anything to say, and both live. */
static void ends_in_silence(void)
{
	begin(4, true, false);
	rounds(50, 8);
	sim.unquick = 1;
	sim_run(sim.now + 3 * TIMEOUT);
	if (rounds(5, 8) > 50 * SIM_MS)
		sim_fail("it is used after silence");
	end();
}

/*
 * Who was away while something was sent again has lost nothing, and the short cut is not to blame, however often that
 * is so.
 */
static void away(void)
{
	begin(5, true, false);
	rounds(50, 8);
	for (unsigned i = 0; i < 50; i++) {
		b->asleep_until = sim.now + 3 * SIM_MS;
		node_post(a, b, 8);
		sim_run(b->asleep_until);
		rounds(4, 8);
		if (!used())
			sim_fail("it is not used after %u times", i);
	}
	if (counted(SN_NC_RESEND_TIMER) == 0)
		sim_fail("nothing was sent again");
	end();
}

int main(void)
{
	works();
	never_did();
	for (uint64_t pause = SIM_MS; pause < 100 * SIM_MS; pause += pause / 4)
		never_did_one_way(pause);
	behind_a_train();
	ends(8, 4200);
	ends(300000, 30);
	ends_in_silence();
	away();
	return failed;
}
