/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tuple space search over classes of masks; see match.h for the idea.
 *
 * A group is one key of a class (masked bits, source or any) with the FIFO of the receives posted under it and the FIFO
 * of the unexpected messages that such a receive would take. The groups used lately have a place in a small table of the
 * class, by their keys, and stay there when they are empty: programs use the same few keys again and again. Whoever needs
 * that place for another key takes an empty one as it is, so that keys which are never the same twice cost no more; one
 * that is not empty goes to the class's hash table, and is given back when it is.
 *
 * Invariants, on which the answers rest:
 *  - every waiting message is linked, in every class, into the group of its key there; so the head of a group's message
 *    FIFO is the earliest message that a receive with that key matches;
 *  - every posted receive of a class stands in the group of its key, the others stand in `linear`; both in order of
 *    posting. The earliest receive that a message matches is thus the head of its group in some class, or the first
 *    hit of the linear list; serial numbers decide among these.
 *
 * Budget: arrive, one group comparison (a few more when keys share a bucket; tables stay at most half full) for each
 * class that has posted receives. find, one. No allocation once tables and pools have grown to the program's needs.
 */
#include "base/log.h"
#include "match/again.h"
#include "sennit/sennit.h"
#include <stdlib.h>

#define FIRST_BUCKETS 64u
#define FIRST_SLAB    64u
#define LARGEST_SLAB  65536u

struct sn_match_slab {
	struct sn_match_slab *next;
	struct sn_match_group groups[];
};

struct sn_match *sn_match_new(void)
{
	struct sn_match *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	sn_list_init(&m->busy);
	sn_random(&m->seed, sizeof m->seed);
	m->next_slab = FIRST_SLAB;
	return m;
}

void sn_match_free(struct sn_match *m)
{
	if (!m)
		return;
	for (unsigned i = 0; i < m->class_count; i++)
		free(m->classes[i].buckets);
	while (m->slabs) {
		struct sn_match_slab *s = m->slabs;
		m->slabs = s->next;
		free(s);
	}
	free(m);
}

/* ---- groups ---- */

static struct sn_match_group **bucket_of(const struct sn_match *m, const struct sn_match_class *c,
					 uint64_t key, uint32_t source)
{
	uint64_t h = sn_mix64((key ^ m->seed) + source * 0x9e3779b97f4a7c15u);
	return &c->buckets[h & c->bucket_mask];
}

static inline bool is_of(const struct sn_match_group *g, uint64_t key, uint32_t source)
{
	return g->key == key && g->source == source;
}

static struct sn_match_group *bucket_find(struct sn_match *m, const struct sn_match_class *c, uint64_t key,
					  uint32_t source)
{
	struct sn_match_group *g = c->groups ? *bucket_of(m, c, key, source) : NULL;
	for (; g; g = g->chain) {
		m->stats.probes++;
		if (is_of(g, key, source))
			return g;
	}
	return NULL;
}

static struct sn_match_group *group_find(struct sn_match *m, const struct sn_match_class *c, uint64_t key,
					 uint32_t source)
{
	struct sn_match_group *recent = c->recent[sn_match_recent(key, source)];
	if (recent && is_of(recent, key, source)) {
		m->stats.probes++;
		return recent;
	}
	return bucket_find(m, c, key, source);
}

/* Twice the buckets. Without memory for them the chains just grow longer. */
static void class_grow(struct sn_match *m, struct sn_match_class *c)
{
	uint64_t old_count = c->bucket_mask + 1;
	struct sn_match_group **old = c->buckets;
	struct sn_match_group **wider = calloc(old_count * 2, sizeof(struct sn_match_group *));
	if (!wider)
		return;
	c->buckets = wider;
	c->bucket_mask = old_count * 2 - 1;
	for (uint64_t i = 0; i < old_count; i++) {
		while (old[i]) {
			struct sn_match_group *g = old[i];
			old[i] = g->chain;
			struct sn_match_group **b = bucket_of(m, c, g->key, g->source);
			g->chain = *b;
			*b = g;
		}
	}
	free(old);
}

static void bucket_add(struct sn_match *m, struct sn_match_class *c, struct sn_match_group *g)
{
	if (c->groups * 2 > c->bucket_mask)
		class_grow(m, c);
	struct sn_match_group **b = bucket_of(m, c, g->key, g->source);
	g->chain = *b;
	*b = g;
	c->groups++;
}

static void bucket_del(struct sn_match *m, struct sn_match_class *c, const struct sn_match_group *g)
{
	struct sn_match_group **at = bucket_of(m, c, g->key, g->source);
	while (*at != g)
		at = &(*at)->chain;
	*at = g->chain;
	c->groups--;
}

static void pool_refill(struct sn_match *m)
{
	struct sn_match_slab *s = malloc(sizeof *s + m->next_slab * sizeof(struct sn_match_group));
	if (!s)
		return;
	s->next = m->slabs;
	m->slabs = s;
	for (uint32_t i = 0; i < m->next_slab; i++) {
		s->groups[i].chain = m->free_groups;
		m->free_groups = &s->groups[i];
	}
	m->next_slab = SN_MIN_OF(m->next_slab * 2, LARGEST_SLAB);
}

static struct sn_match_group *pool_get(struct sn_match *m, unsigned class)
{
	if (!m->free_groups)
		pool_refill(m);
	struct sn_match_group *g = m->free_groups;
	if (!g)
		return NULL;
	m->free_groups = g->chain;
	*g = (struct sn_match_group){.class = class};
	sn_list_init(&g->busy);
	m->stats.groups++;
	return g;
}

static void pool_put(struct sn_match *m, struct sn_match_group *g)
{
	sn_list_del(&g->busy);
	g->chain = m->free_groups;
	m->free_groups = g;
	m->stats.groups--;
}

/* An entry of it is gone. If it was the last one, it is given back unless it is among those used lately. */
static void group_put(struct sn_match *m, struct sn_match_group *g)
{
	struct sn_match_class *c = &m->classes[g->class];
	if (!sn_match_is_empty(g) || c->recent[sn_match_recent(g->key, g->source)] == g)
		return;
	bucket_del(m, c, g);
	pool_put(m, g);
}

/*
 * The group of this key, made if there is none; NULL when memory is short. It takes the place of the one that was used
 * before it, and if that is empty, that is the one.
 */
static struct sn_match_group *group_get(struct sn_match *m, unsigned class, uint64_t key, uint32_t source)
{
	struct sn_match_class *c = &m->classes[class];
	struct sn_match_group **recent = &c->recent[sn_match_recent(key, source)], *before = *recent;
	if (before && is_of(before, key, source))
		return before;
	struct sn_match_group *g = bucket_find(m, c, key, source);
	bool spare = before && sn_match_is_empty(before);
	if (!g && spare) {
		g = before;
	} else {
		if (g)
			bucket_del(m, c, g);
		else if (!(g = pool_get(m, class)))
			return NULL;
		if (spare)
			pool_put(m, before);
		else if (before)
			bucket_add(m, c, before);
	}
	g->key = key;
	g->source = source;
	*recent = g;
	return g;
}

/* ---- a waiting message's place in one class ---- */

static bool link_add(struct sn_match *m, unsigned class, struct sn_match_unexpected *u)
{
	const struct sn_match_class *c = &m->classes[class];
	struct sn_match_group *g = group_get(m, class, u->bits & c->mask, c->any ? SN_MATCH_ANY : u->source);
	if (!g)
		return false;
	struct sn_match_link *l = &u->links[class];
	*l = (struct sn_match_link){.group = g, .prev = g->link_tail, .owner = u};
	if (g->link_tail)
		g->link_tail->next = l;
	else
		g->link_head = l;
	g->link_tail = l;
	return true;
}

static void link_del(struct sn_match *m, unsigned class, struct sn_match_unexpected *u)
{
	struct sn_match_link *l = &u->links[class];
	struct sn_match_group *g = l->group;
	if (l->prev)
		l->prev->next = l->next;
	else
		g->link_head = l->next;
	if (l->next)
		l->next->prev = l->prev;
	else
		g->link_tail = l->prev;
	l->group = NULL;
	group_put(m, g);
}

/* ---- classes ---- */

static int class_find(const struct sn_match *m, uint64_t mask, bool any)
{
	for (unsigned i = 0; i < m->class_count; i++)
		if (m->classes[i].mask == mask && m->classes[i].any == any)
			return (int)i;
	return -1;
}

/* A new class, with every waiting message linked into it. SN_ERR_NOMEM: nothing has changed. */
static int class_add(struct sn_match *m, uint64_t mask, bool any)
{
	unsigned class = m->class_count;
	struct sn_match_class *c = &m->classes[class];
	*c = (struct sn_match_class){.mask = mask, .any = any, .bucket_mask = FIRST_BUCKETS - 1};
	c->buckets = calloc(FIRST_BUCKETS, sizeof(struct sn_match_group *));
	if (!c->buckets)
		return SN_ERR_NOMEM;
	for (struct sn_match_unexpected *u = m->waiting_head; u; u = u->next) {
		if (link_add(m, class, u))
			continue;
		for (u = u->prev; u; u = u->prev)
			link_del(m, class, u);
		for (unsigned i = 0; i < SN_MATCH_RECENT; i++)
			if (c->recent[i])
				pool_put(m, c->recent[i]); /* the class will not be */
		memset(c->recent, 0, sizeof(c->recent));
		free(c->buckets);
		return SN_ERR_NOMEM;
	}
	m->class_count++;
	m->stats.classes++;
	return (int)class;
}

/* ---- receives ---- */

static bool matches(uint64_t want, uint64_t mask, uint32_t from, uint64_t bits, uint32_t source)
{
	return (bits & mask) == want && (from == SN_MATCH_ANY || from == source);
}

struct sn_match_unexpected *sn_match_find(struct sn_match *m, uint64_t bits, uint64_t mask, uint32_t source)
{
	if (!m->waiting_head)
		return NULL;
	bool any = source == SN_MATCH_ANY;
	int class = class_find(m, mask, any);
	if (class < 0 && m->class_count < SN_MATCH_CLASSES)
		class = class_add(m, mask, any);
	if (class >= 0) {
		struct sn_match_group *g = group_find(m, &m->classes[class], bits, source);
		return g && g->link_head ? g->link_head->owner : NULL;
	}
	/* No class is free, or no memory for one: look at each message. */
	for (struct sn_match_unexpected *u = m->waiting_head; u; u = u->next) {
		m->stats.probes++;
		if (matches(bits, mask, source, u->bits, u->source))
			return u;
	}
	return NULL;
}

static void linear_add(struct sn_match *m, struct sn_match_posted *p)
{
	p->group = NULL;
	p->prev = m->linear_tail;
	if (m->linear_tail)
		m->linear_tail->next = p;
	else
		m->linear_head = p;
	m->linear_tail = p;
	m->stats.overflow++;
}

int sn_match_post(struct sn_match *m, struct sn_match_posted *p)
{
	bool any = p->source == SN_MATCH_ANY;
	int class = class_find(m, p->mask, any);
	if (class < 0 && m->class_count < SN_MATCH_CLASSES) {
		class = class_add(m, p->mask, any);
		if (class < 0)
			return sn_fail(SN_ERR_NOMEM, "no memory to index receives by a new mask");
	}
	p->next = NULL;
	p->shown = false;
	if (class < 0) {
		linear_add(m, p);
	} else {
		struct sn_match_group *g = group_get(m, (unsigned)class, p->bits, p->source);
		if (!g)
			return sn_fail(SN_ERR_NOMEM, "no memory to queue a receive");
		sn_match_group_add(m, g, p);
		m->last_class = (unsigned)class;
	}
	sn_match_posted_now(m, p);
	return 0;
}

bool sn_match_hidden_before(struct sn_match *m, const struct sn_match_posted *p)
{
	if (m->linear_head)
		return true;
	bool any = p->source == SN_MATCH_ANY;
	for (unsigned i = 0; i < m->class_count; i++) {
		const struct sn_match_class *c = &m->classes[i];
		bool own = p->group->class == i;
		if (c->posted - c->shown == (own && !p->shown))
			continue;
		/* under another mask, or from some source while p takes any: no key to look up */
		if (c->mask != p->mask || (any && !c->any))
			return true;
		const struct sn_match_group *g = own ? p->group : group_find(m, c, p->bits, SN_MATCH_ANY);
		if (g && g->posted - g->shown != (own && !p->shown))
			return true;
	}
	return false;
}

void sn_match_show(struct sn_match *m, struct sn_match_posted *p)
{
	p->shown = true;
	p->group->shown++;
	m->classes[p->group->class].shown++;
}

void sn_match_remove_posted(struct sn_match *m, struct sn_match_posted *p)
{
	struct sn_match_group *g = p->group;
	if (!p->queued)
		return;
	if (p->prev)
		p->prev->next = p->next;
	else if (g)
		g->posted_head = p->next;
	else
		m->linear_head = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else if (g)
		g->posted_tail = p->prev;
	else
		m->linear_tail = p->prev;
	p->queued = false;
	m->stats.posted--;
	if (!g)
		return;
	struct sn_match_class *c = &m->classes[g->class];
	c->posted--;
	g->posted--;
	if (sn_unlikely(p->shown)) {
		c->shown--;
		g->shown--;
	}
	group_put(m, g);
}

struct sn_match_posted *sn_match_posted_from(struct sn_match *m, uint32_t source)
{
	sn_list_for_each (at, &m->busy) {
		struct sn_match_group *g = sn_container(at, struct sn_match_group, busy);
		if (g->source == source && g->posted_head)
			return g->posted_head;
	}
	struct sn_match_posted *p = m->linear_head;
	while (p && p->source != source)
		p = p->next;
	return p;
}

/* ---- messages ---- */

struct sn_match_posted *sn_match_awaits(struct sn_match *m, uint64_t bits, uint32_t source)
{
	struct sn_match_posted *best = NULL;
	for (unsigned i = 0; i < m->class_count; i++) {
		const struct sn_match_class *c = &m->classes[i];
		if (!c->posted)
			continue;
		struct sn_match_group *g = group_find(m, c, bits & c->mask, c->any ? SN_MATCH_ANY : source);
		if (g && g->posted_head && (!best || g->posted_head->serial < best->serial))
			best = g->posted_head;
	}
	for (struct sn_match_posted *p = m->linear_head; p && (!best || p->serial < best->serial);
	     p = p->next) {
		m->stats.probes++;
		if (matches(p->bits, p->mask, p->source, bits, source))
			best = p; /* which ends the walk: the others were posted later */
	}
	return best;
}

struct sn_match_posted *sn_match_arrive(struct sn_match *m, uint64_t bits, uint32_t source)
{
	struct sn_match_posted *best = sn_match_awaits(m, bits, source);
	if (best && !best->stays)
		sn_match_remove_posted(m, best);
	return best;
}

int sn_match_unexpected(struct sn_match *m, struct sn_match_unexpected *u)
{
	for (unsigned i = 0; i < m->class_count; i++) {
		if (link_add(m, i, u))
			continue;
		while (i--)
			link_del(m, i, u);
		return sn_fail(SN_ERR_NOMEM, "no memory to queue an unexpected message");
	}
	u->next = NULL;
	u->prev = m->waiting_tail;
	if (m->waiting_tail)
		m->waiting_tail->next = u;
	else
		m->waiting_head = u;
	m->waiting_tail = u;
	u->serial = m->serial++;
	u->queued = true;
	m->stats.unexpected++;
	return 0;
}

void sn_match_remove_unexpected(struct sn_match *m, struct sn_match_unexpected *u)
{
	if (!u->queued)
		return;
	for (unsigned i = 0; i < m->class_count; i++)
		link_del(m, i, u);
	if (u->prev)
		u->prev->next = u->next;
	else
		m->waiting_head = u->next;
	if (u->next)
		u->next->prev = u->prev;
	else
		m->waiting_tail = u->prev;
	u->queued = false;
	m->stats.unexpected--;
}

struct sn_match_unexpected *sn_match_unexpected_any(struct sn_match *m)
{
	return m->waiting_head;
}

void sn_match_stats(const struct sn_match *m, struct sn_match_stats *s)
{
	*s = m->stats;
}
