/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, locks, byte copies between segment lists, random bytes. */
#include "base/base.h"
#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t sn_now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * The lock is Drepper's three-state mutex ("Futexes are tricky", 2011): 0 free, 1 held, 2 held and perhaps waited for.
 * Whoever goes to sleep has written 2 first, and keeps writing 2 when it takes the lock after a sleep, since others may
 * still sleep; so an unlock that finds 1 needs no system call, and no wake-up is lost. Spinning covers the usual hold
 * time of about a microsecond; a holder that lost its core is waited for asleep.
 */
#define LOCK_SPINS 200

void sn_lock_slow(struct sn_lock *l)
{
	for (int i = 0; i < LOCK_SPINS; i++) {
		uint32_t word = atomic_load_explicit(&l->word, memory_order_relaxed);
		if (word == 2)
			break; /* somebody sleeps already: queue behind rather than barge in */
		if (word == 0 && atomic_compare_exchange_weak_explicit(
					 &l->word, &word, 1, memory_order_acquire, memory_order_relaxed))
			return;
		sn_cpu_relax();
	}
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void sn_unlock_slow(struct sn_lock *l)
{
	syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The owner met a visitor: out again, wait until it has gone, and try anew. */
void sn_lock_visited(struct sn_lock *l)
{
	do {
		atomic_store_explicit(&l->inside, 0, memory_order_release);
		for (int i = 0; i < LOCK_SPINS && atomic_load_explicit(&l->visitor, memory_order_relaxed);
		     i++)
			sn_cpu_relax();
		uint32_t one = 1;
		if (atomic_load_explicit(&l->visitor, memory_order_relaxed) == 2 ||
		    atomic_compare_exchange_strong(&l->visitor, &one, 2))
			syscall(SYS_futex, &l->visitor, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
		atomic_store_explicit(&l->inside, 1, memory_order_seq_cst);
	} while (atomic_load_explicit(&l->visitor, memory_order_acquire));
}

bool sn_lock_visit(struct sn_lock *l)
{
	uint32_t is_free = 0;
	if (l->enabled)
		return atomic_compare_exchange_strong_explicit(&l->word, &is_free, 1, memory_order_acquire,
							       memory_order_relaxed);
	if (!l->biased || atomic_load_explicit(&l->inside, memory_order_relaxed))
		return false;
	if (!atomic_compare_exchange_strong(&l->visitor, &is_free, 1)) /* a guest */
		return false;
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	if (!atomic_load_explicit(&l->inside, memory_order_acquire))
		return true;
	sn_unlock_visit(l);
	return false;
}

/* Once it has said that it is there the owner comes in no more, and who is inside leaves at the end of his call. */
void sn_lock_guest(struct sn_lock *l)
{
	uint32_t is_free = 0;
	if (!l->biased) {
		sn_lock(l);
		return;
	}
	for (; !atomic_compare_exchange_strong(&l->visitor, &is_free, 1); is_free = 0)
		sched_yield();
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	while (atomic_load_explicit(&l->inside, memory_order_acquire))
		sched_yield();
}

void sn_unlock_visit(struct sn_lock *l)
{
	if (l->enabled)
		sn_unlock(l);
	else if (atomic_exchange_explicit(&l->visitor, 0, memory_order_release) == 2)
		syscall(SYS_futex, &l->visitor, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void sn_lock_share(struct sn_lock *l)
{
#ifdef __SANITIZE_THREAD__
	l->enabled = true; /* the sanitizer does not know membarrier */
#else
	l->biased = !l->enabled && !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	l->enabled |= !l->biased;
#endif
}

uint64_t sn_iov_len(const struct iovec *iov, uint32_t count)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < count; i++)
		if (__builtin_add_overflow(sum, (uint64_t)iov[i].iov_len, &sum))
			return UINT64_MAX;
	return sum;
}

void sn_iov_read(void *dst, const struct iovec *iov, uint32_t count, uint64_t offset, uint64_t len)
{
	char *to = dst;
	for (uint32_t i = 0; i < count && len; i++) {
		if (offset >= iov[i].iov_len) {
			offset -= iov[i].iov_len;
			continue;
		}
		uint64_t n = SN_MIN_OF(iov[i].iov_len - offset, len);
		sn_copy_between(to, (const char *)iov[i].iov_base + offset, n);
		to += n;
		len -= n;
		offset = 0;
	}
}

void sn_iov_write(const struct iovec *iov, uint32_t count, uint64_t offset, const void *src, uint64_t len)
{
	const char *from = src;
	for (uint32_t i = 0; i < count && len; i++) {
		if (offset >= iov[i].iov_len) {
			offset -= iov[i].iov_len;
			continue;
		}
		uint64_t n = SN_MIN_OF(iov[i].iov_len - offset, len);
		sn_copy_between((char *)iov[i].iov_base + offset, from, n);
		from += n;
		len -= n;
		offset = 0;
	}
}

uint32_t sn_iov_slice(const struct iovec *iov, uint32_t count, uint64_t offset, uint64_t len,
		      struct iovec *out, uint32_t max, uint64_t *covered)
{
	uint32_t pieces = 0;
	*covered = 0;
	for (uint32_t i = 0; i < count && len && pieces < max; i++) {
		if (offset >= iov[i].iov_len) {
			offset -= iov[i].iov_len;
			continue;
		}
		uint64_t n = SN_MIN_OF(iov[i].iov_len - offset, len);
		out[pieces].iov_base = (char *)iov[i].iov_base + offset;
		out[pieces++].iov_len = n;
		*covered += n;
		len -= n;
		offset = 0;
	}
	return pieces;
}

/* The system call fails only on kernels before 3.17 or under a seccomp filter that does not know it. */
static bool random_from_device(char *at, size_t len)
{
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (len) {
		ssize_t n = read(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		at += n;
		len -= (size_t)n;
	}
	close(fd);
	return !len;
}

void sn_random(void *buf, size_t len)
{
	char *at = buf;
	while (len) {
		ssize_t n = getrandom(at, len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			if (random_from_device(at, len))
				return;
			/* Keys made of anything else would be guessable. */
			sn_log(SN_LOG_ERROR, "neither getrandom nor /dev/urandom works: %s", strerror(errno));
			abort();
		}
		at += n;
		len -= (size_t)n;
	}
}
