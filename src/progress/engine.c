/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/engine.h"
#include "base/conf.h"
#include "base/log.h"
#include "progress/bell.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#define STACK_BYTES ((size_t)256 * 1024)
#define TICK_MIN    2000u   /* us */
#define TICK_MAX    16000u  /* us */
#define GUARD_US    250000u /* longest sleep on guard: bounds the harm of a guard that a race took down */
#define QUIET	    3	    /* looks that find nothing before the thread sleeps */
#define WINDOW_NS   100000000u

static struct {
	pthread_mutex_t changing; /* join and leave, one at a time; taken before mutex */
	pthread_mutex_t mutex;	  /* the list; held while clients are visited */
	struct sn_list clients;
	unsigned count;
	bool running;
	_Atomic bool stop, ticking;
	pthread_t thread;
	_Atomic uint64_t visits, events, wakes, cpu_ns, held_back;
} engine = {.changing = PTHREAD_MUTEX_INITIALIZER,
	    .mutex = PTHREAD_MUTEX_INITIALIZER,
	    .clients = {&engine.clients, &engine.clients}};

static void count(_Atomic uint64_t *counter, uint64_t n) /* one writer: the thread */
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* ---- the thread ---- */

struct round {
	int events;
	bool inside; /* an application is in the library */
};

static int visit_all(void *arg)
{
	struct round *r = arg;
	r->events = 0;
	r->inside = false;
	pthread_mutex_lock(&engine.mutex);
	sn_list_for_each (at, &engine.clients) {
		struct sn_engine_client *c = sn_container(at, struct sn_engine_client, link);
		int n = c->visit(c);
		r->inside |= n < 0;
		r->events += n > 0 ? n : 0;
	}
	pthread_mutex_unlock(&engine.mutex);
	count(&engine.visits, 1);
	count(&engine.events, (uint64_t)r->events);
	return r->events;
}

static uint32_t all_calls(void)
{
	uint32_t sum = 0;
	pthread_mutex_lock(&engine.mutex);
	sn_list_for_each (at, &engine.clients)
		sum += atomic_load_explicit(&sn_container(at, struct sn_engine_client, link)->calls,
					    memory_order_relaxed);
	pthread_mutex_unlock(&engine.mutex);
	return sum;
}

/* Until nothing more comes. A yield between looks leaves the core to an application that shares it. */
static bool work(void)
{
	struct round r = {0};
	for (int quiet = 0; quiet < QUIET && !atomic_load(&engine.stop);) {
		quiet = visit_all(&r) ? 0 : quiet + 1;
		if (r.inside && !r.events)
			return true;
		sched_yield();
	}
	return r.inside;
}

/* The budget: over it, the thread does nothing until the window is over; the application's own looks go on. */
static void keep_budget(void)
{
	static uint64_t window, used;
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	uint64_t cpu = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec, now = sn_now_ns();
	atomic_store_explicit(&engine.cpu_ns, cpu, memory_order_relaxed);
	if (now - window > WINDOW_NS) {
		window = now;
		used = cpu;
		return;
	}
	uint64_t allowed = WINDOW_NS / 100 * (uint64_t)sn_conf_num(SN_CONF_PROGRESS);
	if (cpu - used < allowed)
		return;
	count(&engine.held_back, 1);
	t = (struct timespec){0, (long)(window + WINDOW_NS - now)};
	nanosleep(&t, NULL);
}

static void *engine_main(void *arg)
{
	uint32_t seen = 0;
	unsigned tick = TICK_MIN;
	bool here = true; /* the application looks by itself */
	while (!atomic_load(&engine.stop)) {
		struct round r = {0};
		bool rung;
		atomic_store(&engine.ticking, here);
		if (here)
			rung = sn_bell_guard(false, NULL, NULL, tick);
		else
			rung = sn_bell_guard(true, visit_all, &r, GUARD_US);
		keep_budget();
		uint32_t calls = all_calls();
		bool called = calls != seen;
		seen = calls;
		if (rung)
			count(&engine.wakes, 1);
		if (!rung && called) {
			tick = here ? SN_MIN_OF(2 * tick, TICK_MAX) : TICK_MIN;
			here = true;
			continue;
		}
		here = work() || all_calls() != seen;
		tick = TICK_MIN;
	}
	return NULL;
}

/* ---- starting and ending it ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&engine.changing);
	pthread_mutex_lock(&engine.mutex);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&engine.mutex);
	pthread_mutex_unlock(&engine.changing);
}

static void in_child(void) /* no thread, and the endpoints are the parent's */
{
	sn_list_init(&engine.clients);
	engine.count = 0;
	engine.running = false;
	in_parent();
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

/* All cores that the process may ever use: one that is bound to a core computes there, and others may be idle. */
static void roam(void)
{
	cpu_set_t all;
	memset(&all, 0xff, sizeof(all));
	pthread_setaffinity_np(engine.thread, sizeof(all), &all);
}

static void start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_once(&once, watch_forks);
	atomic_store(&engine.stop, false);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all); /* signals are for the application's threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&engine.thread, &attr, engine_main, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	engine.running = !rc;
	if (rc) {
		sn_warn("no progress thread (%s): messages move only while the program calls MPI",
			strerror(rc));
		return;
	}
	pthread_setname_np(engine.thread, "sennit-move");
	roam();
}

void sn_engine_join(struct sn_engine_client *client)
{
	sn_list_init(&client->link);
	if (!sn_conf_num(SN_CONF_PROGRESS))
		return;
	pthread_mutex_lock(&engine.changing);
	if (!engine.count++)
		start();
	pthread_mutex_lock(&engine.mutex);
	sn_list_add_tail(&engine.clients, &client->link);
	pthread_mutex_unlock(&engine.mutex);
	pthread_mutex_unlock(&engine.changing);
}

void sn_engine_leave(struct sn_engine_client *client)
{
	if (sn_list_empty(&client->link))
		return;
	pthread_mutex_lock(&engine.changing);
	pthread_mutex_lock(&engine.mutex);
	sn_list_del(&client->link);
	pthread_mutex_unlock(&engine.mutex);
	if (!--engine.count && engine.running) {
		atomic_store(&engine.stop, true);
		sn_bell_guard_ring();
		pthread_join(engine.thread, NULL);
		engine.running = false;
	}
	pthread_mutex_unlock(&engine.changing);
}

/* ---- from the application ---- */

void sn_engine_hint(void)
{
	if (atomic_load_explicit(&engine.ticking, memory_order_relaxed))
		sn_bell_guard_set(true);
}

void sn_engine_stay(void)
{
	if (atomic_load_explicit(&engine.ticking, memory_order_relaxed))
		sn_bell_guard_set(false);
}

void sn_engine_kick(bool force)
{
	if (force || sn_bell_guarded())
		sn_bell_guard_ring();
}

void sn_engine_counters(void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	fn(arg, "progress.visits", atomic_load_explicit(&engine.visits, memory_order_relaxed));
	fn(arg, "progress.events", atomic_load_explicit(&engine.events, memory_order_relaxed));
	fn(arg, "progress.wakes", atomic_load_explicit(&engine.wakes, memory_order_relaxed));
	fn(arg, "progress.thread_us", atomic_load_explicit(&engine.cpu_ns, memory_order_relaxed) / 1000);
	fn(arg, "progress.held_back", atomic_load_explicit(&engine.held_back, memory_order_relaxed));
}
