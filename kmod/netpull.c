// SPDX-License-Identifier: GPL-2.0
/*
 * Fetching in the kernel: what src/net/pull.c does in user space, in softirqs, with the same rules (docs/protocol.md). The
 * receiver asks for blocks of pieces; evidence and a timer tell what is lost; the credit bounds what is under way. Which
 * of the peer's rails brings a block, netlane.c decides.
 *
 * A piece is copied from the frame straight into the region's pinned pages, by a DMA channel where the fetch has one
 * (netdma.c: it is then in its place some time later), else by the CPU. Pinning runs in a worker, a little ahead of
 * what is asked for; a frame for a page that is not pinned is dropped, counted, and asked for again (an overlap miss),
 * and so is one whose page was taken away while it was copied. A worker that cannot pin ends the fetch: the program goes
 * on in user space from the first byte missing.
 *
 * Budget of a piece: one look-up for each pin set, its check, one copy; no allocation but for PULL frames and DMA.
 */
#include "sennit_net.h"
#include <linux/highmem.h>
#include <linux/slab.h>

#define SN_CREDIT_MOST (4ull << 20)
#define SN_PIN_AHEAD   (1ull << 20) /* bytes pinned beyond what is asked for */

static u64 sn_block_start(const struct sn_pull *p, const struct sn_pull_block *b)
{
	return p->start + b->index * p->room;
}

static u32 sn_block_length(const struct sn_pull *p, const struct sn_pull_block *b)
{
	return min_t(u64, p->room, p->len - sn_block_start(p, b));
}

/* As src/net/pull.c: with several lanes a short body is divided, so that each has something to bring. */
void sn_pull_shape(struct sn_pull *p)
{
	u64 bytes = p->len - p->start;
	u32 frag = U32_MAX, pieces;
	unsigned int k;

	for (k = 0; k < SENNIT_NET_PORTS; k++)
		if (p->lanes >> k & 1)
			frag = min(frag, p->frag[k]);
	pieces = SN_BLOCK_ASKED / (frag + sizeof(struct sn_wire_data));
	if (p->n_lanes > 1 && bytes < 4 * SN_BLOCK_ASKED)
		pieces = min_t(u32, pieces, max_t(u32, div_u64(bytes / 4, frag) + 1, SN_NET_PART));
	p->room = clamp_t(u32, pieces, 1, SN_WIRE_PIECES) * frag;
	p->blocks = div_u64(bytes + p->room - 1, p->room);
}

/* Bytes of the body that are there without a gap. */
u64 sn_pull_done(const struct sn_pull *p)
{
	u64 done = min(p->len, p->start + p->next_block * p->room);
	unsigned int i;

	for (i = 0; i < SN_NET_BLOCKS; i++) {
		const struct sn_pull_block *b = &p->block[i];

		if (b->active)
			done = min(done,
				   sn_block_start(p, b) + (u64)__ffs64(b->missing | b->flying) * b->frag);
	}
	return done;
}

/* So many bytes more of the block are under way, or fewer. */
static void sn_block_owes(struct sn_pull_block *b, s32 more)
{
	b->bytes += more;
	b->pull->net->ports[b->port].asked += more;
	sn_block_lane(b)->asked_bytes += more;
}

/* There is nothing to ask for on its lane. */
static void sn_block_unlist(struct sn_pull_block *b)
{
	if (list_empty(&b->node))
		return;
	list_del_init(&b->node);
	sn_lane_emptied(sn_block_lane(b));
}

static void sn_block_drop(struct sn_pull_block *b)
{
	sn_block_owes(b, -(s32)b->bytes);
	b->active = false;
	sn_block_unlist(b);
}

static void sn_pull_report(struct sn_pull *p)
{
	struct sn_net *n = p->net;
	struct sennit_net_done *d = &n->ring->done[n->head % SENNIT_NET_RING];
	unsigned int k;

	*d = (struct sennit_net_done){.cookie = p->cookie,
				      .done = p->done,
				      .sack = p->sack,
				      .ack = p->ack,
				      .number = p->number,
				      .status = p->status};
	for (k = 0; k < SENNIT_NET_PORTS; k++) {
		d->lane[k].kib = min_t(u64, p->brought[k] >> 10, U32_MAX);
		d->lane[k].kib_s = min_t(u64, p->link->lane[k].model.rate >> 10, U32_MAX);
	}
	smp_store_release(&n->ring->head, ++n->head);
	if (n->event) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
		eventfd_signal(n->event);
#else
		eventfd_signal(n->event, 1);
#endif
	}
}

/* It is over, and nothing is written for it any more. */
static void sn_pull_finish(struct sn_pull *p)
{
	struct sn_net *n = p->net;

	if (p->report)
		sn_pull_report(p);
	sn_netdma_unpick(p->channel);
	n->table[p->number % SENNIT_NET_PULLS] = NULL;
	n->n_pulls--;
	n->several -= p->n_lanes > 1;
	kref_put(&p->ref, sn_pull_free);
}

/* The fetch is over, one way or the other: nothing more is written for it than what is with a DMA channel now. */
void sn_pull_end(struct sn_pull *p, int status, bool report)
{
	unsigned int i;

	if (p->over)
		return;
	p->status = status;
	p->report = report;
	p->done = status ? sn_pull_done(p) : p->len;
	sn_count(status ? SENNIT_C_NET_GIVEN_UP : SENNIT_C_NET_ENDED, 1);
	for (i = 0; i < SN_NET_BLOCKS; i++)
		if (p->block[i].active)
			sn_block_drop(&p->block[i]);
	p->over = true;
	list_del_init(&p->node);
	if (!p->flying)
		sn_pull_finish(p);
}

/* ---- asking ---- */

static void sn_pull_send(struct sn_pull *p, struct sn_pull_block *b)
{
	struct sn_net *n = p->net;
	struct sn_link *l = p->link;
	struct sn_lane *lane = sn_block_lane(b);
	struct net_device *dev = n->ports[b->port].dev;
	u64 rate = sn_lane_rate_of(&lane->model, b->asked_at) >> 10;
	struct sn_wire_pull w = {.h = {.version = SN_WIRE_VERSION,
				       .type = SN_WIRE_PULL,
				       .len = cpu_to_le16(sizeof(w)),
				       .link = cpu_to_le32(l->tx_link),
				       .seq = cpu_to_le32(p->seq),
				       .ack = cpu_to_le32(p->ack),
				       .sack = cpu_to_le64(p->sack),
				       .rail = lane->rail},
				 .rdv = cpu_to_le32(p->rdv),
				 .pull = cpu_to_le32(p->number),
				 .offset = cpu_to_le64(sn_block_start(p, b)),
				 .end = cpu_to_le64(sn_block_start(p, b) + sn_block_length(p, b)),
				 .want = cpu_to_le64(b->missing),
				 .frag = cpu_to_le16(b->frag),
				 .round = cpu_to_le32(b->round),
				 .rail = b->lane,
				 .rate = cpu_to_le32(min_t(u64, rate, U32_MAX))};
	struct sk_buff *skb;

	sn_count(SENNIT_C_NET_ASKED, 1);
	if (!dev)
		return;
	skb = alloc_skb(LL_RESERVED_SPACE(dev) + SN_PORT_BYTES + sizeof(w) + dev->needed_tailroom,
			GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return; /* as good as lost on the way */
	w.h.check = cpu_to_le32(sn_wire_check_of((u8 *)&w + sizeof(w.h), sizeof(w) - sizeof(w.h)));
	w.h.mac = cpu_to_le64(sn_wire_mac(&l->tx_key, &w.h));
	skb_reserve(skb, LL_RESERVED_SPACE(dev));
	skb_reset_network_header(skb);
	skb_put_data(skb, lane->to + ETH_ALEN, SN_PORT_BYTES);
	skb_put_data(skb, &w, sizeof(w));
	skb->dev = dev;
	skb->protocol = htons(SN_ETHERTYPE);
	if (dev_hard_header(skb, dev, SN_ETHERTYPE, lane->to, dev->dev_addr, skb->len) < 0) {
		kfree_skb(skb);
		return;
	}
	__skb_queue_tail(&n->out, skb);
}

/*
 * Sends what was asked for while the lock was held. The frames hold no reference of their interface: one that goes waits for
 * who is in here, after its endpoints have let it go.
 */
void sn_net_flush(struct sn_net *n)
{
	struct sk_buff_head out;
	struct sk_buff *skb;

	__skb_queue_head_init(&out);
	rcu_read_lock();
	spin_lock_bh(&n->lock);
	skb_queue_splice_init(&n->out, &out);
	spin_unlock_bh(&n->lock);
	sn_linger(200);
	while ((skb = __skb_dequeue(&out)))
		dev_queue_xmit(skb);
	rcu_read_unlock();
}

static void sn_block_ask(struct sn_pull_block *b)
{
	struct sn_pull *p = b->pull;
	struct sn_lane *lane = sn_block_lane(b);

	b->round = ++p->link->round;
	b->asked_at = ktime_get_ns();
	b->later = 0;
	b->end_seen = false;
	b->last = fls64(b->missing) - 1;
	list_move_tail(&b->node, &lane->asked);
	sn_pull_send(p, b);
	sn_lane_asked(lane);
}

void sn_block_again(struct sn_pull_block *b)
{
	sn_count(SENNIT_C_NET_AGAIN, 1);
	b->fresh = false;
	sn_block_ask(b);
}

/* All of the block is missing, in pieces as long as its lane carries; there are 64 at most. */
static void sn_block_cut(struct sn_pull *p, struct sn_pull_block *b)
{
	u32 bytes = sn_block_length(p, b);
	unsigned int pieces;

	b->frag = max(p->frag[b->lane], DIV_ROUND_UP(p->room, SN_WIRE_PIECES));
	pieces = DIV_ROUND_UP(bytes, b->frag);
	b->missing = pieces == 64 ? ~0ull : (1ull << pieces) - 1;
}

static void sn_block_on(struct sn_pull_block *b, unsigned int lane, u32 bytes)
{
	b->lane = lane;
	b->port = sn_block_lane(b)->port;
	b->pull->given[lane] += bytes;
	sn_block_owes(b, bytes);
}

/*
 * Another lane is to bring what the block misses. Its pieces stay as they are, unless they are too long there: then they
 * all come anew, which cannot be while one is with a DMA channel. False: so it stays where it is.
 */
bool sn_block_move(struct sn_pull_block *b, unsigned int lane)
{
	struct sn_pull *p = b->pull;
	u32 bytes = b->bytes, whole = sn_block_length(p, b);
	bool cut = b->frag > p->frag[lane];

	if (cut && b->flying)
		return false;
	sn_block_owes(b, -(s32)bytes);
	p->given[b->lane] -= min_t(u64, p->given[b->lane], bytes);
	sn_block_unlist(b);
	b->lane = lane;
	if (cut) {
		p->left += whole - bytes;
		bytes = whole;
		sn_block_cut(p, b);
	}
	sn_block_on(b, lane, bytes);
	b->moves++;
	sn_block_again(b);
	return true;
}

/* Has the worker pin from `at` on, at the latest up to `to`. */
static void sn_pull_pin(struct sn_pull *p, u64 at, u64 to)
{
	p->pin_at = min(p->pin_at, at);
	p->pin_to = max(p->pin_to, min(to, p->len));
	kref_get(&p->ref);
	if (!sn_pin_queue_ahead(&p->pin))
		kref_put(&p->ref, sn_pull_free); /* it is queued already: never the last */
}

static void sn_pull_ask_next(struct sn_pull *p, struct sn_pull_block *b, unsigned int lane)
{
	u64 to;

	*b = (struct sn_pull_block){
		.pull = p, .active = true, .fresh = true, .index = p->next_block++, .lane = lane};
	INIT_LIST_HEAD(&b->node);
	sn_block_cut(p, b);
	sn_block_on(b, lane, sn_block_length(p, b));
	to = sn_block_start(p, b) + b->bytes;
	if (to + SN_PIN_AHEAD / 2 > p->pin_to && p->pin_to < p->len)
		sn_pull_pin(p, p->pin_to, to + SN_PIN_AHEAD);
	sn_block_ask(b);
}

static struct sn_pull_block *sn_pull_free_block(struct sn_pull *p)
{
	unsigned int i;

	for (i = 0; i < SN_NET_BLOCKS; i++)
		if (!p->block[i].active)
			return &p->block[i];
	return NULL;
}

/* The fetch that may ask next: with the least left, or, at every fourth turn, the oldest. */
static struct sn_pull *sn_pull_choose(struct sn_net *n)
{
	struct sn_pull *p, *best = NULL;

	list_for_each_entry(p, &n->pulls, node)
	{
		if (p->next_block >= p->blocks || p->wait || (best && best->left <= p->left) ||
		    !sn_pull_free_block(p))
			continue;
		best = p;
		if (n->turn % 4 == 3)
			break;
	}
	return best;
}

void sn_pull_schedule(struct sn_net *n)
{
	bool waits = n->several > 0;
	struct sn_pull *p;

	while (sn_net_has_room(n) && (p = sn_pull_choose(n))) {
		int lane = sn_lane_for(p);

		if (lane < 0) {
			p->wait = waits = true; /* the others of this round may find room */
			continue;
		}
		n->turn++;
		sn_pull_ask_next(p, sn_pull_free_block(p), lane);
	}
	if (!waits)
		return;
	list_for_each_entry(p, &n->pulls, node)
	{
		p->wait = false;
		while (p->next_block >= p->blocks && sn_lane_steal(p))
			;
	}
}

/* ---- DATA ---- */

static bool sn_block_lost(struct sn_pull_block *b)
{
	if (b->later < 3 || !b->end_seen || !b->missing)
		return false;
	sn_credit_cut(sn_block_lane(b));
	sn_block_again(b);
	return true;
}

/* What a piece of this round says about blocks asked for earlier on its lane. */
static void sn_lane_evidence(struct sn_lane *l, u32 round)
{
	struct sn_pull_block *b, *next;

	list_for_each_entry_safe(b, next, &l->asked, node)
	{
		if ((s32)(round - b->round) <= 0)
			break;
		b->later++;
		b->end_seen = true;
		sn_block_lost(b);
	}
}

static struct sn_pull_block *sn_pull_locate(struct sn_pull *p, u64 offset, u32 len, unsigned int *piece)
{
	unsigned int i;
	u64 index;

	if (offset < p->start || offset >= p->len)
		return NULL;
	index = div_u64(offset - p->start, p->room);
	for (i = 0; i < SN_NET_BLOCKS; i++) {
		struct sn_pull_block *b = &p->block[i];
		u32 in;

		if (!b->active || b->index != index)
			continue;
		in = offset - sn_block_start(p, b);
		if (in % b->frag || len != min(b->frag, sn_block_length(p, b) - in))
			return NULL;
		*piece = in / b->frag;
		return b->missing >> *piece & 1 ? b : NULL;
	}
	return NULL;
}

/* Copies the frame's bytes from `at` on into the region. False: a page was not there, or did not stay. */
static bool sn_pull_place(struct sn_pull *p, struct sk_buff *skb, unsigned int at, u64 offset, u32 len)
{
	bool good = true;

	while (len && good) {
		struct sn_span span;
		u32 n;

		if (!sn_span_try(&p->end, offset, len, &span))
			return false;
		n = span.len;
		offset += n;
		len -= n;
		while (n) {
			unsigned int c = min_t(unsigned int, n, PAGE_SIZE - span.offset);
			u8 *page = kmap_local_page(span.ps->pages[span.page]);

			good &= !skb_copy_bits(skb, at, page + span.offset, c);
			kunmap_local(page);
			sn_span_advance(&span, c);
			at += c;
			n -= c;
		}
		good &= sn_span_put(&span);
	}
	return good;
}

/* A piece has come, by this lane of the peer's, and is in its place or with a DMA channel. */
static void sn_pull_came(struct sn_pull *p, struct sn_pull_block *b, unsigned int piece,
			 const struct sn_wire_data *d, u32 len)
{
	struct sn_net *n = p->net;
	u32 round = le32_to_cpu(d->round);
	/* A peer that lacks the lane answers by another one: that says nothing about the order on ours. */
	unsigned int from = p->n_lanes > 1 && p->lanes >> (d->h.rail & 7) & 1 ? d->h.rail & 7 : b->lane;
	bool own = from == b->lane;

	sn_lane_news(p, b, from, round, len);
	b->fresh = false;
	b->tries = 0;
	b->missing &= ~(1ull << piece);
	sn_block_owes(b, -(s32)len);
	sn_count(SENNIT_C_NET_FRAMES, 1);
	WRITE_ONCE(n->ring->frames, READ_ONCE(n->ring->frames) + 1);
	if (b->round == round && b->missing) {
		b->end_seen |= piece >= b->last;
		b->later += piece > (unsigned int)__ffs64(b->missing);
		sn_block_lost(b);
	}
	if (!b->missing)
		sn_block_unlist(b);
	if (own)
		sn_lane_evidence(&p->link->lane[from], round);
}

/* A piece is in its place. */
static void sn_pull_placed(struct sn_pull *p, struct sn_pull_block *b, u32 len)
{
	struct sn_port *port = &p->net->ports[b->port];

	p->left -= len;
	sn_count(SENNIT_C_NET_BYTES, len);
	if (!b->missing && !b->flying) {
		sn_block_drop(b);
		port->credit = min_t(u64, port->credit + p->room / 8, SN_CREDIT_MOST);
	}
	if (!p->left)
		sn_pull_end(p, 0, true);
}

/* A piece goes to a DMA channel. */
void sn_pull_flies(struct sn_pull *p, struct sn_pull_block *b, unsigned int index)
{
	b->flying |= 1ull << index;
	p->flying++;
	p->link->flying++;
}

/* It has come back: in its place (0), or with its pages changed (-EAGAIN), or its channel is lost (-EIO). */
void sn_pull_landed(struct sn_pull *p, struct sn_pull_block *b, unsigned int index, u32 len, int status)
{
	struct sn_net *n = p->net;
	u64 offset = sn_block_start(p, b) + (u64)index * b->frag;

	b->flying &= ~(1ull << index);
	p->flying--;
	p->link->flying--;
	if (p->over) {
		if (!p->flying)
			sn_pull_finish(p);
	} else if (status == -EIO) {
		sn_pull_end(p, status, true);
	} else if (status) {
		b->missing |= 1ull << index;
		sn_block_owes(b, len);
		sn_count(SENNIT_C_NET_MISSES, 1);
		sn_pull_pin(p, offset, offset + len + SN_PIN_AHEAD);
		if (list_empty(&b->node))
			sn_block_again(b);
	} else {
		sn_pull_placed(p, b, len);
	}
	sn_pull_schedule(n);
	wake_up_all(&n->landed); /* the last touch of p and of its link */
}

/* A DATA frame with a number of ours; d is its head, copied out, len its length by the header. False: not authentic. */
bool sn_pull_frame(struct sn_net *n, struct sk_buff *skb, const struct sn_wire_data *d, u32 len)
{
	u32 number = le32_to_cpu(d->pull), bytes = len - sizeof(*d);
	struct sn_pull *p = n->table[number % SENNIT_NET_PULLS];
	u64 offset = le64_to_cpu(d->offset);
	struct sn_pull_block *b;
	unsigned int piece;
	bool engine;

	if (!p || p->number != number || p->over) {
		sn_count(SENNIT_C_NET_STRAYS, 1);
		return true;
	}
	if (le32_to_cpu(d->h.link) != p->link->rx_link ||
	    le64_to_cpu(d->h.mac) != sn_wire_mac(&p->link->rx_key, &d->h))
		return false;
	b = sn_pull_locate(p, offset, bytes, &piece);
	if (!b) {
		sn_count(SENNIT_C_NET_STRAYS, 1);
		return true;
	}
	if (le32_to_cpu(d->h.check) != sn_wire_check(skb, SN_PORT_BYTES + sizeof(d->h), SN_PORT_BYTES + len))
		return false;
	if ((s32)(le32_to_cpu(d->h.ack) - p->ack) >= 0) {
		p->ack = le32_to_cpu(d->h.ack);
		p->sack = le64_to_cpu(d->h.sack);
	}
	engine = sn_netdma_place(p, b, piece, skb, SN_PORT_BYTES + sizeof(*d), offset, bytes);
	if (!engine && !sn_pull_place(p, skb, SN_PORT_BYTES + sizeof(*d), offset, bytes)) {
		sn_count(SENNIT_C_NET_MISSES, 1);
		sn_pull_pin(p, offset, offset + bytes + SN_PIN_AHEAD);
		return true;
	}
	sn_pull_came(p, b, piece, d, bytes);
	if (!engine)
		sn_pull_placed(p, b, bytes);
	sn_pull_schedule(n);
	return true;
}
