/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring what copies between two cores cost. See tune.h for what it is for.
 *
 * Two threads, each bound to a core of its own, stand for two processes: what a copy costs depends on cores, caches and
 * page tables, and the kernel walks the pages of process_vm_readv in the same way when the other process is this one.
 * One thread is the sender; the other waits for its word. What is timed runs from the sender's first store of the message
 * until its word that the receiver has it, so each figure holds one round trip of a line, as a message would. Before each
 * round the sender writes the source, untimed: a message is fresh in its sender's cache.
 *
 * Budget: each figure is the median of at most REPEAT_MAX rounds or REPEAT_NS; all of it half a second. Where other
 * programs use the cores each of the tens of thousands of rounds may cost a slice of the scheduler's, so the
 * measurement is given up after PATIENCE_NS: the first job on a busy machine is not to wait for minutes.
 */
#include "base/base.h"
#include "base/log.h"
#include "copy/bypass.h"
#include "copy/tune.h"
#include "sennit/sennit.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES    262144 /* of a stream; an eager message has a quarter */
#define LARGEST	      ((size_t)SN_TUNE_SMALLEST << (SN_TUNE_SIZES - 1))
#define STREAM_SIZE   10 /* the size at which chunks are compared: 1 MiB */
#define LARGEST_CHUNK ((size_t)4096 << (SN_TUNE_CHUNKS - 1))
#define LINE_ROUNDS   20000
#define REPEAT_MAX    31
#define REPEAT_MIN    5
#define REPEAT_NS     3000000
#define BYPASS_LEAST  65536 /* the second-level cache takes shorter ones, whatever their turn says */
#define LOOKS	      1024  /* at a word, before one at the clock */
#define PATIENCE_NS   UINT64_C(2000000000)
#define BUSY_LEAST    90  /* percent of the time that both threads must have run */
#define LINE_AGREE    1.6 /* before and after may differ by this factor */

struct word { /* a counter in a line of its own */
	_Atomic uint64_t n;
	uint8_t rest[SN_LINE - sizeof(uint64_t)];
};

struct bench {
	struct word go, done, filled, emptied;
	uint8_t *from, *to, *ring;
	size_t size, chunk;
	enum sn_tune_way way;
	_Atomic bool stop;    /* read under the writer by a receiver who has been given up for late */
	_Atomic bool refused; /* the kernel does not copy */
	int cpu[2];
	bool bound[2];
	int64_t ran; /* the receiver's processor time */
	uint64_t round;
	uint64_t end;	   /* of our patience */
	_Atomic bool late; /* it has ended: nobody waits any more, and what was measured is thrown away */
};

static bool bind_to(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

static int64_t thread_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline void await(struct bench *b, const struct word *w, uint64_t n)
{
	unsigned looks = 0;
	while (atomic_load_explicit(&w->n, memory_order_acquire) < n && !b->late) {
		sn_cpu_relax();
		if (++looks % LOOKS == 0 && sn_now_ns() > b->end)
			b->late = true;
	}
}

static inline void say(struct word *w, uint64_t n)
{
	atomic_store_explicit(&w->n, n, memory_order_release);
}

/* ---- the receiver ---- */

static void copy_kernel(struct bench *b)
{
	for (size_t done = 0; done < b->size;) {
		struct iovec local = {b->to + done, b->size - done},
			     remote = {b->from + done, b->size - done};
		ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
		if (n <= 0) {
			b->refused = true;
			return;
		}
		done += (size_t)n;
	}
}

static void drain(struct bench *b)
{
	uint64_t at = atomic_load_explicit(&b->emptied.n, memory_order_relaxed);
	for (size_t done = 0; done < b->size;) {
		size_t n = SN_MIN_OF(b->chunk, b->size - done);
		await(b, &b->filled, at + 1);
		if (b->late)
			return;
		memcpy(b->to + done, b->ring + at * b->chunk % RING_BYTES, n);
		say(&b->emptied, ++at);
		done += n;
	}
}

static void *receiver(void *arg)
{
	struct bench *b = arg;
	b->bound[1] = bind_to(b->cpu[1]);
	int64_t start = thread_ns();
	for (uint64_t round = 1;; round++) {
		await(b, &b->go, round);
		if (b->late || b->stop) /* late ends the wait for the round that stop belongs to */
			break;
		switch (b->way) {
		case SN_TUNE_RING: memcpy(b->to, b->ring, b->size); break;
		case SN_TUNE_STREAM: drain(b); break;
		case SN_TUNE_KERNEL: copy_kernel(b); break;
		case SN_TUNE_MAPPED: memcpy(b->to, b->from, b->size); break;
		default: sn_copy_bypass(b->to, b->from, b->size); break;
		}
		say(&b->done, round);
	}
	b->ran = thread_ns() - start;
	return NULL;
}

/* ---- the sender ---- */

static void fill(struct bench *b)
{
	uint64_t at = atomic_load_explicit(&b->filled.n, memory_order_relaxed), room = RING_BYTES / b->chunk;
	for (size_t done = 0; done < b->size;) {
		size_t n = SN_MIN_OF(b->chunk, b->size - done);
		if (at >= room)
			await(b, &b->emptied, at - room + 1);
		if (b->late)
			return;
		memcpy(b->ring + at * b->chunk % RING_BYTES, b->from + done, n);
		say(&b->filled, ++at);
		done += n;
	}
}

/* One message; nanoseconds. */
static int64_t message(struct bench *b)
{
	uint64_t start = sn_now_ns();
	if (b->way == SN_TUNE_RING)
		memcpy(b->ring, b->from, b->size);
	say(&b->go, ++b->round);
	if (b->way == SN_TUNE_STREAM)
		fill(b);
	await(b, &b->done, b->round);
	return (int64_t)(sn_now_ns() - start);
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static int64_t measure(struct bench *b, enum sn_tune_way way, size_t size, size_t chunk)
{
	int64_t took[REPEAT_MAX], sum = 0;
	int n = 0;
	if (b->late) /* the receiver may still be at the last message */
		return 1;
	b->way = way;
	b->size = size;
	b->chunk = chunk;
	message(b); /* pages and caches warm */
	while (!b->late && n < REPEAT_MAX && (n < REPEAT_MIN || sum < REPEAT_NS)) {
		memset(b->from, (int)b->round, size);
		took[n] = message(b);
		sum += took[n++];
	}
	qsort(took, (size_t)n, sizeof(took[0]), by_value);
	return n ? SN_MAX_OF(took[n / 2], 1) : 1;
}

/* One line, one way. */
static int64_t line_ns(struct bench *b)
{
	if (b->late)
		return 1;
	b->way = SN_TUNE_MAPPED;
	b->size = 0;
	uint64_t start = sn_now_ns();
	for (int i = 0; i < LINE_ROUNDS && !b->late; i++) {
		say(&b->go, ++b->round);
		await(b, &b->done, b->round);
	}
	return SN_MAX_OF((int64_t)(sn_now_ns() - start) / (2 * LINE_ROUNDS), 1);
}

/* ---- thresholds ---- */

/* From the smallest size at which, and above which, way `a` beats way `b`. */
static int64_t wins_from(const struct sn_tune *t, enum sn_tune_way a, enum sn_tune_way b)
{
	int64_t from = SN_TUNE_NEVER;
	for (int i = SN_TUNE_SIZES - 1; i >= 0; i--) {
		if (!t->ns[a][i] || !t->ns[b][i])
			continue;
		if (t->ns[a][i] >= t->ns[b][i])
			break;
		from = (int64_t)SN_TUNE_SMALLEST << i;
	}
	return from;
}

/*
 * How much dearer a message is by the ring than announced, if it is; or the other way round. In the ring a longer one goes in parts, as
 * a stream does. An announcement and its answer cost a round trip of a few lines.
 */
static double loss(const struct sn_tune *t, int i, bool ring)
{
	int64_t here = t->ns[SN_TUNE_RING][i], stream = t->ns[SN_TUNE_STREAM][i],
		kernel = t->ns[SN_TUNE_KERNEL][i];
	int64_t other = (kernel ? SN_MIN_OF(kernel, stream) : stream) + 4 * t->line_ns;
	if ((int64_t)SN_TUNE_SMALLEST << i >= SN_TUNE_PARTS)
		here = SN_MIN_OF(here, stream);
	double ratio = (double)here / (double)other;
	return SN_MAX_OF(ring ? ratio - 1 : 1 / ratio - 1, 0.0);
}

/*
 * The size up to which the ring, and from which announcing, loses least: one odd measurement in the midst decides nothing. If
 * it did, the first some hundred messages of each size would go a way that takes several times as long, until the laps
 * (lap.h) have shown that.
 */
int64_t sn_tune_eager(const struct sn_tune *t)
{
	double least = 0, lost = 0;
	int64_t eager = SN_TUNE_SMALLEST;
	for (int i = 1; i < SN_TUNE_SIZES && t->ns[SN_TUNE_RING][i]; i++) {
		lost += loss(t, i, true) - loss(t, i, false);
		if (lost > least)
			continue;
		least = lost;
		eager = (int64_t)SN_TUNE_SMALLEST << i;
	}
	return eager;
}

static void conclude(struct sn_tune *t)
{
	int best = 0;
	for (int i = 1; i < SN_TUNE_CHUNKS; i++)
		if (t->chunk_ns[i] < t->chunk_ns[best])
			best = i;
	t->chunk = INT64_C(4096) << best;
	t->single_copy = wins_from(t, SN_TUNE_KERNEL, SN_TUNE_STREAM);
	t->nontemporal = SN_MAX_OF(wins_from(t, SN_TUNE_BYPASS, SN_TUNE_MAPPED), BYPASS_LEAST);
	t->eager = sn_tune_eager(t);
}

/* ---- all of it ---- */

static int two_cpus(int cpu[2])
{
	cpu_set_t set;
	int n = 0;
	if (sched_getaffinity(0, sizeof(set), &set))
		return 0;
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET((unsigned)i, &set))
			cpu[n++] = i;
	return SN_MIN_OF(n, sn_topo_cpus_allowed());
}

static void curves(struct bench *b, struct sn_tune *t)
{
	for (int i = 0; i < SN_TUNE_CHUNKS; i++)
		t->chunk_ns[i] = measure(b, SN_TUNE_STREAM, (size_t)SN_TUNE_SMALLEST << STREAM_SIZE,
					 (size_t)4096 << i);
	int best = 0;
	for (int i = 1; i < SN_TUNE_CHUNKS; i++)
		if (t->chunk_ns[i] < t->chunk_ns[best])
			best = i;
	for (int i = 0; i < SN_TUNE_SIZES; i++) {
		size_t size = (size_t)SN_TUNE_SMALLEST << i;
		for (int way = 0; way < SN_TUNE_WAYS; way++) {
			if (way == SN_TUNE_RING && size > RING_BYTES / 4)
				continue;
			if (way == SN_TUNE_KERNEL && b->refused)
				continue;
			if (way < SN_TUNE_MAPPED && i >= SN_TUNE_COMMON)
				continue;
			t->ns[way][i] = measure(b, (enum sn_tune_way)way, size, (size_t)4096 << best);
		}
	}
	if (b->refused)
		memset(t->ns[SN_TUNE_KERNEL], 0, sizeof(t->ns[SN_TUNE_KERNEL]));
}

static int judge(const struct bench *b, int64_t wall, int64_t ran, int64_t before, int64_t after)
{
	if (!b->bound[0] || !b->bound[1])
		return sn_fail(SN_ERR_UNSUPPORTED, "threads cannot be bound to cores here");
	if (b->late) /* which may have been so before the first curve: no share of so short a time */
		return sn_fail(SN_ERR_AGAIN, "other programs use the cores: it took longer than %lld ms",
			       (long long)(PATIENCE_NS / 1000000));
	if (ran * 100 < wall * BUSY_LEAST || b->ran * 100 < wall * BUSY_LEAST)
		return sn_fail(SN_ERR_AGAIN,
			       "other programs use the cores: the threads that measure ran "
			       "for %lld and %lld %% of the time",
			       (long long)(ran * 100 / wall), (long long)(b->ran * 100 / wall));
	if ((double)before > (double)after * LINE_AGREE || (double)after > (double)before * LINE_AGREE ||
	    (before < SN_TUNE_NEAR_NS) != (after < SN_TUNE_NEAR_NS))
		return sn_fail(
			SN_ERR_AGAIN,
			"the cores moved: a line took %lld ns before and %lld ns after the measurement",
			(long long)before, (long long)after);
	return 0;
}

static int run(struct bench *b, struct sn_tune *t, enum sn_tune_class *class)
{
	pthread_t thread;
	cpu_set_t before_set;
	pthread_getaffinity_np(pthread_self(), sizeof(before_set), &before_set);
	b->end = sn_now_ns() + PATIENCE_NS;
	if (pthread_create(&thread, NULL, receiver, b))
		return sn_fail(SN_ERR_NOMEM, "no thread for the measurement");
	b->bound[0] = bind_to(b->cpu[0]);
	line_ns(b); /* both are on their cores now */
	int64_t wall = (int64_t)sn_now_ns(), ran = thread_ns();
	int64_t before = line_ns(b);
	curves(b, t);
	int64_t after = line_ns(b);
	wall = (int64_t)sn_now_ns() - wall;
	ran = thread_ns() - ran;
	b->stop = true;
	say(&b->go, ++b->round);
	pthread_join(thread, NULL);
	pthread_setaffinity_np(pthread_self(), sizeof(before_set), &before_set);
	t->measured = true;
	t->line_ns = SN_MIN_OF(before, after);
	*class = after < SN_TUNE_NEAR_NS ? SN_TUNE_NEAR : SN_TUNE_FAR;
	conclude(t);
	return judge(b, wall, ran, before, after);
}

int sn_tune_measure(struct sn_tune *t, enum sn_tune_class *class)
{
	struct bench *b = aligned_alloc(SN_LINE, (sizeof(*b) + SN_LINE - 1) / SN_LINE * SN_LINE);
	size_t bytes = 2 * LARGEST + RING_BYTES;
	*t = (struct sn_tune){0};
	if (!b)
		return sn_fail(SN_ERR_NOMEM, "no memory for the measurement");
	memset(b, 0, sizeof(*b));
	if (two_cpus(b->cpu) < 2) {
		free(b);
		return sn_fail(SN_ERR_UNSUPPORTED, "a measurement needs two cores");
	}
	/* Small pages, as most programs' buffers have them. */
	b->from = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->from == MAP_FAILED) {
		free(b);
		return sn_fail(SN_ERR_NOMEM, "no memory for the measurement: %s", strerror(errno));
	}
	madvise(b->from, bytes, MADV_NOHUGEPAGE);
	memset(b->from, 1, bytes);
	b->to = b->from + LARGEST;
	b->ring = b->to + LARGEST;
	int rc = run(b, t, class);
	munmap(b->from, bytes);
	free(b);
	return rc;
}
