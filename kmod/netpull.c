// SPDX-License-Identifier: GPL-2.0
/*
 * Fetching in the kernel: what src/net/pull.c does in user space, in softirqs, with the same rules (docs/protocol.md). The
 * receiver asks for blocks of pieces; evidence and a timer tell what is lost; the credit bounds what is under way.
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

#define SN_MS	       1000000ull
#define SN_ACK_DELAY   (100 * 1000ull)
#define SN_RTO_MIN     (2 * SN_MS)
#define SN_RTO_FIRST   (20 * SN_MS)
#define SN_RTO_MAX     (250 * SN_MS)
#define SN_BACKOFF     7
#define SN_CREDIT_MIN  (128ull << 10)
#define SN_CREDIT_MOST (4ull << 20)
#define SN_PIN_AHEAD   (1ull << 20) /* bytes pinned beyond what is asked for */
#define SN_TRIES       16	    /* a block that brings nothing so often ends the fetch */

static u64 sn_block_bytes(const struct sn_pull *p)
{
	return (u64)p->pieces * p->frag;
}

void sn_pull_shape(struct sn_pull *p)
{
	p->pieces = clamp_t(u32, SN_BLOCK_ASKED / (p->frag + sizeof(struct sn_wire_data)), 1, SN_WIRE_PIECES);
	p->blocks = div64_u64(p->len - p->start + sn_block_bytes(p) - 1, sn_block_bytes(p));
}

/* Bytes of the body that are there without a gap. */
u64 sn_pull_done(const struct sn_pull *p)
{
	u64 done = min(p->len, p->start + p->next_block * sn_block_bytes(p));
	unsigned int i;

	for (i = 0; i < SN_NET_BLOCKS; i++) {
		const struct sn_pull_block *b = &p->block[i];

		if (b->active)
			done = min(done, p->start + b->index * sn_block_bytes(p) +
						 (u64)__ffs64(b->missing | b->flying) * p->frag);
	}
	return done;
}

static void sn_block_drop(struct sn_pull_block *b)
{
	b->pull->net->asked -= b->bytes;
	b->bytes = 0;
	b->active = false;
	list_del_init(&b->node);
}

void sn_pull_free(struct kref *ref)
{
	struct sn_pull *p = container_of(ref, struct sn_pull, ref);

	sn_pin_queue_ahead(&p->release);
}

void sn_pull_release_work(struct work_struct *work)
{
	struct sn_pull *p = container_of(work, struct sn_pull, release);

	sn_region_put(p->end.region);
	kref_put(&p->net->ref, sn_net_free);
	kfree(p);
}

static void sn_pull_report(struct sn_pull *p)
{
	struct sn_net *n = p->net;
	struct sennit_net_done *d = &n->ring->done[n->head % SENNIT_NET_RING];

	*d = (struct sennit_net_done){.cookie = p->cookie,
				      .done = p->done,
				      .sack = p->sack,
				      .ack = p->ack,
				      .number = p->number,
				      .status = p->status};
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
	struct sn_wire_pull w = {
		.h = {.version = SN_WIRE_VERSION,
		      .type = SN_WIRE_PULL,
		      .len = cpu_to_le16(sizeof(w)),
		      .link = cpu_to_le32(l->tx_link),
		      .seq = cpu_to_le32(p->seq),
		      .ack = cpu_to_le32(p->ack),
		      .sack = cpu_to_le64(p->sack),
		      .rail = p->rail},
		.rdv = cpu_to_le32(p->rdv),
		.pull = cpu_to_le32(p->number),
		.offset = cpu_to_le64(p->start + b->index * sn_block_bytes(p)),
		.end = cpu_to_le64(min(p->len, p->start + (b->index + 1) * sn_block_bytes(p))),
		.want = cpu_to_le64(b->missing),
		.frag = cpu_to_le32(p->frag),
		.round = cpu_to_le32(b->round),
		.rail = p->lane};
	struct sk_buff *skb;

	sn_count(SENNIT_C_NET_ASKED, 1);
	if (!n->dev)
		return;
	skb = alloc_skb(LL_RESERVED_SPACE(n->dev) + SN_PORT_BYTES + sizeof(w) + n->dev->needed_tailroom,
			GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return; /* as good as lost on the way */
	w.h.check = cpu_to_le32(sn_wire_check_of((u8 *)&w + sizeof(w.h), sizeof(w) - sizeof(w.h)));
	w.h.mac = cpu_to_le64(sn_wire_mac(&l->tx_key, &w.h));
	skb_reserve(skb, LL_RESERVED_SPACE(n->dev));
	skb_reset_network_header(skb);
	skb_put_data(skb, l->to + ETH_ALEN, SN_PORT_BYTES);
	skb_put_data(skb, &w, sizeof(w));
	skb->dev = n->dev;
	skb->protocol = htons(SN_ETHERTYPE);
	if (dev_hard_header(skb, n->dev, SN_ETHERTYPE, l->to, n->dev->dev_addr, skb->len) < 0) {
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
	while ((skb = __skb_dequeue(&out)))
		dev_queue_xmit(skb);
	rcu_read_unlock();
}

static u64 sn_link_rto(const struct sn_link *l)
{
	u64 t = l->srtt ? l->srtt + 4 * l->var + SN_ACK_DELAY : SN_RTO_FIRST;

	return min_t(u64, max_t(u64, t, SN_RTO_MIN) << min_t(unsigned int, l->backoff, SN_BACKOFF),
		     max_t(u64, t, SN_RTO_MAX));
}

static void sn_link_arm(struct sn_link *l, u64 ns)
{
	mod_timer(&l->timer, jiffies + nsecs_to_jiffies(ns) + 1);
}

static void sn_block_ask(struct sn_pull_block *b)
{
	struct sn_pull *p = b->pull;
	struct sn_link *l = p->link;

	b->round = ++l->round;
	b->asked_at = ktime_get_ns();
	b->later = 0;
	b->end_seen = false;
	b->last = fls64(b->missing) - 1;
	list_move_tail(&b->node, &l->asked);
	sn_pull_send(p, b);
	if (!timer_pending(&l->timer))
		sn_link_arm(l, sn_link_rto(l));
}

static void sn_block_again(struct sn_pull_block *b)
{
	sn_count(SENNIT_C_NET_AGAIN, 1);
	b->fresh = false;
	sn_block_ask(b);
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

static void sn_pull_ask_next(struct sn_pull *p, struct sn_pull_block *b)
{
	u64 from = p->start + p->next_block * sn_block_bytes(p);
	u64 bytes = min(sn_block_bytes(p), p->len - from);
	unsigned int pieces = DIV_ROUND_UP((u32)bytes, p->frag);

	*b = (struct sn_pull_block){
		.pull = p, .active = true, .fresh = true, .index = p->next_block++, .bytes = bytes};
	b->missing = pieces == 64 ? ~0ull : (1ull << pieces) - 1;
	INIT_LIST_HEAD(&b->node);
	p->net->asked += bytes;
	if (from + bytes + SN_PIN_AHEAD / 2 > p->pin_to && p->pin_to < p->len)
		sn_pull_pin(p, p->pin_to, from + bytes + SN_PIN_AHEAD);
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
		if (p->next_block >= p->blocks || (best && best->left <= p->left) || !sn_pull_free_block(p))
			continue;
		best = p;
		if (n->turn % 4 == 3)
			break;
	}
	return best;
}

void sn_pull_schedule(struct sn_net *n)
{
	struct sn_pull *p;

	while ((!n->asked || n->asked + SN_BLOCK_ASKED <= n->credit) && (p = sn_pull_choose(n))) {
		n->turn++;
		sn_pull_ask_next(p, sn_pull_free_block(p));
	}
}

static void sn_credit_cut(struct sn_link *l)
{
	struct sn_net *n = l->net;
	u64 now = ktime_get_ns();

	if (now < l->cut_at)
		return;
	l->cut_at = now + l->srtt;
	n->credit = max_t(u64, n->credit - n->credit / 4, SN_CREDIT_MIN);
}

/* ---- DATA ---- */

static void sn_rtt_add(struct sn_link *l, u64 sample)
{
	u64 off;

	if (!l->srtt) {
		l->srtt = max_t(u64, sample, 1);
		l->var = sample / 2;
		return;
	}
	off = sample > l->srtt ? sample - l->srtt : l->srtt - sample;
	l->var += off / 4 - l->var / 4;
	l->srtt = max_t(u64, l->srtt + sample / 8 - l->srtt / 8, 1);
}

static bool sn_block_lost(struct sn_pull_block *b)
{
	if (b->later < 3 || !b->end_seen || !b->missing)
		return false;
	sn_credit_cut(b->pull->link);
	sn_block_again(b);
	return true;
}

/* What a piece of this round says about blocks asked for earlier. */
static void sn_link_evidence(struct sn_link *l, u32 round)
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
	u64 index, in;
	unsigned int i;
	u32 rest;

	if (offset < p->start || offset >= p->len)
		return NULL;
	index = div64_u64_rem(offset - p->start, sn_block_bytes(p), &in);
	*piece = (u32)in / p->frag;
	rest = (u32)in % p->frag;
	if (rest || len != min_t(u64, p->frag, p->len - offset))
		return NULL;
	for (i = 0; i < SN_NET_BLOCKS; i++) {
		struct sn_pull_block *b = &p->block[i];

		if (b->active && b->index == index)
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

/* A piece has come, and is in its place or with a DMA channel. */
static void sn_pull_came(struct sn_pull *p, struct sn_pull_block *b, unsigned int piece, u32 round, u32 len)
{
	struct sn_net *n = p->net;
	struct sn_link *l = p->link;
	u64 now = ktime_get_ns();

	if (b->fresh && b->round == round)
		sn_rtt_add(l, now - b->asked_at);
	b->fresh = false;
	b->tries = 0;
	l->heard = now;
	l->backoff = 0;
	b->missing &= ~(1ull << piece);
	b->bytes -= len;
	n->asked -= len;
	sn_count(SENNIT_C_NET_FRAMES, 1);
	WRITE_ONCE(n->ring->frames, READ_ONCE(n->ring->frames) + 1);
	if (b->round == round && b->missing) {
		b->end_seen |= piece >= b->last;
		b->later += piece > (unsigned int)__ffs64(b->missing);
		sn_block_lost(b);
	}
	if (!b->missing)
		list_del_init(&b->node); /* there is nothing to ask for */
	sn_link_evidence(l, round);
}

/* A piece is in its place. */
static void sn_pull_placed(struct sn_pull *p, struct sn_pull_block *b, u32 len)
{
	struct sn_net *n = p->net;

	p->left -= len;
	sn_count(SENNIT_C_NET_BYTES, len);
	if (!b->missing && !b->flying) {
		sn_block_drop(b);
		n->credit = min_t(u64, n->credit + div_u64(sn_block_bytes(p), 8), SN_CREDIT_MOST);
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
	u64 offset = p->start + b->index * sn_block_bytes(p) + (u64)index * p->frag;

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
		b->bytes += len;
		n->asked += len;
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
	u32 number = le32_to_cpu(d->pull), round = le32_to_cpu(d->round), bytes = len - sizeof(*d);
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
	sn_pull_came(p, b, piece, round, bytes);
	if (!engine)
		sn_pull_placed(p, b, bytes);
	sn_pull_schedule(n);
	return true;
}

/* ---- timer and worker ---- */

/* As in user space: only the block asked for longest ago is asked for again, its answer is news about the others. */
void sn_pull_timer(struct timer_list *t)
{
	struct sn_link *l = container_of(t, struct sn_link, timer);
	struct sn_net *n = l->net;
	struct sn_pull_block *b;
	u64 now, due;

	spin_lock_bh(&n->lock);
	b = list_first_entry_or_null(&l->asked, struct sn_pull_block, node);
	if (b) {
		now = ktime_get_ns();
		due = max(b->asked_at, l->heard) + sn_link_rto(l);
		if (now >= due) {
			sn_credit_cut(l);
			l->backoff = min_t(unsigned int, l->backoff + 1, SN_BACKOFF);
			if (++b->tries > SN_TRIES)
				sn_pull_end(b->pull, -ETIMEDOUT, true);
			else
				sn_block_again(b);
			sn_pull_schedule(n);
			due = now + sn_link_rto(l);
		}
		if (!list_empty(&l->asked))
			sn_link_arm(l, due - now);
	}
	spin_unlock_bh(&n->lock);
	sn_net_flush(n);
}

void sn_pull_pin_work(struct work_struct *work)
{
	struct sn_pull *p = container_of(work, struct sn_pull, pin);
	struct sn_region *r = p->end.region;
	struct sn_net *n = p->net;
	struct sn_pinset *ps;
	u64 at, to;

	for (;;) {
		struct sn_seg *seg;
		u64 skew, next;

		spin_lock_bh(&n->lock);
		at = p->pin_at;
		to = p->over ? 0 : p->pin_to;
		if (at < to) /* a frame that finds nothing there sets it back */
			p->pin_at = to;
		spin_unlock_bh(&n->lock);
		if (at >= to)
			break;
		while (at < to) {
			seg = sn_region_seg(r, at);
			skew = offset_in_page(seg->addr);
			ps = sn_pin_get(seg, (at - seg->start + skew) >> PAGE_SHIFT, true, false);
			if (IS_ERR(ps))
				break;
			next = seg->start +
			       min_t(u64, seg->len, ((u64)(ps->first + ps->count) << PAGE_SHIFT) - skew);
			sn_pin_put(ps);
			at = next;
			cond_resched();
		}
		if (at < to) {
			spin_lock_bh(&n->lock);
			sn_pull_end(p, PTR_ERR(ps), true);
			sn_pull_schedule(n);
			spin_unlock_bh(&n->lock);
			sn_net_flush(n);
			break;
		}
	}
	kref_put(&p->ref, sn_pull_free);
}
