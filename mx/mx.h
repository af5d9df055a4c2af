/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of libmyriexpress.so share. It translates: an MX endpoint is an endpoint of sennit that every thread
 * may use, an MX request the context of a sennit request. Only names are added (name.c): who opens an endpoint by
 * which number.
 *
 * Locks, in the order in which one thread may take them: names, an endpoint's shown_lock, the engine's own, an
 * endpoint's lock, the table of partners. Callbacks of the engine come with its lock held, and take the endpoint's.
 */
#ifndef SN_MX_H
#define SN_MX_H

#include "base/base.h"
#include "base/log.h"
#include "sennit/sennit.h"
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#pragma GCC visibility push(default)
#include "mx_extensions.h"
#include "myriexpress.h"
#pragma GCC visibility pop

#define MX_ENDPOINTS 256 /* on a host */

struct mx_endpoint {
	sn_ep *sn;
	uint32_t id, key, session;
	_Atomic uint32_t connect_timeout; /* ms */
	uint64_t context_mask;		  /* of the match bits */
	mx_error_handler_t on_error;	  /* NULL: that of the process */
	mx_endpoint_addr_t self;
	_Atomic uint32_t wakeups, waiters;
	_Atomic bool stopped; /* mx_disable_progression() */

	pthread_mutex_t lock;
	struct sn_list done; /* by .link, in the order in which they ended */
	struct mx_request *free;
	struct sn_list slabs;

	/* messages that the handler has been shown; see handler.c */
	_Atomic bool shows; /* it has had a handler */
	pthread_mutex_t shown_lock;
	struct sn_list shown;
	struct shown *spare; /* for the next */
	mx_unexp_handler_t handler;
	void *handler_context;
	mx_matching_callback_t callback;
	pthread_t handling;
	bool in_handler;
};

enum mx_kind { MX_FREE, MX_SEND, MX_RECV, MX_CONNECT };

struct mx_request {
	struct sn_list link; /* ep->done; free list: .next alone */
	struct mx_endpoint *ep;
	uint8_t kind;
	bool forgotten;	   /* nobody will ask: freed when it ends. Under the lock */
	bool internal;	   /* its owner looks at .done, and ep->done does not hold it */
	_Atomic bool done; /* .status is valid */
	mx_status_t status;
};

/* error.c: the handler hears the reason. It may return something else than the code, MX_SUCCESS even. */
#define mx_fail(ep, code, ...) mx_tell(ep, code, sn_fail_note(__VA_ARGS__))
/* Likewise where the engine has worded the reason. */
mx_return_t mx_tell(const struct mx_endpoint *ep, mx_return_t code, int noted);
mx_return_t mx_of_error(int error);
mx_status_code_t mx_of_status(int sn_status, bool far);

/* init.c */
bool mx_is_open(void); /* between mx_init() and mx_finalize() */
bool mx_count_endpoint(int change);

/* request.c */
struct mx_request *mx_request_new(struct mx_endpoint *ep, enum mx_kind kind, void *context, bool forgotten);
void mx_request_end(struct mx_request *r, mx_status_code_t code);
void mx_request_give_back(struct mx_request *r); /* with the lock held */
void mx_request_free(struct mx_request *r);
void mx_on_complete(void *arg, const sn_completion *c);
mx_return_t mx_check_request(const struct mx_endpoint *ep, const mx_request_t *request);
void mx_requests_free(struct mx_endpoint *ep);
bool mx_is_done(struct mx_endpoint *ep, void *request); /* to be waited for: a mx_look_fn */

/* wait.c */
extern _Thread_local const struct mx_endpoint *mx_waits_on; /* this thread is in mx_wait_until() of it */
/* Move messages, and show them to the handler. Returns the events. */
int mx_move(struct mx_endpoint *ep);
/* Until look() finds something (then true), ms have passed or mx_wakeup() was called. */
typedef bool (*mx_look_fn)(struct mx_endpoint *ep, void *arg);
bool mx_wait_until(struct mx_endpoint *ep, uint32_t ms, mx_look_fn look, void *arg);

/* send.c: into iov, which has room for MX_MAX_SEGMENTS; their sum */
mx_return_t mx_segments(const mx_segment_t *segments, uint32_t count, struct iovec *iov, uint64_t *len);

/* handler.c */
/* The receive takes a message that was shown, or is posted. */
int mx_shown_recv(struct mx_endpoint *ep, const sn_msg *msg);
bool mx_shown_probe(struct mx_endpoint *ep, uint64_t bits, uint64_t mask, mx_status_t *status);
void mx_show(struct mx_endpoint *ep);
void mx_shown_free(struct mx_endpoint *ep);
bool mx_handling(const struct mx_endpoint *ep); /* this thread is in the endpoint's handler */

/* address.c: partners, the endpoints that an endpoint knows. Their number in the table is the cookie of the sennit peer. */
int mx_partner_add(struct mx_endpoint *ep, const void *addr, size_t len, uint64_t nic, uint32_t id,
		   uint32_t session, mx_endpoint_addr_t *out);
bool mx_partner_peer(const struct mx_endpoint *ep, mx_endpoint_addr_t addr, sn_peer *peer);
mx_endpoint_addr_t mx_partner_of(struct mx_endpoint *ep, sn_peer peer);
void mx_partners_free(const struct mx_endpoint *ep);
bool mx_addr_far(mx_endpoint_addr_t addr);

/* host.c */
void mx_host_init(void);
uint64_t mx_host_nic(void);
bool mx_host_of_nic(uint64_t nic, struct in_addr *ip);
bool mx_host_is_here(struct in_addr ip);

/* name.c */
mx_return_t mx_name_open(struct mx_endpoint *ep, uint32_t id); /* sets ep->id; MX_BUSY */
void mx_name_close(const struct mx_endpoint *ep);
/* Ask for an endpoint; the request ends with its address. */
int mx_name_ask(struct mx_request *r, uint64_t nic, uint32_t id, uint32_t key, uint32_t ms);
bool mx_name_forget(const struct mx_request *r); /* true: it will not end any more */
void mx_name_limit(const struct mx_request *r, uint32_t ms);

#endif
