/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local rail as the core sees it: open, close, progress, counters.
 *
 * Progress. The first few links of the poll list are those that had traffic lately. They are polled first, and the
 * others if nothing came from them; so a busy pair does not pay for hundreds of idle peers, and a progress() that
 * returns 0 has looked at every ring, which a waiter that goes to sleep relies on. The others also one time in
 * OTHERS, for those that had traffic may have it all the time. And each time where ranks outnumber cores: who has
 * something to do gives the core away between two looks, so what he passes over he has in his next turn, and his
 * peers wait for it (12 ranks on two cores, MPI_Alltoall of 8 bytes: 16 turns each and 100 us; 24 us if each takes
 * what is there).
 */
#include "base/conf.h"
#include "base/log.h"
#include "copy/dsa.h"
#include "copy/kmod.h"
#include "copy/tune.h"
#include "local/local.h"
#include "local/owed.h"
#include "progress/relax.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define RECENT	     8
#define OTHERS	     16
#define CLOSE_NAP_US 1000

struct sn_list sn_rails = {&sn_rails, &sn_rails};

/* After fork, in the child: only this thread exists, the mappings are gone, the sockets are closed by the service. */
static void in_child(struct sn_fork_hook *hook)
{
	struct sn_rail *rail = sn_container(hook, struct sn_rail, fork);
	rail->forked = true;
	sn_list_del(&rail->siblings);
	rail->poll_count = 0;
	rail->wrote = NULL;
	rail->board = NULL;
	rail->waiting = NULL;
	atomic_store_explicit(&rail->has_mail, false, memory_order_relaxed);
	sn_list_init(&rail->busy);
	sn_list_init(&rail->doomed);
	sn_list_for_each (at, &rail->links)
		sn_link_forked(sn_container(at, struct sn_link, link));
	sn_conn_forked(rail);
	close(rail->board_fd);
	sn_kmod_in_child();
	sn_dsa_in_child();
	sn_probe_in_child();
}

static int local_open(struct sn_ep *ep, const struct sn_ep_ids *ids, void **out, struct sn_addr_part *part)
{
	struct sn_rail *rail = calloc(1, sizeof(*rail));
	if (!rail)
		return sn_fail(SN_ERR_NOMEM, "no memory for the local rail");
	rail->ep = ep;
	rail->ids = *ids;
	rail->fork.in_child = in_child;
	sn_heap_own(&rail->heap);
	rail->listener.fd = -1;
	sn_list_init(&rail->busy);
	sn_list_init(&rail->doomed);
	sn_list_init(&rail->links);
	sn_list_init(&rail->conns);
	sn_list_init(&rail->mails);
	sn_list_init(&rail->siblings);
	sn_tune_apply();
	rail->gives_back =
		sn_copy_gives_back() && sn_conf_origin(SN_CONF_NONTEMPORAL, NULL) <= SN_ORIGIN_MEASURED;
	int rc = sn_claim_open(rail);
	if (rc) {
		free(rail);
		return rc;
	}
	rc = sn_service_open(&rail->fork);
	if (rc) {
		sn_claim_close(rail);
		free(rail);
		return rc;
	}
	sn_service_lock();
	sn_list_add_tail(&sn_rails, &rail->siblings);
	sn_service_unlock();
	rc = sn_conn_listen(rail);
	if (rc) {
		sn_service_lock();
		sn_list_del(&rail->siblings);
		sn_service_unlock();
		sn_service_close(&rail->fork);
		sn_claim_close(rail);
		free(rail);
		return rc;
	}
	sn_kcopy_open(rail);
	sn_offload_open(rail);
	sn_show_waiting(rail);
	uint64_t host = sn_topo()->host_id;
	part->type = SN_ADDR_LOCAL;
	part->len = sizeof(host);
	memcpy(part->bytes, &host, sizeof(host));
	*out = rail;
	return 0;
}

static bool local_reaches(void *rail, const struct sn_addr_part *part)
{
	uint64_t host = sn_topo()->host_id;
	return part->type == SN_ADDR_LOCAL && part->len == sizeof(host) &&
	       !memcmp(part->bytes, &host, sizeof(host));
}

/* ---- progress ------------------------------------------------------------------------------------------------ */

/* Bring a link that had traffic among the first ones, in turn. */
static void promote(struct sn_rail *rail, uint32_t index)
{
	uint32_t to = rail->poll_swap++ % RECENT;
	struct sn_link *a = rail->poll[index], *b = rail->poll[to];
	rail->poll[to] = a;
	a->poll_index = to;
	rail->poll[index] = b;
	b->poll_index = index;
}

static inline int look(struct sn_link *link)
{
	struct sn_rx *rx = &link->rx;
	if (sn_unlikely(rx->pair))
		__builtin_prefetch(&rx->cells[(rx->head + 1) & (rx->count - 1)]);
	uint32_t mark = sn_rx_mark(rx);
	if (sn_unlikely(mark))
		return sn_recv_look(link, mark);
	rx->waited = true;
	return 0;
}

static int __attribute__((noinline)) poll_others(struct sn_rail *rail)
{
	int n = 0;
	for (uint32_t i = RECENT; i < rail->poll_count; i++) {
		int found = look(rail->poll[i]);
		if (found)
			promote(rail, i);
		n += found;
	}
	return n;
}

static inline int poll_rings(struct sn_rail *rail)
{
	int n = 0;
	uint32_t recent = SN_MIN_OF(rail->poll_count, RECENT);
	for (uint32_t i = 0; i < recent; i++)
		n += look(rail->poll[i]);
	if (sn_unlikely(rail->poll_count > RECENT) &&
	    (!n || sn_relax_crowded() || ++rail->poll_turn % OTHERS == 0))
		n += poll_others(rail);
	return n;
}

static int push_links(struct sn_rail *rail)
{
	struct sn_list now;
	int n = 0;
	sn_list_init(&now);
	/* Upcalls may make any link busy again: work on the list as it is now. */
	while (!sn_list_empty(&rail->busy)) {
		struct sn_list *at = rail->busy.next;
		sn_list_del(at);
		sn_list_add_tail(&now, at);
	}
	while (!sn_list_empty(&now)) {
		struct sn_link *link = sn_container(now.next, struct sn_link, busy);
		sn_list_del(&link->busy);
		n += sn_rdv_step(link);
		n += sn_send_push(link);
		if (!sn_list_empty(&link->messages) || !sn_list_empty(&link->controls) ||
		    !sn_list_empty(&link->sends) || !sn_list_empty(&link->reads))
			sn_link_busy(link);
	}
	return n;
}

static int local_progress(void *r)
{
	struct sn_rail *rail = r;
	int n = 0;
	if (sn_likely(rail->board != NULL)) /* in a forked child it is not there */
		sn_board_tick(rail->board);
	if (sn_unlikely(atomic_load_explicit(&rail->has_mail, memory_order_acquire)))
		n += sn_link_mail(rail);
	n += poll_rings(rail);
	if (sn_unlikely(rail->wrote != NULL) && !n && !sn_tx_prepare(&rail->wrote->tx))
		rail->wrote = NULL;
	if (!sn_list_empty(&rail->busy))
		n += push_links(rail);
	if (sn_unlikely(!sn_list_empty(&rail->doomed)))
		n += sn_link_bury(rail);
	if (sn_unlikely(rail->owes))
		sn_owed_look(rail);
	return n;
}

static int local_look(void *l)
{
	struct sn_link *link = l;
	if (sn_unlikely(!link->rx.cells || link->doom || !link->rail->board))
		return -1;
	sn_board_tick(link->rail->board);
	return look(link);
}

static bool local_busy(void *r)
{
	const struct sn_rail *rail = r;
	sn_list_for_each (at, &rail->busy) {
		const struct sn_link *link = sn_container(at, struct sn_link, busy);
		if (!sn_list_empty(&link->messages) || !sn_list_empty(&link->controls) || !sn_rdv_rests(link))
			return true;
	}
	return !sn_list_empty(&rail->doomed);
}

/* ---- close --------------------------------------------------------------------------------------------------- */

/*
 * Has every live peer got, in its ring and with the descriptor of it on its way, what was accepted? And does none write
 * into this process's memory any more?
 */
static bool flushed(struct sn_rail *rail)
{
	if (rail->shown) /* a sender is writing into a receive that it has claimed */
		return false;
	sn_list_for_each (at, &rail->links) {
		struct sn_link *link = sn_container(at, struct sn_link, link);
		if (link->state != SN_LINK_OPEN)
			continue;
		if (!sn_list_empty(&link->messages) || !sn_list_empty(&link->controls) ||
		    sn_rdv_exposed(link) || sn_share_pending(link))
			return false;
		sn_list_for_each (c, &link->conns) {
			if (sn_conn_pending(sn_container(c, struct sn_conn, owner_link)))
				return false;
		}
	}
	return true;
}

static void linger(struct sn_rail *rail)
{
	uint64_t end = sn_now_ns() + (uint64_t)sn_conf_num(SN_CONF_LINGER) * 1000000, idle = 0;
	while (!flushed(rail)) {
		if (local_progress(rail)) {
			idle = 0;
			continue;
		}
		if (sn_now_ns() >= end) {
			sn_warn("closing an endpoint: a peer did not take all data within %lld ms",
				(long long)sn_conf_num(SN_CONF_LINGER));
			return;
		}
		sn_relax_step(&idle, CLOSE_NAP_US, local_progress, rail);
	}
}

static void local_close(void *r)
{
	struct sn_rail *rail = r;
	if (rail->forked) /* the parent's: what this process has of it is memory, and goes with it */
		return;
	rail->closing = true;
	/* An announced message needs its sender's memory until it is fetched: it cannot be left behind. */
	sn_list_for_each (at, &rail->links)
		sn_send_drop(sn_container(at, struct sn_link, link), false, SN_OK);
	sn_claim_withdraw_all(rail);
	linger(rail);
	sn_conn_unlisten(rail);
	while (!sn_list_empty(&rail->links))
		sn_link_free(sn_container(rail->links.next, struct sn_link, link));
	sn_service_lock();
	sn_list_del(&rail->siblings);
	sn_service_unlock();
	sn_service_close(&rail->fork);
	sn_live_remove(rail->waiting);
	sn_claim_close(rail);
	sn_kcopy_close(rail);
	sn_offload_close(rail);
	free(rail->poll);
	free(rail);
}

static void local_counters(void *r, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	const struct sn_local_counters *c = &((const struct sn_rail *)r)->count;
	fn(arg, "local.tx_eager", c->tx_eager);
	fn(arg, "local.tx_rdv", c->tx_rdv);
	fn(arg, "local.tx_queued", c->tx_queued);
	fn(arg, "local.rx_eager", c->rx_eager);
	fn(arg, "local.rx_rdv", c->rx_rdv);
	fn(arg, "local.copy_read_bytes", c->copy_read_bytes);
	fn(arg, "local.copy_write_bytes", c->copy_write_bytes);
	fn(arg, "local.copy_stream_bytes", c->copy_stream_bytes);
	fn(arg, "local.copy_claim_bytes", c->copy_claim_bytes);
	fn(arg, "local.copy_kmod_bytes", c->copy_kmod_bytes);
	fn(arg, "local.copy_engine_bytes", c->copy_engine_bytes);
	fn(arg, "local.kmod_fallbacks", c->kmod_fallbacks);
	fn(arg, "local.copy_shared_bytes", c->copy_shared_bytes);
	fn(arg, "local.copy_mapped_bytes", c->copy_mapped_bytes);
	fn(arg, "local.bypassed", c->bypassed);
	fn(arg, "local.meshed", c->meshed);
	fn(arg, "local.moves", c->moves);
	fn(arg, "local.huge_collapsed", ((const struct sn_rail *)r)->huge.collapsed);
	fn(arg, "local.huge_refused", ((const struct sn_rail *)r)->huge.refused);
	fn(arg, "local.shared", c->shared);
	fn(arg, "local.helped", c->helped);
	fn(arg, "local.claims", c->claims);
	fn(arg, "local.refused_read", c->refused_read);
	fn(arg, "local.refused_write", c->refused_write);
	fn(arg, "local.faults", c->faults);
	fn(arg, "local.rings", c->rings);
	fn(arg, "local.system_calls", c->system_calls);
	fn(arg, "local.peers", c->peers);
	fn(arg, "local.peers_gone", c->peers_gone);
	fn(arg, "local.bad_records", c->bad_records);
	fn(arg, "local.bad_handshakes", c->bad_handshakes);
}

const struct sn_rail_ops sn_rail_local = {
	.name = "local",
	.open = local_open,
	.close = local_close,
	.reaches = local_reaches,
	.attach = sn_link_attach,
	.detach = sn_link_detach,
	.post = sn_send_post,
	.post_now = sn_send_now,
	.unpost = sn_send_unpost,
	.pull = sn_rdv_pull,
	.refuse = sn_rdv_refuse,
	.expose = sn_claim_expose,
	.brings = sn_claim_brings,
	.withdraw = sn_claim_withdraw,
	.progress = local_progress,
	.look = local_look,
	.busy = local_busy,
	.counters = local_counters,
};
