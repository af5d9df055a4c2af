/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bodies of which the sender keeps a copy: their requests end at once, the model writes over the buffers then, and
 * what the network loses comes from the copy. Long ones only where bodies go one at a time; short ones behind others
 * once their sender looks and finds nothing. Two engines in a simulated network, the time is theirs.
 */
#include "sim.h"

#define LONG  260000
#define SHORT 17000
#define ROW   12
#define PEERS 12
#define LOOKS 20 /* more than a sender makes before he takes it that he waits, and one for each copy */

static struct node *a, *b;

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
		model_come();
	}
}

static void meet(double loss)
{
	model_meet(17, loss, &a, &b);
}

static void part(void)
{
	if (a->net->sends.count || b->net->sends.count)
		sim_fail("a body is not done");
	if (a->net->keep.late || b->net->keep.late)
		sim_fail("copies are counted that are no more");
	model_part(a, b);
}

/* How many of what a has announced have a copy? */
static unsigned copies(void)
{
	const struct sn_net_link *l = sn_container(a->net->links.next, struct sn_net_link, node);
	unsigned count = 0;

	sn_list_for_each (at, &l->sends)
		count += sn_container(at, struct sn_net_send, node)->kept.iov_base != NULL;
	return count;
}

/* A row of short ones: the first goes alone. Nothing comes while a looks. */
static void late(double loss)
{
	meet(loss);
	for (unsigned i = 0; i < ROW; i++)
		node_post(a, b, SHORT);
	if (copies() > 1)
		sim_fail("%u copies are made before their sender waits", copies());
	for (unsigned i = 0; i < LOOKS; i++)
		node_progress(a);
	if (copies() != 1 + SN_NET_KEEPS)
		sim_fail("%u copies of %u bodies are made for one who waits, not %u", copies(), ROW,
			 1 + SN_NET_KEEPS);
	model_come();
	for (unsigned i = 0; i < 40 && !sim.failed; i++) { /* and again, with the same memory */
		for (unsigned k = 0; k < ROW / 2; k++)
			node_post(a, b, SHORT + 1000 * k);
		for (unsigned k = sim_below(LOOKS); k > 0; k--)
			node_progress(a);
		model_come();
	}
	part();
}

/*
 * What of a body is asked for again may wait for the driver while its sender looks, and stand in the batch when the
 * copy is made: the program writes over its buffer then, and what leaves would be damaged.
 */
static void asked_again(void)
{
	meet(0.05);
	for (unsigned i = 0; i < 400 && !sim.failed; i++) {
		for (unsigned k = 2 + sim_below(ROW); k > 0; k--)
			node_post(a, b, 3000 + sim_below(SHORT - 3000));
		model_come();
	}
	if (b->net->drops[SN_DROP_CHECK])
		sim_fail("%llu pieces leave after their request has ended",
			 (unsigned long long)b->net->drops[SN_DROP_CHECK]);
	part();
}

static unsigned taken;

static void take(unsigned from, uint64_t len)
{
	taken += from == a->slot && len == SHORT;
}

/* Of what a has announced the requests that have not ended. */
static unsigned waiting(void)
{
	unsigned count = 0;

	sn_list_for_each (at, &a->net->links) {
		const struct sn_net_link *l = sn_container(at, struct sn_net_link, node);
		sn_list_for_each (s, &l->sends)
			count += sn_container(s, struct sn_net_send, node)->req != NULL;
	}
	return count;
}

/*
 * Three bodies to each of some peers, who get them and go away: DONE of the last may not be what they leave with, if a
 * waits for it and makes no copy. chatter: meanwhile something comes from somebody else at each look.
 */
static void gone_away(unsigned peers, bool chatter)
{
	struct node *to[PEERS];
	const uint8_t junk[64] = {0};
	bool gone = false;

	meet(0);
	taken = 0;
	for (unsigned i = 0; i < peers; i++) {
		to[i] = node_new(2 + i, 3000 * SIM_MS, 16384);
		node_post(a, to[i], 8);
	}
	model_come();
	model_taken = take;
	for (unsigned i = 0; i < 1000 && (taken < 3 * peers || waiting()); i++) {
		for (unsigned k = 0; i == 20 && k < 3 * peers; k++)
			node_post(a, to[k % peers], SHORT);
		for (uint64_t k = 0; k < 10 && chatter; k++)
			sim_inject(a->slot, junk, sizeof(junk), 100 * k);
		sim_run(sim.now + 1000);
		for (unsigned k = 0; k < peers && taken == 3 * peers; k++)
			to[k]->asleep_until = gone ? to[k]->asleep_until : sim.now + 20 * SIM_MS;
		gone = taken == 3 * peers;
	}
	if (taken < 3 * peers || waiting())
		sim_fail("%u of %u bodies are there, and a waits for %u", taken, 3 * peers, waiting());
	model_come();
	model_taken = NULL;
	for (unsigned i = 0; i < peers; i++)
		node_free(to[i]);
	part();
}

static void both(double loss)
{
	meet(loss);
	if (loss > 0) { /* lost acknowledgements may make a body stay longer than the next one waits */
		for (unsigned i = 0; i < 40; i++) {
			node_post(i & 1 ? b : a, i & 1 ? a : b, LONG);
			model_come();
		}
	} else {
		to_and_fro(4, true);
		node_post(a, b, LONG);
		node_post(b, a, LONG);
		model_come();
		to_and_fro(2 * SN_NET_CROSSED - 2, false);
		to_and_fro(2, true);
		node_post(a, b, LONG);
		node_post(a, b, LONG);
		if (keeps(a))
			sim_fail("a body behind another one is kept");
		model_come();
	}
	part();
}

int main(void)
{
	bool failed = false;

	both(0);
	failed |= sim.failed;
	both(0.03);
	failed |= sim.failed;
	late(0);
	failed |= sim.failed;
	late(0.03);
	failed |= sim.failed;
	asked_again();
	failed |= sim.failed;
	gone_away(PEERS, false);
	failed |= sim.failed;
	gone_away(1, true);
	return failed | sim.failed;
}
