/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network rail's protocol engine: docs/protocol.md as a state machine. It reads time from a clock it is given and
 * reaches the world through a driver, so it runs as well in a simulator. Inside one engine nothing is locked: the rail
 * (rail.c) lets one thread in at a time.
 *
 *   engine.c  life, progress, timers, counters     link.c    peers: connect, sessions, restart, silence
 *   input.c   frames in: authenticate, dispatch    stream.c  MSG frames out: acknowledge, send again
 *   inbox.c   MSG frames in: order, deliver        pull.c    fetching: blocks, evidence, pacing
 *   serve.c   rendezvous out: answering PULL       piece.c   fetching: what comes, and what it says about what does not
 *   push.c    what is sent and comes unasked       place.c   where pieces go before they are read
 *   again.c   fetching: timers                     gather.c  MSG frames being filled: posting
 *   output.c  the batch of frames being sent       say.c     the end of a peer, in words
 *   probe.c   the path's frame size                  lane.c    which rail brings a block
 *   way.c     rails: which there are, which is next  alone.c   a lone message
 *   quick.c   the short cut beside a way
 *
 * Several rails. A *port* is a driver on one of our interfaces; a *way* is how we reach a peer from one port; a *lane* is one
 * of the peer's ways as we see it arrive. MSG frames have one numbering for all ways, so any way may carry any of them, again
 * on another one if need be. Long bodies are fetched, and the receiver says with each PULL which lane is to carry the answer.
 *
 * Quiet mode. When the application does not call, the rail's service thread may run progress with .quiet set: then
 * acknowledgements, resends, PULL and DATA go on, but nothing is reported upward. MSG frames in order wait in the link's
 * window undelivered, and finished operations wait in lists, until the application's next progress.
 */
#ifndef SN_NET_NET_H
#define SN_NET_NET_H

#include "base/base.h"
#include "net/auth.h"
#include "net/check.h"
#include "net/driver.h"
#include "net/keep.h"
#include "net/kpull.h"
#include "net/wire.h"
#include "sched/sched.h"

#define SN_NET_MS	 1000000ULL
#define SN_NET_ACK_DELAY (100 * 1000ULL) /* ns an acknowledgement may wait for company */
#define SN_NET_ACK_EVERY 8		 /* frames that may wait for one */
#define SN_NET_RTO_MIN	 (2 * SN_NET_MS)
#define SN_NET_RTO_ONE                                                                                       \
	(SN_NET_MS / 5) /* where there is no other rail: of MSG frames, and of bodies that are coming */
#define SN_NET_HOLE	   (30 * SN_NET_MS) /* that a frame goes unacknowledged before it may be too long */
#define SN_NET_HELLOS	   16		    /* kept for the application; who else asks has to ask again */
#define SN_NET_RTO_FIRST   (20 * SN_NET_MS) /* before the first measurement */
#define SN_NET_RTO_MAX	   (250 * SN_NET_MS)
#define SN_NET_BLOCKS	   16 /* blocks of one fetch asked for at once */
#define SN_NET_BLOCK_BYTES SN_WIRE_BLOCK
#define SN_NET_PART	   12 /* pieces worth a driver call of their own */
#define SN_NET_CREDIT_MIN  (128ULL << 10)
#define SN_NET_CREDIT	   (256ULL << 10)
#define SN_NET_JOBS	   256		   /* blocks that one peer has asked for, waiting to be answered */
#define SN_NET_PUSH	   (1024ULL << 10) /* bytes that may come unasked, of one peer in short frames */
#define SN_NET_PUSH_ALL	   (256ULL << 10)  /* of all peers together, and in longer ones */
#define SN_NET_PUSH_LEAST  (16ULL << 10)
#define SN_NET_SEVERAL	   4096 /* longest body that is taken into several frames at once */
#define SN_NET_PUSH_GROW   (4ULL << 10)
#define SN_NET_STASHES	   16 /* bodies kept whose receive is not posted */
#define SN_NET_STASH_OLD   (1000 * SN_NET_MS)
#define SN_NET_STASH_SEQ   1024 /* MSG frames that may have been sent between RDV and PUSH */
#define SN_NET_BACKOFF	   9	/* doublings at most */
#define SN_NET_CROWD	   4	/* requests behind a first one that are a burst */
#define SN_NET_BURSTS	   3	/* such bursts, remembered at most */
#define SN_NET_RAILS	   SN_WIRE_RAILS
#define SN_NET_STRIKES	   2  /* timer firings in a row that take a rail out, if there is another */
#define SN_NET_TRAIN	   12 /* frames that sample a new rail */
#define SN_NET_RETRY	   (10 * SN_NET_MS) /* a rail that is out is tried again, first after this */
/* Where in its page the stage begins: the kernel copies from there to the beginning of a page and the few bytes of a head, and must not stumble
 * (base/copy.c). It did, Ethernet, behind a malloc() of 128 KiB: streams of 64 KiB 1.65 GB/s in place of 2.5. */
#define SN_NET_STAGE_AT	  64u
#define SN_NET_LATE	  (300 * 1000ULL)  /* ns without a look */
#define SN_NET_LATENESS	  (20 * SN_NET_MS) /* a look may be so late: longer than HOT_MOST of rail.c */
#define SN_NET_RETRY_MOST (200 * SN_NET_MS)
#define SN_NET_ASK	  8 /* questions in vain after which a silent peer is gone */
#define SN_NET_ASK_FULL	  4 /* what one of them counts; 1 if we were late after it */
#define SN_NET_ASK_LONG	  4 /* time-outs by the clock, after which each counts in full */

/* Timers with nothing to do stand at SN_NET_NEVER. */
#define SN_NET_NEVER UINT64_MAX

enum sn_net_state { SN_LINK_IDLE, SN_LINK_CONNECTING, SN_LINK_OPEN, SN_LINK_GONE };

enum sn_net_count { /* counters besides the drop reasons */
		    SN_NC_TX_FRAMES,
		    SN_NC_RX_FRAMES,
		    SN_NC_TX_MSG,
		    SN_NC_RX_MSG,
		    SN_NC_TX_ACK,
		    SN_NC_RESEND_FAST,
		    SN_NC_RESEND_TIMER,
		    SN_NC_TX_DATA,
		    SN_NC_RX_DATA,
		    SN_NC_RX_PLACED, /* pieces that the kernel put where they belong */
		    SN_NC_RX_MOVED,  /* pieces put elsewhere by a wrong guess, and moved */
		    SN_NC_TX_PULL,
		    SN_NC_TX_PUSH,
		    SN_NC_RX_PUSH,    /* pieces pushed that were of use */
		    SN_NC_RX_STASHED, /* of them, kept for a receive that was not posted */
		    SN_NC_AGAIN_EVIDENCE,
		    SN_NC_AGAIN_TIMER,
		    SN_NC_EAGER,
		    SN_NC_RDV,
		    SN_NC_CONNECTS,
		    SN_NC_RESTARTS,
		    SN_NC_GONE,
		    SN_NC_LEFT,
		    SN_NC_FULL,
		    SN_NC_SLICES,
		    SN_NC_PROBES,
		    SN_NC_REPROBES,
		    SN_NC_RAIL_DOWN,
		    SN_NC_RAIL_UP,
		    SN_NC_STOLEN,
		    SN_NC_RECORDS,
		    SN_NC_GATHERED, /* pieces of several segments, gathered by the rail */
		    SN_NC_PACKED,   /* the same, copied together first */
		    SN_NC_KERNEL_PULLS,
		    SN_NC_JOIN_DOUBTS,
		    SN_NC_QUICK_UP,
		    SN_NC_QUICK_DOUBTS,
		    SN_NC_COUNT
};

struct sn_net_slot { /* a MSG frame sent and not acknowledged */
	uint8_t *frame;
	uint32_t len;
	uint32_t order; /* position among all sends of its way, renewed when sent again */
	uint64_t first_at, sent_at;
	uint16_t sends;
	uint8_t first_way;
	uint8_t way;  /* that it was sent on last */
	bool acked;   /* by sack */
	bool batched; /* stands in the batch: flush before the frame is freed */
	bool again;   /* to be sent (again) */
	bool quick;   /* the first send took the short cut */
};

struct sn_net_hole {	 /* a MSG frame that came and was not delivered yet */
	uint8_t *frame;	 /* payload from offset 40 on */
	uint32_t len;	 /* of the payload, 0 while slices are missing */
	uint32_t total;	 /* of a sliced payload */
	uint64_t slices; /* arrived */
	bool here;
};

struct sn_net_msg { /* a message that waits for room in the stream */
	struct sn_list node;
	struct sn_rec rec;
	struct sn_req *req;
	const struct iovec *iov;
	uint32_t iov_count;
	uint64_t offset;  /* body bytes already packed */
	struct iovec own; /* must_copy: the copy behind this struct */
	uint8_t imm[SN_IMM_MAX];
};

struct sn_net_open {	/* a MSG frame being filled; no number yet */
	uint8_t *frame; /* NULL: none */
	uint32_t at, room;
	uint32_t count; /* records inside */
	uint8_t way;	/* whose frame length it has */
};

struct sn_net_rtt {
	uint64_t srtt, var; /* 0: not measured */
};

enum sn_net_way_state {
	SN_WAY_NONE,   /* does not lead to this peer */
	SN_WAY_TRYING, /* never answered yet */
	SN_WAY_UP,
	SN_WAY_DOWN, /* worked once */
};

struct sn_net_short {  /* quick.c; whether it may be used, the path says (quick_most) */
	bool again;    /* what was acknowledged last had taken it, and was sent again the long way */
	uint32_t was;  /* in doubt: the longest frame that had come through */
	uint32_t size; /* of the one that is tried */
	unsigned tries, vain, doubts;	 /* vain: tries that somebody who was there did not answer */
	uint64_t at, tried_at, doubt_at; /* the next try; the last; the last doubt */
	uint64_t later;			 /* frames sent on the way after which it is tried anew */
};

struct sn_net_way { /* how we reach a peer from the port with the same index */
	struct sn_net_link *link;
	struct sn_net_port *port;
	enum sn_net_way_state state;
	uint8_t part; /* the peer's port that it leads to, as the peer numbers them */
	uint8_t tries;
	struct sn_net_path path;
	/* MSG frames on it */
	uint32_t order, acked_order, flight, cwnd, cwnd_acks;
	uint64_t rto_at, cut_at; /* cut_at: no second reduction before */
	unsigned backoff;
	struct sn_net_rtt rtt;
	uint64_t doubt; /* from the first send of a frame sent again to its acknowledgement: of which send? */
	uint64_t rate;	/* bytes a second, as the peer sees it; 0: not told */
	uint64_t heard_at; /* something came on its port */
	uint64_t free_at;  /* when, by the model, everything sent on it is through */
	uint64_t frames, bytes;
	/* frame size (probe.c), and trying whether it works at all */
	uint32_t mtu, ceiling;
	uint64_t probe_at, try_at, tried_at;
	unsigned probe_step, probe_tries;
	/* may frames be joined on it? (probe.c) */
	bool joins;
	bool body_passed; /* of these tries a frame like those of bodies was answered, alone or joined */
	bool plain;	  /* such frames do not come through: bodies go as all other frames do */
	uint64_t join_at, join_from; /* the next try, and the first of these */
	unsigned join_tries;
	struct sn_net_short quick; /* the short cut */
};

struct sn_net_lane { /* a way of the peer's, as it arrives here */
	bool known, down;
	uint8_t port;	      /* ours, on which it arrives */
	uint32_t mtu;	      /* longest frame that has come on it */
	uint64_t small;	      /* engine time until which only the shortest pieces are asked for */
	struct sn_list asked; /* struct sn_net_block, in the order of their rounds */
	uint64_t asked_bytes, heard_at, data_at, credit_cut_at;
	uint64_t retry_at; /* down: may be tried again */
	unsigned backoff, retries;
	unsigned unused; /* fetches in a row that asked nothing of it */
	struct sn_net_rtt rtt;
	struct sn_model model;
	uint64_t late_bytes; /* arrivals of a late look, until it is known how many they are */
	uint64_t train_from,
		train_base; /* the sampling train that is coming: the clock, what was heard then */
	bool train_counts;
	uint64_t bytes;
};

struct sn_net_link {
	struct sn_net *net;
	struct sn_peer_state *peer;
	struct sn_list node;			/* net->links */
	struct sn_list work_node;		/* net->work */
	struct sn_net_link *by_session, *by_id; /* hash chains */
	enum sn_net_state state;
	bool confirmed; /* a frame of this session has come, other than a PROBE */
	bool dead;	/* detached: freed when nobody is inside */
	bool told;	/* the core has been told that it is gone */
	uint64_t id;
	uint8_t peer_key[12];
	struct sn_sip_key hello_key, tx_key, rx_key;
	uint64_t session, peer_session;

	/* silence */
	uint64_t hello_at, heard_at, ping_at;
	unsigned hellos, in_vain; /* in_vain: questions without an answer, in parts (SN_NET_ASK_FULL) */
	bool asked;
	uint64_t starved; /* the engine's at the first question */
	bool silent;	  /* for too long, found in quiet mode */
	int bye_status;	  /* a BYE came: handled once everything before it is delivered */
	bool bye_came, bye_answered;

	/* stream out */
	struct sn_list queue; /* sn_net_msg */
	struct sn_list dones; /* sn_net_msg, DONE records: they pass everything */
	uint64_t done_at;     /* when they leave by themselves */
	struct sn_net_slot tx[SN_WIRE_WINDOW];
	uint32_t tx_next, tx_una, tx_again;
	struct sn_net_open open;
	uint32_t gathered, waiting; /* bytes and requests in the queue, as far as strategies care */
	uint32_t tail_end; /* behind the last frame that left unfilled as the application waited, ... */
	bool tail;	   /* ... while it is under way */
	bool followed;	   /* something gathered behind the frame that left alone last */
	uint8_t bursts;	   /* how often of late that was much */
	uint8_t crossed;   /* bodies to come before they are taken to go one at a time */

	/* stream in */
	struct sn_net_hole rx[SN_WIRE_WINDOW];
	uint32_t rx_next, rx_deliver; /* arrived in order below rx_next; given to the core below rx_deliver */
	uint64_t rx_sack;	      /* bit i: rx_next + 1 + i is here */
	uint64_t ack_at, acked_at;    /* when what has come is to be told; when it was, last */
	unsigned ack_waiting;
	bool twice;    /* a frame came that had come before; to be said */
	uint8_t *join; /* a message in FIRST and MORE */
	uint64_t join_len, join_room;
	struct sn_rec join_rec;
	uint8_t join_imm[SN_IMM_MAX];
	bool joining, delivering;

	/* rendezvous */
	struct sn_list rdvs;  /* struct sn_rdv: announced by the peer, not fetched */
	struct sn_list pulls; /* struct sn_net_pull */
	struct sn_list sends; /* struct sn_net_send: announced by us, `sending` of them */
	uint32_t sending, round;
	uint32_t kernel; /* kpull.c: the module's number for it, 0: none */
	unsigned jobs;
	struct sn_list stashes;			 /* struct sn_net_stash */
	uint64_t push_word, push_own, push_used; /* may be pushed: by the peer, by experience; is out */

	/* rails */
	struct sn_net_way way[SN_NET_RAILS];
	struct sn_net_lane lane[SN_NET_RAILS];
	uint32_t slow_end; /* behind the last MSG frame that did not take the short cut */
	bool ack_sure;	   /* the acknowledgement was asked for: it takes no short cut */
	uint8_t reply;	   /* the port on which the last frame came: acknowledgements go back there */
	bool ports_sent;
	void *shown; /* show.c's */
	uint8_t part_count;
	struct sn_addr_part part[SN_NET_RAILS]; /* the peer's ports, ... */
	struct sn_addr_part
		quick[SN_NET_RAILS]; /* ... and where short cuts to them end; len 0: there is none */
};

struct sn_rdv {
	struct sn_list node;
	struct sn_net_link *link;
	uint64_t len, at;
	uint32_t number, frag, seq; /* seq: of the frame that brought it */
	uint16_t push_frag, push;
	bool lazy;
};

struct sn_net_send { /* a rendezvous of ours */
	struct sn_list node;
	struct sn_net_link *link;
	struct sn_req *req;
	const struct iovec *iov;
	uint32_t iov_count, number;
	unsigned jobs;
	uint64_t len, pushed;
	uint16_t push_frag, push; /* pieces pushed */
	uint32_t after;		  /* one more than the number of the frame that announces them */
	bool announced;
	struct iovec kept;	  /* a copy, and the request has ended */
	struct sn_list left_node; /* of those that have left whole, and whose requests wait for DONE */
	bool lazy, late;	  /* a copy is promised, for when it is waited for; and was made then */
	bool push_lost;		  /* the receiver did not keep them */
	bool delivered; /* DONE is also the word of its arrival, which the request waits for: no copy is kept */
	int status;	/* when finished */
};

struct sn_net_job { /* a PULL to answer */
	struct sn_list node;
	struct sn_net_send *send;
	struct sn_net_way *way;
	uint64_t offset, end, want;
	uint32_t pull, frag, round;
	bool busy; /* being answered right now */
	bool push; /* not a PULL: what is sent unasked */
};

struct sn_net_stash {	     /* what was pushed of a body for which there is no fetch yet */
	struct sn_list node; /* link->stashes, or net->stash_spare */
	uint32_t rdv, seq, frag, count, room;
	uint64_t at;
	uint32_t last; /* bytes of the last piece */
	uint64_t have[SN_WIRE_PUSHES / 64];
	uint8_t bytes[];
};

struct sn_net_block {	     /* asked for and not whole yet */
	struct sn_list node; /* lane->asked, in the order of round */
	struct sn_net_pull *pull;
	bool active;
	bool end_seen;	       /* the last piece of the request, or one of a later request, has come */
	bool fresh;	       /* asked for once and nothing has come: good for measuring */
	bool trial;	       /* its lane was unused: how long it takes is news */
	uint8_t last;	       /* the highest piece asked for */
	uint8_t lane, port;    /* that it was asked for on last, and where that arrives */
	uint8_t moves;	       /* times it was given to another lane */
	uint8_t silent;	       /* the lane on which nothing came last */
	unsigned later;	       /* frames that came though they were asked for later */
	unsigned tries;	       /* times asked for because nothing came */
	bool pushed;	       /* not asked for, but on its way */
	uint32_t round, bytes; /* bytes missing, held from the credit */
	uint32_t frag;	       /* bytes in a piece of it */
	uint64_t index, missing, asked_at;
};

struct sn_net_pull {
	struct sn_list node;	   /* link->pulls */
	struct sn_list sched_node; /* net->pulls, oldest first */
	struct sn_net_link *link;
	struct sn_req *req;
	const struct iovec *iov;
	uint32_t iov_count, number, rdv, seq;
	uint32_t frag, room; /* longest piece that the sender announced; bytes in a block */
	uint64_t len, left;
	uint64_t start, blocks, next_block; /* blocks are counted from byte `start` */
	uint64_t given[SN_NET_RAILS];	    /* bytes asked for on each lane */
	bool wait;			    /* no lane takes a block of it now */
	uint32_t first_round;		    /* no PULL for it has an older one */
	uint32_t kernel;		    /* kpull.c: the module's number for it while that fetches it */
	struct sn_kmod_region *region;
	bool lazy;		 /* nobody waits for it: */
	struct sn_net_msg *done; /* the DONE to send at the end, allocated at the beginning */
	struct sn_net_block block[SN_NET_BLOCKS];
	int status;
};

struct sn_net_table { /* numbers for things the wire names; a number's high bits change at every reuse */
	struct sn_net_entry {
		void *object;
		uint32_t number, next_free;
	} * entry;
	uint32_t count, room, free;
};

enum sn_net_what { SN_TX_CTRL, SN_TX_ACK, SN_TX_SLOT, SN_TX_DATA, SN_TX_PULL };

struct sn_net_tx { /* an entry of the batch */
	enum sn_net_what what;
	struct sn_net_link *link;
	void *ref; /* slot or job */
	unsigned bit;
	uint8_t *own;	   /* a frame buffer that goes back when this has left */
	uint8_t room[184]; /* header, and the whole of control frames */
};

struct sn_net_port { /* a driver on one of our interfaces */
	struct sn_net *net;
	unsigned index;
	const struct sn_net_driver *driver;
	void *drv;
	struct sn_addr_part part;
	uint32_t mtu;
	unsigned prefix;	/* leading bits of its address that name its network */
	bool full;		/* the driver had no room in this round of progress */
	struct sn_list jobs;	/* PULLs to answer on it */
	struct sn_list served;	/* jobs with pieces in the batch and nothing else to send */
	uint64_t credit, asked; /* bytes under way to it: allowed, and asked for */
	uint64_t rate, rate_at; /* the best that a lane on it has shown of late */
	uint64_t heard, before; /* bytes that came; those that had come before the look at heard_at, ... */
	uint64_t heard_at, before_at; /* ... of which the last ones then */
	unsigned out_count;
	uint8_t *stage; /* for SN_NET_BATCH frames that lie together; may be NULL */
	uint32_t staged;
	struct sn_net_out out[SN_NET_BATCH];
	struct sn_net_tx tx[SN_NET_BATCH];
};

struct sn_net_cfg {
	unsigned ports; /* 1 to SN_NET_RAILS; the first is the one that the endpoint's address names */
	struct sn_net_cfg_port {
		const struct sn_net_driver *driver;
		void *drv;
		struct sn_addr_part part;
	} port[SN_NET_RAILS];
	struct sn_ep *ep;
	void *owner; /* the rail, as the core knows it */
	struct sn_ep_ids ids;
	const char *strategy;		       /* a list, NULL: the default */
	void (*unshow)(struct sn_net_link *l); /* a link goes; NULL: nobody shows any */
	uint64_t (*clock)(void *arg);	       /* ns */
	void *clock_arg;
	uint64_t secret[2];
	uint64_t peer_timeout; /* ns */
	uint32_t eager; /* longest body sent eagerly: at least SN_INJECT_MAX, at most SN_WIRE_EAGER_MAX */
};

struct sn_net_past { /* how many sessions with a peer have ended */
	uint64_t id, generation;
};

struct sn_net {
	struct sn_net_cfg cfg;
	uint64_t now, clock_seen, skew; /* engine time stands still while nobody looks (engine.c, look) */
	uint64_t look_by;		/* by this clock somebody will look again; 0: at any time */
	uint64_t left_at, call; /* clock at which something left last; ns that a train takes to leave */
	uint64_t starved;	/* what of skew are looks that were late by less than a time-out */
	uint64_t late_at;	/* when a look came far too late last, in engine time */
	uint32_t mtu;		/* the longest frame that any port takes */
	struct sn_strategy strategy;
	struct sn_net_port *port; /* cfg.ports of them */
	struct sn_kpull *kernel;  /* that fetches for some of them; NULL: none */
	struct {
		struct sn_wire_hello hello;
		unsigned port;
	} kept[SN_NET_HELLOS]; /* came in quiet mode and need the core: the application's next look has them */
	unsigned kept_count;
	uint8_t addr[SN_ADDR_MAX]; /* the endpoint's, asked for when the application first calls */
	size_t addr_len;
	struct sn_sip_key hello_key, session_key;
	struct sn_list links, work, pulls, stash_spare;
	struct sn_net_keep keep;
	_Atomic bool roomy; /* the last body went whole behind its announcement, and one as long would */
	unsigned stashes;   /* in use and spare */
	uint64_t word_at;   /* when it was made */
	uint8_t word;
	struct sn_list ended_msgs, ended_sends, ended_pulls; /* quiet mode: to be reported */
	struct sn_net_link **by_session, **by_id;	     /* hash heads */
	uint32_t hash_size, link_count;
	struct sn_net_past *past;
	uint32_t past_count, past_room;
	struct sn_net_table sends, pull_table;
	uint64_t timer_at, show_at;
	struct sn_net_link *hot; /* that brought the last piece */
	unsigned hot_port;	 /* on which something came last */
	uint64_t all_at;	 /* all ports are looked at then */
	unsigned in_port;	 /* on which the frame being handled came */
	bool late;     /* nobody had looked for a while: what came tells little about the rails' pace */
	uint32_t turn; /* every fourth block goes to the oldest fetch */
	bool hold; /* the next look is the post's own: pieces leave in whole trains only, with their announcements */
	bool quiet, closing, looks,
		stale;		/* looks: the application does, and posts nothing; stale: alone.h */
	unsigned inside, peeks; /* depth of progress: links are freed at 0; peeks that went on */
	unsigned dead;		/* links to free */
	uint8_t *spare;		/* frame buffers, chained through their first bytes */
	struct sn_net_in in[SN_NET_BATCH];
	uint64_t counts[SN_NC_COUNT];
	uint64_t drops[SN_DROP_COUNT];
};

/* The first of a list that is not empty, taken off it. */
static inline struct sn_list *sn_net_pop(struct sn_list *head)
{
	struct sn_list *first = head->next;

	head->next = first->next;
	first->next->prev = head;
	sn_list_init(first);
	return first;
}

/* ---- engine.c: what the rail calls ---- */
struct sn_net *sn_net_new(const struct sn_net_cfg *cfg); /* NULL: no memory */
void sn_net_free(struct sn_net *n);			 /* drops everything; no upward calls */
int sn_net_progress(struct sn_net *n);
int sn_net_peek(struct sn_net *n);
int sn_net_input(struct sn_net *n); /* input.c: read and handle what has come */
bool sn_net_busy(const struct sn_net *n);
bool sn_net_holds(const struct sn_net *n);   /* pieces wait for the next look */
bool sn_net_expects(const struct sn_net *n); /* long messages are under way: frames come soon */
bool sn_net_idle(const struct sn_net *n);    /* every eager message accepted is acknowledged */
/* ns until progress has something to do by itself, and is to be called; SN_NET_NEVER */
uint64_t sn_net_deadline(struct sn_net *n);
void sn_net_counters(struct sn_net *n, void (*fn)(void *arg, const char *name, uint64_t value), void *arg);
/* Around every call from above: what was batched leaves, and detached links are freed, when the outermost ends. */
void sn_net_enter(struct sn_net *n);
void sn_net_leave(struct sn_net *n);
static inline void sn_net_arm(struct sn_net *n, uint64_t at)
{
	if (at < n->timer_at)
		n->timer_at = at;
}
uint8_t *sn_net_frame_get(struct sn_net *n); /* n->mtu bytes; NULL */
void sn_net_frame_put(struct sn_net *n, uint8_t *frame);
uint32_t sn_net_table_add(struct sn_net_table *t, void *object); /* 0: no memory */
void *sn_net_table_get(const struct sn_net_table *t, uint32_t number);
void sn_net_table_del(struct sn_net_table *t, uint32_t number);

/* ---- link.c ---- */
int sn_net_attach(struct sn_net *n, struct sn_peer_state *peer, const struct sn_ep_ids *ids,
		  const struct sn_addr_part *part, struct sn_net_link **link);
void sn_net_detach(struct sn_net_link *l);
void sn_net_connect(struct sn_net_link *l);
void sn_net_gone(struct sn_net_link *l, int status);
void sn_net_report_gone(struct sn_net_link *l);
void sn_net_say_gone(const struct sn_net_link *l, int status); /* say.c: before the state changes */
void sn_net_hello_in(struct sn_net *n, struct sn_wire_hello *h);
void sn_net_hellos_kept(struct sn_net *n); /* those that came in quiet mode */
void sn_net_bye_in(struct sn_net_link *l, const struct sn_wire_bye *b);
void sn_net_bye_out(struct sn_net_link *l, int status, bool answer);
bool sn_net_goodbye(struct sn_net *n);
void sn_net_heard(struct sn_net_link *l);
uint64_t sn_net_link_timer(struct sn_net_link *l); /* do what is due; when next */
/* The links with this number (the low half of our session), one after the other. */
struct sn_net_link *sn_net_link_next(struct sn_net *n, struct sn_net_link *after, uint32_t number);
void sn_net_link_free(struct sn_net_link *l);
void sn_net_work(struct sn_net_link *l); /* put on the list of links that the next progress looks at */
void sn_net_rtt_add(struct sn_net_rtt *r, uint64_t sample);
uint64_t sn_net_rto(const struct sn_net_rtt *r, unsigned backoff);
uint64_t sn_net_rto_from(const struct sn_net_rtt *r, unsigned backoff, uint64_t least);

/* ---- gather.c ---- */
int sn_net_post(struct sn_net_link *l, const struct sn_out *out, struct sn_req *req);
/* A message of one segment, that leaves or joins others at once: 1, else SN_ERR_AGAIN with nothing done. what: kind | flags << 8 */
int sn_net_post_now(struct sn_net_link *l, uint32_t what, uint64_t bits, uint64_t data, struct iovec body);
bool sn_net_unpost(struct sn_net_link *l, struct sn_req *req);
/* By the strategy: does what waits leave now? With so many requests, of so many bytes, more. */
bool sn_net_ready(struct sn_net_link *l, uint32_t requests, uint64_t bytes);
bool sn_net_push_frame(struct sn_net_link *l);	 /* one, of what waits; false: none */
void sn_net_gather_leave(struct sn_net_link *l); /* what is being filled, as it is */
void sn_net_gather_end(struct sn_net_link *l);

/* ---- stream.c ---- */
struct sn_net_msg *sn_net_done_new(uint32_t rdv); /* NULL: no memory */
void sn_net_stream_ports(struct sn_net_link *l, const uint8_t *body, uint32_t len);
void sn_net_stream_moved(struct sn_net_way *w); /* the way is out: its frames go by another one */
void sn_net_done_post(struct sn_net_link *l, struct sn_net_msg *done, int status, bool lazy);
void sn_net_stream_push(struct sn_net_link *l); /* send what may be sent */
void sn_net_stream_ack(struct sn_net_link *l, uint32_t ack, uint64_t sack);
void sn_net_stream_twice(struct sn_net_link *l);
void sn_net_stream_met(struct sn_net_link *l); /* the peer has the session now, not what left before */
uint64_t sn_net_stream_rto(const struct sn_net_way *w);
uint64_t sn_net_stream_timer(struct sn_net_link *l);
void sn_net_stream_end(struct sn_net_link *l, int status);

/* ---- inbox.c ---- */
void sn_net_msg_in(struct sn_net_link *l, uint32_t seq, const uint8_t *payload, uint32_t len);
void sn_net_slice_in(struct sn_net_link *l, uint32_t seq, uint32_t offset, uint32_t total,
		     const uint8_t *bytes, uint32_t len);
void sn_net_deliver(struct sn_net_link *l); /* what waits in order */
void sn_net_ack_want(struct sn_net_link *l, bool now);
void sn_net_inbox_end(struct sn_net_link *l);

/* ---- output.c ---- */
/*
 * A control frame of len bytes (at most 184): the pointer to fill, header started; NULL never. Then sn_net_out_seal authenticates
 * it, but for a PULL, which may be changed until the batch leaves and is authenticated there.
 */
void *sn_net_out_ctrl(struct sn_net_way *w, uint8_t type, uint32_t len);
void sn_net_out_seal(struct sn_net_port *p, const struct sn_sip_key *key); /* the last one */
void sn_net_out_ack(struct sn_net_link *l, uint16_t flags);
void sn_net_out_slot(struct sn_net_way *w, struct sn_net_slot *slot);
void sn_net_out_data(struct sn_net_job *job, unsigned bit);
void sn_net_flush(struct sn_net *n);
void sn_net_flush_port(struct sn_net_port *p);

#include "net/fetch.h"
#include "net/probe.h"
#include "net/quick.h"
#include "net/way.h"

#endif
