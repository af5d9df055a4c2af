/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our side of a rendezvous: answering PULL frames until DONE. The state is only what is announced and which PULLs wait;
 * losses are the receiver's to notice. PULLs are answered in the order in which they came, a block at a time, so
 * receivers take turns.
 */
#include "net/net.h"
#include <stdlib.h>

/*
 * Blocks a turn: those of 256 KiB. At four the last of them stood behind a look, which in both directions at once
 * takes what has come.
 */
#define TURN 5

struct sn_net_send *sn_net_send_new(struct sn_net_link *l, const struct sn_out *out, struct sn_req *req)
{
	struct sn_net_send *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->number = sn_net_table_add(&l->net->sends, s);
	if (s->number == 0) {
		free(s);
		return NULL;
	}
	sn_net_keep_moves(l->net);
	s->link = l;
	s->req = req;
	sn_list_init(&s->left_node);
	s->iov = out->iov;
	s->iov_count = out->iov_count;
	s->len = out->head.len;
	s->delivered = out->head.flags & SN_H_ARRIVED;
	if (!sn_list_empty(&l->sends))
		l->crossed = SN_NET_CROSSED;
	else if (l->crossed)
		l->crossed--;
	sn_list_add_tail(&l->sends, &s->node);
	l->sending++;
	return s;
}

static void job_free(struct sn_net_job *job)
{
	struct sn_net_send *s = job->send;

	s->link->jobs--;
	sn_list_del(&job->node);
	free(job);
	if (--s->jobs == 0)
		sn_net_keep_left(s);
}

/* The rendezvous is over; its buffer is the application's again, so nothing in the batch may refer to it. */
void sn_net_send_finish(struct sn_net_send *s, int status)
{
	struct sn_net *n = s->link->net;

	if (s->jobs) {
		sn_net_flush(n);
		for (unsigned i = 0; i < n->cfg.ports; i++) {
			sn_list_for_each_safe (at, &n->port[i].jobs) {
				struct sn_net_job *job = sn_container(at, struct sn_net_job, node);
				if (job->send == s)
					job_free(job);
			}
		}
	}
	sn_net_push_ended(s);
	sn_net_table_del(&n->sends, s->number);
	sn_list_del(&s->node);
	s->link->sending--;
	sn_list_del(&s->left_node);
	s->status = status;
	if (s->req && n->quiet)
		sn_list_add_tail(&n->ended_sends, &s->node);
	else
		sn_net_send_told(s);
}

void sn_net_send_told(struct sn_net_send *s)
{
	struct sn_req *req = s->req;
	int status = s->status;
	bool arrived = s->delivered && !status;

	free(s);
	if (req && arrived)
		sn_core_arrived(req);
	if (req)
		sn_core_sent(req, status);
}

void sn_net_serve_end(struct sn_net_link *l, int status)
{
	while (!sn_list_empty(&l->sends)) {
		struct sn_net_send *s = sn_container(sn_net_pop(&l->sends), struct sn_net_send, node);
		if (status == 0)
			s->req = NULL;
		sn_net_send_finish(s, status);
	}
}

struct asked { /* one block of a PULL */
	uint64_t offset, end, want;
	uint32_t pull, frag, round;
};

/* Of a PULL for several blocks the first is whole, and all but the last are as long. */
static bool pull_ok(const struct sn_net *n, const struct sn_net_send *s, const struct sn_wire_pull *p)
{
	uint64_t offset = le64toh(p->offset), end = le64toh(p->end), want = le64toh(p->want);
	uint64_t frag = le16toh(p->frag), more = le16toh(p->more);

	if (want == 0 || offset >= end || end > s->len || frag < SN_WIRE_FRAG_MIN ||
	    frag > n->mtu - sizeof(struct sn_wire_data))
		return false;
	uint64_t last = 63 - (uint64_t)__builtin_clzll(want), room = (last + 1) * frag;
	if (more == 0)
		return last * frag < end - offset;
	return (want & (want + 1)) == 0 && end - offset > more * room && end - offset <= (more + 1) * room;
}

/* Block i of those that the PULL asks for. */
static struct asked block_of(const struct sn_wire_pull *p, uint32_t i)
{
	uint64_t offset = le64toh(p->offset), end = le64toh(p->end), want = le64toh(p->want);
	uint64_t frag = le16toh(p->frag), room = (uint64_t)__builtin_popcountll(want) * frag;
	bool last = i == le16toh(p->more);

	offset += i * room;
	if (last && i > 0)
		want = sn_wire_all((end - offset + frag - 1) / frag);
	return (struct asked){.offset = offset,
			      .end = last ? end : offset + room,
			      .want = want,
			      .pull = le32toh(p->pull),
			      .frag = (uint32_t)frag,
			      .round = le32toh(p->round) + i};
}

/*
 * A PULL for a block that still waits adds to what is wanted of it. If it now asks for another way, what waits for the
 * first is taken back: the receiver has given up on that rail, or has seen that the other is sooner done.
 */
static bool merge(struct sn_net_port *port, const struct sn_net_send *s, const struct asked *a,
		  const struct sn_net_way *way)
{
	sn_list_for_each_safe (at, &port->jobs) {
		struct sn_net_job *job = sn_container(at, struct sn_net_job, node);
		if (job->send == s && job->push && job->offset < a->end && job->end > a->offset) {
			job_free(job); /* it is asked for before it was sent */
			continue;
		}
		if (job->send != s || job->push || job->pull != a->pull || job->offset != a->offset)
			continue;
		if (job->way != way || job->frag != a->frag) {
			job_free(job);
			return false;
		}
		job->want |= a->want;
		job->round = a->round;
		return true;
	}
	return false;
}

/* The way that the receiver asks for, if it can carry pieces of this size; else another one that can. */
static struct sn_net_way *way_for(struct sn_net_link *l, unsigned rail, uint32_t frag)
{
	struct sn_net_way *w = rail < l->net->cfg.ports ? &l->way[rail] : NULL;
	uint32_t len = frag + (uint32_t)sizeof(struct sn_wire_data);

	if (w && w->state == SN_WAY_UP && len <= w->port->mtu)
		return w;
	struct sn_net_way *other = sn_net_way_other(l, w);
	if (other && len <= other->port->mtu)
		return other;
	return w && w->state != SN_WAY_NONE && len <= w->port->mtu ? w : NULL;
}

/* Is something of what this PULL asks for still to be sent? Then we were late, and nothing was lost. */
static bool waits(const struct sn_net *n, const struct sn_net_send *s, const struct sn_wire_pull *p)
{
	for (unsigned i = 0; i < n->cfg.ports && s->jobs; i++)
		sn_list_for_each (at, &n->port[i].jobs) {
			const struct sn_net_job *job = sn_container(at, struct sn_net_job, node);
			if (job->send == s && job->offset < le64toh(p->end) && job->end > le64toh(p->offset))
				return true;
		}
	return false;
}

/* What a PULL says against the way that is to carry the answer, and against the one that was to carry it before. */
static void doubts(struct sn_net_way *way, const struct sn_net_send *s, const struct sn_wire_pull *p)
{
	struct sn_net_link *l = way->link;

	if (p->tries && p->silent < l->net->cfg.ports && !waits(l->net, s, p))
		sn_net_probe_doubt(&l->way[p->silent]);
	if (way->joins && sn_net_shortest(le16toh(p->frag)))
		sn_net_probe_doubt(way);
}

/* False: there is no place for it, and the receiver will ask again. */
static bool block_in(struct sn_net_send *s, const struct asked *a, struct sn_net_way *way)
{
	struct sn_net_link *l = s->link;
	struct sn_net *n = l->net;

	for (unsigned i = 0; i < n->cfg.ports && s->jobs; i++)
		if (merge(&n->port[i], s, a, way))
			return true;
	if (l->jobs >= SN_NET_JOBS) {
		n->drops[SN_DROP_BUSY]++;
		return false;
	}
	struct sn_net_job *job = malloc(sizeof(*job));
	if (job == NULL) {
		n->drops[SN_DROP_MEMORY]++;
		return false;
	}
	*job = (struct sn_net_job){
		.send = s,
		.way = way,
		.offset = a->offset,
		.end = a->end,
		.want = a->want,
		.pull = a->pull,
		.frag = a->frag,
		.round = a->round,
	};
	s->jobs++;
	l->jobs++;
	sn_list_add_tail(&way->port->jobs, &job->node);
	return true;
}

void sn_net_pull_in(struct sn_net_link *l, const struct sn_wire_pull *p)
{
	struct sn_net *n = l->net;
	struct sn_net_send *s = sn_net_table_get(&n->sends, le32toh(p->rdv));
	struct sn_net_way *way = way_for(l, p->rail, le16toh(p->frag));

	if (s == NULL || s->link != l) {
		n->drops[SN_DROP_RDV]++;
		return;
	}
	if (p->rail < n->cfg.ports)
		l->way[p->rail].rate = (uint64_t)le32toh(p->rate) << 10;
	if (!pull_ok(n, s, p) || way == NULL) {
		n->drops[SN_DROP_RANGE]++;
		return;
	}
	doubts(way, s, p);
	sn_net_push_heard(l, p->push);
	sn_net_push_asked(s, le64toh(p->offset), le64toh(p->want));
	for (uint32_t i = 0; i <= le16toh(p->more); i++) {
		struct asked a = block_of(p, i);
		if (!block_in(s, &a, way))
			break;
	}
}

/* Pieces that wait, and those in the batch; as many as matter. */
static unsigned waiting(const struct sn_net_port *p)
{
	unsigned count = p->out_count;

	sn_list_for_each (at, &p->jobs) {
		count += (unsigned)__builtin_popcountll(sn_container(at, struct sn_net_job, node)->want);
		if (count >= SN_NET_BATCH)
			break;
	}
	return count;
}

/* The job's pieces, in trains; the announcements that are gathering go before those that were not asked for. */
static void pieces_out(struct sn_net_port *p, struct sn_net_job *job, unsigned train, bool whole)
{
	while (job->want && !p->full) {
		if (p->out_count == 0 && job->push)
			sn_net_gather_leave(job->send->link);
		sn_net_out_data(job, (unsigned)__builtin_ctzll(job->want));
		if (p->out_count < train)
			continue;
		sn_net_flush_port(p);
		if (whole && waiting(p) + (unsigned)__builtin_popcountll(job->want) < train)
			break;
	}
}

/* Is what comes next another part of a lone body, which was divided so that the receiver can begin? */
static bool divided(const struct sn_net_port *p, const struct sn_net_send *s)
{
	return !sn_list_empty(&p->jobs) && sn_container(p->jobs.next, struct sn_net_job, node)->send == s &&
	       sn_net_send_alone(s);
}

/* A block; false: nothing to do, or no room. */
static bool serve_one(struct sn_net_port *p, bool whole)
{
	if (sn_list_empty(&p->jobs) || p->full)
		return false;
	struct sn_net_job *job = sn_container(p->jobs.next, struct sn_net_job, node);
	const struct sn_net_send *s = job->send;
	unsigned train = sn_wire_block(job->frag);
	if (!sn_net_join_asked(job->way))
		sn_net_probe_join(job->way);
	if (whole && waiting(p) < train)
		return false;
	/* a call takes more than one; but of a short body that is two packets the first leaves while the second is made */
	bool several = train < SN_NET_PART && (!job->push || sn_net_send_alone(s)) &&
		       !(job->way->joins && s->len <= SN_NET_KEEP);
	sn_list_del(
		&job->node); /* onto this list first: a full batch leaves while the job is being answered */
	sn_list_add_tail(&p->served, &job->node);
	job->busy = true;
	pieces_out(p, job, several ? SN_NET_BATCH : train, whole);
	job->busy = false;
	if (job->want || (p->out_count >= SN_NET_PART && (several || divided(p, s))))
		sn_net_flush_port(p); /* the receiver can begin while we go on */
	return true;
}

/* Then look at the network again: short messages must not wait behind a long queue. */
void sn_net_serve(struct sn_net *n, bool whole)
{
	for (unsigned i = 0; i < n->cfg.ports; i++)
		for (int blocks = 0; blocks < TURN && serve_one(&n->port[i], whole); blocks++)
			;
}

/* Answered jobs go; one of which the driver did not take all waits for its next turn, before the others. */
void sn_net_served(struct sn_net_port *p)
{
	sn_list_for_each_safe (at, &p->served) {
		struct sn_net_job *job = sn_container(at, struct sn_net_job, node);
		if (job->busy)
			continue;
		if (job->want == 0) {
			job_free(job);
			continue;
		}
		sn_list_del(&job->node);
		sn_list_add_tail(p->jobs.next, &job->node); /* before the first */
	}
}

void sn_net_serve_moved(struct sn_net_way *w)
{
	struct sn_net_port *p = w->port;

	sn_net_flush_port(p);
	sn_list_for_each_safe (at, &p->jobs) {
		struct sn_net_job *job = sn_container(at, struct sn_net_job, node);
		struct sn_net_way *other = sn_net_way_other(w->link, w);
		if (job->way != w)
			continue;
		if (other == NULL || job->frag + sizeof(struct sn_wire_data) > other->port->mtu) {
			job_free(job); /* the receiver will see that nothing comes, and ask again */
			continue;
		}
		job->way = other;
		sn_list_del(&job->node);
		sn_list_add_tail(&other->port->jobs, &job->node);
	}
}
