/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames in: everything from the network passes here, and nothing passes that is not authentic. Each frame ends in exactly
 * one place: handled, or counted in drops[].
 */
#include "base/log.h"
#include "net/alone.h"
#include "net/run.h"

#define ROUNDS	    4 /* driver calls a look */
#define LATE_ROUNDS 32
#define ELSEWHERE   4000 /* ns without a look at the ports that heard nothing lately */
#define BESIDE	    1000 /* likewise, at what a lone port has beside the place that gave something last */
#define TOGETHER    3	 /* frames whose macs are made at once */

/* The macs of some frames that came in a row, made with one key. */
struct macs {
	struct sn_sip_key key;
	uint64_t mac[SN_AUTH_MACS];
	unsigned count;
};

static void hello_frame(struct sn_net *n, const uint8_t *data, uint32_t len)
{
	struct sn_wire_hello h;

	memcpy(&h, data, sizeof(h));
	if (le64toh(h.h.mac) != sn_auth_mac(&n->hello_key, &h.h)) {
		n->drops[SN_DROP_MAC]++;
		return;
	}
	if (le32toh(h.h.check) != sn_check_of(data + sizeof(h.h), len - sizeof(h.h))) {
		n->drops[SN_DROP_CHECK]++;
		return;
	}
	sn_auth_mask(&n->hello_key, &h);
	sn_net_hello_in(n, &h);
}

/*
 * Eight take hardly longer than two (auth.h). Trains come from one peer: so they are made for the link that the first
 * is for. A frame before may still end that session; what is for another key is reckoned anew.
 */
static void macs_ahead(struct sn_net *n, unsigned from, unsigned count, struct macs *m)
{
	struct sn_auth_of of[SN_AUTH_MACS];
	const struct sn_wire_head *h = (const void *)n->in[from].data;
	unsigned k = 0, most = SN_MIN_OF(count - from, (unsigned)SN_AUTH_MACS);

	m->count = 0;
	if (most < TOGETHER || n->in[from].len < sizeof(*h))
		return;
	const struct sn_net_link *l = sn_net_link_next(n, NULL, le32toh(h->link));
	if (l == NULL)
		return;
	m->key = l->rx_key;
	for (; k < most && n->in[from + k].len >= sizeof(*h); k++)
		of[k] = (struct sn_auth_of){&m->key, (const void *)n->in[from + k].data};
	sn_auth_macs(m->mac, of, k);
	m->count = k;
}

static uint64_t mac_of(const struct sn_net_link *l, const struct sn_wire_head *h, const struct macs *m,
		       unsigned i)
{
	bool made = i < m->count && m->key.k[0] == l->rx_key.k[0] && m->key.k[1] == l->rx_key.k[1];

	return made ? m->mac[i] : sn_auth_mac(&l->rx_key, h);
}

/* The link that this frame is for, by its number and proved by its mac. */
static struct sn_net_link *find_link(struct sn_net *n, const struct sn_wire_head *h, const struct macs *m,
				     unsigned i)
{
	enum sn_drop why = SN_DROP_LINK;
	uint32_t number = le32toh(h->link);
	uint64_t mac = le64toh(h->mac);

	for (struct sn_net_link *l = sn_net_link_next(n, NULL, number); l;
	     l = sn_net_link_next(n, l, number)) {
		if (l->peer_session == 0) {
			why = SN_DROP_STATE;
			continue;
		}
		why = SN_DROP_MAC;
		if (mac == mac_of(l, h, m, i))
			return l;
	}
	n->drops[why]++;
	return NULL;
}

/* The session is over here, and the peer does not know: tell it, not more than every 10 ms. */
static void to_the_gone(struct sn_net_link *l, uint8_t type)
{
	struct sn_net *n = l->net;

	n->drops[SN_DROP_STATE]++;
	if (type == SN_WIRE_BYE || l->dead || n->now < l->ping_at + 10 * SN_NET_MS)
		return;
	l->ping_at = n->now;
	sn_net_bye_out(l, l->bye_status, true);
}

static void slice_frame(struct sn_net_link *l, const uint8_t *data, uint32_t len)
{
	const struct sn_wire_slice *s = (const void *)data;

	sn_net_slice_in(l, le32toh(s->h.seq), le32toh(s->offset), le32toh(s->total), data + sizeof(*s),
			len - (uint32_t)sizeof(*s));
}

static void dispatch(struct sn_net_link *l, const uint8_t *data, uint32_t len,
		     const struct sn_net_found *found, const uint8_t *body)
{
	const struct sn_wire_head *h = (const void *)data;
	const uint8_t *piece = body ? body : data + sizeof(struct sn_wire_data);

	switch (h->type) {
	case SN_WIRE_MSG:
		sn_net_msg_in(l, le32toh(h->seq), data + sizeof(*h), len - (uint32_t)sizeof(*h));
		break;
	case SN_WIRE_DATA: sn_net_data_in(l, (const void *)data, found, piece, len - SN_NET_HEAD); break;
	case SN_WIRE_PUSH: sn_net_push_in(l, (const void *)data, found, piece, len - SN_NET_HEAD); break;
	case SN_WIRE_PULL: sn_net_pull_in(l, (const void *)data); break;
	case SN_WIRE_BYE: sn_net_bye_in(l, (const void *)data); break;
	case SN_WIRE_PROBE: sn_net_probe_in(l, (const void *)data, len); break;
	case SN_WIRE_PROBED: sn_net_probed_in(l, (const void *)data); break;
	case SN_WIRE_SLICE_OF: slice_frame(l, data, len); break;
	default: /* ACK: the header said it all */ break;
	}
}

/*
 * The check over a frame. Its end may stand elsewhere (body), or is copied to where it belongs (to) by the same
 * reading: as with a guess of the driver's, the place is still to be filled, so what turns out to be damaged is
 * written over.
 */
static uint32_t check_of(const struct sn_wire_head *h, uint32_t len, const uint8_t *body, uint8_t *to)
{
	if (body == NULL && to == NULL)
		return sn_check_of(h + 1, len - sizeof(*h));
	return sn_check_piece(h + 1, body ? body : (const uint8_t *)h + SN_NET_HEAD, len - SN_NET_HEAD, to);
}

/* Where the body of this piece belongs, if that is one place and nothing lies there yet; NULL. */
static uint8_t *place_of(const struct sn_wire_data *d, uint32_t len, const struct sn_net_found *f)
{
	return f->block ? sn_net_place_of(f->pull, le64toh(d->offset), len - SN_NET_HEAD) : NULL;
}

/*
 * Another piece of what the frame before was one of (run.h). False: it is not, or not authentic, or damaged; nothing is
 * done, and the long way says what is to be done with it.
 */
static bool frame_runs(struct sn_net *n, const struct sn_net_in *in, const struct macs *m, unsigned i,
		       struct sn_net_run *r)
{
	const struct sn_wire_data *d = (const void *)in->data;

	if (!sn_net_run_next(r, d, in->len) || le64toh(d->h.mac) != mac_of(r->link, &d->h, m, i))
		return false;
	struct sn_net_found found = {.pull = r->pull, .block = r->block, .piece = r->piece + 1};
	uint8_t *body = in->spot ? in->spot->at : NULL, *to = body ? NULL : place_of(d, in->len, &found);
	if (le32toh(d->h.check) != check_of(&d->h, in->len, body, to))
		return false;
	n->port[n->in_port].heard += in->len;
	r->last = d;
	r->piece++;
	if ((r->block->missing & (r->block->missing - 1)) ==
	    0) /* with this piece it is whole, and perhaps the fetch over */
		r->block = NULL;
	dispatch(r->link, in->data, in->len, &found, to ? to : body);
	return true;
}

/* What has been found of a frame, and handled, may hold for the next one. */
static void run_from(struct sn_net_run *r, struct sn_net_link *l, const struct sn_wire_head *h,
		     const struct sn_net_found *f, uint32_t pull)
{
	if (f->block && !h->flags && l->state == SN_LINK_OPEN &&
	    sn_net_table_get(&l->net->pull_table, pull) == f->pull && f->block->active && f->block->missing)
		*r = (struct sn_net_run){l, f->pull, f->block, (const void *)h, pull, f->piece};
}

static void frame_in(struct sn_net *n, const struct sn_net_in *in, const struct macs *m, unsigned i,
		     struct sn_net_run *run)
{
	const struct sn_wire_head *h = (const void *)in->data;
	const uint8_t *data = in->data;
	uint32_t len = in->len;
	enum sn_drop why;

	if (sn_wire_check(data, &len, n->mtu, &why) < 0) {
		bool first = n->drops[why]++ == 0;
		if (first && why == SN_DROP_VERSION && len == sizeof(struct sn_wire_hello) &&
		    h->type <= SN_WIRE_WELCOME && h->version < 16) /* no junk, most likely */
			sn_warn("a frame of version %u of the network protocol came, and this is version %u: "
				"is "
				"another sennit installed on a host of this job?",
				h->version, SN_WIRE_VERSION);
		return;
	}
	/* A frame before this one may have ended the fetch, and with it our right to its buffer. */
	if (in->spot && sn_net_table_get(&n->pull_table, in->spot->pull) == NULL) {
		n->drops[SN_DROP_PULL]++;
		return;
	}
	if (h->type != SN_WIRE_MSG)
		sn_net_fresh(n);
	if (h->type == SN_WIRE_HELLO || h->type == SN_WIRE_WELCOME) {
		hello_frame(n, data, len);
		return;
	}
	struct sn_net_link *l = find_link(n, h, m, i);
	if (l == NULL)
		return;
	struct sn_net_found found = {0};
	uint8_t *body = in->spot ? in->spot->at : NULL, *to = NULL;
	uint32_t pull = 0;
	if (h->type == SN_WIRE_DATA || h->type == SN_WIRE_PUSH) {
		found = sn_net_find(l, (const void *)h, len - SN_NET_HEAD);
		to = body ? NULL : place_of((const void *)h, len, &found);
		pull = found.pull ? found.pull->number : 0;
	}
	if (le32toh(h->check) != check_of(h, len, body, to)) {
		n->drops[SN_DROP_CHECK]++;
		return;
	}
	if (l->state != SN_LINK_OPEN) {
		to_the_gone(l, h->type);
		return;
	}
	if (h->rail >= SN_WIRE_RAILS) {
		n->drops[SN_DROP_RANGE]++;
		return;
	}
	sn_net_heard(l);
	sn_net_way_heard(l, n->in_port, h->rail, len);
	sn_net_stream_ack(l, le32toh(h->ack), le64toh(h->sack));
	/* A PROBE leaves before what came with the HELLO is read. */
	if (sn_unlikely(!l->confirmed) && h->type != SN_WIRE_PROBE) {
		l->confirmed = true;
		sn_net_stream_met(l);
	}
	if (sn_unlikely(le16toh(h->flags) & SN_WIRE_F_TWICE))
		sn_net_stream_twice(l);
	if (le16toh(h->flags) & SN_WIRE_F_ANSWER) {
		l->ack_sure = true;
		sn_net_ack_want(l, true);
	}
	if (l->state == SN_LINK_OPEN)
		dispatch(l, data, len, &found, to ? to : body);
	run_from(run, l, h, &found, pull);
}

/* Is it the very piece that the guess was about? */
static bool in_place(const struct sn_net_in *in)
{
	const struct sn_wire_data *d = (const void *)in->data; /* PUSH is alike */
	uint32_t number = d->h.type == SN_WIRE_DATA ? in->spot->pull : in->spot->rdv;

	return (d->h.type == SN_WIRE_DATA || d->h.type == SN_WIRE_PUSH) && le16toh(d->h.len) <= in->len &&
	       le16toh(d->h.len) == in->spot->len + SN_NET_HEAD && le32toh(d->h.link) == in->spot->link &&
	       le32toh(d->pull) == number && le64toh(d->offset) == in->spot->offset;
}

/*
 * The driver put the ends of some frames where a guess said. Those of which it was wrong are joined with their heads
 * now, before any frame is handled: the place of one may hold the bytes of another.
 */
static void undo_guesses(struct sn_net *n, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct sn_net_in *in = &n->in[i];
		if (in->spot == NULL)
			continue;
		if (in_place(in)) {
			n->counts[SN_NC_RX_PLACED]++;
			continue;
		}
		memcpy(in->data + SN_NET_HEAD, in->spot->at, SN_MIN_OF(in->len - SN_NET_HEAD, in->spot->len));
		in->spot = NULL;
		n->counts[SN_NC_RX_MOVED]++;
	}
}

static void frames_in(struct sn_net *n, unsigned count)
{
	struct sn_net_run run = {0};
	struct macs m;

	undo_guesses(n, count);
	for (unsigned i = 0; i < count; i++) {
		if (i % SN_AUTH_MACS == 0)
			macs_ahead(n, i, count, &m);
		if (frame_runs(n, &n->in[i], &m, i % SN_AUTH_MACS, &run))
			continue;
		run.block = NULL;
		frame_in(n, &n->in[i], &m, i % SN_AUTH_MACS, &run);
	}
}

/*
 * Between two short messages only the port that heard something last is looked at, and the others at times: a look at
 * one costs 0.3 us, as much as a tenth of a message's way, and messages mostly take one rail. What a lone port has to
 * look at besides is its driver's affair, but for the times at which all must be looked at.
 */
static bool must_look(const struct sn_net *n)
{
	return n->late || n->quiet || sn_net_expects(n);
}

static bool all_ports(struct sn_net *n, bool must)
{
	bool all = must || n->now >= n->all_at;

	if (all)
		n->all_at = n->now + (n->cfg.ports > 1 ? ELSEWHERE : BESIDE);
	return all;
}

/*
 * Budget: one driver call a port when there is nothing; one for each 64 frames else. A port that nobody has looked at for a
 * while is emptied, or what its peers say would stand ever longer behind what strangers send.
 */
int sn_net_input(struct sn_net *n)
{
	const struct sn_net_place place = {sn_net_expect, n};
	int events = 0, rounds = n->late ? LATE_ROUNDS : ROUNDS;
	unsigned ports = n->cfg.ports, first = n->hot_port;
	bool alone = ports == 1 && !n->port[0].driver->wide, must = !alone && must_look(n),
	     all = !alone && all_ports(n, must);

	if (!all)
		ports = 1;
	for (unsigned k = 0; k < ports; k++) {
		unsigned p = (first + k) % n->cfg.ports;
		for (int round = 0; round < rounds; round++) {
			const struct sn_net_port *port = &n->port[p];
			n->in_port = p;
			if (all && port->driver->wide)
				port->driver->wide(port->drv, must);
			unsigned count = port->driver->receive(port->drv, n->in, SN_NET_BATCH,
							       port->asked ? &place : NULL);
			frames_in(n, count);
			if (count)
				n->hot_port = p;
			n->counts[SN_NC_RX_FRAMES] += count;
			events += (int)count;
			if (count == 0 || (count < SN_NET_BATCH && port->asked == 0 && !n->late))
				break;
		}
	}
	return events;
}
