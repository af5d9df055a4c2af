/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More threads than cores in Open MPI. Its threads hand on the turn to look for messages, and two things in that cost a time
 * slice of milliseconds each where there is no core for everybody:
 *  - who is handed the turn spins, without a call, until its waker has said that it is done with it. Waking may cost the
 *    waker its core before it says so. A thread of the class SCHED_BATCH takes nobody's core when it is woken;
 *  - who looks while another thread holds the lock of the queue spins, and that thread gets no core (Open MPI 5). It
 *    yields where opal_progress_set_yield_when_idle() says so. 8-byte messages of 8 threads on a core, in millions a
 *    second: over Open MPI 4 0.07 without both, 1.3 with the class alone, 1.4 with both; over Open MPI 5 0.05, 0.1,
 *    1.8. Not for other MPIs: it gains nothing over MPICH, and threads of Intel MPI yield to each other in vain when
 *    of that class, and are a thousand times slower.
 *
 * All is as before when so many of the threads have ended that the others have cores.
 */
#ifndef SN_SHIM_CROWD_H
#define SN_SHIM_CROWD_H

/* The calling thread calls the MPI for the first time; it counts until it ends. */
void sn_crowd_join(void);
/* The MPI is Open MPI, whose libraries this dlopen() handle finds. */
void sn_crowd_in_open_mpi(void *lib);
/* At each call of one of several threads. Budget: 3 loads. */
void sn_crowd_look(void);

#endif
