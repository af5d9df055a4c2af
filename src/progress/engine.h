/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread: one for each process that has an endpoint. It moves messages while the application computes, and
 * keeps out of the way while the application looks by itself.
 *
 * Who finds events. An application inside the library does. Its looks are counted, and the thread only wakes every 2 to
 * 16 ms to see whether the count still grows. Once it does not, the application is away: the thread looks in its place and
 * *guards*: it sleeps on a futex of its own in the bell's page, and whoever leaves work for this process (an announcement,
 * a piece of a stream, a one-sided request; not a message that can just as well lie in its ring) wakes it with one system
 * call, for an announcement not always at once (local/owed.h). An application that posts something long and may go away
 * hints at it, which raises the guard at once, for two stores; one that begins to wait takes that back.
 *
 * Trust. Between the two the guard is up, and there a peer that plays ping-pong comes just then: it pays for a system
 * call, and the thread gets the core that the application needs. So there is a score, one more for each time that
 * somebody has begun to wait within SN_ENGINE_STAYS_NS after a hint, or that his message has ended in the library
 * without his being away for so long, and half of it for each time that he was. From TRUSTED on he is trusted to stay
 * once more, and his hints raise nothing. One in ASKED_EACH is still followed by a look at the clock, and the thread
 * tells when it finds him gone after a hint; then he has to begin again. So who stays, and then goes away for the
 * first time, is late once, by one of the thread's ticks, or 2 * ASKED_EACH messages are. What counts is the time
 * outside of the library: who copies something long for 20 us in the next post, or before he finds nothing more and
 * so begins to wait, has not been away. (Six neighbours, 64 KiB each, 16 ranks on as many cores: a wake-up for seven
 * messages, each on a core that somebody copied on.) And one who is late once may have lost his core meanwhile, to
 * this very thread.
 *
 * The thread, once it guards, cannot be told that the application waits and looks by itself. So when it has been
 * woken, and the application has called since it looked last, it does not take up the guard for good, but looks again
 * in a moment: it may have been between two calls.
 *
 * In a crowd, more ranks than cores, the thread takes its core from somebody who mostly has something to do, among
 * them its own application, which moves what there is when it gets the core. There somebody stays who begins to wait
 * within CROWD_STAYS_NS of his own time: what others had the core for says nothing. And who has called since the last
 * wake-up is here, though he could not be seen inside: the thread had his core. (Six neighbours, 64 KiB each, 8 ranks
 * on two cores: 0.7 wake-ups a message before, 0.03 now.)
 *
 * Polling. A wake-up takes 25 to 50 us on a virtual machine. So on guard after something has come somebody stays awake for
 * as long as the setting `poll` says, and watches one word that those who leave work for the thread write: they make no
 * system call then. That is not the thread itself but one of the lowest scheduling class, which holds no lock
 * (progress/poller.h says why). Where its core is wanted, nobody polls for 10 ms, and for twice as long each time that
 * it happens again. The setting `progress` limits the processor time of both together, in percent of a core.
 *
 * Exclusion is the client's: visit() must not wait for an application that is inside (sn_lock_visit()).
 */
#ifndef SN_ENGINE_H
#define SN_ENGINE_H

#include "base/base.h"

struct sn_engine_client {
	struct sn_list link;
	_Atomic uint32_t calls; /* the application's looks; written by it alone, or under its lock */
	/* Do what there is to do. Returns the number of events, or -1: the application is inside. sleeps: if there is
	 * nothing the thread will sleep, and what comes must wake it. */
	int (*visit)(struct sn_engine_client *client, bool sleeps);
};

/* Join; the first one starts the thread (never fails: without a thread everything works as before). Leave: when it
 * returns no visit is under way, and none will come. */
void sn_engine_join(struct sn_engine_client *client);
void sn_engine_leave(struct sn_engine_client *client);

/*
 * From the application: it may go away now with work under way; trusting: only processes of this node may need the
 * thread then. False: it is trusted to stay. And: it stays, and looks by itself.
 */
bool sn_engine_hint(bool trusting);
void sn_engine_stay(void);
/* One line, and read where somebody comes back from computing: all is out of the caches then. */
struct sn_engine_habit {
	_Alignas(64) _Atomic uint64_t asked; /* when it left after a hint that is to be judged; 0: none is */
	_Atomic uint32_t score;		     /* of who stays */
	_Atomic uint32_t
		unasked;   /* so many hints of one who is trusted are taken without a look at the clock */
	_Atomic bool open; /* a hint was given, and nobody has begun to wait since */
	_Atomic bool
		late; /* it was away for longer after the last one that was asked about; for the next one to judge */
	_Atomic bool
		own_time; /* .asked is the thread's processor time: in a crowd, where to ask is dear, the library's is not left out */
	_Atomic bool posting; /* what ends now does so in the next post: that is no wait */
	_Atomic bool far;     /* open, and may concern another host: nobody is trusted with that */
};
extern struct sn_engine_habit sn_engine_habit;

/*
 * Between the two, around what may take long in the library. Who comes back from computing reads and writes that line
 * here, and nothing else.
 */
#define SN_ENGINE_STAYS_NS 20000u /* who is away for longer does some work */
static inline bool sn_engine_asks(void)
{
	return sn_unlikely(atomic_load_explicit(&sn_engine_habit.asked, memory_order_relaxed) != 0);
}
static inline bool sn_engine_enter(void)
{
	if (!sn_engine_asks() || atomic_load_explicit(&sn_engine_habit.own_time, memory_order_relaxed))
		return false;
	uint64_t left = atomic_load_explicit(&sn_engine_habit.asked, memory_order_relaxed);
	if (sn_now_ns() - left <= SN_ENGINE_STAYS_NS)
		return true;
	atomic_store_explicit(&sn_engine_habit.late, true, memory_order_relaxed);
	atomic_store_explicit(&sn_engine_habit.asked, 0, memory_order_relaxed);
	return false;
}
static inline void sn_engine_exit(bool entered)
{
	if (sn_unlikely(entered) && sn_engine_asks())
		atomic_store_explicit(&sn_engine_habit.asked, sn_now_ns(), memory_order_relaxed);
}
/*
 * A long message of the application's has ended in the library, since it was not away for long: so it has waited for
 * it, however short that was.
 */
void sn_engine_stayed(void);
/* At most one endpoint of this process is looked after. */
bool sn_engine_alone(void);
/* There is work right now: wake the thread if the application is thought to be away (or, with force, anyway). */
void sn_engine_kick(bool force);

void sn_engine_counters(void (*fn)(void *arg, const char *name, uint64_t value), void *arg);

#endif
