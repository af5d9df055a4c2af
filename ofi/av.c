/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address vectors. An fi_addr_t is the slot of the address, for FI_AV_MAP as for FI_AV_TABLE. Peers are made known to an
 * endpoint when it first uses their slot, so that a vector of thousands costs an endpoint only what it talks to.
 *
 * The way back, from peer to fi_addr_t, is asked for by fi_cq_readfrom only. A message from somebody in the vector to
 * whom this endpoint never sent finds no number; then the slots inserted since the last such look are resolved, once.
 */
#include "ofi.h"

#include <stdlib.h>

/* ---- slots, with the vector's lock held ---- */

static int slots_grow(struct sn_ofi_av *av)
{
	size_t room = av->room ? 2 * av->room : 64;
	struct sn_ofi_slot *slots = realloc(av->slots, room * sizeof(*slots));

	if (!slots)
		return -FI_ENOMEM;
	av->slots = slots;
	av->room = room;
	return 0;
}

static int slot_new(struct sn_ofi_av *av, const uint8_t *addr, fi_addr_t *out)
{
	while (av->free_hint < av->count && av->slots[av->free_hint].used)
		av->free_hint++;
	if (av->free_hint == av->room && slots_grow(av))
		return -FI_ENOMEM;
	*out = av->free_hint++;
	if (*out == av->count)
		av->count++;
	memcpy(av->slots[*out].addr, addr, SN_ADDR_MAX);
	av->slots[*out].used = true;
	av->changes++;
	return 0;
}

/* ---- what an endpoint knows ---- */

/* Make room in the endpoint's table; readers in other threads see the old table or the new one, both valid. */
static struct sn_ofi_peers *peers_grow(struct sn_ofi_ep *ep, size_t want)
{
	struct sn_ofi_peers *old = atomic_load(&ep->peers), *t;
	size_t count = SN_MAX_OF(2 * old->count, SN_MAX_OF(want, (size_t)64));

	t = malloc(sizeof(*t) + count * sizeof(t->peer[0]));
	if (!t)
		return NULL;
	t->older = old;
	t->count = count;
	for (size_t i = 0; i < count; i++)
		atomic_init(&t->peer[i], i < old->count ? atomic_load(&old->peer[i]) : SN_ANY_PEER);
	atomic_store_explicit(&ep->peers, t, memory_order_release);
	return t;
}

static int source_set(struct sn_ofi_ep *ep, sn_peer peer, fi_addr_t addr)
{
	if (peer >= ep->source_room) {
		size_t room = SN_MAX_OF(2 * ep->source_room, (size_t)peer + 64);
		fi_addr_t *sources = realloc(ep->sources, room * sizeof(*sources));
		if (!sources)
			return -FI_ENOMEM;
		for (size_t i = ep->source_room; i < room; i++)
			sources[i] = FI_ADDR_NOTAVAIL;
		ep->sources = sources;
		ep->source_room = room;
	}
	ep->sources[peer] = addr;
	return 0;
}

static int resolve(struct sn_ofi_ep *ep, fi_addr_t addr, sn_peer *peer)
{
	struct sn_ofi_av *av = ep->av;
	struct sn_ofi_peers *t = atomic_load(&ep->peers);
	int rc;

	if (addr >= av->count || !av->slots[addr].used)
		return -FI_EINVAL;
	rc = sn_peer_add(ep->sn, av->slots[addr].addr, SN_ADDR_MAX, peer);
	if (rc)
		return -sn_ofi_error(rc);
	if (addr >= t->count)
		t = peers_grow(ep, addr + 1);
	if (!t || source_set(ep, *peer, addr))
		return -FI_ENOMEM;
	atomic_store_explicit(&t->peer[addr], *peer, memory_order_relaxed);
	return 0;
}

int sn_ofi_av_resolve(struct sn_ofi_ep *ep, fi_addr_t addr, sn_peer *peer)
{
	int rc;

	if (!ep->av) /* not enabled yet */
		return -FI_EOPBADSTATE;
	sn_lock(&ep->av->lock);
	rc = resolve(ep, addr, peer);
	sn_unlock(&ep->av->lock);
	return rc;
}

fi_addr_t sn_ofi_av_source(struct sn_ofi_ep *ep, sn_peer peer)
{
	struct sn_ofi_av *av = ep->av;
	fi_addr_t addr = FI_ADDR_NOTAVAIL;
	sn_peer ignored;

	if (!av || peer == SN_ANY_PEER)
		return addr;
	sn_lock(&av->lock);
	if (peer < ep->source_room)
		addr = ep->sources[peer];
	if (addr == FI_ADDR_NOTAVAIL && ep->sources_known != av->changes) {
		for (fi_addr_t i = 0; i < av->count; i++)
			if (av->slots[i].used) /* slots that cannot be reached stay without a peer */
				(void)resolve(ep, i, &ignored);
		ep->sources_known = av->changes;
		if (peer < ep->source_room)
			addr = ep->sources[peer];
	}
	sn_unlock(&av->lock);
	return addr;
}

void sn_ofi_peers_free(struct sn_ofi_ep *ep)
{
	for (struct sn_ofi_peers *t = atomic_load(&ep->peers), *older; t; t = older) {
		older = t->older;
		free(t);
	}
	free(ep->sources);
}

void sn_ofi_av_attach(struct sn_ofi_av *av, struct sn_ofi_ep *ep)
{
	sn_lock(&av->lock);
	sn_list_add_tail(&av->eps, &ep->in_av);
	ep->av = av;
	sn_unlock(&av->lock);
}

void sn_ofi_av_detach(struct sn_ofi_ep *ep)
{
	struct sn_ofi_av *av = ep->av;

	if (!av)
		return;
	sn_lock(&av->lock);
	sn_list_del(&ep->in_av);
	ep->av = NULL;
	sn_unlock(&av->lock);
}

/* ---- libfabric's calls ---- */

static bool addr_valid(const uint8_t *addr)
{
	return addr[0] == 'S' && addr[1] == 'N'; /* the engine checks the rest when the peer is used */
}

/* Which flags an insertion may carry; errors go one by one to `context` with FI_SYNC_ERR. */
#define INSERT_FLAGS (FI_MORE | FI_SYNC_ERR)

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags,
		     void *context)
{
	struct sn_ofi_av *av = sn_container(fid, struct sn_ofi_av, fid);
	int *errors = flags & FI_SYNC_ERR ? context : NULL;
	int done = 0;

	if (flags & ~INSERT_FLAGS || (flags & FI_SYNC_ERR && (!context || av->events)))
		return -FI_EBADFLAGS;
	if (av->events && !av->eq)
		return -FI_ENOEQ;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *a = (const uint8_t *)addr + i * SN_ADDR_MAX;
		fi_addr_t at = FI_ADDR_NOTAVAIL;
		int rc = addr_valid(a) ? 0 : -FI_EINVAL;
		if (!rc) {
			sn_lock(&av->lock);
			rc = slot_new(av, a, &at);
			sn_unlock(&av->lock);
			sn_ofi_start_over(a);
		}
		if (fi_addr)
			fi_addr[i] = at;
		if (errors)
			errors[i] = -rc;
		if (rc && av->events)
			sn_ofi_eq_report(av->eq, FI_AV_COMPLETE, &av->fid.fid, context, i, -rc);
		done += !rc;
	}
	if (!av->events)
		return done;
	return sn_ofi_eq_report(av->eq, FI_AV_COMPLETE, &av->fid.fid, context, (uint64_t)done, 0);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr,
			uint64_t flags, void *context)
{
	uint8_t addr[SN_ADDR_MAX];

	if (!node || !sn_ofi_addr_parse(node, addr)) /* only the text form of an address names an endpoint */
		return -FI_EINVAL;
	return av_insert(fid, addr, 1, fi_addr, flags, context);
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
			size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return -FI_ENOSYS; /* addresses are random: there is no next one */
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct sn_ofi_av *av = sn_container(fid, struct sn_ofi_av, fid);
	int rc = 0;

	sn_lock(&av->lock);
	for (size_t i = 0; i < count; i++) {
		fi_addr_t a = fi_addr[i];
		if (a >= av->count || !av->slots[a].used) {
			rc = -FI_EINVAL;
			continue;
		}
		av->slots[a].used = false;
		av->free_hint = SN_MIN_OF(av->free_hint, a);
		sn_list_for_each (pos, &av->eps) {
			struct sn_ofi_ep *ep = sn_container(pos, struct sn_ofi_ep, in_av);
			struct sn_ofi_peers *t = atomic_load(&ep->peers);
			sn_peer p = a < t->count ? atomic_exchange(&t->peer[a], SN_ANY_PEER) : SN_ANY_PEER;
			if (p != SN_ANY_PEER && ep->sources[p] == a)
				ep->sources[p] = FI_ADDR_NOTAVAIL;
		}
	}
	sn_unlock(&av->lock);
	return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	struct sn_ofi_av *av = sn_container(fid, struct sn_ofi_av, fid);
	int rc = -FI_EINVAL;

	sn_lock(&av->lock);
	if (fi_addr < av->count && av->slots[fi_addr].used) {
		memcpy(addr, av->slots[fi_addr].addr, SN_MIN_OF(*addrlen, (size_t)SN_ADDR_MAX));
		*addrlen = SN_ADDR_MAX;
		rc = 0;
	}
	sn_unlock(&av->lock);
	return rc;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	return sn_ofi_addr_print(addr, buf, len);
}

static int av_close(struct fid *fid)
{
	struct sn_ofi_av *av = sn_container(fid, struct sn_ofi_av, fid.fid);

	if (!sn_list_empty(&av->eps))
		return -FI_EBUSY;
	if (av->eq)
		sn_ofi_eq_hold(av->eq, -1);
	sn_ofi_domain_put(av->domain);
	free(av->slots);
	free(av);
	return 0;
}

static int av_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct sn_ofi_av *av = sn_container(fid, struct sn_ofi_av, fid.fid);

	if (other->fclass != FI_CLASS_EQ || av->eq || flags)
		return -FI_EINVAL;
	av->eq = (struct sn_ofi_eq *)other;
	sn_ofi_eq_hold(av->eq, 1);
	return 0;
}

static struct fi_ops av_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = av_bind,
	.control = sn_ofi_no_control,
	.ops_open = sn_ofi_no_ops_open,
};

/* The size says that what later releases added (authentication keys, user ids) is absent. */
static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.insertsvc = av_insertsvc,
	.insertsym = av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
};

int sn_ofi_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
	struct sn_ofi_domain *domain = sn_container(fid, struct sn_ofi_domain, fid);
	struct sn_ofi_av *av;

	if (!attr)
		return -FI_EINVAL;
	if (attr->name || attr->rx_ctx_bits) /* shared vectors and scalable endpoints are not offered */
		return -FI_ENOSYS;
	if (attr->flags & ~(FI_EVENT | FI_SYMMETRIC | FI_UNIVERSE))
		return -FI_EBADFLAGS;
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	av = calloc(1, sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	av->fid.fid = (struct fid){.fclass = FI_CLASS_AV, .context = context, .ops = &av_fid_ops};
	av->fid.ops = &av_ops;
	av->domain = domain;
	av->lock.enabled = !domain->serial;
	av->events = attr->flags & FI_EVENT;
	sn_list_init(&av->eps);
	atomic_fetch_add(&domain->refs, 1);
	*out = &av->fid;
	return 0;
}
