/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/engine.h"
#include "base/conf.h"
#include "base/log.h"
#include "progress/bell.h"
#include "progress/live.h"
#include "progress/poller.h"
#include "progress/relax.h"
#include "progress/thread.h"
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#define TICK_MIN       2000u  /* us */
#define TICK_MAX       16000u /* us */
#define DOUBT	       50u    /* us */
#define SLACK_NS       5000ul
#define GUARD_US       250000u /* longest sleep on guard: bounds the harm of a guard that a race took down */
#define WINDOW_NS      100000000u
#define BACK_OFF_MIN   10000000u
#define BACK_OFF_MAX   1000000000u
#define CROWD_STAYS_NS 200000u /* likewise, of the thread's own time: what a wake-up costs others is more */
#define SCORE	       16u
#define TRUSTED	       8u
#define ASKED_EACH     7u /* not a power of two, or a program's own period would hide one of its posts for ever */
#define BUDGET_EACH    256 /* looks between two readings of the threads' processor time, system calls */

static struct {
	pthread_mutex_t changing; /* join and leave, one at a time; taken before mutex */
	pthread_mutex_t mutex;	  /* the list; held while clients are visited */
	struct sn_list clients;
	_Atomic unsigned count;
	bool running;
	_Atomic bool stop, ticking;
	pthread_t thread;
	_Atomic uint64_t visits, events, wakes, cpu_ns, polling_ns, held_back, gave_way, spared;
	struct sn_live_row *row; /* what `sennit info --peer` shows */
} engine = {.changing = PTHREAD_MUTEX_INITIALIZER,
	    .mutex = PTHREAD_MUTEX_INITIALIZER,
	    .clients = {&engine.clients, &engine.clients}};

/* What hints were followed by. Hints themselves: where two threads write at once it does not matter who is heard. */
struct sn_engine_habit sn_engine_habit;
#define habit sn_engine_habit

static bool trusted(void)
{
	return atomic_load_explicit(&habit.score, memory_order_relaxed) >= TRUSTED;
}

static void count(_Atomic uint64_t *counter, uint64_t n) /* one writer: the thread */
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* ---- the thread ---- */

struct round {
	int events;
	bool inside;	/* an application is in the library */
	bool sleeps;	/* told to the clients: the last look before a sleep */
	uint64_t until; /* how long somebody is to poll */
};

static int visit_all(void *arg)
{
	struct round *r = arg;
	r->events = 0;
	r->inside = false;
	pthread_mutex_lock(&engine.mutex);
	sn_list_for_each (at, &engine.clients) {
		struct sn_engine_client *c = sn_container(at, struct sn_engine_client, link);
		int n = c->visit(c, r->sleeps);
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

static struct {
	uint64_t since, used; /* the window, and the processor time of thread and poller when it began */
	uint64_t cpu;
} budget; /* the thread's alone */

static uint64_t budget_of_window(void)
{
	return WINDOW_NS / 100 * (uint64_t)sn_conf_num(SN_CONF_PROGRESS);
}

static bool over_budget(uint64_t now)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	uint64_t polling = sn_poller_cpu_ns();
	budget.cpu = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + polling;
	atomic_store_explicit(&engine.polling_ns, polling, memory_order_relaxed);
	atomic_store_explicit(&engine.cpu_ns, budget.cpu, memory_order_relaxed);
	if (now - budget.since <= WINDOW_NS)
		return budget.cpu - budget.used >= budget_of_window();
	sn_live_text(engine.row, "%.1f %% of a core lately (of %d %%), %llu wake-ups, gave way %llu times",
		     100.0 * (double)(budget.cpu - budget.used) / (double)(now - budget.since),
		     (int)sn_conf_num(SN_CONF_PROGRESS), (unsigned long long)atomic_load(&engine.wakes),
		     (unsigned long long)atomic_load(&engine.gave_way));
	budget.since = now;
	budget.used = budget.cpu;
	return false;
}

/* Over its budget, the thread does nothing until the window is over; the application's own looks go on. */
static bool keep_budget(void)
{
	uint64_t now = sn_now_ns();
	if (!over_budget(now))
		return false;
	count(&engine.held_back, 1);
	struct timespec t = {0, (long)(budget.since + WINDOW_NS - now)};
	nanosleep(&t, NULL);
	return true;
}

/* Where cores are wanted, nobody polls for a while, and longer each time: what comes while the poller has no core is late. */
static struct {
	uint64_t until, back_off;
} wanted; /* the thread's alone */

static void give_way(uint64_t now)
{
	count(&engine.gave_way, 1);
	wanted.back_off =
		SN_MIN_OF(SN_MAX_OF(2 * wanted.back_off, (uint64_t)BACK_OFF_MIN), (uint64_t)BACK_OFF_MAX);
	wanted.until = now + wanted.back_off;
}

/* Until nothing is left to do. Returns whether an application is inside. */
static bool work(void)
{
	struct round r = {0};
	for (unsigned looks = 1; !atomic_load(&engine.stop); looks++)
		if (!visit_all(&r) || (looks % BUDGET_EACH == 0 && keep_budget()))
			break;
	return r.inside;
}

/* At the guard, asleep, while the poller watches, for as long as the setting says. */
static bool linger(void *arg, _Atomic uint32_t *word, uint32_t seq)
{
	const struct round *r = arg;
	switch (sn_poller_watch(word, seq, r->until)) {
	case SN_WATCHED_CHANGED: return true;
	case SN_WATCHED_WANTED: give_way(sn_now_ns()); break;
	case SN_WATCHED_OVER: wanted.back_off = 0; break;
	}
	return false;
}

/* On guard, and first somebody polls if something came a moment ago. */
static enum sn_rung guard(struct round *r, bool lately)
{
	uint64_t now = sn_now_ns(), used = budget.cpu - budget.used, all = budget_of_window();
	uint64_t left = all == WINDOW_NS ? WINDOW_NS : all - SN_MIN_OF(used, all);
	r->until = now + SN_MIN_OF(left, (uint64_t)sn_conf_num(SN_CONF_POLL) * 1000);
	bool polls = lately && now >= wanted.until && r->until > now;
	return sn_bell_guard(true, visit_all, polls ? linger : NULL, r, GUARD_US);
}

static void *engine_main(void *arg)
{
	uint32_t seen = 0;
	unsigned tick = TICK_MIN;
	prctl(PR_SET_TIMERSLACK, SLACK_NS); /* the kernel's 50 us would double the time of doubt */
	memset(&budget, 0, sizeof(budget));
	memset(&wanted, 0, sizeof(wanted));
	bool here = true; /* the application looks by itself */
	bool lately = false, doubted = false;
	while (!atomic_load(&engine.stop)) {
		struct round r = {.sleeps = true};
		bool was = here;
		atomic_store(&engine.ticking, here);
		enum sn_rung rung =
			here ? sn_bell_guard(false, NULL, NULL, NULL, tick) : guard(&r, lately || doubted);
		keep_budget();
		uint32_t calls = all_calls();
		bool called = calls != seen;
		seen = calls;
		count(&engine.wakes, rung == SN_RUNG_ASLEEP);
		count(&engine.spared, rung == SN_RUNG_AWAKE);
		doubted = false;
		lately = rung != SN_RUNG_NOT;
		if (!lately && called) {
			tick = here ? SN_MAX_OF(SN_MIN_OF(2 * tick, TICK_MAX), TICK_MIN) : TICK_MIN;
			here = true;
		} else {
			here = work() || all_calls() != seen || (called && sn_relax_crowded());
			tick = TICK_MIN;
			doubted = !here && called;
		}
		if (doubted) { /* it may be between two calls: if it is, its next wait takes the guard down */
			here = true;
			tick = DOUBT;
			sn_bell_guard_set(!trusted() ||
					  atomic_load_explicit(&habit.far, memory_order_relaxed));
		} else if (here && !was) {
			sn_bell_guard_set(false);
		} else if (!here && atomic_load_explicit(&habit.open, memory_order_relaxed)) {
			atomic_store_explicit(&habit.score, 0, memory_order_relaxed);
		}
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
	engine.row = NULL; /* of the parent's table */
	sn_poller_after_fork();
	in_parent();
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

static void start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	atomic_store(&engine.stop, false);
	/* before the handlers of fork are registered: the live view's lock is the inner one, in fork, too */
	engine.row = sn_live_add(0, "this process", "progress thread", "");
	pthread_once(&once, watch_forks);
	if (sn_conf_num(SN_CONF_POLL) > 0)
		sn_poller_start();
	int rc = sn_thread_start(&engine.thread, engine_main);
	engine.running = !rc;
	if (rc) {
		sn_poller_stop();
		sn_live_remove(engine.row);
		engine.row = NULL;
		sn_warn("no progress thread (%s): messages move only while the program calls MPI",
			strerror(rc));
		return;
	}
	pthread_setname_np(engine.thread, "sennit-move");
	sn_poller_roam(engine.thread);
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
		sn_poller_stop();
		engine.running = false;
		sn_live_remove(engine.row);
		engine.row = NULL;
	}
	pthread_mutex_unlock(&engine.changing);
}

/* ---- from the application ---- */

/*
 * In a crowd others have the core in between, and to wait for it is not to work: so the time is that of this thread,
 * a system call.
 */
static uint64_t habit_now(void)
{
	struct timespec t;
	if (sn_likely(!sn_relax_crowded()))
		return sn_now_ns();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void set_score(uint32_t n)
{
	atomic_store_explicit(&habit.score, n, memory_order_relaxed);
	atomic_store_explicit(&habit.unasked, ASKED_EACH - 1, memory_order_relaxed);
}

/* The next hint after `left`, or the beginning of a wait; only the latter earns trust. */
static void judge(uint64_t left, uint64_t now, bool waits)
{
	uint32_t n = atomic_load_explicit(&habit.score, memory_order_relaxed);
	if (!left)
		return;
	bool own = atomic_load_explicit(&habit.own_time, memory_order_relaxed);
	set_score(now - left > (own ? CROWD_STAYS_NS : SN_ENGINE_STAYS_NS) ? n / 2
									   : SN_MIN_OF(n + waits, SCORE));
}

bool sn_engine_hint(bool trusting)
{
	if (!atomic_load_explicit(&engine.ticking, memory_order_relaxed))
		return true;
	uint64_t left = atomic_load_explicit(&habit.asked, memory_order_relaxed);
	uint32_t unasked = atomic_load_explicit(&habit.unasked, memory_order_relaxed);
	atomic_store_explicit(&habit.open, true, memory_order_relaxed);
	if (sn_unlikely(atomic_load_explicit(&habit.late, memory_order_relaxed))) {
		atomic_store_explicit(&habit.late, false, memory_order_relaxed);
		set_score(atomic_load_explicit(&habit.score, memory_order_relaxed) / 2);
	} else if (!left && unasked && trusting && trusted()) {
		atomic_store_explicit(&habit.unasked, unasked - 1, memory_order_relaxed);
		return false;
	}
	uint64_t now = habit_now();
	judge(left, now, false);
	if (!trusting)
		atomic_store_explicit(&habit.far, true, memory_order_relaxed);
	atomic_store_explicit(&habit.own_time, sn_relax_crowded(), memory_order_relaxed);
	atomic_store_explicit(&habit.asked, now, memory_order_relaxed);
	if (trusting && trusted())
		return false;
	sn_bell_guard_set(true);
	return true;
}

void sn_engine_stay(void)
{
	if (!atomic_load_explicit(&engine.ticking, memory_order_relaxed))
		return;
	sn_bell_guard_set(false);
	if (!atomic_load_explicit(&habit.open, memory_order_relaxed))
		return;
	atomic_store_explicit(&habit.open, false, memory_order_relaxed);
	atomic_store_explicit(&habit.far, false, memory_order_relaxed);
	uint64_t left = atomic_load_explicit(&habit.asked, memory_order_relaxed);
	if (!left)
		return;
	judge(left, habit_now(), true);
	atomic_store_explicit(&habit.asked, 0, memory_order_relaxed);
}

void sn_engine_stayed(void)
{
	if (atomic_load_explicit(&habit.posting, memory_order_relaxed) ||
	    atomic_load_explicit(&habit.far, memory_order_relaxed))
		return;
	uint64_t left = atomic_load_explicit(&habit.asked, memory_order_relaxed);
	/* of the other time it is known since he came back */
	bool own = atomic_load_explicit(&habit.own_time, memory_order_relaxed);
	judge(left, own ? habit_now() : left, true);
	if (trusted() && atomic_load_explicit(&engine.ticking, memory_order_relaxed))
		sn_bell_guard_set(false);
	atomic_store_explicit(&habit.asked, 0, memory_order_relaxed);
	atomic_store_explicit(&habit.open, false, memory_order_relaxed);
}

bool sn_engine_alone(void)
{
	return atomic_load_explicit(&engine.count, memory_order_relaxed) < 2;
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
	fn(arg, "progress.poller_us", atomic_load_explicit(&engine.polling_ns, memory_order_relaxed) / 1000);
	fn(arg, "progress.wakes_spared", atomic_load_explicit(&engine.spared, memory_order_relaxed));
	fn(arg, "progress.gave_way", atomic_load_explicit(&engine.gave_way, memory_order_relaxed));
	fn(arg, "progress.held_back", atomic_load_explicit(&engine.held_back, memory_order_relaxed));
}
