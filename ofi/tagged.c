/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tagged messages. libfabric's `ignore` is the complement of the engine's mask, and bits outside the mask are no error
 * here: they are cleared.
 */
#include "ofi.h"

static inline struct sn_ofi_ep *ep_of(struct fid_ep *fid)
{
	return sn_container(fid, struct sn_ofi_ep, fid);
}

static inline ssize_t post_recv(struct sn_ofi_ep *ep, const struct iovec *iov, size_t count, fi_addr_t from,
				uint64_t tag, uint64_t ignore, uint32_t flags, void *context)
{
	sn_msg m = {
		.flags = flags,
		.iov = iov,
		.iov_count = (uint32_t)count,
		.bits = tag & ~ignore,
		.mask = ~ignore,
		.context = context,
	};
	int rc = sn_ofi_source(ep, from, &m.peer);

	sn_ofi_lesson_spoil();

	return sn_unlikely(rc) ? rc : sn_ofi_result(sn_post_recv(ep->sn, &m, NULL));
}

/* In one piece, by the shortest way. flags: SN_ flags that the endpoint has for all sends, and SN_DATA. */
static inline ssize_t send_one(struct sn_ofi_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t tag,
			       uint32_t flags, uint64_t data, void *context)
{
	sn_peer peer;
	int rc = sn_ofi_peer(ep, to, &peer);

	if (sn_unlikely(rc))
		return rc;
	if (sn_unlikely(sn_ofi_taught()))
		sn_ofi_lesson_send(ep, peer, buf, len, tag, data, flags);
	rc = sn_tsend(ep->sn, peer, buf, len, tag, data, flags, context);
	if (sn_unlikely(rc != 1))
		return sn_ofi_result(rc);
	sn_ofi_sent(ep, flags, peer, tag, len, context);
	return 0;
}

static inline ssize_t post_send(struct sn_ofi_ep *ep, const struct iovec *iov, size_t count, fi_addr_t to,
				uint64_t tag, uint32_t flags, uint64_t data, void *context)
{
	sn_msg m = {
		.flags = flags,
		.iov = iov,
		.iov_count = (uint32_t)count,
		.bits = tag,
		.data = data,
		.context = context,
	};
	int rc = sn_ofi_peer(ep, to, &m.peer);

	sn_ofi_lesson_spoil();

	return sn_unlikely(rc) ? rc : sn_ofi_result(sn_post_send(ep->sn, &m, NULL));
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from,
			   uint64_t tag, uint64_t ignore, void *context)
{
	struct sn_ofi_ep *ep = ep_of(fid);
	struct iovec v = {buf, len};
	sn_peer peer;

	if (sn_unlikely(ep->rx_flags))
		return post_recv(ep, &v, 1, from, tag, ignore, ep->rx_flags, context);
	int rc = sn_ofi_source(ep, from, &peer);
	if (sn_unlikely(rc))
		return rc;
	if (sn_unlikely(atomic_load_explicit(&sn_ofi_ahead, memory_order_relaxed) != NULL) &&
	    sn_ofi_takes(ep, peer, buf, len, tag & ~ignore, ~ignore, context))
		return 0;
	if (sn_unlikely(sn_ofi_taught()))
		sn_ofi_lesson_recv(ep, peer, buf, len, tag & ~ignore, ~ignore, context);
	return sn_ofi_result(sn_trecv(ep->sn, peer, buf, len, tag & ~ignore, ~ignore, context));
}

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
	if (count > SN_OFI_IOV)
		return -FI_EINVAL;
	return post_recv(ep_of(fid), iov, count, from, tag, ignore, ep_of(fid)->rx_flags, context);
}

/* ---- peek, claim, discard ---- */

static ssize_t report(struct sn_ofi_ep *ep, const struct fi_msg_tagged *msg, const sn_completion *c, int err)
{
	struct sn_ofi_event e = {
		.e = {.op_context = msg->context, .flags = FI_TAGGED | FI_RECV, .tag = msg->tag},
		.ep = ep,
		.peer = SN_ANY_PEER,
		.err = (uint16_t)err,
	};

	if (!err && c) {
		e.e.tag = c->bits;
		e.e.len = c->full_len;
		e.peer = c->peer;
		if (c->flags & SN_COMP_DATA) {
			e.e.flags |= FI_REMOTE_CQ_DATA;
			e.e.data = c->data;
		}
	}
	if (!ep->rx_cq)
		return -FI_ENOCQ;
	sn_ofi_cq_push(ep->rx_cq, &e);
	return 0;
}

/* What is claimed stands in the application's context until it is received: the claim, its tag, length and sender. */
static void remember(struct fi_context *context, sn_claim *claim, const sn_completion *c)
{
	context->internal[0] = claim;
	context->internal[1] = (void *)(uintptr_t)(c->flags & SN_COMP_DATA ? c->bits : 0);
	context->internal[2] = (void *)(uintptr_t)c->full_len;
	context->internal[3] = (void *)(uintptr_t)c->peer;
}

static bool fits(const struct fi_context *context, const struct iovec *iov, size_t count)
{
	size_t room = 0;

	for (size_t i = 0; i < count; i++)
		room += iov[i].iov_len;
	return (uintptr_t)context->internal[2] <= room;
}

#define PEEKS 8 /* for one message, at most */

int sn_ofi_find(struct sn_ofi_ep *ep, sn_peer from, uint64_t bits, uint64_t mask, sn_completion *c,
		sn_claim **claim)
{
	unsigned looks = PEEKS;
	int rc;

	do {
		rc = claim ? sn_mprobe(ep->sn, 0, from, bits, mask, c, claim)
			   : sn_probe(ep->sn, 0, from, bits, mask, c);
		/* MPI_Iprobe may ask for what a rank might have sent that has left MPI_Finalize; MPIs end at any other answer */
		if (sn_unlikely(rc == SN_ERR_PEER_GONE) && from != SN_ANY_PEER && sn_peer_left(ep->sn, from))
			rc = SN_ERR_AGAIN;
		/*
		 * MPI_Probe asks again and again, and reads a queue that says no, which takes as long as a message is
		 * on its way. So what comes meanwhile is looked at here: of a flood the next look has the rest. But
		 * nobody waits beside what lies in the queue: the MPI has asked for it, and may have to answer.
		 */
	} while (rc == SN_ERR_AGAIN && ep->rx_cq && looks-- && !ep->rx_cq->set.filled(&ep->rx_cq->set) &&
		 sn_ofi_set_wait(&ep->rx_cq->set, sn_ofi_cq_mark(ep->rx_cq)));
	return rc;
}

/* Nothing found is an error in the queue, not of the call: that is what libfabric's users expect. */
static ssize_t peek(struct sn_ofi_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	uint64_t mask = ~msg->ignore, bits = msg->tag & mask;
	sn_claim *claim = NULL;
	sn_completion c;
	sn_peer from;
	int rc = sn_ofi_source(ep, msg->addr, &from);

	if (rc)
		return rc;
	if (!(flags & FI_CLAIM) || !sn_ofi_takes_message(ep, &c, &claim))
		rc = sn_ofi_find(ep, from, bits, mask, &c, flags & (FI_CLAIM | FI_DISCARD) ? &claim : NULL);
	if (sn_unlikely(sn_ofi_taught()) && !(flags & (FI_CLAIM | FI_DISCARD)) && (!rc || rc == SN_ERR_AGAIN))
		sn_ofi_lesson_probe(ep, from, bits, mask, rc ? NULL : &c);
	if (rc)
		return report(ep, msg, NULL, rc == SN_ERR_AGAIN ? FI_ENOMSG : sn_ofi_error(rc));
	if (flags & FI_DISCARD)
		sn_discard(ep->sn, claim);
	else if (flags & FI_CLAIM) /* an application that claims must bring a struct fi_context */
		remember(msg->context, claim, &c);
	if (flags & FI_CLAIM && sn_unlikely(sn_ofi_taught()))
		sn_ofi_lesson_probe(ep, from, bits, mask, &c);
	return report(ep, msg, &c, 0);
}

static ssize_t claimed(struct sn_ofi_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags,
		       uint32_t sn_flags, const void *reader)
{
	struct fi_context *context = msg->context;
	sn_claim *claim = context->internal[0];
	sn_msg m = {
		.flags = sn_flags,
		.peer = SN_ANY_PEER,
		.iov = msg->msg_iov,
		.iov_count = (uint32_t)msg->iov_count,
		.context = context,
	};

	if (!claim)
		return -FI_EINVAL;
	context->internal[0] = NULL;
	if (flags & FI_DISCARD) {
		sn_completion c = {.peer = SN_ANY_PEER, .bits = msg->tag};
		ssize_t rc = sn_ofi_result(sn_discard(ep->sn, claim));
		return rc ? rc : report(ep, msg, &c, 0);
	}
	sn_peer peer = (sn_peer)(uintptr_t)context->internal[3];
	uint64_t tag = (uintptr_t)context->internal[1];
	bool whole = fits(context, msg->msg_iov, msg->iov_count);
	ssize_t rc =
		sn_ofi_result(sn_mrecv(ep->sn, claim, &m, NULL)); /* after which the context may be gone */
	if (!rc && whole)
		sn_ofi_answer_claimed(ep, peer, tag, reader);
	return rc;
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	const uint64_t matched = FI_PEEK | FI_CLAIM | FI_DISCARD;
	struct sn_ofi_ep *ep = ep_of(fid);
	uint32_t sn_flags;

	if (!sn_ofi_rx_flags(ep, flags & ~matched, &sn_flags) || sn_flags & SN_MULTI)
		return -FI_EBADFLAGS;
	if (msg->iov_count > SN_OFI_IOV)
		return -FI_EINVAL;
	if (sn_likely(!(flags & matched)))
		return post_recv(ep, msg->msg_iov, msg->iov_count, msg->addr, msg->tag, msg->ignore, sn_flags,
				 msg->context);
	if ((flags & matched) == FI_DISCARD || (flags & FI_CLAIM && !msg->context))
		return -FI_EINVAL;
	return flags & FI_PEEK ? peek(ep, msg, flags)
			       : claimed(ep, msg, flags, sn_flags, __builtin_return_address(0));
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to,
			   uint64_t tag, void *context)
{
	return send_one(ep_of(fid), buf, len, to, tag, ep_of(fid)->tx_flags, 0, context);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t to, uint64_t tag, void *context)
{
	if (count > SN_OFI_IOV)
		return -FI_EINVAL;
	return post_send(ep_of(fid), iov, count, to, tag, ep_of(fid)->tx_flags, 0, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	uint32_t sn_flags;

	if (!sn_ofi_tx_flags(ep_of(fid), flags, &sn_flags))
		return -FI_EBADFLAGS;
	if (msg->iov_count > SN_OFI_IOV)
		return -FI_EINVAL;
	return post_send(ep_of(fid), msg->msg_iov, msg->iov_count, msg->addr, msg->tag, sn_flags, msg->data,
			 msg->context);
}

static inline ssize_t inject(struct sn_ofi_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to,
			     uint64_t tag, uint32_t flags)
{
	sn_peer peer;
	int rc = sn_ofi_peer(ep, to, &peer);

	if (sn_unlikely(sn_ofi_taught()))
		sn_ofi_lesson_send(ep, peer, buf, len, tag, data, flags);
	if (sn_likely(!rc)) {
		rc = (int)sn_ofi_result(sn_inject(ep->sn, peer, buf, len, tag, data, flags));
		if (sn_unlikely(rc))
			sn_ofi_after_the_launcher(-rc);
	}
	return rc;
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to, uint64_t tag)
{
	return inject(ep_of(fid), buf, len, 0, to, tag, 0);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
			       fi_addr_t to, uint64_t tag, void *context)
{
	return send_one(ep_of(fid), buf, len, to, tag, ep_of(fid)->tx_flags | SN_DATA, data, context);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t to,
				 uint64_t tag)
{
	return inject(ep_of(fid), buf, len, data, to, tag, SN_DATA);
}

struct fi_ops_tagged sn_ofi_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};
