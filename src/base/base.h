/* SPDX-License-Identifier: BSD-3-Clause */
/* Small things everybody needs: time, lists, locks, sizes, byte copies between segment lists. */
#ifndef SN_BASE_H
#define SN_BASE_H

#include "base/copy.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#define SN_LINE				64 /* bytes in a cache line */
#define sn_aligned			__attribute__((aligned(SN_LINE)))
#define sn_likely(x)			__builtin_expect(!!(x), 1)
#define sn_unlikely(x)			__builtin_expect(!!(x), 0)
#define sn_container(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
/* The arguments are evaluated once. The number keeps the names apart where one stands within another. */
#define SN_MIN_OF(a, b)		  SN_PICK(<, a, b, __COUNTER__)
#define SN_MAX_OF(a, b)		  SN_PICK(>, a, b, __COUNTER__)
#define SN_PICK(is, a, b, number) SN_PICK_(is, a, b, number)
#define SN_PICK_(is, a, b, number)                                                                           \
	({                                                                                                   \
		__typeof__(0 ? (a) : (b)) a_##number = (a), b_##number = (b);                                \
		a_##number is b_##number ? a_##number : b_##number;                                          \
	})

/* ---- time ---- */
uint64_t sn_now_ns(void); /* CLOCK_MONOTONIC */
static inline void sn_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

/* ---- cache lines ---- */
/* Ask for a line that will be written: a store that has to wait for it would hold up all stores after it. */
static inline void sn_line_own(const void *line)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw (%0)" : : "r"(line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/* ---- doubly linked lists with a head ---- */
struct sn_list {
	struct sn_list *next, *prev;
};
static inline void sn_list_init(struct sn_list *l)
{
	l->next = l->prev = l;
}
static inline bool sn_list_empty(const struct sn_list *l)
{
	return l->next == l;
}
static inline void sn_list_add_tail(struct sn_list *l, struct sn_list *n)
{
	n->prev = l->prev;
	n->next = l;
	l->prev->next = n;
	l->prev = n;
}
static inline void sn_list_del(struct sn_list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->next = n->prev = n;
}
#define sn_list_for_each(pos, head) for (struct sn_list *pos = (head)->next; pos != (head); pos = pos->next)
#define sn_list_for_each_safe(pos, head)                                                                     \
	for (struct sn_list *pos = (head)->next, *pos##_next = pos->next; pos != (head);                     \
	     pos = pos##_next, pos##_next = pos->next)

/*
 * ---- the endpoint's lock ----
 * enabled: a futex mutex that spins briefly. Else, biased: for an owner (one thread at a time, the caller sees to that)
 * and a visitor that never waits; the owner pays two stores and a load, no locked instruction. Else: nothing at all.
 *
 * Biased, owner and visitor each write a word and then read the other's (Dekker). The visitor alone pays for the order:
 * its membarrier fences every thread of the process, so either it sees the owner inside and goes, or the owner, which
 * entered after, sees the visitor and waits until it has gone.
 *
 * A guest is a visitor that waits: another thread of the caller's, for what is not the owner's alone (regions).
 */
struct sn_lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held and waited for */
	bool enabled, biased;
	_Atomic uint32_t inside;  /* biased: the owner is */
	_Atomic uint32_t visitor; /* biased: 0 nobody, 1 somebody, 2 and the owner waits for it to go */
};
void sn_lock_slow(struct sn_lock *l);
void sn_unlock_slow(struct sn_lock *l);
void sn_lock_visited(struct sn_lock *l);
/* Take the lock unless somebody is inside; give it back. Is somebody waiting for it? */
bool sn_lock_visit(struct sn_lock *l);
void sn_unlock_visit(struct sn_lock *l);
/* Likewise, but wait until nobody is inside, the caller neither. Ends with sn_unlock_visit(). */
void sn_lock_guest(struct sn_lock *l);
static inline bool sn_lock_wanted(const struct sn_lock *l)
{
	return atomic_load_explicit(l->enabled ? &l->word : &l->visitor, memory_order_relaxed) == 2;
}
/* Make a lock that is off one that can be visited: biased where the kernel lets it be, else enabled. */
void sn_lock_share(struct sn_lock *l);
static inline void sn_lock(struct sn_lock *l)
{
	uint32_t free_ = 0;
	if (sn_likely(l->biased)) {
		atomic_store_explicit(&l->inside, 1, memory_order_relaxed);
		__asm__ volatile("" ::: "memory");
		if (sn_unlikely(atomic_load_explicit(&l->visitor, memory_order_acquire)))
			sn_lock_visited(l);
	} else if (l->enabled) {
		if (!atomic_compare_exchange_strong_explicit(&l->word, &free_, 1, memory_order_acquire,
							     memory_order_relaxed))
			sn_lock_slow(l);
	}
}
/* One that is enabled, if it is free. */
static inline bool sn_lock_try(struct sn_lock *l)
{
	uint32_t free_ = 0;
	return atomic_compare_exchange_strong_explicit(&l->word, &free_, 1, memory_order_acquire,
						       memory_order_relaxed);
}
static inline void sn_unlock(struct sn_lock *l)
{
	if (sn_likely(l->biased)) {
		atomic_store_explicit(&l->inside, 0, memory_order_release);
	} else if (l->enabled) {
		if (atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2)
			sn_unlock_slow(l);
	}
}

/* ---- copying a few bytes ---- */
/*
 * For short messages: up to 48 bytes with two or three loads and stores that may overlap, instead of a call. 8 bytes, the
 * commonest length, with one of each, so that the load can be served by the caller's store just before.
 */
#define SN_COPY_FEW 48u
static inline void sn_copy_48(void *to, const void *from, size_t n)
{
	struct two {
		uint64_t a, b;
	} first, second, last;
	char *t = to;
	const char *f = from;
	uint64_t x, y;
	uint32_t v, w;
	if (sn_likely(n == 8)) {
		memcpy(&x, f, 8);
		memcpy(t, &x, 8);
	} else if (n > 32) {
		memcpy(&first, f, 16);
		memcpy(&second, f + 16, 16);
		memcpy(&last, f + n - 16, 16);
		memcpy(t, &first, 16);
		memcpy(t + 16, &second, 16);
		memcpy(t + n - 16, &last, 16);
	} else if (n >= 16) {
		memcpy(&first, f, 16);
		memcpy(&last, f + n - 16, 16);
		memcpy(t, &first, 16);
		memcpy(t + n - 16, &last, 16);
	} else if (n > 8) {
		memcpy(&x, f, 8);
		memcpy(&y, f + n - 8, 8);
		memcpy(t, &x, 8);
		memcpy(t + n - 8, &y, 8);
	} else if (n >= 4) {
		memcpy(&v, f, 4);
		memcpy(&w, f + n - 4, 4);
		memcpy(t, &v, 4);
		memcpy(t + n - 4, &w, 4);
	} else {
		for (size_t i = 0; i < n; i++)
			((volatile char *)t)[i] = f[i];
	}
}
/* Between processes, and mostly short. */
static inline void sn_copy_small(void *to, const void *from, size_t n)
{
	if (sn_unlikely(n > SN_COPY_FEW))
		sn_copy_between(to, from, n);
	else
		sn_copy_48(to, from, n);
}

/* ---- segments ---- */
/* Sum of lengths; UINT64_MAX on overflow. */
uint64_t sn_iov_len(const struct iovec *iov, uint32_t count);
/* Copy len bytes out of / into segments starting at byte `offset` of them. The caller has checked the bounds. */
void sn_iov_read(void *dst, const struct iovec *iov, uint32_t count, uint64_t offset, uint64_t len);
void sn_iov_write(const struct iovec *iov, uint32_t count, uint64_t offset, const void *src, uint64_t len);
/*
 * Fill out[] (at most max entries) with the pieces of [offset, offset+len); returns how many, *covered the bytes they
 * hold.
 */
uint32_t sn_iov_slice(const struct iovec *iov, uint32_t count, uint64_t offset, uint64_t len,
		      struct iovec *out, uint32_t max, uint64_t *covered);

/* ---- random, hash ---- */
void sn_random(void *buf, size_t len); /* getrandom, aborts only if the kernel has none */
static inline uint64_t sn_mix64(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ (x >> 32);
}

/* ---- topology ---- */
struct sn_topo {
	int cpus;    /* online */
	int allowed; /* in this process's affinity mask, and cgroup quota if less */
	/* The same for two processes that can share abstract sockets: boot id and network namespace. */
	uint64_t host_id;
	/*
	 * The same for two processes that the kernel schedules as one group, between which a yield hands the core on;
	 * 0: not known.
	 */
	uint64_t group;
	int launched; /* processes of this job on this node, as the launcher says; 0: it does not */
	uint64_t l2_size, llc_size; /* bytes; 0 unknown */
	char cpu_model[64];
};
const struct sn_topo *sn_topo(void); /* read once */
int sn_topo_cpus_allowed(void);	     /* affinity now */

#endif
