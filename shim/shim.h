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

#define SN_SHIM_VERSION 4

enum sn_shim_kind { SN_SHIM_UNKNOWN = 0, SN_SHIM_WAITS = 1, SN_SHIM_POLLS = 2 };

struct sn_shim_thread {
	uint32_t kind;	/* 0 of the call this thread is in, or made last; entry.S writes it */
	uint32_t calls; /* 4 grows with each call; likewise */
	/* the provider's: what it knew at this thread's last look, and since when that look finds nothing */
	uint32_t call_seen;
	uint32_t entries_seen;
	uint64_t stamp_seen, idle, left; /* left: when the last look that found nothing ended */
	uint32_t freeing;		 /* calls in the last one that frees a window */
	uint32_t looked; /* after this thread's last look, as long as was right: sched_yield() here */
};

struct sn_shim {
	uint32_t version;
	struct sn_shim_thread *(*thread)(void); /* the calling thread's */
	/*
	 * Several threads: a sleeper inside an MPI call may hold a lock of the MPI that the next caller needs. So every call
	 * counts itself and then wakes whoever sleeps, and a sleeper says so and then looks whether somebody came.
	 */
	_Atomic uint32_t threads; /* that have called; 1: nothing below is kept */
	_Atomic uint32_t entries, sleepers;
	void (*_Atomic wake)(void);
	/*
	 * The library also waits for what comes by other ways and rings no bell of ours: nobody naps. So it is in Open MPI
	 * while there is a window, and in the call that frees it: one-sided traffic goes over its BTLs, whose targets take
	 * part in any MPI call.
	 */
	_Atomic uint32_t elsewhere;
};

/* The provider looks it up by this name. */
struct sn_shim *sennit_mpi_shim(void);

#endif
