/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking for completions and waiting for them. */
#include "core/core.h"
#include "progress/bell.h"
#include "progress/engine.h"
#include "progress/relax.h"

int sn_progress(sn_ep *ep)
{
	if (sn_unlikely(!ep))
		return sn_fail(SN_ERR_INVALID, "the endpoint is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	sn_lock(&ep->lock);
	int n = sn_core_progress(ep);
	sn_unlock(&ep->lock);
	return n;
}

int sn_poll(sn_ep *ep, sn_completion *c, int max)
{
	if (sn_unlikely(!ep || (!c && max > 0)))
		return sn_fail(SN_ERR_INVALID, "endpoint or completion array is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	int n = 0;
	sn_lock(&ep->lock);
	if (sn_list_empty(&ep->done))
		sn_core_progress(ep);
	while (n < max && !sn_list_empty(&ep->done)) {
		struct sn_req *req = sn_container(ep->done.next, struct sn_req, link);
		sn_list_del(&req->link);
		c[n++] = req->comp;
		sn_core_req_free(req);
	}
	sn_unlock(&ep->lock);
	return n;
}

static inline int take(struct sn_req *req, sn_completion *c)
{
	if (req->state != SN_REQ_DONE)
		return SN_ERR_AGAIN;
	if (c)
		*c = req->comp;
	sn_core_req_free(req);
	return SN_OK;
}

/* 0 with the endpoint's lock held: the progress thread may be completing the request at this moment. */
static int lock_waitable(sn_ep *ep, const sn_req *req)
{
	int rc = 0;
	if (sn_unlikely(!ep || !req))
		return sn_fail(SN_ERR_INVALID, "endpoint or request is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	sn_lock(&ep->lock);
	if (sn_unlikely(req->ep != ep || req->state == SN_REQ_FREE))
		rc = sn_fail(SN_ERR_INVALID,
			     "the request is not one of this endpoint, or was already completed");
	else if (sn_unlikely(req->role != SN_ROLE_HANDLE))
		rc = sn_fail(SN_ERR_INVALID,
			     "the request completes by callback or sn_poll, not by test or wait");
	if (sn_unlikely(rc))
		sn_unlock(&ep->lock);
	return rc;
}

int sn_test(sn_ep *ep, sn_req *req, sn_completion *c)
{
	int rc = lock_waitable(ep, req);
	if (sn_unlikely(rc))
		return rc;
	rc = take(req, c);
	if (rc == SN_ERR_AGAIN) {
		sn_core_progress(ep);
		rc = take(req, c);
	}
	sn_unlock(&ep->lock);
	return rc;
}

struct waiting {
	sn_ep *ep;
	struct sn_req *req;
};

/* One look, also as the last look before sleeping: anything that moved is a reason to stay awake. */
static int waiting_poll(void *arg)
{
	struct waiting *w = arg;
	sn_lock(&w->ep->lock);
	int n = sn_core_progress(w->ep);
	n += w->req->state == SN_REQ_DONE;
	sn_unlock(&w->ep->lock);
	return n;
}

/* Longest sleep of a waiter. Every event rings the bell; the limit only bounds the harm of a lost ring. */
#define WAIT_NAP_US 100000

/* Looks between two steps of the waiting policy, each of which reads the clock: that costs as much as a few looks. */
#define LOOKS 16

int sn_wait(sn_ep *ep, sn_req *req, sn_completion *c, int64_t timeout_us)
{
	int rc = lock_waitable(ep, req);
	if (sn_unlikely(rc))
		return rc;
	struct waiting w = {ep, req};
	rc = take(req, c); /* an eager send is done before anybody waits for it */
	sn_unlock(&ep->lock);
	if (rc != SN_ERR_AGAIN)
		return rc;
	sn_engine_stay(); /* not only after the first looks: peers would wake the thread for what this looks for */
	uint64_t idle = 0, end = timeout_us < 0 ? UINT64_MAX : sn_now_ns() + (uint64_t)timeout_us * 1000;
	for (;;) {
		int moved = 0;
		for (int i = 0; i < LOOKS && !moved; i++) {
			sn_lock(&ep->lock);
			moved = sn_core_progress(ep);
			rc = take(req, c);
			sn_unlock(&ep->lock);
			if (rc != SN_ERR_AGAIN)
				return rc;
		}
		if (moved) {
			idle = 0;
			continue;
		}
		uint64_t nap = WAIT_NAP_US;
		if (end != UINT64_MAX) {
			uint64_t now = sn_now_ns();
			if (now >= end)
				return sn_fail(SN_ERR_TIMEOUT, "the request is not done after %lld us",
					       (long long)timeout_us);
			nap = SN_MIN_OF(nap, (end - now) / 1000 + 1);
		}
		atomic_fetch_add_explicit(&ep->sleepers, ep->lock.enabled, memory_order_relaxed);
		sn_relax_step(&idle, (unsigned)nap, waiting_poll, &w);
		atomic_fetch_sub_explicit(&ep->sleepers, ep->lock.enabled, memory_order_relaxed);
	}
}

struct relaxing {
	sn_ep *const *eps;
	unsigned count;
};

static int relaxing_poll(void *arg)
{
	const struct relaxing *r = arg;
	int n = 0;
	for (unsigned i = 0; i < r->count; i++) {
		int got = sn_progress(r->eps[i]);
		n += got > 0 ? got : 0;
	}
	return n;
}

void sn_relax(sn_ep *const *eps, unsigned count, uint64_t *idle, unsigned max_nap_us)
{
	struct relaxing r = {eps, count};
	if (eps && idle)
		sn_relax_polled(idle, max_nap_us, relaxing_poll, &r);
}

int sn_relax_wait(sn_ep *const *eps, unsigned count, uint64_t *idle, unsigned max_nap_us)
{
	struct relaxing r = {eps, count};
	if (!eps || !idle)
		return sn_fail(SN_ERR_INVALID, "the endpoints, or where their caller remembers, are NULL");
	return sn_relax_step(idle, max_nap_us, relaxing_poll, &r);
}

void sn_relax_wake(void)
{
	sn_bell_ring_self();
}
