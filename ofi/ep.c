/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: life, bindings, options, cancel. The engine's endpoint lives exactly as long as libfabric's. */
#include "ofi.h"

#include <stdlib.h>

#define CANCEL_WAIT_MS 30000 /* longest wait of a cancel for a message that is on its way */

/* ---- flags ---- */

#define TX_CALL_FLAGS                                                                                        \
	(FI_COMPLETION | FI_INJECT | FI_REMOTE_CQ_DATA | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |         \
	 FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_MORE | FI_FENCE | (1ull << 22) /* FI_PRIORITY */)
#define RX_CALL_FLAGS                                                                                        \
	(FI_COMPLETION | FI_MULTI_RECV | FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |               \
	 FI_DELIVERY_COMPLETE)

/*
 * Puts, gets and atomics complete with FI_DELIVERY_COMPLETE whether asked or not, and the engine orders those to one peer,
 * so that a fence is always there.
 */
bool sn_ofi_tx_flags(const struct sn_ofi_ep *ep, uint64_t flags, uint32_t *sn_flags)
{
	*sn_flags = ep->tx_selective && !(flags & FI_COMPLETION) ? SN_FORGET : 0;
	if (flags & FI_INJECT)
		*sn_flags |= SN_INJECT;
	if (flags & FI_REMOTE_CQ_DATA)
		*sn_flags |= SN_DATA;
	if (flags & FI_DELIVERY_COMPLETE)
		*sn_flags |= SN_DELIVERED;
	if (flags & FI_MATCH_COMPLETE)
		*sn_flags |= SN_SYNC;
	return !(flags & ~TX_CALL_FLAGS);
}

bool sn_ofi_rx_flags(const struct sn_ofi_ep *ep, uint64_t flags, uint32_t *sn_flags)
{
	*sn_flags = ep->rx_selective && !(flags & FI_COMPLETION) ? SN_FORGET : 0;
	if (flags & FI_MULTI_RECV)
		*sn_flags |= SN_MULTI;
	return !(flags & ~RX_CALL_FLAGS);
}

/* What calls without flags of their own do, from the endpoint's default flags. */
static void ep_defaults(struct sn_ofi_ep *ep)
{
	sn_ofi_tx_flags(ep, ep->tx_op_flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA | ep->not_meant),
			&ep->tx_flags);
	sn_ofi_rx_flags(ep, ep->rx_op_flags, &ep->rx_plain_flags);
	ep->rx_flags = ep->rx_plain_flags & ~(uint32_t)SN_MULTI;
}

/* ---- closing and binding ---- */

static int ep_close(struct fid *fid)
{
	struct sn_ofi_ep *ep = sn_container(fid, struct sn_ofi_ep, fid.fid);
	struct sn_ofi_cq *cqs[2] = {ep->tx_cq, ep->rx_cq};

	sn_ofi_quick_close(ep);
	for (int i = 0; i < 2; i++)
		if (cqs[i])
			sn_ofi_set_remove(&cqs[i]->set, ep->sn);
	sn_lock(&ep->domain->lock); /* counters of registrations move this endpoint too */
	sn_list_for_each (pos, &ep->domain->cntrs)
		sn_ofi_set_remove(&sn_container(pos, struct sn_ofi_cntr, in_domain)->set, ep->sn);
	sn_unlock(&ep->domain->lock);
	sn_ofi_mr_drop_all(ep);
	sn_ofi_start_over(NULL);
	sn_ep_close(ep->sn);
	for (int i = 0; i < 2; i++)
		if (cqs[i])
			sn_ofi_cq_forget_ep(cqs[i], ep); /* drops the reference too */
	for (int i = 0; i < SN_OFI_CNTR_KINDS; i++)
		if (ep->cntr[i])
			atomic_fetch_sub(&ep->cntr[i]->refs, 1);
	sn_ofi_av_detach(ep);
	sn_ofi_peers_free(ep);
	sn_ofi_domain_put(ep->domain);
	free(ep);
	return 0;
}

static int bind_cq(struct sn_ofi_ep *ep, struct sn_ofi_cq *cq, uint64_t flags)
{
	int rc;

	if (!(flags & (FI_TRANSMIT | FI_RECV)) || flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
		return -FI_EBADFLAGS;
	if ((flags & FI_TRANSMIT && ep->tx_cq) || (flags & FI_RECV && ep->rx_cq))
		return -FI_EINVAL;
	rc = sn_ofi_set_add(&cq->set, ep->sn);
	if (rc)
		return rc;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->refs, 1);
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->refs, 1);
	}
	ep_defaults(ep);
	return 0;
}

static int bind_cntr(struct sn_ofi_ep *ep, struct sn_ofi_cntr *cntr, uint64_t flags)
{
	static const uint64_t kinds[SN_OFI_CNTR_KINDS] = {
		[SN_OFI_SEND] = FI_SEND,
		[SN_OFI_RECV] = FI_RECV,
		[SN_OFI_READ] = FI_READ,
		[SN_OFI_WRITE] = FI_WRITE,
		[SN_OFI_REMOTE_READ] = FI_REMOTE_READ,
		[SN_OFI_REMOTE_WRITE] = FI_REMOTE_WRITE,
	};
	uint64_t known = 0;
	int rc;

	for (int i = 0; i < SN_OFI_CNTR_KINDS; i++) {
		known |= kinds[i];
		if (flags & kinds[i] && ep->cntr[i])
			return -FI_EINVAL;
	}
	if (flags & ~known)
		return -FI_EBADFLAGS;
	if (!flags) /* nothing to count: libfabric's own tests bind so */
		return 0;
	rc = sn_ofi_set_add(&cntr->set, ep->sn);
	if (rc)
		return rc;
	for (int i = 0; i < SN_OFI_CNTR_KINDS; i++) {
		if (!(flags & kinds[i]))
			continue;
		ep->cntr[i] = cntr;
		atomic_fetch_add(&cntr->refs, 1);
	}
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct sn_ofi_ep *ep = sn_container(fid, struct sn_ofi_ep, fid.fid);

	if (ep->enabled)
		return -FI_EOPBADSTATE;
	switch (other->fclass) {
	case FI_CLASS_AV: {
		struct sn_ofi_av *av = sn_container(other, struct sn_ofi_av, fid.fid);
		if (ep->av || av->domain != ep->domain)
			return -FI_EINVAL;
		sn_ofi_av_attach(av, ep);
		return 0;
	}
	case FI_CLASS_CQ: return bind_cq(ep, sn_container(other, struct sn_ofi_cq, fid.fid), flags);
	case FI_CLASS_CNTR: return bind_cntr(ep, sn_container(other, struct sn_ofi_cntr, fid.fid), flags);
	case FI_CLASS_EQ: return 0; /* a reliable datagram endpoint has no events of its own */
	default: return -FI_EINVAL;
	}
}

static int ep_enable(struct sn_ofi_ep *ep)
{
	bool tx_counted = ep->cntr[SN_OFI_SEND] || ep->cntr[SN_OFI_WRITE] || ep->cntr[SN_OFI_READ];

	if (!ep->av)
		return -FI_ENOAV;
	if ((!ep->tx_cq && !tx_counted && ep->caps & (FI_SEND | FI_WRITE | FI_READ)) ||
	    (!ep->rx_cq && !ep->cntr[SN_OFI_RECV] && ep->caps & FI_RECV))
		return -FI_ENOCQ;
	sn_ep_quiet(ep->sn, !ep->cntr[SN_OFI_SEND]);
	sn_ep_patient(ep->sn, true);
	if (ep->rx_cq && !ep->cntr[SN_OFI_RECV] && ep->rx_cq->entry_size == sizeof(struct fi_cq_tagged_entry))
		ep->gives = ep->rx_cq;
	ep->enabled = true;
	sn_ofi_quick_open(ep);
	sn_ofi_start_waits(ep->sn);
	return 0;
}

static int ep_op_flags(struct sn_ofi_ep *ep, uint64_t *flags, bool set)
{
	bool tx = *flags & FI_TRANSMIT;
	uint64_t *mine = tx ? &ep->tx_op_flags : &ep->rx_op_flags;

	if (tx == !!(*flags & FI_RECV)) /* exactly one direction must be named */
		return -FI_EINVAL;
	if (!set) {
		*flags = *mine;
		return 0;
	}
	if (*flags & ~((tx ? TX_CALL_FLAGS : RX_CALL_FLAGS) | FI_TRANSMIT | FI_RECV))
		return -FI_EBADFLAGS;
	*mine = *flags & ~(FI_TRANSMIT | FI_RECV);
	ep_defaults(ep);
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct sn_ofi_ep *ep = sn_container(fid, struct sn_ofi_ep, fid.fid);

	switch (command) {
	case FI_ENABLE: return ep_enable(ep);
	case FI_GETOPSFLAG: return ep_op_flags(ep, arg, false);
	case FI_SETOPSFLAG: return ep_op_flags(ep, arg, true);
	default: return -FI_ENOSYS;
	}
}

/* ---- options ---- */

enum { /* option numbers of libfabric 2 that 1.17's headers do not have yet */
       OPT_MAX_MSG_SIZE = 12,
       OPT_MAX_TAGGED_SIZE,
       OPT_MAX_RMA_SIZE,
       OPT_MAX_ATOMIC_SIZE,
       OPT_INJECT_MSG_SIZE,
       OPT_INJECT_TAGGED_SIZE,
       OPT_INJECT_RMA_SIZE,
       OPT_INJECT_ATOMIC_SIZE,
};

static int ep_getopt(struct fid *fid, int level, int name, void *value, size_t *len)
{
	struct sn_ofi_ep *ep = sn_container(fid, struct sn_ofi_ep, fid.fid);
	size_t v;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	switch (name) {
	case FI_OPT_MIN_MULTI_RECV: v = ep->min_multi_recv; break;
	case FI_OPT_CM_DATA_SIZE: v = 0; break;
	case OPT_MAX_MSG_SIZE:
	case OPT_MAX_TAGGED_SIZE:
	case OPT_MAX_RMA_SIZE: v = SN_OFI_MSG_MAX; break;
	case OPT_MAX_ATOMIC_SIZE:
	case OPT_INJECT_ATOMIC_SIZE: v = SN_ATOMIC_MAX; break;
	case OPT_INJECT_MSG_SIZE:
	case OPT_INJECT_TAGGED_SIZE:
	case OPT_INJECT_RMA_SIZE: v = SN_INJECT_MAX; break;
	default: return -FI_ENOPROTOOPT;
	}
	if (*len < sizeof(v))
		return -FI_ETOOSMALL;
	memcpy(value, &v, sizeof(v));
	*len = sizeof(v);
	return 0;
}

static int ep_setopt(struct fid *fid, int level, int name, const void *value, size_t len)
{
	struct sn_ofi_ep *ep = sn_container(fid, struct sn_ofi_ep, fid.fid);
	size_t v;

	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (len != sizeof(v))
		return -FI_EINVAL;
	memcpy(&v, value, sizeof(v));
	ep->min_multi_recv = v;
	return 0;
}

/*
 * Cancel a receive, and let the next read of its queue say, by one entry, how that ended.
 *
 * MPICH (every version up to 5.0, and what descends from it) does not look at what this call returns. It cancels a receive
 * from any source, reads the queue once, and from then on holds the receive for cancelled if that read did not say
 * otherwise (ch4_recv.h, MPIDI_cancel_recv_unsafe): a message that was already matched, and would land later, is lost, or
 * lands in a buffer that is no longer the program's, and its completion finds a request that has become another one
 * (the assertion "ctr_ >= 1"). So a receive that can no longer be taken back is completed here, and its entry goes to the
 * head of the queue. It comes alone because MPICH drops a reference too many just after that read, harmless as long as
 * no other entry of the same read has made it use the request again.
 *
 * The wait ends with the peer's next steps, or its death. It is bounded for the thread that would have to take these
 * steps itself, on another endpoint.
 */
static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct sn_ofi_ep *ep = sn_container(fid, struct sn_ofi_ep, fid.fid);
	uint64_t end = sn_ofi_deadline(CANCEL_WAIT_MS);
	int rc;

	while ((rc = sn_cancel_context(ep->sn, context)) == SN_ERR_AGAIN && ep->rx_cq && sn_now_ns() < end)
		if (!sn_ofi_set_progress(&ep->rx_cq->set))
			sn_ofi_set_relax(&ep->rx_cq->set, end, 0);
	if (ep->rx_cq)
		sn_ofi_cq_first(ep->rx_cq, context);
	return rc == SN_ERR_AGAIN || rc == SN_ERR_INVALID ? -FI_ENOENT : sn_ofi_result(rc);
}

static int ep_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
			void *context)
{
	return -FI_ENOSYS;
}

static int ep_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
			void *context)
{
	return -FI_ENOSYS;
}

static ssize_t ep_size_left(struct fid_ep *ep)
{
	return SN_OFI_QUEUE; /* requests come from a pool that grows */
}

static int cm_setname(fid_t fid, void *addr, size_t addrlen)
{
	return -FI_ENOSYS;
}

/* Always the full length: applications put addresses side by side and insert them by the array. */
static int cm_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct sn_ofi_ep *ep = sn_container(fid, struct sn_ofi_ep, fid.fid);
	uint8_t whole[SN_ADDR_MAX] = {0};
	size_t len = sizeof(whole), room = *addrlen;
	int rc = sn_ep_address(ep->sn, whole, &len);

	if (rc)
		return -sn_ofi_error(rc);
	*addrlen = SN_ADDR_MAX;
	if (addr)
		memcpy(addr, whole, SN_MIN_OF(room, sizeof(whole)));
	return addr && room >= SN_ADDR_MAX ? 0 : -FI_ETOOSMALL;
}

static int cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return -FI_ENOSYS;
}

static int cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

static int cm_listen(struct fid_pep *pep)
{
	return -FI_ENOSYS;
}

static int cm_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

static int cm_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

static int cm_shutdown(struct fid_ep *ep, uint64_t flags)
{
	return -FI_ENOSYS;
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = cm_setname,
	.getname = cm_getname,
	.getpeer = cm_getpeer,
	.connect = cm_connect,
	.listen = cm_listen,
	.accept = cm_accept,
	.reject = cm_reject,
	.shutdown = cm_shutdown,
};

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
	.setopt = ep_setopt,
	.tx_ctx = ep_no_tx_ctx,
	.rx_ctx = ep_no_rx_ctx,
	.rx_size_left = ep_size_left,
	.tx_size_left = ep_size_left,
};

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = sn_ofi_no_ops_open,
};

/* ---- opening ---- */

static int ep_check(const struct fi_info *info)
{
	const struct fi_ep_attr *a = info->ep_attr;

	if (!a || (a->type != FI_EP_RDM && a->type != FI_EP_UNSPEC) || a->tx_ctx_cnt > 1 || a->rx_ctx_cnt > 1)
		return -FI_EINVAL;
	return info->caps & ~sn_ofi_caps() ? -FI_EINVAL : 0;
}

/*
 * MPICH, and with it Intel MPI, makes FI_DELIVERY_COMPLETE the default of its endpoint for its one-sided calls' sake, which
 * have it here anyhow. Over the network each MPI_Send of more than is injected would take a round trip by it, while MPI
 * asks of a send that its buffer be free; a synchronous one has an answer of MPICH's own (8 KiB to and fro over UDP 23.6
 * -> 14.0 us, windows of it 1.3 times as fast).
 */
static uint64_t not_meant(const void *caller)
{
	return sn_ofi_code_of(caller, "MPIR_Err_return_win") ? FI_DELIVERY_COMPLETE : 0;
}

int sn_ofi_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct sn_ofi_domain *domain = sn_container(fid, struct sn_ofi_domain, fid);
	sn_ep_attr attr = {
		.threads = domain->serial ? SN_THREAD_SERIAL : SN_THREAD_MULTIPLE,
		.on_complete = sn_ofi_on_complete,
		.on_target = sn_ofi_on_target,
	};
	struct sn_ofi_peers *none;
	struct sn_ofi_ep *ep;
	int rc = ep_check(info);

	if (rc)
		return rc;
	ep = calloc(1, sizeof(*ep));
	none = calloc(1, sizeof(*none));
	if (!ep || !none) {
		rc = -FI_ENOMEM;
		goto fail;
	}
	attr.arg = ep;
	rc = -sn_ofi_error(sn_ep_open(&attr, &ep->sn));
	if (rc)
		goto fail;
	atomic_init(&ep->peers, none);
	ep->fid.fid = (struct fid){.fclass = FI_CLASS_EP, .context = context, .ops = &ep_fid_ops};
	ep->fid.ops = &ep_ops;
	ep->fid.cm = &cm_ops;
	ep->fid.msg = &sn_ofi_msg_ops;
	ep->fid.rma = &sn_ofi_rma_ops;
	ep->fid.tagged = &sn_ofi_tagged_ops;
	ep->fid.atomic = &sn_ofi_atomic_ops;
	ep->domain = domain;
	ep->caps = info->caps;
	ep->directed = ((info->rx_attr ? info->rx_attr->caps : 0) | info->caps) & FI_DIRECTED_RECV;
	ep->tx_op_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->rx_op_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	ep->min_multi_recv = SN_OFI_MULTI_ROOM;
	ep->not_meant = not_meant(__builtin_return_address(0));
	ep_defaults(ep);
	sn_list_init(&ep->regions);
	sn_list_init(&ep->in_domain);
	rc = sn_ofi_mr_add_all(ep);
	if (rc) {
		sn_ep_close(ep->sn);
		goto fail;
	}
	atomic_fetch_add(&domain->refs, 1);
	*out = &ep->fid;
	return 0;
fail:
	free(none);
	free(ep);
	return rc;
}
