/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MSG frames being filled: the window of requests for a peer.
 *
 * A request that fits is packed when it is posted, into the link's open frame; whether that frame leaves with it or waits for company the
 * strategy decides (sched.h). Only what does not fit a frame, or comes while the window is full or the link not yet open, waits in the queue
 * and is packed later. Frames that are full while others are under way wait for each other in the batch, to leave in one call, as a train.
 *
 * Nothing that waits here waits for a clock: acknowledgements of what is under way set it free, and when a train begins,
 * it is looked whether they have come. The application's own look, in which it posts nothing, sets free what is the last for now.
 *
 * Budget of a small post, and of one that must be copied and takes several frames: no allocation in the steady state, and one copy of the
 * body. On an idle link one driver call and one look at the clock, when the message has left; while others are under way neither, until a
 * frame is full.
 */
#include "base/log.h"
#include "net/alone.h"
#include "net/net.h"
#include <stdlib.h>

#define HEAD ((uint32_t)sizeof(struct sn_wire_head))

static inline uint32_t in_flight(const struct sn_net_link *l)
{
	return l->tx_next - l->tx_una;
}

/* What the strategy sees of this link, with a request of `bytes` more. */
static struct sn_window window(struct sn_net_link *l, uint32_t requests, uint64_t bytes)
{
	const struct sn_net_open *o = &l->open;

	return (struct sn_window){.count = l->waiting + o->count + requests,
				  .bytes = l->gathered + (o->frame ? o->at - HEAD : 0) + bytes,
				  .frame = o->frame ? o->room : sn_net_way_main(l)->mtu,
				  .flight = in_flight(l),
				  .waits = l->net->looks,
				  .tail = l->tail,
				  .bursts = l->bursts > SN_NET_BURSTS / 2,
				  .since = l->net->clock_seen - l->net->left_at,
				  .call = l->net->call};
}

bool sn_net_ready(struct sn_net_link *l, uint32_t requests, uint64_t bytes)
{
	struct sn_window w = window(l, requests, bytes);

	return l->net->strategy.ready(&w);
}

/* ---- the open frame ---- */

static bool open_begin(struct sn_net_link *l, const struct sn_net_way *w)
{
	uint8_t *frame = sn_net_frame_get(l->net);

	if (frame == NULL)
		return false;
	l->open = (struct sn_net_open){
		.frame = frame, .at = HEAD, .room = w->mtu, .way = (uint8_t)w->port->index};
	sn_net_work(l);
	return true;
}

/* Does a record of this length fit in, and may it? */
static bool open_takes(struct sn_net_link *l, uint64_t need)
{
	const struct sn_net_open *o = &l->open;
	struct sn_window w = {.frame = o->room, .flight = in_flight(l)};

	return o->frame && o->at + need <= o->room && (o->count == 0 || l->net->strategy.join(&w, o->count));
}

/* The way for the open frame: by the strategy, and one that carries a frame of this length; NULL: busy. */
static struct sn_net_way *way_for_open(struct sn_net_link *l)
{
	struct sn_net_way *w = sn_net_way_small(l, l->open.at, NULL), *first = &l->way[l->open.way];

	if (w && w->mtu < l->open.at && first->state == SN_WAY_UP && first->flight < first->cwnd &&
	    !first->port->full)
		return first;
	return w;
}

/*
 * What came behind a frame that left alone: after a few bursts the next one is taken for a burst, too, and only its first
 * message leaves by itself. A frame that nobody waited for, so that the service thread sent it, speaks against that.
 */
static void learn(struct sn_net_link *l, uint32_t requests, bool tail)
{
	bool first = in_flight(l) == 0;

	if (l->net->quiet)
		l->bursts = 0;
	else if (!first && requests >= (tail ? SN_NET_CROWD : 2))
		l->bursts += l->bursts < SN_NET_BURSTS;
	else if (tail || (first && !l->followed))
		l->bursts -= l->bursts > 0;
	l->followed = !first;
}

/* Number the open frame and send it. False: it cannot leave now. */
static bool open_send(struct sn_net_link *l)
{
	struct sn_net_open *o = &l->open;
	struct sn_window here = window(l, 0, 0);
	struct sn_net_way *w = in_flight(l) < SN_WIRE_WINDOW ? way_for_open(l) : NULL;
	struct sn_net_slot *s = &l->tx[l->tx_next % SN_WIRE_WINDOW];
	struct sn_wire_head *h = (void *)o->frame;

	if (w == NULL)
		return false;
	here.waits = here.bursts = false;
	bool tail = l->net->looks && !l->net->strategy.ready(&here);
	learn(l, o->count, tail);
	*s = (struct sn_net_slot){.frame = o->frame, .len = o->at};
	sn_wire_start(h, SN_WIRE_MSG, s->len, (uint32_t)l->peer_session);
	h->seq = htole32(l->tx_next);
	h->check = htole32(sn_check_of(s->frame + HEAD, s->len - HEAD));
	l->open = (struct sn_net_open){0};
	l->tx_next++;
	here = window(l, 1, 0);
	here.bursts = false;
	if (tail || !l->net->strategy.ready(&here)) /* requests gather behind it: for as short as may be */
		h->flags = htole16(SN_WIRE_F_ANSWER);
	if (tail) {
		l->tail = true;
		l->tail_end = l->tx_next;
	}
	sn_net_out_slot(w, s);
	return true;
}

/* A record, with its body, into the open frame; the caller has seen that there is room. */
static void open_put(struct sn_net_link *l, const struct sn_rec *rec, const struct iovec *iov, uint32_t count)
{
	struct sn_net_open *o = &l->open;

	o->at += sn_wire_rec_put(o->frame + o->at, rec);
	if (rec->body_len) {
		sn_iov_read(o->frame + o->at, iov, count, 0, rec->body_len);
		o->at += rec->body_len;
	}
	o->count++;
	l->net->counts[SN_NC_RECORDS]++;
}

void sn_net_gather_end(struct sn_net_link *l)
{
	if (l->open.frame)
		sn_net_frame_put(l->net, l->open.frame);
	l->open = (struct sn_net_open){0};
}

/* What the announcement says of the pieces to come. */
static void announce(struct sn_net_way *w, struct sn_rec *rec)
{
	struct sn_net_send *s = sn_net_table_get(&w->link->net->sends, rec->rdv);

	rec->frag = sn_net_probe_hope(w->link) - (uint32_t)sizeof(struct sn_wire_data);
	if (s == NULL)
		return;
	if (s->delivered) /* DONE says so: the peer's core need not */
		rec->head.flags &= (uint8_t)~SN_H_ARRIVED, rec->head.imm_len = 0;
	sn_net_push_plan(s, w);
	rec->push_frag = s->push_frag;
	rec->push = s->push;
	rec->lazy = sn_net_keep_promise(s);
}

/* ---- from the queue ---- */

/*
 * Put a message, or the part of it that fits, into a frame of `room` bytes from *at on. True: all of it is in. A long
 * eager body turns FIRST, and then MORE, as it goes; less than a quarter of a frame is not worth a piece of its own.
 */
static bool pack_msg(struct sn_net_link *l, struct sn_net_msg *m, uint8_t *frame, uint32_t *at, uint32_t room)
{
	struct sn_rec rec = m->rec;
	uint64_t left = 0;

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
	if (rec.what == SN_REC_RDV)
		announce(&l->way[l->open.way], &rec);
	if (rec.what == SN_REC_DONE)
		rec.word = sn_net_push_word(l->net);
	rec.body_len = (uint32_t)SN_MIN_OF(left, (uint64_t)(room - *at - head));
	*at += sn_wire_rec_put(frame + *at, &rec);
	if (rec.body_len) {
		sn_iov_read(frame + *at, m->iov, m->iov_count, m->offset, rec.body_len);
		*at += rec.body_len;
		m->offset += rec.body_len;
	}
	return (m->rec.what != SN_REC_EAGER && m->rec.what != SN_REC_PORTS) || m->offset == m->rec.head.len;
}

static void msg_packed(struct sn_net_link *l, struct sn_net_msg *m)
{
	struct sn_net_send *s =
		m->rec.what == SN_REC_RDV ? sn_net_table_get(&l->net->sends, m->rec.rdv) : NULL;
	struct sn_req *req = m->rec.what == SN_REC_EAGER || (s && s->kept.iov_base) ? m->req : NULL;

	if (s) {
		sn_net_push_start(s, sn_net_way_main(l));
		sn_net_keep_copy(s);
	}
	if (req && l->net->quiet) {
		sn_list_add_tail(&l->net->ended_msgs, &m->node);
		return;
	}
	free(m);
	if (req)
		sn_core_sent(req, 0);
}

/* What waits, into the open frame, as far as it takes it; what is in goes over to `packed`. */
static void pack_waiting(struct sn_net_link *l, struct sn_list *packed)
{
	struct sn_net_open *o = &l->open;
	struct sn_window w = {.frame = o->room, .flight = in_flight(l)};
	struct sn_list *sources[] = {&l->dones, &l->queue};
	uint32_t before = o->at, inside = o->count;

	for (int i = 0; i < 2; i++) {
		while (!sn_list_empty(sources[i])) {
			struct sn_net_msg *m = sn_container(sources[i]->next, struct sn_net_msg, node);
			if (o->count && !l->net->strategy.join(&w, o->count))
				break;
			if (!pack_msg(l, m, o->frame, &o->at, o->room))
				break;
			sn_list_del(&m->node);
			sn_list_add_tail(packed, &m->node);
			o->count++;
		}
	}
	if (sn_list_empty(&l->dones))
		l->done_at = SN_NET_NEVER;
	inside = o->count - inside;
	l->net->counts[SN_NC_RECORDS] += inside;
	l->waiting -= SN_MIN_OF(l->waiting, inside);
	l->gathered -= SN_MIN_OF(l->gathered, o->at - before);
}

/*
 * One frame's worth of what waits. False: nothing was sent. A message leaves the queue before its sender is told, for
 * the core may post again from there; the frame is out of reach of such posts, for it has left.
 */
bool sn_net_push_frame(struct sn_net_link *l)
{
	struct sn_net_way *w = sn_net_way_small(l, SN_MIN_OF(l->gathered, (uint32_t)SN_WIRE_BASE_MTU), NULL);
	struct sn_list packed;

	if (w == NULL || (l->open.frame == NULL && !open_begin(l, w)))
		return false;
	sn_list_init(&packed);
	pack_waiting(l, &packed);
	bool sent = l->open.at > HEAD && open_send(l);
	if (l->open.frame && l->open.at == HEAD)
		sn_net_gather_end(l);
	while (!sn_list_empty(&packed))
		msg_packed(l, sn_container(sn_net_pop(&packed), struct sn_net_msg, node));
	return sent;
}

/* ---- posting ---- */

static unsigned batched(const struct sn_net *n)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n->cfg.ports; i++)
		count += n->port[i].out_count;
	return count;
}

/* Have acknowledgements come? What else comes is kept until the application's next progress. Not amid frames just read. */
static void look_for_acks(struct sn_net *n)
{
	bool quiet = n->quiet;

	if (n->inside > 1)
		return;
	n->quiet = true;
	sn_net_input(n);
	n->quiet = quiet;
}

/* What DONE waits for company comes first, as far as this much room is left. */
static void take_dones(struct sn_net_link *l, uint64_t need)
{
	struct sn_net_open *o = &l->open;

	while (!sn_list_empty(&l->dones) && o->at + need + sizeof(struct sn_wire_rec) <= o->room) {
		struct sn_net_msg *m = sn_container(sn_net_pop(&l->dones), struct sn_net_msg, node);
		pack_msg(l, m, o->frame, &o->at, o->room);
		l->net->counts[SN_NC_RECORDS]++;
		o->count++;
		free(m);
	}
	if (sn_list_empty(&l->dones))
		l->done_at = SN_NET_NEVER;
}

/* Into the open frame, at once; hold: which leaves with the train to come. False: the message has to wait in the queue. */
static bool pack_now(struct sn_net_link *l, const struct sn_rec *rec, const struct iovec *iov, uint32_t count,
		     bool hold)
{
	struct sn_net *n = l->net;
	uint64_t need = sn_wire_rec_head(rec->what) + rec->head.imm_len + rec->body_len;

	if (l->state != SN_LINK_OPEN || !sn_list_empty(&l->queue))
		return false;
	if (l->open.frame && !open_takes(l, need) && !open_send(l)) {
		if (l->open.count == 1) /* for one message a look would cost more than it is worth */
			return false;
		look_for_acks(n); /* a DONE that leaves takes the open frame along */
		if (l->state != SN_LINK_OPEN || (l->open.frame && !open_send(l))) {
			sn_net_flush(n); /* nothing can join that train */
			return false;
		}
	}
	if (l->open.frame == NULL && batched(n) == 0 && !sn_net_ready(l, 1, need)) {
		look_for_acks(n);
		if (l->state != SN_LINK_OPEN || (l->open.frame && !open_takes(l, need)))
			return false;
	}
	if (l->open.frame == NULL) {
		struct sn_net_way *w =
			sn_net_way_small(l, (uint32_t)SN_MIN_OF(HEAD + need, (uint64_t)UINT32_MAX), NULL);
		w = w ? w : sn_net_way_main(l);
		if (HEAD + need > w->mtu || !open_begin(l, w))
			return false;
		take_dones(l, need);
	}
	open_put(l, rec, iov, count);
	if (!hold && sn_net_ready(l, 0, 0))
		open_send(l);
	return true;
}

void sn_net_gather_leave(struct sn_net_link *l)
{
	if (l->open.frame)
		open_send(l); /* if it must wait, the pieces, which do not, are kept over there */
}

static struct sn_net_msg *msg_new(const struct sn_out *out, bool copy)
{
	uint64_t extra = copy ? out->head.len : 0;
	struct sn_net_msg *m = malloc(sizeof(*m) + extra);

	if (m == NULL)
		return NULL;
	*m = (struct sn_net_msg){.iov = out->iov, .iov_count = out->iov_count};
	m->rec = (struct sn_rec){.what = SN_REC_EAGER, .head = out->head};
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

/* A full frame need not wait for company, and a rendezvous costs a round trip: not later than it must. */
static void queue_msg(struct sn_net_link *l, struct sn_net_msg *m)
{
	uint64_t bytes = m->rec.what == SN_REC_RDV ? 0 : m->rec.head.len;

	sn_list_add_tail(&l->queue, &m->node);
	sn_net_work(l);
	sn_net_connect(l);
	l->gathered += sn_wire_rec_head(m->rec.what) + (uint32_t)bytes;
	l->waiting++;
	if (sn_net_ready(l, 0, 0))
		sn_net_stream_push(l);
}

static int post_rendezvous(struct sn_net_link *l, const struct sn_out *out, struct sn_req *req)
{
	struct sn_net_send *s = sn_net_send_new(l, out, req);
	struct sn_rec rec = {.what = SN_REC_RDV, .head = out->head};

	if (s == NULL)
		return sn_fail(SN_ERR_NOMEM, "no memory for a rendezvous");
	rec.rdv = s->number;
	l->net->counts[SN_NC_RDV]++;
	if (l->state == SN_LINK_OPEN && sn_list_empty(&l->queue))
		announce(sn_net_way_main(l), &rec);
	bool kept = s->kept.iov_base != NULL, alone = sn_net_send_alone(s);
	if (pack_now(l, &rec, out->iov, out->iov_count, s->push && !alone))
		return s->push ? sn_net_push_now(l, s, alone) : 0;
	if (l->state == SN_LINK_GONE) /* a look has told so: the request ends with the link, or here */
		return kept ? sn_fail(SN_ERR_PEER_GONE, "this peer is gone") : 0;
	sn_net_push_undo(s, out, req); /* it is planned again when it is packed */
	struct sn_net_msg *m = msg_new(out, false);
	if (m == NULL) {
		s->req = NULL;
		sn_net_send_finish(s, 0);
		return sn_fail(SN_ERR_NOMEM, "no memory for a message");
	}
	m->rec.what = SN_REC_RDV;
	m->rec.rdv = rec.rdv;
	m->req = req;
	queue_msg(l, m);
	return 0;
}

/* Can a message of so many bytes go in frames now, none of which waits, nor the batch leaves in between (the driver may be full)? */
static bool train_fits(struct sn_net_link *l, uint64_t bytes)
{
	const struct sn_net_way *w = &l->way[0];
	uint64_t each = w->mtu - HEAD - sn_wire_rec_head(SN_REC_FIRST);
	uint64_t frames = (bytes + each - 1) / each + (l->open.frame != NULL);
	uint8_t *frame[SN_WIRE_WINDOW];
	unsigned n = 0;

	if (l->net->cfg.ports > 1 || l->state != SN_LINK_OPEN || !sn_list_empty(&l->queue) ||
	    !sn_list_empty(&l->dones) || w->port->full || w->flight + frames > w->cwnd ||
	    in_flight(l) + frames > SN_WIRE_WINDOW || w->port->out_count + frames > SN_NET_BATCH ||
	    (l->open.frame && l->open.room > w->mtu)) /* that would leave in slices */
		return false;
	while (n < frames && (frame[n] = sn_net_frame_get(l->net)) != NULL)
		n++;
	for (unsigned i = n; i > 0; i--) /* they are the next to be had */
		sn_net_frame_put(l->net, frame[i - 1]);
	return n == frames;
}

/* What must be taken now and does not fit a frame: into several at once. False: nothing of it is, and it has to wait in the queue. */
static bool pack_train(struct sn_net_link *l, const struct sn_rec *rec, const struct iovec *iov,
		       uint32_t count)
{
	struct sn_net_msg m = {.rec = *rec, .iov = iov, .iov_count = count};
	struct sn_net_open *o = &l->open;

	if (!train_fits(l, rec->head.imm_len + rec->head.len))
		return false;
	if (o->frame && !open_takes(l, o->room / 2))
		open_send(l);
	while (o->frame == NULL || !pack_msg(l, &m, o->frame, &o->at, o->room)) {
		if (o->frame)
			open_send(l);
		open_begin(l, &l->way[0]);
	}
	o->count++;
	l->net->counts[SN_NC_RECORDS]++;
	if (sn_net_ready(l, 0, 0))
		open_send(l);
	return true;
}

static int post_eager(struct sn_net_link *l, const struct sn_rec *rec, const struct sn_out *out,
		      struct sn_req *req)
{
	bool copy = out->must_copy || req == NULL;

	l->net->counts[SN_NC_EAGER]++;
	if (pack_now(l, rec, out->iov, out->iov_count, false) ||
	    ((copy || out->head.len <= SN_NET_SEVERAL) && pack_train(l, rec, out->iov, out->iov_count)))
		return 1;
	struct sn_net_msg *m = msg_new(out, copy);
	if (m == NULL)
		return sn_fail(SN_ERR_NOMEM, "no memory for a message");
	m->req = copy ? NULL : req;
	queue_msg(l, m);
	return copy ? 1 : 0;
}

/*
 * What does not fit into one frame is better pushed than cut up, which costs the receiver one copy more; but if it is short, that copy
 * is less than the frame of an announcement and what both sides do for it.
 */
static bool is_rendezvous(struct sn_net_link *l, const struct sn_out *out, const struct sn_req *req)
{
	uint64_t one = HEAD + sn_wire_rec_head(SN_REC_EAGER) + out->head.imm_len + out->head.len;

	if (out->must_copy || req == NULL)
		return false;
	if (out->head.len > l->net->cfg.eager)
		return true;
	if (one <= l->way[0].mtu || sn_net_push_room(l) < out->head.len)
		return false;
	return out->head.len > SN_NET_SEVERAL || !train_fits(l, out->head.imm_len + out->head.len);
}

/* The short way of a message that joins others and does not make them leave: the world is not looked at. */
static bool join_quickly(struct sn_net_link *l, const struct sn_rec *rec, const struct iovec *iov,
			 uint32_t count)
{
	const struct sn_net_open *o = &l->open;
	uint64_t need = sn_wire_rec_head(SN_REC_EAGER) + rec->head.imm_len + rec->head.len;

	if (o->count == 0 || o->at + need > o->room || l->state != SN_LINK_OPEN || !sn_list_empty(&l->queue))
		return false;
	struct sn_window w = window(l, 1, need);
	if (!l->net->strategy.join(&w, o->count) || l->net->strategy.ready(&w))
		return false;
	l->net->counts[SN_NC_EAGER]++;
	open_put(l, rec, iov, count);
	return true;
}

/* How long a train takes to leave: the least counts, as all else is the machine's doing, but it forgets. */
static void train_leaves(struct sn_net *n)
{
	uint64_t before = n->cfg.clock(n->cfg.clock_arg);

	sn_net_flush(n);
	n->left_at = n->cfg.clock(n->cfg.clock_arg);
	uint64_t took = SN_MIN_OF(n->left_at - before, 2 * n->call + 1000);
	n->call = took < n->call ? took : n->call + (took - n->call) / 16;
}

/* Only full frames are in the batch: by the strategy they wait for more, or leave together. */
static bool train_waits(struct sn_net_link *l)
{
	struct sn_net *n = l->net;
	struct sn_window w = window(l, 0, 0);
	unsigned count = batched(n);

	if (n->inside > 1 || !l->open.frame || count == 0)
		return false;
	if (!n->strategy.depart(&w, count))
		return true;
	train_leaves(n);
	return false;
}

static void leave(struct sn_net_link *l)
{
	if (train_waits(l))
		l->net->inside--;
	else
		sn_net_leave(l->net);
}

int sn_net_post(struct sn_net_link *l, const struct sn_out *out, struct sn_req *req)
{
	const struct sn_rec rec = {
		.what = SN_REC_EAGER, .head = out->head, .body_len = (uint32_t)out->head.len};
	struct sn_net *n = l->net;
	bool rendezvous = is_rendezvous(l, out, req);
	int rc;

	if (!rendezvous && join_quickly(l, &rec, out->iov, out->iov_count))
		return 1;
	sn_net_enter(n);
	if (l->state == SN_LINK_GONE)
		rc = sn_fail(SN_ERR_PEER_GONE, "this peer is gone");
	else if (rendezvous)
		rc = post_rendezvous(l, out, req);
	else
		rc = post_eager(l, &rec, out, req);
	leave(l);
	return rc;
}

int sn_net_post_now(struct sn_net_link *l, uint32_t what, uint64_t bits, uint64_t data, struct iovec body)
{
	const struct sn_rec rec = {.what = SN_REC_EAGER,
				   .body_len = (uint32_t)body.iov_len,
				   .head = {.kind = (uint8_t)what,
					    .flags = (uint8_t)(what >> 8),
					    .bits = bits,
					    .data = data,
					    .len = body.iov_len}};
	bool several = HEAD + SN_WIRE_EAGER_HEAD + body.iov_len > l->way[0].mtu, done;

	if (body.iov_len > (several ? SN_NET_SEVERAL : l->net->cfg.eager))
		return SN_ERR_AGAIN;
	if (!several && join_quickly(l, &rec, &body, 1))
		return 1;
	if (l->state != SN_LINK_OPEN || !sn_list_empty(&l->queue))
		return SN_ERR_AGAIN;
	if (!several && sn_net_goes_alone(l))
		return sn_net_alone(l, &rec, body.iov_base) ? 1 : SN_ERR_AGAIN;
	sn_net_enter(l->net);
	done = several ? pack_train(l, &rec, &body, 1) : pack_now(l, &rec, &body, 1, false);
	l->net->counts[SN_NC_EAGER] += done;
	leave(l);
	return done ? 1 : SN_ERR_AGAIN;
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
