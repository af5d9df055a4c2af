/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: the pool, the steps to completion, and the ways a completion reaches its owner. */
#include "core/core.h"
#include "progress/bell.h"
#include <stdlib.h>

int sn_core_req_pool_grow(sn_ep *ep)
{
	struct sn_req **slabs = realloc(ep->slabs, (ep->slab_count + 1) * sizeof(*slabs));
	if (!slabs)
		return sn_fail(SN_ERR_NOMEM, "no memory for more requests (%u in use)",
			       ep->slab_count * SN_SLAB);
	ep->slabs = slabs;
	struct sn_req *slab = aligned_alloc(SN_LINE, SN_SLAB * sizeof(*slab));
	if (!slab)
		return sn_fail(SN_ERR_NOMEM, "no memory for more requests (%u in use)",
			       ep->slab_count * SN_SLAB);
	memset(slab, 0, SN_SLAB * sizeof(*slab));
	for (uint32_t i = SN_SLAB; i-- > 0;) {
		slab[i].ep = ep;
		slab[i].index = ep->slab_count * SN_SLAB + i;
		slab[i].generation = 1;
		slab[i].seg = slab[i].inline_seg;
		slab[i].link.next = ep->free_reqs;
		ep->free_reqs = &slab[i].link;
	}
	slabs[ep->slab_count++] = slab;
	return 0;
}

struct sn_req *sn_core_req_find(sn_ep *ep, uint64_t op)
{
	uint32_t index = (uint32_t)op;
	if (index / SN_SLAB >= ep->slab_count)
		return NULL;
	struct sn_req *req = &ep->slabs[index / SN_SLAB][index % SN_SLAB];
	return req->state == SN_REQ_ACTIVE && req->generation == (uint32_t)(op >> 32) ? req : NULL;
}

int sn_core_req_segments(struct sn_req *req, const struct iovec *a, uint32_t na, const struct iovec *b,
			 uint32_t nb, const struct iovec *c, uint32_t nc)
{
	uint32_t n = na + nb + nc;
	if (sn_unlikely(n > SN_INLINE_SEG)) {
		req->seg = malloc(n * sizeof(*req->seg));
		if (!req->seg) {
			req->seg = req->inline_seg;
			return sn_fail(SN_ERR_NOMEM, "no memory for a list of %u segments", n);
		}
	}
	for (uint32_t i = 0; i < na;
	     i++) { /* word by word: one wide load would wait for the caller's two stores */
		req->seg[i].iov_base = *(void *const volatile *)&a[i].iov_base;
		req->seg[i].iov_len = a[i].iov_len;
	}
	for (uint32_t i = 0; i < nb; i++)
		req->seg[na + i] = b[i];
	for (uint32_t i = 0; i < nc; i++)
		req->seg[na + nb + i] = c[i];
	req->seg_count = na + nb;
	req->result_count = nc;
	return 0;
}

void sn_core_req_complete(struct sn_req *req, int status)
{
	sn_ep *ep = req->ep;
	if (sn_engine_asks() && req->comp.len >= SN_LEAVE_MIN && !ep->visited)
		sn_engine_stayed();
	if (sn_unlikely(status) && !req->comp.status)
		req->comp.status = status;
	if (sn_unlikely(req->on_list)) {
		sn_list_del(&req->link);
		req->on_list = false;
	}
	req->pending = 0;
	switch (req->role) {
	case SN_ROLE_CALLBACK:
		if (sn_unlikely(ep->visited || !sn_list_empty(&ep->deferred))) { /* the others came first */
			sn_core_defer(req);
			return;
		}
		ep->attr.on_complete(ep->attr.arg, &req->comp);
		break;
	case SN_ROLE_INTERNAL: req->finish(req, req->comp.status); break;
	case SN_ROLE_FORGET: break;
	case SN_ROLE_QUEUE:
		req->state = SN_REQ_DONE;
		sn_list_add_tail(&ep->done, &req->link);
		goto wake;
	default: req->state = SN_REQ_DONE; goto wake;
	}
	sn_core_req_free(req);
	return;
wake:
	/* Another thread of this process may sleep for exactly this one. */
	if (sn_unlikely(atomic_load_explicit(&ep->sleepers, memory_order_relaxed)))
		sn_bell_ring_self();
}

void sn_core_req_step(struct sn_req *req, int status)
{
	if (sn_unlikely(status) && !req->comp.status)
		req->comp.status = status;
	if (--req->pending == 0)
		sn_core_req_complete(req, SN_OK);
}

int sn_core_check_msg(sn_ep *ep, const sn_msg *msg, bool any_peer_ok, uint64_t *len)
{
	if (sn_unlikely(!ep || !msg))
		return sn_fail(SN_ERR_INVALID, "endpoint or message is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	if (sn_unlikely(msg->peer >= ep->peer_count && !(any_peer_ok && msg->peer == SN_ANY_PEER)))
		return sn_fail(SN_ERR_INVALID, "peer %u is not known to this endpoint (it knows %u)",
			       msg->peer, ep->peer_count);
	if (sn_unlikely(msg->iov_count > SN_IOV_MAX))
		return sn_fail(SN_ERR_INVALID, "%u segments, at most %d are allowed", msg->iov_count,
			       SN_IOV_MAX);
	if (sn_unlikely(msg->iov_count && !msg->iov))
		return sn_fail(SN_ERR_INVALID, "%u segments announced, but iov is NULL", msg->iov_count);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < msg->iov_count; i++) {
		if (sn_unlikely(!msg->iov[i].iov_base && msg->iov[i].iov_len))
			return sn_fail(SN_ERR_INVALID, "segment %u is NULL with a length of %zu", i,
				       msg->iov[i].iov_len);
		if (sn_unlikely(msg->iov[i].iov_len > (uint64_t)INT64_MAX - sum))
			return sn_fail(SN_ERR_INVALID, "the lengths of the segments overflow");
		sum += msg->iov[i].iov_len;
	}
	*len = sum;
	return 0;
}

int sn_core_hand_over(struct sn_req *req, const struct sn_out *out)
{
	struct sn_peer_state *peer = req->peer;
	int rc = sn_unlikely(peer->gone) ? sn_core_gone(peer) : peer->ops->post(peer->link, out, req);
	if (sn_unlikely(rc < 0)) { /* nothing left, nothing will be answered */
		sn_core_req_complete(req, rc);
	} else if (rc > 0) {
		if (sn_unlikely(rc == 2)) /* matched as well: what a synchronous send waits for */
			req->pending = 1;
		sn_core_req_step(req, SN_OK);
	}
	return 0;
}

void sn_core_sent(struct sn_req *req, int status)
{
	if (sn_likely(!status)) {
		sn_core_req_step(req, SN_OK);
		return;
	}
	struct sn_peer_state *peer = req->peer;
	bool onesided = req->role != SN_ROLE_INTERNAL && sn_core_is_onesided(req);
	sn_core_req_complete(req, status); /* the answer, if one was awaited, will not come */
	if (onesided)
		sn_core_onesided_next(peer);
}

void sn_core_pulled(struct sn_req *req, int status)
{
	if (req->role == SN_ROLE_INTERNAL)
		sn_core_req_complete(req, status);
	else if (sn_core_is_onesided(req))
		sn_core_onesided_pulled(req, status);
	else
		sn_core_recv_complete(req, status);
}
