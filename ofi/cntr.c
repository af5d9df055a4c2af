/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters: successes and errors of the operations an endpoint was told to count here. Reading makes progress. */
#include "ofi.h"

#include <stdlib.h>

static struct sn_ofi_cntr *cntr_of(struct fid_cntr *fid)
{
	return sn_container(fid, struct sn_ofi_cntr, fid);
}

static uint64_t read_one(struct sn_ofi_cntr *cntr, _Atomic uint64_t *which)
{
	uint64_t before = atomic_load_explicit(which, memory_order_relaxed);

	if (!sn_ofi_set_progress(&cntr->set) && atomic_load_explicit(which, memory_order_relaxed) == before)
		sn_ofi_set_relax(&cntr->set, 0, 0);
	return atomic_load_explicit(which, memory_order_relaxed);
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	return read_one(cntr_of(fid), &cntr_of(fid)->value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	return read_one(cntr_of(fid), &cntr_of(fid)->errors);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&cntr_of(fid)->value, value);
	return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&cntr_of(fid)->value, value);
	return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&cntr_of(fid)->errors, value);
	return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&cntr_of(fid)->errors, value);
	return 0;
}

/* Until the counter reaches the threshold; an error that happens meanwhile ends the wait too. */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct sn_ofi_cntr *cntr = cntr_of(fid);
	uint64_t errors = atomic_load(&cntr->errors), end = sn_ofi_deadline(timeout);

	for (;;) {
		if (atomic_load(&cntr->value) >= threshold)
			return 0;
		if (atomic_load(&cntr->errors) != errors)
			return -FI_EAVAIL;
		if (sn_ofi_set_progress(&cntr->set))
			continue;
		if (end != UINT64_MAX && sn_now_ns() >= end)
			return -FI_ETIMEDOUT;
		sn_ofi_set_relax(&cntr->set, end, 0);
	}
}

static int cntr_close(struct fid *fid)
{
	struct sn_ofi_cntr *cntr = sn_container(fid, struct sn_ofi_cntr, fid.fid);

	if (atomic_load(&cntr->refs))
		return -FI_EBUSY;
	sn_lock(&cntr->domain->lock);
	sn_list_del(&cntr->in_domain);
	sn_unlock(&cntr->domain->lock);
	sn_ofi_domain_put(cntr->domain);
	sn_ofi_set_closed(&cntr->set);
	free(cntr->set.eps);
	free(cntr);
	return 0;
}

static struct fi_ops cntr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cntr_close,
	.bind = sn_ofi_no_bind,
	.control = sn_ofi_no_control,
	.ops_open = sn_ofi_no_ops_open,
};

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

int sn_ofi_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context)
{
	struct sn_ofi_domain *domain = sn_container(fid, struct sn_ofi_domain, fid);
	struct sn_ofi_cntr *cntr;

	if (attr && (attr->events != FI_CNTR_EVENTS_COMP ||
		     (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
		      attr->wait_obj != FI_WAIT_YIELD)))
		return -FI_ENOSYS;
	if (attr && attr->flags)
		return -FI_EBADFLAGS;
	cntr = calloc(1, sizeof(*cntr));
	if (!cntr)
		return -FI_ENOMEM;
	cntr->fid.fid = (struct fid){.fclass = FI_CLASS_CNTR, .context = context, .ops = &cntr_fid_ops};
	cntr->fid.ops = &cntr_ops;
	cntr->domain = domain;
	sn_ofi_set_init(&cntr->set, domain);
	sn_lock(&domain->lock);
	sn_list_add_tail(&domain->cntrs, &cntr->in_domain);
	sn_unlock(&domain->lock);
	atomic_fetch_add(&domain->refs, 1);
	*out = &cntr->fid;
	return 0;
}
