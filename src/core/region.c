/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions: memory that peers may access, found by key. Every access of a peer is checked here and nowhere else.
 *
 * They come and go as guests of the lock, since not all callers hold to one thread at a time there: MPICH opens its
 * domain as one thread's and locks what it sends and reads, but makes and frees windows in several threads at once,
 * beside that.
 */
#include "core/core.h"
#include <stdlib.h>

static struct sn_region **slot_of(sn_ep *ep, uint64_t key)
{
	struct sn_region **at = &ep->regions[sn_mix64(key) & (ep->region_hash_size - 1)];
	while (*at && (*at)->key != key)
		at = &(*at)->hash_next;
	return at;
}

static int table_grow(sn_ep *ep)
{
	uint32_t size = ep->region_hash_size ? ep->region_hash_size * 2 : 64;
	struct sn_region **table = calloc(size, sizeof(*table)), **old = ep->regions;
	if (!table)
		return SN_ERR_NOMEM;
	uint32_t old_size = ep->region_hash_size;
	ep->regions = table;
	ep->region_hash_size = size;
	for (uint32_t i = 0; i < old_size; i++) {
		for (struct sn_region *r = old[i], *next; r; r = next) {
			next = r->hash_next;
			r->hash_next = NULL;
			*slot_of(ep, r->key) = r;
		}
	}
	free(old);
	return 0;
}

static struct sn_region *find(sn_ep *ep, uint64_t key)
{
	return ep->region_hash_size ? *slot_of(ep, key) : NULL;
}

void *sn_core_region_resolve(sn_ep *ep, uint64_t key, uint64_t offset, uint64_t len, unsigned right,
			     int *status)
{
	struct sn_region *r = find(ep, key);
	*status = SN_ERR_ACCESS;
	if (r)
		offset -= r->start; /* below the start it wraps, and is refused as too large */
	if (!r || !(r->rights & right) || offset > r->len || len > r->len - offset) {
		ep->count.refused_access++;
		return NULL;
	}
	/* the whole address space (base NULL): an offset of 0 is the NULL pointer, never an object */
	if (len && !r->base && offset == 0) {
		*status = SN_ERR_FAULT;
		return NULL;
	}
	*status = SN_OK;
	return (void *)((uintptr_t)r->base + offset);
}

int sn_region_add(sn_ep *ep, void *base, size_t len, uint64_t key, unsigned rights, sn_region **region)
{
	if (!ep || !region)
		return sn_fail(SN_ERR_INVALID, "endpoint or region is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	if (rights & ~(unsigned)(SN_REMOTE_READ | SN_REMOTE_WRITE | SN_REMOTE_VIRTUAL))
		return sn_fail(SN_ERR_INVALID, "unknown rights %#x", rights);
	if (base && len > UINTPTR_MAX - (uintptr_t)base)
		return sn_fail(SN_ERR_INVALID, "the region wraps around the end of the address space");
	struct sn_region *r = calloc(1, sizeof(*r));
	if (!r)
		return sn_fail(SN_ERR_NOMEM, "no memory for a region");
	*r = (struct sn_region){.key = key, .base = base, .len = len, .rights = rights};
	if (rights & SN_REMOTE_VIRTUAL)
		r->start = (uintptr_t)base;
	sn_lock_guest(&ep->lock);
	int rc = 0;
	if (ep->region_count >= ep->region_hash_size)
		rc = table_grow(ep);
	if (!rc) {
		struct sn_region **at = slot_of(ep, key);
		if (*at)
			rc = sn_fail(SN_ERR_INVALID, "key %#llx already names a region",
				     (unsigned long long)key);
		else
			*at = r;
	}
	if (!rc)
		ep->region_count++;
	sn_unlock_visit(&ep->lock);
	if (rc)
		free(r);
	else
		*region = r;
	return rc;
}

int sn_region_free(sn_ep *ep, sn_region *region)
{
	if (!ep || !region)
		return sn_fail(SN_ERR_INVALID, "endpoint or region is NULL");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	sn_lock_guest(&ep->lock);
	bool found = find(ep, region->key) == region;
	if (found) {
		*slot_of(ep, region->key) = region->hash_next;
		ep->region_count--;
	}
	sn_unlock_visit(&ep->lock);
	if (!found)
		return sn_fail(SN_ERR_INVALID, "the region does not belong to this endpoint");
	free(region);
	return 0;
}

void sn_core_regions_free(sn_ep *ep)
{
	for (uint32_t i = 0; i < ep->region_hash_size; i++) {
		for (struct sn_region *r = ep->regions[i], *next; r; r = next) {
			next = r->hash_next;
			free(r);
		}
	}
	free(ep->regions);
}
