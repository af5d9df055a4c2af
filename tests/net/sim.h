/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network and a clock that exist only in memory, for the protocol engine to run in: everything is decided by a seed, time
 * jumps from event to event. model.c is the core that the engine believes to be above it: it knows what was posted and
 * checks every message, byte, completion and order.
 */
#ifndef SN_TESTS_NET_SIM_H
#define SN_TESTS_NET_SIM_H

#include "net/net.h"
#include <stdio.h>
#include <stdlib.h>

#define SIM_NODES 64
#define SIM_RAILS 8
#define SIM_MS	  1000000ULL

struct sim_packet {
	uint64_t at, order;
	unsigned from, to, rail;
	bool line; /* on its way to the receiver's line, which it has not crossed yet */
	uint32_t len;
	uint8_t *bytes;
};

struct sim_inbox {
	struct sim_packet *packet;
	unsigned count, room, taken; /* taken: handed out by the last receive() */
};

struct sim_net_params {
	double loss, duplicate, corrupt, reorder; /* probabilities */
	double refuse;				  /* of the driver having no room */
	uint64_t delay, jitter;			  /* ns */
	uint64_t byte_time_ps;			  /* the receiver's link: picoseconds a byte, 0 unlimited */
	uint32_t mtu;				  /* what drivers say */
	uint32_t path_mtu;			  /* longer frames are lost */
	unsigned queue;				  /* packets an inbox holds */
};

/* A rail is a network of its own that joins the ports with its number of all nodes. */
struct sim_rail {
	uint64_t delay;	       /* ns on top of the network's */
	uint64_t byte_time_ps; /* of each port's line, both ways; 0: the network's */
	double loss;	       /* on top of the network's */
	uint32_t mtu;	       /* 0: the network's */
	bool cut;
	uint64_t bytes; /* carried */
};

struct sim {
	uint64_t now, order, random;
	struct sim_net_params p;
	unsigned rails;	      /* 1 unless a test says otherwise after sim_start */
	const char *strategy; /* NULL: the default */
	struct sim_rail rail[SIM_RAILS];
	struct sim_packet *heap;
	unsigned heap_count, heap_room;
	struct sim_inbox inbox[SIM_NODES][SIM_RAILS];
	uint64_t line_free[SIM_NODES][SIM_RAILS]; /* when the receiver's link has carried all before */
	uint64_t line_out[SIM_NODES][SIM_RAILS];  /* likewise the sender's */
	bool cut[SIM_NODES][SIM_NODES];		  /* frames from, to are lost */
	struct node *node[SIM_NODES];
	const struct sn_net_driver
		*driver; /* NULL: the simulated network; else a real one, of which each node has */
	void *drv[SIM_NODES];
	struct sn_addr_part part[SIM_NODES];
	uint64_t sent, lost, damaged;
	uint64_t send_calls; /* of the drivers */
	uint64_t clocks;     /* readings of the clock */
	unsigned unjoined;   /* rails on which packets of several frames are lost: a bit for each */
	unsigned quick;	     /* rails with a short cut: a bit for each, ... */
	unsigned unquick;    /* ... and those on which what takes it is lost */
	unsigned bodiless;   /* rails on which what is not SN_OUT_PLAIN is lost */
	bool bare;	     /* no message has immediate data: one in one piece may go the shortest way */
	bool failed;
};

extern struct sim sim; /* one at a time */

uint64_t sim_rand(void);
static inline uint64_t sim_below(uint64_t n)
{
	return n ? sim_rand() % n : 0;
}
static inline bool sim_chance(double p)
{
	return (double)(sim_rand() >> 11) / 9007199254740992.0 < p;
}
uint64_t sim_clock(void *arg);
void sim_start(uint64_t seed, const struct sim_net_params *p);
void sim_end(void);
/* What is joined, and what takes the short cut, no longer comes through, each on some rails. */
void sim_some_kinds_lost(void);
/* Put bytes on the wire to a node as they are. */
void sim_inject(unsigned to, const uint8_t *bytes, uint32_t len, uint64_t after);
/* Let time run up to `until`: frames travel and nodes make progress. */
void sim_run(uint64_t until);
void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
extern const struct sn_net_driver sim_driver;
struct sn_addr_part sim_part(unsigned slot, unsigned rail);

/* ---- model.c ---- */
struct sim_port {
	struct node *node;
	unsigned rail;
};

struct node {
	unsigned slot;
	struct sim_port port[SIM_RAILS];
	struct sn_net *net;
	struct sn_ep_ids ids;
	struct sn_peer_state *peers;  /* chain */
	uint64_t asleep_until;	      /* does not call the engine before */
	bool quiet;		      /* while asleep, its service thread does */
	double refuse, late, partial; /* what it does with a rendezvous */
	bool shuns;		      /* takes no new peer */
	unsigned looks;
	struct pending *pending; /* rendezvous to be fetched later */
	unsigned upcalls_in_quiet;
};

struct node *node_new(unsigned slot, uint64_t peer_timeout, uint32_t eager);
void node_crash(struct node *n); /* without a word; what was in flight stays in flight */
void node_free(struct node *n);
struct sn_peer_state *node_peer(struct node *n, const struct node *to);
/* Post a message of this length from one node to another; the model remembers what must arrive. */
void node_post(struct node *from, struct node *to, uint64_t len);
void node_rejoin(struct node *a, struct node *b);
void node_fetch_later(struct node *n); /* fetch what was put off */
void node_progress(struct node *n);
/* After quiet has come: is everything delivered and completed (lossless), or a clean prefix of it (peers died)? */
void model_check_all(bool deaths);
void model_start(void);
void model_end(void);
void model_come(void); /* until all that was posted is there, and its senders know; and checks it */
/* A simulation of two nodes that have met, 5 us apart, in frames of 1,472 bytes; and its end. */
void model_meet(uint64_t seed, double loss, struct node **a, struct node **b);
void model_part(struct node *a, struct node *b);
unsigned model_undelivered(void);
extern uint64_t model_messages, model_bytes, model_gone;
extern void (*model_taken)(unsigned from,
			   uint64_t len); /* unless NULL, told of each message that is there, whole */

#endif
