/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our side of a rendezvous: answering PULL frames until DONE. The state is only what is announced and which PULLs wait;
 * losses are the receiver's to notice. PULLs are answered in the order in which they came, a block at a time, so
 * receivers take turns.
 */
#include "net/net.h"
#include <stdlib.h>

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
	s->link = l;
	s->req = req;
	s->iov = out->iov;
	s->iov_count = out->iov_count;
	s->len = out->head.len;
	sn_list_add_tail(&l->sends, &s->node);
	return s;
}

static void job_free(struct sn_net_job *job)
{
	job->send->jobs--;
	job->send->link->jobs--;
	sn_list_del(&job->node);
	free(job);
}

/* The rendezvous is over; its buffer is the application's again, so nothing in the batch may refer to it. */
void sn_net_send_finish(struct sn_net_send *s, int status)
{
	struct sn_net *n = s->link->net;
	struct sn_req *req = s->req;

	if (s->jobs) {
		sn_net_flush(n);
		sn_list_for_each_safe (at, &n->jobs) {
			struct sn_net_job *job = sn_container(at, struct sn_net_job, node);
			if (job->send == s)
				job_free(job);
		}
	}
	sn_net_table_del(&n->sends, s->number);
	sn_list_del(&s->node);
	if (req && n->quiet) {
		s->status = status;
		sn_list_add_tail(&n->ended_sends, &s->node);
		return;
	}
	free(s);
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

static bool pull_ok(const struct sn_net *n, const struct sn_net_send *s, const struct sn_wire_pull *p)
{
	uint64_t offset = le64toh(p->offset), end = le64toh(p->end), want = le64toh(p->want);
	uint32_t frag = le32toh(p->frag);

	if (want == 0 || offset >= end || end > s->len || frag < SN_WIRE_FRAG_MIN ||
	    frag > n->mtu - sizeof(struct sn_wire_data))
		return false;
	uint64_t last = 63 - (uint64_t)__builtin_clzll(want);
	return last * frag < end - offset;
}

/* A PULL for a block that still waits adds to what is wanted of it. */
static bool merge(struct sn_net *n, const struct sn_net_send *s, const struct sn_wire_pull *p)
{
	sn_list_for_each (at, &n->jobs) {
		struct sn_net_job *job = sn_container(at, struct sn_net_job, node);
		if (job->send != s || job->pull != le32toh(p->pull) || job->offset != le64toh(p->offset) ||
		    job->frag != le32toh(p->frag))
			continue;
		job->want |= le64toh(p->want);
		job->round = le32toh(p->round);
		return true;
	}
	return false;
}

void sn_net_pull_in(struct sn_net_link *l, const struct sn_wire_pull *p)
{
	struct sn_net *n = l->net;
	struct sn_net_send *s = sn_net_table_get(&n->sends, le32toh(p->rdv));
	struct sn_net_job *job;

	if (s == NULL || s->link != l) {
		n->drops[SN_DROP_RDV]++;
		return;
	}
	if (!pull_ok(n, s, p)) {
		n->drops[SN_DROP_RANGE]++;
		return;
	}
	if (s->jobs && merge(n, s, p))
		return;
	if (l->jobs >= SN_NET_JOBS) {
		n->drops[SN_DROP_BUSY]++;
		return;
	}
	job = malloc(sizeof(*job));
	if (job == NULL) {
		n->drops[SN_DROP_MEMORY]++;
		return;
	}
	*job = (struct sn_net_job){
		.send = s,
		.offset = le64toh(p->offset),
		.end = le64toh(p->end),
		.want = le64toh(p->want),
		.pull = le32toh(p->pull),
		.frag = le32toh(p->frag),
		.round = le32toh(p->round),
	};
	s->jobs++;
	l->jobs++;
	sn_list_add_tail(&n->jobs, &job->node);
}

bool sn_net_serve(struct sn_net *n)
{
	if (sn_list_empty(&n->jobs) || n->full)
		return false;
	struct sn_net_job *job = sn_container(n->jobs.next, struct sn_net_job, node);
	sn_list_del(
		&job->node); /* onto this list first: a full batch leaves while the job is being answered */
	sn_list_add_tail(&n->served, &job->node);
	job->busy = true;
	while (job->want && !n->full)
		sn_net_out_data(job->send->link, job, (unsigned)__builtin_ctzll(job->want));
	job->busy = false;
	if (job->want || n->out_count >= SN_NET_PART) /* the receiver can begin while we go on */
		sn_net_flush(n);
	return true;
}

/* Answered jobs go; one of which the driver did not take all waits for its next turn, before the others. */
void sn_net_served(struct sn_net *n)
{
	sn_list_for_each_safe (at, &n->served) {
		struct sn_net_job *job = sn_container(at, struct sn_net_job, node);
		if (job->busy)
			continue;
		if (job->want == 0) {
			job_free(job);
			continue;
		}
		sn_list_del(&job->node);
		sn_list_add_tail(n->jobs.next, &job->node); /* before the first */
	}
}
