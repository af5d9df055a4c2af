/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core as the engine sees it, and the reference against which it is held. For each ordered pair of endpoints there is a
 * conversation: the list of messages posted, in order. The next arrival at the receiver must be the next entry, with its
 * head, immediate data and every byte; every request must end exactly once.
 */
#include "../arrive_tagged.h"
#include "sim.h"

#define EDGE 64 /* guard bytes around receive buffers */

struct message {
	uint64_t seed, len;
	uint8_t imm_len, flags;
	struct sn_req *req;
};

struct sn_req { /* a send or a fetch */
	bool fetch, ended, expect_end;
	int status;
	struct iovec iov[3];
	uint32_t iov_count;
	uint8_t *buf;
	uint64_t len, seed;
	struct talk *talk;
	struct sn_req *next;
	int refused;			 /* the receiver's verdict, 0 if none */
	bool delivered, announced, told; /* it asks for its arrival; went as a rendezvous; was told of it */
	struct sn_req *by;		 /* a send: who fetches it */
};

struct talk {
	uint64_t from_id, to_id;
	struct message *message;
	unsigned count, room, arrived;
	bool broken; /* one side was told that the other is gone, or died */
	struct talk *next;
};

struct sn_peer_state {
	struct node *node;
	uint64_t id;
	struct sn_net_link *link;
	struct talk *in, *out;
	bool gone;
	struct sn_peer_state *next;
};

struct pending {
	struct sn_peer_state *peer;
	struct sn_rdv *rdv;
	struct talk *talk;
	unsigned index;
	struct pending *next;
};

static struct talk *talks;
static struct sn_req *reqs;
uint64_t model_messages, model_bytes, model_gone;
void (*model_taken)(unsigned from, uint64_t len);

static uint8_t pattern(uint64_t seed, uint64_t i)
{
	return (uint8_t)(sn_mix64(seed + (i >> 3)) >> (8 * (i & 7)));
}

/* Each attachment speaks in a conversation of its own. */
static struct talk *talk_new(uint64_t from, uint64_t to)
{
	struct talk *t = calloc(1, sizeof(*t));

	t->from_id = from;
	t->to_id = to;
	t->next = talks;
	talks = t;
	return t;
}

/* The conversation that opens with this message. */
static struct talk *talk_find(uint64_t from, uint64_t to, uint64_t bits)
{
	for (struct talk *t = talks; t; t = t->next)
		if (t->from_id == from && t->to_id == to && t->arrived == 0 && t->count > 0 &&
		    t->message[0].seed * 3 == bits)
			return t;
	return NULL;
}

static struct sn_req *req_new(struct talk *t, uint64_t len, uint64_t seed)
{
	struct sn_req *r = calloc(1, sizeof(*r));
	uint64_t a = sim_below(len + 1), b = a + sim_below(len - a + 1);

	r->talk = t;
	r->len = len;
	r->seed = seed;
	r->buf = malloc(len + 2UL * EDGE);
	memset(r->buf, 0xa5, len + 2UL * EDGE);
	r->iov[0] = (struct iovec){r->buf + EDGE, a};
	r->iov[1] = (struct iovec){r->buf + EDGE + a, b - a};
	r->iov[2] = (struct iovec){r->buf + EDGE + b, len - b};
	r->iov_count = 3;
	if (sim_chance(0.5)) {
		r->iov[0].iov_len = len;
		r->iov_count = 1;
	}
	r->next = reqs;
	reqs = r;
	return r;
}

/* ---- nodes ---- */

static size_t address(const struct node *n, uint8_t *out)
{
	memcpy(out, &n->ids, sizeof(n->ids));
	out[sizeof(n->ids)] = (uint8_t)n->slot;
	return sizeof(n->ids) + 1;
}

struct node *node_new(unsigned slot, uint64_t peer_timeout, uint32_t eager)
{
	struct node *n = calloc(1, sizeof(*n));

	n->slot = slot;
	n->ids.id = sim_rand();
	for (unsigned i = 0; i < sizeof(n->ids.key); i++)
		n->ids.key[i] = (uint8_t)sim_rand();
	struct sn_net_cfg cfg = {
		.ports = sim.rails,
		.strategy = sim.strategy,
		.ep = (struct sn_ep *)n,
		.ids = n->ids,
		.clock = sim_clock,
		.secret = {sim_rand(), sim_rand()},
		.peer_timeout = peer_timeout,
		.eager = eager,
	};
	for (unsigned r = 0; r < sim.rails; r++) {
		n->port[r] = (struct sim_port){n, r};
		cfg.port[r] =
			(struct sn_net_cfg_port){sim.driver ? sim.driver : &sim_driver,
						 sim.driver ? sim.drv[slot] : &n->port[r], sim_part(slot, r)};
	}
	n->net = sn_net_new(&cfg);
	sim.node[slot] = n;
	return n;
}

void node_free(struct node *n)
{
	sim.node[n->slot] = NULL;
	sn_net_free(n->net);
	for (struct sn_peer_state *p = n->peers, *next; p; p = next) {
		next = p->next;
		free(p);
	}
	for (struct pending *p = n->pending, *next; p; p = next) {
		next = p->next;
		free(p);
	}
	free(n);
}

void node_crash(struct node *n)
{
	for (struct talk *t = talks; t; t = t->next)
		if (t->from_id == n->ids.id || t->to_id == n->ids.id)
			t->broken = true;
	for (struct sn_req *r = reqs; r; r = r->next)
		if (!r->ended && (r->fetch ? r->talk->to_id : r->talk->from_id) == n->ids.id)
			r->ended = true; /* went with the process */
	node_free(n);
}

static struct sn_peer_state *peer_make(struct node *n, const struct sn_ep_ids *ids, unsigned slot)
{
	struct sn_addr_part part = sim_part(slot, 0);
	struct sn_peer_state *p = calloc(1, sizeof(*p));

	p->node = n;
	p->id = ids->id;
	p->out = talk_new(n->ids.id, ids->id);
	if (sn_net_attach(n->net, p, ids, &part, &p->link) < 0)
		sim_fail("attach failed");
	p->next = n->peers;
	n->peers = p;
	return p;
}

struct sn_peer_state *node_peer(struct node *n, const struct node *to)
{
	for (struct sn_peer_state *p = n->peers; p; p = p->next)
		if (p->id == to->ids.id)
			return p;
	return peer_make(n, &to->ids, to->slot);
}

static void peer_broken(struct sn_peer_state *p)
{
	p->out->broken = true;
	if (p->in)
		p->in->broken = true;
}

/* a forgets b in the middle of everything, and makes its acquaintance again. */
void node_rejoin(struct node *a, struct node *b)
{
	struct sn_peer_state *p = node_peer(a, b);

	for (struct sn_req *r = reqs; r; r = r->next)
		if (r->talk == (r->fetch ? p->in : p->out))
			r->ended = true; /* a detached link says nothing more */
	for (struct pending **at = &a->pending; *at;) {
		struct pending *q = *at;
		if (q->peer != p) {
			at = &q->next;
			continue;
		}
		*at = q->next;
		free(q);
	}
	if (!p->gone)
		sn_net_detach(p->link);
	p->gone = true;
	peer_broken(p);
	peer_make(a, &b->ids, b->slot);
}

void node_progress(struct node *n)
{
	bool asleep = n->asleep_until > sim.now;

	n->net->quiet = asleep;
	if (!asleep)
		n->quiet = false;
	if (!asleep && n->looks++ % 2) /* as one who waits */
		sn_net_peek(n->net);
	sn_net_progress(n->net);
	n->net->quiet = false;
}

void node_post(struct node *from, struct node *to, uint64_t len)
{
	struct sn_peer_state *p = node_peer(from, to);
	struct talk *t = p->out;
	uint8_t imm[SN_IMM_MAX];
	struct message m = {.seed = sim_rand(), .len = len, .imm_len = (uint8_t)sim_below(SN_IMM_MAX + 1)};
	bool copy = len <= SN_INJECT_MAX && sim_chance(0.3), nobody = copy && sim_chance(0.5);

	if (sim.bare) { /* the commonest: tagged, and nobody asks what becomes of it */
		m.imm_len = 0;
		m.seed -= m.seed % SN_K_MAX;
	}
	if (p->gone)
		return;
	m.flags = sim.bare ? 0 : (uint8_t)sim_below(4);
	struct sn_req *r = req_new(t, len, m.seed);
	r->delivered = !sim.bare && !nobody && !(m.flags & SN_H_SYNC) && (m.seed >> 40) % 4 == 0;
	m.flags |= r->delivered ? SN_H_ARRIVED : 0;
	m.req = r;
	for (uint64_t i = 0; i < len; i++)
		r->buf[EDGE + i] = pattern(m.seed, i);
	for (unsigned i = 0; i < m.imm_len; i++)
		imm[i] = pattern(~m.seed, i);
	struct sn_out out = {
		.head = {.kind = 1 + m.seed % SN_K_MAX,
			 .flags = m.flags,
			 .imm_len = m.imm_len,
			 .bits = m.seed * 3,
			 .data = m.seed * 5,
			 .len = len,
			 .imm = imm},
		.iov = r->iov,
		.iov_count = r->iov_count,
		.must_copy = copy,
	};
	if (t->count == t->room) {
		t->room = t->room ? t->room * 2 : 16;
		t->message = realloc(t->message, t->room * sizeof(*t->message));
	}
	t->message[t->count++] = m; /* before the call: it may arrive within it */
	r->expect_end = true;
	int rc = SN_ERR_AGAIN;
	if (r->iov_count == 1 && m.imm_len == 0) /* as the core does it */
		rc = sn_net_post_now(p->link, out.head.kind | (uint32_t)m.flags << 8, out.head.bits,
				     out.head.data, *r->iov);
	if (rc == SN_ERR_AGAIN)
		rc = sn_net_post(p->link, &out, nobody ? NULL : r);
	if (rc < 0)
		sim_fail("post failed: %d", rc);
	if (rc == 1) {
		if (r->ended)
			sim_fail("a request that was done at once ended again");
		r->ended = true;
		memset(r->buf, 0x77, len + 2UL * EDGE); /* ours again: the engine must not look */
	} else if (nobody || copy) {
		sim_fail("a message that must be copied was not");
	}
	model_messages++;
}

/* ---- the core's side of the contract ---- */

/* A message is there, whole. */
static void tell(const struct talk *t, uint64_t len)
{
	if (model_taken)
		for (unsigned i = 0; i < SIM_NODES; i++)
			if (sim.node[i] && sim.node[i]->ids.id == t->from_id)
				model_taken(i, len);
}

static void check_quiet(const struct node *n)
{
	if (n->net->quiet)
		sim_fail("an upward call in quiet mode");
}

static void fetch(struct sn_peer_state *peer, struct sn_rdv *rdv, struct talk *t, unsigned index)
{
	const struct message *m = &t->message[index];
	struct node *n = peer->node;

	if (sim_chance(n->refuse)) {
		m->req->refused = -(int)(1 + sim_below(5));
		sn_net_refuse(peer->link, rdv, m->req->refused);
		return;
	}
	uint64_t len = sim_chance(n->partial) ? sim_below(m->len + 1) : m->len;
	struct sn_req *r = req_new(t, len, m->seed);
	r->fetch = true;
	m->req->by = r;
	r->expect_end = true;
	sn_net_pull(peer->link, rdv, r->iov, r->iov_count, len, r);
}

void node_fetch_later(struct node *n)
{
	struct pending *p = n->pending;

	if (p == NULL)
		return;
	n->pending = p->next;
	fetch(p->peer, p->rdv, p->talk, p->index);
	free(p);
}

int sn_core_arrive(struct sn_peer_state *peer, const struct sn_in *in)
{
	struct node *n = peer->node;
	struct talk *t = peer->in ? peer->in : talk_find(peer->id, n->ids.id, in->head.bits);

	check_quiet(n);
	peer->in = t;
	if (peer->gone)
		sim_fail("a message from a peer that is gone");
	if (t == NULL || t->arrived == t->count) {
		sim_fail("a message that nobody sent");
		return 0;
	}
	unsigned index = t->arrived++;
	const struct message *m = &t->message[index];
	const struct sn_head *h = &in->head;
	bool plain = in->rdv && m->req->delivered; /* DONE is the answer: what asks for one stays behind */
	uint8_t flags = plain ? m->flags & (uint8_t)~SN_H_ARRIVED : m->flags;
	m->req->announced = in->rdv;
	if (h->len != m->len || h->kind != 1 + m->seed % SN_K_MAX || h->flags != flags ||
	    h->bits != m->seed * 3 || h->data != m->seed * 5 || h->imm_len != (plain ? 0 : m->imm_len))
		sim_fail("message %u has another head than the one posted", index);
	for (unsigned i = 0; i < h->imm_len && h->imm && !sim.failed; i++)
		if (((const uint8_t *)h->imm)[i] != pattern(~m->seed, i))
			sim_fail("immediate data of message %u is wrong", index);
	model_bytes += m->len;
	if (in->rdv == NULL) {
		for (uint64_t i = 0; i < m->len && !sim.failed; i++)
			if (((const uint8_t *)in->body)[i] != pattern(m->seed, i))
				sim_fail("byte %lu of message %u is wrong", (unsigned long)i, index);
		tell(t, m->len);
	} else if (sim_chance(n->late)) {
		struct pending *p = calloc(1, sizeof(*p));
		*p = (struct pending){peer, in->rdv, t, index, n->pending};
		n->pending = p;
	} else {
		fetch(peer, in->rdv, t, index);
	}
	return 0;
}

static void ended(struct sn_req *r, int status)
{
	if (r->ended)
		sim_fail("a request ended twice");
	if (!r->expect_end)
		sim_fail("a request ended that was not posted");
	r->ended = true;
	r->status = status;
	if (status == SN_ERR_PEER_GONE)
		r->talk->broken = true;
	else if (status != 0 && status != r->refused)
		sim_fail("a request ended with %d", status);
}

void sn_core_sent(struct sn_req *r, int status)
{
	if (r->fetch)
		sim_fail("a fetch was reported as sent");
	if (status == 0 && r->delivered && r->announced && !r->told)
		sim_fail("a send that asks for its arrival ended without the word of it");
	ended(r, status);
	memset(r->buf, 0x77, r->len + 2UL * EDGE);
}

void sn_core_arrived(struct sn_req *r)
{
	if (!r->delivered || !r->announced || r->told || r->ended)
		sim_fail("word of an arrival for which nobody asked");
	r->told = true;
	const struct sn_req *by = r->by; /* it need not have been told yet */
	for (uint64_t i = 0; by && !by->ended && i < by->len && !sim.failed; i++)
		if (by->buf[EDGE + i] != pattern(by->seed, i))
			sim_fail("word of an arrival before it");
}

void sn_core_pulled(struct sn_req *r, int status)
{
	if (!r->fetch)
		sim_fail("a send was reported as fetched");
	ended(r, status);
	for (unsigned i = 0; i < EDGE && !sim.failed; i++)
		if (r->buf[i] != 0xa5 || r->buf[EDGE + r->len + i] != 0xa5)
			sim_fail("written beside the buffer");
	for (uint64_t i = 0; status == 0 && i < r->len && !sim.failed; i++)
		if (r->buf[EDGE + i] != pattern(r->seed, i))
			sim_fail("byte %lu of %lu fetched is wrong", (unsigned long)i, (unsigned long)r->len);
	if (status == 0)
		tell(r->talk, r->len);
}

void sn_core_peer_gone(struct sn_peer_state *peer, int status)
{
	check_quiet(peer->node);
	if (peer->gone)
		sim_fail("a peer was gone twice");
	peer->gone = true;
	model_gone++;
	peer_broken(peer);
}

struct sn_peer_state *sn_core_peer_from(struct sn_ep *ep, const void *rail, const void *addr, size_t len,
					void **link)
{
	struct node *n = (struct node *)ep;
	struct sn_ep_ids ids;

	check_quiet(n);
	if (n->shuns)
		return NULL;
	if (len != sizeof(ids) + 1) {
		sim_fail("an address of %zu bytes", len);
		return NULL;
	}
	memcpy(&ids, addr, sizeof(ids));
	struct sn_peer_state *p = n->peers;
	while (p && p->id != ids.id)
		p = p->next;
	if (p == NULL || p->gone)
		p = peer_make(n, &ids, ((const uint8_t *)addr)[sizeof(ids)]);
	*link = p->link;
	return p;
}

size_t sn_core_address(const struct sn_ep *ep, uint8_t out[SN_ADDR_MAX])
{
	return address((const struct node *)ep, out);
}

uint32_t sn_core_peer_number(const struct sn_peer_state *peer)
{
	return 0;
}

int sn_core_peer_rank(const struct sn_peer_state *peer)
{
	return -1;
}

/* ---- the verdict ---- */

unsigned model_undelivered(void)
{
	unsigned n = 0;

	for (struct talk *t = talks; t; t = t->next)
		if (!t->broken)
			n += t->count - t->arrived;
	for (struct sn_req *r = reqs; r; r = r->next)
		n += r->expect_end && !r->ended && !r->talk->broken;
	return n;
}

void model_check_all(bool deaths)
{
	for (struct talk *t = talks; t && !sim.failed; t = t->next) {
		if (t->broken && !deaths)
			sim_fail("a peer was given up though nobody died");
		if (!t->broken && t->arrived != t->count)
			sim_fail("%u of %u messages arrived", t->arrived, t->count);
	}
	for (struct sn_req *r = reqs; r && !sim.failed; r = r->next)
		if (r->expect_end && !r->ended)
			sim_fail("a %s of %lu bytes never ended%s", r->fetch ? "fetch" : "send",
				 (unsigned long)r->len, r->talk->broken ? " (its peer is gone)" : "");
}

void model_start(void)
{
	talks = NULL;
	reqs = NULL;
}

void model_end(void)
{
	for (struct talk *t = talks, *next; t; t = next) {
		next = t->next;
		free(t->message);
		free(t);
	}
	for (struct sn_req *r = reqs, *next; r; r = next) {
		next = r->next;
		free(r->buf);
		free(r);
	}
}

void model_come(void)
{
	uint64_t until = sim.now + 2000 * SIM_MS;

	while (sim.now < until && model_undelivered() && !sim.failed)
		sim_run(sim.now + SIM_MS);
	sim_run(sim.now + 20 * SIM_MS); /* DONE, too */
	model_check_all(false);
}

void model_meet(uint64_t seed, double loss, struct node **a, struct node **b)
{
	const struct sim_net_params p = {
		.delay = 5000, .mtu = 1472, .path_mtu = 65535, .queue = 2048, .loss = loss};

	sim_start(seed, &p);
	model_start();
	sim.bare = true;
	*a = node_new(0, 3000 * SIM_MS, 16384);
	*b = node_new(1, 3000 * SIM_MS, 16384);
	node_post(*a, *b, 8);
	model_come();
}

void model_part(struct node *a, struct node *b)
{
	node_free(a);
	node_free(b);
	sim_end();
	model_end();
}
