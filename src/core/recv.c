/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-sided receives: posting, arrival, unexpected messages, multi-receive.
 *
 * Budget of an eager receive: one copy out of the rail's buffer, no system call, no lock beyond the endpoint's. A message
 * that nobody has posted for is kept in a claim (claim.c).
 *
 * Multi-receive: the request stays in the matcher and hands out pieces of its buffer to children, one for each message.
 * It leaves the matcher when less than min_room bytes are left; the buffer is the caller's again when the last child
 * has completed, and that completion says so (SN_COMP_BUFFER_DONE).
 */
#include "core/core.h"
#include "match/again.h"
#include "progress/caller.h"

/* A child of a multi-receive has ended: is the buffer the caller's again? */
static void multi_child_done(struct sn_req *parent, sn_completion *c)
{
	parent->children--;
	if (parent->children || parent->posted.queued)
		return;
	if (parent->withdrawn) {
		parent->comp.flags |= SN_COMP_BUFFER_DONE;
		sn_core_req_complete(parent, SN_ERR_CANCELED);
		return;
	}
	c->flags |= SN_COMP_BUFFER_DONE;
	sn_core_req_free(parent);
}

void sn_core_recv_complete(struct sn_req *req, int status)
{
	if (!status && req->comp.full_len > req->comp.len) {
		status = SN_ERR_TRUNCATED;
		req->ep->count.truncated++;
	}
	struct sn_req *parent = req->multi ? req->parent : NULL;
	bool withdrawn = parent && parent->withdrawn && parent->children == 1;
	if (parent && !withdrawn)
		multi_child_done(parent, &req->comp);
	sn_core_req_complete(req, status);
	if (withdrawn) { /* the parent's cancellation is reported after its last message */
		sn_completion unused = {0};
		multi_child_done(parent, &unused);
	}
}

/* The piece of a multi-receive buffer for a message of this length, as a request of its own. */
static struct sn_req *multi_child(struct sn_req *parent, uint64_t len)
{
	struct sn_req *child = sn_core_req_new(parent->ep);
	if (!child)
		return NULL;
	uint64_t left = parent->room - parent->used;
	child->multi = true;
	child->parent = parent;
	child->children = 0;
	child->role = parent->role;
	child->comp.context = parent->comp.context;
	child->comp.op = SN_OP_MRECV;
	child->comp.flags = parent->comp.flags & SN_COMP_FORGET;
	child->seg_count = 1;
	child->room = left;
	child->comp.buf = (char *)parent->comp.buf + parent->used;
	parent->children++;
	/* the next message starts at a multiple of 8, because its reader will look for structures in it */
	parent->used = SN_MIN_OF((parent->used + len + 7) & ~UINT64_C(7), parent->room);
	if (len >= left || parent->room - parent->used < parent->min_room || parent->used == parent->room)
		if (parent->posted.queued)
			sn_match_remove_posted(parent->ep->match[1], &parent->posted);
	return child;
}

/* Matched: record the message in the request. Returns the bytes to be delivered. */
static uint64_t recv_matched(struct sn_req *req, struct sn_peer_state *peer, uint64_t bits, uint64_t data,
			     uint8_t flags, uint64_t len)
{
	req->peer = peer;
	req->comp.peer = peer->num;
	req->comp.bits = bits;
	req->comp.full_len = len;
	req->comp.len = SN_MIN_OF(len, req->room);
	req->comp.data = data;
	req->comp.flags |= sn_core_comp_flags(flags);
	return req->comp.len;
}

/* For a rail. One segment is not written down before: a short message needs only comp.buf. */
static const struct iovec *recv_segments(struct sn_req *req)
{
	if (req->seg_count == 1)
		req->seg[0] = (struct iovec){req->comp.buf, req->room};
	return req->seg;
}

static void recv_body(struct sn_req *req, const void *body, uint64_t len)
{
	if (sn_likely(req->seg_count == 1))
		sn_copy_between(req->comp.buf, body, len);
	else
		sn_iov_write(req->seg, req->seg_count, 0, body, len);
}

/* Give an unexpected message to the request that wants it. The claim is out of the matcher and used up here. */
static void deliver(struct sn_req *req, struct sn_claim *claim)
{
	struct sn_peer_state *peer = claim->peer;
	if (req->posted.stays) {
		struct sn_req *child = multi_child(req, claim->len);
		if (!child) { /* the message is lost, and both sides hear of it */
			if (claim->rdv)
				peer->ops->refuse(peer->link, claim->rdv, SN_ERR_NOMEM);
			sn_core_claim_drop(peer->ep, claim);
			if (req->posted.queued)
				sn_match_remove_posted(req->ep->match[1], &req->posted);
			sn_core_req_complete(req, SN_ERR_NOMEM);
			return;
		}
		req = child;
	}
	uint64_t take = recv_matched(req, peer, claim->m.bits, claim->data, claim->flags, claim->len);
	if (claim->flags & SN_H_SYNC)
		sn_core_ack(peer, claim->sync_op, SN_OK);
	struct sn_rdv *rdv = claim->rdv;
	if (rdv) {
		sn_core_claim_free(peer->ep, claim);
		peer->ops->pull(peer->link, rdv, recv_segments(req), req->seg_count, take, req);
		return;
	}
	if (sn_unlikely(claim->fetching))
		claim->waiter = req;
	else
		sn_core_claim_deliver(req, claim);
}

void sn_core_claim_deliver(struct sn_req *req, struct sn_claim *claim)
{
	const struct sn_peer_state *peer = claim->peer;
	int status = SN_OK;
	if (sn_unlikely(claim->lost)) {
		status = claim->failed ? claim->failed : peer->gone_status;
		req->comp.len = 0;
	} else if (req->comp.len) {
		recv_body(req, sn_core_claim_body(claim), req->comp.len);
	}
	sn_core_claim_free(peer->ep, claim);
	sn_core_recv_complete(req, status);
}

static int keep_unexpected(struct sn_peer_state *peer, const struct sn_in *in, bool plain, uint64_t sync_op)
{
	sn_ep *ep = peer->ep;
	struct sn_claim *claim = sn_core_claim_new(ep, in->rdv ? 0 : in->head.len);
	if (!claim)
		return sn_fail(SN_ERR_NOMEM, "no memory to keep an unexpected message of %llu bytes",
			       (unsigned long long)in->head.len);
	claim->m.bits = in->head.bits;
	claim->m.source = peer->num;
	claim->peer = peer;
	claim->plain = plain;
	claim->flags = in->head.flags;
	claim->len = in->head.len;
	claim->data = in->head.data;
	claim->sync_op = sync_op;
	claim->rdv = in->rdv;
	if (in->rdv) {
		sn_list_add_tail(&peer->rdvs, &claim->peer_link);
		ep->count.unexpected_rdv++;
		sn_core_claim_announced(ep, claim);
	} else if (in->head.len) {
		memcpy(claim->body, in->body, in->head.len);
	}
	if (claim->size_class == SN_CLAIM_CLASSES)
		peer->kept += claim->len;
	ep->count.unexpected++;
	int rc = sn_match_unexpected(ep->match[plain], &claim->m);
	if (rc)
		sn_core_claim_free(ep, claim);
	return rc;
}

/*
 * Its owner may read the word at once, and use its memory for something else. Who looks for it finds it done, though
 * it is free.
 */
static inline void came_as_awaited(sn_ep *ep, struct sn_req *req, uint64_t len)
{
	int64_t *came = req->comp.context;
	ep->count.recvs++;
	ep->count.tried_recvs++;
	sn_core_recv_free(ep, req);
	req->state = SN_REQ_DONE;
	__atomic_store_n(came, (int64_t)len, __ATOMIC_RELEASE);
}

/*
 * Match a message that is welcome, or keep it. p: the receive that it has just taken out of the matcher. op: the sender's
 * number of it, with SN_H_SYNC.
 */
static int recv_match(struct sn_peer_state *peer, const struct sn_in *in, bool plain, uint64_t op,
		      struct sn_match_posted *p)
{
	sn_ep *ep = peer->ep;
	/* a shown receive that a sender was faster to claim is gone already */
	while (p && sn_unlikely(p->shown) && !sn_core_recv_withdraw(sn_container(p, struct sn_req, posted)))
		p = sn_match_arrive(ep->match[plain], plain ? 0 : in->head.bits, peer->num);
	struct sn_req *req = p ? sn_container(p, struct sn_req, posted) : NULL;
	if (req && sn_unlikely(!sn_core_recv_accepts(req, in->head.bits, in->head.len,
						     !in->rdv || in->only_posted))) {
		sn_core_req_complete(req, SN_ERR_AGAIN);
		p = NULL; /* no other receive was earlier, and none has been posted since */
	}
	if (!p)
		return in->only_posted ? SN_ERR_AGAIN : keep_unexpected(peer, in, plain, op);
	if (p->stays && !(req = multi_child(req, in->head.len)))
		return in->only_posted ? SN_ERR_AGAIN : keep_unexpected(peer, in, plain, op);
	bool awaited =
		req->role == SN_ROLE_AWAIT && in->head.bits == req->comp.bits && in->head.len <= req->room;
	uint64_t take = recv_matched(req, peer, in->head.bits, in->head.data, in->head.flags, in->head.len);
	if (sn_unlikely(in->head.flags & SN_H_SYNC))
		sn_core_ack(peer, op, SN_OK);
	if (in->rdv) {
		peer->ops->pull(peer->link, in->rdv, recv_segments(req), req->seg_count, take, req);
		return 0;
	}
	if (take)
		recv_body(req, in->body, take);
	if (awaited)
		came_as_awaited(ep, req, take);
	else
		sn_core_recv_complete(req, SN_OK);
	return 0;
}

int sn_core_recv_arrive(struct sn_peer_state *peer, const struct sn_in *in, bool plain)
{
	struct sn_imm_sync sync = {0};
	if (sn_unlikely(in->head.flags & (SN_H_SYNC | SN_H_ARRIVED))) {
		if (in->head.imm_len != sizeof(sync))
			return sn_fail(SN_ERR_PROTO, "%s sent a synchronous message without its number",
				       sn_core_peer_name(peer).text);
		memcpy(&sync, in->head.imm, sizeof(sync));
	}
	int rc = recv_match(peer, in, plain, sync.op,
			    sn_match_arrive(peer->ep->match[plain], plain ? 0 : in->head.bits, peer->num));
	if (sn_unlikely(in->head.flags & SN_H_ARRIVED) && !rc)
		rc = sn_core_ack(peer, sync.op, SN_OK);
	return rc < 0 ? rc : 0;
}

/* Who receives in a loop often does so into the same memory. */
static void __attribute__((noinline))
copy_longer(struct sn_peer_state *peer, void *to, const void *body, uint64_t len)
{
	bool again = peer->into == to;
	peer->into = to;
	sn_copy_home(to, body, len, again);
}

/* p: the receive that was taken out for it, NULL: look for one. */
static int __attribute__((noinline))
arrive_otherwise(struct sn_peer_state *peer, uint8_t flags, uint64_t bits, uint64_t data, const void *body,
		 uint64_t len, struct sn_match_posted *p)
{
	struct sn_in in = {
		.head = {.kind = SN_K_TAGGED, .flags = flags, .bits = bits, .data = data, .len = len},
		.body = body};
	if (!p)
		p = sn_match_arrive(peer->ep->match[0], bits, peer->num);
	int rc = recv_match(peer, &in, false, 0, p);
	return rc < 0 ? rc : 0;
}

/*
 * Budget where it meets its receive in one piece and with room, and that is like the one before it: no call but the copy
 * and the callback, and three lines of the request.
 */
int sn_core_arrive_tagged(struct sn_peer_state *peer, uint8_t flags, uint64_t bits, uint64_t data,
			  const void *body, uint64_t len)
{
	sn_ep *ep = peer->ep;
	if (sn_unlikely(ep->closing))
		return 0;
	struct sn_match_posted *p = sn_match_arrive_again(ep->match[0], bits, peer->num);
	struct sn_req *req = p ? sn_container(p, struct sn_req, posted) : NULL;
	if (sn_unlikely(!req || req->seg_count != 1 || len > req->room ||
			!sn_core_recv_accepts(req, bits, len, true)))
		return arrive_otherwise(peer, flags, bits, data, body, len, p);
	if (sn_unlikely(len > SN_COPY_FEW))
		copy_longer(peer, req->comp.buf, body, len);
	else if (sn_likely(len != 0))
		sn_copy_48(req->comp.buf, body, len);
	if (req->role == SN_ROLE_AWAIT && sn_likely(bits == req->comp.bits)) {
		came_as_awaited(ep, req, len);
		return 0;
	}
	req->peer = peer;
	req->comp.peer = peer->num;
	req->comp.flags |= sn_core_comp_flags(flags);
	req->comp.bits = bits;
	req->comp.len = req->comp.full_len = len;
	req->comp.data = data;
	if (sn_likely(sn_core_recv_tells(ep, req))) {
		ep->attr.on_complete(ep->attr.arg, &req->comp);
		sn_core_recv_free(ep, req);
	} else if (sn_likely(req->role <= SN_ROLE_AWAIT &&
			     !atomic_load_explicit(&ep->sleepers, memory_order_relaxed))) {
		req->pending = 0;
		req->state = SN_REQ_DONE;
	} else {
		sn_core_req_complete(req, SN_OK);
	}
	return 0;
}

static inline __attribute__((always_inline)) struct sn_req *recv_new(sn_ep *ep, const sn_msg *msg, bool plain,
								     uint64_t room, bool wants_handle)
{
	struct sn_req *req = sn_core_req_new(ep);
	if (!req)
		return NULL;
	sn_core_recv_fill(req, msg->peer, msg->iov_count ? msg->iov->iov_base : NULL, room, msg->bits,
			  msg->context);
	if (sn_likely(msg->iov_count == 1)) {
		req->seg_count = 1;
	} else if (sn_core_req_segments(req, msg->iov, msg->iov_count, NULL, 0, NULL, 0)) {
		sn_core_req_free(req);
		return NULL;
	}
	req->comp.op = plain ? SN_OP_MRECV : SN_OP_RECV;
	req->posted.bits = plain ? 0 : msg->bits;
	req->posted.mask = plain ? 0 : msg->mask;
	sn_core_req_role(req, msg->flags, wants_handle);
	if (msg->flags & SN_MULTI) {
		req->posted.stays = req->multi = true;
		req->parent = NULL;
		req->children = 0;
		req->used = 0;
		req->min_room = SN_MAX_OF(msg->min_room, 1u);
		if (req->role == SN_ROLE_HANDLE) /* one handle cannot stand for many messages */
			req->role = SN_ROLE_QUEUE;
	}
	return req;
}

/*
 * Put a receive on the board, so that the sender, if it comes later, copies the message while this process computes. Not
 * if an earlier receive that is not there might take the message: then the sender must not choose.
 */
static void recv_show(struct sn_req *req, const struct sn_peer_state *source)
{
	sn_ep *ep = req->ep;
	if (ep->board_rail == ep->rail_count || (source && source->rail != ep->rails[ep->board_rail].state) ||
	    sn_match_hidden_before(ep->match[0], &req->posted))
		return;
	req->slot = ep->rails[ep->board_rail].ops->expose(
		ep->rails[ep->board_rail].state, source ? source->link : NULL, req->posted.serial,
		req->posted.bits, req->posted.mask, recv_segments(req), req->seg_count, req->room, req);
	if (req->slot < 0)
		return;
	sn_match_show(ep->match[0], &req->posted);
	ep->count.shown++;
}

bool sn_core_recv_withdraw(struct sn_req *req)
{
	const sn_ep *ep = req->ep;
	if (!ep->rails[ep->board_rail].ops->withdraw(ep->rails[ep->board_rail].state, req->slot))
		return false;
	sn_match_remove_posted(ep->match[0],
			       &req->posted); /* while .shown tells it how the receive was counted */
	req->posted.shown = false;
	return true;
}

/* It is still in the matcher if no arrival has come across it since. */
static void claim_taken(struct sn_req *req)
{
	req->ep->count.claimed++;
	sn_match_remove_posted(req->ep->match[0], &req->posted);
	req->posted.shown = false;
}

void sn_core_claimed(struct sn_req *req, struct sn_peer_state *peer, const struct sn_head *head, int status)
{
	claim_taken(req);
	if (head)
		recv_matched(req, peer, head->bits, head->data, head->flags, head->len);
	sn_core_recv_complete(req, status);
}

int sn_core_claimed_rdv(struct sn_req *req, struct sn_peer_state *peer, const struct sn_in *in)
{
	struct sn_imm_sync sync;
	if (in->head.kind != SN_K_TAGGED ||
	    ((in->head.flags & SN_H_SYNC) && in->head.imm_len != sizeof(sync)))
		return sn_fail(SN_ERR_PROTO, "%s claimed a receive for something else",
			       sn_core_peer_name(peer).text);
	claim_taken(req);
	uint64_t take = recv_matched(req, peer, in->head.bits, in->head.data, in->head.flags, in->head.len);
	if (in->head.flags & SN_H_SYNC) {
		memcpy(&sync, in->head.imm, sizeof(sync));
		sn_core_ack(peer, sync.op, SN_OK);
	}
	peer->ops->pull(peer->link, in->rdv, recv_segments(req), req->seg_count, take, req);
	return 0;
}

/* A receive waits for this peer, which may have died before a word was said. */
static void meet(struct sn_peer_state *peer)
{
	peer->unmet = false;
	peer->ops->meet(peer->link);
}

void sn_core_recv_place(struct sn_req *req, bool plain)
{
	sn_ep *ep = req->ep;
	struct sn_match *m = ep->match[plain];
	uint32_t source = req->posted.source;
	bool stays = req->posted.stays;
	uint32_t generation = req->generation;
	struct sn_match_unexpected *u;
	struct sn_peer_state *peer = source == SN_ANY_PEER ? NULL : ep->peers[source];
	if (sn_likely(!stays && !(peer && peer->gone) && sn_match_post_again(m, &req->posted)))
		goto posted;
	if (stays && sn_match_post(m, &req->posted)) {
		sn_core_req_complete(req, SN_ERR_NOMEM);
		return;
	}
	while ((u = sn_match_find(m, req->posted.bits, req->posted.mask, source))) {
		struct sn_claim *claim = sn_container(u, struct sn_claim, m);
		if (sn_unlikely(!sn_core_recv_accepts(req, u->bits, claim->len,
						      !claim->rdv && !claim->lost && !claim->fetching))) {
			sn_core_req_complete(req, SN_ERR_AGAIN);
			return;
		}
		sn_match_remove_unexpected(m, u);
		deliver(req, claim);
		if (!stays || req->generation != generation || !req->posted.queued)
			return;
	}
	if (stays)
		return;
	if (peer && sn_core_peer_over(peer)) {
		sn_core_req_complete(req, peer->gone_status);
		return;
	}
	if (sn_match_post(m, &req->posted)) {
		sn_core_req_complete(req, SN_ERR_NOMEM);
		return;
	}
posted:
	if (peer && sn_unlikely(peer->gone))
		return;
	if (peer && sn_unlikely(peer->unmet))
		meet(peer);
	else if (sn_unlikely(req->room > SN_INJECT_MAX) && !plain && req->role != SN_ROLE_TRY)
		recv_show(req, peer);
}

/*
 * A receive has been posted, and if it is still under way (it is this one as long as the generation is) and worth the
 * progress thread's while, the application may go away now.
 */
static void leave(struct sn_req *req, uint32_t generation, uint64_t room)
{
	sn_ep *ep = req->ep;
	if (req->generation != generation || req->state != SN_REQ_ACTIVE || req->posted.shown)
		return;
	uint32_t source = req->posted.source;
	bool far = source != SN_ANY_PEER && ep->peers[source]->ops->far;
	if ((far || room >= SN_LEAVE_MIN) && !sn_caller_waits())
		sn_core_leave(ep, room, far || source == SN_ANY_PEER, far ? SN_LEAVES_ONCE : SN_LEAVES);
}

static inline __attribute__((always_inline)) int post_recv(sn_ep *ep, const sn_msg *msg, sn_req **handle,
							   bool plain)
{
	uint64_t room;
	int rc = sn_core_check(ep, msg, true, &room);
	if (sn_unlikely(rc))
		return rc;
	if (sn_unlikely(!plain && (msg->bits & ~msg->mask)))
		return sn_fail(SN_ERR_INVALID, "receive bits %#llx lie outside the mask %#llx",
			       (unsigned long long)msg->bits, (unsigned long long)msg->mask);
	if (sn_unlikely((msg->flags & SN_MULTI) && (!plain || msg->iov_count != 1)))
		return sn_fail(SN_ERR_INVALID, "a multi-receive is a plain receive into one segment");
	sn_lock(&ep->lock);
	struct sn_req *req = recv_new(ep, msg, plain, room, handle != NULL);
	if (sn_unlikely(!req)) {
		sn_unlock(&ep->lock);
		return SN_ERR_NOMEM;
	}
	ep->count.recvs++;
	uint32_t generation = req->generation;
	uint8_t role = req->role;
	bool entered = sn_engine_enter();
	sn_core_recv_place(req, plain);
	sn_engine_exit(entered);
	if (room >= SN_LEAVE_FAR && !plain)
		leave(req, generation, room);
	if (handle)
		*handle = sn_core_req_handle(req, generation, role);
	sn_unlock(&ep->lock);
	return 0;
}

int sn_post_recv(sn_ep *ep, const sn_msg *msg, sn_req **req)
{
	return post_recv(ep, msg, req, false);
}

static int __attribute__((noinline))
trecv_otherwise(sn_ep *ep, sn_peer from, struct iovec v, uint64_t bits, uint64_t mask, void *context)
{
	sn_msg m = {.peer = from, .iov = &v, .iov_count = 1, .bits = bits, .mask = mask, .context = context};
	return post_recv(ep, &m, NULL, false);
}

/* Budget, a receive like the one before it: no call, and three lines of a request. */
int sn_trecv(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask, void *context)
{
	if (sn_unlikely(!ep || sn_core_foreign(ep) ||
			from >= atomic_load_explicit(&ep->peer_count, memory_order_relaxed) ||
			room >= SN_LEAVE_FAR || !buf || bits & ~mask || !ep->attr.on_complete))
		return trecv_otherwise(ep, from, (struct iovec){buf, room}, bits, mask, context);
	sn_lock(&ep->lock);
	struct sn_req *req = sn_core_req_new(ep);
	if (sn_unlikely(!req)) {
		sn_unlock(&ep->lock);
		return SN_ERR_NOMEM;
	}
	ep->count.recvs++;
	sn_core_recv_fill_one(req, SN_ROLE_CALLBACK, from, buf, room, bits, mask, context);
	const struct sn_peer_state *peer = ep->peers[from];
	if (sn_unlikely(peer->gone || peer->unmet || !sn_match_post_again(ep->match[0], &req->posted)))
		sn_core_recv_place(req, false);
	sn_unlock(&ep->lock);
	return 0;
}

int sn_post_mrecv(sn_ep *ep, const sn_msg *msg, sn_req **req)
{
	return post_recv(ep, msg, req, true);
}

int sn_mrecv(sn_ep *ep, sn_claim *claim, const sn_msg *msg, sn_req **handle)
{
	if (!claim)
		return sn_fail(SN_ERR_INVALID, "the claim is NULL");
	uint64_t room;
	int rc = sn_core_check_msg(ep, msg, true, &room);
	if (!rc && (msg->flags & SN_MULTI))
		rc = sn_fail(SN_ERR_INVALID, "a claimed message cannot be received by a multi-receive");
	if (rc) {
		if (ep && !sn_core_foreign(ep))
			sn_discard(ep, claim);
		return rc;
	}
	sn_lock(&ep->lock);
	struct sn_req *req = recv_new(ep, msg, claim->plain, room, handle != NULL);
	if (!req) {
		sn_unlock(&ep->lock);
		sn_discard(ep, claim);
		return SN_ERR_NOMEM;
	}
	ep->count.recvs++;
	uint32_t generation = req->generation;
	uint8_t role = req->role;
	deliver(req, claim);
	if (handle)
		*handle = sn_core_req_handle(req, generation, role);
	sn_unlock(&ep->lock);
	return 0;
}
