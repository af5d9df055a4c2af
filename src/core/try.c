/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receive that waits for a moment, and is then as if it had never been (sn_try_recv). It is posted like any other, so that
 * it stands behind all that were posted before, and a message goes straight into its buffer; and taken out again before the
 * call returns. What it may not have (other bits, too long, announced only) is kept as unexpected, as if nobody
 * had posted; nothing that came later can overtake it, for then the receive has ended (sn_core_recv_accepts).
 *
 * With more processes than cores the one that would send may wait for this very core. So it is given away between
 * looks, as by anybody who waits (relax.h), and what somebody finds who gets it back is walked through no library.
 *
 * Likewise who waits for another host, after a few us: what its message has to pass may wait for this core (relax.h).
 *
 * A receive that stays (sn_try_post) is one with a handle, whatever the endpoint tells, and is looked at in the same
 * way. It is not asked beforehand what it may have: whoever finds that it is not what he expected hands it over,
 * ended as it is. One that is awaited (sn_try_await) is told beforehand, and ends by a word of its owner's where the
 * message arrives; so who has posted many asks for one, and reads the words of the others.
 *
 * Budget: a receive that is like the one before it, whose message comes in one piece: no system call, no allocation, no
 * locked instruction, no callback; three lines of a request.
 */
#include "core/core.h"
#include "match/again.h"
#include "progress/relax.h"

/* With more processes than cores, each a turn of the others. And so many steps of waiting (relax.h) in vain. */
#define TURNS	64
#define IN_VAIN 4
/* For another host's message, before others are given the core: so many looks, and then FAR_NS of them. */
#define FAR_LOOKS 24
#define FAR_NS	  4000u
/* Then, as long as at least something else comes. */
#define FAR_STEPS 4
/* Longest nap where to give the core away is to sleep (progress/turns.h). */
#define NAP_US 50

/*
 * A message from another host is looked for by system calls, and the rest of a look takes half as long. So of so many
 * looks one is whole, the first too.
 */
#define WHOLE 8

/*
 * A whole look takes 60 to 80 ns, and passes the rings of all peers (3 to 4 ns each, as long again on a Xeon): what comes
 * right behind it is found as much later. So the ring that the message is to come from is looked at alone before it and
 * between two of them. With few peers only for what is short: 1 to 2 KiB took 3 % longer, whose lines are being written
 * then. Now and then a whole look comes first all the same, so that nobody else's messages lie there for longer
 * (sn_core_may_look_alone).
 */
#define FEW	    4	/* peers, with fewer only for */
#define FEW_ROOM    512 /* bytes at most */
#define FIRST	    16
#define BETWEEN	    8u
#define BETWEEN_MAX 16u /* as many as there are peers, up to this */

/* sn_recv: so often at the one peer, before it waits as others do, and looks at all. A look costs 4 ns. */
#define RECV_LOOKS 64
#define SHORT	   4096

static void look_at(const struct sn_req *req, struct sn_peer_state *peer, unsigned looks)
{
	for (unsigned k = 0; req->state != SN_REQ_DONE && k < looks && sn_core_look_at(peer) >= 0; k++)
		;
}

static void look_for(struct sn_req *req, sn_peer from, unsigned looks)
{
	if (req->state == SN_REQ_DONE) /* nobody is looked at for it: it is none of those counted below */
		return;
	sn_ep *ep = req->ep;
	struct sn_peer_state *peer = from == SN_ANY_PEER ? NULL : ep->peers[from];
	int (*peek)(void *rail) = peer ? peer->ops->peek : NULL;
	unsigned peers = atomic_load_explicit(&ep->peer_count, memory_order_relaxed);
	bool alone =
		(peers >= FEW || req->room <= FEW_ROOM) && peer && peer->ops->look && !sn_relax_crowded();
	if (alone && sn_core_may_look_alone(ep))
		look_at(req, peer, FIRST);
	/* with those in between each takes twice as long */
	for (unsigned k = 0; req->state != SN_REQ_DONE && k < looks; k += alone ? 2 : 1) {
		if (!peek || k % WHOLE == 0 || peek(peer->rail) < 0)
			sn_core_progress(ep);
		if (alone)
			look_at(req, peer, SN_MAX_OF(BETWEEN, SN_MIN_OF(peers, BETWEEN_MAX)));
	}
}

struct trying {
	struct sn_req *req;
	bool done;
};

static int turn_over(void *arg)
{
	struct trying *t = arg;
	sn_ep *ep = t->req->ep;
	sn_lock(&ep->lock);
	int n = sn_core_progress(ep);
	t->done = t->req->state == SN_REQ_DONE;
	sn_unlock(&ep->lock);
	return n + t->done;
}

/*
 * Until it is done, or steps of waiting have found nothing. With the lock held, which others may want meanwhile. More
 * than one such step, as with 8 ranks a core one is hardly longer than each of them needs for a turn, and to go on
 * waiting by way of the MPI is dear: exchanges of 8 and 1024 bytes round a ring of 16 ranks on two cores take 12 and
 * 15 us, after one step 18 and 20; 4 and 8 ranks wait less long anyway. The MPI's own affairs wait as long.
 */
static void wait_in_turn(struct sn_req *req, unsigned looks)
{
	struct trying t = {req, false};
	sn_ep *ep = req->ep;
	uint64_t idle = 0;
	sn_unlock(&ep->lock);
	unsigned vain = 0;
	while (looks-- && !t.done) {
		if (!sn_relax_step(&idle, NAP_US, turn_over, &t) && ++vain >= IN_VAIN)
			break;
	}
	sn_lock(&ep->lock);
}

/* Its message has begun to come, so it cannot be taken back any more: until that is whole, or its sender gone. */
static void wait_for_rest(struct sn_req *req)
{
	struct trying t = {req, false};
	sn_ep *ep = req->ep;
	uint64_t idle = 0;
	sn_unlock(&ep->lock);
	while (!t.done)
		sn_relax_step(&idle, NAP_US, turn_over, &t);
	sn_lock(&ep->lock);
}

/* Longer ones: is its message brought, as far as is known? */
static bool is_brought(const sn_ep *ep, sn_peer from, size_t room)
{
	if (sn_likely(room < SN_LEAVE_FAR))
		return true;
	const struct sn_peer_state *peer = from == SN_ANY_PEER ? NULL : ep->peers[from];
	return peer && peer->ops->brings && peer->ops->brings(peer->link, room);
}

/* What comes from another host may have to pass somebody who waits for this core. */
static void look_far(struct sn_req *req, sn_peer from)
{
	struct trying t = {req, false};
	sn_ep *ep = req->ep;
	look_for(req, from, sn_relax_far_turns() ? 1 : FAR_LOOKS);
	uint64_t end = req->state == SN_REQ_DONE || sn_relax_far_turns() ? 0 : sn_now_ns() + FAR_NS;
	while (req->state != SN_REQ_DONE && sn_now_ns() < end)
		look_for(req, from, WHOLE);
	if (req->state == SN_REQ_DONE)
		return;
	sn_unlock(&ep->lock);
	for (unsigned k = 0; k < FAR_STEPS && sn_relax_far_step(turn_over, &t) && !t.done; k++)
		;
	sn_lock(&ep->lock);
}

static void look(struct sn_req *req, sn_peer from, unsigned looks)
{
	bool in_turn = sn_relax_crowded();
	if (!in_turn && looks > FAR_LOOKS && from != SN_ANY_PEER && req->ep->peers[from]->ops->far) {
		look_far(req, from);
		return;
	}
	look_for(req, from, in_turn ? SN_MIN_OF(looks, 1u) : looks);
	if (in_turn && req->state != SN_REQ_DONE && looks > 1)
		wait_in_turn(req, looks - 1);
}

static inline bool sensible(const sn_ep *ep, sn_peer from, const void *buf, size_t room, uint64_t bits,
			    uint64_t mask)
{
	return sn_likely(
		ep && !sn_core_foreign(ep) && (buf || !room) && !(bits & ~mask) &&
		(from < atomic_load_explicit(&ep->peer_count, memory_order_relaxed) || from == SN_ANY_PEER));
}

/* sn_try_marked() */
static inline void note_marked(sn_ep *ep, uint32_t flags)
{
	atomic_store_explicit(&ep->tried_flags, flags, memory_order_relaxed);
}

static void taken(struct sn_req *req, uint64_t *len)
{
	*len = req->comp.len;
	note_marked(req->ep, req->comp.flags);
	req->ep->count.recvs++;
	req->ep->count.tried_recvs++;
	sn_core_req_free(req);
}

int sn_try_recv(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask,
		uint64_t exactly, unsigned looks, uint64_t *len)
{
	if (sn_unlikely(!sensible(ep, from, buf, room, bits, mask) || !len))
		return SN_ERR_AGAIN;
	sn_lock(&ep->lock);
	int rc = SN_ERR_AGAIN;
	struct sn_req *req = is_brought(ep, from, room) ? sn_core_req_new(ep) : NULL;
	if (sn_unlikely(!req))
		goto out;
	sn_core_recv_fill_one(req, SN_ROLE_TRY, from, buf, room, bits, mask, NULL);
	req->comp.bits = exactly;
	sn_core_recv_place(req, false);
	look(req, from, looks);
	if (sn_unlikely(req->state != SN_REQ_DONE && !req->posted.queued))
		wait_for_rest(req);
	if (sn_likely(req->state == SN_REQ_DONE && !req->comp.status)) {
		taken(req, len);
		rc = SN_OK;
		goto out;
	}
	if (req->state != SN_REQ_DONE)
		sn_match_remove_posted(ep->match[0], &req->posted);
	sn_core_req_free(req);
out:
	sn_unlock(&ep->lock);
	return rc;
}

int sn_try_marked(const sn_ep *ep)
{
	return ep && atomic_load_explicit(&ep->tried_flags, memory_order_relaxed) & SN_COMP_MARK;
}

/* Of a kind that neither the callback nor sn_poll hears of. */
int sn_recv(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask,
	    void (*meanwhile)(void), sn_completion *c)
{
	if (sn_unlikely(!ep || (!buf && room) || bits & ~mask || !c ||
			(from != SN_ANY_PEER &&
			 from >= atomic_load_explicit(&ep->peer_count, memory_order_relaxed))))
		return sn_fail(SN_ERR_INVALID, "endpoint, memory, peer or completion is none, or bits lie "
					       "outside the mask");
	if (sn_core_foreign(ep))
		return sn_core_forked();
	sn_lock(&ep->lock);
	struct sn_req *req = sn_core_req_new(ep);
	if (sn_likely(req)) {
		sn_core_recv_fill_one(req, SN_ROLE_HANDLE, from, buf, room, bits, mask, NULL);
		sn_core_recv_place(req, false);
		ep->count.recvs++;
		bool alone = room <= SHORT && from != SN_ANY_PEER && ep->peers[from]->ops->look &&
			     !sn_relax_crowded();
		if (sn_likely(alone && sn_core_may_look_alone(ep)))
			look_at(req, ep->peers[from], RECV_LOOKS);
		else if (alone) /* others' messages, and this endpoint's own affairs */
			sn_core_progress(ep);
		if (sn_likely(req->state == SN_REQ_DONE)) {
			*c = req->comp;
			sn_core_req_free(req);
			note_marked(ep, c->flags);
			sn_unlock(&ep->lock);
			return SN_OK;
		}
	}
	sn_unlock(&ep->lock);
	int rc = !req ? SN_ERR_NOMEM : meanwhile ? sn_test(ep, req, c) : sn_wait(ep, req, c, -1);
	while (rc == SN_ERR_AGAIN && meanwhile) {
		meanwhile();
		rc = sn_test(ep, req, c);
	}
	if (!rc)
		note_marked(ep, c->flags);
	return rc;
}

/* ---- one that stays ---- */

/*
 * It is too short for the board. Nearly always its peer is there, and it is like the one before it: then no call, as
 * in sn_trecv.
 */
static inline __attribute__((always_inline)) sn_req *post_ahead(sn_ep *ep, uint8_t role, sn_peer from,
								void *buf, size_t room, uint64_t bits,
								uint64_t mask, uint64_t exactly,
								int64_t *came)
{
	_Static_assert(SN_LEAVE_FAR <= SN_INJECT_MAX, "it is not shown");
	if (sn_unlikely(!sensible(ep, from, buf, room, bits, mask) || room >= SN_LEAVE_FAR))
		return NULL;
	sn_lock(&ep->lock);
	struct sn_req *req = sn_core_req_new(ep);
	if (sn_likely(req)) {
		const struct sn_peer_state *peer = from == SN_ANY_PEER ? NULL : ep->peers[from];
		sn_core_recv_fill_one(req, role, from, buf, room, bits, mask, came);
		req->comp.bits = exactly;
		if (sn_unlikely(!peer || peer->gone || peer->unmet ||
				!sn_match_post_again(ep->match[0], &req->posted)))
			sn_core_recv_place(req, false);
		ep->count.ahead_recvs++;
	}
	sn_unlock(&ep->lock);
	return req;
}

sn_req *sn_try_post(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask)
{
	return post_ahead(ep, SN_ROLE_HANDLE, from, buf, room, bits, mask, bits, NULL);
}

sn_req *sn_try_await(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask,
		     uint64_t exactly, int64_t *came)
{
	return post_ahead(ep, SN_ROLE_AWAIT, from, buf, room, bits, mask, exactly, came);
}

/* With the lock held. */
static inline int test(struct sn_req *req, uint64_t exactly, uint64_t *len)
{
	int rc = SN_ERR_AGAIN;
	if (sn_likely(req->state == SN_REQ_DONE)) {
		rc = req->comp.bits == exactly ? req->comp.status : SN_ERR_INVALID;
		if (sn_likely(!rc))
			taken(req, len);
	}
	return rc;
}

static inline void look_ahead(struct sn_req *req, unsigned looks)
{
	if (req->state != SN_REQ_DONE)
		look(req, req->posted.source, sn_relax_crowded() ? SN_MIN_OF(looks, TURNS) : looks);
}

int sn_try_test(sn_req *req, uint64_t exactly, unsigned looks, uint64_t *len)
{
	sn_ep *ep = req->ep;
	sn_lock(&ep->lock);
	look_ahead(req, looks);
	int rc = test(req, exactly, len);
	sn_unlock(&ep->lock);
	return rc;
}

/*
 * The word is what counts: when it is written the request is free, and may be another one when a look ends. To
 * whoever looks that one is not done, at worst, and he looks once more.
 */
int sn_try_awaited(sn_req *req, uint64_t exactly, unsigned looks, int64_t *came)
{
	sn_ep *ep = req->ep;
	uint64_t len;
	int rc = SN_OK;
	sn_lock(&ep->lock);
	if (*came < 0)
		look_ahead(req, looks);
	if (*came < 0) {
		rc = test(req, exactly, &len);
		if (!rc)
			*came = (int64_t)len;
	}
	sn_unlock(&ep->lock);
	return rc;
}

int sn_try_hold(sn_req *req, const int64_t *came)
{
	sn_ep *ep = req->ep;
	sn_lock(&ep->lock);
	int rc = *came < 0 ? SN_OK : SN_ERR_INVALID;
	if (!rc)
		req->role = SN_ROLE_HANDLE;
	sn_unlock(&ep->lock);
	return rc;
}

void sn_try_hand_over(sn_req *req, void *context)
{
	sn_ep *ep = req->ep;
	sn_lock(&ep->lock);
	ep->count.recvs++;
	ep->count.handed_over++;
	req->comp.context = context;
	req->role = ep->attr.on_complete ? SN_ROLE_CALLBACK : SN_ROLE_QUEUE;
	if (req->state == SN_REQ_DONE)
		sn_core_req_complete(req, SN_OK);
	sn_unlock(&ep->lock);
}

int sn_try_drop(sn_req *req)
{
	sn_ep *ep = req->ep;
	sn_lock(&ep->lock);
	bool queued = req->posted.queued;
	req->role = SN_ROLE_FORGET;
	if (queued)
		sn_match_remove_posted(ep->match[0], &req->posted);
	if (queued || req->state == SN_REQ_DONE) /* else its message is on the way into the buffer */
		sn_core_req_free(req);
	sn_unlock(&ep->lock);
	return queued ? SN_OK : SN_ERR_INVALID;
}
