/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MSG frames in: put in order, acknowledge, deliver.
 *
 * A frame that comes in order, with nothing waiting, is delivered from where the driver put it; others are copied into the
 * link's window and delivered when their turn comes. In quiet mode all wait, up to the window; what does not fit is
 * dropped unacknowledged and comes again.
 */
#include "net/alone.h"
#include <stdlib.h>

void sn_net_ack_want(struct sn_net_link *l, bool now)
{
	struct sn_net *n = l->net;

	l->ack_waiting++;
	if (now || l->ack_waiting >= SN_NET_ACK_EVERY)
		l->ack_at = n->now;
	else if (l->ack_at == SN_NET_NEVER)
		l->ack_at = n->now + SN_NET_ACK_DELAY;
	sn_net_work(l);
}

static inline struct sn_net_hole *hole_at(struct sn_net_link *l, uint32_t seq)
{
	return &l->rx[seq % SN_WIRE_WINDOW];
}

static void hole_clear(struct sn_net_link *l, struct sn_net_hole *h)
{
	sn_net_frame_put(l->net, h->frame);
	*h = (struct sn_net_hole){0};
}

/* ---- delivery ---- */

static int deliver_rdv(struct sn_net_link *l, const struct sn_rec *rec)
{
	struct sn_rdv *rdv = malloc(sizeof(*rdv));

	if (rdv == NULL)
		return SN_ERR_NOMEM;
	rdv->link = l;
	rdv->len = rec->head.len;
	rdv->number = rec->rdv;
	rdv->frag = rec->frag;
	rdv->push_frag = rec->push_frag;
	rdv->push = rec->push;
	rdv->lazy = rec->lazy;
	rdv->seq = l->rx_deliver - 1;
	rdv->at = l->net->now;
	if (!sn_list_empty(&l->sends))
		l->crossed = SN_NET_CROSSED;
	sn_list_add_tail(&l->rdvs, &rdv->node);
	return sn_core_arrive(l->peer, &(struct sn_in){.head = rec->head, .rdv = rdv});
}

static int join_first(struct sn_net_link *l, const struct sn_rec *rec)
{
	if (l->join_room < rec->head.len) {
		uint8_t *room = realloc(l->join, rec->head.len);
		if (room == NULL)
			return SN_ERR_NOMEM;
		l->join = room;
		l->join_room = rec->head.len;
	}
	l->join_rec = *rec;
	if (rec->head.imm_len)
		memcpy(l->join_imm, rec->head.imm, rec->head.imm_len);
	l->join_rec.head.imm = l->join_imm;
	if (rec->body_len)
		memcpy(l->join, rec->body, rec->body_len);
	l->join_len = rec->body_len;
	l->joining = true;
	return 0;
}

static int join_more(struct sn_net_link *l, const struct sn_rec *rec)
{
	uint64_t len = l->join_rec.head.len;

	if (!l->joining || rec->body_len > len - l->join_len)
		return SN_ERR_PROTO;
	memcpy(l->join + l->join_len, rec->body, rec->body_len);
	l->join_len += rec->body_len;
	if (l->join_len < len)
		return 0;
	l->joining = false;
	return sn_core_arrive(l->peer, &(struct sn_in){.head = l->join_rec.head, .body = l->join});
}

static int deliver_done(struct sn_net_link *l, const struct sn_rec *rec)
{
	struct sn_net_send *send = sn_net_table_get(&l->net->sends, rec->rdv);

	if (send == NULL || send->link != l)
		return SN_ERR_PROTO;
	sn_net_push_heard(l, rec->word);
	sn_net_keep_moves(l->net);
	sn_net_send_finish(send, (int)rec->status);
	return 0;
}

static int deliver_record(struct sn_net_link *l, const struct sn_rec *rec)
{
	if (rec->what == SN_REC_DONE)
		return deliver_done(l, rec);
	if (l->net->quiet) /* closing: nobody takes messages any more; that ours have arrived still counts */
		return 0;
	if (rec->what == SN_REC_MORE)
		return join_more(l, rec);
	if (rec->what == SN_REC_PORTS)
		return sn_net_ports_in(l, rec->body, rec->body_len);
	if (l->joining)
		return SN_ERR_PROTO;
	if (rec->what == SN_REC_FIRST)
		return join_first(l, rec);
	if (rec->what == SN_REC_RDV)
		return deliver_rdv(l, rec);
	return sn_core_arrive(l->peer, &(struct sn_in){.head = rec->head, .body = rec->body});
}

/*
 * The commonest record: a tagged message without immediate data, of whose fate its sender does not ask. 0: it is
 * another one.
 */
static inline int deliver_tagged(struct sn_net_link *l, const uint8_t **at, const uint8_t *end)
{
	size_t room = (size_t)(end - *at);
	const uint8_t *body = *at + SN_WIRE_EAGER_HEAD;
	struct sn_wire_rec w;

	if (room < SN_WIRE_EAGER_HEAD || l->joining || l->net->quiet)
		return 0;
	memcpy(&w, *at, SN_WIRE_EAGER_HEAD);
	uint32_t len = le32toh(w.bytes);
	if (w.what != SN_REC_EAGER || w.kind != SN_K_TAGGED || w.imm_len != 0 ||
	    w.flags & (SN_H_SYNC | SN_H_ARRIVED) || len > room - SN_WIRE_EAGER_HEAD)
		return 0;
	*at = body + len;
	int rc = sn_core_arrive_tagged(l->peer, w.flags & SN_H_MASK, le64toh(w.bits), le64toh(w.data),
				       len ? body : NULL, len);
	return rc < 0 ? rc : 1;
}

static void deliver_payload(struct sn_net_link *l, const uint8_t *payload, uint32_t len)
{
	const uint8_t *at = payload, *end = payload + len;
	struct sn_rec rec;
	int more;

	while (!l->dead) {
		int rc = deliver_tagged(l, &at, end);
		if (rc == 0) {
			if ((more = sn_wire_rec_next(&at, end, &rec)) == 0)
				return;
			sn_net_fresh(l->net);
			rc = more < 0 ? SN_ERR_PROTO : deliver_record(l, &rec);
		}
		if (rc >= 0)
			continue;
		l->net->drops[SN_DROP_RECORD]++;
		if (!l->dead && l->state == SN_LINK_OPEN) {
			sn_net_bye_out(l, rc, false);
			sn_net_gone(l, rc);
		}
		return;
	}
}

/* Deliver what waits in order; then, if the peer has left or was given up, say so. Closing: see deliver_record. */
void sn_net_deliver(struct sn_net_link *l)
{
	if (l->delivering || l->dead)
		return;
	l->delivering = true;
	while (l->rx_deliver != l->rx_next && !l->dead) {
		struct sn_net_hole *h = hole_at(l, l->rx_deliver), whole = *h;
		*h = (struct sn_net_hole){0};
		l->rx_deliver++;
		deliver_payload(l, whole.frame, whole.len);
		sn_net_frame_put(l->net, whole.frame);
	}
	l->delivering = false;
	if (l->net->quiet)
		return;
	if (l->bye_came && l->state == SN_LINK_OPEN)
		sn_net_gone(l, l->bye_status);
	else if (l->state == SN_LINK_GONE)
		sn_net_report_gone(l);
}

/* ---- arrival ---- */

/* seq has arrived whole: the ends of what is there move. */
static void advance(struct sn_net_link *l, uint32_t seq)
{
	uint64_t here;

	l->net->counts[SN_NC_RX_MSG]++;
	if (seq != l->rx_next) {
		l->rx_sack |= 1ULL << (seq - l->rx_next - 1);
		return;
	}
	do {
		l->rx_next++;
		here = l->rx_sack & 1;
		l->rx_sack >>= 1;
	} while (here);
}

/* Is seq new and within the window? Counts and acknowledges if not. */
static bool acceptable(struct sn_net_link *l, uint32_t seq)
{
	enum sn_drop why;

	if ((int32_t)(seq - l->rx_next) < 0 || (seq != l->rx_next && seq - l->rx_next <= SN_WIRE_WINDOW &&
						(l->rx_sack >> (seq - l->rx_next - 1) & 1)))
		why = SN_DROP_AGAIN;
	else if (seq - l->rx_deliver >= SN_WIRE_WINDOW)
		why = SN_DROP_WINDOW;
	else
		return true;
	l->net->drops[why]++;
	l->twice |= why == SN_DROP_AGAIN;
	if (why == SN_DROP_AGAIN && l->ack_at == SN_NET_NEVER &&
	    l->net->now > l->acked_at + SN_NET_ACK_DELAY) {
		sn_net_quick_doubt(sn_net_way_reply(l)); /* that was told, and has not come */
		l->ack_sure = true;
	}
	sn_net_ack_want(l, true);
	return false;
}

void sn_net_msg_in(struct sn_net_link *l, uint32_t seq, const uint8_t *payload, uint32_t len)
{
	struct sn_net *n = l->net;
	struct sn_net_hole *h = hole_at(l, seq);

	if (!acceptable(l, seq))
		return;
	if (seq == l->rx_deliver && !n->quiet) {
		hole_clear(l, h); /* slices of it */
		advance(l, seq);
		l->rx_deliver++;
		sn_net_ack_want(l, l->rx_sack != 0);
		l->delivering = true;
		deliver_payload(l, payload, len);
		l->delivering = false;
		if (!l->dead && (l->rx_deliver != l->rx_next || l->bye_came || l->state == SN_LINK_GONE))
			sn_net_deliver(l);
		return;
	}
	uint8_t *frame = h->frame ? h->frame : sn_net_frame_get(n);
	if (frame == NULL) {
		n->drops[SN_DROP_MEMORY]++;
		return;
	}
	memcpy(frame, payload, len);
	*h = (struct sn_net_hole){.frame = frame, .len = len, .here = true};
	advance(l, seq);
	sn_net_ack_want(l, l->rx_sack != 0);
}

void sn_net_slice_in(struct sn_net_link *l, uint32_t seq, uint32_t offset, uint32_t total,
		     const uint8_t *bytes, uint32_t len)
{
	struct sn_net *n = l->net;
	struct sn_net_hole *h = hole_at(l, seq);

	if (offset % SN_WIRE_SLICE || total > n->mtu - sizeof(struct sn_wire_head) || offset >= total ||
	    len != SN_MIN_OF(total - offset, SN_WIRE_SLICE) || (h->frame && h->total && h->total != total)) {
		n->drops[SN_DROP_RANGE]++;
		return;
	}
	if (!acceptable(l, seq))
		return;
	if (h->frame == NULL && (h->frame = sn_net_frame_get(n)) == NULL) {
		n->drops[SN_DROP_MEMORY]++;
		return;
	}
	h->total = total;
	memcpy(h->frame + offset, bytes, len);
	h->slices |= 1ULL << (offset / SN_WIRE_SLICE);
	unsigned count = (total + SN_WIRE_SLICE - 1) / SN_WIRE_SLICE;
	if (h->slices != sn_wire_all(count))
		return;
	h->here = true;
	h->len = total;
	advance(l, seq);
	sn_net_ack_want(l, true);
	if (!n->quiet)
		sn_net_deliver(l);
}

void sn_net_inbox_end(struct sn_net_link *l)
{
	for (unsigned i = 0; i < SN_WIRE_WINDOW; i++)
		hole_clear(l, &l->rx[i]);
	l->rx_deliver = l->rx_next;
	l->rx_sack = 0;
	free(l->join);
	l->join = NULL;
	l->join_room = 0;
	l->joining = false;
}
