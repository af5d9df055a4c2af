/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers and addresses. An address is
 *   0 'S' 'N'   2 version   3 length of all   4 id (8)   12 key (12)   24 parts: type (1), length (1), bytes
 * and is opaque to everybody else. A part is a way in, or the rank. Peers are never removed while the endpoint lives: their numbers stay valid.
 */
#include "core/core.h"
#include <endian.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define ADDR_VERSION 1
#define ADDR_HEAD    24

size_t sn_core_addr_build(const struct sn_ep_ids *ids, const struct sn_addr_part *parts, uint32_t count,
			  uint8_t out[SN_ADDR_MAX])
{
	size_t at = ADDR_HEAD;
	memset(out, 0, SN_ADDR_MAX);
	out[0] = 'S';
	out[1] = 'N';
	out[2] = ADDR_VERSION;
	memcpy(out + 4, &ids->id, 8);
	memcpy(out + 12, ids->key, 12);
	for (uint32_t i = 0; i < count; i++) {
		if (at + 2 + parts[i].len > SN_ADDR_MAX)
			continue; /* one of each rail fits; of further ones as many as do (docs/protocol.md) */
		out[at++] = parts[i].type;
		out[at++] = parts[i].len;
		memcpy(out + at, parts[i].bytes, parts[i].len);
		at += parts[i].len;
	}
	out[3] = (uint8_t)at;
	return at;
}

static int addr_parse(const void *addr, size_t len, struct sn_ep_ids *ids, struct sn_addr_part *parts,
		      uint32_t *count)
{
	const uint8_t *b = addr;
	if (!b || len < ADDR_HEAD || b[0] != 'S' || b[1] != 'N')
		return sn_fail(SN_ERR_INVALID, "this is not a sennit address");
	if (b[2] != ADDR_VERSION)
		return sn_fail(SN_ERR_INVALID,
			       "the address has version %u, this library speaks %d: use one version "
			       "of sennit in the whole job",
			       b[2], ADDR_VERSION);
	if (b[3] < ADDR_HEAD || b[3] > len || b[3] > SN_ADDR_MAX)
		return sn_fail(SN_ERR_INVALID, "the address is cut off (%zu bytes of %u)", len, b[3]);
	memcpy(&ids->id, b + 4, 8);
	memcpy(ids->key, b + 12, 12);
	*count = 0;
	for (size_t at = ADDR_HEAD; at < b[3];) {
		if (at + 2 > b[3] || at + 2 + b[at + 1] > b[3] || b[at + 1] > sizeof(parts->bytes) ||
		    *count == SN_PARTS)
			return sn_fail(SN_ERR_INVALID, "the address is malformed");
		struct sn_addr_part *p = &parts[(*count)++];
		p->type = b[at];
		p->len = b[at + 1];
		memcpy(p->bytes, b + at + 2, p->len);
		at += 2u + p->len;
	}
	return 0;
}

struct sn_addr_part sn_core_rank_part(int rank)
{
	struct sn_addr_part part = {.type = SN_ADDR_RANK, .len = sizeof(uint32_t)};
	uint32_t le = htole32((uint32_t)rank);

	memcpy(part.bytes, &le, sizeof(le));
	return part;
}

static int rank_of(const struct sn_addr_part *parts, uint32_t count)
{
	uint32_t le;

	for (uint32_t i = 0; i < count; i++) {
		if (parts[i].type != SN_ADDR_RANK || parts[i].len != sizeof(le))
			continue;
		memcpy(&le, parts[i].bytes, sizeof(le));
		return le32toh(le) <= INT_MAX ? (int)le32toh(le) : -1;
	}
	return -1;
}

static struct sn_peer_state *find(sn_ep *ep, uint64_t id)
{
	if (!ep->peer_hash_size)
		return NULL;
	struct sn_peer_state *p = ep->peer_hash[sn_mix64(id) & (ep->peer_hash_size - 1)];
	while (p && p->id != id)
		p = p->hash_next;
	return p;
}

static int tables_grow(sn_ep *ep)
{
	if (ep->peer_count == ep->peer_room) {
		uint32_t room = ep->peer_room ? ep->peer_room * 2 : 16;
		struct sn_peer_state **table = malloc(room * sizeof(*table));
		if (!table)
			return SN_ERR_NOMEM;
		if (ep->peer_count) {
			memcpy(table, ep->peers, ep->peer_count * sizeof(*table));
			ep->peers_before[ep->peers_grown++] = ep->peers;
		}
		atomic_store_explicit(&ep->peers, table, memory_order_release);
		ep->peer_room = room;
	}
	if (ep->peer_count < ep->peer_hash_size)
		return 0;
	uint32_t size = ep->peer_hash_size ? ep->peer_hash_size * 2 : 32;
	struct sn_peer_state **hash = calloc(size, sizeof(*hash));
	if (!hash)
		return SN_ERR_NOMEM;
	for (uint32_t i = 0; i < ep->peer_count; i++) {
		struct sn_peer_state *p = ep->peers[i], **at = &hash[sn_mix64(p->id) & (size - 1)];
		p->hash_next = *at;
		*at = p;
	}
	free(ep->peer_hash);
	ep->peer_hash = hash;
	ep->peer_hash_size = size;
	return 0;
}

/* Attach to the first rail (or to the one given) that reaches the peer by one of its address parts. */
static int attach(struct sn_peer_state *peer, const struct sn_ep_ids *ids, const struct sn_addr_part *parts,
		  uint32_t count, const void *only)
{
	sn_ep *ep = peer->ep;
	if (ids->id == ep->ids.id) {
		peer->self = true;
		peer->ops = &sn_rail_self;
		peer->link = peer;
		return 0;
	}
	for (uint32_t r = 0; r < ep->rail_count; r++) {
		if (only && only != ep->rails[r].state)
			continue;
		for (uint32_t i = 0; i < count; i++) {
			if (!ep->rails[r].ops->reaches(ep->rails[r].state, &parts[i]))
				continue;
			peer->ops = ep->rails[r].ops;
			peer->rail = ep->rails[r].state;
			peer->unmet = peer->ops->meet != NULL;
			int rc = peer->ops->attach(peer->rail, peer, ids, &parts[i], &peer->link);
			while (rc == 0 && peer->ops->also && ++i < count)
				if (peer->ops->reaches(peer->rail, &parts[i]))
					peer->ops->also(peer->link, &parts[i]);
			return rc;
		}
	}
	bool far = false, open = false;
	for (uint32_t i = 0; i < count; i++)
		far |= parts[i].type != SN_ADDR_LOCAL && parts[i].type != SN_ADDR_RANK;
	for (uint32_t r = 0; r < ep->rail_count; r++)
		open |= ep->rails[r].ops->far;
	sn_fail(SN_ERR_UNSUPPORTED,
		"no rail leads to a process on another host (or in another network namespace): %s. See "
		"`sennit "
		"doctor HOST`",
		!open  ? "no network is open here (SENNIT_NET, or no interface)"
		: !far ? "no network is open there (SENNIT_NET, or no interface)"
		       : "the network there is of another kind than here, or not reachable (SENNIT_NET)");
	sn_warn("%s", sn_last_error());
	return SN_ERR_UNSUPPORTED;
}

static int peer_make(sn_ep *ep, const void *addr, size_t len, const void *only, struct sn_peer_state **out)
{
	struct sn_ep_ids ids;
	struct sn_addr_part parts[SN_PARTS];
	uint32_t count;
	int rc = addr_parse(addr, len, &ids, parts, &count);
	if (rc)
		return rc;
	struct sn_peer_state *peer = find(ep, ids.id);
	*out = peer;
	if (peer)
		return memcmp(peer->addr + 12, ids.key, sizeof(ids.key)) == 0 && (!only || peer->rail == only)
			       ? 0
			       : sn_fail(SN_ERR_INVALID, "this address contradicts what is known of peer %u",
					 peer->num);
	if (tables_grow(ep) || !(peer = calloc(1, sizeof(*peer))))
		return sn_fail(SN_ERR_NOMEM, "no memory for another peer (%u known)", ep->peer_count);
	peer->ep = ep;
	peer->num = ep->peer_count;
	peer->id = ids.id;
	peer->rank = rank_of(parts, count);
	peer->cookie = UINT64_MAX;
	peer->addr_len = ((const uint8_t *)addr)[3];
	memcpy(peer->addr, addr, peer->addr_len);
	sn_list_init(&peer->pending_ops);
	sn_list_init(&peer->waiting);
	sn_list_init(&peer->rdvs);
	rc = attach(peer, &ids, parts, count, only);
	if (rc) {
		free(peer);
		return rc;
	}
	peer->now = peer->ops->post_now;
	ep->peers[peer->num] = peer;
	atomic_store_explicit(&ep->peer_count, peer->num + 1, memory_order_release);
	struct sn_peer_state **at = &ep->peer_hash[sn_mix64(peer->id) & (ep->peer_hash_size - 1)];
	peer->hash_next = *at;
	*at = peer;
	*out = peer;
	return 0;
}

int sn_peer_add(sn_ep *ep, const void *addr, size_t len, sn_peer *num)
{
	if (!ep || !addr || !num)
		return sn_fail(SN_ERR_INVALID, "endpoint, address or peer is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	struct sn_peer_state *peer;
	sn_lock(&ep->lock);
	int rc = peer_make(ep, addr, len, NULL, &peer);
	if (!rc)
		*num = peer->num;
	sn_unlock(&ep->lock);
	return rc;
}

struct sn_peer_state *sn_core_peer_from(sn_ep *ep, const void *rail, const void *addr, size_t len,
					void **link)
{
	struct sn_peer_state *peer;
	struct sn_ep_ids ids;
	struct sn_addr_part parts[SN_PARTS];
	uint32_t count;
	/* While closing, a peer that is known may still need an answer to take what it was sent; a new one gets none. */
	if (ep->closing && (addr_parse(addr, len, &ids, parts, &count) || !find(ep, ids.id)))
		return NULL;
	if (peer_make(ep, addr, len, rail, &peer))
		return NULL;
	*link = peer->link;
	return peer;
}

uint32_t sn_core_peer_number(const struct sn_peer_state *peer)
{
	return peer->num;
}

int sn_core_peer_rank(const struct sn_peer_state *peer)
{
	return peer->rank;
}

struct sn_peer_name sn_core_peer_name(const struct sn_peer_state *peer)
{
	struct sn_peer_name name;

	if (peer->rank >= 0)
		snprintf(name.text, sizeof(name.text), "rank %d", peer->rank);
	else
		snprintf(name.text, sizeof(name.text), "peer %u", peer->num);
	return name;
}

uint64_t sn_core_peer_kept(const struct sn_peer_state *peer)
{
	return peer->kept;
}

size_t sn_core_address(const sn_ep *ep, uint8_t out[SN_ADDR_MAX])
{
	memcpy(out, ep->addr, SN_ADDR_MAX);
	return ep->addr_len;
}

int sn_peer_address(sn_ep *ep, sn_peer num, void *addr, size_t *len)
{
	if (!ep || !len || num >= ep->peer_count)
		return sn_fail(SN_ERR_INVALID, "peer %u is not known to this endpoint", num);
	sn_lock(&ep->lock);
	const struct sn_peer_state *peer = ep->peers[num];
	size_t room = *len;
	*len = peer->addr_len;
	if (addr && room >= peer->addr_len)
		memcpy(addr, peer->addr, peer->addr_len);
	sn_unlock(&ep->lock);
	return addr && room >= *len ? 0 : sn_fail(SN_ERR_INVALID, "the address needs %zu bytes", *len);
}

int sn_peer_set_cookie(sn_ep *ep, sn_peer num, uint64_t cookie)
{
	if (!ep || num >= ep->peer_count)
		return sn_fail(SN_ERR_INVALID, "peer %u is not known to this endpoint", num);
	ep->peers[num]->cookie = cookie;
	return 0;
}

uint64_t sn_peer_cookie(sn_ep *ep, sn_peer num)
{
	return ep && num < ep->peer_count ? ep->peers[num]->cookie : UINT64_MAX;
}

int sn_peer_left(sn_ep *ep, sn_peer num)
{
	if (!ep)
		return 0;
	sn_lock(&ep->lock);
	bool left = num < ep->peer_count && ep->peers[num]->left;
	sn_unlock(&ep->lock);
	return left;
}

int sn_ep_in_vain(sn_ep *ep)
{
	const struct sn_peer_state *of = NULL;
	if (!ep)
		return sn_fail(SN_ERR_INVALID, "the endpoint is NULL");
	sn_lock(&ep->lock);
	for (uint32_t i = 0; !of && i < ep->peer_count; i++)
		if (ep->peers[i]->left &&
		    (sn_match_posted_from(ep->match[0], i) || sn_match_posted_from(ep->match[1], i)))
			of = ep->peers[i];
	sn_unlock(&ep->lock);
	return of ? sn_fail(SN_ERR_PEER_GONE,
			    "a receive is for a message of %s, which has closed its endpoint (MPI_Finalize)",
			    sn_core_peer_name(of).text)
		  : 0;
}

/*
 * The peer is gone. What it sent completely stays deliverable; what it only announced is lost; what waits for it ends.
 */
void sn_core_peer_gone(struct sn_peer_state *peer, int status)
{
	sn_ep *ep = peer->ep;
	if (peer->gone)
		return;
	peer->gone = true;
	peer->now = NULL;
	peer->left = status == 0;
	peer->gone_status = status ? status : SN_ERR_PEER_GONE;
	ep->count.peers_gone++;
	sn_list_for_each_safe (at, &peer->rdvs) {
		struct sn_claim *claim = sn_container(at, struct sn_claim, peer_link);
		sn_list_del(&claim->peer_link);
		claim->rdv = NULL;
		claim->lost = true;
	}
	while (!sn_list_empty(&peer->pending_ops))
		sn_core_req_complete(sn_container(peer->pending_ops.next, struct sn_req, link),
				     peer->gone_status);
	while (!sn_list_empty(&peer->waiting))
		sn_core_req_complete(sn_container(peer->waiting.next, struct sn_req, link),
				     peer->gone_status);
	for (int plane = 0; plane < 2 && sn_core_peer_over(peer); plane++) {
		struct sn_match_posted *p;
		while ((p = sn_match_posted_from(ep->match[plane], peer->num))) {
			struct sn_req *req = sn_container(p, struct sn_req, posted);
			if (p->shown) /* the rail has ended those that the peer had claimed: nobody holds it */
				sn_core_recv_withdraw(req);
			sn_match_remove_posted(ep->match[plane], p);
			if (p->stays)
				req->comp.flags |= SN_COMP_BUFFER_DONE;
			sn_core_req_complete(req, peer->gone_status);
		}
	}
}

void sn_core_peers_free(sn_ep *ep)
{
	for (uint32_t i = 0; i < ep->peer_count; i++)
		free(ep->peers[i]);
	free(ep->peers);
	for (unsigned i = 0; i < ep->peers_grown; i++)
		free(ep->peers_before[i]);
	free(ep->peer_hash);
}
