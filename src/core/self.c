/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to oneself. A small message arrives inside the post, and so does a large one whose receive is posted; else it is
 * announced, and copied once, from the sender's segments to the receiver's, when a receive matches it. Nothing is ever
 * queued, so progress has nothing to do.
 */
#include "core/core.h"
#include <stdlib.h>

#define SELF_EAGER SN_INJECT_MAX

struct sn_rdv_self {
	struct sn_req *req;
	const struct iovec *iov;
	uint32_t iov_count;
};

static int self_post(void *link, const struct sn_out *out, struct sn_req *req)
{
	struct sn_peer_state *self = link;
	struct sn_in in = {.head = out->head};
	uint8_t imm[SN_IMM_MAX], body[SELF_EAGER];
	memcpy(imm, out->head.imm, out->head.imm_len);
	in.head.imm = imm;
	self->ep->count.self++;
	if (out->head.len > SELF_EAGER) {
		struct sn_rdv_self *rdv = malloc(sizeof(*rdv));
		if (!rdv)
			return sn_fail(SN_ERR_NOMEM, "no memory for a message to oneself");
		*rdv = (struct sn_rdv_self){req, out->iov, out->iov_count};
		in.rdv = (struct sn_rdv *)(void *)rdv;
		int rc = sn_core_arrive(self, &in);
		if (rc)
			free(rdv);
		return rc;
	}
	if (out->head.len) {
		sn_iov_read(body, out->iov, out->iov_count, 0, out->head.len);
		in.body = body;
	}
	int rc = sn_core_arrive(self, &in);
	return rc ? rc : 1;
}

/* Where a receive is posted for it. */
static int arrive_posted(struct sn_peer_state *self, uint8_t flags, uint64_t bits, uint64_t data,
			 const void *body, uint64_t len)
{
	struct sn_in in = {
		.head = {.kind = SN_K_TAGGED, .flags = flags, .bits = bits, .data = data, .len = len},
		.body = body,
		.only_posted = true};
	return self->ep->closing ? SN_ERR_AGAIN : sn_core_recv_arrive(self, &in, false);
}

/* Copied once, from where it lies to where it is awaited; a long one if it is. */
static int self_post_now(void *link, uint32_t what, uint64_t bits, uint64_t data, const void *body,
			 uint64_t len)
{
	struct sn_peer_state *self = link;
	uint8_t flags = (uint8_t)(what >> 8);
	if ((what & 0xff) != SN_K_TAGGED ||
	    (len > SELF_EAGER ? arrive_posted(self, flags, bits, data, body, len)
			      : sn_core_arrive_tagged(self, flags, bits, data, body, len)) < 0)
		return SN_ERR_AGAIN;
	self->ep->count.self++;
	return 1;
}

static bool self_brings(const void *link, uint64_t room)
{
	return room <= SELF_EAGER;
}

static void copy_segments(const struct iovec *to, uint32_t to_count, const struct iovec *from,
			  uint32_t from_count, uint64_t len)
{
	uint64_t at = 0;
	for (uint32_t i = 0; i < from_count && at < len; i++) {
		uint64_t n = SN_MIN_OF(from[i].iov_len, len - at);
		sn_iov_write(to, to_count, at, from[i].iov_base, n);
		at += n;
	}
}

static void self_pull(void *link, struct sn_rdv *opaque, const struct iovec *iov, uint32_t iov_count,
		      uint64_t len, struct sn_req *req)
{
	struct sn_rdv_self rdv;
	memcpy(&rdv, opaque, sizeof(rdv));
	free(opaque);
	copy_segments(iov, iov_count, rdv.iov, rdv.iov_count, len);
	sn_core_pulled(req, SN_OK);
	sn_core_sent(rdv.req, SN_OK);
}

static void self_refuse(void *link, struct sn_rdv *opaque, int status)
{
	struct sn_rdv_self rdv;
	memcpy(&rdv, opaque, sizeof(rdv));
	free(opaque);
	sn_core_sent(rdv.req, status);
}

static bool self_unpost(void *link, struct sn_req *req)
{
	return false;
}

const struct sn_rail_ops sn_rail_self = {
	.name = "self",
	.post = self_post,
	.post_now = self_post_now,
	.brings = self_brings,
	.unpost = self_unpost,
	.pull = self_pull,
	.refuse = self_refuse,
};

/* Nothing that waits stands before either: no receive for the message, no message for the receive. */
static bool meet_at_once(struct sn_match *m, const struct sn_peer_state *self, uint64_t bits, uint64_t want,
			 uint64_t mask, sn_peer from)
{
	struct sn_match_stats waiting;
	sn_match_stats(m, &waiting);
	return !(waiting.unexpected && sn_match_find(m, want, mask, from)) &&
	       !(waiting.posted && sn_match_awaits(m, bits, self->num));
}

int sn_try_self(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits, sn_peer from, void *into,
		size_t room, uint64_t want, uint64_t mask)
{
	if (sn_unlikely(!ep || sn_core_foreign(ep) || (len && (!buf || !into)) || len > room ||
			(bits & mask) != want || (from != to && from != SN_ANY_PEER) ||
			to >= atomic_load_explicit(&ep->peer_count, memory_order_relaxed)))
		return SN_ERR_AGAIN;
	sn_lock(&ep->lock);
	const struct sn_peer_state *self = ep->peers[to];
	bool meet = self->self && !self->gone && meet_at_once(ep->match[0], self, bits, want, mask, from);
	if (meet) {
		if (sn_likely(len != 0))
			sn_copy_small(into, buf, len);
		ep->count.self++;
		ep->count.sends++;
		ep->count.recvs++;
		ep->count.tried_sends++;
		ep->count.tried_recvs++;
	}
	sn_unlock(&ep->lock);
	return meet ? SN_OK : SN_ERR_AGAIN;
}
