/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided reads and writes. A call names one remote range (rma_iov_limit 1). */
#include "ofi.h"

static inline struct sn_ofi_ep *ep_of(struct fid_ep *fid)
{
	return sn_container(fid, struct sn_ofi_ep, fid);
}

static inline ssize_t post_read(struct sn_ofi_ep *ep, const struct iovec *iov, size_t count, fi_addr_t from,
				uint64_t addr, uint64_t key, uint32_t flags, void *context)
{
	sn_remote remote = {.key = key, .offset = addr};
	sn_msg m = {.flags = flags, .iov = iov, .iov_count = (uint32_t)count, .context = context};
	int rc = sn_ofi_peer(ep, from, &m.peer);

	return sn_unlikely(rc) ? rc : sn_ofi_result(sn_get(ep->sn, &m, &remote, NULL));
}

static inline ssize_t post_write(struct sn_ofi_ep *ep, const struct iovec *iov, size_t count, fi_addr_t to,
				 uint64_t addr, uint64_t key, uint32_t flags, uint64_t data, void *context)
{
	sn_remote remote = {.key = key, .offset = addr};
	sn_msg m = {
		.flags = flags, .iov = iov, .iov_count = (uint32_t)count, .data = data, .context = context};
	int rc = sn_ofi_peer(ep, to, &m.peer);

	return sn_unlikely(rc) ? rc : sn_ofi_result(sn_put(ep->sn, &m, &remote, NULL));
}

/* Both sides of a message must have the same length, and there is one remote side. */
static bool msg_ok(const struct fi_msg_rma *msg)
{
	return msg->iov_count <= SN_OFI_IOV && msg->rma_iov_count == 1 &&
	       sn_iov_len(msg->msg_iov, (uint32_t)msg->iov_count) == msg->rma_iov[0].len;
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr,
			uint64_t key, void *context)
{
	struct iovec v = {buf, len};

	return post_read(ep_of(fid), &v, 1, from, addr, key, ep_of(fid)->tx_flags, context);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t from, uint64_t addr, uint64_t key, void *context)
{
	if (count > SN_OFI_IOV)
		return -FI_EINVAL;
	return post_read(ep_of(fid), iov, count, from, addr, key, ep_of(fid)->tx_flags, context);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	uint32_t sn_flags;

	if (!sn_ofi_tx_flags(ep_of(fid), flags, &sn_flags))
		return -FI_EBADFLAGS;
	if (!msg_ok(msg))
		return -FI_EINVAL;
	return post_read(ep_of(fid), msg->msg_iov, msg->iov_count, msg->addr, msg->rma_iov[0].addr,
			 msg->rma_iov[0].key, sn_flags & SN_FORGET, msg->context);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to,
			 uint64_t addr, uint64_t key, void *context)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};

	return post_write(ep_of(fid), &v, 1, to, addr, key, ep_of(fid)->tx_flags, 0, context);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t to, uint64_t addr, uint64_t key, void *context)
{
	if (count > SN_OFI_IOV)
		return -FI_EINVAL;
	return post_write(ep_of(fid), iov, count, to, addr, key, ep_of(fid)->tx_flags, 0, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	uint32_t sn_flags;

	if (!sn_ofi_tx_flags(ep_of(fid), flags, &sn_flags))
		return -FI_EBADFLAGS;
	if (!msg_ok(msg))
		return -FI_EINVAL;
	return post_write(ep_of(fid), msg->msg_iov, msg->iov_count, msg->addr, msg->rma_iov[0].addr,
			  msg->rma_iov[0].key, sn_flags & ~(uint32_t)SN_SYNC, msg->data, msg->context);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to, uint64_t addr,
			  uint64_t key)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};

	return post_write(ep_of(fid), &v, 1, to, addr, key, SN_INJECT | SN_FORGET, 0, NULL);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
			     fi_addr_t to, uint64_t addr, uint64_t key, void *context)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};

	return post_write(ep_of(fid), &v, 1, to, addr, key, ep_of(fid)->tx_flags | SN_DATA, data, context);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t to,
			      uint64_t addr, uint64_t key)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};

	return post_write(ep_of(fid), &v, 1, to, addr, key, SN_INJECT | SN_FORGET | SN_DATA, data, NULL);
}

struct fi_ops_rma sn_ofi_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
