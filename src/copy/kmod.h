/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single copy by the kernel module (sennit-kmod(4)), where /dev/sennit is there and may be opened. Knows memory and
 * handles; nothing of requests or peers.
 *
 * Regions that were declared stay declared in a cache, the least recently used of them go: a buffer that is sent again
 * costs no system call to name. The cache never has to hear that memory was freed or mapped anew: the module pins what
 * is there when it copies.
 *
 * Budget: a region that is in the cache: no system call, one hash of the vector. A copy: one system call, no allocation
 * up to SN_KMOD_FEW segments.
 *
 * Any thread may use it; the cache has a lock of its own, copies run beside each other.
 */
#ifndef SN_COPY_KMOD_H
#define SN_COPY_KMOD_H

#include "base/base.h"
#include <pthread.h>

#define SN_KMOD_FEW	32  /* segments that are converted without an allocation */
#define SN_KMOD_REGIONS 256 /* declared and not in use; those in use come on top */
#define SN_KMOD_READ	1u  /* peers may read the region */
#define SN_KMOD_WRITE	2u  /* peers may write it */

struct sn_kmod_region {
	uint64_t handle; /* for the peer */
	uint64_t length;
	/* the cache's own */
	struct sn_list lru;
	struct sn_kmod_region *next;
	uint64_t hash;
	uint32_t id, access, users, count;
	_Atomic bool prepared;
	struct iovec iov[];
};

struct sn_kmod {
	int fd;
	uint32_t dma_channels;
	uint64_t dma_threshold; /* bytes from which the module uses them */
	pthread_mutex_t lock;
	struct sn_list idle; /* oldest first */
	uint32_t idle_count;
	uint64_t hits, misses;
	struct sn_kmod_region *buckets[SN_KMOD_REGIONS];
};

/* SN_ERR_UNSUPPORTED: no module, or of another version. SN_ERR_PERM: it may not be opened. sn_last_error() explains. */
int sn_kmod_open(struct sn_kmod **out);
/* Regions that are still in use go with it. */
void sn_kmod_close(struct sn_kmod *k);

/*
 * The process's one instance, for everybody who wants it: opened by the first, closed by the last. NULL: there is none
 * (sn_last_error() says why). A forked child has none until it asks: the parent's is dead there (sn_kmod_in_child).
 */
struct sn_kmod *sn_kmod_acquire(void);
void sn_kmod_release(struct sn_kmod *k);
void sn_kmod_in_child(void);

/* The module's counters, of the whole machine; 0, or an error of sn_kmod_open. */
int sn_kmod_counters(struct sn_kmod *k, void (*fn)(void *arg, const char *name, uint64_t value), void *arg);

/*
 * A name for these segments, until sn_kmod_region_put. Errors: SN_ERR_INVALID (nothing in it, too long), SN_ERR_NOMEM,
 * SN_ERR_FORKED.
 */
int sn_kmod_region_get(struct sn_kmod *k, const struct iovec *iov, uint32_t count, uint32_t access,
		       struct sn_kmod_region **out);
void sn_kmod_region_put(struct sn_kmod *k, struct sn_kmod_region *r);
/*
 * Have it pinned in the background, so that this overlaps the rendezvous. A hint: it cannot fail. Once in a region's life;
 * true: this was it.
 */
bool sn_kmod_region_prepare(struct sn_kmod *k, struct sn_kmod_region *r);

/*
 * Copy len bytes between a peer's region, from `remote_offset`, and own segments, from `offset`. *done: bytes moved,
 * counted from the start, also when it fails. Errors: SN_ERR_FAULT (memory of one side is not there), SN_ERR_PEER_GONE
 * (the region is not there, any more or for this user), SN_ERR_ACCESS, SN_ERR_INVALID (beyond an end), SN_ERR_NOMEM (the
 * limit on pinned memory), SN_ERR_FORKED.
 */
int sn_kmod_read(struct sn_kmod *k, uint64_t handle, uint64_t remote_offset, const struct iovec *iov,
		 uint32_t count, uint64_t offset, uint64_t len, uint64_t *done);
int sn_kmod_write(struct sn_kmod *k, uint64_t handle, uint64_t remote_offset, const struct iovec *iov,
		  uint32_t count, uint64_t offset, uint64_t len, uint64_t *done);

/*
 * A copy of len bytes between two regions, from the peer's `src` to the own `dst`, whose pieces several processes take in
 * turn: each that was told *share. Errors as above.
 */
int sn_kmod_share_open(struct sn_kmod *k, const struct sn_kmod_region *dst, uint64_t src, uint64_t len,
		       uint64_t *share);
/* Copies up to 4 MiB of what is left. *mine: bytes that this call moved; *done: that all have, so far. */
int sn_kmod_share_run(struct sn_kmod *k, uint64_t share, uint64_t *mine, uint64_t *done);
/* For the one who opened it: ends it, and returns when nobody is copying any more. */
void sn_kmod_share_close(struct sn_kmod *k, uint64_t share);

#endif
