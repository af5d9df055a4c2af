/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The batch of frames on their way to the driver. Everything that sends adds here; sn_net_flush hands over. Entries refer to
 * frames in link windows and to the application's buffers, so whoever gives those away flushes first.
 *
 * Budget: a frame costs one SipHash of five words (pieces and PULLs, when the batch leaves: eight side by side); the payload
 * is read once for its check (MSG frames: when built, not again when resent) and not copied, but for pieces of many short
 * segments (net.tx_packed) and, by the same reading, short ones where the driver sends many as one
 * (sn_net_driver.together). One driver call for up to SN_NET_BATCH frames.
 */
#include "net/alone.h"
#include "net/net.h"

/*
 * Mean bytes of a segment worth gathering by the rail. A judgement: measured with tests/net/rail_peer.c, vector (256
 * segments a message, UDP and Ethernet, MTU 1500 and 9000, alternating), the time is within the noise of packing
 * between 300 and 1,500 bytes (0.78 to 1.12 of it). Each piece of an iovec costs the kernel as much as copying some
 * hundred bytes, so shorter ones cannot gain, and longer ones save the copy.
 */
#define PIECE_LEAST 512

static struct sn_net_tx *entry(struct sn_net_way *w, enum sn_net_what what, struct sn_net_out **out)
{
	struct sn_net_port *p = w->port;

	if (p->out_count == SN_NET_BATCH)
		sn_net_flush_port(p);
	struct sn_net_tx *tx = &p->tx[p->out_count];
	*out = &p->out[p->out_count++];
	tx->what = what;
	tx->link = w->link;
	tx->ref = NULL;
	tx->own = NULL;
	(*out)->to = &w->path;
	(*out)->how = SN_OUT_PLAIN;
	(*out)->quick = SN_QUICK_NO;
	return tx;
}

/* The part of the header that is fresh in every copy sent: what we have received. */
static void put_ack(struct sn_net_link *l, struct sn_wire_head *h)
{
	h->ack = htole32(l->rx_next);
	h->sack = htole64(l->rx_sack);
	h->flags &= (uint16_t)~htole16(SN_WIRE_F_TWICE); /* of the send before */
	if (sn_unlikely(l->twice))
		h->flags |= htole16(SN_WIRE_F_TWICE);
	l->twice = false;
	l->ack_waiting = 0;
	l->ack_at = SN_NET_NEVER;
	l->acked_at = l->net->now;
}

void *sn_net_out_ctrl(struct sn_net_way *w, uint8_t type, uint32_t len)
{
	struct sn_net_link *l = w->link;
	struct sn_net_out *out;
	struct sn_net_tx *tx = entry(w, type == SN_WIRE_PULL ? SN_TX_PULL : SN_TX_CTRL, &out);
	struct sn_wire_head *h = (void *)tx->room;

	memset(tx->room, 0, len);
	bool handshake = type == SN_WIRE_HELLO || type == SN_WIRE_WELCOME;
	sn_wire_start(h, type, len, handshake ? 0 : (uint32_t)l->peer_session);
	if (!handshake) {
		h->seq = htole32(l->tx_next);
		h->rail = (uint8_t)w->port->index;
		put_ack(l, h);
	}
	out->iov[0] = (struct iovec){tx->room, len};
	out->iov_count = 1;
	out->len = len;
	out->quick = type == SN_WIRE_PULL ? SN_QUICK_MAY : SN_QUICK_NO;
	return h;
}

static void put_check(const struct sn_net_out *out)
{
	struct sn_wire_head *h = out->iov[0].iov_base;
	struct sn_check c;

	sn_check_start(&c);
	sn_check_add(&c, h + 1, out->iov[0].iov_len - sizeof(*h));
	if (out->iov_count == 2)
		sn_check_add(&c, out->iov[1].iov_base, out->iov[1].iov_len);
	else if (out->iov_count > 2)
		sn_check_pieces(&c, out->iov + 1, out->iov_count - 1);
	h->check = htole32(sn_check_end(&c));
}

void sn_net_out_seal(struct sn_net_port *p, const struct sn_sip_key *key)
{
	const struct sn_net_out *out = &p->out[p->out_count - 1];
	struct sn_wire_head *h = out->iov[0].iov_base;

	put_check(out);
	h->mac = htole64(sn_auth_mac(key, h));
}

void sn_net_out_ack(struct sn_net_link *l, uint16_t flags)
{
	struct sn_net_way *w = sn_net_way_reply(l);
	struct sn_wire_head *h = sn_net_out_ctrl(w, SN_WIRE_ACK, sizeof(*h));

	w->port->tx[w->port->out_count - 1].what = SN_TX_ACK;
	w->port->out[w->port->out_count - 1].quick = flags || l->ack_sure ? SN_QUICK_NO : SN_QUICK_MAY;
	l->ack_sure = false;
	h->flags |= htole16(flags);
	sn_net_out_seal(w->port, &l->tx_key);
	l->net->counts[SN_NC_TX_ACK]++;
}

/* A MSG frame too long for the path as it is now: in slices. They come through the batch one by one. */
static void slot_in_slices(struct sn_net_way *w, struct sn_net_slot *slot)
{
	struct sn_net_link *l = w->link;
	const struct sn_wire_head *msg = (const void *)slot->frame;
	const uint8_t *payload = slot->frame + sizeof(*msg);
	uint32_t total = slot->len - (uint32_t)sizeof(*msg);

	for (uint32_t at = 0; at < total; at += SN_WIRE_SLICE) {
		uint32_t part = SN_MIN_OF(SN_WIRE_SLICE, total - at);
		struct sn_wire_slice *s = sn_net_out_ctrl(w, SN_WIRE_SLICE_OF, sizeof(*s));
		struct sn_net_out *out = &w->port->out[w->port->out_count - 1];
		s->h.len = htole16((uint16_t)(sizeof(*s) + part));
		s->h.seq = msg->seq;
		s->offset = htole32(at);
		s->total = htole32(total);
		out->iov[1] = (struct iovec){(void *)(payload + at), part};
		out->iov_count = 2;
		out->len += part;
		sn_net_out_seal(w->port, &l->tx_key);
		l->net->counts[SN_NC_SLICES]++;
	}
	sn_net_flush_port(w->port);
}

/* When, on which way, and what that starts; the frame itself is not looked at. */
static inline void slot_leaves(struct sn_net_way *w, struct sn_net_slot *slot)
{
	struct sn_net *n = w->link->net;

	slot->way = (uint8_t)w->port->index;
	if (slot->sends++ == 0) {
		slot->first_at = n->now;
		slot->first_way = slot->way;
	}
	if (w->flight++ == 0) {
		w->rto_at = n->now + sn_net_stream_rto(w);
		sn_net_arm(n, w->rto_at);
	}
	slot->sent_at = n->now;
	slot->order = w->order++;
	sn_net_way_sent(w, slot->len);
}

static inline void seal_slot(const struct sn_net_way *w, struct sn_net_slot *slot)
{
	struct sn_wire_head *h = (void *)slot->frame;

	h->rail = (uint8_t)w->port->index;
	put_ack(w->link, h);
	h->mac = htole64(sn_auth_mac(&w->link->tx_key, h));
}

/* A new frame, alone: past the batch, and whatever need not be done before it leaves comes after that, the clock too. */
void sn_net_out_alone(struct sn_net_way *w, struct sn_net_slot *slot)
{
	struct sn_net *n = w->link->net;
	struct sn_net_port *p = w->port;
	struct sn_net_out *out = &p->out[0];

	seal_slot(w, slot);
	out->to = &w->path;
	out->how = SN_OUT_PLAIN;
	out->quick = sn_net_quick_for(w, slot, w->link->tx_next);
	out->iov[0] = (struct iovec){slot->frame, slot->len};
	out->iov_count = 1;
	out->len = slot->len;
	unsigned sent = p->driver->send(p->drv, out, 1);
	sn_net_look(n);
	n->left_at = n->clock_seen;
	slot_leaves(w, slot);
	n->counts[SN_NC_TX_FRAMES] += sent;
	n->counts[SN_NC_TX_MSG]++;
	if (sn_unlikely(!sent)) {
		n->counts[SN_NC_FULL]++;
		p->full = slot->again = true;
		w->link->tx_again++;
		sn_net_work(w->link);
	}
}

void sn_net_out_slot(struct sn_net_way *w, struct sn_net_slot *slot)
{
	struct sn_net_link *l = w->link;
	struct sn_net *n = l->net;
	struct sn_net_out *out;

	if (slot->batched) /* of the batch of another port, perhaps */
		sn_net_flush(n);
	if (slot->sends)
		l->way[slot->way].flight--;
	slot_leaves(w, slot);
	if (slot->again) {
		slot->again = false;
		l->tx_again--;
	}
	enum sn_net_quick quick = sn_net_quick_for(w, slot, l->tx_una);
	if (slot->len > w->mtu && slot->len > SN_WIRE_BASE_MTU) {
		slot_in_slices(w, slot);
		return;
	}
	struct sn_net_tx *tx = entry(w, SN_TX_SLOT, &out);
	tx->ref = slot;
	out->quick = quick;
	slot->batched = true;
	seal_slot(w, slot);
	out->iov[0] = (struct iovec){slot->frame, slot->len};
	out->iov_count = 1;
	out->len = slot->len;
	n->counts[SN_NC_TX_MSG]++;
}

/*
 * The body of a piece: where it lies, if the rail may gather it from there, else copied together. Returns how many
 * pieces; 0: no memory.
 */
static uint32_t data_body(struct sn_net_job *job, struct sn_net_tx *tx, struct iovec *iov, uint64_t offset,
			  uint32_t len)
{
	const struct sn_net_send *s = job->send;
	struct sn_net *n = s->link->net;
	uint64_t covered;
	uint32_t pieces = sn_iov_slice(s->iov, s->iov_count, offset, len, iov, SN_NET_PIECES, &covered);

	if (sn_likely(covered == len && pieces == 1))
		return 1;
	if (covered == len && len >= pieces * PIECE_LEAST) {
		n->counts[SN_NC_GATHERED]++;
		return pieces;
	}
	tx->own = sn_net_frame_get(n);
	if (tx->own == NULL)
		return 0;
	n->counts[SN_NC_PACKED]++;
	sn_iov_read(tx->own, s->iov, s->iov_count, offset, len);
	iov[0] = (struct iovec){tx->own, len};
	return 1;
}

/*
 * The check of a piece. together: head and body are copied behind the piece before, as the kernel reads one stretch
 * of memory sooner than 90 bits of it, and the check is made of the same reading. For a few pieces that is not worth
 * the copy.
 */
static void seal_data(struct sn_net_port *p, bool together)
{
	struct sn_net_out *out = &p->out[p->out_count - 1];
	const struct iovec *body = &out->iov[1];
	struct sn_wire_data *d = out->iov[0].iov_base;
	uint8_t *at = together ? p->stage + p->staged : NULL, *to = together ? at + sizeof(*d) : NULL;
	struct sn_check c;

	_Static_assert(sizeof(*d) - sizeof(d->h) == SN_CHECK_HEAD, "what the check of a piece begins with");
	if (out->iov_count == 2) {
		d->h.check = htole32(sn_check_piece(&d->h + 1, body->iov_base, body->iov_len, to));
	} else {
		for (uint32_t i = 1; to && i < out->iov_count; to += (uint32_t)out->iov[i++].iov_len)
			memcpy(to, out->iov[i].iov_base, out->iov[i].iov_len);
		sn_check_start(&c);
		sn_check_add(&c, &d->h + 1, SN_CHECK_HEAD);
		sn_check_pieces(&c, body, out->iov_count - 1);
		d->h.check = htole32(sn_check_end(&c));
	}
	if (!together)
		return;
	memcpy(at, d, sizeof(*d));
	p->staged += out->len;
	out->iov[0] = (struct iovec){at, out->len};
	out->iov_count = 1;
}

/*
 * The macs of the pieces and PULLs in the batch, several at a time. A PULL may have grown until now, so its check is
 * made here, too.
 */
static void sign(struct sn_net_port *p)
{
	struct sn_wire_head *h[SN_AUTH_MACS];
	struct sn_auth_of of[SN_AUTH_MACS];
	uint64_t mac[SN_AUTH_MACS];

	for (unsigned i = 0, n = 0; i < p->out_count; i++) {
		if (p->tx[i].what == SN_TX_PULL)
			put_check(&p->out[i]);
		if (p->tx[i].what == SN_TX_DATA || p->tx[i].what == SN_TX_PULL) {
			h[n] = p->out[i].iov[0].iov_base;
			of[n++] = (struct sn_auth_of){&p->tx[i].link->tx_key, p->out[i].iov[0].iov_base};
		}
		if (n < SN_AUTH_MACS && i + 1 < p->out_count)
			continue;
		sn_auth_macs(mac, of, n);
		while (n > 0) {
			n--;
			h[n]->mac = htole64(mac[n]);
		}
	}
}

/*
 * What our kernel's module has asked for comes by the other type of frame. The shortest pieces are asked for where
 * others do not come through: those are not joined.
 */
static enum sn_net_how how_to_carry(const struct sn_net_job *job)
{
	if ((!job->push && job->pull & SN_WIRE_PULL_KERNEL) || job->way->plain)
		return SN_OUT_PLAIN;
	if (!job->way->joins || (!job->push && sn_net_shortest(job->frag)))
		return SN_OUT_BODY;
	return SN_OUT_JOINED;
}

/* A piece of a rendezvous. */
void sn_net_out_data(struct sn_net_job *job, unsigned bit)
{
	struct sn_net_way *w = job->way;
	struct sn_net_link *l = w->link;
	struct sn_net *n = l->net;
	struct sn_net_out *out;
	uint64_t offset = job->offset + (uint64_t)bit * job->frag;
	uint32_t len = (uint32_t)SN_MIN_OF((uint64_t)job->frag, job->end - offset);
	struct sn_net_tx *tx = entry(w, SN_TX_DATA, &out);
	struct sn_wire_data *d = (void *)tx->room;

	out->how = how_to_carry(job);
	tx->ref = job;
	tx->bit = bit;
	job->want &= ~(1ULL << bit);
	sn_wire_start(&d->h, job->push ? SN_WIRE_PUSH : SN_WIRE_DATA, (uint32_t)sizeof(*d) + len,
		      (uint32_t)l->peer_session);
	d->h.seq = htole32(job->push ? job->send->after : l->tx_next);
	d->h.rail = (uint8_t)w->port->index;
	put_ack(l, &d->h);
	if (job->push) {
		struct sn_wire_push *push = (void *)tx->room;
		push->rdv = htole32(job->send->number);
		push->frag = htole16(job->send->push_frag);
		push->count = htole16(job->send->push);
	} else {
		d->pull = htole32(job->pull);
		d->round = htole32(job->round);
	}
	d->offset = htole64(offset);
	out->iov[0] = (struct iovec){d, sizeof(*d)};
	out->len = (uint32_t)sizeof(*d) + len;
	n->counts[job->push ? SN_NC_TX_PUSH : SN_NC_TX_DATA]++;
	out->iov_count = 1 + data_body(job, tx, out->iov + 1, offset, len);
	if (out->iov_count == 1) { /* without memory the piece is lost, and asked for again */
		w->port->out_count--;
		return;
	}
	sn_net_way_sent(w, out->len);
	seal_data(w->port, w->port->stage && out->len <= w->port->driver->together &&
				   job->end - job->offset >= (uint64_t)SN_NET_PART * job->frag);
}

/* The driver had no room for this one: back to where it came from. */
static void put_back(struct sn_net_tx *tx)
{
	struct sn_net_slot *slot = tx->ref;
	struct sn_net_job *job = tx->ref;

	switch (tx->what) {
	case SN_TX_SLOT:
		if (!slot->again) {
			slot->again = true;
			tx->link->tx_again++;
		}
		sn_net_work(tx->link);
		break;
	case SN_TX_DATA: job->want |= 1ULL << tx->bit; break;
	case SN_TX_ACK:
		tx->link->ack_at = tx->link->net->now;
		sn_net_work(tx->link);
		break;
	default: /* their timers send them again */ break;
	}
}

void sn_net_flush_port(struct sn_net_port *p)
{
	struct sn_net *n = p->net;
	unsigned count = p->out_count;

	if (p->driver->quick_path)
		sn_net_quick_batch(p);
	sign(p);
	p->out_count = 0;
	p->staged = SN_NET_STAGE_AT;
	unsigned sent = count ? p->driver->send(p->drv, p->out, count) : 0;
	if (count)
		n->left_at = n->clock_seen;
	n->counts[SN_NC_TX_FRAMES] += sent;
	for (unsigned i = 0; i < count; i++) {
		struct sn_net_tx *tx = &p->tx[i];
		if (tx->what == SN_TX_SLOT)
			((struct sn_net_slot *)tx->ref)->batched = false;
		sn_net_frame_put(n, tx->own);
	}
	if (sn_unlikely(sent < count)) {
		p->full = true;
		n->counts[SN_NC_FULL]++;
		for (unsigned i = sent; i < count; i++)
			put_back(&p->tx[i]);
	}
	sn_net_served(p);
}

void sn_net_flush(struct sn_net *n)
{
	for (unsigned i = 0; i < n->cfg.ports; i++)
		if (n->port[i].out_count || !sn_list_empty(&n->port[i].served))
			sn_net_flush_port(&n->port[i]);
}
