/* SPDX-License-Identifier: BSD-3-Clause */
/* Acknowledgements: of synchronous sends upon matching, of puts and of atomics without a result upon execution. */
#include "core/core.h"

int sn_core_ack(struct sn_peer_state *peer, uint64_t op, int status)
{
	if (peer->gone)
		return 0;
	struct sn_imm_ack imm = {.op = op, .status = status};
	struct sn_out out = {.head = {.kind = SN_K_ACK, .imm_len = sizeof(imm), .imm = &imm},
			     .must_copy = true};
	return peer->ops->post(peer->link, &out, NULL);
}

/* What the peer has answered goes off the list of what waits for it. */
static void answered(struct sn_req *req, int status)
{
	req->answered = true;
	sn_list_del(&req->link);
	req->on_list = false;
	sn_core_req_step(req, status);
}

void sn_core_arrived(struct sn_req *req)
{
	if (req->on_list) /* a peer may have acknowledged it, unasked */
		answered(req, SN_OK);
}

/*
 * The operation number comes from the peer: it must name a request that waits for exactly this peer's answer. One that
 * names nothing is counted and ignored: it may be honest and late (the operation has already ended with an error).
 */
int sn_core_ack_arrive(struct sn_peer_state *peer, const struct sn_in *in)
{
	struct sn_imm_ack imm;
	if (in->head.imm_len != sizeof(imm) || in->head.len)
		return sn_fail(SN_ERR_PROTO, "%s sent an acknowledgement of the wrong size",
			       sn_core_peer_name(peer).text);
	memcpy(&imm, in->head.imm, sizeof(imm));
	struct sn_req *req = sn_core_req_find(peer->ep, imm.op);
	if (!req || req->peer != peer || !req->on_list || req->answered || req->comp.op == SN_OP_GET ||
	    req->comp.op == SN_OP_FETCH) {
		peer->ep->count.bad_messages++;
		return 0;
	}
	bool onesided = req->comp.op != SN_OP_SEND && req->comp.op != SN_OP_MSEND;
	answered(req, imm.status > 0 ? SN_ERR_PROTO : imm.status);
	if (onesided)
		sn_core_onesided_next(peer);
	return 0;
}
