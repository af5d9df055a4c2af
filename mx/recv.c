/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives, cancelling, and looking for messages that nobody has received yet. */
#include "mx.h"

mx_return_t mx_irecv(mx_endpoint_t ep, mx_segment_t *segments, uint32_t count, uint64_t match_info,
		     uint64_t match_mask, void *context, mx_request_t *request)
{
	struct iovec iov[MX_MAX_SEGMENTS];
	uint64_t len;
	mx_return_t rc = ep ? mx_segments(segments, count, iov, &len) : MX_BAD_ENDPOINT;
	if (rc)
		return mx_fail(ep, rc, "mx_irecv: %u segments", count);
	if (match_info & ~match_mask)
		return mx_fail(ep, MX_BAD_MATCH_MASK, "mx_irecv: match %#" PRIx64 ", mask %#" PRIx64,
			       match_info, match_mask);
	if (ep->context_mask & ~match_mask)
		return mx_fail(ep, MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK, "mx_irecv: mask %#" PRIx64,
			       match_mask);
	struct mx_request *r = mx_request_new(ep, MX_RECV, context, !request);
	if (!r)
		return mx_fail(ep, MX_NO_RESOURCES, "mx_irecv");
	if (request)
		*request = r;
	sn_msg m = {.peer = SN_ANY_PEER,
		    .iov = iov,
		    .iov_count = count,
		    .bits = match_info,
		    .mask = match_mask,
		    .context = r};
	int err = sn_unlikely(atomic_load_explicit(&ep->shows, memory_order_relaxed))
			  ? mx_shown_recv(ep, &m)
			  : sn_post_recv(ep->sn, &m, NULL);
	if (sn_likely(!err))
		return MX_SUCCESS;
	mx_request_free(r);
	return mx_tell(ep, mx_of_error(err), 0);
}

mx_return_t mx_cancel(mx_endpoint_t ep, mx_request_t *request, uint32_t *result)
{
	mx_return_t rc = mx_check_request(ep, request);
	*result = 0;
	if (!rc && (*request)->kind == MX_SEND)
		rc = MX_CANCEL_NOT_SUPPORTED;
	if (rc)
		return mx_fail(ep, rc, "mx_cancel");
	mx_move(ep);
	if ((*request)->kind == MX_CONNECT) {
		*result = mx_name_forget(*request);
		if (*result)
			mx_request_free(*request);
	} else {
		*result = sn_cancel_context(ep->sn, *request) == SN_OK;
	}
	if (*result)
		*request = NULL;
	return MX_SUCCESS;
}

/* ---- probing ---- */

struct probe {
	uint64_t bits, mask;
	mx_status_t *status;
};

static bool probe_look(struct mx_endpoint *ep, void *arg)
{
	const struct probe *p = arg;
	sn_completion c;
	if (atomic_load_explicit(&ep->shows, memory_order_relaxed) &&
	    mx_shown_probe(ep, p->bits, p->mask, p->status))
		return true;
	if (sn_probe(ep->sn, 0, SN_ANY_PEER, p->bits, p->mask, &c))
		return false;
	*p->status = (mx_status_t){.source = mx_partner_of(ep, c.peer),
				   .match_info = c.bits,
				   .msg_length = (uint32_t)c.full_len,
				   .xfer_length = (uint32_t)c.full_len};
	return true;
}

static mx_return_t probe(mx_endpoint_t ep, bool waits, uint32_t timeout, struct probe *p, uint32_t *result,
			 const char *who)
{
	mx_return_t rc = !ep ? MX_BAD_ENDPOINT : p->bits & ~p->mask ? MX_BAD_MATCH_MASK : MX_SUCCESS;
	*result = 0;
	if (rc)
		return mx_fail(ep, rc, "%s: match %#" PRIx64 ", mask %#" PRIx64, who, p->bits, p->mask);
	if (waits) {
		*result = mx_wait_until(ep, timeout, probe_look, p);
	} else {
		mx_move(ep);
		*result = probe_look(ep, p);
	}
	return MX_SUCCESS;
}

mx_return_t mx_iprobe(mx_endpoint_t ep, uint64_t match_info, uint64_t match_mask, mx_status_t *status,
		      uint32_t *result)
{
	struct probe p = {match_info, match_mask, status};
	return probe(ep, false, 0, &p, result, "mx_iprobe");
}

mx_return_t mx_probe(mx_endpoint_t ep, uint32_t timeout, uint64_t match_info, uint64_t match_mask,
		     mx_status_t *status, uint32_t *result)
{
	struct probe p = {match_info, match_mask, status};
	return probe(ep, true, timeout, &p, result, "mx_probe");
}
