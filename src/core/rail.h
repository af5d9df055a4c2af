/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between the core and whatever moves messages to a peer: the local rail, the scheduler with the network
 * rails below it, and self-sends.
 *
 * The core owns matching, requests and the meaning of messages. A rail moves *messages*: a fixed head, up to
 * SN_IMM_MAX bytes of immediate data that always travel with the head, and a body that is either carried along (eager)
 * or announced (rendezvous) and fetched when the core asks. Messages from one sender to one receiver arrive in the order
 * in which they were posted, each exactly once. Rails never look inside, never match, and report upward only through
 * sn_core_arrive, sn_core_sent, sn_core_pulled and sn_core_peer_gone.
 *
 * Threads: every function here, both ways, runs with the endpoint's lock held (or, for a SERIAL endpoint, in the one
 * thread that uses it). A rail's own threads hand over through the rail's mailbox, which its progress() drains.
 */
#ifndef SN_CORE_RAIL_H
#define SN_CORE_RAIL_H

#include "sennit/sennit.h"
#include <stdbool.h>

#define SN_IMM_MAX 64

struct sn_peer_state;
struct sn_req;
struct sn_rdv; /* a rendezvous announced by a peer and not fetched yet: allocated, and defined, by the rail */

/* What a message means; the core's business. Values are on the wire: append only. */
enum sn_kind {
	SN_K_NONE = 0,	 /* never sent */
	SN_K_TAGGED = 1, /* bits match a tagged receive */
	SN_K_PLAIN = 2,	 /* matches a plain receive */
	SN_K_ACK = 3, /* imm: the operation acknowledged and its status (synchronous sends, puts, atomics) */
	SN_K_PUT = 4, /* imm: key, offset, operation; body: data */
	SN_K_GET = 5, /* imm: key, offset, length, operation */
	SN_K_RESULT = 6, /* imm: operation, status; body: what a get or a fetching atomic returns */
	SN_K_ATOMIC = 7, /* imm: key, offset, operation, type, op; body: operand, then compare */
	SN_K_MAX = 7,	 /* rails refuse kinds above this from the wire */
};

enum {			       /* sn_head.flags; on the wire */
       SN_H_SYNC = 1u << 0,    /* the sender waits for an ACK upon matching (imm carries the operation id) */
       SN_H_DATA = 1u << 1,    /* .data is meaningful */
       SN_H_ARRIVED = 1u << 2, /* the sender waits for an ACK upon arrival (likewise) */
       SN_H_MARK = 1u << 3,    /* one bit of the sender's own, for who receives by sn_try_recv or sn_recv */
       SN_H_MASK = 0x0f,       /* the core's flags; higher bits belong to the rails */
};

struct sn_head {
	uint8_t kind;
	uint8_t flags;
	uint8_t imm_len;
	uint64_t bits;
	uint64_t data;
	uint64_t len; /* of the body */
	const void *imm;
};

/* A message to send. The iov array stays valid until sn_core_sent (it belongs to the request). */
struct sn_out {
	struct sn_head head;
	const struct iovec *iov;
	uint32_t iov_count;
	bool must_copy; /* the body must be taken before post() returns (inject); len <= SN_INJECT_MAX */
};

/* A message that arrived. body is valid during the call only; for a rendezvous body is NULL and rdv is set. A message
 * without a body has len 0, body NULL, rdv NULL. */
struct sn_in {
	struct sn_head head;
	const void *body;
	struct sn_rdv *rdv;
	bool only_posted; /* with rdv: pull it within the call, or say SN_ERR_AGAIN and keep nothing of it */
};

struct sn_addr_part { /* one rail's piece of an endpoint address */
	uint8_t type; /* enum sn_addr_type */
	uint8_t len;
	uint8_t bytes[30];
};
enum sn_addr_type {
	SN_ADDR_LOCAL = 1,
	SN_ADDR_UDP4 = 2,
	SN_ADDR_UDP6 = 3,
	SN_ADDR_ETHER = 4,
	SN_ADDR_QUICK = 5, /* of the port before, another way in (net/quick.c); in no address */
	SN_ADDR_RANK =
		6, /* no way in: the process's rank in MPI_COMM_WORLD, 4 bytes, little endian, for logs */
};

/* The endpoint as rails see it. */
struct sn_ep_ids {
	uint64_t id;	 /* public, unique; may appear in socket names */
	uint8_t key[12]; /* secret, handed out in the address only; peers prove that they have it */
};

struct sn_rail_ops {
	const char *name;
	bool far; /* sn_core_sent may come while the message is still on its way to the peer's memory */
	/* Open the rail for an endpoint. *rail is the rail's own state; *part is what goes into the address. Negative
	 * error: the rail is not available here (sn_last_error says why); the endpoint goes on with the others. */
	int (*open)(struct sn_ep *ep, const struct sn_ep_ids *ids, void **rail, struct sn_addr_part *part);
	/* Close: first what was accepted must reach live peers (bounded by the linger setting). */
	void (*close)(void *rail);
	/* Optional: further address parts of the endpoint on this rail, at most `max`. Those that fit go into the address. */
	unsigned (*more)(void *rail, struct sn_addr_part *parts, unsigned max);
	/* Can this rail reach a peer with this address part? */
	bool (*reaches)(void *rail, const struct sn_addr_part *part);
	/* Attach to a peer: allocate the rail's state for it (kept by the core, given back to the calls below). Must not
	 * block and need not connect before the first post. */
	int (*attach)(void *rail, struct sn_peer_state *peer, const struct sn_ep_ids *ids,
		      const struct sn_addr_part *part, void **link);
	/* Optional, after attach: the peer can be reached by this part, too. */
	void (*also)(void *link, const struct sn_addr_part *part);
	void (*detach)(void *link);
	/* Optional. A receive from this peer was posted and nothing was ever said to it: find out whether it lives. */
	void (*meet)(void *link);
	/*
	 * Send a message. req is the core's token for sn_core_sent, NULL if nobody waits for it (then the rail copies
	 * what it needs: imm and body, len <= SN_INJECT_MAX). Returns 1 if the message is already out of the caller's
	 * hands (no sn_core_sent will come), 2 if it also was matched on the way (SN_H_SYNC: nothing will be
	 * acknowledged), 0 if sn_core_sent(req) follows later, negative if it could not be accepted at all
	 * (SN_ERR_NOMEM, SN_ERR_PEER_GONE). Order is the order of the calls, whatever is returned.
	 */
	int (*post)(void *link, const struct sn_out *out, struct sn_req *req);
	/*
	 * Optional, for the commonest message: one segment (body NULL: none), no immediate data. what: kind | flags
	 * << 8. Returns 1 if it could leave at once, else SN_ERR_AGAIN with nothing done: post() it, which also says
	 * what is wrong.
	 */
	int (*post_now)(void *link, uint32_t what, uint64_t bits, uint64_t data, const void *body,
			uint64_t len);
	/* Take back a message that has not left yet: true if it was still queued (no sn_core_sent will come). */
	bool (*unpost)(void *link, struct sn_req *req);
	/*
	 * Fetch the first `len` bytes of a rendezvous into iov (valid until sn_core_pulled), len <= the announced length.
	 * sn_core_pulled(req, status) follows, possibly inside this call. The rdv is used up; the sender completes.
	 */
	void (*pull)(void *link, struct sn_rdv *rdv, const struct iovec *iov, uint32_t iov_count,
		     uint64_t len, struct sn_req *req);
	/* Refuse a rendezvous: nothing is fetched, the sender completes with this status (0 or a negative sn_error). */
	void (*refuse)(void *link, struct sn_rdv *rdv, int status);
	/*
	 * Optional. Show a posted tagged receive to senders, who may then claim it and write into it while this
	 * process computes. link: of the source, NULL: any. The core calls it only if no earlier open receive that is
	 * not shown could take the same message; serials grow. Returns a slot, or -1 if it is not shown (the source
	 * would pass it by, no slot free). iov is copied. A claim ends in sn_core_claimed or sn_core_claimed_rdv.
	 */
	int (*expose)(void *rail, const void *link, uint64_t serial, uint64_t bits, uint64_t mask,
		      const struct iovec *iov, uint32_t iov_count, uint64_t room, struct sn_req *req);
	/*
	 * Optional. To judge by the last ones: will a message from this peer that fills so much room be brought here,
	 * whatever is shown, and not be left for a pull?
	 */
	bool (*brings)(const void *link, uint64_t room);
	/* Hide it again. False: a sender has claimed it, and the receive is that sender's. */
	bool (*withdraw)(void *rail, int slot);
	/* Handle whatever arrived; returns the number of events. Never blocks; no system call when nothing is there. */
	int (*progress)(void *rail);
	/*
	 * Optional, for one who calls it between two calls of progress(): take what has come, found by one cheap
	 * look, and leave all else for progress(). Negative: this cannot be said, so progress() is asked for.
	 */
	int (*peek)(void *rail);
	/* Optional, likewise: of what comes from this peer alone. */
	int (*look)(void *link);
	/* Optional. The application may go away now: see to it that the progress thread is woken by what comes. */
	void (*leave)(void *rail);
	/*
	 * Optional. Is the application trusted to look again soon, and can it post as much again before it does? Then
	 * nobody need look at what has come before it posts on.
	 */
	bool (*stays)(const void *rail);
	/* Something is queued that only further progress() calls can move (do not sleep for long). */
	bool (*busy)(void *rail);
	/* Report counters. */
	void (*counters)(void *rail, void (*fn)(void *arg, const char *name, uint64_t value), void *arg);
};

extern const struct sn_rail_ops sn_rail_local;
extern const struct sn_rail_ops sn_rail_net;

/* ---- upward: implemented by the core ------------------------------------------------------------------------ */

/* A message arrived from a peer. Negative: it makes no sense; the rail disconnects the peer. */
int sn_core_arrive(struct sn_peer_state *peer, const struct sn_in *in);
/* The same for the commonest message: tagged, no immediate data, not synchronous, its body here. */
int sn_core_arrive_tagged(struct sn_peer_state *peer, uint8_t flags, uint64_t bits, uint64_t data,
			  const void *body, uint64_t len);
/* A message given to post() has left the caller's buffers (for a rendezvous: the receiver has fetched or refused it). */
void sn_core_sent(struct sn_req *req, int status);
/* Before that, of one with SN_H_ARRIVED which the rail took off: its own protocol says that the message has arrived. */
void sn_core_arrived(struct sn_req *req);
/* A pull has ended. */
void sn_core_pulled(struct sn_req *req, int status);
/* A sender has claimed a shown receive and written the message of head.len bytes into it (as much as there was room);
 * or, with an error status, it died or failed over it (head NULL). */
void sn_core_claimed(struct sn_req *req, struct sn_peer_state *peer, const struct sn_head *head, int status);
/*
 * A sender has claimed a shown receive but could not write it: a rendezvous that this receive must take. Negative: it
 * makes no sense.
 */
int sn_core_claimed_rdv(struct sn_req *req, struct sn_peer_state *peer, const struct sn_in *in);
/*
 * The peer is gone: everything it sent before has been delivered, and the rail has already ended, with sn_core_sent
 * and sn_core_pulled (SN_ERR_PEER_GONE), whatever it held for it. No more calls for this link follow except detach.
 * status 0: it closed its endpoint in good order.
 */
void sn_core_peer_gone(struct sn_peer_state *peer, int status);
/*
 * A peer connected by itself: find it by its address, or make it, attach it to this rail and return it (NULL: no memory).
 * The rail has already verified that the connection may be trusted. *link is what attach returned for it.
 */
struct sn_peer_state *sn_core_peer_from(struct sn_ep *ep, const void *rail, const void *addr, size_t len,
					void **link);
/* The whole address of the endpoint, for a rail's own handshake. */
size_t sn_core_address(const struct sn_ep *ep, uint8_t out[SN_ADDR_MAX]);
uint32_t sn_core_peer_number(const struct sn_peer_state *peer);
int sn_core_peer_rank(
	const struct sn_peer_state *peer); /* in MPI_COMM_WORLD; -1: no launcher has started it */
/* For logs: "rank 3"; "peer 3", by its number, if that is not known. */
struct sn_peer_name {
	char text[24];
};
struct sn_peer_name sn_core_peer_name(const struct sn_peer_state *peer);
/* Bytes of its longer messages (above 16 KiB, or fetched early) that are here, but that nobody has posted for. */
uint64_t sn_core_peer_kept(const struct sn_peer_state *peer);
#define SN_KEPT_MAX (4u << 20) /* more of them are not welcome */

#endif
