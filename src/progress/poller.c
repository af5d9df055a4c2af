/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/poller.h"
#include "base/base.h"
#include "base/log.h"
#include "progress/relax.h"
#include "progress/thread.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOKS	16	 /* between two readings of the clock */
#define SLICE	1000000u /* ns: the longest time for which nobody looks because the poller has no core */
#define LOST_NS 50000u	 /* between two readings of the clock: more than an interrupt takes */

static struct {
	pthread_t thread;
	bool running;
	clockid_t clock;
	_Atomic uint32_t *_Atomic word;
	/*
	 * What to watch, in one word so that it is read whole: the value that the word has in the upper half, in the
	 * lower one the end, in us, of which only the difference to now counts; 0: nothing.
	 */
	_Atomic uint64_t job;
	_Atomic uint32_t asleep; /* the poller's futex */
	_Atomic uint64_t beats;	 /* its looks at the clock */
	_Atomic bool stop, lost; /* lost: somebody else had its core meanwhile */
} poller;

static uint64_t job_of(uint32_t seq, uint64_t until)
{
	uint32_t us = (uint32_t)(until / 1000);
	return (uint64_t)seq << 32 | (us ? us : 1);
}

static bool is_over(uint64_t job, uint64_t now)
{
	return !job || (int32_t)((uint32_t)job - (uint32_t)(now / 1000)) <= 0;
}

static bool changed(uint64_t job)
{
	_Atomic uint32_t *word = atomic_load_explicit(&poller.word, memory_order_relaxed);
	return atomic_load_explicit(word, memory_order_acquire) != (uint32_t)(job >> 32);
}

/* ---- the thread ---- */

static void wake_progress(void)
{
	syscall(SYS_futex, atomic_load_explicit(&poller.word, memory_order_relaxed), FUTEX_WAKE, 1, NULL,
		NULL, 0);
}

static bool was_switched(void)
{
	static long switches; /* the thread's alone */
	struct rusage u;
	if (getrusage(RUSAGE_THREAD, &u) || u.ru_nivcsw == switches)
		return false;
	switches = u.ru_nivcsw;
	return true;
}

static void sleep_unless_other(uint64_t job)
{
	atomic_store(&poller.asleep, 1);
	if (atomic_load(&poller.job) == job && !atomic_load(&poller.stop))
		syscall(SYS_futex, &poller.asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	atomic_store(&poller.asleep, 0);
}

/* Some looks. True: the job is done, and the progress thread knows. since: the last ones of this job, 0: there were none. */
static bool look(uint64_t job, uint64_t since, uint64_t now)
{
	bool seen = changed(job);
	bool lost = !seen && (!since || now - since > LOST_NS) && was_switched() && since;
	for (int i = 0; i < LOOKS && !seen && !lost; i++) {
		sn_cpu_relax();
		seen = changed(job);
	}
	if (lost)
		atomic_store(&poller.lost, true);
	if (seen || lost)
		wake_progress();
	return seen || lost;
}

/* After a job is done it stays awake for the rest of its time: the next one comes as soon as the progress thread is done. */
static void *poller_main(void *arg)
{
	struct sched_param least = {0};
	uint64_t done = 0, before = 0, last = 0;
	/*
	 * Itself: pthread_setname_np() for another thread opens a file in /proc, whose entries it would then have to
	 * clear away when it ends, with locks of the kernel for which the whole process waits.
	 */
	prctl(PR_SET_NAME, "sennit-poll");
	if (sched_setscheduler(0, SCHED_IDLE, &least)) {
		sn_info("nobody polls for the progress thread: the lowest scheduling class is refused");
		return NULL;
	}
	while (!atomic_load_explicit(&poller.stop, memory_order_relaxed)) {
		uint64_t job = atomic_load_explicit(&poller.job, memory_order_acquire), now = sn_now_ns();
		atomic_store_explicit(&poller.beats,
				      atomic_load_explicit(&poller.beats, memory_order_relaxed) + 1,
				      memory_order_relaxed);
		if (is_over(job, now)) {
			sleep_unless_other(job);
			last = 0;
			continue;
		}
		if (job != done && look(job, job == last ? before : 0, now))
			done = job;
		sched_yield(); /* pollers of other processes, on the only idle core, would else wait for a slice of ms */
		last = job;
		before = now;
	}
	return NULL;
}

/* ---- the progress thread's side ---- */

static void give(uint64_t job)
{
	atomic_store(&poller.job, job);
	if (atomic_load(&poller.asleep) && atomic_exchange(&poller.asleep, 0))
		syscall(SYS_futex, &poller.asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void sn_poller_roam(pthread_t thread)
{
	cpu_set_t all;
	memset(&all, 0xff, sizeof(all));
	pthread_setaffinity_np(thread, sizeof(all), &all);
	if (!pthread_getaffinity_np(thread, sizeof(all), &all)) /* fewer, in a container */
		sn_relax_threads((unsigned)CPU_COUNT(&all));
}

bool sn_poller_start(void)
{
	atomic_store(&poller.stop, false);
	int rc = sn_thread_start(&poller.thread, poller_main);
	poller.running = !rc;
	if (rc) {
		sn_info("nobody polls for the progress thread: %s", strerror(rc));
		return false;
	}
	sn_poller_roam(poller.thread);
	pthread_getcpuclockid(poller.thread, &poller.clock);
	return true;
}

void sn_poller_stop(void)
{
	if (!poller.running)
		return;
	struct sched_param normal = {0};
	atomic_store(&poller.stop, true);
	/* So that it ends at once even where all cores are wanted. Without privileges that is refused, and takes some ms. */
	pthread_setschedparam(poller.thread, SCHED_OTHER, &normal);
	give(0);
	pthread_join(poller.thread, NULL);
	poller.running = false;
}

void sn_poller_after_fork(void)
{
	poller.running = false;
	atomic_store(&poller.job, 0);
	atomic_store(&poller.asleep, 0);
}

uint64_t sn_poller_cpu_ns(void)
{
	struct timespec t;
	if (!poller.running || clock_gettime(poller.clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

enum sn_watched sn_poller_watch(_Atomic uint32_t *word, uint32_t seq, uint64_t until)
{
	if (!poller.running)
		return SN_WATCHED_OVER;
	atomic_store_explicit(&poller.word, word, memory_order_relaxed);
	atomic_store(&poller.lost, false);
	give(job_of(seq, until));
	for (uint64_t now = sn_now_ns(), before; now < until;) {
		uint64_t beats = atomic_load_explicit(&poller.beats, memory_order_relaxed);
		uint64_t ns = SN_MIN_OF(until - now, SLICE);
		struct timespec t = {0, (long)ns};
		syscall(SYS_futex, word, FUTEX_WAIT, seq, &t, NULL, 0);
		if (atomic_load_explicit(word, memory_order_acquire) != seq)
			return SN_WATCHED_CHANGED;
		before = now;
		now = sn_now_ns();
		bool still = atomic_load_explicit(&poller.beats, memory_order_relaxed) == beats;
		if ((still && now - before >= ns) || atomic_load(&poller.lost)) {
			give(0);
			return SN_WATCHED_WANTED;
		}
	}
	return SN_WATCHED_OVER;
}
