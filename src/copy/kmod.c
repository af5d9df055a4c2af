// SPDX-License-Identifier: BSD-3-Clause
/* See kmod.h. */
#include "copy/kmod.h"
#include "base/log.h"
#include "copy/cma.h"
#include "sennit/sennit.h"
#include "sennit_ioctl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int sn_kmod_error(const char *what, int error)
{
	switch (error) {
	case EFAULT: return sn_fail(SN_ERR_FAULT, "kernel module: %s: memory is not there", what);
	case ENOENT:
	case ESRCH: return sn_fail(SN_ERR_PEER_GONE, "kernel module: %s: the peer's region has gone", what);
	case EACCES:
		return sn_fail(SN_ERR_ACCESS, "kernel module: %s: the region does not grant this access",
			       what);
	case EINVAL: return sn_fail(SN_ERR_INVALID, "kernel module: %s: beyond the end, or malformed", what);
	case EPERM:
		return sn_fail(SN_ERR_FORKED, "kernel module: %s: the device was opened by another process",
			       what);
	default: return sn_fail(SN_ERR_NOMEM, "kernel module: %s: %s", what, strerror(error));
	}
}

int sn_kmod_open(struct sn_kmod **out)
{
	struct sennit_info info;
	struct sn_kmod *k;
	int fd = open(SENNIT_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return sn_fail(SN_ERR_PERM, "%s: %s", SENNIT_DEVICE, strerror(errno));
	if (fd < 0)
		return sn_fail(SN_ERR_UNSUPPORTED, "%s: %s (the module is not loaded)", SENNIT_DEVICE,
			       strerror(errno));
	if (ioctl(fd, SENNIT_IOC_INFO, &info) || info.abi != SENNIT_ABI) {
		close(fd);
		return sn_fail(SN_ERR_UNSUPPORTED, "%s: the module is of another version", SENNIT_DEVICE);
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		close(fd);
		return sn_fail(SN_ERR_NOMEM, "no memory for the kernel module's regions");
	}
	k->fd = fd;
	k->dma_channels = info.dma_channels;
	k->dma_threshold = info.dma_threshold;
	pthread_mutex_init(&k->lock, NULL);
	sn_list_init(&k->idle);
	*out = k;
	return SN_OK;
}

void sn_kmod_close(struct sn_kmod *k)
{
	for (uint32_t i = 0; i < SN_KMOD_REGIONS; i++) {
		struct sn_kmod_region *next;

		for (struct sn_kmod_region *r = k->buckets[i]; r; r = next) {
			next = r->next;
			free(r);
		}
	}
	close(k->fd); /* and the module drops them */
	pthread_mutex_destroy(&k->lock);
	free(k);
}

/* ---- one for the process ---- */

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sn_kmod *shared;
static unsigned shared_users;

struct sn_kmod *sn_kmod_acquire(void)
{
	pthread_mutex_lock(&shared_lock);
	if (!shared && sn_kmod_open(&shared) != SN_OK)
		shared = NULL;
	shared_users += shared != NULL;
	struct sn_kmod *k = shared;
	pthread_mutex_unlock(&shared_lock);
	return k;
}

void sn_kmod_release(struct sn_kmod *k)
{
	pthread_mutex_lock(&shared_lock);
	if (k == shared && --shared_users == 0) {
		sn_kmod_close(shared);
		shared = NULL;
	}
	pthread_mutex_unlock(&shared_lock);
}

/* Only this thread exists; the file would keep the parent's regions alive. What the cache had in memory is given up. */
void sn_kmod_in_child(void)
{
	pthread_mutex_init(&shared_lock, NULL);
	if (shared)
		close(shared->fd);
	shared = NULL;
	shared_users = 0;
}

/* ---- the cache ---- */

static uint64_t sn_kmod_hash(const struct iovec *iov, uint32_t count, uint32_t access)
{
	uint64_t hash = access;

	for (uint32_t i = 0; i < count; i++) {
		hash = sn_mix64(hash ^ (uintptr_t)iov[i].iov_base);
		hash = sn_mix64(hash ^ iov[i].iov_len);
	}
	return hash;
}

static struct sn_kmod_region *sn_kmod_find(struct sn_kmod *k, uint64_t hash, const struct iovec *iov,
					   uint32_t count, uint32_t access)
{
	struct sn_kmod_region *r = k->buckets[hash % SN_KMOD_REGIONS];

	while (r && (r->hash != hash || r->access != access || r->count != count ||
		     memcmp(r->iov, iov, count * sizeof(*iov)) != 0))
		r = r->next;
	return r;
}

/* Takes a region that nobody uses out of the cache. */
static void sn_kmod_drop(struct sn_kmod *k, struct sn_kmod_region *r)
{
	struct sennit_undeclare u = {.id = r->id};
	struct sn_kmod_region **at = &k->buckets[r->hash % SN_KMOD_REGIONS];

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	sn_list_del(&r->lru);
	k->idle_count--;
	if (ioctl(k->fd, SENNIT_IOC_UNDECLARE, &u))
		sn_debug("kernel module: undeclare: %s", strerror(errno));
	free(r);
}

/* The segments as the module takes them: in `few` when they fit, else allocated. NULL: no memory. */
static struct sennit_seg *sn_kmod_segs(const struct iovec *iov, uint32_t count,
				       struct sennit_seg few[SN_KMOD_FEW])
{
	struct sennit_seg *segs = count <= SN_KMOD_FEW ? few : malloc(count * sizeof(*segs));

	for (uint32_t i = 0; segs && i < count; i++)
		segs[i] = (struct sennit_seg){(uintptr_t)iov[i].iov_base, iov[i].iov_len};
	return segs;
}

static int sn_kmod_declare(struct sn_kmod *k, const struct iovec *iov, uint32_t count, uint32_t access,
			   struct sn_kmod_region **out)
{
	struct sennit_seg few[SN_KMOD_FEW], *segs = sn_kmod_segs(iov, count, few);
	struct sennit_declare d = {.segs = (uintptr_t)segs, .nsegs = count, .access = access};
	struct sn_kmod_region *r = malloc(sizeof(*r) + count * sizeof(*iov));
	int error = 0;

	if (!segs || !r)
		error = ENOMEM;
	else if (ioctl(k->fd, SENNIT_IOC_DECLARE, &d))
		error = errno;
	if (segs != few)
		free(segs);
	if (error) {
		free(r);
		return sn_kmod_error("declare", error);
	}
	*r = (struct sn_kmod_region){
		.handle = d.handle, .length = d.length, .id = d.id, .access = access, .count = count};
	memcpy(r->iov, iov, count * sizeof(*iov));
	*out = r;
	return SN_OK;
}

int sn_kmod_region_get(struct sn_kmod *k, const struct iovec *iov, uint32_t count, uint32_t access,
		       struct sn_kmod_region **out)
{
	uint64_t hash = sn_kmod_hash(iov, count, access);
	struct sn_kmod_region *r;
	int rc = SN_OK;

	pthread_mutex_lock(&k->lock);
	r = sn_kmod_find(k, hash, iov, count, access);
	if (r) {
		k->hits++;
		if (r->users++ == 0) {
			sn_list_del(&r->lru);
			k->idle_count--;
		}
	} else {
		k->misses++;
		rc = sn_kmod_declare(k, iov, count, access, &r);
		if (rc == SN_OK) {
			r->hash = hash;
			r->users = 1;
			sn_list_init(&r->lru);
			r->next = k->buckets[hash % SN_KMOD_REGIONS];
			k->buckets[hash % SN_KMOD_REGIONS] = r;
		}
	}
	pthread_mutex_unlock(&k->lock);
	*out = rc == SN_OK ? r : NULL;
	return rc;
}

void sn_kmod_region_put(struct sn_kmod *k, struct sn_kmod_region *r)
{
	pthread_mutex_lock(&k->lock);
	if (--r->users == 0) {
		sn_list_add_tail(&k->idle, &r->lru);
		if (++k->idle_count > SN_KMOD_REGIONS)
			sn_kmod_drop(k, sn_container(k->idle.next, struct sn_kmod_region, lru));
	}
	pthread_mutex_unlock(&k->lock);
}

bool sn_kmod_region_prepare(struct sn_kmod *k, struct sn_kmod_region *r)
{
	struct sennit_prepare p = {.id = r->id, .len = r->length};

	if (atomic_load_explicit(&r->prepared, memory_order_relaxed) ||
	    atomic_exchange_explicit(&r->prepared, true, memory_order_relaxed))
		return false;
	if (ioctl(k->fd, SENNIT_IOC_PREPARE, &p))
		sn_debug("kernel module: prepare: %s", strerror(errno));
	return true;
}

static int sn_kmod_copy(struct sn_kmod *k, struct sennit_copy *c, struct sennit_end *own,
			const struct iovec *iov, uint32_t count, uint64_t *done)
{
	struct sennit_seg few[SN_KMOD_FEW], *segs = sn_kmod_segs(iov, count, few);
	uint64_t len = c->len;
	int error = sn_fault_inject(SN_FAULT_MODULE, &len);

	*done = 0;
	if (!segs)
		return sn_kmod_error("copy", ENOMEM);
	own->kind = SENNIT_END_MEMORY;
	own->nsegs = count;
	own->ref = (uintptr_t)segs;
	c->len = len;
	if (!error && ioctl(k->fd, SENNIT_IOC_COPY, c))
		error = errno;
	*done = c->copied;
	own->ref = 0; /* the segments end here */
	if (segs != few)
		free(segs);
	return error ? sn_kmod_error("copy", error) : SN_OK;
}

int sn_kmod_read(struct sn_kmod *k, uint64_t handle, uint64_t remote_offset, const struct iovec *iov,
		 uint32_t count, uint64_t offset, uint64_t len, uint64_t *done)
{
	struct sennit_copy c = {.dst.offset = offset, .len = len};

	c.src = (struct sennit_end){.kind = SENNIT_END_HANDLE, .ref = handle, .offset = remote_offset};
	return sn_kmod_copy(k, &c, &c.dst, iov, count, done);
}

int sn_kmod_write(struct sn_kmod *k, uint64_t handle, uint64_t remote_offset, const struct iovec *iov,
		  uint32_t count, uint64_t offset, uint64_t len, uint64_t *done)
{
	struct sennit_copy c = {.src.offset = offset, .len = len};

	c.dst = (struct sennit_end){.kind = SENNIT_END_HANDLE, .ref = handle, .offset = remote_offset};
	return sn_kmod_copy(k, &c, &c.src, iov, count, done);
}

/* ---- shared copies ---- */

int sn_kmod_share_open(struct sn_kmod *k, const struct sn_kmod_region *dst, uint64_t src, uint64_t len,
		       uint64_t *share)
{
	struct sennit_share_open o = {.len = len};

	o.dst = (struct sennit_end){.kind = SENNIT_END_REGION, .ref = dst->id};
	o.src = (struct sennit_end){.kind = SENNIT_END_HANDLE, .ref = src};
	if (ioctl(k->fd, SENNIT_IOC_SHARE_OPEN, &o))
		return sn_kmod_error("share", errno);
	*share = o.handle;
	return SN_OK;
}

int sn_kmod_share_run(struct sn_kmod *k, uint64_t share, uint64_t *mine, uint64_t *done)
{
	struct sennit_share_run r = {.handle = share, .flags = SENNIT_SHARE_SOME};
	uint64_t len = UINT64_MAX;
	int error = sn_fault_inject(SN_FAULT_MODULE, &len);

	if (!error)
		error = ioctl(k->fd, SENNIT_IOC_SHARE_RUN, &r) ? errno : -r.error;

	*mine = r.mine;
	*done = r.done;
	return error ? sn_kmod_error("share", error) : SN_OK;
}

void sn_kmod_share_close(struct sn_kmod *k, uint64_t share)
{
	struct sennit_share_close c = {.handle = share};

	if (ioctl(k->fd, SENNIT_IOC_SHARE_CLOSE, &c))
		sn_debug("kernel module: closing a shared copy: %s", strerror(errno));
}

/* ---- counters ---- */

int sn_kmod_counters(struct sn_kmod *k, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	static const char *const names[SENNIT_C_COUNT] = SENNIT_COUNTER_NAMES;
	uint64_t values[SENNIT_C_COUNT] = {0}; /* an older module knows fewer */
	struct sennit_counters c = {.values = (uintptr_t)values, .n = SENNIT_C_COUNT};
	struct sennit_info info;

	if (ioctl(k->fd, SENNIT_IOC_COUNTERS, &c) || ioctl(k->fd, SENNIT_IOC_INFO, &info))
		return sn_kmod_error("counters", errno);
	for (int i = 0; i < SENNIT_C_COUNT; i++)
		fn(arg, names[i], values[i]);
	fn(arg, "pinned_now", info.pinned_pages);
	return SN_OK;
}
