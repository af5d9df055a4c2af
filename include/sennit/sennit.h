/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sennit: tagged messages, plain messages, one-sided access and atomics between processes, over shared memory,
 * kernel-assisted single copy and plain networks.
 *
 * Conventions, true of every function unless its comment says otherwise:
 *  - Functions return 0 (or a count) on success and a negative sn_error on failure; errno says nothing.
 *    sn_strerror() explains a code; sn_last_error() gives the sentence about the last failure of this thread.
 *  - Lengths and offsets are in bytes, times in microseconds.
 *  - A buffer passed to a post belongs to sennit until the request completes. Descriptors (iovec arrays, sn_msg) are
 *    copied by the call and may be reused at once.
 *  - An endpoint opened with SN_THREAD_SERIAL must be used by one thread at a time (the caller's locking); one opened
 *    with SN_THREAD_MULTIPLE may be used by any number of threads at once.
 *  - Matching follows MPI: between one sender and one receiver, messages that match the same receive do so in the
 *    order in which they were sent, and receives are satisfied in the order in which they were posted.
 */
#ifndef SENNIT_SENNIT_H
#define SENNIT_SENNIT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SN_VERSION_MAJOR 0
#define SN_VERSION_MINOR 1
#define SN_VERSION_PATCH 0

#define SN_API __attribute__((visibility("default")))

typedef struct sn_ep sn_ep;	    /* an endpoint: an address that sends and receives */
typedef struct sn_req sn_req;	    /* one operation in flight */
typedef struct sn_claim sn_claim;   /* an unexpected message taken by sn_mprobe */
typedef struct sn_region sn_region; /* memory that peers may read or write */
typedef uint32_t sn_peer;	    /* a peer, numbered by the endpoint that knows it */

#define SN_ANY_PEER ((sn_peer)UINT32_MAX)
#define SN_ADDR_MAX 64	/* longest endpoint address, bytes */
#define SN_IOV_MAX  256 /* most segments in one message */

typedef enum sn_error {
	SN_OK = 0,
	SN_ERR_INVALID = -1,	  /* an argument is wrong */
	SN_ERR_NOMEM = -2,	  /* memory, descriptors or another resource ran out */
	SN_ERR_AGAIN = -3,	  /* nothing there yet: call again */
	SN_ERR_TIMEOUT = -4,	  /* the given time passed */
	SN_ERR_TRUNCATED = -5,	  /* the message was longer than the receive buffer; the head was delivered */
	SN_ERR_CANCELED = -6,	  /* sn_cancel took the request back */
	SN_ERR_PEER_GONE = -7,	  /* the peer died, closed its endpoint or cannot be reached */
	SN_ERR_FAULT = -8,	  /* a buffer cannot be read or written */
	SN_ERR_ACCESS = -9,	  /* a region key, its bounds or its rights do not allow the access */
	SN_ERR_PROTO = -10,	  /* the peer sent something that makes no sense; it is disconnected */
	SN_ERR_PERM = -11,	  /* the system refused (credentials, seccomp, limits) */
	SN_ERR_UNSUPPORTED = -12, /* not offered by this build, machine or rail */
	SN_ERR_FORKED = -13,	  /* the endpoint belongs to the parent of this forked process */
} sn_error;

SN_API const char *sn_strerror(int error);
/* The sentence about the last failure in this thread, with what to do about it; "" if none. Valid until the next call. */
SN_API const char *sn_last_error(void);
/* "0.1.0". */
SN_API const char *sn_version(void);

/* ---- endpoints ---------------------------------------------------------------------------------------------- */

typedef enum sn_thread_mode {
	SN_THREAD_SERIAL = 0,
	SN_THREAD_MULTIPLE = 1,
} sn_thread_mode;

typedef enum sn_op {
	SN_OP_SEND = 1,	 /* tagged send */
	SN_OP_RECV = 2,	 /* tagged receive */
	SN_OP_MSEND = 3, /* plain (untagged) send */
	SN_OP_MRECV = 4, /* plain receive, multi-receive included */
	SN_OP_PUT = 5,
	SN_OP_GET = 6,
	SN_OP_ATOMIC = 7,      /* without a result */
	SN_OP_FETCH = 8,       /* atomic with the old value returned */
	SN_OP_TARGET_PUT = 9,  /* reported at the target: a put arrived; .data counts with SN_COMP_DATA */
	SN_OP_TARGET_GET = 10, /* reported at the target of a get, only to on_target */
	SN_OP_TARGET_ATOMIC = 11,
} sn_op;

enum {				      /* sn_completion.flags */
       SN_COMP_DATA = 1u << 0,	      /* .data is what the sender attached */
       SN_COMP_BUFFER_DONE = 1u << 1, /* a multi-receive buffer is used up and belongs to the caller again */
       SN_COMP_FORGET = 1u << 2, /* the request was posted with SN_FORGET and succeeded (callback only) */
       SN_COMP_MARK = 1u << 3,	 /* the message is marked */
};

/* How an operation ended. */
typedef struct sn_completion {
	void *context; /* as given to the post */
	sn_op op;
	int status;   /* SN_OK or a negative sn_error */
	sn_peer peer; /* the other side; for a receive, the source */
	uint32_t flags;
	uint64_t bits;	   /* match bits of the message; at a target, the region's key */
	uint64_t len;	   /* bytes delivered (receive) or taken (send) */
	uint64_t full_len; /* length of the whole message; above len when truncated */
	uint64_t data;	   /* with SN_COMP_DATA */
	void *buf; /* receive: where the message lies (differs from the buffer posted in a multi-receive) */
} sn_completion;

/*
 * Called when an operation completes, by the thread that completed it, inside a sennit call, with the endpoint's lock
 * held: it must not call sennit on the same endpoint except sn_peer_cookie() and sn_peer_set_cookie(), must not block, and should take well
 * under a microsecond.
 */
typedef void (*sn_complete_fn)(void *arg, const sn_completion *c);

typedef struct sn_ep_attr {
	sn_thread_mode threads;
	sn_complete_fn on_complete; /* NULL: completions are fetched with sn_poll, sn_test, sn_wait */
	sn_complete_fn on_target;   /* NULL, or told of peers' accesses to regions (op SN_OP_TARGET_*) */
	void *arg;		    /* passed to both */
} sn_ep_attr;

/*
 * Open an endpoint. attr may be NULL (serial, no callbacks). *ep is owned by the caller, closed with sn_ep_close.
 * Errors: SN_ERR_NOMEM, SN_ERR_PERM, SN_ERR_INVALID (no place for it, an unknown thread mode), SN_ERR_UNSUPPORTED (no rail: all are
 * switched off); sn_last_error() says which call was refused.
 */
SN_API int sn_ep_open(const sn_ep_attr *attr, sn_ep **ep);
/* on_complete need not be called for sends posted with SN_FORGET that succeed (quiet 0: it must). Before the first post. */
SN_API int sn_ep_quiet(sn_ep *ep, int quiet);
/*
 * patient 1: receives from a peer that has closed its endpoint in good order are not ended with SN_ERR_PEER_GONE, but stay posted
 * until they are cancelled, as those of an MPI do from a rank that has called MPI_Finalize. Before the first post.
 */
SN_API int sn_ep_patient(sn_ep *ep, int patient);
/* Is there such a receive? SN_ERR_PEER_GONE, and sn_last_error() names the peer; or 0. Not from callbacks; any thread. */
SN_API int sn_ep_in_vain(sn_ep *ep);
/*
 * Close. Requests still in flight are dropped without completion, after eager data already accepted has been handed
 * to every live peer (waits at most SENNIT_LINGER). Handles of this endpoint are invalid afterwards. NULL is ignored.
 */
SN_API void sn_ep_close(sn_ep *ep);
/* The address to hand to peers, opaque, at most SN_ADDR_MAX bytes; *len is in and out. It contains the endpoint's key:
 * whoever has it may send to this endpoint. Errors: SN_ERR_INVALID with the needed *len if the room is too small. */
SN_API int sn_ep_address(const sn_ep *ep, void *addr, size_t *len);

/* ---- peers -------------------------------------------------------------------------------------------------- */

/*
 * Make a peer known; the same address gives the same peer again. Connecting happens at the first send and never blocks.
 * One's own address is fine. Errors: SN_ERR_INVALID (not an address of this version), SN_ERR_UNSUPPORTED (no rail leads
 * there), SN_ERR_NOMEM.
 */
SN_API int sn_peer_add(sn_ep *ep, const void *addr, size_t len, sn_peer *peer);
/* The address of a peer, also of one that connected by itself. Room, length and errors as for sn_ep_address. */
SN_API int sn_peer_address(sn_ep *ep, sn_peer peer, void *addr, size_t *len);
/*
 * Attach a number to a peer, for callers with a numbering of their own, and read it; both may be called from callbacks.
 * The number of a peer that has none, or that is not known, is UINT64_MAX.
 */
SN_API int sn_peer_set_cookie(sn_ep *ep, sn_peer peer, uint64_t cookie);
SN_API uint64_t sn_peer_cookie(sn_ep *ep, sn_peer peer);
/*
 * Why a peer is gone (SN_ERR_PEER_GONE): 1 if it closed its endpoint in good order, 0 if it was killed, cannot be
 * reached, or is not gone. Not from callbacks; any thread.
 */
SN_API int sn_peer_left(sn_ep *ep, sn_peer peer);

/* ---- two-sided ---------------------------------------------------------------------------------------------- */

enum {			    /* sn_msg.flags */
       SN_SYNC = 1u << 0,   /* send: complete only once the receiver has matched the message */
       SN_INJECT = 1u << 1, /* send: the buffer is free again when the call returns; len <= SN_INJECT_MAX */
       SN_DATA = 1u << 2,   /* send, put: .data travels with the message */
       SN_FORGET =
	       1u
	       << 3, /* no completion is wanted unless the operation fails; *req is set to NULL. on_complete may hear of it (SN_COMP_FORGET) */
       /* plain receive: stay posted and take message after message into one buffer, each at an aligned
	* address (.buf of its completion), until less than .min_room bytes are left */
       SN_MULTI = 1u << 4,
       /* deliver the completion to sn_poll and free the request there; *req is then only for sn_cancel, and NULL if
	* the operation has already ended. Of no effect with on_complete */
       SN_CQ = 1u << 5,
       /* send: complete only once the message lies in memory of the receiver's host, matched or not; one that is only
	* announced (setting eager; between hosts less, by what the path carries) when it has been fetched */
       SN_DELIVERED = 1u << 6,
       SN_MARK = 1u << 7, /* sn_try_send, sn_inject: the message is marked, which its receiver may ask for */
};
#define SN_INJECT_MAX 4096

/* One post. Fields that an operation does not name are ignored. */
typedef struct sn_msg {
	sn_peer peer; /* destination; for a receive the source, or SN_ANY_PEER */
	uint32_t flags;
	const struct iovec *iov; /* segments; a zero-length message may have none */
	uint32_t iov_count;	 /* 0 to SN_IOV_MAX */
	uint32_t reserved;	 /* 0 */
	uint64_t bits;		 /* match bits */
	/* receive: a message matches when (its bits & mask) == bits; bits outside are an error */
	uint64_t mask;
	uint64_t data;	   /* with SN_DATA */
	uint64_t min_room; /* with SN_MULTI */
	void *context;
} sn_msg;

/*
 * Post a tagged send, tagged receive, plain send or plain receive. Plain messages match by source only and never match
 * tagged receives. *req (if req is not NULL) is the handle for sn_test, sn_wait and sn_cancel; with a completion
 * callback it is only for sn_cancel, and gone once the callback has run. Without req and callback the completion goes to
 * sn_poll, as with SN_CQ.
 *
 * A send to a dead peer, or a receive from one with nothing left to deliver, completes with SN_ERR_PEER_GONE.
 * Returned errors: SN_ERR_INVALID (unknown peer, null buffer with a length, too many segments, bits outside the mask),
 * SN_ERR_NOMEM, SN_ERR_FORKED. After a returned error nothing was posted.
 *
 * Budget, known local peer, up to the eager limit: no system call, no allocation, no locked instruction (SERIAL), one
 * copy in and one copy out.
 */
SN_API int sn_post_send(sn_ep *ep, const sn_msg *msg, sn_req **req);
SN_API int sn_post_recv(sn_ep *ep, const sn_msg *msg, sn_req **req);
SN_API int sn_post_msend(sn_ep *ep, const sn_msg *msg, sn_req **req);
SN_API int sn_post_mrecv(sn_ep *ep, const sn_msg *msg, sn_req **req);

/*
 * A tagged send of at most SN_INJECT_MAX bytes that are taken before the call returns and that nobody will ask after: what
 * sn_post_send does with SN_INJECT | SN_FORGET, by the shortest way. flags: SN_MARK, and SN_DATA, data then travels along.
 * To a peer that is known to be dead: SN_ERR_PEER_GONE, and nothing was posted.
 */
SN_API int sn_inject(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits, uint64_t data,
		     uint32_t flags);

/*
 * A tagged send of one piece of memory, without a handle, on an endpoint with on_complete: what sn_post_send does, by the
 * shortest way. flags: SN_DATA, SN_FORGET. 1: it has left already, the memory is the caller's again, and the callback hears
 * nothing of it. 0: the callback tells, or has told. data travels with SN_DATA only.
 */
SN_API int sn_tsend(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits, uint64_t data,
		    uint32_t flags, void *context);

/*
 * Likewise, if the message can leave at once, and nobody hears of it. flags: SN_DATA, SN_MARK. SN_ERR_AGAIN: nothing
 * was done, for whatever reason; sn_tsend says more.
 */
SN_API int sn_try_send(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits, uint64_t data,
		       uint32_t flags);

/*
 * A tagged message to oneself (`to`), and the receive that takes it, posted right behind it: len bytes go from buf to
 * into, and nobody hears of either. SN_ERR_AGAIN: nothing was done, because they do not fit each other, something else
 * that waits comes before either, or for whatever reason; the two calls say more.
 */
SN_API int sn_try_self(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits, sn_peer from,
		       void *into, size_t room, uint64_t want, uint64_t mask);

/*
 * A tagged receive into one piece of memory, without flags or a handle: what sn_post_recv does, by the shortest way. Its
 * completion comes to the callback, or to sn_poll.
 */
SN_API int sn_trecv(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask,
		    void *context);

/*
 * A receive that is over when the call returns: of the message that a receive posted now would take, if that has the
 * match bits `exactly` (of which bits are the part within the mask), fits, is short or of a length that lately came
 * by two copies, and has come, or begun to come, within so many looks. With more processes than cores the core is
 * given away between looks. SN_OK: it is in buf, *len bytes. SN_ERR_AGAIN: nothing was taken, for whatever reason.
 * Nobody hears of it by a callback or sn_poll.
 */
SN_API int sn_try_recv(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask,
		       uint64_t exactly, unsigned looks, uint64_t *len);
/* sn_probe for a tagged message, without words on what is wrong with the arguments, and counted by itself. */
SN_API int sn_try_probe(sn_ep *ep, sn_peer from, uint64_t bits, uint64_t mask, sn_completion *c);
/*
 * Was the message marked (SN_MARK) that the last sn_try_recv or sn_recv brought? 0 or 1. Where one thread at a time
 * calls these two.
 */
SN_API int sn_try_marked(const sn_ep *ep);

/*
 * Such a receive that stays posted when the call returns. On an endpoint with on_complete, too, nobody hears of it
 * but who asks, with sn_try_test. NULL: nothing was done, for whatever reason.
 */
SN_API sn_req *sn_try_post(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask);
/*
 * Has its message come, within so many looks? SN_OK: it is in the buffer, *len bytes, and the handle is gone.
 * SN_ERR_AGAIN: not yet. Another error: it has ended otherwise, or with a message whose match bits are not `exactly`;
 * sn_try_hand_over tells more.
 */
SN_API int sn_try_test(sn_req *req, uint64_t exactly, unsigned looks, uint64_t *len);
/*
 * From now on it is, in its place among the others, as if sn_trecv had posted it with this context, and the handle is
 * gone. If it has ended, that is told before the call returns, or after what was put off before.
 */
SN_API void sn_try_hand_over(sn_req *req, void *context);
/* It is taken back, and the handle is gone. SN_ERR_INVALID: a message had come for it already, and is lost. */
SN_API int sn_try_drop(sn_req *req);
/*
 * sn_try_post of a receive whose end is written where its owner looks: if a message comes as expected (it fits, and
 * has the match bits `exactly`), *came, negative until then, becomes its bytes in the moment it is in the buffer, by
 * whoever has looked for it, and the handle is gone. *came has to stay for so long. Read it with acquire order. That
 * saves asking for most; it replaces no question, for a message that was there before, or that comes in pieces, and
 * any other end of it, is told by sn_try_awaited alone.
 */
SN_API sn_req *sn_try_await(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask,
			    uint64_t exactly, int64_t *came);
/* sn_try_test of it, which sets *came as well. */
SN_API int sn_try_awaited(sn_req *req, uint64_t exactly, unsigned looks, int64_t *came);
/* From now on it is one of sn_try_post's. SN_ERR_INVALID: *came says that there is none any more. */
SN_API int sn_try_hold(sn_req *req, const int64_t *came);

/*
 * A tagged send that is over when the call returns, which waits as sn_wait does without a limit: the memory is the
 * caller's again, the message is on its way or received. A long one is over only when it is received: two who both send
 * first, or who send to themselves, wait for ever; sn_isend does not. On an endpoint without on_complete. Errors: as
 * sn_post_send, and what the completion would have said, SN_ERR_PEER_GONE of a peer that is gone.
 *
 * Budget: a short message to a known local peer needs no request; else as sn_post_send.
 */
SN_API int sn_send(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits);
/*
 * A tagged receive that is over when the call returns, whatever came and however long that took: *c tells. It waits as
 * sn_wait does; or calls meanwhile(), if that is not NULL, between two looks, by the caller's thread, which should give
 * the core away when it is called in vain for long, and may call sennit. Returned errors: as sn_post_recv.
 */
SN_API int sn_recv(sn_ep *ep, sn_peer from, void *buf, size_t room, uint64_t bits, uint64_t mask,
		   void (*meanwhile)(void), sn_completion *c);

static inline int sn_isend(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits, sn_req **req)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};
	sn_msg m = {.peer = to, .iov = &v, .iov_count = 1, .bits = bits};
	return sn_post_send(ep, &m, req);
}

static inline int sn_issend(sn_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits, sn_req **req)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};
	sn_msg m = {.peer = to, .flags = SN_SYNC, .iov = &v, .iov_count = 1, .bits = bits};
	return sn_post_send(ep, &m, req);
}

static inline int sn_irecv(sn_ep *ep, sn_peer from, void *buf, size_t len, uint64_t bits, uint64_t mask,
			   sn_req **req)
{
	struct iovec v = {buf, len};
	sn_msg m = {.peer = from, .iov = &v, .iov_count = 1, .bits = bits, .mask = mask};
	return sn_post_recv(ep, &m, req);
}

/*
 * Take back a request. If it could still be taken back it completes with SN_ERR_CANCELED (through the usual way) and
 * the call returns SN_OK; if it is already matched or sent the call returns SN_ERR_AGAIN and it completes normally.
 */
SN_API int sn_cancel(sn_ep *ep, sn_req *req);
/*
 * Likewise for the earliest posted receive with this context, for callers that keep no handles. SN_ERR_AGAIN: it is
 * already matched and will complete; SN_ERR_INVALID: no such receive is under way. Looks at every request of the
 * endpoint: not for a fast path.
 */
SN_API int sn_cancel_context(sn_ep *ep, const void *context);

/*
 * Look for an unexpected message: the earliest that a receive with this source, bits and mask would match. Makes
 * progress once. Returns SN_OK and fills *c (len is 0, full_len the message's length), or SN_ERR_AGAIN.
 * sn_mprobe also takes the message out of matching: it must then be passed to sn_mrecv or sn_discard.
 * sn_probe with plain != 0 looks among plain messages.
 */
SN_API int sn_probe(sn_ep *ep, int plain, sn_peer from, uint64_t bits, uint64_t mask, sn_completion *c);
SN_API int sn_mprobe(sn_ep *ep, int plain, sn_peer from, uint64_t bits, uint64_t mask, sn_completion *c,
		     sn_claim **claim);
/*
 * The bytes of a claimed message, if all of them are here already: they stay until the claim is used up. NULL: it is
 * empty, or only announced, as long messages are, and sn_mrecv fetches it.
 */
SN_API const void *sn_claim_data(sn_ep *ep, const sn_claim *claim);
/* Receive a claimed message; msg gives the buffers, flags and context. The claim is used up, also on error. */
SN_API int sn_mrecv(sn_ep *ep, sn_claim *claim, const sn_msg *msg, sn_req **req);
/* Throw a claimed message away; its sender completes. */
SN_API int sn_discard(sn_ep *ep, sn_claim *claim);

/* ---- one-sided ---------------------------------------------------------------------------------------------- */

enum { /* rights */
       SN_REMOTE_READ = 1,
       SN_REMOTE_WRITE = 2,
       /* peers name bytes of this region by their addresses here, not by offsets from base */
       SN_REMOTE_VIRTUAL = 4,
};

/*
 * Let peers access [base, base + len) by this key (unique among the endpoint's regions; SN_ERR_INVALID if taken).
 * base NULL with len SIZE_MAX exposes the whole address space. Remote addresses are offsets from base, or addresses
 * in the target with SN_REMOTE_VIRTUAL. The region is owned by the caller until sn_region_free; nothing is pinned.
 * After that accesses by peers end with SN_ERR_ACCESS. Any thread may call both at any time, also of an endpoint of
 * one thread; not a callback. Errors of both: SN_ERR_INVALID, SN_ERR_NOMEM, SN_ERR_FORKED.
 */
SN_API int sn_region_add(sn_ep *ep, void *base, size_t len, uint64_t key, unsigned rights,
			 sn_region **region);
SN_API int sn_region_free(sn_ep *ep, sn_region *region);

typedef struct sn_remote {
	uint64_t key;
	uint64_t offset; /* from the region's base, or the address in the target */
} sn_remote;

/*
 * Write to, or read from, a region of msg->peer. A put completes when the data lies in the target's memory. The target
 * takes part through its own progress (its library calls or its progress thread). Puts, gets and atomics to one peer
 * are executed in the order posted. Errors at the target complete the operation with SN_ERR_ACCESS or SN_ERR_FAULT. (Memory of a
 * region that is not there any more: from SN_INJECT_MAX on. What is shorter, and atomics, the target does itself, and such memory ends
 * it as its own access would.) Returned errors: as of sn_post_send; SN_ERR_INVALID also of a range that wraps, SN_INJECT with more than
 * SN_INJECT_MAX bytes, and an atomic of no element, of part of one, of more than SN_ATOMIC_MAX bytes, or whose operands, comparands or
 * results are missing or not as long as its operation wants them.
 */
SN_API int sn_put(sn_ep *ep, const sn_msg *msg, const sn_remote *to, sn_req **req);
SN_API int sn_get(sn_ep *ep, const sn_msg *msg, const sn_remote *from, sn_req **req);

typedef enum sn_type {
	SN_INT8,
	SN_UINT8,
	SN_INT16,
	SN_UINT16,
	SN_INT32,
	SN_UINT32,
	SN_INT64,
	SN_UINT64,
	SN_INT128,
	SN_UINT128,
	SN_FLOAT,
	SN_DOUBLE,
	SN_FLOAT_COMPLEX,
	SN_DOUBLE_COMPLEX,
	SN_LONG_DOUBLE,
	SN_LONG_DOUBLE_COMPLEX,
	SN_TYPE_COUNT
} sn_type;

typedef enum sn_atomic_op {
	SN_MIN,
	SN_MAX,
	SN_SUM,
	SN_PROD,
	SN_LOR,
	SN_LAND,
	SN_BOR,
	SN_BAND,
	SN_LXOR,
	SN_BXOR,
	SN_READ,
	SN_WRITE,
	SN_CSWAP,
	SN_CSWAP_NE,
	SN_CSWAP_LE,
	SN_CSWAP_LT,
	SN_CSWAP_GE,
	SN_CSWAP_GT,
	SN_MSWAP,
	SN_DIFF,
	SN_ATOMIC_OP_COUNT
} sn_atomic_op;

typedef struct sn_atomic {
	sn_type type;
	sn_atomic_op op;
	const struct iovec *compare; /* CSWAP*, MSWAP: as many bytes as the operand */
	uint32_t compare_count;
	uint32_t result_count;	    /* 0: nothing is fetched */
	const struct iovec *result; /* receives the old values */
} sn_atomic;

#define SN_ATOMIC_MAX 2048 /* most operand bytes in one atomic */

/* Size of one element, or 0 if type or the pair of op and type is not valid (as libfabric defines validity). */
SN_API size_t sn_atomic_size(sn_type type, sn_atomic_op op);
/* msg->iov is the operand (absent for SN_READ). Elementwise atomic towards other sn_atomic calls on the same target. */
SN_API int sn_atomic_post(sn_ep *ep, const sn_msg *msg, const sn_remote *at, const sn_atomic *a,
			  sn_req **req);

/* ---- completion and progress -------------------------------------------------------------------------------- */

/* Make progress once without blocking. Returns the number of events handled (0: nothing to do), or an error. */
SN_API int sn_progress(sn_ep *ep);
/* Fetch up to max completions of requests posted with SN_CQ; makes progress. Returns how many. */
SN_API int sn_poll(sn_ep *ep, sn_completion *c, int max);
/*
 * Has req completed? SN_OK: *c (may be NULL) is filled and req is freed; its outcome is in c->status. SN_ERR_AGAIN: not
 * yet. Makes progress.
 */
SN_API int sn_test(sn_ep *ep, sn_req *req, sn_completion *c);
/* Likewise, waiting: spins briefly, then sleeps. timeout_us < 0: for ever. SN_ERR_TIMEOUT leaves req valid. */
SN_API int sn_wait(sn_ep *ep, sn_req *req, sn_completion *c, int64_t timeout_us);
/*
 * Called by somebody who polls, after a poll of these endpoints that found nothing: decides from how long nothing has
 * come (*idle, which the caller keeps and sets to 0 whenever something came) whether to return at once, to yield the
 * core, or to nap until a peer rings or max_nap_us have passed.
 */
SN_API void sn_relax(sn_ep *const *eps, unsigned count, uint64_t *idle, unsigned max_nap_us);
/*
 * Likewise for somebody who certainly waits and does nothing else: looks on by itself for up to a quarter of the time
 * waited, and sleeps after a few tens of microseconds. Returns 1 if it made progress (then *idle is 0 again), else 0.
 */
SN_API int sn_relax_wait(sn_ep *const *eps, unsigned count, uint64_t *idle, unsigned max_nap_us);
/* Wake the threads of this process that nap. From any thread. */
SN_API void sn_relax_wake(void);

/* ---- looking inside ------------------------------------------------------------------------------------------ */

/*
 * Call fn for each counter of the endpoint (e.g. "local.tx_eager", 17). Names stay valid. Not from a callback; fn must not
 * use the endpoint, which is locked meanwhile.
 */
SN_API int sn_counters(sn_ep *ep, void (*fn)(void *arg, const char *name, uint64_t value), void *arg);

#ifdef __cplusplus
}
#endif
#endif
