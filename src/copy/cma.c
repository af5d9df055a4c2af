/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/cma.h"
#include "sennit/sennit.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define SEGMENTS (SN_IOV_MAX + 1) /* and the cookie; below the kernel's IOV_MAX of 1024 */
#define FEW	 4 /* segments for which little of the caller's stack is taken: coroutines have 16 KiB */
#define CHUNK	 (64u << 10) /* by way of another place, which stays in the second-level cache */
#define PAGES	 (CHUNK / SN_COPY_PAGE + 1) /* that such a part may lie in */
#define STUMBLES 3			    /* times slower, from which on that pays */
#define LEAST	 (16u << 10)		    /* bytes, likewise */

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

/* ---- where the kernel's copy stumbles ---- */

/*
 * The kernel copies by rep movsb, which on some processors is 20 times slower where it writes a little behind what it
 * reads within a page (base/copy.c): a row of a matrix that goes to the next column, say. By way of a place that lies in
 * its page as the kernel's other end does, it is two copies, of which ours does not stumble. NULL: as it is. malloc()
 * has it, for that is rare; without memory it is only slow.
 *
 * Where this process may not read or write its end, that is still the kernel's to say: it is given a byte of each
 * page of it first, of the very message.
 */
static char *other_place(const struct iovec *to, uint32_t n_to, const struct iovec *from, uint32_t n_from,
			 uint64_t want)
{
	if (sn_likely(n_to != 1 || n_from != 1 || want < LEAST ||
		      !sn_copy_trips(to->iov_base, from->iov_base)))
		return NULL;
	return sn_copy_stumbles(sn_copy_behind(to->iov_base, from->iov_base)) < STUMBLES
		       ? NULL
		       : aligned_alloc(SN_COPY_PAGE, CHUNK + SN_COPY_PAGE);
}

/* The part of it that stands for the kernel's other end. */
static struct iovec stands_for(char *place, const struct iovec *end, uint64_t at, uint64_t want)
{
	const char *there = (const char *)end->iov_base + at;
	struct iovec part;
	part.iov_base = place + (uintptr_t)there % SN_COPY_PAGE;
	part.iov_len = SN_MIN_OF(want - at, (uint64_t)CHUNK);
	return part;
}

/* A byte of each page of our end, and that of the peer's which belongs there; how many. */
static uint32_t touch(const struct iovec *own, const struct iovec *theirs, uint64_t at, uint64_t n,
		      struct iovec *out, struct iovec *out_theirs)
{
	uint32_t count = 0;
	for (uint64_t end = at + n; at < end && count < PAGES; count++) {
		char *byte = (char *)own->iov_base + at;
		out[count] = (struct iovec){byte, 1};
		out_theirs[count] = (struct iovec){(char *)theirs->iov_base + at, 1};
		at += SN_COPY_PAGE - (uintptr_t)byte % SN_COPY_PAGE;
	}
	return count;
}

/* ---- reading ---- */

/* One call. `to` and `from` have room for one more behind them, which is for the cookie. */
static enum sn_cma_outcome read_once(struct sn_cma_peer *peer, struct iovec *to, uint32_t n_to,
				     struct iovec *from, uint32_t n_from, uint64_t want, uint64_t *cookie,
				     int *error, uint64_t *calls)
{
	uint64_t look = is_known(peer) ? 0 : sizeof(*cookie);
	*cookie = 0;
	if (look) {
		to[n_to++] = (struct iovec){cookie, look};
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
		if (sn_unlikely((uint64_t)got != want + look || *cookie != peer->cookie)) {
			*error = ESRCH;
			return SN_CMA_REFUSED;
		}
		peer->known = sn_now_ns();
	}
	return SN_CMA_OK;
}

static enum sn_cma_outcome read_by_place(char *place, struct sn_cma_peer *peer, const struct iovec *to,
					 const struct iovec *from, uint64_t want, uint64_t *done, int *error,
					 uint64_t *calls)
{
	enum sn_cma_outcome outcome = SN_CMA_OK;
	while (*done < want && outcome == SN_CMA_OK) {
		struct iovec here[1 + PAGES + 1], there[1 + PAGES + 1];
		struct iovec part = stands_for(place, from, *done, want);
		uint64_t cookie, n = part.iov_len;
		here[0] = part;
		there[0] = (struct iovec){(char *)from->iov_base + *done, n};
		uint32_t bytes = touch(to, from, *done, n, here + 1, there + 1);
		outcome =
			read_once(peer, here, 1 + bytes, there, 1 + bytes, n + bytes, &cookie, error, calls);
		if (outcome != SN_CMA_OK)
			break;
		sn_copy_between((char *)to->iov_base + *done, part.iov_base, n);
		*done += n;
	}
	free(place);
	return outcome;
}

/* What one call is to do, and what comes of it. */
struct job {
	struct sn_cma_peer *peer;
	const struct iovec *local, *remote;
	uint32_t local_count, remote_count;
	uint64_t offset, limit;
	uint64_t *done;
	int *error;
	uint64_t *calls;
	uint64_t cookie;
};

/* With room for the segments of both sides, and one more. */
typedef enum sn_cma_outcome work(struct job *j, struct iovec *local, struct iovec *remote);

static __attribute__((noinline)) enum sn_cma_outcome with_many(struct job *j, work *what)
{
	struct iovec local[SEGMENTS], remote[SEGMENTS];
	return what(j, local, remote);
}

static __attribute__((noinline)) enum sn_cma_outcome with_few(struct job *j, work *what)
{
	struct iovec local[FEW + 1], remote[FEW + 1];
	return what(j, local, remote);
}

static enum sn_cma_outcome with_room(struct job *j, work *what)
{
	bool few = j->local_count <= FEW && j->remote_count <= FEW;
	return sn_likely(few) ? with_few(j, what) : with_many(j, what);
}

static enum sn_cma_outcome read_in(struct job *j, struct iovec *to, struct iovec *from)
{
	uint32_t n_to, n_from;
	uint64_t want = slice(j->local, j->local_count, j->remote, j->remote_count, j->offset, j->limit, to,
			      &n_to, from, &n_from);
	char *place = other_place(to, n_to, from, n_from, want);
	if (sn_unlikely(place))
		return read_by_place(place, j->peer, to, from, want, j->done, j->error, j->calls);
	enum sn_cma_outcome outcome =
		read_once(j->peer, to, n_to, from, n_from, want, &j->cookie, j->error, j->calls);
	*j->done = outcome == SN_CMA_OK ? want : 0;
	return outcome;
}

enum sn_cma_outcome sn_cma_read(struct sn_cma_peer *peer, const struct iovec *local, uint32_t local_count,
				const struct iovec *remote, uint32_t remote_count, uint64_t offset,
				uint64_t len, uint64_t *done, int *error, uint64_t *calls)
{
	uint64_t limit = SN_MIN_OF(len, SN_CMA_SLICE);
	struct job j = {peer, local, remote, local_count, remote_count, offset, limit, done, error, calls, 0};
	*done = 0;
	*error = sn_fault_inject(SN_FAULT_READ, &j.limit);
	if (sn_unlikely(*error || !peer->pid)) {
		*error = *error ? *error : ESRCH;
		return outcome_of(*error);
	}
	return with_room(&j, read_in);
}

/* ---- writing ---- */

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

static enum sn_cma_outcome write_once(const struct sn_cma_peer *peer, const struct iovec *from,
				      uint32_t n_from, const struct iovec *to, uint32_t n_to, uint64_t want,
				      uint64_t *done, int *error, uint64_t *calls)
{
	ssize_t put = process_vm_writev(peer->pid, from, n_from, to, n_to, 0);
	++*calls;
	if (put < 0) {
		*error = errno;
		return outcome_of(*error);
	}
	*done += (uint64_t)put;
	if (sn_unlikely((uint64_t)put < want)) {
		*error = EFAULT;
		return SN_CMA_FAULT;
	}
	return SN_CMA_OK;
}

static enum sn_cma_outcome write_by_place(char *place, const struct sn_cma_peer *peer,
					  const struct iovec *from, const struct iovec *to, uint64_t want,
					  uint64_t *done, int *error, uint64_t *calls)
{
	enum sn_cma_outcome outcome = SN_CMA_OK;
	while (*done < want && outcome == SN_CMA_OK) {
		struct iovec here = stands_for(place, to, *done, want), there, own[PAGES], theirs[PAGES];
		char seen[PAGES];
		uint64_t n = here.iov_len;
		struct iovec look = {seen, touch(from, to, *done, n, own, theirs)};
		++*calls;
		if (process_vm_readv(getpid(), &look, 1, own, look.iov_len, 0) != (ssize_t)look.iov_len) {
			*error = EFAULT;
			outcome = SN_CMA_FAULT;
			break;
		}
		sn_copy_between(here.iov_base, (const char *)from->iov_base + *done, n);
		there = (struct iovec){(char *)to->iov_base + *done, n};
		outcome = write_once(peer, &here, 1, &there, 1, n, done, error, calls);
	}
	free(place);
	return outcome;
}

static enum sn_cma_outcome write_in(struct job *j, struct iovec *from, struct iovec *to)
{
	uint32_t n_to, n_from;
	uint64_t want = slice(j->local, j->local_count, j->remote, j->remote_count, j->offset, j->limit, from,
			      &n_from, to, &n_to);
	char *place = other_place(to, n_to, from, n_from, want);
	if (sn_unlikely(place))
		return write_by_place(place, j->peer, from, to, want, j->done, j->error, j->calls);
	return write_once(j->peer, from, n_from, to, n_to, want, j->done, j->error, j->calls);
}

enum sn_cma_outcome sn_cma_write(struct sn_cma_peer *peer, const struct iovec *local, uint32_t local_count,
				 const struct iovec *remote, uint32_t remote_count, uint64_t offset,
				 uint64_t len, uint64_t *done, int *error, uint64_t *calls)
{
	uint64_t limit = SN_MIN_OF(len, SN_CMA_SLICE);
	struct job j = {peer, local, remote, local_count, remote_count, offset, limit, done, error, calls, 0};
	*done = 0;
	*error = sn_fault_inject(SN_FAULT_WRITE, &j.limit);
	if (!*error)
		*error = identify(peer, calls);
	if (sn_unlikely(*error))
		return outcome_of(*error);
	return with_room(&j, write_in);
}
