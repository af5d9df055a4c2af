/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registration. libfabric registers with a domain, the engine with an endpoint, so a registration becomes one
 * engine region on each endpoint of the domain, those opened later included. Nothing is pinned: a registration without
 * remote rights costs one small allocation.
 */
#include "ofi.h"

#include <stdlib.h>

/* Reading a registration's counters moves the endpoints that may access it. With the domain's lock held. */
static int counters_follow(struct sn_ofi_mr *mr, struct sn_ofi_ep *ep)
{
	int rc = mr->on_read ? sn_ofi_set_add(&mr->on_read->set, ep->sn) : 0;

	if (!rc && mr->on_write)
		rc = sn_ofi_set_add(&mr->on_write->set, ep->sn);
	return rc;
}

/* With the domain's lock held. */
static int region_add(struct sn_ofi_mr *mr, struct sn_ofi_ep *ep)
{
	unsigned rights = mr->rights | (mr->domain->virt_addr ? SN_REMOTE_VIRTUAL : 0);
	struct sn_ofi_region *r = malloc(sizeof(*r));
	int rc;

	if (!r)
		return -FI_ENOMEM;
	rc = sn_region_add(ep->sn, mr->base, mr->len, mr->fid.key, rights, &r->sn);
	if (rc) {
		free(r);
		return -sn_ofi_error(rc);
	}
	r->ep = ep;
	sn_list_add_tail(&mr->regions, &r->of_mr);
	sn_list_add_tail(&ep->regions, &r->of_ep);
	return 0;
}

static void region_drop(struct sn_ofi_region *r)
{
	sn_region_free(r->ep->sn, r->sn);
	sn_list_del(&r->of_mr);
	sn_list_del(&r->of_ep);
	free(r);
}

static void regions_of_mr_drop(struct sn_ofi_mr *mr)
{
	sn_list_for_each_safe (pos, &mr->regions)
		region_drop(sn_container(pos, struct sn_ofi_region, of_mr));
}

int sn_ofi_mr_add_all(struct sn_ofi_ep *ep)
{
	struct sn_ofi_domain *domain = ep->domain;
	int rc = 0;

	sn_lock(&domain->lock);
	sn_list_for_each (pos, &domain->mrs) {
		struct sn_ofi_mr *mr = sn_container(pos, struct sn_ofi_mr, in_domain);
		rc = mr->rights ? region_add(mr, ep) : 0;
		if (!rc)
			rc = counters_follow(mr, ep);
		if (rc)
			break;
	}
	if (!rc)
		sn_list_add_tail(&domain->eps, &ep->in_domain);
	sn_unlock(&domain->lock);
	if (rc)
		sn_ofi_mr_drop_all(ep);
	return rc;
}

void sn_ofi_mr_drop_all(struct sn_ofi_ep *ep)
{
	sn_lock(&ep->domain->lock);
	sn_list_del(&ep->in_domain);
	sn_list_for_each_safe (pos, &ep->regions)
		region_drop(sn_container(pos, struct sn_ofi_region, of_ep));
	sn_unlock(&ep->domain->lock);
}

/* Keys are unique in a domain. A linear look: applications that choose keys register few regions. */
static bool key_taken(const struct sn_ofi_domain *domain, uint64_t key)
{
	sn_list_for_each (pos, &domain->mrs) {
		const struct sn_ofi_mr *mr = sn_container(pos, struct sn_ofi_mr, in_domain);
		if (mr->rights && mr->fid.key == key)
			return true;
	}
	return false;
}

/* Enter mr in its domain and its endpoints. */
static int mr_publish(struct sn_ofi_mr *mr, uint64_t requested_key)
{
	struct sn_ofi_domain *domain = mr->domain;
	int rc = 0;

	sn_lock(&domain->lock);
	if (domain->prov_key) {
		mr->fid.key = domain->next_key++;
	} else if (mr->rights && key_taken(domain, requested_key)) {
		rc = -FI_ENOKEY;
		goto out;
	} else {
		mr->fid.key = requested_key;
	}
	if (mr->rights) {
		sn_list_for_each (pos, &domain->eps) {
			rc = region_add(mr, sn_container(pos, struct sn_ofi_ep, in_domain));
			if (rc) {
				regions_of_mr_drop(mr);
				goto out;
			}
		}
	}
	sn_list_add_tail(&domain->mrs, &mr->in_domain);
	atomic_fetch_add(&domain->refs, 1);
out:
	sn_unlock(&domain->lock);
	return rc;
}

static int mr_close(struct fid *fid)
{
	struct sn_ofi_mr *mr = sn_container(fid, struct sn_ofi_mr, fid.fid);
	struct sn_ofi_domain *domain = mr->domain;

	sn_lock(&domain->lock);
	regions_of_mr_drop(mr);
	sn_list_del(&mr->in_domain);
	sn_unlock(&domain->lock);
	sn_lock(&domain->counted_lock);
	sn_list_del(&mr->in_counted);
	sn_unlock(&domain->counted_lock);
	if (mr->on_read)
		atomic_fetch_sub(&mr->on_read->refs, 1);
	if (mr->on_write)
		atomic_fetch_sub(&mr->on_write->refs, 1);
	sn_ofi_domain_put(domain);
	free(mr);
	return 0;
}

void sn_ofi_mr_accessed(struct sn_ofi_domain *domain, uint64_t key, bool written)
{
	sn_lock(&domain->counted_lock);
	sn_list_for_each (pos, &domain->counted) {
		struct sn_ofi_mr *mr = sn_container(pos, struct sn_ofi_mr, in_counted);
		struct sn_ofi_cntr *cntr = written ? mr->on_write : mr->on_read;
		if (mr->fid.key != key)
			continue;
		if (cntr)
			sn_ofi_cntr_count(cntr, true);
		break;
	}
	sn_unlock(&domain->counted_lock);
}

static int bind_cntr(struct sn_ofi_mr *mr, struct sn_ofi_cntr *cntr, uint64_t flags)
{
	struct sn_ofi_domain *domain = mr->domain;
	int rc = 0;

	if (!flags || flags & ~(FI_REMOTE_READ | FI_REMOTE_WRITE))
		return -FI_EBADFLAGS;
	if ((flags & FI_REMOTE_READ && mr->on_read) || (flags & FI_REMOTE_WRITE && mr->on_write))
		return -FI_EINVAL;
	sn_lock(&domain->lock);
	sn_lock(&domain->counted_lock);
	if (!mr->on_read && !mr->on_write)
		sn_list_add_tail(&domain->counted, &mr->in_counted);
	if (flags & FI_REMOTE_READ) {
		mr->on_read = cntr;
		atomic_fetch_add(&cntr->refs, 1);
	}
	if (flags & FI_REMOTE_WRITE) {
		mr->on_write = cntr;
		atomic_fetch_add(&cntr->refs, 1);
	}
	sn_unlock(&domain->counted_lock);
	sn_list_for_each (pos, &domain->eps)
		if (!rc)
			rc = counters_follow(mr, sn_container(pos, struct sn_ofi_ep, in_domain));
	sn_unlock(&domain->lock);
	return rc;
}

/* Regions belong to all endpoints already; binding to one (FI_MR_ENDPOINT is never required) changes nothing. */
static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct sn_ofi_mr *mr = sn_container(fid, struct sn_ofi_mr, fid.fid);

	if (other->fclass == FI_CLASS_CNTR)
		return bind_cntr(mr, sn_container(other, struct sn_ofi_cntr, fid.fid), flags);
	return other->fclass == FI_CLASS_EP ? 0 : -FI_EINVAL;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
	.ops_open = sn_ofi_no_ops_open,
};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **out)
{
	struct sn_ofi_domain *domain = sn_container(fid, struct sn_ofi_domain, fid.fid);
	struct sn_ofi_mr *mr;
	int rc;

	/* Flags are hints of newer releases; the one that changes the meaning of the address is not offered. */
	if (fid->fclass != FI_CLASS_DOMAIN || attr->iov_count != 1 || attr->offset)
		return -FI_EINVAL;
	if (flags & (1ull << 40)) /* FI_MR_DMABUF */
		return -FI_ENOSYS;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	mr->fid.fid = (struct fid){.fclass = FI_CLASS_MR, .context = attr->context, .ops = &mr_fid_ops};
	mr->domain = domain;
	mr->base = attr->mr_iov->iov_base;
	mr->len = attr->mr_iov->iov_len;
	mr->rights = (attr->access & FI_REMOTE_READ ? SN_REMOTE_READ : 0) |
		     (attr->access & FI_REMOTE_WRITE ? SN_REMOTE_WRITE : 0);
	sn_list_init(&mr->regions);
	sn_list_init(&mr->in_counted);
	rc = mr_publish(mr, attr->requested_key);
	if (rc) {
		free(mr);
		return rc;
	}
	*out = &mr->fid;
	if (domain->mr_eq)
		return sn_ofi_eq_report(domain->mr_eq, FI_MR_COMPLETE, &mr->fid.fid, attr->context, 0, 0);
	return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
		   uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	struct fi_mr_attr attr = {
		.mr_iov = iov,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context,
	};

	return mr_regattr(fid, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr sn_ofi_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
