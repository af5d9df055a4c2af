/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving messages, and waiting until something has come of it. */
#include "mx.h"
#include "progress/relax.h"

_Thread_local const struct mx_endpoint *mx_waits_on;

int mx_move(struct mx_endpoint *ep)
{
	if (sn_unlikely(atomic_load_explicit(&ep->stopped, memory_order_relaxed)))
		return 0;
	int n = sn_progress(ep->sn);
	if (sn_unlikely(atomic_load_explicit(&ep->shows, memory_order_relaxed)))
		mx_show(ep);
	return n;
}

struct wait {
	struct mx_endpoint *ep;
	mx_look_fn look;
	void *arg;
	bool found,
		over; /* over: the endpoint is not this process's any more (fork), and nothing will come */
};

static int wait_poll(void *arg)
{
	struct wait *w = arg;
	int n = mx_move(w->ep);
	w->found = w->look(w->ep, w->arg);
	w->over = n < 0;
	return n > 0 || w->found || w->over;
}

/* Longest sleep. Every event rings; the limit only bounds the harm of a lost ring. */
#define NAP_US 100000u

bool mx_wait_until(struct mx_endpoint *ep, uint32_t ms, mx_look_fn look, void *arg)
{
	struct wait w = {.ep = ep, .look = look, .arg = arg};
	uint32_t wakeups = atomic_load(&ep->wakeups);
	uint64_t idle = 0, now = ms == MX_INFINITE ? 0 : sn_now_ns();
	uint64_t end = ms == MX_INFINITE ? UINT64_MAX : now + ms * UINT64_C(1000000);
	const struct mx_endpoint *before = mx_waits_on;
	if (wait_poll(&w) && w.found)
		return true;
	mx_waits_on = ep;
	atomic_fetch_add(&ep->waiters, 1);
	while (!w.found && !w.over && now < end && atomic_load(&ep->wakeups) == wakeups) {
		unsigned nap = end == UINT64_MAX
				       ? NAP_US
				       : (unsigned)SN_MIN_OF((end - now) / 1000 + 1, (uint64_t)NAP_US);
		sn_relax_step(&idle, nap, wait_poll, &w);
		if (end != UINT64_MAX && !w.found)
			now = sn_now_ns();
	}
	atomic_fetch_sub(&ep->waiters, 1);
	mx_waits_on = before;
	return w.found;
}
