/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to oneself. A small message arrives inside the post; a large one is announced, and copied once, from the
 * sender's segments to the receiver's, when a receive matches it. Nothing is ever queued, so progress has nothing to do.
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

/* Copied once, from where it lies to where it is awaited. */
static int self_post_now(void *link, uint32_t what, uint64_t bits, uint64_t data, const void *body,
			 uint64_t len)
{
	struct sn_peer_state *self = link;
	if ((what & 0xff) != SN_K_TAGGED || len > SELF_EAGER ||
	    sn_core_arrive_tagged(self, (uint8_t)(what >> 8), bits, data, body, len) < 0)
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
