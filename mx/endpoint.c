/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: opening, closing, what they say of themselves. */
#include "mx.h"
#include <sched.h>
#include <stdlib.h>

static mx_return_t take_param(struct mx_endpoint *ep, const mx_param_t *param)
{
	unsigned bits, shift;
	switch (param->key) {
	case MX_PARAM_ERROR_HANDLER: ep->on_error = param->val.error_handler; return MX_SUCCESS;
	case MX_PARAM_UNEXP_QUEUE_MAX: return MX_SUCCESS; /* sennit paces its senders by itself */
	case MX_PARAM_CONTEXT_ID:
		bits = param->val.context_id.bits;
		shift = param->val.context_id.shift;
		if (bits > MX_CONTEXT_ID_BITS_MAX || bits + shift > 64)
			return MX_BAD_PARAM_VAL;
		ep->context_mask = bits ? ((UINT64_C(1) << bits) - 1) << shift : 0;
		return MX_SUCCESS;
	default: return MX_BAD_PARAM_NAME;
	}
}

static int open_engine(struct mx_endpoint *ep)
{
	sn_ep_attr attr = {.threads = SN_THREAD_MULTIPLE, .on_complete = mx_on_complete, .arg = ep};
	return sn_ep_open(&attr, &ep->sn);
}

/* One's own endpoint is a partner like others. */
static int know_oneself(struct mx_endpoint *ep)
{
	unsigned char addr[SN_ADDR_MAX];
	size_t len = sizeof(addr);
	int rc = sn_ep_address(ep->sn, addr, &len);
	return rc ? rc : mx_partner_add(ep, addr, len, mx_host_nic(), ep->id, ep->session, &ep->self);
}

static void endpoint_free(struct mx_endpoint *ep)
{
	sn_ep_close(ep->sn);
	mx_partners_free(ep);
	mx_requests_free(ep);
	pthread_mutex_destroy(&ep->lock);
	pthread_mutex_destroy(&ep->shown_lock);
	free(ep);
}

static struct mx_endpoint *endpoint_new(uint32_t key)
{
	struct mx_endpoint *ep = calloc(1, sizeof(*ep));
	if (!ep)
		return NULL;
	ep->key = key;
	sn_random(&ep->session, sizeof(ep->session));
	pthread_mutex_init(&ep->lock, NULL);
	pthread_mutex_init(&ep->shown_lock, NULL);
	sn_list_init(&ep->done);
	sn_list_init(&ep->slabs);
	sn_list_init(&ep->shown);
	return ep;
}

/* *engine: the engine has said why not. */
static mx_return_t endpoint_start(struct mx_endpoint *ep, uint32_t id, const mx_param_t *params,
				  uint32_t count, bool *engine)
{
	mx_return_t rc = count && !params ? MX_BAD_PARAM_LIST : MX_SUCCESS;
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = take_param(ep, &params[i]);
	if (rc)
		return rc;
	int err = open_engine(ep);
	if (!err && (rc = mx_name_open(ep, id)))
		return rc;
	if (!err && (err = know_oneself(ep)))
		mx_name_close(ep);
	*engine = err != 0;
	return err ? mx_of_error(err) : MX_SUCCESS;
}

mx_return_t mx_open_endpoint(uint32_t board, uint32_t id, uint32_t key, mx_param_t *params, uint32_t count,
			     mx_endpoint_t *endpoint)
{
	bool engine = false;
	if (!endpoint)
		return mx_fail(NULL, MX_BAD_ENDPOINT, "mx_open_endpoint: no place for it");
	if (board != 0 && board != MX_ANY_NIC)
		return mx_fail(NULL, MX_BOARD_UNKNOWN, "mx_open_endpoint: board %u", board);
	if (id >= MX_ENDPOINTS && id != MX_ANY_ENDPOINT)
		return mx_fail(NULL, MX_BAD_ENDPOINT_ID, "mx_open_endpoint: number %u of %u", id,
			       MX_ENDPOINTS);
	if (!mx_count_endpoint(1))
		return mx_fail(NULL, MX_NOT_INITIALIZED, "mx_open_endpoint");
	struct mx_endpoint *ep = endpoint_new(key);
	mx_return_t rc = ep ? endpoint_start(ep, id, params, count, &engine) : MX_NO_RESOURCES;
	if (!rc) {
		*endpoint = ep;
		return MX_SUCCESS;
	}
	rc = engine ? mx_tell(NULL, rc, 0)
		    : mx_fail(NULL, rc, "mx_open_endpoint: number %d, %u parameters", (int)id, count);
	if (ep)
		endpoint_free(ep);
	mx_count_endpoint(-1);
	return rc;
}

mx_return_t mx_close_endpoint(mx_endpoint_t ep)
{
	if (!ep)
		return mx_fail(NULL, MX_BAD_ENDPOINT, "mx_close_endpoint");
	if (mx_handling(ep))
		return mx_fail(ep, MX_CLOSE_IN_HANDLER, "mx_close_endpoint");
	while (atomic_load(&ep->waiters)) { /* threads that wait for what will not come */
		mx_wakeup(ep);
		sched_yield();
	}
	mx_name_close(ep);
	mx_shown_free(ep);
	endpoint_free(ep);
	mx_count_endpoint(-1);
	return MX_SUCCESS;
}

mx_return_t mx_get_endpoint_addr(mx_endpoint_t ep, mx_endpoint_addr_t *addr)
{
	if (!ep || !addr)
		return mx_fail(ep, MX_BAD_ENDPOINT, "mx_get_endpoint_addr");
	*addr = ep->self;
	return MX_SUCCESS;
}

mx_return_t mx_wakeup(mx_endpoint_t ep)
{
	if (!ep)
		return mx_fail(NULL, MX_BAD_ENDPOINT, "mx_wakeup");
	atomic_fetch_add(&ep->wakeups, 1);
	sn_relax_wake();
	return MX_SUCCESS;
}

mx_return_t mx_disable_progression(mx_endpoint_t ep)
{
	if (!ep)
		return mx_fail(NULL, MX_BAD_ENDPOINT, "mx_disable_progression");
	atomic_store(&ep->stopped, true);
	return MX_SUCCESS;
}

mx_return_t mx_reenable_progression(mx_endpoint_t ep)
{
	if (!ep)
		return mx_fail(NULL, MX_BAD_ENDPOINT, "mx_reenable_progression");
	atomic_store(&ep->stopped, false);
	mx_move(ep);
	return MX_SUCCESS;
}

mx_return_t mx_progress(mx_endpoint_t ep)
{
	if (!ep)
		return mx_fail(NULL, MX_BAD_ENDPOINT, "mx_progress");
	mx_move(ep);
	return MX_SUCCESS;
}
