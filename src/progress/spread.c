/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/spread.h"
#include "base/log.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOK_NS	 2000000u  /* between two looks: a thousand rounds of yields */
#define WAITS_MS 100u	   /* who has not waited for so long computes */
#define MOVED_NS 20000000u /* after a move: time for the others, and for the kernel, to move too */

/* A peer that has several endpoints is listed several times, one page each; the number says that it is the same. */
struct seen {
	struct sn_bell *bell;
	uint64_t id;
	bool again; /* another one of this number counts */
};

static struct {
	pthread_mutex_t mutex; /* the list, and what it points to */
	struct seen *seen;
	unsigned count, room;
	_Atomic uint64_t next;	/* when to look again */
	_Atomic int thread;	/* the one that waits; -1: there are several */
	_Atomic uint64_t moves; /* written by that one */
	_Atomic bool alone;	/* on its core, as it last looked */
} spread = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct seen *find_counting(uint64_t id)
{
	for (unsigned i = 0; i < spread.count; i++)
		if (spread.seen[i].id == id && !spread.seen[i].again)
			return &spread.seen[i];
	return NULL;
}

void sn_spread_see(struct sn_bell *bell)
{
	uint64_t id = atomic_load_explicit(&bell->id, memory_order_relaxed);
	pthread_mutex_lock(&spread.mutex);
	if (spread.count == spread.room) {
		unsigned room = spread.room ? 2 * spread.room : 16;
		struct seen *seen = realloc(spread.seen, room * sizeof(*seen));
		if (seen) {
			spread.seen = seen;
			spread.room = room;
		}
	}
	if (spread.count < spread.room) { /* one that is not listed is not counted */
		bool again = find_counting(id) != NULL;
		spread.seen[spread.count++] = (struct seen){bell, id, again};
	}
	pthread_mutex_unlock(&spread.mutex);
}

void sn_spread_forget(struct sn_bell *bell)
{
	pthread_mutex_lock(&spread.mutex);
	for (unsigned i = 0; i < spread.count; i++) {
		struct seen gone = spread.seen[i];
		if (gone.bell != bell)
			continue;
		spread.seen[i] = spread.seen[--spread.count];
		for (unsigned k = 0; k < spread.count && !gone.again; k++)
			if (spread.seen[k].id == gone.id) {
				spread.seen[k].again = false;
				break;
			}
		break;
	}
	pthread_mutex_unlock(&spread.mutex);
}

bool sn_spread_one_group(void)
{
	uint64_t group = sn_topo()->group;
	bool one = group != 0;
	pthread_mutex_lock(&spread.mutex);
	for (unsigned i = 0; i < spread.count && one; i++)
		one = spread.seen[i].bell->group == group;
	pthread_mutex_unlock(&spread.mutex);
	return one;
}

void sn_spread_after_fork(void)
{
	pthread_mutex_init(&spread.mutex, NULL); /* its holder may have been another thread of the parent */
	spread.count = 0;
	atomic_store(&spread.alone, false);
	atomic_store(&spread.thread, 0);
	atomic_store(&spread.next, 0);
}

/* Is the calling thread the only one of this process that ever waited? */
static bool alone(void)
{
	int tid = gettid(), other = 0;
	return atomic_compare_exchange_strong(&spread.thread, &other, tid) || other == tid;
}

struct census {
	unsigned on[SN_BELL_CPUS]; /* awake processes on each core, this one not among them */
	unsigned after;		   /* of those on this one's core: with a higher number */
	unsigned
		inside; /* on it, awake or not: whose application has not left its calls to a progress thread */
};

/* For the rest of the process; which is told to the peers, as nobody looks from now on. */
static void several(void)
{
	struct sn_bell *own = sn_bell_own();
	atomic_store(&spread.thread, -1);
	atomic_store_explicit(&spread.next, UINT64_MAX, memory_order_relaxed);
	if (!own)
		return;
	atomic_store_explicit(&own->waited, UINT32_MAX, memory_order_relaxed);
	atomic_store_explicit(&own->cpu, 0, memory_order_relaxed);
}

int sn_spread_rivals(void)
{
	uint64_t mine[SN_BELL_CPUS / 64];
	int rivals = 0;
	if (!alone()) {
		several();
		return -1;
	}
	if (!sn_bell_tell_cpus(mine))
		return -1;
	pthread_mutex_lock(&spread.mutex);
	for (unsigned i = 0; i < spread.count; i++) {
		const struct seen *s = &spread.seen[i];
		rivals += !s->again && sn_bell_shares(mine, s->bell);
	}
	pthread_mutex_unlock(&spread.mutex);
	return rivals;
}

static uint32_t stamp_of(uint64_t now)
{
	uint32_t ms = (uint32_t)(now / 1000000);
	return SN_MIN_OF(SN_MAX_OF(ms, 1u), UINT32_MAX - 1);
}

/* Did it lately? Who does, and gets its core now and then, says so each time. */
static bool waits(const struct sn_bell *bell, uint32_t stamp)
{
	uint32_t then = atomic_load_explicit(&bell->waited, memory_order_relaxed);
	return then == UINT32_MAX || (then && stamp - then < WAITS_MS);
}

static void take_census(struct census *c, unsigned here, uint64_t id, uint32_t stamp)
{
	pthread_mutex_lock(&spread.mutex);
	for (unsigned i = 0; i < spread.count; i++) {
		const struct seen *s = &spread.seen[i];
		if (s->again || s->id == id)
			continue;
		unsigned cpu = atomic_load_explicit(&s->bell->cpu, memory_order_relaxed) - 1;
		c->inside += (cpu == here || cpu >= SN_BELL_CPUS) && waits(s->bell, stamp);
		if (cpu >= SN_BELL_CPUS)
			continue;
		if (atomic_load_explicit(&s->bell->sleeping, memory_order_relaxed))
			continue;
		c->on[cpu]++;
		c->after += cpu == here && s->id > id;
	}
	pthread_mutex_unlock(&spread.mutex);
}

/* The core to move to; -1: this one is as good as any. */
static int better_core(unsigned here, uint64_t id, const cpu_set_t *allowed, uint32_t stamp)
{
	struct census c = {0};
	int best = -1;
	take_census(&c, here, id, stamp);
	atomic_store_explicit(&spread.alone, !c.inside, memory_order_relaxed);
	/* Not to the end of the set: its thousand turns were a hundredth of all the time of 16 ranks. */
	for (int cpu = 0, left = CPU_COUNT(allowed); left > 0 && cpu < SN_BELL_CPUS; cpu++) {
		if (!CPU_ISSET(cpu, allowed))
			continue;
		left--;
		if ((unsigned)cpu != here && (best < 0 || c.on[cpu] < c.on[best]))
			best = cpu;
	}
	if (best < 0 || c.on[here] + 1 < c.on[best] + 2)
		return -1;
	return c.after < (c.on[here] + 1 - c.on[best]) / 2 ? best : -1;
}

static void move(int cpu, const cpu_set_t *allowed)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one)) /* the core is gone, or forbidden since */
		return;
	sched_setaffinity(0, sizeof(*allowed), allowed);
	atomic_store_explicit(&spread.moves, sn_spread_moves() + 1, memory_order_relaxed);
	atomic_store_explicit(&spread.alone, false, memory_order_relaxed); /* there? the next look tells */
	sn_debug("moved to core %d: fewer processes wait there", cpu);
}

static void look(uint64_t now)
{
	struct sn_bell *own = sn_bell_own();
	int here = sched_getcpu();
	uint32_t stamp = stamp_of(now);
	cpu_set_t allowed;
	if (!own || here < 0)
		return;
	if (!alone()) {
		several();
		return;
	}
	atomic_store_explicit(&spread.next, now + LOOK_NS, memory_order_relaxed);
	atomic_store_explicit(&own->waited, stamp, memory_order_relaxed);
	if (!sched_getaffinity(0, sizeof(allowed), &allowed)) {
		uint64_t id = atomic_load_explicit(&own->id, memory_order_relaxed);
		int there = better_core((unsigned)here, id, &allowed, stamp);
		if (there >= 0) {
			move(there, &allowed);
			atomic_store_explicit(&spread.next, now + MOVED_NS, memory_order_relaxed);
			here = sched_getcpu();
		}
	}
	if (atomic_load_explicit(&own->cpu, memory_order_relaxed) != (unsigned)here + 1)
		atomic_store_explicit(&own->cpu, (unsigned)here + 1, memory_order_relaxed);
}

void sn_spread_look(uint64_t now)
{
	if (now >= atomic_load_explicit(&spread.next, memory_order_relaxed))
		look(now);
}

bool sn_spread_alone(void)
{
	return atomic_load_explicit(&spread.alone, memory_order_relaxed) &&
	       atomic_load_explicit(&spread.thread, memory_order_relaxed) > 0;
}

uint64_t sn_spread_moves(void)
{
	return atomic_load_explicit(&spread.moves, memory_order_relaxed);
}
