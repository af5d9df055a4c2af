/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol engine under thousands of seeded schedules. usage: test_sim [schedules [first seed]]; a failure prints the
 * seed, and `test_sim 1 SEED` repeats it.
 */
#include "sim.h"
#include <sys/resource.h>

#define TIMEOUT (3000 * SIM_MS)

static uint64_t some_length(void)
{
	switch (sim_below(12)) {
	case 0: return 0;
	case 1: return sim_below(4096);
	case 2: return 4096 + sim_below(12289); /* FIRST and MORE */
	case 3: return 16000 + sim_below(2000);
	case 4: return 16385 + sim_below(50000);
	case 5: return 65536 + sim_below(400000);
	default: return sim_below(200);
	}
}

static struct sim_net_params some_network(void)
{
	static const double losses[] = {0, 0, 0.001, 0.01, 0.1, 0.3};
	static const uint32_t mtus[] = {1232, 1472, 1472, 8972, 65000};
	struct sim_net_params p = {.queue = 4096};

	p.loss = losses[sim_below(6)];
	p.duplicate = sim_chance(0.4) ? 0.05 : 0;
	p.corrupt = sim_chance(0.4) ? 0.05 : 0;
	p.reorder = sim_chance(0.4) ? 0.1 : 0;
	p.refuse = sim_chance(0.2) ? 0.05 : 0;
	p.delay = 1000 + sim_below(sim_chance(0.2) ? 5 * SIM_MS : 50000);
	p.jitter = sim_chance(0.5) ? 1 : p.delay / 4;
	p.byte_time_ps = sim_chance(0.3) ? 800 : 0;
	p.mtu = mtus[sim_below(5)];
	p.path_mtu = sim_chance(0.2) ? 1400 + (uint32_t)sim_below(8000) : 65535;
	if (sim_chance(0.1))
		p.queue = 64;
	return p;
}

/* One rail, or up to eight, alike or not. */
static void some_rails(void)
{
	static const uint32_t mtus[] = {0, 0, 1472, 8972};

	sim.rails = sim_chance(0.5) ? 1 : sim_chance(0.8) ? 2 + (unsigned)sim_below(2) : 8;
	for (unsigned r = 0; r < sim.rails && sim.rails > 1; r++) {
		sim.rail[r].delay = sim_chance(0.5) ? sim_below(100000) : 0;
		sim.rail[r].byte_time_ps = sim_chance(0.5) ? 800 + sim_below(10000) : 0;
		sim.rail[r].mtu = mtus[sim_below(4)];
		sim.rail[r].loss = sim_chance(0.2) ? 0.05 : 0;
	}
	sim.quick = sim_chance(0.5) ? (unsigned)sim_rand() : 0;
	sim.strategy = sim_chance(0.2) ? "fifo" : sim_chance(0.2) ? "equal" : NULL;
}

/* What goes wrong besides the wire; all of it heals before the peer time-out. */
enum trouble { NONE, FLAP, ONE_WAY, SLEEP, QUIET, FORGE, SHRINK, RAIL, SLOW, UNJOIN, TROUBLES };

static void forge(unsigned nodes)
{
	uint8_t junk[2000];
	uint32_t len = (uint32_t)sim_below(sizeof(junk));

	for (uint32_t i = 0; i < len; i++)
		junk[i] = (uint8_t)sim_rand();
	if (len >= 4 && sim_chance(0.8)) { /* past the first checks */
		junk[0] = SN_WIRE_VERSION;
		junk[1] = (uint8_t)(1 + sim_below(SN_WIRE_TYPES - 1));
		junk[2] = (uint8_t)len;
		junk[3] = (uint8_t)(len >> 8);
	}
	unsigned to = (unsigned)sim_below(nodes);
	if (sim.heap_count && sim_chance(0.5)) { /* a real frame, to somebody else, cut or changed */
		struct sim_packet *p = &sim.heap[sim_below(sim.heap_count)];
		len = SN_MIN_OF(p->len, (uint32_t)sizeof(junk));
		memcpy(junk, p->bytes, len);
		if (len && sim_chance(0.7))
			junk[sim_below(len)] ^= (uint8_t)(1 + sim_below(255));
		if (sim_chance(0.3))
			len = (uint32_t)sim_below(len + 1);
	}
	sim_inject(to, junk, len, sim_below(SIM_MS));
}

static void cause(enum trouble t, unsigned nodes)
{
	unsigned a = (unsigned)sim_below(nodes), b = (unsigned)sim_below(nodes);

	switch (t) {
	case FLAP: sim.cut[a][b] = sim.cut[b][a] = sim_chance(0.5); break;
	case ONE_WAY: sim.cut[a][b] = sim_chance(0.5); break;
	case SLEEP:
	case QUIET:
		if (sim.node[a]->asleep_until <= sim.now) {
			sim.node[a]->asleep_until = sim.now + sim_below(300 * SIM_MS);
			sim.node[a]->quiet = t == QUIET;
		}
		break;
	case SHRINK: sim.p.path_mtu = 1300; break; /* another way through the network, for good */
	case UNJOIN: sim_some_kinds_lost(); break; /* likewise, on some rails */
	case RAIL: sim.rail[sim_below(sim.rails)].cut = sim_chance(0.7); break;
	case SLOW: sim.rail[sim_below(sim.rails)].byte_time_ps = 20000 + sim_below(100000); break;
	case FORGE:
		for (int i = 0; i < 10; i++)
			forge(nodes);
		break;
	default: break;
	}
}

static void heal(unsigned nodes)
{
	memset(sim.cut, 0, sizeof(sim.cut));
	for (unsigned r = 0; r < SIM_RAILS; r++)
		sim.rail[r].cut = false;
	for (unsigned i = 0; i < nodes; i++)
		if (sim.node[i])
			sim.node[i]->asleep_until = 0;
}

/* Let it finish: at most this long after the last trouble. */
static void settle(uint64_t longest, unsigned nodes)
{
	uint64_t end = sim.now + longest;

	while (sim.now < end && !sim.failed) {
		for (unsigned i = 0; i < nodes; i++)
			while (sim.node[i] && sim.node[i]->pending)
				node_fetch_later(sim.node[i]);
		sim_run(sim.now + 20 * SIM_MS);
		if (model_undelivered() == 0)
			break;
	}
}

/* Every counter, summed over all schedules: each must have been reached, or the schedules miss part of the protocol. */
static struct total {
	const char *name;
	uint64_t sum;
} totals[64];

static void add_counter(void *arg, const char *name, uint64_t value)
{
	struct total *t = totals;

	while (t->name && strcmp(t->name, name) != 0)
		t++;
	t->name = name;
	t->sum += value;
}

static int check_totals(void)
{
	/* What no correct peer and no forger without the key can bring about; and there is no kernel module here. */
	static const char *const never[] = {"net.drop_record",	"net.drop_memory", "net.drop_busy",
					    "net.drop_refused", "net.drop_hello",  "net.kernel_pulls"};
	int bad = 0;

	for (struct total *t = totals; t->name; t++) {
		bool expect = true;
		for (unsigned i = 0; i < sizeof(never) / sizeof(never[0]); i++)
			expect &= strcmp(never[i], t->name) != 0;
		printf("  %-20s %llu\n", t->name, (unsigned long long)t->sum);
		if (expect && t->sum == 0) {
			fprintf(stderr, "no schedule ever reached %s\n", t->name);
			bad = 1;
		}
	}
	return bad;
}

static void end_nodes(unsigned nodes)
{
	for (unsigned i = 0; i < nodes; i++) {
		if (sim.node[i] == NULL)
			continue;
		sn_net_counters(sim.node[i]->net, add_counter, NULL);
		node_free(sim.node[i]);
	}
}

/* Random messages among random nodes while the network misbehaves: all must arrive, once, in order, unharmed. */
static void traffic(uint64_t seed)
{
	struct sim_net_params p;

	sim.random = seed;
	p = some_network();
	sim_start(sim_rand(), &p);
	some_rails();
	if (sim_chance(0.2))
		sim_some_kinds_lost();
	sim.bodiless = sim_chance(0.1) ? (unsigned)sim_rand() : 0;
	sim.bare = seed & 1;
	model_start();
	unsigned nodes = 2 + (unsigned)sim_below(3), messages = 5 + (unsigned)sim_below(50);
	enum trouble t = (enum trouble)sim_below(TROUBLES);
	for (unsigned i = 0; i < nodes; i++) {
		struct node *n = node_new(i, TIMEOUT, sim_chance(0.5) ? 4096 : 16384);
		n->refuse = sim_chance(0.2) ? 0.2 : 0;
		n->late = sim_chance(0.5) ? 0.5 : 0;
		n->partial = sim_chance(0.2) ? 0.3 : 0;
	}
	bool burst = sim_chance(0.5);
	while (messages > 0 && !sim.failed) {
		unsigned a = (unsigned)sim_below(nodes), b = (unsigned)sim_below(nodes);
		if (a != b && (sim.node[a]->asleep_until <= sim.now)) {
			node_post(sim.node[a], sim.node[b], some_length());
			messages--;
		}
		if (sim_chance(0.1))
			cause(t, nodes);
		if (sim_chance(0.3))
			node_fetch_later(sim.node[sim_below(nodes)]);
		sim_run(sim.now + (burst ? sim_below(3000) : sim_below(10 * SIM_MS)));
		if (sim_chance(0.1))
			heal(nodes);
	}
	heal(nodes);
	settle(60000 * SIM_MS, nodes);
	model_check_all(false);
	end_nodes(nodes);
	sim_end();
	model_end();
}

/* Processes die, are cut off, or come back at the same address while frames of their former life still fly. */
static void deaths(uint64_t seed)
{
	struct sim_net_params p;
	unsigned nodes;

	sim.random = seed;
	p = some_network();
	if (p.loss > 0.01)
		p.loss =
			0.01; /* a third of the frames lost for a whole time-out is a death too, but not the one meant */
	p.path_mtu = 65535;
	sim_start(sim_rand(), &p);
	some_rails();
	model_start();
	nodes = 2 + (unsigned)sim_below(3);
	for (unsigned i = 0; i < nodes; i++)
		node_new(i, TIMEOUT, 16384);
	unsigned messages = 10 + (unsigned)sim_below(40), victim = (unsigned)sim_below(nodes);
	unsigned when = (unsigned)sim_below(messages);
	bool comes_back = sim_chance(0.6), cut_off = sim_chance(0.3);
	while (messages > 0 && !sim.failed) {
		unsigned a = (unsigned)sim_below(nodes), b = (unsigned)sim_below(nodes);
		if (a != b && sim.node[a] && sim.node[b])
			node_post(sim.node[a], sim.node[b], some_length());
		sim_run(sim.now + sim_below(SIM_MS));
		if (--messages != when)
			continue;
		if (cut_off) {
			for (unsigned i = 0; i < nodes; i++)
				sim.cut[victim][i] = sim.cut[i][victim] = true;
			continue;
		}
		node_crash(sim.node[victim]);
		if (comes_back)
			node_new(victim, TIMEOUT, 16384);
	}
	unsigned sleeper = (unsigned)sim_below(nodes);
	if (sim.node[sleeper] && sim_chance(0.3)) { /* it learns of the death only when it calls again */
		sim.node[sleeper]->asleep_until = sim.now + 2 * TIMEOUT;
		sim.node[sleeper]->quiet = true;
	}
	settle(4 * TIMEOUT, nodes);
	if (cut_off) /* both sides must have noticed; then the cable is back, and old sessions meet */
		heal(nodes);
	settle(4 * TIMEOUT, nodes);
	sim_run(sim.now + 2 * TIMEOUT);
	model_check_all(true);
	end_nodes(nodes);
	sim_end();
	model_end();
}

/* Hardly a frame is lost, and all lengths pass: what is heard of a peer, or not, is not the line's fault. */
static void start_on_a_good_line(uint64_t seed)
{
	sim.random = seed;
	struct sim_net_params p = some_network();
	p.loss = SN_MIN_OF(p.loss, 0.01);
	p.path_mtu = 65535;
	sim_start(sim_rand(), &p);
}

/* A peer is cut off for good, or dies, in the middle of everything: after the time-out, and the eighth of it that a question may
 * take, nothing waits any more. */
static void prompt(uint64_t seed)
{
	start_on_a_good_line(seed);
	some_rails();
	model_start();
	struct node *a = node_new(0, TIMEOUT, 16384), *b = node_new(1, TIMEOUT, 16384);
	bool met = sim_chance(0.8), late = sim_chance(0.5);
	if (!met)
		sim.cut[0][1] = sim.cut[1][0] = true;
	a->late = b->late = 0.3;
	for (unsigned i = 5 + (unsigned)sim_below(30); i > 0; i--) {
		node_post(a, b, some_length());
		if (met)
			node_post(b, a, some_length());
		sim_run(sim.now + sim_below(SIM_MS));
	}
	if (late)
		sim_run(sim.now + sim_below(TIMEOUT)); /* then links are idle */
	sim.cut[0][1] = sim.cut[1][0] = true;
	if (sim_chance(0.5))
		node_crash(b);
	if (late && met && sim.node[1])
		node_post(a, b, some_length());
	sim_run(sim.now + TIMEOUT + TIMEOUT / 8 + 20 * SIM_MS); /* what was under way still came */
	model_check_all(true);
	end_nodes(2);
	sim_end();
	model_end();
}

/* All rails but one are cut while nobody has anything to say: whether the peer lives is asked by each, and both live. */
static void one_rail_left(uint64_t seed)
{
	start_on_a_good_line(seed);
	sim.rails = 2 + (unsigned)sim_below(3);
	model_start();
	struct node *node[] = {node_new(0, TIMEOUT, 16384), node_new(1, TIMEOUT, 16384)};
	unsigned left = (unsigned)sim_below(sim.rails);
	for (unsigned i = 0; i < 10; i++) {
		node_post(node[i & 1], node[!(i & 1)], some_length());
		settle(TIMEOUT, 2);
	}
	for (unsigned r = 0; r < sim.rails; r++)
		sim.rail[r].cut = r != left;
	sim_run(sim.now + 3 * TIMEOUT);
	node_post(node[0], node[1], some_length());
	settle(TIMEOUT, 2);
	model_check_all(false);
	end_nodes(2);
	sim_end();
	model_end();
}

/* One side drops the other and connects again under the same identity, while frames of the old session still fly. */
static void rejoin(uint64_t seed)
{
	struct sim_net_params p;

	sim.random = seed;
	p = some_network();
	p.duplicate = 0.2;
	p.reorder = 0.3;
	p.loss = SN_MIN_OF(p.loss, 0.1);
	p.path_mtu = 65535;
	sim_start(sim_rand(), &p);
	model_start();
	struct node *a = node_new(0, TIMEOUT, 16384), *b = node_new(1, TIMEOUT, 16384);
	for (int life = 0; life < 4 && !sim.failed; life++) {
		for (uint64_t i = sim_below(20); i > 0; i--) {
			if (sim_chance(0.6))
				node_post(a, b, some_length());
			else
				node_post(b, a, some_length());
			sim_run(sim.now + sim_below(SIM_MS));
		}
		if (life == 3)
			break;
		sim.cut[0][1] = sim_chance(0.5); /* the farewell may be lost */
		node_rejoin(a, b);
		sim_run(sim.now + 1);
		sim.cut[0][1] = false;
		node_post(a, b, some_length());
		sim_run(sim.now + sim_below(3 * SIM_MS));
	}
	settle(20 * TIMEOUT, 2);
	sim_run(sim.now + 2 * TIMEOUT); /* who was not told of the end learns of it by silence */
	model_check_all(true);
	end_nodes(2);
	sim_end();
	model_end();
}

/* The receiver computes while its service thread minds the network: the window fills, nothing is lost or reported early. */
static void parked(uint64_t seed)
{
	struct sim_net_params p;

	sim.random = seed;
	p = some_network();
	p.mtu = 1472;
	sim_start(sim_rand(), &p);
	model_start();
	struct node *a = node_new(0, TIMEOUT, 16384), *b = node_new(1, TIMEOUT, 16384);
	node_post(b, a, 100);
	settle(TIMEOUT, 2);
	for (int i = 0; i < 40; i++)
		node_post(a, b, sim_below(16384));
	for (int i = 0; i < 100; i++) /* a frame each, more than the window holds */
		node_post(a, b, 1000 + sim_below(300));
	node_post(a, b, 500000);
	b->asleep_until = sim.now + 3 * TIMEOUT; /* longer than a silent peer may be */
	b->quiet = true;
	sim_run(sim.now + 3 * TIMEOUT);
	settle(20 * TIMEOUT, 2);
	model_check_all(false);
	end_nodes(2);
	sim_end();
	model_end();
}

/*
 * The first message comes while the receiver's service thread minds the network, for some milliseconds: when the application is back
 * it has the message at once, and not when the sender's timers ask again, which are those of a peer of which nothing is known.
 */
static void first_met(uint64_t seed)
{
	const struct sim_net_params p = {.delay = 5000,
					 .jitter = 5000,
					 .byte_time_ps = 800,
					 .mtu = 1472,
					 .path_mtu = 65535,
					 .queue = 2048};

	sim_start(seed, &p);
	model_start();
	struct node *a = node_new(0, TIMEOUT, 16384), *b = node_new(1, TIMEOUT, 16384);
	unsigned count = 1 + (unsigned)sim_below(4);
	for (unsigned i = 0; i < count; i++)
		node_post(a, b, sim_below(1000));
	uint64_t back = b->asleep_until = sim.now + SIM_MS + sim_below(5 * SIM_MS);
	b->quiet = true;
	while (model_undelivered() && sim.now < back + 100 * SIM_MS && !sim.failed) {
		while (b->pending)
			node_fetch_later(b);
		sim_run(sim.now + SIM_MS / 20);
	}
	if (sim.now > back + SIM_MS)
		sim_fail("what was sent first comes %.1f ms late", (double)(sim.now - back) / SIM_MS);
	settle(20 * TIMEOUT, 2);
	model_check_all(false);
	end_nodes(2);
	sim_end();
	model_end();
}

/*
 * A machine under load, or frozen again and again: the processes are late with every look, by seconds, and what lies between
 * them carries something at every other look. Nobody is given up for that; but one who has died meanwhile is, for who is late
 * with every look still looks.
 */
static void starved(uint64_t seed)
{
	start_on_a_good_line(seed);
	model_start();
	struct node *node[] = {node_new(0, TIMEOUT, 16384), node_new(1, TIMEOUT, 16384)};
	bool met = sim_chance(0.8), dies = sim_chance(0.5), seconds = sim_chance(0.5);
	for (unsigned i = 5; i > 0; i--) {
		node_post(node[0], node[1], some_length());
		sim_run(sim.now + (met ? sim_below(20 * SIM_MS) : 0));
	}
	if (dies)
		node_crash(node[1]);
	for (unsigned looks = 100; looks > 0; looks--) {
		uint64_t wake = sim.now + SIM_MS * (100 + sim_below(seconds ? 20000 : 300));
		sim.cut[0][1] = sim.cut[1][0] = sim_chance(0.5);
		for (unsigned i = 0; i < 2; i++)
			if (sim.node[i])
				sim.node[i]->asleep_until = wake;
		sim_run(wake + SIM_MS);
	}
	heal(2);
	if (!dies)
		settle(20 * TIMEOUT, 2);
	model_check_all(dies);
	end_nodes(2);
	sim_end();
	model_end();
}

/*
 * A process that looks now and then, as where many share a core, and whose peer is dead: it says so after some time-outs by
 * the clock, fourteen at most, however late it is with each look.
 */
static void tardy(uint64_t seed)
{
	start_on_a_good_line(seed);
	model_start();
	uint64_t timeout = sim_chance(0.5) ? TIMEOUT : TIMEOUT / 3, end, steady = sim_below(2);
	uint64_t gap = 100 * SIM_MS + sim_below(timeout * 9 / 10 - 100 * SIM_MS);
	struct node *a = node_new(0, timeout, 16384), *b = node_new(1, timeout, 16384);
	bool met = sim_chance(0.8);
	for (unsigned i = 5; i > 0; i--) {
		node_post(a, b, some_length());
		sim_run(sim.now + (met ? sim_below(20 * SIM_MS) : 0));
	}
	node_crash(b);
	end = sim.now + 14 * timeout;
	while (sim.now < end && a->net->counts[SN_NC_GONE] == 0) {
		a->asleep_until = sim.now + (steady ? gap : 100 * SIM_MS + sim_below(gap));
		sim_run(a->asleep_until + SIM_MS);
	}
	if (a->net->counts[SN_NC_GONE] == 0)
		sim_fail("not given up after 14 time-outs of %llu ms, each look %llu ms late",
			 (unsigned long long)(timeout / SIM_MS), (unsigned long long)(gap / SIM_MS));
	model_check_all(true);
	end_nodes(2);
	sim_end();
	model_end();
}

/* The window is full, so a body overtakes its announcement: it is kept, and nothing of it is asked for. */
static void ahead(uint64_t seed)
{
	const struct sim_net_params p = {.delay = 5000, .mtu = 1472, .path_mtu = 65535, .queue = 2048};

	sim.random = seed;
	sim_start(sim_rand(), &p);
	model_start();
	struct node *a = node_new(0, TIMEOUT, 16384), *b = node_new(1, TIMEOUT, 16384);
	for (unsigned i = 0; i < 20; i++) {
		node_post(i & 1 ? b : a, i & 1 ? a : b, 8);
		settle(TIMEOUT, 2);
	}
	struct sn_net_way *way = &sn_container(a->net->links.next, struct sn_net_link, node)->way[0];
	sim_run(sim.now + SIM_MS);
	way->cwnd = 1;
	node_post(a, b, 8);
	node_post(a, b, 16000);
	settle(TIMEOUT, 2);
	const uint64_t *counts = b->net->counts;
	if (counts[SN_NC_RX_STASHED] == 0 || counts[SN_NC_TX_PULL] > 0)
		sim_fail("%llu pieces were kept, %llu PULL frames sent",
			 (unsigned long long)counts[SN_NC_RX_STASHED],
			 (unsigned long long)counts[SN_NC_TX_PULL]);
	model_check_all(false);
	end_nodes(2);
	sim_end();
	model_end();
}

/*
 * The length of frames is given up while one of that length is being filled, and the driver has no room: what comes next and is taken into
 * several frames at once does not fill it, for it would leave in slices, which take the driver's room, and the next frames find none.
 */
static void shrinks(uint64_t seed)
{
	const struct sim_net_params p = {.delay = 5000, .mtu = 1472, .path_mtu = 65535, .queue = 2048};

	sim.random = seed;
	sim_start(sim_rand(), &p);
	model_start();
	sim.bare = true;
	struct node *a = node_new(0, TIMEOUT, 16384), *b = node_new(1, TIMEOUT, 16384);
	node_post(a, b, 8);
	settle(TIMEOUT, 2);
	sim_run(sim.now + SIM_MS);
	struct sn_net_link *l = sn_container(a->net->links.next, struct sn_net_link, node);
	for (unsigned i = 0; i < 20 && l->open.frame == NULL; i++)
		node_post(a, b, 8);
	sn_net_probe_hole(&l->way[0]);
	if (l->open.frame == NULL || l->open.room <= l->way[0].mtu)
		sim_fail("no long frame is being filled");
	sim.p.refuse = 1;
	node_post(a, b, 3000 + sim_below(1000));
	sim_run(sim.now + SIM_MS);
	sim.p.refuse = 0;
	settle(TIMEOUT, 2);
	model_check_all(false);
	end_nodes(2);
	sim_end();
	model_end();
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 0) : 2000;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	struct rusage u;

	for (uint64_t seed = first; seed < first + count; seed++) {
		if (seed % 50 == 1)
			parked(seed);
		else if (seed % 50 == 2)
			starved(seed);
		else if (seed % 50 == 6)
			tardy(seed);
		else if (seed % 50 == 14)
			first_met(seed);
		else if (seed % 50 == 9)
			ahead(seed);
		else if (seed % 50 == 11)
			one_rail_left(seed);
		else if (seed % 50 == 19)
			shrinks(seed);
		else if (seed % 10 == 3)
			rejoin(seed);
		else if (seed % 10 == 7)
			prompt(seed);
		else if (seed % 4 == 0)
			deaths(seed);
		else
			traffic(seed);
		if (sim.failed) {
			fprintf(stderr, "FAILED: seed %llu\n", (unsigned long long)seed);
			return 1;
		}
	}
	getrusage(RUSAGE_SELF, &u);
	printf("%lu schedules, %llu messages, %llu MB checked, %llu peers given up, %.1f s of CPU\n", count,
	       (unsigned long long)model_messages, (unsigned long long)(model_bytes >> 20),
	       (unsigned long long)model_gone, (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6);
	return count >= 2000 ? check_totals() : 0;
}
