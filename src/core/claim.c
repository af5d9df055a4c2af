/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that nobody has posted for: claims from a free list (bodies up to 16 KiB) or from malloc. One that was
 * only announced has no body. Those of shorter ones are cut from slabs: a program that floods another with them has
 * hundreds of thousands, and each by itself takes malloc longer than all the rest.
 *
 * Nothing in this library waits for a receive but who sends such a message. But a program in which both sides send
 * first, and receive then, which MPI forbids, relies on its MPI to take what is not too long off its hands. So if
 * this side goes on looking for something else while nobody posts for what was announced, it is pulled all the same,
 * into memory of its own, and then is like what has come uninvited. Whoever wants it meanwhile waits for that pull.
 * Not synchronous sends, which end with their receive.
 */
#include "base/conf.h"
#include "core/core.h"
#include "progress/relax.h"
#include <stdlib.h>

#define EARLY_LOOKS 8		 /* at least, and */
#define EARLY_NS    20000	 /* after what could have gone uninvited on this node was announced, or */
#define EARLY_LATER 100000	 /* any other, up to */
#define EARLY_MOST  (128u << 10) /* what Intel MPI sends uninvited, the most of all MPIs */

#define SLAB_BYTES (64u << 10)
#define SLABBED	   (SN_CLAIM_CLASSES - 1) /* classes whose claims are cut from slabs; the last one's are not */

static const uint32_t claim_body[SN_CLAIM_CLASSES] = {64, 128, 256, 512, 1024, 2048, 4352, 16384};

struct sn_claim_slab {
	struct sn_claim_slab *next;
} sn_aligned;

static struct sn_claim *cut(sn_ep *ep, unsigned c)
{
	struct sn_claim_cut *from = &ep->claim_cuts[c];
	size_t bytes = sizeof(struct sn_claim) + claim_body[c];
	if (from->left < bytes) {
		struct sn_claim_slab *slab = aligned_alloc(SN_LINE, SLAB_BYTES);
		if (!slab)
			return NULL;
		slab->next = ep->claim_slabs;
		ep->claim_slabs = slab;
		from->at = (char *)(slab + 1);
		from->left = SLAB_BYTES - sizeof(*slab);
	}
	void *claim = from->at;
	from->at += bytes;
	from->left -= (uint32_t)bytes;
	return claim;
}

/* One that was cut for longer ones will do: a program's messages may become shorter. */
static struct sn_claim *again(sn_ep *ep, unsigned *class)
{
	unsigned c = *class, end = c < SLABBED ? SLABBED : c + 1;
	while (c < end && !ep->free_claims[c])
		c++;
	if (c == end)
		return NULL;
	struct sn_claim *claim = ep->free_claims[c];
	ep->free_claims[c] = claim->next_free;
	*class = c;
	return claim;
}

static struct sn_claim *allocate(sn_ep *ep, unsigned c, uint64_t body)
{
	if (c < SLABBED)
		return cut(ep, c);
	size_t bytes = sizeof(struct sn_claim) + (c < SN_CLAIM_CLASSES ? claim_body[c] : body);
	return aligned_alloc(SN_LINE, (bytes + SN_LINE - 1) / SN_LINE * SN_LINE);
}

struct sn_claim *sn_core_claim_new(sn_ep *ep, uint64_t body)
{
	unsigned c = 0;
	while (c < SN_CLAIM_CLASSES && body > claim_body[c])
		c++;
	struct sn_claim *claim = c < SN_CLAIM_CLASSES ? again(ep, &c) : NULL;
	if (!claim) {
		claim = allocate(ep, c, body);
		if (!claim)
			return NULL;
		memset(&claim->m, 0, sizeof(claim->m));
	}
	claim->size_class = (uint8_t)c;
	sn_list_init(&claim->peer_link);
	sn_list_init(&claim->early);
	claim->rdv = NULL;
	claim->lost = claim->fetching = claim->dropped = false;
	claim->failed = 0;
	claim->waiter = NULL;
	claim->fetched = NULL;
	return claim;
}

void sn_core_claim_free(sn_ep *ep, struct sn_claim *claim)
{
	sn_list_del(&claim->peer_link);
	sn_list_del(&claim->early);
	if (sn_unlikely(claim->fetched != NULL)) {
		claim->peer->kept -= claim->len;
		free(claim->fetched);
	}
	if (claim->size_class == SN_CLAIM_CLASSES) {
		claim->peer->kept -= claim->len;
		free(claim);
		return;
	}
	claim->next_free = ep->free_claims[claim->size_class];
	ep->free_claims[claim->size_class] = claim;
}

void sn_core_claim_drop(sn_ep *ep, struct sn_claim *claim)
{
	if (sn_unlikely(claim->fetching))
		claim->dropped = true;
	else
		sn_core_claim_free(ep, claim);
}

void sn_core_claims_free(sn_ep *ep)
{
	sn_list_for_each_safe (at, &ep->fetching) { /* those that have left the matcher */
		struct sn_claim *claim = sn_container(at, struct sn_claim, early);
		if (claim->waiter || claim->dropped)
			sn_core_claim_free(ep, claim);
	}
	for (int plane = 0; plane < 2; plane++) {
		struct sn_match_unexpected *u;
		while (ep->match[plane] && (u = sn_match_unexpected_any(ep->match[plane]))) {
			sn_match_remove_unexpected(ep->match[plane], u);
			sn_core_claim_free(ep, sn_container(u, struct sn_claim, m));
		}
	}
	for (unsigned class = 0; class < SN_CLAIM_CLASSES; class ++) {
		struct sn_claim *c;
		while ((c = ep->free_claims[class]) != NULL) {
			ep->free_claims[class] = c->next_free;
			if (class >= SLABBED)
				free(c);
		}
	}
	while (ep->claim_slabs) {
		struct sn_claim_slab *slab = ep->claim_slabs;
		ep->claim_slabs = slab->next;
		free(slab);
	}
}

/* ---- fetched early ---- */

void sn_core_claim_announced(sn_ep *ep, struct sn_claim *claim)
{
	if (claim->flags & SN_H_SYNC || claim->len > EARLY_MOST)
		return;
	bool soon = !claim->peer->ops->far && claim->len <= (uint64_t)sn_conf_num(SN_CONF_EAGER);
	claim->due = sn_now_ns() + (soon ? EARLY_NS : EARLY_LATER);
	if (sn_list_empty(&ep->early))
		ep->early_looks = 0;
	sn_list_add_tail(&ep->early, &claim->early);
}

static void fetched(struct sn_req *req, int status)
{
	struct sn_claim *claim = req->comp.context;
	sn_ep *ep = req->ep;
	sn_list_del(&claim->early);
	claim->fetching = false;
	claim->lost = status != SN_OK;
	claim->failed = status;
	ep->count.fetched_early += !status;
	if (claim->dropped)
		sn_core_claim_free(ep, claim);
	else if (claim->waiter)
		sn_core_claim_deliver(claim->waiter, claim);
}

/* Not without bound: what would let the sender go on was its memory. */
static bool fetch(sn_ep *ep, struct sn_claim *claim)
{
	struct sn_peer_state *peer = claim->peer;
	struct sn_rdv *rdv = claim->rdv;
	struct sn_req *req = NULL;
	if (!rdv || peer->kept + claim->len > SN_KEPT_MAX)
		return false;
	claim->fetched = malloc(claim->len);
	if (!claim->fetched || !(req = sn_core_req_new(ep))) {
		free(claim->fetched);
		claim->fetched = NULL;
		return false;
	}
	peer->kept += claim->len;
	claim->fetching = true;
	claim->rdv = NULL;
	sn_list_del(&claim->peer_link);
	sn_list_add_tail(&ep->fetching, &claim->early);
	req->role = SN_ROLE_INTERNAL;
	req->peer = peer;
	req->finish = fetched;
	req->comp.context = claim;
	req->seg[0] = (struct iovec){claim->fetched, claim->len};
	req->seg_count = 1;
	peer->ops->pull(peer->link, rdv, req->seg, 1, claim->len, req);
	return true;
}

int sn_core_claims_early(sn_ep *ep)
{
	/*
	 * Who sleeps looks too seldom. In a crowd whoever would get the core meanwhile may be the one that has to
	 * post, or to send.
	 */
	int waits = !sn_relax_crowded();
	if (++ep->early_looks < EARLY_LOOKS)
		return waits;
	uint64_t now = sn_now_ns();
	ep->early_looks = 0;
	sn_list_for_each_safe (at, &ep->early) {
		struct sn_claim *claim = sn_container(at, struct sn_claim, early);
		if (claim->rdv && now < claim->due)
			continue;
		sn_list_del(at); /* it is tried once */
		if (!fetch(ep, claim))
			continue;
		ep->early_looks =
			EARLY_LOOKS; /* the next one at the next look: the list may be another by now */
		return 1;
	}
	return waits && !sn_list_empty(&ep->early);
}
