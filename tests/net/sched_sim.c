/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheduler against simulated rails in virtual time: the engine and the strategies as they are, rails with the bandwidth,
 * latency and loss that a scenario gives them, up to 64 peers and 8 rails. Time is virtual, so every figure is the same in
 * every run, and the limits below are regressions caught, not measurements.
 *   sched_sim [SCENARIOS]       run all scenarios, or those of one name, and hold the limits
 *   sched_sim trace STRATEGY    the split over time on a rail that degrades, dies and recovers, as CSV (bench/sched_plot.py)
 */
#include "sim.h"

#define TIMEOUT (3000 * SIM_MS)
#define MB	1000000ULL

static int failures;
static uint64_t seed = 42;

static void hold(bool ok, const char *what, double figure, double limit)
{
	printf("  %-58s %10.3f (limit %.3f)%s\n", what, figure, limit, ok ? "" : "  FAILED");
	failures += !ok;
}

static void at_most(const char *what, double figure, double limit)
{
	hold(figure <= limit, what, figure, limit);
}

static void at_least(const char *what, double figure, double limit)
{
	hold(figure >= limit, what, figure, limit);
}

/* A network of `rails` rails with these rates in MB/s and delays in us, and nodes with nobody connected. */
static void begin(const char *strategy, unsigned nodes, unsigned rails, const unsigned *rates,
		  const unsigned *delays)
{
	struct sim_net_params p = {
		.delay = 3000, .jitter = 1, .mtu = 8972, .path_mtu = 65535, .queue = 65536};

	sim_start(seed, &p);
	sim.rails = rails;
	sim.strategy = strategy;
	for (unsigned r = 0; r < rails; r++) {
		sim.rail[r].byte_time_ps = 1000000 / rates[r];
		sim.rail[r].delay = delays ? delays[r] * 1000 : 0;
	}
	model_start();
	for (unsigned i = 0; i < nodes; i++)
		node_new(i, TIMEOUT, 16384);
}

static void finish(unsigned nodes)
{
	model_check_all(false);
	failures += sim.failed;
	for (unsigned i = 0; i < nodes; i++)
		node_free(sim.node[i]);
	sim_end();
	model_end();
}

/* Virtual seconds until everything posted is delivered and completed. */
static double until_done(void)
{
	uint64_t start = sim.now;

	while (model_undelivered() && sim.now < start + 60000 * SIM_MS && !sim.failed)
		sim_run(sim.now + 20000);
	return (double)(sim.now - start) / 1e9;
}

/* Connect, and let the rails be sampled: the trains of 63 peers, 3 MB to one node, take a rail of 25 MB/s 120 ms. */
static void warm(unsigned nodes)
{
	for (unsigned i = 1; i < nodes; i++)
		node_post(sim.node[0], sim.node[i], 8);
	until_done();
	sim_run(sim.now + (nodes > 2 ? 300 : 50) * SIM_MS);
}

static uint64_t counter_sum;
static const char *counter_name;

static void add(void *arg, const char *name, uint64_t value)
{
	if (strcmp(name, counter_name) == 0)
		counter_sum += value;
}

static uint64_t counter(unsigned node, const char *name)
{
	counter_name = name;
	counter_sum = 0;
	sn_net_counters(sim.node[node]->net, add, NULL);
	return counter_sum;
}

/* MB/s of a 32 MB message, alone or in four. */
static double bandwidth(const char *strategy, unsigned rails, const unsigned *rates, const unsigned *delays,
			unsigned messages)
{
	begin(strategy, 2, rails, rates, delays);
	warm(2);
	for (unsigned i = 0; i < messages; i++)
		node_post(sim.node[0], sim.node[1], 32 * MB / messages);
	double t = until_done();
	finish(2);
	return 32 / t;
}

static void split_scenarios(void)
{
	static const unsigned equal[] = {100, 100}, quarter[] = {400, 100}, tenth[] = {1000, 100};
	static const unsigned eight[] = {100, 100, 50, 50, 200, 25, 100, 75}, far[] = {5, 300};

	printf("bandwidth, as a part of the rails' sum\n");
	at_least("two equal rails, split", bandwidth(NULL, 2, equal, NULL, 1) / 200, 0.92);
	at_most("two equal rails, one rail only (fifo)", bandwidth("fifo", 2, equal, NULL, 1) / 200, 0.55);
	at_least("1:4, split", bandwidth(NULL, 2, quarter, NULL, 1) / 500, 0.88);
	at_least("1:4, split, in four messages", bandwidth(NULL, 2, quarter, NULL, 4) / 500, 0.88);
	at_most("1:4, equal shares", bandwidth("aggregate,equal", 2, quarter, NULL, 1) / 500, 0.45);
	at_least("1:10, split", bandwidth(NULL, 2, tenth, NULL, 1) / 1100, 0.85);
	at_least("equal, one 300 us away, split", bandwidth(NULL, 2, equal, far, 1) / 200, 0.88);
	at_least("eight different rails, split", bandwidth(NULL, 8, eight, NULL, 1) / 700, 0.80);
}

/* A 64 MB stream while a rail falls to a tenth, or dies and comes back. */
static void change_scenarios(void)
{
	static const unsigned rates[] = {100, 100};

	printf("a rail that changes in mid-message\n");
	begin(NULL, 2, 2, rates, NULL);
	warm(2);
	node_post(sim.node[0], sim.node[1], 64 * MB);
	sim_run(sim.now + 100 * SIM_MS); /* about 20 MB are through */
	uint64_t before = sim.rail[0].bytes + sim.rail[1].bytes;
	sim.rail[1].byte_time_ps *= 10;
	double rest = 64 - (double)before / 1e6;
	double t = until_done();
	at_least("to a tenth: rate afterwards, part of the new sum", rest / t / 110, 0.85);
	finish(2);

	begin(NULL, 2, 2, rates, NULL);
	warm(2);
	node_post(sim.node[0], sim.node[1], 64 * MB);
	sim_run(sim.now + 100 * SIM_MS);
	before = sim.rail[0].bytes + sim.rail[1].bytes;
	sim.rail[0].cut = true;
	rest = 64 - (double)before / 1e6;
	t = until_done();
	at_least("cut: rate afterwards, part of what is left", rest / t / 100, 0.85);
	at_least("cut: noticed", (double)counter(1, "net.rail_down"), 1);
	sim.rail[0].cut = false;
	sim_run(sim.now + 300 * SIM_MS);
	node_post(sim.node[0], sim.node[1], 32 * MB);
	t = until_done();
	at_least("back again: part of the sum of both", 32 / t / 200, 0.85);
	finish(2);

	begin(NULL, 2, 2, rates, NULL);
	warm(2);
	sim.rail[1].loss = 0.02;
	node_post(sim.node[0], sim.node[1], 32 * MB);
	t = until_done();
	at_least("2 % lost on one rail: part of the sum", 32 / t / 200, 0.75);
	finish(2);
}

/* Post a message of 1 MB, let `ms` pass, and wait until it is through: the part of it that the second rail carried. */
static double message_share(double ms, void (*change)(void))
{
	uint64_t b0 = sim.rail[0].bytes, b1 = sim.rail[1].bytes;

	node_post(sim.node[0], sim.node[1], MB);
	if (change) {
		sim_run(sim.now + (uint64_t)(ms * SIM_MS));
		b0 = sim.rail[0].bytes;
		b1 = sim.rail[1].bytes;
		change();
	}
	until_done();
	b0 = sim.rail[0].bytes - b0;
	b1 = sim.rail[1].bytes - b1;
	return (double)b1 / (double)SN_MAX_OF(b0 + b1, (uint64_t)1);
}

/* Messages until the second rail's share is within these bounds, for three in a row. */
static unsigned messages_until(double least, double most)
{
	unsigned count = 0;

	for (unsigned within = 0; within < 3 && count < 200; count++) {
		double s = message_share(0, NULL);
		within = s >= least && s <= most ? within + 1 : 0;
	}
	return count - 3;
}

static void slow_rail(void)
{
	sim.rail[1].byte_time_ps *= 10;
}

static void dead_slow_rail(void)
{
	sim.rail[1].byte_time_ps *= 1000;
}

static void cut_rail(void)
{
	sim.rail[1].cut = true;
}

/* In messages of 1 MB, of which two rails of 100 MB/s carry one in 5 ms: the change comes in the middle of one. */
static void notice_scenarios(void)
{
	static const unsigned rates[] = {100, 100};
	static const struct {
		const char *what;
		void (*change)(void);
		double least, most, back;
	} change[] = {{"to a tenth", slow_rail, 0.03, 0.2, 0},
		      {"to a thousandth", dead_slow_rail, 0, 0.02, 4000},
		      {"cut", cut_rail, 0, 0.01, 200}};
	char text[80];

	printf("messages until it is noticed\n");
	for (int i = 0; i < 3; i++) {
		begin(NULL, 2, 2, rates, NULL);
		warm(2);
		for (int k = 0; k < 10; k++)
			message_share(0, NULL);
		message_share(2, change[i].change);
		snprintf(text, sizeof(text), "%s in mid-message: further messages", change[i].what);
		at_most(text, messages_until(change[i].least, change[i].most), 2);
		sim.rail[1].byte_time_ps = 10000;
		sim.rail[1].cut = false;
		sim_run(sim.now + (uint64_t)(change[i].back * SIM_MS)); /* tried again by now */
		snprintf(text, sizeof(text), "whole again: messages");
		at_most(text, messages_until(0.4, 0.6), 3);
		finish(2);
	}
}

/*
 * A rail whose first figures are so bad that nothing is asked of it: far away (30 ms, where a message takes 15 ms
 * without it), then near. Nothing is heard of it any more, so only a trial can show that it is worth its part. A
 * trial of one that has stayed bad may cost little.
 */
static void again_scenarios(void)
{
	static const unsigned rates[] = {40, 10, 20};
	char text[80];

	printf("a rail that is not used is tried again\n");
	for (unsigned bad = 0; bad < 3; bad++) {
		begin(NULL, 2, 3, rates, NULL);
		sim.rail[bad].delay = 30 * SIM_MS;
		warm(2);
		for (int k = 0; k < 20; k++)
			message_share(0, NULL);
		uint64_t start = sim.now, carried = sim.rail[bad].bytes;
		for (int k = 0; k < 32; k++)
			message_share(0, NULL);
		snprintf(text, sizeof(text), "rail of %u MB/s 30 ms away: rate, part of the others' sum",
			 rates[bad]);
		at_least(text, 32e9 / (double)(sim.now - start) / (70 - rates[bad]), 0.85);
		at_most("its part of the bytes", (double)(sim.rail[bad].bytes - carried) / 32e6, 0.05);
		sim.rail[bad].delay = 0;
		unsigned count = 0;
		for (carried = sim.rail[bad].bytes; count < 200; count++) {
			uint64_t before = sim.rail[bad].bytes;
			message_share(0, NULL);
			if ((double)(sim.rail[bad].bytes - before) > 1e4 * rates[bad])
				break;
		}
		at_most("near: messages until it has two thirds of its part", count, 10);
		finish(2);
	}
}

/* How long a short message takes that is posted while bulk goes the same way, median of 21, in us. */
static double short_in_bulk(unsigned rails)
{
	static const unsigned rates[] = {100, 20};
	double t[21];

	begin(NULL, 2, rails, rates, NULL);
	warm(2);
	for (int i = 0; i < 21; i++) {
		node_post(sim.node[0], sim.node[1], 2 * MB);
		sim_run(sim.now + 5 * SIM_MS);
		uint64_t start = sim.now;
		unsigned undelivered = model_undelivered();
		node_post(sim.node[0], sim.node[1], 64);
		/* delivered (not yet completed) is one less than with it */
		while (model_undelivered() > undelivered && sim.now < start + 100 * SIM_MS)
			sim_run(sim.now + 1000);
		t[i] = (double)(sim.now - start) / 1e3;
		until_done();
	}
	finish(2);
	for (int i = 0; i < 21; i++)
		for (int k = i + 1; k < 21; k++)
			if (t[k] < t[i]) {
				double x = t[i];
				t[i] = t[k];
				t[k] = x;
			}
	return t[10];
}

static void short_scenarios(void)
{
	static const unsigned one[] = {1000};

	printf("short messages\n");
	double split = short_in_bulk(2), alone = short_in_bulk(1);
	at_most("64 bytes among bulk on two rails: us", split, 1000);
	at_most("the same / on the faster of them alone", split / alone, 0.7);
	for (int k = 0; k < 2; k++) {
		const char *strategy = k ? "fifo" : NULL;
		begin(strategy, 2, 1, one, NULL);
		warm(2);
		uint64_t frames = counter(0, "net.tx_msg");
		for (int i = 0; i < 1000; i++)
			node_post(sim.node[0], sim.node[1], 8);
		until_done();
		frames = counter(0, "net.tx_msg") - frames;
		if (k == 0)
			at_most("frames of a burst of 1000 messages, aggregate", (double)frames, 50);
		else
			at_least("the same, fifo", (double)frames, 1000);
		frames = counter(0, "net.tx_msg");
		for (int i = 0; i < 100; i++) {
			node_post(sim.node[0], sim.node[1], 8);
			sim_run(sim.now + SIM_MS / 4);
		}
		at_most("frames of 100 lone messages", (double)(counter(0, "net.tx_msg") - frames), 100);
		at_least("frames of 100 lone messages", (double)(counter(0, "net.tx_msg") - frames), 100);
		finish(2);
	}
}

static double of_both(const char *name)
{
	return (double)(counter(0, name) + counter(1, name));
}

/*
 * Short messages and announcements of long ones, both ways at once, on a rail that is busy with the long ones: all kinds of
 * records share frames, acknowledgements ride on what goes that way anyhow (requests for long messages, too), and what leaves
 * at a time leaves in one call.
 */
static void mixed_scenario(void)
{
	static const unsigned one[] = {1000};

	printf("short and long messages both ways\n");
	for (int k = 0; k < 2; k++) {
		begin(k ? "fifo" : NULL, 2, 1, one, NULL);
		warm(2);
		double frames = of_both("net.tx_msg"), records = of_both("net.tx_records");
		double acks = of_both("net.tx_ack"), pulls = of_both("net.tx_pull");
		double all = of_both("net.tx_frames");
		uint64_t calls = sim.send_calls;
		for (int i = 0; i < 400; i++)
			for (unsigned from = 0; from < 2; from++)
				node_post(sim.node[from], sim.node[1 - from], i % 4 ? 8 : 40000);
		until_done();
		frames = of_both("net.tx_msg") - frames;
		records = of_both("net.tx_records") - records;
		pulls = of_both("net.tx_pull") - pulls;
		if (k) {
			at_most("records in a frame, fifo", records / frames, 1);
		} else {
			at_least("records in a frame, aggregate", records / frames, 4);
			at_most("acknowledgements that go alone, of a record",
				(of_both("net.tx_ack") - acks) / records, 0.15);
			at_least("requests for long messages", pulls, 100);
			at_least("frames in a call",
				 (of_both("net.tx_frames") - all) / (double)(sim.send_calls - calls), 2.5);
		}
		finish(2);
	}
}

/* Of 64 peers, each sends to the next; then all to one: parts of the rails' sum. */
static void many(double *ring, double *incast)
{
	static const unsigned rates[] = {100, 100, 50, 50, 200, 25, 100, 75};

	begin(NULL, 64, 8, rates, NULL);
	warm(64);
	for (unsigned i = 0; i < 64; i++)
		node_post(sim.node[i], sim.node[(i + 1) % 64], 8);
	until_done();
	sim_run(sim.now + 50 * SIM_MS);
	for (unsigned i = 0; i < 64; i++)
		node_post(sim.node[i], sim.node[(i + 1) % 64], 2 * MB);
	*ring = 2 / until_done() / 700;
	for (unsigned i = 1; i < 64; i++)
		node_post(sim.node[i], sim.node[0], 300000);
	*incast = 63 * 0.3 / until_done() / 700;
	finish(64);
}

static void many_scenarios(void)
{
	double ring = 1, incast = 1;

	printf("64 peers, 8 rails\n");
	for (seed = 2; seed <= 5;
	     seed++) { /* every pair must do well, whatever came together at the beginning */
		double r, i;
		many(&r, &i);
		printf("  seed %u: ring %.3f, 63 to one %.3f\n", (unsigned)seed, r, i);
		ring = SN_MIN_OF(ring, r);
		incast = SN_MIN_OF(incast, i);
	}
	seed = 42;
	at_least("a ring of 2 MB each: part of the rails' sum, worst seed", ring, 0.8);
	at_least("63 to one, 300 kB each: the same", incast, 0.8);
}

/* 100 MB/s each; after 0.3 s the second falls to a tenth, at 0.7 s it is back, at 1.1 s the first dies until 1.5 s. */
static void trace(const char *strategy)
{
	static const unsigned rates[] = {100, 100};
	uint64_t last[2] = {0, 0};

	begin(strategy, 2, 2, rates, NULL);
	warm(2);
	uint64_t start = sim.now;
	printf("ms,rail0,rail1,model0,model1,capacity0,capacity1\n");
	last[0] = sim.rail[0].bytes;
	last[1] = sim.rail[1].bytes;
	for (unsigned ms = 0; ms < 2000; ms += 10) {
		if (ms == 300)
			sim.rail[1].byte_time_ps = 100000;
		if (ms == 700)
			sim.rail[1].byte_time_ps = 10000;
		sim.rail[0].cut = ms >= 1100 && ms < 1500;
		while (model_undelivered() < 12)
			node_post(sim.node[0], sim.node[1], 8 * MB);
		sim_run(start + (ms + 10) * SIM_MS);
		const struct sn_net_link *l =
			sn_container(sim.node[1]->net->links.next, struct sn_net_link, node);
		printf("%u", ms);
		for (int r = 0; r < 2; r++) {
			printf(",%.1f", (double)(sim.rail[r].bytes - last[r]) / 1e4);
			last[r] = sim.rail[r].bytes;
		}
		for (int r = 0; r < 2; r++)
			printf(",%.1f",
			       l->lane[r].down
				       ? 0
				       : (double)sn_model_rate_of(&l->lane[r].model, 8 * MB, sim.now) / 1e6);
		for (int r = 0; r < 2; r++)
			printf(",%.1f", sim.rail[r].cut ? 0 : 1e6 / (double)sim.rail[r].byte_time_ps);
		printf("\n");
	}
	until_done();
	finish(2);
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {{"split", split_scenarios}, {"change", change_scenarios}, {"notice", notice_scenarios},
		 {"again", again_scenarios}, {"short", short_scenarios},   {"mixed", mixed_scenario},
		 {"many", many_scenarios}};

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "trace") == 0) {
		trace(argc > 2 ? argv[2] : NULL);
		return failures != 0;
	}
	bool any = false;
	for (unsigned i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (argc > 1 && strcmp(argv[1], scenarios[i].name) != 0)
			continue;
		any = true;
		scenarios[i].run();
	}
	if (failures)
		printf("%d FAILED\n", failures);
	return failures != 0 || !any;
}
