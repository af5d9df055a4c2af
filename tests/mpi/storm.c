/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A storm: every rank sends a random set of messages to random ranks, itself included, in four communicators, by every
 * kind of non-blocking send, while it receives with and without wildcards, posted early or late, by probe, matched probe
 * and persistent request, with derived types on both sides and collectives beside it.
 *
 * What a wildcard receive gets is up to the MPI, so what is expected is said by group. All receives of one rank in one
 * communicator use the same kind of wildcard, drawn for the round; a group is the set of messages that one such receive
 * may match, and every receive of a group may match every message of it. Then MPI's rules leave exactly this: in a group,
 * taken in the order in which the receives were made, the messages of one source come in the order they were sent.
 * It is checked once everything is over, with source, tag, length, every byte of the message and every byte around it.
 */
#include "stress.h"
#include <stdlib.h>
#include <string.h>

#define GROUP_BYTES (32u << 20) /* posted buffers of one group; above, its messages are received by probe */

struct msg {
	int comm, src, dst, tag;
	size_t len;
	uint64_t key;
	int group; /* at the receiver */
	bool seen;
};

struct group {
	int comm, src, tag; /* src: of the world; MPI_ANY_SOURCE, MPI_ANY_TAG */
	int count, unposted, order;
	size_t max;
	bool by_probe;
};

enum method { RECV, RECV_INIT, MPROBE, PROBE };

struct op {
	struct msg *m; /* a send; NULL: a receive */
	int group, order;
	enum method method;
	bool posted, done, persistent;
	void *buf;
	struct layout l;
	MPI_Status status;
};

struct storm {
	const struct world *w;
	const struct limits *lim;
	struct rng plan, own; /* plan: the same everywhere */
	int msgs, groups, ops, sends, next_send, recvs, next_recv;
	struct msg *msg;
	struct group *group;
	struct op *op;	  /* sends in the order of the plan, then receives in any order */
	MPI_Request *req; /* one for each op */
	int *done_at;	  /* for MPI_Testsome */
	MPI_Status *done_status;
	int probing[8], probes; /* receives that look for their message */
	int colls, coll_len;
	MPI_Request coll_req[3];
	uint64_t *coll_in, *coll_out;
};

/* ---- the plan ---- */

static void plan_messages(struct storm *s)
{
	size_t left = s->lim->round_bytes;
	int n = s->w->size, *where;

	s->msgs = n * (1 + (int)rnd_len(&s->plan, (size_t)s->lim->max_msgs - 1));
	s->msg = calloc((size_t)s->msgs, sizeof(*s->msg));
	where = need((size_t)s->msgs * sizeof(int));
	must(s->msg, "no memory for %d messages", s->msgs);
	for (int i = 0; i < s->msgs; i++)
		where[i] = i;
	shuffle(&s->plan, where, s->msgs); /* what is left of the budget shrinks: not always at the end */
	for (int i = 0; i < s->msgs; i++) {
		struct msg *m = &s->msg[where[i]];

		m->src = (int)below(&s->plan, (uint64_t)n);
		m->dst = chance(&s->plan, 8) ? m->src : (int)below(&s->plan, (uint64_t)n);
		m->comm = (int)below(&s->plan, COMMS);
		if (!comm_joins(m->comm, m->src, m->dst))
			m->comm = 0;
		m->tag = (int)(chance(&s->plan, 80) ? below(&s->plan, 4) : below(&s->plan, 32768));
		m->len = chance(&s->plan, 4)
				 ? 0
				 : rnd_len(&s->plan, left < s->lim->max_len ? left : s->lim->max_len);
		m->key = rnd(&s->plan);
		left -= m->len;
	}
	free(where);
}

static int group_of(struct storm *s, const struct msg *m, uint64_t seed)
{
	int wild = (int)(mix(seed, (uint64_t)(m->dst * COMMS + m->comm)) % 4);
	int src = wild & 1 ? MPI_ANY_SOURCE : m->src, tag = wild & 2 ? MPI_ANY_TAG : m->tag, g;

	for (g = 0; g < s->groups; g++)
		if (s->group[g].comm == m->comm && s->group[g].src == src && s->group[g].tag == tag)
			return g;
	s->group[g] = (struct group){.comm = m->comm, .src = src, .tag = tag};
	s->groups++;
	return g;
}

static void plan_receives(struct storm *s, uint64_t seed)
{
	int *order = need((size_t)s->msgs * sizeof(int)), first = s->sends;

	s->group = need((size_t)s->msgs * sizeof(*s->group));
	for (int i = 0; i < s->msgs; i++) {
		struct msg *m = &s->msg[i];
		struct group *g;

		if (m->dst != s->w->rank)
			continue;
		m->group = group_of(s, m, seed);
		g = &s->group[m->group];
		g->count++;
		g->unposted++;
		g->max = m->len > g->max ? m->len : g->max;
		order[s->recvs++] = m->group;
	}
	shuffle(&s->own, order, s->recvs);
	for (int i = 0; i < s->groups; i++)
		s->group[i].by_probe = s->group[i].max * (size_t)s->group[i].count > GROUP_BYTES;
	for (int i = 0; i < s->recvs; i++) {
		struct op *o = &s->op[first + i];
		int way = (int)below(&s->own, 10);

		o->group = order[i];
		o->method = way < 6 ? RECV : way == 6 ? RECV_INIT : way < 9 ? MPROBE : PROBE;
		if (s->group[o->group].by_probe && o->method < MPROBE)
			o->method = MPROBE;
	}
	s->ops = first + s->recvs;
	free(order);
}

static void plan_make(struct storm *s, uint64_t seed)
{
	plan_messages(s);
	s->op = calloc((size_t)s->msgs * 2, sizeof(*s->op));
	s->req = need((size_t)s->msgs * 2 * sizeof(*s->req));
	s->done_at = need((size_t)s->msgs * 2 * sizeof(int));
	s->done_status = need((size_t)s->msgs * 2 * sizeof(MPI_Status));
	must(s->op, "no memory for %d operations", s->msgs * 2);
	for (int i = 0; i < s->msgs; i++)
		if (s->msg[i].src == s->w->rank)
			s->op[s->sends++].m = &s->msg[i];
	plan_receives(s, seed);
	for (int i = 0; i < s->ops; i++)
		s->req[i] = MPI_REQUEST_NULL;
	st.sends = s->sends;
	st.recvs = s->recvs;
	st.sends_posted = st.sends_done = st.recvs_posted = st.recvs_done = st.probing = 0;
}

/* ---- what runs ---- */

static void post_send(struct storm *s)
{
	int i = s->next_send++, kind = (int)below(&s->own, 8), to;
	struct op *o = &s->op[i];
	struct msg *m = o->m;
	MPI_Comm c = s->w->comm[m->comm];

	layout_make(&s->own, m->len, &o->l);
	o->buf = need(o->l.span);
	layout_fill(&o->l, o->buf, m->key);
	to = comm_rank_of(s->w, m->comm, m->dst);
	switch (kind) {
	case 0:
	case 1: MPI_Issend(o->buf, o->l.items, o->l.type, to, m->tag, c, &s->req[i]); break;
	case 2:
	case 3:
		if (kind == 2)
			MPI_Send_init(o->buf, o->l.items, o->l.type, to, m->tag, c, &s->req[i]);
		else
			MPI_Ssend_init(o->buf, o->l.items, o->l.type, to, m->tag, c, &s->req[i]);
		MPI_Start(&s->req[i]);
		o->persistent = true;
		break;
	default: MPI_Isend(o->buf, o->l.items, o->l.type, to, m->tag, c, &s->req[i]);
	}
	o->posted = true;
	st.sends_posted++;
}

/* A receive of this group is being made; its buffer has room for `len` bytes. */
static void recv_prepare(struct storm *s, struct op *o, size_t len)
{
	struct group *g = &s->group[o->group];

	layout_make(&s->own, len, &o->l);
	o->buf = need(o->l.span);
	memset(o->buf, GUARD, o->l.span);
	o->order = g->order++;
	g->unposted--;
	o->posted = true;
	st.recvs_posted++;
}

static int group_source(const struct storm *s, const struct group *g)
{
	return g->src == MPI_ANY_SOURCE ? g->src : comm_rank_of(s->w, g->comm, g->src);
}

static void post_recv(struct storm *s)
{
	int i = s->sends + s->next_recv;
	struct op *o = &s->op[i];
	struct group *g = &s->group[o->group];
	MPI_Comm c = s->w->comm[g->comm];

	if (o->method >= MPROBE) {
		if (s->probes == (int)(sizeof(s->probing) / sizeof(s->probing[0])))
			return;
		s->probing[s->probes++] = i;
		st.probing++;
		s->next_recv++;
		return;
	}
	s->next_recv++;
	recv_prepare(s, o, g->max + below(&s->own, 3));
	if (o->method == RECV) {
		MPI_Irecv(o->buf, o->l.items, o->l.type, group_source(s, g), g->tag, c, &s->req[i]);
	} else {
		MPI_Recv_init(o->buf, o->l.items, o->l.type, group_source(s, g), g->tag, c, &s->req[i]);
		MPI_Start(&s->req[i]);
		o->persistent = true;
	}
}

/* One look by one of the receives that probe. */
static void try_probe(struct storm *s)
{
	int at = (int)below(&s->own, (uint64_t)s->probes), i = s->probing[at], found = 0, len;
	struct op *o = &s->op[i];
	struct group *g = &s->group[o->group];
	MPI_Comm c = s->w->comm[g->comm];
	MPI_Message message;
	MPI_Status status;

	if (o->method == MPROBE)
		MPI_Improbe(group_source(s, g), g->tag, c, &found, &message, &status);
	else
		MPI_Iprobe(group_source(s, g), g->tag, c, &found, &status);
	if (!found)
		return;
	s->probing[at] = s->probing[--s->probes];
	st.probing--;
	MPI_Get_count(&status, MPI_BYTE, &len);
	must(len >= 0 && (size_t)len <= g->max, "a probe found %d bytes, at most %zu were sent", len, g->max);
	recv_prepare(s, o, (size_t)len + (chance(&s->own, 30) ? below(&s->own, 100) : 0));
	if (o->method == MPROBE)
		MPI_Imrecv(o->buf, o->l.items, o->l.type, &message, &s->req[i]);
	else
		MPI_Irecv(o->buf, o->l.items, o->l.type, status.MPI_SOURCE, status.MPI_TAG, c, &s->req[i]);
}

static void finish(struct storm *s, int i, const MPI_Status *status)
{
	s->op[i].done = true;
	if (s->op[i].m) {
		st.sends_done++;
	} else {
		s->op[i].status = *status;
		st.recvs_done++;
	}
}

/*
 * A receive that is taken back at once. If a message was faster it stands for one of its group that is still to be made:
 * there must be one, as every earlier receive has precedence.
 */
static void try_cancel(struct storm *s)
{
	int i = s->sends + s->next_recv, canceled;
	struct op *o = &s->op[i];
	struct group *g = &s->group[o->group];

	if (g->by_probe || o->method != RECV)
		return;
	recv_prepare(s, o, g->max);
	MPI_Irecv(o->buf, o->l.items, o->l.type, group_source(s, g), g->tag, s->w->comm[g->comm], &s->req[i]);
	MPI_Cancel(&s->req[i]);
	MPI_Wait(&s->req[i], &o->status);
	MPI_Test_cancelled(&o->status, &canceled);
	if (!canceled) {
		s->next_recv++;
		finish(s, i, &o->status);
		return;
	}
	guard_check(o->buf, o->l.span, "a cancelled receive");
	free(o->buf);
	layout_free(&o->l);
	g->unposted++;
	o->posted = false;
	st.recvs_posted--;
}

static void test_some(struct storm *s)
{
	int n = 0, at, flag;
	MPI_Status status;

	if (chance(&s->own, 20)) {
		MPI_Testany(s->ops, s->req, &at, &flag, &status);
		if (flag && at != MPI_UNDEFINED)
			finish(s, at, &status);
		return;
	}
	MPI_Testsome(s->ops, s->req, &n, s->done_at, s->done_status);
	for (int i = 0; i < n && n != MPI_UNDEFINED; i++)
		finish(s, s->done_at[i], &s->done_status[i]);
}

/* Collectives beside the storm, started by each rank whenever it likes, in the same order everywhere. */
static void start_coll(struct storm *s)
{
	int n = s->coll_len, p = s->w->size;
	uint64_t *in = s->coll_in + s->colls * n, *out = s->coll_out + s->colls * n * p;
	MPI_Comm c = s->w->coll;

	for (int i = 0; i < n; i++)
		in[i] = mix((uint64_t)(s->colls * p + s->w->rank), (uint64_t)i) >> 8;
	if (s->colls == 0)
		MPI_Iallreduce(in, out, n, MPI_UINT64_T, MPI_SUM, c, &s->coll_req[0]);
	else if (s->colls == 1)
		MPI_Iallgather(in, n, MPI_UINT64_T, out, n, MPI_UINT64_T, c, &s->coll_req[1]);
	else
		MPI_Ibarrier(c, &s->coll_req[2]);
	s->colls++;
}

static void check_colls(struct storm *s)
{
	int n = s->coll_len, p = s->w->size;

	MPI_Waitall(3, s->coll_req, MPI_STATUSES_IGNORE);
	for (int i = 0; i < n; i++) {
		uint64_t sum = 0;

		for (int r = 0; r < p; r++) {
			uint64_t v = mix((uint64_t)(p + r), (uint64_t)i) >> 8;

			sum += mix((uint64_t)r, (uint64_t)i) >> 8;
			must(s->coll_out[n * p + r * n + i] == v,
			     "Iallgather: element %d of rank %d is wrong", i, r);
		}
		must(s->coll_out[i] == sum, "Iallreduce: element %d is wrong", i);
	}
}

static void run(struct storm *s)
{
	unsigned eager_to_send = (unsigned)below(&s->own, 3) * 40 + 10;

	st.doing = "storm";
	while (st.sends_done < s->sends || st.recvs_done < s->recvs || s->colls < 3) {
		bool send = chance(&s->own, eager_to_send);

		if (s->colls < 3 && chance(&s->own, 5))
			start_coll(s);
		if (send && s->next_send < s->sends)
			post_send(s);
		if (!send && s->next_recv < s->recvs)
			post_recv(s);
		if (s->next_recv < s->recvs && chance(&s->own, 2))
			try_cancel(s);
		if (s->probes)
			try_probe(s);
		if (chance(&s->own, 10) || (s->next_send == s->sends && s->next_recv == s->recvs))
			test_some(s);
	}
}

/* ---- what came ---- */

static void check_one(struct storm *s, struct op *o)
{
	static const char *const plain[] = {"irecv", "recv_init", "improbe and imrecv", "iprobe and irecv"};
	static const char *const derived[] = {"irecv, derived type", "recv_init, derived type",
					      "improbe and imrecv, derived type",
					      "iprobe and irecv, derived type"};
	struct group *g = &s->group[o->group];
	int src = comm_world_of(s->w, g->comm, o->status.MPI_SOURCE), len;
	struct msg *m = NULL;

	for (int i = 0; i < s->msgs && !m; i++)
		if (s->msg[i].dst == s->w->rank && s->msg[i].group == o->group && s->msg[i].src == src &&
		    !s->msg[i].seen)
			m = &s->msg[i];
	must(m, "a message from rank %d that it did not send", src);
	m->seen = true;
	MPI_Get_elements(&o->status, o->l.type, &len);
	must(o->status.MPI_TAG == m->tag && (size_t)len == m->len,
	     "out of order: from rank %d in communicator %d came tag %d, %d bytes instead of tag %d, %zu "
	     "bytes",
	     src, m->comm, o->status.MPI_TAG, len, m->tag, m->len);
	layout_check(&o->l, o->buf, m->key, m->len, o->l.derived ? derived[o->method] : plain[o->method]);
	st.messages++;
	st.bytes += (double)m->len;
}

static int by_order(const void *a, const void *b)
{
	const struct op *x = *(struct op *const *)a, *y = *(struct op *const *)b;

	return x->group != y->group ? (x->group > y->group) - (x->group < y->group)
				    : (x->order > y->order) - (x->order < y->order);
}

static void check(struct storm *s)
{
	struct op **sorted = need((size_t)s->recvs * sizeof(*sorted));

	st.doing = "checking a storm";
	for (int i = 0; i < s->recvs; i++)
		sorted[i] = &s->op[s->sends + i];
	qsort(sorted, (size_t)s->recvs, sizeof(*sorted), by_order);
	for (int i = 0; i < s->recvs; i++)
		check_one(s, sorted[i]);
	for (int i = 0; i < s->sends; i++) /* sending leaves the buffer alone */
		layout_check(&s->op[i].l, s->op[i].buf, s->op[i].m->key, s->op[i].m->len,
			     "a buffer that was sent");
	check_colls(s);
	free(sorted);
}

static void clean(struct storm *s)
{
	for (int i = 0; i < s->ops; i++) {
		if (s->op[i].persistent)
			MPI_Request_free(&s->req[i]);
		layout_free(&s->op[i].l);
		free(s->op[i].buf);
	}
	free(s->msg);
	free(s->group);
	free(s->op);
	free(s->req);
	free(s->done_at);
	free(s->done_status);
	free(s->coll_in);
	free(s->coll_out);
}

void storm(const struct world *w, const struct limits *lim, uint64_t seed)
{
	struct storm s = {.w = w, .lim = lim, .plan = {seed}, .own = {mix(seed, (uint64_t)w->rank + 1)}};

	st.doing = "planning a storm";
	plan_make(&s, seed);
	s.coll_len = 1 + (int)rnd_len(&s.plan, 4095);
	s.coll_in = need(3 * (size_t)s.coll_len * 8);
	s.coll_out = need(3 * (size_t)s.coll_len * (size_t)w->size * 8);
	run(&s);
	check(&s);
	clean(&s);
}
