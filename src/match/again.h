/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the matcher, and its two commonest cases, which are worth having in line: a receive like one of the last
 * ones, and the message for such a receive. Each is a few compares and stores; as calls they cost twice as much. For
 * match.c, and for the core's receives.
 *
 * Like one of the last ones, and not only the last: who exchanges messages with several peers, or under several tags,
 * posts by turns. So the groups used lately have a place in a small table, by their keys.
 */
#ifndef SN_MATCH_AGAIN_H
#define SN_MATCH_AGAIN_H

#include "base/base.h"
#include "match/match.h"

#define SN_MATCH_RECENT_BITS 5
#define SN_MATCH_RECENT	     (1u << SN_MATCH_RECENT_BITS) /* places */

struct sn_match_slab;

struct sn_match_group {
	uint64_t key;
	uint32_t source;
	uint32_t class;
	struct sn_match_group *chain; /* the next in the bucket, or in the pool of free groups */
	struct sn_match_posted *posted_head, *posted_tail;
	struct sn_match_link *link_head, *link_tail;
	uint64_t posted, shown; /* receives posted under this key, and how many of them are on the board */
	struct sn_list busy;	/* in sn_match.busy from its first receive on, until it is given back */
};

struct sn_match_class {
	uint64_t mask;
	bool any;		/* receives from any source */
	uint64_t posted, shown; /* receives, and how many of them are on the board */
	uint64_t groups;	/* in buckets */
	struct sn_match_group **buckets;
	uint64_t bucket_mask; /* how many buckets, less one */
	struct sn_match_group *
		recent[SN_MATCH_RECENT]; /* used lately: looked at first, in no bucket, and kept when empty */
};

struct sn_match {
	struct sn_match_class classes[SN_MATCH_CLASSES];
	unsigned class_count, last_class; /* of them; the one that was posted in last */
	uint64_t serial;
	uint64_t seed; /* keys come from peers: they must not be able to aim at one bucket */
	struct sn_match_unexpected *waiting_head, *waiting_tail;
	struct sn_match_posted *linear_head, *linear_tail; /* receives whose mask found no class */
	struct sn_list busy; /* all groups that have posted receives, and some that had */
	struct sn_match_group *free_groups;
	struct sn_match_slab *slabs;
	uint32_t next_slab;
	struct sn_match_stats stats;
};

/*
 * Where a group of this key would be. By the golden ratio, which puts numbers that follow each other far apart: 16 sources
 * of one key each have a place of their own.
 */
static inline unsigned sn_match_recent(uint64_t key, uint32_t source)
{
	uint32_t mixed = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) + source * 0x9e3779b9u;
	return mixed >> (32 - SN_MATCH_RECENT_BITS);
}

static inline bool sn_match_is_empty(const struct sn_match_group *g)
{
	return !g->posted_head && !g->link_head;
}

static inline void sn_match_group_add(struct sn_match *m, struct sn_match_group *g, struct sn_match_posted *p)
{
	p->group = g;
	p->prev = g->posted_tail;
	if (g->posted_tail) {
		g->posted_tail->next = p;
	} else {
		g->posted_head = p;
		if (sn_unlikely(sn_list_empty(&g->busy)))
			sn_list_add_tail(&m->busy, &g->busy);
	}
	g->posted_tail = p;
	g->posted++;
	m->classes[g->class].posted++;
}

static inline void sn_match_posted_now(struct sn_match *m, struct sn_match_posted *p)
{
	p->serial = m->serial++;
	p->queued = true;
	m->stats.posted++;
}

/*
 * sn_match_find and sn_match_post at once for a receive like one of the last ones, under the mask of the last one: it
 * is queued if no message waits for it. Likewise for one under a new key, where that is easily told and its place is free.
 * False: nothing was done.
 */
static inline bool sn_match_post_again(struct sn_match *m, struct sn_match_posted *p)
{
	const struct sn_match_class *c = &m->classes[m->last_class];
	/* NULL as long as there is no class */
	struct sn_match_group *g = c->recent[sn_match_recent(p->bits, p->source)];
	if (!g || g->link_head || c->mask != p->mask)
		return false;
	if (sn_unlikely(g->key != p->bits || g->source != p->source)) {
		if (g->posted_head || c->groups || c->any != (p->source == SN_MATCH_ANY))
			return false;
		g->key = p->bits;
		g->source = p->source;
	}
	p->next = NULL;
	p->shown = false;
	sn_match_group_add(m, g, p);
	sn_match_posted_now(m, p);
	return true;
}

/*
 * Nearly always every posted receive stands in the class of the last one, and the message is for a group that was used
 * lately there. NULL: not so.
 */
static inline struct sn_match_posted *sn_match_arrive_again(struct sn_match *m, uint64_t bits,
							    uint32_t source)
{
	struct sn_match_class *c = &m->classes[m->last_class];
	uint64_t key = bits & c->mask;
	source = c->any ? SN_MATCH_ANY : source;
	struct sn_match_group *g = c->recent[sn_match_recent(key, source)];
	if (sn_unlikely(c->posted != m->stats.posted || !g || g->key != key || g->source != source))
		return NULL;
	struct sn_match_posted *p = g->posted_head;
	if (sn_unlikely(!p || p->stays || p->shown))
		return NULL;
	g->posted_head = p->next;
	if (p->next)
		p->next->prev = NULL;
	else
		g->posted_tail = NULL;
	p->queued = false;
	c->posted--;
	g->posted--;
	m->stats.posted--;
	m->stats.probes++;
	return p;
}

#endif
