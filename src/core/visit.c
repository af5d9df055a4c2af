/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The endpoint as the progress thread sees it. The thread does everything that a look of the application would do, except
 * to call back: callbacks come in the application's own calls (sennit.h), where its queues need no lock. So while it
 * visits, completions with a callback are put off, in order, and the next look of the application delivers them.
 */
#include "core/core.h"
#include "progress/bell.h"
#include "progress/engine.h"

#define KEPT_MAX                                                                                             \
	1024 /* unexpected messages taken in while the application is away; then its peers wait in their rings */
#define ROUNDS 64 /* looks in a visit while there is always more; then other endpoints get their turn */

/* With the lock held by the visitor, or by the application: put a completion off. */
void sn_core_defer(struct sn_req *req)
{
	req->state = SN_REQ_DONE;
	sn_list_add_tail(&req->ep->deferred, &req->link);
}

int sn_core_deliver_deferred(sn_ep *ep)
{
	int n = 0;
	for (; !sn_list_empty(&ep->deferred); n++) {
		struct sn_req *req = sn_container(ep->deferred.next, struct sn_req, link);
		sn_list_del(&req->link);
		if (req->role == SN_ROLE_TARGET && ep->attr.on_target)
			ep->attr.on_target(ep->attr.arg, &req->comp);
		else if (req->role == SN_ROLE_CALLBACK)
			ep->attr.on_complete(ep->attr.arg, &req->comp);
		sn_core_req_free(req);
	}
	return n;
}

static void leave_rails(sn_ep *ep)
{
	for (uint32_t i = 0; i < ep->rail_count; i++)
		if (ep->rails[i].ops->leave)
			ep->rails[i].ops->leave(ep->rails[i].state);
}

static bool stays(const sn_ep *ep)
{
	for (uint32_t i = 0; i < ep->rail_count; i++)
		if (ep->rails[i].ops->stays && ep->rails[i].ops->stays(ep->rails[i].state))
			return true;
	return false;
}

static int visit(struct sn_engine_client *client, bool sleeps)
{
	sn_ep *ep = sn_container(client, struct sn_ep, client);
	int n = 0, all = 0;
	uint32_t calls = atomic_load_explicit(&client->calls, memory_order_relaxed);
	if (!sn_lock_visit(&ep->lock))
		return -1;
	if (calls != ep->visit_calls)
		ep->visit_kept = ep->count.unexpected;
	ep->visit_calls = calls;
	ep->visited = true;
	for (int i = 0; i < ROUNDS && ep->count.unexpected - ep->visit_kept < KEPT_MAX; i++) {
		n = sn_core_look(ep);
		all += n;
		if (!n || sn_lock_wanted(&ep->lock))
			break;
	}
	if (!n && sleeps)
		leave_rails(ep);
	ep->visited = false;
	sn_unlock_visit(&ep->lock);
	if (all) /* in case the application naps and waits for just this */
		sn_bell_ring_self();
	return all;
}

void sn_core_engine_join(sn_ep *ep)
{
	ep->client.visit = visit;
	sn_engine_join(&ep->client);
}

/*
 * Something long was posted and is under way, and the application may go away to compute. What has arrived already is
 * looked at now; what comes later wakes the thread. Of several that are not so long, posted in a row without a look,
 * the first says it, and nobody looks. SN_LEAVES_ONCE: nor does any but the first if they are long. So it is with receives from
 * another host: what has come for one may be much, and stands before whatever the application is about to post. far:
 * it may concern another host. A sender to one who is trusted to wait in a moment does not look, either: each look costs
 * two calls to the kernel, which a window of 64 KiB bodies feels (1.06 times as fast, UDP).
 */
void sn_core_leave(sn_ep *ep, uint64_t len, bool far, enum sn_leaves how)
{
	bool small = len < SN_LEAVE_MIN;
	bool said = atomic_load_explicit(&ep->client.calls, memory_order_relaxed) == ep->left_calls;
	if (said && (small || how == SN_LEAVES_ONCE))
		return;
	bool may_go = sn_engine_hint(!far);
	if (!small && !(how == SN_LEAVES_SENT && stays(ep))) {
		atomic_store_explicit(&sn_engine_habit.posting, true, memory_order_relaxed);
		sn_core_progress(ep);
		atomic_store_explicit(&sn_engine_habit.posting, false, memory_order_relaxed);
	}
	ep->left_calls = atomic_load_explicit(&ep->client.calls, memory_order_relaxed);
	leave_rails(ep);
	if (small || !may_go)
		return;
	for (uint32_t i = 0; i < ep->rail_count; i++)
		if (!ep->rails[i].ops->far && ep->rails[i].ops->busy(ep->rails[i].state))
			sn_engine_kick(true);
}
