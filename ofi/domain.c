/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The domain: what its objects share is the threading level and the registrations. Like the fabric it may be closed before they
 * are: a window that the program has not freed has a registration, with which Intel MPI's MPI_Finalize failed.
 */
#include "ofi.h"
#include "progress/caller.h"
#include "shim.h"

#include <stdlib.h>

void sn_ofi_domain_put(struct sn_ofi_domain *domain)
{
	if (atomic_fetch_sub(&domain->refs, 1) > 1)
		return;
	sn_ofi_fabric_put(domain->fabric);
	free(domain);
}

/* From here on nothing is registered, so that the event queue may be closed, too. */
static int domain_close(struct fid *fid)
{
	struct sn_ofi_domain *domain = sn_container(fid, struct sn_ofi_domain, fid.fid);

	if (domain->mr_eq)
		sn_ofi_eq_hold(domain->mr_eq, -1);
	domain->mr_eq = NULL;
	sn_ofi_domain_put(domain);
	return 0;
}

#define REG_MR (1ull << 59) /* FI_REG_MR, deprecated by libfabric 2 but still sent by applications */

static int domain_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct sn_ofi_domain *domain = sn_container(fid, struct sn_ofi_domain, fid.fid);

	if (other->fclass != FI_CLASS_EQ || flags & ~REG_MR || domain->mr_eq)
		return -FI_EINVAL;
	if (flags & REG_MR) {
		domain->mr_eq = (struct sn_ofi_eq *)other;
		sn_ofi_eq_hold(domain->mr_eq, 1);
	}
	return 0;
}

static int domain_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
			      void *context)
{
	return -FI_ENOSYS;
}

static int domain_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
			  void *context)
{
	return -FI_ENOSYS;
}

static int domain_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx,
			  void *context)
{
	return -FI_ENOSYS;
}

static int domain_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
				   struct fi_collective_attr *attr, uint64_t flags)
{
	return -FI_ENOSYS;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = sn_ofi_no_control,
	.ops_open = sn_ofi_no_ops_open,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = sn_ofi_av_open,
	.cq_open = sn_ofi_cq_open,
	.endpoint = sn_ofi_ep_open,
	.scalable_ep = domain_scalable_ep,
	.cntr_open = sn_ofi_cntr_open,
	.poll_open = sn_ofi_poll_open,
	.stx_ctx = domain_stx_ctx,
	.srx_ctx = domain_srx_ctx,
	.query_atomic = sn_ofi_query_atomic,
	.query_collective = domain_query_collective,
};

static bool at_once(void)
{
	sn_caller_find();
	struct sn_shim *shim = sn_caller_shim();
	return shim && atomic_load(&shim->at_once);
}

int sn_ofi_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out, void *context)
{
	const struct fi_domain_attr *attr = info->domain_attr;
	struct sn_ofi_domain *domain;
	int mode;

	if (!attr || (attr->name && strcmp(attr->name, SN_OFI_NAME)))
		return -FI_EINVAL;
	mode = attr->mr_mode;
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return -FI_ENOMEM;
	domain->fid.fid = (struct fid){.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops};
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &sn_ofi_mr_ops;
	domain->fabric = sn_container(fid, struct sn_ofi_fabric, fid);
	/*
	 * Only FI_THREAD_DOMAIN promises that posting and reading queues never overlap; and not what the MPI does not
	 * see (shim.h, at_once).
	 */
	domain->serial = attr->threading == FI_THREAD_DOMAIN && !at_once();
	/* MPICH registers outside the lock that it has for all else (core/region.c). */
	domain->lock.enabled = true;
	domain->counted_lock.enabled = !domain->serial;
	domain->virt_addr = mode == SN_OFI_MR_BASIC || mode & FI_MR_VIRT_ADDR;
	domain->prov_key = mode == SN_OFI_MR_BASIC || mode & FI_MR_PROV_KEY;
	domain->next_key = 1;
	domain->refs = 1;
	sn_list_init(&domain->eps);
	sn_list_init(&domain->mrs);
	sn_list_init(&domain->cntrs);
	sn_list_init(&domain->counted);
	atomic_fetch_add(&domain->fabric->refs, 1);
	*out = &domain->fid;
	return 0;
}
