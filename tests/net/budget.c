/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a message costs between hosts, counted: system calls that carry frames, and bytes copied in user space (every
 * call of memcpy, and of sn_check_piece where it copies), and read there for their check alone. usage: net_budget
 * udp|ether. Two engines in one process, over the two ends of a veth pair, or over sockets on the loopback interface
 * with frames as on an Ethernet; the clock stands still, so nothing happens but what frames bring about, and the
 * counts do not depend on the machine's load.
 */
#include "counted.h"
#include "sim.h"
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MTU   1472
#define MIB   (1u << 20)
#define PINGS 100
#define ROW   8 /* bodies posted in a row */
#define ASK   (sizeof(struct sn_wire_pull) - sizeof(struct sn_wire_head))

static uint64_t copied, checked, asks_checked, sends, receives;
static bool in_check; /* what it copies is counted already: some processors do it by the C library */
void *__real_memcpy(void *to, const void *from, size_t n);
void *__wrap_memcpy(void *to, const void *from, size_t n); /* the linker puts it in memcpy's place */

void *__wrap_memcpy(void *to, const void *from, size_t n)
{
	copied += in_check ? 0 : n;
	return __real_memcpy(to, from, n);
}

uint32_t __real_sn_check_piece(const void *head, const void *bytes, size_t len, void *to);
uint32_t __wrap_sn_check_piece(const void *head, const void *bytes, size_t len, void *to);

uint32_t __wrap_sn_check_piece(const void *head, const void *bytes, size_t len, void *to)
{
	*(to ? &copied : &checked) += len;
	checked += SN_CHECK_HEAD;
	in_check = true;
	uint32_t sum = __real_sn_check_piece(head, bytes, len, to);
	in_check = false;
	return sum;
}

void __real_sn_check_add(struct sn_check *c, const void *bytes, size_t len);
void __wrap_sn_check_add(struct sn_check *c, const void *bytes, size_t len);

void __wrap_sn_check_add(struct sn_check *c, const void *bytes, size_t len)
{
	checked += len;
	if (len == ASK) /* all of these follow their head */
		asks_checked += ((const struct sn_wire_head *)bytes)[-1].type == SN_WIRE_PULL;
	__real_sn_check_add(c, bytes, len);
}

COUNTED_DRIVER_CALLS(sends, receives)

static uint32_t ethernet(void *drv)
{
	return MTU;
}

static struct node *a, *b;

/* How often the clock is read from a post on until the message leaves. */
static uint64_t clocks, clocks_late;
static unsigned (*leaves)(void *drv, const struct sn_net_out *frames, unsigned count);

/* Frames of the call that sent last, and of all. */
static unsigned frames_last, frames_sent;

static unsigned noting(void *drv, const struct sn_net_out *frames, unsigned count)
{
	frames_last = count;
	frames_sent += count;
	clocks_late += sim.clocks - clocks;
	return leaves(drv, frames, count);
}

struct cost {
	uint64_t sends, receives, plain, joined, placed, moved, acks, again, connected, copied, checked,
		announced;
};

static void add(void *arg, const char *name, uint64_t value)
{
	static const struct {
		const char *name;
		size_t at;
	} known[] = {
		{"net.udp_plain_calls", offsetof(struct cost, plain)},
		{"net.udp_joined_sends", offsetof(struct cost, joined)},
		{"net.udp_connected", offsetof(struct cost, connected)},
		{"net.rx_placed", offsetof(struct cost, placed)},
		{"net.rx_moved", offsetof(struct cost, moved)},
		{"net.tx_ack", offsetof(struct cost, acks)},
		{"net.tx_rendezvous", offsetof(struct cost, announced)},
		{"net.again_evidence", offsetof(struct cost, again)},
		{"net.again_timer", offsetof(struct cost, again)},
		{"net.resend_fast", offsetof(struct cost, again)},
		{"net.resend_timer", offsetof(struct cost, again)},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(name, known[i].name) == 0)
			*(uint64_t *)((char *)arg + known[i].at) += value;
}

/* Of both engines together, since the last time. */
static struct cost cost_since(struct cost *before)
{
	struct cost now = {.sends = sends, .receives = receives, .copied = copied, .checked = checked};
	struct cost since = {0};

	sn_net_counters(a->net, add, &now);
	sn_net_counters(b->net, add, &now);
	for (size_t i = 0; i < sizeof(now) / 8; i++)
		((uint64_t *)&since)[i] = ((uint64_t *)&now)[i] - ((uint64_t *)before)[i];
	*before = now;
	return since;
}

/* What waits for company has waited long enough, and what was sent is not yet late. */
#define STEP SN_NET_ACK_DELAY
_Static_assert(STEP < SN_NET_RTO_ONE, "so that nothing is sent again before its answer is looked for");

static bool readable(const struct node *n, int ms)
{
	struct pollfd p[SN_NET_FDS];
	int fd[SN_NET_FDS];
	unsigned count = sim.driver->fds(sim.drv[n->slot], fd);

	for (unsigned i = 0; i < count; i++)
		p[i] = (struct pollfd){.fd = fd[i], .events = POLLIN};
	return poll(p, count, ms) > 0;
}

/*
 * What was sent to it is there: on a busy machine the kernel may deliver a moment later. If it lost it, it is a
 * timer's turn.
 */
static void reads(struct node *n)
{
	for (unsigned late = 0; late < 1000 && !sim.failed; late++) {
		if (readable(n, late ? 10 : 3000)) {
			node_progress(n);
			return;
		}
		if (model_undelivered() == 0)
			return;
		sim.now += STEP;
		node_progress(a);
		node_progress(b);
	}
	sim_fail("nothing arrives");
}

/*
 * Everything that was posted arrives; who has nothing to read does not look, but for what has to be done by itself.
 * False: the clock had to go on for that.
 */
static bool settle(void)
{
	unsigned idle = 0;

	for (unsigned rounds = 0; model_undelivered() && idle < 1000 && rounds < 100000; rounds++) {
		bool any = false;
		for (int i = 0; i < 2; i++) {
			struct node *n = i ? a : b;
			if (readable(n, 0)) {
				node_progress(n);
				any = true;
			}
		}
		if (any || readable(a, 5) || readable(b, 5))
			continue;
		idle++; /* then it is a timer's turn */
		sim.now += STEP;
		node_progress(b);
		node_progress(a);
	}
	if (model_undelivered())
		sim_fail("not everything arrives");
	return idle == 0;
}

static void at_most(const char *what, double got, double most)
{
	printf("%-48s %8.2f, at most %.2f\n", what, got, most);
	if (got > most)
		sim_fail("%s: %.2f, more than %.2f", what, got, most);
}

/*
 * What was counted, unless the kernel has lost something: that is not what is counted here, and this try is not judged. Parts
 * in which the clock goes on, and a timer may have its turn, do not ask.
 */
static bool lost;

static struct cost counted(struct cost *before)
{
	if (model_undelivered())
		settle();
	struct cost c = cost_since(before);
	if (c.again)
		printf("(lost and sent again: %llu)\n", (unsigned long long)c.again);
	lost |= c.again > 0;
	return c;
}

/* A message there and one back, again and again. */
static struct cost pings(struct cost *before, uint64_t len)
{
	for (int i = 0; i < PINGS && !sim.failed; i++) {
		node_post(a, b, len);
		reads(b);
		node_post(b, a, len);
		reads(a);
	}
	return counted(before);
}

/* What a driver may cost, a message. */
static const struct most {
	const char *name;
	double receives; /* calls that receive a short one: the ring of the Ethernet driver is memory */
	double copied;	 /* bytes of a message of 8 bytes */
	double eager, several, pushed; /* copies of the bytes of longer ones */
	double several_receives;
	double row_sends, row_answers;		       /* of ROW bodies of 16 KiB */
	double long_sends, long_receives, long_copies; /* of a MiB */
	uint64_t word;				       /* bytes that one peer may push */
} mosts[] =
	{
		/*
		 * Into the frame, with its head, its record's and immediate data; nothing where it is taken out. A
		 * body pushed whole is copied for the sender to keep, and to where it belongs. Short pieces, if many,
		 * are copied to their heads, so that the kernel reads one stretch of memory. Now and then a look is
		 * at the other socket, too.
		 */
		{"udp", 1.1, 64, 1.2, 2.3, 2.1, 1.2, 3, 1, 32, 40, 1.35, 1 << 20},
		/*
		 * The same, and short ones behind their header; pieces of bodies have a socket of their own
		 * (src/net/bulk.c), at which somebody looks while they are expected.
		 */
		{"ether", 0.05, 150, 1.2, 2.3, 2.1, 0.05, 3, 2, 32, 40, 1.35, 1 << 20},
},
  *most;

/* Each is one call out and one look, and acknowledges the one before. */
static void short_ones(struct cost *before)
{
	struct cost c = pings(before, 8);

	at_most("calls that send, a message of 8 bytes", (double)c.sends / (2 * PINGS), 1);
	at_most("calls that receive, a message of 8 bytes", (double)c.receives / (2 * PINGS), most->receives);
	at_most("acknowledgements on their own", (double)c.acks, 0);
	at_most("bytes copied, a message of 8 bytes", (double)c.copied / (2 * PINGS), most->copied);
}

/* Where all that comes is short, and looks between find nothing, datagrams are read without message headers. */
static void plain_ones(struct cost *before)
{
	node_progress(a);
	node_progress(b);
	cost_since(before);
	clocks_late = 0;
	for (int i = 0; i < 2 * PINGS && !sim.failed; i++) {
		struct node *to = i % 2 ? a : b;
		clocks = sim.clocks;
		node_post(i % 2 ? b : a, to, 8);
		reads(to);
		node_progress(to);
	}
	struct cost c = counted(before);

	at_most("calls with message headers, of all that receive",
		(double)(c.receives - c.plain) / (double)c.receives, 0.15);
	/* Half of them are in one piece, as the shortest way wants them. */
	at_most("readings of the clock before a lone one leaves", (double)clocks_late / (2 * PINGS), 0.6);
}

/* Who waits for them peeks between whole looks: one call each, and it takes the message. */
static void peeked_ones(struct cost *before)
{
	unsigned taken = 0, in_vain = 0;
	uint64_t calls = 0, read = 0;

	for (int i = 0; i < 2 * PINGS && !sim.failed; i++) {
		struct node *from = i % 2 ? b : a, *to = i % 2 ? a : b;
		uint64_t had = receives;
		in_vain += sn_net_peek(to->net) == 0;
		calls += receives - had;
		node_post(from, to, 8);
		node_progress(from);
		if (!readable(to, 3000)) { /* lost by the kernel: then it is a timer's turn */
			lost = true;
			counted(before);
			return;
		}
		uint64_t before_peek = sim.clocks;
		bool took = sn_net_peek(to->net) > 0;
		read += sim.clocks - before_peek;
		taken += took;
		if (!took)
			node_progress(to);
	}
	counted(before);
	at_most("messages that no peek took, part", 1 - (double)taken / (2 * PINGS), 0.1);
	at_most("peeks in vain that could not tell, part", 1 - (double)in_vain / (2 * PINGS), 0.1);
	at_most("readings of the clock by a peek", (double)read / (2 * PINGS), 0.14);
	at_most("calls of a peek in vain", (double)calls / (2 * PINGS), 1.1);
}

/* An eager body is copied once, into its frame: the receiver hands it over where the driver put it. */
static void eager_ones(struct cost *before)
{
	const uint64_t len = 1200;
	struct cost c = pings(before, len);

	at_most("calls that send, an eager message of 1,200 bytes", (double)c.sends / (2 * PINGS), 1);
	at_most("calls that receive it", (double)c.receives / (2 * PINGS), most->receives);
	at_most("copies of its bytes", (double)c.copied / (2.0 * PINGS * (double)len), most->eager);
}

/* Those that take a few frames are copied into them, and together by the receiver, who has the kernel join them again. */
static void several_ones(struct cost *before)
{
	const uint64_t len = 4096;
	struct cost c = pings(before, len);

	at_most("calls that send, a message of 4 KiB", (double)c.sends / (2 * PINGS), 1);
	at_most("calls that receive it", (double)c.receives / (2 * PINGS), most->several_receives);
	at_most("of it announced, and then sent", (double)c.announced, 0);
	at_most("copies of its bytes", (double)c.copied / (2.0 * PINGS * (double)len), most->several);
}

/*
 * One longer than a frame is pushed whole behind its announcement: its pieces are read once for their check before
 * they leave, and not again.
 */
static void pushed_ones(struct cost *before)
{
	const uint64_t len = 16384;
	struct cost c = pings(before, len);

	at_most("calls that send, a message of 16 KiB", (double)c.sends / (2 * PINGS), 1);
	/* The first ones come in pieces, until the kernel is asked to join them again. */
	at_most("calls that receive, a message of 16 KiB", (double)c.receives / (2 * PINGS), 1.3);
	at_most("copies of its bytes", (double)c.copied / (2.0 * PINGS * (double)len), most->pushed);
	at_most("of its bytes read for their check alone", (double)c.checked / (2.0 * PINGS * (double)len),
		1.15);
}

/* What waited for company, and its answers. */
static void quiet(void)
{
	sim.now += STEP;
	node_progress(b);
	node_progress(a);
	while (readable(a, 5) || readable(b, 5)) {
		node_progress(b);
		node_progress(a);
	}
}

/* A lone one of short pieces ends with a short train, with which the receiver is soon done. */
static void lone_one(struct cost *before)
{
	settle();
	quiet();
	frames_sent = 0;
	node_post(a, b, 65536);
	at_most("part of a lone body that leaves last", (double)frames_last / frames_sent, 0.35);
	settle();
	cost_since(before);
}

/*
 * The first of several that are posted in a row leaves at once; the others share trains, also when the first look
 * comes, which may be the post's own. The next one brings what is left. Of those that have arrived the receiver tells
 * two at a time. All of that in no time: where the kernel is so late with a datagram that timers have their turn,
 * calls are theirs.
 */
static void in_a_row(struct cost *before)
{
	uint64_t from = sends;

	for (int i = 0; i < ROW; i++)
		node_post(a, b, 16384);
	node_progress(a);
	at_most("calls that send 8 of 16 KiB, but for the rest", (double)(sends - from), most->row_sends - 1);
	node_progress(a);
	at_most("calls that send 8 of 16 KiB", (double)(sends - from), most->row_sends);
	from = sends;
	lost |= !settle();
	at_most("calls that answer them", (double)(sends - from), most->row_answers);
	cost_since(before);
}

/* Two in a row are fetched in trains that end in the midst of a block, with a short piece among long ones. */
static void long_row(struct cost *before)
{
	const uint64_t len = 434 * (MTU - 56) - 50;

	node_post(a, b, len);
	node_post(a, b, len);
	settle();
	struct cost c = counted(before);
	at_most("copies of two long ones in user space", (double)c.copied / (2.0 * (double)len),
		most->long_copies + 0.1);
}

/*
 * A long one is fetched, but for its beginning, which is pushed: the sender gathers it from where it lies. The
 * datagram with the announcement is read before anybody knows where its pieces belong, and they are copied; those of
 * the next ones go where they belong in the kernel.
 */
static void long_one(struct cost *before)
{
	uint64_t asks = b->net->counts[SN_NC_TX_PULL], was = asks_checked;

	node_post(a, b, MIB);
	settle();
	struct cost c = counted(before);
	asks = b->net->counts[SN_NC_TX_PULL] - asks;
	at_most("frames that ask, a MiB", (double)asks, 3);
	at_most("checks made of these, by both sides", (double)(asks_checked - was), 2 * (double)asks);
	at_most("calls that send, a MiB", (double)c.sends, most->long_sends);
	at_most("calls that receive, a MiB", (double)c.receives, most->long_receives);
	at_most("copies of its bytes in user space", (double)c.copied / MIB, most->long_copies);
}

/* Who sends alone may push so much, or what the receiver's buffer holds. */
static void one_word(void)
{
	const struct sn_net_link *l = sn_container(a->net->links.next, struct sn_net_link, node);
	uint64_t room = SN_MIN_OF(sim.driver->room(sim.drv[b->slot]), most->word);

	printf("%-48s %8llu\n", "bytes that may be pushed", (unsigned long long)l->push_word);
	if (l->push_word > room || l->push_word <= room / 2)
		sim_fail("%llu bytes may be pushed where there is room for %llu",
			 (unsigned long long)l->push_word, (unsigned long long)room);
}

static void skip(const char *why)
{
	printf("skipped: %s\n", why);
	exit(77);
}

static void open_node(const struct sn_net_driver *driver, const char *where, unsigned slot)
{
	if (driver->open(where, &sim.drv[slot], &sim.part[slot]))
		skip(sn_last_error());
}

/* Two network cards and a cable, in a network namespace that ends with this process. */
static void lay_cable(void)
{
	static const char lay[] =
		"ip link add sna type veth peer name snb && ip link set sna up && ip link set snb up";

	if (unshare(CLONE_NEWNET) < 0 || system(lay) != 0) /* NOLINT(cert-env33-c): a fixed command */
		skip("no network namespace with a veth pair");
}

#define TRIES 3
#define LOST  75 /* exit status of a try that is not judged */

static int try(bool ether)
{
	const struct sim_net_params p = {.mtu = MTU, .path_mtu = MTU};
	struct sn_net_driver driver = ether ? sn_net_packet : sn_net_udp;
	struct cost before = {0};

	most = &mosts[ether];
	leaves = driver.send;
	driver.send = noting;
	if (ether)
		lay_cable();
	else
		driver.mtu = ethernet;
	sim_start(1, &p);
	model_start();
	sim.driver = &driver;
	sim.bare = true;
	open_node(&driver, ether ? "sna" : "lo", 0);
	open_node(&driver, ether ? "snb" : "lo", 1);
	a = node_new(0, 3000 * SIM_MS, 16384);
	b = node_new(1, 3000 * SIM_MS, 16384);
	for (int i = 0; i < 20; i++) { /* connected, the path known, what comes next guessed */
		node_post(a, b, i == 10 ? MIB : 100);
		node_post(b, a, i == 10 ? MIB : 100);
		settle();
		quiet();
	}
	cost_since(&before);
	if (!ether && before.joined == 0)
		skip("this kernel does not cut up datagrams (UDP_SEGMENT)");
	if (!ether && before.connected != 2) /* else every datagram costs a look at the routes */
		sim_fail("%llu of 2 send through a connected socket", (unsigned long long)before.connected);
	short_ones(&before);
	if (!ether) {
		plain_ones(&before);
		peeked_ones(&before);
	}
	eager_ones(&before);
	several_ones(&before);
	pushed_ones(&before);
	if (!ether)
		lone_one(&before);
	long_one(&before);
	in_a_row(&before);
	long_row(&before);
	one_word();
	model_check_all(false);
	node_free(a);
	node_free(b);
	for (int i = 0; i < 2; i++)
		driver.close(sim.drv[i]);
	bool failed = sim.failed;
	sim_end();
	model_end();
	return lost ? LOST : failed;
}

int main(int argc, char **argv)
{
	bool ether = argc > 1 && strcmp(argv[1], "ether") == 0;

	for (int i = 0; i < TRIES; i++) {
		int status;
		fflush(stdout);
		pid_t child = fork();
		if (child == 0)
			return try(ether);
		if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
			return 1;
		if (WEXITSTATUS(status) != LOST)
			return WEXITSTATUS(status);
	}
	printf("something was lost in each of %d tries\n", TRIES);
	return 1;
}
