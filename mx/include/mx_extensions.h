/* SPDX-License-Identifier: BSD-3-Clause */
/* What MX offers beyond myriexpress.h; the same conventions. */
#ifndef MX_EXTENSIONS_H
#define MX_EXTENSIONS_H

#include "myriexpress.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MX_HAS_ICONNECT_V2 1

/* Its mx_status_t has the address in .source. */
mx_return_t mx_iconnect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t id, uint32_t key,
			uint64_t match_info, void *context, mx_request_t *request);
/* Sends to the address end with MX_STATUS_BAD_SESSION until it is connected again. */
mx_return_t mx_disconnect(mx_endpoint_t endpoint, mx_endpoint_addr_t addr);

typedef enum mx_unexp_handler_action {
	MX_RECV_CONTINUE = 0, /* to a receive, as if there were no handler */
	MX_RECV_FINISHED      /* it is done with, and dropped */
} mx_unexp_handler_action_t;

/*
 * Called, inside some call of this process, for each message that no receive waits for; it may post receives. data:
 * all of the message, if that is here already, for the time of the call.
 */
typedef mx_unexp_handler_action_t (*mx_unexp_handler_t)(void *context, mx_endpoint_addr_t source,
							uint64_t match_info, uint32_t length, void *data);
mx_return_t mx_register_unexp_handler(mx_endpoint_t endpoint, mx_unexp_handler_t handler, void *context);

/* Nobody will ask after the request. */
mx_return_t mx_forget(mx_endpoint_t endpoint, mx_request_t *request);
mx_return_t mx_progress(mx_endpoint_t endpoint);

/* A pointer of the program's own that an address carries, of whichever message or connection it comes. */
mx_return_t mx_set_endpoint_addr_context(mx_endpoint_addr_t addr, void *context);
mx_return_t mx_get_endpoint_addr_context(mx_endpoint_addr_t addr, void **context);

/* How long this connection may take to be made, or, with request NULL, each of the endpoint's; MX_INFINITE: any time. */
mx_return_t mx_set_request_timeout(mx_endpoint_t endpoint, mx_request_t request, uint32_t milliseconds);

/* session: changes when the endpoint is opened anew. */
mx_return_t mx_decompose_endpoint_addr2(mx_endpoint_addr_t addr, uint64_t *nic_id, uint32_t *id,
					uint32_t *session);

#ifdef __cplusplus
}
#endif
#endif
