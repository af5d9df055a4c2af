/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations at their origin. The target executes them as their messages arrive, so small ones, whose bodies
 * travel with the message, are in order by themselves. A big one may be fetched by rendezvous while later messages are
 * handled already; so a later operation that overlaps an unfinished big one (or is itself big and overlaps an
 * unfinished one) waits here, in peer->waiting, until that has ended. Operations that touch different bytes do not wait.
 */
#include "core/core.h"
#include <stdlib.h>

static bool overlap(const struct sn_req *a, const struct sn_req *b)
{
	return a->os.key == b->os.key && a->os.offset < b->os.offset + b->os.extent &&
	       b->os.offset < a->os.offset + a->os.extent;
}

static bool must_wait(const struct sn_req *req)
{
	const struct sn_peer_state *peer = req->peer;
	sn_list_for_each (at, &peer->pending_ops) {
		const struct sn_req *other = sn_container(at, struct sn_req, link);
		if (sn_core_is_onesided(other) && (other->big || req->big) && overlap(req, other))
			return true;
	}
	sn_list_for_each (at, &peer->waiting) {
		const struct sn_req *other = sn_container(at, struct sn_req, link);
		if (other == req)
			break;
		if (overlap(req, other))
			return true;
	}
	return false;
}

static void start(struct sn_req *req)
{
	req->on_list = true;
	sn_list_add_tail(&req->peer->pending_ops, &req->link);
	sn_core_hand_over(req, &req->os.out);
}

/* An operation has ended: start those that waited for it. */
void sn_core_onesided_next(struct sn_peer_state *peer)
{
	if (sn_likely(sn_list_empty(&peer->waiting)))
		return;
again:
	sn_list_for_each (at, &peer->waiting) {
		struct sn_req *req = sn_container(at, struct sn_req, link);
		if (must_wait(req))
			continue;
		sn_list_del(&req->link);
		start(req); /* may end more of them: look from the beginning */
		goto again;
	}
}

static int onesided_check(sn_ep *ep, const sn_msg *msg, const sn_remote *at, uint64_t *len)
{
	int rc = sn_core_check_msg(ep, msg, false, len);
	if (rc)
		return rc;
	if (!at)
		return sn_fail(SN_ERR_INVALID, "the remote location is NULL");
	if (*len > UINT64_MAX - at->offset)
		return sn_fail(SN_ERR_INVALID, "the remote range wraps around");
	return 0;
}

static struct sn_req *onesided_new(sn_ep *ep, const sn_msg *msg, sn_op op, uint64_t len, bool wants_handle)
{
	struct sn_req *req = sn_core_req_new(ep);
	if (!req)
		return NULL;
	req->peer = ep->peers[msg->peer];
	req->comp.context = msg->context;
	req->comp.op = op;
	req->comp.peer = msg->peer;
	req->comp.bits = 0;
	req->comp.len = req->comp.full_len = len;
	req->comp.data = msg->data;
	req->comp.buf = NULL;
	sn_core_req_role(req, msg->flags, wants_handle);
	return req;
}

/* Fill in the message, start it, hand out the handle; unlocks. */
static int onesided_post(struct sn_req *req, uint8_t kind, struct sn_imm_access *imm, uint64_t body,
			 uint64_t extent, bool big, const sn_msg *msg, sn_req **handle)
{
	sn_ep *ep = req->ep;
	imm->op = sn_core_req_op(req);
	memcpy(req->imm, imm, sizeof(*imm));
	req->os.out = (struct sn_out){
		.head = {.kind = kind,
			 .flags = msg->flags & SN_DATA ? SN_H_DATA : 0,
			 .imm_len = sizeof(*imm),
			 .data = msg->data,
			 .len = body,
			 .imm = req->imm},
		.iov = req->seg,
		.iov_count = body ? req->seg_count : 0,
		.must_copy = (msg->flags & SN_INJECT) != 0,
	};
	uint32_t generation = req->generation;
	uint8_t role = req->role;
	req->os.key = imm->key;
	req->os.offset = imm->offset;
	req->os.extent = extent;
	req->big = big;
	req->pending = 2; /* the message leaves, the answer comes */
	if (sn_unlikely(must_wait(req))) {
		req->on_list = true;
		sn_list_add_tail(&req->peer->waiting, &req->link);
	} else {
		start(req);
	}
	if (handle)
		*handle = sn_core_req_handle(req, generation, role);
	sn_unlock(&ep->lock);
	return 0;
}

/*
 * Take a copy of an outgoing body: behind the immediate data if it fits there, else in one allocation with the segment
 * list (freed with the request). The result segments follow the body's in the list.
 */
static uint8_t *pack(struct sn_req *req, uint64_t body, const struct iovec *result, uint32_t results)
{
	struct iovec *seg = req->inline_seg;
	uint8_t *bytes = req->imm + sizeof(struct sn_imm_access);
	if (body > SN_IMM_MAX - sizeof(struct sn_imm_access) || results >= SN_INLINE_SEG) {
		seg = malloc((results + 1) * sizeof(*seg) + body);
		if (!seg)
			return NULL;
		bytes = (uint8_t *)(seg + results + 1);
	}
	if (req->seg != req->inline_seg)
		free(req->seg);
	req->seg = seg;
	req->seg_count = body != 0;
	req->result_count = results;
	seg[0] = (struct iovec){bytes, body};
	for (uint32_t i = 0; i < results; i++)
		seg[req->seg_count + i] = result[i];
	return bytes;
}

/* An injected put that has to wait must not refer to the caller's memory. */
static int inject_copy(struct sn_req *req, const sn_msg *msg, uint64_t len)
{
	if (!(msg->flags & SN_INJECT) || !len || (len <= SN_INJECT_MAX && !must_wait(req)))
		return 0;
	if (len > SN_INJECT_MAX)
		return sn_fail(SN_ERR_INVALID, "an injected put has %llu bytes, at most %d are allowed",
			       (unsigned long long)len, SN_INJECT_MAX);
	uint8_t *copy = pack(req, len, NULL, 0);
	if (!copy)
		return sn_fail(SN_ERR_NOMEM, "no memory for a delayed injected put");
	sn_iov_read(copy, msg->iov, msg->iov_count, 0, len);
	return 0;
}

int sn_put(sn_ep *ep, const sn_msg *msg, const sn_remote *to, sn_req **handle)
{
	uint64_t len;
	int rc = onesided_check(ep, msg, to, &len);
	if (rc)
		return rc;
	sn_lock(&ep->lock);
	struct sn_req *req = onesided_new(ep, msg, SN_OP_PUT, len, handle != NULL);
	rc = req ? sn_core_req_segments(req, msg->iov, msg->iov_count, NULL, 0, NULL, 0) : SN_ERR_NOMEM;
	if (!rc) {
		req->os.key = to->key;
		req->os.offset = to->offset;
		req->os.extent = len;
		rc = inject_copy(req, msg, len);
	}
	if (rc) {
		if (req)
			sn_core_req_free(req);
		sn_unlock(&ep->lock);
		return rc;
	}
	ep->count.puts++;
	struct sn_imm_access imm = {.key = to->key, .offset = to->offset, .len = len};
	return onesided_post(req, SN_K_PUT, &imm, len, len, len > SN_INJECT_MAX, msg, handle);
}

int sn_get(sn_ep *ep, const sn_msg *msg, const sn_remote *from, sn_req **handle)
{
	uint64_t len;
	int rc = onesided_check(ep, msg, from, &len);
	if (rc)
		return rc;
	sn_lock(&ep->lock);
	struct sn_req *req = onesided_new(ep, msg, SN_OP_GET, len, handle != NULL);
	rc = req ? sn_core_req_segments(req, NULL, 0, NULL, 0, msg->iov, msg->iov_count) : SN_ERR_NOMEM;
	if (rc) {
		if (req)
			sn_core_req_free(req);
		sn_unlock(&ep->lock);
		return rc;
	}
	ep->count.gets++;
	struct sn_imm_access imm = {.key = from->key, .offset = from->offset, .len = len};
	return onesided_post(req, SN_K_GET, &imm, 0, len, len > SN_INJECT_MAX, msg, handle);
}

static int atomic_check(sn_ep *ep, const sn_msg *msg, const sn_remote *at, const sn_atomic *a,
			uint64_t *bytes)
{
	uint64_t operand;
	int rc = onesided_check(ep, msg, at, &operand);
	if (rc)
		return rc;
	if (!a)
		return sn_fail(SN_ERR_INVALID, "the atomic is NULL");
	size_t size = sn_atomic_size(a->type, a->op);
	if (!size)
		return sn_fail(SN_ERR_INVALID, "atomic operation %d is not defined on type %d", (int)a->op,
			       (int)a->type);
	if (a->compare_count > SN_IOV_MAX || a->result_count > SN_IOV_MAX)
		return sn_fail(SN_ERR_INVALID, "more than %d segments", SN_IOV_MAX);
	uint64_t compare = sn_iov_len(a->compare, a->compare_count);
	uint64_t result = sn_iov_len(a->result, a->result_count);
	bool has_compare = a->op >= SN_CSWAP && a->op <= SN_MSWAP;
	*bytes = a->op == SN_READ ? result : operand;
	if (!*bytes || *bytes % size || *bytes > SN_ATOMIC_MAX)
		return sn_fail(SN_ERR_INVALID,
			       "an atomic of %llu bytes: must be 1 to %d bytes in whole elements of %zu",
			       (unsigned long long)*bytes, SN_ATOMIC_MAX, size);
	if (has_compare && compare != *bytes)
		return sn_fail(SN_ERR_INVALID, "the compare operand has %llu bytes, the operand %llu",
			       (unsigned long long)compare, (unsigned long long)*bytes);
	if (a->result_count && result != *bytes)
		return sn_fail(SN_ERR_INVALID, "the result has room for %llu bytes, the operand has %llu",
			       (unsigned long long)result, (unsigned long long)*bytes);
	return 0;
}

int sn_atomic_post(sn_ep *ep, const sn_msg *msg, const sn_remote *at, const sn_atomic *a, sn_req **handle)
{
	uint64_t bytes;
	int rc = atomic_check(ep, msg, at, a, &bytes);
	if (rc)
		return rc;
	bool has_compare = a->op >= SN_CSWAP && a->op <= SN_MSWAP;
	uint64_t body = (a->op == SN_READ ? 0 : bytes) + (has_compare ? bytes : 0);
	sn_lock(&ep->lock);
	struct sn_req *req =
		onesided_new(ep, msg, a->result_count ? SN_OP_FETCH : SN_OP_ATOMIC, bytes, handle != NULL);
	/* Operand and compare travel as one piece taken now: the caller's originals are small and often on its stack. */
	uint8_t *copy = req ? pack(req, body, a->result, a->result_count) : NULL;
	if (!copy) {
		if (req)
			sn_core_req_free(req);
		sn_unlock(&ep->lock);
		return sn_fail(SN_ERR_NOMEM, "no memory for an atomic");
	}
	uint64_t operand = a->op == SN_READ ? 0 : bytes;
	sn_iov_read(copy, msg->iov, msg->iov_count, 0, operand);
	if (has_compare)
		sn_iov_read(copy + operand, a->compare, a->compare_count, 0, bytes);
	ep->count.atomics++;
	struct sn_imm_access imm = {
		.key = at->key,
		.offset = at->offset,
		.len = bytes / sn_atomic_size(a->type, a->op),
		.type = (uint8_t)a->type,
		.aop = (uint8_t)a->op,
		.fetch = a->result_count != 0,
	};
	return onesided_post(req, SN_K_ATOMIC, &imm, body, bytes, false, msg, handle);
}

static void result_done(struct sn_req *req, int status)
{
	struct sn_peer_state *peer = req->peer;
	sn_core_req_step(req, status);
	sn_core_onesided_next(peer);
}

void sn_core_onesided_pulled(struct sn_req *req, int status)
{
	result_done(req, status);
}

/* What a get or a fetching atomic returns. As with acknowledgements, a number that names nothing is ignored. */
int sn_core_result_arrive(struct sn_peer_state *peer, const struct sn_in *in)
{
	struct sn_imm_ack imm;
	if (in->head.imm_len != sizeof(imm))
		return sn_fail(SN_ERR_PROTO, "%s sent a result of the wrong shape",
			       sn_core_peer_name(peer).text);
	memcpy(&imm, in->head.imm, sizeof(imm));
	struct sn_req *req = sn_core_req_find(peer->ep, imm.op);
	if (!req || req->peer != peer || !req->on_list || req->answered ||
	    (req->comp.op != SN_OP_GET && req->comp.op != SN_OP_FETCH) ||
	    (!imm.status && in->head.len != req->comp.len)) {
		peer->ep->count.bad_messages++;
		if (in->rdv)
			peer->ops->refuse(peer->link, in->rdv, SN_ERR_PROTO);
		return 0;
	}
	const struct iovec *result = req->seg + req->seg_count;
	req->answered = true;
	if (imm.status) {
		if (in->rdv)
			peer->ops->refuse(peer->link, in->rdv, SN_ERR_PROTO);
		sn_list_del(&req->link);
		req->on_list = false;
		result_done(req, imm.status > 0 ? SN_ERR_PROTO : imm.status);
	} else if (in->rdv) { /* stays on peer->pending_ops: overlapping operations still wait for it */
		peer->ops->pull(peer->link, in->rdv, result, req->result_count, in->head.len, req);
	} else {
		sn_iov_write(result, req->result_count, 0, in->body, in->head.len);
		sn_list_del(&req->link);
		req->on_list = false;
		result_done(req, SN_OK);
	}
	return 0;
}
