/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: from the post to whoever asks after them. One that has ended stands in its endpoint's list, in the order in which
 * they ended, until it is tested, waited for, or forgotten.
 */
#include "mx.h"
#include <stdlib.h>

#define SLAB 64 /* requests allocated at a time */

struct slab {
	struct sn_list link;
	struct mx_request requests[SLAB];
};

static bool grow(struct mx_endpoint *ep)
{
	struct slab *slab = calloc(1, sizeof(*slab));
	if (!slab)
		return false;
	sn_list_add_tail(&ep->slabs, &slab->link);
	for (int i = 0; i < SLAB; i++) {
		slab->requests[i].ep = ep;
		slab->requests[i].link.next = (struct sn_list *)ep->free;
		ep->free = &slab->requests[i];
	}
	return true;
}

void mx_requests_free(struct mx_endpoint *ep)
{
	sn_list_for_each_safe (at, &ep->slabs)
		free(sn_container(at, struct slab, link));
}

struct mx_request *mx_request_new(struct mx_endpoint *ep, enum mx_kind kind, void *context, bool forgotten)
{
	pthread_mutex_lock(&ep->lock);
	struct mx_request *r = ep->free || grow(ep) ? ep->free : NULL;
	if (r)
		ep->free = (struct mx_request *)r->link.next;
	pthread_mutex_unlock(&ep->lock);
	if (!r)
		return NULL;
	r->kind = (uint8_t)kind;
	r->forgotten = forgotten;
	r->internal = false;
	atomic_store_explicit(&r->done, false, memory_order_relaxed);
	r->status = (mx_status_t){.context = context};
	return r;
}

void mx_request_give_back(struct mx_request *r)
{
	r->kind = MX_FREE;
	r->link.next = (struct sn_list *)r->ep->free;
	r->ep->free = r;
}

void mx_request_free(struct mx_request *r)
{
	struct mx_endpoint *ep = r->ep;
	pthread_mutex_lock(&ep->lock);
	mx_request_give_back(r);
	pthread_mutex_unlock(&ep->lock);
}

void mx_request_end(struct mx_request *r, mx_status_code_t code)
{
	struct mx_endpoint *ep = r->ep;
	pthread_mutex_lock(&ep->lock);
	r->status.code = code;
	if (r->forgotten) {
		mx_request_give_back(r);
	} else {
		if (!r->internal)
			sn_list_add_tail(&ep->done, &r->link);
		atomic_store_explicit(&r->done, true, memory_order_release);
	}
	pthread_mutex_unlock(&ep->lock);
	/* A thread that sleeps is rung by messages, but not by who completes its request for it. */
	if (sn_unlikely(atomic_load(&ep->waiters) > (mx_waits_on == ep)))
		sn_relax_wake();
}

/* The engine tells, with its lock held. */
void mx_on_complete(void *arg, const sn_completion *c)
{
	struct mx_request *r = c->context;
	if (c->status == SN_ERR_CANCELED) { /* by mx_cancel(), which has said so */
		mx_request_free(r);
		return;
	}
	if (r->kind == MX_RECV) {
		r->status.match_info = c->bits;
		r->status.source = mx_partner_of(arg, c->peer);
		r->status.msg_length = (uint32_t)c->full_len;
		r->status.xfer_length = (uint32_t)c->len;
	} else if (c->status) {
		r->status.xfer_length = 0;
	}
	mx_request_end(r, c->status ? mx_of_status(c->status, mx_addr_far(r->status.source))
				    : MX_STATUS_SUCCESS);
}

bool mx_is_done(struct mx_endpoint *ep, void *arg)
{
	const struct mx_request *r = arg;
	return atomic_load_explicit(&r->done, memory_order_acquire);
}

mx_return_t mx_check_request(const struct mx_endpoint *ep, const mx_request_t *request)
{
	return !ep					     ? MX_BAD_ENDPOINT
	       : request && *request && (*request)->ep == ep ? MX_SUCCESS
							     : MX_BAD_REQUEST;
}
