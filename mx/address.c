/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners: the endpoints that one's endpoints have met, and their addresses.
 *
 * A program hands addresses to functions that name no endpoint (mx_get_endpoint_addr_context), so all partners of the process stand
 * in one table, and an address is
 *   stuff[0]   NIC id (48 bits), endpoint number (16)
 *   stuff[1]   place in the table (32), session of the other side (32)
 * A place that has been given to somebody else meanwhile is known by its session. Blocks of the table are never freed, so readers
 * need no lock.
 */
#include "mx.h"
#include <stdlib.h>
#include <string.h>

#define BLOCK  256
#define BLOCKS 1024

#define NIC_MASK   ((UINT64_C(1) << 48) - 1)
#define NOBODY	   UINT32_MAX
#define ID_SHIFT   48
#define HALF_SHIFT 32

struct partner {
	_Atomic(const struct mx_endpoint *) ep; /* whose partner; NULL: the place is free */
	sn_peer peer;
	_Atomic uint32_t session;
	_Atomic bool connected;
	_Atomic(void *) context;
	uint64_t name; /* stuff[0] */
};

static struct partner *_Atomic blocks[BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t used, given_back; /* places that have ever been given out; of these, free ones */

static struct partner *place(uint32_t index)
{
	struct partner *block = index / BLOCK < BLOCKS
					? atomic_load_explicit(&blocks[index / BLOCK], memory_order_acquire)
					: NULL;
	return block ? &block[index % BLOCK] : NULL;
}

static struct partner *partner_at(mx_endpoint_addr_t addr)
{
	struct partner *p = place((uint32_t)addr.stuff[1]);
	return p && atomic_load_explicit(&p->ep, memory_order_acquire) &&
			       atomic_load_explicit(&p->session, memory_order_relaxed) ==
				       addr.stuff[1] >> HALF_SHIFT
		       ? p
		       : NULL;
}

static mx_endpoint_addr_t address(const struct partner *p, uint32_t index)
{
	return (mx_endpoint_addr_t){
		{p->name,
		 (uint64_t)atomic_load_explicit(&p->session, memory_order_relaxed) << HALF_SHIFT | index}};
}

/* A free place, with the lock held; NOBODY: memory is short. */
static uint32_t take_place(void)
{
	for (uint32_t i = 0; given_back && i < used; i++)
		if (!atomic_load_explicit(&place(i)->ep, memory_order_relaxed)) {
			given_back--;
			return i;
		}
	if (used == BLOCK * BLOCKS)
		return NOBODY;
	if (used % BLOCK == 0) {
		struct partner *block = calloc(BLOCK, sizeof(*block));
		if (!block)
			return NOBODY;
		atomic_store_explicit(&blocks[used / BLOCK], block, memory_order_release);
	}
	return used++;
}

int mx_partner_add(struct mx_endpoint *ep, const void *addr, size_t len, uint64_t nic, uint32_t id,
		   uint32_t session, mx_endpoint_addr_t *out)
{
	sn_peer peer;
	int rc = sn_peer_add(ep->sn, addr, len, &peer);
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	uint64_t cookie = sn_peer_cookie(ep->sn, peer);
	uint32_t index = cookie == UINT64_MAX ? take_place() : (uint32_t)cookie;
	if (index != NOBODY) {
		struct partner *p = place(index);
		if (cookie == UINT64_MAX) {
			p->peer = peer;
			p->name = (nic & NIC_MASK) | (uint64_t)id << ID_SHIFT;
			atomic_store(&p->context, NULL);
			atomic_store(&p->session, session);
			atomic_store_explicit(&p->ep, ep, memory_order_release);
			sn_peer_set_cookie(ep->sn, peer, index);
		}
		atomic_store(&p->connected, true);
		*out = address(p, index);
	}
	pthread_mutex_unlock(&lock);
	return index == NOBODY ? SN_ERR_NOMEM : 0;
}

bool mx_partner_peer(const struct mx_endpoint *ep, mx_endpoint_addr_t addr, sn_peer *peer)
{
	const struct partner *p = partner_at(addr);
	if (sn_unlikely(!p || atomic_load_explicit(&p->ep, memory_order_relaxed) != ep ||
			!atomic_load_explicit(&p->connected, memory_order_relaxed)))
		return false;
	*peer = p->peer;
	return true;
}

mx_endpoint_addr_t mx_partner_of(struct mx_endpoint *ep, sn_peer peer)
{
	uint64_t cookie = sn_peer_cookie(ep->sn, peer);
	const struct partner *p = cookie == UINT64_MAX ? NULL : place((uint32_t)cookie);
	return p ? address(p, (uint32_t)cookie) : (mx_endpoint_addr_t){{0, NOBODY}};
}

void mx_partners_free(const struct mx_endpoint *ep)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < used; i++)
		if (atomic_load_explicit(&place(i)->ep, memory_order_relaxed) == ep) {
			atomic_store(&place(i)->ep, NULL);
			given_back++;
		}
	pthread_mutex_unlock(&lock);
}

bool mx_addr_far(mx_endpoint_addr_t addr)
{
	return (addr.stuff[0] & NIC_MASK) != mx_host_nic();
}

mx_return_t mx_decompose_endpoint_addr2(mx_endpoint_addr_t addr, uint64_t *nic_id, uint32_t *id,
					uint32_t *session)
{
	*nic_id = addr.stuff[0] & NIC_MASK;
	*id = (uint32_t)(addr.stuff[0] >> ID_SHIFT);
	*session = (uint32_t)(addr.stuff[1] >> HALF_SHIFT);
	return MX_SUCCESS;
}

mx_return_t mx_decompose_endpoint_addr(mx_endpoint_addr_t addr, uint64_t *nic_id, uint32_t *id)
{
	uint32_t session;
	return mx_decompose_endpoint_addr2(addr, nic_id, id, &session);
}

mx_return_t mx_set_endpoint_addr_context(mx_endpoint_addr_t addr, void *context)
{
	struct partner *p = partner_at(addr);
	if (!p)
		return mx_fail(NULL, MX_BAD_ENDPOINT, "mx_set_endpoint_addr_context: not an address");
	atomic_store(&p->context, context);
	return MX_SUCCESS;
}

mx_return_t mx_get_endpoint_addr_context(mx_endpoint_addr_t addr, void **context)
{
	struct partner *p = partner_at(addr);
	if (!p)
		return mx_fail(NULL, MX_BAD_ENDPOINT, "mx_get_endpoint_addr_context: not an address");
	*context = atomic_load(&p->context);
	return MX_SUCCESS;
}

mx_return_t mx_disconnect(mx_endpoint_t ep, mx_endpoint_addr_t addr)
{
	struct partner *p = partner_at(addr);
	if (!ep || !p || atomic_load(&p->ep) != ep)
		return mx_fail(ep, MX_BAD_ENDPOINT, "mx_disconnect: not an address of this endpoint");
	atomic_store(&p->connected, false);
	return MX_SUCCESS;
}
