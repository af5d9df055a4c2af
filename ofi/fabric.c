/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric: only a parent for domains and event queues. It may be closed before they are, and ends with the last of them: other
 * providers refuse that (-FI_EBUSY), and MPICH, which closes it in MPI_Finalize, then ends a job whose program has not freed
 * a window.
 */
#include "ofi.h"

#include <stdlib.h>

void sn_ofi_fabric_put(struct sn_ofi_fabric *fabric)
{
	if (atomic_fetch_sub(&fabric->refs, 1) == 1)
		free(fabric);
}

static int fabric_close(struct fid *fid)
{
	sn_ofi_fabric_put(sn_container(fid, struct sn_ofi_fabric, fid.fid));
	return 0;
}

static int fabric_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
			     void *context)
{
	return -FI_ENOSYS;
}

static int fabric_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **waitset)
{
	return -FI_ENOSYS;
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = sn_ofi_no_bind,
	.control = sn_ofi_no_control,
	.ops_open = sn_ofi_no_ops_open,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = sn_ofi_domain_open,
	.passive_ep = fabric_passive_ep,
	.eq_open = sn_ofi_eq_open,
	.wait_open = fabric_wait_open,
	.trywait = sn_ofi_trywait,
};

int sn_ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fid, void *context)
{
	struct sn_ofi_fabric *fabric;

	if (attr && attr->name && strcmp(attr->name, SN_OFI_NAME))
		return -FI_ENODATA;
	fabric = calloc(1, sizeof(*fabric));
	if (!fabric)
		return -FI_ENOMEM;
	fabric->fid.fid = (struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fid_ops};
	fabric->fid.ops = &fabric_ops;
	fabric->refs = 1;
	*fid = &fabric->fid;
	return 0;
}
