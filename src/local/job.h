/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes share the copy of one message. Its blocks of 4 KiB are claimed from both ends: the receiver reads from the
 * head, the sender writes from the tail, each only while it is inside the library, and whoever is alone does it all.
 * Nobody waits for a side that does not come.
 *
 * One side opens the job, in the channel that it owns, and tells the other by a record in the ring (share.c): that is the
 * helper. `claim` counts the blocks taken from both ends, in one word, so that no block is taken twice. Who has copied
 * blocks adds them to `done`; who brings it to the total knows that the message is whole, and rings the other.
 *
 * Failure. Who cannot copy what it claimed (refused by the kernel, a bad page) sets `failed` and closes the job, by
 * claiming all that is left. Then the message goes another way from its first byte, which the opener starts; but not
 * before the helper has stopped touching the buffers. The helper says "inside" before it claims and "outside" after its
 * copy, and the opener looks there only after the close. Since claims and the close are read-modify-writes of one word, a
 * claim that came before the close was made by a helper that the opener then sees inside.
 *
 * Reuse. The helper touches the job for the last time when it says "left"; only then, and when it has itself seen how the
 * job ended, may the opener use it again.
 *
 * Trust. Only the numbers here are shared; lengths and addresses each side keeps for itself, and whatever a hostile peer
 * writes here, claims stay within the message (sn_job_claim). It can spoil only the message that it takes part in.
 *
 * How much. The first claim of each side is half of the message, as far as it is left: with both there at the start
 * each makes one system call, and has the same half of a buffer that is used again, whose lines are in its cache.
 * After that, or if the other side has begun long ago, claims halve what is left.
 *
 * tests/model/share.pml is a model of this, checked by spin. Budget: two locked instructions for each claim, one
 * claim a side where both come at once, up to 8 MiB; a side that is alone makes about log2(n / SN_JOB_LEAST) + 1 of
 * them for n blocks.
 */
#ifndef SN_LOCAL_JOB_H
#define SN_LOCAL_JOB_H

#include "base/base.h"

#define SN_JOB_BLOCK 4096u
#define SN_JOB_LEAST                                                                                         \
	8u /* blocks: below 32 KiB a system call costs more than the other side's help is worth */
#define SN_JOB_MOST	 1024u /* blocks of one claim: 4 MiB, after which the death of a peer is noticed */
#define SN_JOB_TOTAL_MAX (1u << 30)

enum { SN_HELPER_COMING = 0, SN_HELPER_INSIDE = 1, SN_HELPER_OUTSIDE = 2, SN_HELPER_LEFT = 3 };

struct sn_job {
	_Atomic uint64_t claim;	 /*  0 blocks taken from the head (32) | from the tail (32) << 32 */
	_Atomic uint32_t done;	 /*  8 blocks copied */
	_Atomic uint32_t failed; /* 12 */
	_Atomic uint32_t helper; /* 16 written by the helper alone */
	_Atomic uint32_t used;	 /* 20 by the opener alone: 1 from the opening on */
	_Atomic uint64_t
		ended; /* 24 CLOCK_MONOTONIC, by who copied the last block, just after that; 0: not yet */
	_Atomic uint32_t mapped; /* 32 by the writer: it writes by way of the receiver's shareable heap */
	_Atomic uint32_t
		bypass; /* 36 by the opener, before it says that there is a job: mapped copies bypass the cache */
	uint8_t pad[24];
};
_Static_assert(sizeof(struct sn_job) == 64, "a line");

static inline uint32_t sn_job_total(uint64_t len)
{
	return (uint32_t)((len + SN_JOB_BLOCK - 1) / SN_JOB_BLOCK);
}

/* The opener: is this one free, or has the helper of its last use left? */
static inline bool sn_job_free(const struct sn_job *job)
{
	return !atomic_load_explicit(&job->used, memory_order_relaxed) ||
	       atomic_load_explicit(&job->helper, memory_order_acquire) == SN_HELPER_LEFT;
}

static inline void sn_job_open(struct sn_job *job, bool bypass)
{
	atomic_store_explicit(&job->used, 1, memory_order_relaxed);
	atomic_store_explicit(&job->claim, 0, memory_order_relaxed);
	atomic_store_explicit(&job->done, 0, memory_order_relaxed);
	atomic_store_explicit(&job->failed, 0, memory_order_relaxed);
	atomic_store_explicit(&job->ended, 0, memory_order_relaxed);
	atomic_store_explicit(&job->mapped, 0, memory_order_relaxed);
	atomic_store_explicit(&job->bypass, bypass, memory_order_relaxed);
	atomic_store_explicit(&job->helper, SN_HELPER_COMING, memory_order_relaxed);
}

/* It was opened, but nobody will hear of it. */
static inline void sn_job_drop(struct sn_job *job)
{
	atomic_store_explicit(&job->used, 0, memory_order_relaxed);
}

/* Claim blocks from the head or the tail: how many (0: none is left), *first of them. Within total, whatever stands there. */
static inline uint32_t sn_job_claim(struct sn_job *job, uint32_t total, bool head, uint32_t *first)
{
	uint64_t old = atomic_load_explicit(&job->claim, memory_order_relaxed), next;
	uint32_t take;
	do {
		uint64_t low = (uint32_t)old, high = old >> 32;
		if (low + high >= total)
			return 0;
		uint64_t left = total - low - high, part = left < 2 * SN_JOB_LEAST ? left : left / 2;
		if (!(head ? low : high))
			part = SN_MIN_OF(left, (total + UINT64_C(1)) / 2);
		take = (uint32_t)SN_MIN_OF(part, (uint64_t)SN_JOB_MOST);
		*first = (uint32_t)(head ? low : total - high - take);
		next = head ? old + take : old + ((uint64_t)take << 32);
	} while (!atomic_compare_exchange_weak_explicit(&job->claim, &old, next, memory_order_acq_rel,
							memory_order_relaxed));
	return take;
}

/* Is a block left to claim? */
static inline bool sn_job_left(const struct sn_job *job, uint32_t total)
{
	uint64_t claim = atomic_load_explicit(&job->claim, memory_order_relaxed);
	return (uint64_t)(uint32_t)claim + (claim >> 32) < total;
}

/* These blocks are copied. True: they were the last. */
static inline bool sn_job_done(struct sn_job *job, uint32_t total, uint32_t blocks)
{
	return atomic_fetch_add_explicit(&job->done, blocks, memory_order_acq_rel) + blocks == total;
}

static inline bool sn_job_complete(const struct sn_job *job, uint32_t total)
{
	return atomic_load_explicit(&job->done, memory_order_acquire) == total;
}

static inline void sn_job_fail(struct sn_job *job, uint32_t total)
{
	atomic_store_explicit(&job->failed, 1, memory_order_release);
	atomic_exchange_explicit(&job->claim, total, memory_order_acq_rel);
}

static inline bool sn_job_failed(const struct sn_job *job)
{
	return atomic_load_explicit(&job->failed, memory_order_acquire) != 0;
}

/* The opener, after it has closed the job itself (sn_job_fail): does the helper touch no buffer any more? */
static inline bool sn_job_quiet(const struct sn_job *job)
{
	return atomic_load_explicit(&job->helper, memory_order_acquire) != SN_HELPER_INSIDE;
}

static inline void sn_job_helper(struct sn_job *job, uint32_t state)
{
	atomic_store_explicit(&job->helper, state, memory_order_release);
}

#endif
