/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announcements of which a peer that computes is not told yet.
 *
 * Where every core has a rank, its progress thread would get the core from its application, and do there what that does a
 * little later, or this side while it waits. The wake-up and the two switches come on top: a program that posts, computes
 * for 0.1 ms and waits took 1.3 (64 KiB) to 1.8 times (256 KiB) as long with the thread as without. So there the peer is
 * rung if it sleeps, but not its guard until this side has nothing else to do: it goes to sleep, or has looked for as
 * long in vain as one does before that. Then its own core is free. In a crowd there are other rules (progress/engine.h).
 */
#ifndef SN_LOCAL_OWED_H
#define SN_LOCAL_OWED_H

#include "local/local.h"

/* Instead of sn_link_ring(link, true). */
void sn_owed_ring(struct sn_link *link);
/* This side looks, and owes somebody. */
void sn_owed_look(struct sn_rail *rail);

#endif
