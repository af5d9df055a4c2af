/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking after requests: a certain one, or any that has ended. */
#include "mx.h"

/* The program learns how it ended, and the request is gone. With the lock held. */
static void take(struct mx_request *r, mx_status_t *status)
{
	if (status)
		*status = r->status;
	sn_list_del(&r->link);
	mx_request_give_back(r);
}

static void take_done(mx_request_t *request, mx_status_t *status)
{
	struct mx_endpoint *ep = (*request)->ep;
	pthread_mutex_lock(&ep->lock);
	take(*request, status);
	pthread_mutex_unlock(&ep->lock);
	*request = NULL;
}

mx_return_t mx_test(mx_endpoint_t ep, mx_request_t *request, mx_status_t *status, uint32_t *result)
{
	mx_return_t rc = mx_check_request(ep, request);
	*result = 0;
	if (rc)
		return mx_fail(ep, rc, "mx_test");
	if (!mx_is_done(ep, *request))
		mx_move(ep);
	if (mx_is_done(ep, *request)) {
		take_done(request, status);
		*result = 1;
	}
	return MX_SUCCESS;
}

mx_return_t mx_wait(mx_endpoint_t ep, mx_request_t *request, uint32_t timeout, mx_status_t *status,
		    uint32_t *result)
{
	mx_return_t rc = mx_check_request(ep, request);
	*result = 0;
	if (rc)
		return mx_fail(ep, rc, "mx_wait");
	if (mx_is_done(ep, *request) || mx_wait_until(ep, timeout, mx_is_done, *request)) {
		take_done(request, status);
		*result = 1;
	}
	return MX_SUCCESS;
}

mx_return_t mx_context(mx_request_t *request, void **context)
{
	if (!request || !*request || !context)
		return mx_fail(NULL, MX_BAD_REQUEST, "mx_context");
	*context = (*request)->status.context;
	return MX_SUCCESS;
}

mx_return_t mx_forget(mx_endpoint_t ep, mx_request_t *request)
{
	mx_return_t rc = mx_check_request(ep, request);
	if (rc)
		return mx_fail(ep, rc, "mx_forget");
	pthread_mutex_lock(&ep->lock);
	if (atomic_load_explicit(&(*request)->done, memory_order_relaxed))
		take(*request, NULL);
	else
		(*request)->forgotten = true;
	pthread_mutex_unlock(&ep->lock);
	*request = NULL;
	return MX_SUCCESS;
}

/* A send has given its memory back when it has ended: what is copied at once ends at once. */
static mx_return_t buffered(mx_endpoint_t ep, mx_request_t *request, bool waits, uint32_t timeout,
			    uint32_t *result, const char *who)
{
	mx_return_t rc = mx_check_request(ep, request);
	*result = 0;
	if (!rc && (*request)->kind != MX_SEND)
		rc = MX_BAD_REQUEST;
	if (rc)
		return mx_fail(ep, rc, "%s: not a send", who);
	if (!waits && !mx_is_done(ep, *request))
		mx_move(ep);
	*result = mx_is_done(ep, *request) || (waits && mx_wait_until(ep, timeout, mx_is_done, *request));
	return MX_SUCCESS;
}

mx_return_t mx_buffered(mx_endpoint_t ep, mx_request_t *request, uint32_t timeout, uint32_t *result)
{
	return buffered(ep, request, true, timeout, result, "mx_buffered");
}

mx_return_t mx_ibuffered(mx_endpoint_t ep, mx_request_t *request, uint32_t *result)
{
	return buffered(ep, request, false, 0, result, "mx_ibuffered");
}

/* ---- any request ---- */

struct any {
	uint64_t bits, mask;
	mx_status_t *status;
};

static bool take_any(struct mx_endpoint *ep, void *arg)
{
	const struct any *a = arg;
	bool found = false;
	pthread_mutex_lock(&ep->lock);
	sn_list_for_each (at, &ep->done) {
		struct mx_request *r = sn_container(at, struct mx_request, link);
		if ((r->status.match_info & a->mask) == a->bits) {
			take(r, a->status);
			found = true;
			break;
		}
	}
	pthread_mutex_unlock(&ep->lock);
	return found;
}

static mx_return_t check_any(const struct mx_endpoint *ep, uint64_t bits, uint64_t mask)
{
	return !ep ? MX_BAD_ENDPOINT : bits & ~mask ? MX_BAD_MATCH_MASK : MX_SUCCESS;
}

mx_return_t mx_test_any(mx_endpoint_t ep, uint64_t match_info, uint64_t match_mask, mx_status_t *status,
			uint32_t *result)
{
	struct any a = {match_info, match_mask, status};
	mx_return_t rc = check_any(ep, match_info, match_mask);
	*result = 0;
	if (rc)
		return mx_fail(ep, rc, "mx_test_any: match %#" PRIx64 ", mask %#" PRIx64, match_info,
			       match_mask);
	mx_move(ep);
	*result = take_any(ep, &a);
	return MX_SUCCESS;
}

mx_return_t mx_wait_any(mx_endpoint_t ep, uint32_t timeout, uint64_t match_info, uint64_t match_mask,
			mx_status_t *status, uint32_t *result)
{
	struct any a = {match_info, match_mask, status};
	mx_return_t rc = check_any(ep, match_info, match_mask);
	*result = 0;
	if (rc)
		return mx_fail(ep, rc, "mx_wait_any: match %#" PRIx64 ", mask %#" PRIx64, match_info,
			       match_mask);
	*result = mx_wait_until(ep, timeout, take_any, &a);
	return MX_SUCCESS;
}

static bool first_done(struct mx_endpoint *ep, void *arg)
{
	mx_request_t *request = arg;
	pthread_mutex_lock(&ep->lock);
	bool found = !sn_list_empty(&ep->done);
	if (found)
		*request = sn_container(ep->done.next, struct mx_request, link);
	pthread_mutex_unlock(&ep->lock);
	return found;
}

mx_return_t mx_ipeek(mx_endpoint_t ep, mx_request_t *request, uint32_t *result)
{
	*result = 0;
	if (!ep || !request)
		return mx_fail(ep, ep ? MX_BAD_REQUEST : MX_BAD_ENDPOINT, "mx_ipeek");
	mx_move(ep);
	*result = first_done(ep, request);
	return MX_SUCCESS;
}

mx_return_t mx_peek(mx_endpoint_t ep, uint32_t timeout, mx_request_t *request, uint32_t *result)
{
	*result = 0;
	if (!ep || !request)
		return mx_fail(ep, ep ? MX_BAD_REQUEST : MX_BAD_ENDPOINT, "mx_peek");
	*result = mx_wait_until(ep, timeout, first_done, request);
	return MX_SUCCESS;
}
