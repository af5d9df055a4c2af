/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: opening, closing, arrival of messages, progress, counters. */
#include "base/conf.h"
#include "base/launched.h"
#include "core/core.h"
#include "progress/caller.h"
#include "progress/relax.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

unsigned sn_fork_epoch;

static void in_child(void)
{
	sn_fork_epoch++;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

int sn_core_forked(void)
{
	return sn_fail(SN_ERR_FORKED,
		       "this endpoint belongs to the parent of process %d: open one after fork",
		       (int)getpid());
}

/* Rails in order of preference: a peer is attached to the first that reaches it. */
static const struct sn_rail_ops *const all_rails[] = {&sn_rail_local, &sn_rail_net};

static void build_address(sn_ep *ep)
{
	struct sn_addr_part parts[SN_PARTS];
	uint32_t count = 0;
	int rank = sn_launched_rank();

	for (; count < ep->rail_count; count++)
		parts[count] = ep->rails[count].part;
	for (uint32_t i = 0; i < ep->rail_count; i++)
		if (ep->rails[i].ops->more)
			count += ep->rails[i].ops->more(ep->rails[i].state, parts + count, SN_PARTS - count);
	if (rank >= 0 && count < SN_PARTS)
		parts[count++] = sn_core_rank_part(rank);
	ep->addr_len = sn_core_addr_build(&ep->ids, parts, count, ep->addr);
}

static int rails_open(sn_ep *ep)
{
	int why = SN_OK; /* of the first rail that is not available */
	char said[256] = "";
	for (size_t i = 0; i < sizeof(all_rails) / sizeof(all_rails[0]); i++) {
		uint32_t n = ep->rail_count;
		ep->rails[n].ops = all_rails[i];
		int rc = all_rails[i]->open(ep, &ep->ids, &ep->rails[n].state, &ep->rails[n].part);
		bool all_say_so =
			rc == SN_ERR_INVALID && sn_launched().rank; /* a wrong setting: the first rank's */
		if (rc == SN_ERR_UNSUPPORTED || all_say_so)	    /* switched off, or nothing to run on */
			sn_info("no %s rail: %s", all_rails[i]->name, sn_last_error());
		else if (rc)
			sn_warn("the %s rail is not available: %s", all_rails[i]->name, sn_last_error());
		else
			ep->rail_count++;
		if (rc && !why) {
			why = rc;
			snprintf(said, sizeof(said), "%s", sn_last_error());
		}
	}
	while (ep->board_rail < ep->rail_count && !ep->rails[ep->board_rail].ops->expose)
		ep->board_rail++;
	if (!ep->rail_count)
		return sn_fail(why, "%s", said);
	sn_fail_forget();
	return 0;
}

static void ep_free(sn_ep *ep)
{
	sn_core_claims_free(ep);
	sn_match_free(ep->match[0]);
	sn_match_free(ep->match[1]);
	sn_core_regions_free(ep);
	for (uint32_t s = 0; s < ep->slab_count; s++) {
		for (uint32_t i = 0; i < SN_SLAB; i++) {
			struct sn_req *req = &ep->slabs[s][i];
			if (req->state != SN_REQ_FREE && req->seg != req->inline_seg)
				free(req->seg);
		}
		free(ep->slabs[s]);
	}
	free(ep->slabs);
	sn_core_peers_free(ep);
	free(ep);
}

int sn_ep_open(const sn_ep_attr *attr, sn_ep **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, watch_forks);
	if (!out)
		return sn_fail(SN_ERR_INVALID, "there is no place for the endpoint (ep is NULL)");
	if (attr && attr->threads != SN_THREAD_SERIAL && attr->threads != SN_THREAD_MULTIPLE)
		return sn_fail(SN_ERR_INVALID, "unknown thread mode %d", (int)attr->threads);
	sn_caller_find();
	(void)sn_conf_num(SN_CONF_LOG); /* loads the settings, and with them the log level */
	sn_ep *ep = calloc(1, sizeof(*ep));
	if (!ep)
		return sn_fail(SN_ERR_NOMEM, "no memory for an endpoint");
	if (attr)
		ep->attr = *attr;
	ep->lock.enabled = ep->attr.threads == SN_THREAD_MULTIPLE;
	ep->fork_epoch = sn_fork_epoch;
	sn_list_init(&ep->done);
	sn_list_init(&ep->deferred);
	sn_list_init(&ep->early);
	sn_list_init(&ep->fetching);
	sn_random(&ep->ids, sizeof(ep->ids));
	ep->match[0] = sn_match_new();
	ep->match[1] = sn_match_new();
	if (!ep->match[0] || !ep->match[1]) {
		ep_free(ep);
		return sn_fail(SN_ERR_NOMEM, "no memory for the matching tables");
	}
	int rc = rails_open(ep);
	if (rc) {
		ep_free(ep);
		return rc;
	}
	build_address(ep);
	sn_lock_share(&ep->lock); /* for the progress thread, and for regions */
	sn_core_engine_join(ep);
	*out = ep;
	return 0;
}

int sn_ep_quiet(sn_ep *ep, int quiet)
{
	if (!ep)
		return sn_fail(SN_ERR_INVALID, "the endpoint is NULL");
	ep->quiet = quiet;
	return 0;
}

int sn_ep_patient(sn_ep *ep, int patient)
{
	if (!ep)
		return sn_fail(SN_ERR_INVALID, "the endpoint is NULL");
	ep->patient = patient;
	return 0;
}

/* With the lock held. */
static void tell_counters(sn_ep *ep, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	const struct sn_core_counters *c = &ep->count;
	fn(arg, "core.sends", c->sends);
	fn(arg, "core.receives", c->recvs);
	fn(arg, "core.unexpected", c->unexpected);
	fn(arg, "core.unexpected_rendezvous", c->unexpected_rdv);
	fn(arg, "core.fetched_early", c->fetched_early);
	fn(arg, "core.truncated", c->truncated);
	fn(arg, "core.shown", c->shown);
	fn(arg, "core.claimed", c->claimed);
	fn(arg, "core.tried_sends", c->tried_sends);
	fn(arg, "core.tried_recvs", c->tried_recvs);
	fn(arg, "core.tried_probes", c->tried_probes);
	fn(arg, "core.ahead_recvs", c->ahead_recvs);
	fn(arg, "core.handed_over", c->handed_over);
	fn(arg, "core.to_self", c->self);
	fn(arg, "core.puts", c->puts);
	fn(arg, "core.gets", c->gets);
	fn(arg, "core.atomics", c->atomics);
	fn(arg, "core.refused_access", c->refused_access);
	fn(arg, "core.bad_messages", c->bad_messages);
	fn(arg, "core.peers_gone", c->peers_gone);
	static const char *const names[2][5] = {
		{"match.posted", "match.waiting", "match.classes", "match.probes", "match.overflow"},
		{"match.plain_posted", "match.plain_waiting", "match.plain_classes", "match.plain_probes",
		 "match.plain_overflow"},
	};
	for (int plane = 0; plane < 2; plane++) {
		struct sn_match_stats s;
		sn_match_stats(ep->match[plane], &s);
		const uint64_t values[5] = {s.posted, s.unexpected, s.classes, s.probes, s.overflow};
		for (int i = 0; i < 5; i++)
			fn(arg, names[plane][i], values[i]);
	}
	sn_relax_counters(fn, arg);
	sn_engine_counters(fn, arg);
	for (uint32_t i = 0; i < ep->rail_count; i++)
		ep->rails[i].ops->counters(ep->rails[i].state, fn, arg);
}

static void print_counter(void *arg, const char *name, uint64_t value)
{
	if (value)
		fprintf(stderr, "sennit[%d] %s %llu\n", (int)getpid(), name, (unsigned long long)value);
}

static void ignore(void *arg, const sn_completion *c)
{
}

void sn_ep_close(sn_ep *ep)
{
	if (!ep ||
	    sn_core_foreign(ep)) /* the parent's: its memory and sockets are not this process's to end */
		return;
	sn_engine_leave(&ep->client);
	sn_lock(&ep->lock);
	if (sn_conf_num(SN_CONF_STATS))
		tell_counters(ep, print_counter, NULL);
	ep->closing = true;
	/* nobody is to be told of what ends now */
	if (ep->attr.on_complete)
		ep->attr.on_complete = ignore;
	ep->attr.on_target = NULL;
	for (uint32_t i = 0; i < ep->peer_count; i++) {
		struct sn_peer_state *peer = ep->peers[i];
		sn_list_for_each_safe (at, &peer->rdvs) {
			struct sn_claim *claim = sn_container(at, struct sn_claim, peer_link);
			sn_list_del(&claim->peer_link);
			peer->ops->refuse(peer->link, claim->rdv, SN_ERR_PEER_GONE);
			claim->rdv = NULL;
			claim->lost = true;
		}
	}
	for (uint32_t i = 0; i < ep->rail_count; i++)
		ep->rails[i].ops->close(ep->rails[i].state);
	sn_unlock(&ep->lock);
	ep_free(ep);
}

int sn_ep_address(const sn_ep *ep, void *addr, size_t *len)
{
	if (!ep || !len)
		return sn_fail(SN_ERR_INVALID, "endpoint or length is NULL");
	size_t room = *len;
	*len = ep->addr_len;
	if (!addr || room < ep->addr_len)
		return sn_fail(SN_ERR_INVALID, "the address needs %zu bytes, there is room for %zu",
			       ep->addr_len, addr ? room : 0);
	memcpy(addr, ep->addr, ep->addr_len);
	return 0;
}

int sn_core_arrive(struct sn_peer_state *peer, const struct sn_in *in)
{
	if (sn_unlikely(peer->ep->closing)) {
		if (in->rdv)
			peer->ops->refuse(peer->link, in->rdv, SN_ERR_PEER_GONE);
		return 0;
	}
	switch (in->head.kind) {
	case SN_K_TAGGED: return sn_core_recv_arrive(peer, in, false);
	case SN_K_PLAIN: return sn_core_recv_arrive(peer, in, true);
	case SN_K_ACK: return sn_core_ack_arrive(peer, in);
	case SN_K_RESULT: return sn_core_result_arrive(peer, in);
	case SN_K_PUT:
	case SN_K_GET:
	case SN_K_ATOMIC: return sn_core_target_arrive(peer, in);
	default:
		return sn_fail(SN_ERR_PROTO, "%s sent a message of unknown kind %u",
			       sn_core_peer_name(peer).text, in->head.kind);
	}
}

int sn_core_look(sn_ep *ep)
{
	int n = 0;
	for (uint32_t i = 0; i < ep->rail_count; i++)
		n += ep->rails[i].ops->progress(ep->rails[i].state);
	return n;
}

int sn_core_progress(sn_ep *ep)
{
	atomic_store_explicit(&ep->client.calls,
			      atomic_load_explicit(&ep->client.calls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	bool entered = sn_engine_enter();
	int n = sn_core_look(ep);
	if (sn_unlikely(!sn_list_empty(&ep->early)))
		n += sn_core_claims_early(ep);
	if (sn_unlikely(!sn_list_empty(&ep->deferred)))
		n += sn_core_deliver_deferred(ep);
	sn_engine_exit(entered);
	return n;
}

int sn_core_look_at(struct sn_peer_state *peer)
{
	sn_ep *ep = peer->ep;
	int n = peer->ops->look(peer->link);
	if (sn_unlikely(n > 0 && !(sn_list_empty(&ep->early) && sn_list_empty(&ep->deferred))))
		return sn_core_progress(ep);
	return n;
}

int sn_counters(sn_ep *ep, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	if (!ep || !fn)
		return sn_fail(SN_ERR_INVALID, "endpoint or function is NULL");
	sn_lock(&ep->lock); /* the progress thread counts too, and a network rail is entered to read its counters */
	tell_counters(ep, fn, arg);
	sn_unlock(&ep->lock);
	return 0;
}
