/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of remote atomics, for every pair of operation and type that libfabric calls valid: bitwise operations
 * and masked swap on integers, ordered comparisons on everything but complex numbers, the rest on all types. Memory may be
 * misaligned for its type, so values go through memcpy (which compiles to one move).
 */
#include "core/core.h"
#include <complex.h>

typedef __int128 sn_i128;
typedef unsigned __int128 sn_u128;

#define ELEMENT(T)                                                                                           \
	T t, a;                                                                                              \
	memcpy(&t, at, sizeof(T));                                                                           \
	if (operand)                                                                                         \
		memcpy(&a, operand, sizeof(T));                                                              \
	else                                                                                                 \
		a = 0;                                                                                       \
	if (old)                                                                                             \
	memcpy(old, at, sizeof(T))

#define COMPARAND(T)                                                                                         \
	T c = 0;                                                                                             \
	if (compare)                                                                                         \
	memcpy(&c, compare, sizeof(T))

/* Integer sums wrap, as they do on every processor: computed unsigned, U is T's unsigned partner. */
#define COMMON_CASES(T, U)                                                                                   \
	case SN_SUM: t = (T)((U)t + (U)a); break;                                                            \
	case SN_DIFF: t = (T)((U)t - (U)a); break;                                                           \
	case SN_PROD: t = (T)((U)t * (U)a); break;                                                           \
	case SN_LOR: t = (t != 0) || (a != 0); break;                                                        \
	case SN_LAND: t = (t != 0) && (a != 0); break;                                                       \
	case SN_LXOR: t = (t != 0) != (a != 0); break;                                                       \
	case SN_WRITE: t = a; break;                                                                         \
	case SN_CSWAP: t = c == t ? a : t; break;                                                            \
	case SN_CSWAP_NE:                                                                                    \
		t = c != t ? a : t;                                                                          \
		break;

#define ORDER_CASES                                                                                          \
	case SN_MIN: t = a < t ? a : t; break;                                                               \
	case SN_MAX: t = a > t ? a : t; break;                                                               \
	case SN_CSWAP_LE: t = c <= t ? a : t; break;                                                         \
	case SN_CSWAP_LT: t = c < t ? a : t; break;                                                          \
	case SN_CSWAP_GE: t = c >= t ? a : t; break;                                                         \
	case SN_CSWAP_GT:                                                                                    \
		t = c > t ? a : t;                                                                           \
		break;

#define BIT_CASES                                                                                            \
	case SN_BOR: t |= a; break;                                                                          \
	case SN_BAND: t &= a; break;                                                                         \
	case SN_BXOR: t ^= a; break;                                                                         \
	case SN_MSWAP:                                                                                       \
		t = (a & c) | (t & ~c);                                                                      \
		break;

#define HANDLER(name, T, U, cases)                                                                           \
	static void name(sn_atomic_op op, void *at, const void *operand, const void *compare, void *old)     \
	{                                                                                                    \
		ELEMENT(T);                                                                                  \
		COMPARAND(T);                                                                                \
		switch (op) {                                                                                \
			COMMON_CASES(T, U)                                                                   \
			cases default : return; /* SN_READ: nothing is written */                            \
		}                                                                                            \
		memcpy(at, &t, sizeof(T));                                                                   \
	}

/* narrow unsigned types would be promoted to int, where a product can overflow: U is at least unsigned int */
HANDLER(on_i8, int8_t, unsigned, ORDER_CASES BIT_CASES)
HANDLER(on_u8, uint8_t, unsigned, ORDER_CASES BIT_CASES)
HANDLER(on_i16, int16_t, unsigned, ORDER_CASES BIT_CASES)
HANDLER(on_u16, uint16_t, unsigned, ORDER_CASES BIT_CASES)
HANDLER(on_i32, int32_t, uint32_t, ORDER_CASES BIT_CASES)
HANDLER(on_u32, uint32_t, uint32_t, ORDER_CASES BIT_CASES)
HANDLER(on_i64, int64_t, uint64_t, ORDER_CASES BIT_CASES)
HANDLER(on_u64, uint64_t, uint64_t, ORDER_CASES BIT_CASES)
HANDLER(on_i128, sn_i128, sn_u128, ORDER_CASES BIT_CASES)
HANDLER(on_u128, sn_u128, sn_u128, ORDER_CASES BIT_CASES)
HANDLER(on_float, float, float, ORDER_CASES)
HANDLER(on_double, double, double, ORDER_CASES)
HANDLER(on_ldouble, long double, long double, ORDER_CASES)
HANDLER(on_cfloat, float complex, float complex, )
HANDLER(on_cdouble, double complex, double complex, )
HANDLER(on_cldouble, long double complex, long double complex, )

static const struct {
	uint8_t size;
	bool integer, ordered;
	void (*apply)(sn_atomic_op op, void *at, const void *operand, const void *compare, void *old);
} types[SN_TYPE_COUNT] = {
	[SN_INT8] = {1, true, true, on_i8},
	[SN_UINT8] = {1, true, true, on_u8},
	[SN_INT16] = {2, true, true, on_i16},
	[SN_UINT16] = {2, true, true, on_u16},
	[SN_INT32] = {4, true, true, on_i32},
	[SN_UINT32] = {4, true, true, on_u32},
	[SN_INT64] = {8, true, true, on_i64},
	[SN_UINT64] = {8, true, true, on_u64},
	[SN_INT128] = {16, true, true, on_i128},
	[SN_UINT128] = {16, true, true, on_u128},
	[SN_FLOAT] = {sizeof(float), false, true, on_float},
	[SN_DOUBLE] = {sizeof(double), false, true, on_double},
	[SN_FLOAT_COMPLEX] = {sizeof(float complex), false, false, on_cfloat},
	[SN_DOUBLE_COMPLEX] = {sizeof(double complex), false, false, on_cdouble},
	[SN_LONG_DOUBLE] = {sizeof(long double), false, true, on_ldouble},
	[SN_LONG_DOUBLE_COMPLEX] = {sizeof(long double complex), false, false, on_cldouble},
};

size_t sn_atomic_size(sn_type type, sn_atomic_op op)
{
	if ((unsigned)type >= SN_TYPE_COUNT || (unsigned)op >= SN_ATOMIC_OP_COUNT)
		return 0;
	switch (op) {
	case SN_BOR:
	case SN_BAND:
	case SN_BXOR:
	case SN_MSWAP: return types[type].integer ? types[type].size : 0;
	case SN_MIN:
	case SN_MAX:
	case SN_CSWAP_LE:
	case SN_CSWAP_LT:
	case SN_CSWAP_GE:
	case SN_CSWAP_GT: return types[type].ordered ? types[type].size : 0;
	default: return types[type].size;
	}
}

void sn_core_atomic_apply(sn_type type, sn_atomic_op op, void *target, const void *operand,
			  const void *compare, void *old, uint32_t count)
{
	size_t size = types[type].size;
	for (uint32_t i = 0; i < count; i++) {
		types[type].apply(op, target, op == SN_READ ? NULL : operand, compare, old);
		target = (char *)target + size;
		operand = operand ? (const char *)operand + size : NULL;
		compare = compare ? (const char *)compare + size : NULL;
		old = old ? (char *)old + size : NULL;
	}
}
