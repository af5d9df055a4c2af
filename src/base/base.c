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
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

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

/*
 * Lines that another core has are where copies between processes go. A loop of stores fetches each line before it
 * writes it, which takes two to three times as long as the copy if that core shares no cache with this one; rep movsb
 * does not fetch lines that it writes as a whole. The C library takes it or not by thresholds of its own: up to 2.38
 * not beyond the size of the second-level cache on AMD processors, and from 2.39 on never there.
 *
 * Where it writes up to 15 bytes behind what it reads within a page, on AMD since Zen 3 it is some 20 times slower,
 * in the C library and the kernel, too (bug 30994 of glibc): 2.1 GB/s in place of 50, measured on Zen 4; rep movsq
 * 18, a loop of loads and stores 41. So a loop it is, wherever that is so on any processor. Sanitizers do not see
 * what these instructions read; and places that overlap are left to the C library: what is wrong of a program that
 * sends to itself comes to no harm by it here.
 */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                \
	!defined(SANITIZED)
static bool strings; /* the processor says that these instructions are fast */

static void __attribute__((constructor)) look_for_strings(void)
{
	uint32_t a, b, c, d;
	strings = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 9;
}

static inline void copy_by_strings(void *to, const void *from, size_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static void copy_by_lines(char *to, const char *from, size_t n)
{
	for (; n >= 64; n -= 64, to += 64, from += 64) {
		__m128i v[4];
		for (int k = 0; k < 4; k++)
			v[k] = _mm_loadu_si128((const __m128i *)(const void *)from + k);
		for (int k = 0; k < 4; k++)
			_mm_storeu_si128((__m128i *)(void *)to + k, v[k]);
	}
	memcpy(to, from, n);
}

void sn_copy_strings(void *to, const void *from, size_t n)
{
	bool apart = (uintptr_t)to - (uintptr_t)from >= n;
	if (sn_unlikely(apart && sn_copy_trips(to, from)))
		copy_by_lines(to, from, n);
	else if (sn_likely(apart && strings && n >= SN_COPY_LONG))
		copy_by_strings(to, from, n);
	else
		memcpy(to, from, n);
}

/* Once, in 10 us: the least of several, for this core may be taken away in between. */
static uint64_t strings_take(char *to, const char *from, size_t n)
{
	uint64_t least = UINT64_MAX;
	for (int k = 0; k < 6; k++) {
		uint64_t start = sn_now_ns();
		copy_by_strings(to, from, n);
		uint64_t took = sn_now_ns() - start;
		least = k > 0 && took < least ? took : least;
	}
	return least + 1;
}

unsigned sn_copy_stumbles(void)
{
	static _Atomic unsigned known; /* threads that ask at once measure the same */
	static char area[2][8192] __attribute__((aligned(4096)));
	unsigned times = atomic_load_explicit(&known, memory_order_relaxed);
	if (times)
		return times;
	times = 1;
	if (strings) {
		uint64_t usual = strings_take(area[0] + 1024, area[1], 4096);
		times = (unsigned)SN_MAX_OF(strings_take(area[0] + 8, area[1], 4096) / usual, (uint64_t)1);
	}
	atomic_store_explicit(&known, times, memory_order_relaxed);
	return times;
}
#else
void sn_copy_strings(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
}

unsigned sn_copy_stumbles(void)
{
	return 1;
}
#endif

/*
 * Out of lines that another core has written. rep movsb begins slowly and asks for few of them at a time; what a loop
 * asks for depends on the processor. On an AMD one it is ahead where the lines that it writes are there already (else
 * 4 KiB took 1.16 times as long), not for more than two pages, and with the widest loads, as those ask for a line
 * each. An Intel one has a lower clock for some time after such loads, and all that the process does with it: 4 KiB
 * through the ring took 1.15 times as long, 8 KiB 1.2 times. There it is narrower loads with the lines asked for
 * ahead, read and to be written, of any length: 8 to 32 KiB to where nothing is in the cache took 0.73 to 0.86 of rep
 * movsb's time, to where it is 0.93 to 0.98.
 */
#define WIDE_MOST  8192u
#define LOOP_STEP  256u
#define LOOP_AHEAD 1024u

#ifdef __x86_64__
static bool wide, loops;

static void __attribute__((constructor)) look_for_wide_loads(void)
{
	__builtin_cpu_init();
	loops = __builtin_cpu_is("intel") && __builtin_cpu_supports("avx2");
	wide = !loops && __builtin_cpu_supports("avx512f");
}

static void __attribute__((target("avx512f"))) copy_wide(char *to, const char *from, size_t n)
{
	for (; n >= LOOP_STEP; n -= LOOP_STEP, to += LOOP_STEP, from += LOOP_STEP) {
		__m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + 64),
			c = _mm512_loadu_si512(from + 128), d = _mm512_loadu_si512(from + 192);
		_mm512_storeu_si512(to, a);
		_mm512_storeu_si512(to + 64, b);
		_mm512_storeu_si512(to + 128, c);
		_mm512_storeu_si512(to + 192, d);
	}
	memcpy(to, from, n);
}

static inline void ask(char *to, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i += SN_LINE) {
		__builtin_prefetch(from + i);
		sn_line_own(to + i);
	}
}

/* Each by its name: of an array gcc 12 makes halves. */
static inline __attribute__((target("avx2"))) void copy_two_lines(char *to, const char *from)
{
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)from),
		b = _mm256_loadu_si256((const __m256i *)(const void *)from + 1),
		c = _mm256_loadu_si256((const __m256i *)(const void *)from + 2),
		d = _mm256_loadu_si256((const __m256i *)(const void *)from + 3);
	_mm256_storeu_si256((__m256i *)(void *)to, a);
	_mm256_storeu_si256((__m256i *)(void *)to + 1, b);
	_mm256_storeu_si256((__m256i *)(void *)to + 2, c);
	_mm256_storeu_si256((__m256i *)(void *)to + 3, d);
}

static void __attribute__((target("avx2"))) copy_ahead(char *to, const char *from, size_t n)
{
	ask(to, from, SN_MIN_OF(n, (size_t)LOOP_AHEAD));
	for (; n >= LOOP_STEP; n -= LOOP_STEP, to += LOOP_STEP, from += LOOP_STEP) {
		if (n > LOOP_AHEAD)
			ask(to + LOOP_AHEAD, from + LOOP_AHEAD, SN_MIN_OF(n - LOOP_AHEAD, (size_t)LOOP_STEP));
		copy_two_lines(to, from);
		copy_two_lines(to + LOOP_STEP / 2, from + LOOP_STEP / 2);
	}
	memcpy(to, from, n);
}

bool sn_copy_asks_ahead(void)
{
	return loops;
}

void sn_copy_home(void *to, const void *from, size_t n, bool again)
{
	if (sn_likely(loops && n >= SN_COPY_MEDIUM))
		copy_ahead(to, from, n);
	else if (again && wide && n >= SN_COPY_MEDIUM && n <= WIDE_MOST)
		copy_wide(to, from, n);
	else
		sn_copy_between(to, from, n);
}
#else
bool sn_copy_asks_ahead(void)
{
	return false;
}

void sn_copy_home(void *to, const void *from, size_t n, bool again)
{
	(void)again;
	sn_copy_between(to, from, n);
}
#endif

/*
 * Each page's lines are asked for before it is written, as rep movsb asks for few at a time and stops at the end of a page.
 */
void sn_copy_away(void *to, const void *from, size_t n)
{
	while (n) {
		size_t piece = SN_MIN_OF(SN_COPY_PAGE - (uintptr_t)to % SN_COPY_PAGE, n);
		for (size_t i = 0; i < piece; i += SN_LINE)
			sn_line_own((const char *)to + i);
		sn_copy_between(to, from, piece);
		to = (char *)to + piece;
		from = (const char *)from + piece;
		n -= piece;
	}
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
