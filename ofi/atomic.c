/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics. libfabric numbers operations as the engine does; its data types differ in where the 128-bit integers stand,
 * and its lists count elements where the engine's count bytes.
 */
#include "ofi.h"

enum atomic_class { PLAIN, FETCH, COMPARE };

/* Types of later releases (16- and 8-bit floats) have no place here: they are not offered. */
static int type_of(enum fi_datatype datatype)
{
	static const sn_type map[] = {
		[FI_INT8] = SN_INT8,
		[FI_UINT8] = SN_UINT8,
		[FI_INT16] = SN_INT16,
		[FI_UINT16] = SN_UINT16,
		[FI_INT32] = SN_INT32,
		[FI_UINT32] = SN_UINT32,
		[FI_INT64] = SN_INT64,
		[FI_UINT64] = SN_UINT64,
		[FI_FLOAT] = SN_FLOAT,
		[FI_DOUBLE] = SN_DOUBLE,
		[FI_FLOAT_COMPLEX] = SN_FLOAT_COMPLEX,
		[FI_DOUBLE_COMPLEX] = SN_DOUBLE_COMPLEX,
		[FI_LONG_DOUBLE] = SN_LONG_DOUBLE,
		[FI_LONG_DOUBLE_COMPLEX] = SN_LONG_DOUBLE_COMPLEX,
		[SN_OFI_INT128] = SN_INT128,
		[SN_OFI_UINT128] = SN_UINT128,
	};

	return (unsigned)datatype < sizeof(map) / sizeof(map[0]) ? (int)map[datatype] : -1;
}

_Static_assert((int)FI_MIN == (int)SN_MIN && (int)FI_BXOR == (int)SN_BXOR &&
		       (int)FI_ATOMIC_READ == (int)SN_READ && (int)FI_ATOMIC_WRITE == (int)SN_WRITE &&
		       (int)FI_CSWAP == (int)SN_CSWAP && (int)FI_MSWAP == (int)SN_MSWAP,
	       "libfabric's operations are numbered like the engine's");

/* Size of an element, or 0 when this class of call does not take the operation on this type. */
static size_t element(enum atomic_class class, enum fi_datatype datatype, enum fi_op op)
{
	bool compares = op >= FI_CSWAP && op <= FI_MSWAP;
	int type = type_of(datatype);

	if (type < 0 || (unsigned)op >= SN_ATOMIC_OP_COUNT || compares != (class == COMPARE) ||
	    (op == FI_ATOMIC_READ && class != FETCH))
		return 0;
	return sn_atomic_size((sn_type)type, (sn_atomic_op)op);
}

static int valid(enum atomic_class class, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	size_t size = element(class, datatype, op);

	if (!size)
		return -FI_EOPNOTSUPP;
	if (count)
		*count = SN_ATOMIC_MAX / size;
	return 0;
}

int sn_ofi_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
			struct fi_atomic_attr *attr, uint64_t flags)
{
	enum atomic_class class = flags & FI_COMPARE_ATOMIC ? COMPARE
				  : flags & FI_FETCH_ATOMIC ? FETCH
							    : PLAIN;
	size_t count;
	int rc;

	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC | FI_TAGGED))
		return -FI_EBADFLAGS;
	rc = flags & FI_TAGGED ? -FI_EOPNOTSUPP : valid(class, datatype, op, &count);
	if (!rc) {
		attr->count = count;
		attr->size = element(class, datatype, op);
	}
	return rc;
}

/* One call, whichever of the fifteen it came from. */
struct atomic_call {
	enum atomic_class class;
	struct fid_ep *fid;
	const struct fi_ioc *operand, *compare, *result;
	size_t operands, compares, results;
	fi_addr_t to;
	uint64_t addr, key, data;
	enum fi_datatype datatype;
	enum fi_op op;
	uint32_t flags;
	void *context;
};

static uint32_t to_bytes(const struct fi_ioc *ioc, size_t count, size_t size, struct iovec out[SN_OFI_IOV])
{
	for (size_t i = 0; i < count; i++)
		out[i] = (struct iovec){ioc[i].addr, ioc[i].count * size};
	return (uint32_t)count;
}

static ssize_t atomic_post(const struct atomic_call *c)
{
	struct sn_ofi_ep *ep = sn_container(c->fid, struct sn_ofi_ep, fid);
	size_t size = element(c->class, c->datatype, c->op);
	struct iovec operand[SN_OFI_IOV], compare[SN_OFI_IOV], result[SN_OFI_IOV];
	sn_remote remote = {.key = c->key, .offset = c->addr};
	sn_msg m = {.flags = c->flags, .iov = operand, .data = c->data, .context = c->context};
	sn_atomic a = {.compare = compare, .result = result};
	int rc;

	if (!size)
		return -FI_EOPNOTSUPP;
	if (c->operands > SN_OFI_IOV || c->compares > SN_OFI_IOV || c->results > SN_OFI_IOV)
		return -FI_EINVAL;
	if (c->op != FI_ATOMIC_READ)
		m.iov_count = to_bytes(c->operand, c->operands, size, operand);
	a.type = (sn_type)type_of(c->datatype);
	a.op = (sn_atomic_op)c->op;
	a.compare_count = to_bytes(c->compare, c->compares, size, compare);
	a.result_count = to_bytes(c->result, c->results, size, result);
	rc = sn_ofi_peer(ep, c->to, &m.peer);
	return rc ? rc : sn_ofi_result(sn_atomic_post(ep->sn, &m, &remote, &a, NULL));
}

static inline uint32_t default_flags(struct fid_ep *fid)
{
	return sn_container(fid, struct sn_ofi_ep, fid)->tx_flags & ~(uint32_t)SN_SYNC;
}

/* The part of a call that all three message forms share; false: refuse with *rc. */
static bool from_msg(struct atomic_call *c, const struct fi_msg_atomic *msg, uint64_t flags, ssize_t *rc)
{
	*rc = -FI_EBADFLAGS;
	if (!sn_ofi_tx_flags(sn_container(c->fid, struct sn_ofi_ep, fid), flags, &c->flags))
		return false;
	*rc = -FI_EINVAL;
	if (msg->rma_iov_count != 1)
		return false;
	c->flags &= ~(uint32_t)SN_SYNC;
	c->operand = msg->msg_iov;
	c->operands = msg->iov_count;
	c->to = msg->addr;
	c->addr = msg->rma_iov[0].addr;
	c->key = msg->rma_iov[0].key;
	c->data = msg->data;
	c->datatype = msg->datatype;
	c->op = msg->op;
	c->context = msg->context;
	return true;
}

/* What all forms with their arguments one by one share. */
static struct atomic_call call_to(enum atomic_class class, struct fid_ep *fid, fi_addr_t to, uint64_t addr,
				  uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	return (struct atomic_call){
		.class = class,
		.fid = fid,
		.to = to,
		.addr = addr,
		.key = key,
		.datatype = datatype,
		.op = op,
		.flags = default_flags(fid),
		.context = context,
	};
}

/* ---- without a result ---- */

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
			     fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype datatype,
			     enum fi_op op, void *context)
{
	struct atomic_call c = call_to(PLAIN, fid, to, addr, key, datatype, op, context);

	c.operand = iov;
	c.operands = count;
	return atomic_post(&c);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc, fi_addr_t to,
			    uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op,
			    void *context)
{
	struct fi_ioc v = {(void *)(uintptr_t)buf, count};

	return atomic_writev(fid, &v, NULL, 1, to, addr, key, datatype, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct atomic_call c = {.class = PLAIN, .fid = fid};
	ssize_t rc;

	return from_msg(&c, msg, flags, &rc) ? atomic_post(&c) : rc;
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t to, uint64_t addr,
			     uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	struct fi_ioc v = {(void *)(uintptr_t)buf, count};
	struct atomic_call c = call_to(PLAIN, fid, to, addr, key, datatype, op, NULL);

	c.operand = &v;
	c.operands = 1;
	c.flags = SN_INJECT | SN_FORGET;
	return atomic_post(&c);
}

/* ---- fetching ---- */

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
				 struct fi_ioc *resultv, void **result_desc, size_t result_count,
				 fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype datatype,
				 enum fi_op op, void *context)
{
	struct atomic_call c = call_to(FETCH, fid, to, addr, key, datatype, op, context);

	c.operand = iov;
	c.operands = count;
	c.result = resultv;
	c.results = result_count;
	return atomic_post(&c);
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
				void *result_desc, fi_addr_t to, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc v = {(void *)(uintptr_t)buf, count}, r = {result, count};

	return atomic_readwritev(fid, &v, NULL, 1, &r, NULL, 1, to, addr, key, datatype, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *resultv, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	struct atomic_call c = {.class = FETCH, .fid = fid, .result = resultv, .results = result_count};
	ssize_t rc;

	return from_msg(&c, msg, flags, &rc) ? atomic_post(&c) : rc;
}

/* ---- comparing ---- */

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
				 const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
				 struct fi_ioc *resultv, void **result_desc, size_t result_count,
				 fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype datatype,
				 enum fi_op op, void *context)
{
	struct atomic_call c = call_to(COMPARE, fid, to, addr, key, datatype, op, context);

	c.operand = iov;
	c.operands = count;
	c.compare = comparev;
	c.compares = compare_count;
	c.result = resultv;
	c.results = result_count;
	return atomic_post(&c);
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				const void *compare, void *compare_desc, void *result, void *result_desc,
				fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype datatype,
				enum fi_op op, void *context)
{
	struct fi_ioc v = {(void *)(uintptr_t)buf, count}, c = {(void *)(uintptr_t)compare, count};
	struct fi_ioc r = {result, count};

	return atomic_compwritev(fid, &v, NULL, 1, &c, NULL, 1, &r, NULL, 1, to, addr, key, datatype, op,
				 context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
				   struct fi_ioc *resultv, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	struct atomic_call c = {
		.class = COMPARE,
		.fid = fid,
		.compare = comparev,
		.compares = compare_count,
		.result = resultv,
		.results = result_count,
	};
	ssize_t rc;

	return from_msg(&c, msg, flags, &rc) ? atomic_post(&c) : rc;
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return valid(PLAIN, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return valid(FETCH, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return valid(COMPARE, datatype, op, count);
}

struct fi_ops_atomic sn_ofi_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_readwritevalid,
	.compwritevalid = atomic_compwritevalid,
};
