/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rails: which ways lead to a peer, which of them work, which one a frame takes.
 *
 * A link begins with one way, the one that connected. Endpoints with several ports tell each other about them in a PORTS
 * record; then each port picks, among the peer's, the one that is nearest to it (the longest common prefix of the addresses;
 * on Ethernet, where addresses say nothing, one after the other until one answers) and tries it with a PROBE. A way counts as
 * up once a PROBED has come for it: so it works in both directions.
 *
 * A way is out when its timer has fired SN_NET_STRIKES times without a sign of life while another one works. What was on it
 * goes by the others at once; it is tried again after 10 ms, then less and less often up to 200 ms, and is taken back when
 * an answer comes. The last way that is up is never taken out: then the peer itself is in question (link.c, silence).
 * Ports on both sides pair up, so a lane and the way that leaves from the same port share their fate.
 */
#include "net/net.h"

int sn_net_affinity(const struct sn_net_port *p, const struct sn_addr_part *b)
{
	const struct sn_addr_part *a = &p->part;
	unsigned bytes = a->type == SN_ADDR_UDP4 ? 4 : a->type == SN_ADDR_UDP6 ? 16 : 0, bits = 8 * bytes;

	if (a->type != b->type)
		return -1;
	for (unsigned i = 0; i < bytes && bits == 8 * bytes; i++)
		if (a->bytes[i] != b->bytes[i])
			bits = 8 * i + (unsigned)__builtin_clz((unsigned)(a->bytes[i] ^ b->bytes[i])) - 24;
	return (int)SN_MIN_OF(bits, p->prefix);
}

static void way_init(struct sn_net_link *l, unsigned i)
{
	struct sn_net_way *w = &l->way[i];

	*w = (struct sn_net_way){.link = l, .port = &l->net->port[i], .cwnd = SN_WIRE_WINDOW / 2};
	w->mtu = w->ceiling = SN_MIN_OF(w->port->mtu, (uint32_t)SN_WIRE_BASE_MTU);
	w->rto_at = w->probe_at = w->try_at = w->join_at = w->quick.at = SN_NET_NEVER;
}

/* The way is to lead to the peer's part j, if its port goes there. */
static void way_lead(struct sn_net_way *w, unsigned j)
{
	struct sn_net_path path = {.bytes = {0}};

	if (!w->port->driver->resolve(w->port->drv, &w->link->part[j], &path))
		return;
	sn_net_quick_end(w);
	w->path = path;
	w->part = (uint8_t)j;
	if (w->state == SN_WAY_NONE)
		w->state = SN_WAY_TRYING;
}

bool sn_net_ways_first(struct sn_net_link *l, const struct sn_addr_part *part)
{
	struct sn_net *n = l->net;
	int best = -1, best_affinity = -1;

	for (unsigned i = 0; i < SN_NET_RAILS; i++) {
		sn_list_init(&l->lane[i].asked);
		if (i >= n->cfg.ports)
			continue;
		way_init(l, i);
		struct sn_net_port *p = &n->port[i];
		if (!p->driver->resolve(p->drv, part, &l->way[i].path))
			continue;
		l->way[i].state = SN_WAY_TRYING;
		int a = sn_net_affinity(p, part);
		if (best < 0 || a > best_affinity || (a == best_affinity && n->inside && i == n->in_port)) {
			best = (int)i;
			best_affinity = a;
		}
	}
	if (best < 0)
		return false;
	l->way[best].state = SN_WAY_UP;
	l->reply = (uint8_t)best;
	l->part[0] = *part;
	l->part_count = 1;
	return true;
}

/* Another part of the peer's address: the ways to which it is nearer than what they have begin there. */
void sn_net_ways_also(struct sn_net_link *l, const struct sn_addr_part *part)
{
	struct sn_net *n = l->net;
	unsigned j = l->part_count;

	if (j == SN_NET_RAILS || l->state != SN_LINK_IDLE)
		return;
	l->part[l->part_count++] = *part;
	for (unsigned i = 0; i < n->cfg.ports; i++) {
		struct sn_net_way *w = &l->way[i];
		int has = w->state == SN_WAY_NONE ? -1 : sn_net_affinity(w->port, &l->part[w->part]);
		int gets = sn_net_affinity(w->port, part);
		if (gets > has || (gets == has && i == j))
			way_lead(w, j);
	}
}

void sn_net_ways_rotate(struct sn_net_link *l)
{
	for (unsigned i = 0; i < l->net->cfg.ports && l->part_count > 1; i++)
		if (l->way[i].state != SN_WAY_NONE)
			way_lead(&l->way[i], (l->way[i].part + 1u) % l->part_count);
}

void sn_net_way_back(struct sn_net_link *l, const struct sn_wire_hello *h)
{
	struct sn_net_way *w = &l->way[l->net->in_port];
	struct sn_addr_part part = {.type = h->part_type, .len = (uint8_t)le16toh(h->part_len)};
	struct sn_net_path path = {.bytes = {0}};

	memcpy(part.bytes, h->secret.part, part.len);
	if (!w->port->driver->resolve(w->port->drv, &part, &path))
		return;
	sn_net_quick_end(w);
	w->path = path;
	if (w->state == SN_WAY_NONE)
		w->state = SN_WAY_TRYING;
}

/* The link is open: the port on which the peer's word has come leads to it. */
void sn_net_ways_open(struct sn_net_link *l, uint32_t peer_mtu)
{
	struct sn_net *n = l->net;

	for (unsigned i = 0; i < n->cfg.ports; i++) {
		struct sn_net_way *w = &l->way[i];
		if (w->state == SN_WAY_UP && l->way[n->in_port].state != SN_WAY_NONE)
			w->state = SN_WAY_TRYING;
		sn_net_quick_end(w);
		w->ceiling = SN_MIN_OF(w->port->mtu, peer_mtu);
		w->mtu = SN_MIN_OF(w->ceiling, (uint32_t)SN_WIRE_BASE_MTU);
	}
	if (l->way[n->in_port].state != SN_WAY_NONE)
		l->way[n->in_port].state = SN_WAY_UP;
	l->reply = (uint8_t)sn_net_way_main(l)->port->index;
}

/* ---- the ports of both sides ---- */

static uint32_t put_part(uint8_t *at, const struct sn_addr_part *part)
{
	at[0] = part->type;
	at[1] = part->len;
	memcpy(at + 2, part->bytes, part->len);
	return 2u + part->len;
}

void sn_net_ports_out(struct sn_net_link *l)
{
	struct sn_net *n = l->net;
	uint8_t body[2 * SN_NET_RAILS * sizeof(struct sn_addr_part)];
	uint32_t at = 0, count = 0;

	if (l->ports_sent)
		return;
	for (unsigned i = 0; i < n->cfg.ports; i++, count++) {
		const struct sn_net_port *p = &n->port[i];
		struct sn_addr_part quick;
		at += put_part(body + at, &p->part);
		if (p->driver->quick_part && p->driver->quick_part(p->drv, &quick)) {
			at += put_part(body + at, &quick);
			count++;
		}
	}
	if (count < 2)
		return;
	l->ports_sent = true;
	sn_net_stream_ports(l, body, at);
}

static int ports_parse(struct sn_net_link *l, const uint8_t *body, uint32_t len)
{
	uint32_t at = 0;

	l->part_count = 0;
	while (at < len) {
		if (len - at < 2 || body[at + 1] > sizeof(l->part[0].bytes) || len - at - 2 < body[at + 1])
			return SN_ERR_PROTO;
		bool quick = body[at] == SN_ADDR_QUICK && l->part_count > 0;
		if (!quick && l->part_count == SN_NET_RAILS)
			return SN_ERR_PROTO;
		if (!quick)
			l->quick[l->part_count++].len = 0;
		struct sn_addr_part *part =
			quick ? &l->quick[l->part_count - 1] : &l->part[l->part_count - 1];
		part->type = body[at];
		part->len = body[at + 1];
		memcpy(part->bytes, body + at + 2, part->len);
		at += 2u + part->len;
	}
	return 0;
}

/* The peer's port for way w: nearest, then not taken by a way before, then the one after `last`. -1: none. */
static int partner(struct sn_net_link *l, const struct sn_net_way *w, int last)
{
	struct sn_net_path path;
	int best = -1, best_score = -1;

	for (unsigned k = 0; k < l->part_count; k++) {
		unsigned j = ((unsigned)(last + 1) + k) % l->part_count;
		int score = 2 * sn_net_affinity(w->port, &l->part[j]) + 1;
		if (score < 0 || !w->port->driver->resolve(w->port->drv, &l->part[j], &path))
			continue;
		for (unsigned i = 0; i < l->net->cfg.ports; i++)
			if (&l->way[i] != w && l->way[i].state == SN_WAY_UP && l->way[i].part == j)
				score &= ~1;
		if (score > best_score) {
			best_score = score;
			best = (int)j;
		}
	}
	return best;
}

static void way_try(struct sn_net_way *w, int part)
{
	struct sn_net_link *l = w->link;

	if (part < 0) {
		w->state = SN_WAY_NONE;
		return;
	}
	sn_net_quick_end(w);
	w->part = (uint8_t)part;
	w->state = SN_WAY_TRYING;
	w->tries = 0;
	w->port->driver->resolve(w->port->drv, &l->part[part], &w->path);
	w->try_at = l->net->now;
	sn_net_arm(l->net, w->try_at);
}

int sn_net_ports_in(struct sn_net_link *l, const uint8_t *body, uint32_t len)
{
	struct sn_net *n = l->net;
	int rc = ports_parse(l, body, len);

	if (rc)
		return rc;
	for (unsigned i = 0; i < n->cfg.ports; i++) /* the way that works: to which of these does it lead? */
		for (unsigned j = 0; j < l->part_count && l->way[i].state == SN_WAY_UP; j++) {
			struct sn_net_path path = {.bytes = {0}};
			if (n->port[i].driver->resolve(n->port[i].drv, &l->part[j], &path) &&
			    memcmp(path.bytes, l->way[i].path.bytes, sizeof(path.bytes)) == 0)
				l->way[i].part = (uint8_t)j;
		}
	for (unsigned i = 0; i < n->cfg.ports; i++)
		if (l->way[i].state != SN_WAY_UP)
			way_try(&l->way[i], partner(l, &l->way[i], (int)i - 1));
		else
			sn_net_quick_begin(&l->way[i]);
	if (!l->ports_sent && n->cfg.ports == 1 && l->part_count > 1) {
		uint8_t own[sizeof(struct sn_addr_part)];
		uint32_t at = put_part(own, &n->port[0].part);
		l->ports_sent = true;
		sn_net_stream_ports(l, own, at);
	}
	return 0;
}

/* ---- which one ---- */

static struct sn_net_way *connecting(struct sn_net_link *l)
{
	unsigned count = 0, ports = l->net->cfg.ports;

	for (unsigned i = 0; i < ports; i++)
		count += l->way[i].state != SN_WAY_NONE;
	unsigned turn = count ? l->hellos / 2 % count : 0;
	if (turn == 0) /* the likeliest first */
		return NULL;
	for (unsigned i = 0; i < ports; i++)
		if (l->way[i].state == SN_WAY_TRYING && --turn == 0)
			return &l->way[i];
	return NULL;
}

struct sn_net_way *sn_net_way_main(struct sn_net_link *l)
{
	struct sn_net_way *best = l->state == SN_LINK_CONNECTING ? connecting(l) : NULL, *any = NULL;

	for (unsigned i = 0; i < l->net->cfg.ports && (best == NULL || l->state == SN_LINK_OPEN); i++) {
		struct sn_net_way *w = &l->way[i];
		if (w->state != SN_WAY_NONE && (any == NULL || w->state > any->state))
			any = w;
		if (w->state == SN_WAY_UP && (best == NULL || (w->rtt.srtt && w->rtt.srtt < best->rtt.srtt)))
			best = w;
	}
	return best ? best : any ? any : &l->way[0];
}

struct sn_net_way *sn_net_way_reply(struct sn_net_link *l)
{
	struct sn_net_way *w = &l->way[l->reply];

	return w->state == SN_WAY_UP || w->state == SN_WAY_TRYING ? w : sn_net_way_main(l);
}

/* Nobody answers by that one: the next that is up, if there is another. */
void sn_net_way_turn(struct sn_net_link *l)
{
	unsigned ports = l->net->cfg.ports;

	for (unsigned i = 1; i < ports; i++) {
		unsigned next = (l->reply + i) % ports;
		if (l->way[next].state == SN_WAY_UP) {
			l->reply = (uint8_t)next;
			return;
		}
	}
}

struct sn_net_way *sn_net_way_other(struct sn_net_link *l, const struct sn_net_way *than)
{
	struct sn_net_way *best = NULL;

	for (unsigned i = 0; i < l->net->cfg.ports; i++) {
		struct sn_net_way *w = &l->way[i];
		if (w != than && w->state == SN_WAY_UP && (best == NULL || w->rtt.srtt < best->rtt.srtt))
			best = w;
	}
	return best;
}

/*
 * What leaves here, the peer measures, and says with each PULL. Until it has, the model of what comes on the lane of the
 * same port serves: cards and cables are the same both ways.
 */
static uint64_t rate_out(const struct sn_net_way *w, uint64_t size)
{
	struct sn_net_link *l = w->link;

	for (unsigned k = 0; k < SN_NET_RAILS && w->rate == 0; k++)
		if (l->lane[k].known && l->lane[k].port == w->port->index)
			return sn_model_rate_of(&l->lane[k].model, size, l->net->now);
	return w->rate;
}

void sn_net_way_sent(struct sn_net_way *w, uint32_t bytes)
{
	w->frames++;
	w->bytes += bytes;
	if (sn_unlikely(w->frames == w->quick.later))
		sn_net_quick_begin(w);
	if (w->link->net->cfg.ports < 2)
		return;
	uint64_t rate = rate_out(w, bytes);
	w->free_at = SN_MAX_OF(w->free_at, w->link->net->now) +
		     (rate ? (uint64_t)((double)bytes * 1e9 / (double)rate) : 0);
}

struct sn_net_way *sn_net_way_small(struct sn_net_link *l, uint32_t bytes, const struct sn_net_way *except)
{
	struct sn_net *n = l->net;
	unsigned ports = n->cfg.ports;

	if (sn_likely(ports == 1)) {
		struct sn_net_way *w = &l->way[0];
		return w->flight < w->cwnd && !w->port->full ? w : NULL;
	}
	struct sn_sched_rail rails[SN_NET_RAILS] = {{0}};
	bool alone = true;
	for (unsigned i = 0; i < ports; i++)
		alone &= &l->way[i] == except || l->way[i].state != SN_WAY_UP;
	for (unsigned i = 0; i < ports; i++) {
		const struct sn_net_way *w = &l->way[i];
		uint64_t rate = rate_out(w, bytes), wait = w->free_at > n->now ? w->free_at - n->now : 0;
		rails[i] = (struct sn_sched_rail){
			.usable = w->state == SN_WAY_UP && (w != except || alone),
			.room = w->flight < w->cwnd && !w->port->full,
			.latency = w->rtt.srtt / 2,
			.rate = rate,
			.queued = (uint64_t)((double)wait * (double)(rate ? rate : 1) / 1e9),
		};
	}
	int best = n->strategy.small(rails, ports, bytes);
	if (best >= 0)
		return &l->way[best];
	for (unsigned i = 0; i < ports; i++)
		if (rails[i].usable)
			return NULL; /* busy */
	struct sn_net_way *w = sn_net_way_main(l);
	return w->flight < w->cwnd && !w->port->full ? w : NULL;
}

/* ---- life and death ---- */

static void lane_up(struct sn_net_link *l, unsigned rail)
{
	struct sn_net_lane *lane = &l->lane[rail];

	lane->down = false;
	lane->backoff = 0;
	lane->model.running = false;
}

/* An authentic frame of the peer's way `rail` has come on our port. */
void sn_net_way_heard(struct sn_net_link *l, unsigned port, unsigned rail, uint32_t len)
{
	struct sn_net_lane *lane = &l->lane[rail];
	struct sn_net_port *p = &l->net->port[port];

	if (p->heard_at != l->net->now) {
		p->before = p->heard;
		p->before_at = p->heard_at;
		p->heard_at = l->net->now;
	}
	p->heard += len;
	l->reply = (uint8_t)port;
	lane->port = (uint8_t)port;
	lane->heard_at = l->way[port].heard_at = l->net->now;
	lane->known = true;
	if (len > lane->mtu)
		lane->mtu = len;
	if (sn_unlikely(lane->down) && l->way[port].state == SN_WAY_UP)
		lane_up(l, rail);
}

void sn_net_way_answered(struct sn_net_way *w)
{
	struct sn_net_link *l = w->link;

	w->backoff = 0;
	w->tries = 0;
	if (w->state == SN_WAY_UP || w->state == SN_WAY_NONE)
		return;
	l->net->counts[SN_NC_RAIL_UP]++;
	bool first = w->state == SN_WAY_TRYING;
	w->state = SN_WAY_UP;
	w->try_at = SN_NET_NEVER;
	w->free_at = 0;
	w->cwnd = SN_WIRE_WINDOW / 4;
	if (first && w->ceiling > w->mtu)
		sn_net_probe_start(w);
	else
		sn_net_probe_train(w);
	sn_net_quick_begin(w);
	for (unsigned k = 0; k < SN_NET_RAILS; k++)
		if (l->lane[k].known && l->lane[k].port == w->port->index)
			lane_up(l, k);
	sn_net_work(l);
}

/* Nothing comes through. What was on it leaves by the others. The caller has seen that there is another. */
void sn_net_way_down(struct sn_net_way *w)
{
	struct sn_net_link *l = w->link;

	if (w->state != SN_WAY_UP || sn_net_way_other(l, w) == NULL)
		return;
	l->net->counts[SN_NC_RAIL_DOWN]++;
	sn_net_quick_end(w);
	w->state = SN_WAY_DOWN;
	w->tries = 0;
	w->try_at = l->net->now + SN_NET_RETRY;
	sn_net_arm(l->net, w->try_at);
	for (unsigned k = 0; k < SN_NET_RAILS; k++) {
		if (!l->lane[k].known || l->lane[k].port != w->port->index || l->lane[k].down)
			continue;
		l->lane[k].down = true;
		sn_net_pull_lane_down(l, k);
	}
	sn_net_stream_moved(w);
	sn_net_serve_moved(w);
	sn_net_work(l);
}

/* Ways that do not work are tried: a new one with what the peer offers, one port after the other; a lost one for ever. */
uint64_t sn_net_way_timer(struct sn_net_way *w)
{
	struct sn_net_link *l = w->link;
	struct sn_net *n = l->net;

	if (w->state != SN_WAY_TRYING && w->state != SN_WAY_DOWN)
		return SN_NET_NEVER;
	if (n->now < w->try_at)
		return w->try_at;
	if (w->state == SN_WAY_TRYING && w->tries && w->tries % 4 == 0) {
		unsigned tries = w->tries;
		way_try(w, partner(l, w, w->part));
		w->tries = (uint8_t)SN_MIN_OF(tries, 250u);
		if (w->state == SN_WAY_NONE)
			return SN_NET_NEVER;
	}
	sn_net_probe_try(w);
	uint64_t pause = SN_NET_RETRY << SN_MIN_OF(w->tries / 2u, 5u), most = SN_NET_RETRY_MOST;
	if (w->state == SN_WAY_TRYING && w->tries > 32) /* most likely there is no such path */
		most = pause = 5000 * SN_NET_MS;
	if (w->tries < 250)
		w->tries++;
	w->try_at = n->now + SN_MIN_OF(pause, most);
	return w->try_at;
}
