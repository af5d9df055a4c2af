/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/cma.h"
#include "sennit/sennit.h"
#include <errno.h>

#define SEGMENTS (SN_IOV_MAX + 1) /* and the cookie; below the kernel's IOV_MAX of 1024 */

static enum sn_cma_outcome outcome_of(int error)
{
	switch (error) {
	case EFAULT: return SN_CMA_FAULT;
	case ENOMEM:
	case EAGAIN:
	case EINTR: return SN_CMA_SCARCE;
	default: return SN_CMA_REFUSED; /* EPERM, ESRCH, ENOSYS, EACCES, EINVAL, and whatever a filter says */
	}
}

/* The pieces of both lists for one call. They cover the same bytes: the shorter list decides. */
static uint64_t slice(const struct iovec *a, uint32_t na, const struct iovec *b, uint32_t nb, uint64_t offset,
		      uint64_t len, struct iovec *out_a, uint32_t *count_a, struct iovec *out_b,
		      uint32_t *count_b)
{
	uint64_t got_a, got_b;
	*count_a = sn_iov_slice(a, na, offset, len, out_a, SN_IOV_MAX, &got_a);
	*count_b = sn_iov_slice(b, nb, offset, got_a, out_b, SN_IOV_MAX, &got_b);
	if (got_b < got_a)
		*count_a = sn_iov_slice(a, na, offset, got_b, out_a, SN_IOV_MAX, &got_a);
	return got_b;
}

static bool is_known(const struct sn_cma_peer *peer)
{
	return peer->known && sn_now_ns() - peer->known < SN_CMA_KNOWN_NS;
}

enum sn_cma_outcome sn_cma_read(struct sn_cma_peer *peer, const struct iovec *local, uint32_t local_count,
				const struct iovec *remote, uint32_t remote_count, uint64_t offset,
				uint64_t len, uint64_t *done, int *error, uint64_t *calls)
{
	struct iovec to[SEGMENTS], from[SEGMENTS];
	uint32_t n_to, n_from;
	uint64_t limit = SN_MIN_OF(len, SN_CMA_SLICE), cookie = 0;
	*done = 0;
	*error = sn_fault_inject(SN_FAULT_READ, &limit);
	if (sn_unlikely(*error || !peer->pid)) {
		*error = *error ? *error : ESRCH;
		return outcome_of(*error);
	}
	uint64_t want =
		slice(local, local_count, remote, remote_count, offset, limit, to, &n_to, from, &n_from);
	uint64_t look = is_known(peer) ? 0 : sizeof(cookie);
	if (look) {
		to[n_to++] = (struct iovec){&cookie, look};
		from[n_from++] = (struct iovec){(void *)(uintptr_t)peer->cookie_at, look};
	}
	ssize_t got = process_vm_readv(peer->pid, to, n_to, from, n_from, 0);
	++*calls;
	if (got < 0) {
		*error = errno;
		return outcome_of(*error);
	}
	if (sn_unlikely((uint64_t)got <
			want)) { /* a bad page in the middle: who it came from was not checked */
		*error = EFAULT;
		return SN_CMA_FAULT;
	}
	if (look) {
		if (sn_unlikely((uint64_t)got != want + look || cookie != peer->cookie)) {
			*error = ESRCH;
			return SN_CMA_REFUSED;
		}
		peer->known = sn_now_ns();
	}
	*done = want;
	return SN_CMA_OK;
}

static int identify(struct sn_cma_peer *peer, uint64_t *calls)
{
	if (is_known(peer))
		return 0;
	uint64_t cookie = 0;
	struct iovec to = {&cookie, sizeof(cookie)},
		     from = {(void *)(uintptr_t)peer->cookie_at, sizeof(cookie)};
	++*calls;
	if (!peer->pid)
		return ESRCH;
	ssize_t got = process_vm_readv(peer->pid, &to, 1, &from, 1, 0);
	if (got < 0)
		return errno == EFAULT ? ESRCH : errno;
	if (got != sizeof(cookie) || cookie != peer->cookie)
		return ESRCH;
	peer->known = sn_now_ns();
	return 0;
}

enum sn_cma_outcome sn_cma_write(struct sn_cma_peer *peer, const struct iovec *local, uint32_t local_count,
				 const struct iovec *remote, uint32_t remote_count, uint64_t offset,
				 uint64_t len, uint64_t *done, int *error, uint64_t *calls)
{
	struct iovec from[SEGMENTS], to[SEGMENTS];
	uint32_t n_to, n_from;
	uint64_t limit = SN_MIN_OF(len, SN_CMA_SLICE);
	*done = 0;
	*error = sn_fault_inject(SN_FAULT_WRITE, &limit);
	if (!*error)
		*error = identify(peer, calls);
	if (sn_unlikely(*error))
		return outcome_of(*error);
	uint64_t want =
		slice(local, local_count, remote, remote_count, offset, limit, from, &n_from, to, &n_to);
	ssize_t put = process_vm_writev(peer->pid, from, n_from, to, n_to, 0);
	++*calls;
	if (put < 0) {
		*error = errno;
		return outcome_of(*error);
	}
	*done = (uint64_t)put;
	if (sn_unlikely((uint64_t)put < want)) {
		*error = EFAULT;
		return SN_CMA_FAULT;
	}
	return SN_CMA_OK;
}
