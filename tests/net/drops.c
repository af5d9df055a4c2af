/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every reason for which a frame is dropped, brought about by frames made for it, in a simulated network: each is
 * counted under that reason and no other, and what it was aimed at goes on working. The forger has the keys: most of
 * these frames only a mad peer can send, and the schedules of test_sim never do.
 */
#include "forge.h"

#define QUIET (200 * SIM_MS)
#define SHORT (SN_NET_RTO_ONE / 4) /* so that nothing is sent again */

static bool ends; /* this row ends the session: its peer broke the protocol */

static bool no_memory;
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size); /* the linker puts it in malloc's place */

void *__wrap_malloc(size_t size)
{
	return no_memory ? NULL : __real_malloc(size);
}

static struct sn_net_link *first_link(const struct node *n)
{
	return sn_container(n->net->links.next, struct sn_net_link, node);
}

static void record(struct sn_wire_rec rec, uint32_t len)
{
	ends = true;
	forge_msg(&rec, len);
}

/* ---- one function a row ---- */

static void shorter_than_a_header(void)
{
	forge_begin(SN_WIRE_ACK, 39);
	forge_deliver();
}
static void shorter_than_its_type(void)
{
	forge_begin(SN_WIRE_PULL, sizeof(f.pull) - 1);
	forge_sealed();
}
static void shorter_than_it_says(void)
{
	forge_begin(SN_WIRE_MSG, 100);
	forge_seal(&at_a->tx_key);
	sim_inject(b->slot, f.bytes, 99, 0);
}
static void longer_than_ports_take(void)
{
	forge_begin(SN_WIRE_MSG, MTU + 1);
	forge_sealed();
}
static void of_another_version(void)
{
	forge_begin(SN_WIRE_ACK, sizeof(f.h));
	f.h.version = SN_WIRE_VERSION + 1;
	forge_sealed();
}
static void of_no_type(void)
{
	forge_begin(SN_WIRE_TYPES, sizeof(f.h));
	forge_sealed();
}
static void for_no_link(void)
{
	forge_begin(SN_WIRE_ACK, sizeof(f.h));
	f.h.link ^= 1;
	forge_sealed();
}
/* For a link that knows only its own half: b's to a third node, which does not answer. */
static void before_it_is_open(void)
{
	struct node *c = node_new(2, 3000 * SIM_MS, 16384);
	const struct sn_net_link *l;

	sim.cut[1][2] = true;
	node_post(b, c, 10);
	l = sn_container(b->net->links.prev, struct sn_net_link, node);
	forge_begin(SN_WIRE_ACK, sizeof(f.h));
	f.h.link = htole32((uint32_t)l->session);
	forge_sealed();
}
static void after_its_end(void)
{
	ends = true;
	sn_net_enter(b->net);
	sn_net_gone(at_b, SN_ERR_PEER_GONE);
	sn_net_leave(b->net);
	forge_begin(SN_WIRE_ACK, sizeof(f.h));
	forge_sealed();
}
static void with_another_key(void)
{
	forge_begin(SN_WIRE_ACK, sizeof(f.h));
	forge_seal(&at_a->rx_key);
	forge_deliver();
}
static void hello_with_another_key(void)
{
	forge_hello(SN_WIRE_HELLO);
	forge_seal(&at_a->tx_key);
	forge_deliver();
}
static void damaged(void)
{
	forge_begin(SN_WIRE_MSG, 200);
	forge_seal(&at_a->tx_key);
	f.bytes[150] ^= 1;
	forge_deliver();
}
static void hello_damaged(void)
{
	struct sn_sip_key key;

	forge_hello(SN_WIRE_HELLO);
	sn_auth_hello_key(&key, b->ids.key);
	forge_seal(&key);
	f.bytes[100] ^= 1;
	forge_deliver();
}
static void hello_without_session(void)
{
	forge_hello(SN_WIRE_HELLO);
	f.hello.session = 0;
	forge_hello_sealed();
}
static void hello_of_tiny_frames(void)
{
	forge_hello(SN_WIRE_HELLO);
	f.hello.mtu = htole32(SN_WIRE_BASE_MTU - 1);
	forge_hello_sealed();
}
static void hello_with_a_long_part(void)
{
	forge_hello(SN_WIRE_WELCOME);
	f.hello.part_len = htole16(31);
	forge_hello_sealed();
}
static void hello_with_a_long_address(void)
{
	forge_hello(SN_WIRE_HELLO);
	f.hello.addr_len = SN_ADDR_MAX + 1;
	forge_hello_sealed();
}
static void hello_from_itself(void)
{
	forge_hello(SN_WIRE_HELLO);
	f.hello.id = htole64(b->ids.id);
	forge_hello_sealed();
}
static void hello_from_nowhere(void)
{
	forge_hello(SN_WIRE_HELLO);
	f.hello.session = htole64(at_a->session + 1); /* another life, to be answered; but where? */
	f.hello.part_type = 99;
	forge_hello_sealed();
}
static void hello_to_an_old_session(void)
{
	forge_hello(SN_WIRE_HELLO);
	f.hello.session = htole64(at_a->session + 1);
	f.hello.peer_session = htole64(at_b->session + 1);
	forge_hello_sealed();
}
static void welcome_unasked(void)
{
	forge_hello(SN_WIRE_WELCOME);
	f.hello.peer_session = htole64(at_b->session + 1);
	forge_hello_sealed();
}
static void hello_while_closing(void)
{
	b->net->closing = true;
	forge_hello(SN_WIRE_HELLO);
	f.hello.id = htole64(77);
	forge_hello_sealed();
}
/* The core knows another process under this address, say: sn_core_peer_from says no. */
static void hello_not_taken(void)
{
	b->shuns = true;
	forge_hello(SN_WIRE_HELLO);
	f.hello.id = htole64(77);
	f.hello.peer_session = htole64(sn_sip(&b->net->session_key, (uint64_t[]){77, 0}, 2));
	forge_hello_sealed();
}
static void seen_before(void)
{
	forge_begin(SN_WIRE_MSG, sizeof(f.h));
	f.h.seq = htole32(at_b->rx_next - 1);
	forge_sealed();
}
static void slice_of_one_seen_before(void)
{
	forge_begin(SN_WIRE_SLICE_OF, sizeof(f.slice) + 100);
	f.h.seq = htole32(at_b->rx_next - 1);
	f.slice.total = htole32(100);
	forge_sealed();
}
static void beyond_the_window(void)
{
	forge_begin(SN_WIRE_MSG, sizeof(f.h));
	f.h.seq = htole32(at_b->rx_deliver + SN_WIRE_WINDOW);
	forge_sealed();
}
static void record_of_no_kind(void)
{
	record((struct sn_wire_rec){.what = 99}, 40);
}
static void record_cut(void)
{
	record((struct sn_wire_rec){.what = SN_REC_EAGER, .kind = 1}, 23);
}
static void record_longer_than_its_frame(void)
{
	record((struct sn_wire_rec){.what = SN_REC_EAGER, .kind = 1, .bytes = htole32(17)}, 40);
}
static void more_of_nothing(void)
{
	record((struct sn_wire_rec){.what = SN_REC_MORE, .bytes = htole32(8)}, 16);
}
static void first_too_long(void)
{
	record((struct sn_wire_rec){.what = SN_REC_FIRST, .kind = 1, .len = htole64(SN_WIRE_EAGER_MAX + 1)},
	       32);
}
static void done_with_nothing(void)
{
	record((struct sn_wire_rec){.what = SN_REC_DONE, .bytes = htole32(1)}, 16);
}
static void ports_without_length(void)
{
	record((struct sn_wire_rec){.what = SN_REC_PORTS, .bytes = htole32(2), .bits = 0xff02}, 10);
}
static void rdv_of_nothing(void)
{
	record((struct sn_wire_rec){.what = SN_REC_RDV, .kind = 1, .frag = htole32(1400)}, 40);
}
static void data_unasked(void)
{
	forge_begin(SN_WIRE_DATA, sizeof(f.data) + 100);
	f.data.pull = htole32(1);
	forge_sealed();
}

/* A message that a announces and b begins to fetch, though nobody hears it ask, and nothing comes unasked. */
static const struct sn_net_pull *fetched(void)
{
	at_a->push_word = 0;
	node_post(a, b, 100000);
	sim_run(sim.now + SHORT);
	if (sn_list_empty(&at_b->pulls)) {
		sim_fail("no fetch has begun");
		return NULL;
	}
	return sn_container(at_b->pulls.next, struct sn_net_pull, node);
}
/* In answer to this PULL of the fetch; 0: to the last one before it. */
static void data(uint64_t offset, uint32_t len, uint32_t round)
{
	uint32_t before = at_b->round;
	const struct sn_net_pull *p = fetched();

	if (p == NULL)
		return;
	forge_begin(SN_WIRE_DATA, (uint32_t)sizeof(f.data) + len);
	f.data.pull = htole32(p->number);
	f.data.round = htole32(before + round);
	f.data.offset = htole64(offset);
	forge_sealed();
}
static void data_beyond_its_message(void)
{
	data(100000, 100, 1);
}
static void data_between_pieces(void)
{
	data(1, 100, 1);
}
static void data_of_an_old_fetch(void)
{
	data(0, MTU - sizeof(f.data), 0);
}
static void data_not_asked_for_yet(void)
{
	data(0, MTU - sizeof(f.data), SN_NET_BLOCKS + 1);
}

/* One of four pieces of 1,000 bytes, sent this many MSG frames after the announcement that b heard last. */
static void push(uint32_t rdv, uint32_t after, uint64_t offset, uint32_t len)
{
	forge_begin(SN_WIRE_PUSH, (uint32_t)sizeof(f.push) + len);
	f.h.seq = htole32(at_b->rx_deliver - 1 + after);
	f.push.rdv = htole32(rdv);
	f.push.frag = htole16(1000);
	f.push.count = htole16(4);
	f.push.offset = htole64(offset);
	forge_sealed();
}
static void push_seen_before(void)
{
	push(1, 1, 2000, 1000);
	push(1, 1, 2000, 1000);
}
static void push_of_an_older_one(void)
{
	push(1, 2, 2000, 1000);
	push(1, 1, 0, 1000);
}
static void push_of_a_newer_one(void)
{
	push(1, 1, 2000, 1000);
	push(1, 2, 2000, 1000);
	push(1, 2, 2000, 1000);
}
static void one_push_too_many(void)
{
	for (uint32_t rdv = 1; rdv <= SN_NET_STASHES + 1; rdv++)
		push(rdv, 1, 0, 1000);
}
static void push_of_what_is_asked_for(void)
{
	const struct sn_net_pull *p = fetched();

	if (p)
		push(p->rdv, 1, 1, 1000);
}
static void push_of_an_old_rendezvous(void)
{
	const struct sn_net_pull *p = fetched();

	if (p)
		push(p->rdv, SN_NET_STASH_SEQ + 1, 0, p->block[0].frag);
}
static void push_between_pieces(void)
{
	push(1, 1, 1, 1000);
}
static void push_beyond_its_count(void)
{
	push(1, 1, 4000, 1000);
}
static void push_cut_in_mid_body(void)
{
	push(1, 1, 1000, 999);
}
static void push_longer_than_a_piece(void)
{
	push(1, 1, 3000, 1001);
}

/* a announces a message that b leaves alone: a PULL for it, made by the forger, comes from b. */
static void announce(void)
{
	b->late = 1;
	node_post(a, b, 500000);
	sim_run(sim.now + 20 * SIM_MS);
}
static void pull(uint64_t offset, uint64_t end, uint64_t want, uint16_t frag, uint16_t more)
{
	const struct sn_net_send *s = sn_container(at_a->sends.next, struct sn_net_send, node);

	forge_begin(SN_WIRE_PULL, sizeof(f.pull));
	f.h.link = htole32((uint32_t)at_b->peer_session);
	f.h.ack = htole32(at_b->rx_next);
	f.pull.rdv = htole32(sn_list_empty(&at_a->sends) ? 1 : s->number);
	f.pull.pull = htole32(1);
	f.pull.offset = htole64(offset);
	f.pull.end = htole64(end);
	f.pull.want = htole64(want);
	f.pull.frag = htole16(frag);
	f.pull.more = htole16(more);
	forge_seal(&at_b->tx_key);
	forge_deliver_to(a);
}
#define ROW(what, ...)                                                                                       \
	static void what(void)                                                                               \
	{                                                                                                    \
		__VA_ARGS__;                                                                                 \
	}
ROW(pull_of_nothing, pull(0, 1000, 1, 1000, 0))
ROW(pull_beyond_the_message, announce(), pull(0, 500001, 1, 1000, 0))
ROW(pull_of_no_piece, announce(), pull(0, 1000, 0, 1000, 0))
ROW(pull_of_tiny_pieces, announce(), pull(0, 1000, 1, SN_WIRE_FRAG_MIN - 1, 0))
ROW(pull_beyond_its_block, announce(), pull(0, 1000, 2, 1000, 0))
ROW(pull_of_blocks_with_holes, announce(), pull(0, 6000, 5, 1000, 1))
ROW(pull_of_a_block_too_many, announce(), pull(0, 4000, 3, 1000, 2))
ROW(pull_beyond_its_blocks, announce(), pull(0, 4001, 3, 1000, 1))
/* a's driver has no room, so none is answered. */
static void unanswered(uint64_t frames, uint16_t more)
{
	announce();
	sim.p.refuse = 1;
	for (uint64_t i = 0; i < frames; i++)
		pull(i * 1000, (i + more + 1) * 1000, 1, 1000, more);
	sim_run(sim.now + SHORT);
	sim.p.refuse = 0;
}
ROW(one_pull_too_many, unanswered(SN_NET_JOBS + 1, 0))
ROW(a_block_of_a_pull_too_many, unanswered(1, SN_NET_JOBS))
static void slice_between_slices(void)
{
	forge_begin(SN_WIRE_SLICE_OF, sizeof(f.slice) + 100);
	f.h.seq = htole32(at_b->rx_next);
	f.slice.offset = htole32(1);
	f.slice.total = htole32(101);
	forge_sealed();
}
static void slice_of_too_much(void)
{
	forge_begin(SN_WIRE_SLICE_OF, sizeof(f.slice) + SN_WIRE_SLICE);
	f.h.seq = htole32(at_b->rx_next);
	f.slice.total = htole32(MTU);
	forge_sealed();
}
static void probed_by_no_rail(void)
{
	forge_begin(SN_WIRE_PROBED, sizeof(f.probe));
	f.probe.rail = 1;
	forge_sealed();
}
static void by_no_rail(void)
{
	forge_begin(SN_WIRE_ACK, sizeof(f.h));
	f.h.rail = SN_WIRE_RAILS;
	forge_sealed();
}

/* What has to be kept finds no memory: all that was free is taken first. */
static void starve(struct node *n)
{
	while (n->net->spare) {
		uint8_t *frame = sn_net_frame_get(n->net);
		free(frame);
	}
	no_memory = true;
	sim_run(sim.now + SHORT);
	no_memory = false;
}
static void early_without_memory(void)
{
	forge_begin(SN_WIRE_MSG, sizeof(f.h));
	f.h.seq = htole32(at_b->rx_next + 1);
	forge_sealed();
	starve(b);
}
static void slice_without_memory(void)
{
	forge_begin(SN_WIRE_SLICE_OF, sizeof(f.slice) + 100);
	f.h.seq = htole32(at_b->rx_next);
	f.slice.total = htole32(100);
	forge_sealed();
	starve(b);
}
static void pull_without_memory(void)
{
	announce();
	pull(0, 1000, 1, 1000, 0);
	starve(a);
}
static void push_without_memory(void)
{
	push(1, 1, 0, 1000);
	starve(b);
}

static const struct row {
	enum sn_drop why;
	const char *what;
	void (*make)(void);
	bool to_a;
} rows[] = {
	{SN_DROP_SHORT, "shorter than a header", shorter_than_a_header, false},
	{SN_DROP_SHORT, "shorter than its type", shorter_than_its_type, false},
	{SN_DROP_SHORT, "shorter than it says", shorter_than_it_says, false},
	{SN_DROP_LONG, "longer than ports take", longer_than_ports_take, false},
	{SN_DROP_VERSION, "of another version", of_another_version, false},
	{SN_DROP_TYPE, "of no type", of_no_type, false},
	{SN_DROP_LINK, "for no link", for_no_link, false},
	{SN_DROP_STATE, "before the link is open", before_it_is_open, false},
	{SN_DROP_STATE, "after its end", after_its_end, false},
	{SN_DROP_MAC, "with another key", with_another_key, false},
	{SN_DROP_MAC, "HELLO with another key", hello_with_another_key, false},
	{SN_DROP_CHECK, "damaged", damaged, false},
	{SN_DROP_CHECK, "HELLO damaged", hello_damaged, false},
	{SN_DROP_HELLO, "HELLO without a session", hello_without_session, false},
	{SN_DROP_HELLO, "HELLO of tiny frames", hello_of_tiny_frames, false},
	{SN_DROP_HELLO, "WELCOME with a long part", hello_with_a_long_part, false},
	{SN_DROP_HELLO, "HELLO with a long address", hello_with_a_long_address, false},
	{SN_DROP_HELLO, "HELLO from oneself", hello_from_itself, false},
	{SN_DROP_HELLO, "HELLO from nowhere", hello_from_nowhere, false},
	{SN_DROP_STALE, "HELLO to an old session", hello_to_an_old_session, false},
	{SN_DROP_STALE, "WELCOME unasked", welcome_unasked, false},
	{SN_DROP_REFUSED, "HELLO while closing", hello_while_closing, false},
	{SN_DROP_REFUSED, "HELLO of a peer not taken", hello_not_taken, false},
	{SN_DROP_AGAIN, "MSG seen before", seen_before, false},
	{SN_DROP_AGAIN, "SLICE of one seen before", slice_of_one_seen_before, false},
	{SN_DROP_WINDOW, "beyond the window", beyond_the_window, false},
	{SN_DROP_RECORD, "a record of no kind", record_of_no_kind, false},
	{SN_DROP_RECORD, "a record that is cut", record_cut, false},
	{SN_DROP_RECORD, "a record longer than its frame", record_longer_than_its_frame, false},
	{SN_DROP_RECORD, "MORE of nothing", more_of_nothing, false},
	{SN_DROP_RECORD, "FIRST of too much", first_too_long, false},
	{SN_DROP_RECORD, "DONE with nothing", done_with_nothing, false},
	{SN_DROP_RECORD, "PORTS without length", ports_without_length, false},
	{SN_DROP_RECORD, "RDV of nothing", rdv_of_nothing, false},
	{SN_DROP_PULL, "DATA unasked", data_unasked, false},
	{SN_DROP_RANGE, "DATA beyond its message", data_beyond_its_message, false},
	{SN_DROP_RANGE, "DATA between pieces", data_between_pieces, false},
	{SN_DROP_PULL, "DATA of an old fetch", data_of_an_old_fetch, false},
	{SN_DROP_PULL, "DATA not asked for yet", data_not_asked_for_yet, false},
	{SN_DROP_PUSH, "PUSH seen before", push_seen_before, false},
	{SN_DROP_PUSH, "PUSH of an older rendezvous than is kept", push_of_an_older_one, false},
	{SN_DROP_PUSH, "PUSH of a newer rendezvous, twice", push_of_a_newer_one, false},
	{SN_DROP_PUSH, "one PUSH too many", one_push_too_many, false},
	{SN_DROP_PUSH, "PUSH without memory", push_without_memory, false},
	{SN_DROP_PUSH, "PUSH between pieces that are asked for", push_of_what_is_asked_for, false},
	{SN_DROP_PUSH, "PUSH of an old rendezvous", push_of_an_old_rendezvous, false},
	{SN_DROP_RANGE, "PUSH between pieces", push_between_pieces, false},
	{SN_DROP_RANGE, "PUSH beyond its count", push_beyond_its_count, false},
	{SN_DROP_RANGE, "PUSH cut in mid-body", push_cut_in_mid_body, false},
	{SN_DROP_RANGE, "PUSH longer than a piece", push_longer_than_a_piece, false},
	{SN_DROP_RDV, "PULL of nothing", pull_of_nothing, true},
	{SN_DROP_RANGE, "PULL beyond the message", pull_beyond_the_message, true},
	{SN_DROP_RANGE, "PULL of no piece", pull_of_no_piece, true},
	{SN_DROP_RANGE, "PULL of tiny pieces", pull_of_tiny_pieces, true},
	{SN_DROP_RANGE, "PULL beyond its block", pull_beyond_its_block, true},
	{SN_DROP_RANGE, "PULL of blocks with holes", pull_of_blocks_with_holes, true},
	{SN_DROP_RANGE, "PULL of a block too many", pull_of_a_block_too_many, true},
	{SN_DROP_RANGE, "PULL beyond its blocks", pull_beyond_its_blocks, true},
	{SN_DROP_BUSY, "one PULL too many", one_pull_too_many, true},
	{SN_DROP_BUSY, "a block of a PULL too many", a_block_of_a_pull_too_many, true},
	{SN_DROP_RANGE, "SLICE between slices", slice_between_slices, false},
	{SN_DROP_RANGE, "SLICE of too much", slice_of_too_much, false},
	{SN_DROP_RANGE, "PROBED of no rail", probed_by_no_rail, false},
	{SN_DROP_RANGE, "by no rail", by_no_rail, false},
	{SN_DROP_MEMORY, "early, without memory", early_without_memory, false},
	{SN_DROP_MEMORY, "SLICE without memory", slice_without_memory, false},
	{SN_DROP_MEMORY, "PULL without memory", pull_without_memory, true},
};

static void run(const struct row *r)
{
	const struct sim_net_params p = {
		.delay = 100, .jitter = 1, .mtu = MTU, .path_mtu = 65535, .queue = 4096};
	uint64_t before[2][SN_DROP_COUNT];

	sim_start(1, &p);
	model_start();
	ends = false;
	a = node_new(0, 3000 * SIM_MS, 16384);
	b = node_new(1, 3000 * SIM_MS, 16384);
	node_post(a, b, 100);
	node_post(b, a, 100);
	sim_run(sim.now + QUIET);
	at_a = first_link(a);
	at_b = first_link(b);
	struct node *hit = r->to_a ? a : b, *other = r->to_a ? b : a;
	memcpy(before[0], hit->net->drops, sizeof(before[0]));
	memcpy(before[1], other->net->drops, sizeof(before[1]));
	sim.cut[hit->slot][other->slot] = true; /* whom these frames seem to come from is not to hear of it */
	r->make();
	sim_run(sim.now + SHORT);
	sim.cut[hit->slot][other->slot] = false;
	for (int d = 0; d < SN_DROP_COUNT; d++) {
		uint64_t due = d == (int)r->why;
		if (hit->net->drops[d] - before[0][d] != due)
			sim_fail("%s is %llu more instead of %llu", sn_drop_name(d),
				 (unsigned long long)(hit->net->drops[d] - before[0][d]),
				 (unsigned long long)due);
		if (other->net->drops[d] != before[1][d])
			sim_fail("the forger's own %s has grown", sn_drop_name(d));
	}
	if (ends != (at_b->state == SN_LINK_GONE))
		sim_fail("the session has %s", ends ? "not ended" : "ended");
	if (!ends) { /* and goes on */
		node_post(a, b, 1000);
		node_post(b, a, 30000);
		sim.cut[1][2] = false;
		sim_run(sim.now + 1000 * SIM_MS);
		while (b->pending)
			node_fetch_later(b);
		sim_run(sim.now + 1000 * SIM_MS);
	}
	model_check_all(ends);
	for (unsigned i = 0; i < 3; i++)
		if (sim.node[i])
			node_free(sim.node[i]);
	sim_end();
	model_end();
}

int main(void)
{
	bool seen[SN_DROP_COUNT] = {0};
	int bad = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		run(&rows[i]);
		printf("%-20s %s\n", sn_drop_name(rows[i].why), rows[i].what);
		if (sim.failed) {
			fprintf(stderr, "FAILED: a frame %s\n", rows[i].what);
			bad = 1;
		}
		seen[rows[i].why] = true;
	}
	for (int d = 0; d < SN_DROP_COUNT; d++)
		if (!seen[d]) {
			fprintf(stderr, "FAILED: no row for %s\n", sn_drop_name(d));
			bad = 1;
		}
	return bad;
}
