/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A quick way for calls seen before.
 *
 * What an MPI does between MPI_Send and the provider costs three times what the provider does: it looks at its
 * handles, and makes out of type and count a length, and out of rank, tag and communicator an address and match bits.
 * For the same arguments that comes out the same each time. So a call is watched once, and if it led to one send of
 * the provider, of the program's own buffer, and to nothing else, the next one with the same arguments is that send.
 * Likewise MPI_Recv, which then looks for its message itself for a moment, MPI_Sendrecv, which is both, and MPI_Isend
 * and MPI_Irecv, whose requests are ours then (requests.h; before that is known to be possible, an MPI_Isend has the
 * one that the MPI gives for a message to nobody). Nothing needs to be known of the MPI, but for its number for
 * nobody, and how it lays out an MPI_Status, which is compared with what it wrote itself.
 *
 * It holds as long as the handles mean the same: a communicator or a type that is freed ends it for what had that (freed.h), a
 * setting of a communicator, and an endpoint that is closed, for all. And a buffer elsewhere (SN_QUICK_REGION) is another call: an MPI may
 * treat memory of a device in another way. Calls that differ in nothing but tag, count and buffer are known, too, where
 * a few of them have shown how these go into what the MPI asks for (kin.h).
 *
 * Everything else goes to the MPI as before, each time:
 *  - what the provider cannot do at once: the ring is full, the message is long, the peer is gone;
 *  - a message that is not like the one that was watched, in its match bits (MPIs mark synchronous sends there), or
 *    that is too long: it is left for the MPI, which knows what to do;
 *  - a receive whose message does not come soon, and then the next ones, 2 to 64 of them;
 *  - one call in SN_QUICK_PERIOD, so that the MPI's own affairs go on, but not more than one of the same arguments in
 *    SN_QUICK_NS;
 *  - any source: its status cannot be known before; what comes for any tag is taken only if it has that of the
 *    message before;
 *  - what threads call but the one that goes the quick way (holder.h), which is the first until another calls. It may
 *    be in such a call just then, beside the MPI (shim.h, at_once), and what is pending becomes the MPI's (visit.c);
 *  - while there is a window in which the MPI moves anything (shim.h, elsewhere): one call in 10 us, which may be each, and those
 *    that could wait for long (MPI_Mprobe);
 *  - what is called without MPI_Init, in sessions;
 *  - what a tool of the profiling interface wants to see: if it defines MPI_Send, that is what is called.
 *
 * Order: a send cannot overtake an earlier one, since the provider never refuses one that its MPI would keep for later, and
 * does no send at once while others are queued; a receive stands behind all that were posted before.
 *
 * Budget, a call seen before: seven compares and five loads, and what sn_try_send or sn_try_recv cost; one that is like
 * others, some 15 ns more. Other calls of these functions: an entry is written; the second in a row with the same
 * arguments, or alike, is watched.
 */
#ifndef SN_SHIM_QUICK_H
#define SN_SHIM_QUICK_H

#include "shim.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define likely(x) __builtin_expect(!!(x), 1)

/*
 * Handles are numbers for MPICH, in the lower half of what is passed, and else as wide as addresses (abi.h). What may
 * stand in the upper half of a number makes two calls of one, at worst.
 */
typedef uintptr_t handle;

#define SN_QUICK_PERIOD 64    /* calls, of which one is the MPI's */
#define SN_QUICK_NS	16000 /* at least, from one of these to the next */
#define SN_QUICK_REGION 21    /* bits of an address within a region: 2 MiB */
/* A function that is found by its name: threads may each be at their first call of it, and note it all at once. */
#define SN_FUNCTION(f)		 ((__typeof__(*(f))){__atomic_load_n(&(f)->symbol, __ATOMIC_RELAXED)})
#define SN_FUNCTION_IS(f, found) __atomic_store_n(&(f)->symbol, found, __ATOMIC_RELAXED)

/* The turn (calls until one is watched, negative) after another one in vain: 2 to 64 of them. */
static inline int sn_quick_pause(int *fails)
{
	*fails += *fails < 6;
	return -(1 << *fails);
}

/* Two functions, which tell call() by which name they were reached: 0, or with a P, 1. */
#define SN_BY_BOTH_NAMES(call, parameters, arguments)                                                        \
	static int call##_0 parameters                                                                       \
	{                                                                                                    \
		return call(0, arguments);                                                                   \
	}                                                                                                    \
	static int call##_1 parameters                                                                       \
	{                                                                                                    \
		return call(1, arguments);                                                                   \
	}
#define SN_WITH(...) __VA_ARGS__
/* abi.c: of a table of n entries, which begin with a name, or NULL: that of this one, with a P or without; n: there is none. */
int sn_quick_named(const void *table, size_t each, int n, const char *name);

/* What stands before this definition of a name: itself, or a function here that calls it. */
void *sn_quick_stand_in(const char *name, void *definition);
/*
 * Does that only hand its calls on, of a thread that does not go the quick way? SO_FAR: if no request of ours was
 * ever given.
 */
enum { SN_QUICK_BUSY, SN_QUICK_IDLE, SN_QUICK_IDLE_SO_FAR };
unsigned char sn_quick_idle(const char *name);
/* The MPI's function of this name, and then sn_requests_after(). NULL: it brings no message, or another stand-in sees to that. */
void *sn_quick_looks(const char *name, void *real);
/* Does a tool of the profiling interface stand before the MPI there, so that the two names lead to different libraries? */
bool sn_quick_is_tools(const char *name, const void *definition);
/* All calls seen so far. */
void sn_quick_forget(void);
static inline uint64_t sn_quick_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Some 3 a ns; by a tenth of what the clock takes, where the processor counts them. */
static inline uint64_t sn_quick_ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 3 * sn_quick_now_ns();
#endif
}

/* For other calls that are watched (collective.c): the provider's, where a call may go the quick way now. */
const struct sn_shim_quick *sn_quick(void);
/* Does one thread at a time call, as the MPI has promised? */
bool sn_quick_serial(void);
/* Only if not: a locked instruction waits for what was written before, to a ring too. What it returns is the other's. */
static inline bool sn_quick_guard(pthread_mutex_t *lock)
{
	bool several = !sn_quick_serial();
	if (several)
		pthread_mutex_lock(lock);
	return several;
}
static inline void sn_quick_unguard(pthread_mutex_t *lock, bool several)
{
	if (several)
		pthread_mutex_unlock(lock);
}
/* Has the MPI begun by MPI_Init or MPI_Init_thread? Else nothing goes without it. */
bool sn_quick_possible(void);
/* From here on, until sn_quick_watched(); false: not now. */
bool sn_quick_watch(struct sn_shim_lesson *lesson);
void sn_quick_watched(void);

/* ---- of shim.c ---- */
extern struct sn_shim sn_mpi_shim;
extern _Atomic uint32_t sn_mpi_many; /* several threads have called */
extern _Thread_local struct sn_shim_thread sn_mpi_thread __attribute__((tls_model("initial-exec")));
/*
 * Another thread may have moved this one's messages. The MPI says so by means of its own, and the thread sanitizer
 * sees none of them: for it the events that are counted do.
 */
static inline void sn_quick_told(void)
{
#ifdef __SANITIZE_THREAD__
	const struct sn_shim_quick *q = atomic_load(&sn_mpi_shim.quick);
	if (q)
		(void)q->events();
#endif
}

static inline void sn_quick_tell(const char *words)
{
	const struct sn_shim_quick *q = atomic_load(&sn_mpi_shim.quick);
	if (q)
		q->tell(words);
}

/* The next definition of a name after ours; NULL: there is none. */
void *sn_mpi_find(const char *name);
static inline bool sn_mpi_is_intels(void)
{
	return sn_mpi_find("impi_malloc") != NULL;
}
/* Is this function Open MPI's? */
bool sn_mpi_is_open_mpi(const void *function);
/* Do both lie in one library, or program? */
bool sn_mpi_same_object(const void *a, const void *b);

/* ---- of requests.c: a call goes to the MPI, where it may look for messages ---- */
/* Receives of ours that are pending become the MPI's, if it cannot be called while it reads its queue. */
void sn_requests_ahead(void);
/* Likewise, receives that the program has freed before they have ended (forgotten.h). */
extern _Atomic uint32_t sn_forgotten_receives;
void sn_forgotten_see_to(bool brought);
static inline bool sn_forgotten_any(void)
{
	return !likely(!atomic_load_explicit(&sn_forgotten_receives, memory_order_relaxed));
}
static inline void sn_requests_before(void)
{
	if (!likely(!atomic_load_explicit(&sn_mpi_shim.stays, memory_order_relaxed)))
		sn_requests_ahead();
	if (sn_forgotten_any())
		sn_forgotten_see_to(false);
}
/* And after a call that has brought something. Returns rc. */
static inline int sn_requests_after(int rc)
{
	if (sn_forgotten_any()) {
		sn_requests_ahead();
		sn_forgotten_see_to(true);
	}
	return rc;
}

/* ---- of meet.c: a communicator is freed ---- */
struct sn_meet;
struct sn_meet_ending {
	handle comm, outer;
	struct sn_meet *meet;
};
/*
 * Before and after. From the one on what is called back makes its collectives there by messages, on all ranks; as
 * soon as the MPI has done with it the handle may be another communicator's, in another thread. Not ended: it stays
 * what it was.
 */
void sn_meet_ends(struct sn_meet_ending *e, handle comm);
void sn_meet_ended(struct sn_meet_ending *e, bool ended);
/* By this thread. */
bool sn_meet_is_ending(handle comm);

/* ---- of elsewhere.c ---- */
extern _Atomic uint32_t sn_mpi_windows; /* there are, in which the MPI moves something */
static inline bool sn_elsewhere_windows(void)
{
	return !likely(!atomic_load_explicit(&sn_mpi_windows, memory_order_relaxed));
}
/* Is the MPI to be called now, so that it does? Whoever computes between its calls is told so in each of them. */
bool sn_elsewhere_is_due_now(void);
static inline bool sn_elsewhere_is_due(void)
{
	return sn_elsewhere_windows() && sn_elsewhere_is_due_now();
}
/* A call begins. True: the next one must be seen, too, for it makes or frees a window, or opens or closes a file. */
bool sn_elsewhere_begins(const char *name);
/* This thread's call that freed a window (sn_shim_thread.freeing) has returned. */
void sn_elsewhere_freed(void);
/*
 * The window that is being made by this name (0), or that of the profiling interface (1), rings bells of ours, or none is needed:
 * the MPI moves nothing there. And likewise the one that is being freed.
 */
void sn_elsewhere_not_made(int p);
void sn_elsewhere_not_freed(int p);
/* What stands before this definition; NULL: nothing. */
void *sn_elsewhere_stand_in(const char *name, void *definition);

#endif
