/* SPDX-License-Identifier: BSD-3-Clause */
#include "crowd.h"
#include "holder.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

static struct {
	pthread_mutex_t lock; /* all but now */
	pthread_key_t exit;
	cpu_set_t cores; /* of all threads that ever called */
	int threads;	 /* that call, and have not ended */
	bool unknown;	 /* too many cores for a set, or nobody can say when a thread ends */
	bool open_mpi;
	bool (*set_yield)(bool); /* Open MPI's; returns what it was */
	bool yielded;		 /* what it was */
	_Atomic bool now;	 /* more threads than cores */
} crowd = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool noted __attribute__((tls_model("initial-exec"))); /* crowd.now at the last look */

static void thread_ends(void *unused);

static void make_key(void)
{
	crowd.unknown = pthread_key_create(&crowd.exit, thread_ends) != 0;
}

/* With the lock held. */
static void count(int change)
{
	crowd.threads += change;
	bool now = crowd.open_mpi && !crowd.unknown && crowd.threads > CPU_COUNT(&crowd.cores);
	if (now == atomic_load_explicit(&crowd.now, memory_order_relaxed))
		return;
	atomic_store_explicit(&crowd.now, now, memory_order_relaxed);
	if (!crowd.set_yield)
		return;
	if (now)
		crowd.yielded = crowd.set_yield(true);
	else
		crowd.set_yield(crowd.yielded);
}

static void thread_ends(void *unused)
{
	(void)unused;
	sn_holder_exit();
	pthread_mutex_lock(&crowd.lock);
	count(-1);
	pthread_mutex_unlock(&crowd.lock);
}

void sn_crowd_join(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	cpu_set_t mine;
	pthread_once(&once, make_key);
	pthread_mutex_lock(&crowd.lock);
	crowd.unknown |= sched_getaffinity(0, sizeof(mine), &mine) || pthread_setspecific(crowd.exit, &crowd);
	if (!crowd.unknown) {
		CPU_OR(&crowd.cores, &crowd.cores, &mine);
		count(1);
	}
	pthread_mutex_unlock(&crowd.lock);
}

void sn_crowd_in_open_mpi(void *lib)
{
	union {
		void *symbol;
		bool (*function)(bool);
	} found = {dlsym(lib, "opal_progress_set_yield_when_idle")};
	pthread_mutex_lock(&crowd.lock);
	crowd.open_mpi = true;
	if (found.symbol)
		crowd.set_yield = found.function;
	pthread_mutex_unlock(&crowd.lock);
}

/* Who has another class than the common one keeps it. */
void sn_crowd_look(void)
{
	bool now = atomic_load_explicit(&crowd.now, memory_order_relaxed);
	if (now == noted)
		return;
	noted = now;
	if (sched_getscheduler(0) == (now ? SCHED_OTHER : SCHED_BATCH))
		sched_setscheduler(0, now ? SCHED_BATCH : SCHED_OTHER, &(struct sched_param){0});
}
