/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting, and what waits for room in the ring.
 *
 * Budget of sn_send_post for an eager message on an open link with room: no system call, no allocation, no locked
 * instruction; one copy into the ring, 3 stores of bookkeeping. tests/unit/test_local_budget.c holds it.
 *
 * When the ring is full, or a connection cannot be made yet, messages queue in order (link->messages) and progress()
 * moves them. Control records (FIN, CTS, DONE) are not part of the order of messages: they go first, since somebody's
 * buffer waits for them. Pieces of streams take turns with messages. So neither is held up by bulk. The
 * receiver rings when room appears (want_room).
 */
#include "base/log.h"
#include "local/local.h"
#include "local/owed.h"
#include <stdlib.h>

#define DEMOTE_CELLS                                                                                         \
	36u /* at 1 KiB it is a fifth faster, at 2 KiB level, at 4 KiB slower, at 8 KiB by a quarter */

struct queued {
	struct sn_list link;
	struct sn_head head;
	struct sn_req *req; /* NULL: nobody waits */
	const struct iovec *iov;
	uint32_t iov_count;
	bool copied; /* the body is here */
	struct iovec own;
	uint8_t imm[SN_IMM_MAX];
	uint8_t body[];
};

struct control {
	struct sn_list link;
	uint8_t type, flags;
	uint32_t bytes;
	uint64_t bits, data;
	uint8_t payload[];
};

/* The first line is on its way anyway: the receiver is waiting for it. Many lines travel faster by themselves. */
static inline void demote(const struct sn_link *link, struct sn_cell *cell, uint32_t cells)
{
	for (uint32_t i = 1; sn_unlikely(link->demote) && cells <= DEMOTE_CELLS && i < cells; i++)
		sn_line_demote(cell + i);
}

/* A message is in the ring: of more than this, as many lines are got ready for the next. */
static inline void wrote(struct sn_link *link, uint32_t cells)
{
	link->rail->count.tx_eager++;
	if (cells > SN_RING_AHEAD)
		link->rail->wrote = link;
}

/*
 * All of a record but its mark. The first line comes last: the receiver looks at it all the time, and takes it away
 * again between two stores if there is a line to be fetched in between.
 */
static inline void fill(struct sn_link *link, struct sn_cell *cell, uint32_t len, uint64_t bits,
			uint64_t data, const void *body, uint64_t n)
{
	uint8_t *to = sn_cell_payload(cell);
	uint64_t first = SN_MIN_OF(n, sizeof(cell->payload));
	if (sn_unlikely(sn_way_past_ring(link, n))) {
		sn_copy_bypass(to, body, n);
	} else if (n > first) {
		sn_copy_small(to + first, (const uint8_t *)body + first, n - first);
		atomic_signal_fence(memory_order_release);
		sn_copy_48(to, body, sizeof(cell->payload));
	} else if (n) {
		sn_copy_48(to, body, n);
	}
	cell->len = len;
	cell->bits = bits;
	cell->data = data;
}

/* Lets the receiver tell an answer from a message that crosses his own. */
static inline uint32_t seen(const struct sn_link *link)
{
	return (uint32_t)link->rx.head << SN_REC_SEEN_SHIFT & SN_RECF_SEEN;
}

static inline void write_eager(struct sn_link *link, struct sn_cell *cell, uint32_t cells,
			       const struct sn_head *head, const struct iovec *iov, uint32_t iov_count)
{
	uint32_t len = (uint32_t)head->len | (uint32_t)head->imm_len << 24;
	if (sn_likely(iov_count == 1 && !head->imm_len)) {
		fill(link, cell, len, head->bits, head->data, iov->iov_base, head->len);
	} else {
		uint8_t *to = sn_cell_payload(cell);
		if (head->imm_len)
			memcpy(to, head->imm, head->imm_len);
		if (head->len)
			sn_iov_read(to + head->imm_len, iov, iov_count, 0, head->len);
		cell->len = len;
		cell->bits = head->bits;
		cell->data = head->data;
	}
	demote(link, cell, cells);
	sn_tx_publish(&link->tx, (uint32_t)SN_REC_MSG | head->kind, (head->flags & SN_H_MASK) | seen(link),
		      cells);
	wrote(link, cells);
}

/* Does the peer have something to do about it, even while nobody waits for it there? */
static inline bool is_request(const struct sn_head *head)
{
	return head->kind == SN_K_PUT || head->kind == SN_K_GET || head->kind == SN_K_ATOMIC;
}

static bool is_eager(const struct sn_link *link, uint64_t len, bool copied)
{
	return len <= link->eager || (copied && len <= SN_INJECT_MAX);
}

/* Can it go through the ring in parts? Only what is matched: the rest has no receive to be copied into. */
static bool may_part(const struct sn_link *link, const struct sn_head *head, bool copied)
{
	return head->len > link->whole && head->len <= link->parts && !copied &&
	       (head->kind == SN_K_TAGGED || head->kind == SN_K_PLAIN);
}

/* No: the receiver keeps so much of this side's that longer messages had better wait here. */
static bool has_room(struct sn_link *link)
{
	return sn_likely(!link->tx.full) || (sn_tx_refresh(&link->tx) && !link->tx.full);
}

static bool may_mesh(const struct sn_link *link, const struct sn_head *head, bool copied)
{
	return head->len > link->whole && head->kind == SN_K_TAGGED && !copied && link->greeted;
}

/* Is it one of a mesh, whose receivers fetch what they can map? */
static bool is_meshed(const struct sn_link *link, const struct sn_head *head, const struct iovec *iov,
		      uint32_t iov_count, bool copied)
{
	return may_mesh(link, head, copied) && sn_way_meshed(link) &&
	       sn_way_invited(link, head->len, sn_heap_holds(&link->rail->heap, iov, iov_count));
}

static int announce(struct sn_link *link, const struct sn_head *head, const struct iovec *iov,
		    uint32_t iov_count, uint32_t slot, bool stream, struct sn_req *req)
{
	struct sn_cell *cell = sn_tx_room(&link->tx, sn_rec_cells(sn_rdv_announce_bytes(head, iov_count)));
	int rc = cell ? sn_rdv_announce(link, cell, head, iov, iov_count, slot, stream, req) : SN_ERR_AGAIN;
	if (!rc && is_request(head)) /* nobody else does what is to be done there */
		sn_link_ring(link, true);
	else if (!rc)
		sn_owed_ring(link);
	return rc;
}

static int write_whole(struct sn_link *link, const struct sn_head *head, const struct iovec *iov,
		       uint32_t iov_count)
{
	uint32_t cells = sn_rec_cells(head->imm_len + head->len);
	struct sn_cell *cell = sn_tx_room(&link->tx, cells);
	if (!cell)
		return SN_ERR_AGAIN;
	write_eager(link, cell, cells, head, iov, iov_count);
	return 1;
}

static int write_parts(struct sn_link *link, const struct sn_head *head, const struct iovec *iov,
		       uint32_t iov_count)
{
	uint32_t cells = sn_part_cells(head);
	struct sn_cell *cell = sn_tx_room(&link->tx, cells);
	if (!cell)
		return SN_ERR_AGAIN;
	sn_part_write(link, cell, cells, head, iov, iov_count);
	return 1;
}

/* Write a message, or its announcement. 1: written and done, 2: and matched, 0: announced, or being copied by both sides,
 * SN_ERR_AGAIN: no room, or another error. */
static int write_message(struct sn_link *link, const struct sn_head *head, const struct iovec *iov,
			 uint32_t iov_count, bool copied, struct sn_req *req)
{
	bool eager = is_eager(link, head->len, copied), parts = may_part(link, head, copied);
	bool straight = !eager, claims = true, stream = false;
	uint32_t slot = SN_CLAIM_NONE;
	if (is_meshed(link, head, iov, iov_count, copied)) {
		eager = claims = false;
		straight = true;
	} else if (parts && link->greeted && head->kind == SN_K_TAGGED) {
		bool heap = sn_heap_holds(&link->rail->heap, iov, iov_count);
		eager = eager && !sn_way_invited(link, head->len, heap);
		straight = sn_way_straight(link, head->len, eager, heap);
		claims = eager || !straight || sn_way_claims(link, head->len);
	} else if (straight && link->greeted && head->kind == SN_K_TAGGED) {
		claims = !sn_way_exchanges(link, head->len);
	}
	if (straight && claims && sn_list_empty(&link->messages)) {
		enum sn_claim_outcome outcome =
			sn_claim_try(link, head, iov, iov_count, copied ? NULL : req, &slot);
		if (outcome == SN_CLAIM_DONE || outcome == SN_CLAIM_PENDING)
			return outcome == SN_CLAIM_DONE ? 2 : 0;
		stream = outcome == SN_CLAIM_STREAM;
	}
	if (slot == SN_CLAIM_NONE && parts && (eager || (!straight && has_room(link)))) {
		int rc = write_parts(link, head, iov, iov_count);
		if (rc != SN_ERR_AGAIN || eager)
			return rc;
	}
	if (slot == SN_CLAIM_NONE && eager)
		return write_whole(link, head, iov, iov_count);
	return announce(link, head, iov, iov_count, slot, stream, req);
}

static int enqueue(struct sn_link *link, const struct sn_out *out, struct sn_req *req)
{
	bool copy = out->must_copy || !req;
	struct queued *q = malloc(sizeof(*q) + (copy ? out->head.len : 0));
	if (!q)
		return sn_fail(SN_ERR_NOMEM, "no memory to queue a message");
	q->head = out->head;
	q->head.imm = q->imm;
	if (out->head.imm_len)
		memcpy(q->imm, out->head.imm, out->head.imm_len);
	q->copied = copy;
	q->req = copy ? NULL : req;
	q->iov = out->iov;
	q->iov_count = out->iov_count;
	if (copy) {
		sn_iov_read(q->body, out->iov, out->iov_count, 0, out->head.len);
		q->own = (struct iovec){q->body, out->head.len};
		q->iov = &q->own;
		q->iov_count = 1;
	}
	sn_list_add_tail(&link->messages, &q->link);
	link->fast = false;
	link->rail->count.tx_queued++;
	sn_link_busy(link);
	return copy; /* a copied message is out of the caller's hands */
}

/* Everything that is not: open, nothing queued, eager, room. */
static int __attribute__((noinline))
post_slow(struct sn_link *link, const struct sn_out *out, struct sn_req *req)
{
	if (link->rail->forked)
		return sn_fail(SN_ERR_FORKED, "this endpoint belongs to the parent process");
	bool copied = out->must_copy || !req;
	if (copied && out->head.len > SN_INJECT_MAX)
		return sn_fail(SN_ERR_INVALID, "a message of %llu bytes cannot be copied on the way",
			       (unsigned long long)out->head.len);
	if (link->lost)
		return SN_ERR_PEER_GONE;
	if (link->state == SN_LINK_NEW) {
		int rc = sn_link_open(link);
		if (rc)
			return rc;
	}
	if (link->state == SN_LINK_GONE || link->doom)
		return SN_ERR_PEER_GONE;
	if (may_mesh(link, &out->head, copied)) /* one that waits for room is tried again and again */
		sn_way_mesh(link, out->head.len);
	if (!sn_list_empty(&link->messages))
		return enqueue(link, out, req);
	int rc = write_message(link, &out->head, out->iov, out->iov_count, copied, req);
	if (rc == SN_ERR_AGAIN) {
		if (!link->tx.bad)
			return enqueue(link, out, req);
		sn_link_doom(link, SN_ERR_PROTO, false);
		return SN_ERR_PEER_GONE;
	}
	if (rc > 0) /* what was announced, or is being copied by both, has rung */
		sn_link_ring(link, is_request(&out->head));
	return rc;
}

int sn_send_post(void *l, const struct sn_out *out, struct sn_req *req)
{
	struct sn_link *link = l;
	uint64_t bytes = out->head.imm_len + out->head.len;
	if (sn_likely(link->fast && out->head.len <= link->whole)) {
		uint32_t cells = sn_rec_cells(bytes);
		struct sn_cell *cell = sn_tx_room(&link->tx, cells);
		if (sn_likely(cell != NULL)) {
			write_eager(link, cell, cells, &out->head, out->iov, out->iov_count);
			sn_link_ring(link, is_request(&out->head));
			return 1;
		}
	}
	return post_slow(link, out, req);
}

/* The lap of such messages, if nothing is to be asked about the next one, and it goes through the ring as the ones before. */
static struct sn_lap *settled_in_ring(struct sn_link *link, const struct iovec *iov)
{
	unsigned class = 63u - (unsigned)__builtin_clzll(iov->iov_len) - SN_WAY_LAP_FIRST;
	struct sn_lap *l = class < SN_WAY_LAPS ? &link->laps[class] : NULL;
	if (!l || !l->count || sn_lap_asks(l) || l->way)
		return NULL;
	bool heap = sn_heap_holds(&link->rail->heap, iov, 1);
	return (link->heap_laps >> class & 1) == heap && !sn_way_crowd(link, iov->iov_len, heap) ? l : NULL;
}

static int parts_now(struct sn_link *link, const struct sn_head *head, const void *body)
{
	struct iovec iov = {(void *)(uintptr_t)body, head->len};
	uint32_t cells = sn_part_cells(head);
	struct sn_lap *lap = NULL;
	if (head->kind == SN_K_TAGGED && may_part(link, head, false) && has_room(link) &&
	    !sn_way_meshed(link))
		lap = settled_in_ring(link, &iov);
	struct sn_cell *cell = lap ? sn_tx_room(&link->tx, cells) : NULL;
	if (!cell)
		return SN_ERR_AGAIN;
	lap->count++;
	sn_part_write(link, cell, cells, head, &iov, 1);
	sn_link_ring(link, false);
	sn_way_mesh(link, head->len);
	return 1;
}

/* More than a cell, or a ring that is full or begins anew. */
static int __attribute__((noinline)) send_now_longer(struct sn_link *link, uint32_t what, uint64_t bits,
						     uint64_t data, const void *body, uint64_t len)
{
	if (sn_unlikely(!link->fast))
		return SN_ERR_AGAIN;
	if (sn_unlikely(len > link->whole))
		return parts_now(link,
				 &(struct sn_head){.kind = (uint8_t)what,
						   .flags = (uint8_t)(what >> 8),
						   .bits = bits,
						   .data = data,
						   .len = len},
				 body);
	uint32_t cells = sn_rec_cells(len);
	struct sn_cell *cell = sn_tx_room(&link->tx, cells);
	if (sn_unlikely(!cell))
		return SN_ERR_AGAIN;
	fill(link, cell, (uint32_t)len, bits, data, body, len);
	demote(link, cell, cells);
	sn_tx_publish(&link->tx, SN_REC_MSG | (what & 0xff), what >> 8 | seen(link), cells);
	wrote(link, cells);
	sn_link_ring(link, false);
	return 1;
}

static int __attribute__((noinline)) ring_now(struct sn_link *link)
{
	sn_link_ring(link, false);
	return 1;
}

/* The same with nothing to look at but a segment, for post_now. Budget up to 40 bytes: about 50 instructions, one line. */
int sn_send_now(void *l, uint32_t what, uint64_t bits, uint64_t data, const void *body, uint64_t len)
{
	struct sn_link *link = l;
	if (sn_unlikely(!link->fast || !sn_tx_put(&link->tx, sn_rec_mark(SN_REC_MSG | what, seen(link), 1),
						  bits, data, body, len)))
		return send_now_longer(link, what, bits, data, body, len);
	link->rail->count.tx_eager++;
	if (sn_likely(link->bell && sn_bell_quiet(link->bell, link->fence)))
		return 1;
	return ring_now(link);
}

static bool may_be_fast(const struct sn_link *link)
{
	return link->state == SN_LINK_OPEN && !link->doom && !link->lost && sn_list_empty(&link->messages);
}

bool sn_send_unpost(void *l, struct sn_req *req)
{
	struct sn_link *link = l;
	sn_list_for_each (at, &link->messages) {
		struct queued *q = sn_container(at, struct queued, link);
		if (q->req != req)
			continue;
		sn_list_del(&q->link);
		free(q);
		link->fast = may_be_fast(link);
		return true;
	}
	return false;
}

static bool write_control(struct sn_link *link, unsigned type, unsigned flags, uint64_t bits, uint64_t data,
			  const void *payload, uint32_t bytes)
{
	uint32_t cells = sn_rec_cells(bytes);
	struct sn_cell *cell = sn_tx_room(&link->tx, cells);
	if (!cell)
		return false;
	cell->len = bytes;
	cell->bits = bits;
	cell->data = data;
	if (bytes)
		memcpy(sn_cell_payload(cell), payload, bytes);
	sn_tx_publish(&link->tx, type, flags, cells);
	return true;
}

void sn_send_control(struct sn_link *link, unsigned type, unsigned flags, uint64_t bits, uint64_t data,
		     const void *payload, uint32_t n)
{
	if (link->state != SN_LINK_OPEN)
		return;
	if (sn_list_empty(&link->controls) && write_control(link, type, flags, bits, data, payload, n)) {
		sn_link_ring(link,
			     type == SN_REC_CTS && !(flags & SN_RECF_SHARE)); /* a helper may stay away */
		return;
	}
	struct control *c = malloc(sizeof(*c) + n);
	if (!c) { /* without it the peer would wait for ever: better an end that it sees */
		sn_link_doom(link, SN_ERR_NOMEM, false);
		return;
	}
	*c = (struct control){
		.type = (uint8_t)type, .flags = (uint8_t)flags, .bytes = n, .bits = bits, .data = data};
	if (n)
		memcpy(c->payload, payload, n);
	sn_list_add_tail(&link->controls, &c->link);
	sn_link_busy(link);
}

static int push_controls(struct sn_link *link)
{
	int n = 0;
	sn_list_for_each_safe (at, &link->controls) {
		struct control *c = sn_container(at, struct control, link);
		if (!write_control(link, c->type, c->flags, c->bits, c->data, c->payload, c->bytes))
			break;
		sn_list_del(&c->link);
		free(c);
		n++;
	}
	return n;
}

/* The next queued message. True if it left the queue. */
static bool push_message(struct sn_link *link)
{
	if (sn_list_empty(&link->messages))
		return false;
	struct queued *q = sn_container(link->messages.next, struct queued, link);
	struct sn_req *req = q->req;
	int rc = write_message(link, &q->head, q->iov, q->iov_count, q->copied, req);
	if (rc == SN_ERR_AGAIN)
		return false;
	sn_list_del(&q->link);
	free(q);
	if (req && rc) /* written, or failed; an announced one goes on */
		sn_core_sent(req, rc > 0 ? SN_OK : rc);
	return true;
}

int sn_send_push(struct sn_link *link)
{
	if (link->state != SN_LINK_OPEN)
		return 0;
	int n = push_controls(link);
	for (bool moved = true; moved && sn_list_empty(&link->controls) && !link->doom;) {
		moved = push_message(link);
		int piece = sn_rdv_fragment(link);
		n += moved + piece;
		moved |= piece != 0;
	}
	if (sn_unlikely(link->tx.bad))
		sn_link_doom(link, SN_ERR_PROTO, false);
	bool waits = !sn_list_empty(&link->controls) || !sn_list_empty(&link->messages) ||
		     !sn_list_empty(&link->sends);
	atomic_store_explicit(&link->tx.chan->want_room, waits, memory_order_relaxed);
	link->fast = may_be_fast(link);
	if (n)
		sn_link_ring(link, true);
	return n;
}

void sn_send_drop(struct sn_link *link, bool all, int status)
{
	sn_list_for_each_safe (at, &link->messages) {
		struct queued *q = sn_container(at, struct queued, link);
		if (!all && is_eager(link, q->head.len, q->copied))
			continue;
		struct sn_req *req = q->req;
		sn_list_del(&q->link);
		free(q);
		if (req && status)
			sn_core_sent(req, status);
	}
	if (!all)
		return;
	sn_list_for_each_safe (at, &link->controls) {
		struct control *c = sn_container(at, struct control, link);
		sn_list_del(&c->link);
		free(c);
	}
}
