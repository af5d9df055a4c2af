/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that nobody has posted for: claims from a free list (bodies up to 16 KiB) or from malloc. One that was only announced has no body, until its
 * rail has fetched it before its time.
 */
#include "core/core.h"
#include <stdlib.h>

static const size_t claim_body[SN_CLAIM_CLASSES] = {512, 4352, 16384};

struct sn_claim *sn_core_claim_new(sn_ep *ep, uint64_t body)
{
	unsigned c = 0;
	while (c < SN_CLAIM_CLASSES && body > claim_body[c])
		c++;
	struct sn_claim *claim;
	if (c < SN_CLAIM_CLASSES && ep->free_claims[c]) {
		claim = ep->free_claims[c];
		ep->free_claims[c] = claim->next_free;
	} else {
		claim = malloc(sizeof(*claim) + (c < SN_CLAIM_CLASSES ? claim_body[c] : body));
		if (!claim)
			return NULL;
		memset(&claim->m, 0, sizeof(claim->m));
	}
	claim->size_class = (uint8_t)c;
	sn_list_init(&claim->peer_link);
	claim->rdv = NULL;
	claim->lost = false;
	claim->fetched = NULL;
	return claim;
}

void sn_core_claim_free(sn_ep *ep, struct sn_claim *claim)
{
	sn_list_del(&claim->peer_link);
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

void sn_core_claims_free(sn_ep *ep)
{
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
			free(c);
		}
	}
}

bool sn_core_fetched(struct sn_peer_state *peer, const struct sn_rdv *rdv, void *body)
{
	sn_list_for_each (at, &peer->rdvs) {
		struct sn_claim *claim = sn_container(at, struct sn_claim, peer_link);
		if (claim->rdv != rdv)
			continue;
		sn_list_del(&claim->peer_link);
		claim->rdv = NULL;
		claim->fetched = body;
		peer->kept += claim->len;
		return true;
	}
	return false;
}
