/* SPDX-License-Identifier: BSD-3-Clause */
/* Fetching, answering, and what comes unasked: the part of net.h that is about the bodies of rendezvous. */
#ifndef SN_NET_FETCH_H
#define SN_NET_FETCH_H

#include "net/net.h"

/* ---- serve.c ---- */
/* No other rendezvous with this peer is under way. */
static inline bool sn_net_send_alone(const struct sn_net_send *s)
{
	return s->link->sends.next->next == &s->link->sends;
}
struct sn_net_send *sn_net_send_new(struct sn_net_link *l, const struct sn_out *out, struct sn_req *req);
void sn_net_send_finish(struct sn_net_send *s, int status);
void sn_net_send_told(
	struct sn_net_send *s); /* finished, and whoever waits for it, if anybody, hears of it; frees it */
void sn_net_pull_in(struct sn_net_link *l, const struct sn_wire_pull *p);
void sn_net_serve(struct sn_net *n, bool whole); /* answer some of what waits; whole: in whole trains only */
void sn_net_served(struct sn_net_port *p);	 /* the batch has left: free what is answered */
void sn_net_serve_moved(struct sn_net_way *w);	 /* the way is out: what waits goes by another one */
void sn_net_serve_end(struct sn_net_link *l, int status);

/* ---- pull.c ---- */
void sn_net_pull(struct sn_net_link *l, struct sn_rdv *rdv, const struct iovec *iov, uint32_t iov_count,
		 uint64_t len, struct sn_req *req);
void sn_net_refuse(struct sn_net_link *l, struct sn_rdv *rdv, int status);
void sn_net_pull_shape(struct sn_net_pull *p, uint32_t frag);
void sn_net_pull_finish(struct sn_net_pull *p);
/* The kernel has fetched this much of it, and goes no further. */
void sn_net_pull_kernel_done(struct sn_net_pull *p, uint64_t done);
void sn_net_pull_schedule(struct sn_net *n);
void sn_net_pull_end(struct sn_net_link *l, int status);
void sn_net_ask(struct sn_net_pull *p, struct sn_net_block *b); /* for what the block misses */
void sn_net_block_pushed(struct sn_net_pull *p, struct sn_net_block *b, unsigned lane, uint32_t frag);
void sn_net_block_drop(struct sn_net_pull *p, struct sn_net_block *b);
void sn_net_block_move(struct sn_net_block *b, unsigned lane);
void sn_net_block_release(struct sn_net_block *b, uint32_t bytes); /* these are no longer under way */
struct sn_net_way *sn_net_pull_way(struct sn_net_link *l, unsigned lane);
void sn_net_credit_cut(struct sn_net_link *l, unsigned lane);
static inline struct sn_net_lane *sn_net_lane_of(const struct sn_net_block *b)
{
	return &b->pull->link->lane[b->lane];
}
static inline uint64_t sn_net_block_start(const struct sn_net_pull *p, const struct sn_net_block *b)
{
	return p->start + b->index * p->room;
}
static inline uint64_t sn_net_block_end(const struct sn_net_pull *p, const struct sn_net_block *b)
{
	return SN_MIN_OF(sn_net_block_start(p, b) + p->room, p->len);
}

/* ---- piece.c ---- */
struct sn_net_found {		    /* what a DATA or PUSH frame brings */
	struct sn_net_pull *pull;   /* NULL: there is no such fetch (yet) */
	struct sn_net_block *block; /* NULL: nothing that is missing, */
	enum sn_drop why;	    /* and the frame is dropped for this */
	unsigned piece;
};
/* PUSH is alike. len: of the body. What is found holds until the next frame. */
struct sn_net_found sn_net_find(struct sn_net_link *l, const struct sn_wire_data *d, uint32_t len);
/* body: behind the head, or already where it belongs. */
void sn_net_data_in(struct sn_net_link *l, const struct sn_wire_data *d, const struct sn_net_found *f,
		    const uint8_t *body, uint32_t len);
void sn_net_push_in(struct sn_net_link *l, const struct sn_wire_push *w, const struct sn_net_found *f,
		    const uint8_t *body, uint32_t len);
/* A piece that was kept, into a fetch that is beginning. */
void sn_net_piece_in(struct sn_net_pull *p, uint64_t offset, const uint8_t *body, uint32_t len);

/* ---- push.c ---- */
uint64_t sn_net_push_room(const struct sn_net_link *l);			  /* bytes that may be pushed now */
void sn_net_push_plan(struct sn_net_send *s, const struct sn_net_way *w); /* how much of it follows unasked */
/* Before its request ends: what is not sent yet, or again, is sent from the copy. Nothing of it may wait in the batch. */
int sn_net_push_now(struct sn_net_link *l, struct sn_net_send *s,
		    bool alone); /* its announcement is packed */
void sn_net_push_undo(struct sn_net_send *s, const struct sn_out *out, struct sn_req *req);
void sn_net_push_start(struct sn_net_send *s, struct sn_net_way *w);
void sn_net_push_ended(struct sn_net_send *s);
void sn_net_push_asked(struct sn_net_send *s, uint64_t offset, uint64_t want); /* a PULL has come */
void sn_net_push_heard(struct sn_net_link *l, uint8_t word);
uint8_t sn_net_push_word(struct sn_net *n); /* what peers may push, as the wire says it */
void sn_net_stash(struct sn_net_link *l, const struct sn_wire_push *w, const uint8_t *body, uint32_t len);
void sn_net_stash_drop(struct sn_net_link *l, uint32_t rdv);
void sn_net_stash_end(struct sn_net_link *l);
bool sn_net_push_fits(const struct sn_net_link *l, const struct sn_rdv *rdv, uint64_t len); /* can be used */
void sn_net_push_expect(struct sn_net_pull *p, const struct sn_rdv *rdv);

/* ---- place.c ---- */
/* The bytes of this piece in the application's buffer if they lie together, or NULL. */
uint8_t *sn_net_place_of(const struct sn_net_pull *p, uint64_t offset, uint32_t len);
unsigned sn_net_expect(void *arg, struct sn_net_spot *spot, unsigned max, uint32_t *size);

/* ---- again.c ---- */
uint64_t sn_net_pull_timer(struct sn_net_link *l);
void sn_net_pull_lane_down(struct sn_net_link *l, unsigned lane); /* ask elsewhere for what it owes */

/* ---- lane.c ---- */
void sn_net_late_look(struct sn_net *n, int frames); /* this many have come */
uint32_t sn_net_lane_frag(const struct sn_net_pull *p, unsigned lane);
bool sn_net_any_room(const struct sn_net *n);	     /* some port can take a block more */
int sn_net_lane_for(const struct sn_net_pull *p);    /* the strategy's choice for the next block; -1: wait */
int sn_net_lane_trial(const struct sn_net_pull *p);  /* the lane to be tried with its first block; -1: none */
void sn_net_lanes_used(const struct sn_net_pull *p); /* a fetch has ended */
bool sn_net_lane_steal(struct sn_net_link *l);
int sn_net_lane_other(const struct sn_net_link *l, unsigned than,
		      uint64_t size); /* the best that is up; -1: none */

#endif
