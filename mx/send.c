/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends, and the segments of any message.
 *
 * Budget of a send in one piece, up to the eager limit, on the node: what sn_tsend() takes, and two rounds of the
 * endpoint's own lock, which is free.
 */
#include "mx.h"

mx_return_t mx_segments(const mx_segment_t *segments, uint32_t count, struct iovec *iov, uint64_t *len)
{
	if (count > MX_MAX_SEGMENTS)
		return MX_BAD_SEG_CNT;
	if (count && !segments)
		return MX_BAD_SEG_LIST;
	*len = 0;
	for (uint32_t i = 0; i < count; i++) {
		iov[i] = (struct iovec){segments[i].segment_ptr, segments[i].segment_length};
		if (!iov[i].iov_base && iov[i].iov_len)
			return MX_BAD_SEG_MEM;
		*len += iov[i].iov_len;
	}
	return *len > UINT32_MAX ? MX_BAD_SEG_MEM : MX_SUCCESS; /* longer than a status can say */
}

static int post(struct mx_request *r, const sn_msg *m)
{
	if (m->iov_count > 1 || m->flags)
		return sn_post_send(r->ep->sn, m, NULL);
	struct iovec v = m->iov_count ? *m->iov : (struct iovec){NULL, 0};
	int rc = sn_tsend(r->ep->sn, m->peer, v.iov_base, v.iov_len, m->bits, 0, 0, r);
	if (rc == 1)
		mx_request_end(r, MX_STATUS_SUCCESS);
	return rc < 0 ? rc : 0;
}

static mx_return_t isend(struct mx_endpoint *ep, const mx_segment_t *segments, uint32_t count,
			 mx_endpoint_addr_t dest, uint64_t match_info, uint32_t flags, void *context,
			 mx_request_t *request, const char *who)
{
	struct iovec iov[MX_MAX_SEGMENTS];
	uint64_t len;
	mx_return_t rc = ep ? mx_segments(segments, count, iov, &len) : MX_BAD_ENDPOINT;
	if (rc)
		return mx_fail(ep, rc, "%s: %u segments", who, count);
	struct mx_request *r = mx_request_new(ep, MX_SEND, context, !request);
	if (!r)
		return mx_fail(ep, MX_NO_RESOURCES, "%s", who);
	r->status.source = dest;
	r->status.match_info = match_info;
	r->status.msg_length = r->status.xfer_length = (uint32_t)len;
	if (request)
		*request = r;
	sn_msg m = {.flags = flags, .iov = iov, .iov_count = count, .bits = match_info, .context = r};
	if (sn_unlikely(!mx_partner_peer(ep, dest, &m.peer))) {
		r->status.xfer_length = 0;
		mx_request_end(r, MX_STATUS_BAD_SESSION);
		return MX_SUCCESS;
	}
	int err = post(r, &m);
	if (sn_likely(!err))
		return MX_SUCCESS;
	mx_request_free(r);
	return mx_tell(ep, mx_of_error(err), 0);
}

mx_return_t mx_isend(mx_endpoint_t endpoint, mx_segment_t *segments, uint32_t count, mx_endpoint_addr_t dest,
		     uint64_t match_info, void *context, mx_request_t *request)
{
	return isend(endpoint, segments, count, dest, match_info, 0, context, request, "mx_isend");
}

mx_return_t mx_issend(mx_endpoint_t endpoint, mx_segment_t *segments, uint32_t count, mx_endpoint_addr_t dest,
		      uint64_t match_info, void *context, mx_request_t *request)
{
	return isend(endpoint, segments, count, dest, match_info, SN_SYNC, context, request, "mx_issend");
}
