/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fi_getinfo: what is offered, and whether that answers the hints.
 *
 * Attributes that the hints may choose freely (threading, address vector type, progress of control operations, the tag
 * format, sizes below the limits) are echoed: MPICH takes anything else for a refusal. Endpoint types other than
 * reliable datagrams get FI_ENODATA, or libfabric's rxm and rxd would be layered on top.
 *
 * The structures grow from release to release, and the host's fi_dupinfo copies its own, longer, idea of them: they
 * are allocated zeroed and with room to spare, with plain calloc because the host's fi_freeinfo frees them.
 */
#include "ofi.h"

#include <netdb.h>
#include <stdlib.h>

#define ROOM 256 /* bytes by which each attribute may grow in releases to come */

#define TX_CAPS (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE)
#define RX_CAPS                                                                                              \
	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE |              \
	 FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_RMA_EVENT)
#define DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define ALL_CAPS    (TX_CAPS | RX_CAPS | DOMAIN_CAPS)
/* Capabilities that cost nothing and are given unasked; FI_DIRECTED_RECV is not one, it changes what a receive means. */
#define FREE_CAPS (FI_MULTI_RECV | FI_SOURCE | DOMAIN_CAPS)
#define MSG_WAYS  (FI_SEND | FI_RECV)
#define RMA_WAYS  (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

#define TX_OP_FLAGS                                                                                          \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |      \
	 FI_MATCH_COMPLETE)
#define RX_OP_FLAGS                                                                                          \
	(FI_COMPLETION | FI_MULTI_RECV | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)

/* Messages between two endpoints stay in order, and so do one-sided operations and atomics among themselves. */
#define ORDER                                                                                                \
	(FI_ORDER_SAS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_RMA_RAR |       \
	 FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR |                      \
	 FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)

#define MR_MODES	 (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define PROGRESS_UNIFIED 3 /* FI_PROGRESS_CONTROL_UNIFIED of libfabric 2 */

uint64_t sn_ofi_caps(void)
{
	return ALL_CAPS;
}

/* The source address of every answer: an endpoint gets its own when it opens, so none can be asked for. Also stands for a
 * destination of which only the host is known. */
static const uint8_t unassigned[SN_ADDR_MAX] = {'S', 'N'};

/* ---- do the hints ask for something that is not offered? ---- */

static bool tx_ok(const struct fi_tx_attr *h)
{
	return !(h->caps & ~ALL_CAPS) && !(h->op_flags & ~TX_OP_FLAGS) && !(h->msg_order & ~ORDER) &&
	       !h->comp_order && h->inject_size <= SN_INJECT_MAX && h->iov_limit <= SN_OFI_IOV &&
	       h->rma_iov_limit <= 1;
}

static bool rx_ok(const struct fi_rx_attr *h)
{
	return !(h->caps & ~ALL_CAPS) && !(h->op_flags & ~RX_OP_FLAGS) && !(h->msg_order & ~ORDER) &&
	       !h->comp_order && h->iov_limit <= SN_OFI_IOV;
}

static bool ep_ok(const struct fi_ep_attr *h)
{
	if (h->type != FI_EP_UNSPEC && h->type != FI_EP_RDM)
		return false;
	return h->protocol == FI_PROTO_UNSPEC && h->max_msg_size <= SN_OFI_MSG_MAX && !h->msg_prefix_size &&
	       h->tx_ctx_cnt <= 1 && h->rx_ctx_cnt <= 1 && !h->auth_key_size;
}

static bool mr_mode_ok(uint32_t version, int mode)
{
	if (version < FI_VERSION(1, 5))
		return !mode || mode == SN_OFI_MR_BASIC || mode == SN_OFI_MR_SCALABLE;
	if (mode & (SN_OFI_MR_BASIC | SN_OFI_MR_SCALABLE))
		return mode == SN_OFI_MR_BASIC || mode == SN_OFI_MR_SCALABLE;
	return true; /* the modes the application can live with; none is needed */
}

static bool domain_ok(uint32_t version, const struct fi_domain_attr *h)
{
	if (h->name && strcmp(h->name, SN_OFI_NAME))
		return false;
	if (h->data_progress == FI_PROGRESS_AUTO) /* peers wait for us to read a queue */
		return false;
	return mr_mode_ok(version, h->mr_mode) && h->mr_key_size <= 8 && h->cq_data_size <= 8 &&
	       !(h->caps & ~DOMAIN_CAPS) && h->mr_iov_limit <= 1 && !h->auth_key_size;
}

static bool hints_ok(uint32_t version, const struct fi_info *h)
{
	if (h->caps & ~ALL_CAPS)
		return false;
	if (h->addr_format != FI_FORMAT_UNSPEC && h->addr_format != SN_OFI_ADDR_FORMAT)
		return false;
	if (h->src_addr && (h->src_addrlen != SN_ADDR_MAX || memcmp(h->src_addr, unassigned, SN_ADDR_MAX)))
		return false;
	if (h->fabric_attr && h->fabric_attr->name && strcmp(h->fabric_attr->name, SN_OFI_NAME))
		return false;
	return (!h->ep_attr || ep_ok(h->ep_attr)) && (!h->tx_attr || tx_ok(h->tx_attr)) &&
	       (!h->rx_attr || rx_ok(h->rx_attr)) && (!h->domain_attr || domain_ok(version, h->domain_attr));
}

/* ---- the answer ---- */

/* The share of `offered` that fits what was asked for; asking for no direction means every direction. */
static uint64_t give_caps(uint64_t asked, uint64_t offered)
{
	uint64_t caps = asked ? (asked & offered) | (offered & FREE_CAPS) : offered;

	if (caps & (FI_MSG | FI_TAGGED) && !(asked & MSG_WAYS))
		caps |= offered & MSG_WAYS;
	if (caps & (FI_RMA | FI_ATOMIC) && !(asked & RMA_WAYS))
		caps |= offered & RMA_WAYS;
	return caps;
}

static void give_tx(struct fi_tx_attr *a, const struct fi_tx_attr *h, uint64_t caps)
{
	a->caps = give_caps(h && h->caps ? h->caps : caps, TX_CAPS & caps);
	a->msg_order = ORDER;
	a->inject_size = SN_INJECT_MAX;
	a->size = SN_OFI_QUEUE;
	a->iov_limit = SN_OFI_IOV;
	a->rma_iov_limit = 1;
	if (!h)
		return;
	a->op_flags = h->op_flags;
	a->size = SN_MAX_OF(a->size, h->size);
	a->tclass = h->tclass;
	if (h->msg_order)
		a->msg_order = h->msg_order;
}

static void give_rx(struct fi_rx_attr *a, const struct fi_rx_attr *h, uint64_t caps)
{
	a->caps = give_caps(h && h->caps ? h->caps : caps, RX_CAPS & caps);
	a->msg_order = ORDER;
	a->size = SN_OFI_QUEUE;
	a->iov_limit = SN_OFI_IOV;
	if (!h)
		return;
	a->op_flags = h->op_flags;
	a->total_buffered_recv = h->total_buffered_recv;
	a->size = SN_MAX_OF(a->size, h->size);
	if (h->msg_order)
		a->msg_order = h->msg_order;
}

static void give_ep(struct fi_ep_attr *a, const struct fi_ep_attr *h)
{
	a->type = FI_EP_RDM;
	a->protocol = FI_PROTO_UNSPEC;
	a->protocol_version = 1;
	a->max_msg_size = SN_OFI_MSG_MAX;
	a->max_order_raw_size = a->max_order_war_size = a->max_order_waw_size = SN_OFI_MSG_MAX;
	a->mem_tag_format = h && h->mem_tag_format ? h->mem_tag_format : UINT64_MAX;
	a->tx_ctx_cnt = a->rx_ctx_cnt = 1;
}

static int give_mr_mode(uint32_t version, int asked)
{
	if (asked & (SN_OFI_MR_BASIC | SN_OFI_MR_SCALABLE))
		return asked;
	if (version < FI_VERSION(1, 5))
		return SN_OFI_MR_SCALABLE;
	return asked & MR_MODES;
}

static void give_domain(uint32_t version, struct fi_domain_attr *a, const struct fi_domain_attr *h)
{
	a->threading = h && h->threading ? h->threading : FI_THREAD_SAFE;
	a->control_progress = h && h->control_progress ? h->control_progress : FI_PROGRESS_AUTO;
	a->data_progress =
		h && (int)h->data_progress == PROGRESS_UNIFIED ? h->data_progress : FI_PROGRESS_MANUAL;
	a->resource_mgmt = FI_RM_ENABLED;
	a->av_type = h && h->av_type ? h->av_type : FI_AV_TABLE;
	a->mr_mode = give_mr_mode(version, h ? h->mr_mode : 0);
	a->mr_key_size = 8;
	a->cq_data_size = 8;
	a->cq_cnt = a->ep_cnt = a->tx_ctx_cnt = a->rx_ctx_cnt = a->cntr_cnt = 1024;
	a->max_ep_tx_ctx = a->max_ep_rx_ctx = 1;
	a->mr_iov_limit = 1;
	a->mr_cnt = 65536;
	a->caps = DOMAIN_CAPS;
	a->tclass = h ? h->tclass : 0;
}

static void info_free(struct fi_info *info)
{
	if (!info)
		return;
	free(info->src_addr);
	free(info->dest_addr);
	free(info->tx_attr);
	free(info->rx_attr);
	free(info->ep_attr);
	if (info->domain_attr)
		free(info->domain_attr->name);
	free(info->domain_attr);
	if (info->fabric_attr)
		free(info->fabric_attr->name);
	free(info->fabric_attr);
	free(info);
}

static struct fi_info *info_alloc(void)
{
	struct fi_info *info = calloc(1, sizeof(*info) + ROOM);

	if (!info)
		return NULL;
	info->src_addr = malloc(SN_ADDR_MAX);
	info->tx_attr = calloc(1, sizeof(*info->tx_attr) + ROOM);
	info->rx_attr = calloc(1, sizeof(*info->rx_attr) + ROOM);
	info->ep_attr = calloc(1, sizeof(*info->ep_attr) + ROOM);
	info->domain_attr = calloc(1, sizeof(*info->domain_attr) + ROOM);
	info->fabric_attr = calloc(1, sizeof(*info->fabric_attr) + ROOM);
	if (info->domain_attr)
		info->domain_attr->name = strdup(SN_OFI_NAME);
	if (info->fabric_attr)
		info->fabric_attr->name = strdup(SN_OFI_NAME);
	if (info->src_addr && info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr &&
	    info->domain_attr->name && info->fabric_attr && info->fabric_attr->name)
		return info;
	info_free(info);
	return NULL;
}

/*
 * A node is the text that fi_av_straddr prints, or a host. No endpoint can be told from a host and a service, but
 * programs that exchange addresses themselves ask this way, so a host that exists is answered with the unassigned address.
 */
static int node_address(const char *node, uint64_t flags, uint8_t addr[SN_ADDR_MAX])
{
	struct addrinfo ask = {.ai_flags = flags & FI_NUMERICHOST ? AI_NUMERICHOST : 0}, *found;

	if (sn_ofi_addr_parse(node, addr))
		return 0;
	if (getaddrinfo(node, NULL, &ask, &found))
		return -FI_ENODATA;
	freeaddrinfo(found);
	memcpy(addr, unassigned, SN_ADDR_MAX);
	return 0;
}

static int give_dest(struct fi_info *info, const struct fi_info *h, const char *node, uint64_t flags)
{
	uint8_t addr[SN_ADDR_MAX];

	if (node) {
		int rc = node_address(node, flags, addr);
		if (rc)
			return rc;
	} else if (h && h->dest_addr) {
		if (h->dest_addrlen != SN_ADDR_MAX)
			return -FI_ENODATA;
		memcpy(addr, h->dest_addr, SN_ADDR_MAX);
	} else {
		return 0;
	}
	info->dest_addr = malloc(SN_ADDR_MAX);
	if (!info->dest_addr)
		return -FI_ENOMEM;
	memcpy(info->dest_addr, addr, SN_ADDR_MAX);
	info->dest_addrlen = SN_ADDR_MAX;
	return 0;
}

int sn_ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **out)
{
	struct fi_info *info;
	int rc;

	if (hints && !hints_ok(version, hints))
		return -FI_ENODATA;
	info = info_alloc();
	if (!info)
		return -FI_ENOMEM;
	/* With FI_SOURCE the node names a local interface: an endpoint listens on all of them. */
	rc = give_dest(info, hints, flags & FI_SOURCE ? NULL : node, flags);
	if (rc) {
		info_free(info);
		return rc;
	}
	info->caps = give_caps(hints ? hints->caps : 0, ALL_CAPS);
	info->addr_format = SN_OFI_ADDR_FORMAT;
	memcpy(info->src_addr, unassigned, SN_ADDR_MAX);
	info->src_addrlen = SN_ADDR_MAX;
	info->handle = hints ? hints->handle : NULL;
	give_tx(info->tx_attr, hints ? hints->tx_attr : NULL, info->caps);
	give_rx(info->rx_attr, hints ? hints->rx_attr : NULL, info->caps);
	give_ep(info->ep_attr, hints ? hints->ep_attr : NULL);
	give_domain(version, info->domain_attr, hints ? hints->domain_attr : NULL);
	*out = info;
	return 0;
}
