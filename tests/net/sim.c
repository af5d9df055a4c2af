/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"
#include "base/log.h"
#include <stdarg.h>

struct sim sim;

uint64_t sim_rand(void)
{
	uint64_t z = (sim.random += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t sim_clock(void *arg)
{
	sim.clocks++;
	return sim.now;
}

void sim_fail(const char *fmt, ...)
{
	va_list args;

	if (sim.failed) /* the first is the one to look at */
		return;
	sim.failed = true;
	fprintf(stderr, "at %.6f s: ", (double)sim.now / 1e9);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args); /* NOLINT(clang-analyzer-valist.Uninitialized): va_start stands above */
	va_end(args);
	fputc('\n', stderr);
}

/* ---- packets in flight: a binary heap by time ---- */

static bool earlier(const struct sim_packet *a, const struct sim_packet *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void heap_swap(unsigned a, unsigned b)
{
	struct sim_packet t = sim.heap[a];
	sim.heap[a] = sim.heap[b];
	sim.heap[b] = t;
}

static void heap_put(struct sim_packet p)
{
	if (sim.heap_count == sim.heap_room) {
		sim.heap_room = sim.heap_room ? sim.heap_room * 2 : 256;
		sim.heap = realloc(sim.heap, sim.heap_room * sizeof(*sim.heap));
	}
	unsigned i = sim.heap_count++;
	sim.heap[i] = p;
	for (; i > 0 && earlier(&sim.heap[i], &sim.heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap_swap(i, (i - 1) / 2);
}

static struct sim_packet heap_take(void)
{
	struct sim_packet top = sim.heap[0];

	sim.heap[0] = sim.heap[--sim.heap_count];
	sim.heap[sim.heap_count].bytes = NULL;
	for (unsigned i = 0;;) {
		unsigned least = i, left = 2 * i + 1;
		for (unsigned c = left; c < left + 2 && c < sim.heap_count; c++)
			if (earlier(&sim.heap[c], &sim.heap[least]))
				least = c;
		if (least == i)
			return top;
		heap_swap(i, least);
		i = least;
	}
}

/* ---- the wire ---- */

static void fly(unsigned from, unsigned to, unsigned rail, const uint8_t *bytes, uint32_t len, uint64_t at)
{
	struct sim_packet p = {
		.at = at, .order = sim.order++, .from = from, .to = to, .rail = rail, .len = len};

	p.line = sim.rail[rail].byte_time_ps != 0;
	p.bytes = malloc(len ? len : 1);
	memcpy(p.bytes, bytes, len);
	heap_put(p);
}

void sim_inject(unsigned to, const uint8_t *bytes, uint32_t len, uint64_t after)
{
	fly(to, to, (unsigned)sim_below(sim.rails), bytes, len, sim.now + after);
}

/* quick: in half the time, past whatever left before. */
static void transmit(unsigned from, unsigned to, unsigned rail, uint8_t *bytes, uint32_t len, bool quick)
{
	struct sim_rail *r = &sim.rail[rail];
	uint64_t at = sim.now + (sim.p.delay + r->delay) / (quick ? 2 : 1) + sim_below(sim.p.jitter);
	uint64_t byte_time = r->byte_time_ps ? r->byte_time_ps : sim.p.byte_time_ps;

	sim.sent++;
	if (sim.cut[from][to] || r->cut || len > sim.p.path_mtu || sim_chance(sim.p.loss) ||
	    (r->loss > 0 && sim_chance(r->loss))) {
		sim.lost++;
		return;
	}
	r->bytes += len;
	if (r->byte_time_ps) { /* cards have a rate both ways; without one of its own only the receiver's counts */
		uint64_t *out = &sim.line_out[from][rail];
		*out = SN_MAX_OF(sim.now, *out) + len * byte_time / 1000;
		at += *out - sim.now;
	} else if (byte_time) {
		at = SN_MAX_OF(at, sim.line_free[to][rail]) + len * byte_time / 1000;
		sim.line_free[to][rail] = at;
	}
	if (sim_chance(sim.p.reorder))
		at += sim_below(20 * (sim.p.delay + 1));
	if (sim_chance(sim.p.duplicate))
		fly(from, to, rail, bytes, len, at + sim_below(50 * (sim.p.delay + 1)));
	if (len && sim_chance(sim.p.corrupt)) {
		sim.damaged++;
		for (uint64_t k = 1 + sim_below(3); k > 0; k--)
			bytes[sim_below(len)] ^= (uint8_t)(1 + sim_below(255));
		if (sim_chance(0.2))
			len = (uint32_t)sim_below(len);
	}
	fly(from, to, rail, bytes, len, at);
}

static void deliver_packets(void)
{
	while (sim.heap_count && sim.heap[0].at <= sim.now) {
		struct sim_packet p = heap_take();
		uint64_t *line = &sim.line_free[p.to][p.rail];
		if (p.line && p.from != p.to) { /* first come, first served */
			p.at = *line = SN_MAX_OF(p.at, *line) + p.len * sim.rail[p.rail].byte_time_ps / 1000;
			p.line = false;
			heap_put(p);
			continue;
		}
		struct sim_inbox *in = &sim.inbox[p.to][p.rail];
		if (in->count >= sim.p.queue || sim.node[p.to] == NULL) {
			sim.lost++;
			free(p.bytes);
			continue;
		}
		if (in->count == in->room) {
			in->room = in->room ? in->room * 2 : 64;
			in->packet = realloc(in->packet, in->room * sizeof(*in->packet));
		}
		in->packet[in->count++] = p;
	}
}

/* ---- the driver: an address part is the number of a slot, and that of a rail ---- */

struct sn_addr_part sim_part(unsigned slot, unsigned rail)
{
	if (sim.driver)
		return sim.part[slot];
	return (struct sn_addr_part){
		.type = SN_ADDR_UDP4, .len = 6, .bytes = {10, (uint8_t)rail, 0, (uint8_t)slot}};
}

static bool drv_resolve(void *drv, const struct sn_addr_part *part, struct sn_net_path *path)
{
	const struct sim_port *port = drv;

	if (part->type != SN_ADDR_UDP4 || part->len != 6 || part->bytes[3] >= SIM_NODES ||
	    part->bytes[1] != port->rail)
		return false;
	path->bytes[0] = part->bytes[3];
	return true;
}

/* The rails of all are networks of their own. */
static unsigned drv_prefix(void *drv)
{
	return 24;
}

static bool drv_quick_part(void *drv, struct sn_addr_part *part)
{
	const struct sim_port *port = drv;

	*part = (struct sn_addr_part){
		.type = SN_ADDR_QUICK, .len = 2, .bytes = {(uint8_t)port->rail, (uint8_t)port->node->slot}};
	return sim.quick >> port->rail & 1;
}

static bool drv_quick_path(void *drv, const struct sn_addr_part *part, struct sn_net_path *path)
{
	const struct sim_port *port = drv;

	if (part->len != 2 || part->bytes[0] != port->rail || part->bytes[1] >= SIM_NODES)
		return false;
	path->quick[0] = part->bytes[1];
	return sim.quick >> port->rail & 1;
}

/* Does this frame take the short cut? Not if all are longer together than what lone messages are. */
static bool is_quick(const struct sn_net_out *f, unsigned rail, bool train)
{
	if (f->quick && (f->how != SN_OUT_PLAIN || !(sim.quick >> rail & 1)))
		sim_fail("a frame takes a short cut that there is not");
	if (f->quick == SN_QUICK_MAY && f->len > f->to->quick_most)
		sim_fail("a frame takes a short cut for shorter ones");
	return f->quick && !train;
}

static bool is_train(const struct sn_net_out *frames, unsigned count)
{
	uint32_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += frames[i].len;
	return count > 1 && bytes > 1024;
}

void sim_some_kinds_lost(void)
{
	sim.unjoined = (unsigned)sim_rand();
	sim.unquick = (unsigned)sim_rand();
}

static uint32_t drv_mtu(void *drv)
{
	const struct sim_port *port = drv;

	return sim.rail[port->rail].mtu ? sim.rail[port->rail].mtu : sim.p.mtu;
}

static uint64_t drv_room(void *drv)
{
	return 1 << 20;
}

/* Does this frame share a packet with the one before or behind it? */
static bool is_joined(const struct sn_net_out *frames, unsigned count, unsigned i)
{
	const struct sn_net_out *f = &frames[i];

	if (f->how != SN_OUT_JOINED)
		return false;
	if (i > 0 && f[-1].how == SN_OUT_JOINED && f[-1].to->bytes[0] == f->to->bytes[0])
		return true;
	return i + 1 < count && f[1].how == SN_OUT_JOINED && f[1].to->bytes[0] == f->to->bytes[0];
}

static unsigned drv_send(void *drv, const struct sn_net_out *frames, unsigned count)
{
	static uint8_t flat[SN_WIRE_LEN_MAX];
	const struct sim_port *port = drv;
	bool train = is_train(frames, count);

	sim.send_calls++;
	for (unsigned i = 0; i < count; i++) {
		uint32_t len = 0;
		if (sim_chance(sim.p.refuse))
			return i;
		for (uint32_t k = 0; k < frames[i].iov_count; k++) {
			memcpy(flat + len, frames[i].iov[k].iov_base, frames[i].iov[k].iov_len);
			len += (uint32_t)frames[i].iov[k].iov_len;
		}
		if (len != frames[i].len || le16toh(((struct sn_wire_head *)flat)->len) != len)
			sim_fail("a frame of type %u is %u bytes, but says %u", flat[1], len, frames[i].len);
		if ((sim.bodiless >> port->rail & 1 && frames[i].how != SN_OUT_PLAIN) ||
		    (sim.unjoined >> port->rail & 1 && is_joined(frames, count, i)))
			sim.lost++;
		else if (!is_quick(&frames[i], port->rail, train))
			transmit(port->node->slot, frames[i].to->bytes[0], port->rail, flat, len, false);
		else if (sim.unquick >> port->rail & 1)
			sim.lost++;
		else
			transmit(port->node->slot, frames[i].to->quick[0], port->rail, flat, len, true);
	}
	return count;
}

static void inbox_drop(struct sim_inbox *in, unsigned count)
{
	if (count == 0)
		return;
	for (unsigned i = 0; i < count; i++)
		free(in->packet[i].bytes);
	in->count -= count;
	memmove(in->packet, in->packet + count, in->count * sizeof(*in->packet));
}

/* Frames of one sender and one length, as receive offload would join them; the last may be shorter. */
static unsigned train_of(const struct sim_packet *p, unsigned count, uint32_t *bytes)
{
	unsigned n = 1;

	for (*bytes = p[0].len; n < count && p[n].len <= p[0].len && p[n].from == p[0].from; n++) {
		*bytes += p[n].len;
		if (p[n].len < p[0].len)
			return n + 1;
	}
	return n;
}

/* As the UDP driver does it: the bodies of the first train go where those that are expected next belong. */
static unsigned put_train(const struct sim_packet *p, unsigned count, struct sn_net_in *frames,
			  const struct sn_net_place *place, struct sn_net_spot *spot)
{
	uint32_t bytes, size;
	unsigned train = train_of(p, count, &bytes), placed = 0;

	if (place && sim_chance(0.8))
		placed = place->expect(place->arg, spot, SN_NET_BATCH, &size);
	if (placed && ((p[0].len != size && train > 1) || p[0].len > size))
		placed = 0;
	for (unsigned i = 0; i < train; i++) {
		frames[i] = (struct sn_net_in){.data = p[i].bytes, .len = p[i].len};
		if (i >= placed || p[i].len <= SN_NET_HEAD)
			continue;
		uint32_t body = SN_MIN_OF(p[i].len - SN_NET_HEAD, spot[i].len);
		frames[i].spot = &spot[i];
		memcpy(spot[i].at, p[i].bytes + SN_NET_HEAD, body);
		memset(p[i].bytes + SN_NET_HEAD, 0x5a, body); /* it is nowhere else */
	}
	return train;
}

static unsigned drv_receive(void *drv, struct sn_net_in *frames, unsigned max,
			    const struct sn_net_place *place)
{
	const struct sim_port *port = drv;
	struct sim_inbox *in = &sim.inbox[port->node->slot][port->rail];

	inbox_drop(in, in->taken);
	in->taken = 0;
	static struct sn_net_spot spots[2 * SN_NET_BATCH];
	unsigned count = SN_MIN_OF(max, in->count);
	while (in->taken < count)
		in->taken += put_train(in->packet + in->taken, count - in->taken, frames + in->taken,
				       in->taken ? NULL : place, spots + in->taken);
	return in->taken;
}

static bool drv_glance(void *drv)
{
	const struct sim_port *port = drv;
	const struct sim_inbox *in = &sim.inbox[port->node->slot][port->rail];

	return in->count > in->taken;
}

static void drv_counters(void *drv, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
}

const struct sn_net_driver sim_driver = {
	.name = "sim",
	.joins = true,
	.resolve = drv_resolve,
	.prefix = drv_prefix,
	.quick_part = drv_quick_part,
	.quick_path = drv_quick_path,
	.mtu = drv_mtu,
	.room = drv_room,
	.send = drv_send,
	.receive = drv_receive,
	.glance = drv_glance,
	.counters = drv_counters,
};

/* ---- time ---- */

/* Has anything come that the node has not read? */
static bool unread(unsigned slot)
{
	for (unsigned r = 0; r < sim.rails; r++)
		if (sim.inbox[slot][r].count > sim.inbox[slot][r].taken)
			return true;
	return false;
}

static bool node_due(struct node *n)
{
	if (n->asleep_until > sim.now && !n->quiet)
		return false;
	return unread(n->slot) || sn_net_deadline(n->net) == 0 || (n->asleep_until <= sim.now && n->quiet);
}

static uint64_t next_event(uint64_t until)
{
	uint64_t next = sim.heap_count ? SN_MIN_OF(until, sim.heap[0].at) : until;

	for (unsigned i = 0; i < SIM_NODES; i++) {
		struct node *n = sim.node[i];
		if (n == NULL)
			continue;
		if (n->asleep_until > sim.now) {
			next = SN_MIN_OF(next, n->asleep_until);
			if (!n->quiet) /* it looks at nothing, not even at the clock */
				continue;
		}
		uint64_t at = sn_net_deadline(n->net);
		at = at == SN_NET_NEVER ? until : sim.now + at;
		if (unread(i))
			at = sim.now;
		next = SN_MIN_OF(next, at);
	}
	return SN_MAX_OF(next, sim.now + 500); /* even a spinning process takes time */
}

void sim_run(uint64_t until)
{
	while (sim.now < until && !sim.failed) {
		sim.now = SN_MIN_OF(until, next_event(until));
		deliver_packets();
		for (unsigned i = 0; i < SIM_NODES; i++)
			if (sim.node[i] && node_due(sim.node[i]))
				node_progress(sim.node[i]);
	}
}

void sim_start(uint64_t seed, const struct sim_net_params *p)
{
	sn_log_level = SN_LOG_NONE; /* peers are meant to be lost */
	memset(&sim, 0, sizeof(sim));
	sim.random = seed;
	sim.now = 1000 * SIM_MS;
	sim.p = *p;
	sim.rails = 1;
}

void sim_end(void)
{
	while (sim.heap_count)
		free(sim.heap[--sim.heap_count].bytes);
	free(sim.heap);
	for (unsigned i = 0; i < SIM_NODES; i++)
		for (unsigned r = 0; r < SIM_RAILS; r++) {
			inbox_drop(&sim.inbox[i][r], sim.inbox[i][r].count);
			free(sim.inbox[i][r].packet);
		}
}
