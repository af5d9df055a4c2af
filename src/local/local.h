/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local rail's own structures. Private to src/local.
 *
 * Who touches what: a rail and its links belong to the endpoint (its lock, or its one thread). A connection (struct
 * sn_conn), the mailbox and the listener are guarded by the service lock (progress/service.h), because the service
 * thread works on them too; it never touches a link. What the service thread learns about a connection arrives as mail,
 * in order, at the next progress().
 */
#ifndef SN_LOCAL_H
#define SN_LOCAL_H

#include "base/base.h"
#include "copy/bypass.h"
#include "copy/cma.h"
#include "copy/far.h"
#include "copy/heap.h"
#include "copy/huge.h"
#include "copy/lap.h"
#include "copy/learn.h"
#include "core/rail.h"
#include "local/board.h"
#include "local/mesh.h"
#include "local/ring.h"
#include "progress/bell.h"
#include "progress/live.h"
#include "progress/service.h"
#include <sys/un.h>

struct sn_rail;
struct sn_link;
struct sn_kmod;
struct sn_kmod_region;

/* Plain counters, reported by name in rail.c. */
struct sn_local_counters {
	uint64_t tx_eager, tx_rdv, tx_queued, rx_eager, rx_rdv, copy_read_bytes, copy_write_bytes,
		copy_stream_bytes, copy_claim_bytes, copy_kmod_bytes, copy_engine_bytes, kmod_fallbacks,
		copy_shared_bytes, copy_mapped_bytes, bypassed, meshed, moves, shared, helped, claims,
		refused_read, refused_write, faults, rings, system_calls, peers, peers_gone, bad_records;
	_Atomic uint64_t bad_handshakes; /* also counted by the service thread */
};

/* ---- connections: connect.c --------------------------------------------------------------------------------- */

enum sn_conn_state {
	SN_CONN_CONNECTING, /* the listener's backlog is full: tried again by timer */
	SN_CONN_ASKED,	    /* HELLO sent, WELCOME expected */
	SN_CONN_ACCEPTED,   /* HELLO expected */
	SN_CONN_GREETED,    /* the peer has said what it had to say */
	SN_CONN_DEAD,
};

struct sn_mail {
	struct sn_list link;
	struct sn_conn *conn;
	bool gone; /* else: a HELLO or WELCOME came */
};

struct sn_conn {
	struct sn_list link; /* rail->conns */
	struct sn_rail *rail;
	struct sn_watch sock, life; /* the socket, and the peer process's pidfd */
	struct sn_timer retry;
	uint64_t delay;
	enum sn_conn_state state;
	int status;	  /* why it is gone */
	int chan_fd;	  /* still to be sent, -1 if not */
	bool welcome_due; /* the WELCOME could not be sent yet */
	uint32_t ring_bytes;
	struct sn_ep_ids to;
	struct sn_mail greeting, farewell;
	/* what the peer said; chan and bell are the link's once it took them (then NULL) */
	struct sn_local_hello theirs;
	struct sn_cma_peer copy;
	int read_error, write_error;
	void *chan;
	struct sn_bell *bell;
	struct sn_board *board;
	struct sn_heap_peer heap;
	/* the endpoint's */
	struct sn_link *owner;
	struct sn_list owner_link;
};

int sn_conn_listen(struct sn_rail *rail);
void sn_conn_unlisten(struct sn_rail *rail);
/*
 * Connect to a peer and offer a channel; takes over chan_fd. *rc is 0 or the error; NULL: there is no connection. With
 * SN_ERR_PEER_GONE there is one, dead, whose farewell comes by mail after what the peer had sent before.
 */
struct sn_conn *sn_conn_start(struct sn_rail *rail, const struct sn_ep_ids *to, int chan_fd,
			      uint32_t ring_bytes, int *rc);
/* Answer an accepted connection; chan_fd -1: it travels another way. Takes over chan_fd. */
int sn_conn_welcome(struct sn_conn *conn, const struct sn_ep_ids *to, int chan_fd, uint32_t ring_bytes);
/* If the HELLO has not left yet: give back the descriptor and never send it. -1: it has left. */
int sn_conn_recall(struct sn_conn *conn);
/* What this side has to say has not left yet. */
bool sn_conn_pending(struct sn_conn *conn);
/* The peer's bell is not the link's yet: ring it if the answer has arrived in the meantime. Returns system calls made. */
int sn_conn_ring(struct sn_conn *conn);
/* Take the next mail, or NULL. */
struct sn_mail *sn_conn_mail(struct sn_rail *rail);
void sn_conn_free(struct sn_conn *conn);
void sn_conn_forked(struct sn_rail *rail); /* in a forked child: close what is not a watch's */

/* ---- numbered objects: a number that a peer sends names a live object of this link, or nothing ---------------- */

struct sn_slot {
	struct sn_list list; /* free list, or a list of active ones */
	uint32_t index, generation;
	bool used;
};

struct sn_slots {
	struct sn_slot **at;
	uint32_t count, room;
	struct sn_list free;
	size_t size;
};

void sn_slots_init(struct sn_slots *s, size_t size);
void *sn_slot_new(struct sn_slots *s); /* NULL: no memory. No allocation once enough were in use at a time */
void sn_slot_free(struct sn_slots *s, struct sn_slot *slot);
void sn_slots_destroy(struct sn_slots *s);
static inline uint64_t sn_slot_id(const struct sn_slot *slot)
{
	return (uint64_t)slot->generation << 32 | slot->index;
}
static inline void *sn_slot_find(const struct sn_slots *s, uint64_t id)
{
	uint32_t index = (uint32_t)id;
	if (index >= s->count || !s->at[index]->used || s->at[index]->generation != (uint32_t)(id >> 32))
		return NULL;
	return s->at[index];
}

/* ---- rendezvous: rdv.c, announce.c -------------------------------------------------------------------------- */

#define SN_SEGS_INLINE 4

struct sn_segs { /* a peer's segments */
	struct iovec *at;
	uint32_t count, room;
	struct iovec few[SN_SEGS_INLINE];
};

void sn_segs_free(struct sn_segs *s);
/* Take over a peer's list. 0, SN_ERR_PROTO if its sum is not what was announced, SN_ERR_NOMEM. */
int sn_segs_take(struct sn_segs *s, const uint8_t *from, uint32_t count, uint64_t len);
void sn_segs_put(uint8_t *to, const struct iovec *iov, uint32_t count);

/* How large messages are copied: values of the setting. */
enum { SN_COPY_AUTO, SN_COPY_READ, SN_COPY_WRITE, SN_COPY_STREAM, SN_COPY_SHARED, SN_COPY_KMOD };

struct sn_share { /* this side's part in a job (job.h) */
	struct sn_job *job;
	uint32_t total;
	bool mapped;   /* the other's segments are addresses here, in its shareable heap */
	uint32_t slot; /* on the board, or SN_CLAIM_NONE */
	uint64_t started;
	struct sn_head head; /* of the message, without immediate data, where slot is set */
};

enum sn_send_state {
	SN_SEND_ANNOUNCED,
	SN_SEND_WRITING,
	SN_SEND_STREAMING,
	SN_SEND_SHARED,	 /* claimed a receive, and opened a job for it */
	SN_SEND_HELPING, /* the receiver has opened a job */
	SN_SEND_KCOPY,	 /* the receiver has opened a copy of the kernel module's */
};
struct sn_send { /* a message of ours that was announced */
	struct sn_slot slot;
	enum sn_send_state state;
	bool guard;
	struct sn_req *req;
	const struct iovec *iov;
	uint32_t iov_count;
	uint64_t len;
	uint64_t pull, offset, end; /* from the CTS: the receiver's number, the next byte, the last */
	struct sn_segs segs;
	struct sn_share share;
	struct sn_kmod_region *region; /* kcopy.c: the name it was announced with; NULL in a free slot */
	uint64_t kshare;
};

/* The receive was first, or the message; and does the other's buffer lie in its shareable heap? */
enum sn_order { SN_ORDER_CLAIM, SN_ORDER_PULL, SN_ORDER_CLAIM_MAPPED, SN_ORDER_PULL_MAPPED, SN_ORDERS };

enum sn_rdv_state {
	SN_RDV_ANNOUNCED,
	SN_RDV_READING,
	SN_RDV_ASKED,
	SN_RDV_SHARED, /* pulled, and opened a job for it */
	SN_RDV_PART,   /* no rendezvous, but pulled like one: part.c */
	SN_RDV_HELPING, /* the sender has claimed a receive, and opened a job: no rendezvous, but as many fields */
};
struct sn_rdv { /* a message that a peer announced */
	struct sn_slot slot;
	enum sn_rdv_state state;
	bool guard;
	bool mapped; /* segs are addresses here, in the sender's shareable heap */
	bool bypass; /* and copied past the cache */
	bool stream; /* the sender wants it to stream, and to hear what that cost */
	uint64_t started;
	enum sn_way way;
	bool exposed;	 /* the sender may be writing into the destination */
	int status;	 /* of what is still coming and has nowhere to go */
	uint64_t sender; /* the sender's number */
	uint64_t len;
	struct sn_segs segs;
	struct sn_req *req;
	const struct iovec *iov;
	uint32_t iov_count;
	uint64_t done, want;
	uint64_t seen; /* part.c: bytes that were there at the last look */
	struct sn_share share;
	struct iovec own[SN_BOARD_SEGS]; /* helping: what iov points to */
	/* kcopy.c; 0 and NULL in a free slot */
	uint64_t region;	      /* the module's name for the sender's memory, 0: none */
	uint64_t kshare;	      /* the copy that both run, 0: none */
	struct sn_kmod_region *named; /* this side of it */
	struct sn_dsa_copy *engine;   /* offload.c; NULL in a free slot */
};

/* ---- links --------------------------------------------------------------------------------------------------- */

#define SN_WAY_LAPS	 8 /* powers of two for which the ring competes: 4 KiB to just below 1 MiB */
#define SN_WAY_LAP_FIRST 12

_Static_assert(SN_LEARN_FIRST + SN_LEARN_CLASSES - SN_WAY_LAP_FIRST <= SN_TRIES,
	       "what is tried can be shown");

enum sn_link_state { SN_LINK_NEW, SN_LINK_OPEN, SN_LINK_GONE };

struct sn_link {
	/* read by every post */
	bool fast;   /* open, and no message queued: a post may write at once */
	bool demote; /* push lines beyond the first out to the shared cache */
	bool fence;  /* the peer's bell needs a fence before it is looked at */
	uint8_t state;
	uint32_t eager;	      /* longest message that goes without being asked for */
	uint32_t whole;	      /* and in one piece */
	uint32_t eager_asked; /* as .eager if the user has set that, else 0 */
	uint32_t parts;	      /* longest message that fits the ring in parts */
	struct sn_tx tx;
	struct sn_bell *bell;	/* NULL: not known yet */
	struct sn_board *board; /* the peer's; likewise */
	struct sn_rail *rail;
	struct sn_peer_state *peer;
	/* read by every arrival */
	struct sn_rx rx;     /* .cells NULL: nothing mapped yet */
	struct sn_rdv *part; /* the message at the head of the ring, being copied: part.c */
	const void *into;    /* where it is copied to, or the last one was */
	bool again;	     /* as the one before it */
	bool part_kept;	     /* nobody has posted for it: it is left there until it is whole */
	uint64_t brought;    /* bits: powers of two of length whose last one came through the ring in parts */

	struct sn_ep_ids ids;
	struct sn_list link, busy, doomed; /* rail->links; rail->busy and ->doomed, or empty */
	bool lost;	  /* nobody listens there: posts fail, what came before is still delivered */
	bool leaving;	  /* being buried: what is announced cannot be fetched any more */
	int doom;	  /* the status to end with */
	bool drain, owed; /* what lies in the ring is delivered first; owed.h */
	struct sn_list conns;
	struct sn_conn *out;		   /* the connection that this side started */
	struct sn_list messages, controls; /* queued for the ring */
	uint32_t jobs;			   /* bits: those of our channel that we still look at */
	struct sn_list sends;		   /* of struct sn_send: writing or streaming */
	struct sn_list reads;		   /* of struct sn_rdv: between two slices */
	struct sn_slots send_slots, rdv_slots;
	struct sn_heap_peer heap; /* the peer's shareable heap, and its generation */
	uint32_t heap_generation;
	struct sn_cma_peer copy;     /* .pid 0: not known, or not visible */
	bool rival;		     /* the peer may want this process's cores */
	bool greeted;		     /* the peer's bell, pid and rights are known */
	int read_error, write_error; /* errno: this direction is refused; 0: it works, as far as is known */
	size_t tx_bytes, rx_bytes;   /* of the mappings */
	bool tx_touched, rx_touched; /* their pages are there */
	uint32_t pid;		     /* as the peer sees itself: for logs */
	char scope[40];		     /* in the live view; "" when it is not there */
	struct {
		struct sn_live_row *reading, *writing, *cores, *way[SN_ORDERS][SN_LEARN_CLASSES],
			*lap[SN_WAY_LAPS], *fetched[SN_WAY_LAPS], *past_ring[SN_WAY_LAPS],
			*past[SN_LEARN_CLASSES];
	} live;
	struct sn_learn learn[SN_ORDERS];     /* way.c */
	struct sn_lap laps[SN_WAY_LAPS];      /* way 1: straight */
	struct sn_lap aside[SN_WAY_LAPS];     /* likewise, of buffers of the other kind than the last one */
	uint32_t heap_laps;		      /* bits: which of .laps are of buffers in the shareable heap */
	struct sn_lap fetched[SN_WAY_LAPS];   /* way 1: announced, though a receive may be posted */
	struct sn_lap past_ring[SN_WAY_LAPS]; /* through the ring; way 1: past the cache */
	struct sn_lap past[SN_LEARN_CLASSES]; /* mapped; way 1: past the cache */
	struct sn_far far;		      /* is the peer's core? */
	uint64_t straight_at;		      /* when a message was last asked about that could be fetched */
	uint32_t cpus[2], since_move;	      /* of this process and the peer; messages since one changed */
	uint32_t poll_index;
};

struct sn_rail {
	struct sn_ep *ep;
	struct sn_ep_ids ids;
	_Atomic bool has_mail;
	bool closing, forked, gives_back, owes; /* the last ones: way.c tries it, owed.h */
	uint64_t owed_since;
	struct sn_list busy, doomed;
	struct sn_link *wrote; /* the last to take a longer message: its ring is got ready for the next */
	struct sn_link **poll; /* links with something to read; those with traffic lately first */
	uint32_t poll_count, poll_room, poll_swap, poll_turn, owed_looks;
	struct sn_list links;
	uint32_t channels;	     /* links with a ring of ours: decides the size of the next */
	uint32_t rivals;	     /* links whose peers may want this process's cores */
	struct sn_live_row *waiting; /* what follows from that */
	struct sn_board *board;	     /* this endpoint's: claim.c */
	int board_fd;
	struct sn_heap_info heap; /* this process's, as every peer is told; .generation 0: none */
	uint64_t shown;		  /* slots in use */
	struct {
		uint64_t serial, room;
		struct sn_req *req;
		const struct sn_link *source; /* NULL: any */
		struct sn_rdv *helper; /* this side's part in the job of the sender that has claimed it */
		uint32_t seg_count;
		struct iovec seg[SN_BOARD_SEGS]; /* the board's own copy could be written by any peer */
		struct sn_kmod_region *region;
	} show[SN_BOARD_SLOTS];
	struct sn_kmod *kmod; /* NULL: no module, or not wanted */
	struct sn_dsa *dsa;   /* NULL: no queue of a copy engine */
	struct sn_huge huge;
	struct sn_mesh mesh; /* of all links: way.c */
	struct sn_local_counters count;
	struct sn_fork_hook fork;
	/* guarded by the service lock */
	struct sn_list siblings; /* sn_rails */
	struct sn_list conns, mails;
	struct sn_watch listener;
};

extern struct sn_list sn_rails; /* all rails of the process; guarded by the service lock */

/* Ring the peer after something was published for it. work: its progress thread can do something with it. */
static inline void sn_link_ring(struct sn_link *link, bool work)
{
	uint64_t calls;
	if (sn_likely(link->bell != NULL)) {
		calls = (uint64_t)(work ? sn_bell_ring_work(link->bell, link->fence)
					: sn_bell_ring(link->bell, link->fence));
		if (sn_likely(!calls))
			return;
	} else {
		calls = link->out ? (uint64_t)sn_conn_ring(link->out) : 0;
	}
	link->rail->count.rings += calls;
	link->rail->count.system_calls += calls;
}

/* Has the peer closed its endpoint? It says so before its buffers may be another's: what was read before is what it announced. */
static inline bool sn_link_closed(const struct sn_link *link)
{
	atomic_thread_fence(memory_order_acquire);
	return link->rx.cells && atomic_load_explicit(&link->rx.chan->closed, memory_order_acquire);
}

/* Progress() must look after this link: something is queued or half done. */
static inline void sn_link_busy(struct sn_link *link)
{
	if (sn_list_empty(&link->busy))
		sn_list_add_tail(&link->rail->busy, &link->busy);
}

/* link.c */
int sn_link_attach(void *r, struct sn_peer_state *peer, const struct sn_ep_ids *ids,
		   const struct sn_addr_part *part, void **out);
void sn_link_detach(void *link);
int sn_link_open(struct sn_link *link); /* make the channel and connect; 0, or an error */
int sn_link_mail(struct sn_rail *rail);
void sn_link_doom(struct sn_link *link, int status, bool drain); /* ends with this progress(), or the next */
int sn_link_bury(struct sn_rail *rail);
void sn_link_free(struct sn_link *link);
void sn_link_forked(struct sn_link *link);

/* show.c: what the live view (progress/live.h) says of a peer */
void sn_show_peer(struct sn_link *link);    /* it has greeted */
void sn_show_waiting(struct sn_rail *rail); /* as many as rail->rivals may want this process's cores */
void sn_show_rights(struct sn_link *link);  /* something was refused */
void sn_show_gone(struct sn_link *link);
void sn_show_far(struct sn_link *link);
void sn_show_way(struct sn_link *link, enum sn_order order, unsigned class);
void sn_show_lap(struct sn_link *link, unsigned class);
void sn_show_fetched(struct sn_link *link, unsigned class);
void sn_show_past_ring(struct sn_link *link, unsigned class);
void sn_show_past(struct sn_link *link, unsigned class);

/* way.c: which way a large message goes, and what it cost */
void sn_way_init(struct sn_link *link);
void sn_way_set_whole(struct sn_link *link); /* once .eager and the ring are there */
/* Does it pay to ask for the peer's lines before they are written? Set once it is seen, or known otherwise, how far its core is. */
void sn_way_set_apart(struct sn_link *link);
static inline bool sn_way_apart(const struct sn_link *link)
{
	return link->tx.ahead == SN_RING_AHEAD_APART;
}
void sn_way_huge(struct sn_rail *rail, uint64_t len, const struct iovec *iov, uint32_t count);
/* Not through the ring, but straight into a receive that stands on the board, if one does? eager: it may go uninvited.
 * heap: the buffer lies in this process's shareable heap. */
bool sn_way_straight(struct sn_link *link, uint64_t len, bool eager, bool heap);
/* May such a message not go uninvited, though it is short enough? Because the peer maps the memory that it lies in. */
bool sn_way_invited(const struct sn_link *link, uint64_t len, bool heap);
/* And does it go straight, or is announced, whatever the laps say? */
bool sn_way_crowd(const struct sn_link *link, uint64_t len, bool heap);
/* And if it goes straight: by the sender into a receive on the board, or announced, so that the receiver fetches it? */
bool sn_way_claims(struct sn_link *link, uint64_t len);
bool sn_way_exchanges(struct sn_link *link, uint64_t len); /* longer: announced, as the peer sends, too? */
/* A copy in mapped memory of so many bytes begins: past the cache? Once for each message. */
bool sn_way_bypass(struct sn_link *link, uint64_t len);
/* How a message of so many bytes that goes past the cache is read: its lines are given back? (Else it is stored past the cache.) */
bool sn_way_gives_back(uint64_t len);
/* A message of 4 KiB and more goes through the ring: should it be written there past the cache? */
bool sn_way_learns_ring(struct sn_link *link, uint64_t len);
static inline bool sn_way_past_ring(struct sn_link *link, uint64_t len)
{
	unsigned class = 63u - (unsigned)__builtin_clzll(len | 1) - SN_WAY_LAP_FIRST, past;
	if (sn_likely(len < 1u << SN_WAY_LAP_FIRST))
		return false;
	if (sn_likely(class < SN_WAY_LAPS && !link->laps[class].trial && !link->laps[class].way &&
		      sn_lap_goes_on(&link->past_ring[class], &past)))
		return past;
	return sn_way_learns_ring(link, len);
}
/* n bytes at `offset` of the segments into the ring, past the cache or not. */
void sn_way_copy_in(const struct sn_link *link, void *to, const struct iovec *iov, uint32_t count,
		    uint64_t offset, uint64_t n, bool past);
/* allowed: a set of 1 << way. A stream is only taken while the peer is inside the library too. */
enum sn_way sn_way_pick(struct sn_link *link, enum sn_order order, uint64_t len, unsigned allowed);
void sn_way_note(struct sn_link *link, enum sn_order order, enum sn_way way, uint64_t len, uint64_t ns);

/* send.c */
int sn_send_post(void *link, const struct sn_out *out, struct sn_req *req);
int sn_send_now(void *link, uint32_t what, uint64_t bits, uint64_t data, const void *body, uint64_t len);
bool sn_send_unpost(void *link, struct sn_req *req);
int sn_send_push(struct sn_link *link); /* move what is queued; returns how many records went out */
/* Send a control record: a header, and a payload of n bytes. */
void sn_send_control(struct sn_link *link, unsigned type, unsigned flags, uint64_t bits, uint64_t data,
		     const void *payload, uint32_t n);
void sn_send_drop(struct sn_link *link, bool all, int status); /* queued messages: all, or those not eager */

/* part.c: eager messages that are copied out while they are copied in */
#define SN_PART_FROM  8193u /* bytes: two pages go in one piece, sooner than with a hand-over */
#define SN_PART_PAGE  4096u
#define SN_PART_FIRST 12288u /* the most that goes before the receiver hears of it */
#define SN_PART_MOST  32768u /* and the most in one step after that */
#define SN_PART_LEAST 1536u  /* a shorter one is not worth a hand-over of its own */
enum { SN_PART_DONE = 0, SN_PART_LATER = 1000, SN_PART_WHOLE }; /* unlike anything that the core returns */
static inline uint32_t sn_part_cells(const struct sn_head *head)
{
	return sn_rec_cells(sizeof(struct sn_rec_part) + head->imm_len + head->len);
}
/*
 * How much of the body follows what is there. Half of a message is copied out while the other half is copied in, of a
 * longer one a quarter while the next one is. Smaller steps overlap more, but each costs a line that goes to the receiver
 * and back, and its copy begins anew with lines that nobody has asked for: page by page, 64 KiB between cores that share no
 * cache took 1.6 times as long. Up to the end of a page, where the processor's prefetching stops: beyond it, the receiver's
 * would take lines away that this side is just writing.
 */
static inline uint32_t sn_part_step(const uint8_t *body, uint32_t at, uint32_t len)
{
	uint32_t quarter = SN_MAX_OF(SN_MIN_OF(len / 4, SN_PART_MOST), SN_PART_FIRST),
		 n = SN_MIN_OF(len / 2, at ? quarter : SN_PART_FIRST), left = len - at;
	n = ((n + SN_PART_PAGE - 1) & ~(SN_PART_PAGE - 1)) -
	    (uint32_t)((uintptr_t)(body + at) & (SN_PART_PAGE - 1));
	if (n < SN_PART_LEAST)
		n += SN_PART_PAGE;
	return left < n + SN_PART_LEAST ? left : n;
}
void sn_part_write(struct sn_link *link, struct sn_cell *cell, uint32_t cells, const struct sn_head *head,
		   const struct iovec *iov, uint32_t iov_count);
/* The record at the head of the ring: DONE, LATER (look again), WHOLE (deliver it as any other), or an error. */
int sn_part_take(struct sn_link *link, const struct sn_head *head, uint8_t *payload);

/* recv.c: a look has found this mark: handle what is to be handled of the records that are there; returns how many. */
int sn_recv_look(struct sn_link *link, uint32_t mark);
int sn_recv_all(struct sn_link *link, uint32_t mark);

/* claim.c: both ends of the board */
#define SN_CLAIM_NONE UINT32_MAX
/* The bit of a length in link->brought. */
static inline uint64_t sn_claim_class(uint64_t len)
{
	return UINT64_C(1) << (63 - __builtin_clzll(len | 1));
}
bool sn_claim_brings(const void *link, uint64_t room);
int sn_claim_open(struct sn_rail *rail);
void sn_claim_close(struct sn_rail *rail);
int sn_claim_expose(void *rail, const void *link, uint64_t serial, uint64_t bits, uint64_t mask,
		    const struct iovec *iov, uint32_t iov_count, uint64_t room, struct sn_req *req);
bool sn_claim_withdraw(void *rail, int slot);
/* Before closing: take everything off; what is claimed will still be reported. */
void sn_claim_withdraw_all(struct sn_rail *rail);
/* The peer is gone: end what it had claimed. */
void sn_claim_end(struct sn_link *link, int status);
enum sn_claim_outcome {
	SN_CLAIM_DONE,
	SN_CLAIM_PENDING, /* sn_core_sent(req) follows */
	SN_CLAIM_ANNOUNCE, /* there is none to claim (*slot is SN_CLAIM_NONE), or it could not be written: name *slot */
	SN_CLAIM_STREAM, /* likewise, and ask for a stream */
};
/* Claim a receive of the peer for this message and write into it. req NULL: nobody waits. */
enum sn_claim_outcome sn_claim_try(struct sn_link *link, const struct sn_head *head, const struct iovec *iov,
				   uint32_t iov_count, struct sn_req *req, uint32_t *slot);
/* heap: it was written by way of our shareable heap. */
int sn_claim_arrive(struct sn_link *link, const struct sn_head *head, uint32_t slot, bool heap);
/* The request in a slot that this peer has claimed, taken off the board. NULL: it has not claimed it. */
struct sn_req *sn_claim_take(struct sn_link *link, uint32_t slot);
bool sn_claim_holds(const struct sn_link *link, uint32_t slot); /* has this peer claimed it? */

/* mapped.c: copies by way of the peer's shareable heap */
/* Do these segments of the peer's all lie in its heap, of the generation that is mapped here? Then they are turned into
 * addresses here, in place. generation 0: the peer does not say that they do. */
bool sn_mapped_take(struct sn_link *link, uint32_t generation, struct iovec *iov, uint32_t count);
struct sn_mapped {
	const struct iovec *own, *theirs; /* theirs: taken */
	uint32_t own_count, their_count;
	bool reads;	   /* out of theirs */
	bool bypass, back; /* past the cache; what was read of theirs leaves it, and is not stored past it */
};
/* Copy len bytes at `offset` of both lists. */
void sn_mapped_copy(struct sn_link *link, const struct sn_mapped *m, uint64_t offset, uint64_t len);

/* share.c: copies in which both sides take part */
/*
 * A job may be opened soon: the helper of its last use has its line. Each line that the other core has takes 50 to 250 ns, one
 * after the other as a rule, since the locked instructions in between let nothing begin ahead. So they are asked for at once.
 */
static inline void sn_share_expect(const struct sn_link *link)
{
	unsigned first = (unsigned)__builtin_ctz(~link->jobs);
	if (sn_likely(link->tx.chan && first < SN_JOBS))
		sn_line_own(&link->tx.chan->job[first]);
}
enum sn_share_outcome { SN_SHARE_NOT, SN_SHARE_DONE, SN_SHARE_PENDING };
/* A receive has been claimed, at `started`: open a job and write. NOT: nothing was done. PENDING: sn_core_sent(req) follows. */
enum sn_share_outcome sn_share_write(struct sn_link *link, const struct sn_board_claim *claim,
				     const struct sn_head *head, const struct iovec *iov, uint32_t iov_count,
				     uint64_t started, struct sn_req *req);
int sn_share_arrive(struct sn_link *link, const struct sn_head *head, const struct sn_rec_share *rec,
		    const void *segs, bool heap);
/* A pull: open a job and read. False: nothing was done. */
bool sn_share_pull(struct sn_link *link, struct sn_rdv *rdv);
bool sn_share_may(const struct sn_link *link, uint64_t len);
/* The receiver asks anew: leave the job, if it has failed. False: it has not. */
bool sn_share_quit(struct sn_link *link, struct sn_send *s);
/* The receiver has opened a job for an announced message. */
int sn_share_help(struct sn_link *link, struct sn_send *s, uint32_t job, bool heap);
int sn_share_step(struct sn_link *link);	   /* go on; returns how many moved */
bool sn_share_pending(const struct sn_link *link); /* somebody may still look at what is sent */
bool sn_share_rests(const struct sn_share *share); /* only the other side can bring it further now */

/* rdv.c */
bool sn_rdv_may_read(const struct sn_link *link);
void sn_rdv_ask(struct sn_link *link, struct sn_rdv *rdv);
/* n bytes of it are at `from`, in lines that the peer has written. again: the one before went there, too. */
void sn_rdv_take(const struct sn_rdv *rdv, const void *from, uint64_t offset, uint64_t n, bool again);
void sn_rdv_pulled(struct sn_link *link, struct sn_rdv *rdv, int status); /* ends it */
void sn_rdv_free(struct sn_link *link, struct sn_rdv *rdv);
bool sn_rdv_may_write(const struct sn_link *link);
void sn_rdv_refused(struct sn_link *link, bool read, int error);
int sn_rdv_status(uint64_t data);      /* that a record brought: SN_ERR_PROTO if it is none */
int sn_rdv_step(struct sn_link *link); /* go on with reads and writes by slices; returns how many moved */
int sn_rdv_arrive(struct sn_link *link, const struct sn_head *head, const struct sn_rec_rts *rts,
		  const void *segs, unsigned flags);
int sn_rdv_data(struct sn_link *link, uint64_t id, uint64_t offset, unsigned flags, const void *body,
		uint32_t len);
int sn_rdv_done(struct sn_link *link, uint64_t id, uint64_t status);
void sn_rdv_pull(void *link, struct sn_rdv *rdv, const struct iovec *iov, uint32_t iov_count, uint64_t len,
		 struct sn_req *req);
void sn_rdv_refuse(void *link, struct sn_rdv *rdv, int status);
bool sn_rdv_rests(const struct sn_link *link);	   /* there is nothing to do for this side now */
bool sn_rdv_exposed(const struct sn_link *link);   /* a peer may still write into our memory */
void sn_rdv_end(struct sn_link *link, int status); /* the peer is gone: end what waits for it */

/* announce.c: its sender */
int sn_rdv_announce(struct sn_link *link, struct sn_cell *cell, const struct sn_head *head,
		    const struct iovec *iov, uint32_t iov_count, uint32_t slot, bool stream,
		    struct sn_req *req);
uint32_t sn_rdv_announce_bytes(const struct sn_head *head, uint32_t iov_count);
int sn_rdv_fin(struct sn_link *link, uint64_t id, uint64_t status);
int sn_rdv_cts(struct sn_link *link, uint64_t id, uint64_t pull, unsigned flags, const void *payload,
	       uint32_t bytes);
void sn_rdv_write_slice(struct sn_link *link, struct sn_send *s);
int sn_rdv_fragment(struct sn_link *link); /* 1: a piece of a stream went out; 0: no room, or nothing to do */
void sn_send_end(struct sn_link *link, struct sn_send *s, int status);

/* offload.c: queues of a copy engine */
void sn_offload_open(struct sn_rail *rail);
void sn_offload_close(struct sn_rail *rail);
bool sn_offload_may(const struct sn_rail *rail, uint64_t len);
void sn_offload_begin(struct sn_link *link, struct sn_rdv *rdv); /* or has it go by way of the processor */
bool sn_offload_slice(struct sn_link *link, struct sn_rdv *rdv); /* true; rdv->done jumps when all is there */
void sn_offload_leave(struct sn_rdv *rdv);			 /* nothing is written any more */

/* kcopy.c: the kernel module */
void sn_kcopy_open(struct sn_rail *rail);
void sn_kcopy_close(struct sn_rail *rail);
/* The module's name for memory, until it is unnamed; NULL: none, go without. */
struct sn_kmod_region *sn_kcopy_name(struct sn_rail *rail, const struct iovec *iov, uint32_t count,
				     bool write);
void sn_kcopy_unname(struct sn_rail *rail, struct sn_kmod_region **r);
uint64_t sn_kcopy_handle(const struct sn_kmod_region *r);
void sn_kcopy_begin(struct sn_link *link, struct sn_rdv *rdv); /* the receiver begins to copy */
bool sn_kcopy_slice(struct sn_link *link, struct sn_rdv *rdv); /* false: the module is left, go another way */
void sn_kcopy_leave(struct sn_link *link, struct sn_rdv *rdv);
int sn_kcopy_share(struct sn_link *link, uint64_t id,
		   uint64_t share); /* the receiver asks the sender along */
void sn_kcopy_help(struct sn_link *link, struct sn_send *s);
bool sn_kcopy_may_claim(const struct sn_link *link);
bool sn_kcopy_write(struct sn_link *link, uint64_t region, const struct iovec *iov, uint32_t iov_count,
		    uint64_t len, uint64_t *at);

#endif
