/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-sided sends.
 *
 * Budget of an eager send to a known local peer: one request from the free list (none if it is injected and forgotten), one copy into the ring, no system call,
 * no allocation, no locked instruction (SERIAL). The request's segment list is the rail's until sn_core_sent, which is
 * why it is copied even when the message leaves at once.
 */
#include "core/core.h"
#include "progress/caller.h"

/*
 * An injected message that nobody asks after needs no request: the rail takes its bytes before it returns. Told are those
 * who want to hear of everything (on_complete), from the stack.
 */
static void send_forgotten(sn_ep *ep, struct sn_peer_state *peer, const sn_msg *msg, uint64_t len,
			   uint8_t kind)
{
	struct sn_out out = {
		.head = {.kind = kind,
			 .flags = msg->flags & SN_DATA ? SN_H_DATA : 0,
			 .bits = msg->bits,
			 .data = msg->data,
			 .len = len,
			 .imm = ""},
		.iov = msg->iov,
		.iov_count = msg->iov_count,
		.must_copy = true,
	};
	ep->count.sends++;
	int rc = sn_unlikely(peer->gone) ? peer->gone_status : peer->ops->post(peer->link, &out, NULL);
	if (!ep->attr.on_complete)
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

static int post_send(sn_ep *ep, const sn_msg *msg, sn_req **handle, uint8_t kind)
{
	uint64_t len;
	int rc = sn_core_check_msg(ep, msg, false, &len);
	if (sn_unlikely(rc))
		return rc;
	if (sn_unlikely((msg->flags & SN_INJECT) && len > SN_INJECT_MAX))
		return sn_fail(SN_ERR_INVALID, "an injected message has %llu bytes, at most %d are allowed",
			       (unsigned long long)len, SN_INJECT_MAX);
	sn_lock(&ep->lock);
	if (is_forgotten(ep, msg)) {
		send_forgotten(ep, ep->peers[msg->peer], msg, len, kind);
		if (handle)
			*handle = NULL;
		sn_unlock(&ep->lock);
		return 0;
	}
	struct sn_req *req = sn_core_req_new(ep);
	if (sn_unlikely(!req || sn_core_req_segments(req, msg->iov, msg->iov_count, NULL, 0, NULL, 0))) {
		if (req)
			sn_core_req_free(req);
		sn_unlock(&ep->lock);
		return SN_ERR_NOMEM;
	}
	req->peer = ep->peers[msg->peer];
	req->comp.context = msg->context;
	req->comp.op = kind == SN_K_TAGGED ? SN_OP_SEND : SN_OP_MSEND;
	req->comp.peer = msg->peer;
	req->comp.bits = msg->bits;
	req->comp.len = req->comp.full_len = len;
	req->comp.data = msg->data;
	req->comp.buf = msg->iov_count ? msg->iov[0].iov_base : NULL;
	sn_core_req_role(req, msg->flags, handle != NULL);
	struct sn_out out = {
		.head = {.kind = kind, .bits = msg->bits, .data = msg->data, .len = len, .imm = req->imm},
		.iov = req->seg,
		.iov_count = req->seg_count,
		.must_copy = (msg->flags & SN_INJECT) != 0,
	};
	if (msg->flags & SN_DATA)
		out.head.flags |= SN_H_DATA;
	bool arrival =
		(msg->flags & SN_DELIVERED) && req->peer->ops->far; /* on the node, sent is delivered */
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
	uint32_t generation = req->generation;
	uint8_t role = req->role;
	sn_core_hand_over(req, &out);
	if (out.head.len >= SN_LEAVE_MIN && req->generation == generation && !sn_caller_waits())
		sn_core_leave(ep);
	if (handle)
		*handle = sn_core_req_handle(req, generation, role);
	sn_unlock(&ep->lock);
	return 0;
}

int sn_post_send(sn_ep *ep, const sn_msg *msg, sn_req **req)
{
	return post_send(ep, msg, req, SN_K_TAGGED);
}

int sn_post_msend(sn_ep *ep, const sn_msg *msg, sn_req **req)
{
	return post_send(ep, msg, req, SN_K_PLAIN);
}
