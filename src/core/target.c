/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations at their target: every key, range and right is checked against the regions before a byte moves,
 * whatever the origin sends. Answers carry copies (small) or are fetched by rendezvous from the region itself (big;
 * the origin holds back overlapping operations until then).
 */
#include "core/core.h"
#include <pthread.h>

/* Atomics exclude each other in the whole process: two endpoints may expose the same memory. */
static pthread_mutex_t atomics = PTHREAD_MUTEX_INITIALIZER;

static void tell(struct sn_peer_state *peer, sn_op op, uint64_t key, uint64_t len, uint8_t flags,
		 uint64_t data)
{
	const sn_ep_attr *attr = &peer->ep->attr;
	if (!attr->on_target)
		return;
	sn_completion c = {
		.op = op, .peer = peer->num, .bits = key, .len = len, .full_len = len, .data = data};
	if (flags & SN_H_DATA)
		c.flags = SN_COMP_DATA;
	bool after = peer->ep->visited || !sn_list_empty(&peer->ep->deferred); /* the others came first */
	struct sn_req *later = after ? sn_core_req_new(peer->ep) : NULL;
	if (later) { /* without memory for it, it is told now: better by another thread than never */
		later->role = SN_ROLE_TARGET;
		later->comp = c;
		sn_core_defer(later);
		return;
	}
	attr->on_target(attr->arg, &c);
}

static int answer(struct sn_peer_state *peer, uint64_t op, int status, const void *body, uint64_t len)
{
	if (peer->gone)
		return 0;
	struct sn_imm_ack imm = {.op = op, .status = status};
	struct iovec v = {(void *)(uintptr_t)body, len};
	struct sn_out out = {.head = {.kind = SN_K_RESULT, .imm_len = sizeof(imm), .imm = &imm, .len = len},
			     .iov = &v,
			     .iov_count = len != 0,
			     .must_copy = true};
	return peer->ops->post(peer->link, &out, NULL);
}

static struct sn_req *internal_req(struct sn_peer_state *peer, sn_op op, void *at, uint64_t len,
				   const struct sn_imm_access *imm, void (*finish)(struct sn_req *, int))
{
	struct sn_req *req = sn_core_req_new(peer->ep);
	if (!req)
		return NULL;
	req->role = SN_ROLE_INTERNAL;
	req->peer = peer;
	req->finish = finish;
	req->answer_op = imm->op;
	req->comp.bits = imm->key;
	req->comp.op = op;
	req->comp.len = len;
	req->seg[0] = (struct iovec){at, len};
	req->seg_count = 1;
	return req;
}

static void put_pulled(struct sn_req *req, int status)
{
	if (!status)
		tell(req->peer, SN_OP_TARGET_PUT, req->comp.bits, req->comp.len, (uint8_t)req->comp.flags,
		     req->comp.data);
	sn_core_ack(req->peer, req->answer_op, status);
}

static int put_arrive(struct sn_peer_state *peer, const struct sn_in *in, const struct sn_imm_access *imm)
{
	int status;
	void *at = sn_core_region_resolve(peer->ep, imm->key, imm->offset, in->head.len, SN_REMOTE_WRITE,
					  &status);
	if (in->rdv) {
		struct sn_req *req = NULL;
		if (!status)
			req = internal_req(peer, SN_OP_TARGET_PUT, at, in->head.len, imm, put_pulled);
		if (!req) { /* the refusal is the answer */
			peer->ops->refuse(peer->link, in->rdv, status ? status : SN_ERR_NOMEM);
			return 0;
		}
		req->comp.flags = in->head.flags & SN_H_DATA;
		req->comp.data = in->head.data;
		peer->ops->pull(peer->link, in->rdv, req->seg, 1, in->head.len, req);
		return 0;
	}
	if (!status) {
		if (in->head.len)
			sn_copy_between(at, in->body, in->head.len);
		tell(peer, SN_OP_TARGET_PUT, imm->key, in->head.len, in->head.flags, in->head.data);
	}
	return sn_core_ack(peer, imm->op, status);
}

static void get_sent(struct sn_req *req, int status)
{
	if (!status)
		tell(req->peer, SN_OP_TARGET_GET, req->comp.bits, req->comp.len, 0, 0);
}

static int get_arrive(struct sn_peer_state *peer, const struct sn_imm_access *imm)
{
	int status;
	const void *at =
		sn_core_region_resolve(peer->ep, imm->key, imm->offset, imm->len, SN_REMOTE_READ, &status);
	if (status)
		return answer(peer, imm->op, status, NULL, 0);
	if (imm->len <= SN_INJECT_MAX) {
		tell(peer, SN_OP_TARGET_GET, imm->key, imm->len, 0, 0);
		return answer(peer, imm->op, SN_OK, at, imm->len);
	}
	struct sn_req *req =
		internal_req(peer, SN_OP_TARGET_GET, (void *)(uintptr_t)at, imm->len, imm, get_sent);
	if (!req)
		return answer(peer, imm->op, SN_ERR_NOMEM, NULL, 0);
	struct sn_imm_ack reply = {.op = imm->op};
	memcpy(req->imm, &reply, sizeof(reply));
	struct sn_out out = {
		.head = {.kind = SN_K_RESULT, .imm_len = sizeof(reply), .imm = req->imm, .len = imm->len},
		.iov = req->seg,
		.iov_count = 1};
	return sn_core_hand_over(req, &out);
}

static int atomic_arrive(struct sn_peer_state *peer, const struct sn_in *in, const struct sn_imm_access *imm)
{
	if (imm->type >= SN_TYPE_COUNT || imm->aop >= SN_ATOMIC_OP_COUNT || in->rdv)
		return sn_fail(SN_ERR_PROTO, "%s sent a malformed atomic", sn_core_peer_name(peer).text);
	size_t size = sn_atomic_size(imm->type, imm->aop);
	bool has_operand = imm->aop != SN_READ, has_compare = imm->aop >= SN_CSWAP && imm->aop <= SN_MSWAP;
	if (!size || !imm->len || imm->len > SN_ATOMIC_MAX / size)
		return sn_fail(SN_ERR_PROTO, "%s sent a malformed atomic", sn_core_peer_name(peer).text);
	uint64_t bytes = imm->len * size;
	if (in->head.len != bytes * ((unsigned)has_operand + (unsigned)has_compare))
		return sn_fail(SN_ERR_PROTO, "%s sent an atomic with the wrong operands",
			       sn_core_peer_name(peer).text);
	unsigned right = has_operand ? SN_REMOTE_WRITE : SN_REMOTE_READ;
	int status;
	void *at = sn_core_region_resolve(peer->ep, imm->key, imm->offset, bytes, right, &status);
	uint8_t old[SN_ATOMIC_MAX] __attribute__((aligned(16)));
	if (!status) {
		const uint8_t *operand = in->body;
		pthread_mutex_lock(&atomics);
		sn_core_atomic_apply((sn_type)imm->type, (sn_atomic_op)imm->aop, at, operand,
				     has_compare ? operand + bytes : NULL, imm->fetch ? old : NULL,
				     (uint32_t)imm->len);
		pthread_mutex_unlock(&atomics);
		tell(peer, SN_OP_TARGET_ATOMIC, imm->key, bytes, 0, 0);
	}
	if (imm->fetch)
		return answer(peer, imm->op, status, old, status ? 0 : bytes);
	return sn_core_ack(peer, imm->op, status);
}

int sn_core_target_arrive(struct sn_peer_state *peer, const struct sn_in *in)
{
	struct sn_imm_access imm;
	if (in->head.imm_len != sizeof(imm))
		return sn_fail(SN_ERR_PROTO, "%s sent a one-sided operation of the wrong shape",
			       sn_core_peer_name(peer).text);
	memcpy(&imm, in->head.imm, sizeof(imm));
	if (in->head.kind == SN_K_PUT)
		return put_arrive(peer, in, &imm);
	if (in->head.kind == SN_K_GET) {
		if (in->head.len)
			return sn_fail(SN_ERR_PROTO, "%s sent a get with a body",
				       sn_core_peer_name(peer).text);
		return get_arrive(peer, &imm);
	}
	return atomic_arrive(peer, in, &imm);
}
