/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/keep.h"
#include "net/net.h"
#include <stdlib.h>

#define VAIN 2 /* looks in a row without anything, nor a post: who looks has time for copies */

/*
 * The longest body of which a copy is kept. Of a longer one it takes as long as the receiver needs to answer: so if
 * nothing else is to be done meanwhile, that is if bodies go one at a time, to and fro.
 */
static uint64_t most(const struct sn_net_link *l)
{
	bool lone = l->crossed == 0 && l->net->sends.count == 1 && sn_list_empty(&l->pulls) &&
		    sn_list_empty(&l->rdvs);

	return lone ? SN_NET_KEEP_LONE : SN_NET_KEEP;
}

/*
 * Room for the longest, and it stays: what is not touched costs only addresses, and the allocator would give the pages
 * back, and find them again.
 */
static bool room(struct sn_net_send *s)
{
	struct sn_net_keep *k = &s->link->net->keep;

	s->kept.iov_base = k->spares ? k->spare[--k->spares] : malloc(SN_NET_KEEP_LONE);
	if (s->kept.iov_base == NULL)
		return false;
	s->kept.iov_len = s->len;
	return true;
}

bool sn_net_keep_plan(struct sn_net_send *s)
{
	if (s->delivered || !sn_net_send_alone(s) || s->len > most(s->link) || !room(s))
		return false;
	s->req = NULL;
	return true;
}

void sn_net_keep_copy(struct sn_net_send *s)
{
	if (s->kept.iov_base == NULL || s->iov == &s->kept)
		return;
	sn_iov_read(s->kept.iov_base, s->iov, s->iov_count, 0, s->len);
	s->iov = &s->kept;
	s->iov_count = 1;
}

void sn_net_keep_drop(struct sn_net_send *s)
{
	struct sn_net_keep *k = &s->link->net->keep;

	k->late -= s->late;
	s->late = false;
	if (s->kept.iov_base && k->spares < SN_NET_KEEPS)
		k->spare[k->spares++] = s->kept.iov_base;
	else
		free(s->kept.iov_base);
	s->kept = (struct iovec){0};
}

/*
 * Of short bodies that follow whole, while others are under way: a copy is made if their sender comes to wait for them.
 * With one peer DONE of each releases that of the one before, and only the last ones need a copy. With several the
 * last of each may wait for company until its receiver looks again: so then no more of them than there are copies.
 */
static bool may_be_late(const struct sn_net_send *s)
{
	uint32_t all = s->link->net->sends.count;

	return s->pushed == s->len && s->len <= SN_NET_KEEP_LATE && !s->delivered &&
	       (all <= SN_NET_KEEPS || all == s->link->sending);
}

bool sn_net_keep_promise(struct sn_net_send *s)
{
	s->lazy = s->kept.iov_base == NULL && may_be_late(s) && s->link->net->keep.late < SN_NET_KEEPS;
	return s->lazy || s->kept.iov_base;
}

void sn_net_keep_left(struct sn_net_send *s)
{
	if (s->req && (s->lazy || may_be_late(s)) && sn_list_empty(&s->left_node))
		sn_list_add_tail(&s->link->net->keep.left, &s->left_node);
}

void sn_net_keep_moves(struct sn_net *n)
{
	n->keep.vain = 0;
	n->keep.moved_at = n->now;
}

/*
 * The sender waits, and has nothing to send: the end of a window. Until the receiver has got through what is under way
 * and DONE is back it would do nothing, 30 us of 200 with eight bodies of 64 KiB, and then the receiver nothing, until
 * the next window has begun to come. The last body first: of the others the receiver says DONE sooner.
 */
static int late(struct sn_net_keep *k)
{
	struct sn_net_send *s = sn_container(k->left.prev, struct sn_net_send, left_node);
	struct sn_req *req = s->req;

	if (k->late == SN_NET_KEEPS || !room(s))
		return 0;
	if (s->jobs) /* what of it is asked for again may stand in the batch, and refer to where it lies */
		sn_net_flush(s->link->net);
	sn_list_del(&s->left_node);
	s->late = true;
	k->late++;
	sn_net_keep_copy(s);
	s->req = NULL;
	sn_core_sent(req, 0);
	return 1;
}

int sn_net_keep_look(struct sn_net *n, int events)
{
	struct sn_net_keep *k = &n->keep;

	k->vain = events ? 0 : k->vain + 1;
	/* Or others' frames come at each look, and the DONE that we wait for waits for company. */
	bool waits = k->vain >= VAIN || n->now > k->moved_at + SN_NET_LATE;
	return waits && !n->quiet && !sn_list_empty(&k->left) ? late(k) : 0;
}

bool sn_net_keeps(const struct sn_net_link *l)
{
	sn_list_for_each (at, &l->sends)
		if (sn_container(at, struct sn_net_send, node)->kept.iov_base)
			return true;
	return false;
}

/*
 * Does a peer that lives have yet to fetch a body of which only our copy is left? Its program may compute for long before it
 * receives, and ours has been told that the message is sent.
 */
bool sn_net_owes(const struct sn_net *n)
{
	sn_list_for_each (at, &n->links) {
		const struct sn_net_link *l = sn_container(at, struct sn_net_link, node);
		if (l->state == SN_LINK_OPEN && !l->dead && !l->bye_came && !l->silent && sn_net_keeps(l))
			return true;
	}
	return false;
}

void sn_net_keeps_free(struct sn_net *n)
{
	struct sn_net_keep *k = &n->keep;

	while (k->spares)
		free(k->spare[--k->spares]);
}
