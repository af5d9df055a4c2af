/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bell: how a process that sleeps is woken by a peer that writes into shared memory. One page for each process,
 * shared with its peers.
 *
 * A waiter says that it sleeps, looks once more, and sleeps on a futex. A sender publishes its message, then looks
 * whether the receiver sleeps. Each side writes one word and then reads the other's, so without a full fence between
 * the write and the read on *both* sides both may read the old value and the message lies there while its receiver
 * sleeps (Dekker's problem). The sender's fence would stand on the path of every message, the waiter's only before a
 * sleep; so the waiter pays for both: membarrier(GLOBAL_EXPEDITED) makes every running thread of every registered
 * process execute a full fence. After it, a sender either had its message visible before (the waiter's last look finds
 * it), or reads `sleeping` after (and rings). Every process registers when it opens its bell. Where the kernel refuses
 * membarrier, fences return: a waiter that cannot says so in `need_fence`, a sender that could not register fences
 * always, which sn_bell_must_fence() tells. Who sleeps for each message asks for fences, too, later on: they cost every
 * sender some 20 ns, and his membarrier costs himself 5 us and more. He says so first, and then makes one membarrier, after
 * which every sender has either seen it, or has published what the next look finds.
 *
 * Budget of a ring on a receiver that is awake: two plain loads of one line. On one that sleeps: one system call for
 * all senders together, since who rings first takes the flag down.
 */
#ifndef SN_BELL_H
#define SN_BELL_H

#include "base/base.h"

#define SN_BELL_BYTES 4096
#define SN_BELL_CPUS  1024

enum sn_guard {
	SN_GUARD_DOWN,	 /* the application looks by itself, or the thread is at work */
	SN_GUARD_SLEEPS, /* the thread looks in the application's place, and sleeps on guard_seq */
	SN_GUARD_POLLS	 /* likewise, but somebody watches that word: no system call is needed */
};

struct sn_bell {
	_Atomic uint32_t seq;	     /* 0 the futex: grows with each ring */
	_Atomic uint32_t sleeping;   /* 4 somebody sleeps, or is about to */
	_Atomic uint32_t need_fence; /* 8 senders must fence; stays, once it is set */
	_Atomic uint32_t guard;	     /* 12 enum sn_guard: what the progress thread does */
	_Atomic uint32_t guard_seq;  /* 16 its futex */
	_Atomic uint32_t cpu;	     /* 20 1 + the core on which the owner waits in a crowd; 0: not known */
	_Atomic uint64_t id;	     /* 24 the owner's number, drawn by lot */
	uint64_t group;		     /* 32 the owner's scheduling group (sn_topo()); 0: not known */
	_Atomic uint32_t
		waited; /* 40 when it last waited in a crowd, in ms (spread.c); 0: never, UINT32_MAX: always */
	uint8_t unused[20];
	/*
	 * 64 a bit for each core that the owner may run on, as it was when it last met a peer, or waited for long;
	 * all 0: not known
	 */
	_Atomic uint64_t cpus[SN_BELL_CPUS / 64];
};

/* Make this process's bell, once; sn_service_open() calls it. 0 or an error with its sentence. */
int sn_bell_open(void);
int sn_bell_fd(void);		   /* to hand to peers; stays open */
struct sn_bell *sn_bell_own(void); /* NULL before sn_bell_open() */
/* Around fork; in the child the bell is the parent's, and forgotten. */
void sn_bell_before_fork(void);
void sn_bell_after_fork(bool child);
struct sn_bell *sn_bell_map(int fd); /* a peer's bell, checked; NULL with the reason in sn_last_error() */
void sn_bell_unmap(struct sn_bell *bell);
/* Must this process fence before it looks whether this peer sleeps? */
bool sn_bell_must_fence(const struct sn_bell *theirs);
/* From now on senders fence for this process, and its sleepers need no membarrier. */
void sn_bell_fence_always(void);

/* The receiver sleeps: wake it. Returns the system calls made (0 if somebody else was first). */
int sn_bell_wake(struct sn_bell *bell);

/* A full fence, out of line: the functions that usually do without contain none, which a test checks. */
void sn_bell_fence(void);

/* Between publishing something for the owner of the bell (NULL: not known yet) and looking whether it sleeps. */
static inline void sn_bell_order(const struct sn_bell *bell, bool fence)
{
	__asm__ volatile("" ::: "memory"); /* the fence is the waiter's membarrier */
	if (sn_unlikely(fence || (bell && atomic_load_explicit(&bell->need_fence, memory_order_relaxed))))
		sn_bell_fence();
}

/* After publishing something for the owner of the bell: it wants no fence, and is awake. Else sn_bell_ring() it. */
static inline bool sn_bell_quiet(const struct sn_bell *bell, bool fence)
{
	__asm__ volatile("" ::: "memory");
	return !fence && !atomic_load_explicit(&bell->need_fence, memory_order_relaxed) &&
	       !atomic_load_explicit(&bell->sleeping, memory_order_relaxed);
}

/* After publishing something for the owner of the bell. Returns the system calls made. */
static inline int sn_bell_ring(struct sn_bell *bell, bool fence)
{
	sn_bell_order(bell, fence);
	if (sn_unlikely(atomic_load_explicit(&bell->sleeping, memory_order_relaxed)))
		return sn_bell_wake(bell);
	return 0;
}

/* After leaving work for the owner of the bell that its progress thread can do while the application is away. No system
 * call if the thread polls. */
int sn_bell_wake_guard(struct sn_bell *bell);
static inline int sn_bell_ring_work(struct sn_bell *bell, bool fence)
{
	int calls = sn_bell_ring(bell, fence);
	if (!calls && sn_unlikely(atomic_load_explicit(&bell->guard, memory_order_relaxed)))
		return sn_bell_wake_guard(bell);
	return calls;
}

/*
 * The progress thread's sleep: until it is rung or timeout_us have passed. Without raise the guard stays as it is, up
 * if the application has left since. With raise it takes up the guard first, and calls poll(arg) once more, which
 * must find nothing; then it asks linger to wait for as long as *word is seq, without being woken by who rings, again
 * and again until it is rung or linger says false (NULL: not at all).
 */
enum sn_rung { SN_RUNG_NOT, SN_RUNG_FOUND, SN_RUNG_AWAKE, SN_RUNG_ASLEEP }; /* found: by poll */
typedef bool (*sn_bell_linger)(void *arg, _Atomic uint32_t *word, uint32_t seq);
enum sn_rung sn_bell_guard(bool raise, int (*poll)(void *arg), sn_bell_linger linger, void *arg,
			   unsigned timeout_us);
void sn_bell_guard_ring(void); /* wake it */
void sn_bell_guard_set(
	bool raise); /* take up the guard, or lower it, from another thread; may be missed by a sender */
bool sn_bell_guarded(void);

/* Wake the threads of this process that sleep on its bell. From any thread, also with no bell. */
void sn_bell_ring_self(void);
bool sn_bell_wake_self(void); /* likewise; true: some did */

/*
 * May the owner of this bell need a core that this thread may run on? Two ranks that are bound to a core each never do,
 * and may spin. NULL, or not known: yes, unless this thread is bound, since a launcher that binds one binds all.
 */
bool sn_bell_rival(const struct sn_bell *theirs);
/*
 * In two steps, for several: the cores that this thread may run on, which the peers are told, too (false: not known);
 * and whether the owner of this bell may need one of them.
 */
bool sn_bell_tell_cpus(uint64_t cpus[SN_BELL_CPUS / 64]);
bool sn_bell_shares(const uint64_t mine[SN_BELL_CPUS / 64], const struct sn_bell *theirs);

/*
 * Sleep until somebody rings or timeout_us have passed, unless poll(arg) finds something when called once more before
 * the sleep. Returns what poll returned. Any number of threads may sleep at once.
 */
int sn_bell_wait(int (*poll)(void *arg), void *arg, unsigned timeout_us);

#endif
