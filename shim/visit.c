/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose the receives are that are pending here (requests.h), where threads may call at once.
 *
 * They are the holder's alone (holder.h), and it takes no lock for them: it says that it is at them, and looks only
 * then whether somebody visits, and whether it holds still. A visitor says so, has the kernel make every thread of
 * the process see that (membarrier), and waits until the holder is not at them: a bounded number of looks, and calls
 * of MPI_Irecv, which wait for nobody. From then on the holder waits for the visitor. Where the kernel has no
 * membarrier, or a filter of system calls refuses it, every MPI_Irecv is the MPI's.
 *
 * Visitors make all that is pending the MPI's. They are
 *  - another thread of the program's, in a call of its own, before it goes on: it ends the tenure. No more is posted
 *    until another one begins, so that all requests of ours are complete or the MPI's until then, and each is changed
 *    by nobody but who ends it. Others that call wait for it here, too.
 *  - a thread of this library, when the MPI reads its queue where it cannot be called: in MPICH and Intel MPI, which
 *    hold a lock then that the first of them cannot take twice, and in threads that do not hold. It gets that lock
 *    between two looks. That costs a thread and some switches in place of a function's call; so whatever is known to
 *    look for messages gives what is pending before it goes to such an MPI (sn_requests_before()), and after OFTEN
 *    such visits, and one more for each SN_LONG_NS of the time between them, no more are given in this tenure.
 *
 * A handler of errors that leaves MPI_Irecv by a jump leaves the mark as well, until the holder's next call about requests.
 *
 * Nobody holds a lock of an MPI while he waits here: not who ends a tenure, whose call has not reached it, and not
 * the holder, which in the middle of a call of the MPI leaves everything to the visitor. In whatever thread a receive
 * becomes the MPI's, it keeps its place at the provider, so the order is that of the program. What is remembered of
 * calls (struct entry) is the holder's, and no visitor touches it.
 */
#include "base/signals.h"
#include "own.h"
#include <linux/membarrier.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OFTEN  64u
#define YIELDS 64

_Atomic uint32_t sn_own_visited;
atomic_bool sn_own_paused;
_Atomic uint32_t sn_own_asked; /* a visit of our own thread is due, or under way */
atomic_bool sn_own_shared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t bell;

static bool membarrier(int command)
{
	return !syscall(SYS_membarrier, command, 0, 0);
}

/* At the start, in the only thread: later the kernel would wait until all its cores have been elsewhere, 15 ms. */
static bool registered;
__attribute__((constructor)) static void start_early(void)
{
	registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

/* Intel MPI asks another endpoint then for each thread, so no thread can ask for another's. */
static bool is_split(void)
{
	const char *split = getenv("I_MPI_THREAD_SPLIT");
	return split && *split && strcmp(split, "0") != 0;
}

/* With the lock: who would end the tenure waits, and sees then that they may be given. */
bool sn_own_may(void)
{
	if (threads() == ONE)
		return true;
	if (!registered || is_split() || !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
	    sem_init(&bell, 0, 0))
		return false;
	atomic_store(&sn_own_shared, true);
	return true;
}

/* To yield is to look on for who is of a class above that of the holder, which waits for its core then. */
static void await_leaving(void)
{
	static const struct timespec nap = {.tv_nsec = 20000};
	const struct sn_mine *holder = sn_holder_last();
	for (unsigned looks = 0; atomic_load_explicit(&holder->inside, memory_order_acquire); looks++)
		if (looks < YIELDS)
			syscall(SYS_sched_yield);
		else
			syscall(SYS_nanosleep, &nap, NULL); /* which is not where a thread can be cancelled */
}

void sn_own_settle(void)
{
	if (!atomic_load(&sn_own_shared))
		return;
	atomic_store(&sn_own_visited, 1);
	membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	await_leaving();
	sn_own_give_all();
}

void sn_own_settled(void)
{
	atomic_store_explicit(&sn_own_visited, 0, memory_order_release);
}

bool sn_own_enter_later(void)
{
	do {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		if (!sn_holder_is_me())
			return false;
	} while (!sn_own_enter_now());
	return true;
}

/* ---- one's own question ---- */

void sn_own_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sn_own_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* ---- the thread that visits ---- */

/* With the lock: how many more there may be. */
static unsigned left = OFTEN;
static uint64_t counted; /* when it was counted */

static void count_left(void)
{
	uint64_t now = sn_quick_now_ns(), more = (now - counted) / SN_LONG_NS;
	left = more < OFTEN - left ? left + (unsigned)more : OFTEN;
	counted += more * SN_LONG_NS;
}

void sn_own_begin(void)
{
	count_left();
	atomic_store_explicit(&sn_own_paused, !left, memory_order_relaxed);
}

static void visit(void)
{
	pthread_mutex_lock(&lock);
	if (atomic_load(&sn_mpi_tenure) & 1) {
		count_left();
		if (left)
			left--;
		else
			atomic_store_explicit(&sn_own_paused, true, memory_order_relaxed);
		sn_own_settle();
		sn_own_settled();
	}
	pthread_mutex_unlock(&lock);
}

static void *visitor(void *unused)
{
	for (;;) {
		while (sem_wait(&bell))
			;
		visit();
		atomic_store(&sn_own_asked, 0);
	}
	return unused;
}

/* With none of the signals that others send to the program. False: not now, perhaps at the next look. */
static bool start(void)
{
	pthread_t thread;
	sigset_t others, before;
	sn_signals_of_others(&others);
	pthread_sigmask(SIG_SETMASK, &others, &before);
	bool started = !pthread_create(&thread, NULL, visitor, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (started)
		pthread_detach(thread);
	return started;
}

/* By whoever comes first. */
void sn_own_ask(void)
{
	static bool started; /* who has set sn_own_asked */
	if (atomic_load_explicit(&sn_own_asked, memory_order_relaxed) || atomic_exchange(&sn_own_asked, 1))
		return;
	if (started || (started = start()))
		sem_post(&bell);
	else
		atomic_store(&sn_own_asked, 0);
}
