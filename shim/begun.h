/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short collectives that do not block, on one node, without messages: MPI_Ibarrier, MPI_Ibcast, MPI_Iallreduce,
 * MPI_Ireduce, MPI_Ialltoall, MPI_Iallgather, MPI_Igather, MPI_Iscatter.
 *
 * Who begins one writes what he brings along where all can read it, and that is all that the others need of him: he may
 * compute from then on, and call nothing. Who asks, or waits, reads what the others have written, as soon as all that
 * he needs is there. So there are no steps that somebody would have to see to in between.
 *
 * Which calls these are all ranks say alike, by what MPI demands to be the same on all of them: the kind, the root, and
 * how many bytes there are; of sums the type and the operation are the MPI's own. The memory is that of all such calls (meet.h).
 * MPI_COMM_WORLD has it from MPI_Init on; to make it for another one takes a call that blocks: the next one of any kind after
 * SN_MEET_CALLS - 1 on the communicator. Sums go in the
 * order of the ranks, the last one's first. Where more than two ranks have made some by the MPI whose bits may depend on
 * that order, these stay the MPI's: so with the same operands each result is the same, to the bit.
 *
 * Any number may be under way, and ranks may be ahead of each other. Each has SN_MEET_BEGUN lines in turns. A line is
 * written again when all ranks have said that they are done with all calls up to that one; if they are not, one of
 * SN_MEET_MORE others is. Who is ahead by more than that waits for nobody where he begins: he keeps what he brings along, in
 * memory of his own, and writes it when he looks, and then it is over for him. Who reads finds the call's number in one line
 * or in the other. A type of the program's own is kept until it is read by.
 *
 * The request is one of ours (requests.h), which is over when a look finds that all are there. What nobody but the MPI can
 * be asked (with others that are the MPI's, in Fortran over Open MPI) becomes a generalized request, and is looked
 * for whenever the MPI looks for completions; nobody naps as long as there are such ones.
 *
 * Budget: what a rank brings along written once, and read once by each who needs it; one locked instruction; a request of
 * ours, no allocation, and no system call but to wait.
 */
#ifndef SN_SHIM_BEGUN_H
#define SN_SHIM_BEGUN_H

#include "meet.h"

/* Can this rank? All must say so. */
bool sn_begun_may(void);
/* Is this call one of these? */
struct sn_meet *sn_begun_of(const struct sn_collective *c);
/* Then this is it: 0, and the request; or an error of the MPI's. */
int sn_begun_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to, void *request);
/* All of that communicator's are over, when this returns: it is about to be freed. */
void sn_begun_end_all(struct sn_meet *m);

/* ---- one that is under way (requests.h) ---- */
struct sn_begun;
enum sn_begun_state { SN_BEGUN_PENDING, SN_BEGUN_OVER, SN_BEGUN_FAILED };
/* Not pending: it is no more. */
enum sn_begun_state sn_begun_look(struct sn_begun *b);
/* Until a look finds it over, or failed. */
void sn_begun_wait(struct sn_begun *b);
/* Until over(arg), which looks at this one and perhaps at others. */
void sn_begun_await(int (*over)(void *arg), void *arg, const struct sn_begun *b);
/* The MPI's own affairs, by who asks again and again. */
void sn_begun_meanwhile(const struct sn_begun *b);
/* It becomes a request of the MPI's. */
handle sn_begun_real(struct sn_begun *b);

/* Such ones are pending. */
static inline bool sn_begun_any_real(void)
{
	return atomic_load_explicit(&sn_mpi_shim.given, memory_order_relaxed) != 0;
}
/* Those of them that are over end. */
void sn_begun_end_real(void);
/* If it is one of them: until it has ended. */
void sn_begun_wait_real(handle request);
/* If all of these are, but for null ones: until one of them has. */
void sn_begun_await_real(int n, const void *requests);

#endif
