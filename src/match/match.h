/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag matching: posted receives and unexpected messages of one endpoint (one struct sn_match for tagged messages, one
 * for plain ones), above all rails, so that any-source needs nothing special.
 *
 * Cost. MPI libraries use few distinct masks (exact tag, any tag, each with and without a source), so receives are
 * sorted into *classes* by (mask, source given or any), and each class is a hash table keyed by (bits & mask, source).
 * An arriving message is looked up once in every class that has posted receives, and the earliest post among the hits
 * wins (tuple space search). An unexpected message is indexed under every class seen so far; a receive of a new class
 * indexes the waiting ones once. So both directions cost O(classes), independent of how many receives are posted or
 * messages wait; with more than SN_MATCH_CLASSES distinct masks the rest share one linear list (counted).
 * Entries with the same key form one group with a FIFO, so thousands of equal keys do not lengthen anybody's walk.
 *
 * Order. Each post and each arrival gets a serial number; ties are always decided for the smaller one, which is
 * MPI's rule. Not thread-safe: the endpoint's lock protects it. Entries are embedded in the caller's objects; groups and
 * tables come from pools that grow by doubling, so the steady state allocates nothing.
 */
#ifndef SN_MATCH_H
#define SN_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#define SN_MATCH_ANY	 UINT32_MAX /* any source */
#define SN_MATCH_CLASSES 8

struct sn_match;
struct sn_match_group;

struct sn_match_posted {
	uint64_t bits, mask; /* bits & ~mask == 0 */
	uint32_t source;     /* a peer number or SN_MATCH_ANY */
	bool stays;	     /* multi-receive: arrivals match it without removing it */
	bool queued;	     /* owned by match.c: true while posted */
	bool shown;	     /* sn_match_show was called: senders can see it on the board */
	uint64_t serial;     /* from here on owned by match.c */
	struct sn_match_group *group;
	struct sn_match_posted *next, *prev;
};

struct sn_match_link { /* an unexpected message's place in one class */
	struct sn_match_group *group;
	struct sn_match_link *next, *prev;
	struct sn_match_unexpected *owner;
};

struct sn_match_unexpected {
	uint64_t bits;
	uint32_t source;
	bool queued;
	uint64_t serial;			 /* from here on owned by match.c */
	struct sn_match_unexpected *next, *prev; /* all of them, in order of arrival */
	struct sn_match_link links[SN_MATCH_CLASSES];
};

/* NULL when memory is short. */
struct sn_match *sn_match_new(void);
void sn_match_free(struct sn_match *m); /* entries still queued are the caller's to free */

/* The earliest unexpected message that this receive matches, or NULL. It stays queued. */
struct sn_match_unexpected *sn_match_find(struct sn_match *m, uint64_t bits, uint64_t mask, uint32_t source);
/* Queue a receive (after sn_match_find returned NULL for it). 0, or SN_ERR_NOMEM with nothing queued. */
int sn_match_post(struct sn_match *m, struct sn_match_posted *p);
/* The earliest receive that a message matches, removed unless it .stays; or NULL. */
struct sn_match_posted *sn_match_arrive(struct sn_match *m, uint64_t bits, uint32_t source);
/* The same, which stays posted. */
struct sn_match_posted *sn_match_awaits(struct sn_match *m, uint64_t bits, uint32_t source);
/* Queue a message that nothing matched. 0, or SN_ERR_NOMEM with nothing queued. */
int sn_match_unexpected(struct sn_match *m, struct sn_match_unexpected *u);
void sn_match_remove_posted(struct sn_match *m, struct sn_match_posted *p);
void sn_match_remove_unexpected(struct sn_match *m, struct sn_match_unexpected *u);
/*
 * Is a receive that is not shown, posted before p (which is the latest), able to match a message that p also matches?
 * Exact within one mask; between different masks it answers true when in doubt. And: p is shown from now on.
 */
bool sn_match_hidden_before(struct sn_match *m, const struct sn_match_posted *p);
void sn_match_show(struct sn_match *m, struct sn_match_posted *p);
/* Some posted receive that names this source, or NULL: to end them when the peer dies (of SN_MATCH_ANY: those from any). */
struct sn_match_posted *sn_match_posted_from(struct sn_match *m, uint32_t source);
/* Any unexpected message (tear-down). */
struct sn_match_unexpected *sn_match_unexpected_any(struct sn_match *m);

struct sn_match_stats {
	uint64_t posted, unexpected; /* queued now */
	uint64_t classes, groups;    /* now; a few empty ones of each class are kept */
	uint64_t probes;	     /* group comparisons so far: probes per operation shows the cost */
	uint64_t overflow;	     /* entries that went to the linear list */
};
void sn_match_stats(const struct sn_match *m, struct sn_match_stats *s);

#endif
