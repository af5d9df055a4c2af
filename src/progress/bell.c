/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/bell.h"
#include "base/log.h"
#include "progress/memfd.h"
#include "progress/slice.h"
#include "progress/spread.h"
#include "sennit/sennit.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
	pthread_mutex_t
		mutex; /* opening; and waiters with bell->sleeping, so that the last to leave may clear it */
	struct sn_bell *_Atomic bell;
	unsigned waiters;
	int fd;
	bool registered;     /* this process takes part in others' membarriers */
	_Atomic bool fenced; /* its senders fence */
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static long membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

bool sn_bell_tell_cpus(uint64_t cpus[SN_BELL_CPUS / 64])
{
	memset(cpus, 0, SN_BELL_CPUS / 8);
	if (sched_getaffinity(0, SN_BELL_CPUS / 8, (cpu_set_t *)(void *)cpus))
		return false;
	struct sn_bell *bell = atomic_load_explicit(&own.bell, memory_order_acquire);
	for (unsigned i = 0; bell && i < SN_BELL_CPUS / 64; i++)
		atomic_store_explicit(&bell->cpus[i], cpus[i], memory_order_relaxed);
	return true;
}

int sn_bell_open(void)
{
	int rc = 0;
	pthread_mutex_lock(&own.mutex);
	if (!atomic_load_explicit(&own.bell, memory_order_relaxed)) {
		void *page;
		own.fd = sn_memfd_new("sennit-bell", SN_BELL_BYTES, &page);
		if (own.fd < 0) {
			rc = own.fd;
			own.fd = -1;
		} else {
			struct sn_bell *bell = page;
			uint64_t id;
			sn_random(&id, sizeof(id));
			atomic_store_explicit(&bell->id, id, memory_order_relaxed);
			bell->group = sn_topo()->group;
			own.registered = !membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) &&
					 !membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
			if (!own.registered)
				sn_info("membarrier is refused (%s): every message costs a fence",
					strerror(errno));
			atomic_store_explicit(&bell->need_fence, !own.registered, memory_order_relaxed);
			atomic_store_explicit(&own.bell, bell, memory_order_release);
			uint64_t unused[SN_BELL_CPUS / 64];
			sn_bell_tell_cpus(unused);
		}
	}
	pthread_mutex_unlock(&own.mutex);
	return rc;
}

int sn_bell_fd(void)
{
	return own.fd;
}

struct sn_bell *sn_bell_own(void)
{
	return atomic_load_explicit(&own.bell, memory_order_acquire);
}

bool sn_bell_shares(const uint64_t mine[SN_BELL_CPUS / 64], const struct sn_bell *theirs)
{
	uint64_t both = 0, known = 0;
	for (unsigned i = 0; theirs && i < SN_BELL_CPUS / 64; i++) {
		uint64_t its = atomic_load_explicit(&theirs->cpus[i], memory_order_relaxed);
		known |= its;
		both |= its & mine[i];
	}
	if (known)
		return both != 0;
	int count = 0;
	for (unsigned i = 0; i < SN_BELL_CPUS / 64; i++)
		count += __builtin_popcountll(mine[i]);
	return count >= sn_topo()->cpus;
}

bool sn_bell_rival(const struct sn_bell *theirs)
{
	uint64_t mine[SN_BELL_CPUS / 64];
	return !sn_bell_tell_cpus(mine) || sn_bell_shares(mine, theirs);
}

void sn_bell_before_fork(void)
{
	pthread_mutex_lock(&own.mutex);
}

void sn_bell_after_fork(bool child)
{
	if (child) { /* the page is not mapped here (MADV_DONTFORK), and threads that waited do not exist */
		if (own.fd >= 0)
			close(own.fd);
		own.fd = -1;
		own.waiters = 0;
		own.registered = false;
		atomic_store(&own.fenced, false);
		atomic_store_explicit(&own.bell, NULL, memory_order_relaxed);
		sn_spread_after_fork();
		sn_slice_usual();
	}
	pthread_mutex_unlock(&own.mutex);
}

struct sn_bell *sn_bell_map(int fd)
{
	struct sn_bell *bell = sn_memfd_map(fd, SN_BELL_BYTES);
	if (bell)
		sn_spread_see(bell);
	return bell;
}

void sn_bell_unmap(struct sn_bell *bell)
{
	if (!bell)
		return;
	sn_spread_forget(bell);
	munmap(bell, SN_BELL_BYTES);
}

bool sn_bell_must_fence(const struct sn_bell *theirs)
{
	return !own.registered || atomic_load_explicit(&theirs->need_fence, memory_order_relaxed);
}

void sn_bell_fence_always(void)
{
	struct sn_bell *bell = atomic_load_explicit(&own.bell, memory_order_acquire);
	if (!bell || !own.registered || atomic_load(&own.fenced))
		return;
	atomic_store_explicit(&bell->need_fence, 1, memory_order_seq_cst);
	if (!membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED))
		atomic_store(&own.fenced, true);
}

void sn_bell_fence(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

static void futex_wake(struct sn_bell *bell)
{
	syscall(SYS_futex, &bell->seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/*
 * Whoever takes the flag down rings for all. A waiter that puts it up again after that has its own snapshot of seq; one
 * that had put it up before took the snapshot before this increment, so that its futex_wait returns at once.
 */
int sn_bell_wake(struct sn_bell *bell)
{
	if (!atomic_exchange_explicit(&bell->sleeping, 0, memory_order_seq_cst))
		return 0;
	atomic_fetch_add_explicit(&bell->seq, 1, memory_order_seq_cst);
	futex_wake(bell);
	return 1;
}

bool sn_bell_wake_self(void)
{
	struct sn_bell *bell = atomic_load_explicit(&own.bell, memory_order_acquire);
	if (!bell)
		return false;
	/* Within the process there is no membarrier to rely on (the waiter's own fence suffices only against senders):
	 * count up in any case, so that a waiter between its last look and its sleep does not fall asleep. */
	atomic_fetch_add_explicit(&bell->seq, 1, memory_order_seq_cst);
	if (!atomic_exchange_explicit(&bell->sleeping, 0, memory_order_seq_cst))
		return false;
	/*
	 * And once more: the flag may be that of one whose snapshot is younger than that, and who has not slept yet.
	 * With the flag down nobody would wake him for the next message (tests/model/self.pml).
	 */
	atomic_fetch_add_explicit(&bell->seq, 1, memory_order_seq_cst);
	futex_wake(bell);
	return true;
}

void sn_bell_ring_self(void)
{
	sn_bell_wake_self();
}

/* ---- the guard ---- */

/* As with the bell, whoever takes the guard down rings for all; only if the thread sleeps that takes the kernel. */
int sn_bell_wake_guard(struct sn_bell *bell)
{
	uint32_t guard = atomic_exchange_explicit(&bell->guard, SN_GUARD_DOWN, memory_order_seq_cst);
	if (guard == SN_GUARD_DOWN)
		return 0;
	atomic_fetch_add_explicit(&bell->guard_seq, 1, memory_order_seq_cst);
	if (guard == SN_GUARD_POLLS)
		return 0;
	syscall(SYS_futex, &bell->guard_seq, FUTEX_WAKE, 1, NULL, NULL, 0);
	return 1;
}

void sn_bell_guard_ring(void)
{
	struct sn_bell *bell = atomic_load_explicit(&own.bell, memory_order_acquire);
	if (!bell)
		return;
	atomic_store_explicit(&bell->guard, SN_GUARD_SLEEPS, memory_order_seq_cst);
	sn_bell_wake_guard(bell);
}

void sn_bell_guard_set(bool raise)
{
	struct sn_bell *bell = atomic_load_explicit(&own.bell, memory_order_acquire);
	if (bell && atomic_load_explicit(&bell->guard, memory_order_relaxed) != raise)
		atomic_store_explicit(&bell->guard, raise, memory_order_relaxed);
}

bool sn_bell_guarded(void)
{
	struct sn_bell *bell = atomic_load_explicit(&own.bell, memory_order_acquire);
	return bell && atomic_load_explicit(&bell->guard, memory_order_relaxed);
}

static bool rung(const struct sn_bell *bell, uint32_t seq)
{
	return atomic_load_explicit(&bell->guard_seq, memory_order_acquire) != seq;
}

/* Until rung. False: linger has had enough, and the guard is up for a sleep. */
static bool watch(struct sn_bell *bell, uint32_t seq, sn_bell_linger linger, void *arg)
{
	uint32_t polls = SN_GUARD_POLLS;
	while (!rung(bell, seq))
		if (!linger(arg, &bell->guard_seq,
			    seq)) /* If not, a ringer has it down and is about to count up. */
			return !atomic_compare_exchange_strong_explicit(&bell->guard, &polls, SN_GUARD_SLEEPS,
									memory_order_seq_cst,
									memory_order_seq_cst);
	return true;
}

enum sn_rung sn_bell_guard(bool raise, int (*poll)(void *arg), sn_bell_linger linger, void *arg,
			   unsigned timeout_us)
{
	struct timespec t = {timeout_us / 1000000, (long)(timeout_us % 1000000) * 1000};
	struct sn_bell *bell = atomic_load_explicit(&own.bell, memory_order_acquire);
	if (!bell) {
		nanosleep(&t, NULL);
		return SN_RUNG_NOT;
	}
	uint32_t seq = atomic_load_explicit(&bell->guard_seq, memory_order_seq_cst);
	if (raise) {
		uint32_t guard = linger ? SN_GUARD_POLLS : SN_GUARD_SLEEPS;
		atomic_store_explicit(&bell->guard, guard, memory_order_seq_cst);
		if (own.registered)
			membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
		if (poll(arg))
			return SN_RUNG_FOUND;
		if (linger && watch(bell, seq, linger, arg))
			return SN_RUNG_AWAKE;
	}
	syscall(SYS_futex, &bell->guard_seq, FUTEX_WAIT, seq, &t, NULL, 0);
	return rung(bell, seq) ? SN_RUNG_ASLEEP : SN_RUNG_NOT;
}

static struct sn_bell *enter(uint32_t *seq)
{
	struct sn_bell *bell = atomic_load_explicit(&own.bell, memory_order_acquire);
	if (!bell)
		return NULL;
	pthread_mutex_lock(&own.mutex);
	own.waiters++;
	*seq = atomic_load_explicit(&bell->seq, memory_order_seq_cst);
	atomic_store_explicit(&bell->sleeping, 1, memory_order_seq_cst);
	pthread_mutex_unlock(&own.mutex);
	if (!own.registered || atomic_load_explicit(&own.fenced, memory_order_relaxed))
		sn_bell_fence();
	else
		membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
	return bell;
}

static void leave(struct sn_bell *bell)
{
	pthread_mutex_lock(&own.mutex);
	if (--own.waiters == 0)
		atomic_store_explicit(&bell->sleeping, 0, memory_order_seq_cst);
	else /* a ringer took the flag down for all; the others are awake, or about to be, and need no flag */
		atomic_store_explicit(&bell->sleeping, 1, memory_order_seq_cst);
	pthread_mutex_unlock(&own.mutex);
}

int sn_bell_wait(int (*poll)(void *arg), void *arg, unsigned timeout_us)
{
	uint32_t seq;
	struct timespec t = {timeout_us / 1000000, (long)(timeout_us % 1000000) * 1000};
	struct sn_bell *bell = enter(&seq);
	int found = poll(arg);
	if (!found) {
		if (bell)
			syscall(SYS_futex, &bell->seq, FUTEX_WAIT, seq, &t, NULL, 0);
		else /* no rail that could ring: just sleep */
			nanosleep(&t, NULL);
	}
	if (bell)
		leave(bell);
	return found;
}
