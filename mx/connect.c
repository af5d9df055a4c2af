/* SPDX-License-Identifier: BSD-3-Clause */
/* Connecting: name.c asks for the endpoint, whose answer makes it a partner. */
#include "mx.h"

/* Why not; the request is free then. */
static mx_return_t ask(struct mx_endpoint *ep, uint64_t nic_id, uint32_t id, uint32_t key, uint32_t ms,
		       struct mx_request *r)
{
	struct in_addr ip;
	mx_return_t rc = MX_SUCCESS;
	if (!r)
		return MX_NO_RESOURCES;
	if (!mx_host_of_nic(nic_id, &ip))
		rc = MX_NIC_NOT_FOUND;
	else if (id >= MX_ENDPOINTS)
		rc = MX_BAD_ENDPOINT_ID;
	else if (mx_name_ask(r, nic_id, id, key, ms))
		rc = MX_NO_RESOURCES;
	if (rc)
		mx_request_free(r);
	return rc;
}

static mx_return_t of_connection(mx_status_code_t code)
{
	switch (code) {
	case MX_STATUS_SUCCESS: return MX_SUCCESS;
	case MX_STATUS_BAD_KEY: return MX_BAD_CONNECTION_KEY;
	case MX_STATUS_REJECTED: return MX_NO_PERM;
	case MX_STATUS_NO_RESOURCES: return MX_NO_RESOURCES;
	case MX_STATUS_TIMEOUT:
	case MX_STATUS_ENDPOINT_UNREACHABLE: return MX_TIMEOUT;
	default: return MX_CONNECTION_FAILED;
	}
}

mx_return_t mx_connect(mx_endpoint_t ep, uint64_t nic_id, uint32_t id, uint32_t key, uint32_t timeout,
		       mx_endpoint_addr_t *addr)
{
	if (!ep || !addr)
		return mx_fail(ep, MX_BAD_ENDPOINT, "mx_connect");
	struct mx_request *r = mx_request_new(ep, MX_CONNECT, NULL, false);
	if (r)
		r->internal = true;
	mx_return_t rc = ask(ep, nic_id, id, key, timeout, r);
	if (!rc) {
		if (!mx_wait_until(ep, timeout, mx_is_done, r) && mx_name_forget(r))
			rc = MX_TIMEOUT;
		else if (!(rc = of_connection(r->status.code)))
			*addr = r->status.source;
		mx_request_free(r);
	}
	return rc ? mx_fail(ep, rc, "mx_connect: NIC %#" PRIx64 ", endpoint %u", nic_id, id) : MX_SUCCESS;
}

mx_return_t mx_iconnect(mx_endpoint_t ep, uint64_t nic_id, uint32_t id, uint32_t key, uint64_t match_info,
			void *context, mx_request_t *request)
{
	if (!ep)
		return mx_fail(NULL, MX_BAD_ENDPOINT, "mx_iconnect");
	struct mx_request *r = mx_request_new(ep, MX_CONNECT, context, !request);
	if (r)
		r->status.match_info = match_info;
	if (request)
		*request = r;
	mx_return_t rc = ask(ep, nic_id, id, key, atomic_load(&ep->connect_timeout), r);
	return rc ? mx_fail(ep, rc, "mx_iconnect: NIC %#" PRIx64 ", endpoint %u", nic_id, id) : MX_SUCCESS;
}

mx_return_t mx_set_request_timeout(mx_endpoint_t ep, mx_request_t request, uint32_t milliseconds)
{
	if (!ep || (request && request->ep != ep))
		return mx_fail(ep, ep ? MX_BAD_REQUEST : MX_BAD_ENDPOINT, "mx_set_request_timeout");
	if (!request)
		atomic_store(&ep->connect_timeout, milliseconds);
	else if (request->kind == MX_CONNECT)
		mx_name_limit(request, milliseconds);
	return MX_SUCCESS; /* of sends the engine knows by itself when nobody answers */
}
