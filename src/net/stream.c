/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MSG frames out: packing records, the window, acknowledgements, sending again.
 *
 * Retransmission. A frame stays in its slot, built, until it is acknowledged. Every send of a slot, first or again, gets the
 * next `order` of the way that carries it; when an acknowledgement covers a slot of order o, slots of the same way of order
 * o - 3 and less that are not covered are lost (three tolerates small reordering) and go out again at once. So a lost
 * resend is noticed like a lost first send. What has nothing sent after it waits for the way's timer, and then goes by
 * another way, if there is one. A way on which that happens twice in a row is out (way.c).
 *
 * Budget of a small post on an idle link: no allocation in the steady state, one copy of the body (into the frame), one
 * driver call. When posts wait for company, and when they leave, the strategy decides (sched.h).
 */
#include "base/log.h"
#include "net/net.h"
#include <stdlib.h>

#define HEAD ((uint32_t)sizeof(struct sn_wire_head))

static inline uint32_t in_flight(const struct sn_net_link *l)
{
	return l->tx_next - l->tx_una;
}

static inline struct sn_net_slot *slot_at(struct sn_net_link *l, uint32_t seq)
{
	return &l->tx[seq % SN_WIRE_WINDOW];
}

static bool may_send(const struct sn_net_link *l)
{
	return l->state == SN_LINK_OPEN && in_flight(l) < SN_WIRE_WINDOW;
}

/* What the strategy sees of this link, with a request of `bytes` more. */
static bool ready(struct sn_net_link *l, uint32_t requests, uint64_t bytes)
{
	struct sn_window w = {.count = l->waiting + requests,
			      .bytes = l->gathered + bytes,
			      .frame = sn_net_way_main(l)->mtu,
			      .flight = in_flight(l)};

	return l->net->strategy.ready(&w);
}

/* ---- packing ---- */

/*
 * Put a message, or the part of it that fits, into a frame of `room` bytes from *at on. True: all of it is in. A long
 * eager body turns FIRST, and then MORE, as it goes; less than a quarter of a frame is not worth a piece of its own.
 */
static bool pack_msg(struct sn_net_link *l, struct sn_net_msg *m, uint8_t *frame, uint32_t *at, uint32_t room)
{
	struct sn_rec rec = m->rec;
	uint64_t left = 0;

	if (rec.what == SN_REC_RDV)
		rec.frag = sn_net_probe_hope(l) - (uint32_t)sizeof(struct sn_wire_data);
	if (rec.what == SN_REC_PORTS)
		left = rec.head.len - m->offset;
	if (rec.what == SN_REC_EAGER) {
		left = rec.head.len - m->offset;
		if (m->offset)
			rec.what = SN_REC_MORE;
	}
	uint32_t head = sn_wire_rec_head(rec.what) + (rec.what == SN_REC_MORE ? 0 : rec.head.imm_len);
	if (rec.what == SN_REC_EAGER && *at + head + left > room) {
		rec.what = SN_REC_FIRST;
		head = sn_wire_rec_head(SN_REC_FIRST) + rec.head.imm_len;
	}
	if (*at + head + SN_MIN_OF(left, rec.what == SN_REC_PORTS ? left : (uint64_t)room / 4) > room)
		return false;
	rec.body_len = (uint32_t)SN_MIN_OF(left, (uint64_t)(room - *at - head));
	*at += sn_wire_rec_put(frame + *at, &rec);
	if (rec.body_len) {
		sn_iov_read(frame + *at, m->iov, m->iov_count, m->offset, rec.body_len);
		*at += rec.body_len;
		m->offset += rec.body_len;
	}
	return (m->rec.what != SN_REC_EAGER && m->rec.what != SN_REC_PORTS) || m->offset == m->rec.head.len;
}

/* A free slot with a frame in it, or NULL (no memory: the queue waits). */
static struct sn_net_slot *slot_new(struct sn_net_link *l)
{
	struct sn_net_slot *s = slot_at(l, l->tx_next);
	uint8_t *frame = sn_net_frame_get(l->net);

	if (frame == NULL)
		return NULL;
	*s = (struct sn_net_slot){.frame = frame};
	return s;
}

/* The frame in s is packed up to `len`: number it and send it. */
static void slot_send(struct sn_net_link *l, struct sn_net_way *w, struct sn_net_slot *s, uint32_t len)
{
	struct sn_wire_head *h = (void *)s->frame;

	s->len = len;
	sn_wire_start(h, SN_WIRE_MSG, len, (uint32_t)l->peer_session);
	h->seq = htole32(l->tx_next);
	h->check = htole32(sn_check_of(s->frame + HEAD, len - HEAD));
	l->tx_next++;
	sn_net_out_slot(w, s);
}

static void msg_packed(struct sn_net_link *l, struct sn_net_msg *m)
{
	struct sn_req *req = m->rec.what == SN_REC_EAGER ? m->req : NULL;

	if (req && l->net->quiet) {
		sn_list_add_tail(&l->net->ended_msgs, &m->node);
		return;
	}
	free(m);
	if (req)
		sn_core_sent(req, 0);
}

/*
 * One frame's worth of what waits. False: nothing was sent. A message leaves the queue before its sender is told, for
 * the core may post again from there; the frame is out of reach of such posts, for they find the queue not empty, or,
 * when it is, take the next slot.
 */
static bool push_frame(struct sn_net_link *l)
{
	struct sn_list packed;
	struct sn_net_way *w = sn_net_way_small(l, SN_MIN_OF(l->gathered, (uint32_t)SN_WIRE_BASE_MTU), NULL);
	struct sn_net_slot *s = w ? slot_new(l) : NULL;
	struct sn_window window = {.frame = w ? w->mtu : 0, .flight = in_flight(l)};
	uint32_t at = HEAD, inside = 0;

	if (s == NULL)
		return false;
	sn_list_init(&packed);
	struct sn_list *sources[] = {&l->dones, &l->queue};
	for (int i = 0; i < 2; i++) {
		while (!sn_list_empty(sources[i])) {
			struct sn_net_msg *m = sn_container(sources[i]->next, struct sn_net_msg, node);
			if (inside && !l->net->strategy.join(&window, inside))
				break;
			if (!pack_msg(l, m, s->frame, &at, w->mtu))
				break;
			sn_list_del(&m->node);
			sn_list_add_tail(&packed, &m->node);
			inside++;
		}
	}
	l->net->counts[SN_NC_RECORDS] += inside;
	l->waiting -= SN_MIN_OF(l->waiting, inside);
	l->gathered -= SN_MIN_OF(l->gathered, at - HEAD);
	if (at == HEAD) {
		sn_net_frame_put(l->net, s->frame);
		s->frame = NULL;
		return false;
	}
	slot_send(l, w, s, at);
	while (!sn_list_empty(&packed))
		msg_packed(l, sn_container(sn_net_pop(&packed), struct sn_net_msg, node));
	return true;
}

/* The way for a slot that goes out again: the one it had, unless that is out. */
static struct sn_net_way *way_again(struct sn_net_link *l, const struct sn_net_slot *s)
{
	struct sn_net_way *w = &l->way[s->way], *other;

	if (w->state == SN_WAY_UP)
		return w;
	other = sn_net_way_other(l, w);
	return other ? other : sn_net_way_main(l);
}

/* Slots marked to go out again, oldest first, then what waits. */
void sn_net_stream_push(struct sn_net_link *l)
{
	for (uint32_t seq = l->tx_una; l->tx_again && seq != l->tx_next; seq++) {
		struct sn_net_slot *s = slot_at(l, seq);
		if (!s->again)
			continue;
		struct sn_net_way *w = way_again(l, s);
		if (w->port->full)
			break;
		sn_net_out_slot(w, s);
	}
	while (may_send(l) && (!sn_list_empty(&l->dones) || (!sn_list_empty(&l->queue) && ready(l, 0, 0))))
		if (!push_frame(l))
			break;
	if (sn_list_empty(&l->queue))
		l->gathered = l->waiting = 0;
}

/* ---- posting ---- */

static struct sn_net_msg *msg_new(const struct sn_out *out, bool copy)
{
	uint64_t extra = copy ? out->head.len : 0;
	struct sn_net_msg *m = malloc(sizeof(*m) + extra);

	if (m == NULL)
		return NULL;
	*m = (struct sn_net_msg){.rec = {.what = SN_REC_EAGER, .head = out->head},
				 .iov = out->iov,
				 .iov_count = out->iov_count};
	sn_list_init(&m->node);
	if (out->head.imm_len)
		memcpy(m->imm, out->head.imm, out->head.imm_len);
	m->rec.head.imm = m->imm;
	if (copy) {
		m->own = (struct iovec){m + 1, extra};
		sn_iov_read(m + 1, out->iov, out->iov_count, 0, extra);
		m->iov = &m->own;
		m->iov_count = 1;
	}
	return m;
}

/* The way of a small message on a link with nothing waiting: straight into a frame. */
static bool post_at_once(struct sn_net_link *l, const struct sn_out *out)
{
	uint64_t need = HEAD + sn_wire_rec_head(SN_REC_EAGER) + out->head.imm_len + out->head.len;

	if (!may_send(l) || !sn_list_empty(&l->queue) || !sn_list_empty(&l->dones) ||
	    !ready(l, 1, need - HEAD))
		return false;
	struct sn_net_way *w = sn_net_way_small(l, (uint32_t)SN_MIN_OF(need, (uint64_t)UINT32_MAX), NULL);
	if (w == NULL || need > w->mtu)
		return false;
	struct sn_net_slot *s = slot_new(l);
	if (s == NULL)
		return false;
	struct sn_rec rec = {.what = SN_REC_EAGER, .head = out->head, .body_len = (uint32_t)out->head.len};
	uint32_t at = HEAD + sn_wire_rec_put(s->frame + HEAD, &rec);
	if (rec.body_len)
		sn_iov_read(s->frame + at, out->iov, out->iov_count, 0, rec.body_len);
	l->net->counts[SN_NC_RECORDS]++;
	slot_send(l, w, s, at + rec.body_len);
	return true;
}

static int post_rendezvous(struct sn_net_link *l, const struct sn_out *out, struct sn_req *req,
			   struct sn_net_msg *m)
{
	struct sn_net_send *s = sn_net_send_new(l, out, req);

	if (s == NULL) {
		free(m);
		return sn_fail(SN_ERR_NOMEM, "no memory for a rendezvous");
	}
	m->rec.what = SN_REC_RDV;
	m->rec.rdv = s->number;
	l->net->counts[SN_NC_RDV]++;
	return 0;
}

static int post(struct sn_net_link *l, const struct sn_out *out, struct sn_req *req)
{
	struct sn_net *n = l->net;
	bool copy = out->must_copy || req == NULL, rendezvous = out->head.len > n->cfg.eager && !copy;

	if (l->state == SN_LINK_GONE)
		return sn_fail(SN_ERR_PEER_GONE, "this peer is gone");
	if (!rendezvous) {
		n->counts[SN_NC_EAGER]++;
		if (post_at_once(l, out))
			return 1;
	}
	struct sn_net_msg *m = msg_new(out, copy);
	if (m == NULL)
		return sn_fail(SN_ERR_NOMEM, "no memory for a message");
	m->req = copy ? NULL : req;
	if (rendezvous && post_rendezvous(l, out, req, m) < 0)
		return SN_ERR_NOMEM;
	sn_list_add_tail(&l->queue, &m->node);
	sn_net_work(l);
	sn_net_connect(l);
	/* A full frame need not wait for company, and a rendezvous costs a round trip: not later than it must. */
	l->gathered += rendezvous ? sn_wire_rec_head(SN_REC_RDV)
				  : (uint32_t)out->head.len + sn_wire_rec_head(SN_REC_EAGER);
	l->waiting++;
	if (ready(l, 0, 0))
		sn_net_stream_push(l);
	return copy ? 1 : 0;
}

int sn_net_post(struct sn_net_link *l, const struct sn_out *out, struct sn_req *req)
{
	struct sn_net *n = l->net;

	sn_net_enter(n);
	int rc = post(l, out, req);
	sn_net_leave(n);
	return rc;
}

bool sn_net_unpost(struct sn_net_link *l, struct sn_req *req)
{
	sn_list_for_each_safe (at, &l->queue) {
		struct sn_net_msg *m = sn_container(at, struct sn_net_msg, node);
		struct sn_net_send *s =
			m->rec.what == SN_REC_RDV ? sn_net_table_get(&l->net->sends, m->rec.rdv) : NULL;
		if ((s ? s->req : m->req) != req || m->offset > 0)
			continue;
		if (s) {
			s->req = NULL;
			sn_net_send_finish(s, 0);
		}
		sn_list_del(&m->node);
		free(m);
		l->waiting -= l->waiting > 0;
		return true;
	}
	return false;
}

/* Our ports, for the peer; before whatever waits. Without memory it never learns of them, and uses one. */
void sn_net_stream_ports(struct sn_net_link *l, const uint8_t *body, uint32_t len)
{
	struct sn_net_msg *m = malloc(sizeof(*m) + len);

	if (m == NULL)
		return;
	*m = (struct sn_net_msg){.rec = {.what = SN_REC_PORTS, .head = {.len = len}}, .iov_count = 1};
	memcpy(m + 1, body, len);
	m->own = (struct iovec){m + 1, len};
	m->iov = &m->own;
	sn_list_init(&m->node);
	if (sn_list_empty(&l->queue) || sn_container(l->queue.next, struct sn_net_msg, node)->offset == 0)
		sn_list_add_tail(l->queue.next, &m->node);
	else /* not into the middle of a message */
		sn_list_add_tail(&l->queue, &m->node);
	sn_net_work(l);
}

struct sn_net_msg *sn_net_done_new(uint32_t rdv)
{
	struct sn_net_msg *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->rec.what = SN_REC_DONE;
	m->rec.rdv = rdv;
	sn_list_init(&m->node);
	return m;
}

/* Tell the sender that its rendezvous is over. */
void sn_net_done_post(struct sn_net_link *l, struct sn_net_msg *done, int status)
{
	done->rec.status = status;
	sn_list_add_tail(&l->dones, &done->node);
	sn_net_work(l);
	if (ready(l, 1, sn_wire_rec_head(SN_REC_DONE)))
		sn_net_stream_push(l);
}

/* ---- acknowledgements ---- */

static void slot_free(struct sn_net_link *l, struct sn_net_slot *s)
{
	if (s->batched)
		sn_net_flush(l->net);
	if (s->again)
		l->tx_again--;
	sn_net_frame_put(l->net, s->frame);
	s->frame = NULL;
}

/* Fewer frames in flight after a loss, at most once a round trip. */
static void window_cut(struct sn_net_way *w)
{
	uint64_t now = w->link->net->now;

	if (now < w->cut_at)
		return;
	w->cwnd = SN_MAX_OF(w->cwnd / 2, 4u);
	w->cut_at = now + w->rtt.srtt;
}

static void slot_acked(struct sn_net_link *l, struct sn_net_slot *s)
{
	struct sn_net_way *w = &l->way[s->way];

	if (s->acked)
		return;
	s->acked = true;
	w->flight--;
	if (s->again) {
		s->again = false;
		l->tx_again--;
	}
	if (s->sends == 1)
		sn_net_rtt_add(&w->rtt, l->net->now - s->sent_at);
	w->backoff = 0;
	if ((int32_t)(s->order - w->acked_order) > 0)
		w->acked_order = s->order;
	if (++w->cwnd_acks >= w->cwnd) {
		w->cwnd_acks = 0;
		w->cwnd = SN_MIN_OF(w->cwnd + 1, (uint32_t)SN_WIRE_WINDOW);
	}
	w->rto_at = w->flight ? l->net->now + sn_net_rto(&w->rtt, 0) : SN_NET_NEVER;
	sn_net_arm(l->net, w->rto_at);
}

static void find_lost(struct sn_net_link *l)
{
	for (uint32_t seq = l->tx_una; seq != l->tx_next; seq++) {
		struct sn_net_slot *s = slot_at(l, seq);
		struct sn_net_way *w = &l->way[s->way];
		if (s->acked || s->again || (int32_t)(w->acked_order - s->order) < 3)
			continue;
		s->again = true;
		l->tx_again++;
		l->net->counts[SN_NC_RESEND_FAST]++;
		window_cut(w);
	}
	if (l->tx_again)
		sn_net_work(l);
}

void sn_net_stream_ack(struct sn_net_link *l, uint32_t ack, uint64_t sack)
{
	uint32_t acked = ack - l->tx_una, flight = in_flight(l);

	if (acked > flight) /* old, or nonsense from an authentic peer: no news either way */
		return;
	bool news = acked > 0;
	for (uint32_t seq = l->tx_una; seq != ack; seq++) {
		slot_acked(l, slot_at(l, seq));
		slot_free(l, slot_at(l, seq));
	}
	l->tx_una = ack;
	for (uint32_t i = 0; sack >> i && i + 1 < in_flight(l); i++) {
		struct sn_net_slot *s = slot_at(l, ack + 1 + i);
		if ((sack >> i & 1) && !s->acked) {
			slot_acked(l, s);
			news = true;
		}
		if (i == 63)
			break;
	}
	if (!news)
		return;
	if (in_flight(l))
		find_lost(l);
	if (!sn_list_empty(&l->queue) || !sn_list_empty(&l->dones))
		sn_net_work(l);
}

/*
 * The oldest frame of the way goes out again, alone: what is behind it may well have arrived, and its acknowledgement will
 * tell. On another way if there is one: so a rail that has died costs the first message on it one time-out.
 */
static uint64_t way_timer(struct sn_net_way *w)
{
	struct sn_net_link *l = w->link;
	struct sn_net *n = l->net;

	if (w->flight == 0)
		return SN_NET_NEVER;
	if (n->now < w->rto_at)
		return w->rto_at;
	if (w->backoff < SN_NET_BACKOFF)
		w->backoff++;
	w->rto_at = n->now + sn_net_rto(&w->rtt, w->backoff);
	struct sn_net_way *other = sn_net_way_other(l, w);
	bool silent = false; /* late is not dead: it may stand behind bulk */
	for (uint32_t seq = l->tx_una; seq != l->tx_next; seq++) {
		struct sn_net_slot *s = slot_at(l, seq);
		if (s->acked || s->way != w->port->index)
			continue;
		silent = w->heard_at < s->sent_at;
		n->counts[SN_NC_RESEND_TIMER]++;
		if (w->backoff > 2)
			sn_net_out_ack(l, SN_WIRE_F_ANSWER);
		bool often = w->backoff > 3 || (other && s->sends > 4);
		if (often && s->len > SN_WIRE_BASE_MTU && l->heard_at > s->sent_at)
			sn_net_probe_hole(other ? other : w); /* short frames come through */
		window_cut(w);
		sn_net_out_slot(other ? other : w, s);
		break;
	}
	if (other && w->backoff >= (silent ? SN_NET_STRIKES : 3 * SN_NET_STRIKES))
		sn_net_way_down(w);
	return w->flight ? w->rto_at : SN_NET_NEVER;
}

uint64_t sn_net_stream_timer(struct sn_net_link *l)
{
	uint64_t next = SN_NET_NEVER;

	for (unsigned i = 0; i < l->net->cfg.ports; i++)
		next = SN_MIN_OF(next, way_timer(&l->way[i]));
	for (unsigned i = 0; i < l->net->cfg.ports;
	     i++) /* a resend may have started a clock that was passed */
		if (l->way[i].flight)
			next = SN_MIN_OF(next, l->way[i].rto_at);
	return next;
}

/* The way is out: all that was on it goes out again, by others. */
void sn_net_stream_moved(struct sn_net_way *w)
{
	struct sn_net_link *l = w->link;

	for (uint32_t seq = l->tx_una; seq != l->tx_next; seq++) {
		struct sn_net_slot *s = slot_at(l, seq);
		if (s->acked || s->again || s->way != w->port->index)
			continue;
		s->again = true;
		l->tx_again++;
	}
}

/* Everything unsent and unacknowledged is dropped; senders still waiting hear of it if status is not 0. */
void sn_net_stream_end(struct sn_net_link *l, int status)
{
	for (; l->tx_una != l->tx_next; l->tx_una++)
		slot_free(l, slot_at(l, l->tx_una));
	for (unsigned i = 0; i < SN_NET_RAILS; i++)
		l->way[i].flight = 0;
	struct sn_list *sources[] = {&l->dones, &l->queue};
	for (int i = 0; i < 2; i++) {
		while (!sn_list_empty(sources[i])) {
			struct sn_net_msg *m = sn_container(sn_net_pop(sources[i]), struct sn_net_msg, node);
			struct sn_req *req = m->rec.what == SN_REC_EAGER ? m->req : NULL;
			free(m);
			if (req && status)
				sn_core_sent(req, status);
		}
	}
}
