/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handler of unexpected messages.
 *
 * An endpoint that has had one takes every message that meets no receive out of the engine's matching, in the order
 * of their arrival, and keeps it in `shown` until a receive wants it: a receive looks there first. What is there is
 * older than all that waits in the engine, so the order of matching stays what it was. To take a message out and put
 * it on the list, and to look through the list and post, are done in one go each, under shown_lock.
 *
 * The message that the handler sees stands in the list already, so that a receive which the handler posts may take it. The
 * bytes that the handler was given must stay until it returns: such a receive is put down, and gets them then.
 */
#include "mx.h"
#include <stdlib.h>
#include <string.h>

struct shown {
	struct sn_list link;
	sn_claim *claim;
	mx_status_t status;
	bool handled; /* by the handler, now */
	sn_msg taker; /* of a message that is handled: a copy of the receive that takes it; .context NULL: none */
	struct iovec *iov;
};

static bool fits(const struct shown *s, uint64_t bits, uint64_t mask)
{
	return (s->status.match_info & mask) == bits && !s->taker.context;
}

/* ---- the side of the receives ---- */

static int put_down(struct shown *s, const sn_msg *msg)
{
	size_t bytes = SN_MAX_OF(msg->iov_count, 1u) * sizeof(*s->iov);
	s->iov = malloc(bytes);
	if (!s->iov)
		return SN_ERR_NOMEM;
	if (msg->iov_count)
		memcpy(s->iov, msg->iov, msg->iov_count * sizeof(*s->iov));
	s->taker = *msg;
	s->taker.iov = s->iov;
	return 0;
}

int mx_shown_recv(struct mx_endpoint *ep, const sn_msg *msg)
{
	struct shown *found = NULL;
	int rc = 0;
	pthread_mutex_lock(&ep->shown_lock);
	sn_list_for_each (at, &ep->shown) {
		struct shown *s = sn_container(at, struct shown, link);
		if (fits(s, msg->bits, msg->mask)) {
			found = s;
			break;
		}
	}
	bool later = found && found->handled;
	if (later)
		rc = put_down(found, msg);
	else if (found)
		sn_list_del(&found->link);
	else
		rc = sn_post_recv(ep->sn, msg, NULL);
	pthread_mutex_unlock(&ep->shown_lock);
	if (found && !later) {
		rc = sn_mrecv(ep->sn, found->claim, msg, NULL);
		free(found);
	}
	return rc;
}

bool mx_shown_probe(struct mx_endpoint *ep, uint64_t bits, uint64_t mask, mx_status_t *status)
{
	bool found = false;
	pthread_mutex_lock(&ep->shown_lock);
	sn_list_for_each (at, &ep->shown) {
		const struct shown *s = sn_container(at, struct shown, link);
		if (!s->handled && fits(s, bits, mask)) {
			*status = s->status;
			found = true;
			break;
		}
	}
	pthread_mutex_unlock(&ep->shown_lock);
	return found;
}

/* ---- the side of the handler ---- */

/* The next message, on the list; NULL: there is none, or another thread is in the handler. */
static struct shown *next(struct mx_endpoint *ep)
{
	struct shown *s = NULL;
	sn_completion c;
	pthread_mutex_lock(&ep->shown_lock);
	bool may = !ep->in_handler && (ep->handler || ep->callback);
	if (may && !ep->spare) /* there must be a place for what is taken out of the engine */
		ep->spare = calloc(1, sizeof(*s));
	if (may && ep->spare && !sn_mprobe(ep->sn, 0, SN_ANY_PEER, 0, 0, &c, &ep->spare->claim)) {
		s = ep->spare;
		ep->spare = NULL;
		s->status = (mx_status_t){.source = mx_partner_of(ep, c.peer),
					  .match_info = c.bits,
					  .msg_length = (uint32_t)c.full_len,
					  .xfer_length = (uint32_t)c.full_len};
		s->handled = true;
		sn_list_add_tail(&ep->shown, &s->link);
		ep->in_handler = true;
		ep->handling = pthread_self();
	}
	pthread_mutex_unlock(&ep->shown_lock);
	return s;
}

static void handled(struct mx_endpoint *ep, struct shown *s, bool finished)
{
	pthread_mutex_lock(&ep->shown_lock);
	ep->in_handler = s->handled = false;
	bool taken = s->taker.context != NULL;
	if (taken || finished)
		sn_list_del(&s->link);
	pthread_mutex_unlock(&ep->shown_lock);
	if (taken) {
		struct mx_request *r = s->taker.context;
		if (sn_mrecv(ep->sn, s->claim, &s->taker,
			     NULL)) /* memory is short: the message is lost, and says so */
			mx_request_end(r, MX_STATUS_NO_RESOURCES);
	} else if (finished) {
		sn_discard(ep->sn, s->claim);
	}
	if (taken || finished) {
		free(s->iov);
		free(s);
	}
}

void mx_show(struct mx_endpoint *ep)
{
	for (struct shown *s; (s = next(ep));) {
		mx_unexp_handler_action_t action = MX_RECV_CONTINUE;
		/* what the list says of it does not change while it is handled */
		if (ep->callback)
			ep->callback(ep->handler_context, s->status.match_info, (int)s->status.msg_length);
		else
			action = ep->handler(ep->handler_context, s->status.source, s->status.match_info,
					     s->status.msg_length,
					     (void *)(uintptr_t)sn_claim_data(ep->sn, s->claim));
		handled(ep, s, action == MX_RECV_FINISHED);
	}
}

bool mx_handling(const struct mx_endpoint *ep)
{
	return ep->in_handler && pthread_equal(ep->handling, pthread_self());
}

void mx_shown_free(struct mx_endpoint *ep)
{
	sn_list_for_each_safe (at, &ep->shown) {
		struct shown *s = sn_container(at, struct shown, link);
		sn_discard(ep->sn, s->claim);
		free(s);
	}
	free(ep->spare);
}

static mx_return_t set_handler(mx_endpoint_t ep, mx_unexp_handler_t handler, mx_matching_callback_t callback,
			       void *context)
{
	if (!ep)
		return mx_fail(NULL, MX_BAD_ENDPOINT, "mx_register_unexp_handler");
	pthread_mutex_lock(&ep->shown_lock);
	ep->handler = handler;
	ep->callback = callback;
	ep->handler_context = context;
	if (handler || callback)
		atomic_store(&ep->shows, true);
	pthread_mutex_unlock(&ep->shown_lock);
	return MX_SUCCESS;
}

mx_return_t mx_register_unexp_handler(mx_endpoint_t ep, mx_unexp_handler_t handler, void *context)
{
	return set_handler(ep, handler, NULL, context);
}

mx_return_t mx_register_unexp_callback(mx_endpoint_t ep, mx_matching_callback_t callback, void *context)
{
	return set_handler(ep, NULL, callback, context);
}
