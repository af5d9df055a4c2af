/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receive that waits for a moment, and is then as if it had never been (sn_try_recv). It is posted like any other, so that
 * it stands behind all that were posted before, and a message goes straight into its buffer; and taken out again before the
 * call returns. What it may not have (other bits, too long, announced only) is kept as unexpected, as if nobody
 * had posted; nothing that came later can overtake it, for then the receive has ended (sn_core_recv_accepts).
 *
 * Budget: a receive that is like the one before it, whose message comes in one piece: no system call, no allocation, no
 * locked instruction, no callback; three lines of a request.
 */
#include "core/core.h"

int sn_try_recv(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask,
		uint64_t exactly, unsigned looks, uint64_t *len)
{
	uint32_t peers = ep ? atomic_load_explicit(&ep->peer_count, memory_order_relaxed) : 0;
	int rc = SN_ERR_AGAIN;
	if (sn_unlikely(!ep || sn_core_foreign(ep) || !len || (!buf && room) || room >= SN_LEAVE_FAR ||
			bits & ~mask || (from >= peers && from != SN_ANY_PEER)))
		return rc;
	sn_lock(&ep->lock);
	struct sn_req *req = sn_core_req_new(ep);
	if (sn_unlikely(!req))
		goto out;
	sn_core_recv_fill(req, from, buf, room, exactly, NULL);
	req->seg_count = 1;
	req->role = SN_ROLE_TRY;
	req->comp.op = SN_OP_RECV;
	req->posted.bits = bits;
	req->posted.mask = mask;
	sn_core_recv_place(req, false);
	for (; req->state != SN_REQ_DONE && looks; looks--)
		sn_core_progress(ep);
	if (req->state != SN_REQ_DONE)
		sn_match_remove_posted(ep->match[0], &req->posted);
	else if (!req->comp.status)
		rc = SN_OK;
	if (sn_likely(!rc)) {
		*len = req->comp.len;
		ep->count.recvs++;
		ep->count.tried_recvs++;
	}
	sn_core_req_free(req);
out:
	sn_unlock(&ep->lock);
	return rc;
}
