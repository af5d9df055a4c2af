/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of our own, for what MPI_Irecv and MPI_Isend are when they go the quick way (quick.h). For programs that
 * wait, and that test (tested.c).
 *
 * An MPI_Irecv cannot be handed out complete. So its request is a handle that the MPI itself can never make, and
 * every function that takes requests is stood in for: what is ours in it is ended here, by looking at the provider,
 * the rest goes to the MPI. A message that has left at once has one and the same such handle, which is complete.
 *
 * A receive of ours can become the MPI's at any time: its MPI_Irecv is called then, and what the provider is asked
 * takes the place of ours in the order of receives, with the message, if that has come. So whatever is rare goes
 * through the MPI:
 *  - a message that is late (as in quick.h), not like the one that was watched, or too long; a peer that is gone;
 *  - any other question about a request of ours, after which no more are given (asked.c);
 *  - all of them, before a call after which a handle may mean something else;
 *  - all of them, when the MPI looks for completions, in whatever call, and before it is told of any. For whoever
 *    sent a synchronous message to one of ours waits for an answer that only the MPI gives, and it can answer nothing
 *    but what it reads there. So it never waits with a receive of ours pending, in calls that are not stood in for,
 *    or not even known, either;
 *  - all of them, when another thread calls (visit.c). MPICH cannot be called while it reads its queue where threads
 *    may call at once: there they become its own before a call goes to it (sn_requests_before()), or by a thread of
 *    this library's.
 *
 * The program keeps the name that it has, and may have copies of it, until a call ends the request. One that has come
 * already becomes a generalized request that is complete. Where the MPI refuses a receive that it took when it was
 * watched, the program is ended with a word.
 *
 * Nobody else sees a handle of ours: a library that finds the MPI's functions by itself finds all of them, MPI_Irecv
 * too; one that is linked with the MPI finds ours, and that is so for both names of each. Fortran's wrappers over
 * Open MPI want MPI_Request_c2f, one of the other questions. Who takes MPI_Irecv by its name and MPI_Wait from the
 * library is not served.
 *
 * Budget, a receive seen before: what sn_trecv costs, and a slot of SLOTS; MPI_Waitall, one look and no call of the MPI. No
 * allocation, no system call. What is not ours costs two compares each.
 */
#ifndef SN_SHIM_REQUESTS_H
#define SN_SHIM_REQUESTS_H

#include "seen.h"

/* Requests of our own can be given. */
extern atomic_bool sn_requests_ready;
static inline bool sn_requests_are_ready(void)
{
	return atomic_load_explicit(&sn_requests_ready, memory_order_relaxed);
}
/* Is that still to be learned? */
bool sn_requests_undecided(void);
/* A receive like the one of the entry. False: nothing was done. */
bool sn_requests_post(const struct sn_shim_quick *q, struct entry *e, void *buf, void *request);
/* A collective that does not block (begun.h), and is not over. False: there is no such request now. */
struct sn_begun;
bool sn_requests_begin(struct sn_begun *b, void *request);
/* A request that is complete. */
void sn_requests_complete(void *request);
/* All that are pending become the MPI's. By a thread that is not in the MPI. */
void sn_requests_give(void);
/* Likewise, if any is of this type, or communicator. */
void sn_requests_give_of(handle h);
/* Likewise by one that reads the MPI's queue, which may be any. */
void sn_requests_read(void);
extern _Atomic uint32_t sn_own_asked; /* another thread would call the MPI */
/* An endpoint of the provider is going: none that is pending there will come. */
void sn_requests_gone(const void *ep);
/* Was any ever given? */
bool sn_requests_about(void);
/* Is it one of those that take requests? */
bool sn_requests_take(const char *name);
/* What stands before this function, one of those that take requests; else NULL. */
void *sn_requests_stand_in(const char *name, void *definition);

#endif
