/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plain messages. Budget of every call here and in tagged.c, rma.c: one descriptor on the stack, one look at the peer
 * table, one engine call; no allocation, no lock of the provider's.
 */
#include "ofi.h"

static inline struct sn_ofi_ep *ep_of(struct fid_ep *fid)
{
	return sn_container(fid, struct sn_ofi_ep, fid);
}

static inline ssize_t post_recv(struct sn_ofi_ep *ep, const struct iovec *iov, size_t count, fi_addr_t from,
				uint32_t flags, void *context)
{
	sn_msg m = {
		.flags = flags,
		.iov = iov,
		.iov_count = (uint32_t)count,
		.min_room = ep->min_multi_recv,
		.context = context,
	};
	int rc = sn_ofi_source(ep, from, &m.peer);

	return sn_unlikely(rc) ? rc : sn_ofi_result(sn_post_mrecv(ep->sn, &m, NULL));
}

static inline ssize_t post_send(struct sn_ofi_ep *ep, const struct iovec *iov, size_t count, fi_addr_t to,
				uint32_t flags, uint64_t data, void *context)
{
	sn_msg m = {
		.flags = flags,
		.iov = iov,
		.iov_count = (uint32_t)count,
		.data = data,
		.context = context,
	};
	int rc = sn_ofi_peer(ep, to, &m.peer);

	sn_ofi_lesson_spoil();
	return sn_unlikely(rc) ? rc : sn_ofi_result(sn_post_msend(ep->sn, &m, NULL));
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from, void *context)
{
	struct iovec v = {buf, len};

	return post_recv(ep_of(fid), &v, 1, from, ep_of(fid)->rx_plain_flags, context);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t from, void *context)
{
	if (count > SN_OFI_IOV)
		return -FI_EINVAL;
	return post_recv(ep_of(fid), iov, count, from, ep_of(fid)->rx_plain_flags, context);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	uint32_t sn_flags;

	if (!sn_ofi_rx_flags(ep_of(fid), flags, &sn_flags))
		return -FI_EBADFLAGS;
	if (msg->iov_count > SN_OFI_IOV)
		return -FI_EINVAL;
	return post_recv(ep_of(fid), msg->msg_iov, msg->iov_count, msg->addr, sn_flags, msg->context);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to,
			void *context)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};

	return post_send(ep_of(fid), &v, 1, to, ep_of(fid)->tx_flags, 0, context);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
			 void *context)
{
	if (count > SN_OFI_IOV)
		return -FI_EINVAL;
	return post_send(ep_of(fid), iov, count, to, ep_of(fid)->tx_flags, 0, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	uint32_t sn_flags;

	if (!sn_ofi_tx_flags(ep_of(fid), flags, &sn_flags))
		return -FI_EBADFLAGS;
	if (msg->iov_count > SN_OFI_IOV)
		return -FI_EINVAL;
	return post_send(ep_of(fid), msg->msg_iov, msg->iov_count, msg->addr, sn_flags, msg->data,
			 msg->context);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};

	return post_send(ep_of(fid), &v, 1, to, SN_INJECT | SN_FORGET, 0, NULL);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
			    fi_addr_t to, void *context)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};

	return post_send(ep_of(fid), &v, 1, to, ep_of(fid)->tx_flags | SN_DATA, data, context);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t to)
{
	struct iovec v = {(void *)(uintptr_t)buf, len};

	return post_send(ep_of(fid), &v, 1, to, SN_INJECT | SN_FORGET | SN_DATA, data, NULL);
}

struct fi_ops_msg sn_ofi_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};
