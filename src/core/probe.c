/* SPDX-License-Identifier: BSD-3-Clause */
/* Probe, matched probe, discard and cancel. */
#include "core/core.h"
#include "progress/relax.h"

static void describe(const struct sn_claim *claim, sn_completion *c)
{
	*c = (sn_completion){
		.op = claim->plain ? SN_OP_MRECV : SN_OP_RECV,
		.peer = claim->peer->num,
		.flags = claim->flags & SN_H_DATA ? SN_COMP_DATA : 0,
		.bits = claim->m.bits,
		.full_len = claim->len,
		.data = claim->data,
	};
}

/*
 * Who asks for a message to take it waits for it, most often: the rest of a look takes as long as ten of these. Not where
 * ranks outnumber cores, as in try.c.
 */
#define LOOKS 8

static void look_at(struct sn_peer_state *peer)
{
	int n = 0;
	if (!peer->ops->look || sn_relax_crowded() || !sn_core_may_look_alone(peer->ep))
		return;
	for (unsigned k = 0; !n && k < LOOKS; k++)
		n = sn_core_look_at(peer);
}

/* With the lock held. */
static int find(sn_ep *ep, struct sn_match *m, sn_peer from, uint64_t bits, uint64_t mask, sn_completion *c,
		sn_claim **claim)
{
	struct sn_match_unexpected *u = sn_match_find(m, bits, mask, from);
	if (!u && claim && from != SN_ANY_PEER) {
		look_at(ep->peers[from]);
		u = sn_match_find(m, bits, mask, from);
	}
	if (!u) {
		sn_core_progress(ep);
		u = sn_match_find(m, bits, mask, from);
	}
	if (!u)
		return from != SN_ANY_PEER && ep->peers[from]->gone ? sn_core_gone(ep->peers[from])
								    : SN_ERR_AGAIN;
	struct sn_claim *found = sn_container(u, struct sn_claim, m);
	describe(found, c);
	if (claim) {
		sn_match_remove_unexpected(m, u);
		*claim = found;
	}
	return SN_OK;
}

static int look(sn_ep *ep, int plain, sn_peer from, uint64_t bits, uint64_t mask, sn_completion *c,
		sn_claim **claim)
{
	if (!ep || !c)
		return sn_fail(SN_ERR_INVALID, "endpoint or completion is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	if (plain)
		bits = mask = 0;
	if (bits & ~mask)
		return sn_fail(SN_ERR_INVALID, "probe bits %#llx lie outside the mask %#llx",
			       (unsigned long long)bits, (unsigned long long)mask);
	if (from != SN_ANY_PEER && from >= ep->peer_count)
		return sn_fail(SN_ERR_INVALID, "peer %u is not known to this endpoint", from);
	sn_lock(&ep->lock);
	int rc = find(ep, ep->match[plain != 0], from, bits, mask, c, claim);
	sn_unlock(&ep->lock);
	return rc;
}

int sn_try_probe(sn_ep *ep, sn_peer from, uint64_t bits, uint64_t mask, sn_completion *c)
{
	if (!ep || !c || sn_core_foreign(ep) || bits & ~mask ||
	    (from != SN_ANY_PEER && from >= atomic_load_explicit(&ep->peer_count, memory_order_relaxed)))
		return SN_ERR_INVALID;
	sn_lock(&ep->lock);
	ep->count.tried_probes++;
	int rc = find(ep, ep->match[0], from, bits, mask, c, NULL);
	sn_unlock(&ep->lock);
	return rc;
}

int sn_probe(sn_ep *ep, int plain, sn_peer from, uint64_t bits, uint64_t mask, sn_completion *c)
{
	return look(ep, plain, from, bits, mask, c, NULL);
}

int sn_mprobe(sn_ep *ep, int plain, sn_peer from, uint64_t bits, uint64_t mask, sn_completion *c,
	      sn_claim **claim)
{
	if (!claim)
		return sn_fail(SN_ERR_INVALID, "claim is NULL");
	return look(ep, plain, from, bits, mask, c, claim);
}

const void *sn_claim_data(sn_ep *ep, const sn_claim *claim)
{
	if (!ep || !claim || sn_core_foreign(ep))
		return NULL;
	sn_lock(&ep->lock); /* its sender may die meanwhile */
	const void *data = claim->rdv || claim->lost || claim->fetching || !claim->len
				   ? NULL
				   : sn_core_claim_body(claim);
	sn_unlock(&ep->lock);
	return data;
}

int sn_discard(sn_ep *ep, sn_claim *claim)
{
	if (!ep || !claim)
		return sn_fail(SN_ERR_INVALID, "endpoint or claim is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	sn_lock(&ep->lock);
	struct sn_peer_state *peer = claim->peer;
	if (claim->flags & SN_H_SYNC)
		sn_core_ack(peer, claim->sync_op, SN_OK);
	if (claim->rdv)
		peer->ops->refuse(peer->link, claim->rdv, SN_OK);
	sn_core_claim_drop(ep, claim);
	sn_unlock(&ep->lock);
	return 0;
}

static int cancel_recv(struct sn_req *req)
{
	sn_ep *ep = req->ep;
	bool queued = req->posted.queued;
	if (req->posted.shown && !sn_core_recv_withdraw(req))
		return SN_ERR_AGAIN;
	if (queued)
		sn_match_remove_posted(ep->match[req->comp.op == SN_OP_MRECV], &req->posted);
	else if (!req->posted.stays || req->withdrawn)
		return SN_ERR_AGAIN;
	if (req->multi &&
	    req->children) { /* messages are still landing in the buffer: reported after the last of them */
		req->withdrawn = true;
		return SN_OK;
	}
	if (req->posted.stays)
		req->comp.flags |= SN_COMP_BUFFER_DONE;
	sn_core_req_complete(req, SN_ERR_CANCELED);
	return SN_OK;
}

int sn_cancel(sn_ep *ep, sn_req *req)
{
	if (!ep || !req)
		return sn_fail(SN_ERR_INVALID, "endpoint or request is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	sn_lock(&ep->lock);
	int rc = SN_ERR_AGAIN;
	if (req->state != SN_REQ_ACTIVE)
		;
	else if (req->comp.op == SN_OP_RECV || req->comp.op == SN_OP_MRECV)
		rc = cancel_recv(req);
	else if ((req->comp.op == SN_OP_SEND || req->comp.op == SN_OP_MSEND) && !req->peer->gone &&
		 req->peer->ops->unpost(req->peer->link, req)) {
		sn_core_req_complete(req, SN_ERR_CANCELED);
		rc = SN_OK;
	}
	sn_unlock(&ep->lock);
	return rc;
}

int sn_cancel_context(sn_ep *ep, const void *context)
{
	if (!ep)
		return sn_fail(SN_ERR_INVALID, "endpoint is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	sn_lock(&ep->lock);
	if (sn_unlikely(!sn_list_empty(&ep->deferred))) /* what is over already is told first */
		sn_core_deliver_deferred(ep);
	struct sn_req *first = NULL;
	int rc = SN_ERR_INVALID;
	for (uint32_t i = 0; i < ep->slab_count * SN_SLAB; i++) {
		struct sn_req *req = &ep->slabs[i / SN_SLAB][i % SN_SLAB];
		if (req->state != SN_REQ_ACTIVE || req->role == SN_ROLE_INTERNAL ||
		    req->comp.context != context ||
		    (req->comp.op != SN_OP_RECV && req->comp.op != SN_OP_MRECV))
			continue;
		if (!req->posted.queued)
			rc = SN_ERR_AGAIN;
		else if (!first || req->posted.serial < first->posted.serial)
			first = req;
	}
	if (first)
		rc = cancel_recv(first);
	sn_unlock(&ep->lock);
	return rc;
}
