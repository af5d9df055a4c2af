/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's own structures: endpoints, peers, requests, unexpected messages, regions. Private to src/core. */
#ifndef SN_CORE_H
#define SN_CORE_H

#include "base/base.h"
#include "base/log.h"
#include "core/rail.h"
#include "match/match.h"
#include "progress/engine.h"
#include <pthread.h>
#include <stdlib.h>

#define SN_RAILS      4 /* most rails of an endpoint */
#define SN_PARTS      8 /* most parts of an address */
#define SN_INLINE_SEG 6 /* segments a request holds without an allocation */

/* ---- requests ------------------------------------------------------------------------------------------------ */

enum sn_req_state { SN_REQ_FREE, SN_REQ_ACTIVE, SN_REQ_DONE };

enum {		       /* sn_req.role: who looks at the completion */
       SN_ROLE_HANDLE, /* sn_test / sn_wait */
       SN_ROLE_TRY,    /* sn_try_recv: takes a message with comp.bits that is brought, at once, or none */
       SN_ROLE_AWAIT, /* sn_try_await: one with comp.bits ends it by a word at comp.context; else as HANDLE */
       SN_ROLE_CALLBACK, /* on_complete */
       SN_ROLE_QUEUE,	 /* sn_poll */
       SN_ROLE_FORGET,	 /* nobody, unless it fails and there is a callback */
       SN_ROLE_INTERNAL, /* the core itself: ->finish */
       SN_ROLE_TARGET,	 /* no operation of ours: what on_target is still to be told */
};

/*
 * One operation. A request ends when `pending` reaches 0; it counts the events still to come (the message has left, the
 * answer has arrived, the pull has ended). Freed requests change their generation, so that an operation number that
 * comes back from a peer, late or invented, names either this very operation or nothing.
 */
struct sn_req {
	/* the first three lines are all that an eager message touches */
	struct sn_list link; /* free list (next alone), completion queue, peer->ops, peer->waiting */
	sn_ep *ep;
	struct sn_peer_state *peer;
	uint32_t index, generation;
	union {
		struct {
			uint8_t state, role;
			uint8_t pending;
			bool answered; /* the peer's ACK or RESULT has been taken; a second one is a protocol error */
			bool big; /* one-sided and not certainly eager: later overlapping operations wait for it */
			bool on_list; /* link is on peer->ops or peer->waiting */
			bool multi; /* a multi-receive, or a child of one: the fields below hold something */
			bool withdrawn; /* multi-receive: cancelled while children were in flight */
		};
		uint64_t fresh; /* all of them, set at once */
	};
	struct iovec *seg;
	uint32_t seg_count;    /* what travels out, or where a receive lands */
	uint32_t result_count; /* fetch: seg[seg_count ...] receive the old values */
	sn_completion comp;
	uint64_t room; /* receive: sum of the segments */
	union {
		struct sn_match_posted posted; /* receives */
		struct {		       /* one-sided, at the origin */
			struct sn_out out;
			uint64_t key, offset, extent;
		} os;
	};
	int slot; /* receive: where it is shown, with posted.shown */
	/* multi-receive */
	struct sn_req *parent;
	uint64_t used, min_room;
	uint32_t children;
	void (*finish)(struct sn_req *req, int status); /* SN_ROLE_INTERNAL */
	uint64_t answer_op;				/* at a target: the origin's operation number */
	uint8_t imm[SN_IMM_MAX];
	struct iovec inline_seg[SN_INLINE_SEG];
} sn_aligned;
_Static_assert(offsetof(struct sn_req, comp) == SN_LINE && sizeof(sn_completion) == SN_LINE &&
		       offsetof(struct sn_req, posted) + sizeof(struct sn_match_posted) <= 3 * SN_LINE,
	       "three lines");

/* ---- unexpected messages ------------------------------------------------------------------------------------- */

#define SN_CLAIM_CLASSES 8 /* sizes of kept bodies that are kept for the next ones, too; claim.c */
/*
 * An unexpected message, in the matcher or claimed. Where receives are of few kinds what is touched of a short one is three
 * lines and its body: ranks that share cores have hundreds of them in a turn.
 */
struct sn_claim {
	struct sn_list peer_link; /* on peer->rdvs while .rdv is set */
	struct sn_peer_state *peer;
	struct sn_rdv *rdv;
	/* claim.c: one that was announced, and is fetched before anybody has posted for it */
	struct sn_list early;  /* on ep->early until then, on ep->fetching meanwhile */
	struct sn_req *waiter; /* has been posted for it meanwhile */
	union {
		void *fetched;		    /* its body; NULL: that is below */
		struct sn_claim *next_free; /* while it is free */
	};
	uint64_t len, data;
	bool lost; /* the sender died before the body was fetched */
	bool plain, fetching, dropped;
	uint8_t flags, size_class;
	int failed; /* with .lost, why; 0: its sender died */
	struct sn_match_unexpected m;
	uint64_t sync_op;
	uint64_t due; /* when it is fetched if nobody has posted for it */
	uint8_t body[];
} sn_aligned;
_Static_assert(offsetof(struct sn_claim, m.links[1]) <= 3 * SN_LINE, "three lines");

static inline const void *sn_core_claim_body(const struct sn_claim *claim)
{
	return sn_unlikely(claim->fetched != NULL) ? claim->fetched : claim->body;
}

/* ---- peers --------------------------------------------------------------------------------------------------- */

struct sn_peer_state {
	sn_ep *ep;
	uint32_t num;
	bool gone, self;
	bool left;  /* and it closed its endpoint in good order */
	bool unmet; /* its rail's meet() is due with the first receive that is for it alone */
	int gone_status;
	const struct sn_rail_ops *ops;
	int (*now)(void *link, uint32_t what, uint64_t bits, uint64_t data, const void *body,
		   uint64_t len); /* ops->post_now while the peer lives; NULL: it has none */
	void *link, *rail;
	const void *into; /* where the last message of several lines that came in one piece was copied to */
	uint64_t cookie;
	struct sn_list pending_ops; /* requests that wait for an ACK or RESULT of this peer */
	struct sn_list waiting;	    /* one-sided requests held back by an overlapping earlier one */
	struct sn_list rdvs;	    /* unexpected rendezvous announced by it */
	uint64_t kept;		    /* bytes of its unexpected messages for which memory was asked */
	struct sn_peer_state *hash_next;
	uint64_t id;
	int rank; /* in MPI_COMM_WORLD, for logs; -1: its address does not say */
	uint8_t addr_len;
	uint8_t addr[SN_ADDR_MAX];
};

/* For what is asked of a peer after its end: why it does not go. */
static inline int sn_core_gone(const struct sn_peer_state *peer)
{
	return sn_fail(peer->gone_status, "%s is gone", sn_core_peer_name(peer).text);
}

struct sn_region {
	struct sn_region *hash_next;
	uint64_t key;
	uint8_t *base;
	uint64_t start; /* what peers call the first byte */
	uint64_t len;
	unsigned rights;
};

struct sn_core_counters {
	uint64_t sends, recvs, unexpected, unexpected_rdv, fetched_early, truncated, self, puts, gets,
		atomics, refused_access, bad_messages, peers_gone, shown, claimed, tried_sends, tried_recvs,
		tried_probes, ahead_recvs, handed_over;
};

#define SN_SLAB 64 /* requests allocated at a time */

struct sn_ep {
	struct sn_lock lock;
	unsigned fork_epoch;
	bool closing;
	sn_ep_attr attr;
	struct sn_match *match[2]; /* tagged, plain */
	struct sn_peer_state **_Atomic peers;
	struct sn_peer_state **peers_before[28]; /* smaller tables: sn_peer_cookie() takes no lock */
	unsigned peers_grown;
	_Atomic uint32_t peer_count; /* also read before the lock is taken */
	uint32_t peer_room;
	struct sn_peer_state **peer_hash;
	uint32_t peer_hash_size;
	bool quiet;		   /* on_complete need not hear of sends that were forgotten and succeeded */
	bool patient;		   /* receives outlive a peer that left in good order */
	struct sn_list *free_reqs; /* by link.next, NULL: none */
	struct sn_req **slabs;
	uint32_t slab_count;
	struct sn_list done;		/* completed, for sn_poll */
	struct sn_list early, fetching; /* of struct sn_claim */
	uint32_t early_looks;
	struct sn_list deferred; /* completed while the progress thread visited; visit.c */
	bool visited;		 /* it does so now */
	uint32_t visit_calls;	 /* the application's looks at the last visit */
	uint32_t left_calls;	 /* client.calls when a post last said that the application may go away */
	uint64_t visit_kept;	 /* unexpected messages there were when it looked last */
	struct sn_engine_client client;
	struct sn_claim *free_claims[SN_CLAIM_CLASSES];
	struct sn_claim_slab *claim_slabs;
	struct sn_claim_cut {
		char *at; /* the rest of the newest slab of this size */
		uint32_t left;
	} claim_cuts[SN_CLAIM_CLASSES];
	struct sn_region **regions;
	uint32_t region_count, region_hash_size;
	struct {
		const struct sn_rail_ops *ops;
		void *state;
		struct sn_addr_part part;
	} rails[SN_RAILS];
	uint32_t rail_count;
	uint32_t board_rail; /* the rail that can show receives to senders; rail_count if none */
	_Atomic uint32_t
		sleepers; /* threads of this process in sn_wait (MULTIPLE): whoever completes rings them */
	struct sn_ep_ids ids;
	uint8_t addr[SN_ADDR_MAX];
	size_t addr_len;
	struct sn_core_counters count;
	_Atomic uint32_t tried_flags; /* of what sn_try_recv or sn_recv took last */
	uint32_t looked_alone;	      /* at one peer first, so often */
};

/* Changes in a forked child; an endpoint of another epoch is the parent's. */
extern unsigned sn_fork_epoch;
static inline bool sn_core_foreign(const sn_ep *ep)
{
	return sn_unlikely(ep->fork_epoch != sn_fork_epoch);
}
int sn_core_forked(void); /* SN_ERR_FORKED with its sentence */
/* A receive from it ends. */
static inline bool sn_core_peer_over(const struct sn_peer_state *peer)
{
	return peer->gone && !(peer->left && peer->ep->patient);
}
int sn_core_progress(sn_ep *ep); /* every rail once, and what the thread left; with the lock held */
int sn_core_look(sn_ep *ep);	 /* every rail once */
int sn_core_look_at(
	struct sn_peer_state *peer); /* what comes from it, where its rail has look(); with the lock held */
/*
 * By whoever is about to look at one peer alone, and at all only if that brings nothing. False: at all first, or messages
 * of the others, and what this endpoint has begun itself, would wait as long as that one keeps sending.
 */
#define SN_OTHERS_EACH 8
static inline bool sn_core_may_look_alone(sn_ep *ep)
{
	return ++ep->looked_alone % SN_OTHERS_EACH != 0;
}

/* visit.c */
#define SN_LEAVE_MIN 16384 /* bytes: from here on a post may be worth waking the progress thread for */
#define SN_LEAVE_FAR                                                                                         \
	4096 /* likewise a receive from another host, whose message may take more than one frame */
void sn_core_engine_join(sn_ep *ep);
void sn_core_defer(struct sn_req *req);
int sn_core_deliver_deferred(sn_ep *ep);
enum sn_leaves {
	SN_LEAVES,	/* looks each time */
	SN_LEAVES_ONCE, /* a receive from another host: of several in a row the first looks */
	SN_LEAVES_SENT, /* to another host: looks unless he stays */
};
void sn_core_leave(sn_ep *ep, uint64_t len, bool far, enum sn_leaves how);

/* request.c */
int sn_core_req_pool_grow(sn_ep *ep);
static inline struct sn_req *sn_core_req_new(sn_ep *ep)
{
	if (sn_unlikely(!ep->free_reqs) && sn_core_req_pool_grow(ep))
		return NULL;
	struct sn_req *req = sn_container(ep->free_reqs, struct sn_req, link);
	ep->free_reqs = req->link.next;
	req->fresh = 0;
	req->state = SN_REQ_ACTIVE;
	req->role = SN_ROLE_HANDLE;
	req->pending = 1;
	req->seg_count = req->result_count = 0;
	req->comp.status = SN_OK;
	req->comp.flags = 0;
	req->posted.queued = req->posted.stays = req->posted.shown = false;
	return req;
}

/* Last in, first out: the next request finds this one's lines still in the cache. */
static inline void sn_core_req_free(struct sn_req *req)
{
	if (sn_unlikely(req->seg != req->inline_seg)) {
		free(req->seg);
		req->seg = req->inline_seg;
	}
	if (sn_unlikely(req->on_list))
		sn_list_del(&req->link);
	req->state = SN_REQ_FREE;
	req->generation++;
	req->link.next = req->ep->free_reqs;
	req->ep->free_reqs = &req->link;
}

/* Likewise of a receive in one piece that stood in the matcher: it has no list of its own, and is on none. */
static inline void sn_core_recv_free(sn_ep *ep, struct sn_req *req)
{
	req->state = SN_REQ_FREE;
	req->generation++;
	req->link.next = ep->free_reqs;
	ep->free_reqs = &req->link;
}

/* Is the owner of a receive told from the stack, now, and is that all there is to its completion? */
static inline bool sn_core_recv_tells(const sn_ep *ep, const struct sn_req *req)
{
	return req->role == SN_ROLE_CALLBACK && !ep->visited && sn_list_empty(&ep->deferred);
}

/* Of a message's head, what its receive tells. */
static inline uint32_t sn_core_comp_flags(uint8_t flags)
{
	_Static_assert((int)SN_COMP_DATA == SN_H_DATA >> 1 && (int)SN_COMP_MARK == SN_H_MARK, "one shift");
	return (flags & SN_H_DATA) >> 1 | (flags & SN_H_MARK);
}

/* Copy up to three segment lists into the request. */
int sn_core_req_segments(struct sn_req *req, const struct iovec *a, uint32_t na, const struct iovec *b,
			 uint32_t nb, const struct iovec *c, uint32_t nc);
static inline void sn_core_req_role(struct sn_req *req, uint32_t flags, bool wants_handle)
{
	if (flags & SN_FORGET)
		req->comp.flags |= SN_COMP_FORGET;
	if (req->ep->attr.on_complete)
		req->role = SN_ROLE_CALLBACK;
	else if (flags & SN_FORGET)
		req->role = SN_ROLE_FORGET;
	else if ((flags & SN_CQ) || !wants_handle)
		req->role = SN_ROLE_QUEUE;
	else
		req->role = SN_ROLE_HANDLE;
}
/* One of the pending events has happened; the first bad status sticks; at the last one the request completes. */
void sn_core_req_step(struct sn_req *req, int status);
void sn_core_req_complete(struct sn_req *req, int status);
static inline uint64_t sn_core_req_op(const struct sn_req *req)
{
	return (uint64_t)req->generation << 32 | req->index;
}
/* What a post gives its caller: NULL if nobody will ask, or if the request has ended (and changed its generation) since. */
static inline struct sn_req *sn_core_req_handle(struct sn_req *req, uint32_t generation, uint8_t role)
{
	return role == SN_ROLE_FORGET || req->generation != generation ? NULL : req;
}
struct sn_req *sn_core_req_find(sn_ep *ep, uint64_t op);
/* Common checks of a post; 0 or an error with its sentence. */
int sn_core_check_msg(sn_ep *ep, const sn_msg *msg, bool any_peer_ok, uint64_t *len);
/* The same for the commonest message at once: one segment, known peer. */
static inline int sn_core_check(sn_ep *ep, const sn_msg *msg, bool any_peer_ok, uint64_t *len)
{
	if (sn_likely(ep && msg && !sn_core_foreign(ep) && msg->iov_count == 1 && msg->iov &&
		      (msg->peer < atomic_load_explicit(&ep->peer_count, memory_order_relaxed) ||
		       (any_peer_ok && msg->peer == SN_ANY_PEER)) &&
		      (msg->iov->iov_base || !msg->iov->iov_len) &&
		      msg->iov->iov_len <= (uint64_t)INT64_MAX)) {
		*len = msg->iov->iov_len;
		return 0;
	}
	return sn_core_check_msg(ep, msg, any_peer_ok, len);
}
/* Hand the message to the peer's rail and account for the outcome. The request may be gone when this returns. */
int sn_core_hand_over(struct sn_req *req, const struct sn_out *out);

/* peer.c */
struct sn_peer_state *sn_core_peer_get(sn_ep *ep, sn_peer num);
struct sn_addr_part sn_core_rank_part(int rank);
size_t sn_core_addr_build(const struct sn_ep_ids *ids, const struct sn_addr_part *parts, uint32_t count,
			  uint8_t out[SN_ADDR_MAX]);
void sn_core_peers_free(sn_ep *ep);

/* recv.c */
/* Take a shown receive back before it is used otherwise. False: a sender has it. */
bool sn_core_recv_withdraw(struct sn_req *req);
/* What every receive says of itself. */
static inline void sn_core_recv_fill(struct sn_req *req, sn_peer from, void *buf, uint64_t room,
				     uint64_t bits, void *context)
{
	req->comp.buf = buf;
	req->room = room;
	req->comp.context = context;
	req->comp.peer = from;
	req->comp.bits = bits;
	req->comp.len = req->comp.full_len = 0;
	req->comp.data = 0;
	req->posted.source = from;
}
/* Likewise a tagged one into one piece of memory. */
static inline void sn_core_recv_fill_one(struct sn_req *req, uint8_t role, sn_peer from, void *buf,
					 uint64_t room, uint64_t bits, uint64_t mask, void *context)
{
	sn_core_recv_fill(req, from, buf, room, bits, context);
	req->seg_count = 1;
	req->role = role;
	req->comp.op = SN_OP_RECV;
	req->posted.bits = bits;
	req->posted.mask = mask;
}
/* Match against what has arrived, else queue. A multi-receive takes all it can hold. Returns with req perhaps gone. */
void sn_core_recv_place(struct sn_req *req, bool plain);
/*
 * May it have this message, which is brought here or has to be fetched? A receive that is tried (try.c) takes what is
 * as expected and brought.
 */
static inline bool sn_core_recv_accepts(const struct sn_req *req, uint64_t bits, uint64_t len, bool here)
{
	return sn_likely(req->role != SN_ROLE_TRY) || (bits == req->comp.bits && len <= req->room && here);
}
void sn_core_recv_complete(struct sn_req *req, int status);
int sn_core_recv_arrive(struct sn_peer_state *peer, const struct sn_in *in, bool plain);
/* claim.c. new: with room for so many bytes; NULL: no memory */
struct sn_claim *sn_core_claim_new(sn_ep *ep, uint64_t body);
void sn_core_claim_free(sn_ep *ep, struct sn_claim *claim);
/* Nobody wants it any more: at once, or when it has been fetched. */
void sn_core_claim_drop(sn_ep *ep, struct sn_claim *claim);
/* It is unexpected, and was only announced. */
void sn_core_claim_announced(sn_ep *ep, struct sn_claim *claim);
/* Where ep->early is not empty: fetch what is due. Above 0 also while something will be soon, so that nobody sleeps. */
int sn_core_claims_early(sn_ep *ep);
/* recv.c: the body of a claim that is used up, to the request that has taken it. */
void sn_core_claim_deliver(struct sn_req *req, struct sn_claim *claim);
void sn_core_claims_free(sn_ep *ep);

/* ack.c */
int sn_core_ack(struct sn_peer_state *peer, uint64_t op, int status);
int sn_core_ack_arrive(struct sn_peer_state *peer, const struct sn_in *in);

/* onesided.c, target.c */
int sn_core_result_arrive(struct sn_peer_state *peer, const struct sn_in *in);
int sn_core_target_arrive(struct sn_peer_state *peer, const struct sn_in *in);
void sn_core_onesided_next(struct sn_peer_state *peer);
void sn_core_onesided_pulled(struct sn_req *req, int status);
static inline bool sn_core_is_onesided(const struct sn_req *req)
{
	return req->comp.op >= SN_OP_PUT && req->comp.op <= SN_OP_FETCH;
}

/* region.c */
/* Where an access lands, or NULL with *status set. */
void *sn_core_region_resolve(sn_ep *ep, uint64_t key, uint64_t offset, uint64_t len, unsigned right,
			     int *status);
void sn_core_regions_free(sn_ep *ep);

/* atomic_ops.c: execute on count elements at target; old (if not NULL) receives the previous values. */
void sn_core_atomic_apply(sn_type type, sn_atomic_op op, void *target, const void *operand,
			  const void *compare, void *old, uint32_t count);

/* self.c */
extern const struct sn_rail_ops sn_rail_self;

/* ---- immediate data of the core's messages: on the wire, little-endian as the machine (checked at connect) ---- */

struct sn_imm_sync { /* SN_H_SYNC */
	uint64_t op;
};
struct sn_imm_ack {
	uint64_t op;
	int32_t status;
	uint32_t zero;
};
struct sn_imm_access { /* put, get, atomic */
	uint64_t op;
	uint64_t key;
	uint64_t offset;
	uint64_t len; /* get: bytes wanted; atomic: number of elements */
	uint8_t type, aop, fetch, zero;
	uint32_t zero2;
};
_Static_assert(sizeof(struct sn_imm_ack) == 16 && sizeof(struct sn_imm_access) == 40, "wire layout");

#endif
