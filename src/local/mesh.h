/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large messages to and from several peers, one close after the other, as in an all-to-all or a ring of ranks.
 *
 * Each rank is then as fast as the slowest of all, so what the laps of a pair (copy/lap.h) tell is what all the
 * others try meanwhile: with 8 and more ranks on as many cores they never came to rest, and a buffer that is written
 * now by the sender and now by the receiver changes caches each time. So nothing is tried there, and who copies is
 * settled: the receiver, who will look at the bytes, from where they lie (way.c). The sender has enough to do with
 * what others send it.
 *
 * A program that computes between its messages is none of this, or who sends to a rank that computes would wait for it: so a
 * mesh begins with SN_MESH_BURST messages without a pause. A step of a stencil with 8 neighbours has 16.
 *
 * Pure arithmetic, but for the clock: what follows a message of the same peer again and again needs none.
 */
#ifndef SN_LOCAL_MESH_H
#define SN_LOCAL_MESH_H

#include "base/base.h"
#include <stdbool.h>

#define SN_MESH_BURST 20u
#define SN_MESH_SAME  8u /* so many in a row of one peer, and it is his alone */

struct sn_mesh {
	const void *last; /* the peer of the last message */
	uint64_t at;	  /* when that was, in ns */
	uint8_t burst;	  /* messages without a pause: at most 255 */
	uint8_t same;	  /* of these the last ones of one peer: likewise */
};

static inline bool sn_mesh_is(const struct sn_mesh *m)
{
	return m->burst >= SN_MESH_BURST && m->same < SN_MESH_SAME;
}

/*
 * A message goes to this peer, or comes from it; bound: ns that may have passed since the last one. True: it is one
 * of a mesh.
 */
static inline bool sn_mesh_see(struct sn_mesh *m, const void *peer, uint64_t bound)
{
	if (sn_likely(peer == m->last && m->same >= SN_MESH_SAME))
		return false;
	uint64_t now = sn_now_ns();
	m->burst = (uint8_t)(now - m->at <= bound ? SN_MIN_OF(m->burst + 1u, 255u) : 0);
	m->same = (uint8_t)(peer == m->last ? m->same + 1u : 0);
	m->at = now;
	m->last = peer;
	return sn_mesh_is(m);
}

struct sn_link;
/*
 * A message to this peer, or from it, of so many bytes that both could be busy with others meanwhile: is it one of a
 * mesh? Once for each.
 */
bool sn_way_mesh(struct sn_link *link, uint64_t len);
/* And the last one was? */
bool sn_way_meshed(const struct sn_link *link);

#endif
