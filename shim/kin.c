/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"
#include "holder.h"
#include <string.h>

/* Numbers in a row for MPICH, addresses of large things for Open MPI. */
static inline unsigned set_of(const struct call *c)
{
	uint64_t all = c->comm + 3 * c->type + 7 * (uint64_t)(unsigned)c->peer;
	return (unsigned)(all * 0x9e3779b97f4a7c15u >> 58);
}
_Static_assert(SN_KINS == 1 << (64 - 58), "the upper bits of the product");

static inline bool is_one(const struct sn_kin *k, const struct call *c)
{
	const struct call *of = &k->entry.call;
	return of->peer == c->peer && of->comm == c->comm && of->type == c->type && of->freed == c->freed &&
	       (k->tag < 0) == (c->tag < 0);
}

/* ---- memory ---- */

static __attribute__((noinline)) bool ask_for(uintptr_t region, uintptr_t *known)
{
	if (!region)
		return false;
	if (sn_gpu_is_here()) { /* what was a host's may be given back, and be a GPU's by now */
		memset(sn_mpi_thread.mine->regions, 0, sizeof(sn_mpi_thread.mine->regions));
		return false;
	}
	*known = region;
	return true;
}

/* Of a host? */
static inline bool is_hosts(uintptr_t region)
{
	uintptr_t *known = &sn_mpi_thread.mine->regions[region % SN_REGIONS];
	return likely(*known == region && region) || ask_for(region, known);
}

bool sn_kin_in_host(uintptr_t region)
{
	return sn_mpi_thread.mine ? is_hosts(region) : !sn_gpu_is_here();
}

/* ---- finding ---- */

static inline bool covers(const struct sn_kin *k, const struct call *c)
{
	return k->entry.known && is_one(k, c) && c->count >= k->least && c->count <= k->most &&
	       (c->tag == k->tag || (k->tags && c->tag <= SN_TAGS));
}

struct entry *sn_kin_find(struct sn_kin *table, const struct call *c)
{
	for (unsigned at = set_of(c), i = 0; i < SN_KIN_WAYS; i++) {
		struct sn_kin *k = &table[at ^ i];
		if (!covers(k, c))
			continue;
		if (!is_hosts(c->region))
			return NULL;
		struct entry *e = &k->entry;
		call_copy(&e->call, c);
		if (c->tag >= 0) {
			e->tag = c->tag;
			e->way.bits = k->bits ^ (uint64_t)c->tag;
			e->way.exactly = k->exactly ^ (uint64_t)c->tag;
		}
		e->way.len = k->unit * (uint64_t)c->count;
		return e;
	}
	return NULL;
}

static struct sn_kin *place(struct sn_kin *table, const struct call *c)
{
	struct sn_kin *free = NULL;
	for (unsigned at = set_of(c), i = 0; i < SN_KIN_WAYS; i++) {
		struct sn_kin *k = &table[at ^ i];
		if (k->entry.seen && is_one(k, c))
			return k;
		if (!free && !k->entry.seen)
			free = k;
	}
	if (!free)
		free = &table[set_of(c) ^ sn_mpi_thread.mine->victim++ % SN_KIN_WAYS];
	*free = (struct sn_kin){.tag = c->tag};
	free->entry.call = *c;
	return free;
}

/* ---- learning ---- */

bool sn_kin_again(struct sn_kin *table, const struct call *c)
{
	struct sn_kin *k = place(table, c);
	bool again = k->entry.seen;
	k->entry.seen = true;
	if (!again || k->moods == SN_KIN_MOODS)
		return false;
	if (k->pause > 0) {
		k->pause--;
		return false;
	}
	return true;
}

void sn_kin_watched(struct sn_kin *table, const struct call *c)
{
	struct sn_kin *k = place(table, c);
	k->pause = -sn_quick_pause(&k->vain);
}

static inline uint64_t without(uint64_t bits, int tag)
{
	return tag < 0 ? bits : bits ^ (uint64_t)tag;
}

/* What the first one has led to. */
static void begin(struct sn_kin *k, const struct entry *e)
{
	const struct call *c = &e->call;
	*k = (struct sn_kin){
		.entry = *e, .tag = c->tag, .least = c->count, .most = c->count, .moods = k->moods};
	k->entry.kin = true;
	k->unit = c->count ? e->way.len / (uint64_t)c->count : 0;
	k->bits = without(e->way.bits, c->tag);
	k->exactly = without(e->way.exactly, c->tag);
}

static bool same_way(const struct sn_kin *k, const struct entry *e)
{
	const struct sn_shim_way *a = &k->entry.way, *b = &e->way;
	return a->ep == b->ep && a->mask == b->mask && a->data == b->data && a->peer == b->peer &&
	       a->flags == b->flags && k->bits == without(b->bits, e->call.tag) &&
	       k->exactly == without(b->exactly, e->call.tag) && (e->call.tag >= 0 || e->tag == k->entry.tag);
}

void sn_kin_learn(struct sn_kin *table, const struct entry *e)
{
	const struct call *c = &e->call;
	struct sn_kin *k = place(table, c);
	bool whole = c->count > 0 ? e->way.len % (uint64_t)c->count == 0 : !e->way.len && !c->count;
	if (!whole || !is_hosts(c->region) || k->moods == SN_KIN_MOODS)
		return;
	if (!k->entry.known || (!k->unit && k->most)) {
		begin(k, e);
		return;
	}
	uint64_t unit = k->unit ? k->unit : c->count ? e->way.len / (uint64_t)c->count : 0;
	if (!same_way(k, e) || e->way.len != unit * (uint64_t)c->count) {
		k->moods++;
		begin(k, e);
		return;
	}
	k->unit = unit;
	k->tags |= c->tag != k->tag;
	k->least = c->count < k->least ? c->count : k->least;
	k->most = c->count > k->most ? c->count : k->most;
	k->pause = k->vain = 0;
}
