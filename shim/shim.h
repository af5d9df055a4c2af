/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libsennit-mpi.so, put in front of an MPI program by `sennit run` (LD_PRELOAD): it tells the provider what kind of MPI
 * call a thread is in. A provider sees only that somebody polls; MPI_Wait and MPI_Test look the same from there, yet in
 * one a nap costs nothing and in the other it delays work.
 *
 * The library defines the MPI calls that may look for messages, under both of their names, and hands each on to the next
 * definition (the MPI's, or a tool's) with everything as it was. The provider finds it by the symbol sennit_mpi_shim; where
 * that is missing, or a thread has made no call through it, nothing is known and nobody naps.
 *
 * A note is not taken back at the return: libraries look for messages only inside calls. A thread of the MPI's own makes
 * none, so for it nothing is known.
 */
#ifndef SN_SHIM_H
#define SN_SHIM_H

#include <stdatomic.h>
#include <stdint.h>

#define SN_SHIM_VERSION 24

enum sn_shim_kind { SN_SHIM_UNKNOWN = 0, SN_SHIM_WAITS = 1, SN_SHIM_POLLS = 2 };

struct sn_shim_lesson;
struct sn_shim_message;
struct sn_mine;
struct sn_shim_thread {
	uint32_t kind;	/* 0 of the call this thread is in, or made last; entry.S writes it */
	uint32_t calls; /* 4 grows with each call; likewise */
	uint32_t
		tenure; /* 8 number of its last time as the one that goes the quick way (holder.h); entry.S reads it */
	/* the provider's: what it knew at this thread's last look, and since when that look finds nothing */
	uint32_t call_seen;
	uint32_t entries_seen;
	uint64_t stamp_seen, idle, left; /* left: when the last look that found nothing ended */
	uint32_t freeing; /* it frees a window: by this name 1, by that of the profiling interface 2 */
	uint32_t looked;  /* after this thread's last look, as long as was right: sched_yield() here */
	/* the provider's, beside other threads (ofi/beside.c): what it is to wait for where the MPI's lock is free (lets_go),
	 * in which call, and what was known then; how often it has not been */
	void *owed;
	uint32_t owed_in, owed_after, unpaid, kept_in;
	uint32_t untold, untold_in;	 /* it has found something that may be for others; in which call */
	uint32_t fresh;			 /* it has found something in its last read */
	uint64_t found_at, turn;	 /* when it has so last, with that lock; since when it has it */
	uint64_t events_seen, events_at; /* how much had been found by all, and when */
	uint32_t yields; /* of this thread: does the library do so by itself? Those of OpenMP often do */
	struct sn_shim_lesson *lesson; /* what its call teaches; NULL: it is not watched */
	uint32_t noticed, noticed_before,
		all_before; /* what happened, by this thread; at the lesson's begin, and by all */
	struct sn_shim_message *
		message; /* what the MPI's next matched probe, of this thread, finds; the provider sets it back */
	struct sn_mine *mine; /* what it has seen (holder.h), and nobody else's; NULL: it has never held */
};

/*
 * ---- what a call of the MPI leads to (quick.c) ----
 * A tagged send or receive of the provider, in its own words.
 */
#define SN_SHIM_LONGEST (512u << 10) /* bytes: beyond it what the MPI does hardly matters */
struct sn_shim_way {
	void *ep;
	uint64_t len; /* of the message; of the receive's buffer */
	uint64_t bits, mask, data;
	uint64_t exactly; /* receive: the match bits of the message that it took */
	uint32_t peer, flags;
};
#define SN_SHIM_MARK 0x80  /* among the flags of a send: the message is marked */
#define SN_SHIM_SELF 0x100 /* likewise: it is for the process itself */

/* One of many (collective.c). */
struct sn_shim_step {
	struct sn_shim_way way;
	const void *buf;
	const void *context; /* the receive's, and the provider's alone; NULL: a send */
	uint64_t got;	     /* bytes that it brought */
	uint32_t is_recv;
	uint32_t over;	/* it has ended well */
	uint32_t known; /* steps that had begun when the MPI heard of it; 0: it has not */
	uint32_t bytes; /* where in the lesson's bytes the message lies */
};

/* What the provider is seen to do in the call that is under way. Zeros, but for what is marked, when the call begins. */
struct sn_shim_lesson {
	uint32_t sends, recvs;	       /* how many of each, and of what cannot be done again, 2 of both */
	struct sn_shim_way send, recv; /* the last of each */
	const void *sent, *received;   /* with its buffer */
	const void *context;	       /* the receive's, and the provider's alone, as the next two: */
	const void *queue;	       /* where its end is told */
	uint64_t head;		       /* what the MPI had read there when it ended */
	uint64_t got;		       /* bytes that it brought */
	uint32_t over;		       /* it has ended well */
	uint32_t sender;	       /* of what a probe has found */
	uint32_t asked;		       /* recv is that of a probe */
	/* all of them in their order, where the shim has given room for that; count above room: that did not suffice */
	struct sn_shim_step *steps;
	uint32_t room, count;
	char *bytes; /* likewise, of their messages one after the other */
	uint32_t bytes_room, bytes_used;
};

/* A receive that stays: the next one of the MPI's that is like it takes its place. */
struct sn_shim_ahead {
	void *posted; /* what post() gave; NULL afterwards */
	const void *buf;
	struct sn_shim_way way;
	const void *taker; /* the provider's: the thread whose next one it is */
};

/* One that a matched probe has taken. */
struct sn_shim_message {
	void *ep, *claim;
	uint64_t bits, len, data;
	uint32_t peer, flags;
};

enum { SN_SHIM_NOT_YET = -1, SN_SHIM_NEVER = -2 };
#define SN_SHIM_LOOKS                                                                                        \
	64 /* what others do as long as they look without reading the clock, about 2 us (progress/relax.c) */

struct sn_shim_quick {
	/*
	 * From now on, in a call of this thread; NULL: no more. What another thread does meanwhile makes it say
	 * nothing. Each thread has one of its own.
	 */
	void (*learn)(struct sn_shim_lesson *lesson);
	/* Likewise again. True: it has been sent, and nobody will hear of it; false: nothing was done. */
	uint32_t (*send)(const struct sn_shim_way *way, const void *buf);
	/* Likewise: the bytes that have come into buf; negative: nothing was done. Waits a moment. */
	int64_t (*recv)(const struct sn_shim_way *way, void *buf);
	/* Likewise, however long it takes: 0, or the bytes; negative: an error. meanwhile() is called between looks. */
	int32_t (*send_surely)(const struct sn_shim_way *way, const void *buf);
	int64_t (*recv_surely)(const struct sn_shim_way *way, void *buf, void (*meanwhile)(void));
	/* Both at once, of a message to oneself (SN_SHIM_SELF): the bytes; negative: nothing was done. */
	int64_t (*self)(const struct sn_shim_way *out, const void *from, const struct sn_shim_way *in,
			void *to);
	/*
	 * A receive again, but it stays, until *came is no longer negative: the bytes that have come. NULL: nothing was
	 * done. Counted in sn_shim.stays; who finds that it has come counts it out.
	 */
	void *(*post)(const struct sn_shim_way *way, void *buf, int64_t *came);
	/* Has its message come, within so many looks? *came; or SN_SHIM_NOT_YET, or SN_SHIM_NEVER: not here. */
	int64_t (*test)(void *posted, uint64_t exactly, uint32_t looks, int64_t *came);
	/* Before it is handed over, or dropped. False: its message has come. */
	uint32_t (*hold)(void *posted, const int64_t *came);
	/* From now on, by the next of this thread's; NULL: no more. What it was before. One thread at a time does so. */
	struct sn_shim_ahead *(*take)(struct sn_shim_ahead *ahead);
	/* False: a message has come for it, and is lost. */
	uint32_t (*drop)(void *posted);
	/*
	 * Likewise, of a matched probe: 1: it has been taken, with these very bits, and all of it is here; 0: one has
	 * been taken that only the MPI can receive; negative: there is none. Waits as one of the MPI's does.
	 */
	int32_t (*probe)(const struct sn_shim_way *way, struct sn_shim_message *m);
	/*
	 * Likewise, of a probe: 0: there is this message, which stays; SN_SHIM_NOT_YET: there is none, and nothing for the MPI
	 * to read; SN_SHIM_NEVER: only the MPI knows. Does not wait.
	 */
	int32_t (*peek)(const struct sn_shim_way *way, struct sn_shim_message *m);
	/* Of one that is all here: its bytes, which are in buf now; negative: nothing was done. */
	int64_t (*bring)(const struct sn_shim_message *m, void *buf);
	/* Was the message marked that recv() or recv_surely() has brought last? */
	uint32_t (*marked)(const struct sn_shim_way *way);
	/* More ranks than cores, and who yields hands the core on? */
	uint32_t (*crowded)(void);
	/*
	 * For who waits for other memory: poll() is called until it finds something (true), or it is time to sleep.
	 * The core is given away in between.
	 */
	uint32_t (*awake)(int (*poll)(void *arg), void *arg);
	/* Moves what comes and goes by this endpoint, as a read of its queue does, and by the others of the process. */
	void (*progress)(void *ep);
	/* The one that was opened last; NULL: it is closed. */
	void *(*endpoint)(void);
	/* Another number than before: something has come since. */
	uint64_t (*events)(void);
	/* What `sennit info --peer` shows as "collectives" of this process; the last words count. */
	void (*tell)(const char *words);
};

/* A receive's buffer, by address, and the bytes that have come into it, with the last of what it was given to; negative: it has not ended. */
#define SN_SHIM_NOTES 256
struct sn_shim_note {
	_Atomic uintptr_t buf; /* 0: nobody's */
	_Atomic int64_t came;
};
static inline unsigned sn_shim_note_of(uintptr_t buf)
{
	return (unsigned)((buf >> 6 ^ buf >> 14 ^ buf >> 20) % SN_SHIM_NOTES);
}

#define SN_SHIM_NOBODY                                                                                       \
	0xfffffffeu /* no tenure's number: those are odd, and that of a thread that never had one is 0 */

struct sn_shim {
	uint32_t version; /* 0 */
	/* 4 how many receives there are that post() made and that stay; changed by one thread at a time. entry.S reads it */
	_Atomic uint32_t stays;
	/*
	 * 8 the tenure whose thread goes the quick way just now, and notes nothing in the words below; or
	 * SN_SHIM_NOBODY, which whoever is about to sleep inside a call beside it writes. entry.S reads it
	 */
	_Atomic uint32_t pass;
	struct sn_shim_thread *(*thread)(void); /* the calling thread's */
	/*
	 * Several threads: a sleeper inside an MPI call may hold a lock of the MPI that the next caller needs. So every call
	 * counts itself and then wakes whoever sleeps, and a sleeper says so and then looks whether somebody came.
	 */
	_Atomic uint32_t threads; /* that have called; 1: nothing below is kept */
	_Atomic uint32_t entries, sleepers;
	void (*_Atomic wake)(void);
	/*
	 * The library also waits for what comes by other ways and rings no bell of ours: nobody naps. So it is while there is
	 * a window, and in the call that frees it. In Open MPI one-sided traffic goes over its BTLs, whose targets take part
	 * in any MPI call; MPICH and Intel MPI queue what finds no buffer, and send one of the queue for each look.
	 * And while there are requests that go on by one step for each look, which is how MPICH and Intel MPI write files
	 * without blocking.
	 */
	_Atomic uint32_t elsewhere;
	/*
	 * The MPI begins, and was asked to let several threads call at once. MPICH and Intel MPI promise their
	 * provider one at a time all the same, for they have a lock; but what goes without them does not take that.
	 * So what is opened from here on must not rely on it.
	 */
	_Atomic uint32_t at_once;
	const struct sn_shim_quick *_Atomic quick; /* the provider's; NULL: it has no endpoint yet */
	void (*forget)(const void *ep);		   /* an endpoint is about to go */
	/*
	 * The MPI looks for completions, in whatever thread, while there are receives that post() made: all of them
	 * become the MPI's.
	 */
	void (*give)(void);
	/*
	 * Likewise while there are requests of the MPI's that only somebody who looks elsewhere finds to be over (begun.h): so
	 * many.
	 */
	_Atomic uint32_t given;
	/*
	 * Several threads: after a read that found nothing, in a call that waits, the MPI lets its lock go and takes it
	 * again; in between wait() is called, the provider's, where that has left it something to wait for (owed).
	 */
	_Atomic uint32_t lets_go;
	_Atomic uint32_t apart; /* threads that wait so: they keep nobody from anything but the quick way */
	void (*_Atomic wait)(void);
	/*
	 * So many of the notes are in use, each at the place of its buffer: of a receive of the MPI's into it the provider writes
	 * there how many bytes have come, before it says that it has ended (packed.c).
	 */
	_Atomic uint32_t noted;
	struct sn_shim_note notes[SN_SHIM_NOTES];
	/* The calling thread has waited for long in one call, and nothing came: some seconds, and now and then after that. */
	void (*waits_long)(void);
};

/* The provider looks it up by this name. */
struct sn_shim *sennit_mpi_shim(void);

#endif
