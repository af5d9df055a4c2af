/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MSG frames out: acknowledgements and sending again (gather.c fills them).
 *
 * Retransmission. A frame stays in its slot, built, until it is acknowledged. Every send of a slot, first or again, gets the
 * next `order` of the way that carries it; when an acknowledgement covers a slot of order o, slots of the same way of order
 * o - 3 and less that are not covered are lost (three tolerates small reordering) and go out again at once. So a lost
 * resend is noticed like a lost first send. What has nothing sent after it waits for the way's timer, and then goes by
 * another way, if there is one. A way on which that happens twice in a row is out (way.c).
 *
 * The timer. A lone message that is lost waits for it, so where there is one way it may be as short as half a
 * millisecond. But a peer whose application computes acknowledges when its service thread or its progress thread
 * looks, milliseconds later, and what it gets meanwhile comes twice. It says so, and then the time from the first
 * send is a round trip like any other: so the timer learns how late such a peer is, and forgets it with the prompt
 * answers that follow. It is never news of a loss.
 */
#include "net/alone.h"
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
	while (may_send(l) &&
	       (l->done_at <= l->net->now ||
		((!sn_list_empty(&l->queue) || (l->open.frame && !l->net->hold)) && sn_net_ready(l, 0, 0))))
		if (!sn_net_push_frame(l))
			break;
	if (sn_list_empty(&l->queue))
		l->gathered = l->waiting = 0;
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

/* Tell the sender that its rendezvous is over. If nobody waits for that, the next frame takes it along, or the clock. */
void sn_net_done_post(struct sn_net_link *l, struct sn_net_msg *done, int status, bool lazy)
{
	uint64_t at = l->net->now + (lazy ? SN_NET_ACK_DELAY : 0);

	done->rec.status = status;
	l->done_at = SN_MIN_OF(l->done_at, at);
	sn_list_add_tail(&l->dones, &done->node);
	sn_net_work(l);
	if (!lazy && sn_net_ready(l, 1, sn_wire_rec_head(SN_REC_DONE)))
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

uint64_t sn_net_stream_rto(const struct sn_net_way *w)
{
	bool one = w->link->net->cfg.ports == 1; /* with others, two firings take the way out */

	return sn_net_rto_from(&w->rtt, w->backoff, one ? SN_NET_RTO_ONE : SN_NET_RTO_MIN);
}

/*
 * A frame that was sent again has come twice: its first send was not lost, and what was acknowledged last tells how
 * late it came.
 */
void sn_net_stream_twice(struct sn_net_link *l)
{
	for (unsigned i = 0; i < l->net->cfg.ports; i++) {
		struct sn_net_way *w = &l->way[i];
		if (w->doubt == 0)
			continue;
		sn_net_quick_sure(w);
		sn_net_rtt_add(&w->rtt, w->doubt);
		w->doubt = 0;
		w->cwnd = SN_MIN_OF(2 * w->cwnd, (uint32_t)SN_WIRE_WINDOW); /* window_cut was wrong */
	}
}

/*
 * What was sent before the peer had made the link it has dropped, unless it says otherwise in the frame that tells of
 * the link, or in one that is read with it. The timer would be that of a peer of which nothing is known.
 */
void sn_net_stream_met(struct sn_net_link *l)
{
	for (uint32_t seq = l->tx_una; seq != l->tx_next; seq++) {
		struct sn_net_slot *s = slot_at(l, seq);
		if (s->acked || s->again)
			continue;
		s->again = true;
		l->tx_again++;
	}
	if (l->tx_again)
		sn_net_work(l);
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
	if (s->sends == 1 && !l->net->stale) {
		sn_net_rtt_add(&w->rtt, l->net->now - s->sent_at);
	} else if (s->sends > 1) {
		l->way[s->first_way].doubt = l->net->now - s->first_at;
		w->quick.again = s->quick;
	}
	w->backoff = 0;
	if ((int32_t)(s->order - w->acked_order) > 0)
		w->acked_order = s->order;
	if (++w->cwnd_acks >= w->cwnd) {
		w->cwnd_acks = 0;
		w->cwnd = SN_MIN_OF(w->cwnd + 1, (uint32_t)SN_WIRE_WINDOW);
	}
	if (w->flight)
		sn_net_fresh(l->net);
	w->rto_at = w->flight ? l->net->now + sn_net_stream_rto(w) : SN_NET_NEVER;
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
		if (s->quick)
			sn_net_quick_doubt(w);
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
	l->tail = l->tail && (int32_t)(l->tail_end - ack) > 0;
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
	if (!sn_list_empty(&l->queue) || !sn_list_empty(&l->dones) || l->open.frame)
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
	w->rto_at = n->now + sn_net_stream_rto(w);
	struct sn_net_way *other = sn_net_way_other(l, w);
	bool silent = false; /* late is not dead: it may stand behind bulk */
	for (uint32_t seq = l->tx_una; seq != l->tx_next; seq++) {
		struct sn_net_slot *s = slot_at(l, seq);
		if (s->acked || s->way != w->port->index)
			continue;
		silent = w->heard_at < s->sent_at;
		n->counts[SN_NC_RESEND_TIMER]++;
		if (s->quick)
			sn_net_quick_doubt(w);
		if (w->backoff > 2)
			sn_net_out_ack(l, SN_WIRE_F_ANSWER);
		bool often =
			(w->backoff > 3 && n->now - s->first_at >= SN_NET_HOLE) || (other && s->sends > 4);
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
	sn_net_gather_end(l);
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
