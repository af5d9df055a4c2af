/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seven senders, one receiver on a slow line, in virtual time: nothing is lost or takes much longer than the line
 * needs, short messages do not wait for the long ones, and nobody starves. usage: net_incast [runs [first seed]]; a
 * failure prints the seed.
 */
#include "sim.h"

#define NODES 8
#define MANY  8	      /* long messages from each of nodes 2 and up, posted in a row */
#define LONG  100000  /* bytes of each */
#define HUGE  1500000 /* node 1's, announced first; never the shortest fetch */
#define SHORT 100
#define ALL   (HUGE + (uint64_t)(NODES - 2) * MANY * LONG)

static struct {
	uint64_t posted[NODES];	    /* bytes that the line had carried by then */
	uint64_t waited[2];	    /* the most that it carried from the post of a short one to its arrival */
	uint64_t taken[NODES], all; /* of long ones that are there */
	uint64_t huge_at;	    /* `all`, when the huge one was */
	uint64_t least; /* of those that have as much to send, when the first of them was through */
	unsigned shorts;
} in;

static void taken(unsigned from, uint64_t len)
{
	if (len == SHORT) {
		uint64_t *w = &in.waited[in.shorts >= NODES - 1];
		*w = SN_MAX_OF(*w, sim.rail[0].bytes - in.posted[from]);
		in.shorts++;
		return;
	}
	in.taken[from] += len;
	in.all += len;
	if (from == 1)
		in.huge_at = in.all;
	if (in.least || in.taken[from] < (uint64_t)MANY * LONG)
		return;
	in.least = in.all;
	for (unsigned i = 2; i < NODES; i++)
		in.least = SN_MIN_OF(in.least, in.taken[i]);
}

/* One from each, behind all that it has to send. */
static void short_ones(void)
{
	for (unsigned i = 1; i < NODES; i++) {
		in.posted[i] = sim.rail[0].bytes;
		node_post(sim.node[i], sim.node[0], SHORT);
	}
}

/* So many bytes of long ones have come, and so many short ones. */
static void until(uint64_t bytes, unsigned shorts)
{
	uint64_t end = sim.now + 1000 * SIM_MS;

	while ((in.all < bytes || in.shorts < shorts) && sim.now < end && !sim.failed)
		sim_run(sim.now + SIM_MS / 20);
}

static double part(uint64_t bytes)
{
	return (double)bytes / (double)ALL;
}

static void at_most(const char *what, double got, double most)
{
	if (got > most)
		sim_fail("%s: %.3f, more than %.3f", what, got, most);
}

static void run(uint64_t seed)
{
	const struct sim_net_params p = {.delay = 5000,
					 .jitter = 5000,
					 .byte_time_ps = 800,
					 .mtu = 1472,
					 .path_mtu = 65535,
					 .queue = 2048};

	memset(&in, 0, sizeof(in));
	sim_start(seed, &p);
	model_start();
	model_taken = taken;
	for (unsigned i = 0; i < NODES; i++)
		node_new(i, 3000 * SIM_MS, 16384);
	uint64_t start = sim.now;
	node_post(sim.node[1], sim.node[0], HUGE);
	sim_run(sim.now + SIM_MS / 20);
	for (unsigned k = 0; k < MANY; k++)
		for (unsigned i = 2; i < NODES; i++)
			node_post(sim.node[i], sim.node[0], LONG);
	short_ones();
	until(ALL / 4, NODES - 1);
	short_ones();
	until(ALL, 2 * (NODES - 1));
	uint64_t took = sim.now - start;
	sim_run(sim.now + 10 * SIM_MS); /* who sent hears that it is there */
	model_check_all(false);
	/*
	 * At first each may push what the receiver told it when nobody had announced anything: 256 KiB or more. Later
	 * there is the credit before a short one, 256 KiB and an eighth of what has come, and 256 KiB that all
	 * together may push.
	 */
	at_most("of all, what came before the first short ones", part(in.waited[0]), 0.5);
	at_most("of all, what came before later ones", part(in.waited[1]), 0.2);
	/* A part is pushed, of the rest every fourth block is its own. */
	at_most("of all, what came before the end of the longest", part(in.huge_at), 0.85);
	at_most("of what one has sent, what another has not", 1 - (double)in.least / (MANY * LONG), 0.8);
	at_most("ms", (double)took / SIM_MS, 1.5 * ALL * 0.8e-6);
	for (unsigned i = 0; i < NODES; i++)
		node_free(sim.node[i]);
	model_taken = NULL;
	sim_end();
	model_end();
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 0) : 40;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	for (uint64_t seed = first; seed < first + count; seed++) {
		run(seed);
		if (sim.failed) {
			fprintf(stderr, "FAILED: seed %llu\n", (unsigned long long)seed);
			return 1;
		}
	}
	return 0;
}
