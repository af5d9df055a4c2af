/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-sided sends.
 *
 * Budget of an eager send to a known local peer: one copy into the ring, no system call, no allocation, no locked
 * instruction (SERIAL); one request from the free list if somebody will ask for it, else none. A request's segment list
 * is the rail's until sn_core_sent, so it is copied when the message cannot leave at once.
 */
#include "core/core.h"
#include "progress/caller.h"

/* For post_now. */
static inline uint32_t what(uint8_t kind, uint32_t flags)
{
	_Static_assert((int)SN_DATA == SN_H_DATA << 1 && (int)SN_MARK == SN_H_MARK << 4, "one shift each");
	return kind | (flags & SN_DATA) << 7 | (flags & SN_MARK) << 4;
}

/* On the node, sent is delivered. */
static inline bool waits_for_arrival(const struct sn_peer_state *peer, const sn_msg *msg)
{
	return (msg->flags & SN_DELIVERED) && peer->ops->far;
}

/*
 * A message of one segment that its rail takes at once needs no request, unless somebody wants to ask for it later. Told
 * of it are, from the stack, those who want to hear of everything (on_complete). 1: done. 0: nothing was done.
 */
static inline int send_now(sn_ep *ep, const sn_msg *msg, uint64_t len, uint8_t kind)
{
	const struct sn_peer_state *peer = ep->peers[msg->peer];
	uint32_t forget = msg->flags & SN_FORGET;
	if (sn_unlikely(!peer->now || !sn_list_empty(&ep->deferred) || waits_for_arrival(peer, msg)) ||
	    peer->now(peer->link, what(kind, msg->flags), msg->bits, msg->data, msg->iov->iov_base, len) != 1)
		return 0;
	ep->count.sends++;
	if (!ep->attr.on_complete || (forget && ep->quiet))
		return 1;
	sn_completion c = {
		.context = msg->context,
		.op = kind == SN_K_TAGGED ? SN_OP_SEND : SN_OP_MSEND,
		.flags = forget ? SN_COMP_FORGET : 0,
		.peer = msg->peer,
		.bits = msg->bits,
		.len = len,
		.full_len = len,
		.data = msg->data,
		.buf = msg->iov->iov_base,
	};
	ep->attr.on_complete(ep->attr.arg, &c);
	return 1;
}

/* Nobody will ask for a handle, no answer is awaited, and the rail may keep nothing but a copy. */
static inline bool may_go_now(const sn_ep *ep, const sn_msg *msg)
{
	return !(msg->flags & SN_SYNC) && msg->iov_count == 1 &&
	       (ep->attr.on_complete || msg->flags & SN_FORGET);
}

/*
 * An injected message that nobody asks after needs no request in any case: the rail takes its bytes before it returns.
 */
static void send_forgotten(sn_ep *ep, struct sn_peer_state *peer, const sn_msg *msg, uint64_t len,
			   uint8_t kind)
{
	struct sn_out out = {
		.head = {.kind = kind,
			 .flags = (uint8_t)(what(0, msg->flags) >> 8),
			 .bits = msg->bits,
			 .data = msg->data,
			 .len = len,
			 .imm = ""},
		.iov = msg->iov,
		.iov_count = msg->iov_count,
		.must_copy = true,
	};
	ep->count.sends++;
	int rc = sn_unlikely(peer->gone) ? sn_core_gone(peer) : peer->ops->post(peer->link, &out, NULL);
	if (!ep->attr.on_complete || (ep->quiet && rc >= 0))
		return;
	sn_completion c = {
		.context = msg->context,
		.op = kind == SN_K_TAGGED ? SN_OP_SEND : SN_OP_MSEND,
		.flags = SN_COMP_FORGET,
		.status = rc < 0 ? rc : SN_OK,
		.peer = msg->peer,
		.bits = msg->bits,
		.len = len,
		.full_len = len,
		.data = msg->data,
		.buf = msg->iov_count ? msg->iov[0].iov_base : NULL,
	};
	ep->attr.on_complete(ep->attr.arg, &c);
}

static bool is_forgotten(const sn_ep *ep, const sn_msg *msg)
{
	const uint32_t wanted = SN_INJECT | SN_FORGET;
	return (msg->flags & (wanted | SN_SYNC)) == wanted && !ep->peers[msg->peer]->ops->far;
}

/* The same for a message that has a request, which somebody will ask for. The request need not be filled in before. */
static inline bool req_goes_now(const struct sn_peer_state *peer, const sn_msg *msg, uint64_t len,
				uint8_t kind)
{
	return sn_likely(!(msg->flags & SN_SYNC) && msg->iov_count == 1 && peer->now &&
			 !waits_for_arrival(peer, msg)) &&
	       peer->now(peer->link, what(kind, msg->flags), msg->bits, msg->data, msg->iov->iov_base, len) ==
		       1;
}

/* With the lock, which it gives back. */
static int post_request(sn_ep *ep, const sn_msg *msg, sn_req **handle, uint8_t kind, uint64_t len)
{
	if (is_forgotten(ep, msg)) {
		send_forgotten(ep, ep->peers[msg->peer], msg, len, kind);
		if (handle)
			*handle = NULL;
		sn_unlock(&ep->lock);
		return 0;
	}
	struct sn_req *req = sn_core_req_new(ep);
	if (sn_unlikely(!req)) {
		sn_unlock(&ep->lock);
		return SN_ERR_NOMEM;
	}
	struct sn_peer_state *peer = ep->peers[msg->peer];
	bool gone_out = req_goes_now(peer, msg, len, kind); /* first of all: the peer may be waiting */
	req->peer = peer;
	req->comp.context = msg->context;
	req->comp.op = kind == SN_K_TAGGED ? SN_OP_SEND : SN_OP_MSEND;
	req->comp.peer = msg->peer;
	req->comp.bits = msg->bits;
	req->comp.len = req->comp.full_len = len;
	req->comp.data = msg->data;
	req->comp.buf = msg->iov_count ? msg->iov[0].iov_base : NULL;
	sn_core_req_role(req, msg->flags, handle != NULL);
	uint32_t generation = req->generation;
	uint8_t role = req->role;
	if (sn_likely(gone_out)) {
		ep->count.sends++;
		sn_core_req_complete(req, SN_OK);
		goto out;
	}
	if (sn_unlikely(sn_core_req_segments(req, msg->iov, msg->iov_count, NULL, 0, NULL, 0))) {
		sn_core_req_free(req);
		sn_unlock(&ep->lock);
		return SN_ERR_NOMEM;
	}
	struct sn_out out = {
		.head = {.kind = kind, .bits = msg->bits, .data = msg->data, .len = len, .imm = req->imm},
		.iov = req->seg,
		.iov_count = req->seg_count,
		.must_copy = (msg->flags & SN_INJECT) != 0,
	};
	out.head.flags = (uint8_t)(what(0, msg->flags) >> 8);
	bool arrival = waits_for_arrival(req->peer, msg);
	if (sn_unlikely(arrival || msg->flags & SN_SYNC)) {
		struct sn_imm_sync imm = {sn_core_req_op(req)};
		memcpy(req->imm, &imm, sizeof(imm));
		out.head.flags |= msg->flags & SN_SYNC ? SN_H_SYNC : SN_H_ARRIVED;
		out.head.imm_len = sizeof(imm);
		req->pending = 2;
		req->on_list = true;
		sn_list_add_tail(&req->peer->pending_ops, &req->link);
	}
	ep->count.sends++;
	bool entered = sn_engine_enter();
	sn_core_hand_over(req, &out);
	sn_engine_exit(entered);
	/* Still under way? What was written straight into the receive is not, and the guard, once up, has each announcement
	 * to this process wake the thread until somebody waits. */
	if (out.head.len >= SN_LEAVE_MIN && req->generation == generation &&
	    (req->state == SN_REQ_ACTIVE || req->peer->ops->far) && !sn_caller_waits())
		sn_core_leave(ep, out.head.len, req->peer->ops->far,
			      req->peer->ops->far ? SN_LEAVES_SENT : SN_LEAVES);
out:
	if (handle)
		*handle = sn_core_req_handle(req, generation, role);
	sn_unlock(&ep->lock);
	return 0;
}

static inline int post_send(sn_ep *ep, const sn_msg *msg, sn_req **handle, uint8_t kind)
{
	uint64_t len;
	int rc = sn_core_check(ep, msg, false, &len);
	if (sn_unlikely(rc))
		return rc;
	if (sn_unlikely((msg->flags & SN_INJECT) && len > SN_INJECT_MAX))
		return sn_fail(SN_ERR_INVALID, "an injected message has %llu bytes, at most %d are allowed",
			       (unsigned long long)len, SN_INJECT_MAX);
	sn_lock(&ep->lock);
	if (sn_likely(may_go_now(ep, msg)) && sn_likely(send_now(ep, msg, len, kind))) {
		if (handle)
			*handle = NULL;
		sn_unlock(&ep->lock);
		return 0;
	}
	return post_request(ep, msg, handle, kind, len);
}

int sn_post_send(sn_ep *ep, const sn_msg *msg, sn_req **req)
{
	return post_send(ep, msg, req, SN_K_TAGGED);
}

static inline bool knows(const sn_ep *ep, sn_peer to)
{
	return sn_likely(ep && !sn_core_foreign(ep) &&
			 to < atomic_load_explicit(&ep->peer_count, memory_order_relaxed));
}

/* Nobody asks after the message, and its completion would say nothing of whose it is: so the call itself fails. */
static int whether_gone(sn_ep *ep, sn_peer to)
{
	sn_lock(&ep->lock);
	const struct sn_peer_state *peer = ep->peers[to];
	int rc = peer->gone ? sn_core_gone(peer) : 0;
	sn_unlock(&ep->lock);
	return rc;
}

static int __attribute__((noinline))
inject_otherwise(sn_ep *ep, sn_peer to, struct iovec v, uint64_t bits, uint64_t data, uint32_t flags)
{
	int rc = knows(ep, to) ? whether_gone(ep, to) : 0;
	if (rc)
		return rc;
	sn_msg m = {.peer = to,
		    .flags = flags | SN_INJECT | SN_FORGET,
		    .iov = &v,
		    .iov_count = 1,
		    .bits = bits,
		    .data = data};
	return post_send(ep, &m, NULL, SN_K_TAGGED);
}

/* With the lock: a tagged message in one piece leaves at once. False: nothing was done. */
static inline bool goes(sn_ep *ep, sn_peer to, const void *buf, uint64_t len, uint64_t bits, uint64_t data,
			uint32_t flags)
{
	const struct sn_peer_state *peer = ep->peers[to];
	if (sn_unlikely(!peer->now) ||
	    sn_unlikely(peer->now(peer->link, what(SN_K_TAGGED, flags), bits, data, buf, len) != 1))
		return false;
	ep->count.sends++;
	return true;
}

/* Budget: no description of the message is made; the peer's link and one cell of its ring are all that is touched. */
int sn_inject(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits, uint64_t data,
	      uint32_t flags)
{
	if (sn_likely(knows(ep, to) && (buf || !len) && len <= SN_INJECT_MAX &&
		      !(flags & ~(uint32_t)(SN_DATA | SN_MARK)) && (ep->quiet || !ep->attr.on_complete))) {
		sn_lock(&ep->lock);
		bool sent = goes(ep, to, buf, len, bits, data, flags);
		sn_unlock(&ep->lock);
		if (sn_likely(sent))
			return 0;
	}
	return inject_otherwise(ep, to, (struct iovec){(void *)(uintptr_t)buf, len}, bits, data, flags);
}

static int __attribute__((noinline)) tsend_otherwise(sn_ep *ep, sn_peer to, struct iovec v, uint64_t bits,
						     uint64_t data, uint32_t flags, void *context)
{
	sn_msg m = {.peer = to,
		    .flags = flags,
		    .iov = &v,
		    .iov_count = 1,
		    .bits = bits,
		    .data = data,
		    .context = context};
	return post_send(ep, &m, NULL, SN_K_TAGGED);
}

/*
 * Budget: likewise, and no completion is made. What was put off (visit.c) is told first: then the callback tells of
 * this, too.
 */
int sn_tsend(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits, uint64_t data, uint32_t flags,
	     void *context)
{
	if (sn_likely(knows(ep, to) && (buf || !len) && !(flags & ~(uint32_t)(SN_DATA | SN_FORGET)) &&
		      ep->attr.on_complete)) {
		sn_lock(&ep->lock);
		bool sent = sn_list_empty(&ep->deferred) && goes(ep, to, buf, len, bits, data, flags);
		sn_unlock(&ep->lock);
		if (sn_likely(sent))
			return 1;
	}
	return tsend_otherwise(ep, to, (struct iovec){(void *)(uintptr_t)buf, len}, bits, data, flags,
			       context);
}

/* Budget: as sn_inject. */
int sn_try_send(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits, uint64_t data,
		uint32_t flags)
{
	if (sn_unlikely(!knows(ep, to) || (!buf && len) || flags & ~(uint32_t)(SN_DATA | SN_MARK)))
		return SN_ERR_AGAIN;
	sn_lock(&ep->lock);
	bool sent = goes(ep, to, buf, len, bits, data, flags);
	ep->count.tried_sends += sent;
	sn_unlock(&ep->lock);
	return sent ? 0 : SN_ERR_AGAIN;
}

/* Budget: as sn_inject where the message leaves at once. */
int sn_send(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits)
{
	sn_req *req;
	sn_completion c;
	if (sn_unlikely(ep && ep->attr.on_complete))
		return sn_fail(SN_ERR_INVALID, "the sends of this endpoint end by its callback: sn_tsend");
	if (sn_likely(sn_try_send(ep, to, buf, len, bits, 0, 0) == SN_OK))
		return SN_OK;
	int rc = sn_isend(ep, to, buf, len, bits, &req);
	if (!rc)
		rc = sn_wait(ep, req, &c, -1);
	return rc ? rc : c.status;
}

int sn_post_msend(sn_ep *ep, const sn_msg *msg, sn_req **req)
{
	return post_send(ep, msg, req, SN_K_PLAIN);
}
