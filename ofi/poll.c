/* SPDX-License-Identifier: BSD-3-Clause */
/* Poll sets: which of these queues and counters have something to tell? */
#include "ofi.h"

#include <stdlib.h>

struct member {
	struct fid *fid;
	uint64_t seen; /* counter: value when last reported */
};

struct sn_ofi_poll {
	struct fid_poll fid;
	struct sn_ofi_domain *domain;
	struct member *members;
	int count, room;
};

static bool has_news(struct member *m)
{
	uint64_t now;

	if (m->fid->fclass == FI_CLASS_CQ)
		return sn_ofi_cq_ready(sn_container(m->fid, struct sn_ofi_cq, fid.fid));
	struct sn_ofi_cntr *cntr = sn_container(m->fid, struct sn_ofi_cntr, fid.fid);
	sn_ofi_set_progress(&cntr->set);
	now = atomic_load(&cntr->value) + atomic_load(&cntr->errors);
	if (now == m->seen)
		return false;
	m->seen = now;
	return true;
}

static int poll_poll(struct fid_poll *fid, void **context, int count)
{
	struct sn_ofi_poll *set = sn_container(fid, struct sn_ofi_poll, fid);
	int n = 0;

	for (int i = 0; i < set->count && n < count; i++)
		if (has_news(&set->members[i]))
			context[n++] = set->members[i].fid->context;
	return n;
}

static int poll_add(struct fid_poll *fid, struct fid *event, uint64_t flags)
{
	struct sn_ofi_poll *set = sn_container(fid, struct sn_ofi_poll, fid);

	if (event->fclass != FI_CLASS_CQ && event->fclass != FI_CLASS_CNTR)
		return -FI_EINVAL;
	if (set->count == set->room) {
		int room = set->room ? 2 * set->room : 8;
		struct member *members = realloc(set->members, (size_t)room * sizeof(*members));
		if (!members)
			return -FI_ENOMEM;
		set->members = members;
		set->room = room;
	}
	set->members[set->count++] = (struct member){.fid = event};
	return 0;
}

static int poll_del(struct fid_poll *fid, struct fid *event, uint64_t flags)
{
	struct sn_ofi_poll *set = sn_container(fid, struct sn_ofi_poll, fid);

	for (int i = 0; i < set->count; i++) {
		if (set->members[i].fid == event) {
			set->members[i] = set->members[--set->count];
			return 0;
		}
	}
	return -FI_EINVAL;
}

static int poll_close(struct fid *fid)
{
	struct sn_ofi_poll *set = sn_container(fid, struct sn_ofi_poll, fid.fid);

	sn_ofi_domain_put(set->domain);
	free(set->members);
	free(set);
	return 0;
}

static struct fi_ops poll_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = poll_close,
	.bind = sn_ofi_no_bind,
	.control = sn_ofi_no_control,
	.ops_open = sn_ofi_no_ops_open,
};

static struct fi_ops_poll poll_ops = {
	.size = sizeof(struct fi_ops_poll),
	.poll = poll_poll,
	.poll_add = poll_add,
	.poll_del = poll_del,
};

int sn_ofi_poll_open(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **out)
{
	struct sn_ofi_poll *set;

	if (attr && attr->flags)
		return -FI_EINVAL;
	set = calloc(1, sizeof(*set));
	if (!set)
		return -FI_ENOMEM;
	set->fid.fid = (struct fid){.fclass = FI_CLASS_POLL, .ops = &poll_fid_ops};
	set->fid.ops = &poll_ops;
	set->domain = sn_container(fid, struct sn_ofi_domain, fid);
	atomic_fetch_add(&set->domain->refs, 1);
	*out = &set->fid;
	return 0;
}
